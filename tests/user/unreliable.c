// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of an unreliable service, over a network that may do to packets what it likes:
 * what arrives is whole, and what arrives by a connection (UC) is in order and comes once.
 *
 *     unreliable DEVICE[:PORT] DEVICE[:PORT] uc|ud MESSAGES RECEIVES
 *
 * The second device has RECEIVES receives for messages, which it posts again as they are
 * used; none if that is 0. Says how many messages have arrived.
 */

#include "common.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 16
#define MOST_RECEIVES 256
#define ROOM (64u << 10)
#define DUE_MS 30000
/* Nothing is on its way any more. */
#define QUIET_MS 1000

static struct device devices[2];
static struct end ends[2];
static struct ibv_mr *mrs[2];
static struct ibv_ah *way;
static uint8_t *memory[2];
static uint32_t mtu, messages, receives;
static struct rng rng;
static uint32_t arrived, doubled, behind;
static bool *has_come;
static int64_t newest = -1;

static bool is_connected(void)
{
	return ends[0].type == IBV_QPT_UC;
}

/* Each message tells itself from all others by all its bytes. */
static uint32_t length_of(uint32_t number)
{
	rng_seed(&rng, number + 1);
	return 1 + rng_below(&rng, is_connected() ? ROOM : mtu);
}

static void fill(uint8_t *at, uint32_t number, uint32_t length)
{
	rng_seed(&rng, ~(uint64_t)number);
	for (uint32_t i = 0; i < length; i++) {
		if (i % 256 == 0)
			at[i] = rng_next(&rng);
		else
			at[i] = at[i - 1] * 5 + 1;
	}
}

static void receive(uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)memory[1] + slot * (ROOM + GRH_BYTES),
			       ROOM + GRH_BYTES, mrs[1]->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	post_recv(&ends[1], &wr);
}

static void check_message(const struct ibv_wc *wc)
{
	static uint8_t expected[ROOM];
	uint32_t area = is_connected() ? 0 : GRH_BYTES;
	uint32_t number = ntohl(wc->imm_data), length;

	check(wc->status == IBV_WC_SUCCESS, "receive: %s",
	      ibv_wc_status_str(wc->status));
	check(wc->wc_flags & IBV_WC_WITH_IMM && number < messages,
	      "message %u was never sent", number);
	length = length_of(number);
	check(wc->byte_len == length + area, "message %u has %u bytes, not %u",
	      number, wc->byte_len - area, length);
	fill(expected, number, length);
	check(!memcmp(memory[1] + wc->wr_id * (ROOM + GRH_BYTES) + area,
		      expected, length),
	      "message %u has other bytes", number);
	if (is_connected())
		check(number > newest, "message %u comes after %lld", number,
		      (long long)newest);
	doubled += has_come[number];
	arrived += !has_come[number];
	behind += number < newest;
	has_come[number] = true;
	newest = number > newest ? number : newest;
}

static bool take_one(int ms)
{
	struct ibv_wc wc;

	if (!await(ends[1].recv_cq, &wc, ms))
		return false;
	check_message(&wc);
	receive(wc.wr_id);
	return true;
}

static void sent_one(void)
{
	struct ibv_wc wc;

	check(await(ends[0].send_cq, &wc, DUE_MS) &&
		      wc.status == IBV_WC_SUCCESS,
	      "a send does not succeed");
}

static void send_one(uint32_t number)
{
	uint8_t *at = memory[0] + number % DEPTH * ROOM;
	uint32_t length = length_of(number);
	struct ibv_sge sge = { (uintptr_t)at, length, mrs[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(number),
	};

	fill(at, number, length);
	if (!is_connected()) {
		wr.wr.ud.ah = way;
		wr.wr.ud.remote_qpn = ends[1].qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	post_send(&ends[0], &wr);
}

static void connect_ends(const char *type)
{
	const struct end_options options = {
		.type = !strcmp(type, "uc") ? IBV_QPT_UC : IBV_QPT_UD,
		.send_depth = DEPTH,
		.recv_depth = receives ? receives : 1,
		.sges = 1,
	};
	struct ibv_ah_attr attr;

	check(!strcmp(type, "uc") || !strcmp(type, "ud"), "type %s", type);
	for (int at = 0; at < 2; at++) {
		size_t size = at ? receives * (size_t)(ROOM + GRH_BYTES) + 1 :
				   DEPTH * (size_t)ROOM;

		end_create(&ends[at], &devices[at], &options);
		memory[at] = calloc(1, size);
		check(memory[at], "out of memory");
		mrs[at] = ibv_reg_mr(devices[at].pd, memory[at], size,
				     ALL_ACCESS);
		check(mrs[at], "reg_mr: %m");
	}
	mtu = 128u << devices[0].port_attr.active_mtu;
	end_connect(&ends[0], &ends[1], &default_path);
	attr = path_to(&devices[0], &devices[1], false);
	way = ibv_create_ah(devices[0].pd, &attr);
	check(way, "create_ah: %m");
}

int main(int argc, char **argv)
{
	check(argc == 6, "usage: unreliable DEVICE[:PORT] DEVICE[:PORT] uc|ud MESSAGES RECEIVES");
	messages = strtoul(argv[4], NULL, 0);
	receives = strtoul(argv[5], NULL, 0);
	check(receives <= MOST_RECEIVES, "up to %d receives", MOST_RECEIVES);
	has_come = calloc(messages + 1, sizeof(*has_come));
	check(has_come, "out of memory");
	for (int at = 0; at < 2; at++)
		device_open(&devices[at], argv[1 + at]);
	connect_ends(argv[3]);
	for (uint32_t slot = 0; slot < receives; slot++)
		receive(slot);
	for (uint32_t number = 0; number < messages; number++) {
		if (number >= DEPTH)
			sent_one();
		send_one(number);
		while (take_one(0))
			;
	}
	for (uint32_t number = 0; number < DEPTH && number < messages; number++)
		sent_one();
	while (take_one(QUIET_MS))
		;
	check(receives || !arrived, "%u messages without a receive", arrived);
	check(!receives || arrived, "none of %u messages has arrived", messages);
	check(!ibv_destroy_ah(way), "destroy_ah: %m");
	for (int at = 0; at < 2; at++) {
		end_destroy(&ends[at]);
		check(!ibv_dereg_mr(mrs[at]), "dereg_mr: %m");
		device_close(&devices[at]);
		free(memory[at]);
	}
	free(has_come);
	printf("%s: %u of %u messages, %u twice, %u behind later ones\n",
	       argv[3], arrived, messages, doubled, behind);
	return 0;
}
