// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::convert::{
    ah_from_c,
    ah_to_c,
    cap_from_c,
    cap_to_c,
    gid_bytes, //
};
use super::cq::CqObj;
use super::device::DeviceObj;
use super::pd::PdObj;
use super::srq::SrqObj;
use super::task;
use crate::cm;
use crate::ib::abi::CreateQpResp;
use crate::ib::mmap::Mapping;
use crate::ib::obj::Obj;
use crate::ib::udata::Udata;
use crate::ib::upcall::QpLink;
use crate::ib::{
    unsupported,
    AccessFlags,
    Driver,
    MigState,
    Mtu,
    QpAttr,
    QpAttrMask,
    QpInit,
    QpState,
    QpType, //
};
use crate::ring::Ring;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use sib_bindings as bindings;

/// What a queue pair keeps for the driver.
pub(super) struct QpData<D: Driver> {
    /// The driver's handle.
    pub(super) qp: D::Qp,
    /// Whether it belongs to a user.
    pub(super) user: bool,
    /// What its requests are.
    pub(super) ty: QpType,
    link: Arc<QpLink>,
    /// The user's rings, which are there as long as this is.
    _maps: Maps,
}

/// The rings of a user's queue pair.
#[derive(Default)]
struct Maps {
    rq: Option<Mapping>,
    sq: Option<Mapping>,
}

impl Maps {
    /// Maps the rings for the user, and tells about them.
    ///
    /// # Safety
    ///
    /// The context of the call outlives the result.
    unsafe fn answer(
        udata: &Udata<'_>,
        rq: Option<Arc<Ring>>,
        sq: Option<Arc<Ring>>,
    ) -> Result<Self> {
        let context = udata.context();
        // SAFETY: The context is alive; that it outlives the result is promised.
        let map = |ring: Option<Arc<Ring>>| unsafe {
            ring.map(|ring| Mapping::new(context, ring)).transpose()
        };
        let maps = Self {
            rq: map(rq)?,
            sq: map(sq)?,
        };
        udata.respond(&CreateQpResp {
            rq: Mapping::info_of(&maps.rq),
            sq: Mapping::info_of(&maps.sq),
        })?;
        Ok(maps)
    }
}

/// A queue pair with what it keeps for the driver.
pub(super) type QpObj<D> = Obj<bindings::ib_qp, QpData<D>>;

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with a new object.
pub(super) unsafe extern "C" fn create_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    init: *mut bindings::ib_qp_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        let udata = unsafe { Udata::from_raw(udata) };
        if let Some(udata) = &udata {
            udata.no_request()?;
            udata.has_room_for::<CreateQpResp>()?;
        }
        // SAFETY: ib_core lends the attributes for the call, to be changed too.
        let init = unsafe { &mut *init };
        let user = udata.is_some();
        let ty = supported_type(init, user)?;
        // SAFETY: ib_core has checked that these objects are there, of this device, and counts their use.
        let (dev, pd, wanted) = unsafe {
            (
                DeviceObj::<D>::get((*qp).device),
                PdObj::<D>::get((*qp).pd),
                init_from_c::<D>(init, ty),
            )
        };
        // SAFETY: The queue pair outlives the success of this call, until `destroy_qp` closes the link.
        let link = unsafe { QpLink::new(qp, dev.events.clone()) }?;
        let new = D::create_qp(cx.reborrow(), s, pd, link.upcall(), &wanted, user)
            .inspect_err(|_| link.close(&mut cx, s))?;
        cap_to_c(&mut init.cap, &new.cap);
        let maps = match &udata {
            None => Ok(Maps::default()),
            // SAFETY: The context of this call outlives the objects made in it.
            Some(udata) => unsafe { Maps::answer(udata, new.rq_map, new.sq_map) },
        };
        match maps {
            Ok(maps) => {
                let data = QpData {
                    qp: new.qp,
                    user,
                    ty,
                    link,
                    _maps: maps,
                };
                // SAFETY: The object is new, and of the size that the table names.
                unsafe {
                    (*qp).qp_num = new.qpn;
                    QpObj::<D>::store(qp, data);
                }
                Ok(0)
            }
            Err(e) => {
                // A queue pair that nobody knows of yet has no reason to stay.
                let _ = D::destroy_qp(cx.reborrow(), s, &new.qp);
                link.close(&mut cx, s);
                Err(e)
            }
        }
    })
}

