// SPDX-License-Identifier: GPL-2.0

//! NodeInfo and NodeDescription (IBA "NodeInfo", "NodeDescription").

use super::{
    attr,
    smp_attribute,
    Attribute,
    DATA_LEN, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Guid,
    PortNum, //
};
use core::fmt;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeType {
    /// Channel adapter.
    Ca = 1,
    /// Switch.
    Switch = 2,
    /// Router.
    Router = 3,
}

impl NodeType {
    /// The type of a code; `None` for a reserved one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Ca),
            2 => Some(Self::Switch),
            3 => Some(Self::Router),
            _ => None,
        }
    }
}

attribute! {
    /// What a node is and what it is called by machines.
    pub struct NodeInfo [64] {
        /// Supported MAD base version.
        base_version: u8 = 0, 8;
        /// Supported subnet management class version.
        class_version: u8 = 8, 8;
        /// A [`NodeType`].
        node_type: u8 = 16, 8;
        /// Physical ports.
        num_ports: u8 = 24, 8;
        /// Names what is sold as one.
        system_image_guid: Guid = 32, 64;
        /// Names the node.
        node_guid: Guid = 96, 64;
        /// Names the port by which the packet came in; port 0 of a switch.
        port_guid: Guid = 160, 64;
        /// Entries of a P_Key table of a CA or router port, or of port 0 of a switch.
        partition_cap: u16 = 224, 16;
        /// Of the vendor's choice.
        device_id: u16 = 240, 16;
        /// Of the vendor's choice.
        revision: u32 = 256, 32;
        /// The port by which the packet came in.
        local_port: PortNum = 288, 8;
        /// IEEE number of the vendor (24 bits).
        vendor_id: u32 = 296, 24;
    }
}
smp_attribute!(NodeInfo = attr::NODE_INFO);

/// What a node is called by people: UTF-8, padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDescription(pub [u8; DATA_LEN]);

impl NodeDescription {
    /// The description of as much of `text` as fits.
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; DATA_LEN];
        for (to, from) in bytes.iter_mut().zip(text) {
            *to = *from;
        }
        Self(bytes)
    }
}

impl fmt::Display for NodeDescription {
    /// One word of printable ASCII, whatever a peer calls itself: `"`, `\` and all that is not printable are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        write!(f, "{}", text.escape_ascii())
    }
}

impl Default for NodeDescription {
    fn default() -> Self {
        Self([0; DATA_LEN])
    }
}

impl Attribute for NodeDescription {
    const ID: u16 = attr::NODE_DESCRIPTION;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        Self(*data)
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = self.0;
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_node))]
mod tests {
    use super::*;

    #[test]
    fn node_info_known_bytes() {
        let info = NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: NodeType::Ca as u8,
            num_ports: 2,
            system_image_guid: Guid::new(0x0102_0304_0506_0708),
            node_guid: Guid::new(0x1112_1314_1516_1718),
            port_guid: Guid::new(0x2122_2324_2526_2728),
            partition_cap: 0x0080,
            device_id: 0x3132,
            revision: 0x4142_4344,
            local_port: PortNum::new(1),
            vendor_id: 0x51_5253,
        };
        let bytes = [
            0x01, 0x01, 0x01, 0x02, //
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, //
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, //
            0x00, 0x80, 0x31, 0x32, 0x41, 0x42, 0x43, 0x44, 0x01, 0x51, 0x52, 0x53,
        ];
        let mut out = [0xee; DATA_LEN];
        info.emit(&mut out);
        assert_eq!(out[..bytes.len()], bytes[..]);
        assert_eq!(out[bytes.len()..], [0; 24][..]);
        assert_eq!(<NodeInfo as Attribute>::parse(&out), info);
    }

    #[test]
    fn long_descriptions_are_cut() {
        assert_eq!(NodeDescription::new(&[b'x'; 70]).0, [b'x'; 64]);
        assert_eq!(NodeDescription::new(b"ab").0[..3], *b"ab\0");
    }

    /// Collects what is written.
    struct Text([u8; 256], usize);

    impl fmt::Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = self.1 + text.len();
            self.0[self.1..end].copy_from_slice(text.as_bytes());
            self.1 = end;
            Ok(())
        }
    }

    #[test]
    fn descriptions_are_shown_as_printable_text() {
        for (bytes, shown) in [
            (&b"bob sib0\0rest"[..], &b"bob sib0"[..]),
            (b"", b""),
            (b"a\nstate master", b"a\\nstate master"),
            (b"\"\\\x1b[2J\xff", b"\\\"\\\\\\x1b[2J\\xff"),
        ] {
            let mut text = Text([0; 256], 0);
            fmt::Write::write_fmt(&mut text, format_args!("{}", NodeDescription::new(bytes)))
                .unwrap();
            assert_eq!(text.0[..text.1], *shown);
        }
        let mut text = Text([0; 256], 0);
        fmt::Write::write_fmt(
            &mut text,
            format_args!("{}", NodeDescription::new(&[7; 64])),
        )
        .unwrap();
        assert_eq!(
            text.0.chunks(4).filter(|chunk| *chunk == b"\\x07").count(),
            64
        );
    }
}
