// SPDX-License-Identifier: GPL-2.0
/*
 * What comes of each fault of a reliable connection: the status at both sides,
 * the event, and that all other work requests are flushed once, in order.
 * Documentation/errors.rst has the same table.
 *
 * The requester posts, in one go: a SEND and an RDMA WRITE that are right, the
 * faulty one, and some more, of which every second asks for no completion. A
 * flush completes all of them.
 */

#include "bench.h"

#include <stdio.h>
#include <string.h>

#define TRAILING 6
#define RECVS 8
#define RECV_BYTES 1024u
#define MESSAGE 512u

enum {
	SEND_OK = 1,
	WRITE_OK,
	FAULTY,
	FLUSHED,
	RECV = 100,
};

/* Where a fault leaves the responder. */
enum fate {
	/* In the error state, its receives flushed. */
	FATAL,
	/* As it was. */
	UNHARMED,
	/* It has been in the error state before, or is gone. */
	DOWN,
};

struct fault {
	const char *name;
	/* Changes the faulty work request, an RDMA WRITE that is right. */
	void (*spoil)(struct bench *bench, struct ibv_send_wr *wr,
		      struct ibv_sge *sge);
	enum ibv_wc_status sent;
	enum fate fate;
	/* Of the receive that was in use. */
	enum ibv_wc_status received;
	/* What the responder is told; 0: nothing. */
	enum ibv_event_type event;
	/* Changes how the ends are connected. */
	void (*path)(struct path_options *a, struct path_options *b);
	/* Changes the responder, once connected. */
	void (*peer)(struct bench *bench);
	int recvs;
};

/* Memory and keys that are none for the queue pairs of the test. */
static struct {
	uint8_t bytes[BENCH_BYTES];
	struct ibv_pd *pds[2];
	struct ibv_mr *mrs[2];
	/* Of the responder's protection domain, and deregistered. */
	uint32_t dead_rkey;
	/* Of the responder's protection domain, and not bound. */
	struct ibv_mw *mw;
} strange;

static void wrong_rkey(struct bench *bench, struct ibv_send_wr *wr,
		       struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->wr.rdma.rkey ^= 0x5a5a5a;
}

static void read_wrong_rkey(struct bench *bench, struct ibv_send_wr *wr,
			    struct ibv_sge *sge)
{
	wrong_rkey(bench, wr, sge);
	wr->opcode = IBV_WR_RDMA_READ;
}

static void atomic(struct bench *bench, struct ibv_send_wr *wr,
		   struct ibv_sge *sge)
{
	sge->length = 8;
	wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr->wr.atomic.remote_addr = (uintptr_t)bench->remote;
	wr->wr.atomic.rkey = bench->remote_mr->rkey;
	wr->wr.atomic.compare_add = 1;
}

static void atomic_wrong_rkey(struct bench *bench, struct ibv_send_wr *wr,
			      struct ibv_sge *sge)
{
	atomic(bench, wr, sge);
	wr->wr.atomic.rkey ^= 0x5a5a5a;
}

static void beyond(struct bench *bench, struct ibv_send_wr *wr,
		   struct ibv_sge *sge)
{
	wr->wr.rdma.remote_addr =
		(uintptr_t)bench->remote + BENCH_BYTES - sge->length + 1;
}

static void before(struct bench *bench, struct ibv_send_wr *wr,
		   struct ibv_sge *sge)
{
	(void)sge;
	wr->wr.rdma.remote_addr = (uintptr_t)bench->remote - 1;
}

static void around(struct bench *bench, struct ibv_send_wr *wr,
		   struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->wr.rdma.remote_addr = UINT64_MAX - 16;
}

static void read_beyond(struct bench *bench, struct ibv_send_wr *wr,
			struct ibv_sge *sge)
{
	beyond(bench, wr, sge);
	wr->opcode = IBV_WR_RDMA_READ;
}

static void into_readable(struct bench *bench, struct ibv_send_wr *wr,
			  struct ibv_sge *sge)
{
	(void)sge;
	wr->wr.rdma.rkey = bench->readable_mr->rkey;
}

