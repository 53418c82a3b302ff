// SPDX-License-Identifier: GPL-2.0
/*
 * A connection of clients of ib_core that comes to its end for what has been sent: the peer's
 * client, who got a message, has one of the queue pairs end before the sender has seen the
 * acknowledgement. The message has arrived, and the sender is told so.
 *
 * The handler of the receiver's completion queue runs where the message arrives, and keeps that
 * context while the queue pair ends elsewhere, as if a task had been preempted there:
 *
 *     insmod lastword.ko a=sib0 b=sib1 udp=0
 *
 * With `udp` the devices have a network between them. An acknowledgement is then on its own when
 * it has left, so the sender's end is not tried.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "between.h"

#define BYTES 64
#define PSN 77
/* How long who hands on the message is kept, in milliseconds. */
#define KEPT 30
/* So often that is to happen, and so often it is tried. */
#define ROUNDS 5
#define MOST_ROUNDS 100
/* For the state of a queue pair that is destroyed. */
#define NONE (-1)

static bool udp;
module_param(udp, bool, 0400);
MODULE_PARM_DESC(udp, "the devices have a network between them");

static const struct patience patient = { .timeout = 14, .retries = 7 };

static struct end {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_port_attr port;
} ends[2];

/* How the connection ends: one of `ends` comes to a state. */
static const struct way {
	const char *name;
	int end;
	int state;
} ways[] = {
	{ "the sender to ERR", 0, IB_QPS_ERR },
	{ "the receiver to ERR", 1, IB_QPS_ERR },
	{ "the receiver to RESET", 1, IB_QPS_RESET },
	{ "the receiver destroyed", 1, NONE },
};

static const struct way *way;
static u8 *bytes;
static DECLARE_COMPLETION(arrived);
/* The end has begun, and has come. */
static bool ending, ended;
/* What came of it. */
static int end_error;
/* It began while who hands on the message was kept. */
static bool kept;

static void keep(struct ib_cq *cq, void *context)
{
	complete(&arrived);
	for (int ms = 0; ms < KEPT && !READ_ONCE(ended); ms++)
		mdelay(1);
	kept = READ_ONCE(ending);
}

static int make(struct end *end, struct ib_device *device,
		ib_comp_handler handler)
{
	struct ib_cq_init_attr init = { .cqe = 16 };

	try(ib_query_port(device, 1, &end->port));
	try(take(ib_alloc_pd(device, 0), &end->pd));
	return take(ib_create_cq(device, handler, NULL, NULL, &init), &end->cq);
}

static int make_qp(struct end *end)
{
	struct ib_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return take(ib_create_qp(end->pd, &init), &end->qp);
}

static int unmake_qp(struct end *end)
{
	struct ib_qp *qp = end->qp;

	end->qp = NULL;
	return qp ? ib_destroy_qp(qp) : 0;
}

static void unmake(struct end *end)
{
	unmake_qp(end);
	if (end->cq)
		ib_destroy_cq(end->cq);
	if (end->pd)
		ib_dealloc_pd(end->pd);
}

/* The connection ends as soon as the message has come. */
static void put_to_end(struct work_struct *work)
{
	struct end *end = &ends[way->end];

	wait_for_completion(&arrived);
	WRITE_ONCE(ending, true);
	end_error = way->state == NONE ? unmake_qp(end) :
					 qp_to(end->qp, way->state);
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

/* An end has one more completion, which says that all is well. */
static int told(struct end *end)
{
	struct ib_wc wc;

	try(outcome(end->cq, &wc));
	check(wc.status == IB_WC_SUCCESS, "%s: %s is told: %s", way->name,
	      end == &ends[0] ? "the sender" : "the receiver",
	      ib_wc_status_msg(wc.status));
	return 0;
}

static int converse(void)
{
	struct work_struct work;
	int error;

	for (int at = 0; at < 2; at++)
		try(make_qp(&ends[at]));
	for (int at = 0; at < 2; at++)
		try(connect_qp(ends[at].qp, ends[!at].port.lid,
			       ends[!at].qp->qp_num, PSN, &patient));
	if (way->end == 0) {
		/* The answer is with the sender if the peer knows its way. */
		try(post_receive());
		try(post());
		try(told(&ends[0]));
		try(told(&ends[1]));
	}
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
	check(!end_error, "%s: %d", way->name, end_error);
	try(told(&ends[0]));
	/* Of what is in use no more there is no completion. */
	if (way->end == 0 || way->state == IB_QPS_ERR)
		try(told(&ends[1]));
	for (int at = 0; at < 2; at++)
		try(unmake_qp(&ends[at]));
	return 0;
}

static int end_often(void)
{
	int rounds = 0, last_words = 0;

	while (rounds < MOST_ROUNDS && last_words < ROUNDS) {
		try(converse());
		rounds++;
		last_words += kept;
	}
	check(last_words == ROUNDS, "%s: in time %d times of %d", way->name,
	      last_words, rounds);
	pr_info("%s: %d of %d messages arrived meanwhile\n", way->name,
		last_words, rounds);
	return 0;
}

static int run(void)
{
	check(num_online_cpus() > 1, "one CPU is not enough");
	bytes = kzalloc(2 * BYTES, GFP_KERNEL);
	if (!bytes)
		return -ENOMEM;
	try(make(&ends[0], devices[0], NULL));
	try(make(&ends[1], devices[1], keep));
	for (way = ways; way < ways + ARRAY_SIZE(ways); way++)
		if (!udp || way->end)
			try(end_often());
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
