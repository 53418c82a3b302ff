// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! Unlike other objects they are allocated by the driver, here, and ib_core fills in its part after the call
//! that makes them.

use super::pd::PdObj;
use super::post::sges;
use super::{
    any_context,
    task, //
};
use crate::ib::obj::Obj;
use crate::ib::page_list::{
    PageList,
    Target, //
};
use crate::ib::udata::Udata;
use crate::ib::wr::is_of_region;
use crate::ib::{
    unsupported,
    AccessFlags,
    Advice,
    Driver,
    NewMr, //
};
use crate::mem::{
    FastPages,
    KernelSpace,
    Lender,
    OnDemand,
    Umem,
    UserMemory, //
};
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use kernel::error::from_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// What a memory region keeps for the driver.
pub(super) struct MrState<M> {
    /// The driver's handle.
    pub(super) mr: M,
    /// The list that is being filled.
    target: Target,
    /// That of its pages, if it is one for fast registration.
    lender: Option<Lender>,
}

/// A memory region with what it keeps for the driver.
pub(super) type MrObj<D> = Obj<bindings::ib_mr, MrState<<D as Driver>::Mr>>;

/// The allocation of a region, before it is made.
struct NewObj<D: Driver>(KBox<MrObj<D>>);

impl<D: Driver> NewObj<D> {
    /// Allocates a region, zeroed.
    fn new() -> Result<Self> {
        Ok(Self(KBox::init(MrObj::<D>::empty(), GFP_KERNEL_ACCOUNT)?))
    }

    /// Completes the region, and gives it to ib_core.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a local key by which clients would name memory by its address; the region is removed.
    fn finish(
        self,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        new: NewMr<D::Mr>,
        lender: Option<Lender>,
    ) -> Result<*mut bindings::ib_mr> {
        if !is_of_region(new.lkey) {
            D::dereg_mr(cx, s, &new.mr)?;
            return Err(EINVAL);
        }
        let mr: *mut bindings::ib_mr = KBox::into_raw(self.0).cast();
        // SAFETY: The allocation is ours alone, zeroed, and without a value.
        unsafe {
            (*mr).lkey = new.lkey;
            (*mr).rkey = new.rkey;
            let state = MrState {
                mr: new.mr,
                target: Target::none(),
                lender,
            };
            MrObj::<D>::store(mr, state);
        }
        Ok(mr)
    }
}

/// The pointer, or the error as one.
fn or_err_ptr(result: Result<*mut bindings::ib_mr>) -> *mut bindings::ib_mr {
    result.unwrap_or_else(|e| e.to_ptr())
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a domain of a device of `D`.
pub(super) unsafe extern "C" fn get_dma_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    access: c_int,
) -> *mut bindings::ib_mr {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    or_err_ptr((|| {
        let obj = NewObj::<D>::new()?;
        // SAFETY: The domain has a value, and outlives its regions.
        let pd = unsafe { PdObj::<D>::get(pd) };
        // SAFETY: As devices have a key for what clients name themselves, ib_core makes such a region only for a client
        // in the kernel that wants one of all memory for its peers, and answers for them.
        let space = unsafe { KernelSpace::new() };
        let access = AccessFlags::from_bits(access as u32);
        let new = D::get_dma_mr(cx.reborrow(), s, pd, space, access)?;
        obj.finish(cx, s, new, None)
    })())
}

