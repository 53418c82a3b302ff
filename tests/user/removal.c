// SPDX-License-Identifier: GPL-2.0
/*
 * An HCA that goes while its queue pairs send: the ledger of all work requests. Threads
 * post long messages to many queue pairs of that HCA, and others to their peers on one that
 * stays, so that at any time somebody has the transmitters of some of them, be it for
 * requests or for answers.
 *
 *     removal -a DEVICE -d NETDEV -b DEV[:PORT] -n ROUNDS -s SEED
 *
 * The first device is made on the network device for each round, and removed amid the
 * traffic. When a post is refused since it is gone, each work request that was taken has
 * completed, once and in order, with success or, from some time on, by a flush, and
 * nothing comes later. So it is with receives that a queue pair in error is given last.
 */

#include "common.h"
#include "nldev.h"
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

#define CREWS 3
/* Queue pairs of a crew, of which one is unreliable. */
#define QPS 3
#define SENDS 8
#define RECVS 16
#define RECV_BYTES 65536u
#define LONGEST (1u << 19)
#define BATCH 16
/* Completions of each side before the device may go. */
#define WARM 20
#define DUE_MS 60000
#define LOST_MS 5000
#define LATE_MS 400
#define LATE_ROUNDS 5
/* The device goes so long after that, at most. */
#define MOST_US 50000u

enum queue { SEND, RECV, QUEUES };

static const char *const queue_names[QUEUES] = { "send", "receive" };

/* What was taken, and what has completed. */
struct ledger {
	uint32_t posted;
	uint32_t done;
	uint32_t flushed;
	bool failed;
};

/* A thread with the queue pairs that it posts to, on one of the devices. */
struct crew {
	int side;
	pthread_t thread;
	struct ibv_cq *cq;
	struct end ends[QPS];
	struct ledger ledgers[QPS][QUEUES];
	struct rng rng;
	atomic_uint done;
	/* It has posted its last receive. */
	atomic_bool settled;
	/* The device is gone, it was told. */
	bool refused;
};

static const char *names[2] = { "sib7", "sib0" };
static const char *netdev = "sibnet0";
static struct device devices[2];
static struct ibv_mr *mrs[2];
static uint8_t *memory[2];
static struct crew crews[2][CREWS];
static uint64_t seed = 1;
/* No receives are posted from now on; no work at all is. */
static atomic_bool last_orders, closed;
static uint64_t total, total_flushed;

static enum ibv_qp_type type_of(int qp)
{
	return qp == QPS - 1 ? IBV_QPT_UC : IBV_QPT_RC;
}

/* The wr_id tells the queue pair, the queue, and which one of it this is. */
static uint64_t wr_id(int qp, enum queue queue, uint32_t number)
{
	return (uint64_t)qp << 40 | (uint64_t)queue << 32 | number;
}

static void account(struct crew *crew, const struct ibv_wc *wc)
{
	int qp = wc->wr_id >> 40;
	enum queue queue = wc->wr_id >> 32 & 1;
	struct ledger *ledger = &crew->ledgers[qp][queue];
	uint32_t number = wc->wr_id;

	check(qp < QPS && number == ledger->done && number < ledger->posted,
	      "seed %llu: %s: %s %u of queue pair %d completes; %u have, of %u",
	      (unsigned long long)seed, names[crew->side], queue_names[queue],
	      number, qp, ledger->done, ledger->posted);
	/* Who loses its peer asks for it in vain. */
	check(wc->status == (ledger->failed ? IBV_WC_WR_FLUSH_ERR :
					      IBV_WC_SUCCESS) ||
		      wc->status == IBV_WC_WR_FLUSH_ERR ||
		      (crew->side && !ledger->failed && queue == SEND &&
		       wc->status == IBV_WC_RETRY_EXC_ERR),
	      "seed %llu: %s: %s %u of queue pair %d ends with '%s'",
	      (unsigned long long)seed, names[crew->side], queue_names[queue],
	      number, qp, ibv_wc_status_str(wc->status));
	ledger->failed |= wc->status != IBV_WC_SUCCESS;
	ledger->flushed += wc->status == IBV_WC_WR_FLUSH_ERR;
	ledger->done++;
	atomic_fetch_add(&crew->done, 1);
}

