/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIBCM_H
#define SIBCM_H

#include <infiniband/verbs.h>
#include <rdma/sib_cm.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define DEFAULT_SERVICE 0x02ff000000000053ull
#define MAX_PORTS 4
#define MESSAGE 64
#define DEPTH 16
#define ACK_TIMEOUT 14
#define RESPONSE_TIMEOUT 18
#define PKEY 0xffff

/* Where a side can be reached: the private data of REQ and REP. */
struct ports {
	uint8_t count;
	uint8_t reserved;
	struct {
		uint16_t lid;
		uint8_t gid[16];
	} __attribute__((packed)) port[MAX_PORTS];
} __attribute__((packed));

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	/* What is sent, then what is received. */
	uint8_t (*buffers)[MESSAGE];
	struct ports ours;
	struct ports theirs;
	int cm;
	uint32_t id;
	uint32_t psn;
	/* The port of the path in use, and of the alternate one, or 0. */
	int port;
	int alternate;
	bool is_connected;
	bool is_active;
	bool is_offering;
	uint64_t sent;
	uint64_t echoed;
	uint64_t sent_at;
};

/* Set by SIGINT and SIGTERM: the connection is to end. */
extern volatile sig_atomic_t interrupted;

/* Ends the program with a message. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format,
							 ...);
uint64_t now_us(void);

/* An order to /dev/sib_cm: 0 or the error; or no return without it. */
int try_cm(struct side *side, unsigned long request, void *arg);
void cm(struct side *side, unsigned long request, void *arg, const char *what);

void open_side(struct side *side, const char *name);
/* Learns by which LIDs and GIDs the ports of this side can be reached. */
void survey(struct side *side);
bool is_port_active(struct side *side, int port);
/* The path from this port to that of the peer with the same number. */
struct sib_cm_path path_by(struct side *side, int port);
void to_init(struct side *side, int port);
void to_rtr(struct side *side, const struct sib_cm_event *peer, uint16_t lid);
void to_rts(struct side *side);
/* Loads a path as the alternate one. */
bool load(struct side *side, const struct sib_cm_path *path);

void post_recv(struct side *side, uint64_t slot);
void post_send(struct side *side, uint64_t number);
void on_completions(struct side *side);

/* Tells the connection manager of the queue pair. */
void notify(struct side *side, uint32_t fact);
void on_established(struct side *side);
void listen_for_one(struct side *side, uint64_t service);
void ping(struct side *side, uint64_t service, const char *lid, const char *gid,
	  uint64_t count, double interval);

/* Prints the devices and connections of this host. */
void show(void);

#endif
