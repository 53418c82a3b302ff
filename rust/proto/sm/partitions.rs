// SPDX-License-Identifier: GPL-2.0

//! Partitions: which ports have which P_Keys (IBA "Partitioning" and "P_KeyTable").
//!
//! A subnet manager that was never told of partitions leaves the tables of all ports as they are, and takes it that
//! each port is a full member of the default partition alone. One that was writes those of all ports of channel
//! adapters, and of the ports of switches that lead to them, which it has enforce partitions.
//!
//! Queue pairs refer to places in the table of their port. So the table is asked for, and a key that is in it already
//! stays in its place. The default partition has place 0.

use super::exchange::{
    Ask,
    Errand, //
};
use super::membership::{
    Membership,
    Names, //
};
use super::phase::Phase;
use super::topology::{
    Node,
    Port,
    Topology, //
};
use super::{
    Manager,
    Storage, //
};
use crate::time::Instant;
use wire::mad::smp::PKeyTable;
use wire::{
    Guid,
    PKey, //
};

/// A port, or all of them, is in a partition.
///
/// A list of these, where those of a partition follow each other, tells all: of 32 partitions at most, with the default
/// one. Where a port is named more than once, it is a full member if it is so once. All ports of channel adapters are
/// members of the default partition: full ones, unless the list tells of that partition and not of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The partition, with the kind of membership.
    pub pkey: PKey,
    /// The GUID of the port; `None` for all of channel adapters.
    pub port: Option<Guid>,
}

/// Entries of a table.
const PLACES: usize = PKeyTable::ENTRIES;

/// Assignments to be looked at by one call that finds out which partitions ports are in.
const ENLIST_BUDGET: usize = 1 << 14;

/// The largest number of tables that are read and written at the same time.
const DRAFTS: usize = 8;

/// The keys of a port.
#[derive(Clone, Copy, Debug)]
struct Keys {
    keys: [PKey; PLACES],
    len: usize,
}

impl Keys {
    const NONE: Self = Self {
        keys: [PKey::INVALID; PLACES],
        len: 0,
    };

    /// Those of a port, the one of the default partition first.
    fn of(membership: Membership, names: &Names) -> Self {
        let mut this = Self::NONE;
        for key in membership.keys(names) {
            this.add(key);
        }
        this
    }

    fn add(&mut self, pkey: PKey) {
        if let Some(key) = self.keys.get_mut(self.len) {
            *key = pkey;
            self.len = self.len.saturating_add(1);
        }
    }

    /// These keys in the first `room` places of a table; where `told` has one of them it stays.
    fn arrange(&self, told: &PKeyTable, room: usize) -> PKeyTable {
        let mut table = [PKey::INVALID; PLACES];
        let room = room.clamp(1, PLACES);
        let mut keys = self.keys.get(..self.len).unwrap_or_default().iter();
        if let (Some(first), Some(key)) = (table.first_mut(), keys.next()) {
            *first = *key;
        }
        let mut new = Self::NONE;
        for key in keys {
            let mut places = table.iter_mut().zip(&told.0).take(room);
            match places.find(|(place, old)| !place.is_valid() && old.base() == key.base()) {
                Some((place, _)) => *place = *key,
                None => new.add(*key),
            }
        }
        // A place that was left by another partition is the last choice: queue pairs may refer to it still.
        for key in new.keys.get(..new.len).unwrap_or_default() {
            let unused = |(place, old): (&PKey, &PKey)| !place.is_valid() && !old.is_valid();
            let at = table.iter().zip(&told.0).take(room).position(unused);
            let at = at.or_else(|| table.iter().take(room).position(|place| !place.is_valid()));
            if let Some(place) = at.and_then(|at| table.get_mut(at)) {
                *place = *key;
            }
        }
        PKeyTable(table)
    }
}

