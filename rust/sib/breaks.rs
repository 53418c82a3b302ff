// SPDX-License-Identifier: GPL-2.0

//! Completion queues and shared receive queues that have come to be in error.
//!
//! Their queue pairs go to the error state (IBA "Completion Queue Errors", "Shared Receive Queue Errors"). To find them takes
//! a look at all of the HCA, of which there may be thousands, so a worker does that, and one look is for all queues that
//! have broken before. A program may have queues break all the time, so looks have pauses between them.

use crate::{
    hca::Hca,
    qp, //
};
use kernel::{
    prelude::*,
    sync::atomic::Relaxed,
    time::Delta, //
};
use rdma::{
    sync::{
        Atomic,
        Cx,
        Held,
        Sleepable,
        Unlocked, //
    },
    work::{
        Run,
        Work, //
    }, //
};

/// The work item of an HCA.
const WORK: u64 = 2;

/// From the end of one look to the next, so that whoever has queues break all the time does not have a processor look.
const PAUSE: Delta = Delta::from_millis(10);

/// The queues of an HCA that have broken.
#[pin_data]
pub(crate) struct Breaks {
    /// How many so far.
    count: Atomic<u64>,
    #[pin]
    work: Work<Hca, WORK>,
}

impl Breaks {
    /// None has.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: Atomic::new(0),
            work <- rdma::new_work!("Breaks::work"),
        })
    }

    /// Has a worker look for the queue pairs of queues of `hca` that have broken before the call.
    pub(crate) fn follow(hca: &Held<Hca>) {
        if let Some(held) = hca.try_clone() {
            // A queued item runs after this, so a refusal is as good.
            let _ = hca.queue.enqueue(&hca.breaks.work, held);
        }
    }
}

impl Run<WORK> for Hca {
    type Pointer = Held<Hca>;

    fn run(this: Held<Hca>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        qp::fail_bereft(&mut cx, &this);
        drop(this);
        sleepable.pause(&mut cx, PAUSE);
    }
}

/// Which of the queues that break it is, from 1 on; 0 for one that has not broken.
pub(crate) struct Mark(Atomic<u64>);

impl Mark {
    /// Of one that has not.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// It breaks. To be called before any client is told.
    pub(crate) fn set(&self, breaks: &Breaks) {
        let before = breaks.count.fetch_add(1, Relaxed);
        self.0.store(before.wrapping_add(1), Relaxed);
    }
}

/// How many queues of the HCA had broken when a queue pair came into use, or was last looked at. One that comes to a queue
/// in error finds out when it needs the queue.
pub(crate) struct Since(Atomic<u64>);

impl Since {
    /// For one that has not come into use.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// It comes into use, or has been looked at. To be called under the lock of the queue pair.
    pub(crate) fn renew(&self, breaks: &Breaks) {
        self.0.store(breaks.count.load(Relaxed), Relaxed);
    }

    /// Whether the queue with this mark has broken since.
    pub(crate) fn has_broken(&self, mark: &Mark) -> bool {
        mark.0.load(Relaxed) > self.0.load(Relaxed)
    }
}
