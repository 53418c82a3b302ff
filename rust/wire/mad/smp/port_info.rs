// SPDX-License-Identifier: GPL-2.0

//! PortInfo: the state and the abilities of a port (IBA "PortInfo").

use super::{
    attr,
    smp_attribute, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Lid,
    PortNum,
    Sl, //
};

attribute! {
    /// All of a port. For a switch the attribute modifier is the port.
    ///
    /// In a Set, zero in the state and "enabled" fields means no change. Reserved values come through as they
    /// are, for the management agent to refuse.
    pub struct PortInfo [64] {
        /// Protects the port from strangers' management packets.
        mkey: u64 = 0, 64;
        /// The upper half of the port's GIDs.
        gid_prefix: u64 = 64, 64;
        /// The first of the port's LIDs.
        lid: Lid = 128, 16;
        /// The master subnet manager.
        master_sm_lid: Lid = 144, 16;
        /// What the port can do: [`cap`].
        capability_mask: u32 = 160, 32;
        /// 0 when all is well.
        diag_code: u16 = 192, 16;
        /// Seconds until the M_Key loses its protection after a violation; 0: never.
        mkey_lease_period: u16 = 208, 16;
        /// The port by which the packet came in.
        local_port: PortNum = 224, 8;
        /// Link widths in use: [`width`].
        link_width_enabled: u8 = 232, 8;
        /// Link widths that the port can.
        link_width_supported: u8 = 240, 8;
        /// Link width now.
        link_width_active: u8 = 248, 8;
        /// Link speeds that the port can: [`speed`].
        link_speed_supported: u8 = 256, 4;
        /// A [`PortState`].
        port_state: u8 = 260, 4;
        /// A [`PhysState`].
        phys_state: u8 = 264, 4;
        /// The [`PhysState`] after an error: Sleep or Polling.
        link_down_default_state: u8 = 268, 4;
        /// What the M_Key protects (2 bits).
        mkey_protect_bits: u8 = 272, 2;
        /// LID mask control: the port has `1 << lmc` LIDs (3 bits).
        lmc: u8 = 277, 3;
        /// Link speed now.
        link_speed_active: u8 = 280, 4;
        /// Link speeds in use.
        link_speed_enabled: u8 = 284, 4;
        /// Code of the [`Mtu`](crate::types::Mtu) of the link.
        neighbor_mtu: u8 = 288, 4;
        /// Service level to the subnet manager.
        master_sm_sl: Sl = 292, 4;
        /// Data lanes that the port has: 1 for 1, 2 for 2, 3 for 4, 4 for 8, 5 for 15.
        vl_cap: u8 = 296, 4;
        /// What the port wants of the subnet manager when it comes up.
        init_type: u8 = 300, 4;
        /// Turns of high priority in units of 4096 bytes.
        vl_high_limit: u8 = 304, 8;
        /// Entries of the high-priority arbitration table.
        vl_arb_high_cap: u8 = 312, 8;
        /// Entries of the low-priority arbitration table.
        vl_arb_low_cap: u8 = 320, 8;
        /// What the port got of what it wanted.
        init_type_reply: u8 = 328, 4;
        /// Code of the largest [`Mtu`](crate::types::Mtu) of the port.
        mtu_cap: u8 = 332, 4;
        /// Packets dropped in a row before a lane counts as stalled (3 bits).
        vl_stall_count: u8 = 336, 3;
        /// How long a packet may be the head of a queue, as an exponent of 4.096 us (5 bits).
        hoq_life: u8 = 339, 5;
        /// Data lanes in use; coded as `vl_cap`.
        operational_vls: u8 = 344, 4;
        /// The external port of a switch checks P_Keys of packets that come in.
        partition_enforcement_inbound: bool = 348, 1;
        /// The external port of a switch checks P_Keys of packets that go out.
        partition_enforcement_outbound: bool = 349, 1;
        /// The external port of a switch drops raw packets that come in.
        filter_raw_inbound: bool = 350, 1;
        /// The external port of a switch drops raw packets that go out.
        filter_raw_outbound: bool = 351, 1;
        /// Management packets with a bad M_Key.
        mkey_violations: u16 = 352, 16;
        /// Packets with a bad P_Key.
        pkey_violations: u16 = 368, 16;
        /// Packets with a bad Q_Key.
        qkey_violations: u16 = 384, 16;
        /// Entries of the GUIDInfo table.
        guid_cap: u8 = 400, 8;
        /// Asks the node to register anew with subnet administration.
        client_reregister: bool = 408, 1;
        /// Which P_Key traps of multicast packets are withheld (2 bits).
        multicast_pkey_trap_suppression: u8 = 409, 2;
        /// Time through the subnet, as an exponent of 4.096 us (5 bits).
        subnet_timeout: u8 = 411, 5;
        /// Time of the port to answer, as an exponent of 4.096 us (5 bits).
        resp_time: u8 = 419, 5;
        /// Threshold of local physical errors.
        local_phy_errors: u8 = 424, 4;
        /// Threshold of overrun errors.
        overrun_errors: u8 = 428, 4;
        /// Largest number of credits to offer, in units of 64 bytes; 0: no limit.
        max_credit_hint: u16 = 432, 16;
        /// Time to the other end and back, in units of 4 ns (24 bits).
        link_round_trip_latency: u32 = 456, 24;
        /// What else the port can do: [`cap2`].
        capability_mask2: u16 = 480, 16;
        /// Extended link speed now: [`speed_ext`].
        link_speed_ext_active: u8 = 496, 4;
        /// Extended link speeds that the port can.
        link_speed_ext_supported: u8 = 500, 4;
        /// Extended link speeds in use (5 bits).
        link_speed_ext_enabled: u8 = 507, 5;
    }
}
smp_attribute!(PortInfo = attr::PORT_INFO);

