// SPDX-License-Identifier: GPL-2.0

//! Local route header, the first of every packet (IBA "Local Route Header").

use crate::codec;
use crate::error::WireError;
use crate::types::{
    Lid,
    Sl,
    Vl, //
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

/// The largest value of the packet length field, in 4-byte words.
pub const MAX_WORDS: u16 = 0x7ff;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    vl_lver: u8,
    sl_lnh: u8,
    dlid: U16,
    pkt_len: U16,
    slid: U16,
}

/// Link next header: what follows the LRH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Lnh {
    /// A raw packet with an EtherType.
    RawEther = 0,
    /// A raw IPv6 packet.
    RawIpv6 = 1,
    /// A BTH: "IBA local".
    #[default]
    Local = 2,
    /// A GRH and a BTH: "IBA global".
    Global = 3,
}

impl Lnh {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::RawEther,
            1 => Self::RawIpv6,
            2 => Self::Local,
            _ => Self::Global,
        }
    }
}

/// A local route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lrh {
    /// Virtual lane on the present link.
    pub vl: Vl,
    /// Link version: 0 (4 bits).
    pub lver: u8,
    /// Service level.
    pub sl: Sl,
    /// What follows.
    pub lnh: Lnh,
    /// Destination LID.
    pub dlid: Lid,
    /// Length in 4-byte words (11 bits), from the LRH through the ICRC.
    pub pkt_len: u16,
    /// Source LID.
    pub slid: Lid,
}

impl Lrh {
    /// Reads the header at the front of `buf` without judging it.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let raw: Raw = codec::read(buf)?;
        Ok(Self {
            vl: Vl::new(raw.vl_lver >> 4),
            lver: raw.vl_lver & 0xf,
            sl: Sl::new(raw.sl_lnh >> 4),
            lnh: Lnh::from_bits(raw.sl_lnh),
            dlid: Lid::new(raw.dlid.get()),
            pkt_len: raw.pkt_len.get() & MAX_WORDS,
            slid: Lid::new(raw.slid.get()),
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
            vl_lver: self.vl.get() << 4 | self.lver & 0xf,
            sl_lnh: self.sl.get() << 4 | self.lnh as u8,
            dlid: U16::new(self.dlid.get()),
            pkt_len: U16::new(self.pkt_len & MAX_WORDS),
            slid: U16::new(self.slid.get()),
        };
        codec::write(&raw, buf)
    }

    /// The packet length in bytes.
    #[inline]
    pub const fn bytes(&self) -> usize {
        (self.pkt_len as usize) << 2
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_lrh))]
mod tests {
    use super::*;

    /// The LRH of the IBA's first sample packet.
    const BYTES: [u8; LEN] = [0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2];
    const VALUE: Lrh = Lrh {
        vl: Vl::new(7),
        lver: 0,
        sl: Sl::new(1),
        lnh: Lnh::Local,
        dlid: Lid::new(0x375c),
        pkt_len: 14,
        slid: Lid::new(0x17d2),
    };

    #[test]
    fn known_bytes() {
        assert_eq!(Lrh::parse(&BYTES), Ok(VALUE));
        let mut out = [0; LEN];
        assert_eq!(VALUE.emit(&mut out), Ok(LEN));
        assert_eq!(out, BYTES);
        assert_eq!(VALUE.bytes(), 56);
    }

    #[test]
    fn short_buffers() {
        assert_eq!(Lrh::parse(&BYTES[..7]), Err(WireError::Truncated));
        assert_eq!(VALUE.emit(&mut [0; 7]), Err(WireError::NoSpace));
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let mut bytes = BYTES;
        bytes[1] |= 0x0c;
        bytes[4] |= 0xf8;
        assert_eq!(Lrh::parse(&bytes), Ok(VALUE));
    }
}
