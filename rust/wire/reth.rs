// SPDX-License-Identifier: GPL-2.0

//! RDMA extended transport header (IBA "RDMA Extended Transport Header").

use crate::codec;
use crate::error::WireError;
use crate::types::Key;
use zerocopy::byteorder::big_endian::{
    U32,
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

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    va: U64,
    rkey: U32,
    dma_len: U32,
}

/// An RDMA extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address of the remote buffer.
    pub va: u64,
    /// R_Key of the region or window.
    pub rkey: Key,
    /// Length in bytes of the whole operation.
    pub dma_len: u32,
}

impl Reth {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let raw: Raw = codec::read(buf)?;
        Ok(Self {
            va: raw.va.get(),
            rkey: Key::new(raw.rkey.get()),
            dma_len: raw.dma_len.get(),
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
            va: U64::new(self.va),
            rkey: U32::new(self.rkey.get()),
            dma_len: U32::new(self.dma_len),
        };
        codec::write(&raw, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_reth))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let value = Reth {
            va: 0x0171_0a1c_015d_4002,
            rkey: Key::new(0x38f2_7a05),
            dma_len: 14,
        };
        let bytes: [u8; 16] = [
            0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00,
            0x00, 0x0e,
        ];
        assert_eq!(Reth::parse(&bytes), Ok(value));
        let mut out = [0; LEN];
        assert_eq!(value.emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(Reth::parse(&bytes[1..]), Err(WireError::Truncated));
        assert_eq!(value.emit(&mut out[1..]), Err(WireError::NoSpace));
    }
}