/// Logical state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PortState {
    /// In a Set: leave it.
    NoChange = 0,
    /// No link.
    #[default]
    Down = 1,
    /// Link; only management packets pass.
    Init = 2,
    /// The subnet manager has set the port up.
    Armed = 3,
    /// All packets pass.
    Active = 4,
}

impl PortState {
    /// The state of a code; `None` for a reserved one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::NoChange),
            1 => Some(Self::Down),
            2 => Some(Self::Init),
            3 => Some(Self::Armed),
            4 => Some(Self::Active),
            _ => None,
        }
    }
}

/// Physical state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PhysState {
    /// In a Set: leave it.
    NoChange = 0,
    /// Off, listening.
    Sleep = 1,
    /// Looking for the other end.
    #[default]
    Polling = 2,
    /// Off.
    Disabled = 3,
    /// Agreeing with the other end.
    Training = 4,
    /// Up.
    LinkUp = 5,
    /// Agreeing anew after errors.
    LinkErrorRecovery = 6,
    /// Sending test patterns.
    PhyTest = 7,
}

impl PhysState {
    /// The state of a code; `None` for a reserved one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::NoChange),
            1 => Some(Self::Sleep),
            2 => Some(Self::Polling),
            3 => Some(Self::Disabled),
            4 => Some(Self::Training),
            5 => Some(Self::LinkUp),
            6 => Some(Self::LinkErrorRecovery),
            7 => Some(Self::PhyTest),
            _ => None,
        }
    }
}

