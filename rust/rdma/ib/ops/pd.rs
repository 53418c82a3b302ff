// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::device::DeviceObj;
use super::task;
use crate::ib::obj::Obj;
use crate::ib::udata::Udata;
use crate::ib::Driver;
use kernel::error::from_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// A protection domain with the driver's handle.
pub(super) type PdObj<D> = Obj<bindings::ib_pd, <D as Driver>::Pd>;

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with a new object.
pub(super) unsafe extern "C" fn alloc_pd<D: Driver>(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        if let Some(udata) = unsafe { Udata::from_raw(udata) } {
            udata.nothing()?;
        }
        // SAFETY: ib_core has set the device, which is ours and outlives its objects.
        let dev = unsafe { DeviceObj::<D>::get((*pd).device) };
        let handle = D::alloc_pd(cx, s, &dev.handle)?;
        // SAFETY: The object is new, and of the size that the table names.
        unsafe { PdObj::<D>::store(pd, handle) };
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`alloc_pd`] made, when nothing uses it any more.
pub(super) unsafe extern "C" fn dealloc_pd<D: Driver>(
    pd: *mut bindings::ib_pd,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    // SAFETY: Nobody uses the object, and it has a value.
    let handle = unsafe { PdObj::<D>::take(pd) };
    D::dealloc_pd(cx, s, &handle);
    0
}
