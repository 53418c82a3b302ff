// SPDX-License-Identifier: GPL-2.0

//! Counters of ports, and details of objects.

use super::any_context;
use super::cq::CqObj;
use super::device::DeviceObj;
use super::mr::MrObj;
use super::qp::QpObj;
use super::srq::SrqObj;
use crate::ib::{
    detail,
    stats,
    Driver, //
};
use kernel::error::from_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// In a task, during the registration of the device.
///
/// # Safety
///
/// Called by ib_core for a device of `D`.
pub(super) unsafe extern "C" fn alloc_hw_port_stats<D: Driver>(
    _dev: *mut bindings::ib_device,
    _port: u32,
) -> *mut bindings::rdma_hw_stats {
    let count = c_int::try_from(D::PORT_COUNTERS.len()).unwrap_or(0);
    // SAFETY: There are so many descriptions, and they live as long as the module.
    unsafe {
        bindings::rdma_alloc_hw_stats_struct(
            stats::descriptions(D::PORT_COUNTERS),
            count,
            bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as c_ulong,
        )
    }
}

/// In a task, with a mutex of ib_core held.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with what [`alloc_hw_port_stats`] has returned.
pub(super) unsafe extern "C" fn get_hw_stats<D: Driver>(
    dev: *mut bindings::ib_device,
    stats: *mut bindings::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    from_result(|| {
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        // SAFETY: The structure was allocated with so many values, and is locked for this call.
        let values = unsafe {
            let count = D::PORT_COUNTERS.len();
            core::slice::from_raw_parts_mut((&raw mut (*stats).value).cast::<u64>(), count)
        };
        D::port_counters(&state.handle, port, values)?;
        Ok(values.len() as c_int)
    })
}

/// In a task: somebody asks for the details of a queue pair.
///
/// # Safety
///
/// Called by ib_core for a queue pair of a device of `D`, which it keeps for the call, with a message.
pub(super) unsafe extern "C" fn fill_res_qp_entry<D: Driver>(
    msg: *mut kernel::bindings::sk_buff,
    qp: *mut bindings::ib_qp,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: An object that can be found is complete, and is not destroyed during the call.
        let state = unsafe { QpObj::<D>::get(qp) };
        // SAFETY: ib_core lends the message.
        unsafe { detail::fill(msg, |detail| D::show_qp(cx, &state.qp, detail)) }?;
        Ok(0)
    })
}

/// In a task: somebody asks for the details of a completion queue.
///
/// # Safety
///
/// As [`fill_res_qp_entry`].
pub(super) unsafe extern "C" fn fill_res_cq_entry<D: Driver>(
    msg: *mut kernel::bindings::sk_buff,
    cq: *mut bindings::ib_cq,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: An object that can be found is complete, and is not destroyed during the call.
        let state = unsafe { CqObj::<D>::get(cq) };
        // SAFETY: ib_core lends the message.
        unsafe { detail::fill(msg, |detail| D::show_cq(cx, &state.cq, detail)) }?;
        Ok(0)
    })
}

/// In a task: somebody asks for the details of a memory region.
///
/// # Safety
///
/// As [`fill_res_qp_entry`].
pub(super) unsafe extern "C" fn fill_res_mr_entry<D: Driver>(
    msg: *mut kernel::bindings::sk_buff,
    mr: *mut bindings::ib_mr,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: An object that can be found is complete, and is not destroyed during the call.
        let state = unsafe { MrObj::<D>::get(mr) };
        // SAFETY: ib_core lends the message.
        unsafe { detail::fill(msg, |detail| D::show_mr(cx, &state.mr, detail)) }?;
        Ok(0)
    })
}

/// In a task: somebody asks for the details of a shared receive queue.
///
/// # Safety
///
/// As [`fill_res_qp_entry`].
pub(super) unsafe extern "C" fn fill_res_srq_entry<D: Driver>(
    msg: *mut kernel::bindings::sk_buff,
    srq: *mut bindings::ib_srq,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: An object that can be found is complete, and is not destroyed during the call.
        let state = unsafe { SrqObj::<D>::get(srq) };
        // SAFETY: ib_core lends the message.
        unsafe { detail::fill(msg, |detail| D::show_srq(cx, &state.srq, detail)) }?;
        Ok(0)
    })
}
