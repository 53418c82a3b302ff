// SPDX-License-Identifier: GPL-2.0

//! A whole packet in one buffer: headers, payload, pad, ICRC.
//!
//! # Examples
//!
//! ```
//! use wire::header::Header;
//! use wire::icrc::SoftCrc32;
//! use wire::imm::ImmDt;
//! use wire::opcode::{Opcode, Operation, Service};
//! use wire::packet::{self, Packet};
//! use wire::{Lid, Qpn, WireError};
//!
//! # fn main() -> Result<(), WireError> {
//! let mut header = Header::default();
//! header.lrh.slid = Lid::new(1);
//! header.lrh.dlid = Lid::new(2);
//! header.bth.dest_qp = Qpn::new(0x12);
//! if let Some(opcode) = Opcode::new(Service::Rc, Operation::SendOnlyImm) {
//!     header.bth.opcode = opcode;
//!     header.imm = Some(ImmDt::from_u32(7));
//! }
//!
//! let mut buf = [0; 64];
//! let len = packet::build::<SoftCrc32>(&mut header, b"hello", &mut buf)?;
//! let packet = Packet::parse_checked::<SoftCrc32>(&buf[..len])?;
//! assert_eq!(packet.payload, b"hello");
//! assert_eq!(packet.header, header);
//! # Ok(())
//! # }
//! ```

use crate::bth;
use crate::error::WireError;
use crate::header::Header;
use crate::icrc::{
    self,
    Crc32,
    Icrc, //
};
use crate::lrh;

/// A parsed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its headers.
    pub header: Header,
    /// Its payload, without pad.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses the packet that `buf` holds from the LRH through the ICRC, without a look at the
    /// ICRC.
    ///
    /// # Errors
    ///
    /// As [`Header::parse`].
    pub fn parse(buf: &'a [u8]) -> Result<Self, WireError> {
        let (header, offset) = Header::parse(buf)?;
        let end = offset.wrapping_add(header.payload_len());
        let payload = buf.get(offset..end).ok_or(WireError::PayloadLength)?;
        Ok(Self { header, payload })
    }

    /// Parses the packet and checks its ICRC.
    ///
    /// # Errors
    ///
    /// As [`Header::parse`], and [`WireError::Icrc`].
    pub fn parse_checked<C: Crc32>(buf: &'a [u8]) -> Result<Self, WireError> {
        let packet = Self::parse(buf)?;
        verify_icrc::<C>(buf)?;
        Ok(packet)
    }
}

/// Checks the last four bytes of the packet in `buf`.
///
/// # Errors
///
/// [`WireError::Truncated`], [`WireError::Icrc`].
pub fn verify_icrc<C: Crc32>(buf: &[u8]) -> Result<(), WireError> {
    let (covered, icrc) = buf
        .split_last_chunk::<{ icrc::LEN }>()
        .ok_or(WireError::Truncated)?;
    if Icrc::<C>::of(covered)? == *icrc {
        Ok(())
    } else {
        Err(WireError::Icrc)
    }
}

/// The shortest packet: LRH, BTH and ICRC.
pub const MIN_LEN: usize = lrh::LEN + bth::LEN + icrc::LEN;

/// Builds a packet at the front of `buf` and returns its size: seals `header` for the payload,
/// writes headers, payload, zero pad and ICRC.
///
/// # Errors
///
/// As [`Header::set_payload_len`] and [`Header::emit`]. `buf` may then hold part of the packet.
pub fn build<C: Crc32>(
    header: &mut Header,
    payload: &[u8],
    buf: &mut [u8],
) -> Result<usize, WireError> {
    header.set_payload_len(payload.len())?;
    let offset = header.emit(buf)?;
    let rest = buf.get_mut(offset..).ok_or(WireError::NoSpace)?;
    rest.get_mut(..payload.len())
        .ok_or(WireError::NoSpace)?
        .copy_from_slice(payload);
    finish::<C>(header, buf)
}

/// Completes a packet whose headers and payload stand in `buf` already: writes the zero pad and the
/// ICRC, and returns the size of the packet. `header` must be sealed.
///
/// # Errors
///
/// [`WireError::NoSpace`].
pub fn finish<C: Crc32>(header: &Header, buf: &mut [u8]) -> Result<usize, WireError> {
    let len = header.packet_len();
    let packet = buf.get_mut(..len).ok_or(WireError::NoSpace)?;
    let (covered, icrc) = packet
        .split_last_chunk_mut::<{ icrc::LEN }>()
        .ok_or(WireError::NoSpace)?;
    for byte in covered.iter_mut().rev().take(usize::from(header.bth.pad)) {
        *byte = 0;
    }
    *icrc = Icrc::<C>::of(covered)?;
    Ok(len)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_packet))]
mod tests {
    use super::*;
    use crate::bth::Bth;
    use crate::grh::Grh;
    use crate::icrc::SoftCrc32;
    use crate::lrh::{
        Lnh,
        Lrh, //
    };
    use crate::opcode::{
        Opcode,
        Operation,
        Service, //
    };
    use crate::reth::Reth;
    use crate::types::*;

    const PAYLOAD: [u8; 14] = [
        0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4,
    ];

