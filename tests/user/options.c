// SPDX-License-Identifier: GPL-2.0

#include "options.h"
#include "common.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_OPTIONS 16

static _Noreturn void fail_with_usage(const struct cmdline_option *options,
				      const char *operands)
{
	char *text;
	size_t size;
	FILE *usage = open_memstream(&text, &size);

	check(usage, "out of memory");
	for (; options->letter; options++)
		fprintf(usage, " [-%c %s]", options->letter, options->value);
	if (operands)
		fprintf(usage, " %s", operands);
	fclose(usage);
	fail("usage: %s%s", program_invocation_short_name, text);
}

/* Takes what strtoull() takes, but for signs, blanks and what is no number. */
static bool read_number(const char *text, uint64_t most, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 0);
	return isdigit((unsigned char)*text) && !*end && !errno &&
	       *number <= most;
}

static bool store(const struct cmdline_option *option, const char *value)
{
	uint64_t number;

	if (option->text) {
		*option->text = value;
		return true;
	}
	if (!read_number(value, option->u32 ? UINT32_MAX : UINT64_MAX, &number))
		return false;
	if (option->u32)
		*option->u32 = number;
	else
		*option->u64 = number;
	return true;
}

/* The letters as getopt() wants them. */
static void list_letters(const struct cmdline_option *options, char *letters)
{
	for (int i = 0; options[i].letter; i++) {
		check(i < MOST_OPTIONS, "more than %d options", MOST_OPTIONS);
		*letters++ = options[i].letter;
		*letters++ = ':';
	}
	*letters = '\0';
}

int options_read(int argc, char **argv, const struct cmdline_option *options,
		 const char *operands)
{
	char letters[2 * MOST_OPTIONS + 1];
	int letter;

	list_letters(options, letters);
	while ((letter = getopt(argc, argv, letters)) != -1) {
		const struct cmdline_option *option = options;

		while (option->letter && option->letter != letter)
			option++;
		if (!option->letter)
			fail_with_usage(options, operands);
		if (!store(option, optarg)) {
			fprintf(stderr, "%s: '%s' is no number for -%c\n",
				program_invocation_short_name, optarg, letter);
			fail_with_usage(options, operands);
		}
	}
	return optind;
}
