// SPDX-License-Identifier: GPL-2.0

//! The five path MTUs (IBA "Maximum Transfer Unit").

/// The largest payload of a packet; a link, a path and a queue pair have one each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes, which every link carries.
    #[default]
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// All of them, smallest first.
    pub const ALL: [Self; 5] = [
        Self::B256,
        Self::B512,
        Self::B1024,
        Self::B2048,
        Self::B4096,
    ];

    /// The size in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        1 << self.shift()
    }

    /// The binary logarithm of the size, for divisions that are shifts.
    #[inline]
    pub const fn shift(self) -> u32 {
        match self {
            Self::B256 => 8,
            Self::B512 => 9,
            Self::B1024 => 10,
            Self::B2048 => 11,
            Self::B4096 => 12,
        }
    }

    /// The code of PortInfo, PathRecord and `enum ib_mtu` (1 to 5).
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The MTU of a code; `None` for a reserved one.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::B256),
            2 => Some(Self::B512),
            3 => Some(Self::B1024),
            4 => Some(Self::B2048),
            5 => Some(Self::B4096),
            _ => None,
        }
    }

    /// The largest MTU of at most `bytes` bytes; `None` below 256.
    pub const fn fitting(bytes: usize) -> Option<Self> {
        match bytes {
            0..=255 => None,
            256..=511 => Some(Self::B256),
            512..=1023 => Some(Self::B512),
            1024..=2047 => Some(Self::B1024),
            2048..=4095 => Some(Self::B2048),
            _ => Some(Self::B4096),
        }
    }

    /// The number of packets that a message of `bytes` bytes takes: at least one.
    #[inline]
    pub const fn packets(self, bytes: u32) -> u32 {
        let shift = self.shift();
        let whole = bytes >> shift;
        let rest = bytes & ((1 << shift) - 1);
        if rest != 0 || bytes == 0 {
            whole.wrapping_add(1)
        } else {
            whole
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_mtu))]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for mtu in Mtu::ALL {
            assert_eq!(Mtu::from_code(mtu.code()), Some(mtu));
            assert_eq!(mtu.bytes(), 128 << mtu.code());
            assert_eq!(Mtu::fitting(mtu.bytes()), Some(mtu));
        }
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(6), None);
        assert_eq!(Mtu::fitting(255), None);
        assert_eq!(Mtu::fitting(4095), Some(Mtu::B2048));
        assert_eq!(Mtu::fitting(9000), Some(Mtu::B4096));
    }

    #[test]
    fn packet_counts() {
        assert_eq!(Mtu::B1024.packets(0), 1);
        assert_eq!(Mtu::B1024.packets(1), 1);
        assert_eq!(Mtu::B1024.packets(1024), 1);
        assert_eq!(Mtu::B1024.packets(1025), 2);
        assert_eq!(Mtu::B256.packets(u32::MAX), 1 << 24);
    }
}
