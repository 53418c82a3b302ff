// SPDX-License-Identifier: GPL-2.0

//! The state of one port behind PortInfo (IBA chapter "Subnet Management", attribute PortInfo).

mod events;
mod info;

pub use events::{
    PortEvent,
    PortEvents, //
};
pub(super) use info::InvalidField;
pub use info::PortChange;

use super::link::{
    Link,
    LinkState,
    Phy,
    PhysState, //
};
use super::mkey::MKey;
use wire::mad::smp::cap;
use wire::{
    Gid,
    Lid,
    Mtu,
    Sl, //
};

/// What a port belongs to; it decides which components of PortInfo it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortKind {
    /// A port of a channel adapter.
    #[default]
    Ca,
    /// Base port 0 of a switch: addresses and the M_Key, no link.
    SwitchManagement,
    /// Another port of a switch: a link, no addresses.
    SwitchExternal,
}

/// What every port of a channel adapter here can do. Who manages communication there says so itself.
const CA_CAPS: u32 = cap::TRAP
    | cap::AUTOMATIC_MIGRATION
    | cap::SL_MAPPING
    | cap::LED_INFO
    | cap::SYSTEM_IMAGE_GUID
    | cap::EXTENDED_SPEEDS
    | cap::CAPABILITY_MASK_NOTICE
    | cap::CLIENT_REREGISTRATION
    | cap::OTHER_LOCAL_CHANGES_NOTICE;

/// What a switch here can do.
const SWITCH_CAPS: u32 = cap::TRAP
    | cap::SL_MAPPING
    | cap::LED_INFO
    | cap::SYSTEM_IMAGE_GUID
    | cap::PKEY_SWITCH_EXTERNAL_PORT_TRAP
    | cap::EXTENDED_SPEEDS
    | cap::CAPABILITY_MASK_NOTICE
    | cap::OTHER_LOCAL_CHANGES_NOTICE;

/// VLCap code of a port: eight data lanes, VL0 to VL7.
const VL_CAP: u8 = 4;

/// SubnetTimeOut of a port that no subnet manager has reached: 4.096 us << 18, about a second.
const SUBNET_TIMEOUT: u8 = 18;

/// The attributes of one port.
#[derive(Clone, Copy, Debug)]
pub struct PortAttrs {
    kind: PortKind,
    link: Link,
    /// Where management wants the link that it has taken down, until the driver does so.
    ordered_phys: Option<PhysState>,
    mkey: MKey,
    gid_prefix: u64,
    lid: Lid,
    lmc: u8,
    sm_lid: Lid,
    sm_sl: Sl,
    cap_mask: u32,
    /// Those on this host that have said that they manage communication.
    comm_managers: u8,
    init_type_reply: u8,
    mtu_cap: Mtu,
    neighbor_mtu: Mtu,
    op_vls: u8,
    vl_high_limit: u8,
    vl_stall_count: u8,
    hoq_life: u8,
    subnet_timeout: u8,
    local_phy_errors: u8,
    overrun_errors: u8,
    enforce_in: bool,
    enforce_out: bool,
    pkey_violations: u16,
    qkey_violations: u16,
}

impl PortAttrs {
    /// A port that is down, with the values of power-up and `mtu_cap` as the largest MTU that its link
    /// will carry.
    pub const fn new(kind: PortKind, mtu_cap: Mtu) -> Self {
        Self {
            kind,
            link: Link::new(),
            ordered_phys: None,
            mkey: MKey::NONE,
            gid_prefix: Gid::DEFAULT_PREFIX,
            lid: Lid::NONE,
            lmc: 0,
            sm_lid: Lid::NONE,
            sm_sl: Sl::new(0),
            cap_mask: match kind {
                PortKind::Ca => CA_CAPS,
                PortKind::SwitchManagement => SWITCH_CAPS,
                PortKind::SwitchExternal => 0,
            },
            comm_managers: 0,
            init_type_reply: 0,
            mtu_cap,
            neighbor_mtu: mtu_cap,
            op_vls: VL_CAP,
            vl_high_limit: 0,
            vl_stall_count: 0,
            hoq_life: 0,
            subnet_timeout: SUBNET_TIMEOUT,
            local_phy_errors: 0,
            overrun_errors: 0,
            enforce_in: false,
            enforce_out: false,
            pkey_violations: 0,
            qkey_violations: 0,
        }
    }

    /// What the port belongs to.
    pub const fn kind(&self) -> PortKind {
        self.kind
    }

    /// The link of the port. Base port 0 of a switch has none that counts.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// The logical state; base port 0 of a switch is always Active.
    pub const fn state(&self) -> LinkState {
        match self.kind {
            PortKind::SwitchManagement => LinkState::Active,
            _ => self.link.state(),
        }
    }

    /// The physical state; base port 0 of a switch is always up.
    pub const fn phys(&self) -> PhysState {
        match self.kind {
            PortKind::SwitchManagement => PhysState::LinkUp,
            _ => self.link.phys(),
        }
    }

    /// The base LID; [`Lid::NONE`] until a subnet manager has set it.
    pub const fn lid(&self) -> Lid {
        self.lid
    }

    /// The LID mask control, 0 to 7: the port has `1 << lmc` LIDs.
    pub const fn lmc(&self) -> u8 {
        self.lmc
    }

    /// Whether `dlid` is one of the port's LIDs.
    pub const fn owns_lid(&self, dlid: Lid) -> bool {
        self.lid.is_unicast() && dlid.is_path_of(self.lid, self.lmc)
    }

    /// The LID of the master subnet manager; [`Lid::NONE`] until one has introduced itself.
    pub const fn sm_lid(&self) -> Lid {
        self.sm_lid
    }

