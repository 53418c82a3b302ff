// SPDX-License-Identifier: GPL-2.0

//! Which of the subnet managers is the master (IBA "Subnet Management", "SM State Machine" and "SMInfo").
//!
//! The higher priority wins, then the lower GUID. A subnet manager that says so in its [`Config`] also yields to
//! one of the same priority and a higher GUID, if that is at a channel adapter and not on a switch, as this one
//! is. By the IBA such a one would hand back what it was given, so that this one calls itself NOTACTIVE while it
//! watches it.

use super::exchange::{
    Ask,
    Errand, //
};
use super::topology::{
    Node,
    Port,
    NONE, //
};
use super::{
    Config,
    Manager,
    Phase,
    Storage, //
};
use crate::time::Instant;
use wire::mad::smp::{
    cap,
    PortInfo,
    SmInfo,
    SmState,
    Smp, //
};
use wire::mad::{
    method,
    status, //
};
use wire::{
    Guid,
    Lid, //
};

/// The largest number of other subnet managers that are remembered.
const MAX_RIVALS: usize = 16;

/// How often in a row the master that is watched may say that it is none before the subnet is looked at anew. If it says
/// nothing, that is at once.
const MISSES: u8 = 3;

/// How much a rival counts: whether it is a master, and whether this one may have to yield to it.
type Weight = (bool, bool);

/// Another subnet manager.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    port: u32,
    told: SmInfo,
    weight: Weight,
}

/// The other subnet managers that have told of themselves in a sweep. Of more than there is room for, those that count
/// most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivals {
    list: [Rival; MAX_RIVALS],
    len: usize,
}

impl Rivals {
    pub(super) const NONE: Self = Self {
        list: [Rival {
            port: NONE,
            told: SmInfo {
                guid: Guid::ZERO,
                sm_key: 0,
                act_count: 0,
                priority: 0,
                state: 0,
            },
            weight: (false, false),
        }; MAX_RIVALS],
        len: 0,
    };

    pub(super) fn clear(&mut self) {
        *self = Self::NONE;
    }

    fn iter(&self) -> impl Iterator<Item = &Rival> {
        self.list.get(..self.len).unwrap_or_default().iter()
    }

    fn get(&self, index: usize) -> Option<&Rival> {
        self.list.get(index).filter(|_| index < self.len)
    }

    /// Returns whether the rival was not known to count as much as it does.
    fn told(&mut self, rival: Rival) -> bool {
        let known = self.list.get_mut(..self.len).unwrap_or_default();
        if let Some(place) = known.iter_mut().find(|known| known.port == rival.port) {
            return core::mem::replace(place, rival).weight < rival.weight;
        }
        if let Some(place) = self.list.get_mut(self.len) {
            *place = rival;
            self.len = self.len.saturating_add(1);
            return true;
        }
        match self.list.iter_mut().min_by_key(|known| known.weight) {
            Some(least) if least.weight < rival.weight => {
                *least = rival;
                true
            }
            _ => false,
        }
    }
}

/// How a rival compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// It yields to this one.
    Lower,
    /// This one yields to it by its own choice: the rival does not know.
    Courtesy,
    /// This one yields to it.
    Higher,
}

/// Compares a rival that is at a channel adapter, or not.
pub(super) fn compare(config: &Config, on_switch: bool, at_adapter: bool, told: &SmInfo) -> Rank {
    let lower_guid = told.guid < config.guid;
    match told.priority.cmp(&config.priority) {
        core::cmp::Ordering::Greater => Rank::Higher,
        core::cmp::Ordering::Equal if lower_guid => Rank::Higher,
        core::cmp::Ordering::Equal if config.courteous && on_switch && at_adapter => Rank::Courtesy,
        _ => Rank::Lower,
    }
}

impl<S: Storage> Manager<S> {
    /// What this subnet manager tells of itself.
    pub fn sm_info(&self) -> SmInfo {
        let state = if self.courtesy && self.state == SmState::Standby {
            SmState::NotActive
        } else {
            self.state
        };
        SmInfo {
            guid: self.config.guid,
            sm_key: 0,
            act_count: self.act_count,
            priority: self.config.priority,
            state: state as u8,
        }
    }

