// SPDX-License-Identifier: GPL-2.0

#include "rails.h"

#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DUE_MS 60000
#define DEPTH 16u

const uint8_t timeouts[PORTS + 1] = { 0, 14, 15 };
struct side sides[2];
struct rng rng;
uint64_t steps;

static const char *hook;

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

void rails_see_events(struct side *side)
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

void rails_fill(uint8_t *bytes, uint32_t length, uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = seed * 37 + i + (i >> 8) * 11;
}

void rails_compare(const char *what, const uint8_t *bytes, uint32_t length,
		   uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		check(bytes[i] == (uint8_t)(seed * 37 + i + (i >> 8) * 11),
		      "%s: byte %u of %u is wrong in step %llu", what, i,
		      length, (unsigned long long)steps);
}

void rails_expect(struct side *side, struct ibv_cq *cq, uint64_t wr_id,
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

void rails_expect_none(struct side *side)
{
	struct ibv_wc wc;

	check(!await(side->end.send_cq, &wc, 0) &&
		      !await(side->end.recv_cq, &wc, 0),
	      "%s: one completion too many", side->device.name);
}

void rails_request(struct side *side, struct side *peer,
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

void step(void)
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
		rails_fill(area->source, lengths[i], 4 * steps + i);
		rails_fill(area->offered, LONGEST, 4 * steps + 2 + i);
		memset(area->written, 0, LONGEST);
		memset(area->received, 0, LONGEST);
		memset(area->read, 0, LONGEST);
		post_recv(&sides[i].end, &recv);
	}
	for (int i = 0; i < 2; i++) {
		struct side *side = &sides[i], *peer = &sides[!i];

		rails_request(side, peer, IBV_WR_RDMA_WRITE, side->area->source,
			peer->area->written, lengths[i]);
		rails_request(side, peer, IBV_WR_SEND, side->area->source, NULL,
			lengths[i]);
		if (!reliable)
			continue;
		rails_request(side, peer, IBV_WR_RDMA_READ, side->area->read,
			peer->area->offered, lengths[i]);
		rails_request(side, peer, IBV_WR_ATOMIC_FETCH_AND_ADD,
			&side->area->fetched, &peer->area->counter, 8);
	}
	for (int i = 0; i < 2; i++) {
		struct side *side = &sides[i];

		rails_expect(side, side->end.send_cq, IBV_WR_RDMA_WRITE, &wc);
		rails_expect(side, side->end.send_cq, IBV_WR_SEND, &wc);
		if (reliable) {
			rails_expect(side, side->end.send_cq, IBV_WR_RDMA_READ, &wc);
			rails_expect(side, side->end.send_cq,
			       IBV_WR_ATOMIC_FETCH_AND_ADD, &wc);
		}
		rails_expect(side, side->end.recv_cq, 0, &wc);
		check(wc.byte_len == lengths[!i], "%u bytes, not %u",
		      wc.byte_len, lengths[!i]);
	}
	for (int i = 0; i < 2; i++) {
		struct area *area = sides[i].area;

		rails_compare("WRITE", area->written, lengths[!i], 4 * steps + !i);
		rails_compare("SEND", area->received, lengths[!i], 4 * steps + !i);
		if (reliable) {
			rails_compare("READ", area->read, lengths[i],
				4 * steps + 2 + !i);
			check(area->counter == area->fetched + 1,
			      "counter %llu after %llu",
			      (unsigned long long)area->counter,
			      (unsigned long long)area->fetched);
		}
		rails_expect_none(&sides[i]);
		rails_see_events(&sides[i]);
	}
}

struct ibv_qp_attr query(struct side *side)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(!ibv_query_qp(side->end.qp, &attr,
			    IBV_QP_STATE | IBV_QP_ALT_PATH, &init),
	      "query_qp: %m");
	return attr;
}

struct ibv_qp_attr path_of(int i, int port)
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

int try_modify(struct side *side, struct ibv_qp_attr attr, int mask)
{
	return ibv_modify_qp(side->end.qp, &attr, IBV_QP_STATE | mask);
}

void check_state(int port, int alternate, enum ibv_mig_state state)
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

