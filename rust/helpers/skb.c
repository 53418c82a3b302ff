// SPDX-License-Identifier: GPL-2.0

#include <linux/ipv6.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/udp.h>
#include <net/page_pool/helpers.h>

#include "mem.h"
#include "net.h"

/* Room for UDP, IPv6 and whatever the device puts in front. */
#define SIB_HEADROOM \
	(LL_MAX_HEADER + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

/*
 * Blocks of 32 KiB, the largest that the allocator does not consider costly, and how many are taken back; about as many
 * again may be at hand for the next packets (PP_ALLOC_CACHE_REFILL).
 */
#define SIB_POOL_ORDER 3
#define SIB_POOL_PAGES 64

/* Marks the pools of this module. */
static char sib_skb_pool_mark;

/* Pages for packets. They come back when the packets are freed, and need not be cleared then. */
struct sib_skb_pool {
	/* Bottom halves of all processors allocate. */
	spinlock_t lock;
	struct page_pool *pages;
};

struct sib_skb_pool *sib_helper_skb_pool_new(void)
{
	struct page_pool_params params = {
		.order = SIB_POOL_ORDER,
		.pool_size = SIB_POOL_PAGES,
		.nid = NUMA_NO_NODE,
		.init_arg = &sib_skb_pool_mark,
	};
	struct sib_skb_pool *pool = kzalloc_obj(*pool);

	if (!pool)
		return NULL;
	spin_lock_init(&pool->lock);
	pool->pages = page_pool_create(&params);
	if (IS_ERR(pool->pages)) {
		kfree(pool);
		return NULL;
	}
	return pool;
}

/* Pages that are still in use come back to the kernel later. */
void sib_helper_skb_pool_free(struct sib_skb_pool *pool)
{
	page_pool_destroy(pool->pages);
	kfree(pool);
}

/* Needs interrupts on. */
struct sk_buff *sib_helper_skb_pool_alloc(struct sib_skb_pool *pool,
					  unsigned int len)
{
	size_t whole = SKB_HEAD_ALIGN(SIB_HEADROOM + (size_t)len);
	unsigned int size = whole;
	struct sk_buff *skb;
	void *data;

	if (whole > PAGE_SIZE << SIB_POOL_ORDER)
		return NULL;
	spin_lock_bh(&pool->lock);
	data = page_pool_alloc_va(pool->pages, &size,
				  GFP_ATOMIC | __GFP_NOWARN);
	spin_unlock_bh(&pool->lock);
	if (!data)
		return NULL;
	skb = build_skb(data, size);
	if (!skb) {
		page_pool_free_va(pool->pages, data, false);
		return NULL;
	}
	skb_mark_for_recycle(skb);
	skb_reserve(skb, SIB_HEADROOM);
	return skb;
}

struct sk_buff *sib_helper_skb_alloc(unsigned int len)
{
	struct sk_buff *skb = alloc_skb(SIB_HEADROOM + len, GFP_ATOMIC);

	if (skb)
		skb_reserve(skb, SIB_HEADROOM);
	return skb;
}

void sib_helper_skb_free(struct sk_buff *skb)
{
	dev_kfree_skb_any(skb);
}

void sib_helper_skb_consume(struct sk_buff *skb)
{
	dev_consume_skb_any(skb);
}

/* None if a clone shares the data, or the number of segments is settled. */
unsigned int sib_helper_skb_tailroom(const struct sk_buff *skb)
{
	return skb_cloned(skb) || skb_is_gso(skb) ? 0 : skb_tailroom(skb);
}

void *sib_helper_skb_put(struct sk_buff *skb, unsigned int len)
{
	return skb_put(skb, len);
}

/* As skb_copy_bits(), in the fastest way to copy that this module knows. Whether all could be read. */
bool sib_helper_skb_copy(struct sk_buff *skb, unsigned int from, void *to,
			 unsigned int len)
{
	struct skb_seq_state state;
	unsigned int done = 0;
	unsigned int count;
	const u8 *data;

	skb_prepare_seq_read(skb, from, from + len, &state);
	while ((count = skb_seq_read(done, &data, &state))) {
		count = min(count, len - done);
		sib_helper_copy(to + done, data, count);
		done += count;
	}
	return done == len;
}

/* Whether the bytes are where a socket of this module has written them. */
bool sib_skb_is_of_pool(const struct sk_buff *skb)
{
	struct page *page;

	if (!skb->pp_recycle || skb_is_nonlinear(skb))
		return false;
	page = virt_to_head_page(skb->head);
	return page_pool_page_is_pp(page) &&
	       netmem_get_pp(page_to_netmem(page))->slow.init_arg ==
		       &sib_skb_pool_mark;
}

/*
 * The size of the datagrams in the packet, 0 if it is one: a virtual machine may have handed over one that is to be cut
 * into something else.
 */
u16 sib_helper_skb_gso_size(const struct sk_buff *skb)
{
	if (!(skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4))
		return 0;
	return skb_shinfo(skb)->gso_size;
}

/*
 * Has the stack cut the datagram, whose UDP header is not there yet, into datagrams of that size. They are
 * checksummed in any case, see __udp_gso_segment().
 */
void sib_helper_skb_set_gso(struct sk_buff *skb, u16 size)
{
	skb_shinfo(skb)->gso_size = size;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(skb->len, size);
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_headroom(skb) - sizeof(struct udphdr);
	skb->csum_offset = offsetof(struct udphdr, check);
}
