// SPDX-License-Identifier: GPL-2.0

//! Lists of pages that change between uses.

use super::{
    Pages,
    Region, //
};
use crate::ib::PageList;
use crate::sync::{
    Atomic,
    Sleepable, //
};
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Relaxed,
    Release, //
};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// The length of a pause between two looks at the uses of a list that goes, in microseconds.
const PAUSE_US: i64 = 20;

/// Somebody has the list for himself.
const TAKEN: i32 = -1;

/// The largest number of uses at one time.
const MAX_USES: i32 = i32::MAX / 2;

/// There is no next list.
const NO_NEXT: i32 = 0;

/// There is one.
const NEXT: i32 = 1;

/// There was to be one, which could not be made.
const FAILED: i32 = 2;

/// # Invariants
///
/// While `uses` is positive nobody changes `pages`, and so many [`PagesUse`] exist. While it is [`TAKEN`],
/// whoever set it has `pages` for himself; while `state` is, whoever set that has `next`.
struct Inner {
    pages: UnsafeCell<Pages>,
    uses: Atomic<i32>,
    next: UnsafeCell<Pages>,
    state: Atomic<i32>,
}

// SAFETY: `uses` and `state` say who may access the lists, which may be on any thread.
unsafe impl Send for Inner {}
// SAFETY: As above.
unsafe impl Sync for Inner {}

/// The list of pages of a region for fast registration, and the one that the next registration is to have.
///
/// The client fills the next list whenever it likes, since the registration before may have to last until its key is
/// invalidated. The list is used from any context, without a lock.
///
/// Its memory is the client's, who lets the region have it until the key of the registration is invalidated, or the
/// region is gone. So no pages leave the list, and whoever makes the region ends all use of it [with that](Lender). The
/// drop waits for those who use the pages: it may sleep, and must happen in a task that holds no lock.
///
/// # Invariants
///
/// It is dropped when nobody uses the pages.
pub struct FastPages {
    inner: Arc<Inner>,
}

impl FastPages {
    /// An empty list with room for `capacity` pages. May sleep.
    pub(crate) fn new(capacity: usize) -> Result<Self> {
        // INVARIANT: No use exists, and nobody has a list.
        let inner = Inner {
            pages: UnsafeCell::new(Pages::with_capacity(capacity)?),
            uses: Atomic::new(0),
            next: UnsafeCell::new(Pages::with_capacity(capacity)?),
            state: Atomic::new(NO_NEXT),
        };
        Ok(Self {
            inner: Arc::new(inner, GFP_KERNEL_ACCOUNT)?,
        })
    }

    /// Whether no use exists. What ended uses did happens before the answer.
    pub fn is_idle(&self) -> bool {
        self.inner.uses.load(Acquire) == 0
    }

    /// Begins to use the list; `None` while it changes. Callable in any context.
    pub fn enter(&self) -> Option<PagesUse> {
        let uses = &self.inner.uses;
        let mut now = uses.load(Relaxed);
        loop {
            if !(0..MAX_USES).contains(&now) {
                return None;
            }
            match uses.cmpxchg(now, now.wrapping_add(1), Acquire) {
                Ok(_) => break,
                Err(other) => now = other,
            }
        }
        // INVARIANT: The use has just been counted, and this is not dropped before it has ended.
        Some(PagesUse {
            inner: NonNull::from(&*self.inner),
        })
    }

    /// Makes the next list, of as many pages of the client's as there is room for. Callable in any context.
    ///
    /// # Errors
    ///
    /// `EBUSY` while another call does, or [`Self::advance`]; `EINVAL` when the client's list is empty or its page size
    /// is not a power of two, it has been taken, or is for another region; `ENOMEM` when nothing fits. There is nothing to
    /// register then until another call succeeds, unless the list is for another region.
    pub fn map(&self, list: &mut PageList<'_>) -> Result {
        if !list.lender().is_some_and(|lender| lender.is_of(self)) {
            return Err(EINVAL);
        }
        self.fill(|pages| list.fill(pages))
    }

