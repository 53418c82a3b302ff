// SPDX-License-Identifier: GPL-2.0
/*
 * Sends messages of all kinds and sizes between two devices, both ways at once,
 * and checks every byte and every completion.
 *
 * Work goes in rounds. A round plans its messages, says in the shadows of the
 * memory what must come of them, posts, takes the completions, and compares: all
 * bytes of all messages, and those between them. Each message that completes is
 * compared at once, since a completion promises that its data is there.
 *
 * With -o the memory is not pinned, and its pages are taken away meanwhile.
 */

#include "arena.h"
#include "options.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES (12u << 20)
#define DEPTH 128u
#define MOST_MESSAGES 48
#define INLINE_BYTES 256u
#define SIGNAL_EVERY 16
#define STALL_MS 30000
#define ALL_SETUPS 8
#define MIB (1u << 20)
/* Marks the wr_id of a receive. */
#define RECV_ID (1ull << 63)

static const uint32_t sizes[] = {
	0, 1, 3, 255, 256, 4095, 4096, 4097, 65535, 65536, 65537, MIB,
};

/* One way to set up the two ends. */
struct setup {
	enum ibv_qp_type type;
	bool with_srq;
	bool events;
	bool signal_all;
	bool one_cq;
	bool grh;
};

/* What a transport can do. */
struct transport {
	const char *name;
	enum ibv_qp_type type;
	int op_count;
	enum ibv_wr_opcode ops[7];
};

static const struct transport transports[] = {
	{ "rc", IBV_QPT_RC, 7,
	  { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP } },
	{ "uc", IBV_QPT_UC, 4,
	  { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE_WITH_IMM } },
	{ "ud", IBV_QPT_UD, 2, { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM } },
};

struct message {
	enum ibv_wr_opcode op;
	int from;
	uint32_t length;
	uint32_t imm;
	bool signaled;
	bool is_inline;
	uint64_t compare;
	uint64_t operand;
	/* Of the sender, which reads them but for READ and atomics. */
	struct pieces local;
	/* Of the other side: of the receive, if there is one. */
	struct pieces recv;
	/* Of the other side: what RDMA and atomics name. */
	struct pieces remote;
};

/* One end, and how far its completions have come. */
struct side {
	struct end end;
	struct arena arena;
	struct ibv_ah *ah;
	int unsent;
	int next_sent;
	int unreceived;
	int next_received;
};

