// SPDX-License-Identifier: GPL-2.0
/*
 * Connections between two processes, on one host or two, that never cease to carry
 * SEND, WRITE, READ and atomics both ways while the port that they use is cut and the
 * other one takes over; the way back is loaded by LAP and APR. Every byte and every
 * completion is checked, that each end is told once, and how long it takes.
 *
 *     migrate listen PORT DEVICE
 *     migrate call PORT DEVICE ADDRESS CONNECTIONS ROUNDS TIMEOUT SLACK HOOK SEED
 *
 * TIMEOUT is the code of the ACK timeout; SLACK is how many milliseconds a busy guest may
 * take for a migration beyond the 100 that it has after its timeouts; one round, and one more
 * of fifty, may take twice as long. The hook, run where
 * the caller is, gets "pull PORT NUMBER" to break the path by the ports of this number in
 * a way that NUMBER chooses, and "mend PORT" to repair it.
 */

#include "side.h"
#include "stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE 0x02ff0000000a9000ull
#define MAX_LINKS 64
#define RESPONSE 18
#define RETRIES 7
#define STALL_MS 60000
/* What a migration may take beyond its timeouts, and what one of many takes on a machine that is slow. */
#define GRACE_MS 100
#define MANY_GRACE_MS 1000
#define IDLE_US 500
/* How long a machine that is shared may stand still. */
#define HALT_MS 10000
/* One round may be late, and one more of so many. */
#define LATE_SHARE 50
/* One round in so many is in time at least. */
#define IN_TIME_SHARE 4
/* Steps after a migration before the way back is repaired. */
#define AFTERWARDS 5

/* What the two tell each other. */
struct card {
	/* MIGRATED, ARMED: all of the sender's connections; SURVEY: where it is now. */
	enum { SURVEY, MIGRATED, ARMED, END } word;
	uint16_t lids[PORTS + 1];
	union ibv_gid gids[PORTS + 1];
	uint64_t addr;
	uint32_t rkey;
	uint32_t connections;
	uint32_t timeout;
};

/* How far a connection is with its alternate path. */
enum load { NONE, WANTED, OFFERED, LOADED };

struct link {
	struct side side;
	struct stream stream;
	enum load load;
	/* Events since the path was loaded: of the HCA and of the manager. */
	int migrated;
	int told;
};

static struct side base, peer;
static struct link links[MAX_LINKS];
static uint32_t count, timeout;
static struct stream_memory memory;
static bool is_caller, ends;
static int wire, port = 1;
static const char *hook;
static struct rng rng;
static uint64_t steps;
/* Rounds that took too long: by far, for a machine that is slow, and at all. */
static int late, tardy, over;

/* The two processes. */

static int meet(const char *address, int at)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(at) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	uint64_t due = now_ms() + STALL_MS;

	check(fd >= 0, "socket: %m");
	if (!address) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		check(!bind(fd, (struct sockaddr *)&in, sizeof(in)) &&
			      !listen(fd, 1),
		      "port %d: %m", at);
		return accept(fd, NULL, NULL);
	}
	check(inet_pton(AF_INET, address, &in.sin_addr) == 1, "address %s",
	      address);
	while (connect(fd, (struct sockaddr *)&in, sizeof(in))) {
		check(now_ms() < due, "%s: %m", address);
		usleep(10000);
	}
	return fd;
}

static void tell(int word)
{
	struct card card = { .word = word,
			     .addr = (uintptr_t)memory.bytes,
			     .rkey = memory.mr ? memory.mr->rkey : 0,
			     .connections = count,
			     .timeout = timeout };

	memcpy(card.lids, base.lids, sizeof(card.lids));
	memcpy(card.gids, base.gids, sizeof(card.gids));
	check(write(wire, &card, sizeof(card)) == sizeof(card),
	      "the other process is gone: %m");
}

static struct card hear(void)
{
	struct card card;

