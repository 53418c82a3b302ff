// SPDX-License-Identifier: GPL-2.0

//! Which queue pairs of a device belong to which multicast group.
//!
//! Source: IBA "Multicast", and `ib_attach_mcast` of
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h).

use crate::{
    hca::Hca,
    qp::Qp, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    }, //
};
use rdma::sync::{
    Cx,
    Held,
    Sleepable,
    Unlocked, //
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

/// A group of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// The LID that its packets go to.
    pub(crate) lid: Lid,
    /// The GID in their GRH.
    pub(crate) gid: Gid,
}

impl Group {
    /// By the names that ib_core has for it.
    pub(crate) fn new(mgid: &[u8; 16], mlid: u16) -> Self {
        Self {
            lid: Lid::new(mlid),
            gid: Gid::new(*mgid),
        }
    }
}

/// Where a member stands: with its group, behind those that have joined before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: Group,
    /// Grows from member to member, so that a walk can go on where it stopped.
    serial: u64,
}

/// Less than the number of any member.
const NOBODY: u64 = 0;

/// A member in its place.
type Member = RBTreeNode<Place, Held<Qp>>;

/// The memberships of a device.
pub(crate) struct Groups {
    members: RBTree<Place, Held<Qp>>,
    /// How many there are.
    count: usize,
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
    pub(crate) fn new() -> Self {
        Self {
            members: RBTree::new(),
            count: 0,
            next: NOBODY.wrapping_add(1),
        }
    }

    /// The members of a group that have joined after the one with this number.
    fn after(&self, group: Group, serial: u64) -> impl Iterator<Item = (u64, &Held<Qp>)> {
        let next = move |serial: u64| {
            let from = Place {
                group,
                serial: serial.wrapping_add(1),
            };
            let cursor = self.members.cursor_lower_bound(&from)?;
            let place = *cursor.current().0;
            let qp = self.members.get(&place)?;
            (place.group == group).then_some((place.serial, qp))
        };
        core::iter::successors(next(serial), move |(serial, _)| next(*serial))
    }

    /// The next member after `cursor` that a packet to `group` on `port` reaches: one whose queue pair is on that port
    /// now.
    pub(crate) fn next_member(
        &self,
        cursor: &mut Cursor,
        port: PortNum,
        group: Group,
    ) -> Option<Held<Qp>> {
        let end = *cursor.end.get_or_insert(self.next);
        let (serial, qp) = self
            .after(group, cursor.serial)
            .take_while(|(serial, _)| *serial < end)
            .find(|(_, qp)| qp.port() == port)?;
        cursor.serial = serial;
        qp.try_clone()
    }

    /// Takes a member out. It is to be dropped without the lock.
    fn take(&mut self, place: &Place) -> Option<Member> {
        let member = self.members.remove_node(place)?;
        self.count = self.count.saturating_sub(1);
        Some(member)
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
    group: Group,
) -> Result {
    let room = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
    let mut state = cx.lock(&hca.state);
    let groups = &mut state.mcast;
    let mut others = 0;
    for (_, other) in groups.after(group, NOBODY) {
        if core::ptr::eq(&**other, &*qp) {
            return Ok(());
        }
        others += 1;
    }
    if others >= MAX_PER_GROUP || groups.count >= MAX_MEMBERS {
        return Err(ENOMEM);
    }
    let serial = groups.next;
    groups.next = serial.wrapping_add(1);
    groups.count = groups.count.saturating_add(1);
    groups
        .members
        .insert(room.into_node(Place { group, serial }, qp));
    Ok(())
}

/// Ends the membership of `qp` in a group.
///
/// # Errors
///
/// `EINVAL` if it is not a member.
pub(crate) fn detach(cx: &mut Cx<'_, Unlocked>, hca: &Hca, qp: &Qp, group: Group) -> Result {
    let taken = {
        let mut state = cx.lock(&hca.state);
        let groups = &mut state.mcast;
        let found = groups
            .after(group, NOBODY)
            .find(|(_, member)| core::ptr::eq(&***member, qp))
            .map(|(serial, _)| Place { group, serial });
        found.and_then(|place| groups.take(&place))
    };
    taken.map(drop).ok_or(EINVAL)
}
