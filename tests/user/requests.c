// SPDX-License-Identifier: GPL-2.0
/*
 * REQs that /dev/sib_cm does not send, for a service that a program listens for there, and
 * what they are refused for; the program is not told of them. ib_cm must not be loaded: what
 * is not for sib_cm comes here.
 *
 *     requests DEVICE DEVICE
 */

#include "side.h"
#include "umad.h"

#include <stdio.h>
#include <string.h>

#define SERVICE 0x02ff00000000f500ull
/* One that only the side that asks listens for, if anybody does. */
#define ELSEWHERE 0x02ff00000000f501ull
#define ANSWER_MS 20000
#define REQ 0x10
#define REJ 0x12
#define REJECTED_REQ 0
#define INVALID_TRANSPORT 9
#define INVALID_GID 12
#define INVALID_LID 13
#define INVALID_MTU 26
#define CONSUMER 28
/* The code of an MTU has so many values. */
#define CODES 16
enum { RC, UC, RD, EXTENDED };

static struct side active, passive;
/* Ports of both. */
static struct umad umad, far;

/* One with nothing wrong, that has not been before. */
static struct req right_req(void)
{
	static uint32_t last;

	last++;
	return (struct req){
		.tid = last,
		.local_comm_id = 0x7e570000 + last,
		.service_id = SERVICE,
		.guid = active.guid,
		.qpn = 0x500000 + last,
		.path_mtu = IBV_MTU_4096,
		.primary = path_between(&active, &passive, 1),
	};
}

static void send_req(const struct req *req)
{
	uint8_t mad[MAD_BYTES];
	int error;

	mad_req(mad, req);
	error = umad_send(&umad, passive.lids[1], mad);
	check(!error, "umad: %s", strerror(error));
}

/* The answer is this refusal, with a value that would do. */
static void expect_rej(const struct req *req, uint16_t reason, const void *info,
		       uint8_t len)
{
	uint8_t mad[MAD_BYTES];
	struct rej rej;

	check(umad_receive(&umad, mad, ANSWER_MS), "no answer to REQ %u, due was %u",
	      (uint32_t)req->tid, reason);
	rej = mad_rej(mad);
	check(mad_attribute(mad) == REJ && (uint32_t)mad_get(mad + 8, 8) == req->tid &&
		      rej.remote_comm_id == req->local_comm_id &&
		      rej.message_rejected == REJECTED_REQ,
	      "another answer: attribute %#x", mad_attribute(mad));
	check(rej.reason == reason, "reason %u, due was %u", rej.reason, reason);
	check(rej.info_len == len && !memcmp(rej.info, info, len),
	      "reason %u: %u bytes of information, or others", reason,
	      rej.info_len);
}

/* The program is asked, and says no. */
static void expect_asked(const struct req *req)
{
	struct sib_cm_send_rej rej = { .reason = CONSUMER };
	struct sib_cm_event event = expect_told(&passive, SIB_CM_REQ_RECEIVED);

	check(event.qpn == req->qpn && event.service_type == req->service_type &&
		      event.path_mtu == req->path_mtu,
	      "another request");
	rej.id = event.id;
	order(&passive, SIB_CM_IOC_SEND_REJ, &rej);
	expect_rej(req, CONSUMER, "", 0);
	destroy(&passive, event.id);
}

static void test_service_types(void)
{
	for (uint8_t type = RC; type <= EXTENDED; type++) {
		struct req req = right_req();

		req.service_type = type;
		send_req(&req);
		if (type <= UC) {
			expect_asked(&req);
		} else {
			expect_rej(&req, INVALID_TRANSPORT, "", 0);
			nothing(&passive);
		}
	}
}

static void test_mtus(void)
{
	for (uint8_t mtu = 0; mtu < CODES; mtu++) {
		struct req req = right_req();

		req.path_mtu = mtu;
		send_req(&req);
		if (mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096)
			expect_asked(&req);
		else
			expect_rej(&req, INVALID_MTU, "", 0);
	}
	nothing(&passive);
}

/* The primary path leads to a LID or a GID that is not the port's, and then to what would do. */
static void test_primary_paths(void)
{
	struct sib_cm_path good = path_between(&active, &passive, 1);
	uint8_t lid[] = { good.remote_lid >> 8, good.remote_lid & 0xff };
	struct req req = right_req();

	req.primary.remote_lid = NOWHERE;
	send_req(&req);
	expect_rej(&req, INVALID_LID, lid, sizeof(lid));
	req = right_req();
	req.primary.remote_gid[15] ^= 0xff;
	send_req(&req);
	expect_rej(&req, INVALID_GID, good.remote_gid, 16);
	nothing(&passive);
	req = right_req();
	send_req(&req);
	expect_asked(&req);
}

/*
 * A connection, and a REQ of another manager that has given the same communication ID at that
 * HCA: it is passed on, and the connection stays.
 */
static void test_namesake(void)
{
	struct req req = right_req();
	uint8_t mad[MAD_BYTES];

	connect_bare(&active, &passive, SERVICE);
	req.local_comm_id = attributes(&active).local_comm_id;
	req.service_id = ELSEWHERE;
	send_req(&req);
	check(umad_receive(&far, mad, ANSWER_MS), "the REQ is not passed on");
	check(mad_attribute(mad) == REQ && (uint32_t)mad_get(mad + 8, 8) == req.tid,
	      "another datagram: attribute %#x", mad_attribute(mad));
	nothing(&active);
	nothing(&passive);
	part_bare(&active, &passive);
}

/* A peer asks one HCA, and another one by the same communication ID before the first has answered. */
static void test_other_hca(void)
{
	uint32_t listener = listen_on(&active, ELSEWHERE, SIB_CM_CONNECTIONS, 0);
	struct sib_cm_send_rej rej = { .reason = CONSUMER };
	struct req req = right_req(), other = right_req();
	struct sib_cm_event event;
	uint8_t mad[MAD_BYTES];
	int error;

	send_req(&req);
	event = expect_told(&passive, SIB_CM_REQ_RECEIVED);
	other.local_comm_id = req.local_comm_id;
	other.service_id = ELSEWHERE;
	other.primary = path_between(&passive, &active, 1);
	mad_req(mad, &other);
	error = umad_send(&far, active.lids[1], mad);
	check(!error, "umad: %s", strerror(error));
	rej.id = expect_told(&active, SIB_CM_REQ_RECEIVED).id;
	order(&active, SIB_CM_IOC_SEND_REJ, &rej);
	check(umad_receive(&far, mad, ANSWER_MS) && mad_attribute(mad) == REJ,
	      "no answer of the other HCA");
	destroy(&active, rej.id);
	rej.id = event.id;
	order(&passive, SIB_CM_IOC_SEND_REJ, &rej);
	expect_rej(&req, CONSUMER, "", 0);
	destroy(&passive, event.id);
	destroy(&active, listener);
}

int main(int argc, char **argv)
{
	uint32_t listener;

	check(argc == 3, "usage: requests DEVICE DEVICE");
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	umad_open_manager(&umad, argv[1], 1);
	listener = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);
	test_service_types();
	test_mtus();
	test_primary_paths();
	umad_open_manager(&far, argv[2], 1);
	test_namesake();
	test_other_hca();
	destroy(&passive, listener);
	umad_close(&far);
	umad_close(&umad);
	side_close(&active);
	side_close(&passive);
	printf("each REQ has been answered\n");
	return 0;
}
