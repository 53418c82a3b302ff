// SPDX-License-Identifier: GPL-2.0
/*
 * The flush ledger of a client of ib_core: random traffic of random queue pairs comes
 * to a random end, and every work request is accounted for: one completion, in the
 * order of posting, or none if it was unsignaled and went well. Nothing goes well
 * after the first failure of a queue.
 *
 * Work requests are posted by a task and, as others complete, by completion handlers
 * in softirqs and workers. In the end ib_drain_qp() waits for all there is. Of a queue
 * pair that has been destroyed or reset nothing completes any more, nor is there a
 * completion of it left in the queue.
 *
 *     insmod ledger.ko a=sib0 b=sib1 cases=100 seed=1 least=0
 *
 * If fewer work requests than `least` have been accepted, cases are longer, and more.
 *
 * With `linger` what polls a completion queue in a softirq takes so many microseconds
 * between its two last steps: it is done, and it arms the queue. ib_core, which is to
 * free the queue, waits for the first one alone.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "between.h"

#define MOST_PAIRS 4
#define MOST_DEPTH 256
#define MEMORY (256u << 10)
#define MOST_LENGTH (128u << 10)
/* Traffic that has moved nothing for so long has come to an end by itself. */
#define STILL_MS 200
/* One message in so many is long: of a queue's first ones, and of those that follow. */
#define LONG_ODDS 4
#define LONG_ODDS_LATER 32
/* Traffic that goes on waits for receives for 60 to 640 us, by the table of the IBA: it
 * is to be slower for them, but not to consist of RNR NAKs. */
#define FIRST_RNR_TIMER 5
#define RNR_TIMERS 8
/* More than a receive takes. */
#define TOO_MUCH MEMORY
#define WRONG_KEY 0x5a5a5a00u

static unsigned int cases = 100;
static unsigned int seed = 1;
static unsigned int least;
static unsigned int linger;
module_param(cases, uint, 0400);
MODULE_PARM_DESC(cases, "number of cases");
module_param(seed, uint, 0400);
MODULE_PARM_DESC(seed, "the first case");
module_param(least, uint, 0400);
MODULE_PARM_DESC(least, "number of work requests, at least");
module_param(linger, uint, 0400);
MODULE_PARM_DESC(linger, "microseconds before a softirq arms a queue");

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
	ENDINGS,
};

static const char *const ending_names[ENDINGS] = {
	"stopped", "wrong R_Key", "wrong L_Key", "too long", "not ready",
	"peer stopped", "peer destroyed", "peer reset",
	"destroyed", "reset", "drained",
};

enum queue_kind { SENDS, RECVS, QUEUES };

struct queue;

struct record {
	struct ib_cqe cqe;
	struct queue *queue;
	/* How many were posted before. */
	int index;
	bool signaled;
};

/* What was posted to a queue, and how far its completions have come. */
struct queue {
	spinlock_t lock;
	struct party *party;
	int depth;
	int posted;
	int next;
	/* One behind the last one that is signaled. */
	int told;
	bool failed;
	/* Nothing more is posted. */
	bool closing;
	/* Of those that have not completed yet; by index, modulo the length. */
	struct record records[MOST_DEPTH];
};

struct party {
	int pair;
	int at;
	struct ib_qp *qp;
	/* What is compared with, also when the queue pair is gone. */
	const struct ib_qp *identity;
	struct queue queues[QUEUES];
	/* What has not completed never will. */
	bool cut;
	/* Nor has it been taken from the queue before. */
	bool gone;
	struct rnd_state random;
};

static struct ib_pd *pds[2];
static u16 lids[2];
static u8 *memory[2];
static struct ib_cq *cqs[2];
static struct party *parties[MOST_PAIRS][2];
static enum ending endings[MOST_PAIRS];
static int pairs;
/* What completes is followed by as much, else by less, until the queue has been filled. */
static bool goes_on;
static struct rnd_state dice;
static unsigned int current_case;
static atomic_t wrongs;
static atomic64_t accepted, completed;
static unsigned int ended[ENDINGS];
/* Work requests that never completed. */
static u64 forgotten;

static u32 below(struct rnd_state *random, u32 bound)
{
	return prandom_u32_state(random) % bound;
}

