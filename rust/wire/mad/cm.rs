// SPDX-License-Identifier: GPL-2.0

//! Communication management datagrams (IBA chapter "Communication Management"): the messages by which two
//! consumers agree on a connection, on its alternate path, and on its end.
//!
//! A message has fields of its own, followed by private data of the consumers, which it ignores: see
//! [`Cm::message`] and [`Cm::private_data`].

mod apr;
mod disconnect;
mod kind;
mod lap;
mod mra;
mod path;
mod rej;
mod rep;
mod req;
mod rtu;
mod sidr;

pub use apr::{
    ap_status,
    Apr, //
};
pub use disconnect::{
    Drep,
    Dreq, //
};
pub use kind::{
    attr,
    Kind, //
};
pub use lap::Lap;
pub use mra::{
    mraed,
    Mra, //
};
pub use path::Path;
pub use rej::{
    reason,
    rejected,
    Rej, //
};
pub use rep::{
    failover,
    Rep, //
};
pub use req::{
    extended_type,
    service_type,
    Req, //
};
pub use rtu::Rtu;
pub use sidr::{
    sidr_status,
    SidrRep,
    SidrReq, //
};

use super::bits::attribute;
use super::datagram::datagram;
use super::{
    class,
    method,
    MadHeader,
    RawHeader,
    CLASS_VERSION_2, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Size in bytes of the data of a datagram.
pub const DATA_LEN: usize = 232;

/// What a communication management datagram may say.
pub trait Message: Sized {
    /// Which message it is.
    const KIND: Kind;
    /// Reads the message. Every input has a meaning.
    fn parse(data: &[u8; DATA_LEN]) -> Self;
    /// Writes all of the message but its private data, which stays; reserved bits become zero.
    fn emit(&self, data: &mut [u8; DATA_LEN]);
}

/// Implements [`Message`] for structures that `attribute!` made.
macro_rules! cm_message {
    ($name:ty = $kind:expr) => {
        impl $crate::mad::cm::Message for $name {
            const KIND: Kind = $kind;

            fn parse(data: &[u8; $crate::mad::cm::DATA_LEN]) -> Self {
                Self::read(data)
            }

            fn emit(&self, data: &mut [u8; $crate::mad::cm::DATA_LEN]) {
                self.write(data);
            }
        }
    };
}
use cm_message;

attribute! {
    /// What all messages about a connection begin with. REQ has no remote ID: its second word is reserved.
    struct CommIds [8] {
        local: u32 = 0, 32;
        remote: u32 = 32, 32;
    }
}

/// A communication management datagram: the 256 bytes, seen as what they mean.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Cm {
    header: RawHeader,
    data: [u8; DATA_LEN],
}

datagram!(Cm);

impl Cm {
    /// A datagram with one of [`attr`] and a transaction ID, otherwise empty.
    pub fn new(attr_id: u16, tid: u64) -> Self {
        let header = MadHeader {
            mgmt_class: class::CM,
            class_version: CLASS_VERSION_2,
            method: method::SEND,
            tid,
            attr_id,
            ..MadHeader::default()
        };
        Self {
            header: header.to_raw(),
            data: [0; DATA_LEN],
        }
    }

    /// The transaction ID.
    #[inline]
    pub const fn tid(&self) -> u64 {
        self.header.tid.get()
    }

    /// The attribute ID: one of [`attr`] if the datagram is well-formed.
    #[inline]
    pub const fn attr_id(&self) -> u16 {
        self.header.attr_id.get()
    }

    /// The data: a message with its private data.
    #[inline]
    pub const fn data(&self) -> &[u8; DATA_LEN] {
        &self.data
    }

    /// The data, to change it.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8; DATA_LEN] {
        &mut self.data
    }

    /// Reads the data as a message, whatever the attribute ID.
    pub fn message<T: Message>(&self) -> T {
        T::parse(&self.data)
    }

    /// Writes a message. Private data and attribute ID stay.
    pub fn set_message<T: Message>(&mut self, message: &T) {
        message.emit(&mut self.data);
    }

    /// What the sender calls the connection, in every message about one; in the others, the request ID.
    pub fn local_comm_id(&self) -> u32 {
        CommIds::read(&self.data).local
    }

    /// What the receiver calls the connection, in every message about one but REQ.
    pub fn remote_comm_id(&self) -> u32 {
        CommIds::read(&self.data).remote
    }

    /// The private data; empty if the attribute ID is none that has some.
    pub fn private_data(&self) -> &[u8] {
        let data =
            Kind::from_attr(self.attr_id()).and_then(|kind| self.data.get(kind.private_offset()..));
        data.unwrap_or(&[])
    }

    /// Sets the private data, and zeros behind it. What there is no room for is cut off: all of it, if the
    /// attribute ID is none that has some.
    pub fn set_private_data(&mut self, data: &[u8]) {
        let kind = Kind::from_attr(self.attr_id());
        let place = kind.and_then(|kind| self.data.get_mut(kind.private_offset()..));
        let bytes = data.iter().copied().chain(core::iter::repeat(0));
        for (to, from) in place.unwrap_or(&mut []).iter_mut().zip(bytes) {
            *to = from;
        }
    }
}