/// Bits of [`PortInfo::capability_mask`].
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod cap {
    pub const SM: u32 = 1 << 1;
    pub const NOTICE: u32 = 1 << 2;
    pub const TRAP: u32 = 1 << 3;
    pub const OPTIONAL_IPD: u32 = 1 << 4;
    pub const AUTOMATIC_MIGRATION: u32 = 1 << 5;
    pub const SL_MAPPING: u32 = 1 << 6;
    pub const MKEY_NVRAM: u32 = 1 << 7;
    pub const PKEY_NVRAM: u32 = 1 << 8;
    pub const LED_INFO: u32 = 1 << 9;
    pub const SM_DISABLED: u32 = 1 << 10;
    pub const SYSTEM_IMAGE_GUID: u32 = 1 << 11;
    pub const PKEY_SWITCH_EXTERNAL_PORT_TRAP: u32 = 1 << 12;
    pub const EXTENDED_SPEEDS: u32 = 1 << 14;
    pub const CAPABILITY_MASK2: u32 = 1 << 15;
    pub const COMMUNICATION_MANAGEMENT: u32 = 1 << 16;
    pub const SNMP_TUNNELING: u32 = 1 << 17;
    pub const REINIT: u32 = 1 << 18;
    pub const DEVICE_MANAGEMENT: u32 = 1 << 19;
    pub const VENDOR_CLASS: u32 = 1 << 20;
    pub const DR_NOTICE: u32 = 1 << 21;
    pub const CAPABILITY_MASK_NOTICE: u32 = 1 << 22;
    pub const BOOT_MANAGEMENT: u32 = 1 << 23;
    pub const LINK_ROUND_TRIP_LATENCY: u32 = 1 << 24;
    pub const CLIENT_REREGISTRATION: u32 = 1 << 25;
    pub const OTHER_LOCAL_CHANGES_NOTICE: u32 = 1 << 26;
    pub const LINK_SPEED_WIDTH_PAIRS_TABLE: u32 = 1 << 27;
    pub const VENDOR_SPECIFIC_MADS_TABLE: u32 = 1 << 28;
    pub const MULTICAST_PKEY_TRAP_SUPPRESSION: u32 = 1 << 29;
    pub const MULTICAST_FDB_TOP: u32 = 1 << 30;
    pub const HIERARCHY_INFO: u32 = 1 << 31;
}

/// Bits of [`PortInfo::capability_mask2`].
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod cap2 {
    pub const SET_NODE_DESCRIPTION: u16 = 1 << 0;
    pub const PORT_INFO_EXTENDED: u16 = 1 << 1;
    pub const VIRTUALIZATION: u16 = 1 << 2;
    pub const SWITCH_PORT_STATE_TABLE: u16 = 1 << 3;
    pub const LINK_WIDTH_2X: u16 = 1 << 4;
    pub const LINK_SPEED_HDR: u16 = 1 << 5;
}

/// Link widths.
#[allow(missing_docs, reason = "the names say it")]
pub mod width {
    pub const X1: u8 = 1 << 0;
    pub const X4: u8 = 1 << 1;
    pub const X8: u8 = 1 << 2;
    pub const X12: u8 = 1 << 3;
    pub const X2: u8 = 1 << 4;
    /// In a Set of the enabled widths: all supported ones.
    pub const SUPPORTED: u8 = 0xff;
}

/// Link speeds per lane.
pub mod speed {
    /// 2.5 Gb/s.
    pub const SDR: u8 = 1 << 0;
    /// 5 Gb/s.
    pub const DDR: u8 = 1 << 1;
    /// 10 Gb/s.
    pub const QDR: u8 = 1 << 2;
    /// In a Set of the enabled speeds: all supported ones.
    pub const SUPPORTED: u8 = 0xf;
}

/// Extended link speeds per lane.
pub mod speed_ext {
    /// 14.0625 Gb/s.
    pub const FDR: u8 = 1 << 0;
    /// 25.78125 Gb/s.
    pub const EDR: u8 = 1 << 1;
    /// 53.125 Gb/s.
    pub const HDR: u8 = 1 << 2;
    /// 106.25 Gb/s.
    pub const NDR: u8 = 1 << 3;
    /// In a Set of the enabled speeds: no extended speed.
    pub const DISABLED: u8 = 0x1e;
    /// In a Set of the enabled speeds: all supported ones.
    pub const SUPPORTED: u8 = 0x1f;
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_port_info))]
mod tests {
    use super::*;
    use crate::mad::smp::{
        Attribute,
        DATA_LEN, //
    };

