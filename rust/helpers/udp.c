// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/dst_cache.h>
#include <net/ip_tunnels.h>
#include <net/sock.h>
#include <net/udp_tunnel.h>

#include "net.h"

/* Datagrams carry checks of their own, so UDP checksums are off where IP allows it, both ways. */
int sib_helper_udp_open(struct net *net, u8 version, u16 port, int ifindex,
			struct sock **out)
{
	struct udp_port_cfg cfg = {
		.family = version == 4 ? AF_INET : AF_INET6,
		.local_udp_port = htons(port),
		.bind_ifindex = ifindex,
		.ipv6_v6only = 1,
	};
	struct socket *sock;
	int err;

	err = udp_sock_create(net, &cfg, &sock);
	if (err)
		return err;
	sock->sk->sk_allocation = GFP_ATOMIC;
	*out = sock->sk;
	return 0;
}

void sib_helper_udp_start(struct sock *sk, void *user_data,
			  sib_encap_rcv_t encap_rcv)
{
	struct udp_tunnel_sock_cfg cfg = {
		.sk_user_data = user_data,
		.encap_type = 1,
		.encap_rcv = encap_rcv,
	};

	setup_udp_tunnel_sock(sock_net(sk), sk, &cfg);
	/* Take datagrams by the batch, as other ends send them. */
	udp_set_bit(GRO_ENABLED, sk);
	udp_set_bit(ACCEPT_L4, sk);
}

/* Call it under the RCU read lock, as an encapsulation hook is. */
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
			    false, !skb_is_gso(skb), 0);
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
	udp_tunnel6_xmit_skb(dst, sk, skb, NULL, &saddr, &key.u.ipv6.dst,
			     flow->traffic_class, flow->hops, 0, sport, dport,
			     !skb_is_gso(skb), 0);
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
 * cached per CPU, which needs bottom halves off.
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
