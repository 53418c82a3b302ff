// SPDX-License-Identifier: GPL-2.0
/*
 * The completions of a round: each is due, says what was posted, and finds the data
 * in place that it promises.
 */

#include "data.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define STALL_MS 30000

atomic_ulong reaped;

static void describe(char *text, size_t size, const struct message *message)
{
	snprintf(text, size,
		 "%s srq=%d events=%d all=%d onecq=%d grh=%d round=%u: op %d of %u bytes from %s%s",
		 transport->name, setup.with_srq, setup.events,
		 setup.signal_all, setup.one_cq, setup.grh, round_number,
		 message->op, message->length, devices[message->from].name,
		 message->is_inline ? " inline" : "");
}

/* The message of a completion, which must be of this round. */
static int message_of(const struct ibv_wc *wc)
{
	int index = wc->wr_id & 0xffff;

	check((wc->wr_id & ~RECV_ID) >> 16 == round_number &&
		      index < message_count,
	      "a completion that nothing was posted for: wr_id %llx, status %d",
	      (unsigned long long)wc->wr_id, wc->status);
	return index;
}

static enum ibv_wc_opcode sent_as(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	default:
		return IBV_WC_SEND;
	}
}

/* Goes to the message whose completion is due next: `next` counts on. */
static void take_turn(int *next, int side, bool received, int index,
		      const char *text)
{
	for (; *next < index; (*next)++) {
		const struct message *message = &messages[*next];

		if (received)
			check(message->from == side || !consumes(message->op),
			      "%s: received out of order", text);
		else
			check(message->from != side || !message->signaled,
			      "%s: sent out of order", text);
	}
	check(*next == index, "%s: completed twice", text);
	(*next)++;
}

static void on_sent(int at, const struct ibv_wc *wc)
{
	int index = message_of(wc);
	const struct message *message = &messages[index];
	struct side *side = &sides[at];
	char text[200];

	describe(text, sizeof(text), message);
	check(message->from == at, "%s: completed at the other side", text);
	check(message->signaled, "%s: completed though unsignaled", text);
	check(wc->opcode == sent_as(message->op), "%s: sent as opcode %d", text,
	      wc->opcode);
	check(!!(wc->wc_flags & IBV_WC_WITH_IMM) == has_imm(message->op),
	      "%s: immediate flag of who sends", text);
	for (int i = side->next_sent; i <= index; i++)
		side->unsent -= messages[i].from == at;
	take_turn(&side->next_sent, at, false, index, text);
	if (fetches(message->op)) {
		check(wc->byte_len == message->length, "%s: %u bytes fetched",
		      text, wc->byte_len);
		check(pieces_match(&side->arena, &message->local),
		      "%s: wrong data fetched", text);
	} else if (setup.type == IBV_QPT_RC && !is_send(message->op)) {
		check(pieces_match(&sides[!at].arena, &message->remote),
		      "%s: wrong data written", text);
	}
}

static void check_grh(int at, const struct ibv_wc *wc,
		      const struct message *message, const char *text)
{
	struct arena *arena = &sides[at].arena;
	struct ibv_grh grh;
	uint8_t bytes[GRH_BYTES + 65536];

	pieces_accept(arena, &message->recv, GRH_BYTES);
	check(!!(wc->wc_flags & IBV_WC_GRH) == setup.grh, "%s: GRH flag %d",
	      text, !!(wc->wc_flags & IBV_WC_GRH));
	check(wc->src_qp == sides[!at].end.qp->qp_num, "%s: source QP %x", text,
	      wc->src_qp);
	check(wc->slid == devices[!at].port_attr.lid, "%s: source LID %u", text,
	      wc->slid);
	if (!setup.grh)
		return;
	pieces_read(arena, &message->recv, bytes);
	memcpy(&grh, bytes, sizeof(grh));
	check(!memcmp(&grh.sgid, &devices[!at].gid, sizeof(grh.sgid)) &&
		      !memcmp(&grh.dgid, &devices[at].gid, sizeof(grh.dgid)),
	      "%s: GIDs of the GRH", text);
}

