// SPDX-License-Identifier: GPL-2.0
/*
 * Asynchronous events of queue pairs and queues: each comes when it is due, to
 * the right object, and once.
 */

#include "bench.h"
#include "rings.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEND 1
#define RECV 100
#define RECV_BYTES 1024u
#define RECVS 6
#define CHAIN 100
#define MANY 1500
#define BROKEN 3000
#define IDLE_ROUNDS 200
#define READS 16
#define FLUSHES 10
#define FLUSHES_DUE_MS 120000
/* A machine may be busy with something else while the second of two times is taken. */
#define TRIES 3

static struct device devices[2];
static struct bench bench;
static atomic_bool stopped;

static const struct end_options rc = {
	.type = IBV_QPT_RC,
	.send_depth = BENCH_DEPTH,
	.recv_depth = BENCH_DEPTH,
	.sges = 2,
};

static void begin(bool with_srq)
{
	struct end_options options = rc;

	options.with_srq = with_srq;
	bench_create(&bench, &devices[0], &devices[1], &options);
}

/* The object that an event is about. */
static void *object_of(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return event->element.srq;
	default:
		return event->element.qp;
	}
}

/* The next event must be of this type and object. */
static void expect_of(const char *test, struct device *device,
		      enum ibv_event_type type, void *object)
{
	struct pollfd fd = { .fd = device->context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;

	check(poll(&fd, 1, DUE_MS) == 1, "%s: no event '%s'", test,
	      ibv_event_type_str(type));
	check(!ibv_get_async_event(device->context, &event),
	      "%s: get_async_event: %m", test);
	ibv_ack_async_event(&event);
	check(event.event_type == type && object_of(&event) == object,
	      "%s: event '%s' of %p; due was '%s' of %p", test,
	      ibv_event_type_str(event.event_type), object_of(&event),
	      ibv_event_type_str(type), object);
}

/* The first packet that comes in RTR is told; those after it are not. It may have to
 * come again, as there is no receive. */
static void test_comm_est(const char *test)
{
	begin(false);
	end_to_init(&bench.a, &default_path);
	end_to_init(&bench.b, &default_path);
	end_to_rtr(&bench.a, &bench.b, &default_path);
	end_to_rtr(&bench.b, &bench.a, &default_path);
	end_to_rts(&bench.a, &default_path);
	expect_event(test, &devices[1], -1);
	post_sends(&bench, SEND, 1);
	expect_of(test, &devices[1], IBV_EVENT_COMM_EST, bench.b.qp);
	post_recvs(&bench, &bench.b, RECV, RECVS, RECV_BYTES);
	expect(test, bench.a.send_cq, SEND, IBV_WC_SUCCESS);
	expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
	post_sends(&bench, SEND, 1);
	expect(test, bench.b.recv_cq, RECV + 1, IBV_WC_SUCCESS);
	end_to_rts(&bench.b, &default_path);
	post_sends(&bench, SEND, 1);
	expect(test, bench.b.recv_cq, RECV + 2, IBV_WC_SUCCESS);
	expect_event(test, &devices[1], -1);
	bench_destroy(&bench);
}

static void drain(struct end *end, bool notify)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
				    .en_sqd_async_notify = notify };

	check(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
	      "modify_qp to SQD: %m");
}

static bool draining(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(!ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init),
	      "query_qp: %m");
	check(attr.qp_state == IBV_QPS_SQD, "state %d", attr.qp_state);
	return attr.sq_draining;
}

static void resume(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	check(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE),
	      "modify_qp to RTS: %m");
}

/* A send queue is drained when what has begun is complete; what is posted then
 * waits. */
