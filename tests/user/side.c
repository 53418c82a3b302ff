// SPDX-License-Identifier: GPL-2.0

#include "side.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NONE_MS 200
/* 1.07 s. */
#define RESPONSE 18
#define RETRIES 7

void side_open(struct side *side, const char *name)
{
	const char *bits = getenv("PATH_BITS");

	device_open(&side->device, name);
	side->guid = be64toh(ibv_get_device_guid(side->device.context->device));
	for (uint8_t port = 1; port <= PORTS; port++) {
		struct ibv_port_attr attr;

		check(!ibv_query_port(side->device.context, port, &attr),
		      "query_port");
		check(!ibv_query_gid(side->device.context, port, 0,
				     &side->gids[port]),
		      "query_gid");
		side->lids[port] = attr.lid | (bits ? atoi(bits) : 0);
	}
	side->fd = open("/dev/sib_cm", O_RDWR | O_CLOEXEC);
	check(side->fd >= 0, "cannot open /dev/sib_cm: %m");
	side->mr = ibv_reg_mr(side->device.pd, side->memory,
			      sizeof(side->memory), ALL_ACCESS);
	check(side->mr, "reg_mr: %m");
}

void side_close(struct side *side)
{
	check(!ibv_dereg_mr(side->mr), "dereg_mr: %m");
	close(side->fd);
	device_close(&side->device);
}

int command(struct side *side, unsigned long number, void *argument)
{
	return ioctl(side->fd, number, argument) ? errno : 0;
}

void order(struct side *side, unsigned long number, void *argument)
{
	int error = command(side, number, argument);

	check(!error, "ioctl %lu: %s", number & 0xff, strerror(error));
}

uint32_t new_id(struct side *side, uint64_t uid)
{
	struct sib_cm_create_id create = { .uid = uid, .guid = side->guid };

	order(side, SIB_CM_IOC_CREATE_ID, &create);
	check(create.id, "an identifier is 0");
	return create.id;
}

void destroy(struct side *side, uint32_t id)
{
	struct sib_cm_destroy_id it = { .id = id };

	order(side, SIB_CM_IOC_DESTROY_ID, &it);
}

bool has_event(struct side *side, int ms)
{
	struct pollfd fd = { .fd = side->fd, .events = POLLIN };

	return poll(&fd, 1, ms) == 1;
}

struct sib_cm_event expect_told(struct side *side, enum sib_cm_event_type type)
{
	struct sib_cm_event event;

	do {
		check(has_event(side, DUE_MS), "event %d is not told", type);
		order(side, SIB_CM_IOC_GET_EVENT, &event);
	} while (event.type == SIB_CM_MRA_RECEIVED && event.type != type);
	check(event.type == type, "event %u, status %u; due was %d", event.type,
	      event.status, type);
	return event;
}

void expect_data(const struct sib_cm_event *event, const char *text)
{
	check(event->private_data_len >= strlen(text) &&
		      !memcmp(event->private_data, text, strlen(text)),
	      "event %u has other private data: '%.20s'", event->type,
	      event->private_data);
}

void nothing(struct side *side)
{
	struct sib_cm_event event;

	if (!has_event(side, NONE_MS))
		return;
	order(side, SIB_CM_IOC_GET_EVENT, &event);
	fail("event %u of %u, status %u, of nothing", event.type, event.id,
	     event.status);
}

struct sib_cm_path path_between(const struct side *from, const struct side *to,
				uint8_t port)
{
	struct sib_cm_path path = {
		.local_lid = from->lids[port],
		.remote_lid = to->lids[port],
		.hop_limit = 1,
		.rate = IBV_RATE_10_GBPS,
		.subnet_local = 1,
		.ack_timeout = ACK_TIMEOUT,
	};

	memcpy(path.local_gid, &from->gids[port], sizeof(path.local_gid));
	memcpy(path.remote_gid, &to->gids[port], sizeof(path.remote_gid));
	return path;
}

struct ibv_ah_attr address(const struct sib_cm_path *path, uint8_t port)
{
	return (struct ibv_ah_attr){ .dlid = path->remote_lid,
				     .sl = path->sl,
				     .port_num = port };
}

uint32_t listen_on(struct side *side, uint64_t service, enum sib_cm_kind kind,
		   int error)
{
	struct sib_cm_listen it = { .service_id = service,
				    .id = new_id(side, service),
				    .kind = kind };
	int got = command(side, SIB_CM_IOC_LISTEN, &it);

	check(got == error, "listen: %s", strerror(got));
	return it.id;
}

struct sib_cm_attr_id attributes(struct side *side)
{
	struct sib_cm_attr_id attr = { .id = side->id };

	order(side, SIB_CM_IOC_ATTR_ID, &attr);
	return attr;
}

static struct ibv_ah_attr address_of(const struct ib_uverbs_ah_attr *from)
{
	struct ibv_ah_attr to = {
		.grh = { .flow_label = from->grh.flow_label,
			 .sgid_index = from->grh.sgid_index,
			 .hop_limit = from->grh.hop_limit,
			 .traffic_class = from->grh.traffic_class },
		.dlid = from->dlid,
		.sl = from->sl,
		.src_path_bits = from->src_path_bits,
		.static_rate = from->static_rate,
		.is_global = from->is_global,
		.port_num = from->port_num,
	};

	memcpy(to.grh.dgid.raw, from->grh.dgid, sizeof(to.grh.dgid.raw));
	return to;
}

