// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs of a partition that one of their ports is put out of, and taken into
 * again, while they exist: what they send does not leave, what comes is dropped and
 * told to the subnet manager.
 *
 *     partition DEVICE DEVICE [enforced]
 *
 * Says "member" and "outcast" when the second port is to be put out, and taken in
 * again, and goes on when it sees that. The partition is that of PARTITION. If it is
 * enforced, switches drop what ports would count.
 */

#include "bench.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PARTITION 0x8001
#define SWEEP_MS 60000u
#define PAUSE_US 20000
#define MESSAGE 64u
#define RECVS 16
#define WRONG_QKEY 0x22222222u

enum { RECV = 100, LOST, FOUND };

static struct device devices[2];
static struct bench bench;
/* Datagrams. */
static struct end ends[2];
static struct ibv_ah *ways[2];
static uint16_t entries[2];
static bool enforced;

/* The entry of a port's table with the key of the partition, or -1. */
static int entry_of(const struct device *device)
{
	for (int i = 0; i < device->port_attr.pkey_tbl_len; i++) {
		uint16_t pkey;

		check(!ibv_query_pkey(device->context, device->port, i, &pkey),
		      "query_pkey: %m");
		if (ntohs(pkey) == PARTITION)
			return i;
	}
	return -1;
}

/* Waits until a port is in the partition, or out of it. */
static void await_membership(const struct device *device, bool member)
{
	uint64_t end = now_ms() + SWEEP_MS;

	while ((entry_of(device) >= 0) != member) {
		check(now_ms() < end, "%s is %s the partition", device->name,
		      member ? "not in" : "still in");
		usleep(PAUSE_US);
	}
}

static void join(struct end *a, struct end *b)
{
	/* Gives up within two seconds. */
	struct path_options path = default_path;

	path.timeout = 17;
	path.retries = 2;
	end_to_init_in(a, &path, entries[0]);
	end_to_init_in(b, &path, entries[1]);
	end_to_rtr(a, b, &path);
	end_to_rtr(b, a, &path);
	end_to_rts(a, &path);
	end_to_rts(b, &path);
}

static void reconnect(void)
{
	struct ibv_wc wc;

	end_to(&bench.a, IBV_QPS_RESET);
	end_to(&bench.b, IBV_QPS_RESET);
	while (await(bench.a.recv_cq, &wc, 0) || await(bench.b.recv_cq, &wc, 0))
		;
	join(&bench.a, &bench.b);
}

static struct ibv_sge memory_of(int at, uint32_t length)
{
	return at ? sge_remote(&bench, length) : sge_local(&bench, length);
}

static void receive_datagrams(int at, int count)
{
	struct ibv_sge sge = memory_of(at, MESSAGE + GRH_BYTES);
	struct ibv_recv_wr wr = { .wr_id = RECV, .sg_list = &sge, .num_sge = 1 };

	while (count--)
		post_recv(&ends[at], &wr);
}

/* A datagram from one end to the other, which completes whatever becomes of it. */
static void send_datagram(int from, uint32_t qkey)
{
	struct ibv_sge sge = memory_of(from, MESSAGE);
	struct ibv_send_wr wr = {
		.wr_id = LOST,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { ways[from], ends[!from].qp->qp_num, qkey },
	};

	post_send(&ends[from], &wr);
	expect("datagram", ends[from].send_cq, LOST, IBV_WC_SUCCESS);
}

/*
 * Whether a datagram from one end arrives at the other. Switches hear later than ports
 * that these are members again.
 */
static void datagram(const char *test, int from, bool arrives)
{
	uint64_t end = now_ms() + DUE_MS;
	struct ibv_wc wc;
	bool arrived;

	do {
		send_datagram(from, QKEY);
		arrived = await(ends[!from].recv_cq, &wc,
				arrives && !enforced ? DUE_MS : QUIET_MS);
	} while (arrives && enforced && !arrived && now_ms() < end);
	check(arrived == arrives, "%s: a datagram %s", test,
	      arrives ? "is missing" : "has arrived");
	if (!arrives)
		return;
	check(wc.status == IBV_WC_SUCCESS &&
		      wc.pkey_index == entries[!from],
	      "%s: a datagram has status %d, P_Key index %d", test, wc.status,
	      wc.pkey_index);
	receive_datagrams(!from, 1);
}

