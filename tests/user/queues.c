// SPDX-License-Identifier: GPL-2.0
/*
 * Queues that change their size while they hold work, what completions wake their
 * consumer, and completion vectors.
 */

#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEND 1
#define RECV 100
#define RECV_BYTES 64u
/* Of several packets. */
#define LONG_BYTES 10000u
#define ROUNDS 200
#define BATCH 8
#define LARGEST 500
/* More than 16 bits count. */
#define DEEP 70000
#define CHAIN 16
/* A part of the deep ones. */
#define PORTION (DEEP / 100)
/* An address that no program has memory at. */
#define NOWHERE 8

static struct device devices[2];
static struct bench bench;

static void begin_with(enum ibv_qp_type type, bool with_srq)
{
	const struct end_options options = {
		.type = type,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 2,
		.signal_all = true,
		.with_srq = with_srq,
		.with_channel = true,
	};

	bench_create(&bench, &devices[0], &devices[1], &options);
	end_connect(&bench.a, &bench.b, &default_path);
}

static void begin(bool with_srq)
{
	begin_with(IBV_QPT_RC, with_srq);
}

/* Empty messages from `a`, with wr_ids from `first`; those of `b` are posted
 * before. */
static void message(uint64_t first, int count)
{
	post_recvs(&bench, &bench.b, RECV + first, count, RECV_BYTES);
	for (int i = 0; i < count; i++) {
		struct ibv_send_wr wr = { .wr_id = first + i,
					  .opcode = IBV_WR_SEND };

		post_send(&bench.a, &wr);
	}
}

/* Waits until `count` messages have arrived. */
static void arrived(const char *test, uint64_t first, int count)
{
	expect_run(test, bench.b.recv_cq, RECV + first, count, IBV_WC_SUCCESS);
}

static void resize(const char *test, struct ibv_cq *cq, int entries)
{
	int error = ibv_resize_cq(cq, entries);

	check(!error, "%s: resize_cq to %d: %s", test, entries,
	      strerror(error));
	check(cq->cqe >= entries, "%s: %d entries after resize_cq to %d", test,
	      cq->cqe, entries);
}

/* A completion queue keeps what it holds, in order, and takes no size that is
 * too small for it. */
static void test_resize_cq(const char *test)
{
	struct ibv_cq *cq;
	int full, error;

	begin(false);
	cq = bench.a.send_cq;
	message(1, 10);
	arrived(test, 1, 10);
	expect_run(test, cq, 1, 3, IBV_WC_SUCCESS);
	resize(test, cq, 200);
	full = cq->cqe;
	message(11, 10);
	arrived(test, 11, 10);
	expect_run(test, cq, 4, 12, IBV_WC_SUCCESS);
	error = ibv_resize_cq(cq, 3);
	check(error == EINVAL, "%s: resize_cq below what it holds: %s", test,
	      strerror(error));
	check(cq->cqe == full, "%s: %d entries after that, before it %d", test,
	      cq->cqe, full);
	resize(test, cq, 5);
	expect_run(test, cq, 16, 5, IBV_WC_SUCCESS);
	expect_none(test, cq);
	check(ibv_resize_cq(cq, devices[0].attr.max_cqe + 1) == EINVAL,
	      "%s: a size beyond max_cqe is taken", test);
	expect_event(test, &devices[0], -1);
	bench_destroy(&bench);
}

/* Work of a queue pair in error completes at once, and so fills its queue. */
static void *fill(void *unused)
{
	struct ibv_send_wr wrs[CHAIN];

	for (int first = 0; first < DEEP; first += CHAIN) {
		for (int i = 0; i < CHAIN; i++)
			wrs[i] = (struct ibv_send_wr){
				.wr_id = SEND + first + i,
				.next = i < CHAIN - 1 ? &wrs[i + 1] : NULL,
				.opcode = IBV_WR_SEND,
			};
		post_send(&bench.a, wrs);
	}
	return unused;
}

