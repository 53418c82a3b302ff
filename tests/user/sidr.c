// SPDX-License-Identifier: GPL-2.0
/*
 * Services of datagrams by /dev/sib_cm: who asks is told queue pair and Q_Key, and sends a
 * datagram there; or is told that there is none, or nothing.
 *
 *     sidr DEVICE DEVICE [ROUNDS]
 *     sidr DEVICE DEVICE hold     waits amid a question until a device goes
 */

#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVICE 0x02ff000000005678ull
/* Of connections alone. */
#define CONNECTIONS 0x02ff000000005679ull
/* 4.2 ms to answer; 4.3 s, 8.6 s: whoever counts datagrams is to see none twice. */
#define HASTY 10
#define RESPONSE 20
#define PATIENT 21
#define RETRIES 15
#define INVALID_SERVICE 8
#define UD_QKEY 0x2bad1deau
#define PAYLOAD (BYTES - GRH_BYTES)

static struct side active, passive;

static struct sib_cm_send_sidr_req question(uint32_t id, const char *text)
{
	struct sib_cm_send_sidr_req req = {
		.service_id = SERVICE,
		.id = id,
		.pkey = 0xffff,
		.response_timeout = PATIENT,
		.retries = RETRIES,
		.private_data_len = strlen(text),
		.path = path_between(&active, &passive, 1),
	};

	memcpy(req.private_data, text, strlen(text));
	return req;
}

/* Has the active side ask by a port, until the passive side has been told. */
static struct sib_cm_event ask(uint32_t listener, uint8_t port)
{
	struct sib_cm_send_sidr_req req;
	struct sib_cm_event event;

	active.id = new_id(&active, 7);
	req = question(active.id, "who is there?");
	req.path = path_between(&active, &passive, port);
	order(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req);
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req) == EBUSY,
	      "two questions at a time");
	event = expect_told(&passive, SIB_CM_SIDR_REQ_RECEIVED);
	expect_data(&event, "who is there?");
	check(event.listener == listener && event.uid == SERVICE &&
		      event.id != listener,
	      "for another listener");
	check(event.pkey == 0xffff &&
		      event.primary.remote_lid == active.lids[port],
	      "from somebody else");
	passive.id = event.id;
	check(attributes(&active).state == SIB_CM_RESOLVING &&
		      attributes(&passive).state == SIB_CM_RESOLVING &&
		      attributes(&passive).service_id == SERVICE,
	      "another state");
	return event;
}

static int answer(uint8_t status, const char *text)
{
	struct sib_cm_send_sidr_rep rep = {
		.id = passive.id,
		.qpn = passive.end.qp ? passive.end.qp->qp_num : 1,
		.qkey = UD_QKEY,
		.status = status,
		.info_len = 2,
		.info = "hm",
		.private_data_len = strlen(text),
	};

	memcpy(rep.private_data, text, strlen(text));
	return command(&passive, SIB_CM_IOC_SEND_SIDR_REP, &rep);
}

static struct sib_cm_event expect_answer(uint8_t status, const char *text)
{
	struct sib_cm_event event = expect_told(&active, SIB_CM_SIDR_REP_RECEIVED);

	expect_data(&event, text);
	check(event.id == active.id && event.uid == 7, "for somebody else");
	check(event.status == status, "status %u", event.status);
	check(event.info_len == 2 && !memcmp(event.info, "hm", 2),
	      "other information");
	return event;
}

static void ready(struct side *side, uint8_t port)
{
	static const struct end_options options = { .type = IBV_QPT_UD,
						    .send_depth = 8,
						    .recv_depth = 8,
						    .sges = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = port,
				    .qkey = UD_QKEY };

	end_create(&side->end, &side->device, &options);
	check(!ibv_modify_qp(side->end.qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_QKEY),
	      "INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(side->end.qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(side->end.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
	      "RTS");
}