int try_advance(struct side *side, enum ibv_qp_state state)
{
	struct sib_cm_init_qp_attr it = { .id = side->id,
					  .attr.qp_state = state };
	const struct ib_uverbs_qp_attr *from = &it.attr;
	int error = command(side, SIB_CM_IOC_INIT_QP_ATTR, &it);
	struct ibv_qp_attr attr = {
		.qp_state = from->qp_state,
		.path_mtu = from->path_mtu,
		.path_mig_state = from->path_mig_state,
		.rq_psn = from->rq_psn,
		.sq_psn = from->sq_psn,
		.dest_qp_num = from->dest_qp_num,
		.qp_access_flags = from->qp_access_flags,
		.ah_attr = address_of(&from->ah_attr),
		.alt_ah_attr = address_of(&from->alt_ah_attr),
		.pkey_index = from->pkey_index,
		.alt_pkey_index = from->alt_pkey_index,
		.max_rd_atomic = from->max_rd_atomic,
		.max_dest_rd_atomic = from->max_dest_rd_atomic,
		.min_rnr_timer = from->min_rnr_timer,
		.port_num = from->port_num,
		.timeout = from->timeout,
		.retry_cnt = from->retry_cnt,
		.rnr_retry = from->rnr_retry,
		.alt_port_num = from->alt_port_num,
		.alt_timeout = from->alt_timeout,
	};

	return error ? error :
		       ibv_modify_qp(side->end.qp, &attr, from->qp_attr_mask);
}

void advance(struct side *side, enum ibv_qp_state state)
{
	int error = try_advance(side, state);

	check(!error, "state %d: %s", state, strerror(error));
}

/* Of a queue pair that never was, and that no other process names. */
static uint32_t bare_qpn(void)
{
	static uint32_t last;

	return 0x400000 | (getpid() & 0xfff) << 10 | (++last & 0x3ff);
}

struct sib_cm_send_req bare_request(struct side *from, const struct side *to,
				    uint64_t service, uint8_t port)
{
	struct sib_cm_send_req req = {
		.service_id = service,
		.id = new_id(from, service),
		.qpn = bare_qpn(),
		.pkey = 0xffff,
		.path_mtu = IBV_MTU_4096,
		.remote_response_timeout = RESPONSE,
		.local_response_timeout = RESPONSE,
		.max_cm_retries = RETRIES,
		.primary = path_between(from, to, port),
	};

	req.primary.remote_lid = to->lids[1];
	memcpy(req.primary.remote_gid, &to->gids[1], 16);
	return req;
}

void ask_bare(struct side *from, struct side *to, uint64_t service,
	      uint8_t port)
{
	struct sib_cm_send_req req = bare_request(from, to, service, port);

	from->id = req.id;
	order(from, SIB_CM_IOC_SEND_REQ, &req);
	to->id = expect_told(to, SIB_CM_REQ_RECEIVED).id;
}

void accept_bare(struct side *from, struct side *to)
{
	struct sib_cm_send_rep rep = { .id = to->id, .qpn = bare_qpn() };
	struct sib_cm_send rtu = { .id = from->id };

	order(to, SIB_CM_IOC_SEND_REP, &rep);
	expect_told(from, SIB_CM_REP_RECEIVED);
	order(from, SIB_CM_IOC_SEND_RTU, &rtu);
	expect_told(to, SIB_CM_RTU_RECEIVED);
}

void connect_bare(struct side *from, struct side *to, uint64_t service)
{
	ask_bare(from, to, service, 1);
	accept_bare(from, to);
}

void part_bare(struct side *from, struct side *to)
{
	struct sib_cm_send dreq = { .id = from->id }, drep = { .id = to->id };

	order(from, SIB_CM_IOC_SEND_DREQ, &dreq);
	expect_told(to, SIB_CM_DREQ_RECEIVED);
	order(to, SIB_CM_IOC_SEND_DREP, &drep);
	expect_told(from, SIB_CM_DREP_RECEIVED);
	expect_told(from, SIB_CM_TIMEWAIT_EXIT);
	expect_told(to, SIB_CM_TIMEWAIT_EXIT);
	destroy(from, from->id);
	destroy(to, to->id);
}

/* The value that would do is in the event, and `to` has none. */
static void expect_instead(struct side *to, const struct sib_cm_event *event,
			   uint32_t status, const struct refusal *refusal)
{
	check(event->status == status, "status %u, not %u", event->status,
	      status);
	check(event->info_len == refusal->len &&
		      !memcmp(event->info, refusal->instead, refusal->len),
	      "status %u: %u bytes of information, or others", status,
	      event->info_len);
	check(!has_event(to, 0), "the program is asked");
}

void expect_refusal(struct side *from, struct side *to, uint64_t service,
		    uint16_t pkey, const struct sib_cm_path *path,
		    struct refusal refusal)
{
	struct sib_cm_send_req req = bare_request(from, to, service, 1);
	struct sib_cm_send_lap lap = { .id = from->id,
				       .response_timeout = RESPONSE,
				       .retries = RETRIES,
				       .path = *path };
	struct sib_cm_event event;

	order(from, SIB_CM_IOC_SEND_LAP, &lap);
	event = expect_told(from, SIB_CM_APR_RECEIVED);
	expect_instead(to, &event, refusal.status, &refusal);
	req.pkey = pkey;
	req.has_alternate = 1;
	req.alternate = *path;
	order(from, SIB_CM_IOC_SEND_REQ, &req);
	event = expect_told(from, SIB_CM_REJ_RECEIVED);
	expect_instead(to, &event, refusal.reason, &refusal);
	destroy(from, req.id);
}
