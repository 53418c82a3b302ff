// SPDX-License-Identifier: GPL-2.0
/*
 * A program that writes what it likes to the rings it shares with the kernel:
 * indices, masks, opcodes, flags, lengths, keys, numbers of address handles, and
 * this also while the kernel is reading them. It may hurt itself, and so it is a
 * child of one that only looks whether it ends; nobody else may notice.
 */

#include "options.h"
#include "rings.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 60
#define SGES 6
#define INLINE_BYTES 96u
#define MEMORY 65536u
/* How long one child attacks, and how long it may take to die. */
#define CHILD_MS 1500
#define DEATH_MS 60000
#define ATTACKS_PER_LIFE 40

static struct device device;
static struct end ends[2];
static struct ibv_ah *ah;
static struct ibv_mr *mr;
static uint8_t *memory;
static struct ring rings[MAX_RINGS];
static int ring_count;
static struct rng rng;
static volatile bool over;
/* Held while librxe uses the rings: it believes them. */
static pthread_mutex_t peace = PTHREAD_MUTEX_INITIALIZER;
static uint64_t bells, refused, completions;

/* Numbers that tend to be special somewhere. */
static uint32_t odd_number(struct rng *from)
{
	static const uint32_t odd[] = {
		0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 0xff, 0x100, 0xfff, 0x1000,
		0xffff, 0x10000, 0xffffff, 0x7fffffff, 0x80000000, 0x80000001,
		0xfffffffe, 0xffffffff,
	};

	return rng_once_in(from, 3) ? (uint32_t)rng_next(from) :
				      odd[rng_below(from, ARRAY_SIZE(odd))];
}

static struct ring *some_ring(struct rng *from)
{
	return &rings[rng_below(from, ring_count)];
}

/* Changes one word of a ring: of its header, or of an element. */
static void scribble(struct rng *from)
{
	struct ring *ring = some_ring(from);
	uint32_t *word;

	switch (rng_below(from, 16)) {
	case 0:
		word = &ring->shared->producer_index;
		break;
	case 1:
		word = &ring->shared->consumer_index;
		break;
	case 2:
		word = &ring->shared->index_mask;
		break;
	case 3:
		word = &ring->shared->log2_elem_size;
		break;
	default:
		word = (uint32_t *)ring_slot(ring, rng_next(from)) +
		       rng_below(from, ring_element(ring) / 4);
	}
	*(volatile uint32_t *)word = odd_number(from);
}

static void *scribbler(void *argument)
{
	struct rng own;

	(void)argument;
	rng_seed(&own, rng_next(&rng));
	while (!over) {
		pthread_mutex_lock(&peace);
		for (int i = 0; i < 64; i++)
			scribble(&own);
		pthread_mutex_unlock(&peace);
		sched_yield();
	}
	return NULL;
}

/* Most keys are right: else no request would come far. */
static uint32_t key(void)
{
	return rng_once_in(&rng, 8) ? odd_number(&rng) : mr->lkey;
}

/* A work request that is right but for a few fields. */
static void forge(struct rxe_send_wqe *wqe, const struct end *peer)
{
	struct rxe_sge *sge = wqe->dma.sge;

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr.wr_id = rng_next(&rng);
	wqe->wr.opcode = rng_once_in(&rng, 8) ? odd_number(&rng) :
						rng_below(&rng, 6);
	wqe->wr.send_flags = rng_once_in(&rng, 8) ? odd_number(&rng) :
						    rng_below(&rng, 16);
	wqe->dma.num_sge = rng_once_in(&rng, 8) ? odd_number(&rng) :
						  rng_below(&rng, SGES + 1);
	wqe->dma.length = odd_number(&rng);
	for (int i = 0; i < SGES; i++) {
		sge[i].addr = (uintptr_t)memory + rng_below(&rng, MEMORY / 2);
		sge[i].length = rng_once_in(&rng, 8) ? odd_number(&rng) :
						       rng_below(&rng, 5000);
		sge[i].lkey = key();
	}
	if (peer->type == IBV_QPT_UD) {
		wqe->wr.wr.ud.remote_qpn = peer->qp->qp_num;
		wqe->wr.wr.ud.remote_qkey = QKEY;
		wqe->wr.wr.ud.ah_num = rng_below(&rng, 4) ?
					       rng_below(&rng, 8) :
					       odd_number(&rng);
	} else if (wqe->wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
		wqe->wr.wr.atomic.remote_addr = (uintptr_t)memory +
						odd_number(&rng) % MEMORY;
		wqe->wr.wr.atomic.rkey = key();
	} else {
		wqe->wr.wr.rdma.remote_addr =
			rng_once_in(&rng, 8) ? rng_next(&rng) :
					       (uintptr_t)memory + MEMORY / 2;
		wqe->wr.wr.rdma.rkey = key();
	}
}

/* Puts forged requests where the kernel looks for some, and rings. */
static void attack(int at)
{
	uint32_t count = 1 + rng_below(&rng, 8);

	for (int i = 0; i < ring_count; i++) {
		struct ring *ring = &rings[i];
		uint32_t next = ring->shared->producer_index;

		if (ring_element(ring) < sizeof(struct rxe_send_wqe) +
						 INLINE_BYTES)
			continue;
		for (uint32_t j = 0; j < count; j++)
			forge(ring_slot(ring, next + j), &ends[!at]);
		ring->shared->producer_index = rng_once_in(&rng, 16) ?
			odd_number(&rng) : (next + count) & ring->mask;
	}
	bells++;
	refused += ring_bell(ends[at].qp) != 0;
	ring_bell(ends[!at].qp);
}

