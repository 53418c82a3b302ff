// SPDX-License-Identifier: GPL-2.0
/*
 * What a memory region promises: keys with a part that cannot be guessed, messages as
 * long as there may be any, and that nothing is written any more once the region, or
 * the queue pair, is gone.
 *
 *     regions DEVICE[:PORT] DEVICE[:PORT] [longest]
 *
 * End `a` asks, end `b` answers. The longest messages are the business of the second form
 * alone.
 */

#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEYS 256
/* Of a key: where its random part begins, and how many values that has. */
#define RANDOM_SHIFT 24
#define RANDOM_VALUES 256
/* Of 256 draws of 256 values, 162 differ on average; not even 100 do once in 10^20 times. */
#define LEAST_VALUES 100

#define FLOOD_BYTES (1u << 20)
#define FLOOD_DEPTH 8
#define FLOOD_ROUNDS 20
/* Of those that end when the peer has been silent for long enough. */
#define SILENT_ROUNDS 4
/* The code of their ACK timeout, eight of which take a second. */
#define SHORT_TIMEOUT 15
/* Longer than any message of a flood takes. */
#define STILL_MS 30

#define PIECE (64u << 20)
#define PIECES 32
#define MOST_BYTES (1u << 31)
#define LONGEST_MS 120000

static struct device devices[2];

static void *memory_of(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(bytes != MAP_FAILED, "mmap: %m");
	return bytes;
}

static struct ibv_mr *reg(int at, void *bytes, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(devices[at].pd, bytes, size, ALL_ACCESS);

	check(mr, "reg_mr of %zu bytes: %m", size);
	return mr;
}

static int count_values(const bool *seen)
{
	int count = 0;

	for (int i = 0; i < RANDOM_VALUES; i++)
		count += seen[i];
	return count;
}

/* Keys of one region after the other tell neither the next nor the step to it. */
static void test_keys(const char *test)
{
	bool values[RANDOM_VALUES] = {}, steps[RANDOM_VALUES] = {};
	uint8_t *bytes = memory_of(4096), last = 0;

	for (int i = 0; i < KEYS; i++) {
		struct ibv_mr *mr = reg(0, bytes, 4096);
		uint8_t part = mr->rkey >> RANDOM_SHIFT;

		check(mr->rkey && mr->lkey, "%s: a key is 0", test);
		values[part] = true;
		steps[(uint8_t)(part - last)] = true;
		last = part;
		check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	}
	printf("regions: %d keys with %d random parts and %d steps\n", KEYS,
	       count_values(values), count_values(steps));
	check(count_values(values) >= LEAST_VALUES &&
		      count_values(steps) >= LEAST_VALUES,
	      "%s: they repeat", test);
	munmap(bytes, 4096);
}

/* A flood: messages one behind the other, each with other bytes. */
static struct flood {
	struct end a;
	struct end b;
	uint8_t *from;
	uint8_t *to;
	struct ibv_mr *from_mr;
	struct ibv_mr *to_mr;
	uint32_t rkey;
	uint32_t recv_lkey;
	/* How many receives have been posted. */
	int recvs;
	enum ibv_wr_opcode op;
	/* How many messages are complete, and with what it ended. */
	atomic_ulong done;
	enum ibv_wc_status status;
	atomic_bool over;
	pthread_t thread;
} flood;

static void post_flood(void)
{
	struct ibv_sge sge = { (uintptr_t)flood.from, FLOOD_BYTES,
			       flood.from_mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = flood.op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)flood.to, flood.rkey },
	};
	static uint8_t number;

	/* What is written differs from what was there, if only in a few places. */
	number++;
	for (uint32_t at = 0; at < FLOOD_BYTES; at += 512)
		(flood.op == IBV_WR_RDMA_READ ? flood.to : flood.from)[at] =
			number;
	post_send(&flood.a, &wr);
}

static void *run_flood(void *unused)
{
	struct ibv_wc wc;

	(void)unused;
	for (int i = 0; i < FLOOD_DEPTH; i++)
		post_flood();
	for (;;) {
		check(await(flood.a.send_cq, &wc, DUE_MS), "the flood stalls");
		if (wc.status != IBV_WC_SUCCESS)
			break;
		atomic_fetch_add(&flood.done, 1);
		post_flood();
	}
	flood.status = wc.status;
	atomic_store(&flood.over, true);
	return NULL;
}

