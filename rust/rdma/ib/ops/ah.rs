// SPDX-License-Identifier: GPL-2.0

//! Address handles. Their calls come from any context, but for that which makes one for a user.

use super::convert::{
    ah_from_c,
    ah_to_c, //
};
use super::pd::PdObj;
use super::{
    any_context,
    task, //
};
use crate::ib::abi::CreateAhResp;
use crate::ib::obj::Obj;
use crate::ib::udata::Udata;
use crate::ib::Driver;
use kernel::error::from_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// An address handle with the driver's.
pub(super) type AhObj<D> = Obj<bindings::ib_ah, <D as Driver>::Ah>;

/// In any context; for a user in a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a domain of a device of `D`, with a new object.
pub(super) unsafe extern "C" fn create_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    init: *mut bindings::rdma_ah_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: `udata` is that of this call.
    let udata = unsafe { Udata::from_raw(udata) };
    let (mut cx, user) = if udata.is_some() {
        // SAFETY: Entered from ib_core, by `rdma_create_user_ah()`, which may sleep.
        let (cx, s) = unsafe { task() };
        (cx, Some(s))
    } else {
        // SAFETY: Entered from ib_core.
        (unsafe { any_context() }, None)
    };
    from_result(|| {
        if let Some(udata) = &udata {
            udata.no_request()?;
            // A librxe that does not know of numbers would send to an address of its own making.
            udata.has_room_for::<CreateAhResp>()?;
        }
        // SAFETY: ib_core lends the attributes for the call.
        let attr = ah_from_c(unsafe { &*(*init).ah_attr })?;
        // SAFETY: ib_core has set the domain, which has a value and outlives its address handles.
        let pd = unsafe { PdObj::<D>::get((*ah).pd) };
        let new = D::create_ah(cx.reborrow(), pd, &attr, user)?;
        if let Some(udata) = &udata {
            let response = CreateAhResp {
                ah_num: new.number,
                reserved: 0,
            };
            if let Err(e) = udata.respond(&response) {
                D::destroy_ah(cx.reborrow(), &new.ah);
                return Err(e);
            }
        }
        // SAFETY: The object is new, and of the size that the table names.
        unsafe { AhObj::<D>::store(ah, new.ah) };
        Ok(0)
    })
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_ah`] made, with room for the answer.
pub(super) unsafe extern "C" fn query_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    out: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: The object has a value, and nobody destroys it now.
        let attr = D::query_ah(cx, unsafe { AhObj::<D>::get(ah) })?;
        // SAFETY: There is room for the answer, which nobody else uses during the call.
        unsafe { out.write(ah_to_c(&attr)) };
        Ok(0)
    })
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_ah`] made.
pub(super) unsafe extern "C" fn modify_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: ib_core lends the attributes for the call.
        let attr = ah_from_c(unsafe { &*attr })?;
        // SAFETY: The object has a value, and nobody destroys it now.
        D::modify_ah(cx, unsafe { AhObj::<D>::get(ah) }, &attr)?;
        Ok(0)
    })
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_ah`] made, when nothing uses it any more.
pub(super) unsafe extern "C" fn destroy_ah<D: Driver>(
    ah: *mut bindings::ib_ah,
    _flags: u32,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    // SAFETY: Nobody uses the object, and it has a value.
    let handle = unsafe { AhObj::<D>::take(ah) };
    D::destroy_ah(cx, &handle);
    0
}
