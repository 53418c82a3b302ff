// SPDX-License-Identifier: GPL-2.0
/*
 * A client of the kernel API of sib_cm: connects two queue pairs of two HCAs, checks what
 * they carry, loads an alternate path by LAP and APR, goes over to it, and ends the
 * connection; refuses; lets go of identifiers in each state, and while its
 * handler runs.
 *
 *     insmod cmclient.ko a=sib0 b=sib1 [hold=1]
 *
 * With hold=1 it stays, with a connection, until it or an HCA is removed.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_cache.h>
#include <rdma/sib_cm.h>

#include "client.h"

#define SERVICE 0x02ff00000000c0deull
#define DUE_MS 60000
/* How long memory is not to be had. */
#define STALL_MS 5000
#define DEPTH 4
#define BYTES 4096u
#define MOST_EVENTS 32
#define CONSUMER_DEFINED 28
/* 1.07 s, 67 ms. */
#define RESPONSE 18
#define ACK_TIMEOUT 14

static char *a = "sib0";
static char *b = "sib1";
static bool hold;
module_param(a, charp, 0400);
MODULE_PARM_DESC(a, "the device that asks for connections");
module_param(b, charp, 0400);
MODULE_PARM_DESC(b, "the device that listens");
module_param(hold, bool, 0400);
MODULE_PARM_DESC(hold, "stay with a connection");

enum { ACTIVE, PASSIVE, SIDES };

struct side {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	/* Sent, then received. */
	u8 *memory;
	u32 psn;
	struct sib_cm_id *id;
	spinlock_t lock;
	struct sib_cm_event *events;
	int head, tail;
	wait_queue_head_t told;
	atomic_t migrations;
};

static struct side sides[SIDES];
static struct sib_cm_id *listener;
/* What the listener's handler does with requests, and how long handlers take. */
static bool refuses;
static unsigned int slowness;
static atomic_t running, wrongs;
/* Of queue pairs that are none. */
static u32 fake_qpn = 0x900000;

static void wrong(const char *what)
{
	atomic_inc(&wrongs);
	pr_err("%s\n", what);
}

static int take(struct side *side, struct sib_cm_id *cm_id,
		const struct sib_cm_event *event)
{
	struct sib_cm_attr_id known;

	atomic_inc(&running);
	wake_up(&side->told);
	if (slowness)
		msleep(slowness);
	if (sib_cm_query(cm_id, &known))
		wrong("an order of the handler fails");
	if (event->type == SIB_CM_REMOVED)
		pr_info("side %td: told that the HCA is gone\n", side - sides);
	spin_lock(&side->lock);
	if (cm_id != side->id)
		wrong("an event of an identifier that is destroyed");
	else if (side->tail - side->head == MOST_EVENTS)
		wrong("too many events");
	else
		side->events[side->tail++ % MOST_EVENTS] = *event;
	spin_unlock(&side->lock);
	wake_up(&side->told);
	atomic_dec(&running);
	return 0;
}

static int on_event(struct sib_cm_id *cm_id, const struct sib_cm_event *event)
{
	return take(cm_id->context, cm_id, event);
}

static int on_request(struct sib_cm_id *cm_id, const struct sib_cm_event *event)
{
	struct side *side = &sides[PASSIVE];

	if (cm_id == listener && event->type == SIB_CM_REMOVED)
		pr_info("listener: told that the HCA is gone\n");
	if (event->type != SIB_CM_REQ_RECEIVED)
		return cm_id == listener ? 0 : take(side, cm_id, event);
	if (cm_id == listener || cm_id->device != side->device)
		wrong("a request without an identifier of its own");
	if (refuses)
		return -ECONNREFUSED;
	spin_lock(&side->lock);
	side->id = cm_id;
	spin_unlock(&side->lock);
	wake_up(&side->told);
	cm_id->context = side;
	return take(side, cm_id, event);
}

