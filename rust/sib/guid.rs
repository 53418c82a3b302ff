// SPDX-License-Identifier: GPL-2.0

//! The GUIDs of a fabric's nodes.
//!
//! Upper 48 bits: a base, borrowed from the hardware address (EUI-48) of the underlay device. Lower 16 bits:
//!
//! | value    | what it names                                                                     |
//! |----------|-----------------------------------------------------------------------------------|
//! | `0x0100` | the switch                                                                        |
//! | `0x0200` | the system image of the switch and of all HCAs of the underlay                    |
//! | `0xyyzz` | `yy` is 3 plus the number of the HCA; `zz` is 0 for the node, or the port number  |
//!
//! So no GUID is zero, and none of one base equals another. Bases differ from host to host as hardware
//! addresses do; within a host the registry of fabrics sees to it.

use wire::Guid;

/// Length in bytes of an EUI-48.
pub(crate) const EUI48_LEN: usize = 6;

/// First octet of an EUI-48: the address names a group.
const GROUP: u8 = 0x01;
/// First octet of an EUI-48: the address was not assigned by its manufacturer.
const LOCAL: u8 = 0x02;

const SWITCH: u16 = 0x0100;
const SYSTEM_IMAGE: u16 = 0x0200;
/// The `yy` of HCA number 0.
const FIRST_HCA: u16 = 3;

/// The largest number of an HCA: `yy` has 8 bits.
pub(crate) const MAX_HCA: u8 = (0xff - FIRST_HCA) as u8;

/// The upper 48 bits of the GUIDs of one fabric.
///
/// # Invariants
///
/// Not zero, and not a group address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuidBase(u64);

impl GuidBase {
    /// Borrows the hardware address of a network device, if it has one of the right length that may name a
    /// single station.
    pub(crate) fn borrowed(address: &[u8]) -> Option<Self> {
        let octets: [u8; EUI48_LEN] = address.try_into().ok()?;
        if octets == [0; EUI48_LEN] || octets.first().is_some_and(|first| first & GROUP != 0) {
            return None;
        }
        // INVARIANT: Checked above.
        Some(Self::pack(octets))
    }

    /// Makes a locally administered base of random octets.
    pub(crate) fn random(mut octets: [u8; EUI48_LEN]) -> Self {
        if let Some(first) = octets.first_mut() {
            *first = *first & !GROUP | LOCAL;
        }
        // INVARIANT: `LOCAL` is set and `GROUP` is not.
        Self::pack(octets)
    }

    fn pack(octets: [u8; EUI48_LEN]) -> Self {
        let [a, b, c, d, e, f] = octets;
        Self(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// The 48 bits.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    const fn with(self, low: u16) -> Guid {
        Guid::new(self.0 << u16::BITS | low as u64)
    }

    /// The node GUID of the switch.
    pub(crate) const fn switch(self) -> Guid {
        self.with(SWITCH)
    }

    /// The system image GUID of all nodes of the underlay.
    pub(crate) const fn system_image(self) -> Guid {
        self.with(SYSTEM_IMAGE)
    }

    /// The GUIDs of HCA number `hca`, which is at most [`MAX_HCA`].
    pub(crate) const fn hca(self, hca: u8) -> HcaGuids {
        HcaGuids {
            base: self,
            high: (FIRST_HCA.wrapping_add(hca as u16)) << u8::BITS,
        }
    }
}

/// The GUIDs of one HCA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HcaGuids {
    base: GuidBase,
    high: u16,
}

impl HcaGuids {
    /// The node GUID.
    pub(crate) const fn node(self) -> Guid {
        self.base.with(self.high)
    }

    /// The GUID of `port`, which counts from 1.
    pub(crate) const fn port(self, port: u8) -> Guid {
        self.base.with(self.high | port as u16)
    }

    /// The system image GUID.
    pub(crate) const fn system_image(self) -> Guid {
        self.base.system_image()
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_guid)]
mod tests {
    use super::*;

    const MAC: [u8; EUI48_LEN] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];

    #[test]
    fn follows_the_scheme() {
        let base = GuidBase::borrowed(&MAC);
        let guids = base.map(|base| {
            let hca = base.hca(1);
            [base.switch(), hca.system_image(), hca.node(), hca.port(2)].map(Guid::get)
        });
        assert_eq!(
            guids,
            Some([
                0x5254_0012_3456_0100,
                0x5254_0012_3456_0200,
                0x5254_0012_3456_0400,
                0x5254_0012_3456_0402,
            ])
        );
    }

    #[test]
    fn refuses_what_names_no_station() {
        assert!(GuidBase::borrowed(&[0; EUI48_LEN]).is_none());
        assert!(GuidBase::borrowed(&[0xff; EUI48_LEN]).is_none());
        assert!(GuidBase::borrowed(&MAC[..4]).is_none());
        assert!(GuidBase::borrowed(&[]).is_none());
    }

    #[test]
    fn random_bases_are_local_and_name_one_station() {
        for fill in [0, 0xff] {
            let guid = GuidBase::random([fill; EUI48_LEN]).switch().get();
            assert_eq!(guid >> 56 & 0x03, 0x02);
        }
    }

    #[test]
    fn the_last_hca_fits() {
        let base = GuidBase::random([0; EUI48_LEN]);
        assert_eq!(base.hca(MAX_HCA).port(8).get() & 0xffff, 0xff08);
        assert_eq!(
            base.hca(MAX_HCA).node().get() >> 16,
            base.switch().get() >> 16
        );
    }
}
