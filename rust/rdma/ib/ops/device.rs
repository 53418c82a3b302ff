// SPDX-License-Identifier: GPL-2.0

//! Devices and ports.

use super::convert::gid_from;
use super::{
    any_context,
    task, //
};
use crate::ib::obj::Obj;
use crate::ib::udata::Udata;
use crate::ib::upcall::DeviceLink;
use crate::ib::{
    unsupported,
    DeviceAttr,
    Driver,
    PortAttr,
    PortCaps,
    PortModify, //
};
use crate::work::Queue;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::str::NullTerminatedFormatter;
use kernel::sync::Arc;
use sib_bindings as bindings;

/// What a device keeps for the driver, from before its registration until it is removed.
pub(in crate::ib) struct DeviceState<D: Driver> {
    /// The driver's handle.
    pub(in crate::ib) handle: D::Device,
    /// The upcalls.
    pub(in crate::ib) link: Arc<DeviceLink>,
    /// Where events of queue pairs are told from.
    pub(in crate::ib) events: Arc<Queue>,
}

/// A device with what it keeps for the driver.
pub(in crate::ib) type DeviceObj<D> = Obj<bindings::ib_device, DeviceState<D>>;

/// The length of the string that `get_dev_fw_str` fills in, `IB_FW_VERSION_NAME_MAX`.
const FW_STR_LEN: usize = 32;

/// The largest LID mask control. IBA "PortInfo": it has three bits.
const MAX_LMC: u8 = 7;

/// In a task that may sleep, also during the registration.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with room for the answer.
pub(super) unsafe extern "C" fn query_device<D: Driver>(
    dev: *mut bindings::ib_device,
    out: *mut bindings::ib_device_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is that of this call.
        if let Some(udata) = unsafe { Udata::from_raw(udata) } {
            udata.nothing()?;
        }
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        let attr = D::query_device(&state.handle);
        // SAFETY: Nobody else uses the answer during the call.
        unsafe {
            fill_device(&mut *out, &attr);
            if D::ON_DEMAND {
                fill_odp(&mut *out, &attr);
            }
            (*out).kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY);
        }
        Ok(0)
    })
}

/// A number that the C side has as a signed or an unsigned integer, by the version of the kernel.
fn count<T: TryFrom<u32> + From<u8>>(value: u32) -> T {
    T::try_from(value.min(c_int::MAX.unsigned_abs())).unwrap_or_else(|_| T::from(0))
}

fn fill_device(out: &mut bindings::ib_device_attr, attr: &DeviceAttr) {
    out.fw_ver = attr.fw_ver;
    out.sys_image_guid = attr.sys_image_guid.to_be();
    out.max_mr_size = attr.max_mr_size;
    out.page_size_cap = attr.page_size_cap;
    out.vendor_id = attr.vendor_id;
    out.vendor_part_id = attr.vendor_part_id;
    out.hw_ver = attr.hw_ver;
    out.max_qp = count(attr.max_qp);
    out.max_qp_wr = count(attr.max_qp_wr);
    out.device_cap_flags = attr.caps.bits();
    out.kernel_cap_flags = u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
    out.max_send_sge = count(attr.max_send_sge);
    out.max_recv_sge = count(attr.max_recv_sge);
    out.max_sge_rd = count(attr.max_sge_rd);
    out.max_cq = count(attr.max_cq);
    out.max_cqe = count(attr.max_cqe);
    out.max_mr = count(attr.max_mr);
    out.max_pd = count(attr.max_pd);
    out.max_qp_rd_atom = count(attr.max_qp_rd_atom);
    out.max_res_rd_atom = count(attr.max_res_rd_atom);
    out.max_qp_init_rd_atom = count(attr.max_qp_init_rd_atom);
    out.atomic_cap = attr.atomic_cap.raw();
    out.max_mw = count(attr.max_mw);
    out.max_mcast_grp = count(attr.max_mcast_grp);
    out.max_mcast_qp_attach = count(attr.max_mcast_qp_attach);
    out.max_total_mcast_qp_attach = count(attr.max_total_mcast_qp_attach);
    out.max_ah = count(attr.max_ah);
    out.max_srq = count(attr.max_srq);
    out.max_srq_wr = count(attr.max_srq_wr);
    out.max_srq_sge = count(attr.max_srq_sge);
    out.max_fast_reg_page_list_len = attr.max_fast_reg_page_list_len;
    out.max_pkeys = attr.max_pkeys;
    out.local_ca_ack_delay = attr.local_ca_ack_delay;
}

