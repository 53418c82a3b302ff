// SPDX-License-Identifier: GPL-2.0

//! Work completions.

use crate::transport::wqe::SendOp;
use wire::{
    Key,
    Lid,
    Qpn,
    Sl, //
};

/// How a work request ended (IBA "Completion Return Status").
///
/// The values are those of `enum ib_wc_status`, [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WcStatus {
    /// Done.
    Success = 0,
    /// The message is longer than the buffers, or than the transport allows.
    LocLenErr = 1,
    /// The work request asks for something that the queue pair cannot do.
    LocQpOpErr = 2,
    /// Reserved: end-to-end contexts belong to reliable datagrams.
    LocEecOpErr = 3,
    /// A buffer of the work request is not accessible with its key.
    LocProtErr = 4,
    /// The queue pair went to the error state before this work request was done.
    WrFlushErr = 5,
    /// Binding a memory window, registering or invalidating failed (IBA "Memory Management Operation Error").
    MwBindErr = 6,
    /// The peer's answer makes no sense.
    BadRespErr = 7,
    /// A key does not allow the local side of the access.
    LocAccessErr = 8,
    /// The peer refused the request as invalid.
    RemInvReqErr = 9,
    /// The peer refused the key, range or right.
    RemAccessErr = 10,
    /// The peer could not complete the request.
    RemOpErr = 11,
    /// The peer did not answer, however often it was asked.
    RetryExcErr = 12,
    /// The peer had no receive work request, however often it was asked.
    RnrRetryExcErr = 13,
    /// Reserved: reliable datagram only.
    LocRddViolErr = 14,
    /// Reserved: reliable datagram only.
    RemInvRdReqErr = 15,
    /// The peer aborted the operation.
    RemAbortErr = 16,
    /// Reserved: reliable datagram only.
    InvEecnErr = 17,
    /// Reserved: reliable datagram only.
    InvEecStateErr = 18,
    /// The device failed.
    FatalErr = 19,
    /// A response was lost and not repaired in time.
    RespTimeoutErr = 20,
    /// Anything else.
    GeneralErr = 21,
}

/// What a completion is about: the work request's operation, also when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WcOpcode {
    /// A SEND of any kind.
    Send,
    /// An RDMA WRITE, with or without immediate data.
    RdmaWrite,
    /// An RDMA READ.
    RdmaRead,
    /// A compare and swap.
    CompareSwap,
    /// A fetch and add.
    FetchAdd,
    /// An ATOMIC WRITE.
    AtomicWrite,
    /// A FLUSH.
    Flush,
    /// A local invalidate.
    LocalInv,
    /// A bind of a memory window.
    BindMw,
    /// A fast registration.
    RegMr,
    /// A receive that took a SEND.
    Recv,
    /// A receive that took the immediate data of an RDMA WRITE.
    RecvRdmaWithImm,
}

impl From<SendOp> for WcOpcode {
    fn from(op: SendOp) -> Self {
        match op {
            SendOp::Send | SendOp::SendImm | SendOp::SendInv => Self::Send,
            SendOp::Write | SendOp::WriteImm => Self::RdmaWrite,
            SendOp::Read => Self::RdmaRead,
            SendOp::CompareSwap => Self::CompareSwap,
            SendOp::FetchAdd => Self::FetchAdd,
            SendOp::AtomicWrite => Self::AtomicWrite,
            SendOp::Flush => Self::Flush,
            SendOp::LocalInv => Self::LocalInv,
            SendOp::BindMw => Self::BindMw,
            SendOp::RegMr => Self::RegMr,
        }
    }
}

/// A work completion: what a queue pair reports about one work request.
///
/// With a status other than [`WcStatus::Success`], only `wr_id`, `status` and `opcode` have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// The consumer's name for the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes of the message. A datagram's count includes the 40 bytes before the payload.
    pub byte_len: u32,
    /// Immediate data as a number; its most significant byte came first on the wire. That of a work request that sent some
    /// as well, as other HCAs have it.
    pub imm: Option<u32>,
    /// The R_Key that a SEND with invalidate invalidated here.
    pub invalidated: Option<Key>,
    /// The sender's queue pair (receives).
    pub src_qp: Qpn,
    /// The sender's LID (receives).
    pub slid: Lid,
    /// The service level of the packet (receives).
    pub sl: Sl,
    /// The low 7 bits of the LID that the packet came to; the driver masks them with the port's LMC
    /// (receives).
    pub path_bits: u8,
    /// Index of the packet's P_Key. Right for all types but GSI, where the driver knows better.
    pub pkey_index: u16,
    /// Whether a GRH stands in the first 40 bytes of the buffer (datagrams).
    pub grh: bool,
    /// Whether the completion is one that a consumer waiting for solicited events wants. Errors are.
    pub solicited: bool,
}

impl Wc {
    /// The completion of the work request `wr_id` with nothing but a status to tell.
    #[inline]
    pub(crate) fn new(wr_id: u64, opcode: WcOpcode, status: WcStatus) -> Self {
        Self {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            imm: None,
            invalidated: None,
            src_qp: Qpn::new(0),
            slid: Lid::NONE,
            sl: Sl::new(0),
            path_bits: 0,
            pkey_index: 0,
            grh: false,
            solicited: !matches!(status, WcStatus::Success),
        }
    }
}
