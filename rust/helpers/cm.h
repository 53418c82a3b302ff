/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_CM_H
#define SIB_HELPERS_CM_H

#include <rdma/sib_cm.h>

/* What stands behind include/rdma/sib_cm.h. `command` takes the numbers and structures of /dev/sib_cm. */
struct sib_cm_core {
	void *shared;
	struct sib_cm_id *(*create)(void *shared, u64 guid,
				    const struct sib_cm_id *template);
	void (*destroy)(struct sib_cm_id *cm_id);
	int (*command)(struct sib_cm_id *cm_id, unsigned int number, void *arg);
};

/* In sib_cm.ko. */
int sib_cm_set_core(const struct sib_cm_core *core);
bool sib_cm_clear_core(void);

#endif
