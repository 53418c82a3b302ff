/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets of InfiniBand made byte by byte, right or wrong. Whatever stands in them, the
 * ICRC is that of their bytes. Written from the IBA, and not from the driver under test.
 */
#ifndef TESTS_IBPACKET_H
#define TESTS_IBPACKET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IB_LRH_BYTES 8u
#define IB_GRH_BYTES 40u
#define IB_ICRC_BYTES 4u
/* Longer than any that is right. */
#define IB_PACKET_BYTES 4608u

/* The upper three bits of an opcode. */
#define IB_RC 0x00u
#define IB_UC 0x20u
#define IB_UD 0x60u
/* The lower five bits. */
enum ib_operation {
	IB_SEND_FIRST,
	IB_SEND_MIDDLE,
	IB_SEND_LAST,
	IB_SEND_LAST_IMM,
	IB_SEND_ONLY,
	IB_SEND_ONLY_IMM,
	IB_WRITE_FIRST,
	IB_WRITE_MIDDLE,
	IB_WRITE_LAST,
	IB_WRITE_LAST_IMM,
	IB_WRITE_ONLY,
	IB_WRITE_ONLY_IMM,
	IB_READ_REQUEST,
	IB_READ_RESP_FIRST,
	IB_READ_RESP_MIDDLE,
	IB_READ_RESP_LAST,
	IB_READ_RESP_ONLY,
	IB_ACK,
	IB_ATOMIC_ACK,
	IB_COMPARE_SWAP,
	IB_FETCH_ADD,
	IB_RESYNC,
	IB_SEND_LAST_INV,
	IB_SEND_ONLY_INV,
	IB_FLUSH = 0x1c,
	IB_ATOMIC_WRITE,
};

/* What a packet says; all of it counts that its opcode has room for. */
struct ib_packet {
	uint8_t vl, lver, sl;
	uint16_t dlid, slid;
	/* Without one if `hop_limit` is 0. */
	uint8_t hop_limit;
	union ibv_gid sgid, dgid;
	uint8_t opcode;
	bool solicited, migrated, ack_request;
	/* Of 2 and 4 bits; `pad` is what the payload needs. */
	uint8_t tver;
	uint8_t congestion;
	uint16_t pkey;
	uint32_t qpn, psn;
	uint32_t qkey, source_qpn;
	uint64_t address;
	uint32_t rkey, dma_length;
	uint64_t swap_add, compare;
	uint8_t syndrome;
	uint32_t msn;
	uint32_t imm, invalidate, flush;
	const uint8_t *payload;
	size_t length;
};

/* Writes a packet but for its ICRC, which has room; its length without that. */
size_t ib_packet_write(uint8_t *to, const struct ib_packet *packet);
/* Puts the ICRC behind `length` bytes; the length with it. */
size_t ib_packet_seal(uint8_t *packet, size_t length);
/* Has the lengths of LRH and GRH be those of a packet of `length` bytes with its ICRC. */
void ib_packet_set_length(uint8_t *packet, size_t length);

#endif