static void from_writable(struct bench *bench, struct ibv_send_wr *wr,
			  struct ibv_sge *sge)
{
	(void)sge;
	wr->opcode = IBV_WR_RDMA_READ;
	wr->wr.rdma.rkey = bench->writable_mr->rkey;
}

static void atomic_on_writable(struct bench *bench, struct ibv_send_wr *wr,
			       struct ibv_sge *sge)
{
	atomic(bench, wr, sge);
	wr->wr.atomic.rkey = bench->writable_mr->rkey;
}

static void write_right(struct bench *bench, struct ibv_send_wr *wr,
			struct ibv_sge *sge)
{
	(void)bench, (void)wr, (void)sge;
}

static void read_right(struct bench *bench, struct ibv_send_wr *wr,
		       struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->opcode = IBV_WR_RDMA_READ;
}

static void send_right(struct bench *bench, struct ibv_send_wr *wr,
		       struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->opcode = IBV_WR_SEND;
}

static void wrong_lkey(struct bench *bench, struct ibv_send_wr *wr,
		       struct ibv_sge *sge)
{
	(void)bench, (void)wr;
	sge->lkey ^= 0x5a5a5a;
}

static void send_wrong_lkey(struct bench *bench, struct ibv_send_wr *wr,
			    struct ibv_sge *sge)
{
	wrong_lkey(bench, wr, sge);
	wr->opcode = IBV_WR_SEND;
}

/* What is the key of all memory for clients in the kernel is none for programs. */
static void send_key_of_kernel(struct bench *bench, struct ibv_send_wr *wr,
			       struct ibv_sge *sge)
{
	(void)bench;
	sge->lkey = 0;
	wr->opcode = IBV_WR_SEND;
}

static void read_key_of_kernel(struct bench *bench, struct ibv_send_wr *wr,
			       struct ibv_sge *sge)
{
	(void)bench;
	sge->lkey = 0;
	wr->opcode = IBV_WR_RDMA_READ;
}

static void write_key_of_kernel(struct bench *bench, struct ibv_send_wr *wr,
				struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->wr.rdma.rkey = 0;
}

static void local_beyond(struct bench *bench, struct ibv_send_wr *wr,
			 struct ibv_sge *sge)
{
	(void)wr;
	sge->addr = (uintptr_t)bench->local + BENCH_BYTES - sge->length + 1;
}

static void read_into_frozen(struct bench *bench, struct ibv_send_wr *wr,
			     struct ibv_sge *sge)
{
	wr->opcode = IBV_WR_RDMA_READ;
	sge->lkey = bench->frozen_mr->lkey;
}

static void send_too_long(struct bench *bench, struct ibv_send_wr *wr,
			  struct ibv_sge *sge)
{
	(void)bench;
	wr->opcode = IBV_WR_SEND;
	sge->length = RECV_BYTES + 1;
}

static void send_far_too_long(struct bench *bench, struct ibv_send_wr *wr,
			      struct ibv_sge *sge)
{
	(void)bench;
	wr->opcode = IBV_WR_SEND;
	sge->length = BENCH_BYTES;
}

static void write_to_foreign_pd(struct bench *bench, struct ibv_send_wr *wr,
				struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->wr.rdma.remote_addr = (uintptr_t)strange.bytes;
	wr->wr.rdma.rkey = strange.mrs[1]->rkey;
}

static void write_with_dead_rkey(struct bench *bench, struct ibv_send_wr *wr,
				 struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->wr.rdma.remote_addr = (uintptr_t)strange.bytes;
	wr->wr.rdma.rkey = strange.dead_rkey;
}

static void write_through_unbound_window(struct bench *bench,
					 struct ibv_send_wr *wr,
					 struct ibv_sge *sge)
{
	(void)bench, (void)sge;
	wr->wr.rdma.rkey = strange.mw->rkey;
}

static void write_from_foreign_pd(struct bench *bench, struct ibv_send_wr *wr,
				  struct ibv_sge *sge)
{
	(void)bench, (void)wr;
	sge->addr = (uintptr_t)strange.bytes;
	sge->lkey = strange.mrs[0]->lkey;
}