static void test_sq_drained(const char *test)
{
	begin(false);
	end_connect(&bench.a, &bench.b, &default_path);
	post_sends(&bench, SEND, 1);
	expect_none(test, bench.a.send_cq);
	drain(&bench.a, true);
	check(draining(&bench.a), "%s: not draining", test);
	expect_event(test, &devices[0], -1);
	post_recvs(&bench, &bench.b, RECV, RECVS, RECV_BYTES);
	expect(test, bench.a.send_cq, SEND, IBV_WC_SUCCESS);
	expect_of(test, &devices[0], IBV_EVENT_SQ_DRAINED, bench.a.qp);
	check(!draining(&bench.a), "%s: draining on", test);
	post_sends(&bench, SEND + 1, 1);
	expect_none(test, bench.a.send_cq);
	resume(&bench.a);
	expect(test, bench.a.send_cq, SEND + 1, IBV_WC_SUCCESS);
	expect_event(test, &devices[0], -1);

	/* An idle queue is drained at once. */
	drain(&bench.a, true);
	expect_of(test, &devices[0], IBV_EVENT_SQ_DRAINED, bench.a.qp);
	resume(&bench.a);
	/* Who does not ask is not told. */
	drain(&bench.a, false);
	expect_event(test, &devices[0], -1);
	bench_destroy(&bench);
}

/* Reads from `b` until it is told to stop. */
static void *read_on(void *argument)
{
	struct ibv_sge sge = sge_local(&bench, BENCH_BYTES);
	struct ibv_send_wr wrs[READS], *bad;

	for (int i = 0; i < READS; i++)
		wrs[i] = (struct ibv_send_wr){
			.wr_id = SEND + i,
			.next = i + 1 < READS ? &wrs[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)bench.remote,
				     bench.remote_mr->rkey },
		};
	while (!atomic_load(&stopped)) {
		check(!ibv_post_send(bench.a.qp, wrs, &bad), "post_send: %m");
		expect_run(argument, bench.a.send_cq, SEND, READS,
			   IBV_WC_SUCCESS);
	}
	return NULL;
}

/* An idle send queue is drained when the transition returns, also that of a queue pair which
 * answers its peer all the time: attributes can be changed at once. */
static void test_idle_drained(const char *test)
{
	struct ibv_qp_attr attr = { .min_rnr_timer = 1 };
	pthread_t reader;

	begin(false);
	end_connect(&bench.a, &bench.b, &default_path);
	atomic_store(&stopped, false);
	check(!pthread_create(&reader, NULL, read_on, (void *)test),
	      "pthread_create");
	for (int round = 0; round < IDLE_ROUNDS; round++) {
		drain(&bench.b, false);
		check(!draining(&bench.b), "%s: draining in round %d", test, round);
		check(!ibv_modify_qp(bench.b.qp, &attr, IBV_QP_MIN_RNR_TIMER),
		      "%s: modify_qp in round %d: %m", test, round);
		resume(&bench.b);
	}
	atomic_store(&stopped, true);
	pthread_join(reader, NULL);
	bench_destroy(&bench);
}

/* While its send queue is drained, a queue pair goes to the other port of its HCA by the
 * number of that alone, and its peer is told where it is: the source GID is that of the
 * new port. */
static void test_port_change(const char *test)
{
	struct path_options path = default_path;
	struct ibv_qp_attr here = { .port_num = 2 }, there = { 0 };
	struct ibv_qp_init_attr init;
	struct device second;
	char name[64];

	snprintf(name, sizeof(name), "%s:2", devices[0].name);
	device_open(&second, name);
	check(second.attr.device_cap_flags & IBV_DEVICE_CHANGE_PHY_PORT,
	      "%s: the HCA says that it cannot", test);
	path.grh = true;
	begin(false);
	end_connect(&bench.a, &bench.b, &path);
	post_recvs(&bench, &bench.b, RECV, RECVS, RECV_BYTES);
	post_sends(&bench, SEND, 1);
	expect(test, bench.a.send_cq, SEND, IBV_WC_SUCCESS);
	drain(&bench.a, false);
	drain(&bench.b, false);
	there.ah_attr = path_to(&devices[1], &second, true);
	check(!ibv_modify_qp(bench.a.qp, &here, IBV_QP_PORT),
	      "%s: modify_qp of the port: %m", test);
	check(!ibv_modify_qp(bench.b.qp, &there, IBV_QP_AV),
	      "%s: modify_qp of the address: %m", test);
	check(!ibv_query_qp(bench.a.qp, &here, IBV_QP_PORT | IBV_QP_AV, &init),
	      "%s: query_qp: %m", test);
	check(here.port_num == 2 && here.ah_attr.port_num == 2,
	      "%s: ports %d and %d", test, here.port_num,
	      here.ah_attr.port_num);
	resume(&bench.a);
	resume(&bench.b);
	post_sends(&bench, SEND + 1, 1);
	expect(test, bench.a.send_cq, SEND + 1, IBV_WC_SUCCESS);
	bench_destroy(&bench);
	device_close(&second);
}

