// SPDX-License-Identifier: GPL-2.0

//! Bodies of the control messages that make, watch and end a cable.
//!
//! Each has a fixed size; a receiver ignores what follows it, so that later versions may add
//! fields.

use crate::codec;
use crate::error::WireError;
use crate::types::{
    Guid,
    Mtu,
    PortNum, //
};
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

/// Size in bytes of the proof that a sender knows the fabric key.
pub const TAG_LEN: usize = 32;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHello {
    guid: U64,
    port: u8,
    mtu: u8,
    room: U16,
    reserved: [u8; 4],
    cookie: U64,
    nonce: U64,
    echo: U64,
    tag: [u8; TAG_LEN],
}

/// Who is at one end of a cable-to-be, and what it proposes. Both Hello and HelloAck have this
/// body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's switch.
    pub guid: Guid,
    /// The port of the sender's switch where the cable shall hang.
    pub port: PortNum,
    /// The largest MTU that the sender's underlay carries. The smaller one of both ends counts.
    pub mtu: Mtu,
    /// How many bytes of packets, with the outer header, the sender takes in one datagram; 0 if it takes one packet.
    /// The smaller number of both ends counts.
    pub room: u16,
    /// What the sender wants to see in [`Outer::cookie`](super::Outer::cookie). Not 0.
    pub cookie: u64,
    /// A number whose echo the sender takes once.
    pub nonce: u64,
    /// HelloAck: the nonce of the Hello that it answers. Hello: 0.
    pub echo: u64,
    /// HMAC-SHA256 over the datagram up to here, with the fabric key; 0 if the sender has none. With a cable between two
    /// addresses of a link, where the datagram goes is covered as well.
    pub tag: [u8; TAG_LEN],
}

impl Hello {
    /// Size in bytes.
    pub const LEN: usize = size_of::<RawHello>();

    /// Offset of the tag in the body: the tag covers the outer header and the body before it.
    pub const TAG_OFFSET: usize = Self::LEN - TAG_LEN;

    /// Size in bytes of what the tag covers, from the beginning of the outer header.
    pub const COVERED: usize = super::LEN + Self::TAG_OFFSET;

    /// Takes a datagram with a Hello or HelloAck apart, from the outer header on, into what the tag covers
    /// and the tag.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    pub fn split_tag(datagram: &[u8]) -> Result<(&[u8], &[u8; TAG_LEN]), WireError> {
        let (covered, rest) = datagram
            .split_at_checked(Self::COVERED)
            .ok_or(WireError::Truncated)?;
        let tag = rest.first_chunk().ok_or(WireError::Truncated)?;
        Ok((covered, tag))
    }

    /// The same of a datagram that is being made.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn split_tag_mut(
        datagram: &mut [u8],
    ) -> Result<(&mut [u8], &mut [u8; TAG_LEN]), WireError> {
        let (covered, rest) = datagram
            .split_at_mut_checked(Self::COVERED)
            .ok_or(WireError::NoSpace)?;
        let tag = rest.first_chunk_mut().ok_or(WireError::NoSpace)?;
        Ok((covered, tag))
    }

    /// Reads the body of a Hello or HelloAck.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`]; [`WireError::Control`] for a reserved MTU code or the cookie 0.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let raw: RawHello = codec::read(body)?;
        let cookie = raw.cookie.get();
        if cookie == 0 {
            return Err(WireError::Control);
        }
        Ok(Self {
            guid: Guid::new(raw.guid.get()),
            port: PortNum::new(raw.port),
            mtu: Mtu::from_code(raw.mtu).ok_or(WireError::Control)?,
            room: raw.room.get(),
            cookie,
            nonce: raw.nonce.get(),
            echo: raw.echo.get(),
            tag: raw.tag,
        })
    }

    /// Writes the body to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let raw = RawHello {
            guid: U64::new(self.guid.get()),
            port: self.port.get(),
            mtu: self.mtu.code(),
            room: U16::new(self.room),
            reserved: [0; 4],
            cookie: U64::new(self.cookie),
            nonce: U64::new(self.nonce),
            echo: U64::new(self.echo),
            tag: self.tag,
        };
        codec::write(&raw, buf)
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawKeepalive {
    sequence: U64,
    echo: U64,
}

