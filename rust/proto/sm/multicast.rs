// SPDX-License-Identifier: GPL-2.0

//! The multicast forwarding tables: as the switches have them, and as they are to be.
//!
//! While trees change, a switch that has the new tree and one that has the old one could send packets round in circles.
//! So ports that are in the old trees alone are taken out of all tables first; only then those of the new trees are
//! added. What is between is a part of the one trees or of the others. A switch that keeps its old trees is left out of
//! the new ones: nothing is sent into it, and others do not wait for it.

use super::exchange::{
    Ask,
    Errand, //
};
use super::topology::{
    Node,
    NONE, //
};
use super::{
    Manager,
    Phase,
    Storage, //
};
use crate::fabric::switch::PortMask;
use crate::time::Instant;
use wire::mad::smp::MulticastForwardingTable;
use wire::PortNum;

/// Entries of a block.
const BLOCK: usize = MulticastForwardingTable::ENTRIES;

/// The largest number of multicast LIDs: whole blocks below the permissive LID.
const MAX_LIDS: usize = 0x3fe0;

/// Positions of 16 ports that a block may have.
const POSITIONS: u16 = 16;

/// What one datagram writes: a block, and which 16 ports of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part(u16);

impl Part {
    /// The first 16 ports of the first block.
    pub(super) const FIRST: Self = Self(0);

    const fn block(self) -> u16 {
        self.0 / POSITIONS
    }

    const fn position(self) -> u8 {
        (self.0 % POSITIONS) as u8
    }

    const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The attribute modifier.
    pub(super) const fn modifier(self) -> u32 {
        MulticastForwardingTable::modifier(self.block(), self.position())
    }
}

/// The tables.
///
/// # Invariants
///
/// `has` and `due` have `rows` rows of `len` entries, `unknown` as many of `len` / [`BLOCK`].
pub(super) struct Multicast<S: Storage> {
    /// What the switches have, or had when they last told; nothing where they never did.
    has: S::Mfts,
    /// What they are to have.
    due: S::Mfts,
    /// By block: the positions of which it is not known what the switch has.
    unknown: S::Unknown,
    len: usize,
    rows: usize,
    /// Something may have to be written.
    pub(super) pending: bool,
    /// A switch did not take what was written.
    pub(super) failed: bool,
}

impl<S: Storage> Multicast<S> {
    /// Tables of `rows` switches. `None` if the sizes do not fit each other.
    pub(super) fn new(
        mut has: S::Mfts,
        mut due: S::Mfts,
        mut unknown: S::Unknown,
        rows: usize,
    ) -> Option<Self> {
        let len = has.len().checked_div(rows).unwrap_or_default();
        let blocks = len / BLOCK;
        let fits = blocks.checked_mul(BLOCK)? == len
            && len <= MAX_LIDS
            && has.len() == rows.checked_mul(len)?
            && due.len() == has.len()
            && unknown.len() >= rows.checked_mul(blocks)?;
        has.fill(PortMask::EMPTY);
        due.fill(PortMask::EMPTY);
        unknown.fill(u16::MAX);
        fits.then_some(Self {
            has,
            due,
            unknown,
            len,
            rows,
            pending: false,
            failed: false,
        })
    }

    /// The number of multicast LIDs.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Forgets what the switch with the row `row` has.
    pub(super) fn forget(&mut self, row: u32) {
        for column in 0..self.len {
            let at = self.index(row, column);
            if let Some(entry) = at.and_then(|at| self.has.get_mut(at)) {
                *entry = PortMask::EMPTY;
            }
        }
        for block in 0..self.len / BLOCK {
            let at = self.block_index(row, block);
            if let Some(unknown) = at.and_then(|at| self.unknown.get_mut(at)) {
                *unknown = u16::MAX;
            }
        }
    }

    /// The switch with the row `row` was to take a part, and has perhaps done so.
    pub(super) fn doubt(&mut self, row: u32, part: Part) {
        let at = self.block_index(row, usize::from(part.block()));
        if let Some(unknown) = at.and_then(|at| self.unknown.get_mut(at)) {
            *unknown |= position_bit(part);
        }
    }

