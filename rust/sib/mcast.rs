// SPDX-License-Identifier: GPL-2.0

//! Which queue pairs of a device belong to which multicast group.
//!
//! Source: IBA "Multicast", and `ib_attach_mcast` of
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).

use crate::{
    hca::Hca,
    qp::Qp, //
};
use kernel::prelude::*;
use rdma::{
    mem::BulkVec,
    sync::{
        Cx,
        Held,
        Sleepable,
        Unlocked, //
    }, //
};
use wire::{
    Gid,
    Lid,
    PortNum, //
};

/// The number of memberships of one device, all groups together.
pub(crate) const MAX_MEMBERS: usize = 8192;

/// The number of queue pairs that one group may have.
pub(crate) const MAX_PER_GROUP: usize = 256;

/// A queue pair in a group.
struct Member {
    /// Grows from member to member, so that a walk can go on where it stopped.
    serial: u64,
    gid: Gid,
    lid: Lid,
    qp: Held<Qp>,
}

/// The memberships of a device, in the order of `serial`.
pub(crate) struct Groups {
    members: BulkVec<Member>,
    next: u64,
}

/// A place in a walk over the members that a group has when the walk begins: who joins later, be it again, is not among
/// them, and does not make it longer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    serial: u64,
    /// That of the first member who comes too late.
    end: Option<u64>,
}

impl Groups {
    /// No members.
    pub(crate) const fn new() -> Self {
        Self {
            members: BulkVec::new(),
            next: 1,
        }
    }

    /// The next member after `cursor` that a packet to `lid` and `gid` on `port` reaches: one whose queue pair is on
    /// that port now.
    pub(crate) fn next_member(
        &self,
        cursor: &mut Cursor,
        port: PortNum,
        lid: Lid,
        gid: Gid,
    ) -> Option<Held<Qp>> {
        let end = *cursor.end.get_or_insert(self.next);
        let from = self.members.partition_point(|m| m.serial <= cursor.serial);
        let member = self
            .members
            .get(from..)?
            .iter()
            .take_while(|m| m.serial < end)
            .find(|m| m.qp.port() == port && m.lid == lid && m.gid == gid)?;
        cursor.serial = member.serial;
        member.qp.try_clone()
    }

    /// Takes one membership of `qp` out, of the group if one is given. The last one has the table with it, since that is
    /// charged to a member: it is to be dropped without the lock.
    fn take(&mut self, qp: &Qp, group: Option<(Gid, Lid)>) -> Option<(Member, BulkVec<Member>)> {
        let index = self.members.iter().position(|m| {
            core::ptr::eq(&*m.qp, qp) && group.is_none_or(|(gid, lid)| m.gid == gid && m.lid == lid)
        })?;
        let member = self.members.remove(index).ok()?;
        let table = match self.members.is_empty() {
            true => core::mem::replace(&mut self.members, BulkVec::new()),
            false => BulkVec::new(),
        };
        Some((member, table))
    }
}

/// Makes `qp` a member of a group. Attaching twice is one membership.
///
/// # Errors
///
/// `ENOMEM` if there is no memory, or if the group or the device has as many members as it may have.
pub(crate) fn attach(
    cx: &mut Cx<'_, Unlocked>,
    _sleepable: Sleepable<'_>,
    hca: &Hca,
    qp: Held<Qp>,
    gid: Gid,
    lid: Lid,
) -> Result {
    let mut room = BulkVec::new();
    loop {
        let wanted = {
            let mut state = cx.lock(&hca.state);
            let groups = &mut state.mcast;
            let mut others = groups
                .members
                .iter()
                .filter(|m| m.gid == gid && m.lid == lid);
            if others.clone().any(|m| core::ptr::eq(&*m.qp, &*qp)) {
                return Ok(());
            }
            if others.by_ref().count() >= MAX_PER_GROUP || groups.members.len() >= MAX_MEMBERS {
                return Err(ENOMEM);
            }
            let used = groups.members.len();
            if used == groups.members.capacity() && room.capacity() > used {
                for member in groups.members.drain_all() {
                    if room.push_within_capacity(member).is_err() {
                        break;
                    }
                }
                core::mem::swap(&mut groups.members, &mut room);
            }
            if used < groups.members.capacity() {
                let serial = groups.next;
                groups.next = serial.wrapping_add(1);
                let member = Member {
                    serial,
                    gid,
                    lid,
                    qp,
                };
                return groups
                    .members
                    .push_within_capacity(member)
                    .map_err(|_| ENOMEM);
            }
            used.saturating_mul(2).max(8)
        };
        room = BulkVec::with_capacity(wanted, GFP_KERNEL_ACCOUNT)?;
    }
}

/// Ends the membership of `qp` in a group.
///
/// # Errors
///
/// `EINVAL` if it is not a member.
pub(crate) fn detach(cx: &mut Cx<'_, Unlocked>, hca: &Hca, qp: &Qp, gid: Gid, lid: Lid) -> Result {
    let taken = cx.lock(&hca.state).mcast.take(qp, Some((gid, lid)));
    taken.map(drop).ok_or(EINVAL)
}

/// Ends all memberships of a queue pair that is going away.
pub(crate) fn forget(cx: &mut Cx<'_, Unlocked>, hca: &Hca, qp: &Qp) {
    loop {
        let taken = cx.lock(&hca.state).mcast.take(qp, None);
        if taken.is_none() {
            return;
        }
    }
}