/// The type of the queue pair; an error if what is asked for is not supported.
fn supported_type(init: &bindings::ib_qp_init_attr, user: bool) -> Result<QpType> {
    if init.create_flags != 0 || !init.xrcd.is_null() || !init.rwq_ind_tbl.is_null() {
        return Err(unsupported());
    }
    let ty = QpType::from_raw(init.qp_type).ok_or_else(unsupported)?;
    if user && matches!(ty, QpType::Smi | QpType::Gsi) {
        return Err(unsupported());
    }
    if init.send_cq.is_null() || init.recv_cq.is_null() {
        return Err(EINVAL);
    }
    Ok(ty)
}

/// What the queue pair is asked to be.
///
/// # Safety
///
/// The completion queues and the shared receive queue, if there is one, are objects of a device of `D`, and live for
/// `'a`.
unsafe fn init_from_c<'a, D: Driver>(
    init: &bindings::ib_qp_init_attr,
    ty: QpType,
) -> QpInit<'a, D> {
    // SAFETY: They have values, by the promise.
    let (send_cq, recv_cq, srq) = unsafe {
        (
            &CqObj::<D>::get(init.send_cq).cq,
            &CqObj::<D>::get(init.recv_cq).cq,
            (!init.srq.is_null()).then(|| &SrqObj::<D>::get(init.srq).srq),
        )
    };
    QpInit {
        ty,
        send_cq,
        recv_cq,
        srq,
        cap: cap_from_c(&init.cap),
        sig_all: init.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
        port: init.port_num,
    }
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_qp`] made.
pub(super) unsafe extern "C" fn modify_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        if let Some(udata) = unsafe { Udata::from_raw(udata) } {
            udata.nothing()?;
        }
        let mask = QpAttrMask::from_bits(mask as u32);
        if mask.unknown() != 0 {
            return Err(unsupported());
        }
        // SAFETY: ib_core lends the attributes for the call.
        let attr = attr_from_c(unsafe { &*attr }, mask)?;
        // SAFETY: The object has a value, and nobody destroys it now.
        let data = unsafe { QpObj::<D>::get(qp) };
        D::modify_qp(cx.reborrow(), s, &data.qp, &attr, mask)?;
        let ends = matches!(attr.state, QpState::Reset | QpState::Err);
        if mask.contains(QpAttrMask::STATE) && ends {
            // SAFETY: Nobody destroys the queue pair now.
            unsafe { gone(qp, data.ty, cx, s) };
        }
        Ok(0)
    })
}

/// Tells the connection manager that a queue pair has no connection any more.
///
/// # Safety
///
/// The queue pair is alive for the call.
unsafe fn gone(qp: *mut bindings::ib_qp, ty: QpType, cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
    if matches!(ty, QpType::Rc | QpType::Uc) {
        // SAFETY: Promised by the caller; the device lives longer.
        unsafe { cm::qp_event((*qp).device, cx, s, (*qp).qp_num, cm::QpEvent::Gone) };
    }
}

/// The attributes that `mask` names; the others are as in reset.
fn attr_from_c(attr: &bindings::ib_qp_attr, mask: QpAttrMask) -> Result<QpAttr> {
    let mut out = QpAttr {
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qpn: attr.dest_qp_num,
        access: AccessFlags::from_bits(attr.qp_access_flags as u32),
        cap: cap_from_c(&attr.cap),
        pkey_index: attr.pkey_index,
        alt_pkey_index: attr.alt_pkey_index,
        sqd_async_notify: attr.en_sqd_async_notify != 0,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port: attr.alt_port_num,
        alt_timeout: attr.alt_timeout,
        ..QpAttr::default()
    };
    if mask.contains(QpAttrMask::STATE) {
        out.state = QpState::from_raw(attr.qp_state).ok_or(EINVAL)?;
    }
    if mask.contains(QpAttrMask::CUR_STATE) {
        out.cur_state = QpState::from_raw(attr.cur_qp_state).ok_or(EINVAL)?;
    }
    if mask.contains(QpAttrMask::PATH_MTU) {
        out.path_mtu = Mtu::from_raw(attr.path_mtu).ok_or(EINVAL)?;
    }
    if mask.contains(QpAttrMask::PATH_MIG_STATE) {
        out.mig_state = MigState::from_raw(attr.path_mig_state).ok_or(EINVAL)?;
    }
    if mask.contains(QpAttrMask::AV) {
        out.ah = ah_from_c(&attr.ah_attr)?;
    }
    if mask.contains(QpAttrMask::ALT_PATH) {
        out.alt_ah = ah_from_c(&attr.alt_ah_attr)?;
    }
    Ok(out)
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_qp`] made, with room for the answers.
pub(super) unsafe extern "C" fn query_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    out: *mut bindings::ib_qp_attr,
    _mask: c_int,
    init: *mut bindings::ib_qp_init_attr,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: The object has a value, and nobody destroys it now.
        let data = unsafe { QpObj::<D>::get(qp) };
        let (attr, sig_all) = D::query_qp(cx, s, &data.qp)?;
        // SAFETY: All members are numbers, and pointers that may be null.
        let mut made: bindings::ib_qp_init_attr = unsafe { core::mem::zeroed() };
        // SAFETY: These members are set when the object is made and do not change.
        unsafe {
            made.event_handler = (*qp).event_handler;
            made.qp_context = (*qp).qp_context;
            made.send_cq = (*qp).send_cq;
            made.recv_cq = (*qp).recv_cq;
            made.srq = (*qp).srq;
            made.qp_type = (*qp).qp_type;
        }
        cap_to_c(&mut made.cap, &attr.cap);
        made.sq_sig_type = if sig_all {
            bindings::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            bindings::ib_sig_type_IB_SIGNAL_REQ_WR
        };
        made.port_num = attr.port;
        // SAFETY: There is room for the answers, which nobody else uses during the call.
        unsafe {
            out.write(attr_to_c(&attr));
            init.write(made);
        }
        Ok(0)
    })
}

