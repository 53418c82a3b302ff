// SPDX-License-Identifier: GPL-2.0
/*
 * Two programs that connect by rdma_cm and see to their alternate paths themselves: both
 * name the path by their second ports, have echoes until they have gone over, and some
 * more. Each is told of that, once.
 *
 *     managed listen|call ADDRESS [late|watched|told [refused]]
 *
 * With `late` they name it when somebody else has loaded one. With another third word
 * somebody else sees to the paths, one by which they go over once: each is told nothing of
 * that with `watched`, and with `told` as if the path were its own. With a fourth one it
 * also finds once that the peer cannot be followed.
 */

#include "common.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TCP_PORT 7480
#define DUE_MS 60000
#define SECOND 2
/* 268 ms. */
#define TIMEOUT 16
/* After the migration. */
#define ECHOES 60
#define PAUSE_US 50000
#define BYTES 1024u
#define USAGE "usage: managed listen|call ADDRESS [late|watched|told [refused]]"

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static uint8_t memory[2 * BYTES];
/* Somebody else loads paths. */
static bool is_watched;
/* And so he does before the program loads its own. */
static bool is_late;
/* How often the program was told that it has gone over, and that it could not. */
static int migrated, stranded;

/* The next event, which must be this one; the LID that the peer tells with it. */
static uint16_t expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	uint16_t lid = 0;

	check(!rdma_get_cm_event(channel, &event), "event: %m");
	check(event->event == type, "event '%s', status %d",
	      rdma_event_str(event->event), event->status);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		id = event->id;
	if (event->param.conn.private_data_len >= sizeof(lid))
		memcpy(&lid, event->param.conn.private_data, sizeof(lid));
	rdma_ack_cm_event(event);
	return lid;
}

static void make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	pd = ibv_alloc_pd(id->verbs);
	check(pd, "alloc_pd: %m");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	check(mr, "reg_mr: %m");
	cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	check(cq, "create_cq: %m");
	init.send_cq = init.recv_cq = cq;
	check(!rdma_create_qp(id, pd, &init), "create_qp: %m");
}

static uint16_t second_lid(void)
{
	struct ibv_port_attr attr;

	check(!ibv_query_port(id->verbs, SECOND, &attr), "query_port");
	return attr.lid;
}

static int state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(!ibv_query_qp(id->qp, &attr, IBV_QP_PATH_MIG_STATE, &init),
	      "query_qp: %m");
	return attr.path_mig_state;
}

static void say(const char *word)
{
	printf("%s\n", word);
	fflush(stdout);
}

static void load(uint16_t lid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.alt_ah_attr = { .dlid = lid, .port_num = SECOND },
		.alt_port_num = SECOND,
		.alt_timeout = TIMEOUT,
		.path_mig_state = IBV_MIG_REARM,
	};
	uint64_t due = now_ms() + DUE_MS;
	int error;

	while (is_late && state() != IBV_MIG_ARMED) {
		check(now_ms() < due, "nobody else has loaded a path");
		usleep(1000);
	}
	error = ibv_modify_qp(id->qp, &attr,
			      IBV_QP_STATE | IBV_QP_ALT_PATH |
				      IBV_QP_PATH_MIG_STATE);
	check(!error, "modify_qp: %s", strerror(error));
	while (state() != IBV_MIG_ARMED) {
		check(now_ms() < due, "not armed");
		usleep(1000);
	}
	say("armed");
}