	check(recv(wire, &card, sizeof(card), MSG_WAITALL) == sizeof(card),
	      "the other process is gone");
	memcpy(peer.lids, card.lids, sizeof(card.lids));
	memcpy(peer.gids, card.gids, sizeof(card.gids));
	memory.remote = card.addr;
	memory.rkey = card.rkey;
	return card;
}

static bool is_readable(int fd)
{
	struct pollfd it = { .fd = fd, .events = POLLIN };

	return poll(&it, 1, 0) == 1;
}

/* Asks for the LIDs again. */
static void survey(void)
{
	for (int p = 1; p <= PORTS; p++) {
		struct ibv_port_attr attr;

		check(!ibv_query_port(base.device.context, p, &attr),
		      "query_port");
		base.lids[p] = attr.lid;
	}
}

/* What happens. */

static struct link *link_of(uint32_t id)
{
	for (uint32_t i = 0; i < count; i++)
		if (links[i].side.id == id)
			return &links[i];
	fail("an event of connection %u", id);
}

static void offer(struct link *it)
{
	struct sib_cm_send_lap lap = {
		.id = it->side.id,
		.response_timeout = RESPONSE,
		.retries = RETRIES,
		.path = path_between(&base, &peer, PORTS + 1 - port),
	};
	int error;

	lap.path.ack_timeout = timeout;
	error = command(&base, SIB_CM_IOC_SEND_LAP, &lap);
	/* EAGAIN: the peer has not been heard on the path in use. */
	check(!error || error == EAGAIN, "LAP: %s", strerror(error));
	if (!error)
		it->load = OFFERED;
}

static void load(struct link *it)
{
	it->migrated = it->told = 0;
	advance(&it->side, IBV_QPS_RTS);
	it->load = LOADED;
}

static void see_manager(void)
{
	while (has_event(&base, 0)) {
		struct sib_cm_send_apr apr = {};
		struct sib_cm_event event;
		struct link *it;

		order(&base, SIB_CM_IOC_GET_EVENT, &event);
		it = link_of(event.id);
		switch (event.type) {
		case SIB_CM_MRA_RECEIVED:
			break;
		case SIB_CM_LAP_RECEIVED:
			load(it);
			apr.id = event.id;
			apr.generation = event.generation;
			order(&base, SIB_CM_IOC_SEND_APR, &apr);
			break;
		case SIB_CM_APR_RECEIVED:
			check(!event.status && it->load == OFFERED,
			      "APR with status %u", event.status);
			load(it);
			break;
		case SIB_CM_MIGRATED:
			it->told++;
			break;
		default:
			fail("event %u, status %u, of connection %ld",
			     event.type, event.status, (long)(it - links));
		}
	}
}