/* The next event, which has to be of this type. */
static int expect_event(struct side *side, u32 type, struct sib_cm_event *event)
{
	do {
		check(wait_event_timeout(side->told,
					 READ_ONCE(side->tail) != side->head,
					 msecs_to_jiffies(DUE_MS)),
		      "side %td: no event of type %u", side - sides, type);
		spin_lock(&side->lock);
		*event = side->events[side->head++ % MOST_EVENTS];
		spin_unlock(&side->lock);
	} while (event->type == SIB_CM_MRA_RECEIVED);
	check(event->type == type, "side %td: event %u, not %u", side - sides,
	      event->type, type);
	return 0;
}

static int expect(struct side *side, u32 type)
{
	struct sib_cm_event event;

	return expect_event(side, type, &event);
}

static void let_go(struct side *side)
{
	struct sib_cm_id *id = side->id;

	if (!id)
		return;
	sib_cm_destroy_id(id);
	spin_lock(&side->lock);
	side->id = NULL;
	side->head = side->tail;
	spin_unlock(&side->lock);
}

static void on_qp_event(struct ib_event *event, void *context)
{
	struct side *side = context;

	if (event->event == IB_EVENT_PATH_MIG)
		atomic_inc(&side->migrations);
	wake_up(&side->told);
}

static void qp_close(struct side *side)
{
	if (!IS_ERR_OR_NULL(side->qp))
		ib_destroy_qp(side->qp);
	if (!IS_ERR_OR_NULL(side->cq))
		ib_destroy_cq(side->cq);
	if (!IS_ERR_OR_NULL(side->pd))
		ib_dealloc_pd(side->pd);
	side->qp = NULL;
	side->cq = NULL;
	side->pd = NULL;
}