    /// Has `fill` make the next list, of what the one before it has left. Not for other crates: what is lent could be
    /// exchanged for another list, and its pages outlive the region.
    fn fill(&self, fill: impl FnOnce(&mut Pages) -> Result) -> Result {
        let state = &self.inner.state;
        let now = state.load(Relaxed);
        if now == TAKEN || state.cmpxchg(now, TAKEN, Acquire).is_err() {
            return Err(EBUSY);
        }
        // SAFETY: By the invariant the list is ours until `state` changes again.
        let result = fill(unsafe { &mut *self.inner.next.get() });
        state.store(if result.is_ok() { NEXT } else { FAILED }, Release);
        result
    }

    /// Puts the next list in the place of the present one, if there is a next one. Callable in any context.
    ///
    /// # Errors
    ///
    /// `EBUSY` while the list is in use, or the next one is being filled; `EINVAL` if that has failed.
    pub fn advance(&self) -> Result {
        let (uses, state) = (&self.inner.uses, &self.inner.state);
        match state.cmpxchg(NEXT, TAKEN, Acquire) {
            Ok(_) => {}
            Err(NO_NEXT) => return Ok(()),
            Err(FAILED) => return Err(EINVAL),
            Err(_) => return Err(EBUSY),
        }
        if uses.cmpxchg(0, TAKEN, Acquire).is_err() {
            state.store(NEXT, Release);
            return Err(EBUSY);
        }
        // SAFETY: By the invariant both lists are ours until `uses` and `state` change again.
        unsafe { core::ptr::swap(self.inner.pages.get(), self.inner.next.get()) };
        uses.store(0, Release);
        state.store(NO_NEXT, Release);
        Ok(())
    }
}

impl Drop for FastPages {
    fn drop(&mut self) {
        // None begins any more, as that takes a reference to this.
        while self.inner.uses.load(Acquire) > 0 {
            fsleep(Delta::from_micros(PAUSE_US));
        }
    }
}

/// What the maker of a region keeps of its [`FastPages`], which may outlive the region.
pub(crate) struct Lender(Arc<Inner>);

impl Lender {
    /// That of `pages`.
    pub(crate) fn of(pages: &FastPages) -> Self {
        Self(pages.inner.clone())
    }

    /// Whether it is that of `pages`.
    fn is_of(&self, pages: &FastPages) -> bool {
        Arc::ptr_eq(&self.0, &pages.inner)
    }

    /// Has nobody use the pages any more. Waits for those who do.
    pub(crate) fn take_back(&self, _sleepable: Sleepable<'_>) {
        while self.0.uses.cmpxchg(0, TAKEN, Acquire).is_err() {
            fsleep(Delta::from_micros(PAUSE_US));
        }
    }
}

/// A use of a list of pages, which stays as it is meanwhile.
///
/// # Invariants
///
/// It is counted in `inner.uses`, and `inner` is live for as long as it is.
pub struct PagesUse {
    inner: NonNull<Inner>,
}

// SAFETY: The list may be used, and the count changed, by any task.
unsafe impl Send for PagesUse {}
// SAFETY: As above.
unsafe impl Sync for PagesUse {}

impl PagesUse {
    /// The memory.
    #[inline]
    pub fn region(&self) -> Region<'_> {
        // SAFETY: By the invariants it is live, and nobody changes the list while this use exists.
        Region::from(unsafe { &*self.inner.as_ref().pages.get() })
    }
}

impl Drop for PagesUse {
    fn drop(&mut self) {
        // SAFETY: Live by the invariant, and maybe not any more when the use is not counted.
        let uses = unsafe { &(*self.inner.as_ptr()).uses };
        uses.fetch_sub(1, Release);
    }
}

#[kunit_tests(sib_rdma_fast_pages)]
mod tests {
    use super::*;
    use crate::new_work;
    use crate::sync::{
        test_context,
        Cx,
        DevLock,
        LevelLock,
        Sleepable,
        Unlocked, //
    };
    use crate::work::{
        Queue,
        Run,
        Work, //
    };

