// SPDX-License-Identifier: GPL-2.0
/*
 * The end of work that is under way: what is flushed, what stays, what is
 * dropped, and what works again afterwards.
 */

#include "bench.h"

#include <stdio.h>
#include <string.h>

#define SENDS 5
#define RECVS 6
#define SEND 1
#define RECV 100
#define LATER 50
#define RECV_BYTES 1024u
/* Of what may go wrong in few of many cases. */
#define ROUNDS 200

static struct device devices[2];
static struct bench bench;

static const struct end_options rc = {
	.type = IBV_QPT_RC,
	.send_depth = BENCH_DEPTH,
	.recv_depth = BENCH_DEPTH,
	.sges = 2,
};

static void begin(enum ibv_qp_type type, bool with_srq)
{
	struct end_options options = rc;

	options.type = type;
	options.with_srq = with_srq;
	bench_create(&bench, &devices[0], &devices[1], &options);
	end_connect(&bench.a, &bench.b, &default_path);
}

/* One message more must go from `a` to `b`. */
static void works(const char *test, uint64_t recv)
{
	post_sends(&bench, LATER, 1);
	expect(test, bench.a.send_cq, LATER, IBV_WC_SUCCESS);
	expect(test, bench.b.recv_cq, recv, IBV_WC_SUCCESS);
}

/* Sends that wait for receives, and receives, when the QP goes to ERR. */
static void test_error_while_waiting(const char *test)
{
	begin(IBV_QPT_RC, false);
	post_recvs(&bench, &bench.a, RECV, RECVS, RECV_BYTES);
	post_sends(&bench, SEND, SENDS);
	expect_none(test, bench.a.send_cq);
	end_to(&bench.a, IBV_QPS_ERR);
	expect_run(test, bench.a.send_cq, SEND, SENDS, IBV_WC_WR_FLUSH_ERR);
	expect_run(test, bench.a.recv_cq, RECV, RECVS, IBV_WC_WR_FLUSH_ERR);
	expect_none(test, bench.a.send_cq);
	expect_none(test, bench.a.recv_cq);
	bench_destroy(&bench);
}

/* What is posted in ERR is taken, and flushed. */
static void test_post_in_error(const char *test)
{
	begin(IBV_QPT_RC, false);
	end_to(&bench.a, IBV_QPS_ERR);
	for (int i = 0; i < 3; i++) {
		post_sends(&bench, SEND + i * SENDS, SENDS);
		expect_run(test, bench.a.send_cq, SEND + i * SENDS, SENDS,
			   IBV_WC_WR_FLUSH_ERR);
	}
	post_recvs(&bench, &bench.a, RECV, RECVS, RECV_BYTES);
	expect_run(test, bench.a.recv_cq, RECV, RECVS, IBV_WC_WR_FLUSH_ERR);
	expect_none(test, bench.a.recv_cq);
	bench_destroy(&bench);
}

/* A flush of a full queue, many times its depth in all. */
static void test_deep_flush(const char *test)
{
	begin(IBV_QPT_RC, false);
	end_to(&bench.a, IBV_QPS_ERR);
	for (int i = 0; i < 10; i++) {
		post_recvs(&bench, &bench.a, RECV, BENCH_DEPTH, RECV_BYTES);
		post_sends(&bench, SEND, BENCH_DEPTH);
		expect_run(test, bench.a.send_cq, SEND, BENCH_DEPTH,
			   IBV_WC_WR_FLUSH_ERR);
		expect_run(test, bench.a.recv_cq, RECV, BENCH_DEPTH,
			   IBV_WC_WR_FLUSH_ERR);
	}
	bench_destroy(&bench);
}

/* RESET forgets work without completions; the same QP then works again. */
static void test_reset(const char *test)
{
	begin(IBV_QPT_RC, false);
	post_recvs(&bench, &bench.a, RECV, RECVS, RECV_BYTES);
	post_sends(&bench, SEND, SENDS);
	end_to(&bench.a, IBV_QPS_RESET);
	end_to(&bench.b, IBV_QPS_RESET);
	expect_none(test, bench.a.send_cq);
	expect_none(test, bench.a.recv_cq);
	bench.a.psn = 0xfffffe;
	bench.b.psn = 77;
	end_connect(&bench.a, &bench.b, &default_path);
	post_recvs(&bench, &bench.b, RECV, 1, RECV_BYTES);
	works(test, RECV);
	bench_destroy(&bench);
}

