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
    /// The requests of peers, by listener and age.
    requests: RBTree<(u32, u64), ()>,
    next: u64,
    len: usize,
}

impl Mailbox {
    /// There are none.
    pub(crate) fn new() -> Self {
        Self {
            events: RBTree::new(),
            by_id: RBTree::new(),
            requests: RBTree::new(),
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
        self.insert(age, event)?;
        self.next = age.wrapping_add(1);
        if is_offer {
            self.remove(id, |other, event| other != age && event.is_offer());
        }
        Ok(())
    }

    /// Takes the oldest event, with its age.
    pub(crate) fn pop(&mut self) -> Option<(u64, KBox<Event>)> {
        let (_, oldest) = self.events.cursor_front_mut()?.remove_current();
        let (age, event) = oldest.to_key_value();
        self.by_id.remove(&(event.id, age));
        self.requests.remove(&(event.listener, age));
        self.len = self.len.saturating_sub(1);
        Some((age, event))
    }

    /// Takes a request that a listener has got, and returns its identifier.
    pub(crate) fn take_request(&mut self, listener: u32) -> Option<u32> {
        let cursor = self.requests.cursor_lower_bound_mut(&(listener, 0))?;
        let (&(other, age), ()) = cursor.current();
        if other != listener {
            return None;
        }
        let id = self.events.get(&age)?.id;
        self.remove(id, |known, _| known == age);
        Some(id)
    }

    /// Puts an event back to where [`pop`](Self::pop) has taken it from, unless a later offer has taken its place.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is lost.
    pub(crate) fn put_back(&mut self, age: u64, event: KBox<Event>) -> Result {
        if event.is_offer() && self.has_offer(event.id) {
            return Ok(());
        }
        self.insert(age, event)
    }

    fn insert(&mut self, age: u64, event: KBox<Event>) -> Result {
        let name = (event.id, age);
        let request = event.is_request().then_some((event.listener, age));
        self.by_id
            .try_create_and_insert(name, (), GFP_KERNEL_ACCOUNT)?;
        let listed = match request {
            Some(request) => self
                .requests
                .try_create_and_insert(request, (), GFP_KERNEL_ACCOUNT)
                .map(drop),
            None => Ok(()),
        };
        let inserted = listed.and_then(|()| {
            self.events
                .try_create_and_insert(age, event, GFP_KERNEL_ACCOUNT)
                .map(drop)
        });
        if let Err(error) = inserted {
            self.by_id.remove(&name);
            if let Some(request) = request {
                self.requests.remove(&request);
            }
            return Err(error);
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Whether there is an offer of a path for an identifier.
    fn has_offer(&mut self, id: u32) -> bool {
        let mut rest = self.by_id.cursor_lower_bound_mut(&(id, 0));
        while let Some(cursor) = rest {
            let (&(other, age), ()) = cursor.current();
            if other != id {
                return false;
            }
            if self.events.get(&age).is_some_and(|event| event.is_offer()) {
                return true;
            }
            rest = cursor.move_next();
        }
        false
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
            if let Some(event) = found.filter(|event| unwanted(age, event)) {
                self.requests.remove(&(event.listener, age));
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
