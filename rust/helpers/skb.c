// SPDX-License-Identifier: GPL-2.0

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "net.h"

/* Room for UDP, IPv6 and whatever the device puts in front. */
#define SIB_HEADROOM \
	(LL_MAX_HEADER + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

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

unsigned int sib_helper_skb_len(const struct sk_buff *skb)
{
	return skb->len;
}

/* None if a clone shares the data. */
unsigned int sib_helper_skb_tailroom(const struct sk_buff *skb)
{
	return skb_cloned(skb) ? 0 : skb_tailroom(skb);
}

void *sib_helper_skb_data(const struct sk_buff *skb)
{
	return skb->data;
}

void *sib_helper_skb_put(struct sk_buff *skb, unsigned int len)
{
	return skb_put(skb, len);
}

void sib_helper_skb_pull(struct sk_buff *skb, unsigned int len)
{
	__skb_pull(skb, len);
}

bool sib_helper_skb_may_pull(struct sk_buff *skb, unsigned int len)
{
	return pskb_may_pull(skb, len);
}

/* Call it while the network and transport headers are set, as they are in an encapsulation hook. */
void sib_helper_skb_udp_source(const struct sk_buff *skb,
			       struct sib_udp_address *source)
{
	memset(source, 0, sizeof(*source));
	source->port = ntohs(udp_hdr(skb)->source);
	if (ip_hdr(skb)->version == 4) {
		source->version = 4;
		memcpy(source->bytes, &ip_hdr(skb)->saddr, sizeof(__be32));
	} else {
		source->version = 6;
		memcpy(source->bytes, &ipv6_hdr(skb)->saddr,
		       sizeof(struct in6_addr));
		source->scope = ipv6_iface_scope_id(&ipv6_hdr(skb)->saddr,
						    skb->dev->ifindex);
	}
}

/* The size of the datagrams in the packet, 0 if it is one. */
u16 sib_helper_skb_gso_size(const struct sk_buff *skb)
{
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
