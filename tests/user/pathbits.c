// SPDX-License-Identifier: GPL-2.0
/*
 * The ways between two ports that have several LIDs each: messages of all of them arrive,
 * with the service level, the source LID and the path bits in their completions. Path bits
 * that a port does not have are not sent: they would make the LID of another port.
 *
 *     pathbits DEVICE DEVICE
 */

#include "common.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#define MESSAGE 64u
#define MOST_BITS 7
#define LEVELS 16
#define DUE_MS 20000

struct party {
	struct device device;
	struct end end;
	struct ibv_mr *mr;
	struct ibv_ah *way;
	/* What its address vector says. */
	uint8_t bits;
};

static struct party parties[2];
static uint8_t memory[2][GRH_BYTES + MESSAGE];

static uint8_t lmc_of(const struct party *party)
{
	return party->device.port_attr.lmc;
}

/* The path bits that the packets of a party have. */
static uint8_t sent_bits(const struct party *party)
{
	return party->bits & ((1 << lmc_of(party)) - 1);
}

static uint16_t slid_of(const struct party *party)
{
	return party->device.port_attr.lid | sent_bits(party);
}

static struct ibv_ah_attr way_to(const struct party *to,
				 const struct party *from, uint8_t level)
{
	struct ibv_ah_attr attr = path_to(&from->device, &to->device, false);

	attr.dlid = slid_of(to);
	attr.sl = level;
	attr.src_path_bits = from->bits;
	return attr;
}

static void to_rtr(int at, uint8_t level)
{
	struct end *end = &parties[at].end;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = parties[!at].end.qp->qp_num,
		.rq_psn = parties[!at].end.psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = way_to(&parties[!at], &parties[at], level),
	};
	int error;

	if (end->type == IBV_QPT_UD) {
		end_to_rtr(end, &parties[!at].end, &default_path);
		parties[at].way =
			ibv_create_ah(parties[at].device.pd, &attr.ah_attr);
		check(parties[at].way, "create_ah: %m");
		return;
	}
	error = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	check(!error, "modify_qp to RTR: %d", error);
}

static void message(int from, uint8_t level)
{
	const struct party *sender = &parties[from], *taker = &parties[!from];
	bool is_datagram = sender->end.type == IBV_QPT_UD;
	struct ibv_sge room = { (uintptr_t)memory[!from], sizeof(memory[0]),
				taker->mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &room, .num_sge = 1 };
	struct ibv_sge sge = { (uintptr_t)memory[from], MESSAGE,
			       sender->mr->lkey };
	struct ibv_send_wr send = {
		.wr_id = 2,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;

	if (is_datagram) {
		send.wr.ud.ah = sender->way;
		send.wr.ud.remote_qpn = taker->end.qp->qp_num;
		send.wr.ud.remote_qkey = QKEY;
	}
	post_recv(&parties[!from].end, &recv);
	post_send(&parties[from].end, &send);
	check(await(taker->end.recv_cq, &wc, DUE_MS) && wc.wr_id == 1 &&
		      wc.status == IBV_WC_SUCCESS,
	      "path bits %#x to %#x, SL %d: does not arrive", sender->bits,
	      taker->bits, level);
	check(wc.slid == slid_of(sender) && wc.sl == level &&
		      wc.dlid_path_bits == sent_bits(taker),
	      "path bits %#x to %#x, SL %d: came from LID %#x, SL %d, to path bits %#x",
	      sender->bits, taker->bits, level, wc.slid, wc.sl,
	      wc.dlid_path_bits);
	check(await(sender->end.send_cq, &wc, DUE_MS) && wc.wr_id == 2 &&
		      wc.status == IBV_WC_SUCCESS,
	      "path bits %#x to %#x, SL %d: send fails", sender->bits,
	      taker->bits, level);
}

static void exchange(enum ibv_qp_type type, uint8_t level)
{
	const struct end_options options = {
		.type = type,
		.send_depth = 1,
		.recv_depth = 1,
		.sges = 1,
	};

	for (int at = 0; at < 2; at++) {
		end_create(&parties[at].end, &parties[at].device, &options);
		end_to_init(&parties[at].end, &default_path);
	}
	for (int at = 0; at < 2; at++)
		to_rtr(at, level);
	for (int at = 0; at < 2; at++)
		end_to_rts(&parties[at].end, &default_path);
	for (int at = 0; at < 2; at++)
		message(at, level);
	for (int at = 0; at < 2; at++) {
		if (type == IBV_QPT_UD)
			check(!ibv_destroy_ah(parties[at].way), "destroy_ah: %m");
		end_destroy(&parties[at].end);
	}
}

int main(int argc, char **argv)
{
	unsigned int ways = 0;

	check(argc == 3, "usage: pathbits DEVICE DEVICE");
	for (int at = 0; at < 2; at++) {
		device_open(&parties[at].device, argv[1 + at]);
		parties[at].mr = ibv_reg_mr(parties[at].device.pd, memory[at],
					    sizeof(memory[at]), ALL_ACCESS);
		check(parties[at].mr, "reg_mr: %m");
	}
	/* One bit more than there are is one that is not there. */
	for (int near = 0; near < 2 << lmc_of(&parties[0]); near++)
		for (int far = 0; far < 2 << lmc_of(&parties[1]); far++) {
			parties[0].bits = near;
			parties[1].bits = far;
			exchange(IBV_QPT_RC, ways % LEVELS);
			exchange(IBV_QPT_UD, ways % LEVELS);
			ways++;
		}
	parties[0].bits = parties[1].bits = (1 << MOST_BITS) - 1;
	exchange(IBV_QPT_RC, 0);
	exchange(IBV_QPT_UD, 0);
	for (int at = 0; at < 2; at++) {
		check(!ibv_dereg_mr(parties[at].mr), "dereg_mr: %m");
		device_close(&parties[at].device);
	}
	printf("pathbits: %u ways, LMC %d and %d\n", ways,
	       lmc_of(&parties[0]), lmc_of(&parties[1]));
	return 0;
}
