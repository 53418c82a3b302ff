// SPDX-License-Identifier: GPL-2.0
/*
 * What libraries for remote procedure calls over datagrams do with a device: two UD queue
 * pairs of one port, with thousands of receives that are posted in one chain, a send queue
 * of 128 of which one in 64 is signaled, memory of SysV huge pages, an address handle for
 * each session, sends that are to get lost, and an end in which the memory goes first.
 *
 *     rpcish DEVICE[:PORT]
 *
 * Such a library counts completions of receives and does not look at them: receives are
 * taken in the order in which they were posted, and nothing else ends one.
 */

#include "common.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#define SEND_DEPTH 128u
#define RECV_DEPTH 4096u
#define RECV_CHAIN 32u
#define SIGNALED_EACH 64u
#define SEND_CHAIN 16u
#define INLINE_BYTES 60u
#define HEADER_BYTES 16u
#define RECV_BYTES 3904u
#define MTU_BYTES 4096u
/* Receives have slots of 4 KiB; behind them is what is sent. */
#define SLOT_BYTES 4096u
#define MEMORY_BYTES (32u << 20)
#define SEND_AT (16u << 20)
#define MESSAGES 40000u
#define SESSIONS 4096u
#define LOST_EACH 200u
#define DUE_MS 20000
#define KEPT_US 10000
/* Nobody has it, and neither has the subnet. */
#define NO_QPN 0xabcdefu
#define NO_LID 0xbfe0u
#define GSI_QKEY 0x80010000u
/* The top bit: the queue pair's own counts, whatever a work request says. */
#define CONTROLLED_QKEY 0xffffffffu
#define PLAIN_QKEY 0x0205u
#define UNTOUCHED 0x5a

struct rpc {
	struct end end;
	uint32_t qkey;
	uint8_t *memory;
	struct ibv_mr *mr;
	/* Sends that were posted, and those of them that are known to be done. */
	uint32_t posted, done;
	/* Receives that were posted, and that have completed, by their number. */
	uint32_t offered, taken;
};

static struct device device;
static struct rpc a, b;
static struct ibv_ah *way, *nowhere;

/* What the attributes of a port must be for such a library to use it. */
static void look_at_port(void)
{
	const struct ibv_port_attr *port = &device.port_attr;
	unsigned int speed = port->active_speed, width = port->active_width;

	check(port->phys_state == 5, "the physical state is %u", port->phys_state);
	check(port->link_layer == IBV_LINK_LAYER_INFINIBAND, "the link layer is %u",
	      port->link_layer);
	check(speed && speed <= 64 && !(speed & (speed - 1)), "the speed is %u",
	      speed);
	check(width && width <= 8 && !(width & (width - 1)), "the width is %u",
	      width);
	check(port->active_mtu == IBV_MTU_4096, "the MTU is %d", port->active_mtu);
	check(port->lid && port->lid < 0xc000, "the LID is %#x", port->lid);
	check(device.attr.max_qp_wr >= (int)RECV_DEPTH &&
		      device.attr.max_cqe >= (int)RECV_DEPTH &&
		      device.attr.max_ah >= (int)SESSIONS,
	      "up to %d work requests, %d completions, %d addresses",
	      device.attr.max_qp_wr, device.attr.max_cqe, device.attr.max_ah);
}

/* SysV memory of huge pages, at two places; the second one is for who looks on. */
static uint8_t *shared_memory(uint8_t **other)
{
	int id = shmget(IPC_PRIVATE, MEMORY_BYTES, IPC_CREAT | SHM_HUGETLB | 0600);
	uint8_t *at;

	check(id >= 0, "shmget of huge pages: %m");
	at = shmat(id, NULL, 0);
	check(at != (void *)-1, "shmat: %m");
	*other = shmat(id, NULL, 0);
	check(*other != (void *)-1, "shmat: %m");
	check(!shmctl(id, IPC_RMID, NULL), "shmctl: %m");
	memset(at, UNTOUCHED, MEMORY_BYTES);
	return at;
}

