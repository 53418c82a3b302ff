// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that a kernel client names by its address.

use super::region::Piece;

/// Kernel memory at a virtual address, as `sge.addr` of a kernel client has it.
///
/// A device without a DMA device gets virtual addresses from `ib_dma_map_*()`.
///
/// # Invariants
///
/// `len` bytes at `ptr` are mapped, are writable if `writable`, and belong to whoever owns this value.
#[derive(Debug)]
pub struct KernelRange {
    ptr: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: The memory is not tied to a CPU or a task, and is accessed by copies in C and atomics only.
unsafe impl Send for KernelRange {}
// SAFETY: As above.
unsafe impl Sync for KernelRange {}

impl KernelRange {
    /// Names `len` bytes at the virtual address `addr`, to be read, or to be written as well if `writable`.
    ///
    /// # Safety
    ///
    /// The bytes stay mapped, and writable if it says so, while the value exists: the client that posted the work
    /// request leaves them alone until the request has completed.
    pub(crate) unsafe fn new(addr: u64, len: usize, writable: bool) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            ptr: core::ptr::with_exposed_provenance_mut(addr as usize),
            len,
            writable,
        }
    }

    /// Whether the bytes may be written.
    #[inline]
    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The size in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to access.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes from `offset` to the end.
    #[inline]
    pub(super) fn piece(&self, offset: usize) -> Option<Piece> {
        let len = self.len.checked_sub(offset)?;
        // INVARIANT: The tail of the range.
        Some(Piece {
            ptr: self.ptr.wrapping_add(offset),
            len,
        })
    }
}
