// SPDX-License-Identifier: GPL-2.0
/*
 * What a fence holds back (IBA "Work Request Ordering"): a work request with one begins
 * when all RDMA READ and atomic operations before it are complete; the invalidation of a
 * key, when all work requests are.
 *
 * The fault injector keeps answers from the requester. Each case is tried without the
 * fence, too, since what a fence holds back must be seen to come otherwise.
 */

#include "bench.h"
#include "faults.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define FIRST 1
#define SECOND 2
#define RECV 100
#define WORD 8u
#define OLD 1000u
#define ADDED 5u
#define WRITTEN 0x7777777777777777u
/* Where the second one takes its bytes from, or leaves them. */
#define SECOND_AT 32768u
/* The message that races with a READ, and how often. */
#define LONG_BYTES 32768u
#define ROUNDS 40
/* 0.54 s: answers may wait for eight times as long, and what is lost then is repaired by it;
 * 67 ms. */
#define HOLD_TIMEOUT 17
#define RACE_TIMEOUT 14
#define WINDOW_WR 50
#define INVALIDATION 51

/* Opcodes in the BTH of packets of reliable connections. */
enum {
	BTH_SEND = 0x04,
	BTH_SEND_IMM = 0x05,
	BTH_WRITE = 0x0a,
	BTH_WRITE_IMM = 0x0b,
	BTH_READ = 0x0c,
	BTH_READ_RESPONSE = 0x10,
	BTH_ACK = 0x11,
	BTH_ATOMIC_ACK = 0x12,
	BTH_COMPARE_SWAP = 0x13,
	BTH_FETCH_ADD = 0x14,
};

struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	/* Of the only packet of the request. */
	int request;
	/* Of the packet that answers. */
	int answer;
};

/* What is waited for. */
static const struct operation firsts[] = {
	{ "READ", IBV_WR_RDMA_READ, BTH_READ, BTH_READ_RESPONSE },
	{ "FETCH AND ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, BTH_FETCH_ADD,
	  BTH_ATOMIC_ACK },
	{ "COMPARE AND SWAP", IBV_WR_ATOMIC_CMP_AND_SWP, BTH_COMPARE_SWAP,
	  BTH_ATOMIC_ACK },
};

/* What waits. */
static const struct operation seconds[] = {
	{ "SEND", IBV_WR_SEND, BTH_SEND, BTH_ACK },
	{ "SEND with immediate", IBV_WR_SEND_WITH_IMM, BTH_SEND_IMM, BTH_ACK },
	{ "WRITE", IBV_WR_RDMA_WRITE, BTH_WRITE, BTH_ACK },
	{ "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, BTH_WRITE_IMM,
	  BTH_ACK },
	{ "READ", IBV_WR_RDMA_READ, BTH_READ, BTH_READ_RESPONSE },
	{ "FETCH AND ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, BTH_FETCH_ADD,
	  BTH_ATOMIC_ACK },
	{ "COMPARE AND SWAP", IBV_WR_ATOMIC_CMP_AND_SWP, BTH_COMPARE_SWAP,
	  BTH_ATOMIC_ACK },
};

static struct device devices[2];
static struct bench bench;

/* With this code of the ACK timeout. */
static void begin(uint8_t timeout)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 1,
	};
	struct path_options path = default_path;

	path.timeout = timeout;
	bench_create(&bench, &devices[0], &devices[1], &options);
	end_connect(&bench.a, &bench.b, &path);
	/* Who has not heard of receives asks for them by a message that waits for all. */
	post_recvs(&bench, &bench.b, RECV, 3, WORD);
	post_sends(&bench, FIRST, 1);
	expect("credits", bench.a.send_cq, FIRST, IBV_WC_SUCCESS);
}

static void order(const char *format, int opcode)
{
	char rule[100];

	snprintf(rule, sizeof(rule), format, opcode, bench.b.qp->qp_num);
	faults_order(&devices[1], rule);
}

/* Answers of this kind wait at the responder's port from now on. */
static void hold(int opcode)
{
	order("delay out opcode=0x%x time=100000000", opcode);
}

static void await_held(const char *test)
{
	uint64_t due = now_ms() + DUE_MS;

	while (!faults_count(&devices[1], "#", "held")) {
		check(now_ms() < due, "%s: no answer", test);
		sched_yield();
	}
}

/* Requests of this kind are counted when they arrive. */
static void watch(int opcode)
{
	order("drop in opcode=0x%x qp=0x%x probability=0%%", opcode);
}

static unsigned long arrivals(void)
{
	return faults_count(&devices[1], "drop in", "seen");
}

/* Lets go of what waits, and has packets pass again. */
static void release(void)
{
	faults_order(&devices[1], "clear");
}

