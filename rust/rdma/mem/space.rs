// SPDX-License-Identifier: GPL-2.0

//! All memory of the kernel, as a region that a kernel client has made of it.

use super::KernelRange;

/// All memory of the kernel, by its virtual addresses.
///
/// The bridge to ib_core gives it to the driver with such a region (`IB_PD_UNSAFE_GLOBAL_RKEY`), as its backing. What
/// is asked for there comes from a peer, in a packet: nothing but the trust of the client stands behind an address. So
/// this exists for regions of all memory alone, and not at all unless a client makes one. What clients name by address
/// in their own requests is had of the entry that names it, see [`LocalSge`](crate::ib::LocalSge).
///
/// # Invariants
///
/// A client in the kernel has put all memory at the disposal of whoever has the key of the region, to be read and
/// written, and answers for what he names.
#[derive(Debug)]
pub struct KernelSpace(());

impl KernelSpace {
    /// The backing of a region.
    ///
    /// # Safety
    ///
    /// A client in the kernel makes a region of all memory, and answers for all that is named by its key.
    pub(crate) unsafe fn new() -> Self {
        // INVARIANT: Promised by the caller.
        Self(())
    }

    /// `len` bytes at the virtual address `addr`, which somebody has named by the key, perhaps to `write` them.
    #[inline]
    pub fn range(&self, addr: u64, len: usize, write: bool) -> KernelRange {
        // SAFETY: By the invariant all memory is at his disposal, and the client answers for the address.
        unsafe { KernelRange::new(addr, len, write) }
    }
}
