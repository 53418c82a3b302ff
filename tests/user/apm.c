// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic path migration: connections between two HCAs of two ports each go on
 * when a port of the path is pulled, when the peer moves, and when they are told
 * to; every byte and every completion is checked.
 *
 *     apm DEVICE DEVICE HOOK ROUNDS SEED
 *
 * What HOOK is stands in rails.h.
 */

#include "rails.h"

#include <stdio.h>
#include <stdlib.h>

static int order(struct side *side, enum ibv_mig_state state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .path_mig_state = state };

	return try_modify(side, attr, IBV_QP_PATH_MIG_STATE);
}

/* Loads the path by this port as the alternate one, and has traffic arm it. */
static void arm(int port)
{
	rails_survey();
	load_path(port);
	arm_loaded(port);
}

/* A side is told to migrate: of an unreliable connection the one that sends first,
 * since what its peer sends by the old path before it hears of it is lost. */
static void move(int port)
{
	int mover = sides[0].end.type == IBV_QPT_RC ? rng_below(&rng, 2) : 0;

	check(!order(&sides[mover], IBV_MIG_MIGRATED),
	      "modify_qp to MIGRATED: %m");
	if (sides[0].end.type == IBV_QPT_RC && rng_below(&rng, 2))
		await_move();
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
	rails_create(type);
	rails_connect();
}

int main(int argc, char **argv)
{
	int rounds;

	check(argc == 6, "usage: apm DEVICE DEVICE HOOK ROUNDS SEED");
	rails_open(argv + 1, argv[3], atoi(argv[5]));
	rounds = atoi(argv[4]);
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
	rails_destroy();
	connect_by(IBV_QPT_UC);
	arm(2);
	move(2);
	arm(1);
	move(1);
	rails_destroy();
	rails_close();
	printf("%llu steps\n", (unsigned long long)steps);
	return 0;
}
