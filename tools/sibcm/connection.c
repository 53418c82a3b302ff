// SPDX-License-Identifier: GPL-2.0
/* How connections are made, kept and ended: the events of /dev/sib_cm and of the device. */

#include "sibcm.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* Between two offers that nobody has ordered. */
#define OFFER_INTERVAL_US 250000
/* For the echoes that are still to come when the connection is to end. */
#define END_US 5000000
#define SECOND_US 1000000
/* Between two looks at what an order waits for. */
#define ORDER_MS 50
/* The status of APR, and the reason of REJ. */
#define PATH_REJECTED 3
#define NO_RESOURCES 3

void notify(struct side *side, uint32_t fact)
{
	struct sib_cm_notify notify = { .id = side->id, .fact = fact };

	try_cm(side, SIB_CM_IOC_NOTIFY, &notify);
}

int offer(struct side *side, const struct sib_cm_path *path)
{
	struct sib_cm_send_lap lap = { .id = side->id,
				       .response_timeout = RESPONSE_TIMEOUT,
				       .retries = 7,
				       .path = *path };
	int error = try_cm(side, SIB_CM_IOC_SEND_LAP, &lap);

	side->is_offering = side->is_offering || !error;
	return error;
}

/* Offers the path by another port, if there is one to offer. */
static void offer_another(struct side *side)
{
	struct sib_cm_path path;
	uint64_t now = now_us();

	if (!side->is_active || side->is_manual || side->alternate ||
	    side->is_offering || now < side->offer_again_at)
		return;
	side->offer_again_at = now + OFFER_INTERVAL_US;
	survey(side);
	for (int port = 1; port <= side->ours.count; port++) {
		if (port == side->port || port > side->theirs.count ||
		    !is_port_active(side, port))
			continue;
		path = path_by(side, port, port);
		offer(side, &path);
		return;
	}
}

static void send_req(struct side *side)
{
	uint32_t size = htobe32(side->size);
	struct sib_cm_send_req req = {
		.service_id = side->service,
		.id = side->id,
		.qpn = side->qp->qp_num,
		.starting_psn = side->psn & 0xffffff,
		.pkey = PKEY,
		.path_mtu = IBV_MTU_2048,
		.remote_response_timeout = RESPONSE_TIMEOUT,
		.local_response_timeout = RESPONSE_TIMEOUT,
		.retry_count = RETRIES,
		.rnr_retry_count = 7,
		.max_cm_retries = 7,
		.private_data_len = sizeof(size),
		.primary = path_by(side, side->port, side->port),
	};

	memcpy(req.private_data, &size, sizeof(size));
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
	struct sib_cm_send_rej rej = { .id = event->id, .reason = NO_RESOURCES };
	uint32_t size;
	int port;

	memcpy(&size, event->private_data, sizeof(size));
	size = be32toh(size);
	if (side->port || !is_size(size)) {
		try_cm(side, SIB_CM_IOC_SEND_REJ, &rej);
		return;
	}
	side->id = event->id;
	port = port_of(side, event->primary.local_lid);
	if (!port)
		die("a connection to LID %u, which is not here",
		    event->primary.local_lid);
	make_buffers(side, size);
	to_init(side, port);
	to_rtr(side, event, event->primary.remote_lid);
	memcpy(rep.private_data, &side->ours, sizeof(side->ours));
	cm(side, SIB_CM_IOC_SEND_REP, &rep, "cannot accept");
}

void on_established(struct side *side)
{
	if (side->is_connected)
		return;
	to_rts(side);
	open_page(side);
	printf("connected by port %d\n", side->port);
}

static void on_rep(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send rtu = { .id = side->id };
	uint16_t lid = be16toh(side->theirs.port[side->port - 1].lid);

	memcpy(&side->theirs, event->private_data, sizeof(side->theirs));
	if (side->theirs.count > MAX_PORTS)
		die("the peer is no sibcm");
	to_rtr(side, event, lid);
	on_established(side);
	cm(side, SIB_CM_IOC_SEND_RTU, &rtu, "cannot complete");
}

static void on_lap(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send_apr apr = { .id = side->id,
				       .generation = event->generation };

	int port;

	survey(side);
	port = port_of(side, event->alternate.local_lid);
	/* A path that is dead already is no alternate one. */
	apr.status = port && is_port_active(side, port) &&
				     load(side, &event->alternate) ?
			     0 :
			     PATH_REJECTED;
	try_cm(side, SIB_CM_IOC_SEND_APR, &apr);
}