/* Takes what has completed; how much that was. */
static int reap(struct crew *crew)
{
	struct ibv_wc wcs[BATCH];
	int count = ibv_poll_cq(crew->cq, BATCH, wcs);

	check(count >= 0, "poll_cq: %d", count);
	for (int i = 0; i < count; i++)
		account(crew, &wcs[i]);
	return count;
}

static void post_recvs(struct crew *crew, int qp)
{
	struct ledger *ledger = &crew->ledgers[qp][RECV];
	struct ibv_sge sge = { (uintptr_t)memory[crew->side], RECV_BYTES,
			       mrs[crew->side]->lkey };

	while (ledger->posted - ledger->done < RECVS) {
		struct ibv_recv_wr wr = { .wr_id = wr_id(qp, RECV, ledger->posted),
					  .sg_list = &sge,
					  .num_sge = 1 };

		post_recv(&crew->ends[qp], &wr);
		ledger->posted++;
	}
}

/* Fills a send queue; false if the device does not take any more. */
static bool post_sends(struct crew *crew, int qp)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
	};
	struct ledger *ledger = &crew->ledgers[qp][SEND];
	int side = crew->side;

	while (ledger->posted - ledger->done < SENDS) {
		int op = rng_below(&crew->rng,
				   ARRAY_SIZE(ops) - (type_of(qp) == IBV_QPT_UC));
		uint32_t most = ops[op] == IBV_WR_SEND ? RECV_BYTES : LONGEST;
		struct ibv_sge sge = {
			.addr = (uintptr_t)memory[side],
			.length = rng_below(&crew->rng,
					    rng_once_in(&crew->rng, 4) ? 100 : most),
			.lkey = mrs[side]->lkey,
		};
		struct ibv_send_wr *bad, wr = {
			.wr_id = wr_id(qp, SEND, ledger->posted),
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = ops[op],
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)memory[!side], mrs[!side]->rkey },
		};
		int error = ibv_post_send(crew->ends[qp].qp, &wr, &bad);

		if (error && !side) {
			check(error == EIO || error == ENODEV,
			      "%s: post_send: %s", names[side], strerror(error));
			return false;
		}
		check(!error, "%s: post_send: %s", names[side], strerror(error));
		ledger->posted++;
	}
	return true;
}

/* Each work request that was taken has completed. */
static void check_ledgers(const struct crew *crew, const char *when)
{
	for (int qp = 0; qp < QPS; qp++)
		for (enum queue queue = SEND; queue < QUEUES; queue++) {
			const struct ledger *ledger = &crew->ledgers[qp][queue];

			check(ledger->done == ledger->posted,
			      "seed %llu: %s, %s: %u of %u %ss of queue pair %d have completed",
			      (unsigned long long)seed, names[crew->side], when,
			      ledger->done, ledger->posted, queue_names[queue], qp);
		}
}

static void *work(void *argument)
{
	struct crew *crew = argument;

	while (!atomic_load(&closed)) {
		bool no_recvs = atomic_load(&last_orders);
		bool idle = !reap(crew);

		for (int qp = 0; qp < QPS; qp++) {
			if (!no_recvs)
				post_recvs(crew, qp);
			if (!post_sends(crew, qp)) {
				while (reap(crew))
					;
				check_ledgers(crew, "when it is gone");
				crew->refused = true;
				return NULL;
			}
		}
		if (no_recvs)
			atomic_store(&crew->settled, true);
		if (idle)
			sched_yield();
	}
	return NULL;
}

static void open_side(int side)
{
	device_open(&devices[side], names[side]);
	memset(memory[side], side, LONGEST);
	mrs[side] = ibv_reg_mr(devices[side].pd, memory[side], LONGEST,
			       ALL_ACCESS);
	check(mrs[side], "reg_mr: %m");
}

static void close_side(int side)
{
	check(!ibv_dereg_mr(mrs[side]), "dereg_mr: %m");
	device_close(&devices[side]);
}

