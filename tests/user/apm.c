// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic path migration: connections between two HCAs of two ports each go on
 * when a port of the path is pulled, when the peer moves, and when they are told
 * to; every byte and every completion is checked.
 *
 *     apm DEVICE DEVICE HOOK ROUNDS SEED
 *
 * HOOK is a command that does what a program cannot do: "pull PORT NUMBER" breaks
 * the path between the ports with this number in a way that the number chooses,
 * "mend PORT" repairs it, and "state QPN NAME" checks what tools tell.
 */

#include "common.h"

#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define DUE_MS 60000
#define LONGEST 65536u
#define DEPTH 16u
#define PORTS 2
/* Of the paths by the first and by the second port. */
static const uint8_t timeouts[PORTS + 1] = { 0, 14, 15 };

/* What a side's memory is for. */
struct area {
	uint8_t source[LONGEST];
	/* Where the peer writes, sends and reads. */
	uint8_t written[LONGEST];
	uint8_t received[LONGEST];
	uint8_t offered[LONGEST];
	uint8_t read[LONGEST];
	uint64_t counter;
	uint64_t fetched;
};

struct side {
	struct device device;
	struct end end;
	struct area *area;
	struct ibv_mr *mr;
	uint16_t lids[PORTS + 1];
	int migrated;
	int refused;
};

static struct side sides[2];
static struct rng rng;
static const char *hook;
static uint64_t steps;

static pid_t start_hook(const char *word, const char *a, const char *b)
{
	char *const argv[] = { (char *)hook, (char *)word, (char *)a,
			       (char *)b, NULL };
	extern char **environ;
	pid_t pid;

	check(!posix_spawn(&pid, hook, NULL, NULL, argv, environ),
	      "cannot start %s", hook);
	return pid;
}

static void end_hook(pid_t pid)
{
	int status;

	check(waitpid(pid, &status, 0) == pid && !status, "%s: status %#x",
	      hook, status);
}

static void see_events(struct side *side)
{
	struct pollfd fd = { .fd = side->device.context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;

	while (poll(&fd, 1, 0) == 1) {
		check(!ibv_get_async_event(side->device.context, &event),
		      "get_async_event: %m");
		ibv_ack_async_event(&event);
		switch (event.event_type) {
		case IBV_EVENT_PATH_MIG:
			side->migrated++;
			break;
		case IBV_EVENT_PATH_MIG_ERR:
			side->refused++;
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_CQ_ERR:
			fail("%s: event '%s'", side->device.name,
			     ibv_event_type_str(event.event_type));
		default:
			break;
		}
	}
}

static void fill(uint8_t *bytes, uint32_t length, uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = seed * 37 + i + (i >> 8) * 11;
}

static void compare(const char *what, const uint8_t *bytes, uint32_t length,
		    uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		check(bytes[i] == (uint8_t)(seed * 37 + i + (i >> 8) * 11),
		      "%s: byte %u of %u is wrong in step %llu", what, i,
		      length, (unsigned long long)steps);
}

static void expect(struct side *side, struct ibv_cq *cq, uint64_t wr_id,
		   struct ibv_wc *wc)
{
	check(await(cq, wc, DUE_MS), "%s: no completion of %llu in step %llu",
	      side->device.name, (unsigned long long)wr_id,
	      (unsigned long long)steps);
	check(wc->status == IBV_WC_SUCCESS && wc->wr_id == wr_id,
	      "%s: completion of %llu with '%s', not of %llu, in step %llu",
	      side->device.name, (unsigned long long)wc->wr_id,
	      ibv_wc_status_str(wc->status), (unsigned long long)wr_id,
	      (unsigned long long)steps);
}

static void expect_none(struct side *side)
{
	struct ibv_wc wc;

	check(!await(side->end.send_cq, &wc, 0) &&
		      !await(side->end.recv_cq, &wc, 0),
	      "%s: one completion too many", side->device.name);
}

static void request(struct side *side, struct side *peer,
		    enum ibv_wr_opcode opcode, void *local, void *remote,
		    uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)local,
			       .length = length,
			       .lkey = side->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = opcode,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote;
		wr.wr.atomic.rkey = peer->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote;
		wr.wr.rdma.rkey = peer->mr->rkey;
	}
	post_send(&side->end, &wr);
}

