// SPDX-License-Identifier: GPL-2.0
/*
 * What the answers to offers of paths say, and what they lead to: each status of APR, with
 * additional information; values that would do, of ends that are none; answers and offers
 * that come too late; each that REP gives to the alternate path of a REQ, and REJ to one that
 * ends nowhere. Connections by /dev/sib_cm; there are no queue pairs.
 *
 *     answers DEVICE DEVICE
 */

#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SERVICE 0x02ff00000000f400ull
/* 2.1 s, and 4.2 ms. */
#define RESPONSE 19
#define HASTY 10
#define RETRIES 7
#define INFO 72
#define ANY 0xffff
/* All that refuse; the one that ends all offers, as there is no such thing, comes last. */
static const uint8_t statuses[] = { 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 2 };
/* Of the alternate path in REP. */
enum { ACCEPTED, NO_FAILOVER, NOT_THIS_PATH, FAILOVERS };

static struct side active, passive;

/* What the first port of the passive side does to datagrams of management from now on. */
static void rule(const char *text)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/sib/%s/1/faults",
		 passive.device.name);
	fd = open(path, O_WRONLY);
	check(fd >= 0, "%s: %m", path);
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text),
	      "%s to %s: %m", text, path);
	close(fd);
}

/* How many older offers have come there. */
static unsigned long long stale_offers(void)
{
	unsigned long long value;
	char path[100];
	FILE *file;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/%s/ports/1/hw_counters/stale_lap",
		 passive.device.name);
	file = fopen(path, "r");
	check(file && fscanf(file, "%llu", &value) == 1, "%s: %m", path);
	fclose(file);
	return value;
}

static int try_offer(uint8_t response, uint8_t retries)
{
	struct sib_cm_send_lap lap = { .id = active.id,
				       .response_timeout = response,
				       .retries = retries,
				       .path = path_between(&active, &passive, 2) };

	return command(&active, SIB_CM_IOC_SEND_LAP, &lap);
}

/* A path is offered, and the passive side told; by which generation. */
static uint32_t offer(void)
{
	int error = try_offer(RESPONSE, RETRIES);

	check(!error, "LAP: %s", strerror(error));
	return expect_told(&passive, SIB_CM_LAP_RECEIVED).generation;
}

static struct sib_cm_send_apr apr(uint32_t generation, uint8_t status)
{
	return (struct sib_cm_send_apr){ .id = passive.id,
					 .generation = generation,
					 .status = status,
					 .private_data_len = 3,
					 .private_data = "apr" };
}

static void has_paths(bool has_alternate)
{
	struct sib_cm_path here = path_between(&active, &passive, 1);
	struct sib_cm_path there = path_between(&passive, &active, 1);
	struct sib_cm_attr_id a = attributes(&active), b = attributes(&passive);

	check(a.state == SIB_CM_ESTABLISHED && b.state == SIB_CM_ESTABLISHED,
	      "states %u and %u", a.state, b.state);
	check(a.has_alternate == has_alternate &&
		      b.has_alternate == has_alternate,
	      "alternate paths: %u and %u", a.has_alternate,
	      b.has_alternate);
	check(a.primary.local_lid == here.local_lid &&
		      a.primary.remote_lid == here.remote_lid &&
		      b.primary.local_lid == there.local_lid &&
		      b.primary.remote_lid == there.remote_lid,
	      "another path");
}

/* Each refusal reaches the program as it was given, and the connection goes on. */
static void test_statuses(void)
{
	connect_bare(&active, &passive, SERVICE);
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		uint8_t status = statuses[i];
		struct sib_cm_send_apr answer = apr(offer(), status);
		struct sib_cm_event event;

		answer.info_len = i * INFO / (ARRAY_SIZE(statuses) - 1);
		for (int n = 0; n < answer.info_len; n++)
			answer.info[n] = status * 16 + n;
		order(&passive, SIB_CM_IOC_SEND_APR, &answer);
		event = expect_told(&active, SIB_CM_APR_RECEIVED);
		check(event.status == status, "status %u, not %u", event.status,
		      status);
		check(event.info_len == answer.info_len &&
			      !memcmp(event.info, answer.info, answer.info_len),
		      "status %u: other information, %u bytes, not %u", status,
		      event.info_len, answer.info_len);
		expect_data(&event, "apr");
		has_paths(false);
	}
	check(try_offer(RESPONSE, RETRIES) == EINVAL,
	      "a path for a peer that knows none");
	part_bare(&active, &passive);
}

/* Paths that end nowhere are refused with what would do, and the second offer follows that. */
static void test_hints(void)
{
	struct sib_cm_path good = path_between(&active, &passive, 2);
	struct sib_cm_path path = good;
	uint8_t lid[] = { good.remote_lid >> 8, good.remote_lid & 0xff };
	struct sib_cm_send_apr answer;

	connect_bare(&active, &passive, SERVICE);
	path.remote_lid = NOWHERE;
	expect_refusal(&active, &passive, SERVICE, ANY, &path,
		       (struct refusal){ 7, 19, lid, sizeof(lid) });
	path = good;
	path.remote_gid[15] ^= 0xff;
	expect_refusal(&active, &passive, SERVICE, ANY, &path,
		       (struct refusal){ 8, 18, good.remote_gid, 16 });
	answer = apr(offer(), 0);
	order(&passive, SIB_CM_IOC_SEND_APR, &answer);
	expect_told(&active, SIB_CM_APR_RECEIVED);
	has_paths(true);
	part_bare(&active, &passive);
}

