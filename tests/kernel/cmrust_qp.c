// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs for cmrust: verbs have no abstraction in Rust.
 */

#include <linux/err.h>
#include <rdma/ib_verbs.h>

struct ib_qp *cmrust_create_qp(struct ib_device *device);
void cmrust_destroy_qp(struct ib_qp *qp);

/* A reliable one with a CQ and a PD of its own, or NULL. */
struct ib_qp *cmrust_create_qp(struct ib_device *device)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 4 };
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ib_pd *pd = ib_alloc_pd(device, 0);
	struct ib_cq *cq;
	struct ib_qp *qp;

	if (IS_ERR(pd))
		return NULL;
	cq = ib_create_cq(device, NULL, NULL, NULL, &cq_attr);
	if (IS_ERR(cq))
		goto dealloc;
	attr.send_cq = attr.recv_cq = cq;
	qp = ib_create_qp(pd, &attr);
	if (!IS_ERR(qp))
		return qp;
	ib_destroy_cq(cq);
dealloc:
	ib_dealloc_pd(pd);
	return NULL;
}

void cmrust_destroy_qp(struct ib_qp *qp)
{
	struct ib_pd *pd = qp->pd;
	struct ib_cq *cq = qp->send_cq;

	ib_destroy_qp(qp);
	ib_destroy_cq(cq);
	ib_dealloc_pd(pd);
}