static void post_flood_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)flood.to, FLOOD_BYTES,
			       flood.recv_lkey };
	struct ibv_recv_wr wr = { .wr_id = flood.recvs++,
				  .sg_list = &sge,
				  .num_sge = 1 };

	post_recv(&flood.b, &wr);
}

static void begin_flood(enum ibv_wr_opcode op, const struct path_options *path)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = 2 * FLOOD_DEPTH,
		.recv_depth = 2 * BENCH_DEPTH,
		.sges = 1,
	};

	memset(&flood, 0, sizeof(flood));
	flood.op = op;
	flood.from = memory_of(FLOOD_BYTES);
	flood.to = memory_of(FLOOD_BYTES);
	flood.from_mr = reg(0, flood.from, FLOOD_BYTES);
	flood.to_mr = reg(1, flood.to, FLOOD_BYTES);
	flood.rkey = flood.to_mr->rkey;
	flood.recv_lkey = flood.to_mr->lkey;
	end_create(&flood.a, &devices[0], &options);
	end_create(&flood.b, &devices[1], &options);
	end_connect(&flood.a, &flood.b, path);
	for (uint32_t i = 0; op == IBV_WR_SEND && i < BENCH_DEPTH; i++)
		post_flood_recv();
	check(!pthread_create(&flood.thread, NULL, run_flood, NULL),
	      "no thread");
	while (atomic_load(&flood.done) < 2) {
		check(!atomic_load(&flood.over), "the flood ends with '%s'",
		      ibv_wc_status_str(flood.status));
		usleep(100);
	}
}

/* Nothing is written to these bytes any more. */
static void expect_still(const char *test, const uint8_t *bytes)
{
	static uint8_t copy[FLOOD_BYTES];
	uint64_t end = now_ms() + STILL_MS;

	memcpy(copy, bytes, FLOOD_BYTES);
	do {
		check(!memcmp(copy, bytes, FLOOD_BYTES),
		      "%s: written after the end, and %lu messages", test,
		      atomic_load(&flood.done));
	} while (now_ms() < end);
}

static void end_flood(const char *test, enum ibv_wc_status due)
{
	pthread_join(flood.thread, NULL);
	check(flood.status == due, "%s: the flood ends with '%s', not '%s'", test,
	      ibv_wc_status_str(flood.status), ibv_wc_status_str(due));
	end_destroy(&flood.a);
	end_destroy(&flood.b);
	check(!ibv_dereg_mr(flood.from_mr), "dereg_mr: %m");
	check(!flood.to_mr || !ibv_dereg_mr(flood.to_mr), "dereg_mr: %m");
	munmap(flood.from, FLOOD_BYTES);
	munmap(flood.to, FLOOD_BYTES);
}

/* Once a queue pair is in the error state, its peer writes nothing. */
static void test_barrier(const char *test)
{
	struct path_options path = default_path;

	path.timeout = SHORT_TIMEOUT;
	for (int i = 0; i < SILENT_ROUNDS; i++) {
		begin_flood(IBV_WR_RDMA_WRITE, &path);
		usleep(1000 * i);
		end_to(&flood.b, IBV_QPS_ERR);
		expect_still(test, flood.to);
		end_flood(test, IBV_WC_RETRY_EXC_ERR);
	}
}

/* Nor does what its peer answers. */
static void test_barrier_of_reads(const char *test)
{
	for (int i = 0; i < FLOOD_ROUNDS; i++) {
		begin_flood(IBV_WR_RDMA_READ, &default_path);
		usleep(500 * (i % 8));
		end_to(&flood.a, IBV_QPS_ERR);
		expect_still(test, flood.from);
		end_flood(test, IBV_WC_WR_FLUSH_ERR);
	}
}

static void gone(const char *test)
{
	check(!ibv_dereg_mr(flood.to_mr), "%s: dereg_mr: %m", test);
	flood.to_mr = NULL;
	expect_still(test, flood.to);
}

/* Once a region is gone, nothing is written to it, and the peer is told. */
static void test_dereg(const char *test)
{
	for (int i = 0; i < FLOOD_ROUNDS; i++) {
		begin_flood(IBV_WR_RDMA_WRITE, &default_path);
		usleep(500 * (i % 8));
		gone(test);
		end_flood(test, IBV_WC_REM_ACCESS_ERR);
	}
}

