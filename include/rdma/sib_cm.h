/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections of sib_cm, for other modules: as <rdma/ib_cm.h>, with alternate paths by LAP and APR.
 *
 * What orders and events carry are the structures of /dev/sib_cm; <uapi/rdma/sib_cm.h> explains them. Their members
 * `id`, `uid` and `listener` are of no meaning here.
 */
#ifndef _RDMA_SIB_CM_H
#define _RDMA_SIB_CM_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <uapi/rdma/sib_cm.h>

struct sib_cm_id;

/**
 * typedef sib_cm_handler - what a client is told
 * @cm_id: The identifier that the event is about.
 * @event: The event, lent for the call.
 *
 * Called by a worker, one call at a time for each identifier, in the order of the events; it may sleep. Calls for
 * different identifiers run at the same time.
 *
 * %SIB_CM_REQ_RECEIVED and %SIB_CM_SIDR_REQ_RECEIVED come with a new identifier, which has the handler and the context
 * of its listener. From when the handler has returned 0 it is the client's to destroy. No other event of it comes
 * before that, and until then destroying the listener waits for the call.
 *
 * A handler gives orders, but destroys no identifier by sib_cm_destroy_id().
 *
 * Return: 0, or anything else to have @cm_id destroyed, which must not be used any more.
 * Nobody waits for the end of such a call, but for that of a request, whose listener waits when it is destroyed. So a
 * module that can be unloaded returns 0 for all other events, and destroys the identifier elsewhere.
 */
typedef int (*sib_cm_handler)(struct sib_cm_id *cm_id,
			      const struct sib_cm_event *event);

/**
 * struct sib_cm_id - a listener, a connection, or a question for a queue pair
 * @cm_handler: Who is told of it.
 * @context: The client's own; it may be changed by the handler of the request that @cm_id came with.
 * @device: The HCA.
 */
struct sib_cm_id {
	sib_cm_handler cm_handler;
	void *context;
	struct ib_device *device;
	/* private: */
	void *core;
};

/**
 * sib_cm_create_id - make an identifier
 * @device: An HCA of sib, to which the client holds a reference, such as a client of ib_core between its add() and
 *	the end of its remove().
 * @cm_handler: Who is told of events.
 * @context: For the handler.
 *
 * When the HCA goes there is a last event %SIB_CM_REMOVED, if the identifier is in use; all orders then fail with
 * -%ENODEV, but for sib_cm_query(), and sib_cm_migrate(), which is one to the queue pair. It is still to be destroyed.
 *
 * Context: A task that may sleep.
 * Return: The identifier, which sib_cm_destroy_id() frees; or an ERR_PTR: -%ENODEV if this is no HCA of sib,
 * -%ENOMEM.
 */
struct sib_cm_id *sib_cm_create_id(struct ib_device *device,
				   sib_cm_handler cm_handler, void *context);

/**
 * sib_cm_destroy_id - end what is under way, and free an identifier
 * @cm_id: The identifier. Nobody else gives orders for it, but for its handler, whose orders are carried out as long as
 *	this waits for it.
 *
 * What is not complete is refused, and a connection is ended by DREQ; that goes on without the client. Returns when
 * no call of the handler for @cm_id is left, and there will be no more. Requests that a listener has got, and not
 * told of yet, are refused.
 *
 * Context: A task that may sleep; not a handler, and with no lock held that the handler takes.
 */
void sib_cm_destroy_id(struct sib_cm_id *cm_id);

/**
 * sib_cm_listen - wait for requests
 * @cm_id: An identifier that has had no other use.
 * @service_id: The service, in the order of the host.
 * @kind: Requests for connections, or questions for queue pairs.
 *
 * Context: A task that may sleep, as for all that follows.
 * Return: 0; -%EADDRINUSE if somebody else listens, on whichever HCA; -%EACCES for a service ID of rdma_cm, ib_cm or
 * SDP; -%EINVAL; -%ENOMEM.
 */