static volatile uint64_t *word_at(uint8_t *memory, uint32_t offset)
{
	return (volatile uint64_t *)(memory + offset);
}

/* A work request on the first bytes of the responder's memory, whose local bytes are at
 * `at`. */
static struct ibv_send_wr request(uint64_t wr_id, enum ibv_wr_opcode opcode,
				  struct ibv_sge *sge, uint32_t at,
				  uint32_t length)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	*sge = sge_local(&bench, length);
	sge->addr += at;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)bench.remote;
		wr.wr.atomic.rkey = bench.remote_mr->rkey;
		wr.wr.atomic.compare_add =
			opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? ADDED : OLD;
		wr.wr.atomic.swap = OLD + ADDED;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)bench.remote;
		wr.wr.rdma.rkey = bench.remote_mr->rkey;
	}
	return wr;
}

/* Both by one doorbell. */
static void post_both(enum ibv_wr_opcode first, enum ibv_wr_opcode second,
		      uint32_t length, bool fence)
{
	struct ibv_sge sges[2];
	struct ibv_send_wr wrs[2] = {
		request(FIRST, first, &sges[0], 0, length),
		request(SECOND, second, &sges[1], SECOND_AT, length),
	};

	wrs[0].next = &wrs[1];
	if (fence)
		wrs[1].send_flags |= IBV_SEND_FENCE;
	post_send(&bench.a, wrs);
}

/* The second one, as it arrives, while the answer to the first one waits. */
static void holds_back(const struct operation *first,
		       const struct operation *second, bool fence)
{
	uint64_t due, result;
	char test[100];

	snprintf(test, sizeof(test), "%s %s a fence behind %s", second->name,
		 fence ? "with" : "without", first->name);
	begin(HOLD_TIMEOUT);
	*word_at(bench.remote, 0) = OLD;
	*word_at(bench.local, 0) = 0;
	*word_at(bench.local, SECOND_AT) = WRITTEN;
	hold(first->answer);
	watch(second->request);
	post_both(first->opcode, second->opcode, WORD, fence);
	await_held(test);
	due = now_ms() + (fence ? QUIET_MS : DUE_MS);
	while (!arrivals() && now_ms() < due)
		sched_yield();
	check(!arrivals() == fence, "%s: %s", test,
	      fence ? "it arrives before that is complete" :
		      "it does not arrive, although nothing holds it back");
	expect_none(test, bench.a.send_cq);
	release();
	expect(test, bench.a.send_cq, FIRST, IBV_WC_SUCCESS);
	expect(test, bench.a.send_cq, SECOND, IBV_WC_SUCCESS);
	result = *word_at(bench.local, 0);
	/* A READ that is asked for again may see what follows it. */
	if (fence || first->opcode != IBV_WR_RDMA_READ)
		check(result == OLD, "%s: the first one has got %llu, not %u",
		      test, (unsigned long long)result, OLD);
	bench_destroy(&bench);
}

/* The answer to a READ is lost: when it is read again, what is behind it has been written
 * unless a fence has held it back. */
static void read_again(const struct operation *second, bool fence)
{
	uint64_t result;
	char test[100];

	snprintf(test, sizeof(test), "%s %s a fence behind a READ that is repeated",
		 second->name, fence ? "with" : "without");
	begin(default_path.timeout);
	*word_at(bench.remote, 0) = OLD;
	*word_at(bench.local, 0) = 0;
	*word_at(bench.local, SECOND_AT) = WRITTEN;
	order("drop out opcode=0x%x count=1", BTH_READ_RESPONSE);
	post_both(IBV_WR_RDMA_READ, second->opcode, WORD, fence);
	expect(test, bench.a.send_cq, FIRST, IBV_WC_SUCCESS);
	expect(test, bench.a.send_cq, SECOND, IBV_WC_SUCCESS);
	check(faults_count(&devices[1], "drop out", "struck") == 1, "%s: nothing was lost",
	      test);
	result = *word_at(bench.local, 0);
	check((result == OLD) == fence, "%s: the READ has got %llu", test,
	      (unsigned long long)result);
	check(*word_at(bench.remote, 0) != OLD, "%s: nothing was written",
	      test);
	release();
	bench_destroy(&bench);
}

/* The bytes that a READ has got which something behind it has written. */
static uint32_t too_new(uint8_t value)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < LONG_BYTES; i++) {
		check(bench.local[i] == value || bench.local[i] == 0xee,
		      "a READ has got the byte %x", bench.local[i]);
		count += bench.local[i] == 0xee;
	}
	return count;
}

