// SPDX-License-Identifier: GPL-2.0

//! The heavy sweep: who is there, and how everything is joined (IBA "Subnet Management", "Subnet Discovery").
//!
//! Each node is asked for its NodeDescription, a switch for its SwitchInfo and the PortInfo of all its ports, a
//! channel adapter for that of the port that was reached. At the other end of each port with a link somebody is asked
//! for his NodeInfo: that makes the next node, or ends at one that is known.

use super::exchange::Ask;
use super::topology::{
    Node,
    Task,
    NONE, //
};
use super::{
    Manager,
    Storage, //
};
use wire::mad::smp::{
    NodeDescription,
    NodeInfo,
    NodeType,
    PortState,
    Smp,
    SwitchInfo, //
};
use wire::{
    Lid,
    PortNum, //
};

impl<S: Storage> Manager<S> {
    /// Forgets what the last sweep has seen, but for what nodes and ports are called.
    pub(super) fn begin_discovery(&mut self) {
        self.topology.sweep = self.topology.sweep.wrapping_add(1);
        self.exchange.clear();
        self.queue = super::fifo::Fifo::EMPTY;
        self.deferred = super::fifo::Fifo::EMPTY;
        self.rivals.clear();
    }

    /// Takes what the subnet manager's own node tells of itself.
    pub(super) fn found_own(&mut self, info: &NodeInfo) {
        let Ok(port) = self.topology.admit(info) else {
            self.report.no_room = true;
            return;
        };
        self.topology.own = port;
        self.visit(port, NONE, info);
    }

    /// Takes what the node at the other end of `near` tells of itself.
    pub(super) fn found(&mut self, near: u32, info: &NodeInfo) {
        if NodeType::from_code(info.node_type).is_none() || info.local_port.get() > info.num_ports {
            self.report.trouble = true;
            return;
        }
        let Ok(far) = self.topology.admit(info) else {
            self.report.no_room = true;
            return;
        };
        let sweep = self.topology.sweep;
        let forwards = info.node_type == NodeType::Switch as u8;
        let Some(there) = self.topology.port_mut(far) else {
            return;
        };
        // A switch says itself what it is joined to.
        if !forwards {
            if there.peer_seen == sweep && there.peer != near {
                self.report.duplicates = self.report.duplicates.saturating_add(1);
                return;
            }
            there.peer = near;
            there.peer_seen = sweep;
        }
        if let Some(here) = self.topology.port_mut(near) {
            here.peer = far;
            here.peer_seen = sweep;
        }
        self.visit(far, near, info);
    }

    /// Notes that `port` was reached by `from`, and what else to ask there.
    fn visit(&mut self, port: u32, from: u32, info: &NodeInfo) {
        let sweep = self.topology.sweep;
        let Some(node) = self.topology.port(port).map(|port| port.node) else {
            return;
        };
        let Some(entry) = self.topology.node_mut(node) else {
            return;
        };
        let is_new = entry.seen != sweep;
        let is_switch = entry.is_switch();
        let first = entry.first;
        if is_new {
            entry.seen = sweep;
            entry.info = *info;
            entry.from = from;
        }
        let asked = if is_switch { first } else { port };
        let Some(end) = self.topology.port_mut(asked) else {
            return;
        };
        if end.asked == sweep {
            return;
        }
        end.asked = sweep;
        if core::mem::replace(&mut end.guid, info.port_guid) != info.port_guid {
            end.enlisted = 0;
        }
        end.from = from;
        let task = if is_new { Task::Describe } else { Task::Info };
        self.topology.push(&mut self.queue, asked, task);
    }

    /// Takes an answer of the sweep, and goes on to what is to be asked next of the same port.
    pub(super) fn discovered(&mut self, ask: Ask, port: u32, smp: &Smp) {
        match ask {
            Ask::Own => self.found_own(&smp.attribute()),
            Ask::Probe => self.found(port, &smp.attribute()),
            Ask::Describe => self.described(port, &smp.attribute()),
            Ask::Switch => self.found_switch(port, &smp.attribute()),
            Ask::ClearChange => self.ask_ports(port),
            Ask::Info => self.informed(port, smp),
            _ => {}
        }
    }

    fn described(&mut self, port: u32, description: &NodeDescription) {
        let Some(node) = self.topology.port(port).map(|port| port.node) else {
            return;
        };
        let Some(node) = self.topology.node_mut(node) else {
            return;
        };
        node.description = *description;
        let task = if node.is_switch() {
            Task::Switch
        } else {
            Task::Info
        };
        self.topology.push(&mut self.queue, port, task);
    }

    fn found_switch(&mut self, port: u32, told: &SwitchInfo) {
        let Some(index) = self.topology.port(port).map(|port| port.node) else {
            return;
        };
        let is_master = self.is_master();
        let Some(node) = self.topology.node_mut(index) else {
            return;
        };
        // A switch that does not know what it was told has lost its tables too.
        node.rewrite |= told.linear_fdb_top != node.switch.linear_fdb_top;
        node.switch = *told;
        if node.row == NONE {
            match self.tables.add_row() {
                Some(row) => node.row = row,
                None => self.report.no_room = true,
            }
        }
        if !told.port_state_change {
            self.ask_ports(port);
        } else if is_master {
            self.topology.push(&mut self.queue, port, Task::ClearChange);
        } else {
            // Nothing may be changed before the election; the sweep is repeated after it.
            self.again = true;
            self.ask_ports(port);
        }
    }

    /// Asks for the PortInfo of all ports of the switch whose port 0 is `port`.
    fn ask_ports(&mut self, port: u32) {
        let sweep = self.topology.sweep;
        let Some(Node { first, info, .. }) = self.topology.node_of(port).copied() else {
            return;
        };
        for number in 0..=info.num_ports {
            let port = first.saturating_add(u32::from(number));
            if let Some(entry) = self.topology.port_mut(port) {
                entry.asked = sweep;
            }
            self.topology.push(&mut self.queue, port, Task::Info);
        }
    }

    fn informed(&mut self, port: u32, smp: &Smp) {
        let sweep = self.topology.sweep;
        let own = self.topology.own;
        let Some(entry) = self.topology.port_mut(port) else {
            return;
        };
        // Whom this one has never seen subnet administration knows only from the subnet manager before it.
        let missed = match entry.seen {
            0 => !entry.served,
            seen => sweep.wrapping_sub(seen) > 1,
        };
        entry.set_info(smp.data());
        entry.seen = sweep;
        if missed || entry.info().port_state < PortState::Armed as u8 {
            entry.keyed = 0;
        }
        entry.returned |= missed && entry.info().port_state >= PortState::Armed as u8;
        let leads_on = entry.is_up() && entry.number != PortNum::MANAGEMENT;
        let Some(entry) = self.topology.port(port) else {
            return;
        };
        let forwards = self.topology.node(entry.node).is_some_and(Node::is_switch);
        if self.topology.has_lid(entry) {
            let info = entry.info();
            // Who is the master gives this port the LID that it had here, if it had one.
            let counts = entry.lid == Lid::NONE || !self.is_master();
            self.report.no_room |= counts && !self.lids.has_room_for(info.lid);
            self.consider(port, &info);
        }
        if leads_on && (forwards || port == own) {
            self.topology.push(&mut self.queue, port, Task::Probe);
        }
    }
}
