// SPDX-License-Identifier: GPL-2.0

//! Management datagrams.

use super::any_context;
use super::convert::gid_bytes;
use super::device::DeviceObj;
use crate::cm;
use crate::ib::{
    Driver,
    Mad,
    MadResult,
    MadSource,
    MAD_SIZE, //
};
use crate::sync::Sleepable;
use core::mem::size_of;
use kernel::prelude::*;
use sib_bindings as bindings;

/// Where a datagram came from, if there is a completion that says so.
///
/// # Safety
///
/// Both are null or valid for the call.
pub(crate) unsafe fn source_from(
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
) -> Option<MadSource> {
    // SAFETY: Promised by the caller.
    let (wc, grh) = unsafe { (wc.as_ref()?, grh.as_ref()) };
    let has_grh = wc.wc_flags as u32 & bindings::ib_wc_flags_IB_WC_GRH != 0;
    Some(MadSource {
        slid: wc.slid as u16,
        src_qp: wc.src_qp,
        sl: wc.sl,
        dlid_path_bits: wc.dlid_path_bits,
        pkey_index: wc.pkey_index,
        sgid: grh.filter(|_| has_grh).map(|grh| gid_bytes(&grh.sgid)),
    })
}

/// From the receive path of ib_mad, a worker; from its send path, in any context; or from sysfs, without a
/// work completion. To be treated as a call that must not sleep.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with a whole datagram, and a zeroed reply of the length that
/// `out_size` points to.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C" fn process_mad<D: Driver>(
    dev: *mut bindings::ib_device,
    flags: c_int,
    port: u32,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    request: *const bindings::ib_mad,
    reply: *mut bindings::ib_mad,
    _out_size: *mut usize,
    _out_pkey_index: *mut u16,
) -> c_int {
    const { assert!(size_of::<bindings::ib_mad>() == MAD_SIZE) };

    // SAFETY: Entered from ib_core.
    let mut cx = unsafe { any_context() };
    // SAFETY: ib_core lends the completion, if there is one, for the call, and the header with it.
    let source = unsafe { source_from(wc, grh) };
    // SAFETY: The device has its value from before the registration until it is removed.
    let state = unsafe { DeviceObj::<D>::get(dev) };
    // SAFETY: ib_core lends both for the call, of the size asserted above; they do not overlap, and any
    // bytes are valid.
    let (request, reply) = unsafe {
        (
            &*request.cast::<[u8; MAD_SIZE]>(),
            &mut *reply.cast::<[u8; MAD_SIZE]>(),
        )
    };
    let flags = flags as u32;
    let mad = Mad {
        port,
        ignore_mkey: flags & bindings::ib_process_mad_flags_IB_MAD_IGNORE_MKEY != 0,
        source,
        request,
    };
    let mut verdict = D::process_mad(cx.reborrow(), &state.handle, &mad, reply);
    // Of a dedicated device the manager has an agent for communication management.
    let is_for_agent = mad.is_of_cm() && D::is_dedicated(&state.handle);
    let is_offered = mad.is_of_managers() && mad.source.is_some() && !is_for_agent;
    if verdict == MadResult::Pass && is_offered {
        // SAFETY: Datagrams of these classes come with a source from the receive path alone, which is a task.
        let s = unsafe { Sleepable::new() };
        // SAFETY: The device is one of this driver, and ib_core uses it.
        if unsafe { cm::offer(dev, cx, s, &mad) } == cm::Verdict::Consumed {
            verdict = MadResult::Consumed;
        }
    }
    let result = match verdict {
        MadResult::Failure => bindings::ib_mad_result_IB_MAD_RESULT_FAILURE,
        MadResult::Pass => bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS,
        MadResult::Consumed => {
            bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
                | bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED
        }
        MadResult::Reply => {
            bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
                | bindings::ib_mad_result_IB_MAD_RESULT_REPLY
        }
    };
    result as c_int
}
