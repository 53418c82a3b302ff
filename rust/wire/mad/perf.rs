// SPDX-License-Identifier: GPL-2.0

//! Performance management datagrams (IBA chapter "General Services", "Performance Management").

mod port_counters;

pub use port_counters::{
    select,
    PortCounters,
    PortCountersExtended, //
};

use super::datagram::datagram;
use super::{ClassPortInfo, MadHeader, RawHeader};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Size in bytes of the attribute in a datagram.
pub const DATA_LEN: usize = 192;

/// Attributes of the performance management class.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod attr {
    pub const PORT_SAMPLES_CONTROL: u16 = 0x0010;
    pub const PORT_SAMPLES_RESULT: u16 = 0x0011;
    pub const PORT_COUNTERS: u16 = 0x0012;
    pub const PORT_COUNTERS_EXTENDED: u16 = 0x001d;
}

/// Bits of [`ClassPortInfo::capability_mask`] that belong to this class.
pub mod cap {
    /// Port 255 means all ports.
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// PortCountersExtended with all eight counters.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// PortCountersExtended without the unicast and multicast counters.
    pub const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
    /// PortXmitWait counts.
    pub const XMIT_WAIT: u16 = 1 << 12;
}

/// What the data of a performance management datagram may be.
pub trait Attribute: Sized {
    /// The attribute ID.
    const ID: u16;
    /// Reads the attribute. Every input has a meaning.
    fn parse(data: &[u8; DATA_LEN]) -> Self;
    /// Writes all of the attribute; reserved bits become zero.
    fn emit(&self, data: &mut [u8; DATA_LEN]);
}

/// Implements [`Attribute`] for structures that `attribute!` made.
macro_rules! perf_attribute {
    ($name:ty = $id:expr) => {
        impl $crate::mad::perf::Attribute for $name {
            const ID: u16 = $id;

            fn parse(data: &[u8; $crate::mad::perf::DATA_LEN]) -> Self {
                Self::read(data)
            }

            fn emit(&self, data: &mut [u8; $crate::mad::perf::DATA_LEN]) {
                *data = [0; $crate::mad::perf::DATA_LEN];
                self.write(data);
            }
        }
    };
}
use perf_attribute;

perf_attribute!(ClassPortInfo = super::attr::CLASS_PORT_INFO);

/// A performance management datagram: the 256 bytes, seen as what they mean.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PerfMad {
    header: RawHeader,
    reserved: [u8; 40],
    data: [u8; DATA_LEN],
}

datagram!(PerfMad);

impl PerfMad {
    /// A datagram with `header`, otherwise zero.
    pub fn new(header: &MadHeader) -> Self {
        Self {
            header: header.to_raw(),
            reserved: [0; 40],
            data: [0; DATA_LEN],
        }
    }

    /// The attribute's bytes.
    #[inline]
    pub const fn data(&self) -> &[u8; DATA_LEN] {
        &self.data
    }

    /// Reads the data as an attribute, whatever the attribute ID.
    pub fn attribute<T: Attribute>(&self) -> T {
        T::parse(&self.data)
    }

    /// Writes an attribute's data. The attribute ID stays.
    pub fn set_attribute<T: Attribute>(&mut self, attribute: &T) {
        attribute.emit(&mut self.data);
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_perf))]
mod tests {
    use super::*;
    use crate::mad::{
        class,
        method, //
    };

    #[test]
    fn data_begin_at_byte_64() {
        let mut mad = PerfMad::new(&MadHeader {
            mgmt_class: class::PERF,
            method: method::GET_RESP,
            attr_id: attr::PORT_COUNTERS,
            ..MadHeader::default()
        });
        mad.set_attribute(&ClassPortInfo {
            base_version: 1,
            class_version: 2,
            ..ClassPortInfo::default()
        });
        assert_eq!(mad.as_bytes()[64..66], [1, 2][..]);
        assert_eq!(mad.as_bytes()[1], class::PERF);
        let again = PerfMad::from_bytes(mad.as_bytes());
        assert_eq!(again.header(), mad.header());
        assert_eq!(again.attribute::<ClassPortInfo>().class_version, 2);
    }
}
