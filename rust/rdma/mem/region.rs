// SPDX-License-Identifier: GPL-2.0

//! Windows of memory.

use super::{
    KernelRange,
    Pages,
    PresentUse, //
};
use core::mem::MaybeUninit;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Release, //
};

/// Why an access to a [`Region`] did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// It exceeds the window.
    OutOfBounds,
    /// The memory was pinned for reading only.
    ReadOnly,
    /// An atomic access is not aligned to its size.
    Misaligned,
}

impl From<AccessError> for Error {
    fn from(error: AccessError) -> Error {
        match error {
            AccessError::OutOfBounds => EFAULT,
            AccessError::ReadOnly => EPERM,
            AccessError::Misaligned => EINVAL,
        }
    }
}

/// What a window looks at.
#[derive(Clone, Copy)]
enum Backing<'a> {
    Pages(&'a Pages),
    Kernel(&'a KernelRange),
    Present(&'a PresentUse),
}

/// Bytes that are contiguous in the kernel's address space.
///
/// # Invariants
///
/// `len` bytes at `ptr` are mapped for as long as the region that the piece comes from.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) ptr: *mut u8,
    pub(crate) len: usize,
}

/// A window of memory, `start..start + len` of what backs it.
///
/// # Invariants
///
/// The window is within its backing.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    backing: Backing<'a>,
    start: usize,
    len: usize,
}

impl<'a> From<&'a Pages> for Region<'a> {
    fn from(pages: &'a Pages) -> Self {
        // INVARIANT: The whole of the backing.
        Self {
            backing: Backing::Pages(pages),
            start: 0,
            len: pages.len(),
        }
    }
}

impl<'a> From<&'a KernelRange> for Region<'a> {
    fn from(range: &'a KernelRange) -> Self {
        // INVARIANT: The whole of the backing.
        Self {
            backing: Backing::Kernel(range),
            start: 0,
            len: range.len(),
        }
    }
}

impl<'a> Region<'a> {
    /// The `len` bytes that an access is about.
    pub(super) fn present(present: &'a PresentUse, len: usize) -> Self {
        // INVARIANT: The whole of the backing.
        Self {
            backing: Backing::Present(present),
            start: 0,
            len,
        }
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

    /// A window of this window; `None` if it does not fit.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> Option<Region<'a>> {
        let end = offset.checked_add(len)?;
        // INVARIANT: Within `self`, which is within the backing; so the addition cannot overflow either.
        (end <= self.len).then(|| Region {
            backing: self.backing,
            start: self.start.wrapping_add(offset),
            len,
        })
    }

    /// Whether the memory may be written.
    #[inline]
    pub fn is_writable(&self) -> bool {
        match self.backing {
            Backing::Pages(pages) => pages.is_writable(),
            Backing::Kernel(range) => range.is_writable(),
            Backing::Present(present) => present.is_writable(),
        }
    }

