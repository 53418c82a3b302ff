// SPDX-License-Identifier: GPL-2.0
/*
 * A datagram is for a multicast group if it has a multicast LID, the queue pair 0xffffff, and a
 * GRH, and for a queue pair if it has neither of the first two. With one of them alone, or without
 * the GRH, it is for nobody. A queue pair may become a member before it has a port. One that
 * leaves the group and joins it again gets each datagram once. There are as many memberships as
 * the device says.
 *
 *     groups DEVICE
 *
 * All queue pairs are on one port, whose own packets come back to it, whatever the subnet
 * manager knows of groups.
 */

#include "common.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define MESSAGE 64u
#define ROOM (GRH_BYTES + MESSAGE)
#define DEPTH 8
#define MLID 0xc123
#define GROUP_QPN 0xffffffu
#define DUE_MS 20000
#define QUIET_MS 200
/* Other members of a group, which a datagram takes a while to reach, and datagrams. */
#define OTHERS 250
#define ROUNDS 4

enum { SENDER, MEMBER, OUTSIDER, ENDS };

static struct device device;
static struct end ends[ENDS];
static struct ibv_mr *mr;
static uint8_t memory[ROOM * DEPTH];
static union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 0x77 } };

static uint64_t discarded(void)
{
	return hw_counter(&device, "rcvd_discards");
}

static struct ibv_ah *way_to(uint16_t lid, bool is_group)
{
	struct ibv_ah_attr attr = path_to(&device, &device, is_group);
	struct ibv_ah *way;

	attr.dlid = lid;
	if (is_group)
		attr.grh.dgid = group;
	way = ibv_create_ah(device.pd, &attr);
	check(way, "create_ah: %m");
	return way;
}

static void send_datagram(struct ibv_ah *way, uint32_t qpn)
{
	struct ibv_sge sge = { (uintptr_t)memory, MESSAGE, mr->lkey };
	struct ibv_send_wr send = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = way, .remote_qpn = qpn, .remote_qkey = QKEY },
	};

	post_send(&ends[SENDER], &send);
}

/* Sends a datagram there; whether just `taker` gets it, or nobody. */
static void expect(struct ibv_ah *way, uint32_t qpn, int taker)
{
	uint64_t before = discarded();
	struct ibv_wc wc;

	send_datagram(way, qpn);
	check(await(ends[SENDER].send_cq, &wc, DUE_MS) &&
		      wc.status == IBV_WC_SUCCESS,
	      "a send does not succeed");
	for (int at = MEMBER; at < ENDS; at++) {
		bool is_due = at == taker;

		check(await(ends[at].recv_cq, &wc, is_due ? DUE_MS : QUIET_MS) ==
			      is_due,
		      "to queue pair %#x: %s gets %s", qpn,
		      at == MEMBER ? "the member" : "the other",
		      is_due ? "nothing" : "it");
	}
	check((discarded() > before) == (taker == ENDS),
	      "to queue pair %#x: %" PRIu64 " discarded", qpn,
	      discarded() - before);
}

static const struct end_options options = {
	.type = IBV_QPT_UD,
	.send_depth = 1,
	.recv_depth = DEPTH,
	.sges = 1,
};

/* Makes an end that can receive. */
static void make(struct end *end, bool is_member)
{
	end_create(end, &device, &options);
	check(!is_member || !ibv_attach_mcast(end->qp, &group, MLID),
	      "attach_mcast: %m");
	end_to_init(end, &default_path);
	end_to_rtr(end, end, &default_path);
	end_to_rts(end, &default_path);
}

static void fill(struct end *end)
{
	for (uint32_t slot = 0; slot < DEPTH; slot++) {
		struct ibv_sge room = { (uintptr_t)memory + slot * ROOM, ROOM,
					mr->lkey };
		struct ibv_recv_wr recv = { .sg_list = &room, .num_sge = 1 };

		post_recv(end, &recv);
	}
}

static void *send_to_group(void *way)
{
	send_datagram(way, GROUP_QPN);
	return NULL;
}

