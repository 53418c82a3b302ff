/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The options of a test program: letters, each of which has a value.
 */
#ifndef TESTS_OPTIONS_H
#define TESTS_OPTIONS_H

#include <stdint.h>

struct cmdline_option {
	/* 0 ends a list of options. */
	char letter;
	/* What the usage calls the value. */
	const char *value;
	/* Where the value goes: one of these. */
	const char **text;
	uint32_t *u32;
	uint64_t *u64;
};

/*
 * Stores the values that the command line has; the index of the first operand. An
 * option or a number that is wrong ends the program with the usage, which says
 * `operands` behind the options; NULL: there are none.
 */
int options_read(int argc, char **argv, const struct cmdline_option *options,
		 const char *operands);

#endif