static int qp_open(struct side *side)
{
	struct ib_cq_init_attr cq = { .cqe = 4 * DEPTH };
	struct ib_qp_init_attr qp = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.event_handler = on_qp_event,
		.qp_context = side,
		.cap = {
			.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	side->psn = get_random_u32() & 0xffffff;
	atomic_set(&side->migrations, 0);
	side->pd = ib_alloc_pd(side->device, 0);
	check(!IS_ERR(side->pd), "alloc_pd: %pe", side->pd);
	side->cq = ib_create_cq(side->device, NULL, NULL, NULL, &cq);
	check(!IS_ERR(side->cq), "create_cq: %pe", side->cq);
	qp.send_cq = qp.recv_cq = side->cq;
	side->qp = ib_create_qp(side->pd, &qp);
	check(!IS_ERR(side->qp), "create_qp: %pe", side->qp);
	return 0;
}

static int advance(struct side *side, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int mask;

	try(sib_cm_init_qp_attr(side->id, &attr, &mask));
	attr.min_rnr_timer = 1;
	return ib_modify_qp(side->qp, &attr, mask);
}

static int path_by(u32 port, struct sib_cm_path *path)
{
	struct ib_port_attr here, there;
	union ib_gid gid;

	*path = (struct sib_cm_path){
		.subnet_local = 1,
		.ack_timeout = ACK_TIMEOUT,
		.rate = IB_RATE_10_GBPS,
	};
	try(ib_query_port(sides[ACTIVE].device, port, &here));
	try(ib_query_port(sides[PASSIVE].device, port, &there));
	path->local_lid = here.lid;
	path->remote_lid = there.lid;
	try(rdma_query_gid(sides[ACTIVE].device, port, 0, &gid));
	memcpy(path->local_gid, gid.raw, sizeof(gid.raw));
	try(rdma_query_gid(sides[PASSIVE].device, port, 0, &gid));
	memcpy(path->remote_gid, gid.raw, sizeof(gid.raw));
	return 0;
}

static u32 qpn_of(const struct side *side)
{
	return side->qp ? side->qp->qp_num : ++fake_qpn;
}

static int make_id(void)
{
	struct side *side = &sides[ACTIVE];
	struct sib_cm_id *id;

	id = sib_cm_create_id(side->device, on_event, side);
	check(!IS_ERR(id), "create_id: %pe", id);
	spin_lock(&side->lock);
	side->id = id;
	spin_unlock(&side->lock);
	return 0;
}

static int request(u64 service_id)
{
	struct side *side = &sides[ACTIVE];
	struct sib_cm_send_req *req;
	int error;

	try(make_id());
	req = kzalloc(sizeof(*req), GFP_KERNEL);
	check(req, "out of memory");
	req->service_id = service_id;
	req->qpn = qpn_of(side);
	req->starting_psn = side->psn;
	req->pkey = 0xffff;
	req->path_mtu = IB_MTU_4096;
	req->responder_resources = 4;
	req->initiator_depth = 4;
	req->remote_response_timeout = RESPONSE;
	req->local_response_timeout = RESPONSE;
	req->retry_count = 7;
	req->rnr_retry_count = 7;
	req->max_cm_retries = 7;
	req->private_data_len = 5;
	memcpy(req->private_data, "may I", 5);
	error = path_by(1, &req->primary);
	if (!error)
		error = sib_cm_send_req(side->id, req);
	kfree(req);
	return error;
}

static int reply(void)
{
	struct side *side = &sides[PASSIVE];
	struct sib_cm_send_rep rep = {
		.qpn = qpn_of(side),
		.starting_psn = side->psn,
		.responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7,
		.private_data_len = 7,
		.private_data = "you may",
	};

	return sib_cm_send_rep(side->id, &rep);
}

static int offer(void)
{
	struct sib_cm_send_lap lap = {
		.response_timeout = RESPONSE,
		.retries = 7,
		.private_data_len = 4,
		.private_data = "this",
	};

	try(path_by(2, &lap.path));
	return sib_cm_send_lap(sides[ACTIVE].id, &lap);
}

/* How far a connection comes. */
enum stage {
	ASKED,
	TOLD,
	ACCEPTED,
	ANSWERED,
	ESTABLISHED,
	OFFERED,
	PARTING,
	TOLD_OF_END,
	WAITING,
	STAGES,
};

/* Brings a connection as far as `stage`, with queue pairs if there are some. */
static int reach(enum stage stage)
{
	struct side *active = &sides[ACTIVE], *passive = &sides[PASSIVE];
	struct sib_cm_event event;

	/* Without ib_cm there is nobody who answers this. */
	if (stage == ASKED)
		return request(SERVICE + 1);
	try(request(SERVICE));
	try(expect_event(passive, SIB_CM_REQ_RECEIVED, &event));
	check(event.private_data_len >= 5 &&
		      !memcmp(event.private_data, "may I", 5),
	      "other private data");
	if (stage == TOLD)
		return 0;
	if (passive->qp) {
		try(advance(passive, IB_QPS_INIT));
		try(advance(passive, IB_QPS_RTR));
	}
	try(reply());
	if (passive->qp)
		try(advance(passive, IB_QPS_RTS));
	if (stage == ACCEPTED)
		return 0;
	try(expect_event(active, SIB_CM_REP_RECEIVED, &event));
	check(!memcmp(event.private_data, "you may", 7), "other private data");
	if (stage == ANSWERED)
		return 0;
	if (active->qp) {
		try(advance(active, IB_QPS_INIT));
		try(advance(active, IB_QPS_RTR));
		try(advance(active, IB_QPS_RTS));
	}
	try(sib_cm_send_rtu(active->id, "so", 2));
	try(expect(passive, SIB_CM_RTU_RECEIVED));
	if (stage == ESTABLISHED)
		return 0;
	if (stage == OFFERED) {
		try(offer());
		return expect(passive, SIB_CM_LAP_RECEIVED);
	}
	try(sib_cm_send_dreq(active->id, NULL, 0));
	if (stage == PARTING)
		return 0;
	try(expect(passive, SIB_CM_DREQ_RECEIVED));
	if (stage == TOLD_OF_END)
		return 0;
	try(sib_cm_send_drep(passive->id, NULL, 0));
	return expect(active, SIB_CM_DREP_RECEIVED);
}

static int next(struct side *side, enum ib_wc_opcode opcode)
{
	unsigned long due = jiffies + msecs_to_jiffies(DUE_MS);
	struct ib_wc wc;

	while (!ib_poll_cq(side->cq, 1, &wc)) {
		check(time_before(jiffies, due), "no completion");
		usleep_range(20, 50);
	}
	check(!wc.status && wc.opcode == opcode, "'%s', opcode %d",
	      ib_wc_status_msg(wc.status), wc.opcode);
	return 0;
}

static int transfer(struct side *from, struct side *to)
{
	struct ib_sge out = { (uintptr_t)from->memory, BYTES,
			      from->pd->local_dma_lkey };
	struct ib_sge in = { (uintptr_t)to->memory + BYTES, BYTES,
			     to->pd->local_dma_lkey };
	struct ib_recv_wr recv = { .sg_list = &in, .num_sge = 1 };
	struct ib_send_wr send = { .sg_list = &out,
				   .num_sge = 1,
				   .opcode = IB_WR_SEND };

	get_random_bytes(from->memory, BYTES);
	try(ib_post_recv(to->qp, &recv, NULL));
	try(ib_post_send(from->qp, &send, NULL));
	try(next(from, IB_WC_SEND));
	try(next(to, IB_WC_RECV));
	check(!memcmp(from->memory, to->memory + BYTES, BYTES), "other bytes");
	return 0;
}

static int transfers(void)
{
	try(transfer(&sides[ACTIVE], &sides[PASSIVE]));
	return transfer(&sides[PASSIVE], &sides[ACTIVE]);
}

static int load(void)
{
	struct side *active = &sides[ACTIVE], *passive = &sides[PASSIVE];
	struct sib_cm_send_apr apr = { .private_data_len = 4,
				       .private_data = "well" };
	struct sib_cm_event event;

	try(offer());
	check(offer() == -EBUSY, "two LAPs");
	try(expect_event(passive, SIB_CM_LAP_RECEIVED, &event));
	try(sib_cm_load(passive->id, passive->qp));
	apr.generation = event.generation + 1;
	check(sib_cm_send_apr(passive->id, &apr) == -ESTALE, "an old LAP");
	apr.generation = event.generation;
	try(sib_cm_send_apr(passive->id, &apr));
	try(expect_event(active, SIB_CM_APR_RECEIVED, &event));
	check(!event.status, "status %u", event.status);
	return sib_cm_load(active->id, active->qp);
}

static int migrate(void)
{
	struct sib_cm_attr_id known;
	struct sib_cm_path path;

	try(path_by(2, &path));
	/* Both ends have to hear each other before the path is armed. */
	try(transfers());
	try(transfers());
	try(sib_cm_migrate(sides[ACTIVE].id, sides[ACTIVE].qp));
	try(transfers());
	for (int i = 0; i < SIDES; i++) {
		try(expect(&sides[i], SIB_CM_MIGRATED));
		check(wait_event_timeout(sides[i].told,
					 atomic_read(&sides[i].migrations),
					 msecs_to_jiffies(DUE_MS)),
		      "side %d: no PATH_MIG", i);
	}
	try(sib_cm_query(sides[ACTIVE].id, &known));
	check(known.state == SIB_CM_ESTABLISHED && !known.has_alternate &&
		      known.primary.local_lid == path.local_lid &&
		      known.primary.remote_lid == path.remote_lid,
	      "state %u, alternate %u, path %u to %u", known.state,
	      known.has_alternate, known.primary.local_lid,
	      known.primary.remote_lid);
	return 0;
}

/* The DREQ of the active side, whose sender gets no memory for it until it may go on. */
static struct parting {
	struct work_struct work;
	struct task_struct *sender;
	bool waits, may_go_on, gave_up;
	int error;
} parting;

#ifdef CONFIG_KPROBES
static int on_allocation(struct kprobe *probe, struct pt_regs *regs)
{
	if (current != READ_ONCE(parting.sender))
		return 0;
	WRITE_ONCE(parting.waits, true);
	for (int ms = 0; !READ_ONCE(parting.may_go_on); ms++) {
		if (ms == STALL_MS) {
			parting.gave_up = true;
			break;
		}
		mdelay(1);
	}
	return 0;
}

static struct kprobe allocation = {
	.symbol_name = "ib_create_send_mad",
	.pre_handler = on_allocation,
};

static int stall_begins(void)
{
	return register_kprobe(&allocation);
}

static void stall_ends(void)
{
	unregister_kprobe(&allocation);
}
#else
/* The debug kernel has no probes. */
static int stall_begins(void)
{
	parting.waits = true;
	return 0;
}

static void stall_ends(void)
{
}
#endif

static void send_dreq(struct work_struct *work)
{
	WRITE_ONCE(parting.sender, current);
	parting.error = sib_cm_send_dreq(sides[ACTIVE].id, NULL, 0);
	WRITE_ONCE(parting.sender, NULL);
}

/*
 * Who puts a queue pair out of use does not wait for its connection, which may wait for memory:
 * storage has to end queue pairs to write that out.
 */
static int part_without_memory(struct side *side)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	unsigned long due = jiffies + msecs_to_jiffies(DUE_MS);
	int error;

	memset(&parting, 0, sizeof(parting));
	INIT_WORK(&parting.work, send_dreq);
	try(stall_begins());
	queue_work(system_unbound_wq, &parting.work);
	/* Not asleep, so that the sender is on another processor. */
	while (!READ_ONCE(parting.waits) && time_before(jiffies, due))
		cond_resched();
	error = ib_modify_qp(side->qp, &attr, IB_QP_STATE);
	WRITE_ONCE(parting.may_go_on, true);
	flush_work(&parting.work);
	stall_ends();
	check(parting.waits, "no DREQ");
	check(!parting.gave_up, "the end of a queue pair waits for memory");
	return error ?: parting.error;
}

