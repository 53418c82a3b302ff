/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Steps of which every single allocation fails once: the first, the second and so
 * on, until a step needs no more. After each failure everything is as it was before,
 * and the step can be done.
 */
#ifndef TESTS_SWEEP_H
#define TESTS_SWEEP_H

#include "common.h"

#define SWEEP_ALSO 3

struct step {
	const char *name;
	/* What the step needs; may be NULL. */
	void (*before)(void);
	/* The step: 0 or an errno. */
	int (*run)(void);
	/* Undoes it; may be NULL. */
	void (*after)(void);
	/* What it may fail with, apart from ENOMEM. */
	int also[SWEEP_ALSO];
};

extern struct device devices[2];

/* Sweeps over some steps. With `stride` only one in so many allocations fails, from a
 * random first one on. */
void sweep(const struct step *steps, size_t count, uint32_t stride,
	   struct rng *rng);

/* 0 for a pointer, else errno. */
int outcome(const void *made);

/* The steps, by what they are about. */
void sweep_objects(uint32_t stride, struct rng *rng);
void sweep_states(uint32_t stride, struct rng *rng);
void sweep_messages(uint32_t stride, struct rng *rng);
void sweep_admin(uint32_t stride, struct rng *rng);
void sweep_cm(uint32_t stride, struct rng *rng);

/* How many allocations have failed, how many of these failed a step, and how often
 * that had another outcome than it may have. */
extern unsigned long sweep_injected, sweep_failed, sweep_wrong;

#endif
