// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): the common header, and the numbers of classes, methods, attributes
//! and statuses (IBA chapter "Management Model").

mod bits;
pub mod cm;
mod common;
mod datagram;
pub mod perf;
pub mod sa;
pub mod smp;
pub mod survey;

pub use common::{
    ClassPortInfo,
    Notice,
    NoticeType,
    DETAILS_LEN, //
};

use crate::codec;
use crate::error::WireError;
use zerocopy::byteorder::big_endian::{
    U16,
    U32,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Size in bytes of every MAD.
pub const MAD_LEN: usize = 256;

/// Size in bytes of the common header.
pub const HEADER_LEN: usize = size_of::<RawHeader>();

/// The only base version.
pub const BASE_VERSION: u8 = 1;

/// The class version of the classes named here, but for subnet administration.
pub const CLASS_VERSION: u8 = 1;

/// The class version of subnet administration and communication management.
pub const CLASS_VERSION_2: u8 = 2;

/// Management classes.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod class {
    pub const SUBN_LID: u8 = 0x01;
    pub const SUBN_ADM: u8 = 0x03;
    pub const PERF: u8 = 0x04;
    pub const BM: u8 = 0x05;
    pub const DEV_MGT: u8 = 0x06;
    pub const CM: u8 = 0x07;
    pub const SNMP: u8 = 0x08;
    pub const CONG_MGT: u8 = 0x21;
    pub const SUBN_DR: u8 = 0x81;
}

/// Methods. A response has [`method::RESPONSE`] set.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod method {
    pub const GET: u8 = 0x01;
    pub const SET: u8 = 0x02;
    pub const SEND: u8 = 0x03;
    pub const TRAP: u8 = 0x05;
    pub const REPORT: u8 = 0x06;
    pub const TRAP_REPRESS: u8 = 0x07;
    pub const RESPONSE: u8 = 0x80;
    pub const GET_RESP: u8 = 0x81;
    pub const REPORT_RESP: u8 = 0x86;
}

/// Attributes that all classes share.
pub mod attr {
    /// ClassPortInfo.
    pub const CLASS_PORT_INFO: u16 = 0x0001;
    /// Notice.
    pub const NOTICE: u16 = 0x0002;
    /// InformInfo.
    pub const INFORM_INFO: u16 = 0x0003;
}

/// Common status bits (low 8) of a response.
pub mod status {
    /// All well.
    pub const OK: u16 = 0x0000;
    /// Try again later.
    pub const BUSY: u16 = 0x0001;
    /// Ask whom ClassPortInfo names.
    pub const REDIRECT: u16 = 0x0002;
    /// Base or class version not supported.
    pub const BAD_VERSION: u16 = 0x0004;
    /// Method not supported.
    pub const METHOD_UNSUPPORTED: u16 = 0x0008;
    /// Method and attribute not supported together.
    pub const ATTRIBUTE_UNSUPPORTED: u16 = 0x000c;
    /// A field of the attribute or its modifier is invalid.
    pub const INVALID_FIELD: u16 = 0x001c;
    /// The direction bit of a directed-route packet: set on the way back.
    pub const DIRECTION: u16 = 0x8000;
}

/// The common header on the wire.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
struct RawHeader {
    base_version: u8,
    mgmt_class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    tid: U64,
    attr_id: U16,
    reserved: U16,
    attr_mod: U32,
}

/// The common header of a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadHeader {
    /// Format of the header: [`BASE_VERSION`].
    pub base_version: u8,
    /// One of [`class`].
    pub mgmt_class: u8,
    /// Format of what follows.
    pub class_version: u8,
    /// One of [`method`].
    pub method: u8,
    /// [`status`]; the high bits belong to the class.
    pub status: u16,
    /// Belongs to the class: hop pointer and hop count of a directed-route packet.
    pub class_specific: u16,
    /// Transaction: what ties a response to its request.
    pub tid: u64,
    /// Attribute.
    pub attr_id: u16,
    /// Attribute modifier.
    pub attr_mod: u32,
}

impl Default for MadHeader {
    /// A header of the present versions, otherwise zero.
    fn default() -> Self {
        Self {
            base_version: BASE_VERSION,
            mgmt_class: 0,
            class_version: CLASS_VERSION,
            method: 0,
            status: 0,
            class_specific: 0,
            tid: 0,
            attr_id: 0,
            attr_mod: 0,
        }
    }
}

impl MadHeader {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        codec::read(buf).map(|raw| Self::from_raw(&raw))
    }

    /// Writes the header to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        codec::write(&self.to_raw(), buf)
    }

    const fn from_raw(raw: &RawHeader) -> Self {
        Self {
            base_version: raw.base_version,
            mgmt_class: raw.mgmt_class,
            class_version: raw.class_version,
            method: raw.method,
            status: raw.status.get(),
            class_specific: raw.class_specific.get(),
            tid: raw.tid.get(),
            attr_id: raw.attr_id.get(),
            attr_mod: raw.attr_mod.get(),
        }
    }

    const fn to_raw(self) -> RawHeader {
        RawHeader {
            base_version: self.base_version,
            mgmt_class: self.mgmt_class,
            class_version: self.class_version,
            method: self.method,
            status: U16::new(self.status),
            class_specific: U16::new(self.class_specific),
            tid: U64::new(self.tid),
            attr_id: U16::new(self.attr_id),
            reserved: U16::new(0),
            attr_mod: U32::new(self.attr_mod),
        }
    }

    /// The hop pointer of a directed-route packet: where on its way it is.
    #[inline]
    pub const fn hop_ptr(&self) -> u8 {
        (self.class_specific >> 8) as u8
    }

    /// The hop count of a directed-route packet: the length of its way.
    #[inline]
    pub const fn hop_cnt(&self) -> u8 {
        self.class_specific as u8
    }

    /// Whether the R bit of the method is set: a response.
    #[inline]
    pub const fn is_response(&self) -> bool {
        self.method & method::RESPONSE != 0
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_mad))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let header = MadHeader {
            mgmt_class: class::SUBN_DR,
            method: method::GET_RESP,
            status: status::DIRECTION | status::INVALID_FIELD,
            class_specific: 0x0203,
            tid: 0x0102_0304_0506_0708,
            attr_id: 0x0015,
            attr_mod: 7,
            ..MadHeader::default()
        };
        let bytes: [u8; 24] = [
            0x01, 0x81, 0x01, 0x81, 0x80, 0x1c, 0x02, 0x03, //
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
            0x00, 0x15, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
        ];
        assert_eq!(MadHeader::parse(&bytes), Ok(header));
        let mut out = [0; HEADER_LEN];
        assert_eq!(header.emit(&mut out), Ok(24));
        assert_eq!(out, bytes);
        assert_eq!(header.hop_ptr(), 2);
        assert_eq!(header.hop_cnt(), 3);
        assert!(header.is_response());
        assert_eq!(MadHeader::parse(&bytes[1..]), Err(WireError::Truncated));
    }
}