static void wrong(const struct queue *queue, int index, const struct ib_wc *wc,
		  const char *what)
{
	const struct party *party = queue->party;

	/* One tells enough, a thousand too much. */
	if (atomic_inc_return(&wrongs) > 20)
		return;
	pr_err("case %u, pair %d (%s), side %d, %s %d of %d, '%s': %s\n",
	       current_case, party->pair, ending_names[endings[party->pair]],
	       party->at, queue == &party->queues[SENDS] ? "send" : "receive",
	       index, queue->posted, wc ? ib_wc_status_msg(wc->status) : "none",
	       what);
}

static struct record *record_of(struct queue *queue, int index)
{
	return &queue->records[index % MOST_DEPTH];
}

static void account(struct queue *queue, int index, const struct ib_wc *wc)
{
	if (index >= queue->posted)
		return wrong(queue, index, wc, "never posted");
	if (queue->party->gone)
		return wrong(queue, index, wc, "after the end");
	if (index < queue->next)
		return wrong(queue, index, wc, "for the second time");
	if (wc->qp != queue->party->identity)
		wrong(queue, index, wc, "of another queue pair");
	for (; queue->next < index; queue->next++)
		if (record_of(queue, queue->next)->signaled || queue->failed)
			wrong(queue, index, wc,
			      "before one that was posted earlier");
	if (wc->status == IB_WC_SUCCESS) {
		if (queue->failed)
			wrong(queue, index, wc, "after a failure");
		if (!record_of(queue, index)->signaled)
			wrong(queue, index, wc, "though unsignaled");
	} else {
		if (queue->failed && wc->status != IB_WC_WR_FLUSH_ERR)
			wrong(queue, index, wc, "two causes");
		queue->failed = true;
	}
	queue->next++;
}

static void recv_one(struct party *party);
static void send_some(struct party *party, int most);

static void done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct record *record = container_of(wc->wr_cqe, struct record, cqe);
	struct queue *queue = record->queue;
	struct party *party = queue->party;
	unsigned long flags;
	int count;

	spin_lock_irqsave(&queue->lock, flags);
	count = -queue->next;
	account(queue, record->index, wc);
	count += queue->next;
	spin_unlock_irqrestore(&queue->lock, flags);
	atomic64_inc(&completed);
	if (wc->status != IB_WC_SUCCESS)
		return;
	if (queue == &party->queues[SENDS])
		send_some(party, goes_on ? count : 2);
	else if (!party->at || endings[party->pair] != NOT_READY)
		recv_one(party);
}

/* How many more a queue takes now. Its lock is held. */
static int room(const struct queue *queue)
{
	int under_way = goes_on ? queue->posted - queue->next : queue->posted;

	return queue->closing ? 0 : queue->depth - under_way;
}

/* The next record of a queue, whose lock is held; NULL if there is none to be had. */
static struct record *next_record(struct queue *queue)
{
	struct record *record = record_of(queue, queue->posted);

	if (room(queue) <= 0)
		return NULL;
	record->index = queue->posted;
	return record;
}

static void accept(struct queue *queue, int error)
{
	if (error) {
		atomic_inc(&wrongs);
		pr_err("case %u: post: %d\n", current_case, error);
		return;
	}
	queue->posted++;
	atomic64_inc(&accepted);
}

static void recv_one(struct party *party)
{
	struct queue *queue = &party->queues[RECVS];
	struct ib_sge sge = { (uintptr_t)memory[party->at], MOST_LENGTH,
			      pds[party->at]->local_dma_lkey };
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct record *record;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	record = next_record(queue);
	if (record) {
		record->signaled = true;
		wr.wr_cqe = &record->cqe;
		accept(queue, ib_post_recv(party->qp, &wr, NULL));
	}
	spin_unlock_irqrestore(&queue->lock, flags);
}

