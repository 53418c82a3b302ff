// SPDX-License-Identifier: GPL-2.0
/*
 * What a message costs: both ends in one thread, which posts, and takes what
 * completes, a fixed number of times. On a guest whose clock counts instructions
 * the nanoseconds that it prints are instructions.
 *
 * Each line of the output is: NAME SIZE MESSAGES NANOSECONDS
 */

#include "common.h"
#include "options.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 128u
#define SIGNAL_EVERY 32u
/* Divides SIGNAL_EVERY; RDMA READs that are under way at once. */
#define BATCH 16u
#define BUFFER_BYTES (1u << 20)
#define WARM_UP 64u
/* What tools/profile looks for in the code that runs. */
#define MARK_BEGIN 0x51b0c0de
#define MARK_END 0x51b0c0df

/* How messages follow each other. */
enum pace {
	/* As soon as there is room, by a call each. */
	STREAM,
	/* The same, BATCH of them by one call. */
	BATCHES,
	/* Once the one before has arrived, and the other way. */
	TURNS,
};

/* One kind of message. */
struct kind {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	uint32_t size;
	enum pace pace;
};

static const struct kind kinds[] = {
	{ "send", IBV_QPT_RC, IBV_WR_SEND, 8, STREAM },
	{ "send", IBV_QPT_RC, IBV_WR_SEND, 4096, STREAM },
	{ "send", IBV_QPT_RC, IBV_WR_SEND, 65536, STREAM },
	{ "send", IBV_QPT_RC, IBV_WR_SEND, 1048576, STREAM },
	{ "write", IBV_QPT_RC, IBV_WR_RDMA_WRITE, 8, STREAM },
	{ "write", IBV_QPT_RC, IBV_WR_RDMA_WRITE, 65536, STREAM },
	{ "write", IBV_QPT_RC, IBV_WR_RDMA_WRITE, 1048576, STREAM },
	{ "read", IBV_QPT_RC, IBV_WR_RDMA_READ, 8, STREAM },
	{ "read", IBV_QPT_RC, IBV_WR_RDMA_READ, 65536, STREAM },
	{ "read", IBV_QPT_RC, IBV_WR_RDMA_READ, 1048576, STREAM },
	{ "atomic", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, STREAM },
	{ "uc-send", IBV_QPT_UC, IBV_WR_SEND, 8, STREAM },
	{ "ud-send", IBV_QPT_UD, IBV_WR_SEND, 8, STREAM },
	{ "ud-send", IBV_QPT_UD, IBV_WR_SEND, 2048, STREAM },
	{ "send-in-turns", IBV_QPT_RC, IBV_WR_SEND, 8, TURNS },
	{ "send-in-turns", IBV_QPT_RC, IBV_WR_SEND, 4096, TURNS },
	{ "send-batch", IBV_QPT_RC, IBV_WR_SEND, 8, BATCHES },
	{ "write-batch", IBV_QPT_RC, IBV_WR_RDMA_WRITE, 8, BATCHES },
	{ "read-batch", IBV_QPT_RC, IBV_WR_RDMA_READ, 8, BATCHES },
	{ "atomic-batch", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, BATCHES },
};

/* Both ends of a measurement. */
struct course {
	const struct kind *kind;
	struct device *devices[2];
	struct end ends[2];
	uint8_t *bytes[2];
	struct ibv_mr *mrs[2];
	struct ibv_ah *ah;
};

static void mark_begin(void)
{
#ifdef __x86_64__
	asm volatile("movl %0, %%eax" : : "i"(MARK_BEGIN) : "eax");
#endif
}

static void mark_end(void)
{
#ifdef __x86_64__
	asm volatile("movl %0, %%eax" : : "i"(MARK_END) : "eax");
#endif
}

static bool takes_recvs(const struct kind *kind)
{
	return kind->opcode == IBV_WR_SEND;
}

/* `count` messages by one call, of which the last may be signaled. */
static void ask(struct course *course, int to, uint32_t count, bool signaled)
{
	const struct kind *kind = course->kind;
	int from = !to;
	struct ibv_sge sge = {
		.addr = (uintptr_t)course->bytes[from],
		.length = kind->size,
		.lkey = course->mrs[from]->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = kind->opcode,
	};
	struct ibv_send_wr wrs[BATCH];

	if (kind->type == IBV_QPT_UD) {
		wr.wr.ud.ah = course->ah;
		wr.wr.ud.remote_qpn = course->ends[to].qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (kind->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)course->bytes[to];
		wr.wr.atomic.rkey = course->mrs[to]->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (kind->opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = (uintptr_t)course->bytes[to];
		wr.wr.rdma.rkey = course->mrs[to]->rkey;
	}
	for (uint32_t i = 0; i < count; i++) {
		wrs[i] = wr;
		wrs[i].next = &wrs[i + 1];
	}
	wrs[count - 1].next = NULL;
	wrs[count - 1].send_flags = signaled ? IBV_SEND_SIGNALED : 0;
	post_send(&course->ends[from], wrs);
}

static void make_ready(struct course *course, int at)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)course->bytes[at],
		.length = BUFFER_BYTES,
		.lkey = course->mrs[at]->lkey,
	};
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	post_recv(&course->ends[at], &wr);
}