    /// The IBA's sample packet for the ICRC, with it.
    const BYTES: [u8; 56] = [
        0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, 0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1,
        0xb3, 0x00, 0x0d, 0xec, 0x2a, 0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2,
        0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e, 0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72,
        0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00, 0x96, 0x25, 0xb7, 0x5a,
    ];

    fn header() -> Header {
        Header {
            lrh: Lrh {
                vl: Vl::new(7),
                sl: Sl::new(1),
                dlid: Lid::new(0x375c),
                slid: Lid::new(0x17d2),
                ..Lrh::default()
            },
            bth: Bth {
                opcode: Opcode::new(Service::Rc, Operation::WriteOnly).unwrap_or_default(),
                pkey: PKey::new(0x2487),
                dest_qp: Qpn::new(0x87_b1b3),
                psn: Psn::new(0x0d_ec2a),
                ..Bth::default()
            },
            reth: Some(Reth {
                va: 0x0171_0a1c_015d_4002,
                rkey: Key::new(0x38f2_7a05),
                dma_len: 14,
            }),
            ..Header::default()
        }
    }

    #[test]
    fn builds_the_sample_packet() {
        let mut header = header();
        let mut buf = [0xee; 60];
        assert_eq!(build::<SoftCrc32>(&mut header, &PAYLOAD, &mut buf), Ok(56));
        assert_eq!(buf[..56], BYTES[..]);
        assert_eq!(buf[56..], [0xee; 4][..]);
        assert_eq!(
            Packet::parse_checked::<SoftCrc32>(&BYTES),
            Ok(Packet {
                header,
                payload: &PAYLOAD
            })
        );
    }

    #[test]
    fn global_packet_round_trips() {
        let mut header = header();
        header.grh = Some(Grh {
            hop_limit: 64,
            ..Grh::default()
        });
        let mut buf = [0; 96];
        assert_eq!(build::<SoftCrc32>(&mut header, &PAYLOAD, &mut buf), Ok(96));
        assert_eq!(header.lrh.lnh, Lnh::Global);
        assert_eq!(header.grh.map(|grh| grh.pay_len), Some(48));
        let expected = Ok(Packet {
            header,
            payload: &PAYLOAD,
        });
        assert_eq!(Packet::parse_checked::<SoftCrc32>(&buf), expected);
        // A router's work leaves the ICRC alone.
        buf[15] = 63;
        buf[2] = 0x11;
        assert_eq!(verify_icrc::<SoftCrc32>(&buf), Ok(()));
        buf[40] ^= 1;
        assert_eq!(verify_icrc::<SoftCrc32>(&buf), Err(WireError::Icrc));
    }

    #[test]
    fn every_truncation_is_refused() {
        for len in 0..BYTES.len() {
            assert!(Packet::parse(&BYTES[..len]).is_err());
        }
    }

    #[test]
    fn each_defect_has_its_error() {
        let refused = |at: usize, byte: u8| {
            let mut bytes = BYTES;
            bytes[at] = byte;
            Packet::parse(&bytes).err()
        };
        assert_eq!(refused(0, 0x71), Some(WireError::LinkVersion(1)));
        assert_eq!(refused(1, 0x10), Some(WireError::LinkNextHeader));
        assert_eq!(refused(1, 0x11), Some(WireError::LinkNextHeader));
        assert_eq!(refused(1, 0x13), Some(WireError::GlobalHeader));
        assert_eq!(refused(5, 0x0f), Some(WireError::PacketLength));
        assert_eq!(refused(8, 0x3e), Some(WireError::Opcode(0x3e)));
        assert_eq!(refused(8, 0x44), Some(WireError::Opcode(0x44)));
        assert_eq!(refused(9, 0x21), Some(WireError::TransportVersion(1)));
        // READ Request: 16 bytes of payload where none may be.
        assert_eq!(refused(8, 0x0c), Some(WireError::PayloadLength));
        // ACK: the first byte of the RETH becomes a syndrome, the rest an illegal payload.
        assert_eq!(refused(8, 0x11), Some(WireError::PayloadLength));
    }

    #[test]
    fn pad_without_payload_is_refused() {
        let mut header = Header::default();
        let mut buf = [0; 24];
        assert_eq!(build::<SoftCrc32>(&mut header, &[], &mut buf), Ok(24));
        assert!(Packet::parse(&buf).is_ok());
        buf[9] |= 0x10;
        assert_eq!(Packet::parse(&buf).err(), Some(WireError::PayloadLength));
    }

    #[test]
    fn emit_refuses_foreign_extensions() {
        let mut buf = [0; 128];
        let mut header = header();
        header.reth = None;
        assert_eq!(header.emit(&mut buf), Err(WireError::Mismatch));
        let mut header = Header {
            reth: Some(Reth::default()),
            ..Header::default()
        };
        assert_eq!(header.emit(&mut buf), Err(WireError::Mismatch));
        header.reth = None;
        header.lrh.lnh = Lnh::Global;
        assert_eq!(header.emit(&mut buf), Err(WireError::Mismatch));
    }

    #[test]
    fn length_limits() {
        let mut header = Header::default();
        assert_eq!(header.set_payload_len(8188 - 24), Ok(()));
        assert_eq!(header.packet_len(), 8188);
        assert_eq!(header.payload_len(), 8164);
        assert_eq!(header.set_payload_len(8165), Err(WireError::TooLong));
        assert_eq!(header.set_payload_len(usize::MAX), Err(WireError::TooLong));
    }
}
