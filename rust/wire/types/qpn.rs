// SPDX-License-Identifier: GPL-2.0

//! Queue pair numbers.

/// A 24-bit queue pair number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// The subnet management interface of every port.
    pub const SMI: Self = Self(0);

    /// The general service interface of every port.
    pub const GSI: Self = Self(1);

    /// The destination of every multicast packet.
    pub const MULTICAST: Self = Self(0xff_ffff);

    /// Makes a number of the low 24 bits.
    #[inline]
    pub const fn new(qpn: u32) -> Self {
        Self(qpn & 0xff_ffff)
    }

    /// The 24 bits.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_qpn))]
mod tests {
    use super::*;

    #[test]
    fn keeps_24_bits() {
        assert_eq!(Qpn::new(0x0100_0001), Qpn::GSI);
        assert_eq!(Qpn::new(u32::MAX), Qpn::MULTICAST);
        assert_eq!(Qpn::new(0x12_3456).get(), 0x12_3456);
    }
}