static struct ibv_cq *create_cq(uint32_t depth)
{
	struct ibv_cq *cq = ibv_create_cq(device.context, depth, NULL, NULL, 0);

	check(cq, "create_cq: %m");
	return cq;
}

static void to_rts(struct rpc *rpc)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = device.port,
		.qkey = rpc->qkey,
	};
	struct ibv_qp *qp = rpc->end.qp;

	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
						IBV_QP_PORT | IBV_QP_QKEY),
	      "INIT: %m");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR: %m");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS: %m");
}

/* Where a receive is: in the slot that its number says. */
static uint64_t slot_of(const struct rpc *rpc, uint32_t number)
{
	return (uintptr_t)rpc->memory + number % RECV_DEPTH * SLOT_BYTES;
}

static void post_receives(struct rpc *rpc, uint32_t count)
{
	static struct ibv_recv_wr wrs[RECV_DEPTH];
	static struct ibv_sge sges[RECV_DEPTH];

	for (uint32_t i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge){ slot_of(rpc, rpc->offered),
					    RECV_BYTES, rpc->mr->lkey };
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = rpc->offered++,
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	post_recv(&rpc->end, wrs);
}

static void rpc_create(struct rpc *rpc, uint32_t qkey, uint8_t **other)
{
	struct end *end = &rpc->end;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = {
			.max_send_wr = SEND_DEPTH,
			.max_recv_wr = RECV_DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_BYTES,
		},
	};

	*rpc = (struct rpc){ .qkey = qkey, .end = { .device = &device } };
	rpc->memory = shared_memory(other);
	rpc->mr = ibv_reg_mr(device.pd, rpc->memory, MEMORY_BYTES,
			     IBV_ACCESS_LOCAL_WRITE);
	check(rpc->mr, "reg_mr of %u bytes of huge pages: %m", MEMORY_BYTES);
	end->send_cq = init.send_cq = create_cq(SEND_DEPTH);
	end->recv_cq = init.recv_cq = create_cq(RECV_DEPTH);
	end->qp = ibv_create_qp(device.pd, &init);
	check(end->qp, "create_qp: %m");
	check(init.cap.max_inline_data >= INLINE_BYTES, "inline data of %u bytes",
	      init.cap.max_inline_data);
	to_rts(rpc);
	post_receives(rpc, RECV_DEPTH);
}

/* Lists of receives that are none: an errno, and nothing comes of it. */
static void post_oddly(void)
{
	struct ib_uverbs_post_recv_resp answer = {};
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_post_recv post;
	} command = {
		.header = {
			.command = IB_USER_VERBS_CMD_POST_RECV,
			.in_words = sizeof(command) / 4,
			.out_words = sizeof(answer) / 4,
		},
		.post = {
			.response = (uintptr_t)&answer,
			.qp_handle = b.end.qp->handle,
			.wqe_size = sizeof(struct ib_uverbs_recv_wr),
		},
	};
	struct ibv_recv_wr probe = { .wr_id = 1 }, *bad = &probe;
	int error = ibv_post_recv(b.end.qp, NULL, &bad);

	check(error == EINVAL, "post_recv of nothing: %s", strerror(error));
	errno = 0;
	check(write(device.context->cmd_fd, &command, sizeof(command)) < 0 &&
		      errno == EOPNOTSUPP,
	      "POST_RECV of nothing by a system call: %m");
}

/* Every 64th of the sends is signaled, with its number. */
static struct ibv_send_wr send_wr(const struct rpc *rpc, uint32_t number)
{
	return (struct ibv_send_wr){
		.wr_id = number,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = (number + 1) % SIGNALED_EACH ? 0 : IBV_SEND_SIGNALED,
		.wr.ud = { .ah = way,
			   .remote_qpn = b.end.qp->qp_num,
			   .remote_qkey = rpc->qkey },
	};
}

static uint32_t length_of(uint32_t number)
{
	switch (number % 4) {
	case 0:
		return HEADER_BYTES;
	case 1:
		return INLINE_BYTES;
	case 2:
		return RECV_BYTES - GRH_BYTES;
	default:
		return HEADER_BYTES + 1 + number % 2000;
	}
}