/* A READ of many packets, of which some are lost, and a WRITE to all that it reads. */
static void race(bool fence)
{
	const char *test = fence ? "long WRITE with a fence" :
				   "long WRITE without a fence";
	uint32_t count = 0;

	begin(RACE_TIMEOUT);
	memset(bench.local + SECOND_AT, 0xee, LONG_BYTES);
	faults_order(&devices[1],
		     "drop out opcode=0x0c/0xfc probability=10% seed=1");
	for (int round = 0; round < ROUNDS; round++) {
		memset(bench.remote, round, LONG_BYTES);
		memset(bench.local, 0, LONG_BYTES);
		post_both(IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, LONG_BYTES,
			  fence);
		expect(test, bench.a.send_cq, FIRST, IBV_WC_SUCCESS);
		expect(test, bench.a.send_cq, SECOND, IBV_WC_SUCCESS);
		count += too_new(round);
	}
	check(faults_count(&devices[1], "drop out", "struck"), "%s: nothing was lost",
	      test);
	check(!count == fence, "%s: READs have got %u bytes that were written behind them",
	      test, count);
	printf("fence: %s: %u bytes of %u\n", test, count, ROUNDS * LONG_BYTES);
	release();
	bench_destroy(&bench);
}

/* A window of the requester's memory, which the responder may read. */
static struct ibv_mw *make_window(struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(devices[0].pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .wr_id = WINDOW_WR,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };

	check(mw, "alloc_mw: %m");
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = mr,
		.addr = (uintptr_t)bench.local,
		.length = WORD,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	post_send(&bench.a, &wr);
	expect("bind", bench.a.send_cq, WINDOW_WR, IBV_WC_SUCCESS);
	mw->rkey = wr.bind_mw.rkey;
	return mw;
}

/* The responder reads through the window. */
static void read_window(const char *test, const struct ibv_mw *mw,
			enum ibv_wc_status status)
{
	struct ibv_sge sge = sge_remote(&bench, WORD);
	struct ibv_send_wr wr = {
		.wr_id = FIRST,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)bench.local, mw->rkey },
	};

	post_send(&bench.b, &wr);
	expect(test, bench.b.send_cq, FIRST, status);
}

/* A key is invalidated while the ACK of a WRITE waits, for which the peer may still use
 * it: not with a fence. */
static void invalidates(bool fence)
{
	const char *test = fence ? "invalidation with a fence" :
				   "invalidation without a fence";
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_sge sge;
	struct ibv_send_wr wr, inv = { .wr_id = INVALIDATION,
				       .opcode = IBV_WR_LOCAL_INV,
				       .send_flags = IBV_SEND_SIGNALED };

	begin(HOLD_TIMEOUT);
	mr = bench_reg(devices[0].pd, bench.local,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make_window(mr);
	inv.invalidate_rkey = mw->rkey;
	if (fence)
		inv.send_flags |= IBV_SEND_FENCE;
	hold(BTH_ACK);
	wr = request(FIRST, IBV_WR_RDMA_WRITE, &sge, 0, WORD);
	wr.next = &inv;
	post_send(&bench.a, &wr);
	await_held(test);
	read_window(test, mw,
		    fence ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	if (fence) {
		expect_none(test, bench.a.send_cq);
		release();
		expect(test, bench.a.send_cq, FIRST, IBV_WC_SUCCESS);
		expect(test, bench.a.send_cq, INVALIDATION, IBV_WC_SUCCESS);
		read_window(test, mw, IBV_WC_REM_ACCESS_ERR);
	}
	release();
	expect_event(test, &devices[0], IBV_EVENT_QP_ACCESS_ERR);
	check(!ibv_dealloc_mw(mw), "dealloc_mw: %m");
	check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	bench_destroy(&bench);
}

/* What arrives is told apart by its opcode. */
static bool can_tell(const struct operation *first,
		     const struct operation *second)
{
	return first->request != second->request;
}

static bool writes(const struct operation *operation)
{
	return operation->request != BTH_READ &&
	       operation->request != BTH_SEND &&
	       operation->request != BTH_SEND_IMM;
}

int main(int argc, char **argv)
{
	check(argc == 3, "usage: fence DEV[:PORT] DEV[:PORT]");
	device_open(&devices[0], argv[1]);
	device_open(&devices[1], argv[2]);
	for (int fence = 0; fence < 2; fence++) {
		for (size_t i = 0; i < ARRAY_SIZE(firsts); i++)
			for (size_t j = 0; j < ARRAY_SIZE(seconds); j++)
				if (can_tell(&firsts[i], &seconds[j]))
					holds_back(&firsts[i], &seconds[j],
						   fence);
		for (size_t j = 0; j < ARRAY_SIZE(seconds); j++)
			if (writes(&seconds[j]))
				read_again(&seconds[j], fence);
		race(fence);
		invalidates(fence);
		printf("fence: %s a fence: right\n", fence ? "with" : "without");
		fflush(stdout);
	}
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
