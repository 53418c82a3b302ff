// SPDX-License-Identifier: GPL-2.0
/*
 * Reliable datagrams (RDS) over InfiniBand between two hosts, both ways at once:
 *
 *     rds LOCAL REMOTE COUNT
 *
 * Says that it is bound, and waits for a line: what comes for an address that no socket
 * has is lost. Then each host sends so many datagrams of all sizes. All that come must be
 * those that the other one sent, in that order, with each byte as it was. Says so and stays
 * until it is killed, because a socket that is closed takes along what is on its way.
 */

#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rds.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 18700
#define MAX_BYTES 65536u
#define SEED 7
/* How long nothing may happen. The connection is made by the first datagram. */
#define PATIENCE_MS 60000

#ifndef SOL_RDS
#define SOL_RDS 276
#endif

static uint8_t out[MAX_BYTES];
static uint8_t in[MAX_BYTES];
static uint8_t want[MAX_BYTES];

static struct sockaddr_in address(const char *text)
{
	struct sockaddr_in it = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
	};

	check(inet_pton(AF_INET, text, &it.sin_addr) == 1, "no address: %s",
	      text);
	return it;
}

/* The next datagram of a host; returns its size. */
static size_t compose(struct rng *rng, uint8_t *to)
{
	/* As many small ones as large ones. */
	size_t size = 1 + rng_below(rng, 1u << (4 + rng_below(rng, 13)));

	for (size_t at = 0; at < size; at++)
		to[at] = rng_next(rng) >> 32;
	return size;
}

static void seed_of(struct rng *rng, struct sockaddr_in host)
{
	rng_seed(rng, SEED + ntohl(host.sin_addr.s_addr));
}

int main(int argc, char **argv)
{
	unsigned long sent = 0, received = 0, count;
	struct sockaddr_in local, remote, from;
	int transport = RDS_TRANS_IB;
	struct rng ours, theirs;
	size_t size, pending = 0;
	uint64_t total = 0;

	check(argc == 4, "usage: rds LOCAL REMOTE COUNT");
	local = address(argv[1]);
	remote = address(argv[2]);
	count = strtoul(argv[3], NULL, 0);
	seed_of(&ours, local);
	seed_of(&theirs, remote);

	int rds = socket(AF_RDS, SOCK_SEQPACKET, 0);

	check(rds >= 0, "socket: %m");
	check(!setsockopt(rds, SOL_RDS, SO_RDS_TRANSPORT, &transport,
			  sizeof(transport)),
	      "no RDS over InfiniBand: %m");
	check(!bind(rds, (struct sockaddr *)&local, sizeof(local)),
	      "bind: %m");
	puts("bound");
	fflush(stdout);
	check(getchar() != EOF, "nobody says when to begin");
	while (sent < count || received < count) {
		struct pollfd it = { .fd = rds, .events = POLLIN };

		if (sent < count)
			it.events |= POLLOUT;
		check(poll(&it, 1, PATIENCE_MS) > 0,
		      "nothing moves after %lu sent and %lu received", sent,
		      received);
		if (it.revents & POLLIN) {
			socklen_t length = sizeof(from);
			ssize_t got = recvfrom(rds, in, sizeof(in),
					       MSG_DONTWAIT,
					       (struct sockaddr *)&from,
					       &length);

			check(got >= 0 || errno == EAGAIN, "recvfrom: %m");
			if (got >= 0) {
				size = compose(&theirs, want);
				check(from.sin_addr.s_addr ==
					      remote.sin_addr.s_addr,
				      "datagram %lu is from somebody else",
				      received);
				check((size_t)got == size &&
					      !memcmp(in, want, size),
				      "datagram %lu is wrong: %zd bytes, not %zu",
				      received, got, size);
				received++;
				total += size;
			}
		}
		if (!(it.revents & POLLOUT) || sent == count)
			continue;
		if (!pending)
			pending = compose(&ours, out);
		if (sendto(rds, out, pending, MSG_DONTWAIT,
			   (struct sockaddr *)&remote, sizeof(remote)) < 0) {
			check(errno == EAGAIN || errno == ENOBUFS,
			      "sendto: %m");
			continue;
		}
		sent++;
		pending = 0;
	}
	printf("%lu datagrams sent, %lu received, %llu bytes right\n", sent,
	       received, (unsigned long long)total);
	fflush(stdout);
	for (;;)
		pause();
}
