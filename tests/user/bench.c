// SPDX-License-Identifier: GPL-2.0

#include "bench.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_mr *reg(struct end *end, uint8_t *bytes, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(end->device->pd, bytes, BENCH_BYTES,
				       access);

	check(mr, "reg_mr: %m");
	return mr;
}

void bench_create(struct bench *bench, struct device *a, struct device *b,
		  const struct end_options *options)
{
	end_create(&bench->a, a, options);
	end_create(&bench->b, b, options);
	bench->devices[0] = a;
	bench->devices[1] = b;
	bench->local = aligned_alloc(4096, BENCH_BYTES);
	bench->remote = aligned_alloc(4096, BENCH_BYTES);
	check(bench->local && bench->remote, "out of memory");
	memset(bench->local, 0xaa, BENCH_BYTES);
	memset(bench->remote, 0xbb, BENCH_BYTES);
	bench->local_mr = reg(&bench->a, bench->local, ALL_ACCESS);
	bench->frozen_mr = reg(&bench->a, bench->local, 0);
	bench->remote_mr = reg(&bench->b, bench->remote, ALL_ACCESS);
	bench->readable_mr = reg(&bench->b, bench->remote,
				 IBV_ACCESS_LOCAL_WRITE |
					 IBV_ACCESS_REMOTE_READ);
	bench->writable_mr = reg(&bench->b, bench->remote,
				 IBV_ACCESS_LOCAL_WRITE |
					 IBV_ACCESS_REMOTE_WRITE);
}

void bench_destroy(struct bench *bench)
{
	struct ibv_mr *mrs[] = { bench->local_mr, bench->frozen_mr,
				 bench->remote_mr, bench->readable_mr,
				 bench->writable_mr };

	if (bench->a.qp)
		end_destroy(&bench->a);
	if (bench->b.qp)
		end_destroy(&bench->b);
	for (size_t i = 0; i < ARRAY_SIZE(mrs); i++)
		check(!ibv_dereg_mr(mrs[i]), "dereg_mr: %m");
	free(bench->local);
	free(bench->remote);
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
