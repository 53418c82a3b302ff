// SPDX-License-Identifier: GPL-2.0

//! The bridge from ib_core to a [`Driver`]: `struct ib_device_ops`.
//!
//! Each function of the table makes the tokens of its context, converts its arguments, and calls the driver.
//! What the context of a call is says `Documentation/infiniband/core_locking.rst`.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod ah;
mod context;
mod convert;
mod cq;
mod device;
mod mad;
mod mr;
mod mw;
mod pd;
mod post;
mod qp;
mod srq;
mod stats;

pub(super) use device::{
    DeviceObj,
    DeviceState, //
};
pub(crate) use mad::source_from;

use super::{
    mmap,
    Driver, //
};
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use kernel::prelude::*;
use sib_bindings as bindings;

/// The ABI version of librxe whose rings this crate has.
const UVERBS_ABI_VERSION: u32 = 2;

/// The token of a call that comes from any context.
///
/// # Safety
///
/// The caller has just been entered from ib_core, and makes no other token.
#[inline(always)]
unsafe fn any_context<'a>() -> Cx<'a, Unlocked> {
    // SAFETY: ib_core holds no lock of ours. Whoever called ib_core from within this crate did so with an
    // upcall, which borrows the token of the outer context until it returns.
    unsafe { Cx::root() }
}

/// The tokens of a call that comes from a task that may sleep.
///
/// # Safety
///
/// The caller has just been entered from ib_core, for an operation that may sleep, and makes no other token.
#[inline(always)]
unsafe fn task<'a>() -> (Cx<'a, Unlocked>, Sleepable<'a>) {
    // SAFETY: As in `any_context`; that the operation may sleep is promised by the caller.
    unsafe { (Cx::root(), Sleepable::new()) }
}

/// The table for `D`.
pub(super) struct OpsTable<D: Driver>(PhantomData<D>);

impl<D: Driver> OpsTable<D> {
    /// The table; the owner is filled in when the module is known.
    ///
    /// Objects without a size here are not supported, nor are operations without a function.
    pub(super) const OPS: bindings::ib_device_ops = bindings::ib_device_ops {
        driver_id: bindings::rdma_driver_id_RDMA_DRIVER_RXE,
        uverbs_abi_ver: UVERBS_ABI_VERSION,

        query_device: Some(device::query_device::<D>),
        query_port: Some(device::query_port::<D>),
        get_port_immutable: Some(device::get_port_immutable::<D>),
        get_link_layer: Some(device::get_link_layer),
        query_gid: Some(device::query_gid::<D>),
        query_pkey: Some(device::query_pkey::<D>),
        modify_port: Some(device::modify_port::<D>),
        modify_device: Some(device::modify_device::<D>),
        get_dev_fw_str: Some(device::get_dev_fw_str),
        dealloc_driver: Some(device::dealloc_driver::<D>),
        process_mad: Some(mad::process_mad::<D>),

        alloc_hw_port_stats: Some(stats::alloc_hw_port_stats::<D>),
        get_hw_stats: Some(stats::get_hw_stats::<D>),
        fill_res_qp_entry: Some(stats::fill_res_qp_entry::<D>),
        fill_res_cq_entry: Some(stats::fill_res_cq_entry::<D>),
        fill_res_mr_entry: Some(stats::fill_res_mr_entry::<D>),
        fill_res_srq_entry: Some(stats::fill_res_srq_entry::<D>),

        alloc_ucontext: Some(context::alloc_ucontext),
        dealloc_ucontext: Some(context::dealloc_ucontext),
        disassociate_ucontext: Some(context::disassociate_ucontext),
        mmap: Some(mmap::mmap),
        mmap_free: Some(mmap::mmap_free),

        alloc_pd: Some(pd::alloc_pd::<D>),
        dealloc_pd: Some(pd::dealloc_pd::<D>),

        get_dma_mr: Some(mr::get_dma_mr::<D>),
        reg_user_mr: Some(mr::reg_user_mr::<D>),
        dereg_mr: Some(mr::dereg_mr::<D>),
        advise_mr: if D::HAS_ADVISE_MR {
            Some(mr::advise_mr::<D>)
        } else {
            None
        },
        alloc_mr: if D::HAS_ALLOC_MR {
            Some(mr::alloc_mr::<D>)
        } else {
            None
        },
        map_mr_sg: if D::HAS_ALLOC_MR {
            Some(mr::map_mr_sg::<D>)
        } else {
            None
        },
        alloc_mw: if D::HAS_ALLOC_MW {
            Some(mw::alloc_mw::<D>)
        } else {
            None
        },
        dealloc_mw: if D::HAS_ALLOC_MW {
            Some(mw::dealloc_mw::<D>)
        } else {
            None
        },

        create_cq: Some(cq::create_cq::<D>),
        destroy_cq: Some(cq::destroy_cq::<D>),
        resize_user_cq: if D::HAS_RESIZE_CQ {
            Some(cq::resize_user_cq::<D>)
        } else {
            None
        },
        poll_cq: Some(cq::poll_cq::<D>),
        req_notify_cq: Some(cq::req_notify_cq::<D>),

        create_qp: Some(qp::create_qp::<D>),
        modify_qp: Some(qp::modify_qp::<D>),
        query_qp: Some(qp::query_qp::<D>),
        destroy_qp: Some(qp::destroy_qp::<D>),
        post_send: Some(post::post_send::<D>),
        post_recv: Some(post::post_recv::<D>),
        attach_mcast: if D::HAS_ATTACH_MCAST {
            Some(qp::attach_mcast::<D>)
        } else {
            None
        },
        detach_mcast: if D::HAS_DETACH_MCAST {
            Some(qp::detach_mcast::<D>)
        } else {
            None
        },

        create_srq: if D::HAS_CREATE_SRQ {
            Some(srq::create_srq::<D>)
        } else {
            None
        },
        modify_srq: if D::HAS_MODIFY_SRQ {
            Some(srq::modify_srq::<D>)
        } else {
            None
        },
        query_srq: if D::HAS_QUERY_SRQ {
            Some(srq::query_srq::<D>)
        } else {
            None
        },
        destroy_srq: if D::HAS_CREATE_SRQ {
            Some(srq::destroy_srq::<D>)
        } else {
            None
        },
        post_srq_recv: if D::HAS_POST_SRQ_RECV {
            Some(post::post_srq_recv::<D>)
        } else {
            None
        },

        create_ah: Some(ah::create_ah::<D>),
        create_user_ah: Some(ah::create_ah::<D>),
        query_ah: Some(ah::query_ah::<D>),
        modify_ah: Some(ah::modify_ah::<D>),
        destroy_ah: Some(ah::destroy_ah::<D>),

        size_ib_ucontext: size_of::<bindings::ib_ucontext>(),
        size_ib_pd: pd::PdObj::<D>::SIZE,
        size_ib_cq: cq::CqObj::<D>::SIZE,
        size_ib_qp: qp::QpObj::<D>::SIZE,
        size_ib_srq: srq::SrqObj::<D>::SIZE,
        size_ib_ah: ah::AhObj::<D>::SIZE,
        size_ib_mw: mw::MwObj::<D>::SIZE,

        // SAFETY: All members are numbers and optional pointers, for which zero is what the C side expects of
        // operations that are not supported.
        ..unsafe { core::mem::zeroed() }
    };
}
