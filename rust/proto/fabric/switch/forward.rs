// SPDX-License-Identifier: GPL-2.0

//! Forwarding (IBA chapter "Switches", "Switch Relay Function", and "Link States and Packet Handling").

use super::{
    PortMask,
    Storage,
    Switch, //
};
use crate::fabric::counters::PortFault;
use crate::fabric::link::LinkState;
use crate::fabric::tables::SlToVl;
use wire::outer::MAX_HOPS;
use wire::{
    Lid,
    PKey,
    PortNum, //
};

/// What forwarding looks at.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Where to: LRH:DLID.
    pub dlid: Lid,
    /// BTH:P_Key; `None` for a packet that has none to check (VL15).
    pub pkey: Option<PKey>,
    /// Whether the packet is a subnet management packet (LRH:VL is 15).
    pub vl15: bool,
    /// How many links between switches it has passed.
    pub hops: u8,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Out of this port; port 0 is the switch itself.
    To(PortNum),
    /// Out of several ports, or out of none of them.
    Multicast(Spread),
    /// Nowhere.
    Drop(Drop),
}

/// Where a packet for a group goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Out of each of these ports.
    pub to: PortMask,
    /// Not of these, each of which is [`Drop::Egress`].
    pub closed: PortMask,
    /// Not of these, each of which is [`Drop::PkeyOut`].
    pub refused: PortMask,
}

impl Spread {
    const NOWHERE: Self = Self {
        to: PortMask::EMPTY,
        closed: PortMask::EMPTY,
        refused: PortMask::EMPTY,
    };

    /// Why it does not leave by ports of the group.
    pub fn drops(&self) -> impl Iterator<Item = Drop> {
        let closed = self.closed.iter().map(Drop::Egress);
        closed.chain(self.refused.iter().map(Drop::PkeyOut))
    }
}

/// Why a packet goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The port it came in on is not in a state to receive it, or does not exist.
    Ingress,
    /// The forwarding tables have no way for the LID.
    NoRoute,
    /// The way leads back where it came from, or has no end.
    Loop,
    /// The port it would leave by, held here, is not in a state to send it.
    Egress(PortNum),
    /// The port it came in on does not admit its P_Key.
    PkeyIn,
    /// The port it would leave by, held here, does not admit its P_Key.
    PkeyOut(PortNum),
}

impl Drop {
    /// The port that counts it, and as what.
    pub const fn fault(self, in_port: PortNum) -> (PortNum, PortFault) {
        match self {
            Self::Ingress => (in_port, PortFault::Receive),
            Self::NoRoute | Self::Loop => (in_port, PortFault::Relay),
            Self::Egress(port) => (port, PortFault::XmitDiscard),
            Self::PkeyIn => (in_port, PortFault::RcvConstraint),
            Self::PkeyOut(port) => (port, PortFault::XmitConstraint),
        }
    }
}

impl<S: Storage> Switch<S> {
    /// Decides where a packet goes that came in on `in_port`, or that the switch sends itself (port 0).
    ///
    /// Links that are not Active pass no data outwards and links below Armed none inwards; subnet management
    /// packets pass every link that is up. The caller counts: [`Drop::fault`] for what is dropped, at each port of a
    /// group by itself.
    pub fn forward(&self, in_port: PortNum, packet: &Packet) -> Forward {
        if let Err(drop) = self.admit(in_port, packet) {
            return Forward::Drop(drop);
        }
        if packet.hops > MAX_HOPS {
            return Forward::Drop(Drop::Loop);
        }
        if packet.dlid.is_multicast() && !packet.vl15 {
            return self.multicast(in_port, packet);
        }
        let Some(out) = self.route(packet.dlid) else {
            return Forward::Drop(Drop::NoRoute);
        };
        if out == in_port {
            return Forward::Drop(Drop::Loop);
        }
        match self.emit(out, packet) {
            Ok(()) => Forward::To(out),
            Err(drop) => Forward::Drop(drop),
        }
    }

    /// The port that leads to the unicast LID `dlid`.
    pub fn route(&self, dlid: Lid) -> Option<PortNum> {
        if dlid.is_unicast() && dlid == self.lid() {
            return Some(PortNum::MANAGEMENT);
        }
        if dlid > self.config.linear_top {
            return None;
        }
        let port = *self.lft.get(usize::from(dlid.get()))?;
        if port <= self.port_count() {
            Some(PortNum::new(port))
        } else {
            None
        }
    }

    /// The SL to VL table for packets from port `from` to port `to`.
    pub fn sl_to_vl(&self, from: PortNum, to: PortNum) -> Option<&SlToVl> {
        self.sl_to_vl.get(self.sl_to_vl_index(from, to)?)
    }

    pub(super) fn sl_to_vl_index(&self, from: PortNum, to: PortNum) -> Option<usize> {
        let count = self.ports.len();
        let (from, to) = (usize::from(from.get()), usize::from(to.get()));
        if from >= count || to >= count {
            return None;
        }
        from.checked_mul(count)?.checked_add(to)
    }

    /// Whether `in_port` takes the packet in.
    fn admit(&self, in_port: PortNum, packet: &Packet) -> Result<(), Drop> {
        let Some(port) = self.port(in_port) else {
            return Err(Drop::Ingress);
        };
        let needed = if packet.vl15 {
            LinkState::Init
        } else {
            LinkState::Armed
        };
        if port.attrs.state() < needed {
            return Err(Drop::Ingress);
        }
        match packet.pkey {
            Some(pkey) if port.attrs.enforces_inbound() && !port.pkeys.may_send(pkey) => {
                Err(Drop::PkeyIn)
            }
            _ => Ok(()),
        }
    }

    /// Whether `out` lets the packet out.
    fn emit(&self, out: PortNum, packet: &Packet) -> Result<(), Drop> {
        let Some(port) = self.port(out) else {
            return Err(Drop::Egress(out));
        };
        let needed = if packet.vl15 {
            LinkState::Init
        } else {
            LinkState::Active
        };
        if port.attrs.state() < needed {
            return Err(Drop::Egress(out));
        }
        match packet.pkey {
            Some(pkey) if port.attrs.enforces_outbound() && !port.pkeys.admits(pkey) => {
                Err(Drop::PkeyOut(out))
            }
            _ => Ok(()),
        }
    }

    fn multicast(&self, in_port: PortNum, packet: &Packet) -> Forward {
        let index = packet.dlid.get().wrapping_sub(Lid::MULTICAST_BASE.get());
        let mut members = match self.mft.get(usize::from(index)) {
            Some(mask) => *mask,
            None => self.default_multicast(in_port),
        };
        members.remove(in_port);
        if members.is_empty() {
            return Forward::Drop(Drop::NoRoute);
        }
        let mut spread = Spread::NOWHERE;
        for port in members.iter() {
            let ports = match self.emit(port, packet) {
                Ok(()) => &mut spread.to,
                Err(Drop::PkeyOut(_)) => &mut spread.refused,
                Err(_) => &mut spread.closed,
            };
            ports.insert(port);
        }
        Forward::Multicast(spread)
    }

    /// Where a multicast packet goes whose LID is past the end of the table.
    fn default_multicast(&self, in_port: PortNum) -> PortMask {
        let config = &self.config;
        let port = if in_port == config.default_multicast_primary {
            config.default_multicast_other
        } else {
            config.default_multicast_primary
        };
        let mut mask = PortMask::EMPTY;
        if port.get() <= self.port_count() {
            mask.insert(port);
        }
        mask
    }
}