/// In a task that may sleep, the one that owns the memory.
///
/// # Safety
///
/// Called by ib_core for a domain of a device of `D`.
pub(super) unsafe extern "C" fn reg_user_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut bindings::ib_dmah,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_mr {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    or_err_ptr((|| {
        if !dmah.is_null() {
            return Err(unsupported());
        }
        // SAFETY: `udata` is that of this call.
        if let Some(udata) = unsafe { Udata::from_raw(udata) } {
            udata.nothing()?;
        }
        let flags = AccessFlags::from_bits(access as u32);
        let obj = NewObj::<D>::new()?;
        let len = usize::try_from(length).map_err(|_| EINVAL)?;
        let on_demand = flags.intersects(AccessFlags::ON_DEMAND);
        // All memory of a process would be regions that come and go as well.
        if on_demand && (!D::ON_DEMAND || (start == 0 && length == u64::MAX)) {
            return Err(unsupported());
        }
        // SAFETY: The domain is alive and has a value.
        let (device, pd) = unsafe { ((*pd).device, PdObj::<D>::get(pd)) };
        // SAFETY: The device of a live domain is alive.
        let memory = unsafe {
            if on_demand {
                UserMemory::OnDemand(OnDemand::new(device, start, len, access, &mut cx, s)?)
            } else {
                UserMemory::Pinned(Umem::pin(device, start, len, access, &mut cx, s)?)
            }
        };
        let new = D::reg_user_mr(cx.reborrow(), s, pd, memory, iova, flags)?;
        obj.finish(cx, s, new, None)
    })())
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a region that a function here made, when nothing uses it any more.
pub(super) unsafe extern "C" fn dereg_mr<D: Driver>(
    mr: *mut bindings::ib_mr,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: The region has a value, which is not taken before the end of this borrow.
        D::dereg_mr(cx, s, unsafe { &MrObj::<D>::get(mr).mr })?;
        // SAFETY: Nobody uses the region any more, and it has a value.
        let state = unsafe { MrObj::<D>::take(mr) };
        drop(state.mr);
        // Whatever the driver has kept: the client may free its pages from now on.
        if let Some(lender) = &state.lender {
            lender.take_back(s);
        }
        // SAFETY: The functions here allocate all regions like this, and ib_core does not look at this one
        // any more.
        drop(unsafe { KBox::from_raw(mr.cast::<MrObj<D>>()) });
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a domain of a device of `D`.
pub(super) unsafe extern "C" fn alloc_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    ty: bindings::ib_mr_type,
    max_pages: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    or_err_ptr((|| {
        if ty != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
            return Err(EINVAL);
        }
        let obj = NewObj::<D>::new()?;
        // SAFETY: The domain and its device are alive, and have values.
        let (pd, most) = unsafe {
            let device = (*pd).device;
            (
                PdObj::<D>::get(pd),
                (*device).attrs.max_fast_reg_page_list_len,
            )
        };
        if max_pages == 0 || max_pages > most {
            return Err(EINVAL);
        }
        let pages = FastPages::new(max_pages as usize)?;
        let lender = Lender::of(&pages);
        let new = D::alloc_mr(cx.reborrow(), s, pd, pages)?;
        obj.finish(cx, s, new, Some(lender))
    })())
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core for a region that [`alloc_mr`] made, with a list of `nents` entries; nobody else uses
/// the list of pages of the region.
pub(super) unsafe extern "C" fn map_mr_sg<D: Driver>(
    mr: *mut bindings::ib_mr,
    sg: *mut kernel::bindings::scatterlist,
    nents: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: The region has a value, and nobody destroys it now.
        let state = unsafe { MrObj::<D>::get(mr) };
        // SAFETY: All arguments are those of ib_core, for this call; `set_page` is that of the region.
        let mut list = unsafe {
            PageList::new(
                mr,
                sg,
                nents,
                offset,
                &state.target,
                state.lender.as_ref(),
                set_page::<D>,
            )
        };
        D::map_mr(cx, &state.mr, &mut list)?;
        Ok(list.mapped())
    })
}

/// In the context of [`PageList::fill`].
///
/// # Safety
///
/// Called by `ib_sg_to_pages` for the region of [`map_mr_sg`].
unsafe extern "C" fn set_page<D: Driver>(mr: *mut bindings::ib_mr, addr: u64) -> c_int {
    // SAFETY: The region has a value, and nobody destroys it now.
    let state = unsafe { MrObj::<D>::get(mr) };
    // SAFETY: `PageList::fill` is under way with the target, and gives the pages the size of the region's. The
    // client lets the region have them.
    from_result(|| unsafe { state.target.push(addr) }.map(|()| 0))
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a domain of a device of `D`, with a list of `count` entries.
pub(super) unsafe extern "C" fn advise_mr<D: Driver>(
    pd: *mut bindings::ib_pd,
    advice: bindings::ib_uverbs_advise_mr_advice,
    flags: u32,
    list: *mut bindings::ib_sge,
    count: u32,
    _attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    const FLUSH: u32 = bindings::ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        let advice = Advice::from_raw(advice).ok_or_else(unsupported)?;
        let count = c_int::try_from(count).map_err(|_| EINVAL)?;
        // SAFETY: The list is that of this call, and the domain has a value.
        let (list, pd) = unsafe { (sges(list, count)?, PdObj::<D>::get(pd)) };
        D::advise_mr(cx, s, pd, advice, flags & FLUSH != 0, list)?;
        Ok(0)
    })
}