/* One receive is found to be bad, and those behind it are flushed. */
static void expect_receives(const char *test)
{
	bool failed = false;

	for (int i = 0; i < flood.recvs; i++) {
		struct ibv_wc wc;

		check(await(flood.b.recv_cq, &wc, DUE_MS),
		      "%s: %d of %d receives complete", test, i, flood.recvs);
		check((int)wc.wr_id == i, "%s: receive %llu instead of %d", test,
		      (unsigned long long)wc.wr_id, i);
		if (!failed && wc.status == IBV_WC_SUCCESS)
			continue;
		check(wc.status == (failed ? IBV_WC_WR_FLUSH_ERR :
					     IBV_WC_LOC_PROT_ERR),
		      "%s: receive %d ends with '%s'", test, i,
		      ibv_wc_status_str(wc.status));
		failed = true;
	}
	check(failed, "%s: no receive fails", test);
	expect_none(test, flood.b.recv_cq);
}

/* The same under receives that are posted. */
static void test_dereg_posted(const char *test)
{
	for (int i = 0; i < FLOOD_ROUNDS; i++) {
		begin_flood(IBV_WR_SEND, &default_path);
		gone(test);
		/* If the flood has used up all others. */
		post_flood_recv();
		expect_receives(test);
		end_flood(test, IBV_WC_REM_OP_ERR);
	}
}

/* A region with the same memory again and again, and where it is. */
static struct ibv_mr *reg_repeated(int at, uint8_t **where, int file)
{
	uint8_t *bytes = mmap(NULL, MOST_BYTES, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);

	check(bytes != MAP_FAILED, "mmap: %m");
	*where = bytes;
	for (size_t offset = 0; offset < MOST_BYTES; offset += PIECE)
		check(mmap(bytes + offset, PIECE,
			   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
			   0) != MAP_FAILED,
		      "mmap: %m");
	return reg(at, bytes, MOST_BYTES);
}

static void fill(uint8_t *bytes, uint64_t seed)
{
	struct rng rng;

	rng_seed(&rng, seed);
	for (size_t at = 0; at < PIECE; at += 4096) {
		uint64_t value = rng_next(&rng);

		memcpy(bytes + at + value % 4088, &value, sizeof(value));
	}
}

/*
 * The longest message there may be: a list of pieces for SEND, and for RDMA one range, of
 * the same memory again and again. One byte more is refused, and nothing moves.
 */
static void test_longest(const char *test)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
	};
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = 2,
		.recv_depth = 2,
		.sges = PIECES,
	};
	uint8_t *from = memory_of(PIECE + 1), *to;
	struct ibv_mr *from_mr = reg(0, from, PIECE + 1), *to_mr;
	int file = memfd_create("regions", 0);
	struct ibv_sge list[PIECES], range;
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &range, .num_sge = 1 };
	struct ibv_send_wr send = { .wr_id = 1,
				    .sg_list = list,
				    .num_sge = PIECES,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	struct end a, b;

	check(devices[0].port_attr.max_msg_sz == MOST_BYTES,
	      "%s: max_msg_sz is %u", test, devices[0].port_attr.max_msg_sz);
	check(file >= 0 && !ftruncate(file, PIECE), "memfd: %m");
	to_mr = reg_repeated(1, &to, file);
	range = (struct ibv_sge){ (uintptr_t)to, MOST_BYTES, to_mr->lkey };
	end_create(&a, &devices[0], &options);
	end_create(&b, &devices[1], &options);
	end_connect(&a, &b, &default_path);
	for (int i = 0; i < PIECES; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)from, PIECE,
					    from_mr->lkey };
	send.wr.rdma.remote_addr = (uintptr_t)to;
	send.wr.rdma.rkey = to_mr->rkey;
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		uint64_t began = now_ms();

		send.opcode = ops[i];
		fill(ops[i] == IBV_WR_RDMA_READ ? to : from, i + 1);
		if (ops[i] == IBV_WR_SEND)
			post_recv(&b, &recv);
		post_send(&a, &send);
		check(await(a.send_cq, &wc, LONGEST_MS) &&
			      wc.status == IBV_WC_SUCCESS,
		      "%s: operation %d ends with '%s'", test, ops[i],
		      ibv_wc_status_str(wc.status));
		if (ops[i] == IBV_WR_SEND)
			check(await(b.recv_cq, &wc, LONGEST_MS) &&
				      wc.status == IBV_WC_SUCCESS &&
				      wc.byte_len == MOST_BYTES,
			      "%s: %u bytes received, '%s'", test, wc.byte_len,
			      ibv_wc_status_str(wc.status));
		check(!memcmp(from, to, PIECE), "%s: operation %d: wrong bytes",
		      test, ops[i]);
		printf("regions: operation %d: %u bytes in %llu ms\n", ops[i],
		       MOST_BYTES, (unsigned long long)(now_ms() - began));
	}
	list[PIECES - 1].length++;
	send.opcode = IBV_WR_RDMA_WRITE;
	fill(from, 99);
	post_send(&a, &send);
	expect(test, a.send_cq, 1, IBV_WC_LOC_LEN_ERR);
	check(memcmp(from, to, PIECE), "%s: one byte more is taken", test);
	end_destroy(&a);
	end_destroy(&b);
	check(!ibv_dereg_mr(from_mr) && !ibv_dereg_mr(to_mr), "dereg_mr: %m");
	munmap(from, PIECE + 1);
	munmap(to, MOST_BYTES);
	close(file);
}