static void see_device(void)
{
	while (is_readable(base.device.context->async_fd)) {
		struct ibv_async_event event;

		check(!ibv_get_async_event(base.device.context, &event),
		      "get_async_event: %m");
		if (event.event_type == IBV_EVENT_PATH_MIG)
			for (uint32_t i = 0; i < count; i++)
				links[i].migrated +=
					links[i].side.end.qp == event.element.qp;
		else
			check(event.event_type != IBV_EVENT_PATH_MIG_ERR &&
				      event.event_type != IBV_EVENT_QP_FATAL &&
				      event.event_type != IBV_EVENT_QP_REQ_ERR &&
				      event.event_type != IBV_EVENT_QP_ACCESS_ERR &&
				      event.event_type != IBV_EVENT_CQ_ERR,
			      "event '%s'", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}

/*
 * The next connection has its turn, and whoever has been told something. It leaves the processor to others when no
 * connection has anything to do.
 */
static void run(void)
{
	static uint32_t turn, idle;
	struct stream *stream = &links[turn].stream;
	uint64_t before = stream->step;

	stream_run(stream, ends);
	steps += stream->step - before;
	idle = stream->step == before ? idle + 1 : 0;
	see_device();
	see_manager();
	if (is_caller && links[turn].load == WANTED)
		offer(&links[turn]);
	if (idle >= count) {
		usleep(IDLE_US);
		idle = 0;
	}
	turn = (turn + 1) % count;
}

static bool all_migrated(void)
{
	for (uint32_t i = 0; i < count; i++)
		if (!links[i].migrated)
			return false;
	return true;
}

static struct ibv_qp_attr query(const struct link *it)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(!ibv_query_qp(it->side.end.qp, &attr, IBV_QP_ALT_PATH, &init),
	      "query_qp: %m");
	return attr;
}

static bool all_armed(void)
{
	for (uint32_t i = 0; i < count; i++)
		if (links[i].load != LOADED ||
		    query(&links[i]).path_mig_state != IBV_MIG_ARMED)
			return false;
	return true;
}

static bool all_over(void)
{
	for (uint32_t i = 0; i < count; i++)
		if (!links[i].stream.is_over)
			return false;
	return true;
}

static bool is_past(uint64_t step)
{
	return steps >= step;
}

/* Whether the HCA and the manager have told of one migration, and it is as they say. */
static bool all_told(void)
{
	for (uint32_t i = 0; i < count; i++)
		if (!links[i].told)
			return false;
	return true;
}

static void check_moved(void)
{
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_qp_attr attr = query(&links[i]);

		check(links[i].migrated == 1 && links[i].told == 1,
		      "connection %u: told %d times, and %d times by the manager",
		      i, links[i].migrated, links[i].told);
		check(attr.path_mig_state == IBV_MIG_MIGRATED &&
			      attr.port_num == port && !attr.alt_port_num,
		      "connection %u: state %d on port %u, alternate %u", i,
		      attr.path_mig_state, attr.port_num, attr.alt_port_num);
	}
}

/* Runs until it is so; `what` is said if it never is. */
static void await_all(bool (*is_so)(void), const char *what)
{
	uint64_t due = now_ms() + STALL_MS;

	while (!is_so()) {
		check(now_ms() < due, "not %s", what);
		run();
	}
}

static void await_word(int word, const char *what)
{
	uint64_t due = now_ms() + STALL_MS;

	while (!is_readable(wire)) {
		check(now_ms() < due, "the other process is not %s", what);
		run();
	}
	check((int)hear().word == word, "the other process is not %s, but else",
	      what);
}

/* Connections. */

static struct link *new_link(uint32_t i)
{
	struct link *it = &links[i];

	it->side = base;
	end_create(&it->side.end, &base.device, &stream_end);
	it->side.end.psn = rng_next(&rng) & PSN_MASK;
	it->stream = (struct stream){ .end = &it->side.end,
				      .memory = &memory,
				      .index = i,
				      .is_caller = is_caller };
	return it;
}

static void connect_one(uint32_t i)
{
	struct link *it = new_link(i);
	struct sib_cm_send_req req = {
		.service_id = SERVICE,
		.id = it->side.id = new_id(&base, i),
		.qpn = it->side.end.qp->qp_num,
		.starting_psn = it->side.end.psn,
		.pkey = 0xffff,
		.path_mtu = base.device.port_attr.active_mtu,
		.responder_resources = 4,
		.initiator_depth = 4,
		.remote_response_timeout = RESPONSE,
		.local_response_timeout = RESPONSE,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.max_cm_retries = 15,
		.primary = path_between(&base, &peer, port),
	};
	struct sib_cm_send rtu = { .id = it->side.id };

	req.primary.ack_timeout = timeout;
	order(&base, SIB_CM_IOC_SEND_REQ, &req);
	expect_told(&base, SIB_CM_REP_RECEIVED);
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		advance(&it->side, state);
	stream_begin(&it->stream);
	order(&base, SIB_CM_IOC_SEND_RTU, &rtu);
}

static void accept_one(uint32_t i)
{
	struct sib_cm_event event = expect_told(&base, SIB_CM_REQ_RECEIVED);
	struct link *it = new_link(i);
	struct sib_cm_send_rep rep = {
		.id = it->side.id = event.id,
		.qpn = it->side.end.qp->qp_num,
		.starting_psn = it->side.end.psn,
		.responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7,
	};

	advance(&it->side, IBV_QPS_INIT);
	advance(&it->side, IBV_QPS_RTR);
	stream_begin(&it->stream);
	order(&base, SIB_CM_IOC_SEND_REP, &rep);
	advance(&it->side, IBV_QPS_RTS);
	expect_told(&base, SIB_CM_RTU_RECEIVED);
}

