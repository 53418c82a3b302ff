// SPDX-License-Identifier: GPL-2.0

//! The outer header: what stands between the UDP header and the LRH of a packet.
//!
//! It is not the IBA's. A cable between two switches of this emulator is a pair of UDP endpoints;
//! the header says that a datagram is meant for such a cable and proves, by a number that only its
//! two ends know, that it comes from the other end. Control messages make, watch and end cables;
//! their bodies are in [`control`].
//!
//! ```text
//!  0       8       16      24      32
//!  +-------+-------+-------+-------+
//!  |  's'  |  'i'  |  'b'  |version|
//!  +-------+-------+-------+-------+
//!  | kind  | flags |    stride     |
//!  +-------+-------+-------+-------+
//!  |            cookie             |
//!  |                               |
//!  +-------+-------+-------+-------+
//! ```
//!
//! All numbers are big-endian. The first four bytes keep their place in every version. The size is
//! a multiple of 8, so that packets that follow are as aligned as their datagrams.

pub mod control;

use crate::codec;
use crate::error::WireError;
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

/// Size in bytes.
pub const LEN: usize = size_of::<Raw>();

/// The only version.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 3] = *b"sib";

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 3],
    version: u8,
    kind: u8,
    flags: u8,
    stride: U16,
    cookie: U64,
}

/// The flag of a request whose sender has not waited for the answers to those before it. It is a hint: what the receiver
/// does is the same, but another of its processors may do it.
pub const HURRIED: u8 = 1;

/// Where the number of cables that the packets have passed before begins in the flags.
const HOPS_SHIFT: u32 = 2;

/// The largest such number. What has passed so many goes in a circle: the IBA has no way of more links, but no number in
/// its packets either. What ends a circle there is that a packet which waits for too long is dropped.
pub const MAX_HOPS: u8 = u8::MAX >> HOPS_SHIFT;

/// The flags of a datagram; `hops` is at most [`MAX_HOPS`].
#[inline]
pub const fn flags(hurried: bool, hops: u8) -> u8 {
    hops << HOPS_SHIFT | if hurried { HURRIED } else { 0 }
}

/// What follows the outer header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A packet, LRH through ICRC.
    #[default]
    Data = 0,
    /// "I want a cable": a [`control::Hello`].
    Hello = 1,
    /// "You have one": a [`control::Hello`] with the nonce of the one that it answers.
    HelloAck = 2,
    /// "I am still here": a [`control::Keepalive`].
    Keepalive = 3,
    /// "I am leaving": a [`control::Bye`].
    Bye = 4,
    /// "You get no cable": a [`control::Refuse`].
    Refuse = 5,
    /// "I am here, whoever listens": a [`control::Beacon`].
    Beacon = 6,
}

impl Kind {
    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Data),
            1 => Some(Self::Hello),
            2 => Some(Self::HelloAck),
            3 => Some(Self::Keepalive),
            4 => Some(Self::Bye),
            5 => Some(Self::Refuse),
            6 => Some(Self::Beacon),
            _ => None,
        }
    }
}

/// An outer header of the present version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outer {
    /// What follows.
    pub kind: Kind,
    /// [`HURRIED`], and a [number](Self::hops). The other one is sent as 0, and ignored on receipt.
    pub flags: u8,
    /// [`Kind::Data`]: the length of each packet but the last, which may be shorter; 0 if there is one.
    pub stride: u16,
    /// The cookie of the receiving end, as it said in its [`control::Hello`]; 0 while the sender
    /// does not know it.
    pub cookie: u64,
}

impl Outer {
    /// Reads the header of a datagram and returns it with what follows.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`], [`WireError::OuterMagic`], [`WireError::OuterVersion`],
    /// [`WireError::OuterKind`].
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let (head, body) = datagram.split_at_checked(LEN).ok_or(WireError::Truncated)?;
        let raw: Raw = codec::read(head)?;
        if raw.magic != MAGIC {
            return Err(WireError::OuterMagic);
        }
        if raw.version != VERSION {
            return Err(WireError::OuterVersion(raw.version));
        }
        let kind = Kind::from_byte(raw.kind).ok_or(WireError::OuterKind(raw.kind))?;
        let outer = Self {
            kind,
            flags: raw.flags,
            stride: raw.stride.get(),
            cookie: raw.cookie.get(),
        };
        Ok((outer, body))
    }

    /// How many cables the packets have passed before.
    #[inline]
    pub const fn hops(&self) -> u8 {
        self.flags >> HOPS_SHIFT
    }

    /// Writes the header to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let raw = Raw {
            magic: MAGIC,
            version: VERSION,
            kind: self.kind as u8,
            flags: self.flags,
            stride: U16::new(self.stride),
            cookie: U64::new(self.cookie),
        };
        codec::write(&raw, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_outer))]
mod tests {
    use super::*;

    const BYTES: [u8; 18] = [
        b's', b'i', b'b', 1, 3, 0x80, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0xaa, 0xbb,
    ];
    const VALUE: Outer = Outer {
        kind: Kind::Keepalive,
        flags: 0x80,
        stride: 0x0203,
        cookie: 0x0102_0304_0506_0708,
    };

    #[test]
    fn known_bytes() {
        assert_eq!(LEN % 8, 0);
        assert_eq!(Outer::parse(&BYTES), Ok((VALUE, &BYTES[16..])));
        let mut out = [0; LEN];
        assert_eq!(VALUE.emit(&mut out), Ok(LEN));
        assert_eq!(out[..], BYTES[..LEN]);
        assert_eq!(VALUE.emit(&mut out[1..]), Err(WireError::NoSpace));
    }

    #[test]
    fn flags_hold_a_number() {
        for hops in 0..=MAX_HOPS {
            for hurried in [false, true] {
                let flags = flags(hurried, hops);
                let outer = Outer { flags, ..VALUE };
                assert_eq!(outer.hops(), hops);
                assert_eq!(flags & HURRIED, u8::from(hurried));
            }
        }
    }

    #[test]
    fn each_defect_has_its_error() {
        let refused = |at: usize, byte: u8| {
            let mut bytes = BYTES;
            bytes[at] = byte;
            Outer::parse(&bytes).err()
        };
        assert_eq!(refused(0, b'x'), Some(WireError::OuterMagic));
        assert_eq!(refused(2, b'x'), Some(WireError::OuterMagic));
        assert_eq!(refused(3, 2), Some(WireError::OuterVersion(2)));
        assert_eq!(refused(4, 7), Some(WireError::OuterKind(7)));
        assert_eq!(Outer::parse(&BYTES[..15]).err(), Some(WireError::Truncated));
    }

    #[test]
    fn every_kind_round_trips() {
        let mut known = 0;
        for byte in 0..=255 {
            if let Some(kind) = Kind::from_byte(byte) {
                known += 1;
                assert_eq!(kind as u8, byte);
            }
        }
        assert_eq!(known, 7);
    }
}
