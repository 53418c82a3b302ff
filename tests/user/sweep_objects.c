// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that make objects of verbs, change them, ask for them and destroy them.
 */

#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES (64u << 10)
#define DEPTH 64
#define CQE 100
#define MORE_CQE 1000
#define MGID_BYTES { 0xff, 0x12, 0x60, 0x1b, [15] = 7 }
#define MLID 0xc000

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_cq_ex *cq_ex;
static struct ibv_comp_channel *channel;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_ah *ah;
static struct ibv_mw *mw;
static uint8_t bytes[BYTES] __attribute__((aligned(4096)));
static const union ibv_gid mgid = { .raw = MGID_BYTES };

/* Destroys `object` by `call`, which must work. */
#define UNDO(name, call, object)                                              \
	static void undo_##name(void)                                         \
	{                                                                     \
		int error = call(object);                                     \
									      \
		check(!error, #call ": %s", strerror(error));                 \
	}

/* A step that calls `call` for `object`; 0 or an errno. */
#define STEP(name, call)                                                      \
	static int name(void)                                                 \
	{                                                                     \
		return call;                                                  \
	}

/* A step that makes `object` by `call`. */
#define MAKE(name, object, call)                                              \
	static int make_##name(void)                                          \
	{                                                                     \
		object = call;                                                \
		return outcome(object);                                       \
	}

/* What a step needs that `make_##name` makes. */
#define HAVE(name)                                                            \
	static void have_##name(void)                                         \
	{                                                                     \
		check(!make_##name(), #name ": %m");                          \
	}

static int open_device(void)
{
	struct ibv_device *device = devices[0].context->device;

	context = ibv_open_device(device);
	return outcome(context);
}

static void have_device(void)
{
	check(!open_device(), "open_device: %m");
}

UNDO(open_device, ibv_close_device, context)

/* A device is closed with all that is left in it, whatever fails meanwhile. */
static void have_full_device(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 2, 2, 0 },
	};
	struct ibv_pd *other;

	have_device();
	other = ibv_alloc_pd(context);
	init.send_cq = init.recv_cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	check(other && init.send_cq, "alloc_pd, create_cq: %m");
	check(ibv_create_qp(other, &init), "create_qp: %m");
	check(ibv_reg_mr(other, bytes, BYTES, ALL_ACCESS), "reg_mr: %m");
}

STEP(close_device, ibv_close_device(context))

MAKE(pd, pd, ibv_alloc_pd(devices[0].context))
HAVE(pd)
UNDO(pd, ibv_dealloc_pd, pd)
STEP(dealloc_pd, ibv_dealloc_pd(pd))

MAKE(mr, mr, ibv_reg_mr(devices[0].pd, bytes, BYTES, ALL_ACCESS | IBV_ACCESS_MW_BIND))
HAVE(mr)
UNDO(mr, ibv_dereg_mr, mr)
STEP(dereg_mr, ibv_dereg_mr(mr))

MAKE(channel, channel, ibv_create_comp_channel(devices[0].context))
UNDO(channel, ibv_destroy_comp_channel, channel)

MAKE(cq, cq, ibv_create_cq(devices[0].context, CQE, NULL, NULL, 0))
HAVE(cq)
UNDO(cq, ibv_destroy_cq, cq)
STEP(destroy_cq, ibv_destroy_cq(cq))
STEP(resize_cq, ibv_resize_cq(cq, MORE_CQE))
STEP(notify_cq, ibv_req_notify_cq(cq, 0))

static int make_cq_ex(void)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = CQE,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_SRC_QP,
	};

	cq_ex = ibv_create_cq_ex(devices[0].context, &init);
	return outcome(cq_ex);
}

static void undo_cq_ex(void)
{
	check(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), "destroy_cq: %m");
}

static int make_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = DEPTH,
						    .max_sge = 2 } };

	srq = ibv_create_srq(devices[0].pd, &init);
	return outcome(srq);
}

HAVE(srq)
UNDO(srq, ibv_destroy_srq, srq)
STEP(destroy_srq, ibv_destroy_srq(srq))

static int resize_srq(void)
{
	struct ibv_srq_attr attr = { .max_wr = 4 * DEPTH };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static int limit_srq(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 3 };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

static int query_srq(void)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(srq, &attr);
}

static int make_qp_of(enum ibv_qp_type of, struct ibv_srq *from)
{
	struct ibv_qp_init_attr init = {
		.qp_type = of,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = from,
		.cap = { DEPTH, from ? 0 : DEPTH, 2, from ? 0 : 2, 0 },
	};

	qp = ibv_create_qp(devices[0].pd, &init);
	return outcome(qp);
}

static int make_rc(void)
{
	return make_qp_of(IBV_QPT_RC, NULL);
}

static int make_uc(void)
{
	return make_qp_of(IBV_QPT_UC, NULL);
}

static int make_ud(void)
{
	return make_qp_of(IBV_QPT_UD, NULL);
}

static int make_rc_of_srq(void)
{
	return make_qp_of(IBV_QPT_RC, srq);
}

static int make_qp_ex(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ,
		.pd = devices[0].pd,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { DEPTH, DEPTH, 2, 2, 0 },
	};

	qp = ibv_create_qp_ex(devices[0].context, &init);
	return outcome(qp);
}

static void have_cq_and_srq(void)
{
	have_cq();
	have_srq();
}

static void have_rc(void)
{
	have_cq();
	check(!make_rc(), "create_qp: %m");
}

static void undo_qp(void)
{
	check(!ibv_destroy_qp(qp), "destroy_qp: %m");
	undo_cq();
}

static void undo_qp_of_srq(void)
{
	undo_qp();
	undo_srq();
}

STEP(destroy_qp, ibv_destroy_qp(qp))

static int query_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init);
}

