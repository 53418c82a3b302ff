// SPDX-License-Identifier: GPL-2.0

//! Attributes of ports.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h). Meaning: IBA, "PortInfo".

use super::flags::{
    c_enum,
    flag_set, //
};
use sib_bindings as bindings;

c_enum! {
    /// The logical state of a port.
    pub enum PortState(u32) {
        /// No link.
        Down = bindings::ib_port_state_IB_PORT_DOWN,
        /// The link is up; a subnet manager has yet to configure the port.
        Init = bindings::ib_port_state_IB_PORT_INIT,
        /// Configured, but closed to data.
        Armed = bindings::ib_port_state_IB_PORT_ARMED,
        /// Open to data.
        Active = bindings::ib_port_state_IB_PORT_ACTIVE,
    }
}

c_enum! {
    /// The physical state of a port.
    pub enum PhysState(u32) {
        /// Not driven.
        Sleep = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_SLEEP,
        /// Looking for a peer.
        Polling = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING,
        /// Switched off.
        Disabled = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED,
        /// Training with a peer.
        Training = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING,
        /// The link is up.
        LinkUp = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP,
        /// Recovering from errors.
        Recovery = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_ERROR_RECOVERY,
        /// Under test.
        PhyTest = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_PHY_TEST,
    }
}

c_enum! {
    /// A path MTU, as the IBA encodes it.
    pub enum Mtu(u32) {
        /// 256 bytes.
        Mtu256 = bindings::ib_mtu_IB_MTU_256,
        /// 512 bytes.
        Mtu512 = bindings::ib_mtu_IB_MTU_512,
        /// 1024 bytes.
        Mtu1024 = bindings::ib_mtu_IB_MTU_1024,
        /// 2048 bytes.
        Mtu2048 = bindings::ib_mtu_IB_MTU_2048,
        /// 4096 bytes.
        Mtu4096 = bindings::ib_mtu_IB_MTU_4096,
    }
}

impl Mtu {
    /// The MTU in bytes.
    pub const fn bytes(self) -> u32 {
        128u32.wrapping_shl(self.raw())
    }
}

/// What `query_port` answers.
///
/// `subnet_prefix` must be filled in, in host order: ib_core derives it wrongly when the GID table has
/// empty entries.
#[derive(Clone, Debug)]
pub struct PortAttr {
    /// The subnet prefix of the port, in host order.
    pub subnet_prefix: u64,
    /// The logical state.
    pub state: PortState,
    /// The physical state.
    pub phys_state: PhysState,
    /// The largest MTU that the port supports.
    pub max_mtu: Mtu,
    /// The MTU in force, NeighborMTU.
    pub active_mtu: Mtu,
    /// Entries of the GID table.
    pub gid_tbl_len: u16,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// CapabilityMask.
    pub port_cap_flags: u32,
    /// CapabilityMask2.
    pub port_cap_flags2: u16,
    /// The largest message, in bytes.
    pub max_msg_sz: u32,
    /// P_KeyViolations.
    pub bad_pkey_cntr: u32,
    /// Q_KeyViolations.
    pub qkey_viol_cntr: u32,
    /// The base LID.
    pub lid: u16,
    /// The LID mask control, 0 to 7.
    pub lmc: u8,
    /// The LID of the master subnet manager.
    pub sm_lid: u16,
    /// The service level towards the master subnet manager.
    pub sm_sl: u8,
    /// VLCap, as the IBA encodes it.
    pub max_vl_num: u8,
    /// SubnetTimeOut, as the IBA encodes it.
    pub subnet_timeout: u8,
    /// InitTypeReply.
    pub init_type_reply: u8,
    /// LinkWidthActive.
    pub active_width: u8,
    /// The active speed, one of `enum ib_port_speed`.
    pub active_speed: u16,
}

/// What never changes while the device is registered, per port.
///
/// The bridge adds that the port speaks InfiniBand, with MADs of 256 bytes.
#[derive(Clone, Copy, Debug)]
pub struct PortImmutable {
    /// Entries of the GID table.
    pub gid_tbl_len: u16,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
}

flag_set! {
    /// Bits of CapabilityMask that clients of ib_core set and clear.
    pub struct PortCaps(u32) {
        /// A subnet manager runs on the port, `IB_PORT_SM`.
        SM = bindings::ib_port_capability_mask_bits_IB_PORT_SM,
        /// An SNMP agent runs on the port.
        SNMP_TUNNEL = bindings::ib_port_capability_mask_bits_IB_PORT_SNMP_TUNNEL_SUP,
        /// A communication manager runs on the port.
        CM = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP,
        /// Device management runs on the port.
        DEVICE_MGMT = bindings::ib_port_capability_mask_bits_IB_PORT_DEVICE_MGMT_SUP,
        /// A vendor class runs on the port.
        VENDOR_CLASS = bindings::ib_port_capability_mask_bits_IB_PORT_VENDOR_CLASS_SUP,
    }
}

/// A change of a port, wanted by a client of ib_core.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortModify {
    /// Capabilities to set.
    pub set_caps: PortCaps,
    /// Capabilities to clear.
    pub clear_caps: PortCaps,
    /// Shut the port down.
    pub shutdown: bool,
    /// The new InitType.
    pub init_type: Option<u8>,
    /// Set Q_KeyViolations to zero.
    pub reset_qkey_counter: bool,
}