static void test_limits(void)
{
	struct sib_cm_send_apr answer;

	connect_bare(&active, &passive, SERVICE);
	answer = apr(offer(), 3);
	answer.info_len = INFO + 1;
	check(command(&passive, SIB_CM_IOC_SEND_APR, &answer) == EINVAL,
	      "too much information");
	answer.info_len = 0;
	answer.info[INFO - 1] = 1;
	check(command(&passive, SIB_CM_IOC_SEND_APR, &answer) == EINVAL,
	      "information beyond its length");
	answer.info[INFO - 1] = 0;
	answer.private_data_len = 149;
	check(command(&passive, SIB_CM_IOC_SEND_APR, &answer) == EINVAL,
	      "too much private data");
	answer = apr(answer.generation, 0);
	order(&passive, SIB_CM_IOC_SEND_APR, &answer);
	expect_told(&active, SIB_CM_APR_RECEIVED);
	has_paths(true);
	part_bare(&active, &passive);
}

/* The offer has been given up when its answer comes: it is that to nothing, also for the next offer. */
static void test_late_answer(void)
{
	struct sib_cm_send_apr answer;
	struct sib_cm_event event;
	int error;

	connect_bare(&active, &passive, SERVICE);
	error = try_offer(HASTY, 0);
	check(!error, "LAP: %s", strerror(error));
	expect_told(&active, SIB_CM_LAP_ERROR);
	event = expect_told(&passive, SIB_CM_LAP_RECEIVED);
	answer = apr(event.generation, 5);
	order(&passive, SIB_CM_IOC_SEND_APR, &answer);
	nothing(&active);
	answer = apr(offer(), 3);
	order(&passive, SIB_CM_IOC_SEND_APR, &answer);
	event = expect_told(&active, SIB_CM_APR_RECEIVED);
	check(event.status == 3, "status %u", event.status);
	has_paths(false);
	part_bare(&active, &passive);
}

/* An offer is under way until a later one has been answered: nobody is told of it. */
static void test_old_offer(void)
{
	uint64_t due = now_ms() + DUE_MS;
	unsigned long long before = stale_offers();
	struct sib_cm_send_apr answer;
	int error;

	connect_bare(&active, &passive, SERVICE);
	rule("delay in qp=1 count=1 time=100000000");
	error = try_offer(HASTY, 0);
	check(!error, "LAP: %s", strerror(error));
	expect_told(&active, SIB_CM_LAP_ERROR);
	nothing(&passive);
	answer = apr(offer(), 3);
	order(&passive, SIB_CM_IOC_SEND_APR, &answer);
	expect_told(&active, SIB_CM_APR_RECEIVED);
	rule("clear");
	while (stale_offers() == before) {
		check(now_ms() < due, "the old offer does not come");
		usleep(1000);
	}
	nothing(&passive);
	has_paths(false);
	part_bare(&active, &passive);
}

/* A request that names an alternate path, and what the peer makes of that. */
static void test_request(uint8_t failover)
{
	struct sib_cm_send_req req = bare_request(&active, &passive, SERVICE, 1);
	struct sib_cm_path there = path_between(&passive, &active, 2);
	struct sib_cm_send_rep rep = { .qpn = 0x420000 + failover,
				       .failover_accepted = failover };
	struct sib_cm_send rtu = { 0 };
	struct sib_cm_event event;
	int error;

	req.has_alternate = 1;
	req.alternate = path_between(&active, &passive, 2);
	active.id = rtu.id = req.id;
	order(&active, SIB_CM_IOC_SEND_REQ, &req);
	event = expect_told(&passive, SIB_CM_REQ_RECEIVED);
	check(event.has_alternate &&
		      event.alternate.local_lid == there.local_lid &&
		      event.alternate.remote_lid == there.remote_lid &&
		      !memcmp(event.alternate.local_gid, there.local_gid, 16) &&
		      !memcmp(event.alternate.remote_gid, there.remote_gid, 16),
	      "another alternate path");
	rep.id = passive.id = event.id;
	order(&passive, SIB_CM_IOC_SEND_REP, &rep);
	event = expect_told(&active, SIB_CM_REP_RECEIVED);
	check(event.failover_accepted == failover, "answer %u, not %u",
	      event.failover_accepted, failover);
	order(&active, SIB_CM_IOC_SEND_RTU, &rtu);
	expect_told(&passive, SIB_CM_RTU_RECEIVED);
	has_paths(failover == ACCEPTED);
	error = try_offer(RESPONSE, RETRIES);
	check(error == (failover == NOT_THIS_PATH ? 0 : EINVAL),
	      "answer %u: LAP: %s", failover, strerror(error));
	if (!error) {
		struct sib_cm_send_apr answer = apr(
			expect_told(&passive, SIB_CM_LAP_RECEIVED).generation, 0);

		order(&passive, SIB_CM_IOC_SEND_APR, &answer);
		event = expect_told(&active, SIB_CM_APR_RECEIVED);
		check(!event.status, "status %u", event.status);
		has_paths(true);
	}
	part_bare(&active, &passive);
}

int main(int argc, char **argv)
{
	uint32_t listener;

	check(argc == 3, "usage: answers DEVICE DEVICE");
	side_open(&active, argv[1]);
	side_open(&passive, argv[2]);
	listener = listen_on(&passive, SERVICE, SIB_CM_CONNECTIONS, 0);
	test_statuses();
	test_hints();
	test_limits();
	test_late_answer();
	test_old_offer();
	for (uint8_t failover = 0; failover < FAILOVERS; failover++)
		test_request(failover);
	nothing(&active);
	nothing(&passive);
	destroy(&passive, listener);
	side_close(&active);
	side_close(&passive);
	printf("each answer has been told\n");
	return 0;
}
