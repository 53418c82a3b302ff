// SPDX-License-Identifier: GPL-2.0
/*
 * A client of ib_core that registers memory by work requests, as storage and file
 * systems do: REG_MR, LOCAL_INV, and SEND with invalidate.
 *
 * Loading it runs the test between two devices, and fails if the test does:
 *
 *     insmod fastreg.ko a=sib0 b=sib1
 *
 * Device `b` owns the memory, device `a` accesses it.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "between.h"

#define PAGES 9u
#define FIRST_OFFSET 512u
#define BYTES (PAGES * PAGE_SIZE - FIRST_OFFSET - 100u)
#define IOVA 0x1234560000ull
#define DEPTH 64
#define DUE_MS 20000
#define CYCLES 500
#define RACES 100
#define MESSAGE 64u
#define ALL CLIENT_ACCESS

struct side {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_port_attr port;
};

struct end {
	struct side *side;
	struct ib_cq *cq;
	struct ib_qp *qp;
};

static struct side sides[2];
/* Two connections between the same protection domains. */
static struct end from[2], to[2];
/* Of `a`. */
static u8 *local;
/* Of `b`. */
static struct page *pages[PAGES];
static struct scatterlist sgl[PAGES];
static struct ib_mr *mr, *other_mr;
static u8 *message;

/* Byte `at` of the memory that is registered. */
static u8 *byte_at(u32 at)
{
	at += FIRST_OFFSET;
	return (u8 *)page_address(pages[at / PAGE_SIZE]) + at % PAGE_SIZE;
}

static void fill(u8 value)
{
	for (u32 i = 0; i < BYTES; i++)
		*byte_at(i) = value;
}

static int side_open(struct side *side, struct ib_device *device)
{
	side->device = device;
	side->pd = ib_alloc_pd(side->device, 0);
	check(!IS_ERR(side->pd), "alloc_pd: %pe", side->pd);
	check(!side->pd->__internal_mr, "a domain has a region of all memory");
	try(ib_query_port(side->device, 1, &side->port));
	check(side->device->attrs.device_cap_flags &
		      IB_DEVICE_MEM_MGT_EXTENSIONS,
	      "%s does not offer registration", dev_name(&device->dev));
	check(side->device->attrs.max_fast_reg_page_list_len >= 256,
	      "%s registers few pages", dev_name(&device->dev));
	return 0;
}

static void side_close(struct side *side)
{
	if (!IS_ERR_OR_NULL(side->pd))
		ib_dealloc_pd(side->pd);
}

static int end_create(struct end *end, struct side *side)
{
	struct ib_cq_init_attr cq = { .cqe = 4 * DEPTH };
	struct ib_qp_init_attr qp = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = {
			.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 8,
		},
	};

	end->side = side;
	end->cq = ib_create_cq(side->device, NULL, NULL, NULL, &cq);
	check(!IS_ERR(end->cq), "create_cq: %pe", end->cq);
	qp.send_cq = qp.recv_cq = end->cq;
	end->qp = ib_create_qp(side->pd, &qp);
	check(!IS_ERR(end->qp), "create_qp: %pe", end->qp);
	return 0;
}

static void end_destroy(struct end *end)
{
	if (!IS_ERR_OR_NULL(end->qp))
		ib_destroy_qp(end->qp);
	if (!IS_ERR_OR_NULL(end->cq))
		ib_destroy_cq(end->cq);
}

static int end_connect(struct end *end, const struct end *peer, u32 psn)
{
	/* There is a receive for each message: none is to be put off. The timeout of 2 s
	 * outlasts a processor of the guest that stands still. */
	static const struct patience patience = {
		.timeout = 19,
		.retries = 7,
		.rnr_retries = 0,
		.min_rnr_timer = 1,
	};
	struct ib_wc wc;

	try(qp_to(end->qp, IB_QPS_RESET));
	while (ib_poll_cq(end->cq, 1, &wc) > 0)
		;
	return connect_qp(end->qp, peer->side->port.lid, peer->qp->qp_num, psn,
			  &patience);
}

static int connect(int pair)
{
	/* Neither side takes packets of a former life for its own. */
	u32 psn = get_random_u32() & 0xffffff;

	try(qp_to(from[pair].qp, IB_QPS_RESET));
	try(end_connect(&to[pair], &from[pair], psn));
	return end_connect(&from[pair], &to[pair], psn);
}

