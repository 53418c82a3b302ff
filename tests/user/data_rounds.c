// SPDX-License-Identifier: GPL-2.0

#include "data.h"

#include <unistd.h>

static const uint32_t sizes[] = {
	0, 1, 3, 255, 256, 4095, 4096, 4097, 65535, 65536, 65537, MIB,
};

uint64_t total_messages, total_bytes;

static void round_run(void)
{
	bool late = setup.type == IBV_QPT_RC && rng_once_in(&rng, 8);
	int first = rng_below(&rng, 2);

	plan_finish();
	if (!late) {
		post_recvs_of(0);
		post_recvs_of(1);
	}
	post_sends_of(first);
	post_sends_of(!first);
	if (late) {
		usleep(2000);
		post_recvs_of(0);
		post_recvs_of(1);
	}
	complete_all();
	arena_check(&sides[0].arena, devices[0].name);
	arena_check(&sides[1].arena, devices[1].name);
	check(!reap(0) && !reap(1), "a completion too many");
	total_messages += message_count;
	for (int i = 0; i < message_count; i++)
		total_bytes += messages[i].length;
}

static uint32_t random_size(void)
{
	switch (rng_below(&rng, 8)) {
	case 0:
		return sizes[rng_below(&rng, ARRAY_SIZE(sizes))];
	case 1:
		return rng_below(&rng, 200000);
	case 2:
	case 3:
		return rng_below(&rng, 10000);
	default:
		return rng_below(&rng, 300);
	}
}

static enum ibv_wr_opcode random_op(void)
{
	return transport->ops[rng_below(&rng, transport->op_count)];
}

void run_rounds(uint32_t rounds)
{
	for (int op = 0; op < transport->op_count; op++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			if (is_atomic(transport->ops[op]) && i)
				break;
			plan_begin();
			plan(0, transport->ops[op], sizes[i]);
			plan(1, transport->ops[op], sizes[i]);
			round_run();
		}
	}
	for (uint32_t i = 0; i < rounds; i++) {
		int count = 1 + rng_below(&rng, MOST_MESSAGES - 2);

		plan_begin();
		while (count--) {
			plan(0, random_op(), random_size());
			plan(1, random_op(), random_size());
		}
		round_run();
	}
}
