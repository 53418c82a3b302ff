// SPDX-License-Identifier: GPL-2.0

//! The ring that holds send work requests.

use crate::transport::wqe::{
    SendEntry,
    SendSlot, //
};
use core::ops::DerefMut;

/// A work request's number: counted from the first one ever posted, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Index(u32);

impl Index {
    /// The work request after this one.
    pub(super) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The work request `count` after this one.
    pub(super) const fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// How many work requests `self` is after `earlier`.
    pub(super) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// Storage of work requests by number.
///
/// # Invariants
///
/// `capacity` is a power of two of at most 2^31, or 0.
pub(super) struct SendQueue<S> {
    ring: S,
    capacity: u32,
}

/// The largest power of two that is not above `len`; 0 for 0.
pub(super) fn ring_capacity(len: usize) -> u32 {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    match len.checked_ilog2() {
        Some(log2) => 1u32.wrapping_shl(log2),
        None => 0,
    }
}

impl<S: DerefMut<Target = [SendEntry]>> SendQueue<S> {
    pub(super) fn new(ring: S) -> Self {
        let capacity = ring_capacity(ring.len());
        // INVARIANT: By `ring_capacity`.
        Self { ring, capacity }
    }

    /// Number of work requests that fit.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Where the work request `index` is stored.
    pub(super) fn slot(&self, index: Index) -> SendSlot {
        SendSlot::new(index.0 & self.capacity.wrapping_sub(1))
    }

    /// The first index not before `base` that is stored in `slot`.
    pub(super) fn index_of(&self, slot: SendSlot, base: Index) -> Index {
        let ahead = slot.get().wrapping_sub(base.0) & self.capacity.wrapping_sub(1);
        base.add(ahead)
    }

    pub(super) fn get(&self, index: Index) -> Option<&SendEntry> {
        self.ring.get(self.slot(index).get() as usize)
    }

    pub(super) fn get_mut(&mut self, index: Index) -> Option<&mut SendEntry> {
        let slot = self.slot(index).get() as usize;
        self.ring.get_mut(slot)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_send_queue))]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_a_power_of_two() {
        for (len, capacity) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 4), (1023, 512)] {
            assert_eq!(ring_capacity(len), capacity);
        }
        assert_eq!(ring_capacity(usize::MAX), 1 << 31);
    }

    #[test]
    fn slots_and_indices_agree_across_the_wrap() {
        let mut storage = [SendEntry::default(); 5];
        let queue = SendQueue::new(&mut storage[..]);
        assert_eq!(queue.capacity(), 4);
        let base = Index(u32::MAX - 1);
        for ahead in 0..4 {
            let index = base.add(ahead);
            assert_eq!(queue.index_of(queue.slot(index), base), index);
            assert_eq!(index.since(base), ahead);
            assert!(queue.get(index).is_some());
        }
    }

    #[test]
    fn no_storage_is_no_room() {
        let mut storage: [SendEntry; 0] = [];
        let queue = SendQueue::new(&mut storage[..]);
        assert_eq!(queue.capacity(), 0);
        assert!(queue.get(Index(0)).is_none());
    }
}
