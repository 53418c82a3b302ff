// SPDX-License-Identifier: GPL-2.0
/*
 * What this machine can do at best: copying, system calls, UDP datagrams with
 * segmentation offload. Each prints one figure.
 *
 *     limits memcpy SIZE            MiB/s
 *     limits syscall                nanoseconds of a system call that does nothing
 *     limits eventfd                nanoseconds of a write to an eventfd
 *     limits udp-sink PORT MS       MiB/s that arrive from the first datagram on
 *     limits udp-source ADDRESS PORT MS
 */

#include "common.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COPY_MS 300
#define CALLS 20000
#define MIB (1024.0 * 1024.0)
/* Bytes of a datagram, and how many the network layer gets at a time. */
#define DATAGRAM 4096
#define DATAGRAMS 15
#define SINK_START_MS 10000

static double mib_per_s(uint64_t bytes, uint64_t ns)
{
	return bytes / MIB / (ns / 1e9);
}

static void copy(size_t size)
{
	uint8_t *from = aligned_alloc(4096, size), *to = aligned_alloc(4096, size);
	uint64_t began, bytes = 0;

	check(size && size % 4096 == 0, "a size is a multiple of 4096");
	check(from && to, "out of memory");
	memset(from, 1, size);
	memset(to, 2, size);
	began = now_ns();
	do {
		memcpy(to, from, size);
		/* Somebody may look at it. */
		asm volatile("" : : "r"(to) : "memory");
		bytes += size;
	} while (now_ns() - began < COPY_MS * 1000000ull);
	printf("%.1f\n", mib_per_s(bytes, now_ns() - began));
}

static void calls(bool event)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	uint64_t began = now_ns(), one = 1;

	check(fd >= 0, "eventfd: %m");
	for (int i = 0; i < CALLS; i++) {
		if (event)
			check(write(fd, &one, sizeof(one)) == sizeof(one),
			      "write: %m");
		else
			syscall(SYS_getppid);
	}
	printf("%.1f\n", (double)(now_ns() - began) / CALLS);
}

static void sink(uint16_t port, uint32_t ms)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1, room = 8 << 20;
	static uint8_t buffer[65536];
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	uint64_t began, last, bytes = 0;

	check(fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)),
	      "bind: %m");
	check(!setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)), "UDP_GRO: %m");
	check(!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)),
	      "SO_RCVBUFFORCE: %m");
	check(poll(&poller, 1, SINK_START_MS) == 1, "nothing arrives");
	began = last = now_ns();
	while (last - began < ms * 1000000ull && poll(&poller, 1, 100) == 1) {
		ssize_t got = recv(fd, buffer, sizeof(buffer), 0);

		check(got > 0, "recv: %m");
		bytes += got;
		last = now_ns();
	}
	check(last > began, "a single datagram has arrived");
	printf("%.1f\n", mib_per_s(bytes, last - began));
}

static void source(const char *to, uint16_t port, uint32_t ms)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), size = DATAGRAM;
	static uint8_t buffer[DATAGRAM * DATAGRAMS];
	uint64_t began = now_ns(), bytes = 0;

	check(inet_pton(AF_INET, to, &address.sin_addr) == 1, "%s?", to);
	check(fd >= 0 &&
		      !connect(fd, (struct sockaddr *)&address, sizeof(address)),
	      "connect: %m");
	check(!setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)),
	      "UDP_SEGMENT: %m");
	while (now_ns() - began < ms * 1000000ull)
		bytes += write(fd, buffer, sizeof(buffer)) > 0 ? sizeof(buffer) : 0;
	printf("%.1f\n", mib_per_s(bytes, now_ns() - began));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "memcpy") && argc == 3)
		copy(strtoul(argv[2], NULL, 0));
	else if (!strcmp(what, "syscall") || !strcmp(what, "eventfd"))
		calls(*what == 'e');
	else if (!strcmp(what, "udp-sink") && argc == 4)
		sink(atoi(argv[2]), atoi(argv[3]));
	else if (!strcmp(what, "udp-source") && argc == 5)
		source(argv[2], atoi(argv[3]), atoi(argv[4]));
	else
		fail("usage: limits memcpy SIZE | syscall | eventfd | udp-sink PORT MS | udp-source ADDRESS PORT MS");
	return 0;
}
