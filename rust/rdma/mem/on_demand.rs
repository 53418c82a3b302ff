// SPDX-License-Identifier: GPL-2.0

//! User memory that is not pinned: its pages come when they are needed, and go when the kernel wants them.
//!
//! ib_core knows the owner of the memory and faults pages in, which may sleep; a notifier of the memory
//! management takes them away. In between stands a list of the pages that are there, which is read without a
//! lock in any context. While an access is under way, a [`PresentUse`], no page goes: whoever takes pages away
//! lets no more accesses begin, and waits for those that have. Nobody sleeps while he accesses, so that is
//! short.
//!
//! C header: [`include/rdma/ib_umem_odp.h`](srctree/include/rdma/ib_umem_odp.h)

use super::region::{
    Piece,
    Region, //
};
use super::BulkVec;
use crate::ib::DeviceRef;
use crate::sync::{
    Atomic,
    Cx,
    Sleepable,
    Unlocked, //
};
use core::ptr::NonNull;
use kernel::bindings;
use kernel::error::{
    from_err_ptr,
    to_result, //
};
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Relaxed,
    Release, //
};
use kernel::sync::Mutex;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// In the entry of a page that may be written. Pages are aligned to more than that.
const WRITABLE: usize = 1;

/// In the count of uses: no more may begin.
const CLOSED: u32 = 1 << 31;

/// How often the count of uses is looked at before it is waited for with pauses.
const SPINS: u32 = 1000;

/// The length of such a pause, in microseconds.
const PAUSE_US: i64 = 20;

/// The pages of a range that are there.
///
/// # Invariants
///
/// An entry of `pages` is 0, or the address of a page of `1 << shift` bytes, which is mapped at least until the
/// entry is cleared, and may be written if the entry has [`WRITABLE`]. An entry is cleared only while `uses` is
/// [`CLOSED`] and nothing else.
///
/// `first < 1 << shift`, and `first + len <= pages.len() << shift`, which does not overflow.
struct Present {
    pages: BulkVec<Atomic<usize>>,
    uses: Atomic<u32>,
    shift: u32,
    first: usize,
    len: usize,
}

impl Present {
    /// The entries of the pages that hold the `len` bytes at `offset`, if that is within the range.
    fn entries(&self, offset: usize, len: usize) -> Option<(usize, &[Atomic<usize>])> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len)?;
        // By the invariant nothing overflows.
        let from = self.first.wrapping_add(offset).wrapping_shr(self.shift);
        let last = self
            .first
            .wrapping_add(end)
            .wrapping_sub(1)
            .wrapping_shr(self.shift);
        Some((from, self.pages.get(from..=last)?))
    }

    /// Whether the bytes are there, and may be written if they are to be.
    fn holds(&self, offset: usize, len: usize, write: bool) -> bool {
        let wanted = |entry: &Atomic<usize>| {
            let entry = entry.load(Acquire);
            entry != 0 && (!write || entry & WRITABLE != 0)
        };
        self.entries(offset, len)
            .is_some_and(|(_, entries)| entries.iter().all(wanted))
    }

    /// Counts a use, unless none may begin.
    fn enter(&self) -> bool {
        let mut now = self.uses.load(Relaxed);
        loop {
            if now >= CLOSED.wrapping_sub(1) {
                return false;
            }
            match self.uses.cmpxchg(now, now.wrapping_add(1), Acquire) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }

    /// Ends a use, after which `this` may be gone.
    ///
    /// # Safety
    ///
    /// A use is counted that the caller has.
    unsafe fn leave(this: NonNull<Self>) {
        // SAFETY: Live as long as the use is counted.
        let uses = unsafe { &(*this.as_ptr()).uses };
        uses.fetch_sub(1, Release);
    }

    /// Lets no more uses begin, and waits for those that have. May sleep; one at a time.
    fn close(&self) {
        let mut spins: u32 = 0;
        self.uses.fetch_add(CLOSED, Acquire);
        while self.uses.load(Acquire) != CLOSED {
            if spins < SPINS {
                spins = spins.wrapping_add(1);
                core::hint::spin_loop();
            } else {
                fsleep(Delta::from_micros(PAUSE_US));
            }
        }
    }

    /// Lets uses begin again.
    fn open(&self) {
        self.uses.fetch_sub(CLOSED, Release);
    }

    /// Forgets pages, whose writes the memory management learns of. No use may begin, and none is left.
    fn forget(&self, entries: &[Atomic<usize>]) {
        for entry in entries {
            let was = entry.load(Relaxed);
            if was & WRITABLE != 0 {
                let page = core::ptr::with_exposed_provenance_mut::<c_void>(was & !WRITABLE);
                // SAFETY: By the invariant the page is still there.
                unsafe { sib_bindings::sib_helper_odp_dirty(page) };
            }
            if was != 0 {
                // INVARIANT: The caller has closed the list.
                entry.store(0, Relaxed);
            }
        }
    }

    /// The bytes from `offset` to the end of the page that it is in, or of one that follows it in memory as
    /// well, up to `wanted` bytes.
    fn piece(&self, offset: usize, wanted: usize) -> Option<Piece> {
        if offset >= self.len {
            return None;
        }
        // By the invariant nothing below overflows for an offset in the range.
        let at = self.first.wrapping_add(offset);
        let mut entries = self.pages.get(at.wrapping_shr(self.shift)..)?.iter();
        let page = |entry: &Atomic<usize>| entry.load(Acquire) & !WRITABLE;
        let mut last = page(entries.next()?);
        if last == 0 {
            return None;
        }
        let size = 1usize.wrapping_shl(self.shift);
        let inside = at & size.wrapping_sub(1);
        let ptr = core::ptr::with_exposed_provenance_mut::<u8>(last.wrapping_add(inside));
        let mut len = size.wrapping_sub(inside);
        while len < wanted {
            let after = last.wrapping_add(size);
            if entries.next().map(page) != Some(after) {
                break;
            }
            last = after;
            len = len.wrapping_add(size);
        }
        // INVARIANT: The tail of a page, and pages that follow without a gap.
        Some(Piece { ptr, len })
    }
}

