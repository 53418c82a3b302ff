// SPDX-License-Identifier: GPL-2.0

//! What is done in the order of a queue, in softirqs.

use crate::work::Item;
use kernel::bindings;
use kernel::container_of;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed, //
};

/// How long a work item, or who has found nobody at it, works at a time, in nanoseconds.
const LONGEST_NS: u64 = 1_000_000;

/// Things that are done in one go.
const AT_ONCE: u32 = 16;

/// Who comes in less than the fourth part of the time that the last things have taken comes at once.
const GAP_SHIFT: u32 = 2;

/// If so many things are due, and so many in a row have been brought by another processor, the next ones are done there:
/// more than it brings before one that is at it sees again what it gets itself.
const STRAYS: u32 = 64;

/// What a [`Backlog`] is of.
///
/// # Safety
///
/// A value of it may be shared by contexts.
pub(super) unsafe trait Serve {
    /// Does the `count` oldest things that are due, if they are still there.
    ///
    /// # Safety
    ///
    /// Called in a softirq with no lock held and interrupts on, by one context at a time.
    unsafe fn serve(&self, count: u32);
}

/// Things to do, of which somebody else keeps the queue. They are done in the order of that, by one context at a time:
/// the one that found nobody at it, or a work item.
///
/// Who goes on for long does so where things are brought. Otherwise a processor that has once been at it would be for good,
/// if another one brings more all the time, and do the work of both. What it has sent may wait there still, and be
/// overtaken: that is rare, and happens with every task that changes processors, too.
///
/// The owner ends it before it goes.
#[pin_data]
pub(super) struct Backlog<T> {
    #[pin]
    pub(super) of: T,
    /// How many are due. Somebody is at it unless this is zero.
    due: Atomic<u32>,
    /// When the last ones were done, in nanoseconds, and how long they took.
    done: Atomic<u64>,
    took: Atomic<u64>,
    /// The last ones were several.
    crowded: Atomic<bool>,
    /// The processor that is at it, or was.
    at: Atomic<u32>,
    /// Which other one has brought the last things, and how many in a row.
    elsewhere: Atomic<u32>,
    strays: Atomic<u32>,
    /// A work item that is queued while it runs stays on its processor. So each queues the other one.
    #[pin]
    even: Item,
    #[pin]
    odd: Item,
    /// Whether that is the next one to be queued.
    is_odd: Atomic<bool>,
}

impl<T: Serve> Backlog<T> {
    /// An initialiser of an empty one.
    pub(super) fn new(of: impl PinInit<T>) -> impl PinInit<Self> {
        // All kinds share a class, and lockdep wants it to have one name, at one address.
        static NAME: &CStr = c"Backlog";
        let class = kernel::static_lock_class!();
        pin_init!(Self {
            of <- of,
            due: Atomic::new(0),
            done: Atomic::new(0),
            took: Atomic::new(0),
            crowded: Atomic::new(false),
            at: Atomic::new(0),
            elsewhere: Atomic::new(0),
            strays: Atomic::new(0),
            even <- Item::new(Self::resume_even, NAME, class),
            odd <- Item::new(Self::resume_odd, NAME, class),
            is_odd: Atomic::new(false),
        })
    }

    /// How many are due, and in the queue.
    pub(super) fn len(&self) -> u32 {
        self.due.load(Acquire)
    }

    /// One more is in the queue, of which `cpu` tells. Whether nobody is at it: then the caller is, by
    /// [`Self::gather`] or [`Self::leave_to`].
    #[must_use]
    pub(super) fn add(&self, cpu: CpuId) -> bool {
        if self.at.load(Relaxed) == cpu.as_u32() {
            self.strays.store(0, Relaxed);
        } else if self.elsewhere.load(Relaxed) == cpu.as_u32() {
            self.strays.fetch_add(1, Relaxed);
        } else {
            self.elsewhere.store(cpu.as_u32(), Relaxed);
            self.strays.store(1, Relaxed);
        }
        self.due.fetch_add(1, Full) == 0
    }

    /// The processor that is to go on, if that is another one.
    fn successor(&self) -> Option<CpuId> {
        let moves = self.strays.load(Relaxed) >= STRAYS && self.len() >= STRAYS;
        CpuId::from_u32(self.elsewhere.load(Relaxed)).filter(|_| moves)
    }

    /// Does what is due, or has the work item do it together with what comes until then, if things come at once.
    ///
    /// What several things lead to costs less if it is found out in one go. If one comes as soon as the last is done,
    /// more may follow; from then on all wait for each other, until there is one alone.
    ///
    /// # Safety
    ///
    /// As for [`Self::drain`].
    pub(super) unsafe fn gather(&self) {
        let gap = crate::time::now_ns().saturating_sub(self.done.load(Relaxed));
        let at_once = gap < self.took.load(Relaxed).wrapping_shr(GAP_SHIFT);
        if at_once || self.crowded.load(Relaxed) {
            // SAFETY: The caller is at it.
            unsafe { self.leave_to(CpuId::current()) };
        } else {
            // SAFETY: Promised by the caller.
            unsafe { self.drain() };
        }
    }