static struct device devices[2];
static struct side sides[2];
static const struct transport *transport;
static struct setup setup;
static struct rng rng;
static struct message messages[2 * MOST_MESSAGES];
static int message_count;
static uint32_t round_number;
static uint64_t total_messages, total_bytes, total_setups;
static int most_pieces = MAX_PIECES;
/* The first letter of the kind of memory, if it is not to be pinned. */
static char on_demand;
static uint64_t disturbances;
static atomic_bool disturbing;
static atomic_ulong reaped;
static uint8_t inline_copy[MOST_MESSAGES][INLINE_BYTES];

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* Whether the sender's memory is written. */
static bool fetches(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_READ || is_atomic(op);
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

/* Whether a receive of the other side is used up. */
static bool consumes(enum ibv_wr_opcode op)
{
	return is_send(op) || has_imm(op);
}

static uint64_t wr_id(int index)
{
	return (uint64_t)round_number << 16 | index;
}

/* ---- planning ---- */

static bool fits(int from, uint32_t length)
{
	uint32_t with_slack = length + 2 * MIB / 16 + GRH_BYTES;

	return arena_has(&sides[from].arena, with_slack) &&
	       arena_has(&sides[!from].arena, 2 * with_slack);
}

static void plan(int from, enum ibv_wr_opcode op, uint32_t length)
{
	struct message *message = &messages[message_count];
	struct arena *mine = &sides[from].arena;
	struct arena *theirs = &sides[!from].arena;
	uint32_t grh = setup.type == IBV_QPT_UD ? GRH_BYTES : 0;

	if (is_atomic(op))
		length = sizeof(uint64_t);
	if (setup.type == IBV_QPT_UD && length > 256u)
		length %= (128u << devices[from].port_attr.active_mtu) + 1;
	if (message_count == ARRAY_SIZE(messages) || !fits(from, length))
		return;
	*message = (struct message){
		.op = op,
		.from = from,
		.length = length,
		.imm = rng_next(&rng),
		.signaled = setup.signal_all,
	};
	message->is_inline = length <= sides[from].end.inline_bytes &&
			     !fetches(op) && rng_once_in(&rng, 3);
	arena_take(mine, &rng, &message->local, length,
		   is_atomic(op) ? 1 : most_pieces);
	if (is_atomic(op)) {
		arena_take_aligned(theirs, &message->remote, length, length);
		message->operand = rng_next(&rng);
		message->compare = rng_next(&rng);
	} else if (!is_send(op)) {
		arena_take(theirs, &rng, &message->remote, length, 1);
	}
	if (consumes(op)) {
		uint32_t room = is_send(op) ? grh + length : 0;

		if (rng_once_in(&rng, 2))
			room += rng_below(&rng, 200);
		arena_take(theirs, &rng, &message->recv, room, most_pieces);
	}
	sides[from].unsent++;
	if (consumes(op))
		sides[!from].unreceived++;
	message_count++;
}

/* Chooses who is told: the last of each side always, some of the others. */
static void plan_signals(void)
{
	int last[2] = { -1, -1 }, count[2] = { 0, 0 };

	for (int i = 0; i < message_count; i++) {
		int from = messages[i].from;

		if (++count[from] % SIGNAL_EVERY == 0)
			messages[i].signaled = true;
		last[from] = i;
	}
	for (int from = 0; from < 2; from++)
		if (last[from] >= 0)
			messages[last[from]].signaled = true;
}

/* The effect of an atomic operation on the shadows. */
static void expect_atomic(const struct message *message)
{
	struct arena *mine = &sides[message->from].arena;
	struct arena *theirs = &sides[!message->from].arena;
	size_t at = message->remote.list[0].addr - (uintptr_t)theirs->bytes;
	uint64_t old;

	pieces_expect(mine, &message->local, 0, theirs, &message->remote,
		      sizeof(old));
	memcpy(&old, theirs->shadow + at, sizeof(old));
	if (message->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		old += message->operand;
	else if (old == message->compare)
		old = message->operand;
	memcpy(theirs->shadow + at, &old, sizeof(old));
}

/* Has half of the compare-and-swaps succeed. */
static void plan_compares(void)
{
	for (int i = 0; i < message_count; i++) {
		struct message *message = &messages[i];
		struct arena *theirs = &sides[!message->from].arena;

		if (message->op == IBV_WR_ATOMIC_CMP_AND_SWP &&
		    rng_once_in(&rng, 2))
			pieces_read(theirs, &message->remote,
				    (uint8_t *)&message->compare);
	}
}

static void expect_all(void)
{
	for (int i = 0; i < message_count; i++) {
		const struct message *message = &messages[i];
		struct arena *mine = &sides[message->from].arena;
		struct arena *theirs = &sides[!message->from].arena;
		uint32_t grh = setup.type == IBV_QPT_UD ? GRH_BYTES : 0;

		if (is_atomic(message->op))
			expect_atomic(message);
		else if (message->op == IBV_WR_RDMA_READ)
			pieces_expect(mine, &message->local, 0, theirs,
				      &message->remote, message->length);
		else if (is_send(message->op))
			pieces_expect(theirs, &message->recv, grh, mine,
				      &message->local, message->length);
		else
			pieces_expect(theirs, &message->remote, 0, mine,
				      &message->local, message->length);
		total_bytes += message->length;
	}
}

/* ---- posting ---- */

static void post_recvs(int side)
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

static void post_sends(int side)
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

/* ---- completions ---- */

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

/* Takes what is there; whether there was something. */
static bool reap(int at)
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
			check(wc[j].status == IBV_WC_SUCCESS, "%s: %s", text,
			      ibv_wc_status_str(wc[j].status));
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

static void complete_all(void)
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

/* ---- rounds ---- */

static void round_begin(void)
{
	round_number++;
	message_count = 0;
	for (int at = 0; at < 2; at++) {
		struct side *side = &sides[at];

		arena_clear(&side->arena);
		side->unsent = side->unreceived = 0;
		side->next_sent = side->next_received = 0;
	}
}

/* Unreliable writes end unseen: a message with a receive tells of them. */
static void plan_end(void)
{
	for (int from = 0; from < 2 && setup.type == IBV_QPT_UC; from++)
		plan(from, IBV_WR_SEND_WITH_IMM, rng_below(&rng, 64));
}

static void round_run(void)
{
	bool late = setup.type == IBV_QPT_RC && rng_once_in(&rng, 8);
	int first = rng_below(&rng, 2);

	plan_end();
	plan_signals();
	arena_fill(&sides[0].arena, &rng);
	arena_fill(&sides[1].arena, &rng);
	plan_compares();
	expect_all();
	if (!late) {
		post_recvs(0);
		post_recvs(1);
	}
	post_sends(first);
	post_sends(!first);
	if (late) {
		usleep(2000);
		post_recvs(0);
		post_recvs(1);
	}
	complete_all();
	arena_check(&sides[0].arena, devices[0].name);
	arena_check(&sides[1].arena, devices[1].name);
	check(!reap(0) && !reap(1), "a completion too many");
	total_messages += message_count;
}

static uint32_t random_size(void)
{
	switch (rng_below(&rng, 8)) {
	case 0:
		return sizes[rng_below(&rng, ARRAY_SIZE(sizes))];
	case 1:
		return rng_below(&rng, 200000);
	case 2:
	case 3:
		return rng_below(&rng, 10000);
	default:
		return rng_below(&rng, 300);
	}
}

static enum ibv_wr_opcode random_op(void)
{
	return transport->ops[rng_below(&rng, transport->op_count)];
}

static void run_setup(uint32_t rounds)
{
	for (int op = 0; op < transport->op_count; op++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			if (is_atomic(transport->ops[op]) && i)
				break;
			round_begin();
			plan(0, transport->ops[op], sizes[i]);
			plan(1, transport->ops[op], sizes[i]);
			round_run();
		}
	}
	for (uint32_t i = 0; i < rounds; i++) {
		int count = 1 + rng_below(&rng, MOST_MESSAGES - 2);

		round_begin();
		while (count--) {
			plan(0, random_op(), random_size());
			plan(1, random_op(), random_size());
		}
		round_run();
	}
}

static void side_create(int at)
{
	struct end_options options = {
		.type = setup.type,
		.send_depth = DEPTH,
		.recv_depth = DEPTH,
		.sges = most_pieces,
		.inline_bytes = INLINE_BYTES,
		.signal_all = setup.signal_all,
		.with_srq = setup.with_srq,
		.with_channel = setup.events,
		.one_cq = setup.one_cq,
	};
	struct side *side = &sides[at];

	end_create(&side->end, &devices[at], &options);
	if (side->end.inline_bytes > INLINE_BYTES)
		side->end.inline_bytes = INLINE_BYTES;
	/* Most PSNs wrap soon. */
	side->end.psn = (0x1000000 - rng_below(&rng, 2000)) & PSN_MASK;
	if (on_demand)
		arena_create_on_demand(&side->arena, devices[at].pd,
				       ARENA_BYTES, on_demand == 's');
	else
		arena_create(&side->arena, devices[at].pd, ARENA_BYTES);
	if (setup.type == IBV_QPT_UD) {
		struct ibv_ah_attr attr = path_to(&devices[at], &devices[!at],
						  setup.grh);

		side->ah = ibv_create_ah(devices[at].pd, &attr);
		check(side->ah, "create_ah: %m");
	}
}

static void side_destroy(int at)
{
	struct side *side = &sides[at];

	if (setup.type == IBV_QPT_UD)
		check(!ibv_destroy_ah(side->ah), "destroy_ah: %m");
	end_destroy(&side->end);
	arena_destroy(&side->arena);
}

/*
 * Takes pages of both sides away, again and again. A slow machine might never get
 * on if that did not wait for something to complete now and then.
 */
static void *disturb(void *unused)
{
	unsigned long before = 0;
	struct rng own;

	(void)unused;
	rng_seed(&own, 7);
	while (disturbing) {
		usleep(500);
		if (reaped == before)
			continue;
		before = reaped;
		for (int i = 0; i < 4; i++)
			arena_disturb(&sides[rng_below(&own, 2)].arena, &own);
		disturbances += 4;
	}
	return NULL;
}

static void run(const struct setup *chosen, uint32_t rounds)
{
	struct path_options path = default_path;
	pthread_t disturber;

	setup = *chosen;
	path.rd_atomic = 1 + rng_below(&rng, 16);
	path.grh = setup.grh;
	side_create(0);
	side_create(1);
	end_connect(&sides[0].end, &sides[1].end, &path);
	disturbing = on_demand;
	if (disturbing)
		check(!pthread_create(&disturber, NULL, disturb, NULL),
		      "no thread");
	run_setup(rounds);
	if (disturbing) {
		disturbing = false;
		pthread_join(disturber, NULL);
	}
	side_destroy(0);
	side_destroy(1);
	total_setups++;
}

/* The first so many setups of one transport. */
static void run_transport(uint32_t rounds, uint32_t setups)
{
	for (uint32_t bits = 0; bits < setups; bits++) {
		struct setup chosen = {
			.type = transport->type,
			.with_srq = bits & 1 && transport->type != IBV_QPT_UC,
			.events = bits & 2,
			.signal_all = bits & 4,
			.one_cq = rng_once_in(&rng, 2),
			.grh = rng_once_in(&rng, 2),
		};

		run(&chosen, rounds);
	}
}

static void limit_pieces(const struct ibv_device_attr *attr)
{
	if (attr->max_sge < most_pieces)
		most_pieces = attr->max_sge;
	if (attr->max_srq_sge < most_pieces)
		most_pieces = attr->max_srq_sge;
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" }, *only = NULL, *memory = NULL;
	uint64_t seed = 1, began = now_ms(), seconds = 0;
	uint32_t rounds = 10, setups = ALL_SETUPS;
	const struct cmdline_option options[] = {
		{ 'a', "DEV[:PORT]", .text = &names[0] },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'o', "private|shared", .text = &memory },
		{ 't', "rc|uc|ud", .text = &only },
		{ 'n', "ROUNDS", .u32 = &rounds },
		{ 'N', "SETUPS", .u32 = &setups },
		{ 's', "SEED", .u64 = &seed },
		{ 'S', "SECONDS", .u64 = &seconds },
		{},
	};

	options_read(argc, argv, options, NULL);
	if (memory)
		on_demand = *memory;
	rng_seed(&rng, seed);
	device_open(&devices[0], names[0]);
	device_open(&devices[1], names[1]);
	limit_pieces(&devices[0].attr);
	limit_pieces(&devices[1].attr);
	do {
		for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
			transport = &transports[i];
			if (!only || !strcmp(only, transport->name))
				run_transport(rounds, setups);
		}
	} while (now_ms() - began < seconds * 1000);
	device_close(&devices[0]);
	device_close(&devices[1]);
	check(total_setups, "no transport called %s", only);
	if (on_demand)
		printf("data: pages taken away %llu times\n",
		       (unsigned long long)disturbances);
	printf("data: %s to %s: %llu setups, %llu messages, %llu bytes right, %llu ms\n",
	       names[0], names[1], (unsigned long long)total_setups,
	       (unsigned long long)total_messages,
	       (unsigned long long)total_bytes,
	       (unsigned long long)(now_ms() - began));
	return 0;
}