static struct ibv_cq *begin_deep(const char *test)
{
	begin(false);
	resize(test, bench.a.send_cq, DEEP);
	end_to(&bench.a, IBV_QPS_ERR);
	return bench.a.send_cq;
}

/* One queue for the completions of very many queue pairs. */
static void test_deep_cq(const char *test)
{
	struct ibv_cq *cq = begin_deep(test);

	fill(NULL);
	resize(test, cq, devices[0].attr.max_cqe);
	expect_run(test, cq, SEND, DEEP, IBV_WC_WR_FLUSH_ERR);
	expect_none(test, cq);
	expect_event(test, &devices[0], -1);
	bench_destroy(&bench);
}

/* The size changes again and again while the queue is filled by another thread. */
static void test_resize_filled(const char *test)
{
	struct ibv_cq *cq = begin_deep(test);
	pthread_t filler;

	check(!pthread_create(&filler, NULL, fill, NULL), "pthread_create");
	for (int taken = 0; taken < DEEP; taken += PORTION) {
		resize(test, cq, DEEP * (1 + taken / PORTION % 2));
		expect_run(test, cq, SEND + taken, PORTION,
			   IBV_WC_WR_FLUSH_ERR);
	}
	check(!pthread_join(filler, NULL), "pthread_join");
	expect_none(test, cq);
	expect_event(test, &devices[0], -1);
	bench_destroy(&bench);
}

static void arm(struct ibv_cq *cq, bool solicited_only)
{
	check(!ibv_req_notify_cq(cq, solicited_only), "req_notify_cq: %m");
}

/* What was armed before a resize is told after it. */
static void test_resize_armed(const char *test)
{
	struct ibv_cq *cq;

	begin(false);
	cq = bench.a.send_cq;
	arm(cq, false);
	resize(test, cq, 100);
	message(1, 1);
	check(notified(test, &bench.a, cq, DUE_MS), "%s: no notification",
	      test);
	expect(test, cq, 1, IBV_WC_SUCCESS);
	bench_destroy(&bench);
}

static void send_empty(uint64_t wr_id, int flags)
{
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .opcode = IBV_WR_SEND,
				  .send_flags = flags };

	post_send(&bench.a, &wr);
}

/*
 * A queue that waits for solicited completions is told of those and of errors, once, and
 * of nothing else.
 */
static void test_solicited(const char *test)
{
	struct ibv_cq *sent, *received;

	begin(false);
	sent = bench.a.send_cq;
	received = bench.b.recv_cq;
	post_recvs(&bench, &bench.b, RECV, 6, RECV_BYTES);
	arm(sent, true);
	arm(received, true);
	send_empty(1, 0);
	expect(test, sent, 1, IBV_WC_SUCCESS);
	arrived(test, 0, 1);
	check(!notified(test, &bench.b, received, QUIET_MS),
	      "%s: told of a message that is not", test);
	send_empty(2, IBV_SEND_SOLICITED);
	expect(test, sent, 2, IBV_WC_SUCCESS);
	check(notified(test, &bench.b, received, DUE_MS),
	      "%s: not told of one that is", test);
	arrived(test, 1, 1);
	/* That was all. */
	send_empty(3, IBV_SEND_SOLICITED);
	arrived(test, 2, 1);
	check(!notified(test, &bench.b, received, QUIET_MS), "%s: told twice",
	      test);
	expect(test, sent, 3, IBV_WC_SUCCESS);
	check(!notified(test, &bench.a, sent, QUIET_MS),
	      "%s: told of sends that succeed", test);
	/* Who waits for all does not get less by waiting for these as well. */
	arm(received, false);
	arm(received, true);
	send_empty(4, 0);
	arrived(test, 3, 1);
	check(notified(test, &bench.b, received, DUE_MS),
	      "%s: not told of any message", test);
	expect(test, sent, 4, IBV_WC_SUCCESS);
	/* Errors are solicited, of sends and of receives. */
	arm(received, true);
	end_to(&bench.b, IBV_QPS_ERR);
	check(notified(test, &bench.b, received, DUE_MS),
	      "%s: not told of receives that are flushed", test);
	expect_run(test, received, RECV + 4, 2, IBV_WC_WR_FLUSH_ERR);
	end_to(&bench.a, IBV_QPS_ERR);
	send_empty(5, 0);
	check(notified(test, &bench.a, sent, DUE_MS),
	      "%s: not told of a send that is flushed", test);
	expect(test, sent, 5, IBV_WC_WR_FLUSH_ERR);
	bench_destroy(&bench);
}

