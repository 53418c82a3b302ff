// SPDX-License-Identifier: GPL-2.0
/*
 * Packets that pass for the peer's of a victim, but for what is wrong with most of them.
 *
 * They are for victims alone: no packet names the queue pair of somebody else, since who
 * knows the cookie of a cable can do what the peer can.
 */

#include "siege.h"

#include <string.h>

#define ALL_OPERATIONS 32u
#define LONGEST_PAYLOAD 4200u
/* Of a message of several packets. */
#define MOST_PACKETS 12u
/* A queue pair that nobody has. */
#define NOBODY 0xfffff0u
/* Management datagrams of a class that there is not. */
#define NO_CLASS 0xee

static uint8_t payload[LONGEST_PAYLOAD];

static uint32_t odd_number(void)
{
	static const uint32_t odd[] = {
		0, 1, 2, 3, 4, 7, 8, 255, 256, 257, 1023, 1024, 4095, 4096,
		4097, 0xffff, 0x7fffff, 0x800000, 0xffffff, 0x7fffffff,
		0x80000000, 0x80000001, 0xfffffffc, 0xffffffff,
	};

	return rng_once_in(&rng, 3) ? (uint32_t)rng_next(&rng) :
				      odd[rng_below(&rng, ARRAY_SIZE(odd))];
}

static uint8_t service_of(const struct victim *victim)
{
	switch (victim->type) {
	case IBV_QPT_RC:
		return IB_RC;
	case IBV_QPT_UC:
		return IB_UC;
	default:
		return IB_UD;
	}
}

struct ib_packet right_packet(const struct victim *victim, uint8_t operation,
			      const uint8_t *bytes, size_t length)
{
	return (struct ib_packet){
		.dlid = devices[0].port_attr.lid,
		.slid = devices[1].port_attr.lid,
		.opcode = service_of(victim) | operation,
		.migrated = victim->type != IBV_QPT_UD,
		.ack_request = true,
		.pkey = 0xffff,
		.qpn = victim->end.qp->qp_num,
		.psn = victim->next_psn,
		.qkey = QKEY,
		.source_qpn = victim->peer.qp->qp_num,
		.address = (uintptr_t)memory + GRANTED_AT,
		.rkey = granted->rkey,
		.dma_length = length,
		.invalidate = granted->rkey,
		/* To global visibility, a range. */
		.flush = 1,
		/* No credits are counted. */
		.syndrome = 0x1f,
		.payload = bytes,
		.length = length,
	};
}

void send_packet(const struct ib_packet *packet)
{
	uint8_t bytes[IB_PACKET_BYTES];

	wiretap_add(&tap, bytes,
		    ib_packet_seal(bytes, ib_packet_write(bytes, packet)));
}

static uint32_t some_key(void)
{
	switch (rng_below(&rng, 8)) {
	case 0:
		return frozen->rkey;
	case 1:
		return local->rkey;
	case 2:
		return secret->rkey;
	case 3:
		return odd_number();
	default:
		return granted->rkey;
	}
}

static uint64_t some_address(void)
{
	uint64_t base = (uintptr_t)memory;

	switch (rng_below(&rng, 8)) {
	case 0:
		return base + GRANTED_AT - rng_below(&rng, 64);
	case 1:
		return base + GRANTED_AT + GRANTED_BYTES - rng_below(&rng, 64);
	case 2:
		return base + rng_below(&rng, MEMORY_BYTES);
	case 3:
		return (uintptr_t)secret->addr;
	case 4:
		return -(uint64_t)rng_below(&rng, 4096);
	default:
		return base + GRANTED_AT + rng_below(&rng, GRANTED_BYTES / 8) * 8;
	}
}

/* Aims a packet at nobody, or at who has to do with management and does not want it. */
static void aim_elsewhere(struct ib_packet *packet)
{
	memset(payload, NO_CLASS, sizeof(payload));
	payload[0] = 1;
	switch (rng_below(&rng, 7)) {
	case 0:
		packet->qpn = 0;
		packet->vl = rng_once_in(&rng, 2) ? 15 : 0;
		break;
	case 1:
		packet->qpn = 1;
		packet->qkey = 0x80010000;
		break;
	case 2:
		packet->qpn = 0xffffff;
		packet->dlid = 0xc000 + rng_below(&rng, 0x4000);
		break;
	case 3:
		packet->qpn = 0xffffff;
		break;
	case 4:
		packet->dlid = 0xc000 + rng_below(&rng, 0x3fff);
		break;
	case 5:
		packet->qpn = NOBODY;
		packet->dlid = rng_next(&rng);
		break;
	default:
		packet->qpn = NOBODY;
	}
}

