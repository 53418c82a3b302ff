// SPDX-License-Identifier: GPL-2.0

//! P_Keys, Q_Keys, L_Keys and R_Keys (IBA chapter "Partitioning", and "Keys" in "Management
//! Model").

/// A partition key: 15 bits that name the partition and one that gives the kind of membership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PKey(u16);

/// Set for a full member; clear for a limited one.
const FULL_MEMBER: u16 = 0x8000;

impl PKey {
    /// The default partition with full membership, which every port has at power-up.
    pub const DEFAULT: Self = Self(0xffff);

    /// An empty slot of a P_Key table.
    pub const INVALID: Self = Self(0);

    /// Makes a P_Key of its 16 bits.
    #[inline]
    pub const fn new(pkey: u16) -> Self {
        Self(pkey)
    }

    /// The 16 bits.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether the membership bit says full.
    #[inline]
    pub const fn is_full(self) -> bool {
        self.0 & FULL_MEMBER != 0
    }

    /// The key of full members of the same partition.
    #[inline]
    #[must_use]
    pub const fn as_full(self) -> Self {
        Self(self.0 | FULL_MEMBER)
    }

    /// The 15 bits that name the partition.
    #[inline]
    pub const fn base(self) -> u16 {
        self.0 & !FULL_MEMBER
    }

    /// Whether the key names a partition: a zero base is an empty table slot, whatever the
    /// membership bit.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.base() != 0
    }

    /// Whether holders of the two keys may talk: both valid, the same partition, and not both
    /// limited members (IBA "P_Key Matching").
    #[inline]
    pub const fn matches(self, other: Self) -> bool {
        self.is_valid() && self.base() == other.base() && (self.is_full() || other.is_full())
    }
}

/// A queue key: the password of a datagram queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QKey(u32);

impl QKey {
    /// The well-known Q_Key of the general service interface (QP1).
    pub const GSI: Self = Self(0x8001_0000);

    /// Makes a Q_Key of its 32 bits.
    #[inline]
    pub const fn new(qkey: u32) -> Self {
        Self(qkey)
    }

    /// The 32 bits.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether this is a controlled Q_Key (most significant bit set). A work request that names one
    /// sends the queue pair's own Q_Key instead.
    #[inline]
    pub const fn is_privileged(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }
}

/// An L_Key or R_Key: names a memory region or window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u32);

impl Key {
    /// Makes a key of its 32 bits.
    #[inline]
    pub const fn new(key: u32) -> Self {
        Self(key)
    }

    /// The 32 bits.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The upper 24 bits, which the device chooses.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// The lower 8 bits, which belong to the consumer.
    #[inline]
    pub const fn variant(self) -> u8 {
        self.0 as u8
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_key))]
mod tests {
    use super::*;

    #[test]
    fn pkey_membership() {
        let full = PKey::new(0x8012);
        let limited = PKey::new(0x0012);
        assert!(full.is_full());
        assert!(!limited.is_full());
        assert_eq!(full.base(), limited.base());
        assert!(full.matches(full));
        assert!(full.matches(limited));
        assert!(limited.matches(full));
        assert!(!limited.matches(limited));
        assert!(!full.matches(PKey::new(0x8013)));
        assert!(PKey::DEFAULT.matches(PKey::new(0x7fff)));
    }

    #[test]
    fn pkey_zero_base_matches_nothing() {
        assert!(!PKey::new(0x8000).is_valid());
        assert!(!PKey::new(0x8000).matches(PKey::new(0x8000)));
        assert!(!PKey::INVALID.matches(PKey::new(0x8000)));
    }

    #[test]
    fn qkey_privilege() {
        assert!(QKey::GSI.is_privileged());
        assert!(!QKey::new(0x7fff_ffff).is_privileged());
    }

    #[test]
    fn key_parts() {
        let key = Key::new(0x1234_56ab);
        assert_eq!(key.index(), 0x12_3456);
        assert_eq!(key.variant(), 0xab);
    }
}