int sib_cm_listen(struct sib_cm_id *cm_id, u64 service_id,
		  enum sib_cm_kind kind);

/**
 * sib_cm_send_req - ask for a connection
 * @cm_id: An identifier that has had no other use, or whose connection is over.
 * @req: What to ask for. SIB_CM_REP_RECEIVED, SIB_CM_REJ_RECEIVED or SIB_CM_REQ_ERROR tells the answer.
 *
 * Return: 0; -%EINVAL if a member is out of its range, the paths do not begin at @cm_id's HCA, or the state is another;
 * -%ENOENT if their ports are not in the partition; -%ENOMEM.
 */
int sib_cm_send_req(struct sib_cm_id *cm_id, const struct sib_cm_send_req *req);

/**
 * sib_cm_send_rep - accept a request
 * @cm_id: The identifier that came with SIB_CM_REQ_RECEIVED.
 * @rep: The answer. The queue pair should be in RTR.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_send_rep(struct sib_cm_id *cm_id, const struct sib_cm_send_rep *rep);

/**
 * sib_cm_send_rtu - complete a connection
 * @cm_id: The identifier, told of SIB_CM_REP_RECEIVED.
 * @private_data: For the peer, or %NULL.
 * @private_data_len: Up to 224 bytes.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_send_rtu(struct sib_cm_id *cm_id, const void *private_data,
		    u8 private_data_len);

/**
 * sib_cm_send_rej - refuse a request or an answer
 * @cm_id: The identifier.
 * @rej: Why.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_send_rej(struct sib_cm_id *cm_id, const struct sib_cm_send_rej *rej);

/**
 * sib_cm_send_mra - ask the peer for patience with the answer to a REQ, REP or LAP
 * @cm_id: The identifier.
 * @mra: For how long. The peer is told of the code 21 at most, 8.6 s.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_send_mra(struct sib_cm_id *cm_id, const struct sib_cm_send_mra *mra);

/**
 * sib_cm_send_dreq - end a connection
 * @cm_id: The identifier.
 * @private_data: For the peer, or %NULL.
 * @private_data_len: Up to 220 bytes.
 *
 * SIB_CM_DREP_RECEIVED, SIB_CM_DREQ_ERROR or SIB_CM_REJ_RECEIVED follows, then SIB_CM_TIMEWAIT_EXIT. If the peer ends
 * the connection at the same time it is SIB_CM_DREQ_RECEIVED, and SIB_CM_TIMEWAIT_EXIT comes after sib_cm_send_drep()
 * alone.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_send_dreq(struct sib_cm_id *cm_id, const void *private_data,
		     u8 private_data_len);

/**
 * sib_cm_send_drep - agree to the end of a connection
 * @cm_id: The identifier, told of SIB_CM_DREQ_RECEIVED.
 * @private_data: For the peer, or %NULL.
 * @private_data_len: Up to 224 bytes.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_send_drep(struct sib_cm_id *cm_id, const void *private_data,
		     u8 private_data_len);

/**
 * sib_cm_send_lap - offer an alternate path
 * @cm_id: An established connection that this side has asked for.
 * @lap: The path.
 *
 * If it is 0 that is returned, there will be just one of SIB_CM_APR_RECEIVED and SIB_CM_LAP_ERROR.
 *
 * Return: 0; -%EINVAL if the path cannot be, its port is not in the partition, there is one, or the peer takes none, as
 * after two offers in a row without an answer; -%EBUSY while one is offered; -%EAGAIN as long as the peer has not been
 * heard on the path that the connection has gone over to.
 */
int sib_cm_send_lap(struct sib_cm_id *cm_id, const struct sib_cm_send_lap *lap);

