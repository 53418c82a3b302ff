// SPDX-License-Identifier: GPL-2.0

//! NodeRecord and PortInfoRecord: what subnet management knows of nodes and ports, by LID (IBA "NodeRecord",
//! "PortInfoRecord").

use super::{
    attr,
    Record, //
};
use crate::mad::bits::attribute;
use crate::mad::smp::{
    NodeDescription,
    NodeInfo,
    PortInfo, //
};
use crate::types::{
    Lid,
    PortNum, //
};

/// Bytes of a NodeInfo that mean something.
const NODE_INFO_LEN: usize = 40;

/// Size in bytes of the record identifiers before an attribute of subnet management.
const RID_LEN: usize = 4;

attribute! {
    struct NodeRid [4] {
        lid: Lid = 0, 16;
    }
}

attribute! {
    struct PortRid [4] {
        lid: Lid = 0, 16;
        port: PortNum = 16, 8;
    }
}

/// A port of a node that has a LID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// The LID of the port.
    pub lid: Lid,
    /// What the port answers to SubnGet(NodeInfo).
    pub info: NodeInfo,
    /// What it answers to SubnGet(NodeDescription).
    pub description: NodeDescription,
}

/// Bits of the component mask.
impl NodeRecord {
    /// `lid`.
    pub const LID: u64 = 1 << 0;
    /// Node type.
    pub const NODE_TYPE: u64 = 1 << 4;
    /// System image GUID.
    pub const SYSTEM_IMAGE_GUID: u64 = 1 << 6;
    /// Node GUID.
    pub const NODE_GUID: u64 = 1 << 7;
    /// Port GUID.
    pub const PORT_GUID: u64 = 1 << 8;
    /// `description`.
    pub const DESCRIPTION: u64 = 1 << 14;
}

impl Record for NodeRecord {
    const ID: u16 = attr::NODE_RECORD;
    const SIZE: usize = RID_LEN + NODE_INFO_LEN + size_of::<NodeDescription>();

    fn parse(data: &[u8]) -> Self {
        let mut description = NodeDescription::default();
        let bytes = data.iter().skip(RID_LEN + NODE_INFO_LEN);
        for (to, from) in description.0.iter_mut().zip(bytes) {
            *to = *from;
        }
        let info = data.get(RID_LEN..RID_LEN + NODE_INFO_LEN).unwrap_or(&[]);
        Self {
            lid: NodeRid::read(data).lid,
            info: NodeInfo::read(info),
            description,
        }
    }

    fn emit(&self, data: &mut [u8]) {
        NodeRid { lid: self.lid }.write(data);
        if let Some(info) = data.get_mut(RID_LEN..RID_LEN + NODE_INFO_LEN) {
            self.info.write(info);
        }
        let bytes = data.iter_mut().skip(RID_LEN + NODE_INFO_LEN);
        for (to, from) in bytes.zip(self.description.0) {
            *to = from;
        }
    }
}

/// A port of a channel adapter or switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortInfoRecord {
    /// The LID of the port; for an external port of a switch, of that switch.
    pub lid: Lid,
    /// The number of the port.
    pub port: PortNum,
    /// What it answers to SubnGet(PortInfo).
    pub info: PortInfo,
}

/// Bits of the component mask.
impl PortInfoRecord {
    /// `lid`.
    pub const LID: u64 = 1 << 0;
    /// `port`.
    pub const PORT: u64 = 1 << 1;
    /// The capability mask; with a set uppermost bit of the attribute modifier, its bits that are set alone.
    pub const CAPABILITY_MASK: u64 = 1 << 7;
    /// The logical state.
    pub const PORT_STATE: u64 = 1 << 15;
}

impl Record for PortInfoRecord {
    const ID: u16 = attr::PORT_INFO_RECORD;
    const SIZE: usize = RID_LEN + PortInfo::LEN;

    fn parse(data: &[u8]) -> Self {
        let rid = PortRid::read(data);
        Self {
            lid: rid.lid,
            port: rid.port,
            info: PortInfo::read(data.get(RID_LEN..).unwrap_or(&[])),
        }
    }

    fn emit(&self, data: &mut [u8]) {
        PortRid {
            lid: self.lid,
            port: self.port,
        }
        .write(data);
        self.info.write(data.get_mut(RID_LEN..).unwrap_or(&mut []));
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_node_record))]
mod tests {
    use super::*;
    use crate::types::Guid;

    #[test]
    fn node_record_known_bytes() {
        let record = NodeRecord {
            lid: Lid::new(0x0102),
            info: NodeInfo {
                base_version: 1,
                node_guid: Guid::new(0x1112_1314_1516_1718),
                local_port: PortNum::new(2),
                vendor_id: 0x21_2223,
                ..NodeInfo::default()
            },
            description: NodeDescription::new(b"xy"),
        };
        let mut out = [0; 108];
        record.emit(&mut out);
        assert_eq!(NodeRecord::SIZE, out.len());
        assert_eq!(out[..5], [1, 2, 0, 0, 1][..]);
        assert_eq!(
            out[16..24],
            [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18][..]
        );
        assert_eq!(out[40..46], [2, 0x21, 0x22, 0x23, b'x', b'y'][..]);
        assert_eq!(NodeRecord::parse(&out), record);
    }

    #[test]
    fn port_record_known_bytes() {
        let record = PortInfoRecord {
            lid: Lid::new(0x0102),
            port: PortNum::new(3),
            info: PortInfo {
                mkey: 0x1100_0000_0000_0000,
                lid: Lid::new(0x0102),
                ..PortInfo::default()
            },
        };
        let mut out = [0; 68];
        record.emit(&mut out);
        assert_eq!(PortInfoRecord::SIZE, out.len());
        assert_eq!(out[..5], [1, 2, 3, 0, 0x11][..]);
        assert_eq!(out[20..22], [1, 2][..]);
        assert_eq!(PortInfoRecord::parse(&out), record);
    }

    #[test]
    fn too_short_is_zero() {
        assert_eq!(NodeRecord::parse(&[]), NodeRecord::default());
        assert_eq!(PortInfoRecord::parse(&[0; 3]), PortInfoRecord::default());
        let mut none = [];
        NodeRecord::default().emit(&mut none);
        PortInfoRecord::default().emit(&mut none);
    }
}
