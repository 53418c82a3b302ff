// SPDX-License-Identifier: GPL-2.0

//! GUIDInfo: the GUIDs of a port (IBA "GUIDInfo").

use super::{
    attr,
    Attribute,
    DATA_LEN, //
};
use crate::types::Guid;
use zerocopy::byteorder::big_endian::U64;

/// A block of 8 GUIDs. The attribute modifier is the number of the block; GUID 0 of block 0 is the
/// port's own and read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuidInfo(pub [Guid; Self::ENTRIES]);

impl GuidInfo {
    /// Entries of a block.
    pub const ENTRIES: usize = DATA_LEN / 8;
}

impl Attribute for GuidInfo {
    const ID: u16 = attr::GUID_INFO;

    fn parse(data: &[u8; DATA_LEN]) -> Self {
        let guids: &[U64; Self::ENTRIES] = zerocopy::transmute_ref!(data);
        Self(guids.map(|guid| Guid::new(guid.get())))
    }

    fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = zerocopy::transmute!(self.0.map(|guid| U64::new(guid.get())));
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_guid_info))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let mut data = [0; DATA_LEN];
        data[63] = 9;
        let block = GuidInfo::parse(&data);
        assert_eq!(block.0[7], Guid::new(9));
        let mut out = [0xee; DATA_LEN];
        block.emit(&mut out);
        assert_eq!(out, data);
    }
}
