// SPDX-License-Identifier: GPL-2.0

//! Durations that travel as codes: RNR NAK timers, acknowledge timeouts, response times. All
//! results are in nanoseconds.

/// Unit of [`RNR_TIMER`].
const RNR_UNIT_NS: u64 = 10_000;

/// RNR NAK timers by code, in units of 10 microseconds (IBA table "Encoding for RNR NAK Timer Field").
#[rustfmt::skip]
const RNR_TIMER: [u32; 32] = [
    65536,     1,     2,     3,     4,     6,     8,    12,
       16,    24,    32,    48,    64,    96,   128,   192,
      256,   384,   512,   768,  1024,  1536,  2048,  3072,
     4096,  6144,  8192, 12288, 16384, 24576, 32768, 49152,
];

/// Unit of the exponential codes: 4.096 microseconds.
const EXPONENTIAL_UNIT_NS: u64 = 4096;

/// How long a requester waits after an RNR NAK with the timer code `code` (low 5 bits): 10 us to
/// 655.36 ms.
#[inline]
pub fn rnr_delay_ns(code: u8) -> u64 {
    let units = RNR_TIMER.get(usize::from(code & 0x1f)).copied();
    u64::from(units.unwrap_or(0)).wrapping_mul(RNR_UNIT_NS)
}

/// The duration 4.096 us * 2^`code` (low 5 bits): packet lifetimes, response times, ACK delays.
#[inline]
pub const fn exponential_ns(code: u8) -> u64 {
    EXPONENTIAL_UNIT_NS << (code & 0x1f)
}

/// A queue pair's local ACK timeout; `None` for the code 0, which means never (IBA "Local ACK
/// Timeout").
#[inline]
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    if code & 0x1f == 0 {
        None
    } else {
        Some(exponential_ns(code))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_timer))]
mod tests {
    use super::*;

    #[test]
    fn rnr_delays() {
        assert_eq!(rnr_delay_ns(0), 655_360_000);
        assert_eq!(rnr_delay_ns(1), 10_000);
        assert_eq!(rnr_delay_ns(12), 640_000);
        assert_eq!(rnr_delay_ns(31), 491_520_000);
        assert_eq!(rnr_delay_ns(32), rnr_delay_ns(0));
        for code in 1..31 {
            assert!(rnr_delay_ns(code) < rnr_delay_ns(code + 1));
        }
    }

    #[test]
    fn ack_timeouts() {
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(1), Some(8_192));
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
        assert_eq!(ack_timeout_ns(31), Some(8_796_093_022_208));
        assert_eq!(exponential_ns(0), 4_096);
    }
}
