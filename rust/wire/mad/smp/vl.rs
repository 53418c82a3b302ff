// SPDX-License-Identifier: GPL-2.0

//! Service levels to virtual lanes, and the arbitration between these (IBA "SLtoVLMappingTable",
//! "VLArbitrationTable").

use super::{
    attr,
    Attribute,
    DATA_LEN, //
};
use crate::types::{
    PortNum,
    Sl,
    Vl, //
};

/// The virtual lane of each service level. For a switch the attribute modifier names input port
/// (bits 8 to 15) and output port (bits 0 to 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlToVl(pub [Vl; Self::ENTRIES]);

impl SlToVl {
    /// Service levels.
    pub const ENTRIES: usize = 16;

    /// The lane of a service level. Lane 15 means that packets of that level are dropped.
    #[inline]
    pub fn lane(&self, sl: Sl) -> Vl {
        let lane = self.0.get(usize::from(sl.get())).copied();
        lane.unwrap_or(Vl::MANAGEMENT)
    }

    /// The input port that an attribute modifier names.
    #[inline]
    pub const fn input_port(attr_mod: u32) -> PortNum {
        PortNum::new((attr_mod >> 8) as u8)
    }

    /// The output port that an attribute modifier names.
    #[inline]
    pub const fn output_port(attr_mod: u32) -> PortNum {
        PortNum::new(attr_mod as u8)
    }
}

impl Default for SlToVl {
    /// All levels on lane 0.
    fn default() -> Self {
        Self([Vl::new(0); Self::ENTRIES])
    }
}

impl Attribute for SlToVl {
    const ID: u16 = attr::SL_TO_VL;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        let mut table = Self::default();
        for (pair, &byte) in table.0.chunks_exact_mut(2).zip(data) {
            if let [even, odd] = pair {
                *even = Vl::new(byte >> 4);
                *odd = Vl::new(byte);
            }
        }
        table
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = [0; DATA_LEN];
        for (pair, byte) in self.0.chunks_exact(2).zip(data) {
            if let [even, odd] = pair {
                *byte = even.get() << 4 | odd.get();
            }
        }
    }
}

/// An entry of a [`VlArb`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlWeight {
    /// The lane.
    pub vl: Vl,
    /// Its turn in units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

/// A block of 32 entries of the arbitration table. The attribute modifier holds the number of the
/// block in its high 16 bits (1 and 2: low priority, 3 and 4: high priority) and the port of a
/// switch in its low 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlArb(pub [VlWeight; Self::ENTRIES]);

impl VlArb {
    /// Entries of a block.
    pub const ENTRIES: usize = DATA_LEN / 2;

    /// The number of the block that an attribute modifier names.
    #[inline]
    pub const fn block(attr_mod: u32) -> u16 {
        (attr_mod >> 16) as u16
    }

    /// The port of a switch that an attribute modifier names.
    #[inline]
    pub const fn port(attr_mod: u32) -> PortNum {
        PortNum::new(attr_mod as u8)
    }
}

impl Attribute for VlArb {
    const ID: u16 = attr::VL_ARB;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        let entries: &[[u8; 2]; Self::ENTRIES] = zerocopy::transmute_ref!(data);
        Self(entries.map(|[vl, weight]| VlWeight {
            vl: Vl::new(vl),
            weight,
        }))
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = zerocopy::transmute!(self.0.map(|entry| [entry.vl.get(), entry.weight]));
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_vl))]
mod tests {
    use super::*;

    #[test]
    fn sl_to_vl_known_bytes() {
        let mut data = [0; DATA_LEN];
        data[0] = 0x01;
        data[7] = 0xef;
        let table = SlToVl::parse(&data);
        assert_eq!(table.lane(Sl::new(0)), Vl::new(0));
        assert_eq!(table.lane(Sl::new(1)), Vl::new(1));
        assert_eq!(table.lane(Sl::new(14)), Vl::new(14));
        assert_eq!(table.lane(Sl::new(15)), Vl::MANAGEMENT);
        let mut out = [0xee; DATA_LEN];
        table.emit(&mut out);
        assert_eq!(out, data);
        assert_eq!(SlToVl::input_port(0x0302), PortNum::new(3));
        assert_eq!(SlToVl::output_port(0x0302), PortNum::new(2));
    }

    #[test]
    fn vl_arb_known_bytes() {
        let mut data = [0; DATA_LEN];
        data[62] = 0x07;
        data[63] = 0x20;
        let table = VlArb::parse(&data);
        let expected = VlWeight {
            vl: Vl::new(7),
            weight: 32,
        };
        assert_eq!(table.0[31], expected);
        let mut out = [0xee; DATA_LEN];
        table.emit(&mut out);
        assert_eq!(out, data);
        assert_eq!(VlArb::block(0x0003_0002), 3);
        assert_eq!(VlArb::port(0x0003_0002), PortNum::new(2));
    }
}