/* One of each operation from both sides at the same time. */
static void step(void)
{
	bool reliable = sides[0].end.type == IBV_QPT_RC;
	uint32_t lengths[2];
	struct ibv_wc wc;

	steps++;
	for (int i = 0; i < 2; i++) {
		struct area *area = sides[i].area;
		struct ibv_sge sge = { .addr = (uintptr_t)area->received,
				       .length = LONGEST,
				       .lkey = sides[i].mr->lkey };
		struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 };

		lengths[i] = 1 + rng_below(&rng, LONGEST);
		fill(area->source, lengths[i], 4 * steps + i);
		fill(area->offered, LONGEST, 4 * steps + 2 + i);
		memset(area->written, 0, LONGEST);
		memset(area->received, 0, LONGEST);
		memset(area->read, 0, LONGEST);
		post_recv(&sides[i].end, &recv);
	}
	for (int i = 0; i < 2; i++) {
		struct side *side = &sides[i], *peer = &sides[!i];

		request(side, peer, IBV_WR_RDMA_WRITE, side->area->source,
			peer->area->written, lengths[i]);
		request(side, peer, IBV_WR_SEND, side->area->source, NULL,
			lengths[i]);
		if (!reliable)
			continue;
		request(side, peer, IBV_WR_RDMA_READ, side->area->read,
			peer->area->offered, lengths[i]);
		request(side, peer, IBV_WR_ATOMIC_FETCH_AND_ADD,
			&side->area->fetched, &peer->area->counter, 8);
	}
	for (int i = 0; i < 2; i++) {
		struct side *side = &sides[i];

		expect(side, side->end.send_cq, IBV_WR_RDMA_WRITE, &wc);
		expect(side, side->end.send_cq, IBV_WR_SEND, &wc);
		if (reliable) {
			expect(side, side->end.send_cq, IBV_WR_RDMA_READ, &wc);
			expect(side, side->end.send_cq,
			       IBV_WR_ATOMIC_FETCH_AND_ADD, &wc);
		}
		expect(side, side->end.recv_cq, 0, &wc);
		check(wc.byte_len == lengths[!i], "%u bytes, not %u",
		      wc.byte_len, lengths[!i]);
	}
	for (int i = 0; i < 2; i++) {
		struct area *area = sides[i].area;

		compare("WRITE", area->written, lengths[!i], 4 * steps + !i);
		compare("SEND", area->received, lengths[!i], 4 * steps + !i);
		if (reliable) {
			compare("READ", area->read, lengths[i],
				4 * steps + 2 + !i);
			check(area->counter == area->fetched + 1,
			      "counter %llu after %llu",
			      (unsigned long long)area->counter,
			      (unsigned long long)area->fetched);
		}
		expect_none(&sides[i]);
		see_events(&sides[i]);
	}
}

static struct ibv_qp_attr query(struct side *side)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(!ibv_query_qp(side->end.qp, &attr,
			    IBV_QP_STATE | IBV_QP_ALT_PATH, &init),
	      "query_qp: %m");
	return attr;
}

static struct ibv_qp_attr path_of(int i, int port)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.alt_ah_attr = { .dlid = sides[!i].lids[port],
				 .port_num = port },
		.alt_port_num = port,
		.alt_timeout = timeouts[port],
		.path_mig_state = IBV_MIG_REARM,
	};
}

static int try_modify(struct side *side, struct ibv_qp_attr attr, int mask)
{
	return ibv_modify_qp(side->end.qp, &attr, IBV_QP_STATE | mask);
}

static int order(struct side *side, enum ibv_mig_state state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .path_mig_state = state };

	return try_modify(side, attr, IBV_QP_PATH_MIG_STATE);
}

static void check_state(int port, int alternate, enum ibv_mig_state state)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = query(&sides[i]);

		check(attr.path_mig_state == state, "state %d, not %d",
		      attr.path_mig_state, state);
		check(attr.port_num == port && attr.ah_attr.port_num == port &&
			      attr.ah_attr.dlid == sides[!i].lids[port],
		      "path by port %u to LID %u, not by port %d",
		      attr.port_num, attr.ah_attr.dlid, port);
		check(attr.timeout == timeouts[port] ||
			      sides[i].end.type != IBV_QPT_RC,
		      "timeout %u of port %d", attr.timeout, port);
		check(attr.alt_port_num == alternate &&
			      attr.alt_timeout == timeouts[alternate],
		      "alternate port %u, not %d", attr.alt_port_num,
		      alternate);
	}
}

static void show_state(const char *name)
{
	for (int i = 0; i < 2; i++) {
		char qpn[16];

		snprintf(qpn, sizeof(qpn), "%u", sides[i].end.qp->qp_num);
		end_hook(start_hook("state", qpn, name));
	}
}

