// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).

use super::flags::{
    c_enum,
    flag_set, //
};
use super::{
    AccessFlags,
    AhAttr,
    Mtu, //
};
use sib_bindings as bindings;

c_enum! {
    /// The type of a queue pair.
    pub enum QpType(u32) {
        /// QP0, subnet management.
        Smi = bindings::ib_qp_type_IB_QPT_SMI,
        /// QP1, general services.
        Gsi = bindings::ib_qp_type_IB_QPT_GSI,
        /// Reliable connection.
        Rc = bindings::ib_qp_type_IB_QPT_RC,
        /// Unreliable connection.
        Uc = bindings::ib_qp_type_IB_QPT_UC,
        /// Unreliable datagram.
        Ud = bindings::ib_qp_type_IB_QPT_UD,
    }
}

c_enum! {
    /// The state of a queue pair. IBA, "Queue Pair and EE Context States".
    pub enum QpState(u32) {
        /// Reset.
        Reset = bindings::ib_qp_state_IB_QPS_RESET,
        /// Initialized.
        Init = bindings::ib_qp_state_IB_QPS_INIT,
        /// Ready to receive.
        Rtr = bindings::ib_qp_state_IB_QPS_RTR,
        /// Ready to send.
        Rts = bindings::ib_qp_state_IB_QPS_RTS,
        /// Send queue drain.
        Sqd = bindings::ib_qp_state_IB_QPS_SQD,
        /// Send queue error.
        Sqe = bindings::ib_qp_state_IB_QPS_SQE,
        /// Error.
        Err = bindings::ib_qp_state_IB_QPS_ERR,
    }
}

c_enum! {
    /// The state of path migration. IBA, "Automatic Path Migration".
    pub enum MigState(u32) {
        /// The path in use is the primary one, and there is no other.
        Migrated = bindings::ib_mig_state_IB_MIG_MIGRATED,
        /// A new alternate path waits for the peer.
        Rearm = bindings::ib_mig_state_IB_MIG_REARM,
        /// Either side may migrate.
        Armed = bindings::ib_mig_state_IB_MIG_ARMED,
    }
}

flag_set! {
    /// Which members of [`QpAttr`] are meant.
    pub struct QpAttrMask(u32) {
        /// `state`.
        STATE = bindings::ib_qp_attr_mask_IB_QP_STATE,
        /// `cur_state`.
        CUR_STATE = bindings::ib_qp_attr_mask_IB_QP_CUR_STATE,
        /// `sqd_async_notify`.
        EN_SQD_ASYNC_NOTIFY = bindings::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY,
        /// `access`.
        ACCESS_FLAGS = bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS,
        /// `pkey_index`.
        PKEY_INDEX = bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX,
        /// `port`.
        PORT = bindings::ib_qp_attr_mask_IB_QP_PORT,
        /// `qkey`.
        QKEY = bindings::ib_qp_attr_mask_IB_QP_QKEY,
        /// `ah`.
        AV = bindings::ib_qp_attr_mask_IB_QP_AV,
        /// `path_mtu`.
        PATH_MTU = bindings::ib_qp_attr_mask_IB_QP_PATH_MTU,
        /// `timeout`.
        TIMEOUT = bindings::ib_qp_attr_mask_IB_QP_TIMEOUT,
        /// `retry_cnt`.
        RETRY_CNT = bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT,
        /// `rnr_retry`.
        RNR_RETRY = bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY,
        /// `rq_psn`.
        RQ_PSN = bindings::ib_qp_attr_mask_IB_QP_RQ_PSN,
        /// `max_rd_atomic`.
        MAX_RD_ATOMIC = bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC,
        /// `alt_ah`, `alt_pkey_index`, `alt_port` and `alt_timeout`.
        ALT_PATH = bindings::ib_qp_attr_mask_IB_QP_ALT_PATH,
        /// `min_rnr_timer`.
        MIN_RNR_TIMER = bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
        /// `sq_psn`.
        SQ_PSN = bindings::ib_qp_attr_mask_IB_QP_SQ_PSN,
        /// `max_dest_rd_atomic`.
        MAX_DEST_RD_ATOMIC = bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC,
        /// `mig_state`.
        PATH_MIG_STATE = bindings::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE,
        /// `cap`.
        CAP = bindings::ib_qp_attr_mask_IB_QP_CAP,
        /// `dest_qpn`.
        DEST_QPN = bindings::ib_qp_attr_mask_IB_QP_DEST_QPN,
    }
}

/// The sizes of the queues of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCap {
    /// Work requests of the send queue.
    pub max_send_wr: u32,
    /// Work requests of the receive queue.
    pub max_recv_wr: u32,
    /// Gather entries of a send.
    pub max_send_sge: u32,
    /// Scatter entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes of inline data of a send.
    pub max_inline_data: u32,
}

/// The attributes of a queue pair.
///
/// In `modify_qp` only the members that the mask names are meaningful.
#[derive(Clone, Debug)]
pub struct QpAttr {
    /// The state to enter, or the state it is in.
    pub state: QpState,
    /// The state that the caller believes it to be in.
    pub cur_state: QpState,
    /// The MTU of the path.
    pub path_mtu: Mtu,
    /// The state of path migration.
    pub mig_state: MigState,
    /// The Q_Key.
    pub qkey: u32,
    /// The first PSN expected, 24 bits.
    pub rq_psn: u32,
    /// The first PSN sent, 24 bits.
    pub sq_psn: u32,
    /// The QP number of the peer, 24 bits.
    pub dest_qpn: u32,
    /// What the peer may do.
    pub access: AccessFlags,
    /// The sizes of the queues.
    pub cap: QpCap,
    /// The primary path.
    pub ah: AhAttr,
    /// The alternate path.
    pub alt_ah: AhAttr,
    /// The index of the P_Key in the port's table.
    pub pkey_index: u16,
    /// The same for the alternate path.
    pub alt_pkey_index: u16,
    /// Tell by an event when the send queue is drained.
    pub sqd_async_notify: bool,
    /// The send queue is draining; answered by `query_qp` alone.
    pub sq_draining: bool,
    /// RDMA READs and atomics to have outstanding, as requester.
    pub max_rd_atomic: u8,
    /// RDMA READs and atomics to serve at a time, as responder.
    pub max_dest_rd_atomic: u8,
    /// The RNR NAK timer field, as the IBA encodes it.
    pub min_rnr_timer: u8,
    /// The local port, from 1.
    pub port: u32,
    /// The acknowledgement timeout: 4.096 µs · 2^n, 0 for none.
    pub timeout: u8,
    /// Retries after timeouts and sequence errors, 0 to 7.
    pub retry_cnt: u8,
    /// Retries after RNR NAKs, 7 for no limit.
    pub rnr_retry: u8,
    /// The local port of the alternate path.
    pub alt_port: u32,
    /// The acknowledgement timeout of the alternate path.
    pub alt_timeout: u8,
}

impl Default for QpAttr {
    /// A queue pair in reset.
    fn default() -> Self {
        Self {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            path_mtu: Mtu::Mtu256,
            mig_state: MigState::Migrated,
            qkey: 0,
            rq_psn: 0,
            sq_psn: 0,
            dest_qpn: 0,
            access: AccessFlags::NONE,
            cap: QpCap::default(),
            ah: AhAttr::default(),
            alt_ah: AhAttr::default(),
            pkey_index: 0,
            alt_pkey_index: 0,
            sqd_async_notify: false,
            sq_draining: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            alt_port: 0,
            alt_timeout: 0,
        }
    }
}