/* The member that gets a datagram first leaves, and joins again behind the others before all of these have it. */
static void rejoin(struct ibv_ah *to_group)
{
	static struct end members[OTHERS];
	struct ibv_wc wc;

	for (int at = 0; at < OTHERS; at++) {
		make(&members[at], true);
		fill(&members[at]);
	}
	for (int round = 0; round < ROUNDS; round++) {
		struct end *restless = &members[round];
		pthread_t sender;

		check(!pthread_create(&sender, NULL, send_to_group,
					to_group),
		      "pthread_create");
		while (!ibv_poll_cq(restless->recv_cq, 1, &wc))
			;
		check(!ibv_detach_mcast(restless->qp, &group, MLID) &&
			      !ibv_attach_mcast(restless->qp, &group, MLID),
		      "detach_mcast, attach_mcast: %m");
		pthread_join(sender, NULL);
		check(await(ends[SENDER].send_cq, &wc, DUE_MS) &&
			      wc.status == IBV_WC_SUCCESS,
		      "a send does not succeed");
		for (int at = 0; at < OTHERS; at++)
			check(at == round ||
				      await(members[at].recv_cq, &wc, DUE_MS),
			      "datagram %d does not reach member %d", round, at);
		check(!await(restless->recv_cq, &wc, QUIET_MS),
		      "who has joined again gets datagram %d twice", round);
	}
	for (int at = 0; at < OTHERS; at++) {
		check(!ibv_detach_mcast(members[at].qp, &group, MLID),
		      "detach_mcast: %m");
		end_destroy(&members[at]);
	}
}

static union ibv_gid nth_group(int nth)
{
	union ibv_gid gid = group;

	gid.raw[13] = nth >> 8;
	gid.raw[14] = nth;
	return gid;
}

/* As many memberships as the device says, and not one more. Others have a few. */
static void as_many(struct ibv_qp *qp)
{
	int most = device.attr.max_total_mcast_qp_attach, count = 0, error = 0;

	while (!error && count <= most) {
		union ibv_gid gid = nth_group(count);

		error = ibv_attach_mcast(qp, &gid, MLID);
		count += !error;
	}
	check(error == ENOMEM && count > most - 100,
	      "%d memberships of %d: %s", count, most, strerror(error));
	/* Those that are found first: both tables are gone through for each. */
	for (int nth = 0; nth < count; nth++) {
		union ibv_gid gid = nth_group(nth);

		check(!ibv_detach_mcast(qp, &gid, MLID), "detach_mcast: %m");
	}
}

int main(int argc, char **argv)
{
	struct ibv_ah *to_group, *to_port, *to_lid;

	check(argc == 2, "usage: groups DEVICE");
	device_open(&device, argv[1]);
	mr = ibv_reg_mr(device.pd, memory, sizeof(memory), ALL_ACCESS);
	check(mr, "reg_mr: %m");
	for (int at = 0; at < ENDS; at++) {
		make(&ends[at], at == MEMBER);
		if (at != SENDER)
			fill(&ends[at]);
	}
	to_group = way_to(MLID, true);
	to_lid = way_to(MLID, false);
	to_port = way_to(device.port_attr.lid, false);
	expect(to_group, GROUP_QPN, MEMBER);
	expect(to_port, ends[MEMBER].qp->qp_num, MEMBER);
	expect(to_port, ends[OUTSIDER].qp->qp_num, OUTSIDER);
	expect(to_group, ends[MEMBER].qp->qp_num, ENDS);
	expect(to_group, ends[OUTSIDER].qp->qp_num, ENDS);
	expect(to_port, GROUP_QPN, ENDS);
	expect(to_lid, GROUP_QPN, ENDS);
	check(!ibv_detach_mcast(ends[MEMBER].qp, &group, MLID),
	      "detach_mcast: %m");
	rejoin(to_group);
	as_many(ends[OUTSIDER].qp);
	check(!ibv_destroy_ah(to_group) && !ibv_destroy_ah(to_port) &&
		      !ibv_destroy_ah(to_lid),
	      "destroy_ah: %m");
	for (int at = 0; at < ENDS; at++)
		end_destroy(&ends[at]);
	check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	device_close(&device);
	return 0;
}
