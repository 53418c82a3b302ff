/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_LOCK_H
#define SIB_HELPERS_LOCK_H

#include <linux/bottom_half.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>

unsigned long sib_helper_spin_lock_irqsave(spinlock_t *lock);
void sib_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
void sib_helper_bh_disable(void);
void sib_helper_bh_enable(void);
void sib_helper_preempt_disable(void);
void sib_helper_preempt_enable(void);

#endif