static int test_connection(void)
{
	struct side *active = &sides[ACTIVE], *passive = &sides[PASSIVE];
	struct ib_qp_attr attr = { .qp_state = IB_QPS_SQD };
	int mask;

	try(qp_open(active));
	try(qp_open(passive));
	try(reach(ESTABLISHED));
	check(sib_cm_init_qp_attr(active->id, &attr, &mask) == -EINVAL,
	      "attributes of another state");
	check(sib_cm_send_rtu(active->id, "", 225) == -EINVAL, "a long RTU");
	check(sib_cm_listen(active->id, SERVICE + 1, SIB_CM_CONNECTIONS) ==
		      -EINVAL,
	      "a connection listens");
	try(transfers());
	try(load());
	try(migrate());
	try(part_without_memory(active));
	try(expect(passive, SIB_CM_DREQ_RECEIVED));
	try(sib_cm_send_drep(passive->id, NULL, 0));
	try(expect(active, SIB_CM_DREP_RECEIVED));
	try(expect(active, SIB_CM_TIMEWAIT_EXIT));
	try(expect(passive, SIB_CM_TIMEWAIT_EXIT));
	let_go(active);
	let_go(passive);
	qp_close(active);
	qp_close(passive);
	pr_info("connected, %u bytes each way, migrated\n", BYTES);
	return 0;
}

