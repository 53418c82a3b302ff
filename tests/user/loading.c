// SPDX-License-Identifier: GPL-2.0
/*
 * No memory for a module: every allocation below its own code, or one in STRIDE of them, fails once
 * while it is loaded, and then once while it is removed.
 *
 *     loading [-k STRIDE] NAME FILE PARAMETERS PATH...
 *
 * The PATHs are there as long as the module is loaded.
 */

#include "common.h"
#include "inject.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* No load allocates as often as that. */
#define MOST_ALLOCATIONS 10000
/* What workers make for a module that has been loaded is there then. */
#define DUE_MS 20000

static uint32_t stride = 1;
static const char *name, *parameters;
static char *const *paths;
static int module;

static int load(void)
{
	return syscall(SYS_finit_module, module, parameters, 0) ? errno : 0;
}

static int removal(void)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? errno : 0;
}

static void must(int (*what)(void), const char *called, int nth)
{
	int error = what();

	check(!error, "%s of %s, allocation %d: %s", called, name, nth, strerror(error));
}

static void nothing_is_left(int nth)
{
	for (char *const *path = paths; *path; path++)
		check(access(*path, F_OK) && errno == ENOENT,
		      "%s is there after allocation %d failed", *path, nth);
}

static void all_is_there(void)
{
	uint64_t due = now_ms() + DUE_MS;

	for (char *const *path = paths; *path; path++)
		while (access(*path, F_OK)) {
			check(now_ms() < due, "%s: %m", *path);
			usleep(10000);
		}
}

/* The first one that is to fail; whether it has is told by inject_disarm(). */
static int first(struct rng *rng)
{
	return 1 + rng_below(rng, stride);
}

static void sweep_loads(struct rng *rng)
{
	unsigned long injected = 0, failed = 0;
	uint64_t began = now_ms();

	for (int nth = first(rng);; nth += stride) {
		int error;
		bool was_injected;

		check(nth < MOST_ALLOCATIONS, "no end");
		inject_arm(nth);
		error = load();
		was_injected = inject_disarm();
		if (!was_injected) {
			check(!error, "%s: %s", name, strerror(error));
			break;
		}
		injected++;
		if (error) {
			check(error == ENOMEM, "%s, allocation %d: %s", name, nth, strerror(error));
			failed++;
		} else {
			must(removal, "removal", nth);
		}
		nothing_is_left(nth);
	}
	all_is_there();
	must(removal, "removal", 0);
	nothing_is_left(0);
	printf("%s is loaded: %lu allocations, %lu failures, %lu ms\n", name, injected, failed,
	       now_ms() - began);
	check(failed, "it was never short of memory");
}

static void sweep_removals(struct rng *rng)
{
	unsigned long injected = 0;
	uint64_t began = now_ms();
	bool was_injected = true;

	for (int nth = first(rng); was_injected; nth += stride) {
		check(nth < MOST_ALLOCATIONS, "no end");
		must(load, "load", nth);
		all_is_there();
		inject_arm(nth);
		must(removal, "removal", nth);
		was_injected = inject_disarm();
		injected += was_injected;
		nothing_is_left(nth);
	}
	printf("%s is removed: %lu allocations, %lu ms\n", name, injected, now_ms() - began);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1;
	struct rng rng;
	const struct cmdline_option options[] = {
		{ 'k', "STRIDE", .u32 = &stride },
		{ 's', "SEED", .u64 = &seed },
		{},
	};
	int operand = options_read(argc, argv, options, "NAME FILE PARAMETERS PATH...");

	check(stride > 0 && argc - operand >= 4, "see the head of loading.c");
	name = argv[operand];
	module = open(argv[operand + 1], O_RDONLY | O_CLOEXEC);
	check(module >= 0, "%s: %m", argv[operand + 1]);
	parameters = argv[operand + 2];
	paths = argv + operand + 3;
	rng_seed(&rng, seed);
	inject_prepare();
	inject_below_modules();
	nothing_is_left(0);
	sweep_loads(&rng);
	sweep_removals(&rng);
	return 0;
}