/* With an SRQ, the last receive is told once for each time in the error state,
 * whether the queue pair has taken one or not, and however it came there. */
static void test_last_wqe(const char *test)
{
	begin(true);
	end_connect(&bench.a, &bench.b, &default_path);
	post_recvs(&bench, &bench.b, RECV, RECVS, RECV_BYTES);
	end_to(&bench.b, IBV_QPS_ERR);
	expect_of(test, &devices[1], IBV_EVENT_QP_LAST_WQE_REACHED,
		  bench.b.qp);
	end_to(&bench.b, IBV_QPS_ERR);
	expect_event(test, &devices[1], -1);
	end_to(&bench.a, IBV_QPS_RESET);
	end_to(&bench.b, IBV_QPS_RESET);
	end_connect(&bench.a, &bench.b, &default_path);
	post_sends(&bench, SEND, 1);
	expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
	end_to(&bench.b, IBV_QPS_ERR);
	expect_of(test, &devices[1], IBV_EVENT_QP_LAST_WQE_REACHED,
		  bench.b.qp);
	expect_event(test, &devices[1], -1);
	bench_destroy(&bench);
}

static void post_remote(struct ibv_send_wr *wr)
{
	struct ibv_sge sge = sge_local(&bench, 8);

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->wr_id = SEND;
	wr->send_flags = IBV_SEND_SIGNALED;
	post_send(&bench.a, wr);
}

/* What the peer asks for and must not: more than this side serves, or what it has
 * no right to. */
static void test_request_errors(const char *test)
{
	struct path_options none = default_path;
	struct ibv_send_wr read = { .opcode = IBV_WR_RDMA_READ };
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE };

	none.rd_atomic = 0;
	begin(false);
	end_to_init(&bench.a, &default_path);
	end_to_init(&bench.b, &none);
	end_to_rtr(&bench.a, &bench.b, &default_path);
	end_to_rtr(&bench.b, &bench.a, &none);
	end_to_rts(&bench.a, &default_path);
	end_to_rts(&bench.b, &none);
	read.wr.rdma.remote_addr = (uintptr_t)bench.remote;
	read.wr.rdma.rkey = bench.remote_mr->rkey;
	post_remote(&read);
	expect(test, bench.a.send_cq, SEND, IBV_WC_REM_INV_REQ_ERR);
	expect_of(test, &devices[1], IBV_EVENT_QP_REQ_ERR, bench.b.qp);
	expect_event(test, &devices[1], -1);
	bench_destroy(&bench);

	begin(false);
	end_connect(&bench.a, &bench.b, &default_path);
	write.wr.rdma.remote_addr = (uintptr_t)bench.remote;
	write.wr.rdma.rkey = bench.readable_mr->rkey;
	post_remote(&write);
	expect(test, bench.a.send_cq, SEND, IBV_WC_REM_ACCESS_ERR);
	expect_of(test, &devices[1], IBV_EVENT_QP_ACCESS_ERR, bench.b.qp);
	expect_event(test, &devices[1], -1);
	expect_event(test, &devices[0], -1);
	bench_destroy(&bench);
}

static struct ibv_qp *qp_on(struct ibv_cq *cq, uint32_t depth)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = depth,
			 .max_recv_wr = depth,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(devices[0].pd, &init);

	check(qp, "create_qp: %m");
	return qp;
}

/* A completion queue that overruns is in error, and so are all queue pairs that
 * use it, and no others. */
