// SPDX-License-Identifier: GPL-2.0
/*
 * What a program without privileges sends to QP1 of a LID: an order to set all counters of
 * the port to zero.
 *
 *     intruder DEVICE LID
 *
 * It does not have the Q_Key of QP1, so nothing is to come of that.
 */

#include "umad.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_PERFORMANCE 4
#define METHOD_SET 2
#define PORT_COUNTERS 0x12
/* Where the header has them. */
#define CLASS_AT 1
#define VERSION_AT 2
#define METHOD_AT 3
/* Where PortCounters has its port, all ports of a switch, and which counters. */
#define PORT_AT 65
#define ALL_PORTS 0xff
#define COUNTERS_AT 66
#define TIMES 10

int main(int argc, char **argv)
{
	const struct end_options options = {
		.type = IBV_QPT_UD,
		.send_depth = 1,
		.recv_depth = 1,
		.sges = 1,
	};
	struct ibv_ah_attr address = { .port_num = 1 };
	struct device device;
	uint8_t mad[MAD_BYTES];
	struct ibv_wc wc;
	struct end end;

	check(argc == 3, "usage: intruder DEVICE LID");
	address.dlid = strtoul(argv[2], NULL, 0);
	device_open(&device, argv[1]);
	end_create(&end, &device, &options);
	end_to_init(&end, &default_path);
	end_to_rtr(&end, &end, &default_path);
	end_to_rts(&end, &default_path);

	struct ibv_mr *mr = ibv_reg_mr(device.pd, mad, sizeof(mad), 0);
	struct ibv_ah *ah = ibv_create_ah(device.pd, &address);

	check(mr && ah, "reg_mr, create_ah: %m");
	for (int i = 1; i <= TIMES; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)mad,
				       .length = sizeof(mad),
				       .lkey = mr->lkey };
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.ud = { .ah = ah,
				   .remote_qpn = 1,
				   .remote_qkey = QKEY },
		};

		mad_begin(mad, PORT_COUNTERS, i);
		mad[CLASS_AT] = CLASS_PERFORMANCE;
		mad[VERSION_AT] = 1;
		mad[METHOD_AT] = METHOD_SET;
		mad[PORT_AT] = ALL_PORTS;
		memset(mad + COUNTERS_AT, 0xff, 2);
		post_send(&end, &wr);
		check(await(end.send_cq, &wc, 5000) && !wc.status, "not sent");
	}
	check(!ibv_destroy_ah(ah), "destroy_ah: %m");
	check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	end_destroy(&end);
	device_close(&device);
	return 0;
}