/// An access to pages that are there, and stay for as long as this exists. To be ended soon, and without
/// sleeping.
///
/// # Invariants
///
/// It is counted in `present.uses`, and `present` is live for as long as it is. The `len` bytes at `offset` are there,
/// and writable if `writable`.
pub struct PresentUse {
    present: NonNull<Present>,
    offset: usize,
    len: usize,
    writable: bool,
}

// SAFETY: What it is counted in may be read, and the count changed, by any task.
unsafe impl Send for PresentUse {}
// SAFETY: As above.
unsafe impl Sync for PresentUse {}

impl PresentUse {
    /// As [`OnDemand::enter`].
    ///
    /// # Safety
    ///
    /// `present` stays where it is, and is not dropped before its count of uses is [`CLOSED`] and nothing else.
    unsafe fn new(present: &Present, offset: usize, len: usize, write: bool) -> Option<Self> {
        if !present.enter() {
            return None;
        }
        if !present.holds(offset, len, write) {
            // SAFETY: Just counted.
            unsafe { Present::leave(NonNull::from(present)) };
            return None;
        }
        // INVARIANT: The use has just been counted, and nothing goes before it is over, as the caller promises.
        Some(Self {
            present: NonNull::from(present),
            offset,
            len,
            writable: write,
        })
    }

    /// The memory.
    #[inline]
    pub fn region(&self) -> Region<'_> {
        Region::present(self, self.len)
    }

    /// Whether it may be written.
    #[inline]
    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The contiguous bytes at `offset`, up to `wanted` or more.
    #[inline]
    pub(super) fn piece(&self, offset: usize, wanted: usize) -> Option<Piece> {
        // SAFETY: Live by the invariant.
        let present = unsafe { self.present.as_ref() };
        present.piece(self.offset.checked_add(offset)?, wanted)
    }
}

impl Drop for PresentUse {
    fn drop(&mut self) {
        // The owner may free it as soon as the use is not counted any more.
        // SAFETY: Live by the invariant.
        unsafe { Present::leave(self.present) };
    }
}