/// What the tests of the messages share.
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod testing {
    use super::*;
    use crate::types::Gid;

    /// Bytes that count up.
    pub(super) fn bytes<const LEN: usize>(first: u8) -> [u8; LEN] {
        let mut bytes = [first; LEN];
        for (byte, count) in bytes.iter_mut().zip(0..) {
            *byte = first.wrapping_add(count);
        }
        bytes
    }

    /// A GID whose bytes count up.
    pub(super) fn gid(first: u8) -> Gid {
        Gid::new(bytes(first))
    }

    /// Checks that `bytes`, followed by private data, are `message`, and that it writes no others.
    pub(super) fn known_bytes<T>(bytes: &[u8], message: &T)
    where
        T: Message + PartialEq + core::fmt::Debug,
    {
        assert_eq!(bytes.len() + T::KIND.private_len(), DATA_LEN);
        for fill in [0x00, 0xff, 0xa5] {
            let mut want = [fill; DATA_LEN];
            want[..bytes.len()].copy_from_slice(bytes);
            assert_eq!(T::parse(&want), *message);
            let mut out = [fill; DATA_LEN];
            message.emit(&mut out);
            assert_eq!(out, want);
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm))]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_standard_has_them() {
        let mut cm = Cm::new(attr::DREQ, 0x0102_0304_0506_0708);
        cm.set_message(&Dreq {
            local_comm_id: 0x1112_1314,
            remote_comm_id: 0x1516_1718,
            ..Dreq::default()
        });
        cm.set_private_data(&[0x21, 0x22]);
        let bytes = *cm.as_bytes();
        assert_eq!(bytes[..8], [1, 7, 2, 3, 0, 0, 0, 0][..]);
        assert_eq!(bytes[8..18], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0x15][..]);
        assert_eq!(bytes[18..24], [0; 6][..]);
        let ids = [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(bytes[24..32], ids[..]);
        assert_eq!(bytes[36..39], [0x21, 0x22, 0][..]);
        let again = Cm::from_bytes(&bytes);
        assert_eq!(again.header(), cm.header());
        assert_eq!(again.tid(), 0x0102_0304_0506_0708);
        assert_eq!(again.attr_id(), attr::DREQ);
        assert_eq!(again.local_comm_id(), 0x1112_1314);
        assert_eq!(again.remote_comm_id(), 0x1516_1718);
        assert_eq!(again.data()[..], bytes[24..]);
    }

    #[test]
    fn private_data_that_does_not_fit_is_cut() {
        for attr_id in attr::REQ..=attr::APR {
            let len = Kind::from_attr(attr_id).unwrap().private_len();
            let mut cm = Cm::new(attr_id, 1);
            cm.set_private_data(&[0xa5; crate::mad::MAD_LEN]);
            assert_eq!(cm.private_data().len(), len);
            assert!(cm.private_data().iter().all(|byte| *byte == 0xa5));
            assert!(cm.data()[..DATA_LEN - len].iter().all(|byte| *byte == 0));
            cm.set_private_data(&[1, 2]);
            assert_eq!(cm.private_data()[..3], [1, 2, 0][..]);
            assert!(cm.private_data()[2..].iter().all(|byte| *byte == 0));
            assert_eq!(cm.as_bytes().len(), 256);
        }
    }

    #[test]
    fn unknown_messages_have_no_private_data() {
        for attr_id in [0, attr::SAP, attr::SPR, u16::MAX] {
            let mut cm = Cm::new(attr_id, 1);
            cm.set_private_data(&[0xa5; DATA_LEN]);
            assert_eq!(*cm.data(), [0; DATA_LEN]);
            cm.data_mut()[DATA_LEN - 1] = 1;
            assert_eq!(cm.private_data().len(), 0);
        }
    }
}
