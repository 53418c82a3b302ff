// SPDX-License-Identifier: GPL-2.0
/*
 * What a round is to send, and what must come of it in the shadows of the memory.
 */

#include "data.h"

#include <string.h>

#define SIGNAL_EVERY 16

struct message messages[2 * MOST_MESSAGES];
int message_count;
uint32_t round_number;

void plan_begin(void)
{
	round_number++;
	message_count = 0;
	for (int at = 0; at < 2; at++) {
		struct side *side = &sides[at];

		arena_clear(&side->arena);
		side->unsent = side->unreceived = 0;
		side->next_sent = side->next_received = 0;
	}
}

static bool fits(int from, uint32_t length)
{
	uint32_t with_slack = length + 2 * MIB / 16 + GRH_BYTES;

	return arena_has(&sides[from].arena, with_slack) &&
	       arena_has(&sides[!from].arena, 2 * with_slack);
}

void plan(int from, enum ibv_wr_opcode op, uint32_t length)
{
	struct message *message = &messages[message_count];
	struct arena *mine = &sides[from].arena;
	struct arena *theirs = &sides[!from].arena;
	uint32_t grh = setup.type == IBV_QPT_UD ? GRH_BYTES : 0;

	if (is_atomic(op))
		length = sizeof(uint64_t);
	if (setup.type == IBV_QPT_UD && length > 256u)
		length %= (128u << devices[from].port_attr.active_mtu) + 1;
	if (message_count == ARRAY_SIZE(messages) || !fits(from, length))
		return;
	*message = (struct message){
		.op = op,
		.from = from,
		.length = length,
		.imm = rng_next(&rng),
		.signaled = setup.signal_all,
	};
	message->is_inline = length <= sides[from].end.inline_bytes &&
			     !fetches(op) && rng_once_in(&rng, 3);
	arena_take(mine, &rng, &message->local, length,
		   is_atomic(op) ? 1 : most_pieces);
	if (is_atomic(op)) {
		arena_take_aligned(theirs, &message->remote, length, length);
		message->operand = rng_next(&rng);
		message->compare = rng_next(&rng);
	} else if (!is_send(op)) {
		arena_take(theirs, &rng, &message->remote, length, 1);
	}
	if (consumes(op)) {
		uint32_t room = is_send(op) ? grh + length : 0;

		if (rng_once_in(&rng, 2))
			room += rng_below(&rng, 200);
		arena_take(theirs, &rng, &message->recv, room, most_pieces);
	}
	sides[from].unsent++;
	if (consumes(op))
		sides[!from].unreceived++;
	message_count++;
}

/* Unreliable writes end unseen: a message with a receive tells of them. */
static void plan_end(void)
{
	for (int from = 0; from < 2 && setup.type == IBV_QPT_UC; from++)
		plan(from, IBV_WR_SEND_WITH_IMM, rng_below(&rng, 64));
}

/* Chooses who is told: the last of each side always, some of the others. */
static void plan_signals(void)
{
	int last[2] = { -1, -1 }, count[2] = { 0, 0 };

	for (int i = 0; i < message_count; i++) {
		int from = messages[i].from;

		if (++count[from] % SIGNAL_EVERY == 0)
			messages[i].signaled = true;
		last[from] = i;
	}
	for (int from = 0; from < 2; from++)
		if (last[from] >= 0)
			messages[last[from]].signaled = true;
}

/* Has half of the compare-and-swaps succeed. */
static void plan_compares(void)
{
	for (int i = 0; i < message_count; i++) {
		struct message *message = &messages[i];
		struct arena *theirs = &sides[!message->from].arena;

		if (message->op == IBV_WR_ATOMIC_CMP_AND_SWP &&
		    rng_once_in(&rng, 2))
			pieces_read(theirs, &message->remote,
				    (uint8_t *)&message->compare);
	}
}

/* The effect of an atomic operation on the shadows. */
static void expect_atomic(const struct message *message)
{
	struct arena *mine = &sides[message->from].arena;
	struct arena *theirs = &sides[!message->from].arena;
	size_t at = message->remote.list[0].addr - (uintptr_t)theirs->bytes;
	uint64_t old;

	pieces_expect(mine, &message->local, 0, theirs, &message->remote,
		      sizeof(old));
	memcpy(&old, theirs->shadow + at, sizeof(old));
	if (message->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		old += message->operand;
	else if (old == message->compare)
		old = message->operand;
	memcpy(theirs->shadow + at, &old, sizeof(old));
}

static void expect_all(void)
{
	for (int i = 0; i < message_count; i++) {
		const struct message *message = &messages[i];
		struct arena *mine = &sides[message->from].arena;
		struct arena *theirs = &sides[!message->from].arena;
		uint32_t grh = setup.type == IBV_QPT_UD ? GRH_BYTES : 0;

		if (is_atomic(message->op))
			expect_atomic(message);
		else if (message->op == IBV_WR_RDMA_READ)
			pieces_expect(mine, &message->local, 0, theirs,
				      &message->remote, message->length);
		else if (is_send(message->op))
			pieces_expect(theirs, &message->recv, grh, mine,
				      &message->local, message->length);
		else
			pieces_expect(theirs, &message->remote, 0, mine,
				      &message->local, message->length);
	}
}

void plan_finish(void)
{
	plan_end();
	plan_signals();
	arena_fill(&sides[0].arena, &rng);
	arena_fill(&sides[1].arena, &rng);
	plan_compares();
	expect_all();
}
