// SPDX-License-Identifier: GPL-2.0
/*
 * A client of ib_core without memory: each allocation of each of its calls fails in its turn.
 * The call fails cleanly, or does without.
 *
 * Loading it runs the test between two devices, and fails if the test does:
 *
 *     insmod shortage.ko a=sib0 b=sib1
 *
 * The kernel must be able to have allocations fail, of all kinds and in all contexts: see
 * inject_prepare() in tests/user/inject.c.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "client.h"

#define DEPTH 300
#define PAGES 256
#define BYTES 4096u
#define DUE_MS 20000
#define GROUP_LID 0xc123
/* More allocations than any call makes. */
#define MOST 2000u

static char *a = "sib0";
static char *b = "sib1";
module_param(a, charp, 0400);
MODULE_PARM_DESC(a, "one device");
module_param(b, charp, 0400);
MODULE_PARM_DESC(b, "the other device");

struct side {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp, *ud;
	struct ib_mr *mr;
	struct ib_ah *ah;
	struct ib_port_attr port;
	bool attached;
	u8 *bytes;
	/* So many calls have been made. */
	unsigned int made;
};

static struct side sides[2];
static const union ib_gid group = { .raw = { 0xff, 0x12, 0xa0, 0x1b, [15] = 7 } };

static int take(void *object, void *slot)
{
	if (IS_ERR(object))
		return PTR_ERR(object);
	*(void **)slot = object;
	return 0;
}

static int make_pd(struct side *side)
{
	return take(ib_alloc_pd(side->device, 0), &side->pd);
}

static void end_pd(struct side *side)
{
	ib_dealloc_pd(side->pd);
}

static int make_cq(struct side *side)
{
	struct ib_cq_init_attr init = { .cqe = 4 * DEPTH };

	return take(ib_create_cq(side->device, NULL, NULL, NULL, &init),
		    &side->cq);
}

static void end_cq(struct side *side)
{
	ib_destroy_cq(side->cq);
}

static int make_srq(struct side *side)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = DEPTH, .max_sge = 4 },
	};

	return take(ib_create_srq(side->pd, &init), &side->srq);
}

static void end_srq(struct side *side)
{
	ib_destroy_srq(side->srq);
}

static int make(struct side *side, enum ib_qp_type type, struct ib_qp **qp)
{
	struct ib_qp_init_attr init = {
		.qp_type = type,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			 .max_send_sge = 4, .max_recv_sge = 4 },
	};

	return take(ib_create_qp(side->pd, &init), qp);
}

static int make_qp(struct side *side)
{
	return make(side, IB_QPT_RC, &side->qp);
}

static void end_qp(struct side *side)
{
	ib_destroy_qp(side->qp);
}

static int make_ud(struct side *side)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };
	int error = make(side, IB_QPT_UD, &side->ud);

	if (error)
		return error;
	error = ib_modify_qp(side->ud, &attr,
			     IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				     IB_QP_QKEY);
	if (error)
		ib_destroy_qp(side->ud);
	return error;
}

static void end_ud(struct side *side)
{
	ib_destroy_qp(side->ud);
}

static int make_mr(struct side *side)
{
	return take(ib_alloc_mr(side->pd, IB_MR_TYPE_MEM_REG, PAGES), &side->mr);
}

static void end_mr(struct side *side)
{
	ib_dereg_mr(side->mr);
}

static int make_ah(struct side *side)
{
	struct rdma_ah_attr attr = { .type = rdma_ah_find_type(side->device, 1) };

	rdma_ah_set_dlid(&attr, side->port.lid);
	rdma_ah_set_port_num(&attr, 1);
	return take(rdma_create_ah(side->pd, &attr, RDMA_CREATE_AH_SLEEPABLE),
		    &side->ah);
}

static void end_ah(struct side *side)
{
	rdma_destroy_ah(side->ah, RDMA_DESTROY_AH_SLEEPABLE);
}

static int attach(struct side *side)
{
	int error = ib_attach_mcast(side->ud, (union ib_gid *)&group, GROUP_LID);

	side->attached = !error;
	return error;
}

static void detach(struct side *side)
{
	if (side->attached)
		ib_detach_mcast(side->ud, (union ib_gid *)&group, GROUP_LID);
	side->attached = false;
}

static int connect(struct side *side)
{
	static const struct patience patience = {
		.timeout = 16,
		.retries = 7,
		.rnr_retries = 7,
		.min_rnr_timer = 1,
	};
	struct side *peer = &sides[side == sides];

	return connect_qp(side->qp, peer->port.lid, peer->qp->qp_num, 0,
			  &patience);
}

