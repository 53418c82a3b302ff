/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Registered memory in which messages have their places, and beside it a shadow
 * that says what the memory must hold. Places do not touch each other: between
 * them is memory that nobody may write.
 */
#ifndef TESTS_ARENA_H
#define TESTS_ARENA_H

#include "common.h"

#define MAX_PIECES 30

/* Places of one message, in order. */
struct pieces {
	int count;
	struct ibv_sge list[MAX_PIECES];
};

struct arena {
	uint8_t *bytes;
	uint8_t *shadow;
	size_t size;
	size_t used;
	struct ibv_mr *mr;
	/* What the memory is shared with; -1: nothing. */
	int file;
};

/* `huge`: of huge pages, which there must be. */
void arena_create(struct arena *arena, struct ibv_pd *pd, size_t size,
		  bool huge);
/* As arena_create, of memory that is not pinned, private or shared with a file. */
void arena_create_on_demand(struct arena *arena, struct ibv_pd *pd, size_t size,
			    bool shared);
/* Takes pages of such memory away, but not what they hold. */
void arena_disturb(struct arena *arena, struct rng *rng);
void arena_destroy(struct arena *arena);
/* Gives all places back. */
void arena_clear(struct arena *arena);
bool arena_has(const struct arena *arena, size_t length);
/* Takes places for `length` bytes, in `most` pieces at most. */
void arena_take(struct arena *arena, struct rng *rng, struct pieces *pieces,
		uint32_t length, int most);
/* As arena_take, for one piece whose address is a multiple of `align`. */
void arena_take_aligned(struct arena *arena, struct pieces *pieces,
			uint32_t length, uint32_t align);
/* Fills memory and shadow alike, once all places are taken. */
void arena_fill(struct arena *arena, struct rng *rng);
/* Ends the program if a byte is not as the shadow has it. */
void arena_check(const struct arena *arena, const char *what);

/* Copies in the shadows: `length` bytes, from places to places. */
void pieces_expect(const struct arena *to, const struct pieces *to_pieces,
		   uint32_t to_offset, const struct arena *from,
		   const struct pieces *from_pieces, uint32_t length);
/* Takes what memory has for right, in the first `length` bytes. */
void pieces_accept(const struct arena *arena, const struct pieces *pieces,
		   uint32_t length);
/* Whether memory is as the shadow has it. */
bool pieces_match(const struct arena *arena, const struct pieces *pieces);
/* Copies the shadow of the places to `out`. */
void pieces_read(const struct arena *arena, const struct pieces *pieces,
		 uint8_t *out);

#endif
