// SPDX-License-Identifier: GPL-2.0

#include <linux/kernel.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include "layout.h"

/*
 * Sizes and offsets as the compiler of the kernel has them, in the order of rust/rdma/layout.rs, which has
 * them from libclang.
 */
static const size_t sib_layout[] = {
	sizeof(struct ib_device),
	offsetof(struct ib_device, ops),
	offsetof(struct ib_device, attrs),
	offsetof(struct ib_device, node_guid),
	offsetof(struct ib_device, phys_port_cnt),
	sizeof(struct ib_device_ops),
	offsetof(struct ib_device_ops, post_send),
	offsetof(struct ib_device_ops, process_mad),
	sizeof(struct ib_device_attr),
	sizeof(struct ib_port_attr),
	sizeof(struct ib_port_immutable),
	sizeof(struct ib_pd),
	sizeof(struct ib_ah),
	sizeof(struct ib_cq),
	sizeof(struct ib_qp),
	offsetof(struct ib_qp, qp_num),
	sizeof(struct ib_srq),
	sizeof(struct ib_mr),
	sizeof(struct ib_mw),
	sizeof(struct ib_ucontext),
	sizeof(struct ib_udata),
	sizeof(struct ib_umem),
	offsetof(struct ib_umem, sgt_append),
	sizeof(struct ib_send_wr),
	sizeof(struct ib_rdma_wr),
	sizeof(struct ib_atomic_wr),
	sizeof(struct ib_ud_wr),
	sizeof(struct ib_reg_wr),
	sizeof(struct ib_recv_wr),
	sizeof(struct ib_wc),
	sizeof(struct ib_sge),
	sizeof(struct ib_qp_attr),
	sizeof(struct ib_qp_init_attr),
	sizeof(struct rdma_ah_attr),
	sizeof(struct rdma_user_mmap_entry),
	sizeof(struct rxe_send_wqe),
	sizeof(struct rxe_recv_wqe),
	offsetof(struct rxe_queue_buf, data),
};

const size_t *sib_helper_layout(size_t *count)
{
	*count = ARRAY_SIZE(sib_layout);
	return sib_layout;
}
