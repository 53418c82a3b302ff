// SPDX-License-Identifier: GPL-2.0
/*
 * A connection that is made and then carries messages, which tells the kernel's trace
 * where the steady part begins and ends.
 *
 *     steady [-a DEV[:PORT]] [-b DEV[:PORT]] [-n MESSAGES]
 */

#include "traffic.h"

#include <fcntl.h>
#include <getopt.h>
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
	int count = 10000, option, fd;

	while ((option = getopt(argc, argv, "a:b:n:")) != -1) {
		switch (option) {
		case 'a':
			names[0] = optarg;
			break;
		case 'b':
			names[1] = optarg;
			break;
		case 'n':
			count = atoi(optarg);
			break;
		default:
			fail("usage: steady [-a DEV[:PORT]] [-b DEV[:PORT]] [-n MESSAGES]");
		}
	}
	fd = open(MARKER, O_WRONLY);
	check(fd >= 0, MARKER ": %m");
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], names[i]);
	traffic_create(&traffic, &devices[0], &devices[1], 1);
	for (int i = 0; i < WARM_UP; i++)
		traffic_message(&traffic, false);
	mark(fd, "steady begins");
	for (int i = 0; i < count; i++)
		traffic_message(&traffic, false);
	mark(fd, "steady ends");
	traffic_destroy(&traffic);
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
	printf("steady: %d messages\n", count);
	return 0;
}
