// SPDX-License-Identifier: GPL-2.0
/*
 * sibcm: connections of sib_cm for the command line. One side listens and echoes, the
 * other sends a message now and then and says how long the echo took and by which port.
 * The path by another port is loaded as the alternate one as soon as there is one, and
 * after each failure; what happens to paths is told as it happens.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/sib_cm.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SERVICE 0x02ff000000000053ull
#define MAX_PORTS 4
#define MESSAGE 64
#define DEPTH 16
#define ACK_TIMEOUT 14
#define RESPONSE_TIMEOUT 18
#define PKEY 0xffff

static const char HCAS[] = "/sys/kernel/debug/sib_cm/hcas";
static const char TABLE[] = "/sys/kernel/debug/sib_cm/connections";

/* Where a side can be reached: the private data of REQ and REP. */
struct ports {
	uint8_t count;
	uint8_t reserved;
	struct {
		uint16_t lid;
		uint8_t gid[16];
	} __attribute__((packed)) port[MAX_PORTS];
} __attribute__((packed));

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	/* What is sent, then what is received. */
	uint8_t (*buffers)[MESSAGE];
	struct ports ours;
	struct ports theirs;
	int cm;
	uint32_t id;
	uint32_t psn;
	/* The port of the path in use, and of the alternate one, or 0. */
	int port;
	int alternate;
	bool is_connected;
	bool is_active;
	bool is_offering;
	uint64_t sent;
	uint64_t echoed;
	uint64_t sent_at;
};

static volatile sig_atomic_t interrupted;

__attribute__((noreturn, format(printf, 1, 2))) static void
die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "sibcm: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static int try_cm(struct side *side, unsigned long request, void *arg)
{
	return ioctl(side->cm, request, arg) ? errno : 0;
}

static void cm(struct side *side, unsigned long request, void *arg,
	       const char *what)
{
	int error = try_cm(side, request, arg);

	if (error)
		die("%s: %s", what, strerror(error));
}

static void survey(struct side *side)
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

static bool is_port_active(struct side *side, int port)
{
	struct ibv_port_attr attr;

	return !ibv_query_port(side->context, port, &attr) &&
	       attr.state == IBV_PORT_ACTIVE;
}

static void open_side(struct side *side, const char *name)
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
	side->buffers = calloc(2 * DEPTH, MESSAGE);
	if (!side->pd || !side->channel || !side->cq || !side->buffers ||
	    ibv_req_notify_cq(side->cq, 0))
		die("no completion queue: %m");
	side->mr = ibv_reg_mr(side->pd, side->buffers, 2 * DEPTH * MESSAGE,
			      IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = side->cq;
	side->qp = side->mr ? ibv_create_qp(side->pd, &init) : NULL;
	if (!side->qp)
		die("no queue pair: %m");
	side->psn = side->qp->qp_num * 0x9e3779b1u >> 8;
}

static void post_recv(struct side *side, uint64_t slot)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->buffers[DEPTH + slot],
			       .length = MESSAGE,
			       .lkey = side->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = DEPTH + slot, .sg_list = &sge,
				  .num_sge = 1 }, *bad;

	if (ibv_post_recv(side->qp, &wr, &bad))
		die("cannot receive: %m");
}

static void post_send(struct side *side, uint64_t number)
{
	uint64_t slot = number % DEPTH;
	struct ibv_sge sge = { .addr = (uintptr_t)side->buffers[slot],
			       .length = MESSAGE,
			       .lkey = side->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND }, *bad;

	memcpy(side->buffers[slot], &number, sizeof(number));
	if (ibv_post_send(side->qp, &wr, &bad))
		die("cannot send: %m");
}

static void to_init(struct side *side, int port)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = port };

	if (ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					   IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("queue pair to INIT: %m");
	side->port = port;
	for (uint64_t slot = 0; slot < DEPTH; slot++)
		post_recv(side, slot);
}

static void to_rtr(struct side *side, const struct sib_cm_event *peer,
		   uint16_t lid)
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

