// SPDX-License-Identifier: GPL-2.0
/*
 * sibcm: connections of sib_cm for the command line. One side listens and echoes, the
 * other sends a message now and then and says how long the echo took and by which port,
 * or as many as go. The path by another port is loaded as the alternate one as soon as
 * there is one, and after each failure, or by order; what happens to paths is told as it
 * happens.
 */

#include "sibcm.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* In seconds. A view looks at all connections of the host. */
#define MIN_VIEW_INTERVAL 0.1
/* Behind it are those of multicast groups. */
#define MAX_LID 0xbfff

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
	fputs("usage: sibcm listen [-s SERVICE] [-t CODE] DEVICE\n"
	      "       sibcm connect [-s SERVICE] [-p PORT] [-c COUNT] [-i SECONDS] [-b SIZE] [-t CODE]\n"
	      "                     [-m] DEVICE LID GID [ORDER]...\n"
	      "       sibcm show\n"
	      "       sibcm top [-c COUNT] [-i SECONDS]\n"
	      "\n"
	      "listen   accepts one connection, and echoes what comes\n"
	      "connect  sends a message every second, and tells of its echo and of paths\n"
	      "show     lists the devices and connections of this host\n"
	      "top      shows connections, paths and throughput every second\n"
	      "All of it takes root, and the module sib_cm.\n"
	      "\n"
	      "  -s, --service SERVICE   service ID (0x2ff000000000053)\n"
	      "  -p, --port PORT         port of the device to connect (1)\n"
	      "  -c, --count COUNT       end after so many messages, or views\n"
	      "  -i, --interval SECONDS  time between messages, or views (1; of views at least 0.1)\n"
	      "  -b, --bulk SIZE         messages of SIZE bytes (64 to 1048576, a multiple\n"
	      "                          of 8), as many as go\n"
	      "  -t, --timeout CODE      ACK timeout, 4.096 us times 2 to the CODE, but 20 ms at\n"
	      "                          least; 0: none (15)\n"
	      "  -m, --manual            load paths by order alone\n"
	      "  -h, --help              this help\n"
	      "\n"
	      "Orders, also line by line from standard input:\n"
	      "  load PORT [PEER-PORT]   make the path by that port the alternate one\n"
	      "  migrate                 go over to the alternate path\n"
	      "  quit                    end the connection\n",
	      file);
}

/* A number of the command line. */
static uint64_t number(const char *option, const char *text, uint64_t most)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*text >= '0' && *text <= '9' && !*end && value <= most)
		return value;
	fprintf(stderr, "sibcm: %s: '%s' will not do\n", option, text);
	exit(2);
}

static struct in6_addr gid_of(const char *text)
{
	struct in6_addr gid;

	if (inet_pton(AF_INET6, text, &gid) == 1)
		return gid;
	fprintf(stderr, "sibcm: GID: '%s' will not do\n", text);
	exit(2);
}

static double seconds(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end != text && !*end && value >= 0 && value <= 1e6)
		return value;
	fprintf(stderr, "sibcm: -i: '%s' will not do\n", text);
	exit(2);
}

static const struct option OPTIONS[] = {
	{ "service", required_argument, NULL, 's' },
	{ "port", required_argument, NULL, 'p' },
	{ "count", required_argument, NULL, 'c' },
	{ "interval", required_argument, NULL, 'i' },
	{ "bulk", required_argument, NULL, 'b' },
	{ "timeout", required_argument, NULL, 't' },
	{ "manual", no_argument, NULL, 'm' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* The letters of the options that a command has. */
static const char *options_of(const char *command)
{
	if (!strcmp(command, "listen"))
		return "sth";
	if (!strcmp(command, "connect"))
		return "spcibtmh";
	if (!strcmp(command, "top"))
		return "cih";
	return "h";
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct side side = { .service = DEFAULT_SERVICE,
			     .ack_timeout = ACK_TIMEOUT };
	const char *command = argc > 1 ? argv[1] : "";
	uint64_t count = UINT64_MAX, size = MESSAGE, lid;
	struct in6_addr gid;
	double interval = 1;
	int option, port = 1, left;

	if (!strcmp(command, "-h") || !strcmp(command, "--help")) {
		usage(stdout);
		return 0;
	}
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	optind = 2;
	while ((option = getopt_long(argc, argv, "s:p:c:i:b:t:mh", OPTIONS,
				     NULL)) >= 0) {
		if (!strchr(options_of(command), option)) {
			usage(stderr);
			return 2;
		}
		switch (option) {
		case 's':
			side.service = number("-s", optarg, UINT64_MAX);
			break;
		case 'p':
			port = number("-p", optarg, MAX_PORTS);
			break;
		case 'c':
			count = number("-c", optarg, UINT64_MAX);
			break;
		case 'i':
			interval = seconds(optarg);
			break;
		case 'b':
			size = number("-b", optarg, MAX_MESSAGE);
			side.is_bulk = true;
			break;
		case 't':
			side.ack_timeout = number("-t", optarg, MAX_ACK_TIMEOUT);
			break;
		case 'm':
			side.is_manual = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		}
	}
	left = argc - optind;
	argv += optind;
	if (!port || !is_size(size)) {
		fprintf(stderr, "sibcm: %s\n",
			port ? "-b: 64 to 1048576 bytes, and a multiple of 8" :
			       "-p: ports begin with 1");
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGTTIN, SIG_IGN);
	if (!strcmp(command, "listen") && left == 1) {
		open_side(&side, argv[0]);
		listen_for_one(&side);
	} else if (!strcmp(command, "connect") && left >= 3) {
		lid = number("LID", argv[1], MAX_LID);
		if (!lid) {
			fprintf(stderr, "sibcm: LID: no port has 0\n");
			return 2;
		}
		gid = gid_of(argv[2]);
		if (!give_orders(argv + 3, left - 3))
			return 2;
		open_side(&side, argv[0]);
		make_buffers(&side, size);
		ping(&side, port, lid, &gid, count, interval);
	} else if (!strcmp(command, "show") && left == 0) {
		show();
	} else if (!strcmp(command, "top") && left == 0) {
		if (interval < MIN_VIEW_INTERVAL) {
			fprintf(stderr, "sibcm: -i: views are at least %g s apart\n",
				MIN_VIEW_INTERVAL);
			return 2;
		}
		top(count, interval);
	} else {
		usage(stderr);
		return 2;
	}
	return end_orders() ? 0 : 1;
}
