// SPDX-License-Identifier: GPL-2.0
/*
 * sibcm: connections of sib_cm for the command line. One side listens and echoes, the
 * other sends a message now and then and says how long the echo took and by which port.
 * The path by another port is loaded as the alternate one as soon as there is one, and
 * after each failure; what happens to paths is told as it happens.
 */

#include "sibcm.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile sig_atomic_t interrupted;

void die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "sibcm: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static void usage(FILE *file)
{
	fputs("usage: sibcm listen [-s SERVICE] DEVICE\n"
	      "       sibcm connect [-s SERVICE] [-c COUNT] [-i SECONDS] DEVICE LID GID\n"
	      "       sibcm show\n"
	      "\n"
	      "listen   accepts one connection, and echoes what comes\n"
	      "connect  sends a message every second, and tells of its echo and of paths\n"
	      "show     lists the devices and connections of this host (root)\n"
	      "\n"
	      "  -s SERVICE  service ID (0x2ff000000000053)\n"
	      "  -c COUNT    end after so many messages\n"
	      "  -i SECONDS  time between messages (1)\n"
	      "  -h          this help\n",
	      file);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	uint64_t service = DEFAULT_SERVICE, count = UINT64_MAX;
	const char *command = argc > 1 ? argv[1] : "";
	struct side side = { 0 };
	double interval = 1;
	int option;

	if (!strcmp(command, "-h") || !strcmp(command, "--help")) {
		usage(stdout);
		return 0;
	}
	optind = 2;
	while ((option = getopt(argc, argv, "s:c:i:h")) >= 0) {
		switch (option) {
		case 's':
			service = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			count = strtoull(optarg, NULL, 0);
			break;
		case 'i':
			interval = strtod(optarg, NULL);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!strcmp(command, "listen") && argc - optind == 1) {
		open_side(&side, argv[optind]);
		listen_for_one(&side, service);
	} else if (!strcmp(command, "connect") && argc - optind == 3) {
		open_side(&side, argv[optind]);
		ping(&side, service, argv[optind + 1], argv[optind + 2], count,
		     interval);
	} else if (!strcmp(command, "show") && argc == optind) {
		show();
	} else {
		usage(stderr);
		return 2;
	}
	return 0;
}
