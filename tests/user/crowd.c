// SPDX-License-Identifier: GPL-2.0
/*
 * Many queue pairs, many threads, one completion queue at each side: no
 * completion is lost, doubled or out of order, and nobody is woken for nothing.
 */

#include "common.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SENDERS 4u
#define QPS_EACH 8u
#define QPS (SENDERS * QPS_EACH)
#define DEPTH 16u
#define BATCH 32
#define QUIET_MS 500
#define PATIENCE_MS 60000

/* What a message holds: who sent it, and which one it is. */
struct message {
	uint32_t qp;
	uint32_t number;
};

/* One side: all its queue pairs complete into one queue. */
struct side {
	struct device device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct end ends[QPS];
	/* A slot for each work request of each queue pair. */
	struct message slots[QPS][DEPTH];
	/* Completions so far, by queue pair. */
	atomic_uint done[QPS];
	/* Each request to be woken is good for one wake-up. */
	uint64_t requests;
	uint64_t wakeups;
};

static struct side tx, rx;
static uint32_t messages;

static void side_create(struct side *side, const char *name)
{
	struct device *device = &side->device;

	device_open(device, name);
	side->channel = ibv_create_comp_channel(device->context);
	check(side->channel, "comp_channel: %m");
	side->cq = ibv_create_cq(device->context, QPS * DEPTH, side,
				 side->channel, 0);
	check(side->cq, "create_cq: %m");
	side->mr = ibv_reg_mr(device->pd, side->slots, sizeof(side->slots),
			      IBV_ACCESS_LOCAL_WRITE);
	check(side->mr, "reg_mr: %m");
	for (uint32_t i = 0; i < QPS; i++) {
		struct end *end = &side->ends[i];
		struct ibv_qp_init_attr init = {
			.qp_context = end,
			.send_cq = side->cq,
			.recv_cq = side->cq,
			.qp_type = IBV_QPT_RC,
			.sq_sig_all = 1,
			.cap = { .max_send_wr = DEPTH,
				 .max_recv_wr = DEPTH,
				 .max_send_sge = 1,
				 .max_recv_sge = 1 },
		};

		end->device = device;
		end->type = IBV_QPT_RC;
		end->qp = ibv_create_qp(device->pd, &init);
		check(end->qp, "create_qp: %m");
	}
}

static void side_destroy(struct side *side)
{
	for (uint32_t i = 0; i < QPS; i++)
		check(!ibv_destroy_qp(side->ends[i].qp), "destroy_qp: %m");
	check(!ibv_dereg_mr(side->mr), "dereg_mr: %m");
	check(!ibv_destroy_cq(side->cq), "destroy_cq: %m");
	check(!ibv_destroy_comp_channel(side->channel), "destroy_channel: %m");
	device_close(&side->device);
}

static struct ibv_sge slot(struct side *side, uint32_t qp, uint32_t number)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)&side->slots[qp][number % DEPTH],
		.length = sizeof(struct message),
		.lkey = side->mr->lkey,
	};
}

/* The wr_id names the queue pair and the message. */
static uint64_t wr_id(uint32_t qp, uint32_t number)
{
	return (uint64_t)qp << 32 | number;
}

static void send_one(uint32_t qp, uint32_t number)
{
	struct ibv_sge sge = slot(&tx, qp, number);
	struct ibv_send_wr wr = {
		.wr_id = wr_id(qp, number),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
	};

	tx.slots[qp][number % DEPTH] = (struct message){ qp, number };
	post_send(&tx.ends[qp], &wr);
}

static void receive_one(uint32_t qp, uint32_t number)
{
	struct ibv_sge sge = slot(&rx, qp, number);
	struct ibv_recv_wr wr = {
		.wr_id = wr_id(qp, number),
		.sg_list = &sge,
		.num_sge = 1,
	};

	post_recv(&rx.ends[qp], &wr);
}

/* A completion is the next one of its queue pair, and a received message is the
 * one that is due; its slot is posted again. */
static void account(struct side *side, const struct ibv_wc *wc)
{
	uint32_t qp = wc->wr_id >> 32, number = wc->wr_id;
	uint32_t due;

	check(wc->status == IBV_WC_SUCCESS, "%s: QP %u: %s",
	      side->device.name, qp, ibv_wc_status_str(wc->status));
	check(qp < QPS && wc->qp_num == side->ends[qp].qp->qp_num,
	      "%s: wr_id %#" PRIx64 " of QP %#x", side->device.name, wc->wr_id,
	      wc->qp_num);
	due = atomic_load(&side->done[qp]);
	check(number == due, "%s: QP %u: completion %u, %u was due",
	      side->device.name, qp, number, due);
	if (side == &rx) {
		struct message *message = &rx.slots[qp][number % DEPTH];

		check(message->qp == qp && message->number == number,
		      "message %u of QP %u instead of %u of %u",
		      message->number, message->qp, number, qp);
		receive_one(qp, number + DEPTH);
	}
	atomic_store(&side->done[qp], due + 1);
}