static void have_ud(void)
{
	have_cq();
	check(!make_ud(), "create_qp: %m");
}

STEP(attach, ibv_attach_mcast(qp, &mgid, MLID))

static void undo_attach(void)
{
	check(!ibv_detach_mcast(qp, &mgid, MLID), "detach_mcast: %m");
	undo_qp();
}

static void have_attached(void)
{
	have_ud();
	check(!attach(), "attach_mcast: %m");
}

STEP(detach, ibv_detach_mcast(qp, &mgid, MLID))

static int make_ah_of(bool grh)
{
	struct ibv_ah_attr attr = path_to(&devices[0], &devices[1], grh);

	ah = ibv_create_ah(devices[0].pd, &attr);
	return outcome(ah);
}

static int make_ah(void)
{
	return make_ah_of(false);
}

static int make_ah_with_grh(void)
{
	return make_ah_of(true);
}

HAVE(ah)
UNDO(ah, ibv_destroy_ah, ah)
STEP(destroy_ah, ibv_destroy_ah(ah))

MAKE(mw_1, mw, ibv_alloc_mw(devices[0].pd, IBV_MW_TYPE_1))
HAVE(mw_1)
MAKE(mw_2, mw, ibv_alloc_mw(devices[0].pd, IBV_MW_TYPE_2))
UNDO(mw, ibv_dealloc_mw, mw)
STEP(dealloc_mw, ibv_dealloc_mw(mw))

static int query_device(void)
{
	struct ibv_device_attr attr;

	return ibv_query_device(devices[0].context, &attr);
}

static int query_device_ex(void)
{
	struct ibv_device_attr_ex attr;

	return ibv_query_device_ex(devices[0].context, NULL, &attr);
}

static int query_port(void)
{
	struct ibv_port_attr attr;

	return ibv_query_port(devices[0].context, devices[0].port, &attr);
}

static int query_gid(void)
{
	struct ibv_gid_entry entry;

	return ibv_query_gid_ex(devices[0].context, devices[0].port, 0, &entry,
				0);
}

/* From sysfs, where a question costs a file. */
static int query_pkey(void)
{
	__be16 pkey;

	return ibv_query_pkey(devices[0].context, devices[0].port, 0, &pkey) ?
		       (errno ? errno : ENOMEM) : 0;
}

static const struct step steps[] = {
	{ "open_device", NULL, open_device, undo_open_device, { ENOENT } },
	{ "close_device, empty", have_device, close_device, NULL, { 0 } },
	{ "close_device, with objects", have_full_device, close_device, NULL, { 0 } },
	{ "query_device", NULL, query_device, NULL, { 0 } },
	{ "query_device_ex", NULL, query_device_ex, NULL, { 0 } },
	{ "query_port", NULL, query_port, NULL, { 0 } },
	{ "query_gid", NULL, query_gid, NULL, { 0 } },
	{ "query_pkey", NULL, query_pkey, NULL, { 0 } },
	{ "alloc_pd", NULL, make_pd, undo_pd, { 0 } },
	{ "dealloc_pd", have_pd, dealloc_pd, NULL, { 0 } },
	{ "reg_mr", NULL, make_mr, undo_mr, { 0 } },
	{ "dereg_mr", have_mr, dereg_mr, NULL, { 0 } },
	{ "create_comp_channel", NULL, make_channel, undo_channel, { 0 } },
	{ "create_cq", NULL, make_cq, undo_cq, { 0 } },
	{ "create_cq_ex", NULL, make_cq_ex, undo_cq_ex, { 0 } },
	{ "resize_cq", have_cq, resize_cq, undo_cq, { 0 } },
	{ "req_notify_cq", have_cq, notify_cq, undo_cq, { 0 } },
	{ "destroy_cq", have_cq, destroy_cq, NULL, { 0 } },
	{ "create_srq", NULL, make_srq, undo_srq, { 0 } },
	{ "modify_srq, size", have_srq, resize_srq, undo_srq, { 0 } },
	{ "modify_srq, limit", have_srq, limit_srq, undo_srq, { 0 } },
	{ "query_srq", have_srq, query_srq, undo_srq, { 0 } },
	{ "destroy_srq", have_srq, destroy_srq, NULL, { 0 } },
	{ "create_qp, RC", have_cq, make_rc, undo_qp, { 0 } },
	{ "create_qp, UC", have_cq, make_uc, undo_qp, { 0 } },
	{ "create_qp, UD", have_cq, make_ud, undo_qp, { 0 } },
	{ "create_qp, RC with SRQ", have_cq_and_srq, make_rc_of_srq, undo_qp_of_srq, { 0 } },
	{ "create_qp_ex, RC", have_cq, make_qp_ex, undo_qp, { 0 } },
	{ "query_qp", have_rc, query_qp, undo_qp, { 0 } },
	{ "destroy_qp", have_rc, destroy_qp, undo_cq, { 0 } },
	{ "attach_mcast", have_ud, attach, undo_attach, { 0 } },
	{ "detach_mcast", have_attached, detach, undo_qp, { 0 } },
	{ "create_ah", NULL, make_ah, undo_ah, { 0 } },
	{ "create_ah with a GRH", NULL, make_ah_with_grh, undo_ah, { 0 } },
	{ "destroy_ah", have_ah, destroy_ah, NULL, { 0 } },
	{ "alloc_mw, type 1", NULL, make_mw_1, undo_mw, { 0 } },
	{ "alloc_mw, type 2", NULL, make_mw_2, undo_mw, { 0 } },
	{ "dealloc_mw", have_mw_1, dealloc_mw, NULL, { 0 } },
};

void sweep_objects(uint32_t stride, struct rng *rng)
{
	sweep(steps, ARRAY_SIZE(steps), stride, rng);
}
