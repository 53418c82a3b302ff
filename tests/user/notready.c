// SPDX-License-Identifier: GPL-2.0
/*
 * A responder that has no receive (IBA "RNR NAK"): the pause that a requester keeps is not
 * shorter than the responder's timer says, for each code of the table; it asks again as
 * often as its own counter says, no more and no less, and 7 is for ever; each message has
 * the full counter.
 */

#include "bench.h"

#include <stdio.h>
#include <unistd.h>

#define SEND 1
#define RECV 100
#define BYTES 64u
#define CODES 32
/* So often the pause may be much longer than it should be. */
#define TRIES 20
/* What is not much longer: a half, and the time that a busy machine takes for all else. */
#define SLACK_US 20000u
#define FOR_EVER 7
/* More often than any other counter allows. */
#define MANY 60u
#define IN_ROW 3
/* Counters are no older than that. */
#define AGE_US 20000
/* 0.64 ms; 327.68 ms, and the longest, 655.36 ms. */
#define SHORT_CODE 12
#define LONG_CODE 30
#define LONGEST_CODE 0

/* IBA table "Encoding for RNR NAK Timer Field", in units of 10 microseconds. */
static const uint32_t timers[CODES] = {
	65536, 1,    2,	   3,	 4,	6,     8,     12,
	16,    24,   32,   48,	 64,	96,    128,   192,
	256,   384,  512,  768,	 1024,	1536,  2048,  3072,
	4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} kinds[] = {
	{ "SEND", IBV_WR_SEND },
	{ "SEND with immediate", IBV_WR_SEND_WITH_IMM },
	{ "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM },
};

static struct device devices[2];
static struct bench bench;

static uint64_t pause_us(int code)
{
	return timers[code] * 10ull;
}

static uint64_t now_us(void)
{
	return now_ns() / 1000;
}

/* A requester that asks again so often, of a responder with this timer. Its own timer says
 * something else. */
static void begin(uint8_t code, uint8_t retries)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 1,
		.signal_all = true,
	};
	struct path_options a = default_path, b = default_path;

	a.rnr_retries = retries;
	a.min_rnr_timer = (code + CODES / 2) % CODES;
	b.min_rnr_timer = code;
	bench_create(&bench, &devices[0], &devices[1], &options);
	end_to_init(&bench.a, &a);
	end_to_init(&bench.b, &b);
	end_to_rtr(&bench.a, &bench.b, &a);
	end_to_rtr(&bench.b, &bench.a, &b);
	end_to_rts(&bench.a, &a);
	end_to_rts(&bench.b, &b);
}

static void post(uint64_t wr_id, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = sge_local(&bench, BYTES);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { (uintptr_t)bench.remote, bench.remote_mr->rkey },
	};

	post_send(&bench.a, &wr);
}

/* How often a requester has heard that its peer is not ready. */
static uint64_t refusals(void)
{
	usleep(AGE_US);
	return hw_counter(&devices[0], "rcvd_rnr_err");
}

static void await_refusals(const char *test, uint64_t count)
{
	uint64_t due = now_ms() + DUE_MS;

	while (hw_counter(&devices[0], "rcvd_rnr_err") < count) {
		check(now_ms() < due, "%s: nobody asks", test);
		usleep(1000);
	}
}

/* One pause lies between the two attempts that there are; what it took in all. */
static uint64_t two_attempts(const char *test, int code)
{
	uint64_t began, took;

	begin(code, 1);
	began = now_us();
	post(SEND, IBV_WR_SEND);
	expect(test, bench.a.send_cq, SEND, IBV_WC_RNR_RETRY_EXC_ERR);
	took = now_us() - began;
	check(took >= pause_us(code),
	      "%s: code %d: asked again after %llu us; it says %llu us", test,
	      code, (unsigned long long)took,
	      (unsigned long long)pause_us(code));
	bench_destroy(&bench);
	return took;
}

static void test_pauses(const char *test)
{
	for (int code = 0; code < CODES; code++) {
		uint64_t most = pause_us(code) * 3 / 2 + SLACK_US, took;
		int tries = 0;

		do {
			check(tries++ < TRIES,
			      "%s: code %d: %llu us at least; it says %llu us",
			      test, code, (unsigned long long)took,
			      (unsigned long long)pause_us(code));
			took = two_attempts(test, code);
		} while (took > most);
		printf("notready: code %2d: %6llu us of %6llu us\n", code,
		       (unsigned long long)took,
		       (unsigned long long)pause_us(code));
	}
}

