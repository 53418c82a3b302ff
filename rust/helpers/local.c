// SPDX-License-Identifier: GPL-2.0

#include <linux/in6.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <net/addrconf.h>
#include <net/route.h>

#include "net.h"

static bool sib_is_local_v4(struct net *net, const struct net_device *dev,
			    const struct sib_udp_address *address)
{
	__be32 addr;

	memcpy(&addr, address->bytes, sizeof(addr));
	return inet_addr_type_dev_table(net, dev, addr) == RTN_LOCAL;
}

static bool sib_is_local_v6(struct net *net, const struct net_device *dev,
			    const struct sib_udp_address *address)
{
	struct in6_addr addr;

	/* Without IPv6 nobody has made the table of its addresses. */
	if (!ipv6_mod_enabled())
		return false;
	memcpy(&addr, address->bytes, sizeof(addr));
	return ipv6_addr_loopback(&addr) || ipv6_chk_addr(net, &addr, dev, 0);
}

/*
 * Whether what leaves by the device for the address comes back to this host at once: that is an address of the device,
 * or of another one unless it counts on its own link or in its own VRF alone.
 */
bool sib_helper_is_local(const struct net_device *dev,
			 const struct sib_udp_address *address)
{
	struct net *net;
	bool is_local;

	rcu_read_lock();
	net = dev_net_rcu(dev);
	is_local = address->version == 4 ? sib_is_local_v4(net, dev, address) :
					   sib_is_local_v6(net, dev, address);
	rcu_read_unlock();
	return is_local;
}
