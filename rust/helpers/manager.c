// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <linux/module.h>
#include <linux/srcu.h>
#include <rdma/ib_verbs.h>

#include "manager.h"

/* Sections in which the connection manager is being called. */
DEFINE_STATIC_SRCU(sib_manager);

int sib_helper_manager_enter(void)
{
	return srcu_read_lock(&sib_manager);
}

void sib_helper_manager_leave(int section)
{
	srcu_read_unlock(&sib_manager, section);
}

void sib_helper_manager_quiesce(void)
{
	synchronize_srcu(&sib_manager);
}

void *sib_helper_ib_get_client_data(struct ib_device *device,
				    struct ib_client *client)
{
	return ib_get_client_data(device, client);
}
