// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/dst_cache.h>
#include <net/ip6_checksum.h>
#include <net/ip_tunnels.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "net.h"

/* What the queue of a socket may hold: more than the windows of many queue pairs. */
#define SIB_RCVBUF (16 << 20)

/*
 * In the network namespace of the device, which lives on until sib_helper_udp_close(). Datagrams carry checks of their
 * own. Those of UDP are for GRO, see sib_helper_udp_send().
 */
int sib_helper_udp_open(const struct net_device *dev, u8 version, u16 port,
			int ifindex, struct sock **out)
{
	struct udp_port_cfg cfg = {
		.family = version == 4 ? AF_INET : AF_INET6,
		.local_udp_port = htons(port),
		.bind_ifindex = ifindex,
		.ipv6_v6only = 1,
	};
	struct socket *sock;
	struct net *net;
	int err;

	net = sib_netns_enter(dev);
	if (!net)
		return -ENODEV;
	err = udp_sock_create(net, &cfg, &sock);
	if (err) {
		sib_netns_leave(net);
		return err;
	}
	sock->sk->sk_allocation = GFP_ATOMIC;
	*out = sock->sk;
	return 0;
}

void sib_helper_udp_close(struct sock *sk)
{
	struct net *net = sock_net(sk);

	udp_tunnel_sock_release(sk);
	sib_netns_leave(net);
}

/*
 * Has data_ready called in the softirq for each datagram, or batch of datagrams, that sib_helper_udp_take() then
 * finds. May sleep. Not an encapsulation hook: before one, the stack takes batches apart.
 */
void sib_helper_udp_start(struct sock *sk, void *user_data,
			  sib_data_ready_t data_ready)
{
	struct sk_buff *early;
	int err;

	WRITE_ONCE(sk->sk_rcvbuf, SIB_RCVBUF);
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, user_data);
	WRITE_ONCE(sk->sk_data_ready, data_ready);
	write_unlock_bh(&sk->sk_callback_lock);
	udp_set_bit(ACCEPT_L4, sk);
	udp_set_bit(GRO_ENABLED, sk);
	/* GRO looks for the socket only if there is one of this kind. */
	udp_tunnel_encap_enable(sk);
	/*
	 * Nobody was told of what has come since the socket was bound. It is lost, for what stays in the queue would
	 * be taken instead of what is told of, and so on for ever.
	 */
	while ((early = skb_recv_udp(sk, MSG_DONTWAIT, &err)))
		kfree_skb(early);
}

/* After a grace period nobody has the user data any more. */
void sib_helper_udp_stop(struct sock *sk)
{
	rcu_assign_sk_user_data(sk, NULL);
}

static void sib_udp_ends(const struct sk_buff *skb,
			 struct sib_udp_address *source,
			 struct sib_udp_address *dest)
{
	memset(source, 0, sizeof(*source));
	memset(dest, 0, sizeof(*dest));
	source->port = ntohs(udp_hdr(skb)->source);
	dest->port = ntohs(udp_hdr(skb)->dest);
	if (ip_hdr(skb)->version == 4) {
		source->version = 4;
		dest->version = 4;
		memcpy(source->bytes, &ip_hdr(skb)->saddr, sizeof(__be32));
		memcpy(dest->bytes, &ip_hdr(skb)->daddr, sizeof(__be32));
		dest->of_many = ipv4_is_multicast(ip_hdr(skb)->daddr) ||
				ipv4_is_lbcast(ip_hdr(skb)->daddr);
	} else {
		source->version = 6;
		dest->version = 6;
		memcpy(source->bytes, &ipv6_hdr(skb)->saddr,
		       sizeof(struct in6_addr));
		memcpy(dest->bytes, &ipv6_hdr(skb)->daddr,
		       sizeof(struct in6_addr));
		dest->of_many = ipv6_addr_is_multicast(&ipv6_hdr(skb)->daddr);
		source->scope = ipv6_iface_scope_id(&ipv6_hdr(skb)->saddr,
						    inet6_iif(skb));
	}
	/* The address of all hosts of a network does not look like one. */
	dest->of_many |= skb->pkt_type != PACKET_HOST;
}

/* The next datagram, without its UDP header, or batch of datagrams; none if there is none, or a bad one. */
struct sk_buff *sib_helper_udp_take(struct sock *sk,
				    struct sib_udp_address *source,
				    struct sib_udp_address *dest)
{
	struct sk_buff *skb;
	int err;

	skb = skb_recv_udp(sk, MSG_DONTWAIT, &err);
	/* An error of the socket is told once, in place of a datagram. */
	if (!skb && err != -EAGAIN)
		skb = skb_recv_udp(sk, MSG_DONTWAIT, &err);
	if (!skb)
		return NULL;
	if (udp_lib_checksum_complete(skb)) {
		__UDPX_INC_STATS(sk, UDP_MIB_CSUMERRORS);
		__UDPX_INC_STATS(sk, UDP_MIB_INERRORS);
		kfree_skb(skb);
		return NULL;
	}
	__UDPX_INC_STATS(sk, UDP_MIB_INDATAGRAMS);
	sib_udp_ends(skb, source, dest);
	return skb;
}