/// Says that the sender lives, and that it hears the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Grows by one with each Keepalive of the sender.
    pub sequence: u64,
    /// The highest sequence that the sender has received; 0 if none. When it stops growing, the
    /// cable carries in one direction only.
    pub echo: u64,
}

impl Keepalive {
    /// Size in bytes.
    pub const LEN: usize = size_of::<RawKeepalive>();

    /// Reads the body of a Keepalive.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let raw: RawKeepalive = codec::read(body)?;
        Ok(Self {
            sequence: raw.sequence.get(),
            echo: raw.echo.get(),
        })
    }

    /// Writes the body to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let raw = RawKeepalive {
            sequence: U64::new(self.sequence),
            echo: U64::new(self.echo),
        };
        codec::write(&raw, buf)
    }
}

/// Why a cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ByeReason {
    /// The sender's switch goes away.
    Shutdown = 0,
    /// The sender's port was disabled.
    Disabled = 1,
    /// The sender has not heard the receiver for too long.
    Silence = 2,
    /// The fabric key of the sender has changed: the next handshake shows whether the receiver has it.
    Key = 3,
    /// The underlay of the sender carries packets of another size: the next handshake tells which.
    Mtu = 4,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBye {
    reason: u8,
    reserved: [u8; 7],
}

/// Says that the cable ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bye {
    /// Why.
    pub reason: ByeReason,
}

impl Bye {
    /// Size in bytes.
    pub const LEN: usize = size_of::<RawBye>();

    /// Reads the body of a Bye.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`]; [`WireError::Control`] for an unknown reason.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let raw: RawBye = codec::read(body)?;
        let reason = match raw.reason {
            0 => ByeReason::Shutdown,
            1 => ByeReason::Disabled,
            2 => ByeReason::Silence,
            3 => ByeReason::Key,
            4 => ByeReason::Mtu,
            _ => return Err(WireError::Control),
        };
        Ok(Self { reason })
    }

    /// Writes the body to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let raw = RawBye {
            reason: self.reason as u8,
            reserved: [0; 7],
        };
        codec::write(&raw, buf)
    }
}

/// Why there will be no cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RefuseReason {
    /// The Hello was of another version.
    Version = 0,
    /// The tag is not that of the fabric key.
    Key = 1,
    /// The switch has no free port.
    Full = 2,
    /// The Hello came from the switch itself.
    Oneself = 3,
    /// Another endpoint has the same GUID.
    Duplicate = 4,
    /// The sender is not on the list of peers.
    Stranger = 5,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRefuse {
    reason: u8,
    reserved: [u8; 7],
    echo: U64,
}

/// Answers a Hello that leads to no cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// Why.
    pub reason: RefuseReason,
    /// The nonce of the Hello; 0 if it was not legible.
    pub echo: u64,
}

impl Refuse {
    /// Size in bytes.
    pub const LEN: usize = size_of::<RawRefuse>();

    /// Reads the body of a Refuse.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`]; [`WireError::Control`] for an unknown reason.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let raw: RawRefuse = codec::read(body)?;
        let reason = match raw.reason {
            0 => RefuseReason::Version,
            1 => RefuseReason::Key,
            2 => RefuseReason::Full,
            3 => RefuseReason::Oneself,
            4 => RefuseReason::Duplicate,
            5 => RefuseReason::Stranger,
            _ => return Err(WireError::Control),
        };
        Ok(Self {
            reason,
            echo: raw.echo.get(),
        })
    }

    /// Writes the body to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let raw = RawRefuse {
            reason: self.reason as u8,
            reserved: [0; 7],
            echo: U64::new(self.echo),
        };
        codec::write(&raw, buf)
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBeacon {
    guid: U64,
    udp_port: U16,
    reserved: [u8; 6],
}