static void invalidate_region(struct bench *bench, struct ibv_send_wr *wr,
			      struct ibv_sge *sge)
{
	(void)sge;
	wr->opcode = IBV_WR_SEND_WITH_INV;
	wr->invalidate_rkey = bench->remote_mr->rkey;
}

static void peer_may_only_read(struct path_options *a, struct path_options *b)
{
	(void)a;
	b->access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
}

static void peer_answers_no_reads(struct path_options *a,
				  struct path_options *b)
{
	(void)a;
	b->rd_atomic = 0;
}

static void peer_serves_no_reads(struct path_options *a,
				 struct path_options *b)
{
	(void)a;
	b->access = IBV_ACCESS_REMOTE_WRITE;
}

static void one_rnr_retry(struct path_options *a, struct path_options *b)
{
	(void)b;
	a->rnr_retries = 1;
}

static void few_retries(struct path_options *a, struct path_options *b)
{
	(void)b;
	a->timeout = 12;
	a->retries = 2;
}

static void destroy_peer(struct bench *bench)
{
	end_destroy(&bench->b);
	bench->b.qp = NULL;
}

static void peer_to_error(struct bench *bench)
{
	end_to(&bench->b, IBV_QPS_ERR);
}

static void peer_to_reset(struct bench *bench)
{
	end_to(&bench->b, IBV_QPS_RESET);
}

static void post_recvs_with(struct bench *bench, uint32_t lkey)
{
	struct ibv_sge sge = sge_remote(bench, RECV_BYTES);

	sge.lkey = lkey;
	for (int i = 1; i < RECVS; i++) {
		struct ibv_recv_wr wr = { .wr_id = RECV + i,
					  .sg_list = &sge,
					  .num_sge = 1 };

		post_recv(&bench->b, &wr);
	}
}

static void wrong_recv_lkey(struct bench *bench)
{
	post_recvs_with(bench, bench->remote_mr->lkey ^ 0x5a5a5a);
}

static void recv_key_of_kernel(struct bench *bench)
{
	post_recvs_with(bench, 0);
}

#define ACCESS IBV_WC_REM_ACCESS_ERR, FATAL, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR
#define INVALID IBV_WC_REM_INV_REQ_ERR, FATAL, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_REQ_ERR
#define LOCAL IBV_WC_LOC_PROT_ERR, UNHARMED, 0, 0
#define GONE IBV_WC_RETRY_EXC_ERR, DOWN, 0, 0

