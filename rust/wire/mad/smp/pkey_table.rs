// SPDX-License-Identifier: GPL-2.0

//! P_KeyTable: the partitions of a port (IBA "P_KeyTable").

use super::{
    attr,
    Attribute,
    DATA_LEN, //
};
use crate::types::{
    PKey,
    PortNum, //
};
use zerocopy::byteorder::big_endian::U16;

/// A block of 32 P_Keys. The attribute modifier holds the number of the block in its low 16 bits
/// and, for an external port of a switch, that port in its high 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PKeyTable(pub [PKey; Self::ENTRIES]);

impl PKeyTable {
    /// Entries of a block.
    pub const ENTRIES: usize = DATA_LEN / 2;

    /// The number of the block that an attribute modifier names.
    #[inline]
    pub const fn block(attr_mod: u32) -> u16 {
        attr_mod as u16
    }

    /// The port of a switch that an attribute modifier names.
    #[inline]
    pub const fn port(attr_mod: u32) -> PortNum {
        PortNum::new((attr_mod >> 16) as u8)
    }
}

impl Attribute for PKeyTable {
    const ID: u16 = attr::PKEY_TABLE;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        let pkeys: &[U16; Self::ENTRIES] = zerocopy::transmute_ref!(data);
        Self(pkeys.map(|pkey| PKey::new(pkey.get())))
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = zerocopy::transmute!(self.0.map(|pkey| U16::new(pkey.get())));
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_pkey_table))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let mut data = [0; DATA_LEN];
        data[0] = 0xff;
        data[1] = 0xff;
        data[62] = 0x80;
        data[63] = 0x01;
        let block = PKeyTable::parse(&data);
        assert_eq!(block.0[0], PKey::DEFAULT);
        assert_eq!(block.0[31], PKey::new(0x8001));
        let mut out = [0xee; DATA_LEN];
        block.emit(&mut out);
        assert_eq!(out, data);
        assert_eq!(PKeyTable::block(0x0002_0003), 3);
        assert_eq!(PKeyTable::port(0x0002_0003), PortNum::new(2));
    }
}