/// Says to all of a layer 2 where a switch listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beacon {
    /// The sender's switch.
    pub guid: Guid,
    /// Where it listens, at the address that the beacon came from.
    pub udp_port: u16,
}

impl Beacon {
    /// Size in bytes.
    pub const LEN: usize = size_of::<RawBeacon>();

    /// Reads the body of a Beacon.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let raw: RawBeacon = codec::read(body)?;
        Ok(Self {
            guid: Guid::new(raw.guid.get()),
            udp_port: raw.udp_port.get(),
        })
    }

    /// Writes the body to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let raw = RawBeacon {
            guid: U64::new(self.guid.get()),
            udp_port: U16::new(self.udp_port),
            reserved: [0; 6],
        };
        codec::write(&raw, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_control))]
mod tests {
    use super::*;

    #[test]
    fn hello_known_bytes() {
        let hello = Hello {
            guid: Guid::new(0x0102_0304_0506_0708),
            port: PortNum::new(3),
            mtu: Mtu::B4096,
            room: 0x1a1b,
            cookie: 0x1112_1314_1516_1718,
            nonce: 0x2122_2324_2526_2728,
            echo: 0x3132_3334_3536_3738,
            tag: [0x41; TAG_LEN],
        };
        let bytes = [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
            0x03, 0x05, 0x1a, 0x1b, 0x00, 0x00, 0x00, 0x00, //
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, //
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, //
            0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
        ];
        let mut out = [0; 72];
        assert_eq!(hello.emit(&mut out), Ok(72));
        assert_eq!(out[..Hello::TAG_OFFSET], bytes[..]);
        assert_eq!(out[Hello::TAG_OFFSET..], [0x41; TAG_LEN][..]);
        assert_eq!(Hello::parse(&out), Ok(hello));
        assert_eq!(Hello::parse(&out[1..]), Err(WireError::Truncated));
        let mut datagram = [0; 88];
        datagram[16..].copy_from_slice(&out);
        let (covered, tag) = Hello::split_tag(&datagram).unwrap_or((&[], &[0; TAG_LEN]));
        assert_eq!(covered, &datagram[..56]);
        assert_eq!(tag, &[0x41; TAG_LEN]);
        assert_eq!(Hello::split_tag(&datagram[1..]), Err(WireError::Truncated));
        let mut bad = out;
        bad[9] = 6;
        assert_eq!(Hello::parse(&bad), Err(WireError::Control));
        let mut bad = out;
        bad[16..24].fill(0);
        assert_eq!(Hello::parse(&bad), Err(WireError::Control));
    }

    #[test]
    fn keepalive_and_beacon_round_trip() {
        let mut out = [0; 16];
        let keepalive = Keepalive {
            sequence: 1,
            echo: 2,
        };
        assert_eq!(keepalive.emit(&mut out), Ok(16));
        assert_eq!(Keepalive::parse(&out), Ok(keepalive));
        let beacon = Beacon {
            guid: Guid::new(1),
            udp_port: 0x0203,
        };
        assert_eq!(beacon.emit(&mut out), Ok(16));
        assert_eq!(out[7..10], [1, 2, 3][..]);
        assert_eq!(Beacon::parse(&out), Ok(beacon));
    }

    #[test]
    fn every_reason_round_trips() {
        let mut byes = 0;
        let mut refusals = 0;
        for byte in 0..=255 {
            let mut body = [0; Refuse::LEN];
            body[0] = byte;
            let mut out = [0; Refuse::LEN];
            if let Ok(bye) = Bye::parse(&body) {
                byes += 1;
                assert_eq!(bye.emit(&mut out), Ok(Bye::LEN));
                assert_eq!(out, body);
            }
            if let Ok(refuse) = Refuse::parse(&body) {
                refusals += 1;
                assert_eq!(refuse.emit(&mut out), Ok(Refuse::LEN));
                assert_eq!(out, body);
            }
        }
        assert_eq!(byes, 5);
        assert_eq!(refusals, 6);
    }
}
