/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What clients of ib_core share: checks that end a test, and connections.
 */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include <rdma/ib_verbs.h>

#define CLIENT_ACCESS                                                          \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |                      \
	 IB_ACCESS_REMOTE_READ)

#define check(condition, format, ...)                                          \
	do {                                                                   \
		if (!(condition)) {                                            \
			pr_err("%s: line %d: " format "\n", __func__,          \
			       __LINE__, ##__VA_ARGS__);                       \
			return -EIO;                                           \
		}                                                              \
	} while (0)

#define try(call)                                                              \
	do {                                                                   \
		int try_error = (call);                                        \
		if (try_error) {                                               \
			pr_err("%s: line %d: %d\n", __func__, __LINE__,        \
			       try_error);                                     \
			return try_error;                                      \
		}                                                              \
	} while (0)

/* How patient a connection is. */
struct patience {
	u8 timeout;
	u8 retries;
	u8 rnr_retries;
	/* What the peer is asked to wait. */
	u8 min_rnr_timer;
};

/* Brings a queue pair from RESET to RTS; its peer is queue pair `qpn` at `dlid`. */
static inline int connect_qp(struct ib_qp *qp, u16 dlid, u32 qpn, u32 psn,
			     const struct patience *patience)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = CLIENT_ACCESS,
		.path_mtu = IB_MTU_4096,
		.dest_qp_num = qpn,
		.sq_psn = psn,
		.rq_psn = psn,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = patience->min_rnr_timer,
		.timeout = patience->timeout,
		.retry_cnt = patience->retries,
		.rnr_retry = patience->rnr_retries,
	};

	attr.ah_attr.type = rdma_ah_find_type(qp->device, 1);
	rdma_ah_set_dlid(&attr.ah_attr, dlid);
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	try(ib_modify_qp(qp, &attr,
			 IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				 IB_QP_ACCESS_FLAGS));
	attr.qp_state = IB_QPS_RTR;
	try(ib_modify_qp(qp, &attr,
			 IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
				 IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				 IB_QP_MAX_DEST_RD_ATOMIC |
				 IB_QP_MIN_RNR_TIMER));
	attr.qp_state = IB_QPS_RTS;
	try(ib_modify_qp(qp, &attr,
			 IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_TIMEOUT |
				 IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				 IB_QP_MAX_QP_RD_ATOMIC));
	return 0;
}

/* One step to a state that needs no attribute (RESET, ERR). */
static inline int qp_to(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

#endif
