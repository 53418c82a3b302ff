/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagrams of management that a program sends by itself, by /dev/infiniband/umad*:
 * those of connection management, right or wrong. What does not work ends the program.
 */
#ifndef TESTS_UMAD_H
#define TESTS_UMAD_H

#include "common.h"

#include "../../include/uapi/rdma/sib_cm.h"

#define MAD_BYTES 256u
/* Where the fields of a message begin. */
#define MAD_HEADER 24u

/* A port that datagrams leave by. */
struct umad {
	int fd;
	uint32_t agent;
};

void umad_open(struct umad *umad, const char *device, int port);
/* The same for who gets what no manager of connections here takes: ib_cm must not be loaded. */
void umad_open_manager(struct umad *umad, const char *device, int port);
void umad_close(struct umad *umad);
/*
 * Sends to QP1 of this LID; no answer comes back here. 0 or an errno: EINVAL also for a
 * transaction ID of another one under way. The kernel sets the upper half of the
 * transaction ID.
 */
int umad_send(struct umad *umad, uint16_t lid, const uint8_t mad[MAD_BYTES]);
/* The next datagram for a manager; or nothing, after so many ms. */
bool umad_receive(struct umad *umad, uint8_t mad[MAD_BYTES], int ms);

/* What a LAP says. */
struct lap {
	uint64_t tid;
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint32_t remote_qpn;
	/* As its sender sees it. */
	struct sib_cm_path path;
};

/* What a REQ says; the rest of it is 0. */
struct req {
	uint64_t tid;
	uint32_t local_comm_id;
	uint64_t service_id;
	uint64_t guid;
	uint32_t qpn;
	uint8_t service_type;
	uint8_t path_mtu;
	/* As its sender sees it. */
	struct sib_cm_path primary;
};

/* What there is to know of a REJ. */
struct rej {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint8_t message_rejected;
	uint8_t info_len;
	uint16_t reason;
	const uint8_t *info;
};

/* The header of a message of connection management; zeros behind it. */
void mad_begin(uint8_t mad[MAD_BYTES], uint16_t attribute, uint64_t tid);
uint16_t mad_attribute(const uint8_t mad[MAD_BYTES]);
void mad_put(uint8_t *bytes, uint64_t value, unsigned int count);
uint64_t mad_get(const uint8_t *bytes, unsigned int count);
void mad_req(uint8_t mad[MAD_BYTES], const struct req *req);
struct rej mad_rej(const uint8_t mad[MAD_BYTES]);
void mad_lap(uint8_t mad[MAD_BYTES], const struct lap *lap);

#endif
