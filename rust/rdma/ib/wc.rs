// SPDX-License-Identifier: GPL-2.0

//! Work completions.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `struct ib_wc`.

use super::flags::c_enum;
use super::QpRef;
use sib_bindings as bindings;

c_enum! {
    /// How a work request ended. IBA, "Completion Return Status".
    pub enum WcStatus(u32) {
        /// Success.
        Success = bindings::ib_wc_status_IB_WC_SUCCESS,
        /// Local length error.
        LocLenErr = bindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
        /// Local QP operation error.
        LocQpOpErr = bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
        /// Local protection error.
        LocProtErr = bindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
        /// Flushed, since the queue is in error.
        WrFlushErr = bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
        /// Memory window bind error.
        MwBindErr = bindings::ib_wc_status_IB_WC_MW_BIND_ERR,
        /// Bad response.
        BadRespErr = bindings::ib_wc_status_IB_WC_BAD_RESP_ERR,
        /// Local access error.
        LocAccessErr = bindings::ib_wc_status_IB_WC_LOC_ACCESS_ERR,
        /// The responder refused an invalid request.
        RemInvReqErr = bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
        /// The responder refused an access.
        RemAccessErr = bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR,
        /// The responder could not complete the operation.
        RemOpErr = bindings::ib_wc_status_IB_WC_REM_OP_ERR,
        /// Transport retries exceeded.
        RetryExcErr = bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR,
        /// RNR retries exceeded.
        RnrRetryExcErr = bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
        /// The peer aborted the operation.
        RemAbortErr = bindings::ib_wc_status_IB_WC_REM_ABORT_ERR,
        /// Fatal error.
        FatalErr = bindings::ib_wc_status_IB_WC_FATAL_ERR,
        /// Response timeout.
        RespTimeoutErr = bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR,
        /// Any other error.
        GeneralErr = bindings::ib_wc_status_IB_WC_GENERAL_ERR,
    }
}

c_enum! {
    /// What has completed. The numbers are the same for kernel and user clients.
    pub enum WcOpcode(u32) {
        /// SEND of any kind.
        Send = bindings::ib_wc_opcode_IB_WC_SEND,
        /// RDMA WRITE of any kind.
        RdmaWrite = bindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
        /// RDMA READ.
        RdmaRead = bindings::ib_wc_opcode_IB_WC_RDMA_READ,
        /// Compare and swap.
        CompSwap = bindings::ib_wc_opcode_IB_WC_COMP_SWAP,
        /// Fetch and add.
        FetchAdd = bindings::ib_wc_opcode_IB_WC_FETCH_ADD,
        /// Binding a memory window.
        BindMw = bindings::ib_wc_opcode_IB_WC_BIND_MW,
        /// Local invalidate.
        LocalInv = bindings::ib_wc_opcode_IB_WC_LOCAL_INV,
        /// Fast registration; kernel clients alone.
        RegMr = bindings::ib_wc_opcode_IB_WC_REG_MR,
        /// FLUSH.
        Flush = bindings::ib_wc_opcode_IB_WC_FLUSH,
        /// ATOMIC WRITE.
        AtomicWrite = bindings::ib_wc_opcode_IB_WC_ATOMIC_WRITE,
        /// A receive, matched by a SEND.
        Recv = bindings::ib_wc_opcode_IB_WC_RECV,
        /// A receive, consumed by an RDMA WRITE with immediate data.
        RecvRdmaWithImm = bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
    }
}

/// What came with a message beside its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WcExt {
    /// Nothing.
    #[default]
    None,
    /// Immediate data, as on the wire.
    Imm([u8; 4]),
    /// The R_Key that the message has invalidated.
    Invalidate(u32),
}

/// A work completion.
///
/// In a completion with an error only `wr_id`, `status`, `qpn` and `qp` are meaningful.
#[derive(Clone)]
pub struct Wc {
    /// What the client gave with the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What has completed.
    pub opcode: WcOpcode,
    /// For receives the length of the message, with the GRH for datagrams.
    pub byte_len: u32,
    /// Immediate data or an invalidated key.
    pub ext: WcExt,
    /// Whether the first 40 bytes of the buffer hold a GRH.
    pub grh: bool,
    /// The number of the queue pair, 24 bits.
    pub qpn: u32,
    /// The queue pair, which kernel clients look at; user ones have `qpn`.
    pub qp: Option<QpRef>,
    /// For datagrams the QP number of the sender.
    pub src_qp: u32,
    /// For datagrams the LID of the sender.
    pub slid: u16,
    /// For datagrams the service level.
    pub sl: u8,
    /// For datagrams the low bits of the destination LID, within the LMC.
    pub dlid_path_bits: u8,
    /// For the GSI the index of the P_Key.
    pub pkey_index: u16,
}

impl Wc {
    /// A completion of which nothing else is known.
    pub const fn new(wr_id: u64, status: WcStatus, opcode: WcOpcode, qpn: u32) -> Self {
        Self {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            ext: WcExt::None,
            grh: false,
            qpn,
            qp: None,
            src_qp: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
            pkey_index: 0,
        }
    }
}