/* What can ask for a solicited completion. */
static const struct {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	uint32_t length;
} messages[] = {
	{ "SEND", IBV_QPT_RC, IBV_WR_SEND, 8 },
	{ "long SEND", IBV_QPT_RC, IBV_WR_SEND, LONG_BYTES },
	{ "SEND with immediate", IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, 8 },
	{ "long SEND with immediate", IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, LONG_BYTES },
	{ "WRITE with immediate", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, 8 },
	{ "long WRITE with immediate", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, LONG_BYTES },
	{ "unreliable SEND", IBV_QPT_UC, IBV_WR_SEND, LONG_BYTES },
	{ "unreliable SEND with immediate", IBV_QPT_UC, IBV_WR_SEND_WITH_IMM, 8 },
	{ "unreliable WRITE with immediate", IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, LONG_BYTES },
	{ "datagram", IBV_QPT_UD, IBV_WR_SEND, 8 },
	{ "datagram with immediate", IBV_QPT_UD, IBV_WR_SEND_WITH_IMM, 8 },
};

/* Every kind of message that takes a receive, solicited and not. */
static void test_solicited_messages(const char *test)
{
	struct ibv_ah_attr way = path_to(&devices[0], &devices[1], false);
	struct ibv_ah *ah = ibv_create_ah(devices[0].pd, &way);
	char name[100];

	check(ah, "%s: create_ah: %m", test);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		struct ibv_cq *received;
		struct ibv_sge sge;
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
					  .opcode = messages[i].opcode };

		begin_with(messages[i].type, false);
		received = bench.b.recv_cq;
		snprintf(name, sizeof(name), "%s: %s", test, messages[i].name);
		sge = sge_local(&bench, messages[i].length);
		if (messages[i].type == IBV_QPT_UD) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = bench.b.qp->qp_num;
			wr.wr.ud.remote_qkey = QKEY;
		} else {
			wr.wr.rdma.remote_addr = (uintptr_t)bench.remote;
			wr.wr.rdma.rkey = bench.remote_mr->rkey;
		}
		post_recvs(&bench, &bench.b, RECV, 3,
			   GRH_BYTES + messages[i].length);
		arm(received, true);
		for (int at = 0; at < 3; at++) {
			wr.wr_id = SEND + at;
			wr.send_flags = at == 1 ? IBV_SEND_SOLICITED : 0;
			post_send(&bench.a, &wr);
			expect(name, bench.a.send_cq, SEND + at, IBV_WC_SUCCESS);
			arrived(name, at, 1);
			check(notified(name, &bench.b, received,
				       at == 1 ? DUE_MS : QUIET_MS) == (at == 1),
			      "%s: message %d: told %s", name, at,
			      at == 1 ? "of nothing" : "of one that is not solicited");
			if (at == 1)
				arm(received, true);
		}
		bench_destroy(&bench);
	}
	check(!ibv_destroy_ah(ah), "%s: destroy_ah: %m", test);
}

/* Errors that a message ends with wake who waits for solicited completions, on both
 * sides, although the message is not. */
