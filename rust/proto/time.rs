// SPDX-License-Identifier: GPL-2.0

//! Points in time and distances between them, in nanoseconds. The caller owns the clock.

/// A point in time: nanoseconds since an origin that the caller chooses once for all machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The point `nanos` nanoseconds after the origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The point `delay` later; the end of time if there is none.
    #[inline]
    #[must_use]
    pub const fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay.0))
    }
}

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A duration of nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A duration of milliseconds; the longest there is if that is not enough.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The nanoseconds.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }
}
