// SPDX-License-Identifier: GPL-2.0
/* One end of a connection: its device and queue pair, and the paths that there are. */

#include "sibcm.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

int try_cm(struct side *side, unsigned long request, void *arg)
{
	return ioctl(side->cm, request, arg) ? errno : 0;
}

void cm(struct side *side, unsigned long request, void *arg, const char *what)
{
	int error = try_cm(side, request, arg);

	if (error)
		die("%s: %s", what, strerror(error));
}

void survey(struct side *side)
{
	struct ibv_device_attr device;
	struct ibv_port_attr attr;
	union ibv_gid gid;

	if (ibv_query_device(side->context, &device))
		die("the device does not answer: %m");
	side->ours.count = device.phys_port_cnt < MAX_PORTS ?
				   device.phys_port_cnt : MAX_PORTS;
	for (int i = 0; i < side->ours.count; i++) {
		if (ibv_query_port(side->context, i + 1, &attr) ||
		    ibv_query_gid(side->context, i + 1, 0, &gid))
			die("port %d does not answer: %m", i + 1);
		side->ours.port[i].lid = htobe16(attr.lid);
		memcpy(side->ours.port[i].gid, gid.raw, sizeof(gid.raw));
	}
}

bool is_port_active(struct side *side, int port)
{
	struct ibv_port_attr attr;

	return !ibv_query_port(side->context, port, &attr) &&
	       attr.state == IBV_PORT_ACTIVE;
}

int port_of(struct side *side, uint16_t lid)
{
	for (int i = 0; i < side->ours.count; i++)
		if (be16toh(side->ours.port[i].lid) == lid)
			return i + 1;
	return 0;
}

void open_side(struct side *side, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct sib_cm_create_id create = { 0 };
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			side->context = ibv_open_device(list[i]);
	if (!side->context)
		die("no device %s", name);
	side->cm = open("/dev/sib_cm", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (side->cm < 0)
		die("/dev/sib_cm: %m%s", errno == ENOENT ?
			    " (modprobe sib_cm)" : "");
	create.guid = be64toh(ibv_get_device_guid(side->context->device));
	cm(side, SIB_CM_IOC_CREATE_ID, &create, "no identifier");
	side->id = create.id;
	survey(side);
	side->pd = ibv_alloc_pd(side->context);
	side->channel = ibv_create_comp_channel(side->context);
	side->cq = ibv_create_cq(side->context, 2 * DEPTH, NULL, side->channel,
				 0);
	if (!side->pd || !side->channel || !side->cq ||
	    ibv_req_notify_cq(side->cq, 0))
		die("no completion queue: %m");
	init.send_cq = init.recv_cq = side->cq;
	side->qp = ibv_create_qp(side->pd, &init);
	if (!side->qp)
		die("no queue pair: %m");
	side->psn = side->qp->qp_num * 0x9e3779b1u >> 8;
}

void make_buffers(struct side *side, uint32_t size)
{
	size_t length = 2 * DEPTH * (size_t)size;

	side->size = size;
	side->buffers = calloc(1, length);
	side->mr = side->buffers ? ibv_reg_mr(side->pd, side->buffers, length,
					      IBV_ACCESS_LOCAL_WRITE) :
				   NULL;
	if (!side->mr)
		die("no memory for messages of %u bytes: %m", size);
}

void to_init(struct side *side, int port)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = port };

	if (ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					   IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("queue pair to INIT: %m");
	side->port = port;
	for (uint64_t slot = DEPTH; slot < 2 * DEPTH; slot++)
		post_recv(side, slot);
}

void to_rtr(struct side *side, const struct sib_cm_event *peer, uint16_t lid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_2048,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->starting_psn,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = lid, .port_num = side->port },
	};

	if (ibv_modify_qp(side->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		die("queue pair to RTR: %m");
}

void to_rts(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = side->ack_timeout,
				    .retry_cnt = RETRIES,
				    .rnr_retry = 7,
				    .sq_psn = side->psn };

	if (ibv_modify_qp(side->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		die("queue pair to RTS: %m");
	side->is_connected = true;
}

bool load(struct side *side, const struct sib_cm_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.alt_ah_attr = { .dlid = path->remote_lid },
		.alt_timeout = side->ack_timeout,
		.path_mig_state = IBV_MIG_REARM,
	};

	attr.alt_port_num = port_of(side, path->local_lid);
	attr.alt_ah_attr.port_num = attr.alt_port_num;
	if (!attr.alt_port_num ||
	    ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_ALT_PATH |
						   IBV_QP_PATH_MIG_STATE))
		return false;
	side->alternate = attr.alt_port_num;
	side->is_refusal_known = false;
	side->loads++;
	printf("the path by port %d is the alternate one\n", side->alternate);
	return true;
}

enum ibv_mig_state mig_state(struct side *side)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(side->qp, &attr, IBV_QP_PATH_MIG_STATE, &init))
		die("the queue pair does not answer: %m");
	return attr.path_mig_state;
}

struct sib_cm_path path_by(struct side *side, int port, int remote)
{
	struct sib_cm_path path = {
		.local_lid = be16toh(side->ours.port[port - 1].lid),
		.remote_lid = be16toh(side->theirs.port[remote - 1].lid),
		.rate = IBV_RATE_10_GBPS,
		.subnet_local = 1,
		.ack_timeout = side->ack_timeout,
	};

	memcpy(path.local_gid, side->ours.port[port - 1].gid, 16);
	memcpy(path.remote_gid, side->theirs.port[remote - 1].gid, 16);
	return path;
}