void show_state(const char *name)
{
	for (int i = 0; i < 2; i++) {
		char qpn[16];

		snprintf(qpn, sizeof(qpn), "%u", sides[i].end.qp->qp_num);
		end_hook(start_hook("state", qpn, name));
	}
}

void rails_survey(void)
{
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
}

void load_path(int port)
{
	for (int i = 0; i < 2; i++)
		check(!try_modify(&sides[i], path_of(i, port),
				  IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
		      "modify_qp: no alternate path: %m");
}

/* Both sides come to this state without a message. */
static void await_state(enum ibv_mig_state state)
{
	uint64_t end = now_ms() + DUE_MS;

	for (int i = 0; i < 2; i++)
		while (query(&sides[i]).path_mig_state != state) {
			check(now_ms() < end, "side %d waits for state %d", i,
			      state);
			usleep(1000);
		}
}

void arm_loaded(int port)
{
	int other = PORTS + 1 - port;

	if (sides[0].end.type == IBV_QPT_RC) {
		await_state(IBV_MIG_ARMED);
	} else {
		check_state(other, port, IBV_MIG_REARM);
		step();
	}
	check_state(other, port, IBV_MIG_ARMED);
	step();
	check_state(other, port, IBV_MIG_ARMED);
}

void await_move(void)
{
	await_state(IBV_MIG_MIGRATED);
}

void check_moved(int port)
{
	uint64_t due = now_ms() + DUE_MS;

	for (int i = 0; i < 2; i++) {
		/* The state is there before the word of it. */
		do
			rails_see_events(&sides[i]);
		while (!sides[i].migrated && now_ms() < due);
		check(sides[i].migrated == 1 && !sides[i].refused,
		      "%s: %d migrations told, %d failed ones",
		      sides[i].device.name, sides[i].migrated,
		      sides[i].refused);
	}
	check_state(port, 0, IBV_MIG_MIGRATED);
}

static pid_t start_pull(int port, unsigned int how)
{
	char name[4], number[16];

	snprintf(name, sizeof(name), "%d", port);
	snprintf(number, sizeof(number), "%u", how);
	return start_hook("pull", name, number);
}

void rails_pull(int port, unsigned int number)
{
	end_hook(start_pull(port, number));
}

void rails_mend(int port)
{
	char name[4];

	snprintf(name, sizeof(name), "%d", port);
	end_hook(start_hook("mend", name, NULL));
}

void lose(int port)
{
	uint64_t end = now_ms() + DUE_MS;
	unsigned int number = rng_below(&rng, 1000);
	pid_t pid;

	for (uint32_t i = rng_below(&rng, 20); i > 0; i--)
		step();
	pid = start_pull(port, number);
	while (!sides[0].migrated || !sides[1].migrated) {
		check(now_ms() < end, "nobody has migrated");
		step();
	}
	end_hook(pid);
	for (int i = 0; i < 5; i++)
		step();
	check_moved(PORTS + 1 - port);
	rails_mend(port);
}

void rails_create(enum ibv_qp_type type)
{
	const struct end_options options = {
		.type = type,
		.send_depth = DEPTH,
		.recv_depth = DEPTH,
		.sges = 1,
	};

	for (int i = 0; i < 2; i++)
		end_create(&sides[i].end, &sides[i].device, &options);
}

void rails_connect(void)
{
	struct path_options path = default_path;

	path.timeout = timeouts[1];
	end_connect(&sides[0].end, &sides[1].end, &path);
}

void rails_destroy(void)
{
	for (int i = 0; i < 2; i++) {
		rails_expect_none(&sides[i]);
		end_destroy(&sides[i].end);
	}
}

void rails_open(char *const *devices, const char *command, uint64_t seed)
{
	hook = command;
	rng_seed(&rng, seed);
	for (int i = 0; i < 2; i++) {
		struct side *side = &sides[i];

		device_open(&side->device, devices[i]);
		side->area = calloc(1, sizeof(*side->area));
		check(side->area, "no memory");
		side->mr = ibv_reg_mr(side->device.pd, side->area,
				      sizeof(*side->area), ALL_ACCESS);
		check(side->mr, "reg_mr: %m");
	}
}

void rails_close(void)
{
	for (int i = 0; i < 2; i++) {
		ibv_dereg_mr(sides[i].mr);
		free(sides[i].area);
		device_close(&sides[i].device);
	}
}