static void test_cq_overrun(const char *test)
{
	struct ibv_cq *small = ibv_create_cq(devices[0].context, 1, NULL, NULL,
					     0);
	struct end ends[3], peers[3];
	struct end_options options = rc;
	uint32_t depth;
	struct ibv_wc wc;

	check(small, "%s: create_cq: %m", test);
	depth = small->cqe + 2;
	options.recv_depth = options.send_depth = depth;
	for (int i = 0; i < 3; i++) {
		end_create(&ends[i], &devices[0], &options);
		end_create(&peers[i], &devices[1], &options);
		if (i < 2) {
			check(!ibv_destroy_qp(ends[i].qp), "destroy_qp: %m");
			ends[i].qp = qp_on(small, depth);
		}
		end_connect(&ends[i], &peers[i], &default_path);
	}
	/* Zero bytes each: neither side needs memory. */
	for (uint32_t i = 0; i < depth; i++) {
		struct ibv_recv_wr recv = { .wr_id = RECV + i };
		struct ibv_send_wr send = { .wr_id = SEND + i,
					    .opcode = IBV_WR_SEND };

		post_recv(&peers[0], &recv);
		post_send(&ends[0], &send);
	}
	expect_of(test, &devices[0], IBV_EVENT_CQ_ERR, small);
	for (int left = 3; left != 0;) {
		struct ibv_async_event event;
		int which;

		check(!ibv_get_async_event(devices[0].context, &event),
		      "%s: get_async_event: %m", test);
		ibv_ack_async_event(&event);
		check(event.event_type == IBV_EVENT_QP_FATAL, "%s: event '%s'",
		      test, ibv_event_type_str(event.event_type));
		which = event.element.qp == ends[0].qp ? 1 :
			event.element.qp == ends[1].qp ? 2 : 0;
		check(left & which, "%s: an event of the wrong queue pair",
		      test);
		left &= ~which;
	}
	expect_event(test, &devices[0], -1);
	check(end_state(&ends[0]) == IBV_QPS_ERR &&
		      end_state(&ends[1]) == IBV_QPS_ERR &&
		      end_state(&ends[2]) == IBV_QPS_RTS,
	      "%s: states %d, %d, %d", test, end_state(&ends[0]),
	      end_state(&ends[1]), end_state(&ends[2]));
	/* What was there before stays; nothing comes after the gap. */
	for (int i = 0; i < small->cqe; i++)
		expect(test, small, SEND + i, IBV_WC_SUCCESS);
	check(!await(small, &wc, QUIET_MS), "%s: WR %llu after the overrun",
	      test, (unsigned long long)wc.wr_id);
	for (int i = 0; i < 3; i++) {
		end_destroy(&ends[i]);
		end_destroy(&peers[i]);
	}
	check(!ibv_destroy_cq(small), "%s: destroy_cq: %m", test);
	expect_event(test, &devices[0], -1);
}

