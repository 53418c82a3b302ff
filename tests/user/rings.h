/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings that librxe shares with the kernel, found among the mappings of this
 * process, for programs that write to them what they should not.
 */
#ifndef TESTS_RINGS_H
#define TESTS_RINGS_H

#include "common.h"

#include <rdma/rdma_user_rxe.h>

#define MAX_RINGS 16

struct ring {
	struct rxe_queue_buf *shared;
	size_t size;
	/* What the header said at first: it may be overwritten. */
	uint32_t shift;
	uint32_t mask;
};

/* Finds all rings; their number. */
int rings_find(struct ring *rings);
/* Has the header say again what it said at first, so that librxe can go on. */
void ring_restore(const struct ring *ring);
size_t ring_element(const struct ring *ring);
/* The element at `index`, of which as many bits count as there are slots. */
void *ring_slot(const struct ring *ring, uint32_t index);

/* Tells the kernel that the send queue has entries; 0 or an errno. */
int ring_bell(struct ibv_qp *qp);

#endif
