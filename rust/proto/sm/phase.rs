// SPDX-License-Identifier: GPL-2.0

//! The order of a sweep: look, choose the master, give LIDs, make routes, write them, raise the links.
//!
//! On a subnet that reaches farther than directed routes do, these are done in stages: when the routes of a stage are
//! written, its switches are anchors ([`super::way`]) by which the next stage is reached.

use super::exchange::{
    Ask,
    Errand, //
};
use super::multicast::Part;
use super::settings::{
    own_lid,
    settings, //
};
use super::topology::{
    Node,
    Task,
    NONE, //
};
use super::way::Way;
use super::{
    routes,
    Manager,
    Storage, //
};
use crate::time::{
    Duration,
    Instant, //
};
use wire::mad::smp::{
    PortState,
    SmState, //
};
use wire::Lid;

/// Where a sweep is. What a phase goes through is held as how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing to do until a timer fires.
    Idle,
    /// Finding nodes.
    Discover,
    /// Asking the other subnet managers; the next port.
    Elect(u32),
    /// Giving LIDs.
    Assign,
    /// Making routes; place of the next switch.
    Route(usize),
    /// Taking routes to ports that are gone out of the tables; the next LID.
    Forget(u16),
    /// Finding out which partitions ports are in; the next port.
    Enlist(u32),
    /// Writing P_Keys; the next port.
    Keys(u32),
    /// Writing addresses; the next port.
    Address(u32),
    /// Writing tables; the next switch, and its next block.
    Tables(u32, Option<u16>),
    /// Bringing links to Armed; the next port.
    Arm(u32),
    /// Bringing links to Active; the next port.
    Activate(u32),
    /// Taking ports out of multicast tables; the next switch, and its next part.
    Prune(u32, Part),
    /// Adding ports to multicast tables; the same.
    Graft(u32, Part),
    /// Handing the subnet over, or saying that it was taken over.
    Announce,
    /// The light sweep; the next switch.
    Light(u32),
    /// The rest of it: asking the other subnet managers; the next port.
    Meet(u32),
    /// Asking the master, in STANDBY; its port.
    Watch(Option<u32>),
}

impl Phase {
    /// Whether a heavy sweep may begin now.
    pub(super) const fn is_interruptible(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Light(_) | Self::Meet(_) | Self::Prune(..) | Self::Graft(..)
        )
    }
}

/// Time between two sweeps, in which subnet administration answers.
const RESPITE: Duration = Duration::from_millis(50);

/// Switches to be visited by one call that makes routes.
const ROUTE_BUDGET: usize = 1 << 14;

/// What SwitchInfo:LifeTimeValue is to be: 4.096 us << 18, about a second.
const LIFE_TIME: u8 = 18;

impl<S: Storage> Manager<S> {
    /// The next request of this phase; `None` if there are no more, or none before answers come.
    pub(super) fn next_errand(&mut self) -> Option<Errand> {
        match self.phase {
            Phase::Discover => self.next_question(),
            Phase::Elect(next) => self.next_rival(next, Phase::Elect),
            Phase::Meet(next) => self.next_rival(next, Phase::Meet),
            Phase::Keys(next) => self.next_keys(next),
            Phase::Address(next) => self.next_port(next, Phase::Address),
            Phase::Arm(next) => self.next_port(next, Phase::Arm),
            Phase::Activate(next) => self.next_port(next, Phase::Activate),
            Phase::Tables(node, block) => self.next_table(node, block),
            Phase::Prune(node, part) => self.next_multicast(node, part, true),
            Phase::Graft(node, part) => self.next_multicast(node, part, false),
            Phase::Announce => self.next_announcement(),
            Phase::Light(next) => self.next_light(next),
            Phase::Watch(master) => {
                self.phase = Phase::Watch(None);
                master.map(|port| Errand {
                    ask: Ask::Manager,
                    port,
                })
            }
            Phase::Idle | Phase::Assign | Phase::Route(_) | Phase::Forget(_) | Phase::Enlist(_) => {
                None
            }
        }
    }

    fn next_question(&mut self) -> Option<Errand> {
        if self.topology.own == NONE || !self.own_asked {
            let first = !self.own_asked;
            self.own_asked = true;
            return first.then_some(Errand {
                ask: Ask::Own,
                port: NONE,
            });
        }
        loop {
            let (port, task) = self.topology.pop(&mut self.queue)?;
            let beyond = task == Task::Probe;
            if Way::find(&self.topology, port, beyond).is_err() {
                self.topology.push(&mut self.deferred, port, task);
                continue;
            }
            let ask = match task {
                Task::Describe => Ask::Describe,
                Task::Switch => Ask::Switch,
                Task::ClearChange => Ask::ClearChange,
                Task::Info => Ask::Info,
                Task::Probe => Ask::Probe,
            };
            return Some(Errand { ask, port });
        }
    }

