// SPDX-License-Identifier: GPL-2.0

#include "rings.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int rings_find(struct ring *rings)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long first, end;
	char line[512];
	int count = 0;

	check(maps, "/proc/self/maps: %m");
	while (fgets(line, sizeof(line), maps) && count < MAX_RINGS) {
		struct ring *ring = &rings[count];

		if (!strstr(line, "uverbs") ||
		    sscanf(line, "%lx-%lx", &first, &end) != 2)
			continue;
		ring->shared = (void *)first;
		ring->size = end - first;
		ring->shift = ring->shared->log2_elem_size;
		ring->mask = ring->shared->index_mask;
		check(sizeof(*ring->shared) +
				      ((ring->mask + 1ul) << ring->shift) <=
			      ring->size,
		      "a ring that is larger than its mapping");
		count++;
	}
	fclose(maps);
	return count;
}

void ring_restore(const struct ring *ring)
{
	ring->shared->log2_elem_size = ring->shift;
	ring->shared->index_mask = ring->mask;
	ring->shared->producer_index &= ring->mask;
	ring->shared->consumer_index &= ring->mask;
}

size_t ring_element(const struct ring *ring)
{
	return (size_t)1 << ring->shift;
}

void *ring_slot(const struct ring *ring, uint32_t index)
{
	return ring->shared->data + ((size_t)(index & ring->mask) << ring->shift);
}

int ring_bell(struct ibv_qp *qp)
{
	struct ib_uverbs_post_send_resp answer;
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_post_send post;
	} command = {
		.header = {
			.command = IB_USER_VERBS_CMD_POST_SEND,
			.in_words = sizeof(command) / 4,
			.out_words = sizeof(answer) / 4,
		},
		.post = {
			.response = (uintptr_t)&answer,
			.qp_handle = qp->handle,
			.wqe_size = sizeof(struct ib_uverbs_send_wr),
		},
	};

	return write(qp->context->cmd_fd, &command, sizeof(command)) ==
			       sizeof(command) ? 0 : errno;
}
