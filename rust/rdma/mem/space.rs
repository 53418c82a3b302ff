// SPDX-License-Identifier: GPL-2.0

//! The right of a kernel client to name memory by its address.

use super::KernelRange;

/// The right to name any kernel memory by its virtual address, as kernel clients do.
///
/// The bridge to ib_core gives it to the driver with the objects of kernel clients, and never with those of
/// user clients. Kernel code is trusted to name its own memory, and to leave it alone until its work
/// request has completed; and a peer to whom it has given the key of a region of all memory, as much as itself.
///
/// # Invariants
///
/// A value exists on behalf of kernel clients alone. Whoever has it gives it no addresses but those of their work
/// requests, and of requests of peers with the key of such a region of theirs.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpace(());

impl KernelSpace {
    /// Makes the right.
    ///
    /// # Safety
    ///
    /// It serves kernel clients, whose work requests, and peers, name memory that is mapped, writable and theirs until
    /// the request has completed.
    pub(crate) unsafe fn new() -> Self {
        // INVARIANT: Promised by the caller.
        Self(())
    }

    /// `len` bytes at the virtual address `addr` of a request that has not completed.
    #[inline]
    pub fn range(&self, addr: u64, len: usize) -> KernelRange {
        // SAFETY: By the invariant the client answers for the address.
        unsafe { KernelRange::new(addr, len) }
    }
}
