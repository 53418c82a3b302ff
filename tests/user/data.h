/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the program share: how its two sides are set up, and the
 * messages of a round, which one part plans, one posts and one completes.
 */
#ifndef TESTS_DATA_H
#define TESTS_DATA_H

#include "arena.h"

#include <stdatomic.h>

/* Messages of one side in one round. */
#define MOST_MESSAGES 48
#define INLINE_BYTES 256u
#define MIB (1u << 20)
/* Marks the wr_id of a receive. */
#define RECV_ID (1ull << 63)

/* One way to set up the two ends. */
struct setup {
	enum ibv_qp_type type;
	bool with_srq;
	bool events;
	bool signal_all;
	bool one_cq;
	bool grh;
};

/* What a transport can do. */
struct transport {
	const char *name;
	enum ibv_qp_type type;
	int op_count;
	enum ibv_wr_opcode ops[7];
};

struct message {
	enum ibv_wr_opcode op;
	int from;
	uint32_t length;
	uint32_t imm;
	bool signaled;
	bool is_inline;
	uint64_t compare;
	uint64_t operand;
	/* Of the sender, which reads them but for READ and atomics. */
	struct pieces local;
	/* Of the other side: of the receive, if there is one. */
	struct pieces recv;
	/* Of the other side: what RDMA and atomics name. */
	struct pieces remote;
};

/* One end, and how far its completions have come. */
struct side {
	struct end end;
	struct arena arena;
	struct ibv_ah *ah;
	int unsent;
	int next_sent;
	int unreceived;
	int next_received;
};

extern struct device devices[2];
extern struct side sides[2];
/* What is being run. */
extern const struct transport *transport;
extern struct setup setup;
extern struct rng rng;
/* The most pieces of a message, within what both devices take. */
extern int most_pieces;

/* The messages of this round, those of each side in the order of posting. */
extern struct message messages[2 * MOST_MESSAGES];
extern int message_count;
extern uint32_t round_number;

/* Forgets the round before. */
void plan_begin(void);
/* Adds a message, if there is memory for it. */
void plan(int from, enum ibv_wr_opcode op, uint32_t length);
/*
 * Chooses what is signaled, fills the memory, and says in its shadows what must
 * come of all messages.
 */
void plan_finish(void);

/* Post all that a side has in this round. */
void post_recvs_of(int side);
void post_sends_of(int side);

/* Takes the completions that are there for a side; whether there were any. */
bool reap(int at);
/* Takes completions until none is due. */
void complete_all(void);
/* How often a completion queue had any. */
extern atomic_ulong reaped;

/* A round for each operation and size, and so many random ones. */
void run_rounds(uint32_t rounds);
extern uint64_t total_messages, total_bytes;

static inline bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* Whether the sender's memory is written. */
static inline bool fetches(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_READ || is_atomic(op);
}

static inline bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool is_send(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

/* Whether a receive of the other side is used up. */
static inline bool consumes(enum ibv_wr_opcode op)
{
	return is_send(op) || has_imm(op);
}

static inline uint64_t wr_id(int index)
{
	return (uint64_t)round_number << 16 | index;
}

#endif
