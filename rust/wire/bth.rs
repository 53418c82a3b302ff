// SPDX-License-Identifier: GPL-2.0

//! Base transport header (IBA "Base Transport Header").

use crate::codec;
use crate::error::WireError;
use crate::opcode::Opcode;
use crate::types::{
    PKey,
    Psn,
    Qpn, //
};
use zerocopy::byteorder::big_endian::U16;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Size in bytes.
pub const LEN: usize = size_of::<Raw>();

const SOLICITED: u8 = 0x80;
const MIG_REQ: u8 = 0x40;
const FECN: u8 = 0x80;
const BECN: u8 = 0x40;
const ACK_REQ: u8 = 0x80;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    opcode: u8,
    se_m_pad_tver: u8,
    pkey: U16,
    fecn_becn: u8,
    dest_qp: [u8; 3],
    ack_req: u8,
    psn: [u8; 3],
}

/// A base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event: the receiver's completion wakes whoever asked for solicited ones.
    pub se: bool,
    /// Migration state: set by a sender that has migrated.
    pub migreq: bool,
    /// Number of pad bytes after the payload (2 bits).
    pub pad: u8,
    /// Transport version: 0 (4 bits).
    pub tver: u8,
    /// Partition.
    pub pkey: PKey,
    /// Forward explicit congestion notification.
    pub fecn: bool,
    /// Backward explicit congestion notification.
    pub becn: bool,
    /// Destination queue pair.
    pub dest_qp: Qpn,
    /// The responder shall acknowledge.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`], and [`WireError::Opcode`] when the table has no such opcode.
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let raw: Raw = codec::read(buf)?;
        let opcode = Opcode::from_byte(raw.opcode).ok_or(WireError::Opcode(raw.opcode))?;
        Ok(Self {
            opcode,
            se: raw.se_m_pad_tver & SOLICITED != 0,
            migreq: raw.se_m_pad_tver & MIG_REQ != 0,
            pad: (raw.se_m_pad_tver >> 4) & 3,
            tver: raw.se_m_pad_tver & 0xf,
            pkey: PKey::new(raw.pkey.get()),
            fecn: raw.fecn_becn & FECN != 0,
            becn: raw.fecn_becn & BECN != 0,
            dest_qp: Qpn::new(codec::from_be24(raw.dest_qp)),
            ack_req: raw.ack_req & ACK_REQ != 0,
            psn: Psn::new(codec::from_be24(raw.psn)),
        })
    }

    /// Writes the header to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let flag = |set, bit| if set { bit } else { 0 };
        let raw = Raw {
            opcode: self.opcode.byte(),
            se_m_pad_tver: flag(self.se, SOLICITED)
                | flag(self.migreq, MIG_REQ)
                | (self.pad & 3) << 4
                | self.tver & 0xf,
            pkey: U16::new(self.pkey.get()),
            fecn_becn: flag(self.fecn, FECN) | flag(self.becn, BECN),
            dest_qp: codec::to_be24(self.dest_qp.get()),
            ack_req: flag(self.ack_req, ACK_REQ),
            psn: codec::to_be24(self.psn.get()),
        };
        codec::write(&raw, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_bth))]
mod tests {
    use super::*;
    use crate::opcode::{
        Operation,
        Service, //
    };

    /// The BTH of the IBA's sample packets.
    const BYTES: [u8; LEN] = [
        0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a,
    ];

    #[test]
    fn known_bytes() {
        let bth = Bth {
            opcode: Opcode::new(Service::Rc, Operation::WriteOnly).unwrap_or_default(),
            pad: 2,
            pkey: PKey::new(0x2487),
            dest_qp: Qpn::new(0x87_b1b3),
            psn: Psn::new(0x0d_ec2a),
            ..Bth::default()
        };
        assert_eq!(Bth::parse(&BYTES), Ok(bth));
        let mut out = [0; LEN];
        assert_eq!(bth.emit(&mut out), Ok(LEN));
        assert_eq!(out, BYTES);
    }

    #[test]
    fn every_flag_has_its_bit() {
        for (byte, mask) in [(1, 0x80), (1, 0x40), (4, 0x80), (4, 0x40), (8, 0x80)] {
            let mut bytes = BYTES;
            bytes[byte] |= mask;
            let parsed = Bth::parse(&bytes);
            assert!(parsed.is_ok());
            if let Ok(bth) = parsed {
                assert_eq!(bth.se, byte == 1 && mask == 0x80);
                assert_eq!(bth.migreq, byte == 1 && mask == 0x40);
                assert_eq!(bth.fecn, byte == 4 && mask == 0x80);
                assert_eq!(bth.becn, byte == 4 && mask == 0x40);
                assert_eq!(bth.ack_req, byte == 8);
                let mut out = [0; LEN];
                assert_eq!(bth.emit(&mut out), Ok(LEN));
                assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn unknown_opcode() {
        let mut bytes = BYTES;
        bytes[0] = 0x3f;
        assert_eq!(Bth::parse(&bytes), Err(WireError::Opcode(0x3f)));
    }
}
