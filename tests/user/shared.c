// SPDX-License-Identifier: GPL-2.0
/*
 * The ledger of a shared receive queue: messages of several reliable connections use up
 * its receives while these come to random ends, and every receive is accounted for.
 *
 *     shared -a DEV[:PORT] -b DEV[:PORT] -n SEEDS -s FIRST-SEED
 *
 * Each receive completes once, with those of a queue pair in the order of posting, or it
 * stays; or it was in use by a queue pair that was destroyed or reset, which has one at
 * most. Each queue pair tells once when it takes no more, and takes none afterwards. What
 * has stayed is taken, in order, by a connection that is made for it in the end.
 */

#include "common.h"
#include "options.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PAIRS 6
#define DEPTH 32
#define MOST_RECVS 4096
#define MOST_SIZE 256
#define MOST_LENGTH 40000
#define DUE_MS 30000
/* Traffic that has moved nothing for so long has come to an end by itself. */
#define STILL_MS 20
/* So many cases have come to each end. */
#define ALL_ENDINGS 100

enum ending { STOPPED, DESTROYED, RESET, PEER_STOPPED, WRONG_RKEY, ENDINGS };

static const char *const ending_names[ENDINGS] = {
	"stopped", "destroyed", "reset", "peer stopped", "wrong R_Key",
};

static struct device devices[2];
static struct ibv_mr *mrs[2];
static uint8_t *memory[2];
static struct rng rng;
static uint64_t seed = 1;
static uint64_t total_recvs, total_stayed, total_failed, total_exhausted;
static unsigned int ended[ENDINGS];

/* A connection; the second side takes receives of the shared queue. */
static struct pair {
	struct end ends[2];
	enum ending ending;
	uint32_t qpn;
	int sends_posted;
	int sends_done;
	/* How many messages have arrived, and the last receive that was taken. */
	uint32_t arrived;
	int last_recv;
	bool failed;
	bool told;
	bool closed;
} pairs[MOST_PAIRS];
static int pair_count;

static struct ibv_srq *srq;
static struct ibv_cq *cqs[2];
/* Of each receive: whether it has completed. */
static bool completed[MOST_RECVS];
static int posted, done, size;
/* One receive in so many that complete is not posted again. */
static uint32_t leak_odds;

#define RIGHT(condition, ...)                                                 \
	do {                                                                  \
		if (!(condition)) {                                           \
			fprintf(stderr, "seed %llu: ",                        \
				(unsigned long long)seed);                    \
			fail(__VA_ARGS__);                                    \
		}                                                             \
	} while (0)

static void post_one_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)memory[1], MOST_LENGTH,
			       mrs[1]->lkey };
	struct ibv_recv_wr wr = { .wr_id = posted, .sg_list = &sge, .num_sge = 1 },
			   *bad;

	if (posted == MOST_RECVS)
		return;
	RIGHT(!ibv_post_srq_recv(srq, &wr, &bad), "post_srq_recv: %m");
	posted++;
}

/* A message that tells how many have gone before it. */
static void post_one_send(struct pair *pair, uint32_t bad_rkey)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_sge sge = { (uintptr_t)memory[0],
			       rng_once_in(&rng, 3) ?
				       rng_below(&rng, MOST_LENGTH) :
				       rng_below(&rng, 500),
			       mrs[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = pair - pairs,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = bad_rkey ? IBV_WR_RDMA_WRITE :
				     ops[rng_below(&rng, ARRAY_SIZE(ops))],
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(pair->sends_posted),
		.wr.rdma = { (uintptr_t)memory[1], mrs[1]->rkey ^ bad_rkey },
	};

	post_send(&pair->ends[0], &wr);
	pair->sends_posted++;
}

static void on_recv(const struct ibv_wc *wc)
{
	struct pair *pair = pairs;
	int index = wc->wr_id;

	while (pair < pairs + pair_count && pair->qpn != wc->qp_num)
		pair++;
	RIGHT(pair < pairs + pair_count, "receive %d of no queue pair", index);
	RIGHT(!pair->closed, "receive %d after the end", index);
	RIGHT(index < posted && !completed[index], "receive %d was not posted",
	      index);
	RIGHT(index > pair->last_recv, "receive %d after %d", index,
	      pair->last_recv);
	RIGHT(!pair->failed, "receive %d after a failure: %s", index,
	      ibv_wc_status_str(wc->status));
	completed[index] = true;
	pair->last_recv = index;
	done++;
	if (wc->status == IBV_WC_SUCCESS) {
		RIGHT(ntohl(wc->imm_data) == pair->arrived,
		      "message %u instead of %u", ntohl(wc->imm_data),
		      pair->arrived);
		pair->arrived++;
	} else {
		RIGHT(wc->status == IBV_WC_WR_FLUSH_ERR, "receive %d: %s", index,
		      ibv_wc_status_str(wc->status));
		pair->failed = true;
		total_failed++;
	}
	if (!rng_once_in(&rng, leak_odds))
		post_one_recv();
}