static void part(struct link *it)
{
	struct sib_cm_send dreq = { .id = it->side.id };

	order(&base, SIB_CM_IOC_SEND_DREQ, &dreq);
	expect_told(&base, SIB_CM_DREP_RECEIVED);
	destroy(&base, it->side.id);
}

static void agree_to_part(void)
{
	struct sib_cm_send drep = {};

	drep.id = expect_told(&base, SIB_CM_DREQ_RECEIVED).id;
	order(&base, SIB_CM_IOC_SEND_DREP, &drep);
	destroy(&base, drep.id);
}

static void make_memory(void)
{
	uint64_t bytes;

	memory.slot = count > FEW ? SLOT_MANY : SLOT_FEW;
	bytes = count * stream_bytes(memory.slot);
	memory.bytes = calloc(1, bytes);
	check(memory.bytes, "no memory");
	memory.mr = ibv_reg_mr(base.device.pd, memory.bytes, bytes, ALL_ACCESS);
	check(memory.mr, "reg_mr: %m");
}

/* The rounds. */

static pid_t start_hook(const char *word, uint32_t number)
{
	char at[4], text[16];
	char *const argv[] = { (char *)hook, (char *)word, at, text, NULL };
	extern char **environ;
	pid_t pid;

	snprintf(at, sizeof(at), "%d", port);
	snprintf(text, sizeof(text), "%u", number);
	check(!posix_spawn(&pid, hook, NULL, NULL, argv, environ),
	      "cannot start %s", hook);
	return pid;
}

static bool has_ended(pid_t pid)
{
	int status;
	pid_t got = waitpid(pid, &status, WNOHANG);

	check(got >= 0 && (!got || !status), "%s: status %#x", hook, status);
	return got;
}

/* How long a migration may take by the timeouts. */
static uint64_t limit_ms(void)
{
	return (7 + 1) * (4096ull << query(&links[0]).timeout) / 1000000;
}

/* Cuts the port in use; how long that stops the slower one of the two, in milliseconds. */
static uint64_t lose(uint64_t slack)
{
	uint64_t limit = limit_ms() + GRACE_MS, pulled = 0, here = 0, there = 0;
	uint64_t due = now_ms() + STALL_MS;
	pid_t pid = start_hook("pull", rng_below(&rng, 1000));

	while (!pulled || !here || !there) {
		check(now_ms() < due, "nobody has migrated");
		run();
		if (!pulled && has_ended(pid))
			pulled = now_ms();
		if (!here && all_migrated())
			here = now_ms();
		if (!there && is_readable(wire)) {
			check(hear().word == MIGRATED, "another word");
			there = now_ms();
		}
	}
	if (there > here)
		here = there;
	here = here > pulled ? here - pulled : 0;
	check(here <= 2 * limit + slack + HALT_MS, "%llu ms, not %llu",
	      (unsigned long long)here, (unsigned long long)limit);
	over += here > limit;
	tardy += here > limit_ms() + (count > FEW ? MANY_GRACE_MS : GRACE_MS);
	if (here > limit + slack) {
		printf("late: %llu ms, not %llu\n", (unsigned long long)here,
		       (unsigned long long)limit);
		late++;
	}
	return here;
}

static void repair(int lost)
{
	int now = port;
	pid_t pid;

	port = lost;
	pid = start_hook("mend", 0);
	port = now;
	while (!has_ended(pid))
		run();
	survey();
	tell(SURVEY);
	await_word(SURVEY, "where it should be");
}

