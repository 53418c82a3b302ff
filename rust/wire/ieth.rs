// SPDX-License-Identifier: GPL-2.0

//! Invalidate extended transport header (IBA "Invalidate Extended Transport Header").

use crate::codec;
use crate::error::WireError;
use crate::types::Key;
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
    rkey: U32,
}

/// An invalidate extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ieth {
    /// R_Key that the receiver shall invalidate.
    pub rkey: Key,
}

impl Ieth {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let raw: Raw = codec::read(buf)?;
        Ok(Self {
            rkey: Key::new(raw.rkey.get()),
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
            rkey: U32::new(self.rkey.get()),
        };
        codec::write(&raw, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_ieth))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let value = Ieth {
            rkey: Key::new(0x1234_5678),
        };
        let bytes: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
        assert_eq!(Ieth::parse(&bytes), Ok(value));
        let mut out = [0; LEN];
        assert_eq!(value.emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(Ieth::parse(&bytes[1..]), Err(WireError::Truncated));
        assert_eq!(value.emit(&mut out[1..]), Err(WireError::NoSpace));
    }
}
