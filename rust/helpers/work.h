/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_WORK_H
#define SIB_HELPERS_WORK_H

#include <linux/types.h>

struct work_struct;
struct workqueue_struct;

int sib_helper_other_cpu(void);
bool sib_helper_queue_work(int cpu, struct workqueue_struct *queue,
			   struct work_struct *work);
void sib_helper_queue_bh(int cpu, struct work_struct *work);

#endif
