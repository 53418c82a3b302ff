// SPDX-License-Identifier: GPL-2.0

#include "wiretap.h"
#include "common.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define IP_AT 14u
#define UDP_AT 54u
#define UDP 17
/* Of the outer header: datagrams that say that the cable is alive, and those with a packet. */
#define KEEPALIVE 3
#define DATA 0
#define KIND_AT 4
#define STRIDE_AT 6
/* Fewer datagrams than the network layer cuts a batch into, and packets of a datagram. */
#define MOST_PACKETS 60u
#define MOST_IN_ROW 3u
#define DATAGRAM_BYTES 8900u
#define LEARN_MS 60000

/* A socket of a network device, which hears this protocol; 0: none. */
static int packet_socket(const char *device, uint16_t protocol)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	check(fd >= 0, "a packet socket: %m");
	check(!bind(fd, (struct sockaddr *)&at, sizeof(at)), "%s: %m", device);
	return fd;
}

/* Takes the addresses and the cookie of a keepalive. */
static bool learn(struct wiretap *tap, const uint8_t *frame, ssize_t length)
{
	static const uint8_t magic[] = { 's', 'i', 'b', 1, KEEPALIVE };
	const uint8_t *outer = frame + WIRETAP_HEAD_BYTES;

	if (length < (ssize_t)(WIRETAP_HEAD_BYTES + WIRETAP_OUTER_BYTES) ||
	    frame[IP_AT + 6] != UDP || memcmp(outer, magic, sizeof(magic)))
		return false;
	memcpy(tap->head, frame, WIRETAP_HEAD_BYTES);
	memcpy(tap->outer, outer, WIRETAP_OUTER_BYTES);
	tap->outer[KIND_AT] = DATA;
	return true;
}

void wiretap_open(struct wiretap *tap, const char *end, const char *other)
{
	const struct timeval patience = { .tv_sec = 1 };
	uint64_t until = now_ms() + LEARN_MS;
	int ear = packet_socket(end, ETH_P_IPV6), one = 1;
	uint8_t frame[2048];

	memset(tap, 0, sizeof(*tap));
	tap->row = tap->next_row = 1;
	check(!setsockopt(ear, SOL_SOCKET, SO_RCVTIMEO, &patience,
			  sizeof(patience)), "SO_RCVTIMEO: %m");
	for (;;) {
		struct sockaddr_ll from;
		socklen_t size = sizeof(from);
		ssize_t length = recvfrom(ear, frame, sizeof(frame), 0,
					  (struct sockaddr *)&from, &size);

		if (length > 0 && from.sll_pkttype == PACKET_HOST &&
		    learn(tap, frame, length))
			break;
		check(now_ms() < until, "no cable ends at %s", end);
	}
	close(ear);
	tap->fd = packet_socket(other, 0);
	check(!setsockopt(tap->fd, SOL_PACKET, PACKET_VNET_HDR, &one,
			  sizeof(one)), "PACKET_VNET_HDR: %m");
}

void wiretap_close(struct wiretap *tap)
{
	close(tap->fd);
}

/* The sum that a checksum begins with, over addresses, length and protocol. */
static uint16_t pseudo_sum(const uint8_t *ip, uint32_t length)
{
	uint32_t sum = length + UDP;

	for (int i = 8; i < 40; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

void wiretap_flush(struct wiretap *tap)
{
	struct virtio_net_hdr offload = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.hdr_len = WIRETAP_HEAD_BYTES,
		.csum_start = UDP_AT,
		.csum_offset = 6,
	};
	uint16_t length = tap->length + 8;
	struct iovec parts[] = {
		{ &offload, sizeof(offload) },
		{ tap->head, WIRETAP_HEAD_BYTES },
		{ tap->batch, tap->length },
	};

	if (!tap->count)
		return;
	if (tap->count > tap->row) {
		offload.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
		offload.gso_size = WIRETAP_OUTER_BYTES + tap->row * tap->size;
	}
	put16(tap->head + IP_AT + 4, length);
	put16(tap->head + UDP_AT + 4, length);
	put16(tap->head + UDP_AT + 6, pseudo_sum(tap->head + IP_AT, length));
	check(writev(tap->fd, parts, ARRAY_SIZE(parts)) > 0, "not sent: %m");
	tap->sent += tap->count;
	tap->batches += tap->count > 1;
	tap->count = 0;
	tap->length = 0;
	tap->ended = false;
	tap->next_row = tap->next_row % MOST_IN_ROW + 1;
}

void wiretap_add(struct wiretap *tap, const uint8_t *packet, size_t length)
{
	/* What precedes it in its datagram. */
	size_t start = tap->count % tap->row ? 0 : WIRETAP_OUTER_BYTES;

	if (tap->count &&
	    (tap->ended || length > tap->size || tap->count >= MOST_PACKETS ||
	     tap->length + start + length > WIRETAP_BATCH_BYTES)) {
		wiretap_flush(tap);
		start = WIRETAP_OUTER_BYTES;
	}
	if (!tap->count) {
		tap->size = length;
		tap->row = length * tap->next_row < DATAGRAM_BYTES ? tap->next_row : 1;
	}
	tap->ended = length < tap->size;
	if (start) {
		put16(tap->outer + STRIDE_AT,
		      tap->lies ? tap->size ^ tap->sent : tap->size);
		memcpy(tap->batch + tap->length, tap->outer, start);
	}
	memcpy(tap->batch + tap->length + start, packet, length);
	tap->length += start + length;
	tap->count++;
}
