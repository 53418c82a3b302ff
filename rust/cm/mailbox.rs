// SPDX-License-Identifier: GPL-2.0

//! Events that a consumer has not got yet.

use crate::abi::Event;
use kernel::prelude::*;

/// Events, of which the oldest comes first.
pub(crate) struct Mailbox(KVec<KBox<Event>>);

impl Mailbox {
    /// There are none.
    pub(crate) const fn new() -> Self {
        Self(KVec::new())
    }

    /// Adds an event. An offer of a path takes the place of one that has not been taken, so that a peer cannot have
    /// any number of them kept.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is lost.
    pub(crate) fn push(&mut self, event: KBox<Event>) -> Result {
        if event.is_offer() {
            self.0.retain(|old| old.id != event.id || !old.is_offer());
        }
        Ok(self.0.push(event, GFP_KERNEL)?)
    }

    /// Takes the oldest event.
    pub(crate) fn pop(&mut self) -> Option<KBox<Event>> {
        self.0.remove(0).ok()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets those of an identifier.
    pub(crate) fn forget(&mut self, id: u32) {
        self.0.retain(|event| event.id != id);
    }
}
