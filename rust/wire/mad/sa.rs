// SPDX-License-Identifier: GPL-2.0

//! Subnet administration datagrams (IBA chapter "Subnet Administration").
//!
//! A request names an attribute, and by [`Sa::component_mask`] the components of it that count. Tables
//! that do not fit one datagram are cut to segments: see [`rmpp`].

mod info;
mod inform;
mod multicast;
mod multipath;
mod node;
mod path;
pub mod rmpp;
mod service;

pub use info::{
    GuidInfoRecord,
    SmInfoRecord, //
};
pub use inform::InformInfo;
pub use multicast::{
    McMemberRecord,
    JOIN_FULL,
    JOIN_NON,
    JOIN_SEND_ONLY,
    JOIN_SEND_ONLY_FULL, //
};
pub use multipath::MultiPathRecord;
pub use node::{
    NodeRecord,
    PortInfoRecord, //
};
pub use path::{
    selector,
    PathRecord, //
};
pub use rmpp::Rmpp;
pub use service::ServiceRecord;

use super::bits::attribute;
use super::datagram::datagram;
use super::{ClassPortInfo, MadHeader, Notice, RawHeader};
use crate::types::Gid;
use zerocopy::byteorder::big_endian::{
    U16,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Size in bytes of the data of a datagram.
pub const DATA_LEN: usize = 200;

/// What [`Sa::attribute_offset`] counts in: records of a table begin at multiples of this many bytes.
pub const OFFSET_UNIT: usize = 8;

/// Attributes of subnet administration.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod attr {
    pub const NODE_RECORD: u16 = 0x0011;
    pub const PORT_INFO_RECORD: u16 = 0x0012;
    pub const SWITCH_INFO_RECORD: u16 = 0x0014;
    pub const LINEAR_FORWARDING_TABLE_RECORD: u16 = 0x0015;
    pub const MULTICAST_FORWARDING_TABLE_RECORD: u16 = 0x0017;
    pub const SM_INFO_RECORD: u16 = 0x0018;
    pub const LINK_RECORD: u16 = 0x0020;
    pub const GUID_INFO_RECORD: u16 = 0x0030;
    pub const SERVICE_RECORD: u16 = 0x0031;
    pub const PKEY_TABLE_RECORD: u16 = 0x0033;
    pub const PATH_RECORD: u16 = 0x0035;
    pub const MC_MEMBER_RECORD: u16 = 0x0038;
    pub const MULTI_PATH_RECORD: u16 = 0x003a;
    pub const INFORM_INFO_RECORD: u16 = 0x00f3;
}

/// Methods that only subnet administration has.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod method {
    pub const GET_TABLE: u8 = 0x12;
    pub const GET_TRACE_TABLE: u8 = 0x13;
    pub const GET_MULTI: u8 = 0x14;
    pub const DELETE: u8 = 0x15;
    pub const GET_TABLE_RESP: u8 = 0x92;
    pub const GET_MULTI_RESP: u8 = 0x94;
    pub const DELETE_RESP: u8 = 0x95;
}

/// Statuses that only subnet administration has (IBA "SA-Specific Status").
pub mod status {
    /// No room for what the request asks to keep.
    pub const NO_RESOURCES: u16 = 0x0100;
    /// The request makes no sense.
    pub const REQUEST_INVALID: u16 = 0x0200;
    /// No record matches.
    pub const NO_RECORDS: u16 = 0x0300;
    /// More than one record matches a Get.
    pub const TOO_MANY_RECORDS: u16 = 0x0400;
    /// A GID is not one of the subnet.
    pub const INVALID_GID: u16 = 0x0500;
    /// The component mask lacks what is necessary.
    pub const INSUFFICIENT_COMPONENTS: u16 = 0x0600;
    /// Not for this requester.
    pub const DENIED: u16 = 0x0700;
}

/// Capabilities that only subnet administration has, in [`ClassPortInfo::capability_mask`] and its like.
pub mod cap {
    /// Multicast groups can be joined.
    pub const UD_MULTICAST: u16 = 1 << 9;
    /// MultiPathRecord is known.
    pub const MULTI_PATH: u16 = 1 << 10;
    /// A query of PortInfoRecords may ask for bits of the capability mask that are set, by the uppermost bit of
    /// the attribute modifier.
    pub const PORT_INFO_CAPMASK_MATCH: u16 = 1 << 13;
    /// `capability_mask2`: [`super::JOIN_SEND_ONLY_FULL`] is known.
    pub const SEND_ONLY_FULL_MEMBER: u32 = 1 << 12;
}

/// What the data of a subnet administration datagram may be.
pub trait Record: Sized {
    /// The attribute ID.
    const ID: u16;
    /// Size in bytes of one record.
    const SIZE: usize;
    /// Reads a record from the front of `data`; what `data` lacks reads as zero. Every input has a meaning.
    fn parse(data: &[u8]) -> Self;
    /// Writes all of the record to the front of `data`; reserved bits become zero. What `data` has no room
    /// for is left out.
    fn emit(&self, data: &mut [u8]);
}

/// Implements [`Record`] for structures that `attribute!` made.
macro_rules! sa_record {
    ($name:ty = $id:expr) => {
        impl $crate::mad::sa::Record for $name {
            const ID: u16 = $id;
            const SIZE: usize = Self::LEN;

            fn parse(data: &[u8]) -> Self {
                Self::read(data)
            }

            fn emit(&self, data: &mut [u8]) {
                self.write(data);
            }
        }
    };
}
use sa_record;

sa_record!(ClassPortInfo = super::attr::CLASS_PORT_INFO);

attribute! {
    /// Who issued a [`Notice`], where it follows it: in all classes but subnet management.
    struct NoticeIssuer [80] {
        gid: Gid = 512, 128;
    }
}

