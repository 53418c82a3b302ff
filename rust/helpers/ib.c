// SPDX-License-Identifier: GPL-2.0

#include <linux/build_bug.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

#include "ib.h"

struct ib_device *sib_helper_ib_alloc_device(size_t size)
{
	return _ib_alloc_device(size, &init_net);
}

bool sib_helper_ib_device_try_get(struct ib_device *device)
{
	return ib_device_try_get(device);
}

/* Also while it is moved to another network namespace, when nobody can get a reference to it. */
bool sib_helper_ib_device_registered(struct ib_device *device)
{
	return device_is_registered(&device->dev);
}

/* So many entries ib_core has room for. The port is one of the device, whose registration has begun. */
int sib_helper_ib_gid_tbl_len(const struct ib_device *device, u32 port)
{
	return device->port_data[port].immutable.gid_tbl_len;
}

/* ib_core warns if there is such a type of links, and does no more. */
int sib_helper_rdma_link_register(struct rdma_link_ops *ops)
{
	INIT_LIST_HEAD(&ops->list);
	rdma_link_register(ops);
	return list_empty(&ops->list) ? -EEXIST : 0;
}

bool sib_helper_ib_device_is_ours(const struct ib_device *device)
{
	return device->ops.owner == THIS_MODULE;
}

/* To the running task, by its network namespace. A task that exits has none. */
bool sib_helper_ib_device_is_accessible(struct ib_device *device)
{
	struct nsproxy *nsproxy = current->nsproxy;

	return nsproxy && rdma_dev_access_netns(device, nsproxy->net_ns);
}

/* A device that is renamed meanwhile may be taken for another, as if asked before or after. */
bool sib_helper_ib_device_is_called(const struct ib_device *device,
				    const char *name, size_t len)
{
	char own[IB_DEVICE_NAME_MAX];

	strscpy(own, device->name, sizeof(own));
	return len == strlen(own) && !memcmp(own, name, len);
}

/* Whether a worker handles the completions of a client in the kernel. */
static bool polled_by_work(const struct ib_cq *cq)
{
	return cq->poll_ctx == IB_POLL_WORKQUEUE ||
	       cq->poll_ctx == IB_POLL_UNBOUND_WORKQUEUE;
}

/* Waits for the worker that handles the completions of a client in the kernel, if it has one. */
void sib_helper_ib_cq_flush(struct ib_cq *cq)
{
	if (polled_by_work(cq))
		flush_work(&cq->work);
}

/* Has that worker have nothing to do any more. */
void sib_helper_ib_cq_cancel(struct ib_cq *cq)
{
	if (polled_by_work(cq))
		cancel_work_sync(&cq->work);
}

struct ib_ucontext *sib_helper_ib_udata_context(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

int sib_helper_ib_is_udata_in_empty(struct ib_udata *udata)
{
	return ib_is_udata_in_empty(udata);
}

int sib_helper_ib_respond_empty_udata(struct ib_udata *udata)
{
	return ib_respond_empty_udata(udata);
}

struct nlattr *sib_helper_nest_start(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

void sib_helper_nest_end(struct sk_buff *msg, struct nlattr *nest, bool keep)
{
	if (keep)
		nla_nest_end(msg, nest);
	else
		nla_nest_cancel(msg, nest);
}

/* The layouts of rust/rdma/ib/abi, as the compiler of the kernel sees them. */
static_assert(sizeof(struct mminfo) == 16);
static_assert(sizeof(struct rxe_create_cq_resp) == 16);
static_assert(sizeof(struct rxe_resize_cq_resp) == 16);
static_assert(sizeof(struct rxe_create_qp_resp) == 32);
static_assert(sizeof(struct rxe_create_srq_resp) == 24);
static_assert(sizeof(struct rxe_create_ah_resp) == 8);
static_assert(sizeof(struct rxe_modify_srq_cmd) == 8);
static_assert(sizeof(struct rxe_sge) == 16);
static_assert(sizeof(struct rxe_dma_info) == 24);
static_assert(sizeof(struct rxe_recv_wqe) == 40);
static_assert(offsetof(struct rxe_recv_wqe, dma) == 16);
static_assert(sizeof(struct rxe_send_wqe) == 208);
static_assert(offsetof(struct rxe_send_wqe, dma) == 184);
static_assert(offsetof(struct rxe_send_wr, opcode) == 12);
static_assert(offsetof(struct rxe_send_wr, ex) == 20);
static_assert(offsetof(struct rxe_send_wr, wr.rdma.rkey) == 32);
static_assert(offsetof(struct rxe_send_wr, wr.atomic.rkey) == 48);
static_assert(offsetof(struct rxe_send_wr, wr.flush.type) == 40);
static_assert(offsetof(struct rxe_send_wr, wr.ud.pkey_index) == 32);
static_assert(offsetof(struct rxe_send_wr, wr.ud.ah_num) == 36);
static_assert(offsetof(struct rxe_send_wr, wr.mw.access) == 52);
static_assert(sizeof(struct ib_uverbs_wc) == 48);
static_assert(offsetof(struct ib_uverbs_wc, slid) == 42);
static_assert(sizeof(struct ib_sge) == 16);