    /// The next port from `next` on that the phase has something for.
    fn next_port(&mut self, next: u32, phase: fn(u32) -> Phase) -> Option<Errand> {
        let found = (next..self.topology.port_count()).find_map(|port| {
            let ask = self.port_lacks(port)?;
            Some(Errand { ask, port })
        });
        let after = found.map_or(self.topology.port_count(), |errand| {
            errand.port.saturating_add(1)
        });
        self.phase = phase(after);
        found
    }

    /// What the port lacks that this phase gives.
    fn port_lacks(&self, port: u32) -> Option<Ask> {
        let entry = self.topology.port(port)?;
        if entry.seen != self.topology.sweep {
            return None;
        }
        let is_linked = self.topology.link(port).is_some();
        let state = PortState::from_code(entry.info().port_state)?;
        let (has_lid, is_init) = (self.topology.has_lid(entry), state == PortState::Init);
        match self.phase {
            // What becomes Armed takes the properties of its link then.
            Phase::Address(_) if has_lid || (is_linked && !is_init) => {
                let given = entry.lid != Lid::NONE || !has_lid;
                let differs =
                    settings(&self.topology, &self.partitions, &self.config, port)?.differs;
                (given && differs).then_some(Ask::SetPort)
            }
            Phase::Arm(_) => (is_linked && is_init).then_some(Ask::Arm),
            Phase::Activate(_) => (is_linked && state == PortState::Armed).then_some(Ask::Activate),
            _ => None,
        }
    }

    /// The next write to the tables from the block of the switch on; without a block, SwitchInfo comes first.
    fn next_table(&mut self, from: u32, mut block: Option<u16>) -> Option<Errand> {
        for index in from..self.topology.node_count() {
            let Some(node) = self.topology.node(index).copied() else {
                break;
            };
            let start = block.take();
            if !node.is_switch() || !self.topology.is_here(&node) || node.row == NONE {
                continue;
            }
            let top = self.table_top(&node);
            self.report.no_room |= top < self.lids.top();
            if start.is_none() {
                if node.rewrite {
                    self.tables.mark_all(node.row, top);
                    self.multicast.forget(node.row);
                    if let Some(node) = self.topology.node_mut(index) {
                        node.rewrite = false;
                    }
                }
                let known = (node.switch.linear_fdb_top, node.switch.life_time);
                if known != (top.get(), LIFE_TIME) {
                    self.phase = Phase::Tables(index, Some(0));
                    return Some(Errand {
                        ask: Ask::SetSwitch,
                        port: node.first,
                    });
                }
            }
            let start = start.unwrap_or_default();
            if let Some(block) = self.tables.next_dirty(node.row, start, top) {
                self.phase = Phase::Tables(index, Some(block.saturating_add(1)));
                return Some(Errand {
                    ask: Ask::SetTable(block),
                    port: node.first,
                });
            }
        }
        self.phase = Phase::Tables(self.topology.node_count(), None);
        None
    }

    /// What SwitchInfo:LinearFDBTop of a switch is to be.
    pub(super) fn table_top(&self, node: &Node) -> Lid {
        let highest = node.switch.linear_fdb_cap.saturating_sub(1);
        self.lids.top().min(Lid::new(highest))
    }

    /// What SwitchInfo:LifeTimeValue is to be.
    pub(super) const fn life_time(&self) -> u8 {
        LIFE_TIME
    }

    fn next_announcement(&mut self) -> Option<Errand> {
        let handover = core::mem::replace(&mut self.handover, NONE);
        if handover != NONE {
            return Some(Errand {
                ask: Ask::Handover,
                port: handover,
            });
        }
        let acknowledge = core::mem::replace(&mut self.acknowledge, NONE);
        (acknowledge != NONE).then_some(Errand {
            ask: Ask::Acknowledge,
            port: acknowledge,
        })
    }

    fn next_light(&mut self, next: u32) -> Option<Errand> {
        let found = (next..self.topology.node_count()).find_map(|index| {
            let node = self.topology.node(index)?;
            let asked = node.is_switch() && self.topology.is_here(node);
            asked.then_some((index, node.first))
        });
        let after = found.map_or(self.topology.node_count(), |(index, _)| {
            index.saturating_add(1)
        });
        self.phase = Phase::Light(after);
        found.map(|(_, port)| Errand {
            ask: Ask::Light,
            port,
        })
    }

