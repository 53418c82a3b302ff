// SPDX-License-Identifier: GPL-2.0
/*
 * Connections made by /dev/sib_cm, with alternate paths that are loaded by LAP and
 * APR: the path is pulled under load, the connection goes on, and the path back is
 * loaded when it is repaired; every byte and every completion is checked.
 *
 *     lap DEVICE DEVICE HOOK ROUNDS SEED
 *
 * What HOOK is stands in rails.h.
 */

#include "rails.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/sib_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DUE_MS 30000
#define SERVICE 0x02ff000000000001ull
#define CLIENT 0
#define SERVER 1
/* How a path is pulled (see rails.h): nothing comes through, either way. */
#define BOTH_WAYS 2

/* AP statuses, as the IBA has them. */
enum { LOADED, INVALID_COMM_ID, UNSUPPORTED, REJECTED, REDIRECT, IS_CURRENT };

/* A side's place at the connection manager. */
struct desk {
	int fd;
	/* Of the connection. */
	uint32_t id;
};

static struct desk desks[2];

static int try_cm(int i, unsigned long request, void *arg)
{
	return ioctl(desks[i].fd, request, arg) ? errno : 0;
}

#define cm(i, request, arg)                                                   \
	do {                                                                  \
		int error = try_cm(i, request, arg);                          \
		check(!error, #request " of side %d: %s", i, strerror(error));\
	} while (0)

/*
 * The next event of a side, which has to be of this type. On a busy machine an answer to
 * a LAP may be so late that its sender is asked for patience first.
 */
static struct sib_cm_event await_event(int i, uint32_t type)
{
	struct pollfd fd = { .fd = desks[i].fd, .events = POLLIN };
	struct sib_cm_event event;

	do {
		check(poll(&fd, 1, DUE_MS) == 1, "side %d: no event of type %u",
		      i, type);
		cm(i, SIB_CM_IOC_GET_EVENT, &event);
	} while (event.type == SIB_CM_MRA_RECEIVED);
	check(event.type == type, "side %d: event %u with status %u, not %u", i,
	      event.type, event.status, type);
	return event;
}

static void expect_no_event(int i)
{
	struct sib_cm_event event;

	check(try_cm(i, SIB_CM_IOC_GET_EVENT, &event) == EAGAIN,
	      "side %d: event %u", i, event.type);
}

static uint64_t guid_of(int i)
{
	return be64toh(ibv_get_device_guid(sides[i].device.context->device));
}

static uint32_t create_id(int i, uint64_t uid)
{
	struct sib_cm_create_id create = { .uid = uid, .guid = guid_of(i) };

	cm(i, SIB_CM_IOC_CREATE_ID, &create);
	return create.id;
}

/* The path by this port, as side `i` sees it. */
static struct sib_cm_path cm_path(int i, int port)
{
	struct sib_cm_path path = {
		.local_lid = sides[i].lids[port],
		.remote_lid = sides[!i].lids[port],
		.subnet_local = 1,
		.ack_timeout = timeouts[port],
		.rate = IBV_RATE_10_GBPS,
	};
	union ibv_gid gid;

	check(!ibv_query_gid(sides[i].device.context, port, 0, &gid),
	      "query_gid: %m");
	memcpy(path.local_gid, gid.raw, sizeof(path.local_gid));
	check(!ibv_query_gid(sides[!i].device.context, port, 0, &gid),
	      "query_gid: %m");
	memcpy(path.remote_gid, gid.raw, sizeof(path.remote_gid));
	return path;
}

static void check_path(const struct sib_cm_path *got, int i, int port)
{
	struct sib_cm_path want = cm_path(i, port);

	check(!memcmp(got, &want, sizeof(want)),
	      "path from LID %u to %u, not from %u to %u", got->local_lid,
	      got->remote_lid, want.local_lid, want.remote_lid);
}

static void send_private(int i, unsigned long request, const char *text)
{
	struct sib_cm_send send = { .id = desks[i].id,
				    .private_data_len = strlen(text) };

	memcpy(send.private_data, text, strlen(text));
	cm(i, request, &send);
}

static void check_private(const struct sib_cm_event *event, const char *text)
{
	check(!strcmp((const char *)event->private_data, text),
	      "private data '%.32s', not '%s'", event->private_data, text);
}

static void send_req(void)
{
	struct sib_cm_send_req req = {
		.service_id = SERVICE,
		.id = desks[CLIENT].id,
		.qpn = sides[CLIENT].end.qp->qp_num,
		.starting_psn = sides[CLIENT].end.psn,
		.pkey = 0xffff,
		.path_mtu = sides[CLIENT].device.port_attr.active_mtu,
		.responder_resources = default_path.rd_atomic,
		.initiator_depth = default_path.rd_atomic,
		.remote_response_timeout = 18,
		.local_response_timeout = 18,
		.retry_count = default_path.retries,
		.rnr_retry_count = default_path.rnr_retries,
		.max_cm_retries = 7,
		.private_data_len = 5,
		.primary = cm_path(CLIENT, 1),
		.private_data = "hello",
	};

	cm(CLIENT, SIB_CM_IOC_SEND_REQ, &req);
}

static void send_rep(void)
{
	struct sib_cm_send_rep rep = {
		.id = desks[SERVER].id,
		.qpn = sides[SERVER].end.qp->qp_num,
		.starting_psn = sides[SERVER].end.psn,
		.responder_resources = default_path.rd_atomic,
		.initiator_depth = default_path.rd_atomic,
		.target_ack_delay = 10,
		.rnr_retry_count = default_path.rnr_retries,
		.private_data_len = 7,
		.private_data = "welcome",
	};

	cm(SERVER, SIB_CM_IOC_SEND_REP, &rep);
}

/* Connects the queue pairs with what comes with REQ and REP. */
static void connect_by_cm(void)
{
	struct path_options path = default_path;
	struct end *client = &sides[CLIENT].end, *server = &sides[SERVER].end;
	struct sib_cm_event event;

	path.timeout = timeouts[1];
	rails_survey();
	for (int i = 0; i < 2; i++)
		end_to_init(&sides[i].end, &path);
	desks[CLIENT].id = create_id(CLIENT, 17);
	send_req();
	event = await_event(SERVER, SIB_CM_REQ_RECEIVED);
	check(event.uid == 4, "uid %llu", (unsigned long long)event.uid);
	check_private(&event, "hello");
	check(event.qpn == client->qp->qp_num &&
		      event.starting_psn == client->psn,
	      "queue pair %#x with PSN %#x", event.qpn, event.starting_psn);
	check_path(&event.primary, SERVER, 1);
	check(!event.has_alternate, "an alternate path");
	desks[SERVER].id = event.id;
	end_to_rtr(server, client, &path);
	send_rep();

	event = await_event(CLIENT, SIB_CM_REP_RECEIVED);
	check(event.uid == 17, "uid %llu", (unsigned long long)event.uid);
	check_private(&event, "welcome");
	check(event.qpn == server->qp->qp_num &&
		      event.starting_psn == server->psn,
	      "queue pair %#x with PSN %#x", event.qpn, event.starting_psn);
	end_to_rtr(client, server, &path);
	end_to_rts(client, &path);
	send_private(CLIENT, SIB_CM_IOC_SEND_RTU, "go");
	event = await_event(SERVER, SIB_CM_RTU_RECEIVED);
	check_private(&event, "go");
	end_to_rts(server, &path);
}

static int try_lap(int i, int port)
{
	struct sib_cm_send_lap lap = {
		.id = desks[i].id,
		.response_timeout = 18,
		.retries = 7,
		.private_data_len = 4,
		.path = cm_path(i, port),
		.private_data = "load",
	};

	return try_cm(i, SIB_CM_IOC_SEND_LAP, &lap);
}

static int try_apr(uint32_t generation, uint8_t status)
{
	struct sib_cm_send_apr apr = {
		.id = desks[SERVER].id,
		.generation = generation,
		.status = status,
		.private_data_len = 3,
		.private_data = "apr",
	};

	return try_cm(SERVER, SIB_CM_IOC_SEND_APR, &apr);
}

static void notify(int i, uint32_t fact)
{
	struct sib_cm_notify notify = { .id = desks[i].id, .fact = fact };

	cm(i, SIB_CM_IOC_NOTIFY, &notify);
}

/* A LAP is taken as soon as the peer has been heard on the path in use. */
static void await_lap(int port)
{
	uint64_t end = now_ms() + DUE_MS;
	int err;

	while ((err = try_lap(CLIENT, port))) {
		check(err == EAGAIN && now_ms() < end, "LAP: %d", err);
		usleep(1000);
	}
}

/* The client offers the path by this port, and the server answers. */
static void offer(int port, uint8_t status)
{
	struct sib_cm_event event;

	await_lap(port);
	check(try_lap(CLIENT, port) == EBUSY, "two LAPs at a time");
	event = await_event(SERVER, SIB_CM_LAP_RECEIVED);
	check_private(&event, "load");
	check_path(&event.alternate, SERVER, port);
	if (status == LOADED)
		check(!try_modify(&sides[SERVER], path_of(SERVER, port),
				  IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
		      "modify_qp: no alternate path: %m");
	check(try_apr(event.generation + 1, status) == ESTALE,
	      "an answer to a LAP that has not come");
	check(!try_apr(event.generation, status), "APR: %m");
	check(try_apr(event.generation, status) == EINVAL, "two answers");
	event = await_event(CLIENT, SIB_CM_APR_RECEIVED);
	check(event.status == status, "status %u, not %u", event.status,
	      status);
	check_private(&event, "apr");
}

/* Loads the path by this port as the alternate one, by LAP and APR. */
static void arm(int port)
{
	rails_survey();
	offer(port, LOADED);
	check(!try_modify(&sides[CLIENT], path_of(CLIENT, port),
			  IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
	      "modify_qp: no alternate path: %m");
	arm_loaded(port);
	check(try_lap(CLIENT, port) == EINVAL, "a LAP for a second path");
}

/* Tells the connection manager that the queue pairs have gone to this port. */
static void tell_moved(int port)
{
	for (int i = 0; i < 2; i++) {
		struct sib_cm_attr_id attr = { .id = desks[i].id };
		struct sib_cm_event event;

		notify(i, SIB_CM_PATH_MIG);
		event = await_event(i, SIB_CM_MIGRATED);
		check_path(&event.alternate, i, port);
		cm(i, SIB_CM_IOC_ATTR_ID, &attr);
		check(attr.state == SIB_CM_ESTABLISHED && !attr.has_alternate,
		      "state %u, alternate %u", attr.state,
		      attr.has_alternate);
		check_path(&attr.primary, i, port);
	}
}

static void check_refusals(void)
{
	check(try_lap(CLIENT, 1) == EINVAL, "a LAP for the primary path");
	check(try_lap(SERVER, 2) == EINVAL, "a LAP of the passive side");
	check(try_apr(1, LOADED) == EINVAL, "an APR for no LAP");
	offer(2, REJECTED);
	check_state(1, 0, IBV_MIG_MIGRATED);
}

static void disconnect(void)
{
	struct sib_cm_event event;

	send_private(CLIENT, SIB_CM_IOC_SEND_DREQ, "bye");
	event = await_event(SERVER, SIB_CM_DREQ_RECEIVED);
	check_private(&event, "bye");
	send_private(SERVER, SIB_CM_IOC_SEND_DREP, "so long");
	event = await_event(CLIENT, SIB_CM_DREP_RECEIVED);
	check_private(&event, "so long");
	for (int i = 0; i < 2; i++) {
		struct sib_cm_destroy_id id = { .id = desks[i].id };

		await_event(i, SIB_CM_TIMEWAIT_EXIT);
		cm(i, SIB_CM_IOC_DESTROY_ID, &id);
		check(try_cm(i, SIB_CM_IOC_DESTROY_ID, &id) == EINVAL,
		      "destroyed twice");
		expect_no_event(i);
	}
}

/* Nobody listens for this service: ib_cm, which gets what is not ours, says so. */
static void call_nobody(void)
{
	struct sib_cm_send_req req = {
		.service_id = SERVICE + 1,
		.id = create_id(CLIENT, 5),
		.qpn = 1,
		.pkey = 0xffff,
		.path_mtu = sides[CLIENT].device.port_attr.active_mtu,
		.remote_response_timeout = 18,
		.local_response_timeout = 18,
		.max_cm_retries = 7,
		.primary = cm_path(CLIENT, 1),
	};
	struct sib_cm_destroy_id id = { .id = req.id };
	struct sib_cm_event event;

	cm(CLIENT, SIB_CM_IOC_SEND_REQ, &req);
	event = await_event(CLIENT, SIB_CM_REJ_RECEIVED);
	check(event.status == 8, "reason %u", event.status);
	cm(CLIENT, SIB_CM_IOC_DESTROY_ID, &id);
}

int main(int argc, char **argv)
{
	struct sib_cm_listen listen = { .service_id = SERVICE };
	int rounds, left = PORTS;

	check(argc == 6, "usage: lap DEVICE DEVICE HOOK ROUNDS SEED");
	rails_open(argv + 1, argv[3], atoi(argv[5]));
	rounds = atoi(argv[4]);
	for (int i = 0; i < 2; i++) {
		desks[i].fd = open("/dev/sib_cm", O_RDWR | O_NONBLOCK | O_CLOEXEC);
		check(desks[i].fd >= 0, "/dev/sib_cm: %m");
	}
	listen.id = create_id(SERVER, 4);
	cm(SERVER, SIB_CM_IOC_LISTEN, &listen);
	listen.id = create_id(SERVER, 5);
	check(try_cm(SERVER, SIB_CM_IOC_LISTEN, &listen) == EADDRINUSE,
	      "two listeners");

	rails_create(IBV_QPT_RC);
	connect_by_cm();
	call_nobody();
	step();
	check_refusals();
	for (int round = 0; round < rounds; round++) {
		int port = 1 + round % 2;

		left = port;
		arm(PORTS + 1 - port);
		show_state("ARMED");
		lose(port);
		tell_moved(PORTS + 1 - port);
		printf("round %d: port %d lost, %llu steps\n", round, port,
		       (unsigned long long)steps);
		fflush(stdout);
	}
	rails_destroy();
	/* The end of the connection gets through by the path that it is on. */
	rails_pull(left, BOTH_WAYS);
	disconnect();
	rails_mend(left);
	for (int i = 0; i < 2; i++) {
		expect_no_event(i);
		close(desks[i].fd);
	}
	rails_close();
	printf("%llu steps\n", (unsigned long long)steps);
	return 0;
}
