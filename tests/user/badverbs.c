// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs with wrong arguments, and the errno that each must give; with "all" also as many objects as
 * there may be of the small kinds.
 */

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct device devices[2];
static struct bench bench;
static int right, wrong;

/* Notes what a call has come to: 0 or an errno, by its value or by errno. */
static void result(const char *what, int got, int due)
{
	if (got == due) {
		right++;
		return;
	}
	wrong++;
	printf("badverbs: %s: %s; due was %s\n", what,
	       got ? strerror(got) : "success", strerror(due));
}

/* Of a call that returns an object: it must return none. */
#define NO_OBJECT(call, due) result(#call, (call) ? 0 : errno, due)
/* Of a call that returns an errno, or -1 with errno set. */
#define NO_SUCCESS(call, due) result(#call, status(call), due)

static int status(int value)
{
	return value < 0 ? errno : value;
}

static struct ibv_qp *new_qp(struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = bench.a.send_cq,
		.recv_cq = bench.a.recv_cq,
		.cap = cap,
	};

	return ibv_create_qp(devices[0].pd, &init);
}

static struct ibv_srq *new_srq(uint32_t depth, uint32_t sges)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = depth,
						    .max_sge = sges } };

	return ibv_create_srq(devices[0].pd, &init);
}

static struct ibv_cq *new_cq(int depth)
{
	return ibv_create_cq(devices[0].context, depth, NULL, NULL, 0);
}

static void creation(void)
{
	const struct ibv_device_attr *attr = &devices[0].attr;
	uint32_t wrs = attr->max_qp_wr + 1, sges = attr->max_sge + 1;

	NO_OBJECT(new_qp((struct ibv_qp_cap){ .max_send_wr = wrs }), EINVAL);
	NO_OBJECT(new_qp((struct ibv_qp_cap){ .max_recv_wr = wrs }), EINVAL);
	NO_OBJECT(new_qp((struct ibv_qp_cap){ .max_send_wr = UINT32_MAX }), EINVAL);
	NO_OBJECT(new_qp((struct ibv_qp_cap){ .max_send_sge = sges }), EINVAL);
	NO_OBJECT(new_qp((struct ibv_qp_cap){ .max_recv_sge = UINT32_MAX }), EINVAL);
	NO_OBJECT(new_qp((struct ibv_qp_cap){ .max_inline_data = 1 << 20 }), EINVAL);
	NO_OBJECT(new_cq(0), EINVAL);
	NO_OBJECT(new_cq(attr->max_cqe + 1), EINVAL);
	NO_OBJECT(new_srq(attr->max_srq_wr + 1, 1), EINVAL);
	NO_OBJECT(new_srq(1, attr->max_srq_sge + 1), EINVAL);
}

static void *one_pd(struct ibv_pd *pd)
{
	return ibv_alloc_pd(pd->context);
}

static int no_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *one_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &init);
}

static int no_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *one_mr(struct ibv_pd *pd)
{
	static uint8_t byte;

	return ibv_reg_mr(pd, &byte, 1, 0);
}

static int no_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

static void *one_mw(struct ibv_pd *pd)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static int no_mw(void *mw)
{
	return ibv_dealloc_mw(mw);
}

static void *one_ah(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = { .dlid = 1, .port_num = 1 };

	return ibv_create_ah(pd, &attr);
}

static int no_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

/*
 * As many of the small kinds of objects as the device says, and not one more, whatever protection domain
 * they are in.
 */
static void as_many(void)
{
	const struct ibv_device_attr *attr = &devices[0].attr;
	const struct {
		const char *name;
		int most;
		void *(*make)(struct ibv_pd *pd);
		int (*end)(void *object);
	} kinds[] = {
		{ "protection domains", attr->max_pd, one_pd, no_pd },
		{ "shared receive queues", attr->max_srq, one_srq, no_srq },
		{ "memory regions", attr->max_mr, one_mr, no_mr },
		{ "memory windows", attr->max_mw, one_mw, no_mw },
		{ "address handles", attr->max_ah, one_ah, no_ah },
	};
	struct ibv_pd *pds[2] = { ibv_alloc_pd(devices[0].context),
				  ibv_alloc_pd(devices[0].context) };

	check(pds[0] && pds[1], "alloc_pd: %m");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int count = 0, most = kinds[i].most;
		void **objects = calloc(most + 1, sizeof(*objects));

		check(objects, "out of memory");
		/* Others have a few of each. */
		while (count <= most &&
		       (objects[count] = kinds[i].make(pds[count % 2])))
			count++;
		check(count <= most && errno == ENOMEM && count > most - 100,
		      "%d %s of %d: %m", count, kinds[i].name, most);
		while (count)
			check(!kinds[i].end(objects[--count]),
			      "the end of %s: %m", kinds[i].name);
		free(objects);
	}
	for (int i = 0; i < 2; i++)
		check(!ibv_dealloc_pd(pds[i]), "dealloc_pd: %m");
}

