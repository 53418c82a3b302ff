// SPDX-License-Identifier: GPL-2.0

//! Error numbers that the `kernel` crate does not name.

use kernel::bindings;
use kernel::prelude::*;

/// The error of a number that fits into what errors have.
fn error(number: u32) -> Error {
    Error::from_errno((number as c_int).wrapping_neg())
}

/// `EOPNOTSUPP`: the device does not have what is asked for.
pub fn unsupported() -> Error {
    error(bindings::EOPNOTSUPP)
}

/// `EADDRINUSE`: somebody has that address already.
pub fn address_in_use() -> Error {
    error(bindings::EADDRINUSE)
}

/// `EADDRNOTAVAIL`: the address cannot be had for that.
pub fn address_not_available() -> Error {
    error(bindings::EADDRNOTAVAIL)
}

/// `ESTALE`: what is meant is not there any more, but something newer.
pub fn stale() -> Error {
    error(bindings::ESTALE)
}
