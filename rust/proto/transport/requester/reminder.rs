// SPDX-License-Identifier: GPL-2.0

//! Asking again early.
//!
//! A responder reports a gap once, and a gap at the end of what was sent not at all. The ACK timeout repairs
//! that, but consumers choose it for a fabric that hardly ever loses a packet: some 10 ms to seconds. A reminder
//! sends what is not acknowledged again as soon as an answer takes much longer than usual. For the peer it is
//! the same as after a timeout. Each reminder doubles the time to the next, until an answer was measured: if it
//! was not a loss but the network that has become slower, progress alone would not tell. The ACK timeout, which
//! alone is charged to the retry counter, runs on.

use crate::time::{
    Duration,
    Instant, //
};
use wire::Psn;

/// What a new measurement weighs in the mean: 1/8.
const MEAN_SHIFT: u32 = 3;

/// What a new measurement weighs in the mean deviation: 1/4.
const DEVIATION_SHIFT: u32 = 2;

/// How many deviations above the mean an answer is taken for missing: 4.
const MARGIN_SHIFT: u32 = 2;

/// Before the first measurement an answer may take this many times the floor: 8.
const UNKNOWN_SHIFT: u32 = 3;

/// The longest time to a reminder, where no ACK timeout ends the wait.
const LONGEST: Duration = Duration::from_millis(1000);

/// How often the time is doubled at most.
const MAX_DOUBLINGS: u32 = 16;

/// Measures how long answers take, and tells when one is overdue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reminder {
    due: Option<Instant>,
    /// Reminders since an answer was measured.
    count: u32,
    /// How long an answer takes, in nanoseconds, and by how much that varies; `None` before the first one.
    usual: Option<(u64, u64)>,
    /// A packet whose acknowledgement will be measured, and when it was sent.
    sample: Option<(Psn, Instant)>,
}

impl Reminder {
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// There is nothing to be reminded of.
    pub(super) fn disarm(&mut self) {
        self.due = None;
        self.sample = None;
    }

    /// An answer is awaited from now on, until `timeout` at most. `floor` is the shortest time that is taken
    /// for long; zero is no reminder ever.
    pub(super) fn arm(&mut self, now: Instant, timeout: Option<Duration>, floor: Duration) {
        let delay = self.delay(floor);
        let in_time = timeout.is_none_or(|timeout| delay < timeout);
        self.due = (floor != Duration::ZERO && in_time).then(|| now.after(delay));
    }

    fn delay(&self, floor: Duration) -> Duration {
        let floor = floor.nanos();
        let nanos = match self.usual {
            Some((mean, deviation)) => {
                let margin = deviation.saturating_mul(1 << MARGIN_SHIFT);
                mean.saturating_add(margin).max(floor)
            }
            None => floor.saturating_mul(1 << UNKNOWN_SHIFT),
        };
        let doublings = self.count.min(MAX_DOUBLINGS);
        let nanos = nanos.saturating_mul(1u64.wrapping_shl(doublings));
        Duration::from_nanos(nanos).min(LONGEST)
    }

    /// The packet before `end` was sent for the first time.
    pub(super) fn on_sent(&mut self, now: Instant, end: Psn) {
        if self.sample.is_none() {
            self.sample = Some((end, now));
        }
    }

    /// What was sent is being sent again: an answer would not tell to which of the two.
    pub(super) fn on_go_back(&mut self) {
        self.sample = None;
    }

    /// A reminder is being sent.
    pub(super) fn on_reminded(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// All before `acked` is acknowledged.
    pub(super) fn on_progress(&mut self, now: Instant, acked: Psn) {
        let Some((end, at)) = self.sample else {
            return;
        };
        if end.is_after(acked) {
            return;
        }
        self.sample = None;
        self.count = 0;
        let took = now.nanos().saturating_sub(at.nanos());
        self.usual = Some(match self.usual {
            None => (took, took >> 1),
            Some((mean, deviation)) => (
                blend(mean, took, MEAN_SHIFT),
                blend(deviation, mean.abs_diff(took), DEVIATION_SHIFT),
            ),
        });
    }
}

/// Moves `old` by a part of the way to `new`.
fn blend(old: u64, new: u64, shift: u32) -> u64 {
    let step = old.abs_diff(new).wrapping_shr(shift);
    if new > old {
        old.saturating_add(step)
    } else {
        old.saturating_sub(step)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_reminder))]
mod tests {
    use super::*;

    const FLOOR: Duration = Duration::from_nanos(1_000);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn waits_as_long_as_is_usual() {
        let mut reminder = Reminder::default();
        reminder.arm(at(0), None, FLOOR);
        assert_eq!(reminder.due(), Some(at(8_000)));
        for _ in 0..100 {
            reminder.on_sent(at(0), Psn::new(5));
            reminder.on_progress(at(10_000), Psn::new(5));
        }
        reminder.arm(at(0), None, FLOOR);
        assert!(reminder.due() >= Some(at(9_990)));
        assert!(reminder.due() <= Some(at(10_100)));
    }

    #[test]
    fn waits_longer_each_time_until_an_answer_was_measured() {
        let mut reminder = Reminder::default();
        for delay in [8_000, 16_000, 32_000, 64_000] {
            reminder.arm(at(0), None, FLOOR);
            assert_eq!(reminder.due(), Some(at(delay)));
            reminder.on_go_back();
            reminder.on_reminded();
            reminder.on_progress(at(0), Psn::new(0));
        }
        reminder.on_sent(at(0), Psn::new(5));
        reminder.on_progress(at(10_000), Psn::new(5));
        reminder.arm(at(0), None, FLOOR);
        assert_eq!(reminder.due(), Some(at(30_000)));
    }

    #[test]
    fn leaves_it_to_the_timeout() {
        let mut reminder = Reminder::default();
        reminder.arm(at(0), Some(Duration::from_nanos(8_000)), FLOOR);
        assert_eq!(reminder.due(), None);
        reminder.arm(at(0), None, Duration::ZERO);
        assert_eq!(reminder.due(), None);
    }

    #[test]
    fn answers_to_repeated_packets_are_not_measured() {
        let mut reminder = Reminder::default();
        reminder.on_sent(at(0), Psn::new(5));
        reminder.on_go_back();
        reminder.on_progress(at(1_000_000), Psn::new(5));
        reminder.arm(at(0), None, FLOOR);
        assert_eq!(reminder.due(), Some(at(8_000)));
    }
}
