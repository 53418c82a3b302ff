// SPDX-License-Identifier: GPL-2.0
/*
 * include/rdma/sib_cm.h, in terms of the orders of /dev/sib_cm.
 */

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/string.h>
#include <rdma/sib_cm.h>

#include "build_generated.h"
#include "cm.h"

extern int SIB_BUILD;
static int *const sib_of_this_build __used = &SIB_BUILD;

/* Set before a client can be loaded, and while there is one. */
static const struct sib_cm_core *core;

int sib_cm_set_core(const struct sib_cm_core *it)
{
	return cmpxchg(&core, NULL, it) ? -EBUSY : 0;
}

/* Whether it is no more set: clients may be loaded while this module is neither being loaded nor being removed. */
bool sib_cm_clear_core(void)
{
	if (READ_ONCE(THIS_MODULE->state) == MODULE_STATE_LIVE)
		return false;
	core = NULL;
	return true;
}

static int command(struct sib_cm_id *cm_id, unsigned int number,
		   const void *arg)
{
	might_sleep();
	return core->command(cm_id, number, (void *)arg);
}

struct sib_cm_id *sib_cm_create_id(struct ib_device *device,
				   sib_cm_handler cm_handler, void *context)
{
	const struct sib_cm_id template = {
		.cm_handler = cm_handler,
		.context = context,
		.device = device,
	};

	might_sleep();
	return core->create(core->shared, be64_to_cpu(device->node_guid),
			    &template);
}
EXPORT_SYMBOL_GPL(sib_cm_create_id);

void sib_cm_destroy_id(struct sib_cm_id *cm_id)
{
	might_sleep();
	core->destroy(cm_id);
}
EXPORT_SYMBOL_GPL(sib_cm_destroy_id);

int sib_cm_listen(struct sib_cm_id *cm_id, u64 service_id,
		  enum sib_cm_kind kind)
{
	const struct sib_cm_listen listen = {
		.service_id = service_id,
		.kind = kind,
	};

	return command(cm_id, SIB_CM_IOC_LISTEN, &listen);
}
EXPORT_SYMBOL_GPL(sib_cm_listen);

int sib_cm_send_req(struct sib_cm_id *cm_id, const struct sib_cm_send_req *req)
{
	return command(cm_id, SIB_CM_IOC_SEND_REQ, req);
}
EXPORT_SYMBOL_GPL(sib_cm_send_req);

int sib_cm_send_rep(struct sib_cm_id *cm_id, const struct sib_cm_send_rep *rep)
{
	return command(cm_id, SIB_CM_IOC_SEND_REP, rep);
}
EXPORT_SYMBOL_GPL(sib_cm_send_rep);

/* A message that has private data alone. */
static int send_private(struct sib_cm_id *cm_id, unsigned int number,
			const void *private_data, u8 private_data_len)
{
	struct sib_cm_send send = { .private_data_len = private_data_len };

	if (private_data_len > sizeof(send.private_data))
		return -EINVAL;
	if (private_data_len)
		memcpy(send.private_data, private_data, private_data_len);
	return command(cm_id, number, &send);
}

int sib_cm_send_rtu(struct sib_cm_id *cm_id, const void *private_data,
		    u8 private_data_len)
{
	return send_private(cm_id, SIB_CM_IOC_SEND_RTU, private_data,
			    private_data_len);
}
EXPORT_SYMBOL_GPL(sib_cm_send_rtu);

int sib_cm_send_rej(struct sib_cm_id *cm_id, const struct sib_cm_send_rej *rej)
{
	return command(cm_id, SIB_CM_IOC_SEND_REJ, rej);
}
EXPORT_SYMBOL_GPL(sib_cm_send_rej);

int sib_cm_send_mra(struct sib_cm_id *cm_id, const struct sib_cm_send_mra *mra)
{
	return command(cm_id, SIB_CM_IOC_SEND_MRA, mra);
}
EXPORT_SYMBOL_GPL(sib_cm_send_mra);

int sib_cm_send_dreq(struct sib_cm_id *cm_id, const void *private_data,
		     u8 private_data_len)
{
	return send_private(cm_id, SIB_CM_IOC_SEND_DREQ, private_data,
			    private_data_len);
}
EXPORT_SYMBOL_GPL(sib_cm_send_dreq);

int sib_cm_send_drep(struct sib_cm_id *cm_id, const void *private_data,
		     u8 private_data_len)
{
	return send_private(cm_id, SIB_CM_IOC_SEND_DREP, private_data,
			    private_data_len);
}
EXPORT_SYMBOL_GPL(sib_cm_send_drep);

int sib_cm_send_lap(struct sib_cm_id *cm_id, const struct sib_cm_send_lap *lap)
{
	return command(cm_id, SIB_CM_IOC_SEND_LAP, lap);
}
EXPORT_SYMBOL_GPL(sib_cm_send_lap);

