// SPDX-License-Identifier: GPL-2.0

#include "ibpacket.h"

#include <string.h>

/* What follows the BTH, in this order. */
enum {
	DETH = 1 << 0,
	FETH = 1 << 1,
	RETH = 1 << 2,
	ATOMIC = 1 << 3,
	AETH = 1 << 4,
	ATOMIC_ACK = 1 << 5,
	IMM = 1 << 6,
	IETH = 1 << 7,
};

static const uint8_t extensions[32] = {
	[IB_SEND_LAST_IMM] = IMM,
	[IB_SEND_ONLY_IMM] = IMM,
	[IB_WRITE_FIRST] = RETH,
	[IB_WRITE_LAST_IMM] = IMM,
	[IB_WRITE_ONLY] = RETH,
	[IB_WRITE_ONLY_IMM] = RETH | IMM,
	[IB_READ_REQUEST] = RETH,
	[IB_READ_RESP_FIRST] = AETH,
	[IB_READ_RESP_LAST] = AETH,
	[IB_READ_RESP_ONLY] = AETH,
	[IB_ACK] = AETH,
	[IB_ATOMIC_ACK] = AETH | ATOMIC_ACK,
	[IB_COMPARE_SWAP] = ATOMIC,
	[IB_FETCH_ADD] = ATOMIC,
	[IB_SEND_LAST_INV] = IETH,
	[IB_SEND_ONLY_INV] = IETH,
	[IB_FLUSH] = FETH | RETH,
	[IB_ATOMIC_WRITE] = RETH,
};

static uint8_t *put(uint8_t *at, uint64_t value, unsigned int bytes)
{
	while (bytes--)
		*at++ = value >> 8 * bytes;
	return at;
}

static uint8_t *put_grh(uint8_t *at, const struct ib_packet *packet)
{
	/* Version 6; what follows is a BTH. */
	at = put(at, 6u << 28, 4);
	at = put(at, 0, 2);
	at = put(at, 0x1b, 1);
	at = put(at, packet->hop_limit, 1);
	memcpy(at, &packet->sgid, 16);
	memcpy(at + 16, &packet->dgid, 16);
	return at + 32;
}

static uint8_t *put_extensions(uint8_t *at, const struct ib_packet *packet)
{
	uint8_t has = extensions[packet->opcode & 0x1f];

	if ((packet->opcode & 0xe0) == IB_UD)
		has |= DETH;
	if (has & DETH) {
		at = put(at, packet->qkey, 4);
		at = put(at, packet->source_qpn, 4);
	}
	if (has & FETH)
		at = put(at, packet->flush, 4);
	if (has & (RETH | ATOMIC)) {
		at = put(at, packet->address, 8);
		at = put(at, packet->rkey, 4);
	}
	if (has & RETH)
		at = put(at, packet->dma_length, 4);
	if (has & ATOMIC) {
		at = put(at, packet->swap_add, 8);
		at = put(at, packet->compare, 8);
	}
	if (has & AETH)
		at = put(at, (uint32_t)packet->syndrome << 24 |
				     (packet->msn & 0xffffff), 4);
	if (has & ATOMIC_ACK)
		at = put(at, packet->compare, 8);
	if (has & IMM)
		at = put(at, packet->imm, 4);
	if (has & IETH)
		at = put(at, packet->invalidate, 4);
	return at;
}

size_t ib_packet_write(uint8_t *to, const struct ib_packet *packet)
{
	uint8_t pad = -packet->length & 3, *at = to;

	at = put(at, packet->vl << 4 | (packet->lver & 0xf), 1);
	at = put(at, packet->sl << 4 | (packet->hop_limit ? 3 : 2), 1);
	at = put(at, packet->dlid, 2);
	at = put(at, 0, 2);
	at = put(at, packet->slid, 2);
	if (packet->hop_limit)
		at = put_grh(at, packet);
	at = put(at, packet->opcode, 1);
	at = put(at, packet->solicited << 7 | packet->migrated << 6 | pad << 4 |
			     (packet->tver & 0xf), 1);
	at = put(at, packet->pkey, 2);
	at = put(at, packet->congestion, 1);
	at = put(at, packet->qpn, 3);
	at = put(at, packet->ack_request << 7, 1);
	at = put(at, packet->psn, 3);
	at = put_extensions(at, packet);
	memcpy(at, packet->payload, packet->length);
	at = put(at + packet->length, 0, pad);
	ib_packet_set_length(to, at - to + IB_ICRC_BYTES);
	return at - to;
}

void ib_packet_set_length(uint8_t *packet, size_t length)
{
	put(packet + 4, length / 4, 2);
	if ((packet[1] & 3) == 3)
		put(packet + IB_LRH_BYTES + 4,
		    length - IB_LRH_BYTES - IB_GRH_BYTES, 2);
}

static uint32_t crc32(const uint8_t *bytes, size_t length)
{
	static uint32_t table[256];
	uint32_t crc = ~0u;

	for (uint32_t byte = 0; byte < 256 && !table[255]; byte++) {
		table[byte] = byte;
		for (int bit = 0; bit < 8; bit++)
			table[byte] = table[byte] >> 1 ^
				      (table[byte] & 1 ? 0xedb88320 : 0);
	}
	while (length--)
		crc = crc >> 8 ^ table[(crc ^ *bytes++) & 0xff];
	return ~crc;
}

size_t ib_packet_seal(uint8_t *packet, size_t length)
{
	static uint8_t copy[IB_PACKET_BYTES];
	size_t bth = IB_LRH_BYTES;
	uint32_t crc;

	memcpy(copy, packet, length);
	if ((packet[1] & 3) == 3) {
		memset(copy, 0xff, IB_LRH_BYTES);
		copy[bth] |= 0x0f;
		memset(copy + bth + 1, 0xff, 3);
		copy[bth + 7] = 0xff;
		bth += IB_GRH_BYTES;
	} else {
		copy[0] |= 0xf0;
	}
	copy[bth + 4] = 0xff;
	crc = crc32(copy, length);
	for (int i = 0; i < 4; i++)
		packet[length + i] = crc >> 8 * i;
	return length + IB_ICRC_BYTES;
}
