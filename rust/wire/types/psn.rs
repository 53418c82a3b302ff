// SPDX-License-Identifier: GPL-2.0

//! Packet sequence numbers and their arithmetic modulo 2^24 (IBA "Packet Sequence Numbers (PSN)").

/// A 24-bit packet sequence number.
///
/// The order of two numbers is that of serial arithmetic: `a` is before `b` when the way forward
/// from `a` to `b` is the shorter one. There is no total order, hence no `Ord`.
///
/// # Examples
///
/// ```
/// use wire::Psn;
///
/// let last = Psn::new(0xff_ffff);
/// assert_eq!(last.add(2), Psn::new(1));
/// assert!(last.is_before(Psn::new(1)));
/// assert_eq!(last.diff(Psn::new(1)), -2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

const MASK: u32 = 0xff_ffff;

impl Psn {
    /// Number of different values.
    pub const COUNT: u32 = 1 << 24;

    /// The largest number of packets that may be outstanding: half of the number space. A received
    /// PSN that is this far ahead or more is a duplicate.
    pub const WINDOW: u32 = 1 << 23;

    /// Makes a PSN of the low 24 bits.
    #[inline]
    pub const fn new(psn: u32) -> Self {
        Self(psn & MASK)
    }

    /// The 24 bits.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `count` packets later.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The number `count` packets earlier.
    #[inline]
    #[must_use]
    pub const fn back(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// The number of steps forward from `earlier` to `self`: 0 to 2^24 - 1.
    #[inline]
    pub const fn sub(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & MASK
    }

    /// The signed distance from `other` to `self`: negative when `self` is before `other`. The
    /// range is -2^23 to 2^23 - 1.
    #[inline]
    pub const fn diff(self, other: Self) -> i32 {
        ((self.sub(other) << 8) as i32) >> 8
    }

    /// Whether `self` is before `other`.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        self.diff(other) < 0
    }

    /// Whether `self` is after `other`.
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        self.diff(other) > 0
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_psn))]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        assert_eq!(Psn::new(0x1ff_ffff), Psn::new(0xff_ffff));
        assert_eq!(Psn::new(0xff_ffff).add(1), Psn::new(0));
        assert_eq!(Psn::new(0).back(1), Psn::new(0xff_ffff));
        assert_eq!(Psn::new(2).add(u32::MAX), Psn::new(1));
        assert_eq!(Psn::new(1).sub(Psn::new(0xff_ffff)), 2);
    }

    #[test]
    fn serial_order() {
        let a = Psn::new(0xff_fff0);
        let b = Psn::new(0x10);
        assert_eq!(b.diff(a), 0x20);
        assert_eq!(a.diff(b), -0x20);
        assert!(a.is_before(b));
        assert!(b.is_after(a));
        assert!(!a.is_before(a));
        assert!(!a.is_after(a));
        assert_eq!(Psn::new(0x80_0000).diff(Psn::new(0)), -(1 << 23));
        assert_eq!(Psn::new(0x7f_ffff).diff(Psn::new(0)), (1 << 23) - 1);
    }
}