/* A QP is destroyed amid work; the other keeps its completions. */
static void test_destroy(const char *test)
{
	begin(IBV_QPT_RC, false);
	post_recvs(&bench, &bench.b, RECV, 1, RECV_BYTES);
	post_sends(&bench, SEND, SENDS);
	expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
	end_destroy(&bench.a);
	bench.a.qp = NULL;
	expect_none(test, bench.b.recv_cq);
	check(end_state(&bench.b) == IBV_QPS_RTS, "%s: state %d", test,
	      end_state(&bench.b));
	bench_destroy(&bench);
}

/* With an SRQ, what no message has taken stays, and the consumer hears when
 * the QP takes no more. */
static void test_srq(const char *test)
{
	begin(IBV_QPT_RC, true);
	post_recvs(&bench, &bench.b, RECV, RECVS, RECV_BYTES);
	works(test, RECV);
	end_to(&bench.b, IBV_QPS_ERR);
	expect_event(test, &devices[1], IBV_EVENT_QP_LAST_WQE_REACHED);
	expect_event(test, &devices[1], -1);
	expect_none(test, bench.b.recv_cq);
	end_to(&bench.a, IBV_QPS_RESET);
	end_to(&bench.b, IBV_QPS_RESET);
	end_connect(&bench.a, &bench.b, &default_path);
	works(test, RECV + 1);
	bench_destroy(&bench);
}

/* Unreliable connections drop what they cannot do, and go on. */
static void test_uc(const char *test)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.wr_id = SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	begin(IBV_QPT_UC, false);
	sge = sge_local(&bench, 9000);
	wr.wr.rdma.remote_addr = (uintptr_t)bench.remote;
	wr.wr.rdma.rkey = bench.remote_mr->rkey ^ 0x5a5a5a;
	post_send(&bench.a, &wr);
	expect(test, bench.a.send_cq, SEND, IBV_WC_SUCCESS);
	check(bench.remote[0] == 0xbb, "%s: written with a wrong key", test);
	/* There is no receive for these. */
	post_sends(&bench, LATER, 1);
	expect(test, bench.a.send_cq, LATER, IBV_WC_SUCCESS);
	post_recvs(&bench, &bench.b, RECV, 2, RECV_BYTES);
	works(test, RECV);
	works(test, RECV + 1);
	bench_destroy(&bench);
}

static void send_datagram(struct ibv_ah *ah, uint64_t wr_id, uint32_t length,
			  uint32_t qkey, uint32_t lkey)
{
	struct ibv_sge sge = sge_local(&bench, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah,
			   .remote_qpn = bench.b.qp->qp_num,
			   .remote_qkey = qkey },
	};

	sge.lkey = lkey;
	post_send(&bench.a, &wr);
}

/* Datagrams that cannot be received are dropped and leave the receive alone; a
 * local error stops the send queue until the consumer lets it go on. */
static void test_ud(const char *test)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	uint32_t lkey;

	begin(IBV_QPT_UD, false);
	attr = path_to(&devices[0], &devices[1], false);
	ah = ibv_create_ah(devices[0].pd, &attr);
	check(ah, "create_ah: %m");
	lkey = bench.local_mr->lkey;
	post_recvs(&bench, &bench.b, RECV, 3, RECV_BYTES + GRH_BYTES);
	send_datagram(ah, 1, 8, QKEY + 1, lkey);
	send_datagram(ah, 2, RECV_BYTES + 1, QKEY, lkey);
	expect_run(test, bench.a.send_cq, 1, 2, IBV_WC_SUCCESS);
	expect_none(test, bench.b.recv_cq);
	send_datagram(ah, 3, RECV_BYTES, QKEY, lkey);
	expect(test, bench.a.send_cq, 3, IBV_WC_SUCCESS);
	expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);

	send_datagram(ah, 4, 8, QKEY, lkey ^ 0x5a5a5a);
	expect(test, bench.a.send_cq, 4, IBV_WC_LOC_PROT_ERR);
	check(end_state(&bench.a) == IBV_QPS_SQE, "%s: state %d after an error",
	      test, end_state(&bench.a));
	send_datagram(ah, 5, 8, QKEY, lkey);
	expect(test, bench.a.send_cq, 5, IBV_WC_WR_FLUSH_ERR);
	end_to(&bench.a, IBV_QPS_RTS);
	send_datagram(ah, 6, 8, QKEY, lkey);
	expect(test, bench.a.send_cq, 6, IBV_WC_SUCCESS);
	expect(test, bench.b.recv_cq, RECV + 1, IBV_WC_SUCCESS);
	check(!ibv_destroy_ah(ah), "destroy_ah: %m");
	bench_destroy(&bench);
}

