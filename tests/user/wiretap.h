/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Somebody on the network of a cable: he hears what passes, learns its cookie, and says
 * what he likes with the sender's addresses. For cables over IPv6. What does not work ends
 * the program.
 */
#ifndef TESTS_WIRETAP_H
#define TESTS_WIRETAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ethernet, IPv6 and UDP; then the outer header of a packet. */
#define WIRETAP_HEAD_BYTES (14u + 40u + 8u)
#define WIRETAP_OUTER_BYTES 16u
#define WIRETAP_BATCH_BYTES 30000u

struct wiretap {
	int fd;
	uint8_t head[WIRETAP_HEAD_BYTES];
	uint8_t outer[WIRETAP_OUTER_BYTES];
	/* Datagrams that leave together: bytes, of each packet but the last, packets of each datagram. */
	uint8_t batch[WIRETAP_BATCH_BYTES];
	size_t length, size;
	unsigned int count, row;
	/* What the row of the next batch is, if that fits. */
	unsigned int next_row;
	/* What the next outer headers say of the size of packets is wrong. */
	bool lies;
	/* The last one is shorter, so none may follow. */
	bool ended;
	uint64_t sent, batches;
};

/*
 * Learns what comes to the network device `end` of a cable, and is ready to speak by
 * `other`, which `end` is tied to.
 */
void wiretap_open(struct wiretap *tap, const char *end, const char *other);
void wiretap_close(struct wiretap *tap);

/* Has a packet leave, at the latest with the next call of wiretap_flush(): those of equal
 * length leave as one batch, as the network layer has it, and of some batches several are in
 * one datagram. */
void wiretap_add(struct wiretap *tap, const uint8_t *packet, size_t length);
void wiretap_flush(struct wiretap *tap);

#endif
