/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_NET_H
#define SIB_HELPERS_NET_H

#include <linux/types.h>

struct dst_cache;
struct in6_addr;
struct net;
struct net_device;
struct notifier_block;
struct sib_skb_pool;
struct sk_buff;
struct sk_buff_head;
struct sock;

/* An IPv4 (4) or IPv6 (6) address with a UDP port in host order. IPv4 uses the first four bytes. */
struct sib_udp_address {
	u8 version;
	u8 bytes[16];
	u16 port;
	u32 scope;
	/* Several hosts have it. */
	bool of_many;
};

/* Where a datagram goes. */
struct sib_udp_flow {
	struct sib_udp_address remote;
	u8 hops;
	u8 traffic_class;
	int ifindex;
};

/* net.c */
struct net_device *sib_helper_netdev_get(struct net_device *dev);
void sib_helper_netdev_put(struct net_device *dev);
struct net_device *sib_helper_netdev_by_name(const char *name);
struct net_device *sib_helper_netdev_initial(const char *name);
const void *sib_helper_netdev_net(const struct net_device *dev);
size_t sib_helper_netdev_name(const struct net_device *dev, char *name,
			      size_t size);
int sib_helper_netdev_ifindex(const struct net_device *dev);
unsigned int sib_helper_netdev_mtu(const struct net_device *dev);
bool sib_helper_netdev_segments(const struct net_device *dev);
bool sib_helper_netdev_registered(const struct net_device *dev);
bool sib_helper_netdev_running(const struct net_device *dev);
bool sib_helper_netdev_loopback(const struct net_device *dev);
size_t sib_helper_netdev_address(const struct net_device *dev, u8 *address,
				 size_t size);
struct net_device *sib_helper_notifier_netdev(void *info);

/* netns.c */
int sib_helper_notifier_register(struct notifier_block *block);
void sib_helper_notifier_unregister(struct notifier_block *block);
struct net *sib_netns_enter(const struct net_device *dev);
void sib_netns_leave(const struct net *net);

/* local.c */
bool sib_helper_is_local(const struct net_device *dev,
			 const struct sib_udp_address *address);

/* udp.c */
typedef void (*sib_data_ready_t)(struct sock *sk);
int sib_helper_udp_open(const struct net_device *dev, u8 version, u16 port,
			int ifindex, struct sock **out);
void sib_helper_udp_close(struct sock *sk);
void sib_helper_udp_start(struct sock *sk, void *user_data,
			  sib_data_ready_t data_ready);
void sib_helper_udp_stop(struct sock *sk);
struct sk_buff *sib_helper_udp_take(struct sock *sk,
				    struct sib_udp_address *source,
				    struct sib_udp_address *dest);
void *sib_helper_udp_user_data(const struct sock *sk);
bool sib_helper_udp_is_as_sent(const struct sk_buff *skb);
u16 sib_helper_udp_local_port(const struct sock *sk);
int sib_helper_udp_send(struct sock *sk, struct sk_buff *skb,
			const struct sib_udp_flow *flow,
			struct dst_cache *cache);

/* lane.c */
void sib_helper_lane_init(struct sk_buff_head *lane);
void sib_helper_lane_put(struct sk_buff_head *lane, struct sk_buff *skb,
			 const void *path);
struct sk_buff *sib_helper_lane_take(struct sk_buff_head *lane,
				     const void **path);

/* skb.c */
struct sib_skb_pool *sib_helper_skb_pool_new(void);
void sib_helper_skb_pool_free(struct sib_skb_pool *pool);
struct sk_buff *sib_helper_skb_pool_alloc(struct sib_skb_pool *pool,
					  unsigned int len);
struct sk_buff *sib_helper_skb_alloc(unsigned int len);
void sib_helper_skb_free(struct sk_buff *skb);
void sib_helper_skb_consume(struct sk_buff *skb);
unsigned int sib_helper_skb_tailroom(const struct sk_buff *skb);
void *sib_helper_skb_put(struct sk_buff *skb, unsigned int len);
bool sib_helper_skb_copy(struct sk_buff *skb, unsigned int from, void *to,
			 unsigned int len);
bool sib_skb_is_of_pool(const struct sk_buff *skb);
u16 sib_helper_skb_gso_size(const struct sk_buff *skb);
void sib_helper_skb_set_gso(struct sk_buff *skb, u16 size);

#endif
