// SPDX-License-Identifier: GPL-2.0

//! Multicast groups and their members.

use super::Storage;
use crate::sm::Leaf;
use wire::mad::sa::{
    McMemberRecord,
    JOIN_FULL,
    JOIN_NON,
    JOIN_SEND_ONLY_FULL, //
};
use wire::{
    Gid,
    Lid, //
};

/// The index of no group.
const NONE: u32 = u32::MAX;

/// Ways to take part that receive what is sent.
const RECEIVES: u8 = JOIN_FULL | JOIN_NON;

/// Ways to take part that keep a group alive, and may make it.
pub(super) const KEEPS: u8 = JOIN_FULL | JOIN_SEND_ONLY_FULL;

/// A multicast group. Its place among all says its LID.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What members have in common; no member is in it.
    pub(super) record: McMemberRecord,
    used: bool,
    /// It is there without members.
    pub(super) permanent: bool,
    /// Its tree has to be made anew.
    stale: bool,
}

impl Group {
    /// No group.
    pub const fn new() -> Self {
        Self {
            record: super::join::EMPTY,
            used: false,
            permanent: false,
            stale: false,
        }
    }

    /// What members have in common.
    pub const fn record(&self) -> &McMemberRecord {
        &self.record
    }
}

impl Default for Group {
    fn default() -> Self {
        Self::new()
    }
}

/// A member of a group.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The index of its group; [`NONE`] where there is no member.
    pub(super) group: u32,
    pub(super) gid: Gid,
    /// Where the subnet manager has its port.
    pub(super) port: u32,
    /// How it takes part.
    pub(super) join_state: u8,
    /// Somebody else joined it.
    pub(super) proxy: bool,
}

impl Member {
    /// No member.
    pub const fn new() -> Self {
        Self {
            group: NONE,
            gid: Gid::ZERO,
            port: NONE,
            join_state: 0,
            proxy: false,
        }
    }

    /// Its port.
    pub const fn gid(&self) -> Gid {
        self.gid
    }

    /// How it takes part.
    pub const fn join_state(&self) -> u8 {
        self.join_state
    }
}