/// The notice in the data of a datagram, with the port that issued it.
pub fn notice(data: &[u8; DATA_LEN]) -> (Notice, Gid) {
    let mut bytes = [0; Notice::LEN];
    for (to, from) in bytes.iter_mut().zip(data) {
        *to = *from;
    }
    (Notice::parse(&bytes), NoticeIssuer::read(data).gid)
}

/// Writes a notice of the port `issuer` to the data of a datagram.
pub fn set_notice(data: &mut [u8; DATA_LEN], notice: &Notice, issuer: Gid) {
    *data = [0; DATA_LEN];
    NoticeIssuer { gid: issuer }.write(data);
    let mut bytes = [0; Notice::LEN];
    notice.emit(&mut bytes);
    for (to, from) in data.iter_mut().zip(bytes) {
        *to = from;
    }
}

/// A subnet administration datagram: the 256 bytes, seen as what they mean.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Sa {
    header: RawHeader,
    rmpp: rmpp::RawRmpp,
    sm_key: U64,
    attribute_offset: U16,
    reserved: U16,
    component_mask: U64,
    data: [u8; DATA_LEN],
}

datagram!(Sa);

impl Sa {
    /// A datagram with `header`, otherwise zero.
    pub fn new(header: &MadHeader) -> Self {
        Self {
            header: header.to_raw(),
            rmpp: Rmpp::default().to_raw(),
            sm_key: U64::ZERO,
            attribute_offset: U16::ZERO,
            reserved: U16::ZERO,
            component_mask: U64::ZERO,
            data: [0; DATA_LEN],
        }
    }

    /// How the datagram belongs to a longer message.
    #[inline]
    pub const fn rmpp(&self) -> Rmpp {
        Rmpp::from_raw(&self.rmpp)
    }

    /// Sets how the datagram belongs to a longer message.
    #[inline]
    pub fn set_rmpp(&mut self, rmpp: &Rmpp) {
        self.rmpp = rmpp.to_raw();
    }

    /// The key that proves a trusted requester.
    #[inline]
    pub const fn sm_key(&self) -> u64 {
        self.sm_key.get()
    }

    /// Sets the key that proves a trusted requester.
    pub fn set_sm_key(&mut self, key: u64) {
        self.sm_key.set(key);
    }

    /// The distance of the records of a table, in units of [`OFFSET_UNIT`].
    #[inline]
    pub const fn attribute_offset(&self) -> u16 {
        self.attribute_offset.get()
    }

    /// Sets the distance of the records of a table.
    pub fn set_attribute_offset(&mut self, offset: u16) {
        self.attribute_offset.set(offset);
    }

    /// The components of the attribute that count: bit n stands for component n of the IBA's table.
    #[inline]
    pub const fn component_mask(&self) -> u64 {
        self.component_mask.get()
    }

    /// Sets the components that count.
    pub fn set_component_mask(&mut self, mask: u64) {
        self.component_mask.set(mask);
    }

    /// The data: one record, or a piece of a table.
    #[inline]
    pub const fn data(&self) -> &[u8; DATA_LEN] {
        &self.data
    }

    /// The data, to change it.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8; DATA_LEN] {
        &mut self.data
    }

    /// Reads the data as a record, whatever the attribute ID.
    pub fn record<T: Record>(&self) -> T {
        T::parse(&self.data)
    }

    /// Writes a record's data, and nothing but zeros behind it. The attribute ID stays.
    pub fn set_record<T: Record>(&mut self, record: &T) {
        self.data = [0; DATA_LEN];
        record.emit(&mut self.data);
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_sa))]
mod tests {
    use super::*;
    use crate::mad::{
        class,
        CLASS_VERSION_2, //
    };
    use crate::types::Guid;

    #[test]
    fn fields_are_where_the_standard_has_them() {
        let mut sa = Sa::new(&MadHeader {
            mgmt_class: class::SUBN_ADM,
            class_version: CLASS_VERSION_2,
            method: method::GET_TABLE,
            attr_id: attr::PATH_RECORD,
            ..MadHeader::default()
        });
        sa.set_rmpp(&Rmpp {
            version: rmpp::VERSION,
            kind: rmpp::kind::DATA,
            ..Rmpp::default()
        });
        sa.set_sm_key(0x0102_0304_0506_0708);
        sa.set_attribute_offset(0x1112);
        sa.set_component_mask(0x2122_2324_2526_2728);
        sa.data_mut()[0] = 0x31;
        let bytes = *sa.as_bytes();
        assert_eq!(bytes[..4], [1, 3, 2, 0x12][..]);
        assert_eq!(bytes[24..26], [1, 1][..]);
        assert_eq!(bytes[36..44], [1, 2, 3, 4, 5, 6, 7, 8][..]);
        assert_eq!(bytes[44..48], [0x11, 0x12, 0, 0][..]);
        assert_eq!(bytes[48..50], [0x21, 0x22][..]);
        assert_eq!(bytes[56], 0x31);
        let again = Sa::from_bytes(&bytes);
        assert_eq!(again.component_mask(), 0x2122_2324_2526_2728);
        assert_eq!(again.attribute_offset(), 0x1112);
        assert_eq!(again.sm_key(), 0x0102_0304_0506_0708);
        assert_eq!(again.rmpp().kind, rmpp::kind::DATA);
    }

    #[test]
    fn notices_name_their_issuer() {
        let issuer = Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(7));
        let told = Notice {
            trap: 64,
            ..Notice::default()
        };
        let mut data = [0xee; DATA_LEN];
        set_notice(&mut data, &told, issuer);
        assert_eq!(data[64..80], issuer.get()[..]);
        assert_eq!(data[80..], [0; DATA_LEN - 80][..]);
        assert_eq!(notice(&data), (told, issuer));
    }
}
