// SPDX-License-Identifier: GPL-2.0

//! Reports: subscribers are told, until they say that they know (IBA "Event Forwarding").

use super::inform::Subscriptions;
use super::{
    Address,
    Report,
    Storage,
    Transmit, //
};
use crate::time::{
    Duration,
    Instant, //
};
use wire::mad::sa::{
    set_notice,
    Sa, //
};
use wire::mad::{
    attr,
    class,
    method,
    MadHeader,
    Notice,
    CLASS_VERSION_2,
    DETAILS_LEN, //
};
use wire::{
    Gid,
    Lid, //
};

/// The index of no subscription.
const NONE: u32 = u32::MAX;

/// What a subscriber is to be told.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The place of the subscription; [`NONE`] where nothing is to be told.
    subscription: u32,
    notice: Notice,
    issuer: Gid,
    tid: u64,
    due: Instant,
    tries_left: u8,
}

impl Pending {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            subscription: NONE,
            notice: Notice {
                is_generic: false,
                kind: 0,
                producer: 0,
                trap: 0,
                issuer_lid: Lid::NONE,
                toggle: false,
                count: 0,
                details: [0; DETAILS_LEN],
            },
            issuer: Gid::ZERO,
            tid: 0,
            due: Instant::from_nanos(0),
            tries_left: 0,
        }
    }

    const fn is_used(&self) -> bool {
        self.subscription != NONE
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self::new()
    }
}

/// The reports that are under way.
pub(super) struct Reports<S: Storage> {
    slots: S::Reports,
    tid: u64,
    timeout: Duration,
    tries: u8,
}

impl<S: Storage> Reports<S> {
    pub(super) const fn new(slots: S::Reports, timeout: Duration, tries: u8) -> Self {
        Self {
            slots,
            tid: 0,
            timeout,
            tries,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(Pending::new());
    }

    /// Drops what the subscriber in a place was to be told.
    pub(super) fn forget(&mut self, place: usize) {
        for slot in self.slots.iter_mut() {
            if slot.subscription as usize == place {
                *slot = Pending::new();
            }
        }
    }

    /// Drops what those were to be told who have no subscriptions any more: others may get their places.
    pub(super) fn prune(&mut self, subscriptions: &Subscriptions<S>) {
        for slot in self.slots.iter_mut() {
            if subscriptions.who(slot.subscription as usize).is_none() {
                *slot = Pending::new();
            }
        }
    }

    /// The subscriber in a place has subscribed again, and is there: what it has not answered yet counts no more.
    pub(super) fn renew(&mut self, place: usize) {
        for slot in self.slots.iter_mut() {
            if slot.subscription as usize == place {
                slot.tries_left = self.tries;
            }
        }
    }

    /// Tells all who want to know. Returns how many are not told, since there is no room.
    pub(super) fn tell(
        &mut self,
        subscriptions: &Subscriptions<S>,
        notice: &Notice,
        issuer: Gid,
    ) -> u64 {
        let mut untold = 0u64;
        for place in subscriptions.wanting(notice, issuer) {
            let Some(slot) = self.slots.iter_mut().find(|slot| !slot.is_used()) else {
                untold = untold.saturating_add(1);
                continue;
            };
            self.tid = self.tid.wrapping_add(1);
            *slot = Pending {
                subscription: place as u32,
                notice: *notice,
                issuer,
                tid: self.tid,
                due: Instant::from_nanos(0),
                tries_left: self.tries,
            };
        }
        untold
    }

    /// The next report that is due. Who does not answer is told no more.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        subscriptions: &mut Subscriptions<S>,
        report: &mut Report,
    ) -> Option<Transmit> {
        loop {
            let timeout = self.timeout;
            let mut slots = self.slots.iter_mut();
            let slot = slots.find(|slot| slot.is_used() && slot.due <= now)?;
            let place = slot.subscription as usize;
            let to = subscriptions.who(place);
            if let Some(to) = to.filter(|_| slot.tries_left != 0) {
                slot.tries_left = slot.tries_left.saturating_sub(1);
                slot.due = now.after(timeout);
                return Some(transmit(slot, to));
            }
            if to.is_some() {
                report.given_up = report.given_up.saturating_add(1);
                subscriptions.remove(place);
            }
            self.forget(place);
        }
    }

    /// When [`Self::poll`] will next have something.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let used = self.slots.iter().filter(|slot| slot.is_used());
        used.map(|slot| slot.due).min()
    }

    /// A subscriber says that it knows.
    pub(super) fn answered(&mut self, tid: u64, subscriptions: &Subscriptions<S>, from: &Address) {
        let slot = self.slots.iter_mut().find(|slot| {
            let who = subscriptions.who(slot.subscription as usize);
            slot.is_used() && slot.tid == tid && who.is_some_and(|who| who.is_same(from))
        });
        if let Some(slot) = slot {
            *slot = Pending::new();
        }
    }
}

fn transmit(pending: &Pending, to: Address) -> Transmit {
    let mut sa = Sa::new(&MadHeader {
        mgmt_class: class::SUBN_ADM,
        class_version: CLASS_VERSION_2,
        method: method::REPORT,
        attr_id: attr::NOTICE,
        tid: pending.tid,
        ..MadHeader::default()
    });
    set_notice(sa.data_mut(), &pending.notice, pending.issuer);
    Transmit {
        mad: *sa.as_bytes(),
        to,
    }
}
