// SPDX-License-Identifier: GPL-2.0

//! The linear forwarding tables as the switches have them, or are to have them: a row for each switch.

use super::Storage;
use wire::mad::smp::LinearForwardingTable;
use wire::Lid;

/// Entries of a block.
const BLOCK: usize = LinearForwardingTable::ENTRIES;

/// The entry of a LID that leads nowhere.
pub(super) const NO_PORT: u8 = LinearForwardingTable::NO_PORT.get();

/// The tables.
///
/// # Invariants
///
/// `lfts` has `rows` rows of `len` entries, `dirty` as many of `len` / [`BLOCK`].
pub(super) struct Tables<S: Storage> {
    lfts: S::Lfts,
    /// Which blocks differ from what the switch has.
    dirty: S::Dirty,
    len: usize,
    rows: usize,
    rows_used: usize,
}

impl<S: Storage> Tables<S> {
    /// Rows of `len` entries. `None` if `len` is no number of whole blocks, or `dirty` too short.
    pub(super) fn new(lfts: S::Lfts, dirty: S::Dirty, len: usize) -> Option<Self> {
        let rows = lfts.len().checked_div(len)?;
        let blocks = len.checked_div(BLOCK)?;
        let fits = blocks.checked_mul(BLOCK)? == len && dirty.len() >= rows.checked_mul(blocks)?;
        fits.then_some(Self {
            lfts,
            dirty,
            len,
            rows,
            rows_used: 0,
        })
    }

    /// The number of rows that there may be.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// A row for a switch that has none; `None` if there are no more.
    pub(super) fn add_row(&mut self) -> Option<u32> {
        let row = self.rows_used;
        if row >= self.rows {
            return None;
        }
        self.rows_used = row.saturating_add(1);
        let first = row.checked_mul(self.len)?;
        let entries = self.lfts.get_mut(first..first.checked_add(self.len)?)?;
        entries.fill(NO_PORT);
        u32::try_from(row).ok()
    }

    /// Sets the port for `lid`.
    pub(super) fn set(&mut self, row: u32, lid: Lid, port: u8) {
        let column = usize::from(lid.get());
        let Some(at) = self.index(row, column) else {
            return;
        };
        let Some(entry) = self.lfts.get_mut(at) else {
            return;
        };
        if *entry != port {
            *entry = port;
            self.mark(row, column / BLOCK, true);
        }
    }

    /// The port for `lid`; `None` if it leads nowhere.
    pub(super) fn get(&self, row: u32, lid: Lid) -> Option<u8> {
        let at = self.index(row, usize::from(lid.get()))?;
        self.lfts.get(at).copied().filter(|port| *port != NO_PORT)
    }

    /// Marks all blocks up to the one of `top`: the switch is known to have none of them.
    pub(super) fn mark_all(&mut self, row: u32, top: Lid) {
        for block in 0..=usize::from(top.get()) / BLOCK {
            self.mark(row, block, true);
        }
    }

    /// Marks a block as the switch has it, or not.
    pub(super) fn mark(&mut self, row: u32, block: usize, dirty: bool) {
        let at = self.block_index(row, block);
        if let Some(mark) = at.and_then(|at| self.dirty.get_mut(at)) {
            *mark = dirty;
        }
    }

    /// The first block from `block` on that the switch has not; of those up to the one of `top`.
    pub(super) fn next_dirty(&self, row: u32, block: u16, top: Lid) -> Option<u16> {
        let last = top.get() / BLOCK as u16;
        (block..=last).find(|block| {
            let at = self.block_index(row, usize::from(*block));
            at.and_then(|at| self.dirty.get(at)) == Some(&true)
        })
    }

    /// A block.
    pub(super) fn block(&self, row: u32, block: u16) -> Option<LinearForwardingTable> {
        let first = self.index(row, usize::from(block).checked_mul(BLOCK)?)?;
        let entries = self.lfts.get(first..first.checked_add(BLOCK)?)?;
        Some(LinearForwardingTable(entries.try_into().ok()?))
    }

    fn index(&self, row: u32, column: usize) -> Option<usize> {
        if column >= self.len {
            return None;
        }
        (row as usize).checked_mul(self.len)?.checked_add(column)
    }

    fn block_index(&self, row: u32, block: usize) -> Option<usize> {
        let blocks = self.len / BLOCK;
        if block >= blocks {
            return None;
        }
        (row as usize).checked_mul(blocks)?.checked_add(block)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_sm_tables))]
mod tests {
    use super::*;
    use crate::fabric::switch::PortMask;
    use crate::sm::{
        Assignment,
        Node,
        Port,
        Reply,
        Slot,
        Told, //
    };

    /// Room for two switches and 128 LIDs.
    enum Small {}

    impl Storage for Small {
        type Nodes = &'static mut [Node];
        type Ports = &'static mut [Port];
        type Buckets = &'static mut [u32];
        type Order = &'static mut [u32];
        type Lids = &'static mut [u32];
        type Lfts = Lent<[u8; 256]>;
        type Dirty = Lent<[bool; 4]>;
        type Mfts = &'static mut [PortMask];
        type Unknown = &'static mut [u16];
        type Notices = &'static mut [Told];
        type Replies = &'static mut [Reply];
        type Slots = &'static mut [Slot];
        type Assignments = &'static [Assignment];
    }

    /// An array as a slice.
    struct Lent<T>(T);

    impl<T, const N: usize> core::ops::Deref for Lent<[T; N]> {
        type Target = [T];
        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T, const N: usize> core::ops::DerefMut for Lent<[T; N]> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }

    fn tables(len: usize) -> Option<Tables<Small>> {
        Tables::new(Lent([7; 256]), Lent([false; 4]), len)
    }

    #[test]
    fn changed_blocks_alone_are_dirty() {
        let Some(mut tables) = tables(128) else {
            unreachable!("the sizes are right");
        };
        let top = Lid::new(127);
        assert_eq!(tables.add_row(), Some(0));
        assert_eq!(tables.add_row(), Some(1));
        assert_eq!(tables.add_row(), None);
        tables.set(1, Lid::new(70), NO_PORT);
        assert_eq!(tables.next_dirty(1, 0, top), None);
        tables.set(1, Lid::new(70), 3);
        assert_eq!(tables.next_dirty(1, 0, top), Some(1));
        assert_eq!(tables.next_dirty(1, 0, Lid::new(63)), None);
        assert_eq!(tables.next_dirty(0, 0, top), None);
        let entry = tables.block(1, 1).map(|block| block.0[6]);
        assert_eq!(entry, Some(3));
        tables.mark(1, 1, false);
        assert_eq!(tables.next_dirty(1, 0, top), None);
        tables.mark_all(0, Lid::new(64));
        assert_eq!(tables.next_dirty(0, 0, top), Some(0));
        assert_eq!(tables.next_dirty(0, 1, top), Some(1));
        assert_eq!(tables.next_dirty(0, 2, top), None);
    }

    #[test]
    fn what_is_beyond_is_ignored() {
        let Some(mut tables) = tables(128) else {
            unreachable!("the sizes are right");
        };
        tables.set(0, Lid::new(128), 3);
        tables.set(2, Lid::new(1), 3);
        tables.set(u32::MAX, Lid::new(1), 3);
        assert_eq!(tables.block(0, 2), None);
        assert_eq!(tables.block(2, 0), None);
        assert_eq!(tables.next_dirty(0, 0, Lid::PERMISSIVE), None);
    }

    #[test]
    fn sizes_are_checked() {
        assert!(tables(100).is_none());
        assert!(tables(0).is_none());
        assert!(tables(64).is_some());
    }
}