int sib_cm_send_apr(struct sib_cm_id *cm_id, const struct sib_cm_send_apr *apr)
{
	return command(cm_id, SIB_CM_IOC_SEND_APR, apr);
}
EXPORT_SYMBOL_GPL(sib_cm_send_apr);

int sib_cm_send_sidr_req(struct sib_cm_id *cm_id,
			 const struct sib_cm_send_sidr_req *req)
{
	return command(cm_id, SIB_CM_IOC_SEND_SIDR_REQ, req);
}
EXPORT_SYMBOL_GPL(sib_cm_send_sidr_req);

int sib_cm_send_sidr_rep(struct sib_cm_id *cm_id,
			 const struct sib_cm_send_sidr_rep *rep)
{
	return command(cm_id, SIB_CM_IOC_SEND_SIDR_REP, rep);
}
EXPORT_SYMBOL_GPL(sib_cm_send_sidr_rep);

int sib_cm_notify(struct sib_cm_id *cm_id, enum sib_cm_fact fact)
{
	const struct sib_cm_notify notify = { .fact = fact };

	return command(cm_id, SIB_CM_IOC_NOTIFY, &notify);
}
EXPORT_SYMBOL_GPL(sib_cm_notify);

static void set_ah(struct rdma_ah_attr *to, struct ib_device *device,
		   const struct ib_uverbs_ah_attr *from)
{
	union ib_gid dgid;

	to->type = rdma_ah_find_type(device, from->port_num);
	rdma_ah_set_port_num(to, from->port_num);
	rdma_ah_set_dlid(to, from->dlid);
	rdma_ah_set_sl(to, from->sl);
	rdma_ah_set_path_bits(to, from->src_path_bits);
	rdma_ah_set_static_rate(to, from->static_rate);
	if (from->is_global) {
		memcpy(dgid.raw, from->grh.dgid, sizeof(dgid.raw));
		rdma_ah_set_grh(to, &dgid, from->grh.flow_label,
				from->grh.sgid_index, from->grh.hop_limit,
				from->grh.traffic_class);
	}
}

int sib_cm_init_qp_attr(struct sib_cm_id *cm_id, struct ib_qp_attr *attr,
			int *attr_mask)
{
	struct sib_cm_init_qp_attr it = { .attr.qp_state = attr->qp_state };
	const struct ib_uverbs_qp_attr *from = &it.attr;
	int err = command(cm_id, SIB_CM_IOC_INIT_QP_ATTR, &it);

	if (err)
		return err;
	*attr = (struct ib_qp_attr){
		.qp_state = from->qp_state,
		.path_mtu = from->path_mtu,
		.path_mig_state = from->path_mig_state,
		.rq_psn = from->rq_psn,
		.sq_psn = from->sq_psn,
		.dest_qp_num = from->dest_qp_num,
		.qp_access_flags = from->qp_access_flags,
		.pkey_index = from->pkey_index,
		.alt_pkey_index = from->alt_pkey_index,
		.max_rd_atomic = from->max_rd_atomic,
		.max_dest_rd_atomic = from->max_dest_rd_atomic,
		.min_rnr_timer = from->min_rnr_timer,
		.port_num = from->port_num,
		.timeout = from->timeout,
		.retry_cnt = from->retry_cnt,
		.rnr_retry = from->rnr_retry,
		.alt_port_num = from->alt_port_num,
		.alt_timeout = from->alt_timeout,
	};
	*attr_mask = from->qp_attr_mask;
	if (*attr_mask & IB_QP_AV)
		set_ah(&attr->ah_attr, cm_id->device, &from->ah_attr);
	if (*attr_mask & IB_QP_ALT_PATH)
		set_ah(&attr->alt_ah_attr, cm_id->device, &from->alt_ah_attr);
	return 0;
}
EXPORT_SYMBOL_GPL(sib_cm_init_qp_attr);

int sib_cm_query(struct sib_cm_id *cm_id, struct sib_cm_attr_id *attr)
{
	return command(cm_id, SIB_CM_IOC_ATTR_ID, attr);
}
EXPORT_SYMBOL_GPL(sib_cm_query);

int sib_cm_load(struct sib_cm_id *cm_id, struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS };
	int attr_mask;
	int err = sib_cm_init_qp_attr(cm_id, &attr, &attr_mask);

	if (err)
		return err;
	if (!(attr_mask & IB_QP_ALT_PATH))
		return -EINVAL;
	return ib_modify_qp(qp, &attr, attr_mask);
}
EXPORT_SYMBOL_GPL(sib_cm_load);

int sib_cm_migrate(struct sib_cm_id *cm_id, struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .path_mig_state = IB_MIG_MIGRATED };
	struct sib_cm_attr_id known;
	int err = sib_cm_query(cm_id, &known);

	if (err)
		return err;
	if (!known.has_alternate)
		return -EINVAL;
	return ib_modify_qp(qp, &attr, IB_QP_PATH_MIG_STATE);
}
EXPORT_SYMBOL_GPL(sib_cm_migrate);