static void test_attempts(const char *test)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		for (int retries = 0; retries < FOR_EVER; retries++) {
			uint64_t before = refusals(), began, took, count;
			uint64_t sent = hw_counter(&devices[1], "send_rnr_err");

			begin(SHORT_CODE, retries);
			began = now_us();
			post(SEND, kinds[i].opcode);
			expect(test, bench.a.send_cq, SEND,
			       IBV_WC_RNR_RETRY_EXC_ERR);
			took = now_us() - began;
			count = refusals() - before;
			sent = hw_counter(&devices[1], "send_rnr_err") - sent;
			check(count == (uint64_t)retries + 1 && sent == count,
			      "%s: %s was tried %llu times, and refused %llu times, with %d retries",
			      test, kinds[i].name, (unsigned long long)count,
			      (unsigned long long)sent, retries);
			check(took >= retries * pause_us(SHORT_CODE),
			      "%s: %d pauses in %llu us", test, retries,
			      (unsigned long long)took);
			check(end_state(&bench.a) == IBV_QPS_ERR &&
				      end_state(&bench.b) == IBV_QPS_RTS,
			      "%s: states %d and %d", test,
			      end_state(&bench.a), end_state(&bench.b));
			bench_destroy(&bench);
		}
	}
}

static void test_for_ever(const char *test)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint64_t before = refusals();

		begin(SHORT_CODE, FOR_EVER);
		post(SEND, kinds[i].opcode);
		await_refusals(test, before + MANY);
		expect_none(test, bench.a.send_cq);
		post_recvs(&bench, &bench.b, RECV, 1, BYTES);
		expect(test, bench.a.send_cq, SEND, IBV_WC_SUCCESS);
		expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
		bench_destroy(&bench);
	}
}

/* The receive comes in the only pause that there may be, for each of several messages; the
 * pause goes on. */
static void test_each_message(const char *test)
{
	begin(LONGEST_CODE, 1);
	for (int i = 0; i < IN_ROW; i++) {
		uint64_t before = refusals(), began = now_us(), took;

		post(SEND + i, IBV_WR_SEND);
		await_refusals(test, before + 1);
		post_recvs(&bench, &bench.b, RECV + i, 1, BYTES);
		expect(test, bench.a.send_cq, SEND + i, IBV_WC_SUCCESS);
		took = now_us() - began;
		expect(test, bench.b.recv_cq, RECV + i, IBV_WC_SUCCESS);
		check(took >= pause_us(LONGEST_CODE),
		      "%s: a pause of %llu us", test, (unsigned long long)took);
	}
	bench_destroy(&bench);
}

/* The timer changes while the responder is asked. */
static void test_changed(const char *test)
{
	struct ibv_qp_attr attr = { .min_rnr_timer = LONG_CODE };
	uint64_t before = refusals(), began, took;

	begin(SHORT_CODE, FOR_EVER);
	post(SEND, IBV_WR_SEND);
	await_refusals(test, before + 2);
	check(!ibv_modify_qp(bench.b.qp, &attr, IBV_QP_MIN_RNR_TIMER),
	      "%s: modify_qp: %m", test);
	began = now_us();
	before = refusals();
	/* Two pauses are between three refusals. */
	await_refusals(test, before + 3);
	took = now_us() - began;
	check(took >= 2 * pause_us(LONG_CODE), "%s: two pauses in %llu us",
	      test, (unsigned long long)took);
	post_recvs(&bench, &bench.b, RECV, 1, BYTES);
	expect(test, bench.a.send_cq, SEND, IBV_WC_SUCCESS);
	bench_destroy(&bench);
}

static const struct {
	const char *name;
	void (*run)(const char *name);
} tests[] = {
	{ "pauses", test_pauses },
	{ "attempts", test_attempts },
	{ "attempts for ever", test_for_ever },
	{ "attempts of each message", test_each_message },
	{ "another timer", test_changed },
};

int main(int argc, char **argv)
{
	check(argc == 3, "usage: notready DEV[:PORT] DEV[:PORT]");
	device_open(&devices[0], argv[1]);
	device_open(&devices[1], argv[2]);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		tests[i].run(tests[i].name);
		printf("notready: %s: right\n", tests[i].name);
		fflush(stdout);
	}
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