/// User memory whose pages come and go.
///
/// Dropping it may sleep: it must be dropped by a task that holds no lock. Keep it in a
/// [`Tracked`](crate::sync::Tracked) object to have that by construction.
///
/// # Invariants
///
/// `raw` is such a memory of ib_core of which this is the only owner; its private pointer is that of `present`. That is
/// dropped when no use is left.
pub struct OnDemand {
    raw: NonNull<sib_bindings::ib_umem_odp>,
    present: KBox<Present>,
    /// The address of the first byte.
    addr: u64,
    /// One task at a time has pages come: ib_core writes them down before it locks its mutex.
    turn: Pin<KBox<Mutex<()>>>,
    /// The memory names it until it is released.
    _device: DeviceRef,
}

// SAFETY: Such memory may be accessed and released by any task.
unsafe impl Send for OnDemand {}
// SAFETY: All that a shared reference does is thread-safe.
unsafe impl Sync for OnDemand {}

/// What the memory management calls.
static NOTIFIER: bindings::mmu_interval_notifier_ops = bindings::mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    // SAFETY: All members are optional pointers, for which zero is `None`.
    ..unsafe { core::mem::zeroed() }
};

/// A memory of ib_core that is not an [`OnDemand`] yet.
struct Raw(NonNull<sib_bindings::ib_umem_odp>);

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: Live, and owned by this value.
        unsafe { sib_bindings::sib_helper_odp_release(self.0.as_ptr()) }
    }
}

