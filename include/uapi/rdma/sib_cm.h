/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/sib_cm: connections of sib_cm, for programs.
 *
 * An identifier is a number that belongs to the open file. Each ioctl takes one structure. What is reserved, and
 * what lies beyond the length given, must be zero. LIDs, GUIDs and service IDs are in the order of the host, GIDs
 * are as on the wire. Times are codes: 4.096 us * 2^code.
 *
 * Private data are given with their length, which is at most what the message has room for: 92 bytes in REQ, 222 in
 * MRA, 148 in REJ and APR, 196 in REP, 224 in RTU and DREP, 220 in DREQ, 168 in LAP, 216 in SIDR_REQ, 136 in SIDR_REP.
 * The event of a message has all of that room, and its length, since no message tells how much of it the peer has
 * filled: the rest is zero.
 */
#ifndef SIB_CM_H
#define SIB_CM_H

#include <linux/ioctl.h>
#include <linux/types.h>
#include <rdma/ib_user_verbs.h>

/* A path as its local end sees it. */
struct sib_cm_path {
	__u8 local_gid[16];
	__u8 remote_gid[16];
	__u16 local_lid;
	__u16 remote_lid;
	__u32 flow_label;
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 rate;
	__u8 sl;
	/* 1: packets need no global route header. */
	__u8 subnet_local;
	__u8 ack_timeout;
	__u8 reserved[2];
};

/*
 * A new identifier, for the HCA with this node GUID, which the network namespace of the caller
 * has to see. `uid` comes back with its events.
 */
struct sib_cm_create_id {
	__u64 uid;
	__u64 guid;
	/* 0, and returned. */
	__u32 id;
	__u32 reserved;
};

/*
 * DESTROY_ID: ends what is under way. No event of the identifier comes afterwards. What peers have
 * asked a listener for is refused, unless that was read already.
 */
struct sib_cm_destroy_id {
	__u32 id;
	__u32 reserved;
};

enum sib_cm_state {
	SIB_CM_IDLE,
	SIB_CM_LISTEN,
	SIB_CM_CONNECTING,
	SIB_CM_ESTABLISHED,
	SIB_CM_DISCONNECTING,
	SIB_CM_TIMEWAIT,
	/* A question for a queue pair, here or at the peer. */
	SIB_CM_RESOLVING,
};

/* ATTR_ID: what there is to know. All but the identifier is returned. */
struct sib_cm_attr_id {
	__u32 id;
	/* One of enum sib_cm_state. */
	__u32 state;
	__u64 service_id;
	__u32 local_comm_id;
	__u32 remote_comm_id;
	__u32 remote_qpn;
	__u32 has_alternate;
	struct sib_cm_path primary;
	struct sib_cm_path alternate;
};

enum sib_cm_kind {
	/* REQ. */
	SIB_CM_CONNECTIONS,
	/* SIDR_REQ: which queue pair serves datagrams of the service? */
	SIB_CM_DATAGRAMS,
};

/*
 * LISTEN: EADDRINUSE if somebody does, on whichever HCA; EACCES for a service ID of rdma_cm or SDP, or one that ib_cm
 * gives away (whose first byte is 2, but for 0x02ff).
 */
struct sib_cm_listen {
	__u64 service_id;
	__u32 id;
	/* One of enum sib_cm_kind. */
	__u32 kind;
};

struct sib_cm_send_req {
	__u64 service_id;
	__u32 id;
	__u32 qpn;
	__u32 starting_psn;
	__u16 pkey;
	/* 0: RC, 1: UC. */
	__u8 service_type;
	/* As in enum ibv_mtu. */
	__u8 path_mtu;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 remote_response_timeout;
	__u8 local_response_timeout;
	__u8 retry_count;
	__u8 rnr_retry_count;
	__u8 max_cm_retries;
	__u8 flow_control;
	__u8 srq;
	__u8 has_alternate;
	__u8 private_data_len;
	__u8 reserved[5];
	struct sib_cm_path primary;
	struct sib_cm_path alternate;
	__u8 private_data[96];
};

struct sib_cm_send_rep {
	__u32 id;
	__u32 qpn;
	__u32 starting_psn;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 target_ack_delay;
	/* 0: yes, 1: alternate paths are not supported, 2: not this one. */
	__u8 failover_accepted;
	__u8 flow_control;
	__u8 rnr_retry_count;
	__u8 srq;
	__u8 private_data_len;
	__u8 reserved[4];
	__u8 private_data[200];
};

/* SEND_RTU, SEND_DREQ, SEND_DREP. */
struct sib_cm_send {
	__u32 id;
	__u32 private_data_len;
	__u8 private_data[224];
};

