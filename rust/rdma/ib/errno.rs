// SPDX-License-Identifier: GPL-2.0

//! Error numbers that the `kernel` crate does not name.

use kernel::bindings;
use kernel::prelude::*;

/// `EOPNOTSUPP`: the device does not have what is asked for.
pub fn unsupported() -> Error {
    Error::from_errno((bindings::EOPNOTSUPP as c_int).wrapping_neg())
}
