// SPDX-License-Identifier: GPL-2.0

//! Who sends what a doorbell has brought: the task that rings it, or a worker.
//!
//! To send a small message by UDP takes many times what it takes to post one, and sending several at once hardly takes
//! more. A task that waits for answers is served best if it sends at once by itself. One that posts message upon
//! message is held up by that: it comes back as soon as it is let go, without a completion or a request of its peer.
//! That tells them apart. What such a task posts is left to a worker, until so much waits that sending it pays; the
//! worker runs at once if a processor is free, and else the task goes on to post. A message of several packets pays by
//! itself.
//!
//! This is for reliable connections alone. The worker and the task may run on two processors, and a network device
//! without queues, such as `lo` or veth, then lets what the one sends overtake what the other has sent before. Reliable
//! connections ask for that again; datagrams would arrive in another order, and messages of unreliable connections be
//! lost.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use proto::time::Instant;

/// Work requests that may wait for the worker.
pub(crate) const MAX_WAITING: u32 = 32;

/// Who comes back in less than the fourth part of the time that sending has taken is in a hurry.
const HURRY_SHIFT: u32 = 2;

/// The pace of those who ring doorbells of an HCA for messages that leave the host.
pub(crate) struct Pace {
    /// When the last doorbell was done, in nanoseconds.
    left: Atomic<u64>,
    /// How long it has taken to send a packet at once, in nanoseconds.
    took: Atomic<u64>,
}

impl Pace {
    /// Nobody has come yet.
    pub(crate) const fn new() -> Self {
        Self {
            left: Atomic::new(0),
            took: Atomic::new(0),
        }
    }

    /// Whether who comes `now` is in a hurry.
    pub(crate) fn is_hurried(&self, now: Instant) -> bool {
        let pause = now.nanos().saturating_sub(self.left.load(Relaxed));
        pause < self.took.load(Relaxed).wrapping_shr(HURRY_SHIFT)
    }

    /// The doorbell that was rung at `from` is done `now`. `single` says that it has sent one message of one packet.
    pub(crate) fn leave(&self, from: Instant, now: Instant, single: bool) {
        if single {
            self.took
                .store(now.nanos().saturating_sub(from.nanos()), Relaxed);
        }
        self.left.store(now.nanos(), Relaxed);
    }
}
