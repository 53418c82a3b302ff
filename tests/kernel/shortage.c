// SPDX-License-Identifier: GPL-2.0
/*
 * A client of ib_core without memory: each allocation of each of its calls on device `a` fails in
 * its turn. The call fails cleanly, or does without.
 *
 * Loading it runs the test, and fails if the test does:
 *
 *     insmod shortage.ko a=sib0 b=sib1
 *
 * The kernel must be able to have allocations fail, of all kinds and in all contexts: see
 * inject_prepare() in tests/user/inject.c.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/sched.h>

#include "between.h"

#define DEPTH 300
#define PAGES 256
#define GROUP_LID 0xc123
/* More allocations than any call makes. */
#define MOST 2000u

static struct ib_pd *pd;
static struct ib_cq *cq;
static struct ib_srq *srq;
static struct ib_qp *qp, *ud;
static struct ib_mr *mr;
static struct ib_ah *ah;
static struct ib_port_attr port;
/* So many calls have been made. */
static unsigned int made;
/* Nobody else has it, and no subnet manager knows of it. */
static union ib_gid group = { .raw = { 0xff, 0x12, 0xa0, 0x1b, [15] = 7 } };

static int make_pd(void)
{
	return take(ib_alloc_pd(devices[0], 0), &pd);
}

static void end_pd(void)
{
	ib_dealloc_pd(pd);
}

static int make_cq(void)
{
	struct ib_cq_init_attr init = { .cqe = 4 * DEPTH };

	return take(ib_create_cq(devices[0], NULL, NULL, NULL, &init),
		    &cq);
}

static void end_cq(void)
{
	ib_destroy_cq(cq);
}

static int make_srq(void)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = DEPTH, .max_sge = 4 },
	};

	return take(ib_create_srq(pd, &init), &srq);
}

static void end_srq(void)
{
	ib_destroy_srq(srq);
}

static int make(enum ib_qp_type type, struct ib_qp **made_qp)
{
	struct ib_qp_init_attr init = {
		.qp_type = type,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			 .max_send_sge = 4, .max_recv_sge = 4 },
	};

	return take(ib_create_qp(pd, &init), made_qp);
}

static int make_qp(void)
{
	return make(IB_QPT_RC, &qp);
}

static void end_qp(void)
{
	ib_destroy_qp(qp);
}

static int make_ud(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };
	int error = make(IB_QPT_UD, &ud);

	if (error)
		return error;
	error = ib_modify_qp(ud, &attr,
			     IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				     IB_QP_QKEY);
	if (error)
		ib_destroy_qp(ud);
	return error;
}

static void end_ud(void)
{
	ib_destroy_qp(ud);
}

static int make_mr(void)
{
	return take(ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, PAGES), &mr);
}

static void end_mr(void)
{
	ib_dereg_mr(mr);
}

static int make_ah(void)
{
	struct rdma_ah_attr attr = { .type = rdma_ah_find_type(devices[0], 1) };

	rdma_ah_set_dlid(&attr, port.lid);
	rdma_ah_set_port_num(&attr, 1);
	return take(rdma_create_ah(pd, &attr, RDMA_CREATE_AH_SLEEPABLE),
		    &ah);
}

static void end_ah(void)
{
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
}

static int attach(void)
{
	return ib_attach_mcast(ud, &group, GROUP_LID);
}

static void detach(void)
{
	ib_detach_mcast(ud, &group, GROUP_LID);
}

/* In the order of what they need. */
static const struct call {
	const char *name;
	/* Leaves nothing if it fails. */
	int (*make)(void);
	void (*end)(void);
} calls[] = {
	{ "alloc_pd", make_pd, end_pd },
	{ "create_cq", make_cq, end_cq },
	{ "create_srq", make_srq, end_srq },
	{ "create_qp", make_qp, end_qp },
	{ "create_qp (UD)", make_ud, end_ud },
	{ "alloc_mr", make_mr, end_mr },
	{ "create_ah", make_ah, end_ah },
	{ "attach_mcast", attach, detach },
};

/* Has each allocation of a call fail. */
static int sweep(const struct call *call)
{
	unsigned int nth, failures = 0;

	for (nth = 1; nth < MOST; nth++) {
		bool has_failed;
		int error;

		current->fail_nth = nth;
		error = call->make();
		has_failed = !current->fail_nth;
		current->fail_nth = 0;
		check(!error || (has_failed && error == -ENOMEM),
		      "%s, allocation %u: %d", call->name, nth, error);
		if (error)
			failures++;
		else
			call->end();
		if (!has_failed)
			break;
	}
	check(nth < MOST, "%s has no end", call->name);
	check(failures, "%s: nothing failed for want of %u allocations",
	      call->name, nth - 1);
	pr_info("%s: %u allocations, %u failures\n", call->name, nth - 1,
		failures);
	return 0;
}

static int run(void)
{
	try(ib_query_port(devices[0], 1, &port));
	for (made = 0; made < ARRAY_SIZE(calls); made++) {
		try(sweep(&calls[made]));
		try(calls[made].make());
	}
	return 0;
}

static void teardown(void)
{
	while (made)
		calls[--made].end();
}

static int __init shortage_init(void)
{
	return between_devices(run, teardown);
}
module_init(shortage_init);

MODULE_DESCRIPTION("Test of a client of ib_core without memory");
MODULE_LICENSE("GPL");
