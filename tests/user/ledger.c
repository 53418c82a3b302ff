// SPDX-License-Identifier: GPL-2.0
/*
 * The flush ledger: random traffic of random queue pairs comes to a random end,
 * and every work request is accounted for: one completion, in the order of
 * posting, or none if it was unsignaled and went well. Nothing goes well after the
 * first failure of a queue, and that one says why: it is a flush only where something
 * else has put the queue pair into the error state.
 *
 * Each seed is a case of its own. In the end both queue pairs of a pair are put
 * into the error state and get one more work request for each queue, after whose
 * flush nothing may be missing: so ib_drain_qp() does it. A completion queue that is
 * too small for that has exactly what it has room for.
 *
 * Connections are cut by the fault injector, which wants debugfs.
 */

#include "common.h"
#include "faults.h"
#include "options.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_PAIRS 4
#define MOST_DEPTH 256
#define MEMORY (256u << 10)
#define MOST_LENGTH (128u << 10)
#define DUE_MS 30000
/* Traffic that has moved nothing for so long has come to an end by itself. */
#define STILL_MS 200
/* One message in so many is long: of a queue's first ones, and of those that follow. */
#define LONG_ODDS 4
#define LONG_ODDS_LATER 32
/* Traffic that goes on waits for receives for 60 to 640 us, by the table of the IBA: it
 * is to be slower for them, but not to consist of RNR NAKs. */
#define FIRST_RNR_TIMER 5
#define RNR_TIMERS 8
/* Work requests of a queue, of which wr_id has 16 bits. */
#define MOST_POSTED 60000
/* So many cases have come to each end. */
#define ALL_ENDINGS 100
/* One pair in so many is unreliable. */
#define UNRELIABLE_ODDS 4

enum queue_kind { SENDS, RECVS, QUEUES };

/* How the traffic of a pair ends. */
enum ending {
	STOPPED,
	WRONG_RKEY,
	WRONG_LKEY,
	TOO_LONG,
	NOT_READY,
	PEER_STOPPED,
	PEER_DESTROYED,
	PEER_RESET,
	DESTROYED,
	RESET,
	DRAINED,
	OVERRUN,
	CUT,
	ENDINGS,
};

/*
 * What the first send to fail fails with, where the end itself is the first fault;
 * success: there may be no word of it. Not all ends are some for datagrams.
 */
static const struct {
	const char *name;
	enum ibv_wc_status due;
	bool of_datagrams;
} kinds[ENDINGS] = {
	[STOPPED] = { "stopped", IBV_WC_WR_FLUSH_ERR, true },
	[WRONG_RKEY] = { "wrong R_Key", IBV_WC_REM_ACCESS_ERR, false },
	[WRONG_LKEY] = { "wrong L_Key", IBV_WC_LOC_PROT_ERR, true },
	[TOO_LONG] = { "too long", IBV_WC_REM_INV_REQ_ERR, false },
	[NOT_READY] = { "not ready", IBV_WC_RNR_RETRY_EXC_ERR, true },
	[PEER_STOPPED] = { "peer stopped", IBV_WC_RETRY_EXC_ERR, true },
	[PEER_DESTROYED] = { "peer destroyed", IBV_WC_RETRY_EXC_ERR, true },
	[PEER_RESET] = { "peer reset", IBV_WC_RETRY_EXC_ERR, true },
	[DESTROYED] = { "destroyed", IBV_WC_SUCCESS, true },
	[RESET] = { "reset", IBV_WC_SUCCESS, true },
	[DRAINED] = { "drained", IBV_WC_WR_FLUSH_ERR, true },
	[OVERRUN] = { "overrun", IBV_WC_SUCCESS, true },
	[CUT] = { "cut", IBV_WC_RETRY_EXC_ERR, true },
};

/* The peer does not answer any more. */
static bool is_silent(enum ending ending)
{
	return kinds[ending].due == IBV_WC_RETRY_EXC_ERR;
}

