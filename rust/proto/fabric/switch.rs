// SPDX-License-Identifier: GPL-2.0

//! A switch: forwarding, its ports, its management (IBA chapters "Switches" and "Subnet Management").
//!
//! Port 0 is a base management port; ports 1 to N are external. A driver feeds every packet that comes in on
//! an external port (or that the switch itself sends: port 0) to [`Switch::forward`], or to
//! [`Switch::on_smp`] when [`Switch::takes_smp`] says that it is a subnet management packet for this switch.

mod attributes;
mod config;
mod directed;
mod forward;
mod mask;
mod smp;

pub use forward::{
    Drop,
    Forward,
    Packet,
    Spread, //
};
pub use mask::PortMask;
pub use smp::{
    Lrh,
    SmpOutcome,
    SmpVerdict, //
};

use super::counters::{
    Counters,
    PortFault, //
};
use super::link::{
    LinkAction,
    LinkState,
    Phy, //
};
use super::port::{
    PortAttrs,
    PortKind, //
};
use super::tables::{
    PKeyTable,
    SlToVl,
    VlArb, //
};
use super::trap::{
    Event,
    Traps, //
};
use crate::time::Instant;
use core::ops::DerefMut;
use wire::mad::smp::trap::CapabilityChange;
use wire::{
    Guid,
    Lid,
    Mtu,
    PortNum, //
};

/// The largest number of external ports: what fits the masks, less the reserved numbers.
pub const MAX_PORTS: u8 = 250;

/// Where a switch keeps what is large: the owner of the switch lends it.
pub trait Storage {
    /// One for port 0 and one for each external port.
    type Ports: DerefMut<Target = [SwitchPort]>;
    /// The linear forwarding table: the port of each unicast LID, [`NO_PORT`] for none. Its length is
    /// LinearFDBCap; a multiple of 64 of at most 49152.
    type Lft: DerefMut<Target = [u8]>;
    /// The multicast forwarding table: the ports of each LID from 0xc000 on. Its length is MulticastFDBCap;
    /// a multiple of 32 of at most 16352.
    type Mft: DerefMut<Target = [PortMask]>;
    /// The SL to VL tables: the one for packets from port i to port o of n ports (port 0 included) is number
    /// `i * n + o`.
    type SlToVl: DerefMut<Target = [SlToVl]>;
}

/// The storage that a switch is made with.
pub struct Tables<S: Storage> {
    /// At least 2 and at most [`MAX_PORTS`] + 1 entries; [`SwitchPort::new`] each. The first is port 0.
    pub ports: S::Ports,
    /// Filled with [`NO_PORT`].
    pub lft: S::Lft,
    /// Filled with [`PortMask::EMPTY`].
    pub mft: S::Mft,
    /// The square of the number of `ports`; [`SlToVl::new`] each.
    pub sl_to_vl: S::SlToVl,
}

/// The forwarding table entry of a LID that leads nowhere.
pub const NO_PORT: u8 = 0xff;

/// Who a node is, as NodeInfo and NodeDescription tell.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// NodeGUID; also the PortGUID of port 0 of a switch.
    pub node: Guid,
    /// SystemImageGUID: common to what is one machine.
    pub system: Guid,
    /// VendorID: an OUI, 24 bits.
    pub vendor: u32,
    /// DeviceID.
    pub device: u16,
    /// Revision.
    pub revision: u32,
    /// NodeString: UTF-8, zero-padded.
    pub description: [u8; 64],
}

/// One port of a switch.
#[derive(Clone, Copy, Debug)]
pub struct SwitchPort {
    attrs: PortAttrs,
    pkeys: PKeyTable,
    vl_arb: VlArb,
    counters: Counters,
    led: bool,
}

impl SwitchPort {
    /// A port at power-up: down, with `mtu_cap` as the largest MTU that its cable will carry.
    pub const fn new(mtu_cap: Mtu) -> Self {
        Self {
            attrs: PortAttrs::new(PortKind::SwitchExternal, mtu_cap),
            pkeys: PKeyTable::new(),
            vl_arb: VlArb::new(),
            counters: Counters::new(),
            led: false,
        }
    }

    /// Its attributes.
    pub const fn attrs(&self) -> &PortAttrs {
        &self.attrs
    }

    /// Its P_Keys, which count when [`PortAttrs::enforces_inbound`] or
    /// [`PortAttrs::enforces_outbound`] says so.
    pub const fn pkeys(&self) -> &PKeyTable {
        &self.pkeys
    }

    /// Its counters.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The same, to count.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }
}

/// A switch.
///
/// # Invariants
///
/// `ports` holds 2 to [`MAX_PORTS`] + 1 ports, `sl_to_vl` the square of that.
pub struct Switch<S: Storage> {
    identity: Identity,
    ports: S::Ports,
    lft: S::Lft,
    mft: S::Mft,
    sl_to_vl: S::SlToVl,
    config: config::Config,
    traps: Traps,
    generation: u32,
}

