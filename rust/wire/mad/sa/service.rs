// SPDX-License-Identifier: GPL-2.0

//! ServiceRecord: what a port offers (IBA "ServiceRecord").

use super::{
    attr,
    Record, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Gid,
    PKey, //
};

/// Where the name begins.
const NAME_AT: usize = 48;

/// Size in bytes of the name.
const NAME_LEN: usize = 64;

/// Size in bytes of the data.
const DATA_LEN: usize = 64;

attribute! {
    struct Head [48] {
        id: u64 = 0, 64;
        gid: Gid = 64, 128;
        pkey: PKey = 192, 16;
        lease: u32 = 224, 32;
        key_high: u64 = 256, 64;
        key_low: u64 = 320, 64;
    }
}

/// A service at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// The number of the service.
    pub id: u64,
    /// The port.
    pub gid: Gid,
    /// The partition.
    pub pkey: PKey,
    /// Seconds until the record is forgotten; all ones: never.
    pub lease: u32,
    /// What is needed to change the record: the upper and the lower half.
    pub key: [u64; 2],
    /// Its name: UTF-8, padded with zeros.
    pub name: [u8; NAME_LEN],
    /// Of the service's choice: 16 bytes, then 8 numbers of 2, 4 of 4 and 2 of 8 bytes.
    pub data: [u8; DATA_LEN],
}

impl Default for ServiceRecord {
    fn default() -> Self {
        Self {
            id: 0,
            gid: Gid::ZERO,
            pkey: PKey::INVALID,
            lease: 0,
            key: [0; 2],
            name: [0; NAME_LEN],
            data: [0; DATA_LEN],
        }
    }
}

impl ServiceRecord {
    /// The lease that does not end.
    pub const FOR_EVER: u32 = u32::MAX;
}

/// Bits of the component mask. From bit 7 on they stand for the parts of `data`.
impl ServiceRecord {
    /// `id`.
    pub const ID_MASK: u64 = 1 << 0;
    /// `gid`.
    pub const GID: u64 = 1 << 1;
    /// `pkey`.
    pub const PKEY: u64 = 1 << 2;
    /// `lease`.
    pub const LEASE: u64 = 1 << 4;
    /// `key`.
    pub const KEY: u64 = 1 << 5;
    /// `name`.
    pub const NAME: u64 = 1 << 6;
}

impl Record for ServiceRecord {
    const ID: u16 = attr::SERVICE_RECORD;
    const SIZE: usize = NAME_AT + NAME_LEN + DATA_LEN;

    fn parse(data: &[u8]) -> Self {
        let head = Head::read(data);
        let mut record = Self {
            id: head.id,
            gid: head.gid,
            pkey: head.pkey,
            lease: head.lease,
            key: [head.key_high, head.key_low],
            ..Self::default()
        };
        let text = record.name.iter_mut().chain(&mut record.data);
        for (to, from) in text.zip(data.iter().skip(NAME_AT)) {
            *to = *from;
        }
        record
    }

    fn emit(&self, data: &mut [u8]) {
        let [key_high, key_low] = self.key;
        Head {
            id: self.id,
            gid: self.gid,
            pkey: self.pkey,
            lease: self.lease,
            key_high,
            key_low,
        }
        .write(data);
        let text = self.name.iter().chain(&self.data);
        for (to, from) in data.iter_mut().skip(NAME_AT).zip(text) {
            *to = *from;
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_service))]
mod tests {
    use super::*;
    use crate::types::Guid;

    #[test]
    fn known_bytes() {
        let mut record = ServiceRecord {
            id: 0x0102_0304_0506_0708,
            gid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(9)),
            pkey: PKey::DEFAULT,
            lease: 0x1112_1314,
            key: [1, 2],
            ..ServiceRecord::default()
        };
        record.name[0] = b'n';
        record.data[63] = b'd';
        let mut out = [0; 176];
        record.emit(&mut out);
        assert_eq!(ServiceRecord::SIZE, out.len());
        assert_eq!(out[..9], [1, 2, 3, 4, 5, 6, 7, 8, 0xfe][..]);
        let middle = [9, 0xff, 0xff, 0, 0, 0x11, 0x12, 0x13, 0x14];
        assert_eq!(out[23..32], middle[..]);
        assert_eq!((out[39], out[47], out[48], out[175]), (1, 2, b'n', b'd'));
        assert_eq!(ServiceRecord::parse(&out), record);
    }
}
