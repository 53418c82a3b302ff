/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages of a reliable connection, one after the other, of which every byte and
 * every completion is checked.
 */
#ifndef TESTS_TRAFFIC_H
#define TESTS_TRAFFIC_H

#include "bench.h"

struct traffic {
	struct bench bench;
	struct rng rng;
	unsigned long messages;
	/* How often a doorbell was in want of memory and had to be repeated. */
	unsigned long repeated;
};

void traffic_create(struct traffic *traffic, struct device *a,
		    struct device *b, uint64_t seed);
void traffic_destroy(struct traffic *traffic);

/* One message: SEND, RDMA WRITE or READ of up to 16 KiB. A doorbell may fail with
 * ENOMEM if `starved`. */
void traffic_message(struct traffic *traffic, bool starved);

/* A process of its own with traffic between two ports, until it is stopped. To be
 * started before this program opens a device. */
void neighbour_start(const char *const names[2]);
/* Stops it; the number of its messages. It must have had some, and no fault. */
unsigned long neighbour_stop(void);

#endif