/// A table that is being read and written.
#[derive(Clone, Copy, Debug)]
struct Draft {
    /// The port whose table it is.
    port: u32,
    /// What it is to be, once it was read.
    table: Option<PKeyTable>,
    /// It is on its way to the port.
    sent: bool,
}

/// The partitions of a subnet.
pub(super) struct Partitions<S: Storage> {
    /// `None` before any were told.
    list: Option<S::Assignments>,
    /// What the next sweep takes for `list`.
    next: Option<S::Assignments>,
    /// The partitions of `list`.
    names: Names,
    /// What ports are members of by this is what `list` says. Not 0.
    edition: u32,
    /// Tables that were written by this are as they are to be. Not 0.
    version: u32,
    drafts: [Option<Draft>; DRAFTS],
}

impl<S: Storage> Partitions<S> {
    /// None are told.
    pub(super) const fn new() -> Self {
        Self {
            list: None,
            next: None,
            names: Names::NONE,
            edition: 1,
            version: 1,
            drafts: [None; DRAFTS],
        }
    }

    /// A sweep begins.
    pub(super) fn begin(&mut self) {
        self.drafts = [None; DRAFTS];
        if let Some(next) = self.next.take() {
            self.names = Names::of(&next);
            self.list = Some(next);
            self.edition = self.edition.wrapping_add(1).max(1);
            self.suspect();
        }
    }

    /// Somebody else may have written all tables.
    pub(super) fn suspect(&mut self) {
        self.version = self.version.wrapping_add(1).max(1);
    }

    /// What a port of a channel adapter is a member of.
    fn membership(&self, port: &Port) -> Membership {
        if port.enlisted == self.edition {
            return port.membership;
        }
        let list = self.list.as_deref().unwrap_or_default();
        Membership::of(&self.names, list, port.guid)
    }

    /// Notes with a port what it is a member of. Returns how much work that was.
    fn enlist(&self, topology: &mut Topology<S>, port: u32) -> usize {
        let found = topology.port(port).filter(|entry| {
            let fixed = topology.node(entry.node).is_none_or(Node::is_switch);
            !fixed && entry.enlisted != self.edition
        });
        let Some(membership) = found.map(|entry| self.membership(entry)) else {
            return 1;
        };
        if let Some(entry) = topology.port_mut(port) {
            entry.membership = membership;
            entry.enlisted = self.edition;
        }
        self.list.as_ref().map_or(1, |list| list.len().max(1))
    }

    /// Whether a port of a switch is to enforce partitions. `None` where that is left as it is.
    pub(super) fn enforces(&self, topology: &Topology<S>, port: u32) -> Option<bool> {
        self.list.as_ref()?;
        let near = topology.port(port)?;
        if topology.has_lid(near) || !topology.node_of(port)?.is_switch() {
            return None;
        }
        match self.guarded(topology, port) {
            None => Some(false),
            Some(_) if near.keyed == self.version => Some(true),
            // Not before the table is there; but an older one is better than none.
            Some(_) => None,
        }
    }

    /// The keys by which a port of a switch has to enforce partitions, if it has to.
    fn guarded(&self, topology: &Topology<S>, port: u32) -> Option<Keys> {
        let far = topology.port(topology.link(port)?)?;
        let here = topology.node_of(port)?;
        let adapter = !topology.node(far.node)?.is_switch();
        let room = usize::from(here.switch.partition_enforcement_cap);
        if !adapter || !here.is_switch() || self.names.is_empty() {
            return None;
        }
        let keys = Keys::of(self.membership(far), &self.names);
        (keys.len <= room).then_some(keys)
    }

    /// What a port that has not been written lacks.
    fn lack(&self, topology: &Topology<S>, port: u32) -> Option<Ask> {
        let entry = topology.port(port)?;
        if self.list.is_none() || entry.seen != topology.sweep || entry.keyed == self.version {
            return None;
        }
        let is_switch = topology.node(entry.node)?.is_switch();
        if !is_switch {
            return Some(Ask::Keys);
        }
        self.guarded(topology, port).map(|_| Ask::SetKeys)
    }

