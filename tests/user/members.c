// SPDX-License-Identifier: GPL-2.0
/*
 * Whether two ports reach each other in a partition, by a reliable connection:
 *
 *     members DEVICE DEVICE P_KEY
 *
 * Says "together" or "apart"; "not a member" and which one if a port is not in it.
 */

#include "bench.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMBERSHIP 0x8000
#define RECV 100
#define SEND 200
#define MESSAGE 64u

/* The entry of a port's table with the key of a partition, of either membership, or -1. */
static int entry_of(const struct device *device, uint16_t partition)
{
	for (int i = 0; i < device->port_attr.pkey_tbl_len; i++) {
		uint16_t pkey;

		check(!ibv_query_pkey(device->context, device->port, i, &pkey),
		      "query_pkey: %m");
		if ((ntohs(pkey) & ~MEMBERSHIP) == partition)
			return i;
	}
	return -1;
}

int main(int argc, char **argv)
{
	const struct end_options rc = {
		.type = IBV_QPT_RC,
		.send_depth = 1,
		.recv_depth = 1,
		.sges = 1,
	};
	/* Gives up within some seconds. */
	struct path_options path = default_path;
	struct ibv_send_wr wr = {
		.wr_id = SEND,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct device devices[2];
	struct bench bench;
	struct ibv_sge sge;
	struct ibv_wc wc;
	int entries[2];

	check(argc == 4, "usage: members DEVICE DEVICE P_KEY");
	for (int i = 0; i < 2; i++) {
		device_open(&devices[i], argv[i + 1]);
		entries[i] = entry_of(&devices[i],
				      strtoul(argv[3], NULL, 0) & ~MEMBERSHIP);
		if (entries[i] < 0) {
			printf("%s is not a member\n", argv[i + 1]);
			return 0;
		}
	}
	path.timeout = 16;
	path.retries = 3;
	bench_create(&bench, &devices[0], &devices[1], &rc);
	end_to_init_in(&bench.a, &path, entries[0]);
	end_to_init_in(&bench.b, &path, entries[1]);
	end_to_rtr(&bench.a, &bench.b, &path);
	end_to_rtr(&bench.b, &bench.a, &path);
	end_to_rts(&bench.a, &path);
	end_to_rts(&bench.b, &path);
	post_recvs(&bench, &bench.b, RECV, 1, MESSAGE);
	sge = sge_local(&bench, MESSAGE);
	wr.sg_list = &sge;
	post_send(&bench.a, &wr);
	check(await(bench.a.send_cq, &wc, DUE_MS), "no completion");
	if (wc.status == IBV_WC_SUCCESS) {
		expect("a message", bench.b.recv_cq, RECV, IBV_WC_SUCCESS);
		puts("together");
	} else {
		check(wc.status == IBV_WC_RETRY_EXC_ERR, "status %d",
		      wc.status);
		expect_none("apart", bench.b.recv_cq);
		puts("apart");
	}
	bench_destroy(&bench);
	for (int i = 0; i < 2; i++)
		device_close(&devices[i]);
	return 0;
}
