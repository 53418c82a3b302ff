// SPDX-License-Identifier: GPL-2.0

#include "data.h"

#include <string.h>

static uint8_t inline_copy[MOST_MESSAGES][INLINE_BYTES];

void post_recvs_of(int side)
{
	for (int i = 0; i < message_count; i++) {
		struct message *message = &messages[i];
		struct ibv_recv_wr wr = {
			.wr_id = RECV_ID | wr_id(i),
			.sg_list = message->recv.list,
			.num_sge = message->recv.count,
		};

		if (message->from != side && consumes(message->op))
			post_recv(&sides[side].end, &wr);
	}
}

static void fill_wr(struct ibv_send_wr *wr, struct ibv_sge *inline_sge,
		    int index, uint8_t *copy)
{
	struct message *message = &messages[index];
	struct side *peer = &sides[!message->from];

	*wr = (struct ibv_send_wr){
		.wr_id = wr_id(index),
		.opcode = message->op,
		.sg_list = message->local.list,
		.num_sge = message->local.count,
		.imm_data = message->imm,
		.send_flags = (message->signaled ? IBV_SEND_SIGNALED : 0) |
			      (rng_once_in(&rng, 4) ? IBV_SEND_FENCE : 0) |
			      IBV_SEND_SOLICITED,
	};
	if (message->is_inline) {
		/* Memory that no region covers, and that changes right away. */
		pieces_read(&sides[message->from].arena, &message->local, copy);
		*inline_sge = (struct ibv_sge){ (uintptr_t)copy,
						message->length, 0xdeadbeef };
		wr->sg_list = inline_sge;
		wr->num_sge = 1;
		wr->send_flags |= IBV_SEND_INLINE;
	}
	if (setup.type == IBV_QPT_UD) {
		wr->wr.ud.ah = sides[message->from].ah;
		wr->wr.ud.remote_qpn = peer->end.qp->qp_num;
		wr->wr.ud.remote_qkey = QKEY;
	} else if (is_atomic(message->op)) {
		wr->wr.atomic.remote_addr = message->remote.list[0].addr;
		wr->wr.atomic.rkey = peer->arena.mr->rkey;
		wr->wr.atomic.compare_add =
			message->op == IBV_WR_ATOMIC_CMP_AND_SWP ?
				message->compare : message->operand;
		wr->wr.atomic.swap = message->operand;
	} else if (!is_send(message->op)) {
		wr->wr.rdma.remote_addr = message->remote.count ?
						  message->remote.list[0].addr :
						  (uintptr_t)peer->arena.bytes;
		wr->wr.rdma.rkey = peer->arena.mr->rkey;
	}
}

void post_sends_of(int side)
{
	static struct ibv_send_wr wrs[2 * MOST_MESSAGES];
	static struct ibv_sge inline_sges[2 * MOST_MESSAGES];
	bool chained = rng_once_in(&rng, 2);
	int count = 0;

	for (int i = 0; i < message_count; i++) {
		if (messages[i].from != side)
			continue;
		fill_wr(&wrs[count], &inline_sges[count], i,
			inline_copy[count % MOST_MESSAGES]);
		if (!chained) {
			post_send(&sides[side].end, &wrs[count]);
			memset(inline_copy[count % MOST_MESSAGES], 0xee,
			       INLINE_BYTES);
		} else if (count) {
			wrs[count - 1].next = &wrs[count];
		}
		count++;
	}
	if (chained && count) {
		post_send(&sides[side].end, wrs);
		memset(inline_copy, 0xee, sizeof(inline_copy));
	}
}
