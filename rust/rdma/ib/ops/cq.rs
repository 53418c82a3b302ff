// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::device::DeviceObj;
use super::{
    any_context,
    task, //
};
use crate::ib::abi::MmapInfo;
use crate::ib::mmap::{
    MapCell,
    Mapping, //
};
use crate::ib::obj::Obj;
use crate::ib::udata::Udata;
use crate::ib::upcall::CqLink;
use crate::ib::{
    unsupported,
    CqInit,
    Driver,
    Notify,
    WcOut, //
};
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use sib_bindings as bindings;

/// What a completion queue keeps for the driver.
pub(super) struct CqState<D: Driver> {
    /// The driver's handle.
    pub(super) cq: D::Cq,
    link: Arc<CqLink>,
    /// Whether it belongs to a user.
    user: bool,
    /// The user's ring.
    map: MapCell,
}

/// A completion queue with what it keeps for the driver.
pub(super) type CqObj<D> = Obj<bindings::ib_cq, CqState<D>>;

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with a new object.
pub(super) unsafe extern "C" fn create_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    attr: *const bindings::ib_cq_init_attr,
    attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: The driver's part comes first in the attributes, which are null for the kernel.
        let udata = unsafe { Udata::from_raw(attrs.cast()) };
        if let Some(udata) = &udata {
            udata.no_request()?;
            udata.has_room_for::<MmapInfo>()?;
        }
        // SAFETY: ib_core lends the attributes for the call, and has set the device, which is ours and
        // outlives its objects.
        let (attr, dev) = unsafe { (&*attr, DeviceObj::<D>::get((*cq).device)) };
        if attr.flags != 0 {
            return Err(unsupported());
        }
        if attr.cqe == 0 {
            return Err(EINVAL);
        }
        let init = CqInit { entries: attr.cqe };
        // SAFETY: The queue outlives the success of this call, until `destroy_cq` closes the link.
        let link = unsafe { CqLink::new(cq, attr.comp_vector) }?;
        let user = udata.is_some();
        let new = D::create_cq(cx.reborrow(), s, &dev.handle, link.upcall(), &init, user)
            .inspect_err(|_| link.close(&mut cx, s))?;
        let cqe = c_int::try_from(new.entries).unwrap_or(c_int::MAX);
        let map = match &udata {
            None => Ok(None),
            // SAFETY: The context of this call outlives the objects made in it.
            Some(udata) => unsafe { Mapping::answer(udata, new.map) },
        };
        match map {
            Ok(map) => {
                // SAFETY: The object is new, and of the size that the table names.
                unsafe {
                    (*cq).cqe = cqe;
                    let cq_state = CqState {
                        cq: new.cq,
                        link,
                        user,
                        map: MapCell::new(map),
                    };
                    CqObj::<D>::store(cq, cq_state);
                }
                Ok(0)
            }
            Err(e) => {
                D::destroy_cq(cx.reborrow(), s, &new.cq);
                link.close(&mut cx, s);
                Err(e)
            }
        }
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_cq`] made, when nothing uses it any more.
pub(super) unsafe extern "C" fn destroy_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    // SAFETY: The object is alive.
    let (poll_ctx, wc) = unsafe { ((*cq).poll_ctx, (*cq).wc) };
    // Only queues that ib_core polls have room for what it has polled. All others, and so all of users, are of this kind by
    // its number alone, which is zero.
    if poll_ctx == bindings::ib_poll_context_IB_POLL_SOFTIRQ && !wc.is_null() {
        // ib_free_cq() has waited until what polls in a softirq says that it is done, but it arms the queue once
        // more after that. A softirq is a read-side critical section of RCU.
        //
        // SAFETY: May sleep.
        unsafe { kernel::bindings::synchronize_rcu() };
    }
    {
        // SAFETY: The object has a value, which is not taken before the end of this borrow.
        let state = unsafe { CqObj::<D>::get(cq) };
        state.link.close(&mut cx, s);
    }
    // A handler that was called on another processor may have queued the work after ib_free_cq() has cancelled it. What the
    // work does is to poll, and to arm the queue.
    // SAFETY: May sleep, and no handler is called any more. The work of a queue that has one was made with it.
    unsafe { bindings::sib_helper_ib_cq_cancel(cq) };
    // SAFETY: Nobody uses the object, and it has a value.
    let state = unsafe { CqObj::<D>::take(cq) };
    D::destroy_cq(cx.reborrow(), s, &state.cq);
    0
}

/// In a task that may sleep; for users alone.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_cq`] made.
pub(super) unsafe extern "C" fn resize_user_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    entries: c_uint,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        let udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        udata.no_request()?;
        udata.has_room_for::<MmapInfo>()?;
        if entries == 0 {
            return Err(EINVAL);
        }
        // SAFETY: The object has a value, and nobody destroys it now.
        let state = unsafe { CqObj::<D>::get(cq) };
        let mut map = None;
        let entries = D::resize_cq(cx, s, &state.cq, entries, |ring| {
            // SAFETY: The context of this call outlives the objects made in it.
            map = unsafe { Mapping::answer(&udata, Some(ring.clone())) }?;
            Ok(())
        })?;
        state.map.replace(map);
        // SAFETY: The member is a number for the response to the user, written without a lock by all drivers.
        unsafe { (*cq).cqe = c_int::try_from(entries).unwrap_or(c_int::MAX) };
        Ok(0)
    })
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_cq`] made, with room for `room` completions.
pub(super) unsafe extern "C" fn poll_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    room: c_int,
    wc: *mut bindings::ib_wc,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: The object has a value, and nobody destroys it now.
        let state = unsafe { CqObj::<D>::get(cq) };
        if state.user {
            return Err(EINVAL);
        }
        // SAFETY: ib_core lends the room for the call.
        let mut out = unsafe { WcOut::new(wc, usize::try_from(room).unwrap_or(0)) };
        D::poll_cq(cx, &state.cq, &mut out)?;
        Ok(c_int::try_from(out.len()).unwrap_or(c_int::MAX))
    })
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_cq`] made.
pub(super) unsafe extern "C" fn req_notify_cq<D: Driver>(
    cq: *mut bindings::ib_cq,
    flags: bindings::ib_cq_notify_flags,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        let notify = Notify {
            solicited_only: flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK
                == bindings::ib_cq_notify_flags_IB_CQ_SOLICITED,
            report_missed: flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0,
        };
        // SAFETY: The object has a value, and nobody destroys it now.
        let state = unsafe { CqObj::<D>::get(cq) };
        let missed = D::req_notify_cq(cx, &state.cq, notify)?;
        Ok(c_int::from(missed && notify.report_missed))
    })
}
