// SPDX-License-Identifier: GPL-2.0
/* Messages and their echoes. */

#include "sibcm.h"

#include <stdio.h>
#include <string.h>

void post_recv(struct side *side, uint64_t slot)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->buffers[DEPTH + slot],
			       .length = MESSAGE,
			       .lkey = side->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = DEPTH + slot, .sg_list = &sge,
				  .num_sge = 1 }, *bad;

	if (ibv_post_recv(side->qp, &wr, &bad))
		die("cannot receive: %m");
}

void post_send(struct side *side, uint64_t number)
{
	uint64_t slot = number % DEPTH;
	struct ibv_sge sge = { .addr = (uintptr_t)side->buffers[slot],
			       .length = MESSAGE,
			       .lkey = side->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND }, *bad;

	memcpy(side->buffers[slot], &number, sizeof(number));
	if (ibv_post_send(side->qp, &wr, &bad))
		die("cannot send: %m");
}

static void on_message(struct side *side, uint64_t slot)
{
	uint64_t number;

	memcpy(&number, side->buffers[slot], sizeof(number));
	post_recv(side, slot - DEPTH);
	if (!side->is_connected) {
		/* It has overtaken the RTU, and says the same. */
		on_established(side);
		notify(side, SIB_CM_COMM_EST);
	}
	if (!side->is_active) {
		post_send(side, number);
		return;
	}
	side->echoed = number;
	printf("%llu: %llu us by port %d\n", (unsigned long long)number,
	       (unsigned long long)(now_us() - side->sent_at), side->port);
}

void on_completions(struct side *side)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(side->channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(side->cq, 0))
		die("no notice of completions: %m");
	while (ibv_poll_cq(side->cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			die("connection lost: %s", ibv_wc_status_str(wc.status));
		if (wc.wr_id >= DEPTH)
			on_message(side, wc.wr_id);
	}
}
