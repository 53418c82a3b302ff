// SPDX-License-Identifier: GPL-2.0
/*
 * Asks subnet administration for paths between several ports (MultiPathRecord), by the
 * multi-packet transactions of the kernel:
 *
 *     multipath DEVICE SOURCES PATHS GID...
 *
 * The first SOURCES GIDs are near ports, the others far ones. PATHS is the largest number
 * of paths; 0: no such wish. Says "SGID DGID SLID DLID MTU" of each path; or "refused" and
 * the status.
 */

#include "common.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <infiniband/umad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_SA 3
#define CLASS_VERSION 2
#define GET_MULTI 0x14
#define GET_MULTI_RESP 0x94
#define PATH_RECORD 0x35
#define MULTI_PATH_RECORD 0x3a
#define QKEY_OF_QP1 0x80010000u
#define RMPP_DATA 1
#define RMPP_ACTIVE 1
/* Components of a MultiPathRecord. */
#define NUMB_PATH (1u << 6)
#define SGID_COUNT (1u << 19)
#define DGID_COUNT (1u << 20)
#define MAX_GIDS 11
#define ANSWER_BYTES 65536
#define PATIENCE_MS 20000
#define TRIES 3

/* A datagram of subnet administration. */
struct sa_mad {
	uint8_t base_version;
	uint8_t mgmt_class;
	uint8_t class_version;
	uint8_t method;
	uint16_t status;
	uint16_t class_specific;
	uint64_t tid;
	uint16_t attr_id;
	uint16_t reserved;
	uint32_t attr_mod;
	uint8_t rmpp_version;
	uint8_t rmpp_type;
	uint8_t rmpp_flags;
	uint8_t rmpp_status;
	uint32_t rmpp_data[2];
	uint8_t sm_key[8];
	uint16_t attr_offset;
	uint16_t reserved_too;
	uint8_t component_mask[8];
	uint8_t data[];
};

#define HEADER_BYTES offsetof(struct sa_mad, data)
#define MAD_BYTES 256u

struct multi_path_record {
	uint32_t flow;
	uint8_t traffic_class;
	uint8_t numb_path;
	uint8_t others[9];
	uint8_t sgid_count;
	uint8_t dgid_count;
	uint8_t service[7];
	struct in6_addr gids[MAX_GIDS];
};

static_assert(HEADER_BYTES == 56, "as it is on the wire");
static_assert(sizeof(struct multi_path_record) == MAD_BYTES - HEADER_BYTES,
	      "as it is on the wire");

static void say(const uint8_t *path)
{
	char sgid[INET6_ADDRSTRLEN], dgid[INET6_ADDRSTRLEN];
	uint16_t dlid, slid;

	inet_ntop(AF_INET6, path + 8, dgid, sizeof(dgid));
	inet_ntop(AF_INET6, path + 24, sgid, sizeof(sgid));
	memcpy(&dlid, path + 40, 2);
	memcpy(&slid, path + 42, 2);
	printf("%s %s %u %u %u\n", sgid, dgid, ntohs(slid), ntohs(dlid),
	       path[54] & 0x3f);
}

int main(int argc, char **argv)
{
	struct multi_path_record *wish;
	struct sa_mad *mad;
	uint64_t mask;
	size_t distance;
	umad_port_t port;
	int fd, agent, len;
	void *umad;

	check(argc > 4 && argc - 4 <= MAX_GIDS,
	      "usage: multipath DEVICE SOURCES PATHS GID...");
	check(!umad_init(), "umad_init: %m");
	check(!umad_get_port(argv[1], 1, &port), "port 1 of %s: %m", argv[1]);
	fd = umad_open_port(argv[1], 1);
	check(fd >= 0, "umad_open_port: %m");
	agent = umad_register(fd, CLASS_SA, CLASS_VERSION, 1, NULL);
	check(agent >= 0, "umad_register: %m");
	umad = calloc(1, umad_size() + ANSWER_BYTES);
	check(umad, "no memory");
	mad = umad_get_mad(umad);
	mad->base_version = 1;
	mad->mgmt_class = CLASS_SA;
	mad->class_version = CLASS_VERSION;
	mad->method = GET_MULTI;
	mad->tid = htobe64(0x1234);
	mad->attr_id = htons(MULTI_PATH_RECORD);
	mad->rmpp_version = 1;
	mad->rmpp_type = RMPP_DATA;
	mad->rmpp_flags = RMPP_ACTIVE;
	wish = (struct multi_path_record *)mad->data;
	wish->sgid_count = atoi(argv[2]);
	wish->dgid_count = argc - 4 - wish->sgid_count;
	wish->numb_path = atoi(argv[3]);
	mask = htobe64(SGID_COUNT | DGID_COUNT |
		       (wish->numb_path ? NUMB_PATH : 0));
	memcpy(mad->component_mask, &mask, sizeof(mask));
	for (int i = 4; i < argc; i++)
		check(inet_pton(AF_INET6, argv[i], &wish->gids[i - 4]) == 1,
		      "no GID: %s", argv[i]);
	umad_set_addr(umad, port.sm_lid, 1, port.sm_sl, QKEY_OF_QP1);
	check(!umad_send(fd, agent, umad, MAD_BYTES, PATIENCE_MS / TRIES,
			 TRIES),
	      "umad_send: %m");
	len = ANSWER_BYTES;
	check(umad_recv(fd, umad, &len, 2 * PATIENCE_MS) == agent,
	      "umad_recv: %m");
	check(!umad_status(umad), "no answer: %s",
	      strerror(umad_status(umad)));
	check(mad->method == GET_MULTI_RESP, "method %#x", mad->method);
	if (mad->status) {
		printf("refused %#x\n", ntohs(mad->status));
		return 0;
	}
	check(mad->attr_id == htons(PATH_RECORD), "attribute %#x",
	      ntohs(mad->attr_id));
	distance = ntohs(mad->attr_offset) * 8;
	check(distance == 64, "records at a distance of %zu", distance);
	for (const uint8_t *at = mad->data;
	     at + distance <= (uint8_t *)mad + len; at += distance)
		say(at);
	umad_unregister(fd, agent);
	umad_close_port(fd);
	umad_release_port(&port);
	free(umad);
	return 0;
}
