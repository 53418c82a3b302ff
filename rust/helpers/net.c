// SPDX-License-Identifier: GPL-2.0

#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "net.h"

struct net_device *sib_helper_netdev_get(struct net_device *dev)
{
	dev_hold(dev);
	return dev;
}

void sib_helper_netdev_put(struct net_device *dev)
{
	dev_put(dev);
}

/* With a reference; NULL if there is none. A task that exits has no namespaces. */
struct net_device *sib_helper_netdev_by_name(const char *name)
{
	struct nsproxy *nsproxy = current->nsproxy;

	return nsproxy ? dev_get_by_name(nsproxy->net_ns, name) : NULL;
}

/* The same in the network namespace that is there from the beginning. */
struct net_device *sib_helper_netdev_initial(const char *name)
{
	return dev_get_by_name(&init_net, name);
}

/* To be compared: the device may be moved to another one at any time. */
const void *sib_helper_netdev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

/* A device may be renamed meanwhile; the copy is terminated in any case. */
size_t sib_helper_netdev_name(const struct net_device *dev, char *name,
			      size_t size)
{
	ssize_t len = strscpy(name, dev->name, size);

	return len < 0 ? size - 1 : len;
}

int sib_helper_netdev_ifindex(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}

unsigned int sib_helper_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

/* By itself, or by handing batches on whole; see netif_needs_gso(). */
bool sib_helper_netdev_segments(const struct net_device *dev)
{
	return READ_ONCE(dev->features) & NETIF_F_GSO_UDP_L4;
}

bool sib_helper_netdev_registered(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) == NETREG_REGISTERED;
}

bool sib_helper_netdev_running(const struct net_device *dev)
{
	return netif_running(dev) && netif_carrier_ok(dev);
}

bool sib_helper_netdev_loopback(const struct net_device *dev)
{
	return dev->flags & IFF_LOOPBACK;
}

size_t sib_helper_netdev_address(const struct net_device *dev, u8 *address,
				 size_t size)
{
	size_t len = min_t(size_t, size, dev->addr_len);

	memcpy(address, dev->dev_addr, len);
	return len;
}

struct net_device *sib_helper_notifier_netdev(void *info)
{
	return netdev_notifier_info_to_dev(info);
}