/* Takes the next completion. */
static int next(struct end *end, struct ib_wc *wc)
{
	unsigned long due = jiffies + msecs_to_jiffies(DUE_MS);

	while (!ib_poll_cq(end->cq, 1, wc)) {
		check(time_before(jiffies, due), "no completion");
		usleep_range(20, 50);
	}
	return 0;
}

static int expect(struct end *end, enum ib_wc_status status,
		  enum ib_wc_opcode opcode)
{
	struct ib_wc wc;

	try(next(end, &wc));
	check(wc.status == status && (status || wc.opcode == opcode),
	      "'%s', opcode %d; due was '%s', opcode %d",
	      ib_wc_status_msg(wc.status), wc.opcode, ib_wc_status_msg(status),
	      opcode);
	return 0;
}

static int map(struct ib_mr *region)
{
	int mapped = ib_map_mr_sg(region, sgl, PAGES, NULL, PAGE_SIZE);

	check(mapped == PAGES, "map_mr_sg: %d", mapped);
	check(region->length == BYTES, "length %llu",
	      (unsigned long long)region->length);
	region->iova = IOVA + FIRST_OFFSET;
	return 0;
}

static int post_reg(struct ib_mr *region, u32 key, int access)
{
	struct ib_reg_wr wr = {
		.wr = { .opcode = IB_WR_REG_MR },
		.mr = region,
		.key = key,
		.access = access,
	};

	return ib_post_send(to[0].qp, &wr.wr, NULL);
}

/* Registers all pages under a new key. */
static int reg(int access)
{
	try(map(mr));
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	try(post_reg(mr, mr->rkey, access));
	return expect(&to[0], IB_WC_SUCCESS, IB_WC_REG_MR);
}

static int post_inv(u32 key)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV,
				 .ex.invalidate_rkey = key };

	return ib_post_send(to[0].qp, &wr, NULL);
}

static int post_rdma(int pair, enum ib_wr_opcode opcode, u64 addr, u32 length,
		     u32 key)
{
	struct ib_sge sge = { (uintptr_t)local, length,
			      sides[0].pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = addr,
		.rkey = key,
	};

	return ib_post_send(from[pair].qp, &wr.wr, NULL);
}

static int post_message(struct end *end, u64 addr, u32 lkey,
			enum ib_wr_opcode opcode, u32 key)
{
	struct ib_sge sge = { addr, MESSAGE, lkey };
	struct ib_send_wr wr = { .opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .ex.invalidate_rkey = key };

	return ib_post_send(end->qp, &wr, NULL);
}

static int post_receive(struct end *end)
{
	struct ib_sge sge = { (uintptr_t)message, MESSAGE,
			      end->side->pd->local_dma_lkey };
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(end->qp, &wr, NULL);
}

/* What is told of a queue pair keeps nothing that was in the memory of the answer. */
static int query(struct ib_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	memset(&init, 0xff, sizeof(init));
	memset(&attr, 0xff, sizeof(attr));
	try(ib_query_qp(qp, &attr, IB_QP_STATE, &init));
	check(attr.qp_state == IB_QPS_RTS && init.cap.max_send_wr == DEPTH,
	      "state %d, %u work requests", attr.qp_state,
	      init.cap.max_send_wr);
	check(!attr.rate_limit && !attr.xmit_slave &&
		      !attr.ah_attr.grh.flow_label &&
		      !attr.alt_ah_attr.grh.sgid_index,
	      "attributes that it does not have");
	check(!init.create_flags && !init.xrcd && !init.rwq_ind_tbl &&
		      !init.source_qpn && !init.cap.max_rdma_ctxs,
	      "something that was not asked for");
	return 0;
}

/* Every byte of a registration, from afar and at home. */
static int accesses(void)
{
	try(connect(0));
	try(query(from[0].qp));
	try(reg(ALL));
	for (u32 i = 0; i < BYTES; i++)
		local[i] = i * 7 + i / 256;
	fill(0);
	try(post_rdma(0, IB_WR_RDMA_WRITE, mr->iova, BYTES, mr->rkey));
	try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RDMA_WRITE));
	for (u32 i = 0; i < BYTES; i++)
		check(*byte_at(i) == (u8)(i * 7 + i / 256), "byte %u", i);
	memset(local, 0, BYTES);
	try(post_rdma(0, IB_WR_RDMA_READ, mr->iova, BYTES, mr->rkey));
	try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RDMA_READ));
	for (u32 i = 0; i < BYTES; i++)
		check(local[i] == (u8)(i * 7 + i / 256), "byte %u", i);
	/* Across the border of two pages, as the data of a message. */
	try(post_receive(&from[0]));
	try(post_message(&to[0], IOVA + PAGE_SIZE - 10, mr->lkey, IB_WR_SEND,
			 0));
	try(expect(&to[0], IB_WC_SUCCESS, IB_WC_SEND));
	try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RECV));
	for (u32 i = 0; i < MESSAGE; i++)
		check(message[i] == *byte_at(PAGE_SIZE - 10 - FIRST_OFFSET + i),
		      "byte %u of a message", i);
	try(post_inv(mr->rkey));
	return expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV);
}