static void to_rts(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = ACK_TIMEOUT,
				    .retry_cnt = 5,
				    .rnr_retry = 7,
				    .sq_psn = side->psn };

	if (ibv_modify_qp(side->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		die("queue pair to RTS: %m");
	side->is_connected = true;
}

/* Loads a path as the alternate one. */
static bool load(struct side *side, const struct sib_cm_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.alt_ah_attr = { .dlid = path->remote_lid },
		.alt_timeout = ACK_TIMEOUT,
		.path_mig_state = IBV_MIG_REARM,
	};

	for (int i = 0; i < side->ours.count; i++)
		if (be16toh(side->ours.port[i].lid) == path->local_lid)
			attr.alt_port_num = attr.alt_ah_attr.port_num = i + 1;
	if (!attr.alt_port_num ||
	    ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_ALT_PATH |
						   IBV_QP_PATH_MIG_STATE))
		return false;
	side->alternate = attr.alt_port_num;
	printf("the path by port %d is the alternate one\n", side->alternate);
	return true;
}

static struct sib_cm_path path_by(struct side *side, int port)
{
	struct sib_cm_path path = {
		.local_lid = be16toh(side->ours.port[port - 1].lid),
		.remote_lid = be16toh(side->theirs.port[port - 1].lid),
		.rate = IBV_RATE_10_GBPS,
		.subnet_local = 1,
		.ack_timeout = ACK_TIMEOUT,
	};

	memcpy(path.local_gid, side->ours.port[port - 1].gid, 16);
	memcpy(path.remote_gid, side->theirs.port[port - 1].gid, 16);
	return path;
}

static void notify(struct side *side, uint32_t fact)
{
	struct sib_cm_notify notify = { .id = side->id, .fact = fact };

	try_cm(side, SIB_CM_IOC_NOTIFY, &notify);
}

/* Offers another port's path, if there is one to offer. */
static void offer(struct side *side)
{
	struct sib_cm_send_lap lap = { .id = side->id,
				       .response_timeout = RESPONSE_TIMEOUT,
				       .retries = 7 };

	if (!side->is_active || side->alternate || side->is_offering)
		return;
	survey(side);
	for (int port = 1; port <= side->ours.count; port++) {
		if (port == side->port || port > side->theirs.count ||
		    !is_port_active(side, port))
			continue;
		lap.path = path_by(side, port);
		side->is_offering =
			!try_cm(side, SIB_CM_IOC_SEND_LAP, &lap);
		return;
	}
}

static void send_req(struct side *side, uint64_t service)
{
	struct sib_cm_send_req req = {
		.service_id = service,
		.id = side->id,
		.qpn = side->qp->qp_num,
		.starting_psn = side->psn & 0xffffff,
		.pkey = PKEY,
		.path_mtu = IBV_MTU_2048,
		.remote_response_timeout = RESPONSE_TIMEOUT,
		.local_response_timeout = RESPONSE_TIMEOUT,
		.retry_count = 5,
		.rnr_retry_count = 7,
		.max_cm_retries = 7,
		.private_data_len = sizeof(side->ours),
		.primary = path_by(side, side->port),
	};

	memcpy(req.private_data, &side->ours, sizeof(side->ours));
	cm(side, SIB_CM_IOC_SEND_REQ, &req, "cannot connect");
}

static void on_req(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send_rep rep = {
		.id = event->id,
		.qpn = side->qp->qp_num,
		.starting_psn = side->psn & 0xffffff,
		.rnr_retry_count = 7,
		.private_data_len = sizeof(side->ours),
	};
	struct sib_cm_send_rej rej = { .id = event->id, .reason = 3 };

	if (side->is_connected || side->port) {
		try_cm(side, SIB_CM_IOC_SEND_REJ, &rej);
		return;
	}
	side->id = event->id;
	memcpy(&side->theirs, event->private_data, sizeof(side->theirs));
	for (int i = 0; i < side->ours.count; i++)
		if (be16toh(side->ours.port[i].lid) == event->primary.local_lid)
			to_init(side, i + 1);
	if (!side->port)
		die("a connection to LID %u, which is not here",
		    event->primary.local_lid);
	to_rtr(side, event, event->primary.remote_lid);
	memcpy(rep.private_data, &side->ours, sizeof(side->ours));
	cm(side, SIB_CM_IOC_SEND_REP, &rep, "cannot accept");
}

static void on_established(struct side *side)
{
	if (side->is_connected)
		return;
	to_rts(side);
	printf("connected by port %d\n", side->port);
}

static void on_rep(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send rtu = { .id = side->id };
	uint16_t lid = be16toh(side->theirs.port[side->port - 1].lid);

	memcpy(&side->theirs, event->private_data, sizeof(side->theirs));
	to_rtr(side, event, lid);
	on_established(side);
	cm(side, SIB_CM_IOC_SEND_RTU, &rtu, "cannot complete");
}