    /// Sets where the switch is to send packets for the multicast LID number `column`.
    pub(super) fn set(&mut self, row: u32, column: usize, mask: PortMask) {
        let entry = self
            .index(row, column)
            .and_then(|at| self.due.get_mut(at))
            .filter(|entry| **entry != mask);
        if let Some(entry) = entry {
            *entry = mask;
            self.pending = true;
        }
    }

    /// The first part from `part` on that has to be written, with ports to be taken out or else for any reason. The switch
    /// has `ports` ports and `cap` entries.
    fn next(&self, row: u32, part: Part, prune: bool, ports: u8, cap: u16) -> Option<Part> {
        let positions = u16::from(ports / 16).saturating_add(1);
        let blocks = self.len.min(usize::from(cap)).div_ceil(BLOCK);
        let end = (blocks as u16).saturating_mul(POSITIONS);
        let all = (part.0..end).map(Part);
        all.filter(|part| u16::from(part.position()) < positions)
            .find(|part| self.lacks(row, *part, prune) == Some(true))
    }

    fn lacks(&self, row: u32, part: Part, prune: bool) -> Option<bool> {
        let unknown = self.is_unknown(row, part)?;
        let (has, due) = self.entries(row, part.block())?;
        let position = part.position();
        let differs = has.iter().zip(due).any(|(has, due)| {
            let (has, due) = (has.half_word(position), due.half_word(position));
            if prune {
                has & !due != 0
            } else {
                has != due
            }
        });
        Some(unknown || differs)
    }

    /// What is to be written: no port that is not to be there, and none of `closed`; if `prune`, none either that may not
    /// be there yet.
    pub(super) fn part(
        &self,
        row: u32,
        part: Part,
        prune: bool,
        closed: &PortMask,
    ) -> Option<MulticastForwardingTable> {
        let (has, due) = self.entries(row, part.block())?;
        let position = part.position();
        let open = !closed.half_word(position);
        let mut table = MulticastForwardingTable::default();
        for (entry, (has, due)) in table.0.iter_mut().zip(has.iter().zip(due)) {
            let ports = if prune { has.and(due) } else { *due };
            *entry = ports.half_word(position) & open;
        }
        Some(table)
    }

    /// The switch has told what it has. Returns whether it keeps ports that are not to be there.
    pub(super) fn told(&mut self, row: u32, part: Part, table: &MulticastForwardingTable) -> bool {
        let Some(at) = self.block_index(row, usize::from(part.block())) else {
            return false;
        };
        let first = at.saturating_mul(BLOCK);
        let entries = self.has.get_mut(first..).unwrap_or(&mut []);
        for (entry, ports) in entries.iter_mut().zip(table.0) {
            entry.set_half_word(part.position(), ports);
        }
        if let Some(unknown) = self.unknown.get_mut(at) {
            *unknown &= !position_bit(part);
        }
        // A switch that keeps what it is not to have would be written for ever.
        let keeps = self.lacks(row, part, true) == Some(true);
        self.failed |= keeps;
        keeps
    }

    fn is_unknown(&self, row: u32, part: Part) -> Option<bool> {
        let at = self.block_index(row, usize::from(part.block()))?;
        Some(self.unknown.get(at)? & position_bit(part) != 0)
    }

    /// The entries of a block, as they are and as they are to be.
    fn entries(&self, row: u32, block: u16) -> Option<(&[PortMask], &[PortMask])> {
        let block = self.block_index(row, usize::from(block))?;
        let first = block.checked_mul(BLOCK)?;
        let range = first..first.checked_add(BLOCK)?;
        Some((self.has.get(range.clone())?, self.due.get(range)?))
    }

    fn index(&self, row: u32, column: usize) -> Option<usize> {
        if column >= self.len || row as usize >= self.rows {
            return None;
        }
        (row as usize).checked_mul(self.len)?.checked_add(column)
    }

    fn block_index(&self, row: u32, block: usize) -> Option<usize> {
        let blocks = self.len / BLOCK;
        if block >= blocks || row as usize >= self.rows {
            return None;
        }
        (row as usize).checked_mul(blocks)?.checked_add(block)
    }
}