/* What was posted to a queue, and how far its completions have come. */
struct ledger {
	int posted;
	int next;
	/* One behind the last one that is signaled. */
	int told;
	bool failed;
	/* Of those that have not completed yet; by index, modulo the length. */
	bool signaled[MOST_DEPTH + 1];
};

struct party {
	struct end end;
	uint32_t qp_num;
	struct ibv_ah *ah;
	/* Its own, which is too small and is not polled before the end. */
	struct ibv_cq *small;
	bool overrun;
	struct ledger ledgers[QUEUES];
	/* This program has put the queue pair into the error state. */
	bool stopped;
	/* Nothing more may complete. */
	bool closed;
	/* What completes is followed by as much. */
	bool goes_on;
};

static struct device devices[2];
static struct ibv_cq *cqs[2];
static struct ibv_mr *mrs[2];
static uint8_t *memory[2];
static struct party parties[MOST_PAIRS][2];
static int pairs, depth;
static enum ending endings[MOST_PAIRS];
static enum ibv_qp_type types[MOST_PAIRS];
/* The end has been brought about. */
static bool is_ended[MOST_PAIRS];
static struct rng rng;
static uint64_t seed = 1, accepted, total, least;
/* How often traffic came to each end, and how often with the status that is due. */
static unsigned int ended[ENDINGS], ended_with_due[ENDINGS];

static uint64_t id(int pair, enum queue_kind queue, int index)
{
	return seed << 32 | (uint64_t)pair << 24 | (uint64_t)queue << 16 | index;
}

static bool *signaled(struct ledger *ledger, int index)
{
	return &ledger->signaled[index % ARRAY_SIZE(ledger->signaled)];
}

/* Whether the first failure of a queue may have this status. */
static bool is_explained(int pair, int at, enum queue_kind queue,
			 enum ibv_wc_status status)
{
	const struct party *party = &parties[pair][at];
	enum ending ending = endings[pair];
	bool reliable = types[pair] == IBV_QPT_RC;

	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
		if (party->stopped || party->small)
			return true;
		/* The peer has asked for what it must not. */
		if (at && is_ended[pair] && reliable &&
		    (ending == WRONG_RKEY || ending == TOO_LONG))
			return true;
		/* A send that fails is told before the receives. */
		return queue == RECVS && reliable &&
		       party->ledgers[SENDS].failed;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return queue == SENDS && reliable;
	case IBV_WC_LOC_LEN_ERR:
		return queue == RECVS && at && ending == TOO_LONG;
	default:
		return queue == SENDS && !at && is_ended[pair] &&
		       status == kinds[ending].due;
	}
}

static void recv_one(int pair, int at, uint32_t length);
static void send_some(int pair, int at, int most);

static void on_completion(int at, const struct ibv_wc *wc)
{
	int pair = wc->wr_id >> 24 & 0xff, index = wc->wr_id & 0xffff;
	enum queue_kind queue = wc->wr_id >> 16 & 0xff;
	struct party *party;
	struct ledger *ledger;
	int first;

	check(wc->wr_id >> 32 == (uint32_t)seed && pair < pairs && queue < QUEUES,
	      "seed %llu: a completion of nothing: wr_id %llx",
	      (unsigned long long)seed, (unsigned long long)wc->wr_id);
	party = &parties[pair][at];
	ledger = &party->ledgers[queue];
#define RIGHT(condition, what)                                                \
	check(condition, "seed %llu, pair %d (%s), side %d, %s %d of %d, '%s': %s", \
	      (unsigned long long)seed, pair, kinds[endings[pair]].name, at,  \
	      queue == SENDS ? "send" : "receive", index, ledger->posted,     \
	      ibv_wc_status_str(wc->status), what)
	RIGHT(!party->closed, "after the end");
	RIGHT(index < ledger->posted, "never posted");
	RIGHT(index >= ledger->next, "for the second time");
	RIGHT(wc->qp_num == party->qp_num, "of another queue pair");
	first = ledger->next;
	for (; ledger->next < index; ledger->next++)
		RIGHT(!*signaled(ledger, ledger->next) && !ledger->failed,
		      "before one that was posted earlier");
	if (wc->status == IBV_WC_SUCCESS) {
		RIGHT(!ledger->failed, "after a failure");
		RIGHT(*signaled(ledger, index), "though unsignaled");
	} else {
		RIGHT(!ledger->failed || wc->status == IBV_WC_WR_FLUSH_ERR,
		      "two causes");
		RIGHT(ledger->failed ||
			      is_explained(pair, at, queue, wc->status),
		      "nothing explains that");
		if (!ledger->failed && queue == SENDS && !at)
			ended_with_due[endings[pair]] +=
				wc->status == kinds[endings[pair]].due;
		ledger->failed = true;
	}
#undef RIGHT
	ledger->next++;
	total++;
	if (!party->goes_on || ledger->failed)
		return;
	if (queue == SENDS)
		send_some(pair, at, ledger->next - first);
	else if (ledger->posted < MOST_POSTED)
		recv_one(pair, at, MOST_LENGTH);
}

