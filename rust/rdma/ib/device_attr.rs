// SPDX-License-Identifier: GPL-2.0

//! Attributes of devices.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).

use super::flags::{
    c_enum,
    flag_set, //
};
use sib_bindings as bindings;

flag_set! {
    /// What a device can do, `enum ib_device_cap_flags`.
    pub struct DeviceCaps(u64) {
        /// Bad P_Key counter, per port.
        BAD_PKEY_CNTR = bindings::ib_device_cap_flags_IB_DEVICE_BAD_PKEY_CNTR,
        /// Bad Q_Key counter, per port.
        BAD_QKEY_CNTR = bindings::ib_device_cap_flags_IB_DEVICE_BAD_QKEY_CNTR,
        /// Automatic path migration.
        AUTO_PATH_MIG = bindings::ib_device_cap_flags_IB_DEVICE_AUTO_PATH_MIG,
        /// Changing the port of a primary path.
        CHANGE_PHY_PORT = bindings::ib_device_cap_flags_IB_DEVICE_CHANGE_PHY_PORT,
        /// UD address handles are checked against the port.
        UD_AV_PORT_ENFORCE = bindings::ib_device_cap_flags_IB_DEVICE_UD_AV_PORT_ENFORCE,
        /// `modify_qp` may name the current state.
        CURR_QP_STATE_MOD = bindings::ib_device_cap_flags_IB_DEVICE_CURR_QP_STATE_MOD,
        /// Ports can be shut down.
        SHUTDOWN_PORT = bindings::ib_device_cap_flags_IB_DEVICE_SHUTDOWN_PORT,
        /// Port active event.
        PORT_ACTIVE_EVENT = bindings::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT,
        /// The system image GUID is known.
        SYS_IMAGE_GUID = bindings::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID,
        /// RNR NAKs are generated for RC.
        RC_RNR_NAK_GEN = bindings::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN,
        /// Shared receive queues can be resized.
        SRQ_RESIZE = bindings::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE,
        /// A notification for so many completions can be asked for. ib_core has no verb for it.
        N_NOTIFY_CQ = bindings::ib_device_cap_flags_IB_DEVICE_N_NOTIFY_CQ,
        /// Memory windows of type 1.
        MEM_WINDOW = bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW,
        /// Fast registration, local and remote invalidate.
        MEM_MGT_EXTENSIONS = bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS,
        /// Memory windows of type 2B.
        MEM_WINDOW_TYPE_2B = bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B,
        /// FLUSH to global visibility.
        FLUSH_GLOBAL = bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL,
        /// FLUSH to persistence.
        FLUSH_PERSISTENT = bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_PERSISTENT,
        /// ATOMIC WRITE.
        ATOMIC_WRITE = bindings::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE,
    }
}

flag_set! {
    /// What a transport does with memory whose pages come and go, `enum ib_odp_transport_cap_bits`.
    pub struct OdpCaps(u32) {
        /// SEND, from there.
        SEND = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND,
        /// Receives.
        RECV = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV,
        /// RDMA WRITE, from there and to there.
        WRITE = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE,
        /// RDMA READ.
        READ = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ,
        /// Atomic operations.
        ATOMIC = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC,
        /// Receives of a shared receive queue.
        SRQ_RECV = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV,
        /// FLUSH.
        FLUSH = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH,
        /// ATOMIC WRITE.
        ATOMIC_WRITE = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE,
    }
}

c_enum! {
    /// Which accesses the atomic operations of a device are atomic to.
    pub enum AtomicCap(u32) {
        /// No atomic operations.
        None = bindings::ib_atomic_cap_IB_ATOMIC_NONE,
        /// Atomic to other operations of the same device.
        Hca = bindings::ib_atomic_cap_IB_ATOMIC_HCA,
        /// Atomic to the processors and other devices too.
        Global = bindings::ib_atomic_cap_IB_ATOMIC_GLOB,
    }
}

/// What `query_device` answers.
///
/// The bridge adds the kernel's own capability flags: removal with users, and the local DMA key.
#[derive(Clone, Debug)]
pub struct DeviceAttr {
    /// Firmware version: major in bits 47:32, minor in 31:16, sub-minor in 15:0.
    pub fw_ver: u64,
    /// The GUID of the system, in host order.
    pub sys_image_guid: u64,
    /// The largest memory region, in bytes.
    pub max_mr_size: u64,
    /// A mask of the page sizes.
    pub page_size_cap: u64,
    /// The IEEE vendor number.
    pub vendor_id: u32,
    /// The vendor's part number.
    pub vendor_part_id: u32,
    /// The hardware version.
    pub hw_ver: u32,
    /// Capabilities.
    pub caps: DeviceCaps,
    /// What reliable connections do with memory whose pages come and go.
    pub rc_odp: OdpCaps,
    /// The same of unreliable connections.
    pub uc_odp: OdpCaps,
    /// The same of datagrams.
    pub ud_odp: OdpCaps,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests of one work queue.
    pub max_qp_wr: u32,
    /// Gather entries of a send.
    pub max_send_sge: u32,
    /// Scatter entries of a receive.
    pub max_recv_sge: u32,
    /// Scatter entries of an RDMA READ.
    pub max_sge_rd: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of one completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// RDMA READs and atomics that a queue pair serves at a time.
    pub max_qp_rd_atom: u32,
    /// The same for all queue pairs together.
    pub max_res_rd_atom: u32,
    /// RDMA READs and atomics that a queue pair initiates at a time.
    pub max_qp_init_rd_atom: u32,
    /// What atomic operations are atomic to.
    pub atomic_cap: AtomicCap,
    /// Memory windows.
    pub max_mw: u32,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// Queue pairs of one multicast group.
    pub max_mcast_qp_attach: u32,
    /// Attachments to multicast groups.
    pub max_total_mcast_qp_attach: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Work requests of one shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter entries of a work request of a shared receive queue.
    pub max_srq_sge: u32,
    /// Pages of one fast registration.
    pub max_fast_reg_page_list_len: u32,
    /// Entries of the largest P_Key table.
    pub max_pkeys: u16,
    /// LocalCAACKDelay: 4.096 µs · 2^n.
    pub local_ca_ack_delay: u8,
}