/* The handler refuses, so there is no identifier. */
static int test_refusal(void)
{
	struct sib_cm_event event;

	refuses = true;
	try(request(SERVICE));
	try(expect_event(&sides[ACTIVE], SIB_CM_REJ_RECEIVED, &event));
	check(event.status == CONSUMER_DEFINED, "reason %u", event.status);
	let_go(&sides[ACTIVE]);
	refuses = false;
	check(!sides[PASSIVE].id, "an identifier that was refused");
	return 0;
}

/* Either side lets go of a connection at each stage, then the other one. */
static int test_stages(void)
{
	for (int stage = 0; stage < STAGES; stage++) {
		for (int first = 0; first < SIDES; first++) {
			try(reach(stage));
			let_go(&sides[first]);
			let_go(&sides[!first]);
			check(!atomic_read(&wrongs), "stage %d", stage);
		}
	}
	try(make_id());
	let_go(&sides[ACTIVE]);
	pr_info("let go at %d stages\n", STAGES);
	return 0;
}

/* Whoever destroys waits for the handler, whose orders are carried out. */
static int test_slow_handler(void)
{
	try(reach(ESTABLISHED));
	slowness = 200;
	try(sib_cm_send_dreq(sides[ACTIVE].id, NULL, 0));
	check(wait_event_timeout(sides[PASSIVE].told,
				 atomic_read(&running) ||
					 READ_ONCE(sides[PASSIVE].tail) !=
						 sides[PASSIVE].head,
				 msecs_to_jiffies(DUE_MS)),
	      "no DREQ");
	let_go(&sides[PASSIVE]);
	let_go(&sides[ACTIVE]);
	check(!atomic_read(&running), "a handler runs");
	try(request(SERVICE));
	check(wait_event_timeout(sides[PASSIVE].told,
				 READ_ONCE(sides[PASSIVE].id),
				 msecs_to_jiffies(DUE_MS)),
	      "no request");
	sib_cm_destroy_id(listener);
	listener = NULL;
	check(!atomic_read(&running), "a handler runs");
	let_go(&sides[PASSIVE]);
	let_go(&sides[ACTIVE]);
	check(!atomic_read(&running), "a handler runs");
	slowness = 0;
	return 0;
}