/* Each queue overruns because of the one before. */
static void test_chain(const char *test)
{
	static struct ibv_cq *cqs[CHAIN + 1];
	static struct end ends[CHAIN];
	int lost = 0, fatal = 0;

	for (int i = 0; i <= CHAIN; i++) {
		cqs[i] = ibv_create_cq(devices[0].context, 1, NULL, NULL, 0);
		check(cqs[i], "%s: create_cq: %m", test);
	}
	for (int i = 0; i < CHAIN; i++) {
		int receives = cqs[i]->cqe + 1;
		struct ibv_qp_init_attr init = {
			.qp_type = IBV_QPT_RC,
			.send_cq = cqs[i],
			.recv_cq = cqs[i + 1],
			.cap = { .max_send_wr = 1, .max_recv_wr = receives,
				 .max_send_sge = 1, .max_recv_sge = 1 },
		};
		struct ibv_recv_wr wr = { .wr_id = RECV };

		ends[i] = (struct end){ .device = &devices[0],
					.type = IBV_QPT_RC };
		ends[i].qp = ibv_create_qp(devices[0].pd, &init);
		check(ends[i].qp, "%s: create_qp: %m", test);
		end_to_init(&ends[i], &default_path);
		for (int k = 0; k < receives; k++)
			post_recv(&ends[i], &wr);
	}
	end_to(&ends[0], IBV_QPS_ERR);
	while (lost < CHAIN || fatal < CHAIN - 1) {
		struct pollfd fd = { .fd = devices[0].context->async_fd,
				     .events = POLLIN };
		struct ibv_async_event event;

		check(poll(&fd, 1, DUE_MS) == 1, "%s: %d of %d queues overran",
		      test, lost, CHAIN);
		check(!ibv_get_async_event(devices[0].context, &event),
		      "%s: get_async_event: %m", test);
		ibv_ack_async_event(&event);
		lost += event.event_type == IBV_EVENT_CQ_ERR;
		fatal += event.event_type == IBV_EVENT_QP_FATAL;
	}
	check(lost == CHAIN && fatal == CHAIN - 1, "%s: %d and %d events",
	      test, lost, fatal);
	expect_event(test, &devices[0], -1);
	for (int i = 0; i < CHAIN; i++)
		check(!ibv_destroy_qp(ends[i].qp), "%s: destroy_qp: %m", test);
	for (int i = 0; i <= CHAIN; i++)
		check(!ibv_destroy_cq(cqs[i]), "%s: destroy_cq: %m", test);
}