struct sib_cm_send_rej {
	__u32 id;
	__u16 reason;
	__u8 info_len;
	__u8 private_data_len;
	__u8 info[72];
	__u8 private_data[152];
};

struct sib_cm_send_mra {
	__u32 id;
	__u8 service_timeout;
	__u8 private_data_len;
	__u8 reserved[2];
	__u8 private_data[224];
};

/* SEND_LAP: offers an alternate path. */
struct sib_cm_send_lap {
	__u32 id;
	__u8 response_timeout;
	__u8 retries;
	__u8 private_data_len;
	__u8 reserved;
	struct sib_cm_path path;
	__u8 private_data[168];
};

/*
 * SEND_APR: answers the LAP of this generation; ESTALE if another one waits for an answer, EINVAL if none does: the
 * manager may have answered this one, or a newer one, by itself.
 */
struct sib_cm_send_apr {
	__u32 id;
	__u32 generation;
	__u8 status;
	__u8 info_len;
	__u8 private_data_len;
	__u8 reserved[5];
	__u8 info[72];
	__u8 private_data[152];
};

/* SEND_SIDR_REQ: asks for the queue pair that serves datagrams of a service. */
struct sib_cm_send_sidr_req {
	__u64 service_id;
	__u32 id;
	__u16 pkey;
	__u8 response_timeout;
	__u8 retries;
	__u8 private_data_len;
	__u8 reserved[7];
	struct sib_cm_path path;
	__u8 private_data[216];
};

enum sib_cm_sidr_status {
	SIB_CM_SIDR_VALID,
	SIB_CM_SIDR_UNSUPPORTED,
	SIB_CM_SIDR_REJECTED,
	SIB_CM_SIDR_NO_QP,
	SIB_CM_SIDR_REDIRECT,
	SIB_CM_SIDR_UNSUPPORTED_VERSION,
};

/* SEND_SIDR_REP: the answer. Queue pair and Q_Key are told if the status is SIB_CM_SIDR_VALID. */
struct sib_cm_send_sidr_rep {
	__u32 id;
	__u32 qpn;
	__u32 qkey;
	/* One of enum sib_cm_sidr_status. */
	__u8 status;
	__u8 info_len;
	__u8 private_data_len;
	__u8 reserved;
	__u8 info[72];
	__u8 private_data[136];
};

/*
 * INIT_QP_ATTR: what to set in the queue pair of a connection for it to go to attr.qp_state: 1 (INIT), 2 (RTR) or
 * 3 (RTS), as in enum ibv_qp_state. All else of `attr` must be 0, and is returned; qp_attr_mask says what counts.
 * EINVAL if that is not known yet, or the path does not begin here any more; ENOENT if its port is not in the
 * partition. If there has been a LAP, 3 stands for the alternate path of it, with REARM: before SEND_APR, and after
 * APR_RECEIVED; but not before the queue pair has been in RTS.
 */
struct sib_cm_init_qp_attr {
	__u32 id;
	__u32 reserved;
	struct ib_uverbs_qp_attr attr;
};

enum sib_cm_fact {
	/* The queue pair has heard its peer: IBV_EVENT_COMM_EST. */
	SIB_CM_COMM_EST,
	/* The queue pair has gone over to the alternate path: IBV_EVENT_PATH_MIG. Nothing new if MIGRATED was told, or the
	 * queue pair is on the path that the connection has.
	 */
	SIB_CM_PATH_MIG,
	/* The peer has followed to the path that the queue pair has gone over to. Devices of sib tell that by themselves when
	 * they hear it; the sender of UC may never, and its program knows alone.
	 */
	SIB_CM_PATH_CONFIRMED,
	/* The path of an APR has not been loaded into the queue pair after all. */
	SIB_CM_PATH_UNLOADED,
};

/* NOTIFY: tells of a queue pair. */
struct sib_cm_notify {
	__u32 id;
	/* One of enum sib_cm_fact. */
	__u32 fact;
};

enum sib_cm_event_type {
	SIB_CM_REQ_RECEIVED,
	SIB_CM_REP_RECEIVED,
	SIB_CM_RTU_RECEIVED,
	SIB_CM_MRA_RECEIVED,
	SIB_CM_REJ_RECEIVED,
	SIB_CM_DREQ_RECEIVED,
	SIB_CM_DREP_RECEIVED,
	/* status 0: the peer is silent; 10: it has answered with a queue pair that has another connection here. */
	SIB_CM_REQ_ERROR,
	SIB_CM_REP_ERROR,
	SIB_CM_DREQ_ERROR,
	SIB_CM_TIMEWAIT_EXIT,
	SIB_CM_EV_ESTABLISHED,
	SIB_CM_LAP_RECEIVED,
	SIB_CM_APR_RECEIVED,
	/* status 0: the peer is silent; 1: the connection ends. */
	SIB_CM_LAP_ERROR,
	SIB_CM_MIGRATED,
	SIB_CM_REMOVED,
	SIB_CM_SIDR_REQ_RECEIVED,
	SIB_CM_SIDR_REP_RECEIVED,
	/* The peer is silent. */
	SIB_CM_SIDR_REQ_ERROR,
	/* The peer does not know the connection any more, which ends: a DREQ has been sent. */
	SIB_CM_STALE,
};