static int start_listening(void)
{
	struct sib_cm_id *other;
	int error;

	listener = sib_cm_create_id(sides[PASSIVE].device, on_request, NULL);
	check(!IS_ERR(listener), "create_id: %pe", listener);
	try(sib_cm_listen(listener, SERVICE, SIB_CM_CONNECTIONS));
	other = sib_cm_create_id(sides[ACTIVE].device, on_event, NULL);
	check(!IS_ERR(other), "create_id: %pe", other);
	error = sib_cm_listen(other, SERVICE, SIB_CM_CONNECTIONS);
	sib_cm_destroy_id(other);
	check(error == -EADDRINUSE, "two listeners: %d", error);
	return 0;
}

static int run(void)
{
	for (int i = 0; i < SIDES; i++)
		check(sides[i].device, "no device %s", i ? b : a);
	try(start_listening());
	try(test_connection());
	try(test_refusal());
	try(test_stages());
	try(test_slow_handler());
	if (hold) {
		try(start_listening());
		try(qp_open(&sides[ACTIVE]));
		try(qp_open(&sides[PASSIVE]));
		try(reach(ESTABLISHED));
		try(transfers());
		pr_info("held\n");
	}
	return 0;
}

static void close_listener(void)
{
	if (!IS_ERR_OR_NULL(listener))
		sib_cm_destroy_id(listener);
	listener = NULL;
}

/* ib_core names its devices to its clients. */
static int add_device(struct ib_device *device)
{
	if (!strcmp(dev_name(&device->dev), a))
		sides[ACTIVE].device = device;
	if (!strcmp(dev_name(&device->dev), b))
		sides[PASSIVE].device = device;
	return 0;
}

/* What is on the device goes with it, but for what listens and has been asked for: that hears of it. */
static void remove_device(struct ib_device *device, void *data)
{
	for (int i = 0; i < SIDES; i++) {
		if (sides[i].device != device)
			continue;
		if (i == ACTIVE)
			let_go(&sides[i]);
		qp_close(&sides[i]);
		sides[i].device = NULL;
		pr_info("side %d is gone\n", i);
	}
}

static struct ib_client client = {
	.name = "cmclient",
	.add = add_device,
	.remove = remove_device,
};

static void teardown(void)
{
	slowness = 0;
	ib_unregister_client(&client);
	close_listener();
	for (int i = 0; i < SIDES; i++) {
		let_go(&sides[i]);
		kfree(sides[i].memory);
		kfree(sides[i].events);
	}
	if (atomic_read(&wrongs))
		pr_err("wrong %d times\n", atomic_read(&wrongs));
}

static int __init cmclient_init(void)
{
	int error = 0;

	for (int i = 0; i < SIDES; i++) {
		struct side *side = &sides[i];

		spin_lock_init(&side->lock);
		init_waitqueue_head(&side->told);
		side->memory = kmalloc(2 * BYTES, GFP_KERNEL);
		side->events = kcalloc(MOST_EVENTS, sizeof(*side->events),
				       GFP_KERNEL);
		if (!side->memory || !side->events)
			error = -ENOMEM;
	}
	if (!error)
		error = ib_register_client(&client);
	if (error)
		goto free;
	error = run();
	if (!error && atomic_read(&wrongs))
		error = -EIO;
	if (error)
		teardown();
	return error;

free:
	for (int i = 0; i < SIDES; i++) {
		kfree(sides[i].memory);
		kfree(sides[i].events);
	}
	return error;
}

static void __exit cmclient_exit(void)
{
	teardown();
}

module_init(cmclient_init);
module_exit(cmclient_exit);

MODULE_DESCRIPTION("Test of the kernel API of sib_cm");
MODULE_LICENSE("GPL");
