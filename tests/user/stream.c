// SPDX-License-Identifier: GPL-2.0

#include "stream.h"

#include <arpa/inet.h>
#include <string.h>

/* Slots: two each for odd and even steps, then those that do not change. */
enum { SOURCE, WRITTEN = 2, RECEIVED = 4, OFFERED = 6, READ, SLOTS };
#define NUMBERS 64u
#define SENDS 4

const struct end_options stream_end = {
	.type = IBV_QPT_RC,
	.send_depth = 2 * SENDS,
	.recv_depth = 4,
	.sges = 1,
	.one_cq = true,
};

uint64_t stream_bytes(uint32_t slot)
{
	return SLOTS * (uint64_t)slot + NUMBERS;
}

static uint64_t offset(const struct stream *it, uint32_t slot)
{
	return it->index * stream_bytes(it->memory->slot) +
	       (uint64_t)slot * it->memory->slot;
}

static uint8_t *at(const struct stream *it, uint32_t slot)
{
	return it->memory->bytes + offset(it, slot);
}

/* The counter of the stream, and what has been fetched of the peer's. */
static uint64_t *number(const struct stream *it, int which)
{
	return (uint64_t *)at(it, SLOTS) + which;
}

/* How long the messages of an end are in a step: both know. */
static uint32_t length(const struct stream *it, bool of_caller)
{
	uint32_t x = it->step * 2654435761u + it->index * 40503u + of_caller * 97u;

	return 1 + (x >> 8) % it->memory->slot;
}

static uint64_t seed(const struct stream *it, bool of_caller, uint64_t step)
{
	return step * 512 + it->index * 2 + of_caller;
}

static void fill(uint8_t *bytes, uint32_t count, uint64_t from)
{
	for (uint32_t i = 0; i < count; i++)
		bytes[i] = from * 37 + (from >> 9) + i + (i >> 8) * 11;
}

static void compare(const struct stream *it, const char *what,
		    const uint8_t *bytes, uint32_t count, uint64_t from)
{
	for (uint32_t i = 0; i < count; i++)
		check(bytes[i] == (uint8_t)(from * 37 + (from >> 9) + i +
					    (i >> 8) * 11),
		      "%s of connection %u: byte %u of %u is wrong in step %llu",
		      what, it->index, i, count, (unsigned long long)it->step);
}

/* The wr_id of what is sent in a step; behind those, of what is received. */
static uint64_t name(uint64_t step, int which)
{
	return step * (SENDS + 1) + which;
}

static void post_receive(struct stream *it, uint64_t step)
{
	struct ibv_sge sge = { (uintptr_t)at(it, RECEIVED + step % 2),
			       it->memory->slot, it->memory->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = name(step, SENDS),
				  .sg_list = &sge,
				  .num_sge = 1 };

	post_recv(it->end, &wr);
}

static void post(struct stream *it, int which, enum ibv_wr_opcode opcode,
		 void *local, uint64_t remote, uint32_t count)
{
	struct ibv_sge sge = { (uintptr_t)local, count, it->memory->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = name(it->step, which),
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(it->step << 1 | it->is_last),
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = it->memory->remote + remote;
		wr.wr.atomic.rkey = it->memory->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (opcode != IBV_WR_SEND_WITH_IMM) {
		wr.wr.rdma.remote_addr = it->memory->remote + remote;
		wr.wr.rdma.rkey = it->memory->rkey;
	}
	post_send(it->end, &wr);
}

static void take_receive(struct stream *it, const struct ibv_wc *wc)
{
	uint32_t odd = it->step % 2, count = length(it, !it->is_caller);
	uint64_t from = seed(it, !it->is_caller, it->step);
	uint32_t said = ntohl(wc->imm_data);

	check(!it->received && wc->byte_len == count &&
		      said >> 1 == it->step,
	      "connection %u: %u bytes of step %u, not %u of %llu", it->index,
	      wc->byte_len, said >> 1, count, (unsigned long long)it->step);
	compare(it, "SEND", at(it, RECEIVED + odd), count, from);
	compare(it, "WRITE", at(it, WRITTEN + odd), count, from);
	it->received = true;
	it->is_last |= said & 1;
}

static void begin_step(struct stream *it, bool ends)
{
	uint32_t odd = it->step % 2, count = length(it, it->is_caller);
	uint8_t *source = at(it, SOURCE + odd);

	it->sent = 0;
	it->received = false;
	it->is_last = ends && it->is_caller;
	post_receive(it, it->step + 1);
	fill(source, count, seed(it, it->is_caller, it->step));
	memset(at(it, READ), 0, count);
	post(it, 0, IBV_WR_RDMA_WRITE, source, offset(it, WRITTEN + odd), count);
	post(it, 1, IBV_WR_SEND_WITH_IMM, source, 0, count);
	post(it, 2, IBV_WR_RDMA_READ, at(it, READ), offset(it, OFFERED), count);
	post(it, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, number(it, 1), offset(it, SLOTS),
	     sizeof(uint64_t));
	if (it->has_ahead)
		take_receive(it, &it->ahead);
	it->has_ahead = false;
}

void stream_begin(struct stream *it)
{
	fill(at(it, OFFERED), it->memory->slot, seed(it, it->is_caller, 0));
	post_receive(it, 0);
}

static void end_step(struct stream *it)
{
	compare(it, "READ", at(it, READ), length(it, it->is_caller),
		seed(it, !it->is_caller, 0));
	check(*number(it, 1) == it->step,
	      "connection %u: counter %llu in step %llu", it->index,
	      (unsigned long long)*number(it, 1),
	      (unsigned long long)it->step);
	it->is_over = it->is_last;
	it->step++;
}

static _Noreturn void break_off(const struct stream *it, const struct ibv_wc *wc)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(!ibv_query_qp(it->end->qp, &attr, IBV_QP_ALT_PATH, &init),
	      "query_qp: %m");
	fail("connection %u: '%s' in step %llu, state of migration %d, by port %u",
	     it->index, ibv_wc_status_str(wc->status),
	     (unsigned long long)it->step, attr.path_mig_state, attr.port_num);
}

void stream_run(struct stream *it, bool ends)
{
	struct ibv_wc wc;

	if (!it->is_begun)
		begin_step(it, ends);
	it->is_begun = true;
	while (ibv_poll_cq(it->end->send_cq, 1, &wc) == 1) {
		if (wc.status || it->is_over)
			break_off(it, &wc);
		if (it->sent < SENDS && wc.wr_id == name(it->step, it->sent)) {
			it->sent++;
		} else if (wc.wr_id == name(it->step, SENDS)) {
			take_receive(it, &wc);
		} else {
			/* The peer may be a step ahead. */
			check(wc.wr_id == name(it->step + 1, SENDS) &&
				      !it->has_ahead,
			      "connection %u: a completion of %llu in step %llu",
			      it->index, (unsigned long long)wc.wr_id,
			      (unsigned long long)it->step);
			it->ahead = wc;
			it->has_ahead = true;
		}
		if (it->sent < SENDS || !it->received)
			continue;
		end_step(it);
		if (!it->is_over)
			begin_step(it, ends);
	}
}
