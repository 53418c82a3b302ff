// SPDX-License-Identifier: GPL-2.0

#include "bench.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How long pages stay. */
#define STAY_US 200

static bool on_demand;
static pthread_t thief;
static atomic_bool thieving;

void bench_options(int *argc, char ***argv)
{
	if (*argc > 1 && !strcmp((*argv)[1], "-o")) {
		on_demand = true;
		(*argv)[1] = (*argv)[0];
		--*argc;
		++*argv;
	}
}

struct ibv_mr *bench_reg(struct ibv_pd *pd, uint8_t *bytes, unsigned int access)
{
	struct ibv_mr *mr =
		ibv_reg_mr(pd, bytes, BENCH_BYTES,
			   access | (on_demand ? IBV_ACCESS_ON_DEMAND : 0));

	check(mr, "reg_mr: %m");
	return mr;
}

/* Shared, so that pages can be taken away and what they hold stays. */
static uint8_t *bench_memory(int value)
{
	uint8_t *bytes = mmap(NULL, BENCH_BYTES, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	check(bytes != MAP_FAILED, "mmap: %m");
	memset(bytes, value, BENCH_BYTES);
	return bytes;
}

static void *steal(void *argument)
{
	const struct bench *bench = argument;

	while (atomic_load(&thieving)) {
		check(!madvise(bench->local, BENCH_BYTES, MADV_DONTNEED) &&
			      !madvise(bench->remote, BENCH_BYTES,
				       MADV_DONTNEED),
		      "madvise: %m");
		usleep(STAY_US);
	}
	return NULL;
}

void bench_create(struct bench *bench, struct device *a, struct device *b,
		  const struct end_options *options)
{
	end_create(&bench->a, a, options);
	end_create(&bench->b, b, options);
	bench->devices[0] = a;
	bench->devices[1] = b;
	bench->local = bench_memory(0xaa);
	bench->remote = bench_memory(0xbb);
	bench->local_mr = bench_reg(a->pd, bench->local, ALL_ACCESS);
	bench->frozen_mr = bench_reg(a->pd, bench->local, 0);
	bench->remote_mr = bench_reg(b->pd, bench->remote, ALL_ACCESS);
	bench->readable_mr = bench_reg(b->pd, bench->remote,
				       IBV_ACCESS_LOCAL_WRITE |
					       IBV_ACCESS_REMOTE_READ);
	bench->writable_mr = bench_reg(b->pd, bench->remote,
				       IBV_ACCESS_LOCAL_WRITE |
					       IBV_ACCESS_REMOTE_WRITE);
	atomic_store(&thieving, on_demand);
	check(!on_demand || !pthread_create(&thief, NULL, steal, bench),
	      "pthread_create");
}

void bench_destroy(struct bench *bench)
{
	struct ibv_mr *mrs[] = { bench->local_mr, bench->frozen_mr,
				 bench->remote_mr, bench->readable_mr,
				 bench->writable_mr };

	if (atomic_exchange(&thieving, false))
		pthread_join(thief, NULL);
	if (bench->a.qp)
		end_destroy(&bench->a);
	if (bench->b.qp)
		end_destroy(&bench->b);
	for (size_t i = 0; i < ARRAY_SIZE(mrs); i++)
		check(!ibv_dereg_mr(mrs[i]), "dereg_mr: %m");
	check(!munmap(bench->local, BENCH_BYTES) &&
		      !munmap(bench->remote, BENCH_BYTES),
	      "munmap: %m");
}

struct ibv_sge sge_local(const struct bench *bench, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)bench->local, length,
				 bench->local_mr->lkey };
}

struct ibv_sge sge_remote(const struct bench *bench, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)bench->remote, length,
				 bench->remote_mr->lkey };
}

void post_recvs(const struct bench *bench, struct end *end, uint64_t first,
		int count, uint32_t length)
{
	struct ibv_sge sge = end == &bench->a ? sge_local(bench, length) :
						sge_remote(bench, length);

	for (int i = 0; i < count; i++) {
		struct ibv_recv_wr wr = { .wr_id = first + i,
					  .sg_list = &sge,
					  .num_sge = 1 };

		post_recv(end, &wr);
	}
}

void post_sends(struct bench *bench, uint64_t first, int count)
{
	struct ibv_sge sge = sge_local(bench, 8);

	for (int i = 0; i < count; i++) {
		struct ibv_send_wr wr = {
			.wr_id = first + i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = i % 2 ? 0 : IBV_SEND_SIGNALED,
		};

		post_send(&bench->a, &wr);
	}
}

void expect(const char *test, struct ibv_cq *cq, uint64_t wr_id,
	    enum ibv_wc_status status)
{
	struct ibv_wc wc;

	check(await(cq, &wc, DUE_MS), "%s: no completion of WR %llu", test,
	      (unsigned long long)wr_id);
	check(wc.wr_id == wr_id && wc.status == status,
	      "%s: WR %llu completes with '%s'; due was WR %llu with '%s'",
	      test, (unsigned long long)wc.wr_id,
	      ibv_wc_status_str(wc.status), (unsigned long long)wr_id,
	      ibv_wc_status_str(status));
}

void expect_run(const char *test, struct ibv_cq *cq, uint64_t first, int count,
		enum ibv_wc_status status)
{
	for (int i = 0; i < count; i++)
		expect(test, cq, first + i, status);
}

void expect_none(const char *test, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	check(!await(cq, &wc, QUIET_MS),
	      "%s: WR %llu completes with '%s'; nothing was due", test,
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

void expect_event(const char *test, struct device *device, int type)
{
	struct pollfd fd = { .fd = device->context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, type < 0 ? QUIET_MS : DUE_MS) <= 0) {
		check(type < 0, "%s: no event '%s'", test,
		      ibv_event_type_str(type));
		return;
	}
	check(!ibv_get_async_event(device->context, &event),
	      "get_async_event: %m");
	ibv_ack_async_event(&event);
	check((int)event.event_type == type, "%s: event '%s'", test,
	      ibv_event_type_str(event.event_type));
}

bool notified(const char *test, struct end *end, struct ibv_cq *due, int ms)
{
	struct pollfd fd = { .fd = end->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, ms) != 1)
		return false;
	check(!ibv_get_cq_event(end->channel, &cq, &context),
	      "get_cq_event: %m");
	ibv_ack_cq_events(cq, 1);
	check(cq == due, "%s: of another queue", test);
	return true;
}
