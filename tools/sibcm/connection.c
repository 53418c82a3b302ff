// SPDX-License-Identifier: GPL-2.0
/* How connections are made, kept and ended: the events of /dev/sib_cm and of the device. */

#include "sibcm.h"

#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void notify(struct side *side, uint32_t fact)
{
	struct sib_cm_notify notify = { .id = side->id, .fact = fact };

	try_cm(side, SIB_CM_IOC_NOTIFY, &notify);
}

/* Offers another port's path, if there is one to offer. */
static void offer(struct side *side)
{
	struct sib_cm_send_lap lap = { .id = side->id,
				       .response_timeout = RESPONSE_TIMEOUT,
				       .retries = 7 };

	if (!side->is_active || side->alternate || side->is_offering)
		return;
	survey(side);
	for (int port = 1; port <= side->ours.count; port++) {
		if (port == side->port || port > side->theirs.count ||
		    !is_port_active(side, port))
			continue;
		lap.path = path_by(side, port);
		side->is_offering =
			!try_cm(side, SIB_CM_IOC_SEND_LAP, &lap);
		return;
	}
}

static void send_req(struct side *side, uint64_t service)
{
	struct sib_cm_send_req req = {
		.service_id = service,
		.id = side->id,
		.qpn = side->qp->qp_num,
		.starting_psn = side->psn & 0xffffff,
		.pkey = PKEY,
		.path_mtu = IBV_MTU_2048,
		.remote_response_timeout = RESPONSE_TIMEOUT,
		.local_response_timeout = RESPONSE_TIMEOUT,
		.retry_count = 5,
		.rnr_retry_count = 7,
		.max_cm_retries = 7,
		.private_data_len = sizeof(side->ours),
		.primary = path_by(side, side->port),
	};

	memcpy(req.private_data, &side->ours, sizeof(side->ours));
	cm(side, SIB_CM_IOC_SEND_REQ, &req, "cannot connect");
}

static void on_req(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send_rep rep = {
		.id = event->id,
		.qpn = side->qp->qp_num,
		.starting_psn = side->psn & 0xffffff,
		.rnr_retry_count = 7,
		.private_data_len = sizeof(side->ours),
	};
	struct sib_cm_send_rej rej = { .id = event->id, .reason = 3 };

	if (side->is_connected || side->port) {
		try_cm(side, SIB_CM_IOC_SEND_REJ, &rej);
		return;
	}
	side->id = event->id;
	memcpy(&side->theirs, event->private_data, sizeof(side->theirs));
	for (int i = 0; i < side->ours.count; i++)
		if (be16toh(side->ours.port[i].lid) == event->primary.local_lid)
			to_init(side, i + 1);
	if (!side->port)
		die("a connection to LID %u, which is not here",
		    event->primary.local_lid);
	to_rtr(side, event, event->primary.remote_lid);
	memcpy(rep.private_data, &side->ours, sizeof(side->ours));
	cm(side, SIB_CM_IOC_SEND_REP, &rep, "cannot accept");
}

void on_established(struct side *side)
{
	if (side->is_connected)
		return;
	to_rts(side);
	printf("connected by port %d\n", side->port);
}

static void on_rep(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send rtu = { .id = side->id };
	uint16_t lid = be16toh(side->theirs.port[side->port - 1].lid);

	memcpy(&side->theirs, event->private_data, sizeof(side->theirs));
	to_rtr(side, event, lid);
	on_established(side);
	cm(side, SIB_CM_IOC_SEND_RTU, &rtu, "cannot complete");
}

static void on_lap(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send_apr apr = { .id = side->id,
				       .generation = event->generation };

	survey(side);
	apr.status = load(side, &event->alternate) ? 0 : 3;
	try_cm(side, SIB_CM_IOC_SEND_APR, &apr);
}

static void on_apr(struct side *side, const struct sib_cm_event *event)
{
	side->is_offering = false;
	if (event->status)
		printf("the peer refuses the path: status %u\n", event->status);
	else if (!load(side, &event->alternate))
		notify(side, SIB_CM_PATH_UNLOADED);
}