/* The keys of receives are of the domain of their queue, which may be shared by queue pairs of others. */
static void test_domains(const char *test)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = 1,
		.recv_depth = 2,
		.sges = 1,
		.signal_all = true,
		.with_srq = true,
	};
	struct ibv_pd *other = ibv_alloc_pd(devices[1].context);
	uint8_t *from = memory_of(4096), *to = memory_of(4096);
	struct ibv_mr *from_mr = reg(0, from, 4096), *to_mr[2];
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};
	struct ibv_sge source = { (uintptr_t)from, 4096, from_mr->lkey };
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND,
				    .sg_list = &source,
				    .num_sge = 1 };
	struct end a, b;

	check(other, "alloc_pd: %m");
	to_mr[0] = reg(1, to, 4096);
	to_mr[1] = ibv_reg_mr(other, to, 4096, ALL_ACCESS);
	check(to_mr[1], "reg_mr: %m");
	end_create(&a, &devices[0], &options);
	end_create(&b, &devices[1], &options);
	check(!ibv_destroy_qp(b.qp), "destroy_qp: %m");
	init.send_cq = b.send_cq;
	init.recv_cq = b.recv_cq;
	init.srq = b.srq;
	b.qp = ibv_create_qp(other, &init);
	check(b.qp, "%s: create_qp: %m", test);
	end_connect(&a, &b, &default_path);
	memset(from, 0x5a, 4096);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge room = { (uintptr_t)to, 4096, to_mr[i]->lkey };
		struct ibv_recv_wr recv = { .wr_id = 10 + i,
					    .sg_list = &room,
					    .num_sge = 1 };

		send.wr_id = i;
		post_recv(&b, &recv);
		post_send(&a, &send);
		expect(test, b.recv_cq, 10 + i,
		       i ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
		expect(test, a.send_cq, i,
		       i ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
		check(!memcmp(from, to, 4096), "%s: wrong bytes", test);
	}
	end_destroy(&a);
	end_destroy(&b);
	check(!ibv_dereg_mr(from_mr) && !ibv_dereg_mr(to_mr[0]) &&
		      !ibv_dereg_mr(to_mr[1]),
	      "dereg_mr: %m");
	check(!ibv_dealloc_pd(other), "dealloc_pd: %m");
	munmap(from, 4096);
	munmap(to, 4096);
}

static const struct {
	const char *name;
	void (*run)(const char *name);
} tests[] = {
	{ "keys", test_keys },
	{ "receives of another domain", test_domains },
	{ "writes to a queue pair in error", test_barrier },
	{ "answers to a queue pair in error", test_barrier_of_reads },
	{ "region gone under writes", test_dereg },
	{ "region gone under receives", test_dereg_posted },
};

static void run_test(const char *name, void (*run)(const char *name))
{
	uint64_t began = now_ms();

	run(name);
	printf("regions: %s: right, %llu ms\n", name,
	       (unsigned long long)(now_ms() - began));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	bool longest = argc == 4 && !strcmp(argv[3], "longest");

	check(argc == 3 || longest,
	      "usage: regions DEV[:PORT] DEV[:PORT] [longest]");
	device_open(&devices[0], argv[1]);
	device_open(&devices[1], argv[2]);
	if (longest) {
		run_test("longest message", test_longest);
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
			run_test(tests[i].name, tests[i].run);
	}
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