static void on_lap(struct side *side, const struct sib_cm_event *event)
{
	struct sib_cm_send_apr apr = { .id = side->id,
				       .generation = event->generation };

	survey(side);
	apr.status = load(side, &event->alternate) ? 0 : 3;
	try_cm(side, SIB_CM_IOC_SEND_APR, &apr);
}

static void on_apr(struct side *side, const struct sib_cm_event *event)
{
	side->is_offering = false;
	if (event->status)
		printf("the peer refuses the path: status %u\n", event->status);
	else if (!load(side, &event->alternate))
		notify(side, SIB_CM_PATH_UNLOADED);
}

/* Returns whether the connection is over. */
static bool on_event(struct side *side)
{
	struct sib_cm_send send = { .id = side->id };
	struct sib_cm_event event;

	if (try_cm(side, SIB_CM_IOC_GET_EVENT, &event))
		return false;
	switch (event.type) {
	case SIB_CM_REQ_RECEIVED:
		on_req(side, &event);
		break;
	case SIB_CM_REP_RECEIVED:
		on_rep(side, &event);
		break;
	case SIB_CM_RTU_RECEIVED:
	case SIB_CM_EV_ESTABLISHED:
		on_established(side);
		break;
	case SIB_CM_LAP_RECEIVED:
		on_lap(side, &event);
		break;
	case SIB_CM_APR_RECEIVED:
		on_apr(side, &event);
		break;
	case SIB_CM_LAP_ERROR:
		side->is_offering = false;
		printf("the peer does not answer an offer of a path\n");
		break;
	case SIB_CM_DREQ_RECEIVED:
		try_cm(side, SIB_CM_IOC_SEND_DREP, &send);
		return true;
	case SIB_CM_REJ_RECEIVED:
		die("rejected: reason %u", event.status);
	case SIB_CM_REQ_ERROR:
	case SIB_CM_REP_ERROR:
		die("the peer does not answer");
	case SIB_CM_REMOVED:
		die("the device is gone");
	case SIB_CM_DREP_RECEIVED:
	case SIB_CM_DREQ_ERROR:
		return true;
	default:
		break;
	}
	return false;
}

static void on_async(struct side *side)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(side->context, &event))
		return;
	if (event.event_type == IBV_EVENT_PATH_MIG) {
		printf("the path by port %d has failed: on by port %d\n",
		       side->port, side->alternate);
		side->port = side->alternate;
		side->alternate = 0;
		notify(side, SIB_CM_PATH_MIG);
	}
	ibv_ack_async_event(&event);
}

static void on_message(struct side *side, uint64_t slot)
{
	uint64_t number;

	memcpy(&number, side->buffers[slot], sizeof(number));
	post_recv(side, slot - DEPTH);
	if (!side->is_connected) {
		/* It has overtaken the RTU, and says the same. */
		on_established(side);
		notify(side, SIB_CM_COMM_EST);
	}
	if (!side->is_active) {
		post_send(side, number);
		return;
	}
	side->echoed = number;
	printf("%llu: %llu us by port %d\n", (unsigned long long)number,
	       (unsigned long long)(now_us() - side->sent_at), side->port);
}

static void on_completions(struct side *side)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(side->channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(side->cq, 0))
		die("no notice of completions: %m");
	while (ibv_poll_cq(side->cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			die("connection lost: %s", ibv_wc_status_str(wc.status));
		if (wc.wr_id >= DEPTH)
			on_message(side, wc.wr_id);
	}
}

/* Waits for whatever happens within this time. Returns whether the connection is over. */
static bool serve(struct side *side, int ms)
{
	struct pollfd fds[] = {
		{ .fd = side->cm, .events = POLLIN },
		{ .fd = side->context->async_fd, .events = POLLIN },
		{ .fd = side->channel->fd, .events = POLLIN },
	};

	fflush(stdout);
	if (poll(fds, 3, ms) <= 0)
		return false;
	if (fds[1].revents)
		on_async(side);
	if (fds[2].revents)
		on_completions(side);
	return fds[0].revents && on_event(side);
}

