// SPDX-License-Identifier: GPL-2.0

//! Work requests.
//!
//! One set of types serves both kinds of clients: kernel ones, whose requests refer to objects, and user
//! ones, whose requests carry numbers, see [`abi`](super::abi).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).

use super::flags::flag_set;
use super::AccessFlags;
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::prelude::*;
use sib_bindings as bindings;
use zerocopy_derive::Immutable;

/// A piece of memory. The same layout as `struct ib_sge` and as `struct rxe_sge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Sge {
    /// The first address, in the terms of the key.
    pub addr: u64,
    /// The length in bytes.
    pub length: u32,
    /// The local key.
    pub lkey: u32,
}

const _: () = {
    assert!(size_of::<Sge>() == size_of::<bindings::ib_sge>());
    assert!(offset_of!(Sge, addr) == offset_of!(bindings::ib_sge, addr));
    assert!(offset_of!(Sge, length) == offset_of!(bindings::ib_sge, length));
    assert!(offset_of!(Sge, lkey) == offset_of!(bindings::ib_sge, lkey));
    assert!(size_of::<Sge>() == size_of::<bindings::rxe_sge>());
};

flag_set! {
    /// Modifiers of a send request, `enum ib_send_flags`.
    pub struct SendFlags(u32) {
        /// Start after all READs and atomics before it have ended.
        FENCE = bindings::ib_send_flags_IB_SEND_FENCE,
        /// Complete with an entry in the completion queue.
        SIGNALED = bindings::ib_send_flags_IB_SEND_SIGNALED,
        /// Ask for an event at the receiver.
        SOLICITED = bindings::ib_send_flags_IB_SEND_SOLICITED,
        /// The data are in the request.
        INLINE = bindings::ib_send_flags_IB_SEND_INLINE,
    }
}

/// What a SEND carries beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendExt {
    /// Nothing.
    None,
    /// Immediate data, as on the wire.
    Imm([u8; 4]),
    /// An R_Key for the peer to invalidate.
    Invalidate(u32),
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<A> {
    /// The address handle, or its number.
    pub ah: A,
    /// The QP number of the receiver, 24 bits.
    pub qpn: u32,
    /// The Q_Key; the queue pair's own one is meant when the top bit is set.
    pub qkey: u32,
    /// For the GSI the index of the P_Key.
    pub pkey_index: u16,
}

/// A memory window to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The first address.
    pub addr: u64,
    /// The length in bytes; 0 unbinds a window of type 1.
    pub length: u64,
    /// The local key of the region.
    pub mr_lkey: u32,
    /// The present key of the window.
    pub mw_rkey: u32,
    /// The new key of the window.
    pub rkey: u32,
    /// What a peer may do through the window.
    pub access: AccessFlags,
}

/// What a send request does.
///
/// `A` names an address handle, `M` a memory region; for kernel clients they are references to the driver's
/// objects, for user clients `A` is a number and `M` does not exist.
#[derive(Clone, Copy, Debug)]
pub enum SendOp<A, M> {
    /// SEND, with a destination on datagram queue pairs.
    Send {
        /// What goes with the data.
        ext: SendExt,
        /// The destination; `Some` exactly for UD, SMI and GSI.
        to: Option<Datagram<A>>,
    },
    /// RDMA WRITE.
    Write {
        /// The remote address.
        addr: u64,
        /// The remote key.
        rkey: u32,
        /// Immediate data, as on the wire.
        imm: Option<[u8; 4]>,
    },
    /// RDMA READ.
    Read {
        /// The remote address.
        addr: u64,
        /// The remote key.
        rkey: u32,
    },
    /// Compare and swap of 8 bytes.
    CompareSwap {
        /// The remote address.
        addr: u64,
        /// The remote key.
        rkey: u32,
        /// The value to be found.
        compare: u64,
        /// The value to be written then.
        swap: u64,
    },
    /// Fetch and add of 8 bytes.
    FetchAdd {
        /// The remote address.
        addr: u64,
        /// The remote key.
        rkey: u32,
        /// The addend.
        add: u64,
    },
    /// ATOMIC WRITE of 8 bytes.
    AtomicWrite {
        /// The remote address.
        addr: u64,
        /// The remote key.
        rkey: u32,
    },
    /// FLUSH.
    Flush {
        /// The remote address.
        addr: u64,
        /// The remote key.
        rkey: u32,
        /// The length in bytes.
        length: u32,
        /// Bits of `enum ib_placement_type`.
        types: u8,
        /// One of `enum ib_selectivity_level`.
        level: u8,
    },
    /// Invalidates a local key.
    LocalInvalidate {
        /// The key.
        rkey: u32,
    },
    /// Binds a memory window.
    BindMw(Bind),
    /// Fast registration.
    RegMr {
        /// The region.
        mr: M,
        /// Its new key.
        key: u32,
        /// What may be done to it.
        access: AccessFlags,
        /// Where its addresses start.
        iova: u64,
        /// Its length in bytes.
        length: u64,
    },
}
