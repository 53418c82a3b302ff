// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic path migration where timing decides: packets of a connection between two HCAs
 * of two ports each are lost or held at the ports of the second one, so that each case
 * comes about for certain.
 *
 *     corners DEVICE DEVICE work|dead|crossed
 *     corners DEVICE DEVICE follow|pardon|probe on|off
 *
 * The last three are the parameters of the module that begin with apm_, and what they are.
 */

#include "rails.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DUE_MS 60000
#define BYTES 512u
/* 67 ms; 8.6 s, which nobody here waits for. */
#define SHORT 14
#define LONG 21
/* How long what does not happen is waited for. */
#define NEVER_MS 1000
#define USAGE                                                                  \
	"usage: corners DEVICE DEVICE work|dead|crossed\n"                     \
	"       corners DEVICE DEVICE follow|pardon|probe on|off"

/* What a port of the second HCA does to packets from now on. */
static void rule(int port, const char *text)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/sib/%s/%d/faults",
		 sides[1].device.name, port);
	fd = open(path, O_WRONLY);
	check(fd >= 0, "%s: %m", path);
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text),
	      "%s to %s: %m", text, path);
	close(fd);
}

/* So many packets wait at that port. */
static void await_held(int port, int count)
{
	uint64_t due = now_ms() + DUE_MS;
	char path[100], text[4096], wanted[32];

	snprintf(path, sizeof(path), "/sys/kernel/debug/sib/%s/%d/faults",
		 sides[1].device.name, port);
	snprintf(wanted, sizeof(wanted), "held=%d", count);
	do {
		int fd = open(path, O_RDONLY);
		ssize_t length;

		check(fd >= 0, "%s: %m", path);
		length = read(fd, text, sizeof(text) - 1);
		check(length > 0, "%s: %m", path);
		text[length] = 0;
		close(fd);
		check(now_ms() < due, "not '%s': %s", wanted, text);
		usleep(1000);
	} while (!strstr(text, wanted));
}

static void connect_by(uint8_t timeout)
{
	struct path_options path = default_path;

	rails_create(IBV_QPT_RC);
	path.timeout = timeout;
	end_connect(&sides[0].end, &sides[1].end, &path);
	rails_survey();
}

/* The path from that port of side `i` to this one of its peer. */
static void load(int i, int port, int peer_port)
{
	struct ibv_qp_attr attr = path_of(i, port);

	attr.alt_ah_attr.dlid = sides[!i].lids[peer_port];
	attr.alt_timeout = SHORT;
	check(!try_modify(&sides[i], attr,
			  IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
	      "modify_qp: no alternate path: %m");
}

static void is_in(int i, enum ibv_mig_state state)
{
	uint64_t due = now_ms() + DUE_MS;

	while (query(&sides[i]).path_mig_state != state) {
		check(now_ms() < due, "side %d: state %d, not %d", i,
		      query(&sides[i]).path_mig_state, state);
		usleep(1000);
	}
}

static void move(int i)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .path_mig_state = IBV_MIG_MIGRATED };

	check(!try_modify(&sides[i], attr, IBV_QP_PATH_MIG_STATE),
	      "modify_qp to MIGRATED: %m");
}

static void post(int i, enum ibv_wr_opcode opcode)
{
	struct side *side = &sides[i];

	if (opcode == IBV_WR_SEND)
		rails_request(side, &sides[!i], opcode, side->area->source, NULL,
			BYTES);
	else if (opcode == IBV_WR_RDMA_READ)
		rails_request(side, &sides[!i], opcode, side->area->read,
			sides[!i].area->offered, LONGEST);
	else
		rails_request(side, &sides[!i], opcode, &side->area->fetched,
			&sides[!i].area->counter, 8);
}

/* A message of side `i`, and what its peer receives it into. */
static void send_from(int i)
{
	struct side *peer = &sides[!i];
	struct ibv_sge sge = { (uintptr_t)peer->area->received, LONGEST,
			       peer->mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 };

	rails_fill(sides[i].area->source, BYTES, ++steps);
	memset(peer->area->received, 0, BYTES);
	post_recv(&peer->end, &recv);
	post(i, IBV_WR_SEND);
}