static void on_received(int at, const struct ibv_wc *wc)
{
	int index = message_of(wc);
	const struct message *message = &messages[index];
	struct side *side = &sides[at];
	bool ud = setup.type == IBV_QPT_UD;
	char text[200];

	describe(text, sizeof(text), message);
	check(message->from != at && consumes(message->op),
	      "%s: received by nobody's receive", text);
	take_turn(&side->next_received, at, true, index, text);
	side->unreceived--;
	check(wc->opcode == (is_send(message->op) ? IBV_WC_RECV :
						    IBV_WC_RECV_RDMA_WITH_IMM),
	      "%s: received as opcode %d", text, wc->opcode);
	check(wc->byte_len == message->length + (ud ? GRH_BYTES : 0),
	      "%s: %u bytes received", text, wc->byte_len);
	check(!!(wc->wc_flags & IBV_WC_WITH_IMM) == has_imm(message->op),
	      "%s: immediate flag", text);
	if (has_imm(message->op))
		check(wc->imm_data == message->imm, "%s: immediate %x, not %x",
		      text, wc->imm_data, message->imm);
	if (ud)
		check_grh(at, wc, message, text);
	check(pieces_match(&side->arena, &message->recv),
	      "%s: wrong data received", text);
	if (!is_send(message->op))
		check(pieces_match(&side->arena, &message->remote),
		      "%s: wrong data written", text);
}

bool reap(int at)
{
	struct end *end = &sides[at].end;
	struct ibv_cq *cqs[2] = { end->send_cq, end->recv_cq };
	bool some = false;

	for (int i = 0; i < (setup.one_cq ? 1 : 2); i++) {
		struct ibv_wc wc[8];
		int count = ibv_poll_cq(cqs[i], ARRAY_SIZE(wc), wc);

		check(count >= 0, "poll_cq: %d", count);
		for (int j = 0; j < count; j++) {
			char text[200];

			describe(text, sizeof(text),
				 &messages[message_of(&wc[j])]);
			check(wc[j].status == IBV_WC_SUCCESS, "%s, %s: %s, %x",
			      text,
			      wc[j].wr_id & RECV_ID ? "received" : "sent",
			      ibv_wc_status_str(wc[j].status),
			      wc[j].vendor_err);
			check(wc[j].qp_num == end->qp->qp_num, "%s: QP %x",
			      text, wc[j].qp_num);
			if (wc[j].wr_id & RECV_ID)
				on_received(at, &wc[j]);
			else
				on_sent(at, &wc[j]);
		}
		some |= count > 0;
		reaped += count > 0;
	}
	return some;
}

static bool is_open(int at)
{
	return sides[at].unsent || sides[at].unreceived;
}

/* Sleeps until a completion channel says something. */
static void sleep_on_channels(void)
{
	struct pollfd fds[2];
	int status;

	for (int at = 0; at < 2; at++)
		fds[at] = (struct pollfd){ .fd = sides[at].end.channel->fd,
					   .events = POLLIN };
	status = poll(fds, 2, STALL_MS);
	check(status > 0, "no event for %d ms, with %d+%d sends and %d+%d receives due",
	      STALL_MS, sides[0].unsent, sides[1].unsent, sides[0].unreceived,
	      sides[1].unreceived);
	for (int at = 0; at < 2; at++) {
		struct ibv_cq *cq;
		void *context;

		if (!fds[at].revents)
			continue;
		status = ibv_get_cq_event(sides[at].end.channel, &cq, &context);
		check(!status && context == &sides[at].end, "get_cq_event: %m");
		ibv_ack_cq_events(cq, 1);
	}
}

static void arm(int at)
{
	struct end *end = &sides[at].end;

	check(!ibv_req_notify_cq(end->send_cq, 0), "req_notify_cq: %m");
	/* All that is sent here asks for it, so this is as good as any event. */
	if (!setup.one_cq)
		check(!ibv_req_notify_cq(end->recv_cq, 1), "req_notify_cq: %m");
}

void complete_all(void)
{
	uint64_t end = now_ms() + STALL_MS;

	while (is_open(0) || is_open(1)) {
		bool some = reap(0) | reap(1);

		if (some) {
			end = now_ms() + STALL_MS;
			continue;
		}
		if (setup.events) {
			arm(0);
			arm(1);
			if (!(reap(0) | reap(1)))
				sleep_on_channels();
			continue;
		}
		check(now_ms() < end,
		      "%s: nothing for %d ms, with %d+%d sends and %d+%d receives due",
		      transport->name, STALL_MS, sides[0].unsent,
		      sides[1].unsent, sides[0].unreceived,
		      sides[1].unreceived);
		sched_yield();
	}
}
