// SPDX-License-Identifier: GPL-2.0

//! What a machine needs of its surroundings.

use crate::transport::wc::{
    Wc,
    WcStatus, //
};
use crate::transport::wqe::{
    RecvSlot,
    RecvWqe,
    SendSlot, //
};
use wire::grh::Grh;
use wire::{
    Key,
    PortNum, //
};

/// What a remote access does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// RDMA READ.
    Read,
    /// RDMA WRITE.
    Write,
    /// An atomic operation.
    Atomic,
}

/// A key, range or right is wrong. The peer is told no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteFault;

/// Why an access on behalf of the peer did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteError {
    /// It is not allowed.
    Fault,
    /// It is, but the memory is not there now: see [`RxDrop::Absent`](super::RxDrop::Absent).
    Absent,
}

impl From<RemoteFault> for RemoteError {
    fn from(_: RemoteFault) -> Self {
        Self::Fault
    }
}

/// Why bytes were not placed in the buffers of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceError {
    /// The work request ends with this status: [`WcStatus::LocProtErr`] as a rule.
    Failed(WcStatus),
    /// The memory is not there now: see [`RxDrop::Absent`](super::RxDrop::Absent).
    Absent,
}

impl From<WcStatus> for PlaceError {
    fn from(status: WcStatus) -> Self {
        Self::Failed(status)
    }
}

/// Why a key that the peer named is not invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidateError {
    /// It names nothing that this peer may invalidate.
    Fault,
    /// What it names is in use, but will not be for long. The peer is asked to try again.
    Busy,
}

/// An atomic operation on 8 bytes in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Stores `swap` if the old value is `compare`.
    CompareSwap {
        /// The value to compare with.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
    /// Adds, modulo 2^64.
    FetchAdd {
        /// The value to add.
        add: u64,
    },
}

/// How far a FLUSH has to carry data (IBA annex A19 "Memory Placement Extensions").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// To where all that reads memory sees them.
    pub global: bool,
    /// To where they survive a loss of power.
    pub persistent: bool,
}

/// Asynchronous events of a queue pair (IBA "Affiliated Asynchronous Events and Errors").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// The first packet came while the queue pair was in RTR.
    CommEst,
    /// All work that had begun when the send queue was told to drain is complete.
    SqDrained,
    /// An error that no completion can report.
    Fatal,
    /// The peer's request was invalid.
    ReqErr,
    /// The peer's request had no right to what it named.
    AccessErr,
    /// The queue pair is in error and takes nothing more from its shared receive queue.
    LastWqeReached,
    /// The alternate path has become the primary one. Said before anything goes that way.
    PathMig,
    /// The peer has migrated to a path that is not this end's alternate one.
    PathMigErr,
}

/// The surroundings of a queue pair: receive queue, memory, completion queues.
///
/// All functions are called with the queue pair's lock held: they may not sleep, and may not call the machine.
/// "The packet" is the one that the present call of [`Qp::on_packet`](super::Qp::on_packet) is about.
pub trait Env {
    /// The port that the packet came by. Asked of connections only.
    fn in_port(&mut self) -> PortNum;

    /// Takes the oldest work request off the receive queue, shared or not. From then on it is the machine's,
    /// which gives it back by [`Self::complete_recv`], or drops it at a reset. The machine has one at a time at
    /// most.
    fn take_recv(&mut self) -> Option<RecvWqe>;

    /// Number of work requests on the receive queue, which is not a shared one.
    fn recv_count(&mut self) -> u32;

    /// Copies `len` bytes of payload from the packet's first byte on to the buffers of a receive work request,
    /// from their byte `offset` on. `offset + len` is at most [`RecvWqe::len`].
    ///
    /// # Errors
    ///
    /// See [`PlaceError`]. What has been copied until then does not matter.
    fn place_recv(&mut self, slot: RecvSlot, offset: u32, len: u32) -> Result<(), PlaceError>;

    /// Fills the first 40 bytes of the buffers of a receive work request with the packet's GRH, or what there
    /// may be without one. They are not more than [`RecvWqe::len`].
    ///
    /// # Errors
    ///
    /// As [`Self::place_recv`].
    fn place_grh(&mut self, slot: RecvSlot, grh: Option<&Grh>) -> Result<(), PlaceError>;

    /// Whether a remote peer of this queue pair may do `access` to `len` bytes at `va`. `len` is not 0.
    ///
    /// # Errors
    ///
    /// [`RemoteFault`] if not.
    fn check_remote(
        &mut self,
        rkey: Key,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<(), RemoteFault>;

    /// Copies `len` bytes of payload from the packet's first byte on to memory that the peer named. `len` is
    /// not 0. The key is to be checked again: it may be gone since [`Self::check_remote`].
    ///
    /// # Errors
    ///
    /// See [`RemoteError`].
    fn place_remote(&mut self, rkey: Key, va: u64, len: u32) -> Result<(), RemoteError>;

    /// Executes an atomic operation on memory that the peer named and returns the old value. `va` is a
    /// multiple of 8.
    ///
    /// # Errors
    ///
    /// See [`RemoteError`].
    fn atomic(&mut self, rkey: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteError>;

    /// Copies the 8 bytes of the packet to memory that the peer named, in one access. `va` is a multiple of 8.
    ///
    /// # Errors
    ///
    /// See [`RemoteError`].
    fn atomic_write(&mut self, rkey: Key, va: u64) -> Result<(), RemoteError>;

    /// Has all that was placed before reach `placement`, in `range` (address and length, not 0) of what the key
    /// names, or in all of it.
    ///
    /// # Errors
    ///
    /// [`RemoteFault`] if the key does not allow it.
    fn flush(
        &mut self,
        rkey: Key,
        range: Option<(u64, u32)>,
        placement: Placement,
    ) -> Result<(), RemoteFault>;

    /// Invalidates an R_Key that the peer named. Memory is not accessed through it after success.
    ///
    /// # Errors
    ///
    /// See [`InvalidateError`].
    fn invalidate(&mut self, rkey: Key) -> Result<(), InvalidateError>;

    /// Copies `len` bytes of payload from the packet's first byte on to the buffers of a send work request (an
    /// RDMA READ), from their byte `offset` on.
    ///
    /// # Errors
    ///
    /// As [`Self::place_recv`].
    fn place_local(&mut self, slot: SendSlot, offset: u32, len: u32) -> Result<(), PlaceError>;

    /// Stores the result of an atomic operation in host byte order to the buffers of its work request.
    ///
    /// # Errors
    ///
    /// As [`Self::place_local`].
    fn place_local_u64(&mut self, slot: SendSlot, value: u64) -> Result<(), PlaceError>;

    /// A send work request is done and its slot may be used again. Called once per work request, in the order
    /// of posting, before its completion if it has one. Not called at a reset.
    fn retire_send(&mut self, slot: SendSlot) {
        let _ = slot;
    }

    /// Whether a segment is on its way, so that the driver holds completions of sends back. When there is none
    /// any more it calls [`Qp::transmitted`](super::Qp::transmitted).
    fn is_sending(&self) -> bool {
        false
    }

    /// Puts a completion into the send completion queue.
    fn complete_send(&mut self, wc: Wc);

    /// Puts a completion into the receive completion queue. `slot` is free from now on.
    fn complete_recv(&mut self, slot: RecvSlot, wc: Wc);

    /// Reports an asynchronous event, to be delivered when no lock is held.
    fn event(&mut self, event: QpEvent);

    /// The peer has been heard on the path that has become the primary one. Nothing for consumers, but for who loads
    /// the next path.
    fn heard(&mut self);
}