static void arrives(int i)
{
	struct ibv_wc wc;

	rails_expect(&sides[!i], sides[!i].end.recv_cq, 0, &wc);
	check(wc.byte_len == BYTES, "%u bytes", wc.byte_len);
	rails_compare("SEND", sides[!i].area->received, BYTES, steps);
}

static void completes(int i)
{
	struct ibv_wc wc;

	rails_expect(&sides[i], sides[i].end.send_cq, IBV_WR_SEND, &wc);
}

static void talk(void)
{
	for (int i = 0; i < 2; i++) {
		send_from(i);
		arrives(i);
		completes(i);
	}
}

/* Both sides have the path by their second ports, and may go over to it. */
static void arm(void)
{
	load(0, 2, 2);
	load(1, 2, 2);
	talk();
	talk();
	is_in(0, IBV_MIG_ARMED);
	is_in(1, IBV_MIG_ARMED);
}

/* Nobody answers the side, on any path: that is the end of it. */
static void dies(int i)
{
	struct ibv_wc wc;

	check(await(sides[i].end.send_cq, &wc, DUE_MS), "no completion");
	check(wc.status == IBV_WC_RETRY_EXC_ERR, "'%s'",
	      ibv_wc_status_str(wc.status));
	check(end_state(&sides[i].end) == IBV_QPS_ERR, "state %d",
	      end_state(&sides[i].end));
}

/* What the sides have been told up to now. */
static void told(int i, int migrated, int refused)
{
	uint64_t due = now_ms() + DUE_MS;

	do {
		rails_see_events(&sides[i]);
		check(now_ms() < due, "side %d: too little is told", i);
	} while (sides[i].migrated < migrated || sides[i].refused < refused);
	usleep(100000);
	rails_see_events(&sides[i]);
	check(sides[i].migrated == migrated && sides[i].refused == refused,
	      "side %d: told of %d migrations and %d that have failed, not %d and %d",
	      i, sides[i].migrated, sides[i].refused, migrated, refused);
}

/* Without looking for what is left: it has failed, or was flushed. */
static void give_up(void)
{
	for (int port = 1; port <= PORTS; port++)
		rule(port, "clear");
	for (int i = 0; i < 2; i++)
		end_destroy(&sides[i].end);
}

/*
 * A side is told to migrate when the peer has done what it asked for, but no answer has
 * come: READ and atomics yield what they should, and are done once.
 */
static void work(void)
{
	struct area *near = sides[0].area, *far = sides[1].area;
	struct ibv_wc wc;
	uint64_t due;

	connect_by(LONG);
	arm();
	rails_fill(far->offered, LONGEST, 77);
	memset(near->read, 0, LONGEST);
	far->counter = 1000;
	rule(1, "cut out");
	post(0, IBV_WR_RDMA_READ);
	post(0, IBV_WR_ATOMIC_FETCH_AND_ADD);
	due = now_ms() + DUE_MS;
	while (*(volatile uint64_t *)&far->counter == 1000)
		check(now_ms() < due, "the atomic does not arrive");
	rails_expect_none(&sides[0]);
	is_in(0, IBV_MIG_ARMED);
	move(0);
	rails_expect(&sides[0], sides[0].end.send_cq, IBV_WR_RDMA_READ, &wc);
	rails_expect(&sides[0], sides[0].end.send_cq, IBV_WR_ATOMIC_FETCH_AND_ADD,
	       &wc);
	rails_compare("READ", near->read, LONGEST, 77);
	check(near->fetched == 1000 && far->counter == 1001,
	      "%llu was fetched, and there are %llu",
	      (unsigned long long)near->fetched,
	      (unsigned long long)far->counter);
	is_in(1, IBV_MIG_MIGRATED);
	talk();
	told(0, 1, 0);
	told(1, 1, 0);
	rule(1, "clear");
	rails_destroy();
}

static void dead(void)
{
	connect_by(SHORT);
	arm();
	rule(1, "cut in");
	rule(2, "cut in");
	send_from(0);
	dies(0);
	check(query(&sides[0]).port_num == 2, "it has not tried the other path");
	told(0, 1, 0);
	told(1, 0, 0);
	give_up();
}

