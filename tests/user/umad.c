// SPDX-License-Identifier: GPL-2.0

#include "umad.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CLASSES "/sys/class/infiniband_mad"
#define QKEY_OF_QP1 0x80010000u
#define CLASS_CM 7
#define CLASS_VERSION 2
#define METHOD_SEND 3
#define REQ 0x10
#define LAP 0x19
#define RESPONSE 16

/* What a file of the class says of a umad. */
static void about(const char *umad, const char *file, char *text, size_t size)
{
	char path[512];
	FILE *stream;

	snprintf(path, sizeof(path), CLASSES "/%s/%s", umad, file);
	stream = fopen(path, "r");
	check(stream && fgets(text, size, stream), "cannot read %s", path);
	fclose(stream);
	text[strcspn(text, "\n")] = '\0';
}

static bool is_of(const char *umad, const char *device, int port)
{
	char text[64];

	if (strncmp(umad, "umad", 4))
		return false;
	about(umad, "ibdev", text, sizeof(text));
	if (strcmp(text, device))
		return false;
	about(umad, "port", text, sizeof(text));
	return atoi(text) == port;
}

static void open_for(struct umad *umad, const char *device, int port,
		     struct ib_user_mad_reg_req request)
{
	DIR *classes = opendir(CLASSES);
	char path[512] = "";
	struct dirent *it;

	check(classes, "no ib_umad: %m");
	while (!*path && (it = readdir(classes)))
		if (is_of(it->d_name, device, port))
			snprintf(path, sizeof(path), "/dev/infiniband/%s",
				 it->d_name);
	closedir(classes);
	check(*path, "no umad of port %d of %s", port, device);
	umad->fd = open(path, O_RDWR | O_CLOEXEC);
	check(umad->fd >= 0, "%s: %m", path);
	check(!ioctl(umad->fd, IB_USER_MAD_ENABLE_PKEY), "P_Keys of %s: %m",
	      path);
	check(!ioctl(umad->fd, IB_USER_MAD_REGISTER_AGENT, &request),
	      "agent of %s: %m", path);
	umad->agent = request.id;
}

void umad_open(struct umad *umad, const char *device, int port)
{
	open_for(umad, device, port, (struct ib_user_mad_reg_req){ .qpn = 1 });
}

void umad_open_manager(struct umad *umad, const char *device, int port)
{
	open_for(umad, device, port,
		 (struct ib_user_mad_reg_req){
			 .qpn = 1,
			 .mgmt_class = CLASS_CM,
			 .mgmt_class_version = CLASS_VERSION,
			 .method_mask = { 1 << METHOD_SEND },
		 });
}

void umad_close(struct umad *umad)
{
	close(umad->fd);
}

int umad_send(struct umad *umad, uint16_t lid, const uint8_t mad[MAD_BYTES])
{
	struct {
		struct ib_user_mad_hdr hdr;
		uint8_t mad[MAD_BYTES];
	} it = { .hdr = { .id = umad->agent,
			  .qpn = htonl(1),
			  .qkey = htonl(QKEY_OF_QP1),
			  .lid = htons(lid) } };

	memcpy(it.mad, mad, MAD_BYTES);
	return write(umad->fd, &it, sizeof(it)) == sizeof(it) ? 0 : errno;
}

bool umad_receive(struct umad *umad, uint8_t mad[MAD_BYTES], int ms)
{
	struct pollfd fd = { .fd = umad->fd, .events = POLLIN };
	uint64_t due = now_ms() + ms;
	struct {
		struct ib_user_mad_hdr hdr;
		uint8_t mad[MAD_BYTES];
	} it;

	/* What was sent comes back as well, if it was not answered in time. */
	do {
		uint64_t now = now_ms();

		if (poll(&fd, 1, now < due ? due - now : 0) != 1)
			return false;
		check(read(umad->fd, &it, sizeof(it)) == sizeof(it), "umad: %m");
	} while (it.hdr.status);
	memcpy(mad, it.mad, MAD_BYTES);
	return true;
}

uint16_t mad_attribute(const uint8_t mad[MAD_BYTES])
{
	return mad_get(mad + 16, 2);
}

uint64_t mad_get(const uint8_t *bytes, unsigned int count)
{
	uint64_t value = 0;

	while (count--)
		value = value << 8 | *bytes++;
	return value;
}

void mad_put(uint8_t *bytes, uint64_t value, unsigned int count)
{
	while (count--) {
		bytes[count] = value;
		value >>= 8;
	}
}

void mad_begin(uint8_t mad[MAD_BYTES], uint16_t attribute, uint64_t tid)
{
	memset(mad, 0, MAD_BYTES);
	mad[0] = 1;
	mad[1] = CLASS_CM;
	mad[2] = CLASS_VERSION;
	mad[3] = METHOD_SEND;
	mad_put(mad + 8, tid, 8);
	mad_put(mad + 16, attribute, 2);
}

void mad_req(uint8_t mad[MAD_BYTES], const struct req *req)
{
	const struct sib_cm_path *path = &req->primary;
	uint8_t *data = mad + MAD_HEADER, *primary = data + 52;

	mad_begin(mad, REQ, req->tid);
	mad_put(data, req->local_comm_id, 4);
	mad_put(data + 8, req->service_id, 8);
	mad_put(data + 16, req->guid, 8);
	mad_put(data + 32, req->qpn, 3);
	data[43] = RESPONSE << 3 | req->service_type << 1;
	data[47] = RESPONSE << 3;
	mad_put(data + 48, 0xffff, 2);
	data[50] = req->path_mtu << 4;
	mad_put(primary, path->local_lid, 2);
	mad_put(primary + 2, path->remote_lid, 2);
	memcpy(primary + 4, path->local_gid, 16);
	memcpy(primary + 20, path->remote_gid, 16);
	primary[39] = path->rate;
	primary[41] = path->hop_limit;
	primary[42] = path->sl << 4 | path->subnet_local << 3;
	primary[43] = path->ack_timeout << 3;
}

struct rej mad_rej(const uint8_t mad[MAD_BYTES])
{
	const uint8_t *data = mad + MAD_HEADER;

	return (struct rej){
		.local_comm_id = mad_get(data, 4),
		.remote_comm_id = mad_get(data + 4, 4),
		.message_rejected = data[8] >> 6,
		.info_len = data[9] >> 1,
		.reason = mad_get(data + 10, 2),
		.info = data + 12,
	};
}

void mad_lap(uint8_t mad[MAD_BYTES], const struct lap *lap)
{
	uint8_t *data = mad + MAD_HEADER;

	mad_begin(mad, LAP, lap->tid);
	mad_put(data, lap->local_comm_id, 4);
	mad_put(data + 4, lap->remote_comm_id, 4);
	mad_put(data + 12, lap->remote_qpn, 3);
	data[15] = RESPONSE << 3;
	mad_put(data + 20, lap->path.local_lid, 2);
	mad_put(data + 22, lap->path.remote_lid, 2);
	memcpy(data + 24, lap->path.local_gid, 16);
	memcpy(data + 40, lap->path.remote_gid, 16);
	data[60] = lap->path.hop_limit;
	data[61] = lap->path.rate;
	data[62] = lap->path.sl << 4 | lap->path.subnet_local << 3;
	data[63] = lap->path.ack_timeout << 3;
}
