// SPDX-License-Identifier: GPL-2.0
/*
 * Forged packets at queue pairs of all types and in all states, by somebody who has the
 * cookie of the cable: every opcode, and every field wrong, with an ICRC that is right.
 *
 *     siege -a DEVICE -b DEVICE -e NETDEV -o NETDEV [-S SECONDS] [-s SEED]
 *
 * A cable ties the switch of NETDEV -e, on which the first HCA is, to that of -o, on which
 * the second one is. Queue pairs end by the statuses that the IBA has, each work request
 * completes once and in order, memory that nobody was granted stays as it is, and queue
 * pairs that take nothing in their state take nothing.
 */

#include "siege.h"
#include "options.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DUE_MS 60000
/* After which a packet is taken for lost. */
#define LOST_MS 500
#define FENCE_DEPTH 64u
#define FENCE_IMM 0x5eed0000u
/* A code of half a minute and more, for a peer that is mute. */
#define PATIENT_TIMEOUT 22
#define MOST_FORGED 80

struct device devices[2];
struct rng rng;
struct wiretap tap;
uint8_t *memory;
struct ibv_mr *granted, *frozen, *local, *secret;

static struct ibv_pd *other_pd;
static uint8_t *pattern, *secrets, *far;
static struct ibv_mr *far_mr;
/* Which bytes may change in this round. */
static bool *may_change;
static struct victim fence;
/* Where what the fence gets goes. */
static uint8_t *hole;
static struct ibv_mr *hole_mr;
static struct ibv_ah *way;
static uint64_t rounds, received, answered, written, broken;

static void fill(void)
{
	for (size_t i = 0; i < MEMORY_BYTES; i++)
		pattern[i] = i * 31 ^ i >> 8;
	memcpy(memory, pattern, MEMORY_BYTES);
	memcpy(secrets, pattern, GRANTED_BYTES);
	memset(may_change, 0, MEMORY_BYTES * sizeof(*may_change));
}

static void open_up(size_t at, size_t length)
{
	for (size_t i = 0; i < length; i++)
		may_change[at + i] = true;
}

static void check_memory(const struct victim *victim)
{
	bool has_written = false;

	for (size_t i = 0; i < MEMORY_BYTES; i++) {
		if (memory[i] == pattern[i])
			continue;
		check(may_change[i], "byte %#zx has changed: type %d, state %d",
		      i, victim->type, victim->state);
		has_written |= i >= GRANTED_AT && i < GRANTED_AT + GRANTED_BYTES;
	}
	check(!memcmp(secrets, pattern, GRANTED_BYTES),
	      "memory of another protection domain has changed");
	written += has_written;
	fill();
}

/* Whether a queue pair takes packets in this state. */
static bool is_deaf(enum ibv_qp_state state)
{
	return state == IBV_QPS_RESET || state == IBV_QPS_INIT ||
	       state == IBV_QPS_ERR;
}

static void post_receives(struct victim *victim)
{
	for (; victim->recvs < SIEGE_DEPTH; victim->recvs++) {
		size_t at = LOCAL_AT + victim->recvs * RECV_BYTES;
		uint32_t length = GRH_BYTES +
				  rng_below(&rng, RECV_BYTES - GRH_BYTES);
		struct ibv_sge sge = { (uintptr_t)memory + at, length,
				       local->lkey };
		struct ibv_recv_wr wr = { .wr_id = victim->recvs,
					  .sg_list = &sge,
					  .num_sge = 1 };

		post_recv(&victim->end, &wr);
		if (!is_deaf(victim->state))
			open_up(at, length);
	}
}

static enum ibv_wr_opcode some_opcode(const struct victim *victim)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	switch (victim->type) {
	case IBV_QPT_RC:
		return opcodes[rng_below(&rng, 4)];
	case IBV_QPT_UC:
		return opcodes[rng_below(&rng, 2)];
	default:
		return IBV_WR_SEND;
	}
}

/* Posts a send; its length. */
static uint32_t post_one(struct victim *victim, enum ibv_wr_opcode opcode,
			 uint32_t lkey)
{
	size_t at = SEND_AT + victim->sends * SEND_BYTES;
	bool is_atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	uint32_t length = is_atomic ? 8 : 1 + rng_below(&rng, SEND_BYTES - 64);
	struct ibv_sge sge = { (uintptr_t)memory + at, length, lkey };
	struct ibv_send_wr wr = {
		.wr_id = victim->sends++,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (victim->type == IBV_QPT_UD) {
		sge.length = 1 + rng_below(&rng, 256);
		wr.wr.ud.ah = way;
		wr.wr.ud.remote_qpn = victim->peer.qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (is_atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)far;
		wr.wr.atomic.rkey = far_mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)far;
		wr.wr.rdma.rkey = far_mr->rkey;
	}
	if (is_atomic || opcode == IBV_WR_RDMA_READ)
		open_up(at, length);
	post_send(&victim->end, &wr);
	return sge.length;
}

