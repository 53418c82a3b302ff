// SPDX-License-Identifier: GPL-2.0

//! Atomic extended transport header and its answer (IBA "Atomic Extended Transport Header" and
//! "Atomic Acknowledge Extended Transport Header").

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

/// Size in bytes of an [`AtomicEth`].
pub const LEN: usize = size_of::<Raw>();

/// Size in bytes of an [`AtomicAckEth`].
pub const ACK_LEN: usize = size_of::<U64>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    va: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

/// The operands of an atomic operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Virtual address of the 8 remote bytes.
    pub va: u64,
    /// R_Key of the region or window.
    pub rkey: Key,
    /// CompareSwap: the value to store. FetchAdd: the addend.
    pub swap_add: u64,
    /// CompareSwap: the value that must be there. FetchAdd: ignored, sent as 0.
    pub compare: u64,
}

impl AtomicEth {
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
            swap_add: raw.swap_add.get(),
            compare: raw.compare.get(),
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
            swap_add: U64::new(self.swap_add),
            compare: U64::new(self.compare),
        };
        codec::write(&raw, buf)
    }
}

/// The answer to an atomic operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicAckEth {
    /// What was at the address before.
    pub original: u64,
}

impl AtomicAckEth {
    /// Reads the header at the front of `buf`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(buf: &[u8]) -> Result<Self, WireError> {
        let original: U64 = codec::read(buf)?;
        Ok(Self {
            original: original.get(),
        })
    }

    /// Writes the header to the front of `buf` and returns its size.
    ///
    /// # Errors
    ///
    /// [`WireError::NoSpace`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        codec::write(&U64::new(self.original), buf)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_atomic))]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let value = AtomicEth {
            va: 0x0102_0304_0506_0708,
            rkey: Key::new(0x1112_1314),
            swap_add: 0x2122_2324_2526_2728,
            compare: 0x3132_3334_3536_3738,
        };
        let bytes: [u8; 28] = [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
            0x11, 0x12, 0x13, 0x14, //
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, //
            0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
        ];
        assert_eq!(AtomicEth::parse(&bytes), Ok(value));
        let mut out = [0; LEN];
        assert_eq!(value.emit(&mut out), Ok(LEN));
        assert_eq!(out, bytes);
        assert_eq!(AtomicEth::parse(&bytes[1..]), Err(WireError::Truncated));
    }

    #[test]
    fn known_answer() {
        let value = AtomicAckEth {
            original: 0x0102_0304_0506_0708,
        };
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(AtomicAckEth::parse(&bytes), Ok(value));
        let mut out = [0; ACK_LEN];
        assert_eq!(value.emit(&mut out), Ok(ACK_LEN));
        assert_eq!(out, bytes);
    }
}
