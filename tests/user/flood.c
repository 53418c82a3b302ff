// SPDX-License-Identifier: GPL-2.0
/*
 * A flood of LAPs: those of a connection of /dev/sib_cm, and forged ones beside them,
 * with numbers of queue pairs that are none, from ports that are not the peer's, for
 * paths that are not to be had, and again and again. The connection stays as it is, and
 * each LAP of its own has one end.
 *
 *     flood DEVICE DEVICE SECONDS own|all
 *
 * With `all`, there are also LAPs of connections that nobody has, which are left to
 * ib_cm: how many is the last word of the last line. SIGTERM ends the flood sooner.
 */

#include "side.h"
#include "umad.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE 0x02ff00000000f100ull
#define RESPONSE 16
#define RETRIES 7
#define REJECTED 3
#define CONSUMER 28
/* Forged ones for each right one. */
#define BATCH 16

/* What is wrong with a LAP. */
enum kind {
	WRONG_QP,
	/* A port of the same HCA that is not the connection's. */
	WRONG_SOURCE,
	/* The path is the one in use, or does not lead here. */
	IN_USE,
	WRONG_LID,
	WRONG_GID,
	/* To the side that has asked for the connection. */
	WRONG_END,
	/* It has come before. */
	AGAIN,
	KINDS,
	/* A connection that nobody has. */
	STRANGER = KINDS,
};

static struct side active, passive;
/* By the two ports of the active side, and by the first one of the passive side. */
static struct umad ports[PORTS + 1], back;
static struct rng rng;
static uint64_t offers, answers, silences, forged, strangers, refused;
/* A forged one of the connection at hand. */
static uint8_t last[MAD_BYTES];
static volatile sig_atomic_t is_over;

static void end(int signal)
{
	(void)signal;
	is_over = 1;
}

/* What has left by the second port has come: this comes behind it, and is refused. */
static void await_second_port(void)
{
	uint32_t here = active.id, there = passive.id;
	struct sib_cm_send_rej rej = { .reason = CONSUMER };

	ask_bare(&active, &passive, SERVICE, 2);
	rej.id = passive.id;
	order(&passive, SIB_CM_IOC_SEND_REJ, &rej);
	expect_told(&active, SIB_CM_REJ_RECEIVED);
	destroy(&active, active.id);
	destroy(&passive, passive.id);
	active.id = here;
	passive.id = there;
}

/* A LAP that somebody else sends, which is not as it should be. */
static void forge(const struct sib_cm_attr_id *ids, bool with_strangers)
{
	struct lap lap = {
		.tid = rng_next(&rng),
		.local_comm_id = ids->local_comm_id,
		.remote_comm_id = ids->remote_comm_id,
		.remote_qpn = ids->remote_qpn,
		.path = path_between(&active, &passive, 2),
	};
	uint32_t kind = rng_below(&rng, KINDS + with_strangers);
	struct umad *from = &ports[1];
	uint16_t to = passive.lids[1];
	uint8_t mad[MAD_BYTES];
	int error;

	switch (kind) {
	case WRONG_QP:
		lap.remote_qpn = rng_next(&rng) & 0x3fffff;
		break;
	case WRONG_SOURCE:
		from = &ports[2];
		break;
	case IN_USE:
		lap.path = path_between(&active, &passive, 1);
		break;
	case WRONG_LID:
		lap.path.remote_lid += 100;
		break;
	case WRONG_GID:
		mad_put(lap.path.remote_gid, rng_next(&rng), 8);
		break;
	case WRONG_END:
		lap.local_comm_id = ids->remote_comm_id;
		lap.remote_comm_id = ids->local_comm_id;
		lap.path = path_between(&passive, &active, 2);
		from = &back;
		to = active.lids[1];
		break;
	case STRANGER:
		lap.local_comm_id = rng_next(&rng);
		if (rng_once_in(&rng, 2))
			lap.remote_comm_id = rng_next(&rng);
		break;
	}
	mad_lap(mad, &lap);
	if (kind == AGAIN && *last)
		memcpy(mad, last, sizeof(mad));
	else if (kind < WRONG_END)
		memcpy(last, mad, sizeof(mad));
	error = umad_send(from, to, mad);
	/* The one that is sent again may be on its way still. */
	check(!error || (kind == AGAIN && error == EINVAL), "umad: %s",
	      strerror(error));
	if (kind == STRANGER)
		strangers++;
	else
		forged++;
}

