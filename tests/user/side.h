/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What programs share that use /dev/sib_cm: an HCA of two ports, its identifiers and
 * the events that they get. What does not work ends the program.
 */
#ifndef TESTS_SIDE_H
#define TESTS_SIDE_H

#include "common.h"

#include "../../include/uapi/rdma/sib_cm.h"

/* How long an event may take. */
#define DUE_MS 60000
#define ACK_TIMEOUT 14
#define PORTS 2
#define BYTES 64u

struct side {
	struct device device;
	uint64_t guid;
	uint16_t lids[PORTS + 1];
	union ibv_gid gids[PORTS + 1];
	int fd;
	/* Of the connection at hand. */
	uint32_t id;
	struct end end;
	struct ibv_mr *mr;
	uint8_t memory[2 * BYTES];
	int migrated;
};

/* The LIDs are those with the path bits that PATH_BITS of the environment says. */
void side_open(struct side *side, const char *name);
void side_close(struct side *side);

/* An ioctl: 0 or an errno; and one that must succeed. */
int command(struct side *side, unsigned long number, void *argument);
void order(struct side *side, unsigned long number, void *argument);

uint32_t new_id(struct side *side, uint64_t uid);
void destroy(struct side *side, uint32_t id);
struct sib_cm_attr_id attributes(struct side *side);
/* Listens, or fails with `error`. */
uint32_t listen_on(struct side *side, uint64_t service, enum sib_cm_kind kind,
		   int error);

bool has_event(struct side *side, int ms);
/*
 * The next event, which must be this one. On a busy machine any answer to a LAP may be
 * so late that the peer is asked for patience first.
 */
struct sib_cm_event expect_told(struct side *side, enum sib_cm_event_type type);
void expect_data(const struct sib_cm_event *event, const char *text);
/* There is no event. */
void nothing(struct side *side);

/* The path by these ports of both. */
struct sib_cm_path path_between(const struct side *from, const struct side *to,
				uint8_t port);
/*
 * Has the queue pair of the connection go to a state, by the attributes that INIT_QP_ATTR
 * tells; RTS also loads a path that LAP and APR agree on. 0 or an errno; or it must
 * succeed.
 */
int try_advance(struct side *side, enum ibv_qp_state state);
void advance(struct side *side, enum ibv_qp_state state);

/*
 * Connections of queue pairs that there are not. The first port of `to` is asked, by a port
 * of `from`, and both know them by `id`. Whoever uses them takes each event; `to` listens
 * for the service. A request has an identifier of `from`, and is to be sent.
 */
struct sib_cm_send_req bare_request(struct side *from, const struct side *to,
				    uint64_t service, uint8_t port);
void ask_bare(struct side *from, struct side *to, uint64_t service,
	      uint8_t port);
void accept_bare(struct side *from, struct side *to);
void connect_bare(struct side *from, struct side *to, uint64_t service);
void part_bare(struct side *from, struct side *to);

/* A LID that no port has. */
#define NOWHERE 0xbffe

/* What `to` says by itself to a path: by APR, by REJ, and which value would do. */
struct refusal {
	uint8_t status;
	uint32_t reason;
	const void *instead;
	uint8_t len;
};

/*
 * Offers a path for the connection at hand, and in a request for the service in the
 * partition. Both are refused so, and no program is asked.
 */
void expect_refusal(struct side *from, struct side *to, uint64_t service,
		    uint16_t pkey, const struct sib_cm_path *path,
		    struct refusal refusal);

struct ibv_ah_attr address(const struct sib_cm_path *path, uint8_t port);

#endif