/// The attributes for ib_core. What a queue pair does not have here is zero.
fn attr_to_c(attr: &QpAttr) -> bindings::ib_qp_attr {
    // SAFETY: All members are numbers, and pointers that may be null.
    let mut out: bindings::ib_qp_attr = unsafe { core::mem::zeroed() };
    out.qp_state = attr.state.raw();
    out.cur_qp_state = attr.cur_state.raw();
    out.path_mtu = attr.path_mtu.raw();
    out.path_mig_state = attr.mig_state.raw();
    out.qkey = attr.qkey;
    out.rq_psn = attr.rq_psn;
    out.sq_psn = attr.sq_psn;
    out.dest_qp_num = attr.dest_qpn;
    out.qp_access_flags = attr.access.bits() as c_int;
    cap_to_c(&mut out.cap, &attr.cap);
    out.ah_attr = ah_to_c(&attr.ah);
    out.alt_ah_attr = ah_to_c(&attr.alt_ah);
    out.pkey_index = attr.pkey_index;
    out.alt_pkey_index = attr.alt_pkey_index;
    out.en_sqd_async_notify = u8::from(attr.sqd_async_notify);
    out.sq_draining = u8::from(attr.sq_draining);
    out.max_rd_atomic = attr.max_rd_atomic;
    out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    out.min_rnr_timer = attr.min_rnr_timer;
    out.port_num = attr.port;
    out.timeout = attr.timeout;
    out.retry_cnt = attr.retry_cnt;
    out.rnr_retry = attr.rnr_retry;
    out.alt_port_num = attr.alt_port;
    out.alt_timeout = attr.alt_timeout;
    out
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_qp`] made, when nothing uses it any more.
pub(super) unsafe extern "C" fn destroy_qp<D: Driver>(
    qp: *mut bindings::ib_qp,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: The object has a value, which is not taken before the end of this borrow.
        let data = unsafe { QpObj::<D>::get(qp) };
        // Before another queue pair can get its number.
        // SAFETY: Nobody else destroys the queue pair.
        unsafe { gone(qp, data.ty, cx.reborrow(), s) };
        D::destroy_qp(cx.reborrow(), s, &data.qp)?;
        // SAFETY: Nobody uses the object but upcalls, which do not look at the value.
        let data = unsafe { QpObj::<D>::take(qp) };
        data.link.close(&mut cx, s);
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_qp`] made.
pub(super) unsafe extern "C" fn attach_mcast<D: Driver>(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: ib_core lends the GID for the call.
        let mgid = gid_bytes(unsafe { &*gid });
        // SAFETY: The object has a value, and nobody destroys it now.
        D::attach_mcast(cx, s, unsafe { &QpObj::<D>::get(qp).qp }, &mgid, lid)?;
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for an object that [`create_qp`] made.
pub(super) unsafe extern "C" fn detach_mcast<D: Driver>(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        // SAFETY: ib_core lends the GID for the call.
        let mgid = gid_bytes(unsafe { &*gid });
        // SAFETY: The object has a value, and nobody destroys it now.
        D::detach_mcast(cx, s, unsafe { &QpObj::<D>::get(qp).qp }, &mgid, lid)?;
        Ok(0)
    })
}