static int offer(void)
{
	struct sib_cm_send_lap lap = {
		.id = active.id,
		.response_timeout = RESPONSE,
		.retries = RETRIES,
		.path = path_between(&active, &passive, 2),
	};

	return command(&active, SIB_CM_IOC_SEND_LAP, &lap);
}

/* A path is offered to the passive side, maybe by a LAP that is not the newest any more. */
static void answer(const struct sib_cm_event *event)
{
	struct sib_cm_send_apr apr = { .id = passive.id,
				       .generation = event->generation,
				       .status = REJECTED };
	int error = command(&passive, SIB_CM_IOC_SEND_APR, &apr);

	check(!error || error == EINVAL || error == ESTALE, "APR: %s",
	      strerror(error));
	refused += !!error;
}

static bool next(struct side *side, struct sib_cm_event *event)
{
	int error = command(side, SIB_CM_IOC_GET_EVENT, event);

	check(!error || error == EAGAIN, "event: %s", strerror(error));
	return !error;
}

/* The offer under way comes to its end, and there is but one. */
static void settle(void)
{
	uint64_t due = now_ms() + DUE_MS;
	struct sib_cm_event event;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = active.fd, .events = POLLIN },
			{ .fd = passive.fd, .events = POLLIN },
		};

		check(now_ms() < due, "an offer has no end");
		poll(fds, ARRAY_SIZE(fds), 1000);
		while (next(&passive, &event)) {
			check(event.type == SIB_CM_LAP_RECEIVED,
			      "event %u of the passive side", event.type);
			answer(&event);
		}
		while (next(&active, &event)) {
			if (event.type == SIB_CM_MRA_RECEIVED)
				continue;
			check(event.type == SIB_CM_APR_RECEIVED ||
				      event.type == SIB_CM_LAP_ERROR,
			      "event %u of the active side", event.type);
			answers += event.type == SIB_CM_APR_RECEIVED;
			silences += event.type == SIB_CM_LAP_ERROR;
			return;
		}
	}
}

static void check_untouched(const struct sib_cm_attr_id *then)
{
	struct sib_cm_attr_id now = attributes(&passive);

	check(now.state == SIB_CM_ESTABLISHED && !now.has_alternate &&
		      !memcmp(&now.primary, &then->primary, sizeof(now.primary)),
	      "the connection is not as it was: state %u", now.state);
}

/* Until there is no more to be offered: two offers that get lost in the flood are enough. */
static void flood(uint64_t due, bool with_strangers)
{
	struct sib_cm_attr_id ids, there;
	int error = 0;

	connect_bare(&active, &passive, SERVICE);
	memset(last, 0, sizeof(last));
	ids = attributes(&active);
	there = attributes(&passive);
	while (!is_over && !error && (!offers || now_ms() < due)) {
		for (int i = 0; i < BATCH; i++)
			forge(&ids, with_strangers);
		error = offer();
		check(!error || error == EINVAL, "LAP: %s", strerror(error));
		if (!error) {
			offers++;
			/* What comes now is newer. */
			if (rng_once_in(&rng, 8))
				forge(&ids, with_strangers);
			settle();
		}
		check_untouched(&there);
	}
	await_second_port();
	part_bare(&active, &passive);
}

int main(int argc, char **argv)
{
	uint32_t listener;
	bool with_strangers;
	uint64_t due;

	check(argc == 5, "usage: flood DEVICE DEVICE SECONDS own|all");
	signal(SIGTERM, end);
	rng_seed(&rng, now_ms());
	with_strangers = !strcmp(argv[4], "all");
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	check(!fcntl(active.fd, F_SETFL, O_NONBLOCK) &&
		      !fcntl(passive.fd, F_SETFL, O_NONBLOCK),
	      "fcntl: %m");
	for (int port = 1; port <= PORTS; port++)
		umad_open(&ports[port], argv[1], port);
	umad_open(&back, argv[2], 1);
	listener = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);
	due = now_ms() + atoi(argv[3]) * 1000ull;
	do
		flood(due, with_strangers);
	while (!is_over && now_ms() < due);
	check(offers == answers + silences, "%llu offers",
	      (unsigned long long)offers);
	check(answers, "no offer is answered");
	destroy(&passive, listener);
	for (int port = 1; port <= PORTS; port++)
		umad_close(&ports[port]);
	umad_close(&back);
	side_close(&active);
	side_close(&passive);
	printf("%llu offers, %llu answered, %llu answers too late; %llu forged, "
	       "strangers %llu\n",
	       (unsigned long long)offers, (unsigned long long)answers,
	       (unsigned long long)refused, (unsigned long long)forged,
	       (unsigned long long)strangers);
	return 0;
}