impl OnDemand {
    /// Takes `len` bytes at `addr` of the current task's memory, for writing if `access` (`IB_ACCESS_*`) has a
    /// flag that writes. No page is there yet.
    ///
    /// # Safety
    ///
    /// `device` is a live device.
    pub(crate) unsafe fn new(
        device: *mut sib_bindings::ib_device,
        addr: u64,
        len: usize,
        access: i32,
        _cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
    ) -> Result<Self> {
        // SAFETY: The device is live by the caller's promise, and the table lives forever.
        let raw = from_err_ptr(unsafe {
            sib_bindings::sib_helper_odp_get(device, addr as c_ulong, len, access, &NOTIFIER)
        })?;
        let raw = Raw(NonNull::new(raw).ok_or(EINVAL)?);
        let odp = raw.0.as_ptr();
        // SAFETY: Live.
        let (shift, start, end) = unsafe {
            (
                sib_bindings::sib_helper_odp_page_shift(odp),
                sib_bindings::sib_helper_odp_start(odp),
                sib_bindings::sib_helper_odp_end(odp),
            )
        };
        let bytes = end.checked_sub(start).ok_or(EINVAL)?;
        let first = (addr as usize).checked_sub(start).ok_or(EINVAL)?;
        let count = bytes.wrapping_shr(shift);
        let mut pages = BulkVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            pages
                .push_within_capacity(Atomic::new(0))
                .map_err(|_| ENOMEM)?;
        }
        // INVARIANT: No page is there. The range was rounded outwards to whole pages.
        let present = Present {
            pages,
            uses: Atomic::new(0),
            shift,
            first,
            len,
        };
        let present = KBox::new(present, GFP_KERNEL_ACCOUNT)?;
        let turn = KBox::pin_init(new_mutex!(()), GFP_KERNEL_ACCOUNT)?;
        // SAFETY: A live device by the promise of the caller, so it is not null.
        let device = unsafe { DeviceRef::new(NonNull::new_unchecked(device)) };
        // SAFETY: Live. The notifier looks at the pointer while it holds the mutex.
        unsafe {
            sib_bindings::sib_helper_odp_lock(odp);
            sib_bindings::sib_helper_odp_set_private(odp, (&raw const *present).cast_mut().cast());
            sib_bindings::sib_helper_odp_unlock(odp);
        }
        let odp = raw.0;
        core::mem::forget(raw);
        // INVARIANT: Fresh from ib_core, and the pointer has just been set.
        Ok(Self {
            raw: odp,
            present,
            addr,
            turn,
            _device: device,
        })
    }

    /// The size in bytes.
    pub(super) fn size(&self) -> usize {
        self.present.len
    }

    /// Begins to access `len` bytes at `offset`; `None` if some of them are not there now, or may not be written
    /// but shall. `len` is not 0. Callable in any context.
    pub fn enter(&self, offset: usize, len: usize, write: bool) -> Option<PresentUse> {
        // SAFETY: It is on the heap, and dropped when no use is left, by the invariant.
        unsafe { PresentUse::new(&self.present, offset, len, write) }
    }

    /// Has `len` bytes at `offset` come, as the owner of the memory may access them; to be written if `write`.
    /// They may be gone again when this returns.
    ///
    /// # Errors
    ///
    /// `EFAULT` if there is no such memory, or the kernel has no address for it, `EPERM` if it may not be written,
    /// `EINVAL` if its owner is gone, `ENOMEM`, `EBUSY` if it changes all the time.
    pub fn fault(
        &self,
        offset: usize,
        len: usize,
        write: bool,
        _cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
    ) -> Result {
        // SAFETY: Live by the invariant.
        if write && !unsafe { sib_bindings::sib_helper_odp_writable(self.raw.as_ptr()) } {
            return Err(EPERM);
        }
        self.map(offset, len, write, true)
    }

    /// Takes over what the owner of the memory has of `len` bytes at `offset`, without having more come.
    ///
    /// # Errors
    ///
    /// As [`Self::fault`].
    pub fn snapshot(
        &self,
        offset: usize,
        len: usize,
        _cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
    ) -> Result {
        self.map(offset, len, false, false)
    }

    /// Enters pages into the list.
    fn map(&self, offset: usize, len: usize, write: bool, fault: bool) -> Result {
        let raw = self.raw.as_ptr();
        let (from, entries) = self.present.entries(offset, len).ok_or(EFAULT)?;
        let va = self.addr.checked_add(offset as u64).ok_or(EFAULT)?;
        let _turn = self.turn.lock();
        // SAFETY: Live by the invariant; the caller may sleep, and holds no lock.
        let mapped =
            unsafe { sib_bindings::sib_helper_odp_map_and_lock(raw, va, len as u64, write, fault) };
        if mapped < 0 {
            return to_result(mapped);
        }
        let mut result = Ok(());
        for (nth, entry) in entries.iter().enumerate() {
            let mut writable = false;
            // SAFETY: The mutex is locked, and the page is one of the range.
            let page = unsafe {
                sib_bindings::sib_helper_odp_page(raw, from.wrapping_add(nth), &mut writable)
            };
            if !page.is_null() {
                let flag = if writable { WRITABLE } else { 0 };
                // INVARIANT: The page stays until the notifier has cleared the entry, which needs the mutex. An
                // entry that is replaced is one of the same page.
                entry.store(page.expose_provenance() | flag, Release);
            } else if fault {
                // It has come, and is for the owner alone.
                result = Err(EFAULT);
            }
        }
        // SAFETY: Locked above.
        unsafe { sib_bindings::sib_helper_odp_unlock(raw) };
        result
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        let raw = self.raw.as_ptr();
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_odp_lock(raw) };
        // INVARIANT: No use is left after this.
        self.present.close();
        self.present.forget(&self.present.pages);
        // SAFETY: Locked above. Without the pointer the notifier forgets nothing any more; nothing is there.
        unsafe {
            sib_bindings::sib_helper_odp_set_private(raw, core::ptr::null_mut());
            sib_bindings::sib_helper_odp_unlock(raw);
        }
        // SAFETY: Live and ours by the invariant. The notifier does not run after this.
        unsafe { sib_bindings::sib_helper_odp_release(raw) }
    }
}

/// Takes pages away.
///
/// # Safety
///
/// Called by the memory management, for the notifier of a memory that [`OnDemand::new`] has made.
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
) -> bool {
    // SAFETY: Both are those of this call.
    let (blockable, from, to) = unsafe {
        (
            sib_bindings::sib_helper_mmu_range_blockable(range),
            (*range).start,
            (*range).end,
        )
    };
    if !blockable {
        return false;
    }
    // SAFETY: The notifier is part of a live memory, whose release waits for this call. The mutex guards what is
    // done here; that this may sleep has just been asked.
    unsafe {
        let odp = sib_bindings::sib_helper_odp_of(notifier);
        sib_bindings::sib_helper_odp_lock(odp);
        sib_bindings::sib_helper_mmu_interval_set_seq(notifier, seq);
        let start = sib_bindings::sib_helper_odp_start(odp);
        let end = sib_bindings::sib_helper_odp_end(odp);
        let from = from.max(start);
        let to = to.min(end);
        let present: *const Present = sib_bindings::sib_helper_odp_private(odp).cast();
        // SAFETY: The owner of the memory keeps the list for as long as the pointer is set, with the mutex locked.
        if let Some(present) = present.as_ref() {
            let first = from.wrapping_sub(start).wrapping_shr(present.shift);
            let last = to
                .wrapping_sub(start)
                .wrapping_sub(1)
                .wrapping_shr(present.shift);
            let entries = present.pages.get(first..=last).unwrap_or_default();
            if entries.iter().any(|entry| entry.load(Relaxed) != 0) {
                present.close();
                present.forget(entries);
                present.open();
            }
        }
        sib_bindings::sib_helper_odp_unmap(odp, from as u64, to as u64);
        sib_bindings::sib_helper_odp_unlock(odp);
    }
    true
}

