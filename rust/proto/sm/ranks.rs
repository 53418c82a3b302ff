// SPDX-License-Identifier: GPL-2.0

//! The order of switches that routes are made by: that of a breadth-first search from the subnet manager's switch.
//!
//! A link leads *up* towards the switch that comes earlier in the order. See [`super::routes`].

use super::topology::{
    Node,
    Topology,
    NONE, //
};
use super::Storage;
use wire::PortNum;

/// The order of switches.
pub(super) struct Ranks<S: Storage> {
    order: S::Order,
    len: usize,
}

impl<S: Storage> Ranks<S> {
    pub(super) const fn new(order: S::Order) -> Self {
        Self { order, len: 0 }
    }

    /// The number of switches in the order.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The switches that are in the order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let order = self.order.get(..self.len).unwrap_or_default();
        order.iter().copied()
    }

    /// The switch at a place.
    pub(super) fn at(&self, place: usize) -> Option<u32> {
        self.order.get(place).copied().filter(|_| place < self.len)
    }

    /// Puts all switches that links lead to in order. Returns whether there was room for all.
    pub(super) fn rank(&mut self, topology: &mut Topology<S>) -> bool {
        self.len = 0;
        for node in 0..topology.node_count() {
            if let Some(node) = topology.node_mut(node) {
                node.position = NONE;
                node.first_link = NONE;
                node.parent = NONE;
            }
        }
        let Some(root) = root(topology) else {
            return true;
        };
        let mut all = self.append(topology, root);
        let mut next = 0usize;
        while let Some(node) = self.at(next) {
            next = next.saturating_add(1);
            all &= self.expand(topology, node);
        }
        all
    }

    /// Chains the links of a switch to others, and appends those that are new.
    fn expand(&mut self, topology: &mut Topology<S>, node: u32) -> bool {
        let Some(Node { first, info, .. }) = topology.node(node).copied() else {
            return true;
        };
        let mut all = true;
        let mut last = NONE;
        for number in 1..=info.num_ports {
            let port = first.saturating_add(u32::from(number));
            let Some((there, far)) = topology
                .link(port)
                .and_then(|there| Some((there, topology.port(there)?.node)))
            else {
                continue;
            };
            if !topology.node(far).is_some_and(Node::is_switch) {
                continue;
            }
            chain(topology, node, last, port);
            last = port;
            if topology.node(far).is_some_and(|far| far.position == NONE) {
                all &= self.append(topology, far);
                if let Some(far) = topology.node_mut(far) {
                    far.parent = there;
                }
            }
        }
        all
    }

    fn append(&mut self, topology: &mut Topology<S>, node: u32) -> bool {
        let Some(place) = self.order.get_mut(self.len) else {
            return false;
        };
        let Some(entry) = topology.node_mut(node) else {
            return false;
        };
        *place = node;
        entry.position = self.len as u32;
        self.len = self.len.saturating_add(1);
        true
    }
}

/// Adds `port` to the links of the switch `node`, behind `last`.
fn chain<S: Storage>(topology: &mut Topology<S>, node: u32, last: u32, port: u32) {
    if let Some(entry) = topology.port_mut(port) {
        entry.next_link = NONE;
    }
    if let Some(last) = topology.port_mut(last) {
        last.next_link = port;
    } else if let Some(node) = topology.node_mut(node) {
        node.first_link = port;
    }
}

/// The switch that the subnet manager is at, or next to.
fn root<S: Storage>(topology: &Topology<S>) -> Option<u32> {
    let own = topology.port(topology.own)?;
    if topology.node(own.node)?.is_switch() && own.number == PortNum::MANAGEMENT {
        return Some(own.node);
    }
    let far = topology.port(topology.link(topology.own)?)?.node;
    topology.node(far)?.is_switch().then_some(far)
}