static void create_crew(struct crew *crew, int side)
{
	memset(crew, 0, sizeof(*crew));
	crew->side = side;
	rng_seed(&crew->rng, seed + ((crew - crews[side]) << 1 | side) * 7919u);
	crew->cq = ibv_create_cq(devices[side].context, QPS * (SENDS + RECVS),
				 NULL, NULL, 0);
	check(crew->cq, "create_cq: %m");
	for (int qp = 0; qp < QPS; qp++) {
		struct end *end = &crew->ends[qp];
		struct ibv_qp_init_attr init = {
			.qp_type = type_of(qp),
			.send_cq = crew->cq,
			.recv_cq = crew->cq,
			.cap = { .max_send_wr = SENDS,
				 .max_recv_wr = RECVS,
				 .max_send_sge = 1,
				 .max_recv_sge = 1 },
		};

		end->device = &devices[side];
		end->type = init.qp_type;
		end->qp = ibv_create_qp(devices[side].pd, &init);
		check(end->qp, "create_qp: %m");
	}
}

static void destroy_crew(struct crew *crew)
{
	for (int qp = 0; qp < QPS; qp++)
		check(!ibv_destroy_qp(crew->ends[qp].qp), "destroy_qp: %m");
	check(!reap(crew), "%s: a completion after the end", names[crew->side]);
	check(!ibv_destroy_cq(crew->cq), "destroy_cq: %m");
}

static void start(void)
{
	atomic_store(&last_orders, false);
	atomic_store(&closed, false);
	for (int i = 0; i < CREWS; i++) {
		for (int side = 0; side < 2; side++)
			create_crew(&crews[side][i], side);
		for (int qp = 0; qp < QPS; qp++) {
			end_connect(&crews[0][i].ends[qp], &crews[1][i].ends[qp],
				    &default_path);
			for (int side = 0; side < 2; side++)
				post_recvs(&crews[side][i], qp);
		}
	}
	for (int i = 0; i < CREWS; i++)
		for (int side = 0; side < 2; side++)
			check(!pthread_create(&crews[side][i].thread, NULL, work,
					      &crews[side][i]),
			      "pthread_create");
}

/* All have traffic. */
static bool is_warm(const struct crew *crew)
{
	return atomic_load(&crew->done) >= WARM;
}

static bool is_settled(const struct crew *crew)
{
	return atomic_load(&crew->settled);
}

static void await_all(bool (*holds)(const struct crew *crew), const char *what)
{
	uint64_t due = now_ms() + DUE_MS;

	for (int i = 0; i < CREWS; i++)
		for (int side = 0; side < 2; side++)
			while (!holds(&crews[side][i])) {
				check(now_ms() < due, "seed %llu: %s: no %s",
				      (unsigned long long)seed, names[side], what);
				usleep(100);
			}
}

