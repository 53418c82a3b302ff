/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Traffic of one connection between two processes, step by step: in each step both ends
 * SEND, WRITE, READ and add, and no end begins a step before the last one is over for
 * it. Every byte is checked, and that each completion comes once and in order.
 */
#ifndef TESTS_STREAM_H
#define TESTS_STREAM_H

#include "common.h"

/* Longest messages of many connections, and of few. */
#define SLOT_MANY 4096u
#define SLOT_FEW 65536u
#define FEW 4

/* Where a stream's memory is: the same offsets at both ends. */
struct stream_memory {
	uint8_t *bytes;
	struct ibv_mr *mr;
	/* The peer's. */
	uint64_t remote;
	uint32_t rkey;
	uint32_t slot;
};

struct stream {
	struct end *end;
	const struct stream_memory *memory;
	uint32_t index;
	/* Whose bytes are whose. */
	bool is_caller;
	uint64_t step;
	bool is_begun;
	int sent;
	bool received;
	/* What has come of the next step already. */
	bool has_ahead;
	struct ibv_wc ahead;
	/* This step is the last one: by the will of the caller. */
	bool is_last;
	bool is_over;
};

/* What an end for a stream is made with. */
extern const struct end_options stream_end;

uint64_t stream_bytes(uint32_t slot);
/* The end is connected, and its peer's memory known. */
void stream_begin(struct stream *stream);
/* Takes what has come, and goes on; `ends`: with the last step. */
void stream_run(struct stream *stream, bool ends);

#endif
