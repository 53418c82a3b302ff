// SPDX-License-Identifier: GPL-2.0

//! What subnet administration asks of the subnet manager.

use super::topology::{
    Node,
    NONE, //
};
use super::{
    Manager,
    Phase,
    Port,
    Storage, //
};
use crate::time::Instant;
use wire::mad::Notice;
use wire::{
    Gid,
    Guid,
    Lid,
    Mtu,
    PortNum,
    Rate, //
};

/// What packets meet on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// The least MTU of all links.
    pub(crate) mtu: Mtu,
    /// The slowest rate of all links.
    pub(crate) rate: Rate,
    /// The ports of switches by which they leave.
    pub(crate) hops: u32,
}

impl Passage {
    /// The link of `port`; for port 0 of a switch what it can.
    fn of(port: &Port) -> Self {
        let info = port.info();
        let code = if port.number == PortNum::MANAGEMENT {
            info.mtu_cap
        } else {
            info.neighbor_mtu
        };
        Self {
            mtu: Mtu::from_code(code).unwrap_or_default(),
            rate: Rate::of_link(&info),
            hops: 0,
        }
    }

    /// This one, and then another.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            mtu: self.mtu.min(other.mtu),
            rate: self.rate.min(other.rate),
            hops: self.hops.saturating_add(other.hops),
        }
    }
}

impl<S: Storage> Manager<S> {
    /// Whether what this knows of the subnet is whole: it is the master, and does not look around just now.
    pub fn is_steady(&self) -> bool {
        self.ready && self.phase.is_interruptible()
    }

    pub(super) const fn is_writing_multicast(&self) -> bool {
        matches!(self.phase, Phase::Prune(..) | Phase::Graft(..))
    }

    /// The number of the last heavy sweep.
    pub(crate) const fn generation(&self) -> u32 {
        self.report.sweeps
    }

    /// The subnet prefix.
    pub(crate) const fn gid_prefix(&self) -> u64 {
        self.config.gid_prefix
    }

    /// The highest LID of a port.
    pub(crate) fn top_lid(&self) -> Lid {
        self.lids.top()
    }

    /// The port with an index, and its node.
    pub(crate) fn port_at(&self, index: u32) -> Option<(&Node, &Port)> {
        let port = self.topology.port(index)?;
        Some((self.topology.node(port.node)?, port))
    }

    /// The number of ports; their indices count from 0.
    pub(crate) fn port_count(&self) -> u32 {
        self.topology.port_count()
    }

    /// Whether the port was there in the last sweep.
    pub(crate) fn is_here(&self, port: &Port) -> bool {
        let node = self.topology.node(port.node);
        let node_here = node.is_some_and(|node| self.topology.is_here(node));
        node_here && port.seen == self.topology.sweep
    }

    /// Whether the port is there and has a LID.
    pub(crate) fn is_end_port(&self, port: &Port) -> bool {
        self.topology.is_end_port(port) && port.lid != Lid::NONE
    }

    /// The LID of a port; for an external port of a switch, that of the switch.
    pub(crate) fn lid_at(&self, node: &Node, port: &Port) -> Lid {
        let end = if node.is_switch() {
            self.topology.port(node.first)
        } else {
            Some(port)
        };
        end.map_or(Lid::NONE, Port::lid)
    }

    /// The index of the port with a LID.
    pub(crate) fn port_of_lid(&self, lid: Lid) -> Option<u32> {
        let owner = self.lids.owner(lid)?;
        let port = self.topology.port(owner)?;
        (port.lid == lid && self.is_end_port(port)).then_some(owner)
    }

    /// The index of the port with a GUID. `hint` is where it was before, if anywhere.
    pub(crate) fn port_of_guid(&self, guid: Guid, hint: u32) -> Option<u32> {
        let fits = |index: u32| {
            let port = self.topology.port(index);
            port.is_some_and(|port| port.guid == guid && self.is_end_port(port))
        };
        if fits(hint) {
            return Some(hint);
        }
        let mut all = (1..=self.top_lid().get()).filter_map(|lid| self.lids.owner(Lid::new(lid)));
        all.find(|index| fits(*index))
    }

