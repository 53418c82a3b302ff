// SPDX-License-Identifier: GPL-2.0

//! GUIDs and GIDs (IBA chapter "Addressing").

/// An EUI-64 that names a node, a port or a system image for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(u64);

impl Guid {
    /// The value that names nothing.
    pub const ZERO: Self = Self(0);

    /// Makes a GUID of its 64 bits.
    #[inline]
    pub const fn new(guid: u64) -> Self {
        Self(guid)
    }

    /// The 64 bits.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A 128-bit global identifier in network order; the layout is that of an IPv6 address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid([u8; 16]);

/// First byte of every multicast GID.
const MULTICAST_FIRST_BYTE: u8 = 0xff;

impl Gid {
    /// The GID that names nothing (`::`).
    pub const ZERO: Self = Self([0; 16]);

    /// The subnet prefix that a port has before a subnet manager sets another (`fe80::/64`).
    pub const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

    /// Makes a GID of its 16 bytes in network order.
    #[inline]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes in network order.
    #[inline]
    pub const fn get(self) -> [u8; 16] {
        self.0
    }

    /// The unicast GID of the port or alias `guid` in the subnet `prefix` (upper 64 bits).
    #[inline]
    pub const fn from_parts(prefix: u64, guid: Guid) -> Self {
        Self((((prefix as u128) << 64) | guid.get() as u128).to_be_bytes())
    }

    /// The upper 64 bits.
    #[inline]
    pub const fn prefix(self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    /// The lower 64 bits: the interface identifier of a unicast GID.
    #[inline]
    pub const fn guid(self) -> Guid {
        Guid(u128::from_be_bytes(self.0) as u64)
    }

    /// Whether this names a multicast group.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] == MULTICAST_FIRST_BYTE
    }

    /// Whether this is the all-zero GID.
    #[inline]
    pub const fn is_zero(self) -> bool {
        u128::from_be_bytes(self.0) == 0
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_gid))]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip() {
        let gid = Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(0x0002_c903_0000_1234));
        assert_eq!(
            gid.get(),
            [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03, 0x00, 0x00, 0x12, 0x34]
        );
        assert_eq!(gid.prefix(), Gid::DEFAULT_PREFIX);
        assert_eq!(gid.guid(), Guid::new(0x0002_c903_0000_1234));
        assert!(!gid.is_multicast());
        assert!(!gid.is_zero());
        assert!(Gid::ZERO.is_zero());
    }

    #[test]
    fn multicast_is_known_by_its_first_byte() {
        let mut bytes = [0; 16];
        bytes[0] = 0xff;
        assert!(Gid::new(bytes).is_multicast());
        bytes[0] = 0xfe;
        assert!(!Gid::new(bytes).is_multicast());
    }
}
