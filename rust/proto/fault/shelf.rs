// SPDX-License-Identifier: GPL-2.0

//! Packets that are held until they are due.

use crate::time::{
    Duration,
    Instant, //
};
use core::ops::DerefMut;

/// A packet on the shelf.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    item: T,
    due: Instant,
    /// The number of packets that are still to overtake it, if it waits for those.
    behind: Option<u8>,
    /// The number of the entry, for the order of those that are due together.
    number: u64,
}

/// A bounded store of packets that wait for a time, or for packets to overtake them. `S` lends the memory.
#[derive(Debug, Default)]
pub struct Shelf<S> {
    entries: S,
    len: usize,
    next: u64,
}

impl<T, S: DerefMut<Target = [Option<Entry<T>>]>> Shelf<S> {
    /// An empty shelf with as many places as `entries` has elements, all of them `None`.
    pub const fn new(entries: S) -> Self {
        Self {
            entries,
            len: 0,
            next: 0,
        }
    }

    /// The number of places.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Moves what is here to `entries`, which are `None` and at least as many, and returns the old ones.
    ///
    /// # Errors
    ///
    /// Gives `entries` back if they are fewer.
    pub fn grow(&mut self, mut entries: S) -> Result<S, S> {
        if entries.len() < self.entries.len() {
            return Err(entries);
        }
        for (to, from) in entries.iter_mut().zip(self.entries.iter_mut()) {
            core::mem::swap(to, from);
        }
        Ok(core::mem::replace(&mut self.entries, entries))
    }

    /// Puts a packet here for `delay`, or until `behind` packets have overtaken it.
    ///
    /// # Errors
    ///
    /// Gives it back if there is no place.
    pub fn put(
        &mut self,
        item: T,
        now: Instant,
        delay: Duration,
        behind: Option<u8>,
    ) -> Result<(), T> {
        let Some(place) = self.entries.iter_mut().find(|place| place.is_none()) else {
            return Err(item);
        };
        *place = Some(Entry {
            item,
            due: now.after(delay),
            behind,
            number: self.next,
        });
        self.next = self.next.wrapping_add(1);
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// A packet has passed; it has overtaken those for which `same_way` says so.
    pub fn overtaken(&mut self, mut same_way: impl FnMut(&T) -> bool) {
        if self.len == 0 {
            return;
        }
        for entry in self.entries.iter_mut().flatten() {
            if same_way(&entry.item) {
                entry.behind = entry.behind.map(|behind| behind.saturating_sub(1));
            }
        }
    }

    /// Takes the packet whose turn it is: of those that have been overtaken or are due at `now`, the one that
    /// was due first.
    pub fn take(&mut self, now: Instant) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let due = self
            .entries
            .iter_mut()
            .filter_map(|place| {
                let entry = place.as_ref()?;
                let ready = entry.behind == Some(0) || entry.due <= now;
                ready.then_some((entry.due, entry.number, place))
            })
            .min_by_key(|(due, number, _)| (*due, *number));
        let (_, _, place) = due?;
        let entry = place.take()?;
        self.len = self.len.saturating_sub(1);
        Some(entry.item)
    }

    /// Makes everything due at `now`.
    pub fn hurry(&mut self, now: Instant) {
        for entry in self.entries.iter_mut().flatten() {
            entry.due = entry.due.min(now);
        }
    }

    /// When [`Self::take`] next has something, if nothing passes: it has what was overtaken already.
    pub fn next_due(&self) -> Option<Instant> {
        if self.len == 0 {
            return None;
        }
        let due = self.entries.iter().flatten().map(|entry| {
            if entry.behind == Some(0) {
                Instant::from_nanos(0)
            } else {
                entry.due
            }
        });
        due.min()
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_fault_shelf))]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1000);

    fn later(nanos: u64) -> Instant {
        START.after(Duration::from_nanos(nanos))
    }

    #[test]
    fn time_brings_them_back_in_order() {
        let mut places = [const { None }; 3];
        let mut shelf = Shelf::new(&mut places[..]);
        for (item, delay) in [(1, 20), (2, 10), (3, 20)] {
            let delay = Duration::from_nanos(delay);
            assert_eq!(shelf.put(item, START, delay, None), Ok(()));
        }
        assert_eq!(shelf.put(4, START, Duration::ZERO, None), Err(4));
        assert_eq!(shelf.next_due(), Some(later(10)));
        assert_eq!(shelf.take(later(9)), None);
        assert_eq!(shelf.take(later(10)), Some(2));
        assert_eq!(shelf.take(later(19)), None);
        assert_eq!(shelf.take(later(20)), Some(1));
        assert_eq!(shelf.take(later(20)), Some(3));
        assert!(shelf.is_empty());
        assert_eq!(shelf.next_due(), None);
    }

    #[test]
    fn others_overtake() {
        let mut places = [const { None }; 2];
        let mut shelf = Shelf::new(&mut places[..]);
        let patience = Duration::from_nanos(50);
        assert_eq!(shelf.put(1, START, patience, Some(2)), Ok(()));
        assert_eq!(shelf.put(2, START, patience, None), Ok(()));
        shelf.overtaken(|_| true);
        assert_eq!(shelf.take(START), None);
        shelf.overtaken(|item| *item != 1);
        assert_eq!(shelf.take(START), None);
        assert_eq!(shelf.next_due(), Some(later(50)));
        shelf.overtaken(|_| true);
        assert!(shelf.next_due() <= Some(START));
        assert_eq!(shelf.take(START), Some(1));
        assert_eq!(shelf.take(START), None);
        assert_eq!(shelf.take(later(50)), Some(2));
    }

    #[test]
    fn patience_ends() {
        let mut places = [const { None }; 1];
        let mut shelf = Shelf::new(&mut places[..]);
        let patience = Duration::from_nanos(50);
        assert_eq!(shelf.put(1, START, patience, Some(2)), Ok(()));
        assert_eq!(shelf.take(later(49)), None);
        assert_eq!(shelf.take(later(50)), Some(1));
    }

    #[test]
    fn hurry_empties() {
        let mut places = [const { None }; 2];
        let mut shelf = Shelf::new(&mut places[..]);
        let long = Duration::from_millis(1000);
        assert_eq!(shelf.put(1, START, long, None), Ok(()));
        assert_eq!(shelf.put(2, START, long, Some(3)), Ok(()));
        shelf.hurry(START);
        assert_eq!(shelf.next_due(), Some(START));
        assert_eq!(shelf.take(START), Some(1));
        assert_eq!(shelf.take(START), Some(2));
        assert_eq!(shelf.len(), 0);
    }

    #[test]
    fn grows_with_what_is_in_it() {
        let mut few = [const { None }; 1];
        let mut many = [const { None }; 2];
        let mut fewer = [const { None }; 1];
        let mut shelf = Shelf::new(&mut few[..]);
        assert_eq!(shelf.put(1, START, Duration::ZERO, None), Ok(()));
        assert!(shelf.grow(&mut many[..]).is_ok());
        assert_eq!(shelf.capacity(), 2);
        assert!(shelf.grow(&mut fewer[..]).is_err());
        assert_eq!(shelf.put(2, START, Duration::ZERO, None), Ok(()));
        assert_eq!(shelf.take(START), Some(1));
        assert_eq!(shelf.take(START), Some(2));
    }
}