    /// Writes `data` at `offset`.
    pub fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), AccessError> {
        self.check_write(offset, data.len())?;
        let mut src = data.as_ptr();
        self.for_each_piece(offset, data.len(), |piece| {
            // SAFETY: The piece is mapped and writable; the pieces together are as long as `data`, so `src`
            // has `piece.len` bytes left. Kernel buffers and work-request memory do not overlap.
            unsafe { sib_bindings::sib_helper_copy(piece.ptr.cast(), src.cast(), piece.len) };
            src = src.wrapping_add(piece.len);
        })
    }

    /// Reads at `offset` until `data` is full.
    #[inline]
    pub fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), AccessError> {
        let len = data.len();
        let data = data.as_mut_ptr().cast::<MaybeUninit<u8>>();
        // SAFETY: The same bytes, which are only ever written to.
        let data = unsafe { core::slice::from_raw_parts_mut(data, len) };
        self.copy_out_uninit(offset, data)
    }

    /// The same for bytes that need not be initialised; they are if this succeeds.
    pub fn copy_out_uninit(
        &self,
        offset: usize,
        data: &mut [MaybeUninit<u8>],
    ) -> Result<(), AccessError> {
        self.check(offset, data.len())?;
        let mut dst = data.as_mut_ptr();
        self.for_each_piece(offset, data.len(), |piece| {
            // SAFETY: As in `copy_in`, with the direction reversed.
            unsafe { sib_bindings::sib_helper_copy(dst.cast(), piece.ptr.cast(), piece.len) };
            dst = dst.wrapping_add(piece.len);
        })
    }

    /// Copies `len` bytes at `offset` to `dst_offset` of `dst`, straight from page to page.
    ///
    /// Source and destination may be the same memory; where they overlap beyond a page, the result is as
    /// undefined as the IBA has it for a requester that writes what it is reading.
    pub fn copy_to(
        &self,
        offset: usize,
        dst: &Region<'_>,
        dst_offset: usize,
        len: usize,
    ) -> Result<(), AccessError> {
        self.check(offset, len)?;
        dst.check_write(dst_offset, len)?;
        let mut done = 0;
        while done < len {
            let left = len.wrapping_sub(done);
            let from = self
                .piece(offset.wrapping_add(done), left)
                .ok_or(AccessError::OutOfBounds)?;
            let to = dst
                .piece(dst_offset.wrapping_add(done), from.len)
                .ok_or(AccessError::OutOfBounds)?;
            // SAFETY: Both pieces are mapped for at least `to.len` bytes, and `dst` is writable.
            unsafe { sib_bindings::sib_helper_copy(to.ptr.cast(), from.ptr.cast(), to.len) };
            done = done.wrapping_add(to.len);
        }
        Ok(())
    }

    /// Adds to the 64-bit word at `offset`, atomically, and returns what it was.
    pub fn fetch_add(&self, offset: usize, add: u64) -> Result<u64, AccessError> {
        Ok(self.word(offset)?.fetch_add(add, Full))
    }

    /// Replaces the 64-bit word at `offset` by `swap` if it equals `compare`, atomically. Returns what it
    /// was.
    pub fn compare_swap(&self, offset: usize, compare: u64, swap: u64) -> Result<u64, AccessError> {
        Ok(self
            .word(offset)?
            .cmpxchg(compare, swap, Full)
            .unwrap_or_else(|was| was))
    }

    /// Writes the 64-bit word at `offset` in one access, after all writes before it.
    pub fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.word(offset)?.store(value, Release);
        Ok(())
    }

    /// The contiguous bytes at `offset`, `max` at most; `None` at the end of the window.
    #[inline]
    pub(crate) fn piece(&self, offset: usize, max: usize) -> Option<Piece> {
        let left = self.len.checked_sub(offset)?;
        // By the invariant this cannot overflow.
        let at = self.start.wrapping_add(offset);
        let piece = match self.backing {
            Backing::Pages(pages) => pages.piece(at, left.min(max))?,
            Backing::Kernel(range) => range.piece(at)?,
            Backing::Present(present) => present.piece(at, left.min(max))?,
        };
        let len = piece.len.min(left).min(max);
        // INVARIANT: Not longer than the piece.
        (len > 0).then_some(Piece { len, ..piece })
    }

    /// Calls `f` with the pieces of `len` bytes at `offset`, in order.
    fn for_each_piece(
        &self,
        offset: usize,
        len: usize,
        mut f: impl FnMut(Piece),
    ) -> Result<(), AccessError> {
        let mut done = 0;
        while done < len {
            let piece = self
                .piece(offset.wrapping_add(done), len.wrapping_sub(done))
                .ok_or(AccessError::OutOfBounds)?;
            done = done.wrapping_add(piece.len);
            f(piece);
        }
        Ok(())
    }

    /// The word at `offset`, for atomic writing.
    fn word(&self, offset: usize) -> Result<&'a Atomic<u64>, AccessError> {
        self.check_write(offset, size_of::<u64>())?;
        let piece = self
            .piece(offset, size_of::<u64>())
            .ok_or(AccessError::OutOfBounds)?;
        let ptr = piece.ptr.cast::<u64>();
        if !ptr.is_aligned() || piece.len < size_of::<u64>() {
            return Err(AccessError::Misaligned);
        }
        // SAFETY: Aligned and mapped for as long as the region; other kernel code accesses this memory by
        // atomics or copies in C, and user space is outside of the memory model.
        Ok(unsafe { Atomic::from_ptr(ptr) })
    }

    #[inline]
    fn check(&self, offset: usize, len: usize) -> Result<(), AccessError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(AccessError::OutOfBounds),
        }
    }

    #[inline]
    fn check_write(&self, offset: usize, len: usize) -> Result<(), AccessError> {
        self.check(offset, len)?;
        if self.is_writable() {
            Ok(())
        } else {
            Err(AccessError::ReadOnly)
        }
    }
}

