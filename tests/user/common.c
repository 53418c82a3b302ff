// SPDX-License-Identifier: GPL-2.0

#include "common.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ACTIVE_MS 60000
#define DEVICE_MS 10000
/* Where RoCE has the IPv4 address of an interface. */
#define IPV4_GID 1

const struct path_options default_path = {
	.timeout = 16,
	.retries = 7,
	.rnr_retries = 7,
	.min_rnr_timer = 1,
	.rd_atomic = 4,
	.access = ALL_ACCESS,
};

_Noreturn void fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void rng_seed(struct rng *rng, uint64_t seed)
{
	rng->state = seed * 0x9e3779b97f4a7c15u | 1;
	for (int i = 0; i < 8; i++)
		rng_next(rng);
}

uint64_t rng_next(struct rng *rng)
{
	uint64_t x = rng->state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	rng->state = x;
	return x * 0x2545f4914f6cdd1du;
}

uint32_t rng_below(struct rng *rng, uint32_t bound)
{
	return (rng_next(rng) >> 32) * bound >> 32;
}

bool rng_once_in(struct rng *rng, uint32_t odds)
{
	return rng_below(rng, odds) == 0;
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

static struct ibv_context *open_by_name(const char *name)
{
	uint64_t end = now_ms() + DEVICE_MS;

	for (;;) {
		struct ibv_context *context = NULL;
		struct ibv_device **list = ibv_get_device_list(NULL);

		check(list, "no list of devices: %m");
		for (struct ibv_device **it = list; *it && !context; it++)
			if (!strcmp(ibv_get_device_name(*it), name))
				context = ibv_open_device(*it);
		ibv_free_device_list(list);
		if (context)
			return context;
		check(now_ms() < end, "no device %s that can be opened", name);
		usleep(100000);
	}
}

/* Whether addresses need a GRH: rxe can stand in for the driver under test. */
static bool is_ethernet(const struct device *device)
{
	return device->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

void device_open(struct device *device, const char *name)
{
	char *copy = strdup(name), *colon = strchr(copy, ':');
	uint64_t end = now_ms() + ACTIVE_MS;
	int error;

	if (colon)
		*colon = '\0';
	memset(device, 0, sizeof(*device));
	device->name = copy;
	device->port = colon ? atoi(colon + 1) : 1;
	device->context = open_by_name(copy);
	error = ibv_query_device(device->context, &device->attr);
	check(!error, "%s: query_device: %s", copy, strerror(error));
	for (;;) {
		error = ibv_query_port(device->context, device->port,
				       &device->port_attr);
		check(!error, "%s: query_port: %s", copy, strerror(error));
		if (device->port_attr.state == IBV_PORT_ACTIVE)
			break;
		check(now_ms() < end, "%s port %u is not active", copy,
		      device->port);
		usleep(100000);
	}
	device->gid_index = is_ethernet(device) ? IPV4_GID : 0;
	error = ibv_query_gid(device->context, device->port, device->gid_index,
			      &device->gid);
	check(!error, "%s: query_gid: %m", copy);
	device->pd = ibv_alloc_pd(device->context);
	check(device->pd, "%s: alloc_pd: %m", copy);
}

void device_close(struct device *device)
{
	int error = ibv_dealloc_pd(device->pd);

	check(!error, "%s: dealloc_pd: %s", device->name, strerror(error));
	error = ibv_close_device(device->context);
	check(!error, "%s: close: %m", device->name);
	free((char *)device->name);
}

uint64_t hw_counter(const struct device *device, const char *name)
{
	char path[100];
	unsigned long long value;
	FILE *file;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/%s/ports/%u/hw_counters/%s",
		 device->name, device->port, name);
	file = fopen(path, "r");
	check(file && fscanf(file, "%llu", &value) == 1, "%s: %m", path);
	fclose(file);
	return value;
}

static struct ibv_cq *create_cq(struct end *end, uint32_t depth)
{
	struct ibv_cq *cq = ibv_create_cq(end->device->context, depth, end,
					  end->channel, 0);

	check(cq, "%s: create_cq: %m", end->device->name);
	return cq;
}

void end_create(struct end *end, struct device *device,
		const struct end_options *options)
{
	struct ibv_qp_init_attr_ex init = {
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = device->pd,
		.qp_type = options->type,
		.sq_sig_all = options->signal_all,
		.cap = {
			.max_send_wr = options->send_depth,
			.max_recv_wr = options->with_srq ? 0 : options->recv_depth,
			.max_send_sge = options->sges,
			.max_recv_sge = options->with_srq ? 0 : options->sges,
			.max_inline_data = options->inline_bytes,
		},
	};

	memset(end, 0, sizeof(*end));
	end->device = device;
	end->type = options->type;
	if (options->with_channel) {
		end->channel = ibv_create_comp_channel(device->context);
		check(end->channel, "%s: comp_channel: %m", device->name);
	}
	if (options->one_cq) {
		end->send_cq = create_cq(end, options->send_depth +
						      options->recv_depth);
		end->recv_cq = end->send_cq;
	} else {
		end->send_cq = create_cq(end, options->send_depth);
		end->recv_cq = create_cq(end, options->recv_depth);
	}
	if (options->with_srq) {
		struct ibv_srq_init_attr srq = { .attr = {
			.max_wr = options->recv_depth,
			.max_sge = options->sges,
		} };

		end->srq = ibv_create_srq(device->pd, &srq);
		check(end->srq, "%s: create_srq: %m", device->name);
	}
	init.send_cq = end->send_cq;
	init.recv_cq = end->recv_cq;
	init.srq = end->srq;
	if (options->send_ops) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = options->send_ops;
	}
	end->qp = ibv_create_qp_ex(device->context, &init);
	check(end->qp, "%s: create_qp: %m", device->name);
	end->inline_bytes = init.cap.max_inline_data;
}