/* The next event must be that a queue has overrun, whose context says that it has not; it does afterwards. */
static void expect_overrun(const char *test)
{
	struct pollfd fd = { .fd = devices[0].context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;
	bool *has_overrun;

	check(poll(&fd, 1, DUE_MS) == 1, "%s: no event", test);
	check(!ibv_get_async_event(devices[0].context, &event),
	      "%s: get_async_event: %m", test);
	ibv_ack_async_event(&event);
	check(event.event_type == IBV_EVENT_CQ_ERR, "%s: event '%s'", test,
	      ibv_event_type_str(event.event_type));
	has_overrun = event.element.cq->cq_context;
	check(!*has_overrun, "%s: a queue has overrun twice", test);
	*has_overrun = true;
}

/* How many milliseconds it takes until many queue pairs are in error, each with a queue of its own, which has room for
 * what they flush or not. */
static uint64_t breaks(const char *test, bool has_room)
{
	static struct ibv_cq *cqs[BROKEN];
	static struct end ends[BROKEN];
	static bool have_overrun[BROKEN];
	struct ibv_recv_wr wr = { .wr_id = RECV };
	uint64_t began;

	for (int i = 0; i < BROKEN; i++) {
		uint32_t depth;

		have_overrun[i] = false;
		cqs[i] = ibv_create_cq(devices[0].context, 1, &have_overrun[i],
				       NULL, 0);
		check(cqs[i], "%s: create_cq: %m", test);
		depth = cqs[i]->cqe + !has_room;
		ends[i] = (struct end){ .device = &devices[0],
					.type = IBV_QPT_RC };
		ends[i].qp = qp_on(cqs[i], depth);
		end_to_init(&ends[i], &default_path);
		for (uint32_t k = 0; k < depth; k++)
			post_recv(&ends[i], &wr);
	}
	began = now_ms();
	for (int i = 0; i < BROKEN; i++)
		end_to(&ends[i], IBV_QPS_ERR);
	for (int i = 0; !has_room && i < BROKEN; i++)
		expect_overrun(test);
	began = now_ms() - began;
	expect_event(test, &devices[0], -1);
	for (int i = 0; i < BROKEN; i++)
		check(!ibv_destroy_qp(ends[i].qp) && !ibv_destroy_cq(cqs[i]),
		      "%s: destroy: %m", test);
	return began;
}

/* To find the queue pairs of each of many queues that overrun takes one look at all of them, and not one for each. */
static void test_many_overruns(const char *test)
{
	uint64_t kept, lost;
	int tries = 0;

	do {
		kept = breaks(test, true);
		lost = breaks(test, false);
	} while (lost >= 3 * kept + 100 && ++tries < TRIES);
	check(tries < TRIES,
	      "%s: %d queue pairs take %llu ms, and %llu ms if their queues overrun, %d times",
	      test, BROKEN, (unsigned long long)kept,
	      (unsigned long long)lost, tries);
}

/* How many milliseconds it takes until a receive of each of many queue pairs in error, with `cq`, has been flushed so
 * often. */
static uint64_t flushes(const char *test, struct ibv_cq *cq)
{
	static struct end ends[MANY];
	struct ibv_recv_wr *bad, wr = { .wr_id = RECV };
	uint64_t began;

	for (int i = 0; i < MANY; i++) {
		ends[i] = (struct end){ .device = &devices[0],
					.type = IBV_QPT_RC };
		ends[i].qp = qp_on(cq, 1);
		end_to_init(&ends[i], &default_path);
		end_to(&ends[i], IBV_QPS_ERR);
	}
	began = now_ms();
	/* There is room for one, and for the next when that is flushed. */
	for (int i = 0; i <= FLUSHES; i++)
		for (int k = 0; k < MANY; k++)
			while (ibv_post_recv(ends[k].qp, &wr, &bad)) {
				check(now_ms() < began + FLUSHES_DUE_MS,
				      "%s: %d flushes of each queue pair after %d ms",
				      test, i, FLUSHES_DUE_MS);
				usleep(500);
			}
	began = now_ms() - began;
	for (int i = 0; i < MANY; i++)
		check(!ibv_destroy_qp(ends[i].qp), "%s: destroy_qp: %m", test);
	return began;
}

/* How long flushes take with a queue that has room for all, and with one that is in error. */
static void time_flushes(const char *test, uint64_t *kept, uint64_t *lost)
{
	struct ibv_context *context = devices[0].context;
	struct ibv_cq *large = ibv_create_cq(context, MANY * (FLUSHES + 1),
					     NULL, NULL, 0);
	struct ibv_cq *small = ibv_create_cq(context, 1, NULL, NULL, 0);

	check(large && small, "%s: create_cq: %m", test);
	*kept = flushes(test, large);
	*lost = flushes(test, small);
	expect_of(test, &devices[0], IBV_EVENT_CQ_ERR, small);
	expect_event(test, &devices[0], -1);
	check(!ibv_destroy_cq(large) && !ibv_destroy_cq(small),
	      "%s: destroy_cq: %m", test);
}

/* A completion that a queue in error does not take is the business of its queue pair, and not of all. */
static void test_lost(const char *test)
{
	uint64_t kept, lost;
	int tries = 0;

	do
		time_flushes(test, &kept, &lost);
	while (lost >= 3 * kept + 1000 && ++tries < TRIES);
	check(tries < TRIES,
	      "%s: flushes take %llu ms, and %llu ms if they are lost, %d times",
	      test, (unsigned long long)kept, (unsigned long long)lost, tries);
}

/* A queue pair that comes to a queue in error has its completions lost, too. */
static void test_latecomer(const char *test)
{
	struct ibv_cq *cq = ibv_create_cq(devices[0].context, 1, NULL, NULL, 0);
	struct ibv_send_wr send = { .wr_id = SEND, .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = { .wr_id = RECV };
	struct end_options options = rc;
	struct end early = { .device = &devices[0], .type = IBV_QPT_RC };
	struct end late = early, peer;
	struct ibv_wc wc;

	check(cq, "%s: create_cq: %m", test);
	early.qp = qp_on(cq, cq->cqe + 1);
	end_to_init(&early, &default_path);
	for (int i = 0; i <= cq->cqe; i++)
		post_recv(&early, &recv);
	end_to(&early, IBV_QPS_ERR);
	expect_of(test, &devices[0], IBV_EVENT_CQ_ERR, cq);
	check(!ibv_destroy_qp(early.qp), "%s: destroy_qp: %m", test);
	for (int i = 0; i < cq->cqe; i++)
		expect(test, cq, RECV, IBV_WC_WR_FLUSH_ERR);

	end_create(&peer, &devices[1], &options);
	late.qp = qp_on(cq, 2);
	end_connect(&late, &peer, &default_path);
	expect_event(test, &devices[0], -1);
	check(end_state(&late) == IBV_QPS_RTS, "%s: state %d", test,
	      end_state(&late));
	post_recv(&peer, &recv);
	post_send(&late, &send);
	expect_of(test, &devices[0], IBV_EVENT_QP_FATAL, late.qp);
	expect_event(test, &devices[0], -1);
	check(end_state(&late) == IBV_QPS_ERR, "%s: state %d after that", test,
	      end_state(&late));
	check(!await(cq, &wc, QUIET_MS), "%s: a completion after the gap",
	      test);
	check(!ibv_destroy_qp(late.qp), "%s: destroy_qp: %m", test);
	end_destroy(&peer);
	check(!ibv_destroy_cq(cq), "%s: destroy_cq: %m", test);
}

static void set_limit(struct ibv_srq *srq, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	check(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "modify_srq: %m");
}

static uint32_t limit_of(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	check(!ibv_query_srq(srq, &attr), "query_srq: %m");
	return attr.srq_limit;
}

/* The limit is told once for each time that it is set. */
static void test_srq_limit(const char *test)
{
	begin(true);
	end_connect(&bench.a, &bench.b, &default_path);
	post_recvs(&bench, &bench.b, RECV, RECVS, RECV_BYTES);
	set_limit(bench.b.srq, RECVS - 1);
	check(limit_of(bench.b.srq) == RECVS - 1, "%s: limit %u", test,
	      limit_of(bench.b.srq));
	post_sends(&bench, SEND, 1);
	expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
	expect_event(test, &devices[1], -1);
	post_sends(&bench, SEND, 1);
	expect(test, bench.b.recv_cq, RECV + 1, IBV_WC_SUCCESS);
	expect_of(test, &devices[1], IBV_EVENT_SRQ_LIMIT_REACHED,
		  bench.b.srq);
	check(limit_of(bench.b.srq) == 0, "%s: limit %u after the event", test,
	      limit_of(bench.b.srq));
	post_sends(&bench, SEND, 1);
	expect(test, bench.b.recv_cq, RECV + 2, IBV_WC_SUCCESS);
	expect_event(test, &devices[1], -1);
	set_limit(bench.b.srq, RECVS);
	post_sends(&bench, SEND, 1);
	expect(test, bench.b.recv_cq, RECV + 3, IBV_WC_SUCCESS);
	expect_of(test, &devices[1], IBV_EVENT_SRQ_LIMIT_REACHED,
		  bench.b.srq);
	bench_destroy(&bench);
}

/* A queue that is empty when the limit is set: its owner waits for the event, and posts then. */
static void test_srq_limit_late(const char *test)
{
	begin(true);
	end_connect(&bench.a, &bench.b, &default_path);
	set_limit(bench.b.srq, 1);
	expect_event(test, &devices[1], -1);
	post_sends(&bench, SEND, 1);
	expect_of(test, &devices[1], IBV_EVENT_SRQ_LIMIT_REACHED,
		  bench.b.srq);
	check(limit_of(bench.b.srq) == 0, "%s: limit %u after the event", test,
	      limit_of(bench.b.srq));
	expect_event(test, &devices[1], -1);
	post_recvs(&bench, &bench.b, RECV, 1, RECV_BYTES);
	expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
	expect(test, bench.a.send_cq, SEND, IBV_WC_SUCCESS);
	bench_destroy(&bench);
}

/* A queue is made without a limit: what stands in its attributes means nothing then, as the manual of libibverbs says. */
static void test_no_limit(const char *test)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = RECVS,
						    .max_sge = 1,
						    .srq_limit = 1000000 } };
	struct ibv_srq *srq = ibv_create_srq(devices[0].pd, &init);
	struct ibv_srq_attr attr = { .max_wr = 10 * RECVS };

	check(srq, "%s: create_srq: %m", test);
	check(limit_of(srq) == 0, "%s: limit %u", test, limit_of(srq));
	check(!ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR),
	      "%s: modify_srq: %m", test);
	check(!ibv_destroy_srq(srq), "%s: destroy_srq: %m", test);
}

