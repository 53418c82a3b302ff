// SPDX-License-Identifier: GPL-2.0

//! Which port has which LID. A port keeps the LID that it has, or had when it was last seen, as long as no other
//! port has it (IBA "Subnet Management", "Initialization Actions").

use super::topology::{
    Topology,
    NONE, //
};
use super::Storage;
use wire::Lid;

/// The owner of each LID.
///
/// # Invariants
///
/// No entry is beyond the unicast LIDs.
pub(super) struct Lids<S: Storage> {
    /// The port (index) of each LID; [`NONE`] for a free one.
    owners: S::Lids,
    /// The highest LID that was ever given.
    top: Lid,
    /// Where to look for the next free one.
    cursor: u16,
}

impl<S: Storage> Lids<S> {
    /// No LIDs. `None` if `owners` is longer than there are unicast LIDs.
    pub(super) fn new(mut owners: S::Lids) -> Option<Self> {
        owners.fill(NONE);
        (owners.len() <= usize::from(Lid::MULTICAST_BASE.get())).then_some(Self {
            owners,
            top: Lid::NONE,
            cursor: 1,
        })
    }

    /// The highest LID that was ever given.
    pub(super) const fn top(&self) -> Lid {
        self.top
    }

    /// The number of LIDs that there may be, LID 0 included.
    pub(super) fn capacity(&self) -> usize {
        self.owners.len()
    }

    /// Whether a port that tells of `lid` could keep it, as far as the storage is concerned.
    pub(super) fn has_room_for(&self, lid: Lid) -> bool {
        !lid.is_unicast() || usize::from(lid.get()) < self.owners.len()
    }

    /// The port (index) that has, or had, `lid`.
    pub(super) fn owner(&self, lid: Lid) -> Option<u32> {
        let owner = *self.owners.get(usize::from(lid.get()))?;
        (owner != NONE).then_some(owner)
    }

    /// Forgets who has which LID, but not how high they are.
    pub(super) fn clear(&mut self, topology: &mut Topology<S>) {
        self.owners.fill(NONE);
        for port in 0..topology.port_count() {
            if let Some(port) = topology.port_mut(port) {
                port.lid = Lid::NONE;
            }
        }
    }

    /// Gives LIDs to all ports that should have one. Returns how many got none, since all are taken.
    pub(super) fn assign(&mut self, topology: &mut Topology<S>) -> u32 {
        for port in 0..topology.port_count() {
            self.keep(topology, port);
        }
        let mut without = 0u32;
        self.cursor = 1;
        for port in 0..topology.port_count() {
            let lacks = topology
                .port(port)
                .is_some_and(|entry| entry.lid == Lid::NONE && topology.is_end_port(entry));
            if lacks && !self.give(topology, port) {
                without = without.saturating_add(1);
            }
        }
        without
    }

    /// A port that has told of a LID gets it if nobody else has.
    fn keep(&mut self, topology: &mut Topology<S>, port: u32) {
        let Some(entry) = topology.port(port) else {
            return;
        };
        let told = entry.info().lid;
        if entry.lid == Lid::NONE
            && topology.is_end_port(entry)
            && told.is_unicast()
            && self.owner(told).is_none()
        {
            self.set(topology, port, told);
        }
    }

    /// Gives the next free LID to a port; if there is none, that of a port that is gone.
    fn give(&mut self, topology: &mut Topology<S>, port: u32) -> bool {
        let free = (self.cursor..=u16::MAX)
            .take_while(|lid| usize::from(*lid) < self.owners.len())
            .find(|lid| self.owner(Lid::new(*lid)).is_none());
        if let Some(lid) = free {
            self.cursor = lid;
            return self.set(topology, port, Lid::new(lid));
        }
        self.cursor = u16::MAX;
        let orphan = (1..=u16::MAX)
            .take_while(|lid| usize::from(*lid) < self.owners.len())
            .find_map(|lid| {
                let owner = self.owner(Lid::new(lid))?;
                let gone = !topology.is_end_port(topology.port(owner)?);
                gone.then_some((Lid::new(lid), owner))
            });
        let Some((lid, owner)) = orphan else {
            return false;
        };
        if let Some(gone) = topology.port_mut(owner) {
            gone.lid = Lid::NONE;
        }
        self.set(topology, port, lid)
    }

    fn set(&mut self, topology: &mut Topology<S>, port: u32, lid: Lid) -> bool {
        let Some(owner) = self.owners.get_mut(usize::from(lid.get())) else {
            return false;
        };
        let Some(entry) = topology.port_mut(port) else {
            return false;
        };
        *owner = port;
        entry.lid = lid;
        self.top = self.top.max(lid);
        true
    }
}
