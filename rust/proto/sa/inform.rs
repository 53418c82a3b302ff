// SPDX-License-Identifier: GPL-2.0

//! InformInfo: who is to be told what (IBA "Event Subscription", "InformInfo").

use super::serve::{
    Answer,
    Refusal, //
};
use super::{
    Address,
    Agent,
    Request,
    Storage, //
};
use crate::sm::{
    self,
    Manager, //
};
use wire::mad::sa::{
    status,
    InformInfo, //
};
use wire::mad::smp::trap::{
    self,
    GidEvent,
    TrapDetails, //
};
use wire::mad::Notice;
use wire::{
    Gid,
    Guid,
    Lid,
    Qpn, //
};

/// Who is to be told what.
#[derive(Clone, Copy, Debug)]
pub struct Subscription {
    pub(super) who: Address,
    what: InformInfo,
    used: bool,
    /// The port of the subscriber.
    port: Guid,
}

impl Subscription {
    /// No subscription.
    pub const fn new() -> Self {
        Self {
            who: Address::NONE,
            what: InformInfo {
                gid: Gid::ZERO,
                lid_begin: Lid::NONE,
                lid_end: Lid::NONE,
                is_generic: false,
                subscribe: 0,
                kind: 0,
                trap: 0,
                qpn: Qpn::SMI,
                resp_time: 0,
                producer: 0,
            },
            used: false,
            port: Guid::ZERO,
        }
    }

    /// Whether the subscriber wants to be told of a notice of the port `issuer`.
    fn wants(&self, notice: &Notice, issuer: Gid) -> bool {
        let what = &self.what;
        let is_kind = [InformInfo::ANY, notice.kind.into()].contains(&what.kind);
        let is_trap = [InformInfo::ANY, notice.trap].contains(&what.trap);
        let is_producer = [InformInfo::ANY_PRODUCER, notice.producer].contains(&what.producer);
        let is_source = if what.gid != Gid::ZERO {
            what.gid == subject(notice).unwrap_or(issuer)
        } else {
            what.lid_begin == Lid::PERMISSIVE
                || (what.lid_begin..=what.lid_end).contains(&notice.issuer_lid)
        };
        self.used
            && what.is_generic == notice.is_generic
            && is_kind
            && is_trap
            && is_producer
            && is_source
    }
}

impl Default for Subscription {
    fn default() -> Self {
        Self::new()
    }
}

/// The GUID of the port with a LID.
fn guid_at<M: sm::Storage>(manager: &Manager<M>, lid: Lid) -> Option<Guid> {
    let port = manager.port_of_lid(lid)?;
    Some(manager.port_at(port)?.1.guid())
}

/// What a notice of the subnet manager is about.
fn subject(notice: &Notice) -> Option<Gid> {
    let about_gid = matches!(
        notice.trap,
        trap::GID_IN_SERVICE | trap::GID_OUT_OF_SERVICE | trap::GROUP_CREATED | trap::GROUP_DELETED
    );
    (notice.is_generic && about_gid).then(|| GidEvent::parse(&notice.details).gid)
}

/// The subscriptions.
pub(super) struct Subscriptions<S: Storage> {
    slots: S::Subscriptions,
}

impl<S: Storage> Subscriptions<S> {
    pub(super) const fn new(slots: S::Subscriptions) -> Self {
        Self { slots }
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(Subscription::new());
    }

    /// Who has subscribed in a place.
    pub(super) fn who(&self, place: usize) -> Option<Address> {
        let slot = self.slots.get(place).filter(|slot| slot.used)?;
        Some(slot.who)
    }

    pub(super) fn remove(&mut self, place: usize) {
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = Subscription::new();
        }
    }

    /// The places of those who want to be told.
    pub(super) fn wanting<'a>(
        &'a self,
        notice: &'a Notice,
        issuer: Gid,
    ) -> impl Iterator<Item = usize> + 'a {
        let all = (0..=usize::MAX).zip(self.slots.iter());
        all.filter(move |(_, slot)| slot.wants(notice, issuer))
            .map(|(place, _)| place)
    }

    /// Forgets the subscriptions of those whose ports are gone, or have other LIDs.
    pub(super) fn prune<M: sm::Storage>(&mut self, manager: &Manager<M>) {
        for slot in self.slots.iter_mut().filter(|slot| slot.used) {
            if guid_at(manager, slot.who.lid) != Some(slot.port) {
                *slot = Subscription::new();
            }
        }
    }

    fn find(&self, who: &Address, what: &InformInfo) -> Option<usize> {
        let wish = |info: &InformInfo| InformInfo {
            subscribe: 0,
            qpn: Qpn::SMI,
            resp_time: 0,
            ..*info
        };
        self.slots
            .iter()
            .position(|slot| slot.used && slot.who.is_same(who) && wish(&slot.what) == wish(what))
    }
}

impl<S: Storage> Agent<S> {
    /// Set of InformInfo: to be told, or to be told no more.
    pub(super) fn subscribe<M: sm::Storage>(
        &mut self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Answer, Refusal> {
        const INVALID: Refusal = Refusal(status::REQUEST_INVALID);
        let what: InformInfo = request.sa().record();
        let port = guid_at(manager, request.from.lid).ok_or(INVALID)?;
        let by_lid = what.gid == Gid::ZERO;
        if by_lid && what.lid_begin != Lid::PERMISSIVE && what.lid_end < what.lid_begin {
            return Err(INVALID);
        }
        match what.subscribe {
            0 => {
                let who = Address {
                    qpn: what.qpn,
                    ..request.from
                };
                let place = self.subscriptions.find(&who, &what).ok_or(INVALID)?;
                self.subscriptions.remove(place);
                self.reports.forget(place);
            }
            1 => {
                let known = self.subscriptions.find(&request.from, &what);
                let slots = &mut self.subscriptions.slots;
                let place = known.or_else(|| slots.iter().position(|slot| !slot.used));
                let place = place.ok_or(Refusal(status::NO_RESOURCES))?;
                let slot = slots.get_mut(place).ok_or(Refusal(status::NO_RESOURCES))?;
                *slot = Subscription {
                    who: request.from,
                    what,
                    used: true,
                    port,
                };
                self.reports.renew(place);
            }
            _ => return Err(INVALID),
        }
        Ok(Answer::of(&what))
    }
}