impl Default for Member {
    fn default() -> Self {
        Self::new()
    }
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The groups and their members.
pub(super) struct Groups<S: Storage> {
    groups: S::Groups,
    members: S::Members,
    /// Where to look for a free group: the one that was freed last is taken last.
    cursor: usize,
    /// The number that makes the next name.
    pub(super) serial: u32,
}

impl<S: Storage> Groups<S> {
    pub(super) const fn new(groups: S::Groups, members: S::Members) -> Self {
        Self {
            groups,
            members,
            cursor: 0,
            serial: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.groups.fill(Group::new());
        self.members.fill(Member::new());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.used)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Group> {
        self.groups.get(index).filter(|group| group.used)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Group> {
        self.groups.get_mut(index).filter(|group| group.used)
    }

    /// The number of places for groups.
    pub(super) fn group_slots(&self) -> usize {
        self.groups.len()
    }

    /// The number of places for members.
    pub(super) fn member_slots(&self) -> usize {
        self.members.len()
    }

    /// The index of the group with a GID.
    pub(super) fn find(&self, mgid: Gid) -> Option<usize> {
        self.groups
            .iter()
            .position(|group| group.used && group.record.mgid == mgid)
    }

    /// The member in a place, with its group.
    pub(super) fn member_at(&self, place: usize) -> Option<(&Group, &Member)> {
        let member = self.members.get(place)?;
        Some((self.get(member.group as usize)?, member))
    }

    pub(super) fn member_at_mut(&mut self, place: usize) -> Option<&mut Member> {
        self.members
            .get_mut(place)
            .filter(|member| member.group != NONE)
    }

    /// The place of a member.
    pub(super) fn member(&self, group: usize, gid: Gid) -> Option<usize> {
        let mut all = self.members.iter();
        all.position(|member| member.group as usize == group && member.gid == gid)
    }

    /// The members of a group.
    pub(super) fn of(&self, group: usize) -> impl Iterator<Item = &Member> + Clone {
        let all = self.members.iter();
        all.filter(move |member| member.group as usize == group)
    }

    /// The members of the group with a multicast LID.
    pub(super) fn members_of(&self, mlid: Lid) -> impl Iterator<Item = &Member> {
        let group = mlid.get().checked_sub(Lid::MULTICAST_BASE.get());
        self.of(group.map_or(NONE as usize, usize::from))
            .filter(|member| member.group != NONE)
    }

    pub(super) fn is_empty(&self, group: usize) -> bool {
        self.of(group).next().is_none()
    }

    /// What the tree of a group is made of.
    pub(super) fn leaves(&self, group: usize) -> impl Iterator<Item = Leaf> + Clone + '_ {
        self.of(group).map(|member| Leaf {
            port: member.port,
            receives: member.join_state & RECEIVES != 0,
        })
    }

    /// A group whose tree has to be made anew: it is now.
    pub(super) fn take_stale(&mut self) -> Option<usize> {
        let place = self.groups.iter().position(|group| group.stale)?;
        if let Some(group) = self.groups.get_mut(place) {
            group.stale = false;
        }
        Some(place)
    }

    /// All trees have to be made anew.
    pub(super) fn wither(&mut self) {
        for group in self.groups.iter_mut() {
            group.stale = true;
        }
    }

    /// Makes a group, which gets a LID; of the first `lids` alone.
    pub(super) fn create(&mut self, record: &McMemberRecord, lids: usize) -> Result<usize, NoRoom> {
        let count = self.groups.len().min(lids);
        let from = if self.cursor < count { self.cursor } else { 0 };
        let places = (from..count).chain(0..from);
        let mut free = places.filter(|at| self.groups.get(*at).is_some_and(|group| !group.used));
        // Better one without the tree of another group; but after a sweep all trees have to be made anew.
        let first = free.clone().next();
        let clear = free.find(|at| self.groups.get(*at).is_some_and(|group| !group.stale));
        let place = clear.or(first).ok_or(NoRoom)?;
        self.cursor = place.saturating_add(1);
        let group = self.groups.get_mut(place).ok_or(NoRoom)?;
        let mlid = u16::try_from(place).map_err(|_| NoRoom)?;
        *group = Group {
            record: McMemberRecord {
                mlid: Lid::new(Lid::MULTICAST_BASE.get().saturating_add(mlid)),
                ..*record
            },
            used: true,
            permanent: false,
            stale: group.stale,
        };
        Ok(place)
    }

    /// Adds a member, or a way to take part to one. Returns how it takes part now.
    pub(super) fn join(&mut self, group: usize, new: &Member) -> Result<u8, NoRoom> {
        let place = match self.member(group, new.gid) {
            Some(place) => place,
            None => {
                let free = self.members.iter().position(|member| member.group == NONE);
                let place = free.ok_or(NoRoom)?;
                if let Some(member) = self.members.get_mut(place) {
                    *member = Member {
                        group: group as u32,
                        join_state: 0,
                        ..*new
                    };
                }
                place
            }
        };
        let member = self.members.get_mut(place).ok_or(NoRoom)?;
        let before = member.join_state;
        member.join_state |= new.join_state;
        member.proxy &= new.proxy;
        let after = member.join_state;
        if before != after {
            self.touch(group);
        }
        Ok(after)
    }

    /// Takes ways to take part from the member in a place, which is none any more without. Returns what is left, and the
    /// GID of the group if it has ended by that.
    pub(super) fn leave(&mut self, place: usize, ways: u8) -> (u8, Option<Gid>) {
        let Some(member) = self.member_at_mut(place) else {
            return (0, None);
        };
        member.join_state &= !ways;
        let (left, group) = (member.join_state, member.group as usize);
        if left == 0 {
            *member = Member::new();
        }
        self.touch(group);
        (left, self.end(group))
    }

    /// Ends a group that nobody keeps alive. Returns its GID if it has ended.
    pub(super) fn end(&mut self, index: usize) -> Option<Gid> {
        let kept = self.of(index).any(|member| member.join_state & KEEPS != 0);
        let group = self.groups.get_mut(index).filter(|group| group.used)?;
        if kept || group.permanent {
            return None;
        }
        let mgid = group.record.mgid;
        *group = Group {
            stale: true,
            ..Group::new()
        };
        for member in self.members.iter_mut() {
            if member.group as usize == index {
                *member = Member::new();
            }
        }
        Some(mgid)
    }

    fn touch(&mut self, group: usize) {
        if let Some(group) = self.get_mut(group) {
            group.stale = true;
        }
    }
}