static void listen_for_one(struct side *side, uint64_t service)
{
	struct sib_cm_listen listen = { .service_id = service,
					.id = side->id };
	char gid[INET6_ADDRSTRLEN];

	cm(side, SIB_CM_IOC_LISTEN, &listen, "cannot listen");
	inet_ntop(AF_INET6, side->ours.port[0].gid, gid, sizeof(gid));
	printf("to connect: sibcm connect -s %#llx DEVICE %u %s\n",
	       (unsigned long long)service,
	       be16toh(side->ours.port[0].lid), gid);
	while (!interrupted)
		if (serve(side, 1000))
			return;
}

static void ping(struct side *side, uint64_t service, const char *lid,
		 const char *gid, uint64_t count, double interval)
{
	struct sib_cm_send dreq = { .id = side->id };
	uint64_t next;

	side->is_active = true;
	side->theirs.port[0].lid = htobe16(strtoul(lid, NULL, 0));
	if (!side->theirs.port[0].lid ||
	    inet_pton(AF_INET6, gid, side->theirs.port[0].gid) != 1)
		die("no LID and GID: %s %s", lid, gid);
	to_init(side, 1);
	send_req(side, service);
	while (!side->is_connected)
		if (interrupted || serve(side, 1000))
			return;
	next = now_us();
	while (!interrupted && side->echoed < count) {
		uint64_t now = now_us();

		if (now >= next && side->sent == side->echoed) {
			offer(side);
			side->sent_at = now;
			post_send(side, ++side->sent);
			next = now + interval * 1e6;
		}
		if (serve(side, now < next ? (next - now) / 1000 + 1 : 1000))
			return;
	}
	cm(side, SIB_CM_IOC_SEND_DREQ, &dreq, "cannot disconnect");
	while (!serve(side, 10000))
		;
}

/* The name of the device with this GUID. */
static const char *name_of(struct ibv_device **list, uint64_t guid)
{
	for (int i = 0; list && list[i]; i++)
		if (be64toh(ibv_get_device_guid(list[i])) == guid)
			return ibv_get_device_name(list[i]);
	return "?";
}

/* A line of HCAS begins with a GUID, of TABLE with a communication ID. */
static void show(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	FILE *hcas = fopen(HCAS, "r"), *table = fopen(TABLE, "r");
	char line[256];

	if (!hcas || !table)
		die("%s: %m", hcas ? TABLE : HCAS);
	while (fgets(line, sizeof(line), hcas)) {
		uint64_t guid = strtoull(line, NULL, 16);

		printf("%s %s", name_of(list, guid), line);
	}
	while (fgets(line, sizeof(line), table))
		fputs(line, stdout);
	fclose(hcas);
	fclose(table);
	ibv_free_device_list(list);
}

static void usage(FILE *file)
{
	fputs("usage: sibcm listen [-s SERVICE] DEVICE\n"
	      "       sibcm connect [-s SERVICE] [-c COUNT] [-i SECONDS] DEVICE LID GID\n"
	      "       sibcm show\n"
	      "\n"
	      "listen   accepts one connection, and echoes what comes\n"
	      "connect  sends a message every second, and tells of its echo and of paths\n"
	      "show     lists the devices and connections of this host (root)\n"
	      "\n"
	      "  -s SERVICE  service ID (0x2ff000000000053)\n"
	      "  -c COUNT    end after so many messages\n"
	      "  -i SECONDS  time between messages (1)\n"
	      "  -h          this help\n",
	      file);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	uint64_t service = DEFAULT_SERVICE, count = UINT64_MAX;
	const char *command = argc > 1 ? argv[1] : "";
	struct side side = { 0 };
	double interval = 1;
	int option;

	if (!strcmp(command, "-h") || !strcmp(command, "--help")) {
		usage(stdout);
		return 0;
	}
	optind = 2;
	while ((option = getopt(argc, argv, "s:c:i:h")) >= 0) {
		switch (option) {
		case 's':
			service = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			count = strtoull(optarg, NULL, 0);
			break;
		case 'i':
			interval = strtod(optarg, NULL);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!strcmp(command, "listen") && argc - optind == 1) {
		open_side(&side, argv[optind]);
		listen_for_one(&side, service);
	} else if (!strcmp(command, "connect") && argc - optind == 3) {
		open_side(&side, argv[optind]);
		ping(&side, service, argv[optind + 1], argv[optind + 2], count,
		     interval);
	} else if (!strcmp(command, "show") && argc == optind) {
		show();
	} else {
		usage(stderr);
		return 2;
	}
	return 0;
}
