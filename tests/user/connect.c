// SPDX-License-Identifier: GPL-2.0
/*
 * Connections by /dev/sib_cm between two HCAs of two ports each: how they are made,
 * refused and ended, how an alternate path is offered, taken, refused and used, and
 * what programs are told of each step. RC and UC, by the attributes of INIT_QP_ATTR.
 *
 *     connect DEVICE DEVICE [ROUNDS]
 *     connect DEVICE DEVICE paths    one round of what concerns paths
 *     connect DEVICE DEVICE hold     waits on a connection until a device goes
 */

#include "connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 4.2 ms to answer; 2.1 s: whoever counts datagrams is to see none twice. */
#define HASTY 10
#define RESPONSE 19
#define PATIENT 19
#define RETRIES 7
#define INVALID_SERVICE 8
#define STALE 10
#define CONSUMER 28
/* Of queue pairs that are none. */
#define FIRST_QPN 0x800000

struct side active, passive;
/* Of the connections that are made. */
static enum ibv_qp_type type = IBV_QPT_RC;
static bool has_alternate;

/* The queue pair, or one that never was: each connection has its own. */
static uint32_t qpn_of(const struct side *side)
{
	static uint32_t last = FIRST_QPN;

	return side->end.qp ? side->end.qp->qp_num : ++last;
}

struct sib_cm_send_req request(uint32_t id, const char *text)
{
	struct sib_cm_send_req req = {
		.service_id = SERVICE,
		.id = id,
		.qpn = qpn_of(&active),
		.starting_psn = active.end.psn,
		.pkey = 0xffff,
		.path_mtu = IBV_MTU_4096,
		.service_type = type == IBV_QPT_UC,
		.has_alternate = has_alternate,
		.responder_resources = 4,
		.initiator_depth = 4,
		.remote_response_timeout = RESPONSE,
		.local_response_timeout = RESPONSE,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.max_cm_retries = RETRIES,
		.private_data_len = strlen(text),
		.primary = path_between(&active, &passive, 1),
	};

	if (has_alternate)
		req.alternate = path_between(&active, &passive, 2);
	memcpy(req.private_data, text, strlen(text));
	return req;
}

static void say(struct side *side, unsigned long number, const char *text)
{
	struct sib_cm_send it = { .id = side->id,
				  .private_data_len = strlen(text) };

	memcpy(it.private_data, text, strlen(text));
	order(side, number, &it);
}

static void reply(const char *text)
{
	struct sib_cm_send_rep rep = {
		.id = passive.id,
		.qpn = qpn_of(&passive),
		.starting_psn = passive.end.psn,
		.responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7,
		.private_data_len = strlen(text),
	};

	memcpy(rep.private_data, text, strlen(text));
	order(&passive, SIB_CM_IOC_SEND_REP, &rep);
}

static void same_path(const struct sib_cm_path *a, const struct sib_cm_path *b)
{
	check(a->local_lid == b->local_lid && a->remote_lid == b->remote_lid &&
		      !memcmp(a->local_gid, b->local_gid, 16) &&
		      !memcmp(a->remote_gid, b->remote_gid, 16),
	      "another path");
}

