// SPDX-License-Identifier: GPL-2.0

//! Global route header (IBA "Global Route Header"); its layout is that of an IPv6 header.

use crate::codec;
use crate::error::WireError;
use crate::types::Gid;
use zerocopy::byteorder::big_endian::{
    U16,
    U32, //
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

/// The only IP version.
pub const VERSION: u8 = 6;

/// The next header that announces a BTH.
pub const NEXT_HEADER_IBA: u8 = 0x1b;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    ver_tclass_flow: U32,
    pay_len: U16,
    next_hdr: u8,
    hop_limit: u8,
    sgid: [u8; 16],
    dgid: [u8; 16],
}

/// A global route header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grh {
    /// IP version (4 bits): [`VERSION`].
    pub version: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label (20 bits).
    pub flow_label: u32,
    /// Length in bytes of what follows the GRH, through the ICRC.
    pub pay_len: u16,
    /// What follows: [`NEXT_HEADER_IBA`].
    pub next_hdr: u8,
    /// Number of subnets that the packet may yet enter.
    pub hop_limit: u8,
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
}

impl Default for Grh {
    /// A valid header with all that is the sender's choice zero.
    fn default() -> Self {
        Self {
            version: VERSION,
            traffic_class: 0,
            flow_label: 0,
            pay_len: 0,
            next_hdr: NEXT_HEADER_IBA,
            hop_limit: 0,
            sgid: Gid::ZERO,
            dgid: Gid::ZERO,
        }
    }
}

impl Grh {
    /// Reads the header at the front of `buf` without judging it.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let raw: Raw = codec::read(buf)?;
        let word = raw.ver_tclass_flow.get();
        Ok(Self {
            version: (word >> 28) as u8,
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
            pay_len: raw.pay_len.get(),
            next_hdr: raw.next_hdr,
            hop_limit: raw.hop_limit,
            sgid: Gid::new(raw.sgid),
            dgid: Gid::new(raw.dgid),
        })
    }

    /// Writes the header to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let word = u32::from(self.version) << 28
            | u32::from(self.traffic_class) << 20
            | self.flow_label & 0xf_ffff;
        let raw = Raw {
            ver_tclass_flow: U32::new(word),
            pay_len: U16::new(self.pay_len),
            next_hdr: self.next_hdr,
            hop_limit: self.hop_limit,
            sgid: self.sgid.get(),
            dgid: self.dgid.get(),
        };
        codec::write(&raw, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_grh))]
mod tests {
    use super::*;
    use crate::types::Guid;

    #[test]
    fn known_bytes() {
        let grh = Grh {
            traffic_class: 0x5a,
            flow_label: 0x1_2345,
            pay_len: 0x30,
            hop_limit: 0x40,
            sgid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(1)),
            dgid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(2)),
            ..Grh::default()
        };
        let bytes: [u8; LEN] = [
            0x65, 0xa1, 0x23, 0x45, 0x00, 0x30, 0x1b, 0x40, //
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
        ];
        assert_eq!(LEN, 40);
        assert_eq!(Grh::parse(&bytes), Ok(grh));
        let mut out = [0; LEN];
        assert_eq!(grh.emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(Grh::parse(&bytes[..39]), Err(WireError::Truncated));
    }
}
