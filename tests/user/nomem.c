// SPDX-License-Identifier: GPL-2.0
/*
 * No memory: every allocation of every verb fails once, while others on the same
 * devices go on.
 */

#include "inject.h"
#include "nldev.h"
#include "options.h"
#include "sweep.h"
#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device devices[2];

static uint32_t stride = 1;
static struct rng rng;
static uint64_t seed = 1;

static void run(const char *what)
{
	if (!strcmp(what, "objects"))
		sweep_objects(stride, &rng);
	else if (!strcmp(what, "states"))
		sweep_states(stride, &rng);
	else if (!strcmp(what, "messages"))
		sweep_messages(stride, &rng);
	else if (!strcmp(what, "admin"))
		sweep_admin(stride, &rng);
	else if (!strcmp(what, "cm"))
		sweep_cm(stride, &rng);
	else
		fail("there is no '%s'", what);
	/* What others do may need no memory of its own at all. */
	check(sweep_failed || strcmp(what, "objects"),
	      "nothing has failed for want of memory");
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" };
	const struct cmdline_option options[] = {
		{ 'a', "DEV[:PORT]", .text = &names[0] },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'k', "STRIDE", .u32 = &stride },
		{ 's', "SEED", .u64 = &seed },
		{},
	};
	int operand;

	operand = options_read(argc, argv, options,
			       "objects|states|messages|admin|cm...");
	check(stride > 0, "a stride of %u", stride);
	rng_seed(&rng, seed);
	neighbour_start(names);
	inject_prepare();
	nldev_open();
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], names[i]);
	for (; operand < argc; operand++)
		run(argv[operand]);
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
	printf("nomem: %lu allocations failed, and with them %lu steps; the neighbour had %lu messages\n",
	       sweep_injected, sweep_failed, neighbour_stop());
	check(!sweep_wrong, "%lu times it was not as it should be", sweep_wrong);
	return 0;
}