static void test_solicited_errors(const char *test)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = SEND, .sg_list = &sge,
				  .num_sge = 1, .opcode = IBV_WR_SEND };

	begin(false);
	post_recvs(&bench, &bench.b, RECV, 1, RECV_BYTES);
	arm(bench.a.send_cq, true);
	arm(bench.b.recv_cq, true);
	sge = sge_local(&bench, RECV_BYTES + 1);
	post_send(&bench.a, &wr);
	check(notified(test, &bench.b, bench.b.recv_cq, DUE_MS),
	      "%s: the receiver is not told", test);
	expect(test, bench.b.recv_cq, RECV, IBV_WC_LOC_LEN_ERR);
	check(notified(test, &bench.a, bench.a.send_cq, DUE_MS),
	      "%s: the sender is not told", test);
	expect(test, bench.a.send_cq, SEND, IBV_WC_REM_INV_REQ_ERR);
	bench_destroy(&bench);

	begin(false);
	arm(bench.a.send_cq, true);
	sge.lkey ^= 0x5a5a5a;
	post_send(&bench.a, &wr);
	check(notified(test, &bench.a, bench.a.send_cq, DUE_MS),
	      "%s: the sender is not told of a wrong key", test);
	expect(test, bench.a.send_cq, SEND, IBV_WC_LOC_PROT_ERR);
	bench_destroy(&bench);
}

/* Completions come while the size changes. */
static void test_resize_busy(const char *test)
{
	uint64_t sent = 1;
	struct rng rng;

	begin(false);
	rng_seed(&rng, 1);
	for (int round = 0; round < ROUNDS; round++) {
		message(sent, BATCH);
		resize(test, bench.a.send_cq,
		       BATCH + rng_below(&rng, LARGEST));
		expect_run(test, bench.a.send_cq, sent, BATCH, IBV_WC_SUCCESS);
		resize(test, bench.b.recv_cq,
		       BATCH + rng_below(&rng, LARGEST));
		arrived(test, sent, BATCH);
		sent += BATCH;
	}
	expect_event(test, &devices[0], -1);
	bench_destroy(&bench);
}

static uint32_t srq_size(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	check(!ibv_query_srq(srq, &attr), "query_srq: %m");
	return attr.max_wr;
}

static int resize_srq(struct ibv_srq *srq, uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static int limit_srq(struct ibv_srq *srq, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

/* As resize_srq(), but the kernel cannot tell where the new ring is. */
static int resize_srq_untold(struct ibv_srq *srq, uint32_t max_wr)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint32_t srq_handle;
		uint32_t attr_mask;
		uint32_t max_wr;
		uint32_t srq_limit;
		uint64_t mmap_info_addr;
	} cmd = {
		.hdr = { .command = IB_USER_VERBS_CMD_MODIFY_SRQ,
			 .in_words = sizeof(cmd) / 4 },
		.srq_handle = srq->handle,
		.attr_mask = IBV_SRQ_MAX_WR,
		.max_wr = max_wr,
		.mmap_info_addr = NOWHERE,
	};

	return write(srq->context->cmd_fd, &cmd, sizeof(cmd)) < 0 ? errno : 0;
}

static bool srq_is_full(struct ibv_srq *srq)
{
	struct ibv_recv_wr wr = { .wr_id = 0 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad) != 0;
}

