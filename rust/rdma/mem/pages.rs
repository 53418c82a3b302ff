// SPDX-License-Identifier: GPL-2.0

//! Lists of pages of equal size.

use super::region::Piece;
use super::BulkVec;
use kernel::prelude::*;

/// A list of pages that together are one range of bytes.
///
/// The first byte may be anywhere in the first page. Pages have any size that is a power of two, as fast
/// registration has it, and are contiguous in themselves.
///
/// # Invariants
///
/// - Every address of `pages` is that of `1 << shift` mapped bytes, which are writable if `writable`.
/// - `first < 1 << shift`, and `first + len <= pages.len() << shift`, which does not overflow.
pub struct Pages {
    pages: BulkVec<*mut u8>,
    shift: u32,
    first: usize,
    len: usize,
    writable: bool,
}

// SAFETY: The memory is not tied to a CPU or a task, and is accessed by copies in C and atomics only.
unsafe impl Send for Pages {}
// SAFETY: As above.
unsafe impl Sync for Pages {}

impl Pages {
    /// An empty list with room for `capacity` pages. May sleep.
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        // INVARIANT: Trivial for no pages.
        Ok(Self {
            pages: BulkVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?,
            shift: 0,
            first: 0,
            len: 0,
            writable: false,
        })
    }

    /// The size in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the memory may be written.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Forgets all pages.
    pub fn clear(&mut self) {
        self.pages.clear();
        // INVARIANT: Trivial for no pages.
        self.first = 0;
        self.len = 0;
    }

    /// Adds the page at a kernel virtual address, if it fits without allocating.
    ///
    /// It takes effect with [`Self::set_range`]; until then the list is empty.
    ///
    /// # Safety
    ///
    /// At `addr` are as many bytes as the next call of [`Self::set_range`] gives a page. They stay mapped,
    /// and writable if it says so, until [`Self::clear`] or the end of the list.
    pub(crate) unsafe fn push(&mut self, addr: u64) -> Result {
        self.len = 0;
        let page = core::ptr::with_exposed_provenance_mut(addr as usize);
        self.pages.push_within_capacity(page).map_err(|_| ENOMEM)
    }

    /// Sets the size of the pages and which of their bytes are meant.
    ///
    /// # Safety
    ///
    /// The pages were added for pages of `1 << shift` bytes, and are writable if `writable`.
    pub(crate) unsafe fn set_range(
        &mut self,
        shift: u32,
        first: usize,
        len: usize,
        writable: bool,
    ) -> Result {
        let size = 1usize.checked_shl(shift).ok_or(EINVAL)?;
        let total = self.pages.len().checked_mul(size).ok_or(EOVERFLOW)?;
        let end = first.checked_add(len).ok_or(EOVERFLOW)?;
        if first >= size || end > total {
            return Err(EINVAL);
        }
        // INVARIANT: The bounds were just checked; the rest is the caller's promise.
        self.shift = shift;
        self.first = first;
        self.len = len;
        self.writable = writable;
        Ok(())
    }

    /// The uninitialised room of the list, to be filled by C code.
    pub(super) fn spare(&mut self) -> (*mut *mut u8, usize) {
        self.len = 0;
        let room = self.pages.spare_capacity_mut();
        (room.as_mut_ptr().cast(), room.len())
    }

    /// Declares `count` pages of [`Self::spare`] filled.
    ///
    /// # Safety
    ///
    /// As for [`Self::push`]; and they are within the room.
    pub(super) unsafe fn filled(&mut self, count: usize) {
        // SAFETY: Within the room by the caller's promise.
        unsafe { self.pages.inc_len(count) };
    }

    /// The bytes from `offset` to the end of the page that it is in, or of one that follows it in memory as
    /// well, up to `wanted` bytes.
    #[inline]
    pub(super) fn piece(&self, offset: usize, wanted: usize) -> Option<Piece> {
        // By the invariant nothing below overflows for an offset in the range.
        if offset >= self.len {
            return None;
        }
        let at = self.first.wrapping_add(offset);
        let mut pages = self.pages.get(at.wrapping_shr(self.shift)..)?.iter();
        let mut page = *pages.next()?;
        let size = 1usize.wrapping_shl(self.shift);
        let inside = at & size.wrapping_sub(1);
        let ptr = page.wrapping_add(inside);
        let mut len = size.wrapping_sub(inside);
        while len < wanted {
            let after = page.wrapping_add(size);
            if pages.next() != Some(&after) {
                break;
            }
            page = after;
            len = len.wrapping_add(size);
        }
        // INVARIANT: The tail of a page, and pages that follow without a gap.
        Some(Piece { ptr, len })
    }
}