    /// A subnet manager that is known, this one first, and where it is. `None` past the last one; `Some(None)` is one
    /// that is nowhere any more.
    pub(crate) fn manager_at(&self, place: usize) -> Option<Option<(Lid, SmInfo)>> {
        let Some(index) = place.checked_sub(1) else {
            return Some(Some((self.lid(), self.sm_info())));
        };
        let rival = self.rivals.get(index)?;
        let lid = self.port_at(rival.port).map(|(_, port)| port.lid());
        Some(lid.map(|lid| (lid, rival.told)))
    }

    fn rank_of(&self, port: u32, told: &SmInfo) -> Rank {
        let is_switch = |port| self.topology.node_of(port).is_some_and(Node::is_switch);
        compare(
            &self.config,
            is_switch(self.topology.own),
            !is_switch(port),
            told,
        )
    }

    /// A port other than the subnet manager's own may have a subnet manager, and tells in its PortInfo.
    pub(super) fn consider(&mut self, port: u32, info: &PortInfo) {
        let is_one = info.capability_mask & (cap::SM | cap::SM_DISABLED) == cap::SM;
        let own = self.topology.own;
        if let Some(entry) = self.topology.port_mut(port) {
            entry.manages = is_one && port != own;
        }
    }

    /// The next question to another subnet manager, from the port `next` on.
    pub(super) fn next_rival(&mut self, next: u32, phase: fn(u32) -> Phase) -> Option<Errand> {
        let sweep = self.topology.sweep;
        let manages = |port: &Port| port.manages && port.seen == sweep;
        let found = (next..self.topology.port_count())
            .find(|port| self.topology.port(*port).is_some_and(manages));
        let after = found.map_or(self.topology.port_count(), |port| port.saturating_add(1));
        self.phase = phase(after);
        found.map(|port| Errand {
            ask: Ask::Manager,
            port,
        })
    }

    /// Takes the SMInfo of another subnet manager.
    pub(super) fn rival_told(&mut self, port: u32, info: &SmInfo, now: Instant) {
        let state = SmState::from_code(info.state);
        let wins = self.rank_of(port, info) != Rank::Lower && state != Some(SmState::NotActive);
        let is_news = self.rivals.told(Rival {
            port,
            told: *info,
            weight: (state == Some(SmState::Master), wins),
        });
        // One that did not answer in the last sweep was held to be none, and may be the master as well as this one.
        if is_news && wins && matches!(self.phase, Phase::Meet(_)) {
            self.request_sweep(now);
        }
        if self.state != SmState::Standby || port != self.master {
            return;
        }
        if SmState::from_code(info.state) == Some(SmState::Master) {
            self.misses = 0;
        } else {
            self.misses = self.misses.saturating_add(1);
        }
    }

    /// The other subnet managers have been asked: who is the master? Returns whether this one is.
    pub(super) fn decide(&mut self) -> bool {
        let mut best: Option<(u32, SmState, Rank)> = None;
        for rival in self.rivals.iter() {
            let state = SmState::from_code(rival.told.state).unwrap_or_default();
            let rank = self.rank_of(rival.port, &rival.told);
            let master = state == SmState::Master;
            let counts = match self.state {
                // A master is obeyed by whoever comes, until it hands over.
                SmState::Master => rank != Rank::Lower && state != SmState::NotActive,
                _ => master || (rank == Rank::Higher && state != SmState::NotActive),
            };
            let better = best.is_none_or(|(_, known, _)| master && known != SmState::Master);
            if counts && better {
                best = Some((rival.port, state, rank));
            }
        }
        match (self.state, best) {
            (SmState::Master, Some((port, SmState::Master | SmState::Standby, rank))) => {
                self.courtesy = rank == Rank::Courtesy;
                self.handover = port;
                true
            }
            (SmState::Master, Some(_)) => {
                // It looks around still, and will wait to be handed the subnet.
                self.report.trouble = true;
                true
            }
            (SmState::Master, None) => true,
            (_, Some((port, _, rank))) => {
                self.courtesy = rank == Rank::Courtesy;
                self.stand_by(port);
                false
            }
            (_, None) => {
                self.become_master();
                true
            }
        }
    }

    /// Watches the master at `port`.
    pub(super) fn stand_by(&mut self, port: u32) {
        self.state = SmState::Standby;
        self.master = port;
        self.handover = NONE;
        self.spurned = false;
        self.misses = 0;
        self.ready = false;
        self.phase = Phase::Idle;
        self.sweep_at = None;
        self.exchange.clear();
        // Subnet administration forgets what ports have asked for, and the new master may be gone before it has told
        // them that it is one.
        for index in 0..self.topology.port_count() {
            if let Some(port) = self.topology.port_mut(index) {
                port.returned = true;
            }
        }
    }