/* What a registration does not allow. */
static int refusals(void)
{
	static const struct {
		enum ib_wr_opcode opcode;
		s64 offset;
		u32 length;
		int access;
	} cases[] = {
		{ IB_WR_RDMA_WRITE, 1, BYTES, ALL },
		{ IB_WR_RDMA_WRITE, -1, 8, ALL },
		{ IB_WR_RDMA_READ, BYTES, 1, ALL },
		{ IB_WR_RDMA_WRITE, 0, 8, IB_ACCESS_REMOTE_READ },
		{ IB_WR_RDMA_READ, 0, 8,
		  IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		try(connect(0));
		try(reg(cases[i].access));
		try(post_rdma(0, cases[i].opcode, mr->iova + cases[i].offset,
			      cases[i].length, mr->rkey));
		try(expect(&from[0], IB_WC_REM_ACCESS_ERR, 0));
		try(connect(0));
		try(post_inv(mr->rkey));
		try(expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV));
	}
	/* An invalid key, and one of an earlier registration. */
	for (u32 old = 0; old < 2; old++) {
		u32 key = mr->rkey;

		try(connect(0));
		if (old)
			try(reg(ALL));
		try(post_rdma(0, IB_WR_RDMA_READ, mr->iova, 8, key));
		try(expect(&from[0], IB_WC_REM_ACCESS_ERR, 0));
	}
	try(connect(0));
	try(post_inv(mr->rkey));
	return expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV);
}

/* Work requests that fail. */
static int mistakes(void)
{
	/* Valid already. */
	try(connect(0));
	try(reg(ALL));
	try(post_reg(mr, mr->rkey, ALL));
	try(expect(&to[0], IB_WC_MW_BIND_ERR, 0));
	/* An old key. */
	try(connect(0));
	try(post_inv(mr->rkey - 1));
	try(expect(&to[0], IB_WC_MW_BIND_ERR, 0));
	try(connect(0));
	try(post_inv(mr->rkey));
	try(expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV));
	/* Peers may not write where the owner may not. */
	try(post_reg(mr, mr->rkey, IB_ACCESS_REMOTE_WRITE));
	try(expect(&to[0], IB_WC_MW_BIND_ERR, 0));
	/* The key of another region; and one without pages. */
	try(connect(0));
	check(post_reg(mr, other_mr->rkey, ALL) == -EINVAL, "another's key");
	other_mr->length = PAGE_SIZE;
	try(post_reg(other_mr, other_mr->rkey, ALL));
	try(expect(&to[0], IB_WC_MW_BIND_ERR, 0));
	/* What peers may not see they may not invalidate. */
	try(connect(0));
	try(reg(IB_ACCESS_LOCAL_WRITE));
	try(post_receive(&to[0]));
	try(post_message(&from[0], (uintptr_t)local,
			 sides[0].pd->local_dma_lkey, IB_WR_SEND_WITH_INV,
			 mr->rkey));
	try(expect(&from[0], IB_WC_REM_ACCESS_ERR, 0));
	try(connect(0));
	try(post_inv(mr->rkey));
	return expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV);
}

/* Work requests that are refused at once: what came before them in the chain is carried out, the peer
 * hears nothing of them, and the connection stays. */