/* Loads the path by this port as the alternate one, and has traffic arm it. */
static void arm(int port)
{
	int other = PORTS + 1 - port;

	for (int i = 0; i < 2; i++) {
		struct ibv_port_attr attr;

		for (int p = 1; p <= PORTS; p++) {
			check(!ibv_query_port(sides[i].device.context, p,
					      &attr),
			      "query_port: %m");
			sides[i].lids[p] = attr.lid;
		}
		sides[i].migrated = 0;
	}
	for (int i = 0; i < 2; i++)
		check(!try_modify(&sides[i], path_of(i, port),
				  IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
		      "modify_qp: no alternate path: %m");
	check_state(other, port, IBV_MIG_REARM);
	step();
	check_state(other, port, IBV_MIG_ARMED);
}

static void check_moved(int port)
{
	for (int i = 0; i < 2; i++) {
		see_events(&sides[i]);
		check(sides[i].migrated == 1 && !sides[i].refused,
		      "%s: %d migrations told, %d failed ones",
		      sides[i].device.name, sides[i].migrated,
		      sides[i].refused);
	}
	check_state(port, 0, IBV_MIG_MIGRATED);
}

/* The path by `port` breaks at a random moment under load. */
static void lose(int port)
{
	uint64_t end = now_ms() + DUE_MS;
	char name[4], number[16];
	pid_t pid;

	snprintf(name, sizeof(name), "%d", port);
	snprintf(number, sizeof(number), "%u", rng_below(&rng, 1000));
	for (uint32_t i = rng_below(&rng, 20); i > 0; i--)
		step();
	pid = start_hook("pull", name, number);
	while (!sides[0].migrated || !sides[1].migrated) {
		check(now_ms() < end, "nobody has migrated");
		step();
	}
	end_hook(pid);
	for (int i = 0; i < 5; i++)
		step();
	check_moved(PORTS + 1 - port);
	end_hook(start_hook("mend", name, NULL));
}

/* A side is told to migrate: of an unreliable connection the one that sends first,
 * since what its peer sends by the old path before it hears of it is lost. */
static void move(int port)
{
	int mover = sides[0].end.type == IBV_QPT_RC ? rng_below(&rng, 2) : 0;

	check(!order(&sides[mover], IBV_MIG_MIGRATED),
	      "modify_qp to MIGRATED: %m");
	step();
	step();
	check_moved(port);
}

static void check_refusals(void)
{
	struct side *side = &sides[0];
	struct ibv_qp_attr attr;

	check(side->device.attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG,
	      "no IBV_DEVICE_AUTO_PATH_MIG");
	check(order(side, IBV_MIG_REARM), "REARM without a path");
	check(order(side, IBV_MIG_ARMED), "ARMED by order");
	check(!order(side, IBV_MIG_MIGRATED), "not MIGRATED again: %m");
	attr = path_of(0, 2);
	attr.alt_port_num = PORTS + 1;
	attr.alt_ah_attr.port_num = PORTS + 1;
	check(try_modify(side, attr, IBV_QP_ALT_PATH), "a port too many");
	attr = path_of(0, 2);
	attr.alt_pkey_index = 999;
	check(try_modify(side, attr, IBV_QP_ALT_PATH), "no such P_Key");
	attr = path_of(0, 2);
	attr.alt_ah_attr.dlid = 0xc001;
	check(try_modify(side, attr, IBV_QP_ALT_PATH), "a multicast LID");
	attr = path_of(0, 2);
	attr.alt_timeout = 32;
	check(try_modify(side, attr, IBV_QP_ALT_PATH), "a timeout too long");
	check(query(side).alt_port_num == 0, "something has been taken");
}

static void connect_by(enum ibv_qp_type type)
{
	const struct end_options options = {
		.type = type,
		.send_depth = DEPTH,
		.recv_depth = DEPTH,
		.sges = 1,
	};
	struct path_options path = default_path;

	path.timeout = timeouts[1];
	for (int i = 0; i < 2; i++)
		end_create(&sides[i].end, &sides[i].device, &options);
	end_connect(&sides[0].end, &sides[1].end, &path);
}

static void disconnect(void)
{
	for (int i = 0; i < 2; i++) {
		expect_none(&sides[i]);
		end_destroy(&sides[i].end);
	}
}

int main(int argc, char **argv)
{
	int rounds;

	check(argc == 6, "usage: apm DEVICE DEVICE HOOK ROUNDS SEED");
	hook = argv[3];
	rounds = atoi(argv[4]);
	rng_seed(&rng, atoi(argv[5]));
	for (int i = 0; i < 2; i++) {
		struct side *side = &sides[i];

		device_open(&side->device, argv[1 + i]);
		side->area = calloc(1, sizeof(*side->area));
		check(side->area, "no memory");
		side->mr = ibv_reg_mr(side->device.pd, side->area,
				      sizeof(*side->area), ALL_ACCESS);
		check(side->mr, "reg_mr: %m");
	}
	connect_by(IBV_QPT_RC);
	step();
	check_refusals();
	arm(2);
	check(order(&sides[0], IBV_MIG_REARM), "REARM of an armed one");
	show_state("ARMED");
	move(2);
	show_state("MIGRATED");
	for (int round = 0; round < rounds; round++) {
		int port = 2 - round % 2;

		arm(PORTS + 1 - port);
		lose(port);
		printf("round %d: port %d lost, %llu steps\n", round, port,
		       (unsigned long long)steps);
		fflush(stdout);
	}
	disconnect();
	connect_by(IBV_QPT_UC);
	arm(2);
	move(2);
	arm(1);
	move(1);
	disconnect();
	for (int i = 0; i < 2; i++) {
		ibv_dereg_mr(sides[i].mr);
		free(sides[i].area);
		device_close(&sides[i].device);
	}
	printf("%llu steps\n", (unsigned long long)steps);
	return 0;
}
