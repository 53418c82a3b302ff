// SPDX-License-Identifier: GPL-2.0

//! Immediate data (IBA "Immediate Extended Transport Header").

use crate::codec;
use crate::error::WireError;

/// Size in bytes.
pub const LEN: usize = size_of::<ImmDt>();

/// Four bytes that the receiver's completion carries. Their order is that of the wire; they are no
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImmDt(pub [u8; 4]);

impl ImmDt {
    /// The data of a number whose most significant byte goes first.
    #[inline]
    pub const fn from_u32(value: u32) -> Self {
        Self(value.to_be_bytes())
    }

    /// The number whose most significant byte came first.
    #[inline]
    pub const fn to_u32(self) -> u32 {
        u32::from_be_bytes(self.0)
    }

    /// Reads the data at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        Ok(Self(codec::read(buf)?))
    }

    /// Writes the data to the front of `buf` and returns their size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        codec::write(&self.0, buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_imm))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let bytes = [0x12, 0x34, 0x56, 0x78];
        assert_eq!(ImmDt::parse(&bytes), Ok(ImmDt::from_u32(0x1234_5678)));
        let mut out = [0; LEN];
        assert_eq!(ImmDt::from_u32(0x1234_5678).emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(ImmDt::parse(&bytes[1..]), Err(WireError::Truncated));
    }
}
