// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use super::pd::PdObj;
use super::task;
use crate::ib::obj::Obj;
use crate::ib::udata::Udata;
use crate::ib::{
    Driver,
    MwType, //
};
use kernel::error::from_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// A memory window with the driver's handle.
pub(super) type MwObj<D> = Obj<bindings::ib_mw, <D as Driver>::Mw>;

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with a new object whose domain and type are set.
pub(super) unsafe extern "C" fn alloc_mw<D: Driver>(
    mw: *mut bindings::ib_mw,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        if let Some(udata) = unsafe { Udata::from_raw(udata) } {
            udata.nothing()?;
        }
        // SAFETY: Set by ib_core before the call.
        let ty = match unsafe { (*mw).type_ } {
            bindings::ib_mw_type_IB_MW_TYPE_1 => MwType::Type1,
            bindings::ib_mw_type_IB_MW_TYPE_2 => MwType::Type2,
            _ => return Err(EINVAL),
        };
        // SAFETY: The domain has a value, and outlives its windows.
        let pd = unsafe { PdObj::<D>::get((*mw).pd) };
        let new = D::alloc_mw(cx, s, pd, ty)?;
        // SAFETY: The object is new, and of the size that the table names.
        unsafe {
            (*mw).rkey = new.rkey;
            MwObj::<D>::store(mw, new.mw);
        }
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`alloc_mw`] made, when nothing uses it any more.
pub(super) unsafe extern "C" fn dealloc_mw<D: Driver>(mw: *mut bindings::ib_mw) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: The window has a value, which is not taken before the end of this borrow.
        D::dealloc_mw(cx, s, unsafe { MwObj::<D>::get(mw) })?;
        // SAFETY: Nobody uses the object, and it has a value.
        drop(unsafe { MwObj::<D>::take(mw) });
        Ok(0)
    })
}
