// SPDX-License-Identifier: GPL-2.0

#include "sweep.h"
#include "inject.h"
#include "nldev.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* No step allocates as often as that. */
#define MOST_ALLOCATIONS 100000

unsigned long sweep_injected, sweep_failed, sweep_wrong;

/* Tells what is wrong, and goes on: one sweep is to find all there is. */
static void __attribute__((format(printf, 3, 4)))
wrong(const struct step *step, int nth, const char *format, ...)
{
	va_list args;

	printf("WRONG: %s, allocation %d: ", step->name, nth);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	sweep_wrong++;
}

int outcome(const void *made)
{
	return made ? 0 : errno ? errno : -1;
}

static void count(struct nldev_counts counts[2])
{
	for (int i = 0; i < 2; i++)
		counts[i] = nldev_count(nldev_index(devices[i].name));
}

static void compare(const struct step *step, int nth,
		    const struct nldev_counts before[2])
{
	struct nldev_counts after[2];

	count(after);
	for (int i = 0; i < 2; i++)
		for (int kind = 0; kind < before[i].kinds; kind++)
			if (before[i].counts[kind] != after[i].counts[kind])
				wrong(step, nth, "%s has %llu %s, before it %llu",
				      devices[i].name,
				      (unsigned long long)after[i].counts[kind],
				      before[i].names[kind],
				      (unsigned long long)before[i].counts[kind]);
}

static bool may_fail_with(const struct step *step, int error)
{
	for (int i = 0; i < SWEEP_ALSO; i++)
		if (step->also[i] && step->also[i] == error)
			return true;
	return error == ENOMEM;
}

/* Runs a step whose `nth` allocation fails; false if it has no such. */
static bool run_step(const struct step *step, int nth, unsigned long *failed)
{
	struct nldev_counts before[2];
	bool injected;
	int error;

	if (step->before)
		step->before();
	count(before);
	errno = 0;
	inject_arm(nth);
	error = step->run();
	injected = inject_disarm();
	if (error) {
		check(injected, "%s: %s", step->name, strerror(error));
		if (!may_fail_with(step, error))
			wrong(step, nth, "%s", strerror(error));
		compare(step, nth, before);
		++*failed;
		error = step->run();
		check(!error, "%s, after allocation %d failed: %s", step->name,
		      nth, strerror(error));
	}
	if (step->after)
		step->after();
	return injected;
}

static void sweep_step(const struct step *step, uint32_t stride,
		       struct rng *rng)
{
	unsigned long injected = 0, failed = 0;
	uint64_t began = now_ms();
	int nth = 1 + rng_below(rng, stride);

	while (run_step(step, nth, &failed)) {
		check(nth < MOST_ALLOCATIONS, "%s: no end", step->name);
		injected++;
		nth += stride;
	}
	printf("%-40s %6lu allocations, %6lu failures, %6llu ms\n", step->name,
	       injected, failed, (unsigned long long)(now_ms() - began));
	fflush(stdout);
	sweep_injected += injected;
	sweep_failed += failed;
}

void sweep(const struct step *steps, size_t count, uint32_t stride,
	   struct rng *rng)
{
	for (size_t i = 0; i < count; i++)
		sweep_step(&steps[i], stride, rng);
}