/**
 * sib_cm_send_apr - answer the offer of an alternate path
 * @cm_id: The identifier, told of SIB_CM_LAP_RECEIVED.
 * @apr: The answer. A path is loaded before it is accepted.
 *
 * Return: 0; -%ESTALE if another offer waits for an answer, such as a newer one; -%EINVAL, also if none does: this one,
 * or a newer one, may have been answered without the client.
 */
int sib_cm_send_apr(struct sib_cm_id *cm_id, const struct sib_cm_send_apr *apr);

/**
 * sib_cm_send_sidr_req - ask for the queue pair of a service of datagrams
 * @cm_id: An identifier that has had no other use, or whose own question is over: SIB_CM_SIDR_REP_RECEIVED or
 *	SIB_CM_SIDR_REQ_ERROR tells that.
 * @req: The question.
 *
 * Return: 0; -%EBUSY while one is asked; -%ENOENT if the port that the path begins at is not in the partition;
 * -%EINVAL; -%ENOMEM.
 */
int sib_cm_send_sidr_req(struct sib_cm_id *cm_id,
			 const struct sib_cm_send_sidr_req *req);

/**
 * sib_cm_send_sidr_rep - answer such a question
 * @cm_id: The identifier that came with SIB_CM_SIDR_REQ_RECEIVED.
 * @rep: The answer.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_send_sidr_rep(struct sib_cm_id *cm_id,
			 const struct sib_cm_send_sidr_rep *rep);

/**
 * sib_cm_notify - tell what has become of the queue pair
 * @cm_id: The identifier.
 * @fact: What. HCAs of sib tell of migrations themselves.
 *
 * Return: 0, or -%EINVAL.
 */
int sib_cm_notify(struct sib_cm_id *cm_id, enum sib_cm_fact fact);

/**
 * sib_cm_init_qp_attr - what to set in the queue pair of a connection
 * @cm_id: The identifier.
 * @attr: Its member qp_state says what for: %IB_QPS_INIT, %IB_QPS_RTR or %IB_QPS_RTS. All else is returned. Once there
 *	has been a LAP, %IB_QPS_RTS stands for its alternate path, with %IB_MIG_REARM, if the queue pair has been there.
 * @attr_mask: Returned: for ib_modify_qp().
 *
 * Return: 0; -%EINVAL if that is not known yet, or the path does not begin at @cm_id's HCA any more; -%ENOENT if its
 * port is not in the partition.
 */
int sib_cm_init_qp_attr(struct sib_cm_id *cm_id, struct ib_qp_attr *attr,
			int *attr_mask);

/**
 * sib_cm_query - what there is to know of an identifier
 * @cm_id: The identifier.
 * @attr: Returned.
 *
 * Return: 0.
 */
int sib_cm_query(struct sib_cm_id *cm_id, struct sib_cm_attr_id *attr);

/**
 * sib_cm_load - load the alternate path of a LAP
 * @cm_id: The identifier, told of SIB_CM_LAP_RECEIVED, which is then accepted, or of SIB_CM_APR_RECEIVED with status 0.
 * @qp: Its queue pair, which nobody else modifies meanwhile.
 *
 * What sib_cm_init_qp_attr() says for %IB_QPS_RTS is given to ib_modify_qp().
 *
 * Return: 0; -%EINVAL if there has been no such path, or the queue pair does not take it; -%ENOENT if the port that the
 * path begins at is not in the partition; what else ib_modify_qp() returns.
 */
int sib_cm_load(struct sib_cm_id *cm_id, struct ib_qp *qp);

/**
 * sib_cm_migrate - go over to the alternate path
 * @cm_id: An established connection.
 * @qp: Its queue pair, which nobody else modifies meanwhile.
 *
 * Both sides are told, as after a failure: %IB_EVENT_PATH_MIG, and SIB_CM_MIGRATED.
 *
 * Return: 0; -%EINVAL if there is no alternate path, or the queue pair is not armed, since its peer has not been heard
 * after both have loaded the path.
 */
int sib_cm_migrate(struct sib_cm_id *cm_id, struct ib_qp *qp);

#endif
