/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two HCAs of two ports each, a pair of queue pairs, and traffic between them of
 * which every byte and every completion is checked.
 *
 * A hook, given by the user, does what a program cannot do: "pull PORT NUMBER"
 * breaks the path between the ports with this number in a way that the number
 * chooses, "mend PORT" repairs it, and "state QPN NAME" checks what tools tell.
 */
#ifndef TESTS_RAILS_H
#define TESTS_RAILS_H

#include "common.h"

#define LONGEST 65536u
#define PORTS 2

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
	/* Events since the path was armed. */
	int migrated;
	int refused;
};

extern struct side sides[2];
extern struct rng rng;
extern uint64_t steps;
/* Codes of the ACK timeouts of the paths by each port. */
extern const uint8_t timeouts[PORTS + 1];

void rails_open(char *const *devices, const char *hook, uint64_t seed);
void rails_close(void);

/* Makes both queue pairs, and connects them by port 1. */
void rails_create(enum ibv_qp_type type);
void rails_connect(void);
void rails_destroy(void);

/* One of each operation from both sides at the same time. */
void step(void);

/* What that is made of: an operation, its completion, no other one, and bytes by a seed. */
void rails_request(struct side *side, struct side *peer, enum ibv_wr_opcode opcode,
		   void *local, void *remote, uint32_t length);
void rails_expect(struct side *side, struct ibv_cq *cq, uint64_t wr_id,
		  struct ibv_wc *wc);
void rails_expect_none(struct side *side);
void rails_fill(uint8_t *bytes, uint32_t length, uint64_t seed);
void rails_compare(const char *what, const uint8_t *bytes, uint32_t length,
		   uint64_t seed);

/* Counts the events of paths; those of errors end the program. */
void rails_see_events(struct side *side);

/* What modify_qp takes to load the path by this port at side `i`. */
struct ibv_qp_attr path_of(int i, int port);
int try_modify(struct side *side, struct ibv_qp_attr attr, int mask);
struct ibv_qp_attr query(struct side *side);

/* Both sides use this port, have this alternate one (0: none), and this state. */
void check_state(int port, int alternate, enum ibv_mig_state state);
/* What tools tell of both. */
void show_state(const char *name);

/* Asks for the LIDs, and forgets the events. */
void rails_survey(void);
/* Loads the path by this port as the alternate one. */
void load_path(int port);
/* What is loaded is armed: of reliable connections without a message. */
void arm_loaded(int port);
/* Both sides of a reliable connection migrate without a message. */
void await_move(void);

/* Both sides have been told once that they have gone to this port. */
void check_moved(int port);
/* Breaks the path by `port` in the way of this number, and repairs it. */
void rails_pull(int port, unsigned int number);
void rails_mend(int port);
/* The path by `port` breaks at a random moment under load, and is repaired. */
void lose(int port);

#endif