/* The bytes of a message. */
static void fill(uint8_t *at, uint32_t number, uint32_t length)
{
	memset(at, number * 7 + 3, length);
	memcpy(at, &number, sizeof(number));
}

/* Takes completions of sends until so many may be posted. */
static void make_room(struct rpc *rpc, uint32_t count)
{
	struct ibv_wc wc;

	while (rpc->posted + count - rpc->done > SEND_DEPTH) {
		check(await(rpc->end.send_cq, &wc, DUE_MS), "a send does not end");
		check(!wc.status && wc.wr_id == rpc->done + SIGNALED_EACH - 1,
		      "send %llu ends after %u with '%s'",
		      (unsigned long long)wc.wr_id, rpc->done,
		      ibv_wc_status_str(wc.status));
		rpc->done += SIGNALED_EACH;
	}
}

/* Posts a list of messages: short ones inline, others in two pieces. */
static void send_some(struct rpc *rpc, uint32_t count)
{
	struct ibv_send_wr wrs[SEND_CHAIN];
	struct ibv_sge sges[SEND_CHAIN][2];

	make_room(rpc, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = rpc->posted++, length = length_of(number);
		uint8_t *at = rpc->memory + SEND_AT +
			      number % SEND_DEPTH * 2 * SLOT_BYTES;

		fill(at, number, length);
		wrs[i] = send_wr(rpc, number);
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
		wrs[i].sg_list = sges[i];
		sges[i][0] = (struct ibv_sge){ (uintptr_t)at, length,
					       rpc->mr->lkey };
		wrs[i].num_sge = 1;
		if (length <= INLINE_BYTES) {
			wrs[i].send_flags |= IBV_SEND_INLINE;
			continue;
		}
		/* The second piece is not behind the first. */
		memmove(at + SLOT_BYTES, at + HEADER_BYTES, length - HEADER_BYTES);
		sges[i][0].length = HEADER_BYTES;
		sges[i][1] = (struct ibv_sge){ (uintptr_t)at + SLOT_BYTES,
					       length - HEADER_BYTES,
					       rpc->mr->lkey };
		wrs[i].num_sge = 2;
	}
	post_send(&rpc->end, wrs);
}

/* The next receive holds this message. */
static void take(struct rpc *rpc, const struct ibv_wc *wc, uint32_t number,
		 uint32_t length)
{
	static uint8_t expected[MTU_BYTES];
	const uint8_t *at = (uint8_t *)slot_of(rpc, rpc->taken) + GRH_BYTES;

	check(!wc->status && wc->wr_id == rpc->taken,
	      "receive %llu ends, not %u: %s", (unsigned long long)wc->wr_id,
	      rpc->taken, ibv_wc_status_str(wc->status));
	check(wc->byte_len == GRH_BYTES + length && wc->wc_flags & IBV_WC_WITH_IMM,
	      "message %u has %u bytes", number, wc->byte_len);
	fill(expected, number, length);
	check(!memcmp(at, expected, length), "message %u has other bytes", number);
	rpc->taken++;
	if (RECV_DEPTH - (rpc->offered - rpc->taken) >= RECV_CHAIN)
		post_receives(rpc, RECV_CHAIN);
}

static void talk(void)
{
	uint32_t heard = 0;

	while (heard < MESSAGES) {
		uint32_t left = MESSAGES - a.posted;
		struct ibv_wc wcs[SEND_CHAIN];
		int count;

		if (left)
			send_some(&a, left < SEND_CHAIN ? left : SEND_CHAIN);
		/* Up to three quarters of the receives are used before any is looked at. */
		if (left && a.posted - heard < RECV_DEPTH * 3 / 4)
			continue;
		check(await(b.end.recv_cq, wcs, DUE_MS), "message %u is lost", heard);
		count = ibv_poll_cq(b.end.recv_cq, SEND_CHAIN - 1, wcs + 1);
		check(count >= 0, "poll_cq: %d", count);
		for (int i = 0; i <= count; i++, heard++)
			take(&b, &wcs[i], heard, length_of(heard));
	}
	/* All but the last few have been signaled. */
	make_room(&a, SEND_DEPTH - MESSAGES % SIGNALED_EACH);
	a.posted = a.done = 0;
}