#[kunit_tests(sib_rdma_mem)]
mod tests {
    use super::*;
    use kernel::alloc::KVVec;

    /// The size of the pages of these tests.
    const SHIFT: u32 = 6;

    /// Memory to make pages of, which are `1 << SHIFT` bytes and in reverse order.
    struct Store {
        words: KVVec<u64>,
    }

    impl Store {
        fn new(pages: usize) -> Result<Self> {
            Ok(Self {
                words: KVVec::from_elem(0, pages << (SHIFT - 3), GFP_KERNEL)?,
            })
        }

        fn pages(&mut self, first: usize, len: usize, writable: bool) -> Result<Pages> {
            let size = 1 << SHIFT;
            let count = (self.words.len() * 8) / size;
            let mut pages = Pages::with_capacity(count)?;
            let base = self.words.as_mut_ptr().expose_provenance();
            for nth in (0..count).rev() {
                // SAFETY: So many bytes are there, and the tests drop the pages first.
                unsafe { pages.push((base + nth * size) as u64) }?;
            }
            // SAFETY: As above.
            unsafe { pages.set_range(SHIFT, first, len, writable) }?;
            Ok(pages)
        }
    }

    fn pattern(len: usize) -> Result<KVVec<u8>> {
        let mut bytes = KVVec::with_capacity(len, GFP_KERNEL)?;
        for i in 0..len {
            bytes.push((i * 7 + 3) as u8, GFP_KERNEL)?;
        }
        Ok(bytes)
    }

    #[test]
    fn copies_across_pages() -> Result {
        let mut store = Store::new(8)?;
        let pages = store.pages(13, 400, true)?;
        let region = Region::from(&pages);
        let data = pattern(400)?;
        let mut back = KVVec::from_elem(0u8, 400, GFP_KERNEL)?;
        for (offset, len) in [
            (0, 400),
            (1, 1),
            (50, 3),
            (51, 64),
            (63, 130),
            (399, 1),
            (400, 0),
        ] {
            assert!(region.copy_in(offset, &data[..len]).is_ok());
            assert!(region.copy_out(offset, &mut back[..len]).is_ok());
            assert!(back[..len] == data[..len]);
        }
        Ok(())
    }

    #[test]
    fn adjacent_pages_are_one_piece() -> Result {
        let store = Store::new(6)?;
        let mut pages = Pages::with_capacity(6)?;
        let base = store.words.as_ptr().expose_provenance();
        for nth in [0, 1, 2, 4, 5, 3] {
            // SAFETY: So many bytes are there, and the store is dropped last.
            unsafe { pages.push((base + nth * (1 << SHIFT)) as u64) }?;
        }
        // SAFETY: As above.
        unsafe { pages.set_range(SHIFT, 10, 340, true) }?;
        let region = Region::from(&pages);
        let len = |offset, max| region.piece(offset, max).map(|piece| piece.len);
        assert_eq!(len(0, 300), Some(3 * 64 - 10));
        assert_eq!(len(0, 100), Some(100));
        assert_eq!(len(60, 300), Some(2 * 64 - 6));
        assert_eq!(len(3 * 64 - 10, 300), Some(2 * 64));
        assert_eq!(len(5 * 64 - 10, 300), Some(340 + 10 - 5 * 64));
        assert_eq!(len(340, 1), None);
        Ok(())
    }