static struct ibv_mr *new_mr(void *at, size_t length, int access)
{
	return ibv_reg_mr(devices[0].pd, at, length, access);
}

/* The first and the last of the rights that are but hints. */
#define HINTS (IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_RELAXED_ORDERING << 9)

static void memory(void)
{
	size_t page = 4096;
	struct ibv_mr *mr;
	uint8_t *bytes = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *frozen = mmap(NULL, page, PROT_READ,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(bytes + page, page);
	NO_OBJECT(new_mr(bytes, 2 * page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NO_OBJECT(new_mr(NULL, page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NO_OBJECT(new_mr(frozen, page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NO_OBJECT(new_mr(bytes, page, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	NO_OBJECT(new_mr(bytes, page, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	NO_OBJECT(new_mr(bytes, SIZE_MAX - page, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	mr = new_mr(bytes, page, HINTS);
	result("hints that nobody knows", mr ? 0 : errno, 0);
	if (mr)
		check(!ibv_dereg_mr(mr), "dereg_mr: %m");
	munmap(bytes, page);
	munmap(frozen, page);
}

static struct ibv_ah *new_ah(struct ibv_ah_attr attr)
{
	return ibv_create_ah(devices[0].pd, &attr);
}

static void ports(void)
{
	uint8_t beyond = devices[0].attr.phys_port_cnt + 1;
	struct ibv_context *context = devices[0].context;
	struct ibv_port_attr attr;
	union ibv_gid gid;
	__be16 pkey;

	NO_SUCCESS(ibv_query_port(context, 0, &attr), EINVAL);
	NO_SUCCESS(ibv_query_port(context, beyond, &attr), EINVAL);
	NO_SUCCESS(ibv_query_gid(context, beyond, 0, &gid) ? EINVAL : 0, EINVAL);
	NO_SUCCESS(ibv_query_pkey(context, beyond, 0, &pkey) ? EINVAL : 0, EINVAL);
	NO_SUCCESS(ibv_query_gid(context, 1, 30000, &gid) ? EINVAL : 0, EINVAL);
	NO_SUCCESS(ibv_query_pkey(context, 1, 30000, &pkey) ? EINVAL : 0, EINVAL);
	NO_OBJECT(new_ah((struct ibv_ah_attr){ .dlid = 1 }), EINVAL);
	NO_OBJECT(new_ah((struct ibv_ah_attr){ .dlid = 1, .port_num = beyond }), EINVAL);
	NO_OBJECT(new_ah((struct ibv_ah_attr){
			  .dlid = 1, .port_num = 1, .is_global = 1,
			  .grh = { .sgid_index = 200 } }), EINVAL);
}

static int to(struct end *end, struct ibv_qp_attr attr, int mask)
{
	return ibv_modify_qp(end->qp, &attr, mask | IBV_QP_STATE);
}

#define INIT_MASK (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                              \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |       \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                              \
	(IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |                   \
	 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static struct ibv_qp_attr init_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
}

static struct ibv_qp_attr rtr_attr(void)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = bench.b.qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = path_to(&devices[0], &devices[1], false),
	};
}

static struct ibv_qp_attr rts_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
}

/* A transition with one attribute changed must fail. */
#define REFUSED(make, mask, change)                                           \
	do {                                                                  \
		struct ibv_qp_attr attr = make();                             \
		attr.change;                                                  \
		result(#make " with " #change, status(to(&bench.a, attr, mask)), \
		       EINVAL);                                               \
	} while (0)

static void transitions(void)
{
	struct end *a = &bench.a;

	result("RESET to RTR", status(to(a, rtr_attr(), RTR_MASK)), EINVAL);
	result("RESET to RTS", status(to(a, rts_attr(), RTS_MASK)), EINVAL);
	result("INIT without a port",
	       status(to(a, init_attr(), INIT_MASK & ~IBV_QP_PORT)), EINVAL);
	REFUSED(init_attr, INIT_MASK, port_num = 0);
	REFUSED(init_attr, INIT_MASK, port_num = 9);
	REFUSED(init_attr, INIT_MASK, pkey_index = 30000);
	end_to_init(a, &default_path);
	end_to_init(&bench.b, &default_path);

	result("INIT to RTS", status(to(a, rts_attr(), RTS_MASK)), EINVAL);
	result("RTR without a path",
	       status(to(a, rtr_attr(), RTR_MASK & ~IBV_QP_AV)), EINVAL);
	result("RTR without a peer",
	       status(to(a, rtr_attr(), RTR_MASK & ~IBV_QP_DEST_QPN)), EINVAL);
	REFUSED(rtr_attr, RTR_MASK, path_mtu = 0);
	REFUSED(rtr_attr, RTR_MASK, path_mtu = IBV_MTU_4096 + 1);
	REFUSED(rtr_attr, RTR_MASK, min_rnr_timer = 32);
	REFUSED(rtr_attr, RTR_MASK, max_dest_rd_atomic = 255);
	REFUSED(rtr_attr, RTR_MASK, ah_attr.dlid = 0xc001);
	REFUSED(rtr_attr, RTR_MASK, ah_attr.port_num = 9);
	end_to_rtr(a, &bench.b, &default_path);

	result("RTS without a PSN",
	       status(to(a, rts_attr(), RTS_MASK & ~IBV_QP_SQ_PSN)), EINVAL);
	REFUSED(rts_attr, RTS_MASK, timeout = 32);
	REFUSED(rts_attr, RTS_MASK, retry_cnt = 8);
	REFUSED(rts_attr, RTS_MASK, rnr_retry = 8);
	REFUSED(rts_attr, RTS_MASK, max_rd_atomic = 255);
	end_to_rts(a, &default_path);
	result("RTS to INIT", status(to(a, init_attr(), INIT_MASK)), EINVAL);
	result("RTS to RESET with a timeout",
	       status(to(a, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET },
			 IBV_QP_STATE | IBV_QP_TIMEOUT)), EINVAL);
	check(end_state(a) == IBV_QPS_RTS, "a refused transition had an effect");
}

/* A connection may get another path while its sends are drained, and knows of none once it is reset. */
static void paths(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct end_options options = { .type = types[i],
					       .send_depth = 1,
					       .recv_depth = 1,
					       .sges = 1 };
		struct ibv_qp_attr attr = {
			.ah_attr = path_to(&devices[0], &devices[1], false),
		};
		struct ibv_qp_init_attr init;
		struct end a, b;

		end_create(&a, &devices[0], &options);
		end_create(&b, &devices[1], &options);
		end_connect(&a, &b, &default_path);
		end_to(&a, IBV_QPS_SQD);
		result("a path in SQD",
		       status(ibv_modify_qp(a.qp, &attr, IBV_QP_AV)), 0);
		end_to(&a, IBV_QPS_RESET);
		check(!ibv_query_qp(a.qp, &attr, IBV_QP_AV, &init),
		      "query_qp: %m");
		result("a path in RESET",
		       attr.ah_attr.dlid || attr.qp_access_flags ? EINVAL : 0, 0);
		end_destroy(&a);
		end_destroy(&b);
	}
}

static int post(struct end *end, int count, int sges, uint32_t length,
		unsigned int flags)
{
	struct ibv_sge list[64];
	struct ibv_send_wr wrs[BENCH_DEPTH * 4], *bad;

	check(count <= (int)ARRAY_SIZE(wrs) && sges <= (int)ARRAY_SIZE(list),
	      "too many");
	for (int i = 0; i < sges; i++)
		list[i] = sge_local(&bench, length);
	for (int i = 0; i < count; i++)
		wrs[i] = (struct ibv_send_wr){
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = list,
			.num_sge = sges,
			.opcode = IBV_WR_SEND,
			.send_flags = flags,
		};
	return ibv_post_send(end->qp, wrs, &bad);
}

static void posts(void)
{
	struct end fresh;
	struct end_options options = { .type = IBV_QPT_RC,
				       .send_depth = BENCH_DEPTH,
				       .recv_depth = BENCH_DEPTH,
				       .sges = 2 };

	end_create(&fresh, &devices[0], &options);
	result("post_send in RESET", status(post(&fresh, 1, 1, 8, 0)), EINVAL);
	end_to_init(&fresh, &default_path);
	result("post_send in INIT", status(post(&fresh, 1, 1, 8, 0)), EINVAL);
	end_destroy(&fresh);
	result("too many gather entries", status(post(&bench.a, 1, 60, 8, 0)),
	       EINVAL);
	result("more work requests than the queue has",
	       status(post(&bench.a, BENCH_DEPTH * 4, 1, 8, 0)), ENOMEM);
}

static void multicast(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x12, 0x40, 0x1b } }, none = {};

	NO_SUCCESS(ibv_attach_mcast(bench.a.qp, &group, 0xc001), EINVAL);
	NO_SUCCESS(ibv_attach_mcast(bench.a.qp, &none, 0xc001), EINVAL);
}

int main(int argc, char **argv)
{
	struct end_options options = { .type = IBV_QPT_RC,
				       .send_depth = BENCH_DEPTH,
				       .recv_depth = BENCH_DEPTH,
				       .sges = 2 };

	bool all = argc == 4 && !strcmp(argv[3], "all");

	check(argc <= 3 || all, "usage: badverbs [DEV[:PORT] [DEV[:PORT] [all]]]");
	device_open(&devices[0], argc > 1 ? argv[1] : "sib0");
	device_open(&devices[1], argc > 2 ? argv[2] : "sib1");
	bench_create(&bench, &devices[0], &devices[1], &options);
	creation();
	if (all)
		as_many();
	memory();
	ports();
	transitions();
	paths();
	posts();
	multicast();
	bench_destroy(&bench);
	printf("badverbs: %d answers were right, %d wrong\n", right, wrong);
	check(!wrong, "%d answers were wrong", wrong);
	device_close(&devices[0]);
	device_close(&devices[1]);
	return 0;
}