    /// Ends a use of a list after a while.
    #[pin_data]
    struct Holder {
        #[pin]
        access: LevelLock<Option<PagesUse>, DevLock>,
        is_over: Atomic<bool>,
        #[pin]
        work: Work<Holder>,
    }

    impl Run for Holder {
        type Pointer = Arc<Holder>;

        fn run(this: Arc<Holder>, mut cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {
            let access = cx.lock(&this.access).take();
            fsleep(Delta::from_millis(20));
            this.is_over.store(true, Release);
            drop(access);
        }
    }

    #[test]
    fn a_list_that_goes_waits_for_its_uses() -> Result {
        let (_cx, sleepable) = test_context();
        let queue = Queue::new(c"sib_test", sleepable)?;
        let pages = FastPages::new(1)?;
        let access = pages.enter().ok_or(EINVAL)?;
        let holder = Arc::pin_init(
            pin_init!(Holder {
                access <- LevelLock::new(Some(access)),
                is_over: Atomic::new(false),
                work <- new_work!("Holder::work"),
            }),
            GFP_KERNEL,
        )?;
        assert!(queue.enqueue(&holder.work, holder.clone()).is_ok());
        drop(pages);
        assert!(holder.is_over.load(Acquire));
        Ok(())
    }

    #[test]
    fn nobody_uses_what_was_taken_back() -> Result {
        let (_cx, sleepable) = test_context();
        let pages = FastPages::new(1)?;
        let lender = Lender::of(&pages);
        assert!(lender.is_of(&pages) && !lender.is_of(&FastPages::new(1)?));
        drop(pages.enter().ok_or(EINVAL)?);
        lender.take_back(sleepable);
        assert!(pages.enter().is_none());
        pages.fill(|_| Ok(()))?;
        assert_eq!(pages.advance().err(), Some(EBUSY));
        // Whoever has it still does not wait for ever.
        drop(pages);
        Ok(())
    }

    /// Makes a next list of `len` bytes at `bytes`, which outlives its use.
    fn fill(pages: &FastPages, bytes: &mut [u8; 64], len: usize) -> Result {
        pages.fill(|list| {
            list.clear();
            // SAFETY: Promised by the callers.
            unsafe {
                list.push(bytes.as_mut_ptr().expose_provenance() as u64)?;
                list.set_range(6, 8, len, true)
            }
        })
    }

    #[test]
    fn a_list_in_use_stays() -> Result {
        let (mut old, mut new) = ([7u8; 64], [8u8; 64]);
        let pages = FastPages::new(1)?;
        assert!(pages.is_idle());
        fill(&pages, &mut old, 16)?;
        assert_eq!(pages.enter().ok_or(EINVAL)?.region().len(), 0);
        pages.advance()?;

        let first = pages.enter().ok_or(EINVAL)?;
        let second = pages.enter().ok_or(EINVAL)?;
        fill(&pages, &mut new, 32)?;
        drop(first);
        assert!(!pages.is_idle());
        assert_eq!(pages.advance().err(), Some(EBUSY));
        let mut back = [0; 16];
        assert_eq!(second.region().len(), 16);
        assert!(second.region().copy_out(0, &mut back).is_ok());
        assert!(back == [7; 16]);

        drop(second);
        assert!(pages.is_idle());
        pages.advance()?;
        // There is no other one to come.
        pages.advance()?;
        let third = pages.enter().ok_or(EINVAL)?;
        assert_eq!(third.region().len(), 32);
        assert!(third.region().copy_out(0, &mut back).is_ok());
        assert!(back == [8; 16]);
        Ok(())
    }

    #[test]
    fn a_list_is_not_taken_while_it_is_filled() -> Result {
        let pages = FastPages::new(1)?;
        let filled = pages.fill(|_| {
            assert!(pages.enter().is_some());
            assert_eq!(pages.advance().err(), Some(EBUSY));
            assert_eq!(pages.fill(|_| Ok(())).err(), Some(EBUSY));
            Err(ENOMEM)
        });
        assert_eq!(filled.err(), Some(ENOMEM));
        assert_eq!(pages.advance().err(), Some(EINVAL));
        pages.fill(|_| Ok(()))?;
        pages.advance()
    }
}
