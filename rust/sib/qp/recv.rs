// SPDX-License-Identifier: GPL-2.0

//! Receive queues, of one queue pair or shared.

use crate::payload::MAX_SGE;
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::{
        abi::{
            self,
            UserRecv, //
        },
        LocalSge,
        RecvWr, //
    },
    mem::BulkVec,
    ring::{
        Consumer,
        Ring, //
    }, //
};

/// A receive work request that was taken off its queue.
pub(crate) struct RecvEntry {
    /// The client's name for it.
    pub(crate) wr_id: u64,
    /// Bytes that its buffers hold together.
    pub(crate) len: u32,
    count: usize,
    sges: [LocalSge; MAX_SGE],
}

impl RecvEntry {
    /// An entry without buffers.
    pub(crate) const fn new() -> Self {
        Self {
            wr_id: 0,
            len: 0,
            count: 0,
            sges: [LocalSge::NONE; MAX_SGE],
        }
    }

    /// The buffers.
    pub(crate) fn sges(&self) -> &[LocalSge] {
        self.sges.get(..self.count).unwrap_or_default()
    }

    fn fill(&mut self, wr_id: u64, list: impl Iterator<Item = LocalSge>) {
        self.wr_id = wr_id;
        self.len = 0;
        self.count = 0;
        for (to, from) in self.sges.iter_mut().zip(list) {
            *to = from;
            self.len = self.len.saturating_add(from.length);
            self.count = self.count.wrapping_add(1);
        }
    }
}

/// What came of taking a work request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// There is none.
    None,
    /// Here it is.
    Whole,
    /// A user has overwritten it; it has no buffers.
    Spoilt,
}

/// Receive work requests of a kernel client.
struct List {
    heads: KVVec<(u64, usize)>,
    sges: KVVec<LocalSge>,
    max_sge: usize,
    head: usize,
    len: usize,
}

impl List {
    fn slot(&self, index: usize) -> usize {
        let at = self.head.wrapping_add(index);
        if at >= self.heads.len() {
            at.wrapping_sub(self.heads.len())
        } else {
            at
        }
    }

    fn post(&mut self, wr: &RecvWr<'_>) -> Result {
        if wr.sges.len() > self.max_sge {
            return Err(EINVAL);
        }
        if self.len >= self.heads.len() {
            return Err(ENOMEM);
        }
        let slot = self.slot(self.len);
        let first = slot.wrapping_mul(self.max_sge);
        let room = self.sges.get_mut(first..).unwrap_or_default();
        for (to, from) in room.iter_mut().zip(wr.sges) {
            *to = *from;
        }
        let head = self.heads.get_mut(slot).ok_or(EINVAL)?;
        *head = (wr.wr_id, wr.sges.len());
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    fn take(&mut self, entry: &mut RecvEntry) -> bool {
        if self.len == 0 {
            return false;
        }
        let Some((wr_id, count)) = self.heads.get(self.head).copied() else {
            return false;
        };
        let first = self.head.wrapping_mul(self.max_sge);
        let list = self
            .sges
            .get(first..first.wrapping_add(count))
            .unwrap_or_default();
        entry.fill(wr_id, list.iter().copied());
        self.head = self.slot(1);
        self.len = self.len.wrapping_sub(1);
        true
    }
}

/// The ring of a user.
struct User {
    ring: Consumer,
    /// Buffers of an entry at most.
    max_sge: u32,
    /// Room for the copy of one entry.
    element: BulkVec<u8>,
}

/// Where receive work requests come from.
enum Requests {
    /// There are none: the queue pair has a shared receive queue.
    None,
    User(User),
    /// Posted by a kernel client.
    Kernel(List),
}

/// A queue of receive work requests.
pub(crate) struct RecvQueue(Requests);

impl RecvQueue {
    /// No queue.
    pub(crate) const fn none() -> Self {
        Self(Requests::None)
    }

    /// A queue for `wr` work requests of `sge` buffers, how many it really holds, and the ring that a
    /// user shares. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a size that is not offered, `ENOMEM`.
    pub(crate) fn new(wr: u32, sge: u32, user: bool) -> Result<(Self, u32, Option<Arc<Ring>>)> {
        if user {
            let ring = Ring::new(wr, abi::recv_wqe_size(sge))?;
            let granted = ring.capacity();
            let user = User {
                ring: Consumer::new(ring.clone()),
                max_sge: sge,
                element: BulkVec::from_elem(0, abi::recv_wqe_size(sge), GFP_KERNEL_ACCOUNT)?,
            };
            return Ok((Self(Requests::User(user)), granted, Some(ring)));
        }
        let slots = wr as usize;
        let sges = slots.checked_mul(sge as usize).ok_or(EINVAL)?;
        let list = List {
            heads: KVVec::from_elem((0, 0), slots, GFP_KERNEL)?,
            sges: KVVec::from_elem(LocalSge::NONE, sges, GFP_KERNEL)?,
            max_sge: sge as usize,
            head: 0,
            len: 0,
        };
        Ok((Self(Requests::Kernel(list)), wr, None))
    }

    /// Adds a work request of a kernel client.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has too many buffers, or the queue is not a kernel client's; `ENOMEM` if the
    /// queue is full.
    pub(crate) fn post(&mut self, wr: &RecvWr<'_>) -> Result {
        match &mut self.0 {
            Requests::Kernel(list) => list.post(wr),
            _ => Err(EINVAL),
        }
    }

    /// Takes the oldest work request.
    pub(crate) fn take(&mut self, entry: &mut RecvEntry) -> Taken {
        match &mut self.0 {
            Requests::None => Taken::None,
            Requests::Kernel(list) => {
                if list.take(entry) {
                    Taken::Whole
                } else {
                    Taken::None
                }
            }
            Requests::User(user) => {
                if !user.ring.fetch(&mut user.element) {
                    return Taken::None;
                }
                user.ring.retire(1);
                match UserRecv::decode(&user.element, user.max_sge) {
                    Ok(recv) => {
                        entry.fill(recv.wr_id, recv.sges.iter());
                        Taken::Whole
                    }
                    Err(bad) => {
                        entry.fill(bad.wr_id, core::iter::empty());
                        Taken::Spoilt
                    }
                }
            }
        }
    }

    /// The number of work requests.
    pub(crate) fn len(&self) -> u32 {
        match &self.0 {
            Requests::None => 0,
            Requests::Kernel(list) => list.len as u32,
            Requests::User(user) => user.ring.available(),
        }
    }

    /// Forgets all work requests.
    pub(crate) fn clear(&mut self) {
        match &mut self.0 {
            Requests::None => {}
            Requests::Kernel(list) => list.len = 0,
            Requests::User(user) => user.ring.clear(),
        }
    }

    /// The ring of a user.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue is not a user's.
    pub(crate) fn ring(&mut self) -> Result<&mut Consumer> {
        match &mut self.0 {
            Requests::User(user) => Ok(&mut user.ring),
            _ => Err(EINVAL),
        }
    }
}
