/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SIB_HELPERS_IB_H
#define SIB_HELPERS_IB_H

#include <rdma/ib_verbs.h>

struct rdma_link_ops;

struct ib_device *sib_helper_ib_alloc_device(size_t size);
bool sib_helper_ib_device_try_get(struct ib_device *device);
bool sib_helper_ib_device_registered(struct ib_device *device);
int sib_helper_ib_gid_tbl_len(const struct ib_device *device, u32 port);
bool sib_helper_ib_device_is_ours(const struct ib_device *device);
bool sib_helper_ib_device_is_accessible(struct ib_device *device);
bool sib_helper_ib_device_is_called(const struct ib_device *device,
				    const char *name, size_t len);
int sib_helper_rdma_link_register(struct rdma_link_ops *ops);
void sib_helper_ib_cq_flush(struct ib_cq *cq);
void sib_helper_ib_cq_cancel(struct ib_cq *cq);
struct ib_ucontext *sib_helper_ib_udata_context(struct ib_udata *udata);
int sib_helper_ib_is_udata_in_empty(struct ib_udata *udata);
struct nlattr *sib_helper_nest_start(struct sk_buff *msg);
void sib_helper_nest_end(struct sk_buff *msg, struct nlattr *nest, bool keep);
int sib_helper_ib_respond_empty_udata(struct ib_udata *udata);

#endif
