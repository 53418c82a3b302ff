// SPDX-License-Identifier: GPL-2.0

//! Contexts of users.

use crate::ib::udata::Udata;
use kernel::error::from_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core with a new object.
pub(super) unsafe extern "C" fn alloc_ucontext(
    _context: *mut bindings::ib_ucontext,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        if let Some(udata) = unsafe { Udata::from_raw(udata) } {
            udata.nothing()?;
        }
        Ok(0)
    })
}

/// In a task that may sleep. There is nothing of the driver's in a context; that this function is there
/// makes ib_core offer contexts.
///
/// # Safety
///
/// Called by ib_core when no object of the context is left.
pub(super) unsafe extern "C" fn dealloc_ucontext(_context: *mut bindings::ib_ucontext) {}

/// In a task that may sleep. The pages of rings are counted by their mappings, which so may outlive the
/// device; that this function is there lets a device be removed that users have open.
///
/// # Safety
///
/// Called by ib_core when the device is removed.
pub(super) unsafe extern "C" fn disassociate_ucontext(_context: *mut bindings::ib_ucontext) {}