/* An order to the subnet management of the port, to set its table of P_Keys. */
static void pkeys_order(uint8_t *mad)
{
	memset(mad, 0, 256);
	/* Base version, class, class version, method Set, attribute PKeyTable. */
	mad[0] = 1;
	mad[1] = 0x01;
	mad[2] = 1;
	mad[3] = 2;
	mad[17] = 0x16;
	memset(mad + 64, 0xff, 2);
	memset(mad + 66, 0x12, 62);
}

static uint16_t second_pkey(void)
{
	__be16 pkey;

	check(!ibv_query_pkey(device.context, device.port, 1, &pkey), "query_pkey: %m");
	return be16toh(pkey);
}

/* An order to the performance management of the port, to set its counters to zero. */
static void counters_order(uint8_t *mad)
{
	memset(mad, 0, 256);
	mad[0] = 1;
	mad[1] = 0x04;
	mad[2] = 1;
	mad[3] = 2;
	mad[17] = 0x12;
	mad[65] = device.port;
	memset(mad + 66, 0xff, 2);
}

static uint64_t counter(const char *name)
{
	char path[256];
	unsigned long long value;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/%s",
		 device.name, device.port, name);
	file = fopen(path, "r");
	check(file && fscanf(file, "%llu", &value) == 1, "%s: %m", path);
	fclose(file);
	return value;
}

/* One of those of the HCA, of which ib_core keeps what it has read for 10 ms. */
static uint64_t hca_counter(const char *name)
{
	usleep(10 * KEPT_US);
	return counter(name);
}

/* Sends that nobody is to get: each succeeds. */
static void send_lost(const char *what, struct ibv_ah *ah, uint32_t qpn,
		      uint32_t qkey, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)a.memory + SEND_AT, length, a.mr->lkey };
	struct ibv_send_wr wr = send_wr(&a, SIGNALED_EACH - 1);
	struct ibv_wc wc;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	if (length == 1)
		wr.send_flags |= IBV_SEND_INLINE;
	for (uint32_t i = 0; i < LOST_EACH; i++) {
		post_send(&a.end, &wr);
		check(await(a.end.send_cq, &wc, DUE_MS) && !wc.status,
		      "a send to %s does not succeed", what);
	}
}

static uint16_t wrong_qkeys(void)
{
	struct ibv_port_attr attr;

	check(!ibv_query_port(device.context, device.port, &attr), "query_port: %m");
	return attr.qkey_viol_cntr;
}

static void lose(void)
{
	uint8_t *mad = a.memory + SEND_AT;
	uint16_t pkey = second_pkey(), qkeys = wrong_qkeys();
	uint64_t packets = counter("counters/port_xmit_packets");
	uint64_t discards = hca_counter("hw_counters/rcvd_discards");
	struct ibv_wc wc;

	send_lost("QP0", way, 0, a.qkey, 1);
	pkeys_order(mad);
	send_lost("QP0, of an order", way, 0, a.qkey, 256);
	counters_order(mad);
	send_lost("QP1, of an order", way, 1, GSI_QKEY, 256);
	send_lost("no queue pair", way, NO_QPN, a.qkey, 1);
	send_lost("no LID", nowhere, b.end.qp->qp_num, a.qkey, 1);
	check(second_pkey() == pkey, "a program has set P_Keys by a datagram");
	check(counter("counters/port_xmit_packets") >= packets + 5 * LOST_EACH,
	      "a program has reset counters by a datagram");
	/* All but those to no LID, which the switch has not passed on; those to QP1 have a wrong Q_Key. */
	discards = hca_counter("hw_counters/rcvd_discards") - discards;
	check(discards == 4 * LOST_EACH, "%llu packets were discarded",
	      (unsigned long long)discards);
	check((uint16_t)(wrong_qkeys() - qkeys) == LOST_EACH,
	      "%u Q_Keys were wrong, before them %u", wrong_qkeys(), qkeys);
	qkeys = wrong_qkeys();
	send_lost("a wrong Q_Key", way, b.end.qp->qp_num, 0x12345678, 1);
	check((uint16_t)(wrong_qkeys() - qkeys) == LOST_EACH,
	      "%u Q_Keys were wrong, before them %u", wrong_qkeys(), qkeys);
	check(!await(b.end.recv_cq, &wc, 0), "what is for nobody has come");
	/* And the next message comes into the next receive. */
	send_some(&a, 1);
	check(await(b.end.recv_cq, &wc, DUE_MS), "the next message is lost");
	take(&b, &wc, 0, length_of(0));
	a.posted = a.done = 0;
}

