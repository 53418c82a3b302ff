// SPDX-License-Identifier: GPL-2.0

//! Sets of switch ports.

use wire::PortNum;

/// Bits of a word of the mask, as a shift.
const WORD_SHIFT: u8 = 5;

/// A set of port numbers 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortMask([u32; 8]);

impl PortMask {
    /// No port.
    pub const EMPTY: Self = Self([0; 8]);

    /// Whether `port` is in the set.
    pub fn contains(&self, port: PortNum) -> bool {
        self.0
            .get(word(port))
            .is_some_and(|bits| bits & bit(port) != 0)
    }

    /// Adds `port`.
    pub fn insert(&mut self, port: PortNum) {
        if let Some(bits) = self.0.get_mut(word(port)) {
            *bits |= bit(port);
        }
    }

    /// Takes `port` out.
    pub fn remove(&mut self, port: PortNum) {
        if let Some(bits) = self.0.get_mut(word(port)) {
            *bits &= !bit(port);
        }
    }

    /// The ports that are in both sets.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        for (bits, other) in both.0.iter_mut().zip(other.0) {
            *bits &= other;
        }
        both
    }

    /// Whether no port is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }

    /// The ports in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PortNum> {
        let mask = *self;
        (0..=u8::MAX)
            .map(PortNum::new)
            .filter(move |port| mask.contains(*port))
    }

    /// The 16 ports of position `position` (0 to 15) of a MulticastForwardingTable block: bit n is port
    /// `16 * position + n`.
    pub(crate) fn half_word(&self, position: u8) -> u16 {
        let bits = self
            .0
            .get(usize::from(position >> 1))
            .copied()
            .unwrap_or_default();
        if position & 1 == 0 {
            bits as u16
        } else {
            (bits >> 16) as u16
        }
    }

    /// Replaces the 16 ports of a position.
    pub(crate) fn set_half_word(&mut self, position: u8, ports: u16) {
        if let Some(bits) = self.0.get_mut(usize::from(position >> 1)) {
            *bits = if position & 1 == 0 {
                (*bits & 0xffff_0000) | u32::from(ports)
            } else {
                (*bits & 0x0000_ffff) | (u32::from(ports) << 16)
            };
        }
    }
}

const fn word(port: PortNum) -> usize {
    (port.get() >> WORD_SHIFT) as usize
}

const fn bit(port: PortNum) -> u32 {
    1u32.wrapping_shl(port.get() as u32)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_mask))]
mod tests {
    use super::*;

    #[test]
    fn holds_ports() {
        let mut mask = PortMask::EMPTY;
        for port in [0, 31, 32, 250, 255] {
            mask.insert(PortNum::new(port));
        }
        assert!(mask.iter().map(PortNum::get).eq([0, 31, 32, 250, 255]));
        mask.remove(PortNum::new(32));
        assert!(!mask.contains(PortNum::new(32)));
        assert!(mask.contains(PortNum::new(31)));
        assert!(PortMask::EMPTY.is_empty());
        assert!(!mask.is_empty());
    }

    #[test]
    fn both() {
        let (mut a, mut b) = (PortMask::EMPTY, PortMask::EMPTY);
        for port in [1, 40, 200] {
            a.insert(PortNum::new(port));
        }
        for port in [2, 40, 201] {
            b.insert(PortNum::new(port));
        }
        assert!(a.and(&b).iter().map(PortNum::get).eq([40]));
        assert!(a.and(&PortMask::EMPTY).is_empty());
    }

    #[test]
    fn positions_are_16_ports() {
        let mut mask = PortMask::EMPTY;
        mask.set_half_word(1, 0x8001);
        assert!(mask.iter().map(PortNum::get).eq([16, 31]));
        assert_eq!(mask.half_word(1), 0x8001);
        assert_eq!(mask.half_word(0), 0);
        mask.set_half_word(0, 2);
        mask.set_half_word(1, 0);
        assert!(mask.iter().map(PortNum::get).eq([1]));
        mask.set_half_word(16, 1);
        assert_eq!(mask.half_word(16), 0);
    }
}
