// SPDX-License-Identifier: GPL-2.0

//! What follows from a sweep: who is gone is forgotten, who has come or gone is told of, trees are made anew.

use super::{
    Agent,
    Storage, //
};
use crate::sm::{
    self,
    Manager, //
};
use crate::time::Instant;
use wire::mad::smp::trap::{
    self,
    GidEvent,
    TrapDetails, //
};
use wire::mad::Notice;
use wire::{
    Gid,
    Lid, //
};

/// The node type of who tells of the subnet as a whole (IBA "Notice", ProducerType: class manager).
const CLASS_MANAGER: u32 = 4;

/// The index of no port.
const NONE: u32 = u32::MAX;

/// All ways to take part.
const ALL_WAYS: u8 = u8::MAX;

impl<S: Storage> Agent<S> {
    /// Takes over what a sweep has found.
    pub(super) fn refresh<M: sm::Storage>(&mut self, manager: &mut Manager<M>, now: Instant) {
        // Who has not answered is perhaps not gone, nor who is behind a switch that there is no room for.
        let report = manager.report();
        let gone_is_gone = !report.trouble && !report.no_room;
        self.services.prune(manager, gone_is_gone);
        if gone_is_gone {
            self.subscriptions.prune(manager);
            self.reports.prune(&self.subscriptions);
        }
        self.find_members(manager, gone_is_gone);
        let mut from = 0;
        while let Some((port, here)) = manager.take_change(from, gone_is_gone) {
            from = port.saturating_add(1);
            let number = if here {
                trap::GID_IN_SERVICE
            } else {
                trap::GID_OUT_OF_SERVICE
            };
            let gid = manager
                .port_at(port)
                .map(|(_, port)| manager.gid_of(port))
                .unwrap_or_default();
            self.tell_gid(manager, number, gid);
        }
        self.end_ip_groups(manager);
        self.make_ip_groups(manager);
        self.narrow_ip_groups(manager, now);
        self.groups.wither();
    }

    /// Finds the ports of all members; removes those that have none any more, or have left the partition.
    fn find_members<M: sm::Storage>(&mut self, manager: &Manager<M>, remove: bool) {
        for place in 0..self.groups.member_slots() {
            let Some(member) = self.groups.member_at_mut(place) else {
                continue;
            };
            let port = manager.port_of_guid(member.gid.guid(), member.port);
            member.port = port.unwrap_or(NONE);
            let stays = match (port, self.groups.member_at(place)) {
                (Some(port), Some((group, _))) => {
                    manager.pkey_at(port, group.record.pkey).is_some()
                }
                _ => !remove,
            };
            if stays {
                continue;
            }
            if let (_, Some(mgid)) = self.groups.leave(place, ALL_WAYS) {
                self.tell_gid(manager, trap::GROUP_DELETED, mgid);
            }
        }
    }

    /// Ends the groups of IP hosts of partitions that are none any more.
    fn end_ip_groups<M: sm::Storage>(&mut self, manager: &Manager<M>) {
        for index in 0..self.groups.group_slots() {
            let Some(group) = self.groups.get_mut(index).filter(|group| group.permanent) else {
                continue;
            };
            let base = group.record.pkey.base();
            group.permanent = manager.partitions().any(|pkey| pkey.base() == base);
            if let Some(mgid) = self.groups.end(index) {
                self.tell_gid(manager, trap::GROUP_DELETED, mgid);
            }
        }
    }

    /// Tells of a port or a group.
    pub(super) fn tell_gid<M: sm::Storage>(&mut self, manager: &Manager<M>, number: u16, gid: Gid) {
        let notice = Notice {
            kind: GidEvent::KIND as u8,
            producer: CLASS_MANAGER,
            trap: number,
            issuer_lid: manager.lid(),
            details: GidEvent { gid }.emit(),
            ..Notice::default()
        };
        self.tell(manager, &notice, manager.lid());
    }

    /// Tells what a trap has told. Returns whether there was one.
    pub(super) fn tell_notice<M: sm::Storage>(&mut self, manager: &mut Manager<M>) -> bool {
        let Some((notice, issuer)) = manager.take_notice() else {
            return false;
        };
        self.tell(manager, &notice, issuer);
        true
    }

    fn tell<M: sm::Storage>(&mut self, manager: &Manager<M>, notice: &Notice, issuer: Lid) {
        let port = manager.port_of_lid(issuer);
        let gid = port
            .and_then(|port| manager.port_at(port))
            .map(|(_, port)| manager.gid_of(port))
            .unwrap_or_default();
        let untold = self.reports.tell(&self.subscriptions, notice, gid);
        self.report.untold = self.report.untold.saturating_add(untold);
    }
}
