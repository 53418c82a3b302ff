// SPDX-License-Identifier: GPL-2.0

//! The header of reliable multi-packet transactions (RMPP): long messages in segments, with windows and
//! acknowledgements (IBA "Management Datagrams", "Reliable Multi-Packet Transaction Protocol").

use zerocopy::byteorder::big_endian::U32;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// The only version.
pub const VERSION: u8 = 1;

/// [`Rmpp::resp_time`] that is no value.
pub const NO_RESP_TIME: u8 = 31;

/// What a datagram is to a long message.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod kind {
    /// Not a part of one.
    pub const NONE: u8 = 0;
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ABORT: u8 = 4;
}

/// Bits of [`Rmpp::flags`].
pub mod flag {
    /// The datagram belongs to a long message.
    pub const ACTIVE: u8 = 1 << 0;
    /// The first segment.
    pub const FIRST: u8 = 1 << 1;
    /// The last segment.
    pub const LAST: u8 = 1 << 2;
}

/// Why a transaction is given up: values of [`Rmpp::status`].
pub mod status {
    /// All well.
    pub const NORMAL: u8 = 0;
    /// Stopped: no resources.
    pub const RESOURCES_EXHAUSTED: u8 = 1;
    /// Aborted: the whole takes too long.
    pub const TOTAL_TIME_TOO_LONG: u8 = 118;
    /// Aborted: the last segment and the length of the message disagree.
    pub const INCONSISTENT_LENGTH: u8 = 119;
    /// Aborted: the first segment and its number disagree.
    pub const INCONSISTENT_FIRST: u8 = 120;
    /// Aborted: the type is unknown.
    pub const BAD_KIND: u8 = 121;
    /// Aborted: the new window ends before the acknowledged segment.
    pub const WINDOW_TOO_SMALL: u8 = 122;
    /// Aborted: a segment is acknowledged that was not sent.
    pub const SEGMENT_TOO_BIG: u8 = 123;
    /// Aborted: the status is unknown.
    pub const ILLEGAL_STATUS: u8 = 124;
    /// Aborted: the version is unknown.
    pub const UNSUPPORTED_VERSION: u8 = 125;
    /// Aborted: too many retries.
    pub const TOO_MANY_RETRIES: u8 = 126;
    /// Aborted for no reason that has a name.
    pub const UNSPECIFIED: u8 = 127;
}

/// The header on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawRmpp {
    version: u8,
    kind: u8,
    resp_time_flags: u8,
    status: u8,
    data1: U32,
    data2: U32,
}

/// Bits of the flags in their byte.
const FLAGS: u8 = 0b111;

/// Bits that the response time is shifted in its byte.
const RESP_TIME_SHIFT: u32 = 3;

/// How a datagram belongs to a long message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rmpp {
    /// [`VERSION`]; 0 where the datagram is no part of a long message.
    pub version: u8,
    /// One of [`kind`].
    pub kind: u8,
    /// Time to answer, as an exponent of 4.096 us (5 bits), or [`NO_RESP_TIME`].
    pub resp_time: u8,
    /// Bits of [`flag`] (3 bits).
    pub flags: u8,
    /// One of [`status`].
    pub status: u8,
    /// Data and ACK: the number of the segment, from 1.
    pub data1: u32,
    /// Data: in the first segment the length of the message, in the last one that of the segment, each with the
    /// 20 bytes of the class header in each segment. ACK: the last segment of the new window.
    pub data2: u32,
}

impl Rmpp {
    pub(super) const fn from_raw(raw: &RawRmpp) -> Self {
        Self {
            version: raw.version,
            kind: raw.kind,
            resp_time: raw.resp_time_flags >> RESP_TIME_SHIFT,
            flags: raw.resp_time_flags & FLAGS,
            status: raw.status,
            data1: raw.data1.get(),
            data2: raw.data2.get(),
        }
    }

    pub(super) const fn to_raw(self) -> RawRmpp {
        RawRmpp {
            version: self.version,
            kind: self.kind,
            resp_time_flags: self.resp_time << RESP_TIME_SHIFT | self.flags & FLAGS,
            status: self.status,
            data1: U32::new(self.data1),
            data2: U32::new(self.data2),
        }
    }

    /// Whether the datagram belongs to a long message.
    #[inline]
    pub const fn is_active(&self) -> bool {
        self.flags & flag::ACTIVE != 0
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_rmpp))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let rmpp = Rmpp {
            version: VERSION,
            kind: kind::DATA,
            resp_time: 31,
            flags: flag::ACTIVE | flag::LAST,
            status: status::NORMAL,
            data1: 0x0102_0304,
            data2: 0x1112_1314,
        };
        let raw = rmpp.to_raw();
        let bytes: [u8; 12] = zerocopy::transmute!(raw);
        let want = [1, 1, 0xfd, 0, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14];
        assert_eq!(bytes, want);
        assert_eq!(Rmpp::from_raw(&raw), rmpp);
        assert!(rmpp.is_active());
        assert!(!Rmpp::default().is_active());
    }
}