/* How a receive ends whose message is refused. */
static bool is_refusal(enum ibv_wc_status status)
{
	return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_ACCESS_ERR ||
	       status == IBV_WC_REM_INV_REQ_ERR;
}

/* An unreliable queue pair gives such a receive back, if it is shared, and goes on. */
static bool outlives_refusals(const struct victim *victim)
{
	return victim->type != IBV_QPT_RC && victim->end.srq;
}

static bool may_end(const struct victim *victim, bool is_send,
		    enum ibv_wc_status status)
{
	if (status == IBV_WC_WR_FLUSH_ERR)
		return true;
	if (!is_send)
		return !is_deaf(victim->state) &&
		       (status == IBV_WC_SUCCESS ||
			((victim->type == IBV_QPT_RC ||
			  outlives_refusals(victim)) &&
			 is_refusal(status)));
	switch (status) {
	case IBV_WC_SUCCESS:
		return true;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_BAD_RESP_ERR:
		return victim->type == IBV_QPT_RC;
	default:
		return false;
	}
}

/* Takes all completions of a queue: there are `posted`, or fewer with an SRQ. */
static void account(struct victim *victim, bool is_send, uint32_t posted)
{
	struct ibv_cq *cq = is_send ? victim->end.send_cq : victim->end.recv_cq;
	bool may_stay = !is_send && victim->end.srq;
	const char *queue = is_send ? "send" : "receive";
	bool failed = false;
	struct ibv_wc wc;
	uint32_t number = 0;

	for (; number < posted; number++) {
		if (!await(cq, &wc, may_stay ? 0 : DUE_MS)) {
			check(may_stay, "%s %u of %u does not end: type %d, state %d",
			      queue, number, posted, victim->type, victim->state);
			return;
		}
		check(wc.wr_id == number, "%s %llu ends, not %u", queue,
		      (unsigned long long)wc.wr_id, number);
		check(may_end(victim, is_send, wc.status) &&
			      (!failed || wc.status == IBV_WC_WR_FLUSH_ERR),
		      "%s %u: '%s'%s: type %d, state %d", queue, number,
		      ibv_wc_status_str(wc.status), failed ? " after an error" : "",
		      victim->type, victim->state);
		failed |= wc.status != IBV_WC_SUCCESS &&
			  !(!is_send && outlives_refusals(victim) &&
			    is_refusal(wc.status));
		received += !is_send && !wc.status;
		answered += is_send && !wc.status;
	}
	check(!await(cq, &wc, 0), "one more %s has ended than was posted: type %d, state %d",
	      queue, victim->type, victim->state);
}

