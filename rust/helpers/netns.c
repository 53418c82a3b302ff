// SPDX-License-Identifier: GPL-2.0

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <linux/wait_bit.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "net.h"

/*
 * Sockets of the kernel do not keep their network namespace, in which a device may be that others see as long as it
 * lives. So a namespace that goes waits for the sockets here, after it has got rid of its devices: who has sockets is
 * told of that, and closes them.
 */
struct sib_netns {
	atomic_t sockets;
};

static unsigned int sib_netns_id;

static struct sib_netns *sib_netns_of(const struct net *net)
{
	return net_generic(net, sib_netns_id);
}

static void sib_netns_exit(struct net *net)
{
	struct sib_netns *ns = sib_netns_of(net);

	wait_var_event(&ns->sockets, !atomic_read(&ns->sockets));
}

/* What belongs to the system goes after the devices, and what was registered last goes first: before IP and UDP. */
static struct pernet_operations sib_netns_ops = {
	.exit = sib_netns_exit,
	.id = &sib_netns_id,
	.size = sizeof(struct sib_netns),
};

/* Who is told of devices. Namespaces wait for sockets while there is anybody. */
static DEFINE_MUTEX(sib_netns_lock);
static unsigned int sib_netns_users;
static bool sib_netns_is_ready;

static void sib_netns_put(void)
{
	mutex_lock(&sib_netns_lock);
	if (!--sib_netns_users) {
		WRITE_ONCE(sib_netns_is_ready, false);
		/* Who has seen it has entered by then, and is waited for. */
		synchronize_rcu();
		unregister_pernet_subsys(&sib_netns_ops);
	}
	mutex_unlock(&sib_netns_lock);
}

int sib_helper_notifier_register(struct notifier_block *block)
{
	int err = 0;

	mutex_lock(&sib_netns_lock);
	if (!sib_netns_users)
		err = register_pernet_subsys(&sib_netns_ops);
	if (!err) {
		sib_netns_users++;
		/* Who sees it sees the number of what has been registered. */
		smp_store_release(&sib_netns_is_ready, true);
	}
	mutex_unlock(&sib_netns_lock);
	if (err)
		return err;
	err = register_netdevice_notifier(block);
	if (err)
		sib_netns_put();
	return err;
}

void sib_helper_notifier_unregister(struct notifier_block *block)
{
	unregister_netdevice_notifier(block);
	sib_netns_put();
}

/* The namespace of a device, which waits for a socket from now on; NULL if it is going, or nobody is told of devices. */
struct net *sib_netns_enter(const struct net_device *dev)
{
	struct net *net = NULL;

	rcu_read_lock();
	if (smp_load_acquire(&sib_netns_is_ready))
		net = maybe_get_net(dev_net_rcu(dev));
	if (net)
		atomic_inc(&sib_netns_of(net)->sockets);
	rcu_read_unlock();
	if (net)
		put_net(net);
	return net;
}

void sib_netns_leave(const struct net *net)
{
	atomic_dec_and_wake_up(&sib_netns_of(net)->sockets);
}
