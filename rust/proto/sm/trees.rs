// SPDX-License-Identifier: GPL-2.0

//! Trees of multicast groups.
//!
//! All are parts of one: the tree of the breadth-first search that ranks the switches ([`super::ranks`]). A way in it goes up and
//! then down, so that packets of groups and others together are without credit loops. A link of it is in use by a
//! group if there are members at both of its ends. A packet goes over it towards members that receive, and only
//! towards these: a switch with members that only send has no branch to them.

use super::ranks::Ranks;
use super::topology::{
    Branch,
    Topology,
    NONE, //
};
use super::{
    Manager,
    Storage, //
};
use wire::PortNum;

/// A member of a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The index of its port.
    pub(crate) port: u32,
    /// It receives what others send; else it only sends.
    pub(crate) receives: bool,
}

impl<S: Storage> Manager<S> {
    /// Whether trees can be made now.
    pub(crate) fn may_plant(&self) -> bool {
        self.is_steady() && !self.is_writing_multicast()
    }

    /// Makes the tree of the group with the multicast LID number `column`.
    pub(crate) fn plant(&mut self, column: usize, leaves: impl Iterator<Item = Leaf> + Clone) {
        let (topology, ranks) = (&mut self.topology, &self.ranks);
        for switch in ranks.iter() {
            if let Some(node) = topology.node_mut(switch) {
                node.branch = Branch::NONE;
            }
        }
        for leaf in leaves.clone() {
            grow(topology, leaf);
        }
        let total = sum(topology, ranks);
        for place in 0..ranks.len() {
            if let Some(switch) = ranks.at(place) {
                branch(topology, switch, total);
            }
        }
        for switch in ranks.iter() {
            if let Some(node) = topology.node(switch) {
                self.multicast.set(node.row, column, node.branch.mask);
            }
        }
    }
}

/// Where a member hangs: the switch, and its port to the member.
fn stem<S: Storage>(topology: &Topology<S>, port: u32) -> Option<(u32, PortNum)> {
    let entry = topology.port(port)?;
    if !topology.is_end_port(entry) {
        return None;
    }
    let end = if entry.number == PortNum::MANAGEMENT {
        entry
    } else {
        topology.port(topology.link(port)?)?
    };
    let is_ranked = topology.node(end.node)?.position != NONE;
    is_ranked.then_some((end.node, end.number))
}

/// Adds a member to the switch where it hangs.
fn grow<S: Storage>(topology: &mut Topology<S>, leaf: Leaf) {
    let Some((switch, number)) = stem(topology, leaf.port) else {
        return;
    };
    let Some(node) = topology.node_mut(switch) else {
        return;
    };
    let branch = &mut node.branch;
    branch.members = branch.members.saturating_add(1);
    if leaf.receives {
        branch.receivers = branch.receivers.saturating_add(1);
        branch.mask.insert(number);
    }
}

/// Adds to each switch what hangs on those below it. Returns what hangs on all.
fn sum<S: Storage>(topology: &mut Topology<S>, ranks: &Ranks<S>) -> Branch {
    let mut place = ranks.len();
    while let Some(before) = place.checked_sub(1) {
        place = before;
        let Some((node, parent)) = ranks.at(place).and_then(|switch| {
            let node = *topology.node(switch)?;
            Some((node, parent(topology, node.parent)))
        }) else {
            continue;
        };
        let Some((above, _)) = parent else {
            continue;
        };
        if let Some(above) = topology.node_mut(above) {
            let sum = &mut above.branch;
            sum.members = sum.members.saturating_add(node.branch.members);
            sum.receivers = sum.receivers.saturating_add(node.branch.receivers);
        }
    }
    let root = ranks.at(0).and_then(|switch| topology.node(switch));
    root.map_or(Branch::NONE, |root| root.branch)
}

/// Joins a switch to the one above, if the group uses the link.
fn branch<S: Storage>(topology: &mut Topology<S>, switch: u32, total: Branch) {
    let Some((up, below)) = topology.node(switch).map(|node| (node.parent, node.branch)) else {
        return;
    };
    let Some((above, down)) = parent(topology, up) else {
        return;
    };
    if below.members == 0 || below.members == total.members {
        return;
    }
    let up = topology.port(up).map(|port| port.number);
    if let (Some(up), Some(node)) = (up, topology.node_mut(switch)) {
        if below.receivers < total.receivers {
            node.branch.mask.insert(up);
        }
    }
    if let Some(node) = topology.node_mut(above) {
        if below.receivers != 0 {
            node.branch.mask.insert(down);
        }
    }
}

/// The switch at the other end of `up`, and its port.
fn parent<S: Storage>(topology: &Topology<S>, up: u32) -> Option<(u32, PortNum)> {
    let far = topology.port(topology.link(up)?)?;
    Some((far.node, far.number))
}
