// SPDX-License-Identifier: GPL-2.0

#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The most bytes that lie between two places. */
#define GAP 64u
#define PAGE 4096u

static void create(struct arena *arena, struct ibv_pd *pd, size_t size,
		   int flags, int access)
{
	arena->size = size;
	arena->used = 0;
	arena->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, flags,
			    arena->file, 0);
	arena->shadow = malloc(size);
	check(arena->bytes != MAP_FAILED && arena->shadow, "out of memory");
	arena->mr = ibv_reg_mr(pd, arena->bytes, size, access);
	check(arena->mr, "reg_mr: %m");
}

void arena_create(struct arena *arena, struct ibv_pd *pd, size_t size,
		  bool huge)
{
	arena->file = -1;
	create(arena, pd, size,
	       MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0),
	       ALL_ACCESS);
}

void arena_create_on_demand(struct arena *arena, struct ibv_pd *pd, size_t size,
			    bool shared)
{
	int access = ALL_ACCESS | IBV_ACCESS_ON_DEMAND;

	if (!shared) {
		arena->file = -1;
		create(arena, pd, size, MAP_PRIVATE | MAP_ANONYMOUS, access);
		return;
	}
	arena->file = memfd_create("arena", 0);
	check(arena->file >= 0 && !ftruncate(arena->file, size), "memfd: %m");
	create(arena, pd, size, MAP_SHARED, access);
}

void arena_disturb(struct arena *arena, struct rng *rng)
{
	size_t pages = arena->size / PAGE;
	size_t at = rng_below(rng, pages) * (size_t)PAGE;
	size_t length = (1 + rng_below(rng, 64)) * (size_t)PAGE;
	void *again;
	pid_t child;

	if (length > arena->size - at)
		length = arena->size - at;
	if (arena->file < 0) {
		/* Every page is shared with the child until it is written. */
		child = fork();
		check(child >= 0, "fork: %m");
		if (!child)
			_exit(0);
		check(waitpid(child, NULL, 0) == child, "waitpid: %m");
	} else if (rng_once_in(rng, 2)) {
		check(!madvise(arena->bytes + at, length, MADV_DONTNEED),
		      "madvise: %m");
	} else {
		again = mmap(arena->bytes + at, length, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_FIXED, arena->file, at);
		check(again == arena->bytes + at, "mmap: %m");
	}
}

void arena_destroy(struct arena *arena)
{
	int error = ibv_dereg_mr(arena->mr);

	check(!error, "dereg_mr: %s", strerror(error));
	munmap(arena->bytes, arena->size);
	if (arena->file >= 0)
		close(arena->file);
	free(arena->shadow);
}

void arena_clear(struct arena *arena)
{
	arena->used = 0;
}

bool arena_has(const struct arena *arena, size_t length)
{
	return arena->used + length + (MAX_PIECES + 1) * GAP <= arena->size;
}

static struct ibv_sge take(struct arena *arena, size_t at, uint32_t length)
{
	arena->used = at + length;
	return (struct ibv_sge){
		.addr = (uintptr_t)arena->bytes + at,
		.length = length,
		.lkey = arena->mr->lkey,
	};
}

void arena_take(struct arena *arena, struct rng *rng, struct pieces *pieces,
		uint32_t length, int most)
{
	int count = 1 + rng_below(rng, most);

	check(arena_has(arena, length), "the test needs more memory");
	pieces->count = 0;
	while (length) {
		uint32_t part = length;
		int left = count - pieces->count;

		if (left > 1)
			part = 1 + rng_below(rng, length / left * 2 + 1);
		if (part > length)
			part = length;
		pieces->list[pieces->count++] = take(
			arena, arena->used + 1 + rng_below(rng, GAP - 1), part);
		length -= part;
	}
}

void arena_take_aligned(struct arena *arena, struct pieces *pieces,
			uint32_t length, uint32_t align)
{
	size_t at = (arena->used + align) / align * align;

	check(arena_has(arena, length + align), "the test needs more memory");
	pieces->count = 1;
	pieces->list[0] = take(arena, at, length);
}

void arena_fill(struct arena *arena, struct rng *rng)
{
	size_t length = arena->used + GAP;

	for (size_t at = 0; at < length; at += sizeof(uint64_t)) {
		uint64_t value = rng_next(rng);

		memcpy(arena->bytes + at, &value, sizeof(value));
	}
	memcpy(arena->shadow, arena->bytes, length);
}

void arena_check(const struct arena *arena, const char *what)
{
	size_t length = arena->used + GAP;

	if (!memcmp(arena->bytes, arena->shadow, length))
		return;
	for (size_t at = 0; at < length; at++)
		check(arena->bytes[at] == arena->shadow[at],
		      "%s: byte %zu of %zu is %02x, not %02x", what, at, length,
		      arena->bytes[at], arena->shadow[at]);
}

/* A place in a list of pieces. */
struct cursor {
	const struct arena *arena;
	const struct pieces *pieces;
	int index;
	uint32_t offset;
};

static void cursor_skip(struct cursor *cursor, uint32_t length)
{
	cursor->offset += length;
	while (cursor->index < cursor->pieces->count &&
	       cursor->offset >= cursor->pieces->list[cursor->index].length)
		cursor->offset -= cursor->pieces->list[cursor->index++].length;
}

static size_t cursor_at(const struct cursor *cursor)
{
	return cursor->pieces->list[cursor->index].addr -
	       (uintptr_t)cursor->arena->bytes + cursor->offset;
}

static uint32_t cursor_run(const struct cursor *cursor)
{
	return cursor->pieces->list[cursor->index].length - cursor->offset;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

void pieces_expect(const struct arena *to, const struct pieces *to_pieces,
		   uint32_t to_offset, const struct arena *from,
		   const struct pieces *from_pieces, uint32_t length)
{
	struct cursor target = { .arena = to, .pieces = to_pieces };
	struct cursor source = { .arena = from, .pieces = from_pieces };

	cursor_skip(&target, to_offset);
	while (length) {
		uint32_t run = least(cursor_run(&target), cursor_run(&source));

		run = least(run, length);
		memcpy(to->shadow + cursor_at(&target),
		       from->shadow + cursor_at(&source), run);
		cursor_skip(&target, run);
		cursor_skip(&source, run);
		length -= run;
	}
}

void pieces_accept(const struct arena *arena, const struct pieces *pieces,
		   uint32_t length)
{
	struct cursor cursor = { .arena = arena, .pieces = pieces };

	while (length) {
		uint32_t run = least(cursor_run(&cursor), length);

		memcpy(arena->shadow + cursor_at(&cursor),
		       arena->bytes + cursor_at(&cursor), run);
		cursor_skip(&cursor, run);
		length -= run;
	}
}

bool pieces_match(const struct arena *arena, const struct pieces *pieces)
{
	for (int i = 0; i < pieces->count; i++) {
		const struct ibv_sge *sge = &pieces->list[i];
		size_t at = sge->addr - (uintptr_t)arena->bytes;

		if (memcmp(arena->bytes + at, arena->shadow + at, sge->length))
			return false;
	}
	return true;
}

void pieces_read(const struct arena *arena, const struct pieces *pieces,
		 uint8_t *out)
{
	for (int i = 0; i < pieces->count; i++) {
		const struct ibv_sge *sge = &pieces->list[i];
		size_t at = sge->addr - (uintptr_t)arena->bytes;

		memcpy(out, arena->shadow + at, sge->length);
		out += sge->length;
	}
}