static void reset(struct side *side)
{
	qp_to(side->qp, IB_QPS_RESET);
}

static int next(struct side *side)
{
	ktime_t due = ktime_add_ms(ktime_get(), DUE_MS);
	struct ib_wc wc;

	while (!ib_poll_cq(side->cq, 1, &wc)) {
		check(ktime_before(ktime_get(), due), "no completion");
		usleep_range(20, 50);
	}
	check(wc.status == IB_WC_SUCCESS, "'%s'", ib_wc_status_msg(wc.status));
	return 0;
}

/* What has no memory on its way is lost, and comes again. */
static int send(struct side *side)
{
	struct side *peer = &sides[side == sides];
	struct ib_sge from = { .addr = (uintptr_t)side->bytes, .length = BYTES,
			       .lkey = side->pd->local_dma_lkey };
	struct ib_sge to = { .addr = (uintptr_t)peer->bytes, .length = BYTES,
			     .lkey = peer->pd->local_dma_lkey };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &from,
				 .num_sge = 1 };
	struct ib_recv_wr recv = { .sg_list = &to, .num_sge = 1 };

	try(ib_post_recv(peer->qp, &recv, NULL));
	try(ib_post_send(side->qp, &wr, NULL));
	try(next(side));
	return next(peer);
}

static void nothing(struct side *side)
{
}

/* In the order of what they need. */
static const struct call {
	const char *name;
	int (*make)(struct side *side);
	void (*end)(struct side *side);
	/* Without memory it does not fail. */
	bool does_without;
	/* What it has done before a failure is undone. */
	bool is_state;
} calls[] = {
	{ "alloc_pd", make_pd, end_pd },
	{ "create_cq", make_cq, end_cq },
	{ "create_srq", make_srq, end_srq },
	{ "create_qp", make_qp, end_qp },
	{ "create_qp (UD)", make_ud, end_ud },
	{ "alloc_mr", make_mr, end_mr },
	{ "create_ah", make_ah, end_ah },
	{ "attach_mcast", attach, detach, .is_state = true },
	{ "modify_qp", connect, reset, .is_state = true },
	{ "post_send", send, nothing, .does_without = true },
};

/* Has each allocation of a call fail, for the first side. Returns how many there are. */
static int sweep(const struct call *call)
{
	struct side *side = &sides[0];
	unsigned int nth;

	for (nth = 1; nth < MOST; nth++) {
		bool has_failed;
		int error;

		current->fail_nth = nth;
		error = call->make(side);
		has_failed = !current->fail_nth;
		current->fail_nth = 0;
		check(!error || (has_failed && !call->does_without),
		      "%s, allocation %u: %d", call->name, nth, error);
		check(!error || error == -ENOMEM, "%s, allocation %u: %d",
		      call->name, nth, error);
		if (!error || call->is_state)
			call->end(side);
		if (!has_failed)
			break;
	}
	check(nth < MOST, "%s has no end", call->name);
	pr_info("%s: %u allocations\n", call->name, nth - 1);
	return 0;
}

static int run(void)
{
	for (int i = 0; i < 2; i++) {
		check(sides[i].device, "no %s", i ? b : a);
		try(ib_query_port(sides[i].device, 1, &sides[i].port));
		sides[i].bytes = kzalloc(BYTES, GFP_KERNEL);
		check(sides[i].bytes, "out of memory");
	}
	for (int i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].does_without) {
			try(sweep(&calls[i]));
			continue;
		}
		try(calls[i].make(&sides[1]));
		sides[1].made++;
		try(sweep(&calls[i]));
		try(calls[i].make(&sides[0]));
		sides[0].made++;
	}
	return 0;
}

static void teardown(struct side *side)
{
	while (side->made)
		calls[--side->made].end(side);
	kfree(side->bytes);
}

/* ib_core names its devices to its clients. */
static int add_device(struct ib_device *device)
{
	if (!strcmp(dev_name(&device->dev), a))
		sides[0].device = device;
	if (!strcmp(dev_name(&device->dev), b))
		sides[1].device = device;
	return 0;
}

static struct ib_client client = { .name = "shortage", .add = add_device };

static int __init shortage_init(void)
{
	int error = ib_register_client(&client);

	if (error)
		return error;
	error = run();
	teardown(&sides[0]);
	teardown(&sides[1]);
	ib_unregister_client(&client);
	return error;
}

static void __exit shortage_exit(void)
{
}

module_init(shortage_init);
module_exit(shortage_exit);

MODULE_DESCRIPTION("Test of a client of ib_core without memory");
MODULE_LICENSE("GPL");
