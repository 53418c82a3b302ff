// SPDX-License-Identifier: GPL-2.0
/*
 * Sends messages of all kinds and sizes between two devices, both ways at once,
 * and checks every byte and every completion.
 *
 * Work goes in rounds. A round plans its messages, says in the shadows of the
 * memory what must come of them, posts, takes the completions, and compares: all
 * bytes of all messages, and those between them. Each message that completes is
 * compared at once, since a completion promises that its data is there.
 *
 * With -o the memory is of huge pages, or it is not pinned, and its pages are taken
 * away meanwhile.
 */

#include "data.h"
#include "options.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES (12u << 20)
#define DEPTH 128u
#define ALL_SETUPS 8
/* Of the codes of ACK timeouts. */
#define MOST_TIMEOUT 31

static const struct transport transports[] = {
	{ "rc", IBV_QPT_RC, 7,
	  { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP } },
	{ "uc", IBV_QPT_UC, 4,
	  { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE_WITH_IMM } },
	{ "ud", IBV_QPT_UD, 2, { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM } },
};

struct device devices[2];
struct side sides[2];
const struct transport *transport;
struct setup setup;
struct rng rng;
int most_pieces = MAX_PIECES;

/* The first letter of the kind of memory, if it is not to be pinned. */
static char on_demand;
static bool huge;
static atomic_bool disturbing;
static uint64_t disturbances, total_setups;

static void side_create(int at)
{
	struct end_options options = {
		.type = setup.type,
		.send_depth = DEPTH,
		.recv_depth = DEPTH,
		.sges = most_pieces,
		.inline_bytes = INLINE_BYTES,
		.signal_all = setup.signal_all,
		.with_srq = setup.with_srq,
		.with_channel = setup.events,
		.one_cq = setup.one_cq,
	};
	struct side *side = &sides[at];

	end_create(&side->end, &devices[at], &options);
	if (side->end.inline_bytes > INLINE_BYTES)
		side->end.inline_bytes = INLINE_BYTES;
	/* Most PSNs wrap soon. */
	side->end.psn = (0x1000000 - rng_below(&rng, 2000)) & PSN_MASK;
	if (on_demand)
		arena_create_on_demand(&side->arena, devices[at].pd,
				       ARENA_BYTES, on_demand == 's');
	else
		arena_create(&side->arena, devices[at].pd, ARENA_BYTES, huge);
	if (setup.type == IBV_QPT_UD) {
		struct ibv_ah_attr attr = path_to(&devices[at], &devices[!at],
						  setup.grh);

		side->ah = ibv_create_ah(devices[at].pd, &attr);
		check(side->ah, "create_ah: %m");
	}
}

static void side_destroy(int at)
{
	struct side *side = &sides[at];

	if (setup.type == IBV_QPT_UD)
		check(!ibv_destroy_ah(side->ah), "destroy_ah: %m");
	end_destroy(&side->end);
	arena_destroy(&side->arena);
}

/*
 * Takes pages of both sides away, again and again. A slow machine might never get
 * on if that did not wait for something to complete now and then.
 */
static void *disturb(void *unused)
{
	unsigned long before = 0;
	struct rng own;

	(void)unused;
	rng_seed(&own, 7);
	while (disturbing) {
		usleep(500);
		if (reaped == before)
			continue;
		before = reaped;
		for (int i = 0; i < 4; i++)
			arena_disturb(&sides[rng_below(&own, 2)].arena, &own);
		disturbances += 4;
	}
	return NULL;
}

/* The code of the time after which an answer is asked for again. */
static uint32_t ack_timeout;

/* One that the ports of both sides have. */
static enum ibv_mtu some_mtu(void)
{
	uint32_t most = devices[0].port_attr.active_mtu;

	if (devices[1].port_attr.active_mtu < most)
		most = devices[1].port_attr.active_mtu;
	return IBV_MTU_256 + rng_below(&rng, most);
}

static void run_setup(const struct setup *chosen, uint32_t rounds)
{
	struct path_options path = default_path;
	pthread_t disturber;

	setup = *chosen;
	path.timeout = ack_timeout;
	path.rd_atomic = 1 + rng_below(&rng, 16);
	/* A socket has room for so many packets, and unreliable services lose what it has no room for. */
	if (setup.type == IBV_QPT_RC)
		path.mtu = some_mtu();
	path.grh = setup.grh;
	side_create(0);
	side_create(1);
	end_connect(&sides[0].end, &sides[1].end, &path);
	disturbing = on_demand;
	if (disturbing)
		check(!pthread_create(&disturber, NULL, disturb, NULL),
		      "no thread");
	run_rounds(rounds);
	if (disturbing) {
		disturbing = false;
		pthread_join(disturber, NULL);
	}
	side_destroy(0);
	side_destroy(1);
	total_setups++;
}

/* The first so many setups of one transport. */
static void run_transport(uint32_t rounds, uint32_t setups)
{
	for (uint32_t bits = 0; bits < setups; bits++) {
		struct setup chosen = {
			.type = transport->type,
			.with_srq = bits & 1 && transport->type != IBV_QPT_UC,
			.events = bits & 2,
			.signal_all = bits & 4,
			.one_cq = rng_once_in(&rng, 2),
			.grh = rng_once_in(&rng, 2),
		};

		run_setup(&chosen, rounds);
	}
}

static void limit_pieces(const struct ibv_device_attr *attr)
{
	if (attr->max_sge < most_pieces)
		most_pieces = attr->max_sge;
	if (attr->max_srq_sge < most_pieces)
		most_pieces = attr->max_srq_sge;
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" }, *only = NULL, *memory = NULL;
	uint64_t seed = 1, began = now_ms(), seconds = 0;
	uint32_t rounds = 10, setups = ALL_SETUPS;
	const struct cmdline_option options[] = {
		{ 'a', "DEV[:PORT]", .text = &names[0] },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'o', "private|shared|huge", .text = &memory },
		{ 't', "rc|uc|ud", .text = &only },
		{ 'n', "ROUNDS", .u32 = &rounds },
		{ 'N', "SETUPS", .u32 = &setups },
		{ 's', "SEED", .u64 = &seed },
		{ 'T', "ACK-TIMEOUT", .u32 = &ack_timeout },
		{ 'S', "SECONDS", .u64 = &seconds },
		{},
	};

	ack_timeout = default_path.timeout;
	options_read(argc, argv, options, NULL);
	if (memory && !strcmp(memory, "huge"))
		huge = true;
	else if (memory)
		on_demand = *memory;
	check(ack_timeout <= MOST_TIMEOUT, "ACK-TIMEOUT is up to %d", MOST_TIMEOUT);
	rng_seed(&rng, seed);
	device_open(&devices[0], names[0]);
	device_open(&devices[1], names[1]);
	limit_pieces(&devices[0].attr);
	limit_pieces(&devices[1].attr);
	do {
		for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
			transport = &transports[i];
			if (!only || !strcmp(only, transport->name))
				run_transport(rounds, setups);
		}
	} while (now_ms() - began < seconds * 1000);
	device_close(&devices[0]);
	device_close(&devices[1]);
	check(total_setups, "no transport called %s", only);
	if (on_demand)
		printf("data: pages taken away %llu times\n",
		       (unsigned long long)disturbances);
	printf("data: %s to %s: %llu setups, %llu messages, %llu bytes right, %llu ms\n",
	       names[0], names[1], (unsigned long long)total_setups,
	       (unsigned long long)total_messages,
	       (unsigned long long)total_bytes,
	       (unsigned long long)(now_ms() - began));
	return 0;
}
