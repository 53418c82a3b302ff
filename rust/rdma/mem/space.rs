// SPDX-License-Identifier: GPL-2.0

//! The right of a kernel client to name memory by its address.

use super::KernelRange;

/// The right to name any kernel memory by its virtual address, as kernel clients do.
///
/// The bridge to ib_core gives it to the driver with the objects of kernel clients, and never with those of
/// user clients. Kernel code is trusted to name its own memory, and to leave it alone until its work
/// request has completed.
///
/// # Invariants
///
/// A value exists on behalf of kernel clients alone, whose addresses are the only ones given to it.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpace(());

impl KernelSpace {
    /// Makes the right.
    ///
    /// # Safety
    ///
    /// It serves kernel clients, whose work requests name memory that is mapped, writable and theirs until the
    /// request has completed.
    pub(crate) unsafe fn new() -> Self {
        // INVARIANT: Promised by the caller.
        Self(())
    }

    /// `len` bytes at the virtual address `addr` of a work request of such a client.
    #[inline]
    pub fn range(&self, addr: u64, len: usize) -> KernelRange {
        // SAFETY: By the invariant the address is that of a work request which has not completed.
        unsafe { KernelRange::new(addr, len) }
    }
}