/* The sides have different alternate paths: the second one knows nothing of that of the first. */
static void crossed(void)
{
	uint64_t strays = hw_counter(&sides[0].device, "rcvd_old_path"), due;

	connect_by(LONG);
	load(0, 2, 2);
	load(1, 2, 1);
	talk();
	talk();
	is_in(0, IBV_MIG_ARMED);
	is_in(1, IBV_MIG_ARMED);
	move(0);
	/* What the second one sends goes where nobody is any more. */
	send_from(1);
	due = now_ms() + DUE_MS;
	while (hw_counter(&sides[0].device, "rcvd_old_path") == strays) {
		check(now_ms() < due, "nothing comes by the old path");
		usleep(1000);
	}
	send_from(0);
	dies(0);
	told(0, 1, 0);
	/* Once, however often it comes. */
	told(1, 0, 1);
	is_in(1, IBV_MIG_ARMED);
	give_up();
}

/* Only one side is armed, and goes over. */
static void follow(bool on)
{
	connect_by(LONG);
	talk();
	rule(1, "cut in");
	load(0, 2, 2);
	load(1, 2, 2);
	/* Arms the one, whose answer is lost. */
	send_from(1);
	arrives(1);
	is_in(0, IBV_MIG_ARMED);
	is_in(1, IBV_MIG_REARM);
	move(0);
	if (on) {
		send_from(0);
		arrives(0);
		completes(0);
		completes(1);
		is_in(1, IBV_MIG_MIGRATED);
		talk();
		told(0, 1, 0);
		told(1, 1, 0);
		rule(1, "clear");
		rails_destroy();
		return;
	}
	send_from(0);
	dies(0);
	is_in(1, IBV_MIG_REARM);
	told(0, 1, 0);
	told(1, 0, 0);
	give_up();
}

/* A packet from before the path was loaded comes when it is armed. */
static void pardon(bool on)
{
	connect_by(SHORT);
	talk();
	rule(1, "delay in opcode=0x04 count=1 time=100000000");
	send_from(0);
	await_held(1, 1);
	arrives(0);
	completes(0);
	arm();
	rule(1, "clear");
	talk();
	told(0, 0, 0);
	told(1, 0, !on);
	/* The connection is none the worse for it. */
	is_in(1, IBV_MIG_ARMED);
	move(0);
	talk();
	told(0, 1, 0);
	told(1, 1, !on);
	rails_destroy();
}

/* Nobody has anything to say. */
static void probe(bool on)
{
	connect_by(SHORT);
	load(0, 2, 2);
	load(1, 2, 2);
	if (!on) {
		uint64_t end = now_ms() + NEVER_MS;

		while (now_ms() < end) {
			is_in(0, IBV_MIG_REARM);
			is_in(1, IBV_MIG_REARM);
		}
		talk();
		talk();
	}
	is_in(0, IBV_MIG_ARMED);
	is_in(1, IBV_MIG_ARMED);
	move(0);
	if (!on) {
		/* The peer has not heard of it. */
		usleep(NEVER_MS * 1000);
		is_in(1, IBV_MIG_ARMED);
		talk();
	}
	is_in(1, IBV_MIG_MIGRATED);
	talk();
	told(0, 1, 0);
	told(1, 1, 0);
	rails_destroy();
}

int main(int argc, char **argv)
{
	bool on = argc == 5 && !strcmp(argv[4], "on");

	check(argc == 4 || (argc == 5 && (on || !strcmp(argv[4], "off"))),
	      USAGE);
	rails_open(argv + 1, "/bin/false", 1);
	if (argc == 4 && !strcmp(argv[3], "work"))
		work();
	else if (argc == 4 && !strcmp(argv[3], "dead"))
		dead();
	else if (argc == 4 && !strcmp(argv[3], "crossed"))
		crossed();
	else if (argc == 5 && !strcmp(argv[3], "follow"))
		follow(on);
	else if (argc == 5 && !strcmp(argv[3], "pardon"))
		pardon(on);
	else if (argc == 5 && !strcmp(argv[3], "probe"))
		probe(on);
	else
		fail(USAGE);
	rails_close();
	printf("%s: as it should be\n", argv[3]);
	return 0;
}
