// SPDX-License-Identifier: GPL-2.0
/*
 * LAPs for a connection of ib_cm that sib_cm sees to, from somebody who knows its names:
 * those for the end of the second HCA, which was asked for it, and is found in debugfs.
 *
 *     forger DEVICE DEVICE COUNT
 *     forger DEVICE DEVICE right
 *
 * COUNT of them have something wrong each. How many were not for the connection, as they
 * name another one, is the last word. With `right` there is one, with nothing wrong.
 */

#include "side.h"
#include "umad.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCHED "/sys/kernel/debug/sib_cm/watched"
/* So that what is sent is also received in time. */
#define PAUSE_US 1000

/* What is wrong with a LAP. */
enum kind {
	WRONG_QP,
	/* A port of the peer's HCA that is not the connection's. */
	WRONG_SOURCE,
	/* The path is the one in use, or does not lead here. */
	IN_USE,
	WRONG_LID,
	WRONG_GID,
	/* To the side that has asked for the connection. */
	WRONG_END,
	/* Of a connection that nobody has. */
	WRONG_LOCAL_ID,
	WRONG_REMOTE_ID,
	KINDS,
};

/* How the asked side calls the connection and its ends. */
struct names {
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
};

static struct side active, passive;
/* By the two ports of the active side, and by the first one of the passive side. */
static struct umad ports[PORTS + 1], back;
static struct rng rng;
static uint64_t forged, strangers;

static void find(struct names *names)
{
	FILE *file = fopen(WATCHED, "r");
	char line[512];
	uint64_t guid;

	check(file, WATCHED ": %m");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line,
			   "%" SCNx64 " %x %x Passive Established qp %x to %x",
			   &guid, &names->local_id, &names->remote_id,
			   &names->local_qpn, &names->remote_qpn) == 5 &&
		    guid == passive.guid) {
			fclose(file);
			return;
		}
	fail("no connection of %s in " WATCHED, passive.device.name);
}

static struct lap right_lap(const struct names *names)
{
	static uint64_t tid;

	return (struct lap){
		/* Each is newer than the last. */
		.tid = ++tid,
		.local_comm_id = names->remote_id,
		.remote_comm_id = names->local_id,
		.remote_qpn = names->local_qpn,
		.path = path_between(&active, &passive, 2),
	};
}

static void send_lap(struct umad *from, uint16_t to, const struct lap *lap)
{
	uint8_t mad[MAD_BYTES];
	int error;

	mad_lap(mad, lap);
	error = umad_send(from, to, mad);
	check(!error, "umad: %s", strerror(error));
	usleep(PAUSE_US);
}

static void forge(const struct names *names, enum kind kind)
{
	struct lap lap = right_lap(names);
	struct umad *from = &ports[1];
	uint16_t to = passive.lids[1];

	switch (kind) {
	case WRONG_QP:
		lap.remote_qpn ^= 1 + rng_below(&rng, 0x3ffffe);
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
		lap.local_comm_id = names->local_id;
		lap.remote_comm_id = names->remote_id;
		lap.remote_qpn = names->remote_qpn;
		lap.path = path_between(&passive, &active, 2);
		from = &back;
		to = active.lids[1];
		break;
	case WRONG_LOCAL_ID:
		lap.local_comm_id ^= 1 + rng_below(&rng, 0xfffffffe);
		break;
	case WRONG_REMOTE_ID:
		lap.remote_comm_id ^= 1 + rng_below(&rng, 0xfffffffe);
		break;
	case KINDS:
		break;
	}
	send_lap(from, to, &lap);
	if (kind == WRONG_LOCAL_ID || kind == WRONG_REMOTE_ID)
		strangers++;
	else
		forged++;
}

int main(int argc, char **argv)
{
	struct names names;

	check(argc == 4, "usage: forger DEVICE DEVICE COUNT|right");
	rng_seed(&rng, now_ms());
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	for (int port = 1; port <= PORTS; port++)
		umad_open(&ports[port], argv[1], port);
	umad_open(&back, argv[2], 1);
	find(&names);
	if (!strcmp(argv[3], "right")) {
		struct lap lap = right_lap(&names);

		send_lap(&ports[1], passive.lids[1], &lap);
	} else {
		for (int left = atoi(argv[3]); left > 0; left--)
			forge(&names, left % KINDS);
		check(forged && strangers, "nothing is forged");
		printf("%llu forged, strangers %llu\n",
		       (unsigned long long)forged,
		       (unsigned long long)strangers);
	}
	for (int port = 1; port <= PORTS; port++)
		umad_close(&ports[port]);
	umad_close(&back);
	side_close(&active);
	side_close(&passive);
	return 0;
}