    #[test]
    fn refuses_what_is_out_of_bounds() -> Result {
        let mut store = Store::new(4)?;
        let pages = store.pages(5, 200, true)?;
        let region = Region::from(&pages);
        let out = Err(AccessError::OutOfBounds);
        assert_eq!(region.copy_in(200, &[0]), out);
        assert_eq!(region.copy_in(199, &[0, 0]), out);
        assert_eq!(region.copy_in(usize::MAX, &[0, 0]), out);
        assert_eq!(region.copy_out(201, &mut []), out);
        assert!(region.slice(100, 101).is_none());
        assert!(region.slice(usize::MAX, 2).is_none());
        let window = region.slice(190, 10).ok_or(EINVAL)?;
        assert_eq!(window.len(), 10);
        assert_eq!(window.copy_out(3, &mut [0; 8]), out);
        assert!(window.copy_out(3, &mut [0; 7]).is_ok());
        assert_eq!(region.copy_to(0, &window, 0, 11), out);
        assert_eq!(window.copy_to(1, &region, 0, 10), out);
        let mut small = Store::new(1)?;
        assert!(small.pages(64, 0, true).is_err());
        assert!(small.pages(1, 64, true).is_err());
        assert!(small.pages(0, usize::MAX, true).is_err());
        Ok(())
    }

    #[test]
    fn copies_from_region_to_region() -> Result {
        let (mut from, mut to) = (Store::new(6)?, Store::new(6)?);
        let (from, to) = (from.pages(9, 300, true)?, to.pages(40, 300, true)?);
        let (from, to) = (Region::from(&from), Region::from(&to));
        let data = pattern(300)?;
        assert!(from.copy_in(0, &data).is_ok());
        assert!(from.copy_to(7, &to, 3, 290).is_ok());
        let mut back = KVVec::from_elem(0u8, 290, GFP_KERNEL)?;
        assert!(to.copy_out(3, &mut back).is_ok());
        assert!(back[..] == data[7..297]);
        let mut bytes = [0u8; 32];
        let addr = bytes.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The array outlives the range.
        let range = unsafe { KernelRange::new(addr, 32, true) };
        assert!(from.copy_to(60, &Region::from(&range), 0, 32).is_ok());
        drop(range);
        assert!(bytes[..] == data[60..92]);
        Ok(())
    }

    #[test]
    fn atomics_are_aligned() -> Result {
        let mut store = Store::new(2)?;
        let pages = store.pages(8, 64, true)?;
        let region = Region::from(&pages);
        assert_eq!(region.store(48, 5), Ok(()));
        assert_eq!(region.fetch_add(48, u64::MAX), Ok(5));
        assert_eq!(region.compare_swap(48, 3, 9), Ok(4));
        assert_eq!(region.compare_swap(48, 4, 9), Ok(4));
        assert_eq!(region.fetch_add(48, 0), Ok(9));
        // The last word of the first page, and the first of the second.
        assert_eq!(region.store(56, 1), Ok(()));
        assert_eq!(region.fetch_add(57, 0), Err(AccessError::OutOfBounds));
        assert_eq!(region.fetch_add(4, 0), Err(AccessError::Misaligned));
        assert_eq!(region.store(usize::MAX, 0), Err(AccessError::OutOfBounds));
        Ok(())
    }

    #[test]
    fn read_only_stays_so() -> Result {
        let mut store = Store::new(1)?;
        let pages = store.pages(0, 64, false)?;
        let region = Region::from(&pages);
        assert_eq!(region.copy_in(0, &[1]), Err(AccessError::ReadOnly));
        assert_eq!(region.fetch_add(0, 1), Err(AccessError::ReadOnly));
        assert_eq!(region.copy_to(0, &region, 8, 8), Err(AccessError::ReadOnly));
        let mut byte = [9];
        assert!(region.copy_out(0, &mut byte).is_ok());
        assert_eq!(byte[0], 0);
        Ok(())
    }
}