/* A shared receive queue keeps its receives, in order. */
static void test_resize_srq(const char *test)
{
	struct ibv_srq *srq;
	uint32_t size;
	int error;

	begin(true);
	srq = bench.b.srq;
	message(1, 20);
	arrived(test, 1, 20);
	expect_run(test, bench.a.send_cq, 1, 20, IBV_WC_SUCCESS);
	size = srq_size(srq);
	post_recvs(&bench, &bench.b, RECV + 21, size, RECV_BYTES);
	check(srq_is_full(srq), "%s: more than %u receives are taken", test,
	      size);
	error = resize_srq(srq, size / 2);
	check(error == EINVAL, "%s: resize below what it holds: %s", test,
	      strerror(error));
	error = ibv_modify_srq(srq,
			       &(struct ibv_srq_attr){ .max_wr = 2 * size,
						       .srq_limit = 64 * size },
			       IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	check(error == EINVAL, "%s: a limit beyond the size: %s", test,
	      strerror(error));
	error = resize_srq_untold(srq, 2 * size);
	check(error == EFAULT, "%s: nowhere to tell of the new ring: %s", test,
	      strerror(error));
	check(srq_size(srq) == size, "%s: another size after that", test);
	error = resize_srq(srq, 3 * size);
	check(!error, "%s: modify_srq: %s", test, strerror(error));
	check(srq_size(srq) >= 3 * size, "%s: %u after resize to %u", test,
	      srq_size(srq), 3 * size);
	post_recvs(&bench, &bench.b, RECV + 21 + size, size, RECV_BYTES);
	for (uint32_t i = 0; i < 2 * size; i++) {
		struct ibv_send_wr wr = { .wr_id = 21 + i,
					  .opcode = IBV_WR_SEND };

		post_send(&bench.a, &wr);
		arrived(test, 21 + i, 1);
		expect(test, bench.a.send_cq, 21 + i, IBV_WC_SUCCESS);
	}
	check(!limit_srq(srq, 2 * size), "%s: no limit", test);
	error = resize_srq(srq, 1);
	check(error == EINVAL, "%s: resize below the limit: %s", test,
	      strerror(error));
	check(srq_size(srq) >= 3 * size, "%s: another size after that", test);
	check(!limit_srq(srq, 0), "%s: a limit stays", test);
	check(!resize_srq(srq, 1), "%s: an empty queue cannot shrink", test);
	check(resize_srq(srq, devices[1].attr.max_srq_wr + 1) == EINVAL,
	      "%s: a size beyond max_srq_wr is taken", test);
	bench_destroy(&bench);
}

/* A queue is as large as its attributes say when it has been made: no larger than any may be, so that they will do for
 * another one. */
static void test_largest(const char *test)
{
	const struct ibv_device_attr *most = &devices[0].attr;
	struct ibv_cq *cq = ibv_create_cq(devices[0].context, most->max_cqe,
					  NULL, NULL, 0);
	struct ibv_srq_init_attr shared = { .attr = {
		.max_wr = most->max_srq_wr,
		.max_sge = 1,
	} };
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = most->max_qp_wr,
			 .max_recv_wr = most->max_qp_wr,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	check(cq, "%s: create_cq: %m", test);
	check(cq->cqe == most->max_cqe, "%s: %d entries of %d", test, cq->cqe,
	      most->max_cqe);
	for (int i = 0; i < 2; i++) {
		struct ibv_srq *srq = ibv_create_srq(devices[0].pd, &shared);
		struct ibv_qp *qp = ibv_create_qp(devices[0].pd, &init);

		check(qp, "%s: create_qp with %u sends and %u receives: %m",
		      test, init.cap.max_send_wr, init.cap.max_recv_wr);
		check(init.cap.max_send_wr == (uint32_t)most->max_qp_wr &&
			      init.cap.max_recv_wr == (uint32_t)most->max_qp_wr,
		      "%s: %u sends and %u receives of %d", test,
		      init.cap.max_send_wr, init.cap.max_recv_wr,
		      most->max_qp_wr);
		check(srq, "%s: create_srq with %u receives: %m", test,
		      shared.attr.max_wr);
		check(srq_size(srq) == (uint32_t)most->max_srq_wr,
		      "%s: %u receives of %d", test, srq_size(srq),
		      most->max_srq_wr);
		check(!resize_srq(srq, srq_size(srq)),
		      "%s: a queue cannot have the size that it has", test);
		check(!ibv_destroy_qp(qp), "%s: destroy_qp: %m", test);
		check(!ibv_destroy_srq(srq), "%s: destroy_srq: %m", test);
	}
	check(!ibv_destroy_cq(cq), "%s: destroy_cq: %m", test);
}

/* A notification is for each completion, never for so many of them. */
static void test_no_count(const char *test)
{
	/* IBV_DEVICE_N_NOTIFY_CQ */
	const unsigned int n_notify_cq = 1 << 14;

	check(!(devices[0].attr.device_cap_flags & n_notify_cq),
	      "%s: the device says so", test);
}

/* A notification through each vector, for each CPU that this program may run on;
 * who looks at the handler sees which CPU runs it. */
static void notify_by_vectors(void)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = 1,
		.recv_depth = 1,
		.sges = 1,
		.with_channel = true,
	};
	struct ibv_comp_channel *channel;
	cpu_set_t all, one;

	check(!sched_getaffinity(0, sizeof(all), &all), "getaffinity: %m");
	channel = ibv_create_comp_channel(devices[0].context);
	check(channel, "comp_channel: %m");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		check(!sched_setaffinity(0, sizeof(one), &one),
		      "setaffinity: %m");
		for (int vector = 0;
		     vector < devices[0].context->num_comp_vectors; vector++) {
			struct pollfd fd = { .fd = channel->fd,
					     .events = POLLIN };
			struct ibv_qp_init_attr init = {
				.qp_type = IBV_QPT_RC,
				.cap = { .max_send_wr = 1, .max_recv_wr = 1,
					 .max_send_sge = 1, .max_recv_sge = 1 },
			};
			struct end a = { .device = &devices[0],
					 .type = IBV_QPT_RC }, b;
			struct ibv_recv_wr recv = { .wr_id = RECV };
			struct ibv_send_wr send = {
				.wr_id = SEND,
				.opcode = IBV_WR_SEND,
				.send_flags = IBV_SEND_SIGNALED
			};
			struct ibv_cq *cq, *told;
			void *context;

			cq = ibv_create_cq(devices[0].context, 4, NULL,
					   channel, vector);
			check(cq, "create_cq with vector %d: %m", vector);
			init.send_cq = init.recv_cq = cq;
			a.qp = ibv_create_qp(devices[0].pd, &init);
			check(a.qp, "create_qp: %m");
			end_create(&b, &devices[1], &options);
			end_connect(&a, &b, &default_path);
			check(!ibv_req_notify_cq(cq, 0), "req_notify: %m");
			post_recv(&b, &recv);
			post_send(&a, &send);
			check(poll(&fd, 1, DUE_MS) == 1,
			      "no notification by vector %d", vector);
			check(!ibv_get_cq_event(channel, &told, &context) &&
				      told == cq,
			      "a notification of another queue");
			ibv_ack_cq_events(cq, 1);
			expect("vectors", cq, SEND, IBV_WC_SUCCESS);
			printf("queues: cpu %d vector %d\n", cpu, vector);
			check(!ibv_destroy_qp(a.qp), "destroy_qp: %m");
			end_destroy(&b);
			check(!ibv_destroy_cq(cq), "destroy_cq: %m");
		}
	}
	check(!ibv_destroy_comp_channel(channel), "destroy_comp_channel: %m");
}

static const struct {
	const char *name;
	void (*run)(const char *name);
} tests[] = {
	{ "size of a completion queue", test_resize_cq },
	{ "size of an armed completion queue", test_resize_armed },
	{ "a completion queue for very many", test_deep_cq },
	{ "a completion queue that is filled meanwhile", test_resize_filled },
	{ "size of busy completion queues", test_resize_busy },
	{ "solicited completions", test_solicited },
	{ "solicited messages", test_solicited_messages },
	{ "errors are solicited", test_solicited_errors },
	{ "size of a shared receive queue", test_resize_srq },
	{ "the largest queues", test_largest },
	{ "notifications of several completions", test_no_count },
};

int main(int argc, char **argv)
{
	bool vectors = argc == 4 && !strcmp(argv[3], "vectors");

	check(argc <= 3 || vectors,
	      "usage: queues [DEV[:PORT] [DEV[:PORT] [vectors]]]");
	device_open(&devices[0], argc > 1 ? argv[1] : "sib0");
	device_open(&devices[1], argc > 2 ? argv[2] : "sib1");
	if (vectors) {
		notify_by_vectors();
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
			tests[i].run(tests[i].name);
			printf("queues: %s: right\n", tests[i].name);
			fflush(stdout);
		}
	}
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
