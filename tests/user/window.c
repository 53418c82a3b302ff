// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows of both types, and SEND with invalidate: what peers may do
 * through them, until when, and what comes of what is wrong.
 *
 *     window [-o] DEVICE[:PORT] DEVICE[:PORT]
 *
 * End `b` owns the memory and the windows; end `a` comes through them.
 */

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WINDOW_AT 4096u
#define WINDOW_BYTES 1000u
#define SENT 64u
#define ROUNDS 300

static struct device devices[2];
static struct bench bench;
/* Of `b`: with leave to bind, and with less than that. */
static struct ibv_mr *bind_mr;
static struct ibv_mr *frozen_mr;
static struct ibv_mw *mw;
/* Another queue pair of `b`'s protection domain, and its peer. */
static struct end other_a, other_b;

static const struct end_options options = {
	.type = IBV_QPT_RC,
	.send_depth = BENCH_DEPTH,
	.recv_depth = BENCH_DEPTH,
	.sges = 1,
};

static struct ibv_mr *reg(unsigned int access)
{
	return bench_reg(devices[1].pd, bench.remote, access);
}

static void start(enum ibv_mw_type type)
{
	bench_create(&bench, &devices[0], &devices[1], &options);
	end_connect(&bench.a, &bench.b, &default_path);
	end_create(&other_a, &devices[0], &options);
	end_create(&other_b, &devices[1], &options);
	end_connect(&other_a, &other_b, &default_path);
	bind_mr = reg(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	frozen_mr = reg(IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(devices[1].pd, type);
	check(mw, "alloc_mw of type %d: %m", type);
}

static void stop(void)
{
	end_destroy(&other_a);
	end_destroy(&other_b);
	if (mw)
		check(!ibv_dealloc_mw(mw), "dealloc_mw: %m");
	check(!ibv_dereg_mr(bind_mr), "dereg_mr: %m");
	check(!ibv_dereg_mr(frozen_mr), "dereg_mr: %m");
	bench_destroy(&bench);
}

/* What a bind asks for. */
struct bind {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	unsigned int access;
};

#define RIGHTS                                                                \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                    \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct bind good_bind(void)
{
	return (struct bind){ bind_mr, (uintptr_t)bench.remote + WINDOW_AT,
			      WINDOW_BYTES, RIGHTS };
}

/* Posts a bind of `mw` at `end` with the key that follows its present one. */
static void post_bind(struct end *end, const struct bind *bind)
{
	struct ibv_mw_bind_info info = { bind->mr, bind->addr, bind->length,
					 bind->access };

	if (mw->type == IBV_MW_TYPE_1) {
		struct ibv_mw_bind request = { .wr_id = 50,
					       .send_flags = IBV_SEND_SIGNALED,
					       .bind_info = info };
		int error = ibv_bind_mw(end->qp, mw, &request);

		check(!error, "bind_mw: %s", strerror(error));
	} else {
		struct ibv_send_wr wr = { .wr_id = 50,
					  .opcode = IBV_WR_BIND_MW,
					  .send_flags = IBV_SEND_SIGNALED };

		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = info;
		post_send(end, &wr);
		mw->rkey = wr.bind_mw.rkey;
	}
}

static void bind_window(const struct bind *bind)
{
	struct ibv_wc wc;

	post_bind(&bench.b, bind);
	check(await(bench.b.send_cq, &wc, DUE_MS), "no completion of a bind");
	check(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW &&
		      wc.wr_id == 50,
	      "bind: '%s', opcode %d", ibv_wc_status_str(wc.status), wc.opcode);
}

static void post_invalidate(struct end *end, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 51,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = rkey };

	post_send(end, &wr);
}

/* `from` does `opcode` to `length` bytes at `addr`. */
static void post_access(struct end *from, enum ibv_wr_opcode opcode,
			uint64_t addr, uint32_t length, uint32_t rkey)
{
	struct ibv_sge sge = sge_local(&bench, length);
	struct ibv_send_wr wr = { .wr_id = 60,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	post_send(from, &wr);
}

static void access_window(const char *test, enum ibv_wr_opcode opcode,
			  uint64_t addr, uint32_t length,
			  enum ibv_wc_status status)
{
	post_access(&bench.a, opcode, addr, length, mw->rkey);
	expect(test, bench.a.send_cq, 60, status);
	if (status != IBV_WC_SUCCESS)
		expect_event(test, &devices[1], IBV_EVENT_QP_ACCESS_ERR);
}

/* A message that invalidates the window. */
static void post_send_inv(struct end *from, struct end *to)
{
	struct ibv_sge sge = sge_local(&bench, SENT);
	struct ibv_send_wr wr = { .wr_id = 61,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = mw->rkey,
				  .sg_list = &sge,
				  .num_sge = 1 };

	post_recvs(&bench, to, 100, 1, SENT);
	post_send(from, &wr);
}

static void capabilities(void)
{
	unsigned int all = IBV_DEVICE_MEM_WINDOW |
			   IBV_DEVICE_MEM_WINDOW_TYPE_2B |
			   IBV_DEVICE_MEM_MGT_EXTENSIONS;

	for (int i = 0; i < 2; i++) {
		check((devices[i].attr.device_cap_flags & all) == all,
		      "%s does not offer windows", devices[i].name);
		check(devices[i].attr.max_mw > 0, "max_mw is 0");
	}
}

/* Everything that a window allows, and to its last byte. */
static void all_rights(enum ibv_mw_type type)
{
	struct bind bind;
	uint64_t word = 41;

	start(type);
	bind = good_bind();
	bind_window(&bind);
	memset(bench.local, 0x11, BENCH_BYTES);
	access_window("WRITE", IBV_WR_RDMA_WRITE, bind.addr, WINDOW_BYTES,
		      IBV_WC_SUCCESS);
	check(!memcmp(bench.local, bench.remote + WINDOW_AT, WINDOW_BYTES) &&
		      bench.remote[WINDOW_AT - 1] == 0xbb &&
		      bench.remote[WINDOW_AT + WINDOW_BYTES] == 0xbb,
	      "a WRITE through a window wrote something else");
	memset(bench.remote + WINDOW_AT, 0x22, WINDOW_BYTES);
	access_window("READ", IBV_WR_RDMA_READ, bind.addr, WINDOW_BYTES,
		      IBV_WC_SUCCESS);
	check(!memcmp(bench.local, bench.remote + WINDOW_AT, WINDOW_BYTES),
	      "a READ through a window read something else");
	memcpy(bench.remote + WINDOW_AT, &word, 8);
	access_window("ATOMIC", IBV_WR_ATOMIC_FETCH_AND_ADD, bind.addr, 8,
		      IBV_WC_SUCCESS);
	memcpy(&word, bench.remote + WINDOW_AT, 8);
	check(word == 42, "an atomic operation through a window had no effect");
	check(ibv_dereg_mr(bind_mr) == EBUSY,
	      "a region with a window was deregistered");
	stop();
}

struct refusal {
	const char *name;
	enum ibv_wr_opcode opcode;
	int64_t offset;
	uint32_t length;
	/* Of the window. */
	unsigned int access;
};

static const struct refusal refusals[] = {
	{ "beyond", IBV_WR_RDMA_WRITE, 1, WINDOW_BYTES, RIGHTS },
	{ "before", IBV_WR_RDMA_WRITE, -1, WINDOW_BYTES, RIGHTS },
	{ "READ beyond", IBV_WR_RDMA_READ, WINDOW_BYTES, 1, RIGHTS },
	{ "WRITE without leave", IBV_WR_RDMA_WRITE, 0, 8,
	  RIGHTS & ~IBV_ACCESS_REMOTE_WRITE },
	{ "READ without leave", IBV_WR_RDMA_READ, 0, 8,
	  RIGHTS & ~IBV_ACCESS_REMOTE_READ },
	{ "atomic without leave", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8,
	  RIGHTS & ~IBV_ACCESS_REMOTE_ATOMIC },
};

static void refused(enum ibv_mw_type type, const struct refusal *refusal)
{
	struct bind bind;

	start(type);
	bind = good_bind();
	bind.access = refusal->access;
	bind_window(&bind);
	access_window(refusal->name, refusal->opcode,
		      bind.addr + refusal->offset, refusal->length,
		      IBV_WC_REM_ACCESS_ERR);
	stop();
}

/* The window's key is none for the owner, and the region's none for peers. */
static void keys(enum ibv_mw_type type)
{
	struct bind bind;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 62,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1 };

	start(type);
	bind = good_bind();
	bind_window(&bind);
	sge = (struct ibv_sge){ bind.addr, 8, mw->rkey };
	post_send(&bench.b, &wr);
	expect("the window's key at home", bench.b.send_cq, 62,
	       IBV_WC_LOC_PROT_ERR);
	stop();

	start(type);
	bind = good_bind();
	bind_window(&bind);
	post_access(&bench.a, IBV_WR_RDMA_WRITE, bind.addr, 8, bind_mr->rkey);
	expect("the region's key abroad", bench.a.send_cq, 60,
	       IBV_WC_REM_ACCESS_ERR);
	expect_event("the region's key abroad", &devices[1],
		     IBV_EVENT_QP_ACCESS_ERR);
	stop();
}

/* The key before the bind, and the one before that, are dead. */
static void rebind(void)
{
	struct bind bind;
	uint32_t old;

	start(IBV_MW_TYPE_1);
	bind = good_bind();
	for (int round = 0; round < ROUNDS; round++) {
		bind.addr = (uintptr_t)bench.remote + round;
		bind_window(&bind);
		access_window("rebound", IBV_WR_RDMA_WRITE, bind.addr, 8,
			      IBV_WC_SUCCESS);
	}
	old = mw->rkey;
	bind_window(&bind);
	post_access(&bench.a, IBV_WR_RDMA_WRITE, bind.addr, 8, old);
	expect("old key", bench.a.send_cq, 60, IBV_WC_REM_ACCESS_ERR);
	expect_event("old key", &devices[1], IBV_EVENT_QP_ACCESS_ERR);
	stop();

	/* Bound to nothing. */
	start(IBV_MW_TYPE_1);
	bind = good_bind();
	bind_window(&bind);
	bind_window(&(struct bind){ bind_mr, 0, 0, 0 });
	access_window("unbound", IBV_WR_RDMA_WRITE, bind.addr, 8,
		      IBV_WC_REM_ACCESS_ERR);
	check(!ibv_dereg_mr(bind_mr), "an unbound window holds its region: %m");
	bind_mr = reg(0);
	stop();
}

/* Addresses of a window that count from its start. */
static void zero_based(void)
{
	struct bind bind;

	start(IBV_MW_TYPE_2);
	bind = good_bind();
	bind.access |= IBV_ACCESS_ZERO_BASED;
	bind_window(&bind);
	memset(bench.local, 0x33, BENCH_BYTES);
	access_window("from 0", IBV_WR_RDMA_WRITE, 0, WINDOW_BYTES,
		      IBV_WC_SUCCESS);
	check(!memcmp(bench.local, bench.remote + WINDOW_AT, WINDOW_BYTES),
	      "a zero-based window is somewhere else");
	access_window("beyond, from 0", IBV_WR_RDMA_WRITE, 1, WINDOW_BYTES,
		      IBV_WC_REM_ACCESS_ERR);
	stop();
}

/* How a window of type 2 ends. */
enum end_of_window { LOCAL, REMOTE, DEALLOC };

static void ended(enum end_of_window how)
{
	struct bind bind;
	struct ibv_wc wc;

	start(IBV_MW_TYPE_2);
	bind = good_bind();
	bind_window(&bind);
	access_window("valid", IBV_WR_RDMA_WRITE, bind.addr, 8, IBV_WC_SUCCESS);
	switch (how) {
	case LOCAL:
		post_invalidate(&bench.b, mw->rkey);
		check(await(bench.b.send_cq, &wc, DUE_MS), "no completion");
		check(wc.status == IBV_WC_SUCCESS &&
			      wc.opcode == IBV_WC_LOCAL_INV,
		      "LOCAL_INV: '%s', opcode %d",
		      ibv_wc_status_str(wc.status), wc.opcode);
		break;
	case REMOTE:
		post_send_inv(&bench.a, &bench.b);
		expect("SEND_WITH_INV", bench.a.send_cq, 61, IBV_WC_SUCCESS);
		check(await(bench.b.recv_cq, &wc, DUE_MS), "no completion");
		check(wc.status == IBV_WC_SUCCESS && wc.byte_len == SENT &&
			      (wc.wc_flags & IBV_WC_WITH_INV) &&
			      wc.invalidated_rkey == mw->rkey,
		      "receive: '%s', flags %x, key %x",
		      ibv_wc_status_str(wc.status), wc.wc_flags,
		      wc.invalidated_rkey);
		break;
	case DEALLOC:
		break;
	}
	if (how == DEALLOC) {
		uint32_t rkey = mw->rkey;

		check(!ibv_dealloc_mw(mw), "dealloc_mw: %m");
		mw = NULL;
		post_access(&bench.a, IBV_WR_RDMA_WRITE, bind.addr, 8, rkey);
		expect("deallocated", bench.a.send_cq, 60,
		       IBV_WC_REM_ACCESS_ERR);
		expect_event("deallocated", &devices[1],
			     IBV_EVENT_QP_ACCESS_ERR);
	} else {
		/* Bound again, invalid again, and then used. */
		bind_window(&bind);
		access_window("valid again", IBV_WR_RDMA_WRITE, bind.addr, 8,
			      IBV_WC_SUCCESS);
		post_invalidate(&bench.b, mw->rkey);
		expect("LOCAL_INV", bench.b.send_cq, 51, IBV_WC_SUCCESS);
		access_window("invalid", IBV_WR_RDMA_WRITE, bind.addr, 8,
			      IBV_WC_REM_ACCESS_ERR);
	}
	check(!ibv_dereg_mr(bind_mr), "a dead window holds its region: %m");
	bind_mr = reg(0);
	stop();
}

/* A window of type 2 belongs to one queue pair. */
static void foreign(void)
{
	struct bind bind;

	start(IBV_MW_TYPE_2);
	bind = good_bind();
	bind_window(&bind);
	post_access(&other_a, IBV_WR_RDMA_WRITE, bind.addr, 8, mw->rkey);
	expect("another queue pair", other_a.send_cq, 60,
	       IBV_WC_REM_ACCESS_ERR);
	expect_event("another queue pair", &devices[1],
		     IBV_EVENT_QP_ACCESS_ERR);
	access_window("its own", IBV_WR_RDMA_WRITE, bind.addr, 8,
		      IBV_WC_SUCCESS);
	stop();

	start(IBV_MW_TYPE_2);
	bind = good_bind();
	bind_window(&bind);
	post_send_inv(&other_a, &other_b);
	expect("another one invalidates", other_a.send_cq, 61,
	       IBV_WC_REM_ACCESS_ERR);
	expect("another one invalidates", other_b.recv_cq, 100,
	       IBV_WC_LOC_ACCESS_ERR);
	post_invalidate(&other_b, mw->rkey);
	expect("in error", other_b.send_cq, 51, IBV_WC_WR_FLUSH_ERR);
	access_window("still valid", IBV_WR_RDMA_WRITE, bind.addr, 8,
		      IBV_WC_SUCCESS);
	stop();

	/* One of type 1 belongs to the protection domain. */
	start(IBV_MW_TYPE_1);
	bind = good_bind();
	bind_window(&bind);
	post_access(&other_a, IBV_WR_RDMA_WRITE, bind.addr, 8, mw->rkey);
	expect("type 1", other_a.send_cq, 60, IBV_WC_SUCCESS);
	stop();
}

/* What cannot be bound, or invalidated. */
static void bad_binds(enum ibv_mw_type type)
{
	enum {
		NO_LEAVE,
		FROZEN,
		BEYOND,
		BEFORE,
		AROUND,
		/* Of one type alone. */
		SPECIAL,
		COUNT,
	};

	for (int i = 0; i < COUNT; i++) {
		struct bind bind;

		start(type);
		bind = good_bind();
		switch (i) {
		case NO_LEAVE:
			bind.mr = bench.remote_mr;
			break;
		case FROZEN:
			bind.mr = frozen_mr;
			break;
		case BEYOND:
			bind.length = BENCH_BYTES - WINDOW_AT + 1;
			break;
		case BEFORE:
			bind.addr = (uintptr_t)bench.remote - 1;
			break;
		case AROUND:
			bind.length = UINT64_MAX;
			break;
		case SPECIAL:
			if (type == IBV_MW_TYPE_2)
				/* While it is bound. */
				bind_window(&bind);
			else
				/* No way to invalidate it. */
				goto invalidate;
			break;
		}
		post_bind(&bench.b, &bind);
		expect("bad bind", bench.b.send_cq, 50, IBV_WC_MW_BIND_ERR);
		check(end_state(&bench.b) == IBV_QPS_ERR, "no error state");
		stop();
		continue;
invalidate:
		bind_window(&bind);
		post_invalidate(&bench.b, mw->rkey);
		expect("LOCAL_INV of type 1", bench.b.send_cq, 51,
		       IBV_WC_MW_BIND_ERR);
		stop();
	}

	/* Read-only memory may be read through a window. */
	start(type);
	struct bind bind = good_bind();

	bind.mr = frozen_mr;
	bind.access = IBV_ACCESS_REMOTE_READ;
	bind_window(&bind);
	access_window("READ", IBV_WR_RDMA_READ, bind.addr, 8, IBV_WC_SUCCESS);
	stop();

	/* A region is not a window. */
	start(type);
	post_invalidate(&bench.b, bind_mr->rkey);
	expect("LOCAL_INV of a region", bench.b.send_cq, 51,
	       IBV_WC_MW_BIND_ERR);
	stop();
}

/* Bind, tell the peer, be written to, be invalidated: one after the other. */
static void cycle(void)
{
	struct bind bind;
	struct ibv_wc wc;

	start(IBV_MW_TYPE_2);
	bind = good_bind();
	for (int round = 0; round < ROUNDS; round++) {
		memset(bench.local, round, BENCH_BYTES);
		bind_window(&bind);
		post_access(&bench.a, IBV_WR_RDMA_WRITE, bind.addr,
			    WINDOW_BYTES, mw->rkey);
		post_access(&bench.a, IBV_WR_RDMA_READ, bind.addr,
			    WINDOW_BYTES, mw->rkey);
		post_send_inv(&bench.a, &bench.b);
		expect("WRITE", bench.a.send_cq, 60, IBV_WC_SUCCESS);
		expect("READ", bench.a.send_cq, 60, IBV_WC_SUCCESS);
		expect("SEND_WITH_INV", bench.a.send_cq, 61, IBV_WC_SUCCESS);
		check(await(bench.b.recv_cq, &wc, DUE_MS) &&
			      wc.status == IBV_WC_SUCCESS &&
			      wc.invalidated_rkey == mw->rkey,
		      "the message did not arrive, or did not invalidate");
		check(bench.remote[WINDOW_AT + WINDOW_BYTES - 1] ==
			      (uint8_t)round,
		      "a WRITE is missing");
	}
	stop();
}

/* Windows that are bound when the program ends: one older than its region, and
 * one younger. Somebody else has to clean up. */
static void leave_bound(void)
{
	struct bind bind;

	start(IBV_MW_TYPE_2);
	bind = good_bind();
	bind_window(&bind);
	bind.mr = reg(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	post_invalidate(&bench.b, mw->rkey);
	expect("LOCAL_INV", bench.b.send_cq, 51, IBV_WC_SUCCESS);
	bind_window(&bind);
	mw = ibv_alloc_mw(devices[1].pd, IBV_MW_TYPE_1);
	check(mw, "alloc_mw: %m");
	bind_window(&bind);
}

int main(int argc, char **argv)
{
	const enum ibv_mw_type types[] = { IBV_MW_TYPE_1, IBV_MW_TYPE_2 };

	bench_options(&argc, &argv);
	check(argc == 3, "usage: window [-o] DEVICE[:PORT] DEVICE[:PORT]");
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], argv[i + 1]);
	capabilities();
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		all_rights(types[i]);
		for (size_t j = 0; j < ARRAY_SIZE(refusals); j++)
			refused(types[i], &refusals[j]);
		keys(types[i]);
		bad_binds(types[i]);
	}
	rebind();
	zero_based();
	for (enum end_of_window how = LOCAL; how <= DEALLOC; how++)
		ended(how);
	foreign();
	cycle();
	leave_bound();
	printf("window: %d cycles\n", ROUNDS);
	return 0;
}