static void receive_at_fence(void)
{
	struct ibv_sge sge = { (uintptr_t)hole, GRH_BYTES + 8, hole_mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	post_recv(&fence.end, &wr);
}

/* Returns when all that was sent so far has arrived. */
static void pass_fence(void)
{
	static uint32_t number = FENCE_IMM;
	uint64_t until = now_ms() + DUE_MS;
	struct ib_packet packet =
		right_packet(&fence, IB_SEND_ONLY_IMM, pattern, 8);
	struct ibv_wc wc = {};

	packet.imm = ++number;
	do {
		check(now_ms() < until, "nothing comes through any more");
		send_packet(&packet);
		wiretap_flush(&tap);
		if (!await(fence.end.recv_cq, &wc, LOST_MS))
			continue;
		check(!wc.status, "the fence: %s", ibv_wc_status_str(wc.status));
		receive_at_fence();
	} while (be32toh(wc.imm_data) != number);
}

static void make_ends(struct victim *victim, bool srq)
{
	const struct end_options options = {
		.type = victim->type,
		.send_depth = SIEGE_DEPTH,
		.recv_depth = FENCE_DEPTH,
		.sges = 1,
		.with_srq = srq,
	};

	end_create(&victim->end, &devices[0], &options);
	end_create(&victim->peer, &devices[1], &options);
	victim->end.psn = rng_next(&rng) & PSN_MASK;
	victim->peer.psn = rng_next(&rng) & PSN_MASK;
	victim->next_psn = victim->peer.psn;
	victim->mtu = 128u << devices[0].port_attr.active_mtu;
}

static void destroy_ends(struct victim *victim)
{
	end_destroy(&victim->end);
	end_destroy(&victim->peer);
}

/* A send whose memory is out of reach puts the send queue into the error state. */
static void to_sqe(struct victim *victim)
{
	struct ibv_wc wc;

	post_one(victim, IBV_WR_SEND, local->lkey ^ 1);
	victim->sends = 0;
	check(await(victim->end.send_cq, &wc, DUE_MS) &&
		      wc.status == IBV_WC_LOC_PROT_ERR,
	      "a send from no memory has another end");
	check(end_state(&victim->end) == IBV_QPS_SQE, "the state is not SQE");
}

/* What a reliable connection has sent may have broken it already. */
static void leave_rts(struct victim *victim)
{
	struct ibv_qp_attr attr = { .qp_state = victim->state };
	int error = ibv_modify_qp(victim->end.qp, &attr, IBV_QP_STATE);

	check(!error || (victim->type == IBV_QPT_RC &&
			 end_state(&victim->end) == IBV_QPS_ERR),
	      "modify_qp to state %d: %s", victim->state, strerror(error));
}

static void to_state(struct victim *victim, const struct path_options *path)
{
	struct end *end = &victim->end;

	if (victim->state == IBV_QPS_RESET)
		return;
	end_to_init(end, path);
	end_to_init(&victim->peer, path);
	post_receives(victim);
	if (victim->state == IBV_QPS_INIT)
		return;
	end_to_rtr(end, &victim->peer, path);
	if (!victim->is_mute) {
		end_to_rtr(&victim->peer, end, path);
		end_to_rts(&victim->peer, path);
	}
	if (victim->state == IBV_QPS_RTR)
		return;
	end_to_rts(end, path);
	if (victim->state == IBV_QPS_SQE)
		return to_sqe(victim);
	for (uint32_t left = victim->is_tame ? 0 : rng_below(&rng, SIEGE_DEPTH);
	     left; left--)
		post_one(victim, some_opcode(victim), local->lkey);
	if (victim->state != IBV_QPS_RTS)
		leave_rts(victim);
}

static void check_state(struct victim *victim)
{
	enum ibv_qp_state state = end_state(&victim->end);
	bool may_break = !is_deaf(victim->state) && victim->type == IBV_QPT_RC;

	check(state == victim->state || (may_break && state == IBV_QPS_ERR),
	      "type %d was in state %d, and is in %d", victim->type,
	      victim->state, state);
	broken += state != victim->state;
}

/* Makes a victim of which type, state and the rest are chosen. */
static void make_victim(struct victim *victim, bool srq)
{
	struct path_options path = default_path;

	make_ends(victim, srq);
	if (victim->is_tame) {
		path.timeout = PATIENT_TIMEOUT;
	} else {
		if (rng_once_in(&rng, 4))
			path.access = rng_next(&rng) & ALL_ACCESS;
		path.mtu = 1 + rng_below(&rng, devices[0].port_attr.active_mtu);
		if (victim->type != IBV_QPT_UD)
			victim->mtu = 128u << path.mtu;
	}
	if (!is_deaf(victim->state))
		open_up(GRANTED_AT, GRANTED_BYTES);
	to_state(victim, &path);
}

static void end_victim(struct victim *victim)
{
	pass_fence();
	check_state(victim);
	if (victim->state != IBV_QPS_RESET)
		end_to(&victim->end, IBV_QPS_ERR);
	account(victim, true, victim->sends);
	account(victim, false, victim->recvs);
	destroy_ends(victim);
	check_memory(victim);
	rounds++;
}

static void one_round(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC,
						  IBV_QPT_UD };
	static const enum ibv_qp_state states[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
		IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR,
	};
	struct victim victim = {
		.type = types[rng_below(&rng, ARRAY_SIZE(types))],
		.state = states[rng_below(&rng, ARRAY_SIZE(states))],
		.is_mute = rng_once_in(&rng, 2),
	};

	if (victim.type == IBV_QPT_RC && victim.state == IBV_QPS_SQE)
		victim.state = IBV_QPS_RTS;
	make_victim(&victim, victim.type != IBV_QPT_UC && rng_once_in(&rng, 4));
	storm(&victim, 1 + rng_below(&rng, MOST_FORGED));
	end_victim(&victim);
}

/* What is right has the effect that it should: so forged packets come to queue pairs. */
static void right_ones(enum ibv_qp_type type, enum ibv_qp_state state)
{
	static const uint8_t bytes[256] = "right";
	uint64_t before[] = { received, written, answered };
	struct victim victim = { .type = type, .state = state,
				 .is_mute = true, .is_tame = true };
	bool hears = !is_deaf(state), is_ud = type == IBV_QPT_UD;
	bool sends = type == IBV_QPT_RC && state == IBV_QPS_RTS;
	struct ib_packet packet;

	make_victim(&victim, false);
	packet = right_packet(&victim, IB_SEND_ONLY, bytes, 1);
	send_packet(&packet);
	if (!is_ud) {
		packet = right_packet(&victim, IB_WRITE_ONLY, bytes, 256);
		packet.psn = (packet.psn + 1) & PSN_MASK;
		send_packet(&packet);
	}
	if (sends) {
		uint32_t length = post_one(&victim, IBV_WR_RDMA_WRITE,
					   local->lkey);

		packet = right_packet(&victim, IB_ACK, bytes, 0);
		packet.psn = victim.end.psn + (length - 1) / victim.mtu;
		packet.psn &= PSN_MASK;
		packet.msn = 1;
		send_packet(&packet);
	}
	end_victim(&victim);
	check(received == before[0] + hears && answered == before[2] + sends &&
		      written == before[1] + (hears && !is_ud),
	      "type %d, state %d: what is right has another effect", type, state);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *at, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, length, access);

	check(mr, "reg_mr: %m");
	return mr;
}

