// SPDX-License-Identifier: GPL-2.0

//! How often something is told that others can bring about again and again.

use crate::time::{
    Duration,
    Instant, //
};

/// So many times in [`WINDOW`], and no more.
const BURST: u32 = 10;

/// A time that begins with the first of them.
const WINDOW: Duration = Duration::from_millis(5000);

/// Counts what is told, and what is not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ratelimit {
    since: Instant,
    told: u32,
    missed: u32,
}

impl Ratelimit {
    /// Whether it is to be told this time: then with how many others since the last one have not been, else `None`.
    pub fn admit(&mut self, now: Instant) -> Option<u32> {
        if self.since.after(WINDOW) <= now {
            self.told = 0;
        }
        if self.told == 0 {
            self.since = now;
        }
        if self.told >= BURST {
            self.missed = self.missed.saturating_add(1);
            return None;
        }
        self.told = self.told.saturating_add(1);
        Some(core::mem::take(&mut self.missed))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_ratelimit))]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::default().after(Duration::from_millis(millis))
    }

    #[test]
    fn a_burst_and_then_silence_until_the_time_is_over() {
        let mut limit = Ratelimit::default();
        for millis in 0..10 {
            assert_eq!(limit.admit(at(millis)), Some(0));
        }
        for millis in 10..5000 {
            assert_eq!(limit.admit(at(millis)), None);
        }
        assert_eq!(limit.admit(at(5000)), Some(4990));
        assert_eq!(limit.admit(at(5001)), Some(0));
    }

    #[test]
    fn what_is_rare_is_told() {
        let mut limit = Ratelimit::default();
        for second in 0..100 {
            assert_eq!(limit.admit(at(second * 1000)), Some(0));
        }
    }
}