/* Returns whether the connection is over. */
static bool on_event(struct side *side)
{
	struct sib_cm_send send = { .id = side->id };
	struct sib_cm_event event;

	if (try_cm(side, SIB_CM_IOC_GET_EVENT, &event))
		return false;
	switch (event.type) {
	case SIB_CM_REQ_RECEIVED:
		on_req(side, &event);
		break;
	case SIB_CM_REP_RECEIVED:
		on_rep(side, &event);
		break;
	case SIB_CM_RTU_RECEIVED:
	case SIB_CM_EV_ESTABLISHED:
		on_established(side);
		break;
	case SIB_CM_LAP_RECEIVED:
		on_lap(side, &event);
		break;
	case SIB_CM_APR_RECEIVED:
		on_apr(side, &event);
		break;
	case SIB_CM_LAP_ERROR:
		side->is_offering = false;
		printf("the peer does not answer an offer of a path\n");
		break;
	case SIB_CM_DREQ_RECEIVED:
		try_cm(side, SIB_CM_IOC_SEND_DREP, &send);
		return true;
	case SIB_CM_REJ_RECEIVED:
		die("rejected: reason %u", event.status);
	case SIB_CM_REQ_ERROR:
	case SIB_CM_REP_ERROR:
		die("the peer does not answer");
	case SIB_CM_REMOVED:
		die("the device is gone");
	case SIB_CM_DREP_RECEIVED:
	case SIB_CM_DREQ_ERROR:
		return true;
	default:
		break;
	}
	return false;
}

static void on_async(struct side *side)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(side->context, &event))
		return;
	if (event.event_type == IBV_EVENT_PATH_MIG) {
		printf("the path by port %d has failed: on by port %d\n",
		       side->port, side->alternate);
		side->port = side->alternate;
		side->alternate = 0;
		notify(side, SIB_CM_PATH_MIG);
	}
	ibv_ack_async_event(&event);
}

/* Waits for whatever happens within this time. Returns whether the connection is over. */
static bool serve(struct side *side, int ms)
{
	struct pollfd fds[] = {
		{ .fd = side->cm, .events = POLLIN },
		{ .fd = side->context->async_fd, .events = POLLIN },
		{ .fd = side->channel->fd, .events = POLLIN },
	};

	fflush(stdout);
	if (poll(fds, 3, ms) <= 0)
		return false;
	if (fds[1].revents)
		on_async(side);
	if (fds[2].revents)
		on_completions(side);
	return fds[0].revents && on_event(side);
}

void listen_for_one(struct side *side, uint64_t service)
{
	struct sib_cm_listen listen = { .service_id = service,
					.id = side->id };
	char gid[INET6_ADDRSTRLEN];

	cm(side, SIB_CM_IOC_LISTEN, &listen, "cannot listen");
	inet_ntop(AF_INET6, side->ours.port[0].gid, gid, sizeof(gid));
	printf("to connect: sibcm connect -s %#llx DEVICE %u %s\n",
	       (unsigned long long)service,
	       be16toh(side->ours.port[0].lid), gid);
	while (!interrupted)
		if (serve(side, 1000))
			return;
}

void ping(struct side *side, uint64_t service, const char *lid, const char *gid,
	  uint64_t count, double interval)
{
	struct sib_cm_send dreq = { .id = side->id };
	uint64_t next;

	side->is_active = true;
	side->theirs.port[0].lid = htobe16(strtoul(lid, NULL, 0));
	if (!side->theirs.port[0].lid ||
	    inet_pton(AF_INET6, gid, side->theirs.port[0].gid) != 1)
		die("no LID and GID: %s %s", lid, gid);
	to_init(side, 1);
	send_req(side, service);
	while (!side->is_connected)
		if (interrupted || serve(side, 1000))
			return;
	next = now_us();
	while (!interrupted && side->echoed < count) {
		uint64_t now = now_us();

		if (now >= next && side->sent == side->echoed) {
			offer(side);
			side->sent_at = now;
			post_send(side, ++side->sent);
			next = now + interval * 1e6;
		}
		if (serve(side, now < next ? (next - now) / 1000 + 1 : 1000))
			return;
	}
	cm(side, SIB_CM_IOC_SEND_DREQ, &dreq, "cannot disconnect");
	while (!serve(side, 10000))
		;
}