    fn draft_mut(&mut self, port: u32) -> Option<&mut Draft> {
        let mut drafts = self.drafts.iter_mut().flatten();
        drafts.find(|draft| draft.port == port)
    }

    /// A port whose table was read, and has to be written.
    fn take_read(&mut self) -> Option<u32> {
        let mut drafts = self.drafts.iter_mut().flatten();
        let draft = drafts.find(|draft| draft.table.is_some() && !draft.sent)?;
        draft.sent = true;
        Some(draft.port)
    }

    /// Has a table read, if there is room for it.
    fn open(&mut self, port: u32) -> bool {
        let free = self.drafts.iter_mut().find(|draft| draft.is_none());
        let Some(free) = free else {
            return false;
        };
        *free = Some(Draft {
            port,
            table: None,
            sent: false,
        });
        true
    }

    /// Forgets a table, which was written, or is not to be.
    pub(super) fn close(&mut self, port: u32) {
        for draft in &mut self.drafts {
            if draft.is_some_and(|draft| draft.port == port) {
                *draft = None;
            }
        }
    }
}

impl<S: Storage> Manager<S> {
    /// Has the partitions be as `list` says, by a sweep.
    pub fn set_partitions(&mut self, list: S::Assignments, now: Instant) {
        self.partitions.next = Some(list);
        self.request_sweep(now);
    }

    /// The partitions, each by the key of its full members; the default one first.
    pub fn partitions(&self) -> impl Iterator<Item = PKey> + '_ {
        self.partitions.names.iter()
    }

    /// What a port, given by its index, is a member of.
    fn membership_at(&self, port: u32) -> Option<Membership> {
        let entry = self.topology.port(port)?;
        if self.topology.node(entry.node).is_some_and(Node::is_switch) {
            return Some(Membership::DEFAULT);
        }
        Some(self.partitions.membership(entry))
    }

    /// The key that a port, given by its index, has of the partition of `wanted`.
    pub(crate) fn pkey_at(&self, port: u32, wanted: PKey) -> Option<PKey> {
        self.membership_at(port)?
            .key(&self.partitions.names, wanted)
    }

    /// The partition in which two ports, given by their indices, may talk: that of `wanted`, or else the first of all;
    /// and, if there is a `witness`, one that this port is in, too.
    pub(crate) fn common_partition(
        &self,
        (a, b): (u32, u32),
        witness: Option<u32>,
        wanted: Option<PKey>,
    ) -> Option<PKey> {
        let names = &self.partitions.names;
        let meeting = self.membership_at(a)?.meets(self.membership_at(b)?);
        let seen = match witness {
            Some(port) => self.membership_at(port)?.any(),
            None => u32::MAX,
        };
        let wanted = wanted.map_or(u32::MAX, |pkey| names.bit(pkey));
        names.first(meeting & seen & wanted)
    }

    /// Finds out for a while which partitions ports are in.
    pub(super) fn enlist(&mut self, mut port: u32) -> Phase {
        let mut budget = ENLIST_BUDGET;
        while port < self.topology.port_count() {
            if budget == 0 {
                return Phase::Enlist(port);
            }
            let spent = self.partitions.enlist(&mut self.topology, port);
            budget = budget.saturating_sub(spent);
            port = port.saturating_add(1);
        }
        Phase::Keys(0)
    }

    /// The next request of the phase that writes P_Keys.
    pub(super) fn next_keys(&mut self, next: u32) -> Option<Errand> {
        let set = |port| Errand {
            ask: Ask::SetKeys,
            port,
        };
        if let Some(port) = self.partitions.take_read() {
            return Some(set(port));
        }
        for port in next..self.topology.port_count() {
            let ask = self.partitions.lack(&self.topology, port);
            let after = Phase::Keys(port.saturating_add(1));
            match ask {
                None => {}
                Some(Ask::Keys) => {
                    self.phase = Phase::Keys(port);
                    if !self.partitions.open(port) {
                        return None;
                    }
                    self.phase = after;
                    return Some(Errand {
                        ask: Ask::Keys,
                        port,
                    });
                }
                Some(_) => {
                    self.phase = after;
                    return Some(set(port));
                }
            }
        }
        self.phase = Phase::Keys(self.topology.port_count());
        None
    }

    /// What the modifier of a request for the table of a port is.
    pub(super) fn keys_modifier(&self, port: u32) -> Option<u32> {
        let entry = self.topology.port(port)?;
        Some(if self.topology.has_lid(entry) {
            0
        } else {
            u32::from(entry.number.get()) << 16
        })
    }

    /// The table that a port is to have.
    pub(super) fn keys_due(&self, port: u32) -> Option<PKeyTable> {
        let mut drafts = self.partitions.drafts.iter().flatten();
        if let Some(draft) = drafts.find(|draft| draft.port == port) {
            return draft.table;
        }
        let keys = self.partitions.guarded(&self.topology, port)?;
        Some(keys.arrange(&PKeyTable::default(), PLACES))
    }

    /// A port of an adapter has told its table.
    pub(super) fn keys_told(&mut self, port: u32, told: &PKeyTable) {
        let Some(entry) = self.topology.port(port) else {
            return;
        };
        let room = self
            .topology
            .node(entry.node)
            .map(|node| node.info.partition_cap);
        let keys = Keys::of(self.partitions.membership(entry), &self.partitions.names);
        let due = keys.arrange(told, room.unwrap_or_default().into());
        if due == *told {
            return self.keys_written(port);
        }
        if let Some(draft) = self.partitions.draft_mut(port) {
            draft.table = Some(due);
        }
    }

    /// A port has answered with the table that it has taken.
    pub(super) fn keys_set(&mut self, port: u32, taken: &PKeyTable) {
        if self.keys_due(port).as_ref() == Some(taken) {
            return self.keys_written(port);
        }
        self.partitions.close(port);
        self.report.trouble = true;
    }

    fn keys_written(&mut self, port: u32) {
        self.partitions.close(port);
        if let Some(entry) = self.topology.port_mut(port) {
            entry.keyed = self.partitions.version;
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(sib_proto_sm_partitions)
)]
mod tests {
    use super::*;