static int reap_from(struct ibv_cq *cq, int at)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(cq, ARRAY_SIZE(wc), wc);

	check(count >= 0, "poll_cq: %d", count);
	for (int i = 0; i < count; i++)
		on_completion(at, &wc[i]);
	return count;
}

static bool reap(int at)
{
	return reap_from(cqs[at], at);
}

/* Takes the events that are there; only completion queues that are too small overrun. */
static void take_events(int at)
{
	struct pollfd fd = { .fd = devices[at].context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;

	while (poll(&fd, 1, 0) > 0) {
		bool is_known = false;

		check(!ibv_get_async_event(devices[at].context, &event),
		      "get_async_event: %m");
		ibv_ack_async_event(&event);
		if (event.event_type != IBV_EVENT_CQ_ERR)
			continue;
		for (int pair = 0; pair < pairs; pair++) {
			struct party *party = &parties[pair][at];

			if (!party->small || party->small != event.element.cq)
				continue;
			check(!party->overrun, "seed %llu: overrun twice",
			      (unsigned long long)seed);
			party->overrun = is_known = true;
		}
		check(is_known, "seed %llu: another queue has overrun",
		      (unsigned long long)seed);
	}
}

static void reap_for(uint32_t ms)
{
	uint64_t end = now_ms() + ms;

	do {
		if (!(reap(0) | reap(1)))
			sched_yield();
	} while (now_ms() < end);
}

static uint32_t some_length(int pair, int posted)
{
	return types[pair] != IBV_QPT_UD &&
			       rng_once_in(&rng, posted < depth ? LONG_ODDS :
								  LONG_ODDS_LATER) ?
		       rng_below(&rng, MOST_LENGTH) :
		       rng_below(&rng, 500);
}

static void recv_one(int pair, int at, uint32_t length)
{
	struct party *party = &parties[pair][at];
	struct ledger *ledger = &party->ledgers[RECVS];
	struct ibv_sge sge = { (uintptr_t)memory[at], length, mrs[at]->lkey };
	struct ibv_recv_wr wr = { .wr_id = id(pair, RECVS, ledger->posted),
				  .sg_list = &sge,
				  .num_sge = 1 };

	*signaled(ledger, ledger->posted++) = true;
	post_recv(&party->end, &wr);
	accepted++;
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static void send_one(int pair, int at, enum ibv_wr_opcode op, uint32_t length,
		     uint32_t bad_rkey, uint32_t bad_lkey, bool is_signaled)
{
	struct party *party = &parties[pair][at];
	struct ledger *ledger = &party->ledgers[SENDS];
	struct ibv_sge sge = { (uintptr_t)memory[at], length,
			       mrs[at]->lkey ^ bad_lkey };
	struct ibv_send_wr wr = {
		.wr_id = id(pair, SENDS, ledger->posted),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = (is_signaled ? IBV_SEND_SIGNALED : 0) |
			      (rng_once_in(&rng, 8) ? IBV_SEND_FENCE : 0),
	};
	uint64_t remote = (uintptr_t)memory[!at];
	uint32_t rkey = mrs[!at]->rkey ^ bad_rkey;

	if (types[pair] == IBV_QPT_UD) {
		wr.wr.ud.ah = party->ah;
		wr.wr.ud.remote_qpn = parties[pair][!at].qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (is_atomic(op)) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}

	*signaled(ledger, ledger->posted++) = is_signaled;
	if (is_signaled)
		ledger->told = ledger->posted;
	post_send(&party->end, &wr);
	accepted++;
}

static enum ibv_wr_opcode some_op(int pair)
{
	/* Each service has more than the one before. */
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
	};

	return ops[rng_below(&rng, types[pair] == IBV_QPT_UD ? 2 :
				   types[pair] == IBV_QPT_UC ? 4 :
							       ARRAY_SIZE(ops))];
}

/* How many sends there is room for, but for the last one. */
static int room(int pair, int at)
{
	const struct ledger *ledger = &parties[pair][at].ledgers[SENDS];
	int most = depth - 1 - (ledger->posted - ledger->next);

	return ledger->posted + most <= MOST_POSTED ? most : 0;
}

static bool has_room(int pair, int at)
{
	return room(pair, at) > 0;
}

static void send_some(int pair, int at, int most)
{
	const struct party *party = &parties[pair][at];
	const struct ledger *ledger = &party->ledgers[SENDS];

	while (most-- && has_room(pair, at)) {
		/* Else nobody would know that more may follow. */
		bool must_tell = party->goes_on && ledger->told <= ledger->next;

		send_one(pair, at, some_op(pair),
			 some_length(pair, ledger->posted), 0, 0,
			 rng_once_in(&rng, 3) || must_tell);
	}
}

/* Has traffic go on until so many more work requests have been accepted, or nothing
 * moves any more. */
static void go_on(uint64_t more)
{
	uint64_t enough = accepted + more, moved = now_ms();

	while (accepted < enough && now_ms() < moved + STILL_MS) {
		if (reap(0) | reap(1))
			moved = now_ms();
		else
			sched_yield();
	}
	for (int pair = 0; pair < pairs; pair++)
		for (int at = 0; at < 2; at++)
			parties[pair][at].goes_on = false;
}

/* What completed before the end of a queue pair may still be in the CQ; after it,
 * nothing is added. */
static void close_party(struct party *party, int at)
{
	while (reap(at))
		;
	party->closed = true;
}

static void destroy_party(struct party *party)
{
	check(!ibv_destroy_qp(party->end.qp), "destroy_qp: %m");
	party->end.qp = NULL;
}

static void stop_party(struct party *party)
{
	party->stopped = true;
	end_to(&party->end, IBV_QPS_ERR);
}

/* Rules of the fault injector are to go. */
static bool has_cut;

/* Nothing comes to either side any more. */
static void cut(struct party *party)
{
	has_cut = true;
	for (int at = 0; at < 2; at++) {
		char rule[64];

		snprintf(rule, sizeof(rule), "drop in qp=0x%x",
			 party[at].qp_num);
		faults_order(&devices[at], rule);
	}
}

/* Brings the end about, from the first side of the pair. */
static void end_traffic(int pair)
{
	struct party *party = parties[pair];

	ended[endings[pair]]++;
	is_ended[pair] = true;
	switch (endings[pair]) {
	case STOPPED:
	case OVERRUN:
		stop_party(&party[0]);
		break;
	case DESTROYED:
		destroy_party(&party[0]);
		close_party(&party[0], 0);
		return;
	case RESET:
		end_to(&party[0].end, IBV_QPS_RESET);
		close_party(&party[0], 0);
		return;
	case DRAINED:
		check(!end_try(&party[0].end, IBV_QPS_SQD) ||
			      end_state(&party[0].end) == IBV_QPS_ERR,
		      "to SQD: state %d", end_state(&party[0].end));
		break;
	case CUT:
		cut(party);
		break;
	case WRONG_RKEY:
		if (has_room(pair, 0))
			send_one(pair, 0, IBV_WR_RDMA_WRITE, 100, 0x5a5a5a, 0,
				 rng_once_in(&rng, 2));
		break;
	case WRONG_LKEY:
		if (has_room(pair, 0))
			send_one(pair, 0, IBV_WR_SEND, 100, 0, 0x5a5a5a,
				 rng_once_in(&rng, 2));
		break;
	case TOO_LONG:
		if (has_room(pair, 0))
			send_one(pair, 0, IBV_WR_SEND, MEMORY, 0, 0, true);
		break;
	case NOT_READY:
		for (int i = 0; has_room(pair, 0) && i < depth; i++)
			send_one(pair, 0, IBV_WR_SEND, 10, 0, 0,
				 rng_once_in(&rng, 2));
		break;
	case PEER_STOPPED:
		stop_party(&party[1]);
		break;
	case PEER_DESTROYED:
		destroy_party(&party[1]);
		close_party(&party[1], 1);
		break;
	case PEER_RESET:
		end_to(&party[1].end, IBV_QPS_RESET);
		close_party(&party[1], 1);
		break;
	case ENDINGS:
		break;
	}
	if (is_silent(endings[pair]) && has_room(pair, 0))
		send_one(pair, 0, IBV_WR_SEND, 10, 0, 0, true);
	send_some(pair, 0, rng_below(&rng, 4));
}

static bool is_settled(const struct party *party)
{
	for (int queue = 0; queue < QUEUES; queue++)
		if (party->ledgers[queue].next != party->ledgers[queue].posted)
			return false;
	return true;
}

/* Both sides to the error state, and one more work request for each queue. */
static void drain(int pair)
{
	for (int at = 0; at < 2; at++) {
		struct party *party = &parties[pair][at];

		if (party->closed)
			continue;
		if (end_state(&party->end) != IBV_QPS_ERR)
			stop_party(party);
		if (party->small)
			continue;
		send_one(pair, at, IBV_WR_SEND, 0, 0, 0, false);
		recv_one(pair, at, 0);
	}
}

/* A queue that has overrun holds as much as it can, and gets no more. */
static void settle_overrun(int pair, int at)
{
	struct party *party = &parties[pair][at];
	uint64_t end = now_ms() + DUE_MS;
	int count = 0, more;

	while (!party->overrun) {
		take_events(at);
		reap_for(0);
		check(now_ms() < end,
		      "seed %llu, pair %d: %d receives, and %d completions have not overrun",
		      (unsigned long long)seed, pair,
		      party->ledgers[RECVS].posted, party->small->cqe);
	}
	while ((more = reap_from(party->small, at)))
		count += more;
	check(count == party->small->cqe,
	      "seed %llu, pair %d: %d completions of %d before the overrun",
	      (unsigned long long)seed, pair, count, party->small->cqe);
	check(end_state(&party->end) == IBV_QPS_ERR,
	      "seed %llu, pair %d: state %d after the overrun",
	      (unsigned long long)seed, pair, end_state(&party->end));
	send_some(pair, at, 1);
	party->closed = true;
}

static void settle(int pair)
{
	uint64_t end = now_ms() + DUE_MS;

	for (int at = 0; at < 2; at++) {
		struct party *party = &parties[pair][at];
		const struct ledger *ledgers = party->ledgers;

		if (party->small)
			settle_overrun(pair, at);
		while (!party->closed && !is_settled(party)) {
			reap_for(0);
			check(now_ms() < end,
			      "seed %llu, pair %d (%s), side %d: %d of %d sends and %d of %d receives",
			      (unsigned long long)seed, pair,
			      kinds[endings[pair]].name, at,
			      ledgers[SENDS].next, ledgers[SENDS].posted,
			      ledgers[RECVS].next, ledgers[RECVS].posted);
		}
	}
}

/* A completion queue that cannot hold what comes of `depth` receives; NULL: there is none. */
static struct ibv_cq *small_cq(int at)
{
	for (int tries = 0; tries < 2; tries++) {
		uint32_t size = tries ? 1 : 1 + rng_below(&rng, depth);
		struct ibv_cq *cq = ibv_create_cq(devices[at].context, size,
						  NULL, NULL, 0);

		check(cq, "create_cq: %m");
		if (cq->cqe < depth)
			return cq;
		check(!ibv_destroy_cq(cq), "destroy_cq: %m");
	}
	return NULL;
}

static void create_pair(int pair, bool goes_on)
{
	struct path_options path = default_path;
	struct ibv_cq *small = NULL;
	bool is_patient;

	types[pair] = !rng_once_in(&rng, UNRELIABLE_ODDS) ? IBV_QPT_RC :
		      rng_once_in(&rng, 2)		  ? IBV_QPT_UC :
							    IBV_QPT_UD;
	is_ended[pair] = false;
	do {
		endings[pair] = rng_below(&rng, ENDINGS);
	} while (types[pair] == IBV_QPT_UD && !kinds[endings[pair]].of_datagrams);
	if (endings[pair] == OVERRUN) {
		small = small_cq(0);
		if (!small)
			endings[pair] = STOPPED;
	}
	path.timeout = 8;
	path.retries = 1;
	/* Else what is sent too early is the end. */
	is_patient = endings[pair] != NOT_READY &&
		     (goes_on || is_silent(endings[pair]));
	path.rnr_retries = is_patient ? 7 : 1;
	if (goes_on)
		path.min_rnr_timer = FIRST_RNR_TIMER + rng_below(&rng, RNR_TIMERS);
	path.rd_atomic = 1 + rng_below(&rng, 4);
	for (int at = 0; at < 2; at++) {
		struct party *party = &parties[pair][at];
		struct ibv_cq *cq = !at && small ? small : cqs[at];
		struct ibv_ah_attr way = path_to(&devices[at], &devices[!at],
						 false);
		struct ibv_qp_init_attr init = {
			.qp_type = types[pair],
			.send_cq = cq,
			.recv_cq = cq,
			.cap = { .max_send_wr = depth,
				 .max_recv_wr = depth,
				 .max_send_sge = 1,
				 .max_recv_sge = 1 },
		};

		memset(party, 0, sizeof(*party));
		party->end.device = &devices[at];
		party->end.type = types[pair];
		party->end.psn = rng_next(&rng) & PSN_MASK;
		party->end.qp = ibv_create_qp(devices[at].pd, &init);
		check(party->end.qp, "create_qp: %m");
		party->qp_num = party->end.qp->qp_num;
		party->small = at ? NULL : small;
		party->goes_on = goes_on && !party->small &&
				 (!at || endings[pair] != NOT_READY);
		if (types[pair] != IBV_QPT_UD)
			continue;
		party->ah = ibv_create_ah(devices[at].pd, &way);
		check(party->ah, "create_ah: %m");
	}
	end_connect(&parties[pair][0].end, &parties[pair][1].end, &path);
}

static void destroy_pair(int pair)
{
	for (int at = 0; at < 2; at++) {
		struct party *party = &parties[pair][at];

		if (party->end.qp)
			destroy_party(party);
		if (party->small) {
			check(!reap_from(party->small, at),
			      "seed %llu: a completion after the end",
			      (unsigned long long)seed);
			check(!ibv_destroy_cq(party->small), "destroy_cq: %m");
		}
		if (party->ah)
			check(!ibv_destroy_ah(party->ah), "destroy_ah: %m");
	}
}

static void run_seed(uint64_t average)
{
	uint64_t more;

	rng_seed(&rng, seed);
	more = rng_once_in(&rng, 2) ? 0 : 4 * average * rng_below(&rng, 1000) / 1000;
	pairs = 1 + rng_below(&rng, MOST_PAIRS);
	depth = 2 + (rng_once_in(&rng, 2) ? rng_below(&rng, 10) :
					    rng_below(&rng, MOST_DEPTH - 2));
	for (int at = 0; at < 2; at++) {
		cqs[at] = ibv_create_cq(devices[at].context, 2 * pairs * depth,
					NULL, NULL, 0);
		check(cqs[at], "create_cq: %m");
	}
	for (int pair = 0; pair < pairs; pair++)
		create_pair(pair, more);
	for (int pair = 0; pair < pairs; pair++)
		for (int at = 0; at < 2; at++) {
			int recvs = rng_below(&rng, depth);

			if (parties[pair][at].small)
				recvs = depth;
			else if (at && endings[pair] == NOT_READY)
				recvs /= 2;
			else if (more)
				recvs = depth - 1 - recvs / 4;
			while (recvs--)
				recv_one(pair, at, MOST_LENGTH);
		}
	for (int pair = 0; pair < pairs; pair++) {
		send_some(pair, 0, rng_below(&rng, depth));
		send_some(pair, 1, rng_below(&rng, depth));
	}
	go_on(more);
	reap_for(rng_once_in(&rng, 2) ? 0 : rng_below(&rng, 20));
	for (int pair = 0; pair < pairs; pair++)
		end_traffic(pair);
	reap_for(rng_once_in(&rng, 2) ? 0 : rng_below(&rng, 150));
	for (int pair = 0; pair < pairs; pair++)
		drain(pair);
	for (int pair = 0; pair < pairs; pair++)
		settle(pair);
	reap_for(2);
	for (int pair = 0; pair < pairs; pair++)
		destroy_pair(pair);
	for (int at = 0; at < 2; at++) {
		if (has_cut)
			faults_order(&devices[at], "clear");
		take_events(at);
		check(!ibv_destroy_cq(cqs[at]), "destroy_cq: %m");
	}
	has_cut = false;
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" };
	uint64_t count = 100, began = now_ms(), end;
	const struct cmdline_option options[] = {
		{ 'a', "DEV[:PORT]", .text = &names[0] },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'n', "SEEDS", .u64 = &count },
		{ 's', "FIRST-SEED", .u64 = &seed },
		{ 'w', "LEAST-WORK-REQUESTS", .u64 = &least },
		{},
	};

	options_read(argc, argv, options, NULL);
	check(count, "no seeds");
	for (int at = 0; at < 2; at++) {
		device_open(&devices[at], names[at]);
		memory[at] = aligned_alloc(4096, MEMORY);
		check(memory[at], "out of memory");
		mrs[at] = ibv_reg_mr(devices[at].pd, memory[at], MEMORY,
				     ALL_ACCESS);
		check(mrs[at], "reg_mr: %m");
	}
	for (end = seed + count; seed < end || accepted < least; seed++)
		run_seed(least / count);
	count += seed - end;
	for (int at = 0; at < 2; at++) {
		check(!ibv_dereg_mr(mrs[at]), "dereg_mr: %m");
		device_close(&devices[at]);
	}
	for (int ending = 0; ending < ENDINGS; ending++) {
		bool is_told = kinds[ending].due != IBV_WC_SUCCESS;

		printf("%-16s %6u times, %6u with '%s'\n", kinds[ending].name,
		       ended[ending], ended_with_due[ending],
		       is_told ? ibv_wc_status_str(kinds[ending].due) : "none");
		check(count < ALL_ENDINGS ||
			      (is_told ? ended_with_due[ending] : ended[ending]),
		      "no traffic has come to the end '%s'", kinds[ending].name);
	}
	printf("ledger: %llu cases, %llu work requests, %llu completions, all accounted for, %llu ms\n",
	       (unsigned long long)count, (unsigned long long)accepted,
	       (unsigned long long)total,
	       (unsigned long long)(now_ms() - began));
	return 0;
}