static void with_grh(struct ib_packet *packet)
{
	packet->hop_limit = 1 + rng_below(&rng, 255);
	packet->sgid = devices[1].gid;
	packet->dgid = devices[0].gid;
	if (rng_once_in(&rng, 4))
		packet->sgid.raw[rng_below(&rng, 16)] ^= 1;
	if (rng_once_in(&rng, 4))
		packet->dgid.raw[rng_below(&rng, 16)] ^= 1;
}

/* Spoils one thing. */
static void spoil(struct ib_packet *packet)
{
	switch (rng_below(&rng, 24)) {
	case 0:
		packet->vl = rng_below(&rng, 16);
		break;
	case 1:
		packet->lver = rng_below(&rng, 16);
		break;
	case 2:
		packet->sl = rng_below(&rng, 16);
		break;
	case 3:
		packet->slid = rng_next(&rng);
		break;
	case 4:
		with_grh(packet);
		break;
	case 5:
		packet->opcode = rng_next(&rng);
		break;
	case 6:
		packet->migrated = !packet->migrated;
		break;
	case 7:
		packet->tver = rng_below(&rng, 16);
		break;
	case 8:
		packet->pkey = rng_once_in(&rng, 2) ? 0x7fff : rng_next(&rng);
		break;
	case 9:
		aim_elsewhere(packet);
		break;
	case 10:
		packet->psn = odd_number();
		break;
	case 11:
		packet->psn += 1 + rng_below(&rng, 20);
		break;
	case 12:
		packet->psn -= 1 + rng_below(&rng, 20);
		break;
	case 13:
		packet->qkey = odd_number();
		break;
	case 14:
		packet->source_qpn = odd_number();
		break;
	case 15:
		packet->address = some_address();
		break;
	case 16:
		packet->rkey = some_key();
		break;
	case 17:
		packet->dma_length = odd_number();
		break;
	case 18:
		packet->syndrome = rng_next(&rng);
		break;
	case 19:
		packet->msn = odd_number();
		break;
	case 20:
		packet->invalidate = some_key();
		break;
	case 21:
		packet->flush = rng_next(&rng);
		break;
	case 22:
		packet->length = rng_below(&rng, LONGEST_PAYLOAD);
		break;
	default:
		packet->congestion = rng_next(&rng);
		packet->solicited = true;
	}
	packet->psn &= PSN_MASK;
}

/* Turns bits over, but for those that say whom the packet is for. */
static void turn_bits(uint8_t *bytes, size_t length)
{
	size_t bth = IB_LRH_BYTES + ((bytes[1] & 3) == 3 ? IB_GRH_BYTES : 0);

	for (unsigned int left = 1 + rng_below(&rng, 4); left; left--) {
		size_t at = rng_below(&rng, length);

		if (at == 2 || at == 3 || (at >= bth + 5 && at < bth + 8))
			continue;
		bytes[at] ^= 1 << rng_below(&rng, 8);
	}
}

/* Sends a packet that may suffer once more, as the bytes that it is. */
static void send_spoilt(const struct ib_packet *packet)
{
	uint8_t bytes[IB_PACKET_BYTES];
	size_t length = ib_packet_write(bytes, packet);

	if (rng_once_in(&rng, 12))
		turn_bits(bytes, length);
	if (rng_once_in(&rng, 25)) {
		length -= 4 * rng_below(&rng, length / 4 - 5);
		ib_packet_set_length(bytes, length + IB_ICRC_BYTES);
	}
	if (rng_once_in(&rng, 50))
		length -= 1 + rng_below(&rng, 3);
	length = ib_packet_seal(bytes, length);
	if (rng_once_in(&rng, 50))
		bytes[length - 1] ^= 1;
	wiretap_add(&tap, bytes, length);
}

