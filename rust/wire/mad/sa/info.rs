// SPDX-License-Identifier: GPL-2.0

//! SMInfoRecord and GUIDInfoRecord: what subnet management knows of subnet managers and of the GUIDs of ports, by LID
//! (IBA "SMInfoRecord", "GUIDInfoRecord").

use super::{
    attr,
    Record, //
};
use crate::mad::bits::attribute;
use crate::mad::smp::{
    GuidInfo,
    SmInfo, //
};
use crate::types::{
    Guid,
    Lid, //
};

/// Size in bytes of the identifier of an SMInfoRecord.
const SM_RID_LEN: usize = 4;

/// Bytes of an SMInfo that a record has.
const SM_INFO_LEN: usize = 28;

/// Size in bytes of the identifier of a GUIDInfoRecord.
const GUID_RID_LEN: usize = 8;

attribute! {
    struct SmRid [4] {
        lid: Lid = 0, 16;
    }
}

attribute! {
    struct GuidRid [8] {
        lid: Lid = 0, 16;
        block: u8 = 16, 8;
    }
}

attribute! {
    struct Guids [64] {
        first: Guid = 0, 64;
        second: Guid = 64, 64;
        third: Guid = 128, 64;
        fourth: Guid = 192, 64;
        fifth: Guid = 256, 64;
        sixth: Guid = 320, 64;
        seventh: Guid = 384, 64;
        eighth: Guid = 448, 64;
    }
}

/// A subnet manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmInfoRecord {
    /// The LID of its port.
    pub lid: Lid,
    /// What it answers to SubnGet(SMInfo).
    pub info: SmInfo,
}

/// Bits of the component mask.
impl SmInfoRecord {
    /// `lid`.
    pub const LID: u64 = 1 << 0;
    /// The port GUID.
    pub const GUID: u64 = 1 << 2;
    /// The state.
    pub const STATE: u64 = 1 << 6;
}

impl Record for SmInfoRecord {
    const ID: u16 = attr::SM_INFO_RECORD;
    const SIZE: usize = SM_RID_LEN + SM_INFO_LEN;

    fn parse(data: &[u8]) -> Self {
        Self {
            lid: SmRid::read(data).lid,
            info: SmInfo::read(data.get(SM_RID_LEN..).unwrap_or(&[])),
        }
    }

    fn emit(&self, data: &mut [u8]) {
        SmRid { lid: self.lid }.write(data);
        if let Some(info) = data.get_mut(SM_RID_LEN..Self::SIZE) {
            self.info.write(info);
        }
    }
}

/// A block of the GUIDs of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuidInfoRecord {
    /// The LID of the port.
    pub lid: Lid,
    /// The number of the block.
    pub block: u8,
    /// What the port answers to SubnGet(GUIDInfo).
    pub guids: GuidInfo,
}

/// Bits of the component mask.
impl GuidInfoRecord {
    /// `lid`.
    pub const LID: u64 = 1 << 0;
    /// `block`.
    pub const BLOCK: u64 = 1 << 1;
    /// The first of `guids`; the others follow.
    pub const FIRST_GUID: u64 = 1 << 4;
}

impl Record for GuidInfoRecord {
    const ID: u16 = attr::GUID_INFO_RECORD;
    const SIZE: usize = GUID_RID_LEN + Guids::LEN;

    fn parse(data: &[u8]) -> Self {
        let rid = GuidRid::read(data);
        let told = Guids::read(data.get(GUID_RID_LEN..).unwrap_or(&[]));
        Self {
            lid: rid.lid,
            block: rid.block,
            guids: GuidInfo([
                told.first,
                told.second,
                told.third,
                told.fourth,
                told.fifth,
                told.sixth,
                told.seventh,
                told.eighth,
            ]),
        }
    }

    fn emit(&self, data: &mut [u8]) {
        GuidRid {
            lid: self.lid,
            block: self.block,
        }
        .write(data);
        let [first, second, third, fourth, fifth, sixth, seventh, eighth] = self.guids.0;
        let guids = Guids {
            first,
            second,
            third,
            fourth,
            fifth,
            sixth,
            seventh,
            eighth,
        };
        guids.write(data.get_mut(GUID_RID_LEN..).unwrap_or(&mut []));
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_info_record))]
mod tests {
    use super::*;

    #[test]
    fn manager_record_known_bytes() {
        let record = SmInfoRecord {
            lid: Lid::new(0x0102),
            info: SmInfo {
                guid: Guid::new(0x1112_1314_1516_1718),
                act_count: 0x2122_2324,
                priority: 5,
                state: 3,
                ..SmInfo::default()
            },
        };
        let mut out = [0; 32];
        record.emit(&mut out);
        assert_eq!(SmInfoRecord::SIZE, out.len());
        assert_eq!(out[..6], [1, 2, 0, 0, 0x11, 0x12][..]);
        assert_eq!(out[20..26], [0x21, 0x22, 0x23, 0x24, 0x53, 0][..]);
        assert_eq!(SmInfoRecord::parse(&out), record);
    }

    #[test]
    fn guid_record_known_bytes() {
        let mut guids = GuidInfo::default();
        guids.0[0] = Guid::new(0x1112_1314_1516_1718);
        guids.0[7] = Guid::new(0x21);
        let record = GuidInfoRecord {
            lid: Lid::new(0x0102),
            block: 3,
            guids,
        };
        let mut out = [0; 72];
        record.emit(&mut out);
        assert_eq!(GuidInfoRecord::SIZE, out.len());
        assert_eq!(out[..10], [1, 2, 3, 0, 0, 0, 0, 0, 0x11, 0x12][..]);
        assert_eq!(out[71], 0x21);
        assert_eq!(GuidInfoRecord::parse(&out), record);
    }

    #[test]
    fn too_short_is_zero() {
        assert_eq!(SmInfoRecord::parse(&[0]), SmInfoRecord::default());
        assert_eq!(GuidInfoRecord::parse(&[]), GuidInfoRecord::default());
        let mut none = [];
        SmInfoRecord::default().emit(&mut none);
        GuidInfoRecord::default().emit(&mut none);
    }
}
