// SPDX-License-Identifier: GPL-2.0

//! What is done in the order of a queue, in softirqs.

use crate::work::Item;
use kernel::bindings;
use kernel::container_of;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};

/// How long one softirq works, in nanoseconds. Others get a turn before the next.
const LONGEST_NS: u64 = 1_000_000;

/// Things that are done in one go.
const AT_ONCE: u32 = 16;

/// Who comes in less than the fourth part of the time that the last things have taken comes at once.
const GAP_SHIFT: u32 = 2;

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
/// the one that found nobody at it, or the work item.
///
/// The owner cancels it before it goes.
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
    #[pin]
    work: Item,
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
            work <- Item::new(Self::resume, NAME, class),
        })
    }

    /// How many are due.
    pub(super) fn len(&self) -> u32 {
        self.due.load(Relaxed)
    }

    /// One more is in the queue. Whether nobody is at it: then the caller is, by [`Self::gather`] or [`Self::leave_to`].
    #[must_use]
    pub(super) fn add(&self) -> bool {
        self.due.fetch_add(1, Full) == 0
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
        unsafe { self.leave_to(CpuId::current()) };
    }

    /// Leaves what is due to the work item, in a softirq of `cpu`, or of the running processor if that has gone.
    ///
    /// # Safety
    ///
    /// Called by who is at it. The backlog stays in place until it has been [cancelled](Self::cancel).
    pub(super) unsafe fn leave_to(&self, cpu: CpuId) {
        // SAFETY: Stays in place by the promise above; its function is called for who is at it.
        unsafe { self.work.queue_bh(cpu) };
    }

    /// Has the work item end. May sleep. Nobody adds anything any more.
    pub(super) fn cancel(&self) {
        self.work.cancel();
    }

    /// What the work queue calls.
    ///
    /// # Safety
    ///
    /// `work` is the item of a live backlog, to which [`Self::leave_to`] has left what is due.
    unsafe extern "C" fn resume(work: *mut bindings::work_struct) {
        // SAFETY: `work` is that field by the promise above.
        let backlog = unsafe { &*container_of!(Item::of(work), Self, work) };
        // SAFETY: The queue works in softirqs. Who has queued the item was at it, and left it to this.
        unsafe { backlog.drain() };
    }
}