    fn keys(pkeys: &[u16]) -> Keys {
        let mut keys = Keys::NONE;
        for pkey in pkeys {
            keys.add(PKey::new(*pkey));
        }
        keys
    }

    #[test]
    fn keys_keep_their_places() {
        let keys = keys(&[0xffff, 0x8001, 0x8002, 0x8003]);
        let mut told = PKeyTable::default();
        for (place, key) in told.0.iter_mut().zip([0x8003, 0x8009, 0x0002, 0x8008]) {
            *place = PKey::new(key);
        }
        let table = keys.arrange(&told, 5).0;
        let first = [0xffff, 0, 0x8002, 0, 0x8001].map(PKey::new);
        // Where the fifth place is taken, one that another partition has left has to do.
        assert_eq!(table.first(), Some(&first[0]));
        assert_eq!(table.get(2), Some(&first[2]));
        assert_eq!(table.get(4), Some(&first[4]));
        assert_eq!(table.get(1), Some(&PKey::new(0x8003)));
        assert_eq!(table.iter().filter(|key| key.is_valid()).count(), 4);
    }

    #[test]
    fn what_is_too_much_is_left_out() {
        let keys = keys(&core::array::from_fn::<u16, 40, _>(|at| 0x8001 + at as u16));
        assert_eq!(keys.len, PLACES);
        let table = keys.arrange(&PKeyTable::default(), 4).0;
        assert_eq!(table.iter().filter(|key| key.is_valid()).count(), 4);
    }
}