static void see_events(void)
{
	struct pollfd fd = { .fd = id->verbs->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	while (poll(&fd, 1, 0) == 1) {
		check(!ibv_get_async_event(id->verbs, &event), "event: %m");
		migrated += event.event_type == IBV_EVENT_PATH_MIG;
		stranded += event.event_type == IBV_EVENT_PATH_MIG_ERR;
		ibv_ack_async_event(&event);
	}
}

/*
 * Whether the queue pair has gone over. Nobody tells that of a path of somebody else's, but
 * the queue pair itself: a state of MIGRATED that it had before the path came is none.
 */
static bool has_gone_over(void)
{
	static bool is_armed;
	int now;

	if (!is_watched)
		return migrated > 0;
	now = state();
	if (now == IBV_MIG_ARMED && !is_armed) {
		is_armed = true;
		say("armed");
	}
	return is_armed && now == IBV_MIG_MIGRATED;
}

static void receive(void)
{
	struct ibv_sge sge = { (uintptr_t)memory + BYTES, BYTES, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };

	check(!ibv_post_recv(id->qp, &wr, &bad), "post_recv: %m");
}

static void send_bytes(uint8_t seed, uint32_t count)
{
	struct ibv_sge sge = { (uintptr_t)memory, count, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };

	for (uint32_t i = 0; i < BYTES; i++)
		memory[i] = seed + i;
	check(!ibv_post_send(id->qp, &wr, &bad), "post_send: %m");
}

/* One message there and one here, of so many bytes; how many the peer has sent. */
static uint32_t echo(uint8_t seed, bool first, uint32_t count)
{
	uint32_t got = 0;
	struct ibv_wc wc;

	if (first)
		send_bytes(seed, count);
	for (int left = 2; left > 0; left--) {
		check(await(cq, &wc, DUE_MS), "no echo");
		check(!wc.status, "'%s'", ibv_wc_status_str(wc.status));
		if (!wc.wr_id)
			continue;
		got = wc.byte_len;
		for (uint32_t i = 0; i < got; i++)
			check(memory[BYTES + i] == (uint8_t)(seed + i),
			      "byte %u is wrong", i);
		receive();
		if (!first)
			send_bytes(seed, got);
	}
	return got;
}

static void wait_for_peer(struct sockaddr_in *address)
{
	struct rdma_conn_param param = { .retry_count = 7,
					 .rnr_retry_count = 7,
					 .private_data_len = sizeof(uint16_t) };
	struct rdma_cm_id *listener = id;
	uint16_t mine, lid;

	check(!rdma_bind_addr(listener, (struct sockaddr *)address), "bind: %m");
	check(!rdma_listen(listener, 1), "listen: %m");
	lid = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp();
	receive();
	mine = second_lid();
	param.private_data = &mine;
	check(!rdma_accept(id, &param), "accept: %m");
	expect(RDMA_CM_EVENT_ESTABLISHED);
	if (!is_watched)
		load(lid);
}

static void call_peer(struct sockaddr_in *address)
{
	struct rdma_conn_param param = { .retry_count = 7,
					 .rnr_retry_count = 7,
					 .private_data_len = sizeof(uint16_t) };
	uint16_t mine, lid;

	check(!rdma_resolve_addr(id, NULL, (struct sockaddr *)address, 5000),
	      "resolve_addr: %m");
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	check(!rdma_resolve_route(id, 5000), "resolve_route: %m");
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp();
	receive();
	mine = second_lid();
	param.private_data = &mine;
	check(!rdma_connect(id, &param), "connect: %m");
	lid = expect(RDMA_CM_EVENT_ESTABLISHED);
	if (!is_watched)
		load(lid);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(TCP_PORT) };
	bool calls, is_told, is_refused;
	uint32_t count = BYTES;
	int after = 0;

	check(argc >= 3 && argc <= 5, USAGE);
	calls = !strcmp(argv[1], "call");
	is_late = argc == 4 && !strcmp(argv[3], "late");
	is_watched = argc > 3 && !is_late;
	is_told = !is_watched || !strcmp(argv[3], "told");
	is_refused = argc == 5 && !strcmp(argv[4], "refused");
	check((calls || !strcmp(argv[1], "listen")) &&
		      (is_told || !strcmp(argv[3], "watched")) &&
		      (is_refused || argc < 5) &&
		      inet_pton(AF_INET, argv[2], &address.sin_addr) == 1,
	      USAGE);
	channel = rdma_create_event_channel();
	check(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP),
	      "no identifier: %m");
	if (calls)
		call_peer(&address);
	else
		wait_for_peer(&address);
	/* A short message is the last one. */
	for (uint8_t seed = 0; count == BYTES; seed++) {
		if (calls && after == ECHOES)
			count--;
		count = echo(seed, calls, count);
		see_events();
		after += has_gone_over();
		if (calls)
			usleep(PAUSE_US);
	}
	check(has_gone_over() && state() == IBV_MIG_MIGRATED, "state %d",
	      state());
	check(migrated == is_told && stranded == (is_told && is_refused),
	      "told %d times that it has gone over, and %d that it could not",
	      migrated, stranded);
	say("migrated");
	return 0;
}