static void call(int rounds, uint64_t slack)
{
	uint64_t longest = 0, sum = 0, began;

	tell(SURVEY);
	hear();
	for (uint32_t i = 0; i < count; i++)
		connect_one(i);
	began = now_ms();
	for (int round = 0; round < rounds; round++) {
		uint64_t took, mark;

		for (uint32_t i = 0; i < count; i++)
			links[i].load = WANTED;
		await_all(all_armed, "armed");
		await_word(ARMED, "armed");
		mark = steps + rng_below(&rng, 40 * count);
		while (!is_past(mark))
			run();
		took = lose(slack);
		port = PORTS + 1 - port;
		await_all(all_told, "told");
		mark = steps + AFTERWARDS * count;
		while (!is_past(mark))
			run();
		check_moved();
		repair(PORTS + 1 - port);
		sum += took;
		longest = took > longest ? took : longest;
	}
	began = now_ms() - began;
	/* A machine that is busy for a moment makes a round late now and then; what is wrong, most. */
	check(late <= 1 + rounds / LATE_SHARE, "%d of %d rounds are late", late, rounds);
	/* A machine that others use is slow at times; but what always takes longer than the timeouts say is wrong. */
	check(IN_TIME_SHARE * (rounds - tardy) >= rounds,
	      "%d of %d rounds take longer than they may", tardy, rounds);
	ends = true;
	await_all(all_over, "over");
	tell(END);
	hear();
	for (uint32_t i = 0; i < count; i++)
		part(&links[i]);
	printf("%u connections, %d rounds of %llu ms, %llu steps; up to %llu ms, %llu on average; %d over %llu ms\n",
	       count, rounds, (unsigned long long)(rounds ? began / rounds : 0),
	       (unsigned long long)steps, (unsigned long long)longest,
	       (unsigned long long)(rounds ? sum / rounds : 0), over,
	       (unsigned long long)limit_ms() + GRACE_MS);
}

static void attend(void)
{
	struct card card = hear();
	bool is_armed = false, is_moved = true;

	count = card.connections;
	timeout = card.timeout;
	check(count <= MAX_LINKS, "%u connections", count);
	make_memory();
	listen_on(&base, SERVICE, SIB_CM_CONNECTIONS, 0);
	tell(SURVEY);
	for (uint32_t i = 0; i < count; i++)
		accept_one(i);
	for (;;) {
		run();
		if (!is_armed && is_moved && all_armed()) {
			tell(ARMED);
			is_armed = true;
			is_moved = false;
		}
		if (!is_moved && all_migrated()) {
			tell(MIGRATED);
			is_moved = true;
			port = PORTS + 1 - port;
		}
		if (!is_readable(wire))
			continue;
		if (hear().word == END)
			break;
		await_all(all_told, "told");
		check_moved();
		for (uint32_t i = 0; i < count; i++)
			links[i].load = NONE;
		is_armed = false;
		survey();
		tell(SURVEY);
	}
	await_all(all_over, "over");
	tell(END);
	for (uint32_t i = 0; i < count; i++)
		agree_to_part();
}

int main(int argc, char **argv)
{
	is_caller = argc == 11 && !strcmp(argv[1], "call");
	check(is_caller || (argc == 4 && !strcmp(argv[1], "listen")),
	      "usage: migrate listen PORT DEVICE | call PORT DEVICE ADDRESS "
	      "CONNECTIONS ROUNDS TIMEOUT SLACK HOOK SEED");
	side_open(&base, argv[3]);
	wire = meet(is_caller ? argv[4] : NULL, atoi(argv[2]));
	check(wire >= 0, "accept: %m");
	if (is_caller) {
		count = atoi(argv[5]);
		timeout = atoi(argv[7]);
		hook = argv[9];
		rng_seed(&rng, strtoull(argv[10], NULL, 0));
		check(count && count <= MAX_LINKS, "%u connections", count);
		make_memory();
		call(atoi(argv[6]), strtoull(argv[8], NULL, 0));
	} else {
		rng_seed(&rng, getpid());
		attend();
	}
	for (uint32_t i = 0; i < count; i++)
		end_destroy(&links[i].side.end);
	check(!ibv_dereg_mr(memory.mr), "dereg_mr: %m");
	free(memory.bytes);
	side_close(&base);
	return 0;
}
