// SPDX-License-Identifier: GPL-2.0
/*
 * Asks a LID for the counters of its port, again and again, until it is told to stop.
 *
 *     asker DEVICE LID
 */

#include "umad.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_PERFORMANCE 4
#define METHOD_GET 1
#define PORT_COUNTERS 0x12
/* Where the header has them. */
#define CLASS_AT 1
#define VERSION_AT 2
#define METHOD_AT 3
/* Where PortCounters has its port. */
#define PORT_AT 65

static volatile sig_atomic_t is_over;

static void end(int signal)
{
	(void)signal;
	is_over = 1;
}

int main(int argc, char **argv)
{
	uint8_t mad[MAD_BYTES];
	uint64_t asked = 0;
	struct umad umad;
	uint16_t lid;

	check(argc == 3, "usage: asker DEVICE LID");
	lid = strtoul(argv[2], NULL, 0);
	signal(SIGTERM, end);
	umad_open(&umad, argv[1], 1);
	while (!is_over) {
		int error;

		mad_begin(mad, PORT_COUNTERS, ++asked);
		mad[CLASS_AT] = CLASS_PERFORMANCE;
		mad[VERSION_AT] = 1;
		mad[METHOD_AT] = METHOD_GET;
		mad[PORT_AT] = 1;
		error = umad_send(&umad, lid, mad);
		check(!error || error == EINVAL, "send: %s", strerror(error));
	}
	printf("asked %llu times\n", (unsigned long long)asked);
	umad_close(&umad);
	return 0;
}