#[kunit_tests(sib_rdma_on_demand)]
mod tests {
    use super::*;
    use crate::mem::AccessError;
    use kernel::alloc::KVVec;

    /// The size of the pages of these tests.
    const SHIFT: u32 = 6;

    /// Three such pages, the one in the middle missing and the last one read-only, from byte 10 on.
    fn present(store: &mut KVVec<u64>) -> Result<KBox<Present>> {
        let base = store.as_mut_ptr().expose_provenance();
        let mut pages = BulkVec::new();
        for entry in [base | WRITABLE, 0, base + 128] {
            pages.push(Atomic::new(entry), GFP_KERNEL_ACCOUNT)?;
        }
        let present = Present {
            pages,
            uses: Atomic::new(0),
            shift: SHIFT,
            first: 10,
            len: 182,
        };
        Ok(KBox::new(present, GFP_KERNEL)?)
    }

    /// Begins a use, which the tests end before the list.
    fn enter(present: &Present, offset: usize, len: usize, write: bool) -> Option<PresentUse> {
        // SAFETY: As said.
        unsafe { PresentUse::new(present, offset, len, write) }
    }

    fn store() -> Result<KVVec<u64>> {
        Ok(KVVec::from_elem(u64::MAX, 24, GFP_KERNEL)?)
    }

    #[test]
    fn only_what_is_there_is_entered() -> Result {
        let mut store = store()?;
        let present = present(&mut store)?;
        for (offset, len, write, there) in [
            (0, 54, true, true),
            (0, 55, false, false),
            (53, 1, true, true),
            (54, 1, false, false),
            (117, 2, false, false),
            (118, 64, false, true),
            (118, 1, true, false),
            (118, 65, false, false),
            (usize::MAX, 2, false, false),
        ] {
            let found = enter(&present, offset, len, write);
            assert_eq!(found.is_some(), there);
        }
        assert_eq!(present.uses.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn an_access_is_confined_to_its_bytes() -> Result {
        let mut store = store()?;
        let present = present(&mut store)?;
        let access = enter(&present, 4, 8, true).ok_or(EINVAL)?;
        let region = access.region();
        assert_eq!(region.len(), 8);
        assert!(region.copy_in(0, &[7; 8]).is_ok());
        assert_eq!(region.copy_in(1, &[7; 8]), Err(AccessError::OutOfBounds));
        drop(access);
        let access = enter(&present, 118, 8, false).ok_or(EINVAL)?;
        let region = access.region();
        assert_eq!(region.copy_in(0, &[7]), Err(AccessError::ReadOnly));
        drop(access);
        let access = enter(&present, 3, 10, false).ok_or(EINVAL)?;
        let mut bytes = [0; 10];
        assert!(access.region().copy_out(0, &mut bytes).is_ok());
        assert!(bytes == [255, 7, 7, 7, 7, 7, 7, 7, 7, 255]);
        Ok(())
    }

    #[test]
    fn nothing_begins_while_pages_go() -> Result {
        let mut store = store()?;
        let present = present(&mut store)?;
        present.close();
        assert!(enter(&present, 0, 1, false).is_none());
        present.open();
        let access = enter(&present, 118, 1, false);
        assert_eq!(present.uses.load(Relaxed), 1);
        drop(access);
        present.close();
        present.forget(present.pages.get(2..).ok_or(EINVAL)?);
        present.open();
        assert!(enter(&present, 118, 1, false).is_none());
        assert!(enter(&present, 0, 1, false).is_some());
        Ok(())
    }
}