static void send_one(struct party *party, enum ib_wr_opcode op, u32 length,
		     u32 bad_rkey, u32 bad_lkey)
{
	struct queue *queue = &party->queues[SENDS];
	int at = party->at;
	struct ib_sge sge = { (uintptr_t)memory[at], length,
			      pds[at]->local_dma_lkey ^ bad_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = op },
		.remote_addr = (uintptr_t)memory[!at],
		.rkey = pds[!at]->unsafe_global_rkey ^ bad_rkey,
	};
	struct record *record;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	record = next_record(queue);
	if (record) {
		/* Else nobody would know that more may follow. */
		record->signaled = below(&party->random, 3) == 0 ||
				   (goes_on && queue->told <= queue->next);
		if (record->signaled) {
			wr.wr.send_flags |= IB_SEND_SIGNALED;
			queue->told = queue->posted + 1;
		}
		if (below(&party->random, 8) == 0)
			wr.wr.send_flags |= IB_SEND_FENCE;
		wr.wr.wr_cqe = &record->cqe;
		accept(queue, ib_post_send(party->qp, &wr.wr, NULL));
	}
	spin_unlock_irqrestore(&queue->lock, flags);
}

static void send_some(struct party *party, int most)
{
	static const enum ib_wr_opcode ops[] = {
		IB_WR_SEND, IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE,
		IB_WR_RDMA_WRITE_WITH_IMM, IB_WR_RDMA_READ,
	};
	struct queue *queue = &party->queues[SENDS];
	unsigned long flags;
	u32 op, length;

	while (most--) {
		spin_lock_irqsave(&queue->lock, flags);
		op = below(&party->random, ARRAY_SIZE(ops));
		length = below(&party->random,
			       queue->posted < queue->depth ? LONG_ODDS :
							      LONG_ODDS_LATER);
		length = below(&party->random, length ? 500 : MOST_LENGTH);
		spin_unlock_irqrestore(&queue->lock, flags);
		send_one(party, ops[op], length, 0, 0);
	}
}

static void close_queues(struct party *party)
{
	unsigned long flags;

	for (int kind = 0; kind < QUEUES; kind++) {
		struct queue *queue = &party->queues[kind];

		spin_lock_irqsave(&queue->lock, flags);
		queue->closing = true;
		spin_unlock_irqrestore(&queue->lock, flags);
	}
}

/* Lets completions come that nobody else polls for. */
static void poll_direct(void)
{
	for (int at = 0; at < 2; at++)
		if (cqs[at]->poll_ctx == IB_POLL_DIRECT)
			ib_process_cq_direct(cqs[at], MOST_DEPTH);
}

static void poll_for(u32 ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);

	do {
		poll_direct();
		if (ms)
			usleep_range(50, 100);
	} while (time_before(jiffies, end));
}

/* Has traffic go on until so many more work requests have been accepted, or nothing
 * moves any more. */
static void go_on(u32 more)
{
	s64 enough = atomic64_read(&accepted) + more, last = -1;
	unsigned long still = 0;

	while (atomic64_read(&accepted) < enough) {
		s64 now = atomic64_read(&completed);

		if (now != last)
			still = jiffies + msecs_to_jiffies(STILL_MS);
		else if (time_after(jiffies, still))
			break;
		last = now;
		poll_direct();
		usleep_range(50, 100);
	}
}

static int create_party(int pair, int at, int depth)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.send_cq = cqs[at],
		.recv_cq = cqs[at],
		/* One more is for ib_drain_qp(). */
		.cap = { .max_send_wr = depth + 1,
			 .max_recv_wr = depth + 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct party *party = parties[pair][at];

	memset(party, 0, sizeof(*party));
	party->pair = pair;
	party->at = at;
	prandom_seed_state(&party->random, prandom_u32_state(&dice));
	for (int kind = 0; kind < QUEUES; kind++) {
		struct queue *queue = &party->queues[kind];

		spin_lock_init(&queue->lock);
		queue->party = party;
		queue->depth = depth;
		for (int i = 0; i < MOST_DEPTH; i++) {
			queue->records[i].cqe.done = done;
			queue->records[i].queue = queue;
		}
	}
	party->qp = ib_create_qp(pds[at], &init);
	check(!IS_ERR(party->qp), "create_qp: %pe", party->qp);
	party->identity = party->qp;
	return 0;
}

static int create_pair(int pair, int depth)
{
	struct patience patience = {
		.timeout = 8,
		.retries = 1,
		.rnr_retries = 1,
		.min_rnr_timer = 1,
	};
	u32 psn = prandom_u32_state(&dice) & 0xffffff;
	struct party **both = parties[pair];

	endings[pair] = below(&dice, ENDINGS);
	/* Else what is sent too early is the end. */
	if (goes_on && endings[pair] != NOT_READY)
		patience.rnr_retries = 7;
	if (goes_on)
		patience.min_rnr_timer = FIRST_RNR_TIMER + below(&dice, RNR_TIMERS);
	for (int at = 0; at < 2; at++)
		try(create_party(pair, at, depth));
	for (int at = 0; at < 2; at++)
		try(connect_qp(both[at]->qp, lids[!at], both[!at]->qp->qp_num,
			       psn, &patience));
	return 0;
}

