// SPDX-License-Identifier: GPL-2.0

//! Events that a consumer has not got yet.

use crate::abi::Event;
use kernel::prelude::*;
use kernel::rbtree::RBTree;

/// Events, of which the oldest comes first. A program that does not read may have some for each of its identifiers, so
/// nothing looks at all of them.
pub(crate) struct Mailbox {
    /// By their age: what comes later has a larger number.
    events: RBTree<u64, KBox<Event>>,
    /// Those of each identifier, by identifier and age.
    by_id: RBTree<(u32, u64), ()>,
    next: u64,
    len: usize,
}

impl Mailbox {
    /// There are none.
    pub(crate) fn new() -> Self {
        Self {
            events: RBTree::new(),
            by_id: RBTree::new(),
            next: 0,
            len: 0,
        }
    }

    /// Adds an event. An offer of a path takes the place of one that has not been taken, so that a peer cannot have
    /// any number of them kept.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is lost.
    pub(crate) fn push(&mut self, event: KBox<Event>) -> Result {
        let (id, age, is_offer) = (event.id, self.next, event.is_offer());
        self.by_id
            .try_create_and_insert((id, age), (), GFP_KERNEL)?;
        if let Err(error) = self.events.try_create_and_insert(age, event, GFP_KERNEL) {
            self.by_id.remove(&(id, age));
            return Err(error);
        }
        self.next = age.wrapping_add(1);
        self.len = self.len.saturating_add(1);
        if is_offer {
            self.remove(id, |other, event| other != age && event.is_offer());
        }
        Ok(())
    }

    /// Takes the oldest event.
    pub(crate) fn pop(&mut self) -> Option<KBox<Event>> {
        let (_, oldest) = self.events.cursor_front_mut()?.remove_current();
        let (age, event) = oldest.to_key_value();
        self.by_id.remove(&(event.id, age));
        self.len = self.len.saturating_sub(1);
        Some(event)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Forgets those of an identifier.
    pub(crate) fn forget(&mut self, id: u32) {
        self.remove(id, |_, _| true);
    }

    /// Removes those of an identifier that are `unwanted`, of which that is asked with their ages.
    fn remove(&mut self, id: u32, unwanted: impl Fn(u64, &Event) -> bool) {
        let mut rest = self.by_id.cursor_lower_bound_mut(&(id, 0));
        while let Some(cursor) = rest {
            let (&(other, age), ()) = cursor.current();
            if other != id {
                return;
            }
            let found = self.events.get(&age);
            if found.is_some_and(|event| unwanted(age, event)) {
                self.events.remove(&age);
                self.len = self.len.saturating_sub(1);
                // What is left may be an earlier one, which was looked at already and is wanted.
                rest = cursor.remove_current().0;
            } else {
                rest = cursor.move_next();
            }
        }
    }
}