    /// Goes on to the next phase, or on with one that computes: no request is on its way.
    pub(super) fn advance(&mut self, now: Instant) {
        self.phase = match self.phase {
            Phase::Idle => Phase::Idle,
            Phase::Discover if self.topology.own == NONE => return self.finish(now),
            // LIDs that seem to be free may be those of ports that were not found.
            Phase::Discover if self.config.gives_way && self.report.no_room => {
                return self.finish(now);
            }
            Phase::Discover => Phase::Elect(0),
            Phase::Elect(_) => {
                if !self.decide() {
                    return self.start_watch(now);
                }
                // What is to be handed over is left as it is, but not for who does not take it.
                if self.handover == NONE || self.spurned {
                    Phase::Assign
                } else {
                    Phase::Announce
                }
            }
            Phase::Assign => {
                self.assign();
                Phase::Route(0)
            }
            Phase::Route(place) => self.route(place),
            Phase::Forget(lid) => self.forget(lid),
            Phase::Enlist(port) => self.enlist(port),
            Phase::Keys(_) => Phase::Address(0),
            Phase::Address(_) => Phase::Tables(0, None),
            Phase::Tables(..) => self.next_stage(),
            Phase::Arm(_) => Phase::Activate(0),
            Phase::Activate(_) => Phase::Announce,
            Phase::Watch(_) => Phase::Idle,
            Phase::Prune(..) => Phase::Graft(0, Part::FIRST),
            Phase::Graft(..) => return self.finish_multicast(now),
            Phase::Light(_) => Phase::Meet(0),
            Phase::Announce | Phase::Meet(_) => return self.finish(now),
        };
    }

    fn assign(&mut self) {
        let without = self.lids.assign(&mut self.topology);
        let all = self.ranks.rank(&mut self.topology);
        self.report.no_room |= without != 0 || !all || own_lid(&self.topology) == Lid::NONE;
    }

    fn route(&mut self, mut place: usize) -> Phase {
        let mut budget = ROUTE_BUDGET;
        while place < self.ranks.len() {
            if budget == 0 {
                return Phase::Route(place);
            }
            if self.is_routed(place) {
                let visits =
                    routes::route_to(&mut self.topology, &self.ranks, &mut self.tables, place);
                budget = budget.saturating_sub(visits);
            }
            place = place.saturating_add(1);
        }
        if self.deferred.is_empty() {
            Phase::Forget(1)
        } else {
            Phase::Enlist(0)
        }
    }

    /// Whether this stage makes routes to the switch at `place`. All but the last one make those that the next one
    /// needs: to new anchors, and back to the subnet manager, whose switch is the first.
    fn is_routed(&self, place: usize) -> bool {
        let node = self.ranks.at(place).and_then(|at| self.topology.node(at));
        let is_new = node.is_some_and(|node| node.anchored != self.topology.sweep);
        self.deferred.is_empty() || place == 0 || is_new
    }

    fn forget(&mut self, mut lid: u16) -> Phase {
        let mut budget = ROUTE_BUDGET;
        while lid <= self.lids.top().get() {
            if budget == 0 {
                return Phase::Forget(lid);
            }
            let gone = Lid::new(lid);
            routes::forget(
                &self.topology,
                &self.ranks,
                &mut self.tables,
                &self.lids,
                gone,
            );
            lid = lid.saturating_add(1);
            budget = budget.saturating_sub(self.ranks.len().max(1));
        }
        Phase::Enlist(0)
    }

    /// The tables are written: on to what was too far away before, if anything.
    fn next_stage(&mut self) -> Phase {
        let reached = self.ranks.len();
        if self.deferred.is_empty() {
            return Phase::Arm(0);
        }
        if reached == core::mem::replace(&mut self.staged, reached) {
            // Nothing new has come into reach.
            self.deferred = super::fifo::Fifo::EMPTY;
            self.report.trouble = true;
            return Phase::Route(0);
        }
        let sweep = self.topology.sweep;
        for index in 0..self.topology.node_count() {
            if let Some(node) = self.topology.node_mut(index) {
                // What is in the order has routes.
                if node.position != NONE {
                    node.anchored = sweep;
                }
            }
        }
        self.queue = core::mem::replace(&mut self.deferred, super::fifo::Fifo::EMPTY);
        Phase::Discover
    }

    /// A sweep is over.
    fn finish(&mut self, now: Instant) {
        let was_light = matches!(self.phase, Phase::Meet(_));
        // Of the subnet only a part is known then. That is no reason to write tables, or to answer questions.
        let was_cut_short = self.phase == Phase::Discover;
        self.phase = Phase::Idle;
        self.light_at = Some(now.after(self.config.light_sweep));
        if was_light {
            return;
        }
        self.report.sweeps = self.report.sweeps.saturating_add(1);
        self.ready = self.state == SmState::Master && !was_cut_short;
        self.multicast.pending |= self.ready;
        self.respite = now.after(RESPITE);
        if core::mem::take(&mut self.again) {
            self.sweep_at = Some(self.respite);
        } else if self.report.trouble {
            self.sweep_at = Some(now.after(self.patience));
            self.patience = self.config.next_patience(self.patience);
        } else if !self.multicast.failed {
            // What failed after the last sweep may fail after this one.
            self.patience = self.config.retry;
        }
    }
}
