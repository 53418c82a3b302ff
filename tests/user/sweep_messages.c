// SPDX-License-Identifier: GPL-2.0
/*
 * Whole messages of each opcode, of which an allocation fails on their way from the
 * doorbell on.
 *
 * The doorbell allocates in ib_core. When that fails, the work request stays in the
 * ring, as librxe has it, and the next doorbell takes it. A datagram that cannot be
 * made is lost: a reliable connection repeats it; other messages may be lost with it,
 * but those after them arrive.
 */

#include "sweep.h"
#include "bench.h"
#include "inject.h"
#include "rings.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define LENGTH 20000u
#define DATAGRAM 1000u
#define MOST_ALLOCATIONS 1000

struct kind {
	const char *name;
	enum ibv_qp_type type;
	/* 0: by the calls of extended queue pairs. */
	enum ibv_wr_opcode opcode;
	/* What is posted to the receiving end for each. */
	bool takes_recv;
	bool with_srq;
	int (*post)(uint32_t sequence);
};

static struct bench bench;
static struct ibv_ah *ah;
static struct ibv_mw *mw;
static struct ibv_mr *bind_mr;
static const struct kind *kind;


static uint32_t length_of(const struct kind *of)
{
	return of->type == IBV_QPT_UD ? DATAGRAM : LENGTH;
}

/* The work request of the message with this number, through ibv_post_send. */
static int post_message(uint32_t sequence)
{
	struct ibv_sge sge = sge_local(&bench, length_of(kind));
	struct ibv_send_wr *bad, wr = {
		.wr_id = sequence,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = kind->opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = sequence,
	};

	if (kind->type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = bench.b.qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)bench.remote;
		wr.wr.rdma.rkey = bench.remote_mr->rkey;
	}
	return ibv_post_send(bench.a.qp, &wr, &bad);
}

static int post_atomic(uint32_t sequence)
{
	struct ibv_sge sge = sge_local(&bench, 8);
	struct ibv_send_wr *bad, wr = {
		.wr_id = sequence,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = kind->opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = (uintptr_t)bench.remote,
			       .rkey = bench.remote_mr->rkey },
	};

	return ibv_post_send(bench.a.qp, &wr, &bad);
}

/* A window is bound and invalidated in one go. */
static int post_window(uint32_t sequence)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	int error;
	struct ibv_send_wr *bad, wrs[2] = {
		{ .wr_id = sequence,
		  .next = &wrs[1],
		  .opcode = IBV_WR_BIND_MW,
		  .bind_mw = { .mw = mw,
			       .rkey = rkey,
			       .bind_info = { bind_mr, (uintptr_t)bench.local,
					      4096, IBV_ACCESS_REMOTE_READ } } },
		{ .wr_id = sequence,
		  .opcode = IBV_WR_LOCAL_INV,
		  .send_flags = IBV_SEND_SIGNALED,
		  .invalidate_rkey = rkey },
	};

	/* librxe asks the window for the key that it has now. */
	error = ibv_post_send(bench.a.qp, wrs, &bad);
	mw->rkey = rkey;
	return error;
}

