// SPDX-License-Identifier: GPL-2.0

//! Work requests.
//!
//! One set of types serves both kinds of clients: kernel ones, whose requests refer to objects, and user
//! ones, whose requests carry numbers, see [`abi`](super::abi).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).

use super::flags::flag_set;
use super::AccessFlags;
use crate::mem::{
    KernelRange,
    Region, //
};
use core::mem::{
    offset_of,
    size_of, //
};
use core::ops::Deref;
use kernel::prelude::*;
use sib_bindings as bindings;
use zerocopy_derive::Immutable;

/// The key by which clients in the kernel name all memory, by its virtual addresses. No memory of a driver has it.
pub const LOCAL_DMA_LKEY: u32 = 0;

/// What becomes of that key in an entry of a user. No memory of a driver has it either.
pub const NO_LKEY: u32 = 1;

/// Whether a region may have a local key: it is neither of those, whatever the client makes of its low 8 bits
/// (`ib_update_fast_reg_key()`).
pub(super) const fn is_of_region(lkey: u32) -> bool {
    const CONSUMER_MASK: u32 = 0xff;
    lkey & !CONSUMER_MASK != 0
}

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

/// An entry of the list of a work request, of a client of either kind.
///
/// # Invariants
///
/// If the key is [`LOCAL_DMA_LKEY`] and the length is not 0, the entry is one of a work request of a client in the
/// kernel, which answers for the address: the bytes are mapped, and its own until the request has completed. They are
/// writable if something comes back for the list; what is sent may be where nobody writes, as the page of zeroes is.
/// Whoever has the entry does not use it for more, or after that, which no type can see.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct LocalSge(Sge);

impl LocalSge {
    /// No memory.
    // INVARIANT: The length is 0.
    pub const NONE: Self = Self(Sge {
        addr: 0,
        length: 0,
        lkey: LOCAL_DMA_LKEY,
    });

    /// The entries of a client in the kernel.
    ///
    /// # Safety
    ///
    /// They are those of a work request of such a client, without inline data. What they name by [`LOCAL_DMA_LKEY`] is
    /// mapped, writable if something comes back for it, and the client's until the request has completed.
    pub(super) unsafe fn of_kernel(list: &[Sge]) -> &[Self] {
        // INVARIANT: Promised by the caller.
        // SAFETY: The layouts are equal, as that of the entry is transparent.
        unsafe { core::slice::from_raw_parts(list.as_ptr().cast(), list.len()) }
    }

    /// `len` bytes from `skip` on, if they are there and the entry names them by their address: to be read, or to
    /// `write` what has come for the request.
    #[inline]
    pub fn range(&self, skip: u32, len: u32, write: bool) -> Option<KernelRange> {
        if self.lkey != LOCAL_DMA_LKEY || skip.checked_add(len)? > self.length {
            return None;
        }
        let addr = self.addr.checked_add(u64::from(skip))?;
        // SAFETY: The bytes are some of the entry's, for which the client answers, by the invariant; what has come for
        // the request may be written there.
        Some(unsafe { KernelRange::new(addr, len as usize, write) })
    }
}

impl From<Sge> for LocalSge {
    /// The entry of a user, who may not name memory by its address.
    #[inline]
    fn from(sge: Sge) -> Self {
        let lkey = match sge.lkey {
            LOCAL_DMA_LKEY => NO_LKEY,
            lkey => lkey,
        };
        // INVARIANT: The key is another one.
        Self(Sge { lkey, ..sge })
    }
}

impl Deref for LocalSge {
    type Target = Sge;

    #[inline]
    fn deref(&self) -> &Sge {
        &self.0
    }
}

/// The local memory of a send request of a client in the kernel.
pub enum KernelData<'a> {
    /// The data themselves, to be copied before the call returns.
    Inline(InlineData<'a>),
    /// Where the data are, or go to.
    Gather(&'a [LocalSge]),
}

/// Inline data of a client in the kernel, which are where the entries of a list say, whatever their keys are.
///
/// # Invariants
///
/// The bytes at the addresses of the entries are mapped and do not go during `'a`.
pub struct InlineData<'a>(&'a [Sge]);