/// What is different on a device that has memory whose pages come and go.
fn fill_odp(out: &mut bindings::ib_device_attr, attr: &DeviceAttr) {
    out.kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING);
    out.odp_caps.general_caps = u64::from(bindings::ib_odp_general_cap_bits_IB_ODP_SUPPORT);
    let caps = &mut out.odp_caps.per_transport_caps;
    caps.rc_odp_caps = attr.rc_odp.bits();
    caps.uc_odp_caps = attr.uc_odp.bits();
    caps.ud_odp_caps = attr.ud_odp.bits();
}

/// From a task or a worker; asked to be quick.
///
/// # Safety
///
/// Called by ib_core for a port of a device of `D`, with room for the answer, which is zeroed.
pub(super) unsafe extern "C" fn query_port<D: Driver>(
    dev: *mut bindings::ib_device,
    port: u32,
    out: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        let attr = D::query_port(cx, &state.handle, port)?;
        // SAFETY: Nobody else uses the answer during the call.
        let out = unsafe { &mut *out };
        fill_port(out, &attr);
        // SAFETY: ib_core has checked the port, and asks for such attributes alone once it has room for ports.
        let room = unsafe { bindings::sib_helper_ib_gid_tbl_len(dev, port) };
        // ib_core does not compare this with what it was told first.
        out.gid_tbl_len = out.gid_tbl_len.min(room);
        Ok(0)
    })
}

fn fill_port(out: &mut bindings::ib_port_attr, attr: &PortAttr) {
    out.subnet_prefix = attr.subnet_prefix;
    out.state = attr.state.raw();
    out.phys_state = attr.phys_state.raw() as u8;
    out.max_mtu = attr.max_mtu.raw();
    out.active_mtu = attr.active_mtu.raw();
    out.phys_mtu = attr.active_mtu.bytes();
    out.gid_tbl_len = c_int::from(attr.gid_tbl_len);
    out.pkey_tbl_len = attr.pkey_tbl_len;
    out.port_cap_flags = attr.port_cap_flags;
    out.port_cap_flags2 = attr.port_cap_flags2;
    out.max_msg_sz = attr.max_msg_sz;
    out.bad_pkey_cntr = attr.bad_pkey_cntr;
    out.qkey_viol_cntr = attr.qkey_viol_cntr;
    out.lid = u32::from(attr.lid);
    // ib_core shifts by it.
    out.lmc = attr.lmc.min(MAX_LMC);
    out.sm_lid = u32::from(attr.sm_lid);
    out.sm_sl = attr.sm_sl;
    out.max_vl_num = attr.max_vl_num;
    out.subnet_timeout = attr.subnet_timeout;
    out.init_type_reply = attr.init_type_reply;
    out.active_width = attr.active_width;
    out.active_speed = attr.active_speed;
}

/// In a task that may sleep, during the registration.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with room for the answer.
pub(super) unsafe extern "C" fn get_port_immutable<D: Driver>(
    dev: *mut bindings::ib_device,
    port: u32,
    out: *mut bindings::ib_port_immutable,
) -> c_int {
    from_result(|| {
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        let immutable = D::port_immutable(&state.handle, port)?;
        // SAFETY: Nobody else uses the answer during the call.
        let out = unsafe { &mut *out };
        out.pkey_tbl_len = c_int::from(immutable.pkey_tbl_len);
        out.gid_tbl_len = c_int::from(immutable.gid_tbl_len);
        out.core_cap_flags = bindings::RDMA_CORE_PORT_IBA_IB;
        out.max_mad_size = bindings::IB_MGMT_MAD_SIZE;
        Ok(0)
    })
}

/// In any context.
///
/// # Safety
///
/// Called by ib_core.
pub(super) unsafe extern "C" fn get_link_layer(
    _dev: *mut bindings::ib_device,
    _port: u32,
) -> bindings::rdma_link_layer {
    bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
}

/// From a task or a worker; asked to be quick.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with room for the answer.
pub(super) unsafe extern "C" fn query_gid<D: Driver>(
    dev: *mut bindings::ib_device,
    port: u32,
    index: c_int,
    out: *mut bindings::ib_gid,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        let index = u32::try_from(index).map_err(|_| EINVAL)?;
        let gid = D::query_gid(cx, &state.handle, port, index)?;
        // SAFETY: Nobody else uses the answer during the call.
        unsafe { out.write(gid_from(gid)) };
        Ok(0)
    })
}

/// From a task or a worker; asked to be quick.
///
/// # Safety
///
/// Called by ib_core for a device of `D`, with room for the answer.
pub(super) unsafe extern "C" fn query_pkey<D: Driver>(
    dev: *mut bindings::ib_device,
    port: u32,
    index: u16,
    out: *mut u16,
) -> c_int {
    // SAFETY: Entered from ib_core.
    let cx = unsafe { any_context() };
    from_result(|| {
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        let pkey = D::query_pkey(cx, &state.handle, port, index)?;
        // SAFETY: Nobody else uses the answer during the call.
        unsafe { out.write(pkey) };
        Ok(0)
    })
}