/* The device has told that it is gone, as the last event. */
static void expect_fatal(void)
{
	struct pollfd fd = { .fd = devices[0].context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;
	bool fatal = false;

	while (poll(&fd, 1, 0) == 1 && (fd.revents & POLLIN) &&
	       !ibv_get_async_event(devices[0].context, &event)) {
		check(!fatal, "event '%s' of a device that is gone",
		      ibv_event_type_str(event.event_type));
		fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	check(fatal, "seed %llu: no event", (unsigned long long)seed);
}

/* The peers' work, which ends by their own flush at last. */
static void end_peers(struct crew *crew)
{
	uint64_t due = now_ms() + DUE_MS;

	for (int qp = 0; qp < QPS; qp++)
		end_to(&crew->ends[qp], IBV_QPS_ERR);
	for (int qp = 0; qp < QPS; qp++)
		for (enum queue queue = SEND; queue < QUEUES; queue++) {
			const struct ledger *ledger = &crew->ledgers[qp][queue];

			while (ledger->done != ledger->posted && now_ms() < due)
				reap(crew);
		}
	check_ledgers(crew, "after its flush");
}

static void count(const struct crew *crew)
{
	for (int qp = 0; qp < QPS; qp++)
		for (enum queue queue = SEND; queue < QUEUES; queue++) {
			total += crew->ledgers[qp][queue].done;
			total_flushed += crew->ledgers[qp][queue].flushed;
		}
}

static void run_round(struct rng *rng)
{
	int error = nldev_new_link(names[0], "sib", netdev), index;

	check(!error, "new link %s: %s", names[0], strerror(error));
	index = nldev_index(names[0]);
	open_side(0);
	start();
	await_all(is_warm, "traffic");
	usleep(rng_below(rng, MOST_US));
	atomic_store(&last_orders, true);
	await_all(is_settled, "end of receives");
	error = nldev_delete_link(index);
	check(!error, "delete link %s: %s", names[0], strerror(error));
	expect_fatal();
	for (int i = 0; i < CREWS; i++) {
		struct crew *crew = &crews[0][i];
		uint64_t due = now_ms() + LOST_MS;

		while (pthread_tryjoin_np(crew->thread, NULL)) {
			/* It waits for what has been lost. */
			if (now_ms() >= due)
				atomic_store(&closed, true);
			usleep(100);
		}
		check_ledgers(crew, "long after it is gone");
		check(crew->refused, "seed %llu: no post was refused",
		      (unsigned long long)seed);
		check(!reap(crew), "seed %llu: a completion after the end",
		      (unsigned long long)seed);
		count(crew);
	}
	atomic_store(&closed, true);
	for (int i = 0; i < CREWS; i++) {
		check(!pthread_join(crews[1][i].thread, NULL), "pthread_join");
		end_peers(&crews[1][i]);
		count(&crews[1][i]);
	}
	for (int i = 0; i < CREWS; i++)
		for (int side = 0; side < 2; side++)
			destroy_crew(&crews[side][i]);
	close_side(0);
}

/* Receives that are posted to a queue pair in error, without a system call, just before the device goes. */
static void run_late(void)
{
	static const struct end_options options = {
		.type = IBV_QPT_RC,
		.send_depth = SENDS,
		.recv_depth = RECVS,
		.sges = 1,
	};
	int error = nldev_new_link(names[0], "sib", netdev), index;
	struct ibv_recv_wr wr = {};
	struct end end;
	struct ibv_wc wc;

	check(!error, "new link %s: %s", names[0], strerror(error));
	index = nldev_index(names[0]);
	open_side(0);
	end_create(&end, &devices[0], &options);
	end_to_init(&end, &default_path);
	end_to(&end, IBV_QPS_ERR);
	/* The device looks at it from time to time, and less and less often. */
	usleep(LATE_MS * 1000);
	for (; wr.wr_id < RECVS; wr.wr_id++)
		post_recv(&end, &wr);
	error = nldev_delete_link(index);
	check(!error, "delete link %s: %s", names[0], strerror(error));
	expect_fatal();
	for (uint64_t i = 0; i < RECVS; i++)
		check(await(end.recv_cq, &wc, LOST_MS) && wc.wr_id == i &&
			      wc.status == IBV_WC_WR_FLUSH_ERR,
		      "receive %llu of a queue pair in error is lost",
		      (unsigned long long)i);
	end_destroy(&end);
	close_side(0);
}

int main(int argc, char **argv)
{
	uint64_t rounds = 10, began = now_ms();
	const struct cmdline_option options[] = {
		{ 'a', "DEV", .text = &names[0] },
		{ 'd', "NETDEV", .text = &netdev },
		{ 'b', "DEV[:PORT]", .text = &names[1] },
		{ 'n', "ROUNDS", .u64 = &rounds },
		{ 's', "SEED", .u64 = &seed },
		{},
	};
	struct rng rng;

	options_read(argc, argv, options, NULL);
	/* What is gone may be destroyed. */
	check(!setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1), "setenv");
	nldev_open();
	for (int side = 0; side < 2; side++) {
		memory[side] = aligned_alloc(4096, LONGEST);
		check(memory[side], "out of memory");
	}
	open_side(1);
	for (uint64_t end = seed + rounds; seed < end; seed++) {
		rng_seed(&rng, seed);
		run_round(&rng);
	}
	for (int i = 0; i < LATE_ROUNDS; i++)
		run_late();
	close_side(1);
	printf("removal: %llu times, %llu work requests, all accounted for, %llu of them flushed, %llu ms\n",
	       (unsigned long long)rounds, (unsigned long long)total,
	       (unsigned long long)total_flushed,
	       (unsigned long long)(now_ms() - began));
	return 0;
}