void end_destroy(struct end *end)
{
	int error = ibv_destroy_qp(end->qp);

	check(!error, "destroy_qp: %s", strerror(error));
	if (end->srq)
		check(!(error = ibv_destroy_srq(end->srq)), "destroy_srq: %s",
		      strerror(error));
	if (end->recv_cq != end->send_cq)
		check(!(error = ibv_destroy_cq(end->recv_cq)),
		      "destroy_cq: %s", strerror(error));
	check(!(error = ibv_destroy_cq(end->send_cq)), "destroy_cq: %s",
	      strerror(error));
	if (end->channel)
		check(!(error = ibv_destroy_comp_channel(end->channel)),
		      "destroy_comp_channel: %s", strerror(error));
}

static void moved(const struct end *end, enum ibv_qp_state state, int error)
{
	check(!error, "%s: modify_qp to state %d: %s", end->device->name, state,
	      strerror(error));
}

struct ibv_ah_attr path_to(const struct device *device,
			   const struct device *peer, bool grh)
{
	struct ibv_ah_attr attr = {
		.dlid = peer->port_attr.lid,
		.port_num = device->port,
		.is_global = grh || is_ethernet(device),
	};

	if (attr.is_global) {
		attr.grh.sgid_index = device->gid_index;
		attr.grh.dgid = peer->gid;
		attr.grh.hop_limit = 1;
	}
	return attr;
}

int end_try_init(struct end *end, const struct path_options *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = end->device->port,
		.qp_access_flags = path->access,
		.qkey = QKEY,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= end->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	return ibv_modify_qp(end->qp, &attr, mask);
}

int end_try_rtr(struct end *end, const struct end *peer,
		const struct path_options *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path->mtu ? path->mtu :
					end->device->port_attr.active_mtu,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = path->rd_atomic,
		.min_rnr_timer = path->min_rnr_timer,
		.ah_attr = path_to(end->device, peer->device, path->grh),
	};
	int mask = IBV_QP_STATE;

	if (end->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN;
	if (end->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(end->qp, &attr, mask);
}

int end_try_rts(struct end *end, const struct path_options *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = end->psn,
		.timeout = path->timeout,
		.retry_cnt = path->retries,
		.rnr_retry = path->rnr_retries,
		.max_rd_atomic = path->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (end->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(end->qp, &attr, mask);
}

void end_connect(struct end *a, struct end *b, const struct path_options *path)
{
	end_to_init(a, path);
	end_to_init(b, path);
	end_to_rtr(a, b, path);
	end_to_rtr(b, a, path);
	end_to_rts(a, path);
	end_to_rts(b, path);
}

int end_try(struct end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

void end_to_init(struct end *end, const struct path_options *path)
{
	moved(end, IBV_QPS_INIT, end_try_init(end, path));
}

void end_to_init_in(struct end *end, const struct path_options *path,
		    uint16_t pkey_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = pkey_index,
	};

	end_to_init(end, path);
	check(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX),
	      "modify_qp: %m");
}

void end_to_rtr(struct end *end, const struct end *peer,
		const struct path_options *path)
{
	moved(end, IBV_QPS_RTR, end_try_rtr(end, peer, path));
}

void end_to_rts(struct end *end, const struct path_options *path)
{
	moved(end, IBV_QPS_RTS, end_try_rts(end, path));
}

void end_to(struct end *end, enum ibv_qp_state state)
{
	moved(end, state, end_try(end, state));
}

enum ibv_qp_state end_state(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int error = ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init);

	check(!error, "query_qp: %s", strerror(error));
	return attr.qp_state;
}

void post_send(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(end->qp, wr, &bad);

	check(!error, "%s: post_send: %s", end->device->name, strerror(error));
}

void post_recv(struct end *end, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;
	int error = end->srq ? ibv_post_srq_recv(end->srq, wr, &bad) :
			       ibv_post_recv(end->qp, wr, &bad);

	check(!error, "%s: post_recv: %s", end->device->name, strerror(error));
}

bool await(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
	uint64_t end = now_ms() + ms;

	for (;;) {
		int count = ibv_poll_cq(cq, 1, wc);

		check(count >= 0, "poll_cq: %d", count);
		if (count)
			return true;
		if (now_ms() >= end)
			return false;
		sched_yield();
	}
}
