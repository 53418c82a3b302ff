// SPDX-License-Identifier: GPL-2.0

//! Work queue elements as far as the machines need them: everything but the buffers.

use crate::transport::config::PathAv;
use crate::transport::qp_state::QpType;
use crate::transport::wc::WcStatus;
use wire::feth::Feth;
use wire::{
    Key,
    PKey,
    Psn,
    QKey,
    Qpn, //
};

/// The longest message (IBA "Message Size").
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Bytes of an atomic operation.
pub const ATOMIC_LEN: u32 = 8;

/// Position of a work request in the send queue's ring: less than the length of the storage lent to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SendSlot(u32);

impl SendSlot {
    #[inline]
    pub(crate) const fn new(slot: u32) -> Self {
        Self(slot)
    }

    /// The position, from 0.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The driver's name for a receive work request that it handed to the machine; the machine only returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecvSlot(pub u32);

/// A receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// Names its buffers.
    pub slot: RecvSlot,
    /// The consumer's name for it.
    pub wr_id: u64,
    /// Bytes that its buffers hold together.
    pub len: u32,
}

/// What a send work request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    #[default]
    Send,
    /// SEND with immediate data.
    SendImm,
    /// SEND that invalidates an R_Key of the receiver.
    SendInv,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Atomic compare and swap of 8 bytes.
    CompareSwap,
    /// Atomic fetch and add of 8 bytes.
    FetchAdd,
    /// ATOMIC WRITE of 8 bytes.
    AtomicWrite,
    /// FLUSH.
    Flush,
    /// Invalidates a key of this side.
    LocalInv,
    /// Binds a memory window of this side.
    BindMw,
    /// Registers memory of this side.
    RegMr,
}

impl SendOp {
    /// Whether queue pairs of a type have the operation (IBA table "Operations supported by transport type").
    #[inline]
    pub const fn allowed(self, qp_type: QpType) -> bool {
        match qp_type {
            QpType::Rc => true,
            QpType::Uc => matches!(
                self,
                Self::Send
                    | Self::SendImm
                    | Self::Write
                    | Self::WriteImm
                    | Self::LocalInv
                    | Self::BindMw
                    | Self::RegMr
            ),
            QpType::Smi | QpType::Gsi | QpType::Ud => matches!(self, Self::Send | Self::SendImm),
        }
    }

    /// Whether the operation has immediate data.
    #[inline]
    pub const fn has_imm(self) -> bool {
        matches!(self, Self::SendImm | Self::WriteImm)
    }

    /// Whether the operation has an answer of its own, not a mere ACK, and so counts against the limit of
    /// outstanding RDMA READ and atomic operations.
    #[inline]
    pub const fn is_fetch(self) -> bool {
        matches!(self, Self::Read) || self.is_atomic() || self.is_placement()
    }

    /// Whether the operation is an extension for memory placement, which an RDMA READ response without data
    /// answers (IBA annex A19).
    #[inline]
    pub const fn is_placement(self) -> bool {
        matches!(self, Self::AtomicWrite | Self::Flush)
    }

    /// Whether the operation concerns memory of this side alone: no packet tells of it.
    #[inline]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::LocalInv | Self::BindMw | Self::RegMr)
    }

    /// Whether the operation is atomic.
    #[inline]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// Whether the operation takes a receive work request of the peer.
    #[inline]
    pub const fn takes_recv(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm | Self::SendInv | Self::WriteImm
        )
    }
}

/// How a send work request wants to be treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Completes also when it succeeds. A queue pair that signals everything has it set always.
    pub signaled: bool,
    /// The receiver's completion is a solicited event.
    pub solicited: bool,
    /// Begins only when all RDMA READ and atomic operations before it are complete; a local invalidate when all
    /// work requests are.
    pub fence: bool,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdDest {
    /// The destination queue pair.
    pub qpn: Qpn,
    /// The Q_Key; one with the top bit set means the queue pair's own.
    pub qkey: QKey,
    /// The P_Key, which only a GSI queue pair chooses by work request. `None` means the queue pair's own.
    pub pkey: Option<PKey>,
    /// The way.
    pub av: PathAv,
}

/// A send work request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendWqe {
    /// The consumer's name for it.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// How.
    pub flags: SendFlags,
    /// Bytes of the message (0 to [`MAX_MESSAGE`]), or to flush. An atomic operation's length is of no matter.
    pub length: u32,
    /// The peer's memory: virtual address (all but SEND).
    pub remote_va: u64,
    /// The peer's memory: R_Key (all but SEND).
    pub rkey: Key,
    /// Immediate data as a number whose most significant byte goes first, or the R_Key to invalidate.
    pub imm: u32,
    /// What to compare with (compare and swap).
    pub compare: u64,
    /// What to swap in, or to add.
    pub swap_add: u64,
    /// What to flush, and how far (FLUSH).
    pub flush: Feth,
    /// Where to (datagrams only).
    pub ud: Option<UdDest>,
    /// Set by a driver that found the work request bad: it is not executed, and ends with this status in its
    /// turn.
    pub fault: Option<WcStatus>,
}

/// Room in the send queue for one work request.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendEntry {
    pub(super) wqe: SendWqe,
    /// PSN of the first packet, once the work request has begun.
    pub(super) first_psn: Psn,
    /// Number of PSNs that it takes, once it has begun: none if it is local, else at least 1.
    pub(super) psn_count: u32,
    /// Whether it is local and has been executed.
    pub(super) executed: bool,
}