static int unfit(void)
{
	static const struct {
		enum ib_wr_opcode opcode;
		u32 length;
		int flags;
	} cases[] = {
		{ IB_WR_RDMA_READ, 8, IB_SEND_INLINE },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, 8, IB_SEND_INLINE },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, 4, 0 },
		{ IB_WR_ATOMIC_CMP_AND_SWP, 4, 0 },
	};

	try(connect(0));
	try(reg(ALL));
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ib_sge sge = { (uintptr_t)local, cases[i].length,
				      sides[0].pd->local_dma_lkey };
		struct ib_send_wr wr = { .opcode = cases[i].opcode,
					 .send_flags = cases[i].flags,
					 .sg_list = &sge,
					 .num_sge = 1 };
		struct ib_rdma_wr read = { .wr = wr,
					   .remote_addr = mr->iova,
					   .rkey = mr->rkey };
		struct ib_atomic_wr atomic = { .wr = wr,
					       .remote_addr = mr->iova,
					       .compare_add = 1,
					       .rkey = mr->rkey };
		struct ib_send_wr *bad_one = wr.opcode == IB_WR_RDMA_READ ?
						     &read.wr :
						     &atomic.wr;
		struct ib_rdma_wr write = { .wr = { .next = bad_one,
						    .opcode = IB_WR_RDMA_WRITE,
						    .sg_list = &sge,
						    .num_sge = 1 },
					    .remote_addr = mr->iova,
					    .rkey = mr->rkey };
		const struct ib_send_wr *bad = NULL;
		int error = ib_post_send(from[0].qp, &write.wr, &bad);

		check(error == -EINVAL && bad == bad_one, "case %u: %d", i,
		      error);
		try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RDMA_WRITE));
	}
	try(post_inv(mr->rkey));
	return expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV);
}

/* Registered, written to and invalidated by the peer, again and again. */
static int cycles(void)
{
	try(connect(0));
	for (u32 i = 0; i < CYCLES; i++) {
		struct ib_wc wc;

		memset(local, i, BYTES);
		try(reg(ALL));
		try(post_receive(&to[0]));
		try(post_rdma(0, IB_WR_RDMA_WRITE, mr->iova, BYTES, mr->rkey));
		try(post_rdma(0, IB_WR_RDMA_READ, mr->iova, BYTES, mr->rkey));
		try(post_message(&from[0], (uintptr_t)local,
				 sides[0].pd->local_dma_lkey,
				 IB_WR_SEND_WITH_INV, mr->rkey));
		try(next(&to[0], &wc));
		check(wc.status == IB_WC_SUCCESS && wc.opcode == IB_WC_RECV &&
			      (wc.wc_flags & IB_WC_WITH_INVALIDATE) &&
			      wc.ex.invalidate_rkey == mr->rkey,
		      "'%s', flags %x, key %x", ib_wc_status_msg(wc.status),
		      wc.wc_flags, wc.ex.invalidate_rkey);
		check(*byte_at(0) == (u8)i && *byte_at(BYTES - 1) == (u8)i,
		      "a WRITE is missing");
		try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RDMA_WRITE));
		try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RDMA_READ));
		try(expect(&from[0], IB_WC_SUCCESS, IB_WC_SEND));
	}
	return 0;
}

/* Pages for the next registration do not change the present one. */
static int ahead(void)
{
	u32 key;
	u64 addr;

	try(connect(0));
	try(reg(ALL));
	key = mr->rkey;
	addr = mr->iova;
	fill(0);
	memset(local, 1, MESSAGE);
	check(ib_map_mr_sg(mr, &sgl[1], 1, NULL, PAGE_SIZE) == 1, "map_mr_sg");
	mr->iova = IOVA;
	try(post_rdma(0, IB_WR_RDMA_WRITE, addr, MESSAGE, key));
	try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RDMA_WRITE));
	check(*byte_at(0) == 1, "nothing in the page that is registered");
	check(!*(u8 *)page_address(pages[1]), "written to the next page");
	try(post_inv(key));
	try(expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV));
	ib_update_fast_reg_key(mr, ib_inc_rkey(key));
	try(post_reg(mr, mr->rkey, ALL));
	try(expect(&to[0], IB_WC_SUCCESS, IB_WC_REG_MR));
	memset(local, 2, MESSAGE);
	try(post_rdma(0, IB_WR_RDMA_WRITE, IOVA, MESSAGE, mr->rkey));
	try(expect(&from[0], IB_WC_SUCCESS, IB_WC_RDMA_WRITE));
	check(*byte_at(0) == 1, "written to the page that was registered");
	check(*(u8 *)page_address(pages[1]) == 2, "nothing in the next page");
	try(post_inv(mr->rkey));
	return expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV);
}

/* The path of a connection is by the port of its queue pair, and by no other. */
static int other_port(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.path_mtu = IB_MTU_4096,
		.dest_qp_num = to[1].qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
	};

	try(ib_modify_qp(qp, &attr,
			 IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				 IB_QP_ACCESS_FLAGS));
	attr.qp_state = IB_QPS_RTR;
	attr.ah_attr.type = rdma_ah_find_type(qp->device, 1);
	rdma_ah_set_dlid(&attr.ah_attr, sides[1].port.lid);
	rdma_ah_set_port_num(&attr.ah_attr, 2);
	check(ib_modify_qp(qp, &attr,
			   IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
				   IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				   IB_QP_MAX_DEST_RD_ATOMIC |
				   IB_QP_MIN_RNR_TIMER) == -EINVAL,
	      "a path by another port");
	return 0;
}

