// SPDX-License-Identifier: GPL-2.0

//! Lists of pages that change between uses.

use super::{
    Pages,
    Region, //
};
use core::cell::UnsafeCell;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};
use kernel::sync::Arc;

/// The list is being replaced.
const FILLING: i32 = -1;

/// The largest number of uses at one time.
const MAX_USES: i32 = i32::MAX / 2;

/// # Invariants
///
/// While `uses` is positive nobody changes `pages`, and so many [`PagesUse`] exist. While it is [`FILLING`],
/// whoever set it has `pages` for himself.
struct Inner {
    pages: UnsafeCell<Pages>,
    uses: Atomic<i32>,
}

// SAFETY: `uses` says who may access `pages`, which may be on any thread.
unsafe impl Send for Inner {}
// SAFETY: As above.
unsafe impl Sync for Inner {}

/// The list of pages of a region for fast registration: replaced while nobody uses it, and used from any
/// context, without a lock, while nobody replaces it.
pub struct FastPages {
    inner: Arc<Inner>,
}

impl FastPages {
    /// An empty list with room for `capacity` pages. May sleep.
    pub fn new(capacity: usize) -> Result<Self> {
        let pages = UnsafeCell::new(Pages::with_capacity(capacity)?);
        // INVARIANT: No use exists.
        let inner = Inner {
            pages,
            uses: Atomic::new(0),
        };
        Ok(Self {
            inner: Arc::new(inner, GFP_KERNEL)?,
        })
    }

    /// Whether no use exists. What ended uses did happens before the answer.
    pub fn is_idle(&self) -> bool {
        self.inner.uses.load(Acquire) == 0
    }

    /// Begins to use the list; `None` while it is being replaced. Callable in any context.
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
        // INVARIANT: The use has just been counted.
        Some(PagesUse {
            inner: self.inner.clone(),
        })
    }

    /// Has `fill` replace the list.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the list is in use, and what `fill` returns.
    pub fn replace(&self, fill: impl FnOnce(&mut Pages) -> Result) -> Result {
        let uses = &self.inner.uses;
        uses.cmpxchg(0, FILLING, Acquire).map_err(|_| EBUSY)?;
        // SAFETY: By the invariant the list is ours until `uses` changes again.
        let result = fill(unsafe { &mut *self.inner.pages.get() });
        uses.store(0, Release);
        result
    }
}

/// A use of a list of pages, which stays as it is meanwhile.
///
/// # Invariants
///
/// It is counted in `inner.uses`.
pub struct PagesUse {
    inner: Arc<Inner>,
}

impl PagesUse {
    /// The memory.
    #[inline]
    pub fn region(&self) -> Region<'_> {
        // SAFETY: By the invariants nobody changes the list while this use exists.
        Region::from(unsafe { &*self.inner.pages.get() })
    }
}

impl Drop for PagesUse {
    fn drop(&mut self) {
        self.inner.uses.fetch_sub(1, Release);
    }
}

#[kunit_tests(sib_rdma_fast_pages)]
mod tests {
    use super::*;

    #[test]
    fn a_list_in_use_is_not_replaced() -> Result {
        let pages = FastPages::new(1)?;
        assert!(pages.is_idle());
        let first = pages.enter();
        let second = pages.enter();
        assert!(first.is_some() && second.is_some());
        drop(first);
        assert!(!pages.is_idle());
        assert_eq!(pages.replace(|_| Ok(())).err(), Some(EBUSY));
        drop(second);
        assert!(pages.is_idle());
        assert!(pages.replace(|_| Ok(())).is_ok());
        Ok(())
    }

    #[test]
    fn a_list_is_not_used_while_it_is_replaced() -> Result {
        let pages = FastPages::new(1)?;
        let filled = pages.replace(|_| {
            assert!(pages.enter().is_none());
            assert!(!pages.is_idle());
            Err(ENOMEM)
        });
        assert_eq!(filled.err(), Some(ENOMEM));
        assert!(pages.enter().is_some());
        Ok(())
    }

    #[test]
    fn what_was_filled_in_is_used() -> Result {
        let mut bytes = [7u8; 64];
        let pages = FastPages::new(1)?;
        pages.replace(|list| {
            list.clear();
            // SAFETY: The array outlives the list's use below.
            unsafe {
                list.push(bytes.as_mut_ptr().expose_provenance() as u64)?;
                list.set_range(6, 8, 16, true)
            }
        })?;
        let used = pages.enter().ok_or(EINVAL)?;
        assert_eq!(used.region().len(), 16);
        let mut back = [0; 16];
        assert!(used.region().copy_out(0, &mut back).is_ok());
        assert!(back == [7; 16]);
        drop(used);
        pages.replace(|list| {
            list.clear();
            Ok(())
        })
    }
}
