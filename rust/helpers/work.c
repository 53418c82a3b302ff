// SPDX-License-Identifier: GPL-2.0

#include <linux/cpumask.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "work.h"

/* The next processor that is online and not isolated; the running one, or none (negative), if there is no other. */
int sib_helper_other_cpu(void)
{
	unsigned int cpu;

	rcu_read_lock();
	cpu = cpumask_next_and_wrap(raw_smp_processor_id(),
				    housekeeping_cpumask(HK_TYPE_DOMAIN),
				    cpu_online_mask);
	rcu_read_unlock();
	return cpu < nr_cpu_ids ? cpu : -1;
}

/* Has work run on that processor, or on the running one if that has gone. The processor may be WORK_CPU_UNBOUND. */
bool sib_helper_queue_work(int cpu, struct workqueue_struct *queue,
			   struct work_struct *work)
{
	bool queued;

	if (cpu == WORK_CPU_UNBOUND)
		return queue_work_on(cpu, queue, work);
	preempt_disable();
	if (!cpu_online(cpu))
		cpu = smp_processor_id();
	queued = queue_work_on(cpu, queue, work);
	preempt_enable();
	return queued;
}

/* Has work run in a softirq of that processor, or of the running one if that has gone. */
void sib_helper_queue_bh(int cpu, struct work_struct *work)
{
	sib_helper_queue_work(cpu, system_bh_wq, work);
}
