// SPDX-License-Identifier: GPL-2.0
/*
 * A completion queue with a vector of its own, whose handler is late: the CPU of the vector has
 * interrupts off meanwhile, and the queue is freed. Nothing of it may be on the queue of work of
 * ib_core then.
 *
 *     insmod latecall.ko a=sib0
 *
 * The work comes to a queue of our own, behind an item that waits, and so is there for as long as
 * nobody takes it away. CPU 0 makes the completion and frees; workers are to run there as well.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "between.h"

/* The CPU whose handler is late, and its vector. */
#define CPU 1
#define VECTOR (CPU + 1)
/* How long it has interrupts off, in milliseconds. */
#define BUSY 500
/* So often that is to be too late, and so often it is tried. */
#define ROUNDS 3
#define MOST_ROUNDS 20

static struct workqueue_struct *queue;
static struct ib_pd *pd;
static ib_comp_handler handler;
static DECLARE_COMPLETION(go_on);
static bool busy, freeing;
static int late;

/* Takes the only place of the queue. */
static void wait(struct work_struct *work)
{
	wait_for_completion(&go_on);
}

static DECLARE_WORK(waiter, wait);

/* In an interrupt. */
static void be_busy(void *unused)
{
	WRITE_ONCE(busy, true);
	for (int ms = 0; ms < BUSY; ms++)
		mdelay(1);
}

/* Completions have come. */
static void note(struct ib_cq *cq, void *context)
{
	late += READ_ONCE(freeing);
	handler(cq, context);
}

static int to_init(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };

	return ib_modify_qp(qp, &attr,
			    IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				    IB_QP_QKEY);
}

/* A receive is flushed while the CPU of the vector is busy. */
static int flush(struct ib_qp *qp, struct ib_cq *cq)
{
	struct ib_recv_wr wr = {};
	struct ib_wc wc;
	int count = 0;

	try(to_init(qp));
	try(qp_to(qp, IB_QPS_ERR));
	WRITE_ONCE(busy, false);
	try(smp_call_function_single(CPU, be_busy, NULL, 0));
	while (!READ_ONCE(busy))
		cpu_relax();
	try(ib_post_recv(qp, &wr, NULL));
	for (int ms = 0; ms < BUSY / 2 && !count; ms++) {
		msleep(1);
		count = ib_poll_cq(cq, 1, &wc);
	}
	check(count == 1, "ib_poll_cq: %d", count);
	return 0;
}

static int use(struct ib_cq *cq)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IB_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ib_qp *qp;
	int error;

	try(take(ib_create_qp(pd, &init), &qp));
	error = flush(qp, cq);
	ib_destroy_qp(qp);
	return error;
}

static int once(void)
{
	struct ib_cq *cq;
	int error;

	try(take(ib_alloc_cq(devices[0], NULL, 4, VECTOR, IB_POLL_WORKQUEUE),
		 &cq));
	cq->comp_wq = queue;
	handler = cq->comp_handler;
	cq->comp_handler = note;
	WRITE_ONCE(freeing, false);
	error = use(cq);
	WRITE_ONCE(freeing, true);
	ib_free_cq(cq);
	try(error);
	check(!workqueue_congested(CPU, queue),
	      "a queue that is gone has work to do");
	return 0;
}

static int run(void)
{
	int rounds = 0;

	check(cpu_online(CPU), "one CPU is not enough");
	try(set_cpus_allowed_ptr(current, cpumask_of(0)));
	queue = alloc_workqueue("latecall", WQ_PERCPU, 1);
	if (!queue)
		return -ENOMEM;
	queue_work_on(CPU, queue, &waiter);
	try(take(ib_alloc_pd(devices[0], 0), &pd));
	while (rounds < MOST_ROUNDS && late < ROUNDS) {
		try(once());
		rounds++;
	}
	check(late == ROUNDS, "%d handlers of %d were late", late, rounds);
	pr_info("%d handlers of %d were late\n", late, rounds);
	return 0;
}

static void teardown(void)
{
	complete_all(&go_on);
	if (pd)
		ib_dealloc_pd(pd);
	if (queue)
		destroy_workqueue(queue);
}

static int __init latecall_init(void)
{
	return between_devices(run, teardown);
}
module_init(latecall_init);

MODULE_DESCRIPTION("Test of completion queues whose handler is late");
MODULE_LICENSE("GPL");
