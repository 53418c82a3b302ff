// SPDX-License-Identifier: GPL-2.0
/*
 * Messages and their echoes. Both are numbered, and their words are made of the number. An
 * echo has the first words of what it echoes.
 */

#include "sibcm.h"

#include <stdio.h>
#include <string.h>

/* So that no two places of a message have the same word. */
#define STRIDE 0x9e3779b97f4a7c15ull

bool is_size(uint64_t size)
{
	return size >= MESSAGE && size <= MAX_MESSAGE &&
	       size % sizeof(uint64_t) == 0;
}

static uint8_t *buffer(struct side *side, uint64_t slot)
{
	return side->buffers + slot * side->size;
}

static void fill(void *message, uint32_t length, uint64_t number)
{
	uint64_t *words = message;

	for (uint32_t i = 0; i < length / sizeof(*words); i++)
		words[i] = number + i * STRIDE;
}

static bool is_intact(const void *message, uint32_t length, uint64_t number)
{
	const uint64_t *words = message;
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < length / sizeof(*words); i++)
		wrong |= words[i] ^ (number + i * STRIDE);
	return !wrong;
}

void post_recv(struct side *side, uint64_t slot)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer(side, slot),
			       .length = side->size,
			       .lkey = side->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge,
				  .num_sge = 1 }, *bad;

	if (ibv_post_recv(side->qp, &wr, &bad))
		die("cannot receive: %m");
}

static void post_send(struct side *side)
{
	uint64_t slot = ++side->sent % DEPTH;
	struct ibv_sge sge = { .addr = (uintptr_t)buffer(side, slot),
			       .length = side->is_active ? side->size : MESSAGE,
			       .lkey = side->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND }, *bad;

	fill(buffer(side, slot), sge.length, side->sent);
	if (ibv_post_send(side->qp, &wr, &bad))
		die("cannot send: %m");
}

void push(struct side *side, uint64_t goal)
{
	while (side->sent < goal && side->sent - side->completed < DEPTH)
		post_send(side);
}

static void on_message(struct side *side, uint64_t slot, uint32_t length)
{
	uint32_t expected = side->is_active ? MESSAGE : side->size;

	side->received++;
	if (length != expected ||
	    !is_intact(buffer(side, slot), length, side->received))
		die("message %llu is not what was sent",
		    (unsigned long long)side->received);
	post_recv(side, slot);
	if (!side->is_connected) {
		/* It has overtaken the RTU, and says the same. */
		on_established(side);
		notify(side, SIB_CM_COMM_EST);
	}
	if (side->is_active && !side->is_bulk)
		printf("%llu: %llu us by port %d\n",
		       (unsigned long long)side->received,
		       (unsigned long long)(now_us() - side->sent_at),
		       side->port);
}

void on_completions(struct side *side)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(side->channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(side->cq, 0))
		die("no notice of completions: %m");
	while (ibv_poll_cq(side->cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS && side->is_ending)
			continue;
		if (wc.status != IBV_WC_SUCCESS)
			die("connection lost: %s", ibv_wc_status_str(wc.status));
		if (wc.wr_id >= DEPTH)
			on_message(side, wc.wr_id, wc.byte_len);
		else
			side->completed++;
	}
	if (!side->is_active)
		push(side, side->received);
	update_page(side);
}