/// In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a device of `D`.
pub(super) unsafe extern "C" fn modify_port<D: Driver>(
    dev: *mut bindings::ib_device,
    port: u32,
    mask: c_int,
    modify: *mut bindings::ib_port_modify,
) -> c_int {
    const KNOWN: u32 = bindings::ib_port_modify_flags_IB_PORT_SHUTDOWN
        | bindings::ib_port_modify_flags_IB_PORT_INIT_TYPE
        | bindings::ib_port_modify_flags_IB_PORT_RESET_QKEY_CNTR;

    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        let mask = mask as u32;
        if mask & !KNOWN != 0 {
            return Err(unsupported());
        }
        // SAFETY: ib_core lends the request for the call.
        let modify = unsafe { &*modify };
        let init_type = mask & bindings::ib_port_modify_flags_IB_PORT_INIT_TYPE != 0;
        let change = PortModify {
            set_caps: PortCaps::from_bits(modify.set_port_cap_mask),
            clear_caps: PortCaps::from_bits(modify.clr_port_cap_mask),
            shutdown: mask & bindings::ib_port_modify_flags_IB_PORT_SHUTDOWN != 0,
            init_type: init_type.then_some(modify.init_type),
            reset_qkey_counter: mask & bindings::ib_port_modify_flags_IB_PORT_RESET_QKEY_CNTR != 0,
        };
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        // ib_cm leaves a device alone which does not let it say that it is there.
        let of_manager =
            change.set_caps.contains(PortCaps::CM) || change.clear_caps.contains(PortCaps::CM);
        if of_manager && D::is_dedicated(&state.handle) {
            return Err(unsupported());
        }
        D::modify_port(cx, s, &state.handle, port, &change)?;
        Ok(0)
    })
}

/// In a task that may sleep: somebody wrote to the attribute in sysfs.
///
/// # Safety
///
/// Called by ib_core for a device of `D`.
pub(super) unsafe extern "C" fn modify_device<D: Driver>(
    dev: *mut bindings::ib_device,
    mask: c_int,
    modify: *mut bindings::ib_device_modify,
) -> c_int {
    const NODE_DESC: u32 = bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC;

    // SAFETY: The operation may sleep.
    let (cx, s) = unsafe { task() };
    from_result(|| {
        if mask as u32 & !NODE_DESC != 0 {
            return Err(unsupported());
        }
        if mask as u32 & NODE_DESC == 0 {
            return Ok(0);
        }
        // SAFETY: ib_core lends the request for the call.
        let desc = unsafe { (*modify).node_desc };
        // SAFETY: The device has its value from before the registration until it is removed.
        let state = unsafe { DeviceObj::<D>::get(dev) };
        D::modify_device(cx, s, &state.handle, &desc)?;
        // SAFETY: The field is plain text that sysfs and netlink copy, without a lock, like other drivers.
        unsafe { (*dev).node_desc = (*modify).node_desc };
        Ok(0)
    })
}

/// In a task: somebody reads the attribute.
///
/// # Safety
///
/// Called by ib_core for a device, with room for [`FW_STR_LEN`] bytes.
pub(super) unsafe extern "C" fn get_dev_fw_str(dev: *mut bindings::ib_device, out: *mut c_char) {
    // SAFETY: The attributes are cached before the device can be seen, and do not change.
    let version = unsafe { (*dev).attrs.fw_ver };
    let major = (version >> 32) & 0xffff;
    let minor = (version >> 16) & 0xffff;
    let sub = version & 0xffff;
    let mut text = [0; FW_STR_LEN];
    if let Some(mut text) = NullTerminatedFormatter::new(&mut text) {
        // What does not fit is cut off.
        let _ = core::fmt::Write::write_fmt(&mut text, format_args!("{major}.{minor}.{sub}"));
    }
    // SAFETY: There is room for that many bytes, which nobody else uses during the call.
    unsafe { out.cast::<[u8; FW_STR_LEN]>().write(text) };
}

/// In a task that may sleep: the device has been removed, or its registration has failed.
///
/// # Safety
///
/// Called by ib_core once for a device of `D` that got its value, when no other call is under way or to
/// come.
pub(super) unsafe extern "C" fn dealloc_driver<D: Driver>(dev: *mut bindings::ib_device) {
    // SAFETY: The operation may sleep.
    let (mut cx, s) = unsafe { task() };
    // SAFETY: The device has its value, and nobody uses it any more.
    let state = unsafe { DeviceObj::<D>::take(dev) };
    D::removed(cx.reborrow(), s, &state.handle);
    state.link.close(&mut cx, s);
}