    /// Every field has another value, and each bit of the layout belongs to one of them.
    const BYTES: [u8; DATA_LEN] = [
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // M_Key
        0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, // GidPrefix
        0x00, 0x11, 0x00, 0x12, // LID, MasterSMLID
        0x02, 0x51, 0x48, 0x6a, // CapabilityMask
        0x00, 0x13, 0x00, 0x14, // DiagCode, M_KeyLeasePeriod
        0x01, 0x03, 0x0b, 0x02, // LocalPortNum, LinkWidth Enabled, Supported, Active
        0x74, 0x52, // SpeedSupported | PortState, PhysState | DownDefault
        0x42, 0x43, // ProtectBits | LMC, SpeedActive | SpeedEnabled
        0x51, 0x32, // NeighborMTU | MasterSMSL, VLCap | InitType
        0x21, 0x22, 0x23, // VLHighLimit, VLArbitrationHighCap, LowCap
        0x35, // InitTypeReply | MTUCap
        0xf2, 0x1a, // VLStallCount | HOQLife, OperationalVLs | enforcement
        0x00, 0x31, 0x00, 0x32, 0x00, 0x33, // violations
        0x20, // GUIDCap
        0xd2, // ClientReregister | suppression | SubnetTimeOut
        0x13, 0x8f, // RespTimeValue, LocalPhyErrors | OverrunErrors
        0x41, 0x42, 0x00, 0x51, 0x52, 0x53, // MaxCreditHint, LinkRoundTripLatency
        0x00, 0x01, 0x21, 0x1f, // CapabilityMask2, extended speeds
    ];

    #[test]
    fn known_bytes() {
        let info = PortInfo {
            mkey: 0x0102_0304_0506_0708,
            gid_prefix: 0xfe80_0000_0000_0001,
            lid: Lid::new(0x11),
            master_sm_lid: Lid::new(0x12),
            capability_mask: cap::TRAP
                | cap::SM
                | cap::AUTOMATIC_MIGRATION
                | cap::SL_MAPPING
                | cap::SYSTEM_IMAGE_GUID
                | cap::EXTENDED_SPEEDS
                | cap::COMMUNICATION_MANAGEMENT
                | cap::VENDOR_CLASS
                | cap::CAPABILITY_MASK_NOTICE
                | cap::CLIENT_REREGISTRATION,
            diag_code: 0x13,
            mkey_lease_period: 0x14,
            local_port: PortNum::new(1),
            link_width_enabled: width::X1 | width::X4,
            link_width_supported: width::X1 | width::X4 | width::X12,
            link_width_active: width::X4,
            link_speed_supported: speed::SDR | speed::DDR | speed::QDR,
            port_state: PortState::Active as u8,
            phys_state: PhysState::LinkUp as u8,
            link_down_default_state: PhysState::Polling as u8,
            mkey_protect_bits: 1,
            lmc: 2,
            link_speed_active: speed::QDR,
            link_speed_enabled: speed::SDR | speed::DDR,
            neighbor_mtu: 5,
            master_sm_sl: Sl::new(1),
            vl_cap: 3,
            init_type: 2,
            vl_high_limit: 0x21,
            vl_arb_high_cap: 0x22,
            vl_arb_low_cap: 0x23,
            init_type_reply: 3,
            mtu_cap: 5,
            vl_stall_count: 7,
            hoq_life: 0x12,
            operational_vls: 1,
            partition_enforcement_inbound: true,
            partition_enforcement_outbound: false,
            filter_raw_inbound: true,
            filter_raw_outbound: false,
            mkey_violations: 0x31,
            pkey_violations: 0x32,
            qkey_violations: 0x33,
            guid_cap: 0x20,
            client_reregister: true,
            multicast_pkey_trap_suppression: 2,
            subnet_timeout: 0x12,
            resp_time: 0x13,
            local_phy_errors: 8,
            overrun_errors: 15,
            max_credit_hint: 0x4142,
            link_round_trip_latency: 0x51_5253,
            capability_mask2: cap2::SET_NODE_DESCRIPTION,
            link_speed_ext_active: speed_ext::EDR,
            link_speed_ext_supported: speed_ext::FDR,
            link_speed_ext_enabled: speed_ext::SUPPORTED,
        };
        assert_eq!(<PortInfo as Attribute>::parse(&BYTES), info);
        let mut out = [0xee; DATA_LEN];
        info.emit(&mut out);
        assert_eq!(out, BYTES);
    }

    #[test]
    fn states_round_trip() {
        for code in 0..=255 {
            if let Some(state) = PortState::from_code(code) {
                assert_eq!(state as u8, code);
            }
            if let Some(state) = PhysState::from_code(code) {
                assert_eq!(state as u8, code);
            }
        }
        assert_eq!(PortState::from_code(5), None);
        assert_eq!(PhysState::from_code(8), None);
    }
}
