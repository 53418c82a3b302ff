// SPDX-License-Identifier: GPL-2.0
/*
 * Alternate paths that are offered for connections of /dev/sib_cm, and what becomes of
 * the offers. There are no queue pairs.
 *
 *     offers DEVICE DEVICE P_KEY near|far|none|down
 *
 * The connection is in this partition, and by the first ports. Of the second ports that of
 * the first HCA is not in it (near), or only that of the second (far), or both are (none).
 * What they are members of may have changed just now. Or the second port of the second HCA
 * is down. Neither that one nor one outside of the partition is told to who offers a path
 * that ends nowhere.
 */

#include "side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVICE 0x02ff00000000f200ull
/* 1.07 s. */
#define RESPONSE 18
#define RETRIES 7
#define REJECTED 3

/* Which end refuses a path; each can follow on the one before when members are added. */
static const char *const refusers[] = { "near", "far", "none" };
enum refuser { NEAR, FAR, NONE };

static struct side active, passive;

static int offer(const struct sib_cm_path *path)
{
	struct sib_cm_send_lap lap = { .id = active.id,
				       .response_timeout = RESPONSE,
				       .retries = RETRIES,
				       .path = *path };

	return command(&active, SIB_CM_IOC_SEND_LAP, &lap);
}

static void answer(uint32_t generation, uint8_t status)
{
	struct sib_cm_send_apr apr = { .id = passive.id,
				       .generation = generation,
				       .status = status };

	order(&passive, SIB_CM_IOC_SEND_APR, &apr);
}

static void connect_within(uint16_t pkey)
{
	struct sib_cm_send_req req =
		bare_request(&active, &passive, SERVICE, 1);
	uint64_t due = now_ms() + DUE_MS;
	struct sib_cm_event event;
	int error;

	req.pkey = pkey;
	while ((error = command(&active, SIB_CM_IOC_SEND_REQ, &req))) {
		check(error == ENOENT && now_ms() < due, "REQ: %s",
		      strerror(error));
		usleep(1000);
	}
	active.id = req.id;
	event = expect_told(&passive, SIB_CM_REQ_RECEIVED);
	check(event.pkey == pkey, "partition %#x", event.pkey);
	passive.id = event.id;
	accept_bare(&active, &passive);
}

/* Offers the path by the second ports. */
static enum refuser refuser(void)
{
	struct sib_cm_path path = path_between(&active, &passive, 2);
	struct sib_cm_event event;
	int error = offer(&path);

	if (error == EINVAL)
		return NEAR;
	check(!error, "LAP: %s", strerror(error));
	/* A peer that has asked its program may say first that this takes long. */
	while (!has_event(&passive, 0))
		if (has_event(&active, 1) && !has_event(&passive, 0)) {
			event = expect_told(&active, SIB_CM_APR_RECEIVED);
			check(event.status == REJECTED, "status %u",
			      event.status);
			return FAR;
		}
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	answer(event.generation, 0);
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(!event.status, "status %u", event.status);
	return NONE;
}

/* No port of the peer would do instead. */
static void refuse_without_hint(uint16_t pkey)
{
	struct sib_cm_path good = path_between(&active, &passive, 2);
	struct sib_cm_path path = good;

	path.remote_lid = NOWHERE;
	expect_refusal(&active, &passive, SERVICE, pkey, &path,
		       (struct refusal){ 7, 19, "", 0 });
	path = good;
	path.remote_gid[15] ^= 0xff;
	expect_refusal(&active, &passive, SERVICE, pkey, &path,
		       (struct refusal){ 8, 18, "", 0 });
}

/* Nor does a request name a port that is not in the partition. */
static void refuse_request(uint16_t pkey)
{
	struct sib_cm_send_req req =
		bare_request(&active, &passive, SERVICE, 1);
	int error;

	req.pkey = pkey;
	req.has_alternate = 1;
	req.alternate = path_between(&active, &passive, 2);
	error = command(&active, SIB_CM_IOC_SEND_REQ, &req);
	check(error == ENOENT, "REQ: %s", strerror(error));
	destroy(&active, req.id);
}

static void test_partition(uint16_t pkey, const char *who)
{
	uint64_t due = now_ms() + DUE_MS;
	enum refuser want = NEAR, got;

	while (want < NONE && strcmp(who, refusers[want]))
		want++;
	connect_within(pkey);
	while ((got = refuser()) < want)
		check(now_ms() < due, "it remains with %s", refusers[got]);
	check(got == want, "it is %s, not %s, that refuses the path",
	      refusers[got], refusers[want]);
	if (want == NEAR)
		refuse_request(pkey);
	if (want == FAR)
		refuse_without_hint(pkey);
	check(attributes(&active).has_alternate == (want == NONE) &&
		      attributes(&passive).has_alternate == (want == NONE),
	      "other paths than agreed on");
	part_bare(&active, &passive);
}

static void test_down(uint16_t pkey)
{
	connect_within(pkey);
	refuse_without_hint(pkey);
	part_bare(&active, &passive);
}

int main(int argc, char **argv)
{
	uint32_t listener;
	uint16_t pkey;

	check(argc == 5, "usage: offers DEVICE DEVICE P_KEY near|far|none|down");
	pkey = strtoul(argv[3], NULL, 0);
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	listener = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);
	if (strcmp(argv[4], "down"))
		test_partition(pkey, argv[4]);
	else
		test_down(pkey);
	destroy(&passive, listener);
	side_close(&active);
	side_close(&passive);
	return 0;
}