static bool reap(void)
{
	struct ibv_wc wc;
	bool any = false;

	while (ibv_poll_cq(cqs[1], 1, &wc) > 0) {
		on_recv(&wc);
		any = true;
	}
	while (ibv_poll_cq(cqs[0], 1, &wc) > 0) {
		struct pair *pair = &pairs[wc.wr_id];

		pair->sends_done++;
		any = true;
		if (wc.status == IBV_WC_SUCCESS)
			post_one_send(pair, 0);
	}
	return any;
}

/* The last receive of a queue pair is told: by then it has completed. */
static void take_events(void)
{
	struct pollfd fd = { .fd = devices[1].context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;

	while (poll(&fd, 1, 0) > 0) {
		check(!ibv_get_async_event(devices[1].context, &event),
		      "get_async_event: %m");
		ibv_ack_async_event(&event);
		if (event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED)
			continue;
		for (int i = 0; i < pair_count; i++) {
			if (pairs[i].ends[1].qp != event.element.qp)
				continue;
			RIGHT(!pairs[i].told, "%s: told twice",
			      ending_names[pairs[i].ending]);
			reap();
			pairs[i].told = pairs[i].closed = true;
		}
	}
}

static void reap_for(uint32_t ms)
{
	uint64_t end = now_ms() + ms;

	do {
		if (!reap())
			sched_yield();
		take_events();
	} while (now_ms() < end);
}

static void create_end(struct end *end, int at)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cqs[at],
		.recv_cq = cqs[at],
		.srq = at ? srq : NULL,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_wr = !at, .max_recv_sge = !at },
	};

	memset(end, 0, sizeof(*end));
	end->device = &devices[at];
	end->type = IBV_QPT_RC;
	end->psn = rng_next(&rng) & PSN_MASK;
	end->qp = ibv_create_qp(devices[at].pd, &init);
	check(end->qp, "create_qp: %m");
}

static void create_pair(struct pair *pair, const struct path_options *path)
{
	memset(pair, 0, sizeof(*pair));
	for (int at = 0; at < 2; at++)
		create_end(&pair->ends[at], at);
	pair->qpn = pair->ends[1].qp->qp_num;
	pair->last_recv = -1;
	pair->ending = rng_below(&rng, ENDINGS);
	end_connect(&pair->ends[0], &pair->ends[1], path);
}

static void destroy_end(struct end *end)
{
	check(!ibv_destroy_qp(end->qp), "destroy_qp: %m");
	end->qp = NULL;
}

static void end_pair(struct pair *pair)
{
	ended[pair->ending]++;
	switch (pair->ending) {
	case STOPPED:
		end_to(&pair->ends[1], IBV_QPS_ERR);
		break;
	case DESTROYED:
		destroy_end(&pair->ends[1]);
		reap();
		pair->closed = true;
		break;
	case RESET:
		end_to(&pair->ends[1], IBV_QPS_RESET);
		reap();
		pair->closed = true;
		break;
	case PEER_STOPPED:
		end_to(&pair->ends[0], IBV_QPS_ERR);
		break;
	case WRONG_RKEY:
		if (pair->sends_posted - pair->sends_done < DEPTH)
			post_one_send(pair, 0x5a5a5a);
		break;
	case ENDINGS:
		break;
	}
}

/* All queue pairs into the error state, and each tells that it takes no more. */
static void settle(void)
{
	uint64_t end = now_ms() + DUE_MS;

	for (int i = 0; i < pair_count; i++)
		for (int at = 0; at < 2; at++)
			if (pairs[i].ends[at].qp &&
			    !(at && pairs[i].ending == RESET))
				end_to(&pairs[i].ends[at], IBV_QPS_ERR);
	for (int i = 0; i < pair_count; i++) {
		struct pair *pair = &pairs[i];

		while (!pair->closed || pair->sends_done < pair->sends_posted) {
			reap_for(0);
			RIGHT(now_ms() < end,
			      "%s: %d of %d sends, last receive %s",
			      ending_names[pair->ending], pair->sends_done,
			      pair->sends_posted,
			      pair->closed ? "reached" : "not reached");
		}
	}
	reap_for(2);
}

/* Takes what has stayed, until there is no more; how many these were. */
static int collect(void)
{
	struct path_options path = default_path;
	struct pair *pair = &pairs[0];
	struct ibv_wc wc;
	int count = 0, index = 0;

	path.rnr_retries = 1;
	pair_count = 1;
	create_pair(pair, &path);
	for (;; count++) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED };

		post_send(&pair->ends[0], &wr);
		RIGHT(await(cqs[0], &wc, DUE_MS), "a send does not complete");
		if (wc.status == IBV_WC_RNR_RETRY_EXC_ERR)
			break;
		RIGHT(wc.status == IBV_WC_SUCCESS, "a send ends with '%s'",
		      ibv_wc_status_str(wc.status));
		RIGHT(await(cqs[1], &wc, DUE_MS) &&
			      wc.status == IBV_WC_SUCCESS &&
			      (int)wc.wr_id >= index && (int)wc.wr_id < posted &&
			      !completed[wc.wr_id],
		      "receive %llu after %d, with '%s'",
		      (unsigned long long)wc.wr_id, index - 1,
		      ibv_wc_status_str(wc.status));
		index = wc.wr_id + 1;
		completed[wc.wr_id] = true;
	}
	RIGHT(!ibv_poll_cq(cqs[1], 1, &wc), "receive %llu once more",
	      (unsigned long long)wc.wr_id);
	destroy_end(&pair->ends[0]);
	destroy_end(&pair->ends[1]);
	return count;
}

