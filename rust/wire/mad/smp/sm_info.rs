// SPDX-License-Identifier: GPL-2.0

//! SMInfo: what subnet managers tell each other (IBA "SMInfo").

use super::{
    attr,
    smp_attribute, //
};
use crate::mad::bits::attribute;
use crate::types::Guid;

attribute! {
    /// Who a subnet manager is and what it does.
    pub struct SmInfo [64] {
        /// Port GUID of the subnet manager.
        guid: Guid = 0, 64;
        /// The key that proves a subnet manager to another.
        sm_key: u64 = 64, 64;
        /// Grows while the subnet manager lives.
        act_count: u32 = 128, 32;
        /// 0 to 15; higher is preferred.
        priority: u8 = 160, 4;
        /// A [`SmState`].
        state: u8 = 164, 4;
    }
}
smp_attribute!(SmInfo = attr::SM_INFO);

impl SmInfo {
    /// Attribute modifier of a Set by which a master hands over.
    pub const HANDOVER: u32 = 1;
    /// Attribute modifier of a Set by which a new master says that it is one.
    pub const ACKNOWLEDGE: u32 = 2;
    /// Attribute modifier of a Set by which a master switches another off.
    pub const DISABLE: u32 = 3;
    /// Attribute modifier of a Set by which a master makes another standby.
    pub const STANDBY: u32 = 4;
    /// Attribute modifier of a Set by which a master makes another discover.
    pub const DISCOVER: u32 = 5;
}

/// What a subnet manager does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SmState {
    /// Nothing.
    #[default]
    NotActive = 0,
    /// It looks around.
    Discovering = 1,
    /// It watches the master.
    Standby = 2,
    /// It manages the subnet.
    Master = 3,
}

impl SmState {
    /// The state of a code; `None` for a reserved one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::NotActive),
            1 => Some(Self::Discovering),
            2 => Some(Self::Standby),
            3 => Some(Self::Master),
            _ => None,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_sm_info))]
mod tests {
    use super::*;
    use crate::mad::smp::{
        Attribute,
        DATA_LEN, //
    };

    #[test]
    fn known_bytes() {
        let info = SmInfo {
            guid: Guid::new(0x0102_0304_0506_0708),
            sm_key: 0x1112_1314_1516_1718,
            act_count: 0x2122_2324,
            priority: 14,
            state: SmState::Master as u8,
        };
        let bytes = [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, //
            0x21, 0x22, 0x23, 0x24, 0xe3,
        ];
        let mut out = [0xee; DATA_LEN];
        info.emit(&mut out);
        assert_eq!(out[..bytes.len()], bytes[..]);
        assert_eq!(<SmInfo as Attribute>::parse(&out), info);
    }
}
