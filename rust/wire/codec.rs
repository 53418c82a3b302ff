// SPDX-License-Identifier: GPL-2.0

//! Moving on-wire structures between byte slices and values.

use crate::error::WireError;
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// Reads a `T` from the front of `buf`.
#[inline]
pub(crate) fn read<T: FromBytes>(buf: &[u8]) -> Result<T, WireError> {
    match T::read_from_prefix(buf) {
        Ok((raw, _)) => Ok(raw),
        Err(_) => Err(WireError::Truncated),
    }
}

/// Writes `raw` to the front of `buf` and returns its size in bytes.
#[inline]
pub(crate) fn write<T: IntoBytes + Immutable>(raw: &T, buf: &mut [u8]) -> Result<usize, WireError> {
    match raw.write_to_prefix(buf) {
        Ok(()) => Ok(size_of::<T>()),
        Err(_) => Err(WireError::NoSpace),
    }
}

/// The low 24 bits of `value` in network order.
#[inline]
pub(crate) const fn to_be24(value: u32) -> [u8; 3] {
    let [_, a, b, c] = value.to_be_bytes();
    [a, b, c]
}

/// The value of 24 bits in network order.
#[inline]
pub(crate) const fn from_be24(bytes: [u8; 3]) -> u32 {
    let [a, b, c] = bytes;
    u32::from_be_bytes([0, a, b, c])
}