/* A peer writes on while the memory is invalidated: nothing is written any more. */
static int races(void)
{
	u32 late = 0;

	try(other_port(from[1].qp));
	try(connect(0));
	for (u32 i = 0; i < RACES; i++) {
		struct ib_wc wc;
		bool failed = false;

		memset(local, 0xff, BYTES);
		try(connect(1));
		try(reg(ALL));
		fill(0);
		for (u32 j = 0; j < DEPTH / 2; j++)
			try(post_rdma(1, i % 2 ? IB_WR_RDMA_WRITE :
						 IB_WR_RDMA_READ,
				      mr->iova, BYTES, mr->rkey));
		if (i % 3)
			udelay(i * 2);
		try(post_inv(mr->rkey));
		try(expect(&to[0], IB_WC_SUCCESS, IB_WC_LOCAL_INV));
		/* It is ours again. */
		fill(0);
		for (u32 j = 0; j < DEPTH / 2; j++) {
			try(next(&from[1], &wc));
			check(wc.status == IB_WC_SUCCESS ||
				      wc.status == IB_WC_WR_FLUSH_ERR ||
				      wc.status == IB_WC_REM_ACCESS_ERR,
			      "race %u, WR %u: '%s'", i, j,
			      ib_wc_status_msg(wc.status));
			failed |= wc.status == IB_WC_REM_ACCESS_ERR;
		}
		late += failed;
		for (u32 j = 0; j < BYTES; j++)
			check(!*byte_at(j), "written after invalidation");
	}
	pr_info("%u of %u bursts were cut off\n", late, RACES);
	return 0;
}

static int setup(void)
{
	try(side_open(&sides[0], devices[0]));
	try(side_open(&sides[1], devices[1]));
	for (int i = 0; i < 2; i++) {
		try(end_create(&from[i], &sides[0]));
		try(end_create(&to[i], &sides[1]));
	}
	local = kmalloc(PAGES * PAGE_SIZE, GFP_KERNEL);
	message = kmalloc(MESSAGE, GFP_KERNEL);
	check(local && message, "out of memory");
	sg_init_table(sgl, PAGES);
	for (u32 i = 0; i < PAGES; i++) {
		u32 offset = i ? 0 : FIRST_OFFSET;
		u32 end = i == PAGES - 1 ? PAGE_SIZE - 100 : PAGE_SIZE;

		pages[i] = alloc_page(GFP_KERNEL);
		check(pages[i], "out of memory");
		sg_set_page(&sgl[i], pages[i], end - offset, offset);
	}
	check(ib_dma_map_sg(sides[1].device, sgl, PAGES, DMA_BIDIRECTIONAL) ==
		      PAGES,
	      "dma_map_sg");
	mr = ib_alloc_mr(sides[1].pd, IB_MR_TYPE_MEM_REG, PAGES);
	check(!IS_ERR(mr), "alloc_mr: %pe", mr);
	other_mr = ib_alloc_mr(sides[1].pd, IB_MR_TYPE_MEM_REG, 1);
	check(!IS_ERR(other_mr), "alloc_mr: %pe", other_mr);
	return 0;
}

static void teardown(void)
{
	for (int i = 0; i < 2; i++) {
		end_destroy(&from[i]);
		end_destroy(&to[i]);
	}
	if (!IS_ERR_OR_NULL(mr))
		ib_dereg_mr(mr);
	if (!IS_ERR_OR_NULL(other_mr))
		ib_dereg_mr(other_mr);
	side_close(&sides[0]);
	side_close(&sides[1]);
	for (u32 i = 0; i < PAGES; i++)
		if (pages[i])
			__free_page(pages[i]);
	kfree(local);
	kfree(message);
}

static int run(void)
{
	try(setup());
	try(accesses());
	try(refusals());
	try(mistakes());
	try(unfit());
	try(cycles());
	try(ahead());
	return races();
}

static int __init fastreg_init(void)
{
	int error = between_devices(run, teardown);

	if (!error)
		pr_info("%u cycles, %u races\n", CYCLES, RACES);
	return error;
}
module_init(fastreg_init);

MODULE_DESCRIPTION("Test of memory registration by work requests");
MODULE_LICENSE("GPL");