    /// Takes the subnet over: ports keep the LIDs that they have now.
    pub(super) fn become_master(&mut self) {
        self.state = SmState::Master;
        self.courtesy = false;
        self.handover = NONE;
        self.spurned = false;
        self.lids.clear(&mut self.topology);
        self.rewrite_all();
    }

    /// Somebody else may have written the tables of all switches and ports.
    fn rewrite_all(&mut self) {
        self.partitions.suspect();
        for index in 0..self.topology.node_count() {
            if let Some(node) = self.topology.node_mut(index) {
                node.rewrite = true;
            }
        }
    }

    /// Looks at the subnet anew, as if it had just begun.
    pub(super) fn rediscover(&mut self, now: Instant) {
        self.state = SmState::Discovering;
        self.courtesy = false;
        self.phase = Phase::Idle;
        self.exchange.clear();
        self.sweep_at = Some(now);
    }

    /// What to send to the master that is watched.
    pub(super) fn watch(&mut self, now: Instant) -> Option<Errand> {
        if self.misses >= MISSES {
            self.rediscover(now);
            return None;
        }
        Some(Errand {
            ask: Ask::Manager,
            port: self.master,
        })
    }

    /// Answers another subnet manager that asks for SMInfo, or sets it. Returns the status.
    pub(super) fn on_sm_info(&mut self, smp: &mut Smp, now: Instant) -> u16 {
        let status = if smp.method() == method::SET {
            self.ordered(smp.attr_mod(), now)
        } else {
            self.asked_by(&smp.attribute(), now);
            status::OK
        };
        smp.set_attribute(&self.sm_info());
        status
    }

    /// Another subnet manager asks, which may have told of itself.
    ///
    /// When two subnets become one, each master hears of it by a trap and a change bit, but the first one of them that
    /// looks around takes both from the other one. If that is to yield, it has to be told to look around.
    fn asked_by(&mut self, asker: &SmInfo, now: Instant) {
        let is_master = SmState::from_code(asker.state) == Some(SmState::Master);
        let is_other = asker.guid != Guid::default() && asker.guid != self.config.guid;
        if self.is_master() && is_master && is_other {
            let rank = compare(&self.config, false, false, asker);
            if rank == Rank::Higher {
                self.request_sweep(now);
            }
        }
    }

    /// Another subnet manager gives an order.
    fn ordered(&mut self, order: u32, now: Instant) -> u16 {
        match (order, self.state) {
            (SmInfo::HANDOVER, SmState::Standby | SmState::Discovering) => {
                self.acknowledge = self.master;
                self.become_master();
                self.phase = Phase::Idle;
                self.exchange.clear();
                self.sweep_at = Some(now);
            }
            (SmInfo::HANDOVER, SmState::Master) => {
                self.rewrite_all();
                self.request_sweep(now);
            }
            (SmInfo::ACKNOWLEDGE, SmState::Standby) => self.misses = 0,
            (SmInfo::DISABLE, SmState::Standby | SmState::Discovering) => {
                self.state = SmState::NotActive;
                self.phase = Phase::Idle;
                self.sweep_at = None;
                self.exchange.clear();
            }
            (SmInfo::STANDBY, SmState::NotActive) if self.master != NONE => {
                self.state = SmState::Standby;
                self.misses = 0;
                self.poll_at = Some(now);
            }
            (SmInfo::STANDBY, SmState::NotActive) => self.rediscover(now),
            (SmInfo::DISCOVER, SmState::Standby) => self.rediscover(now),
            _ => return status::INVALID_FIELD,
        }
        status::OK
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_sm_elect))]
mod tests {
    use super::*;

    #[test]
    fn priority_then_guid_then_courtesy() {
        let mut config = Config::new(Guid::new(5));
        config.priority = 3;
        // (priority, GUID, on a switch, at an adapter, rank)
        for (priority, guid, on_switch, at_adapter, want) in [
            (4, 9, true, true, Rank::Higher),
            (2, 1, true, true, Rank::Lower),
            (3, 4, true, false, Rank::Higher),
            (3, 6, true, false, Rank::Lower),
            (3, 6, false, true, Rank::Lower),
            (3, 6, true, true, Rank::Courtesy),
        ] {
            let told = SmInfo {
                guid: Guid::new(guid),
                priority,
                ..SmInfo::default()
            };
            assert_eq!(compare(&config, on_switch, at_adapter, &told), want);
        }
    }
}
