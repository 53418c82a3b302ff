// SPDX-License-Identifier: GPL-2.0

#include "umad.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

void umad_open(struct umad *umad, const char *device, int port)
{
	struct ib_user_mad_reg_req request = { .qpn = 1 };
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