    /// Does what is due, as long as it may, and leaves the rest to the work item.
    ///
    /// # Safety
    ///
    /// Called in a softirq with no lock held and interrupts on, by who is at it.
    unsafe fn drain(&self) {
        let here = CpuId::current().as_u32();
        if self.at.load(Relaxed) != here {
            self.at.store(here, Relaxed);
            self.strays.store(0, Relaxed);
        }
        let begun = crate::time::now_ns();
        let end = begun.saturating_add(LONGEST_NS);
        let mut total: u32 = 0;
        loop {
            let count = self.len().min(AT_ONCE);
            // SAFETY: Promised by the caller.
            unsafe { self.of.serve(count) };
            total = total.saturating_add(count);
            let now = crate::time::now_ns();
            self.done.store(now, Relaxed);
            self.took.store(now.saturating_sub(begun), Relaxed);
            self.crowded.store(total > 1, Relaxed);
            if self.due.fetch_sub(count, Full) == count {
                return;
            }
            if now > end {
                break;
            }
        }
        // SAFETY: Who has called is at it still.
        unsafe { self.leave_to(self.successor().unwrap_or_else(CpuId::current)) };
    }

    /// Leaves what is due to a work item, in a softirq of `cpu`, or of the running processor if that has gone.
    ///
    /// # Safety
    ///
    /// Called by who is at it, and is not from now on. The backlog stays in place until it has [ended](Self::end).
    pub(super) unsafe fn leave_to(&self, cpu: CpuId) {
        let is_odd = self.is_odd.load(Relaxed);
        self.is_odd.store(!is_odd, Relaxed);
        let next = if is_odd { &self.odd } else { &self.even };
        // SAFETY: Stays in place by the promise above; its function is called for who is at it.
        unsafe { next.queue_bh(cpu) };
    }

    /// Has the work items end, whatever is due. May sleep. Nobody adds anything any more.
    pub(super) fn end(&self) {
        self.even.disable();
        self.odd.disable();
    }

    /// What the work queue calls.
    ///
    /// # Safety
    ///
    /// `work` is [`Self::even`] of a live backlog, to which [`Self::leave_to`] has left what is due.
    unsafe extern "C" fn resume_even(work: *mut bindings::work_struct) {
        // SAFETY: `work` is that field by the promise above.
        let backlog = unsafe { &*container_of!(Item::of(work), Self, even) };
        // SAFETY: The queue works in softirqs. Who has queued the item was at it, and left it to this.
        unsafe { backlog.drain() };
    }

    /// The same.
    ///
    /// # Safety
    ///
    /// `work` is [`Self::odd`] of such a backlog.
    unsafe extern "C" fn resume_odd(work: *mut bindings::work_struct) {
        // SAFETY: As above.
        let backlog = unsafe { &*container_of!(Item::of(work), Self, odd) };
        // SAFETY: As above.
        unsafe { backlog.drain() };
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_rdma_backlog)]
mod tests {
    use super::*;

    struct Nothing;

    // SAFETY: There is nothing to share.
    unsafe impl Serve for Nothing {
        unsafe fn serve(&self, _count: u32) {}
    }

    #[test]
    fn who_goes_on_does_so_where_things_are_brought() -> Result {
        let backlog = KBox::pin_init(Backlog::new(Nothing), GFP_KERNEL)?;
        let (here, there) = (CpuId::from_u32(0), CpuId::from_u32(1));
        let (Some(here), Some(there)) = (here, there) else {
            return Ok(());
        };
        let successor = |backlog: &Backlog<_>| backlog.successor().map(|cpu| cpu.as_u32());
        assert!(backlog.add(here));
        for _ in 1..STRAYS {
            assert!(!backlog.add(there));
            assert_eq!(successor(&backlog), None);
        }
        assert!(!backlog.add(here));
        for _ in 0..STRAYS {
            assert_eq!(successor(&backlog), None);
            assert!(!backlog.add(there));
        }
        assert_eq!(successor(&backlog), Some(there.as_u32()));
        // Fewer than that wait.
        let due = backlog.due.xchg(STRAYS.saturating_sub(1), Full);
        assert_eq!(successor(&backlog), None);
        backlog.due.store(due, Relaxed);
        // Another one brings something.
        backlog.at.store(2, Relaxed);
        assert!(!backlog.add(here));
        assert_eq!(successor(&backlog), None);
        Ok(())
    }
}
