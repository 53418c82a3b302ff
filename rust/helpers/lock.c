// SPDX-License-Identifier: GPL-2.0

#include "lock.h"

unsigned long sib_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void sib_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

void sib_helper_bh_disable(void)
{
	local_bh_disable();
}

void sib_helper_bh_enable(void)
{
	local_bh_enable();
}

void sib_helper_preempt_disable(void)
{
	preempt_disable();
}

void sib_helper_preempt_enable(void)
{
	preempt_enable();
}
