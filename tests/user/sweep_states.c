// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that change the state of a queue pair which has work in its queues.
 */

#include "sweep.h"

#define DEPTH 8

static struct end a, b;

static void have(enum ibv_qp_type type, enum ibv_qp_state state)
{
	const struct end_options options = {
		.type = type,
		.send_depth = DEPTH,
		.recv_depth = DEPTH,
		.sges = 1,
	};
	struct ibv_recv_wr wr = { .wr_id = 1 };

	end_create(&a, &devices[0], &options);
	end_create(&b, &devices[1], &options);
	if (state == IBV_QPS_RESET)
		return;
	end_to_init(&a, &default_path);
	post_recv(&a, &wr);
	if (state == IBV_QPS_INIT)
		return;
	end_to_rtr(&a, &b, &default_path);
	if (state == IBV_QPS_RTR)
		return;
	end_to_rts(&a, &default_path);
	if (state == IBV_QPS_RTS)
		return;
	end_to(&a, state);
}

static void undo(void)
{
	end_destroy(&a);
	end_destroy(&b);
}

static int to_init(void)
{
	return end_try_init(&a, &default_path);
}

static int to_rtr(void)
{
	return end_try_rtr(&a, &b, &default_path);
}

static int to_rts(void)
{
	return end_try_rts(&a, &default_path);
}

static int to_sqd(void)
{
	return end_try(&a, IBV_QPS_SQD);
}

static int back_to_rts(void)
{
	return end_try(&a, IBV_QPS_RTS);
}

static int to_err(void)
{
	return end_try(&a, IBV_QPS_ERR);
}

static int to_reset(void)
{
	return end_try(&a, IBV_QPS_RESET);
}

#define TYPE(type)                                                            \
	static void type##_reset(void) { have(IBV_QPT_##type, IBV_QPS_RESET); } \
	static void type##_init(void) { have(IBV_QPT_##type, IBV_QPS_INIT); }  \
	static void type##_rtr(void) { have(IBV_QPT_##type, IBV_QPS_RTR); }    \
	static void type##_rts(void) { have(IBV_QPT_##type, IBV_QPS_RTS); }    \
	static void type##_sqd(void) { have(IBV_QPT_##type, IBV_QPS_SQD); }    \
	static void type##_err(void) { have(IBV_QPT_##type, IBV_QPS_ERR); }

#define STEPS(type)                                                           \
	{ "modify_qp, " #type ", RESET to INIT", type##_reset, to_init, undo, { 0 } }, \
	{ "modify_qp, " #type ", INIT to RTR", type##_init, to_rtr, undo, { 0 } }, \
	{ "modify_qp, " #type ", RTR to RTS", type##_rtr, to_rts, undo, { 0 } }, \
	{ "modify_qp, " #type ", RTS to SQD", type##_rts, to_sqd, undo, { 0 } }, \
	{ "modify_qp, " #type ", SQD to RTS", type##_sqd, back_to_rts, undo, { 0 } }, \
	{ "modify_qp, " #type ", RTS to ERR", type##_rts, to_err, undo, { 0 } }, \
	{ "modify_qp, " #type ", ERR to RESET", type##_err, to_reset, undo, { 0 } }

TYPE(RC)
TYPE(UC)
TYPE(UD)

static const struct step steps[] = { STEPS(RC), STEPS(UC), STEPS(UD) };

void sweep_states(uint32_t stride, struct rng *rng)
{
	sweep(steps, ARRAY_SIZE(steps), stride, rng);
}
