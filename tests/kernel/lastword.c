// SPDX-License-Identifier: GPL-2.0
/*
 * A client of ib_core whose queue pair comes to its end for what it has sent: the peer's client,
 * who got a message, has the connection end before the sender has seen the acknowledgement. The
 * message has arrived, so it is not flushed.
 *
 * The handler of the peer's completion queue runs in the context that sends, and keeps it while
 * the queue pair is moved to the error state elsewhere, as if that task had been preempted. The
 * devices are on one host, and hand packets over:
 *
 *     insmod lastword.ko a=sib0 b=sib1
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "between.h"

#define BYTES 64
#define PSN 77
/* How long who sends is kept, in milliseconds. */
#define KEPT 30
/* So often that is to happen, and so often it is tried. */
#define ROUNDS 5
#define MOST_ROUNDS 100

static const struct patience patient = { .timeout = 14, .retries = 7 };

static struct end {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_port_attr port;
} ends[2];

static u8 *bytes;
static DECLARE_COMPLETION(arrived);
/* The queue pair is on its way to the error state, and is there. */
static bool ending, ended;
/* The end began while who sends was kept. */
static bool kept;

static void keep(struct ib_cq *cq, void *context)
{
	complete(&arrived);
	for (int ms = 0; ms < KEPT && !READ_ONCE(ended); ms++)
		mdelay(1);
	kept = READ_ONCE(ending);
}

static int take(void *object, void *slot)
{
	if (IS_ERR(object))
		return PTR_ERR(object);
	*(void **)slot = object;
	return 0;
}

static int make(struct end *end, struct ib_device *device,
		ib_comp_handler handler)
{
	struct ib_cq_init_attr cq_init = { .cqe = 16 };
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	try(ib_query_port(device, 1, &end->port));
	try(take(ib_alloc_pd(device, 0), &end->pd));
	try(take(ib_create_cq(device, handler, NULL, NULL, &cq_init),
		 &end->cq));
	init.send_cq = end->cq;
	init.recv_cq = end->cq;
	return take(ib_create_qp(end->pd, &init), &end->qp);
}

static void unmake(struct end *end)
{
	if (end->qp)
		ib_destroy_qp(end->qp);
	if (end->cq)
		ib_destroy_cq(end->cq);
	if (end->pd)
		ib_dealloc_pd(end->pd);
}

/* The connection ends as soon as the message has come. */
static void put_to_end(struct work_struct *work)
{
	int error;

	wait_for_completion(&arrived);
	WRITE_ONCE(ending, true);
	error = qp_to(ends[0].qp, IB_QPS_ERR);
	if (error)
		pr_err("to the error state: %d\n", error);
	WRITE_ONCE(ended, true);
}

static int post(void)
{
	struct ib_sge sge = { (uintptr_t)bytes, BYTES,
			      ends[0].pd->local_dma_lkey };
	struct ib_send_wr wr = { .sg_list = &sge, .num_sge = 1,
				 .opcode = IB_WR_SEND };

	return ib_post_send(ends[0].qp, &wr, NULL);
}

static int post_receive(void)
{
	struct ib_sge sge = { (uintptr_t)bytes + BYTES, BYTES,
			      ends[1].pd->local_dma_lkey };
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(ends[1].qp, &wr, NULL);
}

/* The next completion. */
static int outcome(struct ib_cq *cq, struct ib_wc *wc)
{
	for (int ms = 0; ms < 2000; ms++) {
		int count = ib_poll_cq(cq, 1, wc);

		check(count >= 0, "ib_poll_cq: %d", count);
		if (count)
			return 0;
		msleep(1);
	}
	check(false, "no completion");
	return 0;
}

/* Both sides are told of the message, and not that it was flushed. */
static int told(void)
{
	struct ib_wc sent, received;

	try(outcome(ends[1].cq, &received));
	try(outcome(ends[0].cq, &sent));
	check(received.status == IB_WC_SUCCESS, "not received: %s",
	      ib_wc_status_msg(received.status));
	check(sent.status == IB_WC_SUCCESS, "received, but for the sender: %s",
	      ib_wc_status_msg(sent.status));
	return 0;
}

static int converse(void)
{
	struct work_struct work;
	int error;

	for (int at = 0; at < 2; at++) {
		try(qp_to(ends[at].qp, IB_QPS_RESET));
		try(connect_qp(ends[at].qp, ends[!at].port.lid,
			       ends[!at].qp->qp_num, PSN, &patient));
	}
	/* The peer is to know its way back. */
	try(post_receive());
	try(post());
	try(told());
	try(post_receive());
	try(ib_req_notify_cq(ends[1].cq, IB_CQ_NEXT_COMP));
	reinit_completion(&arrived);
	ending = false;
	ended = false;
	kept = false;
	INIT_WORK_ONSTACK(&work, put_to_end);
	queue_work(system_dfl_wq, &work);
	error = post();
	if (error)
		complete(&arrived);
	flush_work(&work);
	destroy_work_on_stack(&work);
	try(error);
	return told();
}

static int run(void)
{
	int rounds = 0, last_words = 0;

	check(num_online_cpus() > 1, "one CPU is not enough");
	bytes = kzalloc(2 * BYTES, GFP_KERNEL);
	if (!bytes)
		return -ENOMEM;
	try(make(&ends[0], devices[0], NULL));
	try(make(&ends[1], devices[1], keep));
	while (rounds < MOST_ROUNDS && last_words < ROUNDS) {
		try(converse());
		rounds++;
		last_words += kept;
	}
	check(last_words == ROUNDS, "who sends was kept %d times of %d",
	      last_words, rounds);
	pr_info("%d of %d messages arrived while the connection ended\n",
		last_words, rounds);
	return 0;
}

static void teardown(void)
{
	for (int at = 0; at < 2; at++)
		unmake(&ends[at]);
	kfree(bytes);
}

static int __init lastword_init(void)
{
	return between_devices(run, teardown);
}
module_init(lastword_init);

MODULE_DESCRIPTION("Test of messages that arrive just before the end");
MODULE_LICENSE("GPL");
