/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_MANAGER_H
#define SIB_HELPERS_MANAGER_H

#include <linux/types.h>

struct ib_client;
struct ib_device;

int sib_helper_manager_enter(void);
void sib_helper_manager_leave(int section);
void sib_helper_manager_quiesce(void);
void *sib_helper_ib_get_client_data(struct ib_device *device,
				    struct ib_client *client);

#endif
