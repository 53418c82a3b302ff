// SPDX-License-Identifier: GPL-2.0

//! SwitchInfo and the forwarding tables (IBA "SwitchInfo", "LinearForwardingTable",
//! "MulticastForwardingTable").

use super::{
    attr,
    smp_attribute,
    Attribute,
    DATA_LEN, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Lid,
    PortNum, //
};
use zerocopy::byteorder::big_endian::U16;

attribute! {
    /// What a switch can forward and how.
    pub struct SwitchInfo [64] {
        /// Entries (not blocks) of the linear forwarding table.
        linear_fdb_cap: u16 = 0, 16;
        /// Entries of the random forwarding table; 0 if there is none.
        random_fdb_cap: u16 = 16, 16;
        /// Entries of the multicast forwarding table.
        multicast_fdb_cap: u16 = 32, 16;
        /// The highest LID that the linear table forwards.
        linear_fdb_top: u16 = 48, 16;
        /// Where LIDs go that a random table has not.
        default_port: PortNum = 64, 8;
        /// Where multicast goes that no table has, if it did not come from there.
        default_multicast_primary_port: PortNum = 72, 8;
        /// Where multicast goes that no table has and that came from the port above.
        default_multicast_not_primary_port: PortNum = 80, 8;
        /// How long a packet may stay, as an exponent of 4.096 us (5 bits); 20 and above: for ever.
        life_time: u8 = 88, 5;
        /// A port changed its state. Written as 1, it is cleared.
        port_state_change: bool = 93, 1;
        /// How SLtoVLMappingTable is optimised (2 bits).
        optimized_sl_to_vl: u8 = 94, 2;
        /// LIDs of a port that a random table tells apart.
        lids_per_port: u16 = 96, 16;
        /// Entries of the P_Key tables of external ports; 0 if they have none.
        partition_enforcement_cap: u16 = 112, 16;
        /// External ports can check P_Keys of packets that come in.
        inbound_enforcement: bool = 128, 1;
        /// External ports can check P_Keys of packets that go out.
        outbound_enforcement: bool = 129, 1;
        /// External ports can drop raw packets that come in.
        filter_raw_inbound: bool = 130, 1;
        /// External ports can drop raw packets that go out.
        filter_raw_outbound: bool = 131, 1;
        /// Port 0 is an enhanced one: it has the whole PortInfo of a CA's.
        enhanced_port0: bool = 132, 1;
        /// The highest multicast LID that the table forwards; 0 if the table has no such bound.
        multicast_fdb_top: Lid = 144, 16;
    }
}
smp_attribute!(SwitchInfo = attr::SWITCH_INFO);

/// A block of the linear forwarding table: the port of each of 64 LIDs. The attribute modifier is
/// the number of the block, that is, its first LID divided by 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearForwardingTable(pub [u8; Self::ENTRIES]);

impl LinearForwardingTable {
    /// Entries of a block.
    pub const ENTRIES: usize = DATA_LEN;

    /// The port of an entry that leads nowhere.
    pub const NO_PORT: PortNum = PortNum::new(0xff);

    /// Blocks of a table for all unicast LIDs.
    pub const MAX_BLOCKS: u32 = (Lid::MULTICAST_BASE.get() as u32) / (Self::ENTRIES as u32);
}

impl Default for LinearForwardingTable {
    /// A block that leads nowhere.
    fn default() -> Self {
        Self([Self::NO_PORT.get(); Self::ENTRIES])
    }
}

impl Attribute for LinearForwardingTable {
    const ID: u16 = attr::LINEAR_FORWARDING_TABLE;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        Self(*data)
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = self.0;
    }
}

/// A block of the multicast forwarding table: for each of 32 multicast LIDs a mask of 16 ports.
///
/// The attribute modifier holds the number of the block in its low 9 bits (counted from
/// [`Lid::MULTICAST_BASE`]) and in its high 4 bits which 16 ports: bit `n` of position `p` is port
/// `16 * p + n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MulticastForwardingTable(pub [u16; Self::ENTRIES]);

impl MulticastForwardingTable {
    /// Entries of a block.
    pub const ENTRIES: usize = DATA_LEN / 2;

    /// Ports of an entry.
    pub const PORTS: usize = 16;

    /// The number of the block that an attribute modifier names.
    #[inline]
    pub const fn block(attr_mod: u32) -> u16 {
        (attr_mod & 0x1ff) as u16
    }

    /// The position (0 to 15) that an attribute modifier names.
    #[inline]
    pub const fn position(attr_mod: u32) -> u8 {
        (attr_mod >> 28) as u8
    }

    /// The attribute modifier of a block (9 bits) and a position (4 bits).
    #[inline]
    pub const fn modifier(block: u16, position: u8) -> u32 {
        (position as u32) << 28 | (block & 0x1ff) as u32
    }
}

impl Attribute for MulticastForwardingTable {
    const ID: u16 = attr::MULTICAST_FORWARDING_TABLE;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        let masks: &[U16; Self::ENTRIES] = zerocopy::transmute_ref!(data);
        Self(masks.map(U16::get))
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = zerocopy::transmute!(self.0.map(U16::new));
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_switch))]
mod tests {
    use super::*;

    #[test]
    fn switch_info_known_bytes() {
        let info = SwitchInfo {
            linear_fdb_cap: 0xc000,
            multicast_fdb_cap: 0x0400,
            linear_fdb_top: 0x0012,
            default_multicast_not_primary_port: PortNum::new(0xff),
            life_time: 18,
            port_state_change: true,
            partition_enforcement_cap: 0x0020,
            inbound_enforcement: true,
            enhanced_port0: true,
            multicast_fdb_top: Lid::new(0xbfff),
            ..SwitchInfo::default()
        };
        let bytes = [
            0xc0, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x12, //
            0x00, 0x00, 0xff, 0x94, 0x00, 0x00, 0x00, 0x20, //
            0x88, 0x00, 0xbf, 0xff,
        ];
        let mut out = [0xee; DATA_LEN];
        info.emit(&mut out);
        assert_eq!(out[..bytes.len()], bytes[..]);
        assert_eq!(<SwitchInfo as Attribute>::parse(&out), info);
    }

    #[test]
    fn multicast_block() {
        let mut data = [0; DATA_LEN];
        data[2] = 0x80;
        data[3] = 0x01;
        let block = MulticastForwardingTable::parse(&data);
        assert_eq!(block.0[1], 0x8001);
        let mut out = [0xee; DATA_LEN];
        block.emit(&mut out);
        assert_eq!(out, data);
        assert_eq!(MulticastForwardingTable::block(0xf000_01ff), 0x1ff);
        assert_eq!(MulticastForwardingTable::position(0xf000_01ff), 0xf);
        assert_eq!(MulticastForwardingTable::modifier(0x1ff, 0xf), 0xf000_01ff);
    }

    #[test]
    fn linear_blocks() {
        assert_eq!(LinearForwardingTable::MAX_BLOCKS, 768);
        let block = LinearForwardingTable::parse(&[3; DATA_LEN]);
        let mut out = [0; DATA_LEN];
        block.emit(&mut out);
        assert_eq!(out, [3; DATA_LEN]);
    }
}