/* The ring whose oldest element is the receive with this wr_id. */
static struct rxe_recv_wqe *receive_in_ring(uint64_t wr_id)
{
	struct ring rings[MAX_RINGS];
	int count = rings_find(rings);

	for (int i = 0; i < count; i++) {
		struct rxe_recv_wqe *wqe =
			ring_slot(&rings[i], rings[i].shared->consumer_index);

		if (rings[i].shared->producer_index !=
			    rings[i].shared->consumer_index &&
		    wqe->wr_id == wr_id)
			return wqe;
	}
	fail("no ring holds WR %llu", (unsigned long long)wr_id);
}

/* The queue pair goes to the error state, for its SRQ is there. */
static void expect_srq_victim(const char *test)
{
	expect_of(test, &devices[1], IBV_EVENT_QP_FATAL, bench.b.qp);
	expect_of(test, &devices[1], IBV_EVENT_QP_LAST_WQE_REACHED,
		  bench.b.qp);
	expect_event(test, &devices[1], -1);
	check(end_state(&bench.b) == IBV_QPS_ERR, "%s: state %d", test,
	      end_state(&bench.b));
	expect_none(test, bench.b.recv_cq);
}

/* An SRQ that the consumer has overwritten is in error, with what uses it. */
static void break_srq(const char *test)
{
	const uint64_t mark = 0x6d61726b65642131;

	begin(true);
	end_connect(&bench.a, &bench.b, &default_path);
	post_recvs(&bench, &bench.b, mark, RECVS, RECV_BYTES);
	receive_in_ring(mark)->dma.num_sge = 1000000;
	post_sends(&bench, SEND, 1);
	expect_of(test, &devices[1], IBV_EVENT_SRQ_ERR, bench.b.srq);
	expect_srq_victim(test);
}

