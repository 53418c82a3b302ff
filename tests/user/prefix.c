// SPDX-License-Identifier: GPL-2.0
/*
 * What was addressed before the subnet got another prefix: the index of a source GID
 * names an entry of the port's table, so packets have what stands there when they leave.
 *
 *     prefix DEVICE DEVICE PREFIX
 *
 * Says "addressed" when the prefix is to come, and goes on when it sees that.
 */

#include "bench.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SWEEP_MS 60000u
#define PAUSE_US 20000
#define MESSAGE 64u

enum { RECV = 100, SENT };

static struct device devices[2];
static struct bench bench;
/* Datagrams from the first device to the second. */
static struct end ends[2];
static struct ibv_ah *way;

/* The GID of a device as the subnet manager has set it. */
static union ibv_gid present(const struct device *device)
{
	union ibv_gid gid;

	check(!ibv_query_gid(device->context, device->port, device->gid_index,
			     &gid),
	      "query_gid: %m");
	return gid;
}

static void await_prefix(const struct device *device, uint64_t prefix)
{
	uint64_t end = now_ms() + SWEEP_MS;

	while (present(device).global.subnet_prefix != prefix) {
		check(now_ms() < end, "%s has the prefix of before",
		      device->name);
		usleep(PAUSE_US);
	}
}

/* A datagram must say that it is from the GID that the device has now. */
static void datagram(const char *test)
{
	const struct ibv_grh *grh = (const void *)bench.remote;
	struct ibv_sge from = sge_local(&bench, MESSAGE);
	struct ibv_sge to = sge_remote(&bench, MESSAGE + GRH_BYTES);
	struct ibv_recv_wr recv = { .wr_id = RECV, .sg_list = &to, .num_sge = 1 };
	struct ibv_send_wr send = {
		.wr_id = SENT,
		.sg_list = &from,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { way, ends[1].qp->qp_num, QKEY },
	};
	union ibv_gid gid = present(&devices[0]);

	post_recv(&ends[1], &recv);
	post_send(&ends[0], &send);
	expect(test, ends[0].send_cq, SENT, IBV_WC_SUCCESS);
	expect(test, ends[1].recv_cq, RECV, IBV_WC_SUCCESS);
	check(!memcmp(&grh->sgid, &gid, sizeof(gid)),
	      "%s: a datagram is from the prefix %#llx, not %#llx", test,
	      (unsigned long long)be64toh(grh->sgid.global.subnet_prefix),
	      (unsigned long long)be64toh(gid.global.subnet_prefix));
}

int main(int argc, char **argv)
{
	const struct end_options rc = {
		.type = IBV_QPT_RC,
		.send_depth = 1,
		.recv_depth = 1,
		.sges = 1,
	};
	struct end_options ud = rc;
	struct path_options path = default_path;
	struct ibv_ah_attr to;
	uint64_t prefix;

	check(argc == 4, "usage: prefix DEVICE DEVICE PREFIX");
	prefix = htobe64(strtoull(argv[3], NULL, 0));
	ud.type = IBV_QPT_UD;
	path.grh = true;
	for (int i = 0; i < 2; i++)
		device_open(&devices[i], argv[i + 1]);
	bench_create(&bench, &devices[0], &devices[1], &rc);
	for (int i = 0; i < 2; i++)
		end_create(&ends[i], &devices[i], &ud);
	end_connect(&ends[0], &ends[1], &path);
	to = path_to(&devices[0], &devices[1], true);
	way = ibv_create_ah(devices[0].pd, &to);
	check(way, "create_ah: %m");
	datagram("before");

	/* Each end of the connection expects of the other what is to come. */
	for (int i = 0; i < 2; i++)
		devices[i].gid.global.subnet_prefix = prefix;
	end_connect(&bench.a, &bench.b, &path);
	puts("addressed");
	fflush(stdout);
	for (int i = 0; i < 2; i++)
		await_prefix(&devices[i], prefix);

	datagram("after");
	post_recvs(&bench, &bench.b, RECV, 1, MESSAGE);
	post_sends(&bench, SENT, 1);
	expect("after", bench.a.send_cq, SENT, IBV_WC_SUCCESS);
	expect("after", bench.b.recv_cq, RECV, IBV_WC_SUCCESS);

	check(!ibv_destroy_ah(way), "destroy_ah: %m");
	bench_destroy(&bench);
	for (int i = 0; i < 2; i++) {
		end_destroy(&ends[i]);
		device_close(&devices[i]);
	}
	return 0;
}