/// The bit of a position among those of a block.
const fn position_bit(part: Part) -> u16 {
    1u16.wrapping_shl(part.position() as u32)
}

impl<S: Storage> Manager<S> {
    /// The number of multicast LIDs that all switches can forward, but for those that forward none.
    pub(crate) fn multicast_lids(&self) -> usize {
        let switches = self.nodes().filter(|node| node.is_switch());
        let caps = switches.map(|node| usize::from(node.switch.multicast_fdb_cap));
        let least = caps.filter(|cap| *cap != 0).min();
        least.unwrap_or_default().min(self.multicast.len())
    }

    /// The next write to the multicast tables, from the part of the switch on.
    pub(super) fn next_multicast(&mut self, from: u32, part: Part, prune: bool) -> Option<Errand> {
        let phase = if prune { Phase::Prune } else { Phase::Graft };
        let ask = if prune { Ask::Prune } else { Ask::Graft };
        let mut start = part;
        for index in from..self.topology.node_count() {
            let Some(node) = self.topology.node(index) else {
                break;
            };
            let (row, ports, first) = (node.row, node.info.num_ports, node.first);
            let cap = node.switch.multicast_fdb_cap;
            let start = core::mem::replace(&mut start, Part::FIRST);
            if !node.is_switch() || !self.topology.is_here(node) || row == NONE {
                continue;
            }
            if !prune && node.keeps_trees {
                continue;
            }
            if let Some(part) = self.multicast.next(row, start, prune, ports, cap) {
                self.phase = phase(index, part.next());
                return Some(Errand {
                    ask: ask(part),
                    port: first,
                });
            }
        }
        self.phase = phase(self.topology.node_count(), Part::FIRST);
        None
    }

    /// The tables are to be written.
    pub(super) fn begin_multicast(&mut self) -> Phase {
        self.multicast.pending = false;
        self.multicast.failed = false;
        for index in 0..self.topology.node_count() {
            if let Some(node) = self.topology.node_mut(index) {
                // One without tables has no part in trees.
                node.keeps_trees = node.is_switch() && node.switch.multicast_fdb_cap == 0;
            }
        }
        Phase::Prune(0, Part::FIRST)
    }

    /// The switch of a port has not been pruned.
    pub(super) fn keeps_trees(&mut self, port: u32) {
        let node = self.topology.port(port).map_or(NONE, |port| port.node);
        if let Some(node) = self.topology.node_mut(node) {
            node.keeps_trees = true;
        }
    }

    /// The ports of a switch that lead to others which have not been pruned.
    pub(super) fn closed(&self, node: &Node) -> PortMask {
        let mut closed = PortMask::EMPTY;
        for number in 1..=node.info.num_ports {
            let far = self
                .topology
                .port_of(node, PortNum::new(number))
                .and_then(|port| self.topology.link(port))
                .and_then(|far| self.topology.node_of(far));
            if far.is_some_and(|far| far.keeps_trees) {
                closed.insert(PortNum::new(number));
            }
        }
        closed
    }

    /// The multicast tables are written. What failed is tried again after a heavy sweep.
    pub(super) fn finish_multicast(&mut self, now: Instant) {
        self.phase = Phase::Idle;
        if self.multicast.failed {
            let at = now.after(self.patience);
            self.sweep_at = Some(self.sweep_at.map_or(at, |known| known.min(at)));
            self.patience = self.config.next_patience(self.patience);
        } else if !self.report.trouble {
            self.patience = self.config.retry;
        }
    }

    /// Takes all that multicast forwards out of the tables that are to be.
    pub(crate) fn fell_all(&mut self) {
        for row in 0..self.multicast.rows as u32 {
            for column in 0..self.multicast.len() {
                self.multicast.set(row, column, PortMask::EMPTY);
            }
        }
        for index in 0..self.topology.node_count() {
            if let Some(node) = self.topology.node_mut(index) {
                node.branch = super::topology::Branch::NONE;
            }
        }
    }
}