static const struct fault faults[] = {
	{ "WRITE with a wrong R_Key", wrong_rkey, ACCESS, .recvs = RECVS },
	{ "READ with a wrong R_Key", read_wrong_rkey, ACCESS, .recvs = RECVS },
	{ "atomic with a wrong R_Key", atomic_wrong_rkey, ACCESS, .recvs = RECVS },
	{ "WRITE beyond the end", beyond, ACCESS, .recvs = RECVS },
	{ "WRITE before the beginning", before, ACCESS, .recvs = RECVS },
	{ "WRITE around the end of the address space", around, ACCESS, .recvs = RECVS },
	{ "READ beyond the end", read_beyond, ACCESS, .recvs = RECVS },
	{ "WRITE to memory that may only be read", into_readable, ACCESS, .recvs = RECVS },
	{ "READ of memory that may only be written", from_writable, ACCESS, .recvs = RECVS },
	{ "atomic on memory without that right", atomic_on_writable, ACCESS, .recvs = RECVS },
	{ "WRITE to memory of another PD", write_to_foreign_pd, ACCESS, .recvs = RECVS },
	{ "WRITE with the key of a region that is gone", write_with_dead_rkey, ACCESS, .recvs = RECVS },
	{ "WRITE through a window that is not bound", write_through_unbound_window, ACCESS,
	  .recvs = RECVS },
	{ "WRITE with R_Key 0", write_key_of_kernel, ACCESS, .recvs = RECVS },
	{ "SEND that invalidates a region of no window", invalidate_region,
	  IBV_WC_REM_ACCESS_ERR, FATAL, IBV_WC_LOC_ACCESS_ERR, 0, .recvs = RECVS },
	{ "atomic to a QP that has no atomics", atomic, INVALID,
	  .path = peer_may_only_read, .recvs = RECVS },
	{ "READ of a QP that has no READs", read_right, INVALID,
	  .path = peer_serves_no_reads, .recvs = RECVS },
	{ "READ of a QP that answers none", read_right, INVALID,
	  .path = peer_answers_no_reads, .recvs = RECVS },
	{ "WRITE with a wrong L_Key", wrong_lkey, LOCAL, .recvs = RECVS },
	{ "SEND with a wrong L_Key", send_wrong_lkey, LOCAL, .recvs = RECVS },
	{ "SEND with L_Key 0", send_key_of_kernel, LOCAL, .recvs = RECVS },
	{ "READ with L_Key 0", read_key_of_kernel, LOCAL, .recvs = RECVS },
	{ "WRITE from beyond the local end", local_beyond, LOCAL, .recvs = RECVS },
	{ "WRITE from memory of another PD", write_from_foreign_pd, LOCAL, .recvs = RECVS },
	{ "READ to memory that may not be written", read_into_frozen, LOCAL, .recvs = RECVS },
	{ "SEND too long for the receive", send_too_long, IBV_WC_REM_INV_REQ_ERR,
	  FATAL, IBV_WC_LOC_LEN_ERR, 0, .recvs = RECVS },
	{ "SEND far too long for the receive", send_far_too_long,
	  IBV_WC_REM_INV_REQ_ERR, FATAL, IBV_WC_LOC_LEN_ERR, 0, .recvs = RECVS },
	{ "receive with a wrong L_Key", send_right, IBV_WC_REM_OP_ERR, FATAL,
	  IBV_WC_LOC_PROT_ERR, 0, .peer = wrong_recv_lkey, .recvs = 1 },
	{ "receive with L_Key 0", send_right, IBV_WC_REM_OP_ERR, FATAL,
	  IBV_WC_LOC_PROT_ERR, 0, .peer = recv_key_of_kernel, .recvs = 1 },
	{ "no receive", send_right, IBV_WC_RNR_RETRY_EXC_ERR, UNHARMED, 0, 0,
	  .path = one_rnr_retry, .recvs = 1 },
	{ "peer destroyed", write_right, GONE, .path = few_retries,
	  .peer = destroy_peer },
	{ "peer in error", read_right, GONE, .path = few_retries,
	  .peer = peer_to_error },
	{ "peer in reset", send_right, GONE, .path = few_retries,
	  .peer = peer_to_reset },
};

/* Posts all sends of `a` as one chain; those that go well only to a peer. */
static void post_all(struct bench *bench, const struct fault *fault)
{
	struct ibv_send_wr wrs[FLUSHED + TRAILING];
	struct ibv_sge sges[FLUSHED + TRAILING];
	int first = fault->fate == DOWN ? FAULTY : SEND_OK;
	int count = FLUSHED + TRAILING;

	for (int i = first; i < count; i++) {
		sges[i] = sge_local(bench, MESSAGE);
		wrs[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i % 2 ? IBV_SEND_SIGNALED : 0,
			.wr.rdma.remote_addr = (uintptr_t)bench->remote,
			.wr.rdma.rkey = bench->remote_mr->rkey,
		};
		if (i == SEND_OK || i > FLUSHED + 1)
			wrs[i].opcode = IBV_WR_SEND;
	}
	/* An RDMA READ that goes wrong at this side does so when it is answered. */
	wrs[FLUSHED].send_flags |= IBV_SEND_FENCE;
	fault->spoil(bench, &wrs[FAULTY], &sges[FAULTY]);
	post_send(&bench->a, &wrs[first]);
}