/* What has not completed of a queue pair that is gone, or forgets, never will. */
static void cut(struct party *party)
{
	close_queues(party);
	party->cut = true;
}

/* A completion handler elsewhere may be about to tell what it has taken, this task not. */
static void is_cut(struct party *party)
{
	party->gone = cqs[party->at]->poll_ctx == IB_POLL_DIRECT;
	for (int kind = 0; kind < QUEUES; kind++)
		forgotten += party->queues[kind].posted -
			     party->queues[kind].next;
}

static int destroy_party(struct party *party)
{
	cut(party);
	try(ib_destroy_qp(party->qp));
	party->qp = NULL;
	is_cut(party);
	return 0;
}

static int reset_party(struct party *party)
{
	cut(party);
	try(qp_to(party->qp, IB_QPS_RESET));
	is_cut(party);
	return 0;
}

/* A queue pair that has failed before is in the error state, and stays there. */
static int drain_sends(struct party *party)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	if (!qp_to(party->qp, IB_QPS_SQD))
		return 0;
	try(ib_query_qp(party->qp, &attr, IB_QP_STATE, &init));
	check(attr.qp_state == IB_QPS_ERR, "state %d", attr.qp_state);
	return 0;
}

static int end_traffic(int pair)
{
	struct party *own = parties[pair][0], *peer = parties[pair][1];

	ended[endings[pair]]++;
	switch (endings[pair]) {
	case STOPPED:
		try(qp_to(own->qp, IB_QPS_ERR));
		break;
	case WRONG_RKEY:
		send_one(own, IB_WR_RDMA_WRITE, 100, WRONG_KEY, 0);
		break;
	case WRONG_LKEY:
		send_one(own, IB_WR_SEND, 100, 0, WRONG_KEY);
		break;
	case TOO_LONG:
		send_one(own, IB_WR_SEND, TOO_MUCH, 0, 0);
		break;
	case NOT_READY:
		for (int i = 0; i < MOST_DEPTH; i++)
			send_one(own, IB_WR_SEND, 10, 0, 0);
		break;
	case PEER_STOPPED:
		try(qp_to(peer->qp, IB_QPS_ERR));
		break;
	case PEER_DESTROYED:
		try(destroy_party(peer));
		break;
	case PEER_RESET:
		try(reset_party(peer));
		break;
	case DESTROYED:
		try(destroy_party(own));
		break;
	case RESET:
		try(reset_party(own));
		break;
	case DRAINED:
		try(drain_sends(own));
		break;
	case ENDINGS:
		break;
	}
	send_some(own, below(&dice, 4));
	return 0;
}

/* After ib_drain_qp() only what was unsignaled and went well may be silent. */
static void settle(struct party *party)
{
	close_queues(party);
	if (party->cut)
		return;
	ib_drain_qp(party->qp);
	for (int kind = 0; kind < QUEUES; kind++) {
		struct queue *queue = &party->queues[kind];

		for (int i = queue->next; i < queue->posted; i++)
			if (queue->failed || record_of(queue, i)->signaled)
				wrong(queue, i, NULL, "not completed");
	}
}

static int traffic(u32 more)
{
	int depth = 2 + below(&dice, below(&dice, 2) ? 10 : MOST_DEPTH - 2);

	for (int pair = 0; pair < pairs; pair++)
		try(create_pair(pair, depth));
	for (int pair = 0; pair < pairs; pair++)
		for (int at = 0; at < 2; at++) {
			u32 recvs = below(&dice, depth);

			if (more && endings[pair] != NOT_READY)
				recvs = depth - recvs / 4;
			while (recvs--)
				recv_one(parties[pair][at]);
		}
	for (int pair = 0; pair < pairs; pair++)
		for (int at = 0; at < 2; at++)
			send_some(parties[pair][at], below(&dice, depth));
	go_on(more);
	poll_for(below(&dice, 2) ? 0 : below(&dice, 20));
	for (int pair = 0; pair < pairs; pair++)
		try(end_traffic(pair));
	poll_for(below(&dice, 2) ? 0 : below(&dice, 150));
	return 0;
}

