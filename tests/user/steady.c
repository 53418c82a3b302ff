// SPDX-License-Identifier: GPL-2.0
/*
 * A connection that is made and then carries messages, which tells the kernel's trace
 * where the steady part begins and ends.
 */

#include "options.h"
#include "traffic.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARKER "/sys/kernel/tracing/trace_marker"
/* What a connection needs once, it needs for one of these. */
#define WARM_UP 200

static void mark(int fd, const char *text)
{
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "mark: %m");
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" };
	static struct traffic traffic;
	struct device devices[2];
	uint32_t count = 10000;
	const struct cmdline_option options[] = {
		{ 'a', "DEV[:PORT]", .text = &names[0] },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'n', "MESSAGES", .u32 = &count },
		{},
	};
	int fd;

	options_read(argc, argv, options, NULL);
	fd = open(MARKER, O_WRONLY);
	check(fd >= 0, MARKER ": %m");
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], names[i]);
	traffic_create(&traffic, &devices[0], &devices[1], 1);
	for (int i = 0; i < WARM_UP; i++)
		traffic_message(&traffic, false);
	mark(fd, "steady begins");
	for (uint32_t i = 0; i < count; i++)
		traffic_message(&traffic, false);
	mark(fd, "steady ends");
	traffic_destroy(&traffic);
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
	printf("steady: %u messages\n", count);
	return 0;
}