static void post_right_recvs(struct end *end)
{
	struct ibv_sge sge = { (uintptr_t)memory, MEMORY, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	for (int i = 0; i < 8; i++)
		ibv_post_recv(end->qp, &wr, &bad);
}

static void restore(void)
{
	for (int i = 0; i < ring_count; i++)
		ring_restore(&rings[i]);
}

static void reap(void)
{
	struct ibv_wc wc[16];

	for (int at = 0; at < 2; at++) {
		for (int i = 0; i < 8; i++) {
			int count = ibv_poll_cq(ends[at].send_cq, 16, wc);

			if (count <= 0)
				break;
			completions += count;
		}
	}
}

/* Whether both queue pairs come from RESET to RTS. */
static bool rise(const struct path_options *path)
{
	struct end *a = &ends[0], *b = &ends[1];

	return !end_try_init(a, path) && !end_try_init(b, path) &&
	       !end_try_rtr(a, b, path) && !end_try_rtr(b, a, path) &&
	       !end_try_rts(a, path) && !end_try_rts(b, path);
}

/*
 * Both queue pairs in RTS again, whatever state they are in. On the way there they may fail once more: a packet of their
 * former life comes and finds a ring that is wrong, or a completion does.
 */
static void revive(const struct path_options *path)
{
	for (;;) {
		end_to(&ends[0], IBV_QPS_RESET);
		end_to(&ends[1], IBV_QPS_RESET);
		if (rise(path))
			return;
		check(end_state(&ends[0]) == IBV_QPS_ERR ||
			      end_state(&ends[1]) == IBV_QPS_ERR,
		      "from RESET to RTS: %m");
	}
}

/* The life of a child. */
static void attack_all(enum ibv_qp_type type, const char *name)
{
	struct end_options options = {
		.type = type,
		.send_depth = DEPTH,
		.recv_depth = DEPTH,
		.sges = SGES,
		.inline_bytes = INLINE_BYTES,
		.one_cq = true,
	};
	struct path_options path = default_path;
	struct ibv_ah_attr attr;
	pthread_t thread;
	uint64_t end;

	device_open(&device, name);
	memory = aligned_alloc(4096, MEMORY);
	check(memory, "out of memory");
	mr = ibv_reg_mr(device.pd, memory, MEMORY, ALL_ACCESS);
	check(mr, "reg_mr: %m");
	attr = path_to(&device, &device, false);
	ah = ibv_create_ah(device.pd, &attr);
	check(ah, "create_ah: %m");
	end_create(&ends[0], &device, &options);
	end_create(&ends[1], &device, &options);
	path.timeout = 8;
	path.retries = 1;
	path.rnr_retries = 1;
	end_connect(&ends[0], &ends[1], &path);
	ring_count = rings_find(rings);
	check(ring_count == 6, "%d rings, not 6", ring_count);
	check(!pthread_create(&thread, NULL, scribbler, NULL), "pthread_create");
	end = now_ms() + CHILD_MS;
	do {
		pthread_mutex_lock(&peace);
		restore();
		post_right_recvs(&ends[0]);
		post_right_recvs(&ends[1]);
		pthread_mutex_unlock(&peace);
		for (int i = 0; i < ATTACKS_PER_LIFE; i++)
			attack(rng_below(&rng, 2));
		pthread_mutex_lock(&peace);
		restore();
		reap();
		pthread_mutex_unlock(&peace);
		revive(&path);
	} while (now_ms() < end);
	over = true;
	pthread_join(thread, NULL);
	restore();
	if (rng_once_in(&rng, 2)) {
		end_destroy(&ends[0]);
		end_destroy(&ends[1]);
	}
	printf("hostile: %llu bells (%llu refused), %llu completions\n",
	       (unsigned long long)bells, (unsigned long long)refused,
	       (unsigned long long)completions);
	fflush(stdout);
	_exit(0);
}

/* Waits for a child; it may have died by its own hand, but it must die. */
static void bury(pid_t child, int number)
{
	uint64_t end = now_ms() + DEATH_MS;
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		check(now_ms() < end, "child %d does not die", number);
		usleep(20000);
	}
	if (WIFSIGNALED(status))
		printf("hostile: child %d: %s\n", number,
		       strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		fail("child %d has status %d", number, WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UD,
						  IBV_QPT_UC };
	const char *name = "sib0";
	uint64_t seconds = 10, seed = 1, end;
	const struct cmdline_option options[] = {
		{ 'S', "SECONDS", .u64 = &seconds },
		{ 's', "SEED", .u64 = &seed },
		{},
	};
	int operand, children = 0;

	operand = options_read(argc, argv, options, "[DEV]");
	if (operand < argc)
		name = argv[operand];
	for (end = now_ms() + seconds * 1000; now_ms() < end; children++) {
		pid_t child = fork();

		check(child >= 0, "fork: %m");
		if (!child) {
			rng_seed(&rng, seed + children);
			attack_all(types[children % ARRAY_SIZE(types)], name);
		}
		bury(child, children);
	}
	printf("hostile: %d children, seeds from %llu\n", children,
	       (unsigned long long)seed);
	return 0;
}