/* GET_EVENT: waits for one, unless the file is O_NONBLOCK (EAGAIN). All is returned; what an event has not is 0. */
struct sib_cm_event {
	__u64 uid;
	__u32 id;
	/* One of enum sib_cm_event_type. */
	__u32 type;
	/* REQ_RECEIVED, SIDR_REQ_RECEIVED: the listener, and `id` is new. */
	__u32 listener;
	/* REJ: the reason. APR, SIDR_REP: the status. MRA: the service timeout. */
	__u32 status;
	/* LAP_RECEIVED: for SEND_APR. */
	__u32 generation;
	/* REQ, REP and SIDR_REP: of the peer. */
	__u32 qpn;
	union {
		__u32 starting_psn;
		/* SIDR_REP. */
		__u32 qkey;
	};
	__u16 pkey;
	__u8 service_type;
	__u8 path_mtu;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 retry_count;
	__u8 rnr_retry_count;
	__u8 target_ack_delay;
	__u8 failover_accepted;
	__u8 flow_control;
	__u8 srq;
	__u8 local_response_timeout;
	__u8 remote_response_timeout;
	__u8 has_alternate;
	__u8 info_len;
	__u8 private_data_len;
	__u8 reserved[3];
	/* REQ. SIDR_REQ: the remote end is where it has come from, and all else is 0. */
	struct sib_cm_path primary;
	/* REQ; LAP, APR and MIGRATED: the path that it is about. */
	struct sib_cm_path alternate;
	__u8 info[72];
	__u8 private_data[224];
};

#define SIB_CM_IOC_MAGIC 0xcb
#define SIB_CM_IOC_CREATE_ID _IOWR(SIB_CM_IOC_MAGIC, 0, struct sib_cm_create_id)
#define SIB_CM_IOC_DESTROY_ID _IOW(SIB_CM_IOC_MAGIC, 1, struct sib_cm_destroy_id)
#define SIB_CM_IOC_ATTR_ID _IOWR(SIB_CM_IOC_MAGIC, 2, struct sib_cm_attr_id)
#define SIB_CM_IOC_LISTEN _IOW(SIB_CM_IOC_MAGIC, 3, struct sib_cm_listen)
#define SIB_CM_IOC_NOTIFY _IOW(SIB_CM_IOC_MAGIC, 4, struct sib_cm_notify)
#define SIB_CM_IOC_SEND_REQ _IOW(SIB_CM_IOC_MAGIC, 5, struct sib_cm_send_req)
#define SIB_CM_IOC_SEND_REP _IOW(SIB_CM_IOC_MAGIC, 6, struct sib_cm_send_rep)
#define SIB_CM_IOC_SEND_RTU _IOW(SIB_CM_IOC_MAGIC, 7, struct sib_cm_send)
#define SIB_CM_IOC_SEND_REJ _IOW(SIB_CM_IOC_MAGIC, 8, struct sib_cm_send_rej)
#define SIB_CM_IOC_SEND_MRA _IOW(SIB_CM_IOC_MAGIC, 9, struct sib_cm_send_mra)
#define SIB_CM_IOC_SEND_DREQ _IOW(SIB_CM_IOC_MAGIC, 10, struct sib_cm_send)
#define SIB_CM_IOC_SEND_DREP _IOW(SIB_CM_IOC_MAGIC, 11, struct sib_cm_send)
#define SIB_CM_IOC_SEND_LAP _IOW(SIB_CM_IOC_MAGIC, 12, struct sib_cm_send_lap)
#define SIB_CM_IOC_SEND_APR _IOW(SIB_CM_IOC_MAGIC, 13, struct sib_cm_send_apr)
#define SIB_CM_IOC_GET_EVENT _IOR(SIB_CM_IOC_MAGIC, 14, struct sib_cm_event)
#define SIB_CM_IOC_SEND_SIDR_REQ _IOW(SIB_CM_IOC_MAGIC, 15, struct sib_cm_send_sidr_req)
#define SIB_CM_IOC_SEND_SIDR_REP _IOW(SIB_CM_IOC_MAGIC, 16, struct sib_cm_send_sidr_rep)
#define SIB_CM_IOC_INIT_QP_ATTR _IOWR(SIB_CM_IOC_MAGIC, 17, struct sib_cm_init_qp_attr)

#endif
