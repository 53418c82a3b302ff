// SPDX-License-Identifier: GPL-2.0

//! What a link knows of a packet's way: LIDs, port numbers, service levels, virtual lanes.

/// A 16-bit local identifier: the address of a port, or of a multicast group, within a subnet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lid(u16);

impl Lid {
    /// No LID: the value of a port that no subnet manager has reached. Never valid on the wire.
    pub const NONE: Self = Self(0);

    /// The permissive LID: "whoever is at the other end of this link".
    pub const PERMISSIVE: Self = Self(0xffff);

    /// The first multicast LID. They end below [`Self::PERMISSIVE`].
    pub const MULTICAST_BASE: Self = Self(0xc000);

    /// Makes a LID of its 16 bits.
    #[inline]
    pub const fn new(lid: u16) -> Self {
        Self(lid)
    }

    /// The 16 bits.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether this names a multicast group (0xc000 to 0xfffe).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0 >= Self::MULTICAST_BASE.0 && self.0 < Self::PERMISSIVE.0
    }

    /// Whether this may name a port (0x0001 to 0xbfff).
    #[inline]
    pub const fn is_unicast(self) -> bool {
        self.0 != 0 && self.0 < Self::MULTICAST_BASE.0
    }

    /// Whether this is one of the `1 << lmc` LIDs of the port whose base LID is `base`.
    #[inline]
    pub const fn is_path_of(self, base: Self, lmc: u8) -> bool {
        let mask = !path_mask(lmc);
        self.is_unicast() && self.0 & mask == base.0 & mask
    }

    /// The path bits: what `lmc` leaves free in a LID.
    #[inline]
    pub const fn path_bits(self, lmc: u8) -> u8 {
        (self.0 & path_mask(lmc)) as u8
    }

    /// The LID that this base LID has with these path bits, of which `lmc` leaves as many free.
    #[inline]
    pub const fn with_path_bits(self, bits: u8, lmc: u8) -> Self {
        Self(self.0 | (bits as u16 & path_mask(lmc)))
    }
}

/// The low bits that an LMC (LID mask control, three bits) leaves free.
const fn path_mask(lmc: u8) -> u16 {
    0x7f >> (7 - (lmc & 7))
}

/// A port number. Port 0 of a switch is its management port; ports of a CA count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNum(u8);

impl PortNum {
    /// The management port of a switch.
    pub const MANAGEMENT: Self = Self(0);

    /// "Every port" in a PMA request.
    pub const ALL: Self = Self(0xff);

    /// Makes a port number of its 8 bits.
    #[inline]
    pub const fn new(port: u8) -> Self {
        Self(port)
    }

    /// The 8 bits.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// A service level: 4 bits that a packet keeps from end to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sl(u8);

impl Sl {
    /// Makes a service level of the low 4 bits.
    #[inline]
    pub const fn new(sl: u8) -> Self {
        Self(sl & 0xf)
    }

    /// The 4 bits.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// A virtual lane: 4 bits that each link chooses anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vl(u8);

impl Vl {
    /// The lane of subnet management packets, which has no flow control and carries nothing else.
    pub const MANAGEMENT: Self = Self(15);

    /// Makes a virtual lane of the low 4 bits.
    #[inline]
    pub const fn new(vl: u8) -> Self {
        Self(vl & 0xf)
    }

    /// The 4 bits.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_lid))]
mod tests {
    use super::*;

    #[test]
    fn lid_ranges() {
        for (lid, unicast, multicast) in [
            (0x0000, false, false),
            (0x0001, true, false),
            (0xbfff, true, false),
            (0xc000, false, true),
            (0xfffe, false, true),
            (0xffff, false, false),
        ] {
            assert_eq!(Lid::new(lid).is_unicast(), unicast);
            assert_eq!(Lid::new(lid).is_multicast(), multicast);
        }
    }

    #[test]
    fn lid_paths() {
        let base = Lid::new(0x40);
        assert!(Lid::new(0x40).is_path_of(base, 0));
        assert!(!Lid::new(0x41).is_path_of(base, 0));
        assert!(Lid::new(0x43).is_path_of(base, 2));
        assert!(!Lid::new(0x44).is_path_of(base, 2));
        assert_eq!(Lid::new(0x43).path_bits(2), 3);
        assert_eq!(Lid::new(0x43).path_bits(0), 0);
        assert_eq!(Lid::new(0xbfff).path_bits(7), 0x7f);
        assert_eq!(base.with_path_bits(0xff, 0), base);
        assert_eq!(base.with_path_bits(0xff, 2), Lid::new(0x43));
        assert_eq!(base.with_path_bits(1, 2), Lid::new(0x41));
    }

    #[test]
    fn four_bit_numbers() {
        assert_eq!(Sl::new(0x1f).get(), 0xf);
        assert_eq!(Vl::new(0xff), Vl::MANAGEMENT);
    }
}