impl<S: Storage> Switch<S> {
    /// Makes a switch with all ports down. `None` when the sizes of `tables` are not what [`Tables`] and
    /// [`Storage`] ask for.
    pub fn new(identity: Identity, mut tables: Tables<S>) -> Option<Self> {
        let count = tables.ports.len();
        if !(2..=usize::from(MAX_PORTS) + 1).contains(&count)
            || tables.sl_to_vl.len() != count.checked_mul(count)?
            || tables.lft.len() > config::LFT_MAX
            || tables.lft.len() & (config::LFT_BLOCK - 1) != 0
            || tables.mft.len() > config::MFT_MAX
            || tables.mft.len() & (config::MFT_BLOCK - 1) != 0
        {
            return None;
        }
        let port0 = tables.ports.first_mut()?;
        port0.attrs = PortAttrs::new(PortKind::SwitchManagement, port0.attrs.mtu_cap());
        Some(Self {
            identity,
            ports: tables.ports,
            lft: tables.lft,
            mft: tables.mft,
            sl_to_vl: tables.sl_to_vl,
            config: config::Config::new(),
            traps: Traps::new(identity.node),
            generation: 0,
        })
    }

    /// Who this is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The number of external ports.
    pub fn port_count(&self) -> u8 {
        (self.ports.len().saturating_sub(1)) as u8
    }

    /// Port `port`; `None` if there is no such port.
    pub fn port(&self, port: PortNum) -> Option<&SwitchPort> {
        self.ports.get(usize::from(port.get()))
    }

    /// Port `port`, to count.
    pub fn counters_mut(&mut self, port: PortNum) -> Option<&mut Counters> {
        Some(&mut self.port_mut(port)?.counters)
    }

    /// The LID of the switch; [`Lid::NONE`] until a subnet manager has set it.
    pub fn lid(&self) -> Lid {
        self.port(PortNum::MANAGEMENT)
            .map_or(Lid::NONE, |port| port.attrs.lid())
    }

    /// Changes whenever an answer of [`Self::forward`] may: a driver that keeps answers compares it.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// What port `port` trains with, if it looks for a peer; see the [module](super) about cables.
    pub fn offer(&self, port: PortNum) -> Option<Phy> {
        self.port(port)?.attrs.offer()
    }

    /// The cable of `port` leads to a port that trains with `peer`. Returns whether the link came up now; the
    /// state is then Init, SwitchInfo:PortStateChange is set and trap 128 due.
    pub fn link_up(&mut self, port: PortNum, peer: Phy, now: Instant) -> bool {
        let up = self
            .port_mut(port)
            .is_some_and(|port| port.attrs.link_up(peer));
        if up {
            self.port_state_changed(now);
        }
        up
    }

    /// The cable of `port` is dead, or its other end down. Returns whether the link was up;
    /// SwitchInfo:PortStateChange is then set and trap 128 due.
    pub fn link_down(&mut self, port: PortNum, now: Instant) -> bool {
        let was_up = self.port_mut(port).is_some_and(|port| {
            let was_up = port.attrs.link_down().is_some();
            if was_up {
                port.counters.count_fault(PortFault::LinkDowned);
            }
            was_up
        });
        if was_up {
            self.port_state_changed(now);
        }
        was_up
    }

    /// Does what the last SubnSet(PortInfo) asked of the link of `port`: see [`SmpOutcome::settle`].
    pub fn link_settle(&mut self, port: PortNum) -> LinkAction {
        self.touch();
        self.port_mut(port)
            .map_or(LinkAction::None, |port| port.attrs.link_settle().0)
    }

    /// Replaces the node description. The subnet manager is due a trap 144.
    pub fn set_description(&mut self, description: [u8; 64], now: Instant) {
        if self.identity.description == description {
            return;
        }
        self.identity.description = description;
        let port0 = self.port(PortNum::MANAGEMENT);
        let cap_mask = port0.map_or(0, |port| port.attrs.cap_mask());
        let flags = CapabilityChange::NODE_DESCRIPTION;
        self.raise(Event::LocalChange { cap_mask, flags }, now);
    }

    /// Sets the largest MTU that the cable of `port` carries.
    pub fn set_mtu_cap(&mut self, port: PortNum, mtu_cap: Mtu) {
        if let Some(port) = self.port_mut(port) {
            port.attrs.set_mtu_cap(mtu_cap);
        }
    }

    /// A data packet came in on `port`: an Armed port becomes Active, as its peer is. Returns whether it did.
    pub fn active_trigger(&mut self, port: PortNum) -> bool {
        let active = self
            .port_mut(port)
            .is_some_and(|port| port.attrs.active_trigger());
        if active {
            self.touch();
        }
        active
    }

    fn port_mut(&mut self, port: PortNum) -> Option<&mut SwitchPort> {
        self.ports.get_mut(usize::from(port.get()))
    }

    /// The state of external port `port`; Down if there is none.
    fn state(&self, port: PortNum) -> LinkState {
        self.port(port)
            .map_or(LinkState::Down, |port| port.attrs.state())
    }

    /// Every answer of `forward` may be another from now on.
    fn touch(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    fn port_state_changed(&mut self, now: Instant) {
        self.touch();
        self.config.port_state_change = true;
        self.raise(Event::LinkStateChange, now);
    }
}
