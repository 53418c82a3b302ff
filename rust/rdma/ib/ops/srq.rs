// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::pd::PdObj;
use super::task;
use crate::ib::abi::{
    CreateSrqResp,
    MmapInfo,
    ModifySrqCmd, //
};
use crate::ib::mmap::{
    MapCell,
    Mapping, //
};
use crate::ib::obj::Obj;
use crate::ib::udata::Udata;
use crate::ib::upcall::SrqLink;
use crate::ib::{
    unsupported,
    Driver,
    SrqAttr,
    SrqModify, //
};
use crate::ring::Ring;
use core::mem::size_of;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::uaccess::{
    UserPtr,
    UserSlice, //
};
use sib_bindings as bindings;

/// What a shared receive queue keeps for the driver.
pub(super) struct SrqState<D: Driver> {
    /// The driver's handle.
    pub(super) srq: D::Srq,
    /// Whether it belongs to a user.
    pub(super) user: bool,
    link: Arc<SrqLink>,
    /// The user's ring.
    map: MapCell,
}

/// A shared receive queue with what it keeps for the driver.
pub(super) type SrqObj<D> = Obj<bindings::ib_srq, SrqState<D>>;

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a domain of a device of `D`, with a new object.
pub(super) unsafe extern "C" fn create_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    init: *mut bindings::ib_srq_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        let udata = unsafe { Udata::from_raw(udata) };
        if let Some(udata) = &udata {
            udata.no_request()?;
            udata.has_room_for::<CreateSrqResp>()?;
        }
        // SAFETY: ib_core lends the attributes for the call, to be changed too, and has set the domain,
        // which has a value and outlives the queue.
        let (init, pd) = unsafe { (&mut *init, PdObj::<D>::get((*srq).pd)) };
        if init.srq_type != bindings::ib_srq_type_IB_SRQT_BASIC {
            return Err(unsupported());
        }
        let wanted = SrqAttr {
            max_wr: init.attr.max_wr,
            max_sge: init.attr.max_sge,
            limit: init.attr.srq_limit,
        };
        // SAFETY: The queue outlives the success of this call, until `destroy_srq` closes the link.
        let link = unsafe { SrqLink::new(srq) }?;
        let user = udata.is_some();
        let new = D::create_srq(cx.reborrow(), s, pd, link.upcall(), &wanted, user)
            .inspect_err(|_| link.close(&mut cx, s))?;
        init.attr.max_wr = new.attr.max_wr;
        init.attr.max_sge = new.attr.max_sge;
        let map = match &udata {
            None => Ok(None),
            // SAFETY: The context of this call outlives the objects made in it.
            Some(udata) => unsafe { answer(udata, new.map, new.srqn) },
        };
        match map {
            Ok(map) => {
                let state = SrqState {
                    srq: new.srq,
                    user,
                    link,
                    map: MapCell::new(map),
                };
                // SAFETY: The object is new, and of the size that the table names.
                unsafe { SrqObj::<D>::store(srq, state) };
                Ok(0)
            }
            Err(e) => {
                D::destroy_srq(cx.reborrow(), s, &new.srq);
                link.close(&mut cx, s);
                Err(e)
            }
        }
    })
}

/// Maps the ring for the user, and tells about it.
///
/// # Safety
///
/// The context of the call outlives the result.
unsafe fn answer(
    udata: &Udata<'_>,
    ring: Option<Arc<Ring>>,
    srq_num: u32,
) -> Result<Option<Mapping>> {
    let map = ring
        // SAFETY: `udata` is that of a call in a live context; that it outlives the result is promised.
        .map(|ring| unsafe { Mapping::new(udata.context(), ring) })
        .transpose()?;
    udata.respond(&CreateSrqResp {
        ring: Mapping::info_of(&map),
        srq_num,
        reserved: 0,
    })?;
    Ok(map)
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_srq`] made.
pub(super) unsafe extern "C" fn modify_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
    mask: bindings::ib_srq_attr_mask,
    udata: *mut bindings::ib_udata,
) -> c_int {
    const KNOWN: u32 =
        bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR | bindings::ib_srq_attr_mask_IB_SRQ_LIMIT;

    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        if mask & !KNOWN != 0 {
            return Err(unsupported());
        }
        // SAFETY: `udata` is that of this call.
        let udata = unsafe { Udata::from_raw(udata) };
        // SAFETY: ib_core lends the attributes for the call.
        let attr = unsafe { &*attr };
        let resize = mask & bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR != 0;
        let limit = mask & bindings::ib_srq_attr_mask_IB_SRQ_LIMIT != 0;
        let change = SrqModify {
            max_wr: resize.then_some(attr.max_wr),
            limit: limit.then_some(attr.srq_limit),
        };
        // Where the user wants to be told of the new ring.
        let target = match &udata {
            Some(udata) if resize => Some(udata.request::<ModifySrqCmd>()?.mmap_info_addr),
            _ => None,
        };
        // SAFETY: The object has a value, and nobody destroys it now.
        let state = unsafe { SrqObj::<D>::get(srq) };
        let mut map = None;
        D::modify_srq(cx, s, &state.srq, &change, state.user, |ring| {
            let (Some(udata), Some(target)) = (&udata, target) else {
                return Err(EINVAL);
            };
            // SAFETY: The context of this call outlives the objects made in it.
            let new = unsafe { Mapping::new(udata.context(), ring.clone()) }?;
            UserSlice::new(UserPtr::from_addr(target as usize), size_of::<MmapInfo>())
                .writer()
                .write_slice(new.info().as_bytes())?;
            map = Some(new);
            Ok(())
        })?;
        if map.is_some() {
            state.map.replace(map);
        }
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_srq`] made, with room for the answer.
pub(super) unsafe extern "C" fn query_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    out: *mut bindings::ib_srq_attr,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: The object has a value, and nobody destroys it now.
        let attr = D::query_srq(cx, s, unsafe { &SrqObj::<D>::get(srq).srq })?;
        // SAFETY: Nobody else uses the answer during the call.
        unsafe {
            out.write(bindings::ib_srq_attr {
                max_wr: attr.max_wr,
                max_sge: attr.max_sge,
                srq_limit: attr.limit,
            })
        };
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_srq`] made, when nothing uses it any more.
pub(super) unsafe extern "C" fn destroy_srq<D: Driver>(
    srq: *mut bindings::ib_srq,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    // SAFETY: Nobody uses the object but upcalls, which do not look at the value, and it has a value.
    let state = unsafe { SrqObj::<D>::take(srq) };
    D::destroy_srq(cx.reborrow(), s, &state.srq);
    state.link.close(&mut cx, s);
    0
}