/* Sends a datagram to the queue pair that the answer has named. */
static void transfer(const struct sib_cm_event *to, uint8_t port)
{
	struct sib_cm_path path = path_between(&active, &passive, port);
	struct ibv_ah_attr ah_attr = address(&path, port);
	struct ibv_sge in = { (uintptr_t)passive.memory + BYTES, BYTES,
			      passive.mr->lkey };
	struct ibv_sge out = { (uintptr_t)active.memory, PAYLOAD,
			       active.mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &in, .num_sge = 1 };
	struct ibv_send_wr send = { .sg_list = &out,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_ah *ah = ibv_create_ah(active.device.pd, &ah_attr);
	struct ibv_wc wc;

	check(ah, "create_ah: %m");
	for (uint32_t i = 0; i < PAYLOAD; i++)
		active.memory[i] = port + i;
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = to->qpn;
	send.wr.ud.remote_qkey = to->qkey;
	post_recv(&passive.end, &recv);
	post_send(&active.end, &send);
	check(await(active.end.send_cq, &wc, DUE_MS) && !wc.status,
	      "SEND: status %d", wc.status);
	check(await(passive.end.recv_cq, &wc, DUE_MS) && !wc.status,
	      "RECV: status %d", wc.status);
	check(wc.byte_len == BYTES &&
		      !memcmp(active.memory, passive.memory + BYTES + GRH_BYTES,
			      PAYLOAD),
	      "other bytes");
	check(!ibv_destroy_ah(ah), "destroy_ah: %m");
}

static void part(void)
{
	destroy(&active, active.id);
	destroy(&passive, passive.id);
}

static void test_answer(uint32_t listener, uint8_t port)
{
	struct sib_cm_event event;

	ready(&active, port);
	ready(&passive, port);
	ask(listener, port);
	check(!answer(SIB_CM_SIDR_VALID, "it is me"), "no answer: %m");
	check(answer(SIB_CM_SIDR_VALID, "again") == EINVAL, "two answers");
	event = expect_answer(SIB_CM_SIDR_VALID, "it is me");
	check(event.qpn == passive.end.qp->qp_num && event.qkey == UD_QKEY,
	      "another queue pair");
	check(attributes(&active).state == SIB_CM_IDLE, "another state");
	transfer(&event, port);
	part();
	end_destroy(&active.end);
	end_destroy(&passive.end);
	memset(&active.end, 0, sizeof(active.end));
	memset(&passive.end, 0, sizeof(passive.end));
}

static void test_refusals(uint32_t listener)
{
	struct sib_cm_event event;

	for (uint8_t status = SIB_CM_SIDR_UNSUPPORTED;
	     status <= SIB_CM_SIDR_UNSUPPORTED_VERSION; status++) {
		ask(listener, 1);
		check(!answer(status, "no"), "no answer: %m");
		event = expect_answer(status, "no");
		check(!event.qpn && !event.qkey, "a Q_Key is given away");
		part();
	}
}

/* The peer asks again and again, and the program is told once. */
static void test_silence(void)
{
	struct sib_cm_send_sidr_req req;

	active.id = new_id(&active, 7);
	req = question(active.id, "hello?");
	req.response_timeout = HASTY;
	order(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req);
	expect_told(&active, SIB_CM_SIDR_REQ_ERROR);
	passive.id = expect_told(&passive, SIB_CM_SIDR_REQ_RECEIVED).id;
	nothing(&passive);
	/* Too late. */
	check(!answer(SIB_CM_SIDR_VALID, "yes?"), "no answer: %m");
	nothing(&active);
	part();

	/* Nobody has this LID. */
	active.id = new_id(&active, 7);
	req = question(active.id, "anybody?");
	req.path.remote_lid = 0xbff0;
	req.response_timeout = HASTY;
	req.retries = 2;
	order(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req);
	expect_told(&active, SIB_CM_SIDR_REQ_ERROR);
	/* An identifier may ask again. */
	order(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req);
	expect_told(&active, SIB_CM_SIDR_REQ_ERROR);
	destroy(&active, active.id);
}

/* Who listens for datagrams does not for connections, and the other way round: ib_cm answers. */
static void test_other_kind(void)
{
	uint32_t other = listen_on(&passive, CONNECTIONS, SIB_CM_CONNECTIONS, 0);
	struct sib_cm_send_sidr_req asking;
	struct sib_cm_send_req req = {
		.service_id = SERVICE,
		.id = new_id(&active, 7),
		.qpn = 1,
		.pkey = 0xffff,
		.path_mtu = IBV_MTU_4096,
		.remote_response_timeout = RESPONSE,
		.local_response_timeout = RESPONSE,
		.max_cm_retries = RETRIES,
		.primary = path_between(&active, &passive, 1),
	};
	struct sib_cm_event event;

	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	event = expect_told(&active, SIB_CM_REJ_RECEIVED);
	check(event.status == INVALID_SERVICE, "reason %u", event.status);
	destroy(&active, req.id);

	active.id = new_id(&active, 7);
	asking = question(active.id, "");
	asking.service_id = CONNECTIONS;
	order(&active, SIB_CM_IOC_SEND_SIDR_REQ, &asking);
	event = expect_told(&active, SIB_CM_SIDR_REP_RECEIVED);
	check(event.status == SIB_CM_SIDR_UNSUPPORTED, "status %u",
	      event.status);
	destroy(&active, active.id);
	nothing(&passive);
	destroy(&passive, other);

	/* One service ID, two services. */
	other = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);
	destroy(&passive, other);
}