static struct ibv_port_attr port_of(const struct device *device)
{
	struct ibv_port_attr attr;

	check(!ibv_query_port(device->context, device->port, &attr),
	      "query_port: %m");
	return attr;
}

static void connected(const char *test, enum ibv_wc_status status)
{
	struct ibv_sge sge = sge_local(&bench, MESSAGE);
	struct ibv_send_wr wr = {
		.wr_id = FOUND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	post_recvs(&bench, &bench.b, RECV, 1, MESSAGE);
	post_send(&bench.a, &wr);
	expect(test, bench.a.send_cq, FOUND, status);
	if (status == IBV_WC_SUCCESS)
		expect(test, bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
	else
		expect_none(test, bench.b.recv_cq);
}

static void say(const char *word)
{
	puts(word);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const struct end_options rc = {
		.type = IBV_QPT_RC,
		.send_depth = RECVS,
		.recv_depth = RECVS,
		.sges = 1,
	};
	struct end_options ud = rc;
	uint32_t refused, refused_here, wrong;

	enforced = argc == 4 && !strcmp(argv[3], "enforced");
	check(argc == 3 + enforced,
	      "usage: partition DEVICE DEVICE [enforced]");
	ud.type = IBV_QPT_UD;
	for (int i = 0; i < 2; i++) {
		device_open(&devices[i], argv[i + 1]);
		await_membership(&devices[i], true);
		entries[i] = entry_of(&devices[i]);
	}
	bench_create(&bench, &devices[0], &devices[1], &rc);
	for (int i = 0; i < 2; i++) {
		struct ibv_ah_attr way =
			path_to(&devices[i], &devices[!i], false);

		end_create(&ends[i], &devices[i], &ud);
		ways[i] = ibv_create_ah(devices[i].pd, &way);
		check(ways[i], "create_ah: %m");
	}
	join(&bench.a, &bench.b);
	join(&ends[0], &ends[1]);
	for (int i = 0; i < 2; i++)
		receive_datagrams(i, RECVS);

	connected("members", IBV_WC_SUCCESS);
	datagram("members", 0, true);
	datagram("members", 1, true);
	wrong = port_of(&devices[1]).qkey_viol_cntr;
	send_datagram(0, WRONG_QKEY);
	expect_none("wrong Q_Key", ends[1].recv_cq);
	check(port_of(&devices[1]).qkey_viol_cntr == wrong + 1,
	      "a wrong Q_Key is not counted");

	refused = port_of(&devices[1]).bad_pkey_cntr;
	refused_here = port_of(&devices[0]).bad_pkey_cntr;
	say("member");
	await_membership(&devices[1], false);
	datagram("to an outcast", 0, false);
	check(enforced ||
		      port_of(&devices[1]).bad_pkey_cntr == refused + 1,
	      "a wrong P_Key is not counted");
	datagram("from an outcast", 1, false);
	check(port_of(&devices[0]).bad_pkey_cntr == refused_here,
	      "something has come from an outcast");
	connected("to an outcast", IBV_WC_RETRY_EXC_ERR);

	say("outcast");
	await_membership(&devices[1], true);
	check(entry_of(&devices[1]) == entries[1],
	      "the key has another place now");
	datagram("members again", 0, true);
	datagram("members again", 1, true);
	reconnect();
	connected("members again", IBV_WC_SUCCESS);

	for (int i = 0; i < 2; i++) {
		check(!ibv_destroy_ah(ways[i]), "destroy_ah: %m");
		end_destroy(&ends[i]);
	}
	bench_destroy(&bench);
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
	say("done");
	return 0;
}