static void transfer(struct side *from, struct side *to, uint8_t seed)
{
	struct ibv_sge in = { (uintptr_t)to->memory + BYTES, BYTES,
			      to->mr->lkey };
	struct ibv_sge out = { (uintptr_t)from->memory, BYTES, from->mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &in, .num_sge = 1 };
	struct ibv_send_wr send = { .sg_list = &out,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	for (uint32_t i = 0; i < BYTES; i++)
		from->memory[i] = seed + i;
	post_recv(&to->end, &recv);
	post_send(&from->end, &send);
	check(await(from->end.send_cq, &wc, DUE_MS) && !wc.status,
	      "SEND: status %d", wc.status);
	check(await(to->end.recv_cq, &wc, DUE_MS) && !wc.status,
	      "RECV: status %d", wc.status);
	check(!memcmp(from->memory, to->memory + BYTES, BYTES), "other bytes");
}

/* Has the active side ask, until the passive side has been told. */
static struct sib_cm_event ask(uint32_t listener)
{
	struct sib_cm_send_req req;
	struct sib_cm_event event;
	struct sib_cm_path primary = path_between(&passive, &active, 1);

	active.id = new_id(&active, 7);
	req = request(active.id, "may I?");
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	event = expect_told(&passive, SIB_CM_REQ_RECEIVED);
	expect_data(&event, "may I?");
	check(event.listener == listener && event.uid == SERVICE,
	      "for another listener");
	check(event.qpn == req.qpn && event.starting_psn == req.starting_psn &&
		      event.pkey == 0xffff && event.path_mtu == IBV_MTU_4096,
	      "another request");
	same_path(&event.primary, &primary);
	passive.id = event.id;
	return event;
}

static void establish(uint32_t listener, bool with_qps)
{
	struct sib_cm_event rep;

	ask(listener);
	if (with_qps) {
		advance(&passive, IBV_QPS_INIT);
		advance(&passive, IBV_QPS_RTR);
	}
	reply("you may");
	if (with_qps)
		advance(&passive, IBV_QPS_RTS);
	rep = expect_told(&active, SIB_CM_REP_RECEIVED);
	expect_data(&rep, "you may");
	check(rep.uid == 7 && rep.id == active.id, "for somebody else");
	if (with_qps) {
		advance(&active, IBV_QPS_INIT);
		advance(&active, IBV_QPS_RTR);
		advance(&active, IBV_QPS_RTS);
	}
	say(&active, SIB_CM_IOC_SEND_RTU, "I do");
	rep = expect_told(&passive, SIB_CM_RTU_RECEIVED);
	expect_data(&rep, "I do");
	check(attributes(&active).state == SIB_CM_ESTABLISHED &&
		      attributes(&passive).state == SIB_CM_ESTABLISHED,
	      "not established");
	check(attributes(&active).remote_comm_id ==
		      attributes(&passive).local_comm_id,
	      "another communication ID");
}

static void ask_to_part(void)
{
	struct sib_cm_event event;

	say(&active, SIB_CM_IOC_SEND_DREQ, "farewell");
	event = expect_told(&passive, SIB_CM_DREQ_RECEIVED);
	expect_data(&event, "farewell");
}

static void agree_to_part(void)
{
	struct sib_cm_event event;

	say(&passive, SIB_CM_IOC_SEND_DREP, "so be it");
	event = expect_told(&active, SIB_CM_DREP_RECEIVED);
	expect_data(&event, "so be it");
	expect_told(&active, SIB_CM_TIMEWAIT_EXIT);
	expect_told(&passive, SIB_CM_TIMEWAIT_EXIT);
	destroy(&active, active.id);
	destroy(&passive, passive.id);
}

static void part(void)
{
	ask_to_part();
	agree_to_part();
}

static int offer_for(const struct sib_cm_path *path, uint8_t response,
		     uint8_t retries)
{
	struct sib_cm_send_lap lap = {
		.id = active.id,
		.response_timeout = response,
		.retries = retries,
		.private_data_len = 4,
		.path = *path,
		.private_data = "this",
	};

	return command(&active, SIB_CM_IOC_SEND_LAP, &lap);
}

static int offer(const struct sib_cm_path *path)
{
	return offer_for(path, RESPONSE, RETRIES);
}

static int answer(uint32_t generation, uint8_t status)
{
	struct sib_cm_send_apr apr = { .id = passive.id,
				       .generation = generation,
				       .status = status,
				       .private_data_len = 4,
				       .private_data = "well" };

	return command(&passive, SIB_CM_IOC_SEND_APR, &apr);
}

static void tell(struct side *side, uint32_t fact)
{
	struct sib_cm_notify notify = { .id = side->id, .fact = fact };

	order(side, SIB_CM_IOC_NOTIFY, &notify);
}

static void await_migration(struct side *side)
{
	struct pollfd fd = { .fd = side->device.context->async_fd,
			     .events = POLLIN };
	struct ibv_async_event event;

	do {
		check(poll(&fd, 1, DUE_MS) == 1, "no PATH_MIG");
		check(!ibv_get_async_event(side->device.context, &event),
		      "get_async_event: %m");
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_PATH_MIG);
}

static struct ibv_qp_attr migrated = { .path_mig_state = IBV_MIG_MIGRATED };

static void make_ends(void)
{
	struct end_options options = { .type = type,
				       .send_depth = 8,
				       .recv_depth = 8,
				       .sges = 1 };

	end_create(&active.end, &active.device, &options);
	end_create(&passive.end, &passive.device, &options);
}

static void end_ends(void)
{
	end_destroy(&active.end);
	end_destroy(&passive.end);
	memset(&active.end, 0, sizeof(active.end));
	memset(&passive.end, 0, sizeof(passive.end));
}

static void test_alternate_path(uint32_t listener)
{
	struct sib_cm_path here = path_between(&active, &passive, 2);
	struct sib_cm_path there = path_between(&passive, &active, 2);
	struct sib_cm_path current = path_between(&active, &passive, 1);
	struct sib_cm_path crossed = current;
	struct sib_cm_event event;

	crossed.remote_lid = here.remote_lid;
	memcpy(crossed.remote_gid, here.remote_gid, sizeof(crossed.remote_gid));
	make_ends();
	establish(listener, true);
	transfer(&active, &passive, 1);
	transfer(&passive, &active, 2);
	check(try_advance(&active, IBV_QPS_SQD) == EINVAL,
	      "attributes of another state");

	check(offer(&current) == EINVAL, "the path in use is offered");
	event.alternate = here;
	event.alternate.local_lid = NOWHERE;
	check(offer(&event.alternate) == EINVAL,
	      "a path that begins nowhere is offered");

	/* Refused, and while one is under way there is no other. */
	check(!offer(&here), "no LAP: %m");
	check(offer(&here) == EBUSY, "two LAPs");
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	expect_data(&event, "this");
	same_path(&event.alternate, &there);
	check(answer(event.generation + 1, 0) == ESTALE, "an APR for nothing");
	check(!answer(event.generation, 3), "no APR");
	check(answer(event.generation, 3) == EINVAL, "two APRs");
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	expect_data(&event, "well");
	check(event.status == 3, "status %u", event.status);

	/* Replaced before the program has read of it: it reads of the newer one alone. */
	check(!offer_for(&here, HASTY, 0), "no hasty LAP: %m");
	expect_told(&active, SIB_CM_LAP_ERROR);
	check(!offer(&here), "no LAP after that: %m");
	expect_told(&active, SIB_CM_MRA_RECEIVED);
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	check(!answer(event.generation, 3), "an old LAP is told of");
	expect_told(&active, SIB_CM_APR_RECEIVED);
	check(!has_event(&passive, 0), "two LAPs are told of");

	/* Taken, after the consumer took its time. */
	check(!offer(&here), "no second LAP: %m");
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	expect_told(&active, SIB_CM_MRA_RECEIVED);
	advance(&passive, IBV_QPS_RTS);
	check(!answer(event.generation, 0), "no APR");
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(!event.status, "status %u", event.status);
	advance(&active, IBV_QPS_RTS);
	transfer(&active, &passive, 3);
	transfer(&passive, &active, 4);

	/* There is one, so no other is taken, and the program not asked. */
	tell(&active, SIB_CM_PATH_UNLOADED);
	check(!offer(&crossed), "no LAP for another path: %m");
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(event.status == 3, "status %u", event.status);
	check(!offer(&here), "no LAP for the path that is there: %m");
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(!event.status, "status %u", event.status);
	check(!has_event(&passive, 0), "the program is asked");

	/* Used: later messages go by it. */
	check(!ibv_modify_qp(active.end.qp, &migrated, IBV_QP_PATH_MIG_STATE),
	      "the queue pair does not migrate");
	transfer(&active, &passive, 5);
	await_migration(&active);
	await_migration(&passive);
	event = expect_told(&active, SIB_CM_MIGRATED);
	same_path(&event.alternate, &here);
	event = expect_told(&passive, SIB_CM_MIGRATED);
	same_path(&event.alternate, &there);
	tell(&active, SIB_CM_PATH_MIG);
	tell(&passive, SIB_CM_PATH_MIG);
	event.primary = attributes(&active).primary;
	same_path(&event.primary, &here);

	/* And back, when the peer is known to have followed. */
	tell(&active, SIB_CM_PATH_CONFIRMED);
	check(!offer(&current), "no LAP back: %m");
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	advance(&passive, IBV_QPS_RTS);
	check(!answer(event.generation, 0), "no APR");
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	advance(&active, IBV_QPS_RTS);
	/* Late news of the migration are none: nothing has gone over to this path. */
	tell(&active, SIB_CM_PATH_MIG);
	event.primary = attributes(&active).primary;
	same_path(&event.primary, &here);
	transfer(&active, &passive, 6);
	part();
	end_ends();
}

/*
 * The client is quick: its LAP is there before the server has its queue pair in RTS, which tells
 * the server first how to get there, and then of the path.
 */
static void test_quick_offer(uint32_t listener)
{
	struct sib_cm_path here = path_between(&active, &passive, 2);
	struct sib_cm_event event;

	make_ends();
	ask(listener);
	advance(&passive, IBV_QPS_INIT);
	advance(&passive, IBV_QPS_RTR);
	reply("you may");
	expect_told(&active, SIB_CM_REP_RECEIVED);
	advance(&active, IBV_QPS_INIT);
	advance(&active, IBV_QPS_RTR);
	advance(&active, IBV_QPS_RTS);
	say(&active, SIB_CM_IOC_SEND_RTU, "I do");
	expect_told(&passive, SIB_CM_RTU_RECEIVED);
	check(!offer(&here), "no LAP: %m");
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	advance(&passive, IBV_QPS_RTS);
	advance(&passive, IBV_QPS_RTS);
	check(!answer(event.generation, 0), "no APR");
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(!event.status, "status %u", event.status);
	advance(&active, IBV_QPS_RTS);
	transfer(&active, &passive, 1);
	transfer(&passive, &active, 2);
	part();
	end_ends();
}

/*
 * What SEND_REQ has offered already: for RTR and RTS. It is used before the connection ends, or while it
 * does, and datagrams go by it from then on.
 */
static void test_first_path(uint32_t listener, bool at_end)
{
	struct sib_cm_path here = path_between(&active, &passive, 2);
	struct sib_cm_path there = path_between(&passive, &active, 2);
	struct sib_cm_event event;

	has_alternate = true;
	make_ends();
	establish(listener, true);
	transfer(&active, &passive, 1);
	transfer(&passive, &active, 2);
	transfer(&active, &passive, 3);
	if (at_end)
		ask_to_part();
	check(!ibv_modify_qp(active.end.qp, &migrated, IBV_QP_PATH_MIG_STATE),
	      "the queue pair does not migrate");
	transfer(&active, &passive, 4);
	transfer(&passive, &active, 5);
	await_migration(&active);
	await_migration(&passive);
	event = expect_told(&active, SIB_CM_MIGRATED);
	same_path(&event.alternate, &here);
	event = expect_told(&passive, SIB_CM_MIGRATED);
	same_path(&event.alternate, &there);
	event.primary = attributes(&active).primary;
	same_path(&event.primary, &here);
	if (!at_end)
		ask_to_part();
	agree_to_part();
	end_ends();
	has_alternate = false;
}

/* Has a queue pair go over by the second port, with no word to its manager. */
static void load_alone(struct side *side, const struct sib_cm_path *path)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(!ibv_query_qp(side->end.qp, &attr, IBV_QP_AV, &init),
	      "ibv_query_qp: %m");
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_ah_attr.dlid = path->remote_lid;
	attr.alt_ah_attr.port_num = 2;
	attr.alt_port_num = 2;
	attr.alt_pkey_index = 0;
	attr.alt_timeout = 14;
	attr.path_mig_state = IBV_MIG_REARM;
	check(!ibv_modify_qp(side->end.qp, &attr,
			     IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
	      "a path without a LAP: %m");
}

/* The programs have a path that their managers have not agreed on: these learn of it when it is used. */
static void test_private_path(uint32_t listener)
{
	struct sib_cm_path here = path_between(&active, &passive, 2);
	struct sib_cm_path there = path_between(&passive, &active, 2);
	struct sib_cm_path back = path_between(&active, &passive, 1);
	struct sib_cm_event event;

	make_ends();
	establish(listener, true);
	load_alone(&passive, &there);
	load_alone(&active, &here);
	transfer(&active, &passive, 1);
	transfer(&passive, &active, 2);
	transfer(&active, &passive, 3);
	check(!ibv_modify_qp(active.end.qp, &migrated, IBV_QP_PATH_MIG_STATE),
	      "the queue pair does not migrate");
	transfer(&active, &passive, 4);
	transfer(&passive, &active, 5);
	await_migration(&active);
	await_migration(&passive);
	event = expect_told(&active, SIB_CM_MIGRATED);
	check(event.alternate.local_lid == here.local_lid &&
		      event.alternate.remote_lid == here.remote_lid,
	      "another path of the client");
	event = expect_told(&passive, SIB_CM_MIGRATED);
	check(event.alternate.local_lid == there.local_lid &&
		      event.alternate.remote_lid == there.remote_lid,
	      "another path of the server");
	tell(&active, SIB_CM_PATH_MIG);
	tell(&passive, SIB_CM_PATH_MIG);
	check(attributes(&active).primary.local_lid == here.local_lid &&
		      attributes(&passive).primary.local_lid == there.local_lid,
	      "a manager is on another path");

	/* By it they go on. */
	tell(&active, SIB_CM_PATH_CONFIRMED);
	check(!offer(&back), "no LAP by that path: %m");
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	check(!answer(event.generation, 3), "no APR");
	expect_told(&active, SIB_CM_APR_RECEIVED);
	part();
	end_ends();
}

static void test_refusal(uint32_t listener)
{
	struct sib_cm_send_rej rej = { .reason = CONSUMER,
				       .info_len = 2,
				       .private_data_len = 2,
				       .info = "hm",
				       .private_data = "no" };
	struct sib_cm_send_mra mra = { .service_timeout = PATIENT };
	struct sib_cm_event event;

	ask(listener);
	mra.id = rej.id = passive.id;
	order(&passive, SIB_CM_IOC_SEND_MRA, &mra);
	event = expect_told(&active, SIB_CM_MRA_RECEIVED);
	check(event.status == PATIENT, "patience %u", event.status);
	order(&passive, SIB_CM_IOC_SEND_REJ, &rej);
	event = expect_told(&active, SIB_CM_REJ_RECEIVED);
	expect_data(&event, "no");
	check(event.status == CONSUMER && event.info_len == 2 &&
		      !memcmp(event.info, "hm", 2),
	      "another refusal: %u", event.status);
	destroy(&active, active.id);
	destroy(&passive, passive.id);
}

/* An event that cannot be written to where the program says is the next one still. */
static void test_wrong_pointers(uint32_t listener)
{
	struct sib_cm_send_rej rej = { .reason = CONSUMER };
	struct sib_cm_send_mra mra = { .service_timeout = PATIENT };
	struct sib_cm_send_req req;
	struct sib_cm_event event;

	active.id = new_id(&active, 7);
	req = request(active.id, "may I?");
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	for (int i = 0; i < 2; i++) {
		check(has_event(&passive, DUE_MS), "no event");
		check(command(&passive, SIB_CM_IOC_GET_EVENT, NULL) == EFAULT,
		      "an event for a null pointer");
	}
	event = expect_told(&passive, SIB_CM_REQ_RECEIVED);
	expect_data(&event, "may I?");
	check(event.listener == listener, "for another listener");
	passive.id = mra.id = rej.id = event.id;
	order(&passive, SIB_CM_IOC_SEND_MRA, &mra);
	order(&passive, SIB_CM_IOC_SEND_REJ, &rej);
	check(has_event(&active, DUE_MS), "no event");
	check(command(&active, SIB_CM_IOC_GET_EVENT, NULL) == EFAULT,
	      "an event for a null pointer");
	expect_told(&active, SIB_CM_MRA_RECEIVED);
	expect_told(&active, SIB_CM_REJ_RECEIVED);
	destroy(&active, active.id);
	destroy(&passive, passive.id);
	nothing(&active);
	nothing(&passive);
}

/* What a listener was asked for, and nobody has read of, is refused when it goes. */
static void test_unread(void)
{
	uint32_t other = listen_on(&passive, SERVICE + 2, SIB_CM_CONNECTIONS, 0);
	struct sib_cm_send_req req;
	struct sib_cm_event event;

	active.id = new_id(&active, 7);
	req = request(active.id, "may I?");
	req.service_id = SERVICE + 2;
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	check(has_event(&passive, DUE_MS), "no event");
	destroy(&passive, other);
	nothing(&passive);
	event = expect_told(&active, SIB_CM_REJ_RECEIVED);
	check(event.status == CONSUMER, "reason %u", event.status);
	destroy(&active, active.id);
}

/* Nobody listens here, so ib_cm answers. */
static void test_unknown_service(void)
{
	struct sib_cm_send_req req;
	struct sib_cm_event event;

	active.id = new_id(&active, 7);
	req = request(active.id, "hello?");
	req.service_id++;
	/* 4.3 s: ib_cm counts what comes twice. */
	req.remote_response_timeout = 20;
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	event = expect_told(&active, SIB_CM_REJ_RECEIVED);
	check(event.status == INVALID_SERVICE, "reason %u", event.status);
	destroy(&active, active.id);
}

/* Asks for a connection of the queue pair of another one, by a port. */
static void ask_stale(uint32_t qpn, uint8_t port)
{
	uint32_t id = new_id(&active, 8);
	struct sib_cm_send_req req = request(id, "it is me again");
	struct sib_cm_event event;

	req.qpn = qpn;
	req.primary = path_between(&active, &passive, port);
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	event = expect_told(&active, SIB_CM_REJ_RECEIVED);
	check(event.id == id && event.status == STALE, "reason %u",
	      event.status);
	destroy(&active, id);
}

static void depart(struct side *side, uint32_t id)
{
	struct sib_cm_send it = { .id = id };

	order(side, SIB_CM_IOC_SEND_DREP, &it);
}

/* One side has found out that a connection is stale, and it ends. */
static void end_stale(struct side *here, uint32_t id, struct side *there,
		      uint32_t other)
{
	struct sib_cm_event event = expect_told(here, SIB_CM_STALE);

	check(event.id == id, "another connection is stale");
	event = expect_told(there, SIB_CM_DREQ_RECEIVED);
	check(event.id == other, "another connection ends");
	depart(there, other);
	expect_told(here, SIB_CM_DREP_RECEIVED);
	expect_told(here, SIB_CM_TIMEWAIT_EXIT);
	expect_told(there, SIB_CM_TIMEWAIT_EXIT);
	destroy(here, id);
	destroy(there, other);
}

/* A queue pair comes with a second connection: its program must have lost the first. */
static void test_stale(uint32_t listener)
{
	struct sib_cm_send_rep rep = { .initiator_depth = 1 };
	struct sib_cm_event event;
	uint32_t id, other, qpn;

	establish(listener, false);
	id = passive.id;
	other = active.id;
	qpn = attributes(&passive).remote_qpn;
	/* From a port that is not the peer's for all that is known: nobody's connection ends. */
	ask_stale(qpn, 2);
	nothing(&passive);
	check(attributes(&passive).state == SIB_CM_ESTABLISHED,
	      "a stranger ends a connection");
	ask_stale(qpn, 1);
	end_stale(&passive, id, &active, other);
	nothing(&passive);

	/* The same with REP. */
	establish(listener, false);
	id = active.id;
	other = passive.id;
	rep.qpn = attributes(&active).remote_qpn;
	ask(listener);
	rep.id = passive.id;
	order(&passive, SIB_CM_IOC_SEND_REP, &rep);
	event = expect_told(&active, SIB_CM_REQ_ERROR);
	check(event.id == active.id && event.status == STALE, "status %u",
	      event.status);
	event = expect_told(&passive, SIB_CM_REJ_RECEIVED);
	check(event.id == passive.id && event.status == STALE, "reason %u",
	      event.status);
	destroy(&active, active.id);
	destroy(&passive, passive.id);
	end_stale(&active, id, &passive, other);
}

static void test_silence(void)
{
	struct sib_cm_send_req req;
	struct sib_cm_event event;

	active.id = new_id(&active, 7);
	req = request(active.id, "anybody?");
	/* Nobody has this LID. */
	req.primary.remote_lid = 0xbff0;
	req.remote_response_timeout = HASTY;
	req.max_cm_retries = 3;
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	event = expect_told(&active, SIB_CM_REQ_ERROR);
	check(event.id == active.id, "of another");
	destroy(&active, active.id);
}

/* Identifiers and files that go while there is something left of them. */
static void test_sudden_ends(uint32_t listener)
{
	int kept = active.fd;

	ask(listener);
	destroy(&active, active.id);
	expect_told(&passive, SIB_CM_REJ_RECEIVED);
	destroy(&passive, passive.id);

	establish(listener, false);
	destroy(&passive, passive.id);
	expect_told(&active, SIB_CM_DREQ_RECEIVED);
	destroy(&active, active.id);

	active.fd = open("/dev/sib_cm", O_RDWR | O_CLOEXEC);
	check(active.fd >= 0, "cannot open /dev/sib_cm: %m");
	establish(listener, false);
	close(active.fd);
	active.fd = kept;
	expect_told(&passive, SIB_CM_DREQ_RECEIVED);
	destroy(&passive, passive.id);
	nothing(&active);
	nothing(&passive);
}

static void hold(uint32_t listener)
{
	establish(listener, false);
	printf("held\n");
	fflush(stdout);
	expect_told(&active, SIB_CM_REMOVED);
	check(offer(&(struct sib_cm_path){}) == ENODEV, "a LAP from nowhere");
	nothing(&passive);
	destroy(&active, active.id);
	destroy(&passive, passive.id);
}

/*
 * Long connections alone: datagrams may come twice, and a REQ whose connection has ended, or was refused,
 * by the time that it comes again is a new one.
 */
static void test_paths(uint32_t listener)
{
	test_alternate_path(listener);
	test_quick_offer(listener);
	test_first_path(listener, false);
	test_first_path(listener, true);
	test_private_path(listener);
	type = IBV_QPT_UC;
	test_alternate_path(listener);
	test_first_path(listener, false);
	type = IBV_QPT_RC;
}

int main(int argc, char **argv)
{
	uint32_t listener;
	int rounds = 1;

	check(argc == 3 || argc == 4,
	      "usage: connect DEVICE DEVICE [ROUNDS|paths|hold]");
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	listener = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);
	if (argc == 4 && !strcmp(argv[3], "hold")) {
		hold(listener);
		return 0;
	}
	if (argc == 4 && !strcmp(argv[3], "paths")) {
		test_paths(listener);
		return 0;
	}
	if (argc == 4)
		rounds = atoi(argv[3]);
	test_arguments(listener);
	test_untold();
	for (int round = 0; round < rounds; round++) {
		establish(listener, false);
		part();
		test_paths(listener);
		test_refusal(listener);
		test_wrong_pointers(listener);
		test_unread();
		test_unknown_service();
		test_stale(listener);
		test_silence();
		test_sudden_ends(listener);
	}
	test_noise(listener);
	destroy(&passive, listener);
	side_close(&active);
	side_close(&passive);
	printf("%d rounds\n", rounds);
	return 0;
}