static void check_responder(struct bench *bench, const struct fault *fault)
{
	struct end *b = &bench->b;

	switch (fault->fate) {
	case FATAL:
		expect(fault->name, b->recv_cq, RECV, IBV_WC_SUCCESS);
		expect(fault->name, b->recv_cq, RECV + 1, fault->received);
		expect_run(fault->name, b->recv_cq, RECV + 2, RECVS - 2,
			   IBV_WC_WR_FLUSH_ERR);
		check(end_state(b) == IBV_QPS_ERR, "%s: responder is in state %d",
		      fault->name, end_state(b));
		break;
	case UNHARMED:
		expect(fault->name, b->recv_cq, RECV, IBV_WC_SUCCESS);
		check(end_state(b) == IBV_QPS_RTS, "%s: responder is in state %d",
		      fault->name, end_state(b));
		break;
	case DOWN:
		break;
	}
	if (b->qp)
		expect_none(fault->name, b->recv_cq);
	expect_event(fault->name, bench->devices[1],
		     fault->event ? (int)fault->event : -1);
}

static void run(const struct fault *fault, struct device *devices)
{
	struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 2,
	};
	struct path_options a_path = default_path, b_path = default_path;
	struct bench bench;

	bench_create(&bench, &devices[0], &devices[1], &options);
	if (fault->path)
		fault->path(&a_path, &b_path);
	end_to_init(&bench.a, &a_path);
	end_to_init(&bench.b, &b_path);
	end_to_rtr(&bench.a, &bench.b, &a_path);
	end_to_rtr(&bench.b, &bench.a, &b_path);
	end_to_rts(&bench.a, &a_path);
	end_to_rts(&bench.b, &b_path);
	post_recvs(&bench, &bench.b, RECV, fault->recvs, RECV_BYTES);
	if (fault->peer)
		fault->peer(&bench);
	post_all(&bench, fault);

	if (fault->fate != DOWN)
		expect(fault->name, bench.a.send_cq, SEND_OK, IBV_WC_SUCCESS);
	expect(fault->name, bench.a.send_cq, FAULTY, fault->sent);
	expect_run(fault->name, bench.a.send_cq, FLUSHED, TRAILING,
		   IBV_WC_WR_FLUSH_ERR);
	expect_none(fault->name, bench.a.send_cq);
	check(end_state(&bench.a) == IBV_QPS_ERR, "%s: requester is in state %d",
	      fault->name, end_state(&bench.a));
	check_responder(&bench, fault);
	bench_destroy(&bench);
}

static void make_strange(struct device *devices)
{
	struct ibv_mr *mr = ibv_reg_mr(devices[1].pd, strange.bytes,
				       BENCH_BYTES, ALL_ACCESS);

	check(mr, "reg_mr: %m");
	strange.dead_rkey = mr->rkey;
	check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	strange.mw = ibv_alloc_mw(devices[1].pd, IBV_MW_TYPE_1);
	check(strange.mw, "alloc_mw: %m");
	for (int i = 0; i < 2; i++) {
		strange.pds[i] = ibv_alloc_pd(devices[i].context);
		check(strange.pds[i], "alloc_pd: %m");
		strange.mrs[i] = ibv_reg_mr(strange.pds[i], strange.bytes,
					    BENCH_BYTES, ALL_ACCESS);
		check(strange.mrs[i], "reg_mr: %m");
	}
}

static void end_strange(void)
{
	check(!ibv_dealloc_mw(strange.mw), "dealloc_mw: %m");
	for (int i = 0; i < 2; i++) {
		check(!ibv_dereg_mr(strange.mrs[i]), "dereg_mr: %m");
		check(!ibv_dealloc_pd(strange.pds[i]), "dealloc_pd: %m");
	}
}

int main(int argc, char **argv)
{
	struct device devices[2];

	bench_options(&argc, &argv);
	check(argc <= 3, "usage: errors [-o] [DEV[:PORT] [DEV[:PORT]]]");
	device_open(&devices[0], argc > 1 ? argv[1] : "sib0");
	device_open(&devices[1], argc > 2 ? argv[2] : "sib1");
	make_strange(devices);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		run(&faults[i], devices);
		printf("errors: %s: right\n", faults[i].name);
		fflush(stdout);
	}
	end_strange();
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