static int run_case(u32 average)
{
	static const enum ib_poll_context contexts[] = {
		IB_POLL_DIRECT, IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE,
	};
	int error;
	u32 more;

	prandom_seed_state(&dice, current_case);
	more = below(&dice, 2) ? 0 : below(&dice, 4 * average + 1);
	goes_on = more;
	pairs = 1 + below(&dice, MOST_PAIRS);
	for (int at = 0; at < 2; at++) {
		u32 vector = below(&dice, devices[at]->num_comp_vectors);

		cqs[at] = ib_alloc_cq(devices[at], NULL,
				      2 * pairs * (MOST_DEPTH + 1), vector,
				      contexts[below(&dice, ARRAY_SIZE(contexts))]);
		check(!IS_ERR(cqs[at]), "alloc_cq: %pe", cqs[at]);
	}
	error = traffic(more);
	for (int pair = 0; pair < pairs; pair++)
		for (int at = 0; at < 2; at++) {
			if (!IS_ERR_OR_NULL(parties[pair][at]->qp))
				settle(parties[pair][at]);
		}
	for (int pair = 0; pair < pairs; pair++)
		for (int at = 0; at < 2; at++) {
			if (!IS_ERR_OR_NULL(parties[pair][at]->qp))
				ib_destroy_qp(parties[pair][at]->qp);
			parties[pair][at]->qp = NULL;
		}
	for (int at = 0; at < 2; at++)
		ib_free_cq(cqs[at]);
	return error;
}

static int run(void)
{
	ktime_t began = ktime_get();

	for (int at = 0; at < 2; at++) {
		struct ib_port_attr port;

		try(ib_query_port(devices[at], 1, &port));
		lids[at] = port.lid;
		pds[at] = ib_alloc_pd(devices[at], IB_PD_UNSAFE_GLOBAL_RKEY);
		check(!IS_ERR(pds[at]), "alloc_pd: %pe", pds[at]);
		memory[at] = kmalloc(MEMORY, GFP_KERNEL);
		check(memory[at], "out of memory");
		for (int pair = 0; pair < MOST_PAIRS; pair++) {
			parties[pair][at] =
				kzalloc(sizeof(struct party), GFP_KERNEL);
			check(parties[pair][at], "out of memory");
		}
	}
	check(cases, "no cases");
	for (current_case = seed;
	     current_case - seed < cases || atomic64_read(&accepted) < least;
	     current_case++) {
		try(run_case(least / cases));
		check(!atomic_read(&wrongs), "case %u", current_case);
		cond_resched();
	}
	for (int ending = 0; ending < ENDINGS; ending++)
		check(cases < 100 || ended[ending], "no case has been '%s'",
		      ending_names[ending]);
	check(cases < 100 || forgotten, "nothing was under way at an end");
	pr_info("%u cases, %lld work requests, %lld completions, %llu forgotten, all accounted for, %lld ms\n",
		current_case - seed, atomic64_read(&accepted),
		atomic64_read(&completed), forgotten,
		ktime_ms_delta(ktime_get(), began));
	return 0;
}

static void teardown(void)
{
	for (int at = 0; at < 2; at++) {
		if (!IS_ERR_OR_NULL(pds[at]))
			ib_dealloc_pd(pds[at]);
		kfree(memory[at]);
		for (int pair = 0; pair < MOST_PAIRS; pair++)
			kfree(parties[pair][at]);
	}
}

static int on_poll_complete(struct kretprobe_instance *instance,
			    struct pt_regs *regs)
{
	udelay(linger);
	return 0;
}

static struct kretprobe poll_complete = {
	.kp.symbol_name = "irq_poll_complete",
	.handler = on_poll_complete,
};

static int __init ledger_init(void)
{
	int error = 0;

	if (linger)
		error = register_kretprobe(&poll_complete);
	if (error)
		return error;
	error = between_devices(run, teardown);
	if (linger)
		unregister_kretprobe(&poll_complete);
	return error;
}
module_init(ledger_init);

MODULE_DESCRIPTION("Test that accounts for each work request of a client");
MODULE_LICENSE("GPL");
