// SPDX-License-Identifier: GPL-2.0

//! Datagram extended transport header (IBA "Datagram Extended Transport Header").

use crate::codec;
use crate::error::WireError;
use crate::types::{
    QKey,
    Qpn, //
};
use zerocopy::byteorder::big_endian::U32;
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
    qkey: U32,
    reserved: u8,
    src_qp: [u8; 3],
}

/// A datagram extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Password for the destination queue pair.
    pub qkey: QKey,
    /// The sending queue pair.
    pub src_qp: Qpn,
}

impl Deth {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let raw: Raw = codec::read(buf)?;
        Ok(Self {
            qkey: QKey::new(raw.qkey.get()),
            src_qp: Qpn::new(codec::from_be24(raw.src_qp)),
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
            qkey: U32::new(self.qkey.get()),
            reserved: 0,
            src_qp: codec::to_be24(self.src_qp.get()),
        };
        codec::write(&raw, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_deth))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let value = Deth {
            qkey: QKey::GSI,
            src_qp: Qpn::new(0x12_3456),
        };
        let bytes: [u8; 8] = [0x80, 0x01, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56];
        assert_eq!(Deth::parse(&bytes), Ok(value));
        let mut out = [0; LEN];
        assert_eq!(value.emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(Deth::parse(&bytes[1..]), Err(WireError::Truncated));
        assert_eq!(value.emit(&mut out[1..]), Err(WireError::NoSpace));
    }
}
