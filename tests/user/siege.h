/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue pairs under siege: victims in every state, and the packets that are forged for
 * them.
 */
#ifndef TESTS_SIEGE_H
#define TESTS_SIEGE_H

#include "common.h"
#include "ibpacket.h"
#include "wiretap.h"

#define SIEGE_DEPTH 16u

/* The memory of the victims. What is between these parts is nobody's. */
#define MEMORY_BYTES (128u << 10)
/* All rights from afar; the right to read. */
#define GRANTED_AT (8u << 10)
#define GRANTED_BYTES (8u << 10)
#define FROZEN_AT (20u << 10)
#define FROZEN_BYTES (4u << 10)
/* No rights from afar: receives, and what is sent from or answered into. */
#define LOCAL_AT (32u << 10)
#define LOCAL_BYTES (64u << 10)
#define RECV_BYTES 2048u
#define SEND_AT (LOCAL_AT + SIEGE_DEPTH * RECV_BYTES)
#define SEND_BYTES 1024u

struct victim {
	/* The one under siege, and its peer, which may be mute. */
	struct end end, peer;
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	/* The peer does not hear; nothing was sent, and nothing is odd. */
	bool is_mute, is_tame;
	uint32_t mtu;
	uint32_t sends, recvs;
	/* The PSN of the next request if all that were right were taken. */
	uint32_t next_psn;
};

extern struct device devices[2];
extern struct rng rng;
extern struct wiretap tap;
extern uint8_t *memory;
/* Of `memory`, and of all memory of another protection domain. */
extern struct ibv_mr *granted, *frozen, *local, *secret;

/* A packet with nothing wrong for a victim. */
struct ib_packet right_packet(const struct victim *victim, uint8_t operation,
			      const uint8_t *payload, size_t length);
void send_packet(const struct ib_packet *packet);
/* Forges so many packets, or messages of several. */
void storm(struct victim *victim, unsigned int count);

#endif