/* Identifiers and files that go while there is something left of them. */
static void test_sudden_ends(uint32_t listener)
{
	struct sib_cm_send_sidr_req req;
	struct sib_cm_event event;
	int kept = active.fd;
	uint32_t other;

	ask(listener, 1);
	destroy(&passive, passive.id);
	event = expect_told(&active, SIB_CM_SIDR_REP_RECEIVED);
	check(event.status == SIB_CM_SIDR_REJECTED, "status %u", event.status);
	destroy(&active, active.id);

	active.fd = open("/dev/sib_cm", O_RDWR | O_CLOEXEC);
	check(active.fd >= 0, "cannot open /dev/sib_cm: %m");
	ask(listener, 1);
	close(active.fd);
	active.fd = kept;
	check(!answer(SIB_CM_SIDR_VALID, "where are you?"), "no answer: %m");
	destroy(&passive, passive.id);
	nothing(&active);

	/* A listener goes, and nobody has read what it was asked. */
	other = listen_on(&passive, SERVICE + 1, SIB_CM_DATAGRAMS, 0);
	active.id = new_id(&active, 7);
	req = question(active.id, "");
	req.service_id = SERVICE + 1;
	order(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req);
	check(has_event(&passive, DUE_MS), "no event");
	destroy(&passive, other);
	event = expect_told(&active, SIB_CM_SIDR_REP_RECEIVED);
	check(event.status == SIB_CM_SIDR_REJECTED, "status %u", event.status);
	destroy(&active, active.id);
	nothing(&passive);
}

static void test_arguments(uint32_t listener)
{
	struct sib_cm_listen listen = { .service_id = SERVICE + 2,
					.id = new_id(&active, 0),
					.kind = SIB_CM_DATAGRAMS + 1 };
	struct sib_cm_send_sidr_rep rep = { .id = listen.id };
	struct sib_cm_send_sidr_req req;
	struct sib_cm_send_req connect = {
		.pkey = 0xffff,
		.path_mtu = IBV_MTU_4096,
		.primary = path_between(&active, &passive, 1),
	};

	check(command(&active, SIB_CM_IOC_LISTEN, &listen) == EINVAL,
	      "a kind of service that there is not");
	destroy(&active,
		listen_on(&active, SERVICE, SIB_CM_DATAGRAMS, EADDRINUSE));
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REP, &rep) == EINVAL,
	      "an answer without a question");
	req = question(listener, "");
	check(command(&passive, SIB_CM_IOC_SEND_SIDR_REQ, &req) == EINVAL,
	      "a listener asks");
	req = question(listen.id, "");
	req.private_data_len = 217;
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req) == EINVAL,
	      "too much private data");
	req = question(listen.id, "");
	req.response_timeout = 32;
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req) == EINVAL,
	      "a time of 6 bits");
	req = question(listen.id, "");
	req.reserved[6] = 1;
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req) == EINVAL,
	      "what is reserved is ignored");
	req = question(listen.id, "");
	req.pkey = 0x1234;
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req) == ENOENT,
	      "a partition that the port is not in");
	req = question(listen.id, "");
	req.path.local_lid = NOWHERE;
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req) == EINVAL,
	      "a path that begins nowhere");
	destroy(&active, listen.id);

	ask(listener, 1);
	connect.id = active.id;
	check(command(&active, SIB_CM_IOC_SEND_REQ, &connect) == EINVAL,
	      "a question becomes a connection");
	check(answer(SIB_CM_SIDR_UNSUPPORTED_VERSION + 1, "") == EINVAL,
	      "a status that there is not");
	rep = (struct sib_cm_send_sidr_rep){ .id = passive.id,
					     .qpn = 1 << 24 };
	check(command(&passive, SIB_CM_IOC_SEND_SIDR_REP, &rep) == EINVAL,
	      "a queue pair number of 25 bits");
	check(!answer(SIB_CM_SIDR_NO_QP, "no"), "no answer: %m");
	expect_answer(SIB_CM_SIDR_NO_QP, "no");
	part();
}

static void hold(uint32_t listener)
{
	struct sib_cm_send_sidr_req req;

	ask(listener, 1);
	printf("held\n");
	fflush(stdout);
	expect_told(&active, SIB_CM_REMOVED);
	req = question(active.id, "");
	check(command(&active, SIB_CM_IOC_SEND_SIDR_REQ, &req) != 0,
	      "a question from nowhere");
	nothing(&passive);
	part();
}

int main(int argc, char **argv)
{
	uint32_t listener;
	int rounds = 1;

	check(argc == 3 || argc == 4, "usage: sidr DEVICE DEVICE [ROUNDS|hold]");
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	listener = listen_on(&passive, SERVICE, SIB_CM_DATAGRAMS, 0);
	if (argc == 4 && !strcmp(argv[3], "hold")) {
		hold(listener);
		return 0;
	}
	if (argc == 4)
		rounds = atoi(argv[3]);
	test_arguments(listener);
	for (int round = 0; round < rounds; round++) {
		for (uint8_t port = 1; port <= PORTS; port++)
			test_answer(listener, port);
		test_refusals(listener);
		test_silence();
		test_other_kind();
		test_sudden_ends(listener);
	}
	destroy(&passive, listener);
	side_close(&active);
	side_close(&passive);
	printf("%d rounds\n", rounds);
	return 0;
}