static void *pages(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(at != MAP_FAILED, "mmap: %m");
	return at;
}

static void prepare(void)
{
	struct ibv_ah_attr attr = path_to(&devices[0], &devices[1], false);

	memory = pages(MEMORY_BYTES);
	secrets = pages(GRANTED_BYTES);
	far = pages(GRANTED_BYTES);
	hole = pages(GRANTED_BYTES);
	pattern = malloc(MEMORY_BYTES);
	may_change = calloc(MEMORY_BYTES, sizeof(*may_change));
	other_pd = ibv_alloc_pd(devices[0].context);
	way = ibv_create_ah(devices[0].pd, &attr);
	check(pattern && may_change && other_pd && way, "no memory: %m");
	granted = reg(devices[0].pd, memory + GRANTED_AT, GRANTED_BYTES,
		      ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL);
	frozen = reg(devices[0].pd, memory + FROZEN_AT, FROZEN_BYTES,
		     IBV_ACCESS_REMOTE_READ);
	local = reg(devices[0].pd, memory + LOCAL_AT, LOCAL_BYTES,
		    IBV_ACCESS_LOCAL_WRITE);
	secret = reg(other_pd, secrets, GRANTED_BYTES, ALL_ACCESS);
	far_mr = reg(devices[1].pd, far, GRANTED_BYTES, ALL_ACCESS);
	hole_mr = reg(devices[0].pd, hole, GRANTED_BYTES, IBV_ACCESS_LOCAL_WRITE);
	fill();
}

static void raise_fence(void)
{
	fence.type = IBV_QPT_UD;
	make_ends(&fence, false);
	end_connect(&fence.end, &fence.peer, &default_path);
	for (uint32_t i = 0; i < FENCE_DEPTH; i++)
		receive_at_fence();
}

static void clean_up(void)
{
	struct ibv_mr *mrs[] = { granted, frozen, local, secret, far_mr, hole_mr };

	destroy_ends(&fence);
	check(!ibv_destroy_ah(way), "destroy_ah: %m");
	for (size_t i = 0; i < ARRAY_SIZE(mrs); i++)
		check(!ibv_dereg_mr(mrs[i]), "dereg_mr: %m");
	check(!ibv_dealloc_pd(other_pd), "dealloc_pd: %m");
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
}

/* On one processor packets do not overtake each other. */
static void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	check(!sched_setaffinity(0, sizeof(here), &here), "sched_setaffinity: %m");
}

int main(int argc, char **argv)
{
	const char *names[2] = { "sib0", "sib1" }, *netdevs[2] = { "v0", "v1" };
	static const enum ibv_qp_state states[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
		IBV_QPS_SQD, IBV_QPS_ERR,
	};
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC,
						  IBV_QPT_UD };
	uint64_t seconds = 5, seed = 1, began = now_ms();
	const struct cmdline_option options[] = {
		{ 'a', "DEV", .text = &names[0] },
		{ 'b', "DEV", .text = &names[1] },
		{ 'e', "NETDEV", .text = &netdevs[0] },
		{ 'o', "NETDEV", .text = &netdevs[1] },
		{ 'S', "SECONDS", .u64 = &seconds },
		{ 's', "SEED", .u64 = &seed },
		{},
	};

	options_read(argc, argv, options, NULL);
	printf("siege: seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	rng_seed(&rng, seed);
	stay_here();
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], names[i]);
	wiretap_open(&tap, netdevs[0], netdevs[1]);
	prepare();
	raise_fence();
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		for (size_t j = 0; j < ARRAY_SIZE(states); j++)
			right_ones(types[i], states[j]);
	do
		one_round();
	while (now_ms() - began < seconds * 1000);
	clean_up();
	wiretap_close(&tap);
	printf("siege: %llu packets, %llu batches of them; %llu queue pairs, %llu of them broken; %llu messages taken, %llu sends done, %llu times memory written\n",
	       (unsigned long long)tap.sent, (unsigned long long)tap.batches,
	       (unsigned long long)rounds, (unsigned long long)broken,
	       (unsigned long long)received, (unsigned long long)answered,
	       (unsigned long long)written);
	return 0;
}