/* What an operation carries if nothing is wrong. */
static size_t due_length(const struct victim *victim, unsigned int operation)
{
	switch (operation) {
	case IB_SEND_FIRST:
	case IB_SEND_MIDDLE:
	case IB_WRITE_FIRST:
	case IB_WRITE_MIDDLE:
	case IB_READ_RESP_FIRST:
	case IB_READ_RESP_MIDDLE:
		return victim->mtu;
	case IB_READ_REQUEST:
	case IB_ACK:
	case IB_ATOMIC_ACK:
	case IB_COMPARE_SWAP:
	case IB_FETCH_ADD:
	case IB_RESYNC:
	case IB_FLUSH:
		return 0;
	case IB_ATOMIC_WRITE:
		return 8;
	default:
		return 1 + rng_below(&rng, victim->mtu);
	}
}

static bool is_answer(unsigned int operation)
{
	return operation >= IB_READ_RESP_FIRST && operation <= IB_ATOMIC_ACK;
}

/* A packet of any operation, of which something is wrong more often than not. */
static void one_packet(struct victim *victim)
{
	unsigned int operation = rng_below(&rng, ALL_OPERATIONS);
	size_t length = due_length(victim, operation);
	struct ib_packet packet =
		right_packet(victim, operation, payload, length);
	bool right = rng_once_in(&rng, 3);

	if (operation == IB_READ_REQUEST)
		packet.dma_length = rng_below(&rng, GRANTED_BYTES);
	if (is_answer(operation)) {
		packet.psn = (victim->end.psn + rng_below(&rng, SIEGE_DEPTH)) &
			     PSN_MASK;
		packet.msn = rng_below(&rng, SIEGE_DEPTH);
	} else if (right) {
		uint32_t packets = operation == IB_READ_REQUEST ?
			(packet.dma_length + victim->mtu - 1) / victim->mtu : 1;

		victim->next_psn += packets ? packets : 1;
		victim->next_psn &= PSN_MASK;
	}
	memset(payload, rng_next(&rng), length);
	if (right)
		return send_packet(&packet);
	for (unsigned int left = 1 + rng_below(&rng, 2); left; left--)
		spoil(&packet);
	send_spoilt(&packet);
}

/* The operation of packet `at` of `count`, of a SEND or an RDMA WRITE. */
static unsigned int operation_at(bool is_write, unsigned int at,
				 unsigned int count)
{
	unsigned int base = is_write ? IB_WRITE_FIRST : IB_SEND_FIRST;

	if (count == 1)
		return is_write ? IB_WRITE_ONLY : IB_SEND_ONLY;
	return base + (!at ? 0 : at + 1 < count ? 1 : 2);
}

/* A message of several packets, of which one in many is wrong or missing. */
static void one_message(struct victim *victim)
{
	unsigned int count = 1 + rng_below(&rng, MOST_PACKETS);
	bool is_write = rng_once_in(&rng, 2);
	size_t last = 1 + rng_below(&rng, victim->mtu);

	memset(payload, rng_next(&rng), victim->mtu);
	for (unsigned int at = 0; at < count; at++) {
		unsigned int operation = operation_at(is_write, at, count);
		struct ib_packet packet = right_packet(
			victim, operation, payload,
			at + 1 < count ? victim->mtu : last);

		packet.dma_length = (count - 1) * victim->mtu + last;
		packet.ack_request = at + 1 == count;
		victim->next_psn = (victim->next_psn + 1) & PSN_MASK;
		if (!rng_once_in(&rng, 3 * MOST_PACKETS)) {
			send_packet(&packet);
		} else if (rng_once_in(&rng, 2)) {
			spoil(&packet);
			send_spoilt(&packet);
		}
	}
}

void storm(struct victim *victim, unsigned int count)
{
	while (count--) {
		if (rng_once_in(&rng, 3))
			one_message(victim);
		else
			one_packet(victim);
		if (rng_once_in(&rng, 4))
			wiretap_flush(&tap);
		tap.lies = rng_once_in(&rng, 50);
	}
	wiretap_flush(&tap);
	tap.lies = false;
}