/* A completion queue that overflows is lost, with what uses it, and says so. */
static void overflow(const char *test, bool wait)
{
	struct ibv_cq *small = ibv_create_cq(devices[0].context, 1, NULL, NULL,
					     0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	uint32_t depth = small ? small->cqe + 2 : 0;
	struct end end = { .device = &devices[0], .type = IBV_QPT_RC };

	check(small, "%s: create_cq: %m", test);
	init.send_cq = init.recv_cq = small;
	init.cap.max_recv_wr = init.cap.max_send_wr = depth;
	init.cap.max_recv_sge = init.cap.max_send_sge = 1;
	end.qp = ibv_create_qp(devices[0].pd, &init);
	check(end.qp, "%s: create_qp: %m", test);
	end_to_init(&end, &default_path);
	for (uint32_t i = 0; i < depth; i++) {
		struct ibv_recv_wr wr = { .wr_id = RECV + i };

		post_recv(&end, &wr);
	}
	end_to(&end, IBV_QPS_ERR);
	if (wait)
		expect_event(test, &devices[0], IBV_EVENT_CQ_ERR);
	check(!ibv_destroy_qp(end.qp), "%s: destroy_qp: %m", test);
	if (!wait)
		expect_event(test, &devices[0], IBV_EVENT_CQ_ERR);
	check(!ibv_destroy_cq(small), "%s: destroy_cq: %m", test);
}

static void test_cq_overflow(const char *test)
{
	overflow(test, true);
}

/* Also if the QP is destroyed at once. */
static void test_cq_overflow_at_destroy(const char *test)
{
	for (int round = 0; round < ROUNDS; round++)
		overflow(test, false);
}

/* Whoever waits for a completion hears of those of a QP that is destroyed at once. */
static void test_told_of_the_last(const char *test)
{
	struct end_options options = rc;

	options.with_channel = true;
	for (int round = 0; round < ROUNDS; round++) {
		bench_create(&bench, &devices[0], &devices[1], &options);
		end_connect(&bench.a, &bench.b, &default_path);
		check(!ibv_req_notify_cq(bench.a.recv_cq, false),
		      "%s: req_notify_cq: %m", test);
		post_recvs(&bench, &bench.a, RECV, RECVS, RECV_BYTES);
		end_to(&bench.a, IBV_QPS_ERR);
		check(!ibv_destroy_qp(bench.a.qp), "%s: destroy_qp: %m", test);
		bench.a.qp = NULL;
		check(notified(test, &bench.a, bench.a.recv_cq, DUE_MS),
		      "%s: not told in round %d", test, round);
		bench_destroy(&bench);
	}
}

static const struct {
	const char *name;
	void (*run)(const char *name);
} tests[] = {
	{ "error while sends wait", test_error_while_waiting },
	{ "posts in the error state", test_post_in_error },
	{ "deep flush", test_deep_flush },
	{ "reset", test_reset },
	{ "destroy amid work", test_destroy },
	{ "shared receive queue", test_srq },
	{ "unreliable connection", test_uc },
	{ "unreliable datagram", test_ud },
	{ "overflow of a completion queue", test_cq_overflow },
	{ "completions just before the end", test_told_of_the_last },
	{ "overflow just before the end", test_cq_overflow_at_destroy },
};

int main(int argc, char **argv)
{
	bench_options(&argc, &argv);
	check(argc <= 3, "usage: flush [-o] [DEV[:PORT] [DEV[:PORT]]]");
	device_open(&devices[0], argc > 1 ? argv[1] : "sib0");
	device_open(&devices[1], argc > 2 ? argv[2] : "sib1");
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		tests[i].run(tests[i].name);
		printf("flush: %s: right\n", tests[i].name);
		fflush(stdout);
	}
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