static void create_queues(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = size,
						    .max_sge = 1 } };

	for (int at = 0; at < 2; at++) {
		cqs[at] = ibv_create_cq(devices[at].context,
					at ? MOST_SIZE + DEPTH :
					     pair_count * (DEPTH + 1),
					NULL, NULL, 0);
		check(cqs[at], "create_cq: %m");
	}
	srq = ibv_create_srq(devices[1].pd, &init);
	check(srq, "create_srq: %m");
	memset(completed, 0, sizeof(completed));
	posted = done = 0;
}

/* Traffic, until it has used up so many receives, or nothing moves any more. */
static void go_on(int enough)
{
	uint64_t moved = now_ms();

	for (int i = 0; i < pair_count; i++)
		for (int n = rng_below(&rng, DEPTH); n > 0; n--)
			post_one_send(&pairs[i], 0);
	while (done < enough && now_ms() < moved + STILL_MS) {
		if (reap())
			moved = now_ms();
		else
			sched_yield();
	}
	total_exhausted += done == posted;
}

static void run_seed(void)
{
	struct path_options path = default_path;
	int stayed, discarded = 0;

	path.timeout = 10;
	path.retries = 3;
	rng_seed(&rng, seed);
	pair_count = 1 + rng_below(&rng, MOST_PAIRS);
	size = 1 + rng_below(&rng, MOST_SIZE);
	leak_odds = rng_once_in(&rng, 2) ? MOST_RECVS : 2;
	create_queues();
	for (int i = 0; i < pair_count; i++)
		create_pair(&pairs[i], &path);
	for (int n = rng_below(&rng, size); n >= 0; n--)
		post_one_recv();
	go_on(rng_below(&rng, MOST_RECVS / 2));
	for (int i = 0; i < pair_count; i++) {
		end_pair(&pairs[i]);
		discarded += pairs[i].closed;
	}
	reap_for(rng_once_in(&rng, 2) ? 0 : rng_below(&rng, 50));
	settle();
	for (int i = 0; i < pair_count; i++)
		for (int at = 0; at < 2; at++)
			if (pairs[i].ends[at].qp)
				destroy_end(&pairs[i].ends[at]);
	stayed = collect();
	RIGHT(done + stayed <= posted && done + stayed + discarded >= posted,
	      "%d receives posted, %d completed, %d have stayed", posted, done,
	      stayed);
	total_recvs += posted;
	total_stayed += stayed;
	check(!ibv_destroy_srq(srq), "destroy_srq: %m");
	for (int at = 0; at < 2; at++)
		check(!ibv_destroy_cq(cqs[at]), "destroy_cq: %m");
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" };
	uint64_t count = ALL_ENDINGS, began = now_ms(), end;
	const struct cmdline_option options[] = {
		{ 'a', "DEV[:PORT]", .text = &names[0] },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'n', "SEEDS", .u64 = &count },
		{ 's', "FIRST-SEED", .u64 = &seed },
		{},
	};

	options_read(argc, argv, options, NULL);
	check(count, "no seeds");
	for (int at = 0; at < 2; at++) {
		device_open(&devices[at], names[at]);
		memory[at] = aligned_alloc(4096, 1 << 16);
		check(memory[at], "out of memory");
		mrs[at] = ibv_reg_mr(devices[at].pd, memory[at], 1 << 16,
				     ALL_ACCESS);
		check(mrs[at], "reg_mr: %m");
	}
	for (end = seed + count; seed < end; seed++)
		run_seed();
	for (int at = 0; at < 2; at++) {
		check(!ibv_dereg_mr(mrs[at]), "dereg_mr: %m");
		device_close(&devices[at]);
	}
	for (int ending = 0; ending < ENDINGS; ending++)
		check(count < ALL_ENDINGS || ended[ending],
		      "no connection was '%s'", ending_names[ending]);
	check(count < ALL_ENDINGS || total_exhausted, "no queue was exhausted");
	printf("shared: %llu cases, %llu receives, %llu failed, %llu stayed, exhausted %llu times, all accounted for, %llu ms\n",
	       (unsigned long long)count, (unsigned long long)total_recvs,
	       (unsigned long long)total_failed,
	       (unsigned long long)total_stayed,
	       (unsigned long long)total_exhausted,
	       (unsigned long long)(now_ms() - began));
	return 0;
}