static struct ibv_ah *address(uint16_t lid)
{
	struct ibv_ah_attr attr = { .dlid = lid, .port_num = device.port };
	struct ibv_ah *ah = ibv_create_ah(device.pd, &attr);

	check(ah, "create_ah: %m");
	return ah;
}

/* An address for each session, all of the same port. */
static void open_sessions(struct ibv_ah **sessions)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < SESSIONS; i++)
		sessions[i] = address(device.port_attr.lid);
	way = sessions[SESSIONS - 1];
	nowhere = address(NO_LID);
	send_some(&a, 1);
	check(await(b.end.recv_cq, &wc, DUE_MS), "the last address leads nowhere");
	take(&b, &wc, 0, length_of(0));
	a.posted = a.done = 0;
}

/*
 * The memory goes while receives are posted and the queue pair takes messages. One that
 * comes finds no memory: that is the end of the receive, and no byte is written.
 */
static void memory_goes(uint8_t *other)
{
	uint32_t slot = b.taken % RECV_DEPTH * SLOT_BYTES;
	struct ibv_wc wc;

	memset(other + slot, UNTOUCHED, SLOT_BYTES);
	check(!ibv_dereg_mr(b.mr), "dereg_mr under posted receives: %m");
	check(!shmdt(b.memory), "shmdt: %m");
	for (uint32_t i = 0; i < SIGNALED_EACH; i++)
		send_some(&a, 1);
	make_room(&a, SEND_DEPTH);
	for (bool first = true; b.taken != b.offered; first = false) {
		check(await(b.end.recv_cq, &wc, DUE_MS) && wc.wr_id == b.taken,
		      "receive %u does not end", b.taken);
		check(wc.status == (first ? IBV_WC_LOC_PROT_ERR :
					    IBV_WC_WR_FLUSH_ERR),
		      "receive %u ends with '%s'", b.taken,
		      ibv_wc_status_str(wc.status));
		b.taken++;
	}
	for (uint32_t i = 0; i < SLOT_BYTES; i++)
		check(other[slot + i] == UNTOUCHED,
		      "memory that has gone was written to");
}

static void run(uint32_t qkey)
{
	static struct ibv_ah *sessions[SESSIONS];
	uint64_t began = now_ms();
	uint8_t *others[2];

	rpc_create(&a, qkey, &others[0]);
	rpc_create(&b, qkey, &others[1]);
	open_sessions(sessions);
	post_oddly();
	talk();
	lose();
	memory_goes(others[1]);
	check(!ibv_dereg_mr(a.mr), "dereg_mr: %m");
	check(!shmdt(a.memory) && !shmdt(others[0]) && !shmdt(others[1]), "shmdt: %m");
	end_destroy(&a.end);
	end_destroy(&b.end);
	check(!ibv_destroy_ah(nowhere), "destroy_ah: %m");
	for (uint32_t i = 0; i < SESSIONS; i++)
		check(!ibv_destroy_ah(sessions[i]), "destroy_ah: %m");
	printf("rpcish: Q_Key %#x: %u messages in order, %llu ms\n", qkey, MESSAGES,
	       (unsigned long long)(now_ms() - began));
}

int main(int argc, char **argv)
{
	check(argc == 2, "usage: rpcish DEVICE[:PORT]");
	device_open(&device, argv[1]);
	look_at_port();
	run(PLAIN_QKEY);
	run(CONTROLLED_QKEY);
	device_close(&device);
	return 0;
}
