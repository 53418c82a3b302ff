// SPDX-License-Identifier: GPL-2.0

#include "traffic.h"
#include "rings.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_LENGTH 16384u
#define NEIGHBOUR_SEED 99

/* What both processes see. */
struct board {
	atomic_bool stop;
	atomic_ulong messages;
};

static struct board *board;
static pid_t neighbour;

void traffic_create(struct traffic *traffic, struct device *a,
		    struct device *b, uint64_t seed)
{
	const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = BENCH_DEPTH,
		.recv_depth = BENCH_DEPTH,
		.sges = 1,
		.signal_all = true,
	};

	memset(traffic, 0, sizeof(*traffic));
	rng_seed(&traffic->rng, seed);
	bench_create(&traffic->bench, a, b, &options);
	end_connect(&traffic->bench.a, &traffic->bench.b, &default_path);
}

void traffic_destroy(struct traffic *traffic)
{
	bench_destroy(&traffic->bench);
}

static void fill(struct rng *rng, uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 0; i < length; i += sizeof(uint64_t)) {
		uint64_t value = rng_next(rng);

		memcpy(bytes + i, &value, sizeof(value));
	}
}

void traffic_message(struct traffic *traffic, bool starved)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	struct bench *bench = &traffic->bench;
	enum ibv_wr_opcode op = ops[rng_below(&traffic->rng, ARRAY_SIZE(ops))];
	uint32_t length = 8 + rng_below(&traffic->rng, MOST_LENGTH);
	uint64_t number = ++traffic->messages;
	struct ibv_sge sge = sge_local(bench, length);
	struct ibv_send_wr *bad, wr = {
		.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.wr.rdma = { (uintptr_t)bench->remote, bench->remote_mr->rkey },
	};
	int error;

	fill(&traffic->rng, bench->local, length);
	fill(&traffic->rng, bench->remote, length);
	if (op == IBV_WR_SEND)
		post_recvs(bench, &bench->b, number, 1, length);
	for (error = ibv_post_send(bench->a.qp, &wr, &bad); error;
	     error = ring_bell(bench->a.qp)) {
		check(starved && error == ENOMEM, "post_send: %s",
		      strerror(error));
		traffic->repeated++;
	}
	expect("traffic", bench->a.send_cq, number, IBV_WC_SUCCESS);
	if (op == IBV_WR_SEND)
		expect("traffic", bench->b.recv_cq, number, IBV_WC_SUCCESS);
	check(!memcmp(bench->local, bench->remote, length),
	      "traffic: message %llu, opcode %d, %u bytes: not what was sent",
	      (unsigned long long)number, op, length);
}

static void run_neighbour(const char *const names[2])
{
	struct device devices[2];
	struct traffic traffic;

	for (int i = 0; i < 2; i++)
		device_open(&devices[i], names[i]);
	traffic_create(&traffic, &devices[0], &devices[1], NEIGHBOUR_SEED);
	while (!atomic_load(&board->stop)) {
		traffic_message(&traffic, false);
		atomic_store(&board->messages, traffic.messages);
		/* It is there to be disturbed, not to fill a processor. */
		usleep(1000);
	}
	traffic_destroy(&traffic);
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
}

void neighbour_start(const char *const names[2])
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(board != MAP_FAILED, "mmap: %m");
	neighbour = fork();
	check(neighbour >= 0, "fork: %m");
	if (!neighbour) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_neighbour(names);
		exit(0);
	}
	while (!atomic_load(&board->messages)) {
		check(waitpid(neighbour, NULL, WNOHANG) == 0,
		      "the neighbour has ended");
		usleep(1000);
	}
}

unsigned long neighbour_stop(void)
{
	int status;

	atomic_store(&board->stop, true);
	check(waitpid(neighbour, &status, 0) == neighbour, "waitpid: %m");
	check(status == 0, "the neighbour has come to harm: status %x", status);
	return board->messages;
}
