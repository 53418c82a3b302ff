// SPDX-License-Identifier: GPL-2.0

//! When that is sent what a doorbell has brought: at once, or with what others bring.
//!
//! To send a small message by UDP takes many times what it takes to post one, and sending several at once hardly takes
//! more. A task that waits for answers is served best if it sends at once by itself. One that posts message upon
//! message is held up by that: it comes back as soon as it is let go, without a completion or a request of its peer.
//! That tells them apart. (A datagram is complete when it leaves, which tells nothing: there it takes several that
//! nothing came of.) What such a task posts [waits for more](crate::convoy), until there is so much that sending
//! it pays, or no more comes. A message of several packets pays by itself, and is not held up; but if who posts it is in a
//! hurry, [another processor](crate::steering) may send it. Such messages often have a completion each, which is there
//! before they have been posted to the end: who leaves it unseen does not wait for it.
//!
//! Inside one host a message is received, and complete, when the doorbell is done. There a task does not wait if it has
//! posted several messages that nothing came of, and comes back in less time than sending one has taken: then
//! [another processor](crate::relief) sends.
//!
//! Another processor sends for reliable connections alone: a network device without queues, such as `lo` or veth, then
//! lets a message overtake those that were posted before. Reliable connections ask for that again; datagrams would
//! arrive in another order, and messages of unreliable connections be lost. Where a message waits, a task that changes
//! processors meanwhile does the same. That is rare enough for datagrams, of which nobody promises an order; messages of
//! unreliable connections do not wait.

use kernel::sync::atomic::Relaxed;
use proto::time::Instant;
use rdma::sync::Atomic;

/// Who comes back in less than the fourth part of the time that sending by UDP has taken is in a hurry.
const HURRY_SHIFT: u32 = 2;

/// A message waits for the next one at most twice as long as sending has taken.
const PATIENCE_SHIFT: u32 = 1;

/// The first of several that wait for each other waits at most sixteen times as long.
const LIMIT_SHIFT: u32 = 4;

/// What a time loses each time that it makes somebody hurried, who is not measured then: its sixty-fourth part.
const FADE_SHIFT: u32 = 6;

/// What took longer than this, in nanoseconds, was held up by something else. On a kernel that looks for bugs everything
/// takes many times as long.
const MAX_TOOK_NS: u64 = if cfg!(CONFIG_PROVE_LOCKING) {
    25_000_000
} else {
    250_000
};

/// How long a message waits for others.
pub(crate) struct Patience {
    /// Until when for the next one.
    pub(crate) due: Instant,
    /// Until when at the latest, if it is the first one.
    pub(crate) limit: Instant,
}

/// What a doorbell has brought.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Short messages to a peer in this host.
    Near,
    /// Messages of one packet.
    Single,
    /// One of several packets at least.
    Bulk,
}

/// The pace of a program, or whoever owns a protection domain, that rings doorbells for messages that leave the host.
pub(crate) struct Pace {
    /// When the last doorbell that has brought something was done, in nanoseconds.
    left: Atomic<u64>,
    /// How long it has taken to send a short message to a peer in this host, in nanoseconds.
    near: Atomic<u64>,
    /// The same for a packet.
    single: Atomic<u64>,
    /// The same for several.
    bulk: Atomic<u64>,
}

impl Pace {
    /// Nobody has come yet.
    pub(crate) const fn new() -> Self {
        Self {
            left: Atomic::new(0),
            near: Atomic::new(0),
            single: Atomic::new(0),
            bulk: Atomic::new(0),
        }
    }

    /// How long it has taken to send so much.
    fn took(&self, load: Load) -> &Atomic<u64> {
        match load {
            Load::Near => &self.near,
            Load::Single => &self.single,
            Load::Bulk => &self.bulk,
        }
    }

    /// Whether who comes `now` with `load` is in a hurry.
    pub(crate) fn is_hurried(&self, now: Instant, load: Load) -> bool {
        let pause = now.nanos().saturating_sub(self.left.load(Relaxed));
        let shift = match load {
            Load::Near => 0,
            Load::Single | Load::Bulk => HURRY_SHIFT,
        };
        pause < self.took(load).load(Relaxed).wrapping_shr(shift)
    }

    /// The time for `load` has made somebody hurried. It counts a little less from now on, and so is measured again in
    /// the end, should it have been an exception.
    pub(crate) fn fade(&self, load: Load) {
        let took = self.took(load).load(Relaxed);
        let faded = took.wrapping_sub(took.wrapping_shr(FADE_SHIFT));
        self.took(load).store(faded, Relaxed);
    }

    /// Until when a message of one packet that is posted `now` waits for others.
    pub(crate) fn patience(&self, now: Instant) -> Patience {
        let took = self.single.load(Relaxed);
        let after =
            |shift| Instant::from_nanos(now.nanos().saturating_add(took.wrapping_shl(shift)));
        Patience {
            due: after(PATIENCE_SHIFT),
            limit: after(LIMIT_SHIFT),
        }
    }

    /// The doorbell that was rung at `from` is done `now`. `sent` says that this processor has sent a message of the
    /// kind, and nothing else.
    pub(crate) fn leave(&self, from: Instant, now: Instant, sent: Option<Load>) {
        if let Some(load) = sent {
            let took = now.nanos().saturating_sub(from.nanos());
            self.took(load).store(took.min(MAX_TOOK_NS), Relaxed);
        }
        self.left.store(now.nanos(), Relaxed);
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_pace)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros.saturating_mul(1_000))
    }

    #[test]
    fn who_comes_back_at_once_is_hurried() {
        let pace = Pace::new();
        assert!(!pace.is_hurried(at(0), Load::Near));
        pace.leave(at(1_000), at(1_100), Some(Load::Near));
        assert!(pace.is_hurried(at(1_199), Load::Near));
        assert!(!pace.is_hurried(at(1_200), Load::Near));
        pace.leave(at(1_000), at(1_100), Some(Load::Single));
        assert!(pace.is_hurried(at(1_124), Load::Single));
        assert!(!pace.is_hurried(at(1_125), Load::Single));
    }

    #[test]
    fn what_is_not_measured_again_fades() {
        let pace = Pace::new();
        pace.leave(at(1_000), at(1_100), Some(Load::Near));
        for _ in 0..90 {
            assert!(pace.is_hurried(at(1_120), Load::Near));
            pace.fade(Load::Near);
        }
        for _ in 0..30 {
            pace.fade(Load::Near);
        }
        assert!(!pace.is_hurried(at(1_120), Load::Near));
    }
}