    /// The service level for packets to the subnet manager.
    pub const fn sm_sl(&self) -> Sl {
        self.sm_sl
    }

    /// The subnet prefix of the port's GIDs.
    pub const fn gid_prefix(&self) -> u64 {
        self.gid_prefix
    }

    /// The capability mask ([`wire::mad::smp::cap`]).
    pub const fn cap_mask(&self) -> u32 {
        self.cap_mask
    }

    /// Changes bits of the capability mask by order of the local host. Returns whether the subnet manager is due a trap
    /// 144: not for the news that it runs, if it runs here.
    ///
    /// Managers of communication may be several. The bit stays until the last of them has cleared it.
    pub(super) fn change_cap_mask(&mut self, set: u32, mut clear: u32) -> bool {
        let old = self.cap_mask;
        if set & cap::COMMUNICATION_MANAGEMENT != 0 {
            self.comm_managers = self.comm_managers.saturating_add(1);
        }
        if clear & cap::COMMUNICATION_MANAGEMENT != 0 {
            self.comm_managers = self.comm_managers.saturating_sub(1);
            if self.comm_managers != 0 {
                clear &= !cap::COMMUNICATION_MANAGEMENT;
            }
        }
        self.cap_mask = (old & !clear) | set;
        let changed = old ^ self.cap_mask;
        changed & !cap::SM != 0 || (changed != 0 && !self.owns_lid(self.sm_lid))
    }

    /// The largest MTU that the link can carry.
    pub const fn mtu_cap(&self) -> Mtu {
        self.mtu_cap
    }

    /// Sets the largest MTU that the link can carry, and NeighborMTU with it, as at power-up. A link that is
    /// up keeps its NeighborMTU unless that is now too large.
    pub fn set_mtu_cap(&mut self, mtu_cap: Mtu) {
        self.mtu_cap = mtu_cap;
        if self.link.state() == LinkState::Down || self.neighbor_mtu > mtu_cap {
            self.neighbor_mtu = mtu_cap;
        }
    }

    /// The MTU that the subnet manager has set for the link: the active MTU of a channel adapter's port.
    pub const fn neighbor_mtu(&self) -> Mtu {
        self.neighbor_mtu
    }

    /// SubnetTimeOut: the code t of the time 4.096 us << t, 0 to 31.
    pub const fn subnet_timeout(&self) -> u8 {
        self.subnet_timeout
    }

    /// InitTypeReply, 4 bits.
    pub const fn init_type_reply(&self) -> u8 {
        self.init_type_reply
    }

    /// VLCap, 0 to 15: the code of the number of data lanes.
    pub const fn vl_cap(&self) -> u8 {
        VL_CAP
    }

    /// Whether a switch drops packets that come in with a P_Key that the port does not have.
    pub const fn enforces_inbound(&self) -> bool {
        self.enforce_in
    }

    /// Whether a switch drops packets that would go out with a P_Key that the port does not have.
    pub const fn enforces_outbound(&self) -> bool {
        self.enforce_out
    }

    /// P_KeyViolations: packets refused for their P_Key; stays at its maximum.
    pub const fn pkey_violations(&self) -> u16 {
        self.pkey_violations
    }

    /// Q_KeyViolations: packets refused for their Q_Key; stays at its maximum.
    pub const fn qkey_violations(&self) -> u16 {
        self.qkey_violations
    }

    /// Sets Q_KeyViolations back to 0 by order of the local host.
    pub fn reset_qkey_violations(&mut self) {
        self.qkey_violations = 0;
    }

    /// Counts a packet that was refused for its P_Key.
    pub(super) fn count_pkey_violation(&mut self) {
        self.pkey_violations = self.pkey_violations.saturating_add(1);
    }

    /// Counts a packet that was refused for its Q_Key.
    pub(super) fn count_qkey_violation(&mut self) {
        self.qkey_violations = self.qkey_violations.saturating_add(1);
    }

    /// What to train with, if the port looks for a peer.
    pub const fn offer(&self) -> Option<Phy> {
        match self.kind {
            PortKind::SwitchManagement => None,
            _ => self.link.offer(),
        }
    }

    /// Trains with `peer`. Returns whether the link came up now; its state is then Init.
    pub(super) fn link_up(&mut self, peer: Phy) -> bool {
        self.kind != PortKind::SwitchManagement && self.link.up(peer)
    }

    /// The peer is gone. Returns the state that the link had if it was up.
    pub(super) fn link_down(&mut self) -> Option<LinkState> {
        self.link.down()
    }

    /// A data packet came in on an Armed port: the peer is Active already, so this one becomes Active, too
    /// (IBA "ActiveTrigger"). Returns whether it did.
    pub(super) fn active_trigger(&mut self) -> bool {
        self.link.activate()
    }

    /// The M_Key of the node, which is that of this port.
    pub(super) fn mkey_mut(&mut self) -> &mut MKey {
        &mut self.mkey
    }
}

/// The width and speed codes of `struct ib_port_attr` in `rdma/ib_verbs.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// `active_width`: 1 (1x), 2 (4x), 4 (8x) or 8 (12x).
    pub width: u8,
    /// `active_speed`: 1 (SDR), 2 (DDR), 4 (QDR), 16 (FDR) or 32 (EDR).
    pub speed: u8,
}

impl PortAttrs {
    /// The width and speed of the link as verbs report them.
    pub const fn rate(&self) -> Rate {
        let active = self.link.active();
        Rate {
            width: active.widths,
            speed: match active.ext_speeds {
                0 => active.speeds,
                ext => ext << EXT_SPEED_SHIFT,
            },
        }
    }
}

/// `enum ib_port_speed` has FDR and EDR as 16 and 32, LinkSpeedExtActive as 1 and 2.
const EXT_SPEED_SHIFT: u32 = 4;
