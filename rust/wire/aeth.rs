// SPDX-License-Identifier: GPL-2.0

//! ACK extended transport header (IBA "ACK Extended Transport Header") and end-to-end credits (IBA
//! "End-to-End Flow Control").

use crate::codec;
use crate::error::WireError;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Size in bytes.
pub const LEN: usize = size_of::<Raw>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    syndrome: u8,
    msn: [u8; 3],
}

const TYPE_MASK: u8 = 0x60;
const TYPE_ACK: u8 = 0x00;
const TYPE_RNR: u8 = 0x20;
const TYPE_NAK: u8 = 0x60;
const VALUE_MASK: u8 = 0x1f;

/// Why a responder refuses (IBA table "NAK Codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing.
    PsnSequenceError = 0,
    /// The request makes no sense here.
    InvalidRequest = 1,
    /// Key, range or permission are wrong.
    RemoteAccessError = 2,
    /// The responder cannot go on.
    RemoteOperationalError = 3,
    /// Reliable datagram only.
    InvalidRdRequest = 4,
}

impl NakCode {
    const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::PsnSequenceError),
            1 => Some(Self::InvalidRequest),
            2 => Some(Self::RemoteAccessError),
            3 => Some(Self::RemoteOperationalError),
            4 => Some(Self::InvalidRdRequest),
            _ => None,
        }
    }
}

/// What a responder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// All well.
    Ack {
        /// Credit code (5 bits): see [`credits`].
        credits: u8,
    },
    /// No receive work request was there: try again later.
    Rnr {
        /// Timer code (5 bits): see [`crate::timer::rnr_delay_ns`].
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
}

impl Default for Syndrome {
    fn default() -> Self {
        Self::Ack {
            credits: NO_FLOW_CONTROL,
        }
    }
}

impl Syndrome {
    /// Encodes to the byte on the wire; codes keep their low 5 bits.
    #[inline]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credits } => TYPE_ACK | credits & VALUE_MASK,
            Self::Rnr { timer } => TYPE_RNR | timer & VALUE_MASK,
            Self::Nak(code) => TYPE_NAK | code as u8,
        }
    }

    /// Decodes the byte on the wire. The most significant bit is reserved and ignored.
    ///
    /// # Errors
    ///
    /// [`WireError::Syndrome`] for a reserved type or NAK code.
    #[inline]
    pub fn from_byte(byte: u8) -> Result<Self, WireError> {
        let value = byte & VALUE_MASK;
        match byte & TYPE_MASK {
            TYPE_ACK => Ok(Self::Ack { credits: value }),
            TYPE_RNR => Ok(Self::Rnr { timer: value }),
            TYPE_NAK => NakCode::from_bits(value)
                .map(Self::Nak)
                .ok_or(WireError::Syndrome(byte)),
            _ => Err(WireError::Syndrome(byte)),
        }
    }
}

/// An ACK extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aeth {
    /// What the responder says.
    pub syndrome: Syndrome,
    /// Message sequence number (24 bits): messages completed by the responder.
    pub msn: u32,
}

impl Aeth {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`], and [`WireError::Syndrome`] for a reserved one.
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let raw: Raw = codec::read(buf)?;
        Ok(Self {
            syndrome: Syndrome::from_byte(raw.syndrome)?,
            msn: codec::from_be24(raw.msn),
        })
    }

    /// Writes the header to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let raw = Raw {
            syndrome: self.syndrome.to_byte(),
            msn: codec::to_be24(self.msn),
        };
        codec::write(&raw, buf)
    }
}

/// The credit code of a responder without end-to-end flow control.
pub const NO_FLOW_CONTROL: u8 = 0x1f;

/// Credits by code (IBA table "End-To-End Flow Control Credit Encoding").
#[rustfmt::skip]
const CREDITS: [u16; 31] = [
        0,     1,     2,     3,     4,     6,     8,    12,
       16,    24,    32,    48,    64,    96,   128,   192,
      256,   384,   512,   768,  1024,  1536,  2048,  3072,
     4096,  6144,  8192, 12288, 16384, 24576, 32768,
];

/// The number of receive work requests that the credit code `code` grants beyond the MSN beside it;
/// `None` for [`NO_FLOW_CONTROL`].
#[inline]
pub fn credits(code: u8) -> Option<u16> {
    CREDITS.get(usize::from(code & VALUE_MASK)).copied()
}

/// The largest credit code that grants at most `available` receive work requests.
#[inline]
pub fn credit_code(available: u32) -> u8 {
    const LARGEST: u32 = CREDITS.len() as u32 - 1;
    if available < 2 {
        return available as u8;
    }
    // From 2 on, the table has each power of two, and one and a half times that.
    let log = available.leading_zeros() ^ 31;
    let half = available.wrapping_shr(log.wrapping_sub(1)) & 1;
    (log.wrapping_mul(2) | half).min(LARGEST) as u8
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_aeth))]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_byte() {
        let mut known = 0;
        for byte in 0..=0x7f {
            if let Ok(syndrome) = Syndrome::from_byte(byte) {
                known += 1;
                assert_eq!(syndrome.to_byte(), byte);
                assert_eq!(Syndrome::from_byte(byte | 0x80), Ok(syndrome));
            }
        }
        assert_eq!(known, 32 + 32 + 5);
        assert_eq!(Syndrome::from_byte(0x40), Err(WireError::Syndrome(0x40)));
        assert_eq!(Syndrome::from_byte(0x65), Err(WireError::Syndrome(0x65)));
    }

    #[test]
    fn known_bytes() {
        let value = Aeth {
            syndrome: Syndrome::Nak(NakCode::RemoteAccessError),
            msn: 0x12_3456,
        };
        let bytes = [0x62, 0x12, 0x34, 0x56];
        assert_eq!(Aeth::parse(&bytes), Ok(value));
        let mut out = [0; LEN];
        assert_eq!(value.emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(Aeth::default().syndrome.to_byte(), 0x1f);
    }

    #[test]
    fn credit_codes() {
        for code in 0..31 {
            let granted = credits(code);
            assert!(granted.is_some());
            let granted = u32::from(granted.unwrap_or(0));
            assert_eq!(credit_code(granted), code);
            let below = granted.saturating_sub(1);
            assert_eq!(credit_code(below), code.saturating_sub(1));
        }
        assert_eq!(credits(NO_FLOW_CONTROL), None);
        assert_eq!(credit_code(5), 4);
        assert_eq!(credit_code(u32::MAX), 30);
    }
}