static struct ibv_qp_ex *begin(uint32_t sequence)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(bench.a.qp);

	check(qp, "no extended queue pair");
	ibv_wr_start(qp);
	qp->wr_id = sequence;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static int post_flush(uint32_t sequence)
{
	struct ibv_qp_ex *qp = begin(sequence);

	ibv_wr_flush(qp, bench.remote_mr->rkey, (uintptr_t)bench.remote, 64,
		     IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	return ibv_wr_complete(qp);
}

static int post_atomic_write(uint32_t sequence)
{
	static const uint8_t value[8] = "atomic!";
	struct ibv_qp_ex *qp = begin(sequence);

	ibv_wr_atomic_write(qp, bench.remote_mr->rkey, (uintptr_t)bench.remote,
			    value);
	return ibv_wr_complete(qp);
}

static void recv_one(void)
{
	struct ibv_sge sge = sge_remote(&bench, BENCH_BYTES);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	post_recv(&bench.b, &wr);
}

static void fill(uint32_t sequence)
{
	memset(bench.local, sequence, length_of(kind));
	memset(bench.remote, ~sequence, BENCH_BYTES);
}

static void check_bytes(uint32_t sequence)
{
	uint32_t skip = kind->type == IBV_QPT_UD ? GRH_BYTES : 0;
	uint32_t length = length_of(kind);
	uint8_t byte = sequence;

	if (kind->opcode == IBV_WR_RDMA_READ)
		byte = ~byte;
	else if (!kind->takes_recv)
		return;
	for (uint32_t i = 0; i < length; i++)
		check(bench.remote[skip + i] == byte && bench.local[i] == byte,
		      "%s, message %u: byte %u is wrong", kind->name, sequence, i);
}

/* Posts a message and waits until it is sent; the `nth` allocation fails, none if that
 * is 0. Returns whether one has. */
static bool send_message(uint32_t sequence, int nth, unsigned long *failed)
{
	struct ibv_wc wc;
	bool injected;
	int error;

	fill(sequence);
	inject_arm(nth);
	error = kind->post(sequence);
	injected = inject_disarm() && nth;
	check(!error || (injected && error == ENOMEM), "%s, allocation %d: %s",
	      kind->name, nth, strerror(error));
	if (error) {
		++*failed;
		error = ring_bell(bench.a.qp);
		check(!error, "%s: doorbell after a failure: %s", kind->name,
		      strerror(error));
	}
	check(await(bench.a.send_cq, &wc, DUE_MS),
	      "%s, allocation %d: no completion", kind->name, nth);
	check(wc.status == IBV_WC_SUCCESS && wc.wr_id == sequence,
	      "%s, allocation %d: '%s' of message %llu, not %u", kind->name, nth,
	      ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id,
	      sequence);
	check(!await(bench.a.send_cq, &wc, 0), "%s: one too many", kind->name);
	return injected;
}

/* Waits for the arrival of the message with this number. What comes before it is the
 * one before it. */
static void arrive(uint32_t sequence)
{
	struct ibv_wc wc;

	do {
		check(await(bench.b.recv_cq, &wc, DUE_MS),
		      "%s: message %u does not arrive", kind->name, sequence);
		check(wc.status == IBV_WC_SUCCESS, "%s: '%s' at the receiver",
		      kind->name, ibv_wc_status_str(wc.status));
		check(wc.imm_data == sequence || wc.imm_data + 1 == sequence,
		      "%s: message %u arrives, not %u", kind->name, wc.imm_data,
		      sequence);
		recv_one();
	} while (wc.imm_data != sequence);
	check_bytes(sequence);
}

static void begin_kind(const struct kind *of)
{
	struct end_options options = {
		.type = of->type,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 1,
		.with_srq = of->with_srq,
	};
	struct path_options path = default_path;

	kind = of;
	if (!of->opcode)
		options.send_ops = IBV_QP_EX_WITH_FLUSH |
				   IBV_QP_EX_WITH_ATOMIC_WRITE;
	bench_create(&bench, &devices[0], &devices[1], &options);
	path.access |= IBV_ACCESS_FLUSH_GLOBAL;
	end_connect(&bench.a, &bench.b, of->type == IBV_QPT_RC ? &path : &default_path);
	check(!ibv_dereg_mr(bench.remote_mr), "dereg_mr: %m");
	bench.remote_mr = ibv_reg_mr(devices[1].pd, bench.remote, BENCH_BYTES,
				     ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL);
	bind_mr = ibv_reg_mr(devices[0].pd, bench.local, BENCH_BYTES,
			     ALL_ACCESS | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(devices[0].pd, IBV_MW_TYPE_2);
	check(bench.remote_mr && bind_mr && mw, "memory: %m");
	if (of->type == IBV_QPT_UD) {
		struct ibv_ah_attr attr = path_to(&devices[0], &devices[1], false);

		ah = ibv_create_ah(devices[0].pd, &attr);
		check(ah, "create_ah: %m");
	}
	for (int i = 0; i < 3; i++)
		recv_one();
}

static void end_kind(void)
{
	if (kind->type == IBV_QPT_UD)
		check(!ibv_destroy_ah(ah), "destroy_ah: %m");
	check(!ibv_dealloc_mw(mw), "dealloc_mw: %m");
	check(!ibv_dereg_mr(bind_mr), "dereg_mr: %m");
	bench_destroy(&bench);
}

static void sweep_kind(const struct kind *of, uint32_t stride, struct rng *rng)
{
	unsigned long injected = 0, failed = 0;
	int nth = 1 + rng_below(rng, stride);
	uint64_t began = now_ms();
	uint32_t sequence = 1;
	bool more;

	begin_kind(of);
	do {
		more = send_message(sequence, nth, &failed);
		/* Who may lose a message gets another one, which must arrive. */
		if (more && of->takes_recv && of->type != IBV_QPT_RC)
			send_message(++sequence, 0, &failed);
		if (of->takes_recv)
			arrive(sequence);
		else
			check_bytes(sequence);
		injected += more;
		sequence++;
		nth += stride;
		check(nth < MOST_ALLOCATIONS, "%s: no end", of->name);
	} while (more);
	end_kind();
	printf("%-40s %6lu allocations, %6lu failures, %6llu ms\n", of->name,
	       injected, failed, (unsigned long long)(now_ms() - began));
	fflush(stdout);
	sweep_injected += injected;
	sweep_failed += failed;
}

static const struct kind kinds[] = {
	{ "RC SEND", IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, true, false, post_message },
	{ "RC SEND to an SRQ", IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, true, true, post_message },
	{ "RC RDMA WRITE", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, true, false, post_message },
	{ "RC RDMA READ", IBV_QPT_RC, IBV_WR_RDMA_READ, false, false, post_message },
	{ "RC CMP_SWAP", IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, false, false, post_atomic },
	{ "RC FETCH_ADD", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, false, false, post_atomic },
	{ "RC BIND_MW and LOCAL_INV", IBV_QPT_RC, IBV_WR_BIND_MW, false, false, post_window },
	{ "RC FLUSH", IBV_QPT_RC, 0, false, false, post_flush },
	{ "RC ATOMIC WRITE", IBV_QPT_RC, 0, false, false, post_atomic_write },
	{ "UC SEND", IBV_QPT_UC, IBV_WR_SEND_WITH_IMM, true, false, post_message },
	{ "UC RDMA WRITE", IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, true, false, post_message },
	{ "UD SEND", IBV_QPT_UD, IBV_WR_SEND_WITH_IMM, true, false, post_message },
};

void sweep_messages(uint32_t stride, struct rng *rng)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		sweep_kind(&kinds[i], stride, rng);
}