static void test_srq_error(const char *test)
{
	break_srq(test);
	bench_destroy(&bench);
}

/* A queue pair that comes to an SRQ in error finds that when it needs a receive. */
static void test_srq_latecomer(const char *test)
{
	break_srq(test);
	end_to(&bench.a, IBV_QPS_RESET);
	end_to(&bench.b, IBV_QPS_RESET);
	end_connect(&bench.a, &bench.b, &default_path);
	expect_event(test, &devices[1], -1);
	check(end_state(&bench.b) == IBV_QPS_RTS, "%s: state %d", test,
	      end_state(&bench.b));
	post_sends(&bench, SEND, 1);
	expect_srq_victim(test);
	bench_destroy(&bench);
}

static const struct {
	const char *name;
	void (*run)(const char *name);
} tests[] = {
	{ "communication established", test_comm_est },
	{ "send queue drained", test_sq_drained },
	{ "idle send queue drained", test_idle_drained },
	{ "another port", test_port_change },
	{ "last receive reached", test_last_wqe },
	{ "wrong requests", test_request_errors },
	{ "completion queue overrun", test_cq_overrun },
	{ "chain of overruns", test_chain },
	{ "many overruns", test_many_overruns },
	{ "lost completions", test_lost },
	{ "queue pair of an overrun queue", test_latecomer },
	{ "limit of a shared receive queue", test_srq_limit },
	{ "limit of an empty shared receive queue", test_srq_limit_late },
	{ "no limit at first", test_no_limit },
	{ "error of a shared receive queue", test_srq_error },
	{ "queue pair of a broken shared receive queue", test_srq_latecomer },
};

int main(int argc, char **argv)
{
	check(argc <= 3, "usage: events [DEV[:PORT] [DEV[:PORT]]]");
	device_open(&devices[0], argc > 1 ? argv[1] : "sib0");
	device_open(&devices[1], argc > 2 ? argv[2] : "sib1");
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		tests[i].run(tests[i].name);
		printf("events: %s: right\n", tests[i].name);
		fflush(stdout);
	}
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
