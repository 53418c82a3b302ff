// SPDX-License-Identifier: GPL-2.0

//! Flush extended transport header (IBA annex A19 "Memory Placement Extensions").

use crate::codec;
use crate::error::WireError;
use zerocopy::byteorder::big_endian::U32;

/// Size in bytes.
pub const LEN: usize = size_of::<U32>();

/// Placement: make the data visible to everything that reads memory.
pub const GLOBAL_VISIBILITY: u8 = 1 << 0;

/// Placement: make the data survive a power failure.
pub const PERSISTENCE: u8 = 1 << 1;

/// Which bytes a flush covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Selectivity {
    /// Those of the RETH.
    #[default]
    Range = 0,
    /// The whole memory region of the RETH's R_Key.
    Region = 1,
}

/// A flush extended transport header: reserved 26 bits, selectivity 2 bits, placement 4 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feth {
    /// Selectivity level (2 bits): a [`Selectivity`], or a reserved value that the responder
    /// refuses.
    pub selectivity: u8,
    /// Placement types (4 bits): [`GLOBAL_VISIBILITY`] and [`PERSISTENCE`] may be combined.
    pub placement: u8,
}

impl Feth {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let word = codec::read::<U32>(buf)?.get();
        Ok(Self {
            selectivity: (word >> 4) as u8 & 3,
            placement: word as u8 & 0xf,
        })
    }

    /// Writes the header to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let word = u32::from(self.selectivity & 3) << 4 | u32::from(self.placement & 0xf);
        codec::write(&U32::new(word), buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_feth))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let value = Feth {
            selectivity: Selectivity::Region as u8,
            placement: GLOBAL_VISIBILITY | PERSISTENCE,
        };
        let bytes = [0x00, 0x00, 0x00, 0x13];
        assert_eq!(Feth::parse(&bytes), Ok(value));
        let mut out = [0; LEN];
        assert_eq!(value.emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(Feth::parse(&bytes[1..]), Err(WireError::Truncated));
    }
}
