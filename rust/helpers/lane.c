// SPDX-License-Identifier: GPL-2.0

#include <linux/cpumask.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/skbuff.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "net.h"

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

/* Has work run in a softirq of that processor, or of the running one if that has gone. Preemption is off. */
void sib_helper_queue_bh(int cpu, struct work_struct *work)
{
	if (!cpu_online(cpu))
		cpu = smp_processor_id();
	queue_work_on(cpu, system_bh_wq, work);
}

void sib_helper_lane_init(struct sk_buff_head *lane)
{
	skb_queue_head_init(lane);
}

/* The path is given back with the packet. */
void sib_helper_lane_put(struct sk_buff_head *lane, struct sk_buff *skb,
			 const void *path)
{
	*(const void **)skb->cb = path;
	skb_queue_tail(lane, skb);
}

struct sk_buff *sib_helper_lane_take(struct sk_buff_head *lane,
				     const void **path)
{
	struct sk_buff *skb = skb_dequeue(lane);

	if (!skb)
		return NULL;
	*path = *(const void **)skb->cb;
	/* The layers below expect it as they have made it. */
	memset(skb->cb, 0, sizeof(skb->cb));
	return skb;
}