/* Takes all completions that are there. */
static uint32_t drain(struct side *side)
{
	struct ibv_wc wcs[BATCH];
	uint32_t taken = 0;
	int count;

	while ((count = ibv_poll_cq(side->cq, BATCH, wcs)) != 0) {
		check(count > 0, "poll_cq: %d", count);
		for (int i = 0; i < count; i++)
			account(side, &wcs[i]);
		taken += count;
	}
	return taken;
}

/* Whether the channel has an event within `ms`; takes it. */
static bool woken(struct side *side, int ms)
{
	struct pollfd fd = { .fd = side->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	int ready;

	do
		ready = poll(&fd, 1, ms);
	while (ready < 0 && errno == EINTR);
	check(ready >= 0, "poll: %m");
	if (!ready)
		return false;
	check(!ibv_get_cq_event(side->channel, &cq, &context),
	      "get_cq_event: %m");
	check(cq == side->cq && context == side, "an event of another CQ");
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void arm(struct side *side)
{
	side->requests++;
	check(!ibv_req_notify_cq(side->cq, 0), "req_notify_cq: %m");
}

/* Takes `total` completions, asleep whenever there are none. */
static void *reap(void *context)
{
	struct side *side = context;
	uint64_t total = (uint64_t)messages * QPS, taken = 0;

	while (taken < total) {
		uint32_t some;

		arm(side);
		some = drain(side);
		taken += some;
		if (some)
			continue;
		check(woken(side, PATIENCE_MS),
		      "%s: asleep after %" PRIu64 " of %" PRIu64
		      " completions",
		      side->device.name, taken, total);
		side->wakeups++;
		check(side->wakeups <= side->requests,
		      "%s: woken %" PRIu64 " times on %" PRIu64 " requests",
		      side->device.name, side->wakeups, side->requests);
		taken += drain(side);
	}
	return NULL;
}

/* Keeps the send queues of its queue pairs full. */
static void *send_all(void *context)
{
	uint32_t first = (uintptr_t)context * QPS_EACH;
	uint32_t posted[QPS_EACH] = { 0 };
	uint32_t left = QPS_EACH * messages;

	while (left) {
		bool any = false;

		for (uint32_t i = 0; i < QPS_EACH; i++) {
			uint32_t done = atomic_load(&tx.done[first + i]);

			while (posted[i] < messages && posted[i] - done < DEPTH) {
				send_one(first + i, posted[i]++);
				left--;
				any = true;
			}
		}
		if (!any)
			sched_yield();
	}
	return NULL;
}

/* All queue pairs at once, from several threads. */
static void crowd(void)
{
	pthread_t reapers[2], senders[SENDERS];

	for (uint32_t qp = 0; qp < QPS; qp++)
		for (uint32_t number = 0; number < DEPTH; number++)
			receive_one(qp, number);
	check(!pthread_create(&reapers[0], NULL, reap, &tx) &&
		      !pthread_create(&reapers[1], NULL, reap, &rx),
	      "pthread_create");
	for (uintptr_t i = 0; i < SENDERS; i++)
		check(!pthread_create(&senders[i], NULL, send_all, (void *)i),
		      "pthread_create");
	for (uint32_t i = 0; i < SENDERS; i++)
		pthread_join(senders[i], NULL);
	pthread_join(reapers[0], NULL);
	pthread_join(reapers[1], NULL);
	for (uint32_t qp = 0; qp < QPS; qp++)
		check(tx.done[qp] == messages && rx.done[qp] == messages,
		      "QP %u: %u sent, %u received", qp, tx.done[qp],
		      rx.done[qp]);
	printf("%u queue pairs, %u threads: %u messages, "
	       "%" PRIu64 " and %" PRIu64 " wake-ups\n",
	       QPS, SENDERS, messages * QPS, tx.wakeups, rx.wakeups);
}

/* One message at a time: each is one wake-up that finds it, and without a message
 * there is none. */
static void quiet(uint32_t rounds)
{
	/* Those that the crowd has left. */
	while (woken(&rx, QUIET_MS))
		;
	for (uint32_t i = 0; i < rounds; i++) {
		uint32_t qp = i % QPS;

		arm(&rx);
		check(!drain(&rx), "a completion before the message");
		if (i % QPS == 0)
			check(!woken(&rx, QUIET_MS), "woken without a message");
		send_one(qp, messages + i / QPS);
		check(woken(&rx, PATIENCE_MS), "asleep over message %u", i);
		check(drain(&rx) == 1, "woken without a completion");
		while (!drain(&tx))
			sched_yield();
	}
	check(!woken(&rx, QUIET_MS), "woken once too often");
	printf("%u messages, each of them a wake-up\n", rounds);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: crowd DEVICE DEVICE MESSAGES\n");
		return 2;
	}
	messages = strtoul(argv[3], NULL, 0);
	check(messages, "no messages");
	side_create(&tx, argv[1]);
	side_create(&rx, argv[2]);
	for (uint32_t qp = 0; qp < QPS; qp++)
		end_connect(&tx.ends[qp], &rx.ends[qp], &default_path);
	crowd();
	quiet(4 * QPS);
	for (uint32_t qp = 0; qp < QPS; qp++)
		end_to(&rx.ends[qp], IBV_QPS_RESET);
	side_destroy(&tx);
	side_destroy(&rx);
	return 0;
}