    /// The index of the port with a GID: in this subnet, or in the prefix that all subnets know.
    pub(crate) fn port_of_gid(&self, gid: Gid) -> Option<u32> {
        let near = gid.prefix() == self.gid_prefix() || gid.prefix() == Gid::DEFAULT_PREFIX;
        if !near || gid.is_multicast() {
            return None;
        }
        self.port_of_guid(gid.guid(), NONE)
    }

    /// Where the forwarding table of a switch leads: its ports, by the LIDs that lead somewhere.
    pub fn routes<'a>(&'a self, switch: &'a Node) -> impl Iterator<Item = (Lid, PortNum)> + 'a {
        let lids = (1..=self.top_lid().get()).map(Lid::new);
        lids.filter_map(|lid| Some((lid, PortNum::new(self.tables.get(switch.row, lid)?))))
    }

    /// The GID of a port.
    pub(crate) fn gid_of(&self, port: &Port) -> Gid {
        Gid::from_parts(self.gid_prefix(), port.guid)
    }

    /// What packets meet at the link of a port.
    pub(crate) fn passage_at(&self, index: u32) -> Option<Passage> {
        self.topology.port(index).map(Passage::of)
    }

    /// What packets of any way between any two ports meet.
    pub(crate) fn narrowest(&self) -> Passage {
        let all = (0..self.port_count()).filter_map(|index| {
            let port = self.topology.port(index)?;
            self.topology.link(index)?;
            Some(Passage::of(port))
        });
        all.reduce(Passage::and).unwrap_or(Passage {
            mtu: Mtu::B4096,
            rate: Rate::fitting(u32::MAX),
            hops: 0,
        })
    }

    /// Has a port asked to register anew, by the sweep that this begins.
    pub(crate) fn ask_to_register(&mut self, port: u32, now: Instant) {
        if let Some(port) = self.topology.port_mut(port) {
            port.returned = true;
            self.request_sweep(now);
        }
    }

    /// What packets meet from one port to another, both given by their indices, as the tables lead them.
    pub(crate) fn walk(&self, from: u32, to: u32) -> Option<Passage> {
        let (start, target) = (self.topology.port(from)?, self.topology.port(to)?);
        let mut met = Passage::of(start).and(Passage::of(target));
        if from == to {
            return Some(met);
        }
        let mut at = if start.number == PortNum::MANAGEMENT {
            from
        } else {
            self.topology.link(from)?
        };
        for _ in 0..=self.topology.node_count() {
            if at == to {
                return Some(met);
            }
            let here = self.topology.node(self.topology.port(at)?.node)?;
            if !here.is_switch() {
                return None;
            }
            if here.first == to {
                return Some(met);
            }
            let out = PortNum::new(self.tables.get(here.row, target.lid)?);
            let out = self.topology.port_of(here, out)?;
            met = met.and(Passage {
                hops: 1,
                ..Passage::of(self.topology.port(out)?)
            });
            at = self.topology.link(out)?;
        }
        None
    }

    /// A port that has come or gone since this was asked before; of those whose indices are `from` and above. Returns
    /// its index, and whether it is there. If the sweep has not seen all, one that was not found is gone only if it
    /// has no cable any more.
    pub(crate) fn take_change(&mut self, from: u32, saw_all: bool) -> Option<(u32, bool)> {
        let found = (from..self.port_count()).find_map(|index| {
            let port = self.topology.port(index)?;
            let here = self.is_end_port(port);
            let is_known = here || saw_all || self.is_cut_off(index) == Some(true);
            (here != port.served && is_known).then_some((index, here))
        })?;
        if let Some(port) = self.topology.port_mut(found.0) {
            port.served = found.1;
        }
        Some(found)
    }

    /// Whether the way by which a port was found last ends at one without a link. `None` if nobody knows.
    fn is_cut_off(&self, mut port: u32) -> Option<bool> {
        for _ in 0..=self.topology.node_count() {
            port = self.topology.upstream(port)?;
            let near = self.topology.port(port)?;
            if near.seen == self.topology.sweep {
                return Some(!near.is_up());
            }
        }
        None
    }

    /// Takes what a trap has told, and by whom.
    pub(crate) fn take_notice(&mut self) -> Option<(Notice, Lid)> {
        self.notices.pop()
    }
}