/*
 * Whether the received bytes have never left this kernel: they are in memory that a socket of this module has written
 * them to, and the UDP checksum is the sum of the pseudo header, which a device or skb_checksum_help() would have
 * completed, as netem does before it damages a packet. (skb->ip_summed does not tell any more: it is reset when the UDP
 * header is taken off.)
 */
bool sib_helper_udp_is_as_sent(const struct sk_buff *skb)
{
	unsigned int len = skb->len + sizeof(struct udphdr);
	__sum16 begun;

	if (!sib_skb_is_of_pool(skb))
		return false;
	if (ip_hdr(skb)->version == 4)
		begun = ~udp_v4_check(len, ip_hdr(skb)->saddr,
				      ip_hdr(skb)->daddr, 0);
	else
		begun = ~udp_v6_check(len, &ipv6_hdr(skb)->saddr,
				      &ipv6_hdr(skb)->daddr, 0);
	return udp_hdr(skb)->check == begun;
}

/* Call it under the RCU read lock, as data_ready is. */
void *sib_helper_udp_user_data(const struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

u16 sib_helper_udp_local_port(const struct sock *sk)
{
	return ntohs(inet_sk(sk)->inet_sport);
}

static int sib_udp_send4(struct sock *sk, struct sk_buff *skb,
			 const struct sib_udp_flow *flow,
			 struct dst_cache *cache)
{
	__be16 sport = inet_sk(sk)->inet_sport;
	__be16 dport = htons(flow->remote.port);
	struct ip_tunnel_key key = {};
	struct rtable *rt;
	__be32 saddr;

	memcpy(&key.u.ipv4.dst, flow->remote.bytes, sizeof(__be32));
	rt = udp_tunnel_dst_lookup(skb, NULL, sock_net(sk), flow->ifindex,
				   &saddr, &key, sport, dport,
				   flow->traffic_class, cache);
	if (IS_ERR(rt)) {
		kfree_skb(skb);
		return PTR_ERR(rt);
	}
	udp_tunnel_xmit_skb(rt, sk, skb, saddr, key.u.ipv4.dst,
			    flow->traffic_class, flow->hops, 0, sport, dport,
			    false, false, 0);
	return 0;
}

#if IS_ENABLED(CONFIG_IPV6)
static int sib_udp_send6(struct sock *sk, struct sk_buff *skb,
			 const struct sib_udp_flow *flow,
			 struct dst_cache *cache)
{
	int ifindex = flow->ifindex ?: flow->remote.scope;
	__be16 sport = inet_sk(sk)->inet_sport;
	__be16 dport = htons(flow->remote.port);
	struct ip_tunnel_key key = {};
	struct dst_entry *dst;
	struct in6_addr saddr;

	memcpy(&key.u.ipv6.dst, flow->remote.bytes, sizeof(struct in6_addr));
	dst = udp_tunnel6_dst_lookup(skb, NULL, sock_net(sk), sk, ifindex,
				     &saddr, &key, sport, dport,
				     flow->traffic_class, cache);
	if (IS_ERR(dst)) {
		kfree_skb(skb);
		return PTR_ERR(dst);
	}
	/* The nodes of a link believe what comes from an address of it, and nothing else. */
	if (ipv6_addr_is_ll_all_nodes(&key.u.ipv6.dst) &&
	    !(ipv6_addr_type(&saddr) & IPV6_ADDR_LINKLOCAL)) {
		dst_release(dst);
		kfree_skb(skb);
		return -EADDRNOTAVAIL;
	}
	udp_tunnel6_xmit_skb(dst, sk, skb, NULL, &saddr, &key.u.ipv6.dst,
			     flow->traffic_class, flow->hops, 0, sport, dport,
			     false, 0);
	return 0;
}
#else
static int sib_udp_send6(struct sock *sk, struct sk_buff *skb,
			 const struct sib_udp_flow *flow,
			 struct dst_cache *cache)
{
	kfree_skb(skb);
	return -EAFNOSUPPORT;
}
#endif

/*
 * Sends one datagram, or a batch with GSO, and consumes it. Never sleeps; needs interrupts on. The route is
 * cached per CPU, which needs bottom halves off. All have a UDP checksum: what has none is not held by the GRO of the
 * receiver, and overtakes the batch before it, which is.
 */
int sib_helper_udp_send(struct sock *sk, struct sk_buff *skb,
			const struct sib_udp_flow *flow,
			struct dst_cache *cache)
{
	int err;

	skb->ignore_df = 1;
	local_bh_disable();
	if (flow->remote.version == 4)
		err = sib_udp_send4(sk, skb, flow, cache);
	else
		err = sib_udp_send6(sk, skb, flow, cache);
	local_bh_enable();
	return err;
}
