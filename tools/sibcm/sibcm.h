/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIBCM_H
#define SIBCM_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/sib_cm.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEFAULT_SERVICE 0x02ff000000000053ull
/* Of an HCA of sib (rust/sib/hca.rs). */
#define MAX_PORTS 8
/* Bytes of a message and of an echo, without a bulk mode; of a bulk mode at most. */
#define MESSAGE 64
#define MAX_MESSAGE (1 << 20)
#define DEPTH 16
/* A path that answers nothing for a second has failed: 8 times 134 ms. */
#define ACK_TIMEOUT 15
#define MAX_ACK_TIMEOUT 31
#define RETRIES 7
#define RESPONSE_TIMEOUT 18
#define PKEY 0xffff

/*
 * Where a side can be reached. That of the side that listens is the private data of REP; that of REQ, where eight
 * ports have no room, is the size of a message (big-endian), since who listens offers no paths.
 */
struct ports {
	uint8_t count;
	struct {
		uint16_t lid;
		uint8_t gid[16];
	} __attribute__((packed)) port[MAX_PORTS];
} __attribute__((packed));

/* What a process tells others of its connection: a file that is named by its PID. */
struct page {
	uint64_t guid;
	uint64_t service;
	/* What has come whole: echoes of this side's messages, or messages of the other one. */
	uint64_t messages;
	uint64_t bytes;
	uint32_t comm_id;
	uint32_t reserved;
};

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	/* DEPTH messages that are sent, then as many that are received. */
	uint8_t *buffers;
	struct page *page;
	/* Bytes of a message of the side that has connected. */
	uint32_t size;
	struct ports ours;
	struct ports theirs;
	int cm;
	uint32_t id;
	uint32_t psn;
	/* The code of the ACK timeout of each path. */
	uint8_t ack_timeout;
	uint64_t service;
	/* The port of the path in use, and of the alternate one, or 0. */
	int port;
	int alternate;
	bool is_connected;
	bool is_active;
	bool is_bulk;
	/* Paths are offered by order alone. */
	bool is_manual;
	bool is_offering;
	/* What becomes of messages is of no matter any more. */
	bool is_ending;
	/* A refusal of a path has been told of. */
	bool is_refusal_known;
	uint64_t offer_again_at;
	uint64_t loads;
	uint64_t migrations;
	uint64_t sent;
	uint64_t completed;
	uint64_t received;
	uint64_t sent_at;
};

/* A connection of the module, or one of ib_cm that it sees to. */
struct row {
	char device[32];
	uint64_t guid;
	uint32_t comm_id;
	uint32_t qpn;
	/* Of the local end and of the remote one; 0 if there is none. */
	unsigned int path[2];
	unsigned int alternate[2];
	bool is_watched;
};

/* Set by SIGINT and SIGTERM, and by order: the connection is to end. */
extern volatile sig_atomic_t interrupted;

/* sibcm.c: ends the program with a message. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format,
							 ...);
uint64_t now_us(void);

/* side.c: an order to /dev/sib_cm: 0 or the error; or no return without it. */
int try_cm(struct side *side, unsigned long request, void *arg);
void cm(struct side *side, unsigned long request, void *arg, const char *what);

void open_side(struct side *side, const char *name);
/* The buffers of messages of this size. */
void make_buffers(struct side *side, uint32_t size);
/* Learns by which LIDs and GIDs the ports of this side can be reached. */
void survey(struct side *side);
bool is_port_active(struct side *side, int port);
/* The number of the port with this LID, or 0. */
int port_of(struct side *side, uint16_t lid);
/* The path between these ports. */
struct sib_cm_path path_by(struct side *side, int port, int remote);
void to_init(struct side *side, int port);
void to_rtr(struct side *side, const struct sib_cm_event *peer, uint16_t lid);
void to_rts(struct side *side);
/* Loads a path as the alternate one. */
bool load(struct side *side, const struct sib_cm_path *path);
enum ibv_mig_state mig_state(struct side *side);

/* traffic.c: whether messages can have that many bytes. */
bool is_size(uint64_t size);
void post_recv(struct side *side, uint64_t slot);
/* Sends messages up to this number, as far as there is room. */
void push(struct side *side, uint64_t goal);
void on_completions(struct side *side);

/* connection.c: tells the connection manager of the queue pair. */
void notify(struct side *side, uint32_t fact);
void on_established(struct side *side);
/* Offers a path to the peer: 0 or the error. */
int offer(struct side *side, const struct sib_cm_path *path);
void listen_for_one(struct side *side);
/* Connects the port, and sends that many messages. */
void ping(struct side *side, int port, uint16_t lid, const struct in6_addr *gid,
	  uint64_t count, double interval);

/* orders.c: takes orders down; false, with a message, if they are none. */
bool give_orders(char **words, int number);
/* The file to read orders from, or -1. */
int orders_fd(void);
void read_orders(void);
/* Does what can be done by now, and returns whether there is more. */
bool carry_out(struct side *side);
/* Returns whether all orders have been carried out. */
bool end_orders(void);

/* page.c: begins to tell others of the connection. */
void open_page(struct side *side);
void update_page(struct side *side);
/* The page of a connection. */
bool find_page(uint64_t guid, uint32_t comm_id, struct page *page);

/* reasons.c: the reason of a REJ in words. */
const char *reason_text(uint32_t reason);

/* tables.c: prints the devices and connections of this host. */
void show(void);
/* The connections that are established. */
struct row *read_rows(size_t *count);

/* top.c: prints the connections of this host, with their throughput, again and again. */
void top(uint64_t count, double interval);

#endif