impl<'a> InlineData<'a> {
    /// The data that a list names.
    ///
    /// # Safety
    ///
    /// It is that of a work request with inline data of a client in the kernel, and `'a` ends before the call that
    /// brings it.
    pub(super) unsafe fn new(list: &'a [Sge]) -> Self {
        // INVARIANT: Promised by the caller: the client leaves the data alone during the call.
        Self(list)
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.0.len()
    }

    /// Copies the data to the start of `room`, and returns them there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is not enough room.
    pub fn copy_to<'b>(&self, room: &'b mut [u8]) -> Result<&'b [u8]> {
        let mut done: usize = 0;
        for sge in self.0 {
            let len = sge.length as usize;
            let end = done.checked_add(len).ok_or(EINVAL)?;
            let part = room.get_mut(done..end).ok_or(EINVAL)?;
            // SAFETY: By the invariant the bytes are there, and they are read only.
            let range = unsafe { KernelRange::new(sge.addr, len, false) };
            Region::from(&range).copy_out(0, part)?;
            done = end;
        }
        room.get(..done).ok_or(EINVAL)
    }
}

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

#[kunit_tests(sib_rdma_wr)]
mod tests {
    use super::*;

    /// An entry with that key for all of `bytes`.
    fn entry(bytes: &mut [u8; 8], lkey: u32) -> Sge {
        Sge {
            addr: bytes.as_mut_ptr().expose_provenance() as u64,
            length: 8,
            lkey,
        }
    }

    #[test]
    fn the_kernel_names_memory_by_its_address() -> Result {
        let mut bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        let named = entry(&mut bytes, LOCAL_DMA_LKEY);
        let keyed = entry(&mut bytes, 0x100);
        let list = [named, keyed];
        // SAFETY: The bytes stay until the test ends.
        let list = unsafe { LocalSge::of_kernel(&list) };
        let [named, keyed] = list else {
            return Err(EINVAL);
        };
        let mut back = [0u8; 3];
        let range = named.range(4, 3, false).ok_or(EINVAL)?;
        assert!(Region::from(&range).copy_out(0, &mut back).is_ok());
        assert!(back == [5, 6, 7]);
        assert!(Region::from(&range).copy_in(0, &[0; 3]).is_err());
        let range = named.range(4, 3, true).ok_or(EINVAL)?;
        assert!(Region::from(&range).copy_in(0, &[0; 3]).is_ok());
        assert!(named.range(0, 8, true).is_some());
        assert!(named.range(8, 0, true).is_some());
        for (skip, len) in [(0, 9), (4, 5), (9, 0), (u32::MAX, 2)] {
            assert!(named.range(skip, len, false).is_none());
        }
        assert!(keyed.range(0, 8, false).is_none());
        Ok(())
    }

    #[test]
    fn no_region_is_all_memory() {
        for lkey in [LOCAL_DMA_LKEY, NO_LKEY, 0xff] {
            assert!(!is_of_region(lkey));
        }
        for lkey in [0x100, 0xffff_ff00, u32::MAX] {
            assert!(is_of_region(lkey));
        }
    }

    #[test]
    fn a_user_does_not() {
        let mut bytes = [0; 8];
        let forged = LocalSge::from(entry(&mut bytes, LOCAL_DMA_LKEY));
        assert!(forged.range(0, 8, false).is_none());
        assert_eq!(forged.lkey, NO_LKEY);
        assert_eq!(forged.length, 8);
        let keyed = entry(&mut bytes, 0x100);
        assert_eq!(*LocalSge::from(keyed), keyed);
        assert!(LocalSge::NONE.range(0, 1, false).is_none());
    }

    #[test]
    fn inline_data_have_no_key() -> Result {
        let (mut first, mut second) = ([1; 8], [2; 8]);
        let list = [entry(&mut first, 0x100), entry(&mut second, 0)];
        // SAFETY: The bytes stay until the test ends.
        let data = unsafe { InlineData::new(&list) };
        let mut room = [0u8; 20];
        let copied = data.copy_to(&mut room)?;
        assert_eq!(copied.len(), 16);
        assert!(copied[..8] == first);
        assert!(copied[8..] == second);
        assert!(data.copy_to(&mut [0u8; 15]).is_err());
        Ok(())
    }
}