/* Takes what has completed; returns how many there were. */
static int take(struct ibv_cq *cq)
{
	struct ibv_wc wcs[16];
	int count = ibv_poll_cq(cq, ARRAY_SIZE(wcs), wcs);

	check(count >= 0, "poll_cq: %d", count);
	for (int i = 0; i < count; i++)
		check(wcs[i].status == IBV_WC_SUCCESS, "%s",
		      ibv_wc_status_str(wcs[i].status));
	if (!count)
		sched_yield();
	return count;
}

/* Takes what has arrived at an end, and makes it ready for as many. */
static uint32_t arrived(struct course *course, int at)
{
	int count = take(course->ends[at].recv_cq);

	for (int i = 0; i < count; i++)
		make_ready(course, at);
	return count;
}

/* `count` messages one way, with as many under way as there is room for. */
static void stream(struct course *course, uint32_t count)
{
	bool recvs = takes_recvs(course->kind);
	uint32_t batch = course->kind->pace == BATCHES ? BATCH : 1;
	uint32_t asked = 0, done = 0, got = 0;

	while (done < count || (recvs && got < count)) {
		while (asked < count && asked - done < DEPTH / 2 &&
		       (!recvs || asked - got < DEPTH / 2)) {
			asked += batch;
			ask(course, 1, batch, asked % SIGNAL_EVERY == 0);
		}
		if (done < count)
			done += take(course->ends[0].send_cq) * SIGNAL_EVERY;
		if (recvs && got < count)
			got += arrived(course, 1);
	}
}

/* `count` messages to and fro. */
static void in_turns(struct course *course, uint32_t count)
{
	for (uint32_t sent = 0; sent < count; sent++) {
		int to = !(sent & 1);

		ask(course, to, 1, true);
		while (!arrived(course, to))
			;
		while (!take(course->ends[!to].send_cq))
			;
	}
}

static void run(struct course *course, uint32_t count)
{
	if (course->kind->pace == TURNS)
		in_turns(course, count);
	else
		stream(course, count);
}

static void measure(const struct kind *kind, struct device *a,
		    struct device *b, uint32_t count)
{
	const struct end_options options = {
		.type = kind->type,
		.send_depth = DEPTH,
		.recv_depth = DEPTH,
		.sges = 1,
	};
	struct path_options path = default_path;
	struct course course = { .kind = kind, .devices = { a, b } };
	uint64_t began, took;

	path.rd_atomic = 16;
	for (int at = 0; at < 2; at++) {
		struct device *device = course.devices[at];

		end_create(&course.ends[at], device, &options);
		course.bytes[at] = aligned_alloc(4096, BUFFER_BYTES);
		check(course.bytes[at], "out of memory");
		memset(course.bytes[at], at, BUFFER_BYTES);
		course.mrs[at] = ibv_reg_mr(device->pd, course.bytes[at],
					    BUFFER_BYTES, ALL_ACCESS);
		check(course.mrs[at], "reg_mr: %m");
	}
	end_connect(&course.ends[0], &course.ends[1], &path);
	if (kind->type == IBV_QPT_UD) {
		struct ibv_ah_attr to = path_to(a, b, false);

		course.ah = ibv_create_ah(a->pd, &to);
		check(course.ah, "create_ah: %m");
	}
	for (uint32_t i = 0; takes_recvs(kind) && i < DEPTH; i++) {
		make_ready(&course, 0);
		make_ready(&course, 1);
	}
	run(&course, WARM_UP);
	began = now_ns();
	mark_begin();
	run(&course, count);
	mark_end();
	took = now_ns() - began;
	printf("%s %u %u %llu\n", kind->name, kind->size, count,
	       (unsigned long long)took);
	fflush(stdout);
	if (course.ah)
		check(!ibv_destroy_ah(course.ah), "destroy_ah: %m");
	for (int at = 0; at < 2; at++) {
		end_destroy(&course.ends[at]);
		check(!ibv_dereg_mr(course.mrs[at]), "dereg_mr: %m");
		free(course.bytes[at]);
	}
}

static bool wanted(const struct kind *kind, const char *name, uint32_t size)
{
	return (!name || !strcmp(name, kind->name)) &&
	       (!size || size == kind->size);
}

/* How many of a kind: fewer where each is long. Whole periods of signalling, so
 * that the last one is signaled. */
static uint32_t messages(const struct kind *kind, uint32_t count)
{
	if (kind->size > 65536)
		count /= 64;
	count = count / SIGNAL_EVERY * SIGNAL_EVERY;
	return count ? count : SIGNAL_EVERY;
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" }, *only = NULL;
	struct device devices[2];
	uint32_t count = 0, size = 0, found = 0;
	const struct cmdline_option options[] = {
		{ 'a', "DEV[:PORT]", .text = &names[0] },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'k', "KIND", .text = &only },
		{ 's', "SIZE", .u32 = &size },
		{ 'n', "MESSAGES", .u32 = &count },
		{},
	};

	options_read(argc, argv, options, NULL);
	count = count ? count : 4096;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		found += wanted(&kinds[i], only, size);
	check(found, "there are no messages of that kind and size");
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], names[i]);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct kind *kind = &kinds[i];

		if (wanted(kind, only, size))
			measure(kind, &devices[0], &devices[1],
				messages(kind, count));
	}
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
	return 0;
}
