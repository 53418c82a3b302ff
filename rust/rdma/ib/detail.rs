// SPDX-License-Identifier: GPL-2.0

//! What a driver tells of its objects, for `rdma resource show -d`.
//!
//! C header: [`include/rdma/restrack.h`](srctree/include/rdma/restrack.h)

use core::marker::PhantomData;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CStrExt;
use sib_bindings as bindings;

/// An answer that lists details of an object by name. Details beyond its room fail with `EMSGSIZE`; ib_core
/// then sends the rest of the objects in another answer.
///
/// # Invariants
///
/// `raw` is a netlink message with an open attribute for the details of a driver.
pub struct Detail<'a> {
    raw: *mut kernel::bindings::sk_buff,
    lent: PhantomData<&'a mut ()>,
}

impl Detail<'_> {
    /// A number.
    pub fn number(&mut self, name: &CStr, value: u64) -> Result {
        // SAFETY: The message is open by the invariant; the name is copied.
        to_result(unsafe { bindings::rdma_nl_put_driver_u64(self.raw, name.as_char_ptr(), value) })
    }

    /// A number that is better read in hexadecimal digits.
    pub fn hex(&mut self, name: &CStr, value: u64) -> Result {
        // SAFETY: As above.
        to_result(unsafe {
            bindings::rdma_nl_put_driver_u64_hex(self.raw, name.as_char_ptr(), value)
        })
    }
}

/// Lets `tell` fill the part of `msg` that is the driver's.
///
/// # Safety
///
/// `msg` is a netlink message that ib_core is building, and lends for the call.
pub(super) unsafe fn fill(
    msg: *mut kernel::bindings::sk_buff,
    tell: impl FnOnce(&mut Detail<'_>) -> Result,
) -> Result {
    // SAFETY: Promised by the caller.
    let nest = unsafe { bindings::sib_helper_nest_start(msg) };
    if nest.is_null() {
        return Err(EMSGSIZE);
    }
    // INVARIANT: Just opened.
    let mut detail = Detail {
        raw: msg,
        lent: PhantomData,
    };
    let told = tell(&mut detail);
    // SAFETY: The attribute has been opened in this message, and is the last one that is open.
    unsafe { bindings::sib_helper_nest_end(msg, nest, told.is_ok()) };
    told
}