static void on_apr(struct side *side, const struct sib_cm_event *event)
{
	side->is_offering = false;
	if (!event->status) {
		if (!load(side, &event->alternate))
			notify(side, SIB_CM_PATH_UNLOADED);
		return;
	}
	if (side->is_manual || !side->is_refusal_known)
		printf("the peer refuses the path: status %u\n", event->status);
	side->is_refusal_known = true;
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
		die("rejected: %s (reason %u)", reason_text(event.status),
		    event.status);
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
		printf("gone over from port %d to port %d\n", side->port,
		       side->alternate);
		side->port = side->alternate;
		side->alternate = 0;
		side->migrations++;
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
		{ .fd = orders_fd(), .events = POLLIN },
	};

	if (carry_out(side))
		ms = ms < ORDER_MS ? ms : ORDER_MS;
	fflush(stdout);
	/* It may have been ordered just now. */
	if (interrupted && !side->is_ending)
		return false;
	if (poll(fds, 4, ms) <= 0)
		return false;
	if (fds[1].revents)
		on_async(side);
	if (fds[2].revents)
		on_completions(side);
	if (fds[3].revents)
		read_orders();
	return fds[0].revents && on_event(side);
}

void listen_for_one(struct side *side)
{
	struct sib_cm_listen listen = { .service_id = side->service,
					.id = side->id };
	char gid[INET6_ADDRSTRLEN];

	cm(side, SIB_CM_IOC_LISTEN, &listen, "cannot listen");
	inet_ntop(AF_INET6, side->ours.port[0].gid, gid, sizeof(gid));
	printf("to connect: sibcm connect -s %#llx DEVICE %u %s\n",
	       (unsigned long long)side->service,
	       be16toh(side->ours.port[0].lid), gid);
	while (!interrupted)
		if (serve(side, 1000))
			return;
}

/* Tells every second how much has come through. */
static void tell_throughput(struct side *side, uint64_t now)
{
	static uint64_t since, before;
	uint64_t messages = side->received - before;

	if (since && now - since < SECOND_US)
		return;
	if (since)
		printf("%.1f MB/s, %.0f messages/s by port %d\n",
		       (double)messages * side->size / (now - since),
		       messages * 1e6 / (now - since), side->port);
	since = now;
	before = side->received;
}

/* Sends what is due, and returns when there is more, in ms. */
static int send_some(struct side *side, uint64_t count, double interval)
{
	static uint64_t next;
	uint64_t now = now_us(), most = side->received + DEPTH;

	if (side->is_bulk) {
		push(side, most < count ? most : count);
		tell_throughput(side, now);
		return 1000;
	}
	if (side->sent == side->received && now >= next) {
		side->sent_at = now;
		push(side, side->sent + 1);
		next = now + interval * SECOND_US;
	}
	return now < next && next - now < SECOND_US ? (next - now) / 1000 + 1 :
						      1000;
}

void ping(struct side *side, int port, uint16_t lid, const struct in6_addr *gid,
	  uint64_t count, double interval)
{
	struct sib_cm_send dreq = { .id = side->id };
	uint64_t end;
	int error;

	side->is_active = true;
	if (port > side->ours.count)
		die("the device has ports 1 to %d, not %d", side->ours.count,
		    port);
	side->theirs.port[port - 1].lid = htobe16(lid);
	memcpy(side->theirs.port[port - 1].gid, gid, sizeof(*gid));
	to_init(side, port);
	send_req(side);
	while (!side->is_connected)
		if (interrupted || serve(side, 1000))
			return;
	while (!interrupted && side->received < count) {
		offer_another(side);
		if (serve(side, send_some(side, count, interval)))
			return;
	}
	side->is_ending = true;
	end = now_us() + END_US;
	while (side->received < side->sent && now_us() < end)
		if (serve(side, 100))
			return;
	error = try_cm(side, SIB_CM_IOC_SEND_DREQ, &dreq);
	/* EINVAL: the peer was faster. */
	if (error && error != EINVAL)
		die("cannot disconnect: %s", strerror(error));
	while (!serve(side, 10000))
		;
}
