// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair: where its work requests come from, and where their data are.
//!
//! The machine of the transport knows a work request by its slot. What it does not need to know is
//! here, under the same slot: the gather list, or a copy of the inline data.

use crate::keys::{
    Extent,
    Registration, //
};
use kernel::prelude::*;
use proto::transport::{
    self as machine,
    wqe::ATOMIC_LEN,
    SendFlags,
    SendOp,
    SendSlot,
    SendWqe,
    UdDest,
    WcStatus, //
};
use rdma::{
    ib::{
        self,
        abi::{
            self,
            SendLimits,
            UserData,
            UserSend, //
        },
        Bind,
        LocalSge,
        QpCap,
        QpType, //
    },
    mem::BulkVec,
    ring::Consumer, //
};
use wire::{
    feth::Feth,
    Key,
    QKey,
    Qpn, //
};

/// What a slot holds.
#[derive(Clone, Copy)]
enum Data {
    /// So many entries of a gather list.
    Gather(usize),
    /// So many bytes.
    Inline(usize),
    /// Nothing but what to do on this side.
    Local(Local),
}

/// An operation that is for this side alone.
#[derive(Clone, Copy)]
pub(super) enum Local {
    /// Invalidates a key.
    Invalidate(u32),
    /// Binds a memory window.
    Bind(Bind),
    /// Registers memory.
    Register(Registration),
}

impl Local {
    /// The operation, if it is one for this side.
    pub(super) fn of<A, M>(op: &ib::SendOp<A, M>) -> Option<Self> {
        match op {
            ib::SendOp::LocalInvalidate { rkey } => Some(Self::Invalidate(*rkey)),
            ib::SendOp::BindMw(bind) => Some(Self::Bind(*bind)),
            ib::SendOp::RegMr {
                key,
                access,
                iova,
                length,
                ..
            } => Some(Self::Register(Registration {
                key: *key,
                access: *access,
                extent: Extent {
                    start: *iova,
                    length: *length,
                },
            })),
            _ => None,
        }
    }
}

/// The data of the work requests of a send queue.
pub(super) struct SendQueue {
    /// The ring of a user client.
    ring: Option<Consumer>,
    limits: SendLimits,
    data: BulkVec<Data>,
    sges: BulkVec<LocalSge>,
    inline: BulkVec<u8>,
    /// Room for one element of the ring, while nobody fetches.
    fetched: Option<Fetched>,
}

/// What the payload of a slot is made of.
pub(super) enum Payload<'a> {
    /// The memory of a gather list.
    Gather(&'a [LocalSge]),
    /// The bytes themselves.
    Inline(&'a [u8]),
}

/// A work request taken from the ring of a user, on its way into the machine.
pub(super) struct Fetched {
    element: BulkVec<u8>,
}

impl SendQueue {
    /// Allocates room for `slots` work requests within `cap`. May sleep.
    pub(super) fn new(
        ty: QpType,
        cap: &QpCap,
        slots: usize,
        ring: Option<Consumer>,
    ) -> Result<Self> {
        let max_sge = cap.max_send_sge as usize;
        let inline_room = inline_room(cap.max_inline_data);
        let sges = slots.checked_mul(max_sge).ok_or(EINVAL)?;
        let inline = slots.checked_mul(inline_room).ok_or(EINVAL)?;
        let element = abi::send_wqe_size(cap.max_send_sge, cap.max_inline_data);
        Ok(Self {
            ring,
            limits: SendLimits {
                ty,
                max_sge: cap.max_send_sge,
                max_inline: cap.max_inline_data,
            },
            data: BulkVec::from_elem(Data::Gather(0), slots, GFP_KERNEL_ACCOUNT)?,
            sges: BulkVec::from_elem(LocalSge::NONE, sges, GFP_KERNEL_ACCOUNT)?,
            inline: BulkVec::from_elem(0, inline, GFP_KERNEL_ACCOUNT)?,
            fetched: Some(Fetched {
                element: BulkVec::from_elem(0, element, GFP_KERNEL_ACCOUNT)?,
            }),
        })
    }

    /// What the payload of `slot` is made of.
    pub(super) fn payload(&self, slot: SendSlot) -> Payload<'_> {
        let slot = slot.get() as usize;
        match self.data.get(slot) {
            Some(Data::Gather(count)) => {
                let first = slot.wrapping_mul(self.limits.max_sge as usize);
                Payload::Gather(window(&self.sges, first, *count))
            }
            Some(Data::Inline(len)) => {
                let first = slot.wrapping_mul(inline_room(self.limits.max_inline));
                Payload::Inline(window(&self.inline, first, *len))
            }
            Some(Data::Local(_)) | None => Payload::Inline(&[]),
        }
    }

    /// What is to be done on this side for `slot`.
    pub(super) fn local(&self, slot: SendSlot) -> Option<Local> {
        match self.data.get(slot.get() as usize) {
            Some(Data::Local(local)) => Some(*local),
            _ => None,
        }
    }

    /// Keeps what is to be done on this side.
    pub(super) fn store_local(&mut self, slot: SendSlot, local: Local) {
        if let Some(data) = self.data.get_mut(slot.get() as usize) {
            *data = Data::Local(local);
        }
    }

    /// Gives the slot of the oldest work request back to the user.
    pub(super) fn retire(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.retire(1);
        }
    }

    /// Forgets what the user has put into the ring.
    pub(super) fn clear(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.clear();
        }
    }

    /// Lends the room that elements are fetched into.
    pub(super) fn room(&mut self) -> Option<Fetched> {
        self.fetched.take()
    }

    /// Takes that room back.
    pub(super) fn give_back(&mut self, room: Fetched) {
        self.fetched = Some(room);
    }

    /// Takes the next element off the ring of the user.
    pub(super) fn fetch(&mut self, into: &mut Fetched) -> bool {
        match &mut self.ring {
            Some(ring) => ring.fetch(&mut into.element),
            None => false,
        }
    }

    /// What the element asks for, and what it refers to. A bad one becomes a work request that fails
    /// in its turn.
    pub(super) fn decode<'a>(&self, from: &'a Fetched) -> (SendWqe, Option<UserSend<'a>>) {
        match UserSend::decode(&from.element, &self.limits) {
            Ok(send) => (translate(send.wr_id, send.flags, &send.op), Some(send)),
            Err(bad) => {
                let wqe = SendWqe {
                    wr_id: bad.wr_id,
                    fault: Some(status(bad.status)),
                    ..SendWqe::default()
                };
                (wqe, None)
            }
        }
    }

    /// Keeps the data of a user's work request.
    pub(super) fn store_user(&mut self, slot: SendSlot, data: &UserData<'_>) {
        match data {
            UserData::Inline(bytes) => self.store_inline(slot, bytes),
            UserData::Gather(list) => {
                let slot = slot.get() as usize;
                let first = slot.wrapping_mul(self.limits.max_sge as usize);
                let room = window_mut(&mut self.sges, first, self.limits.max_sge as usize);
                let mut count: usize = 0;
                for (to, from) in room.iter_mut().zip(list.iter()) {
                    *to = from;
                    count = count.wrapping_add(1);
                }
                if let Some(data) = self.data.get_mut(slot) {
                    *data = Data::Gather(count);
                }
            }
        }
    }

    /// Keeps the gather list of a kernel client's work request.
    pub(super) fn store_list(&mut self, slot: SendSlot, list: &[LocalSge]) {
        let slot = slot.get() as usize;
        let first = slot.wrapping_mul(self.limits.max_sge as usize);
        let room = window_mut(&mut self.sges, first, self.limits.max_sge as usize);
        let mut count: usize = 0;
        for (to, from) in room.iter_mut().zip(list) {
            *to = *from;
            count = count.wrapping_add(1);
        }
        if let Some(data) = self.data.get_mut(slot) {
            *data = Data::Gather(count);
        }
    }

    /// Keeps inline data.
    pub(super) fn store_inline(&mut self, slot: SendSlot, bytes: &[u8]) {
        let slot = slot.get() as usize;
        let first = slot.wrapping_mul(inline_room(self.limits.max_inline));
        let room = window_mut(&mut self.inline, first, inline_room(self.limits.max_inline));
        let mut len: usize = 0;
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
            len = len.wrapping_add(1);
        }
        if let Some(data) = self.data.get_mut(slot) {
            *data = Data::Inline(len);
        }
    }

    /// The largest gather list of a work request.
    pub(super) fn max_sge(&self) -> usize {
        self.limits.max_sge as usize
    }

    /// The longest inline data of a work request.
    pub(super) fn max_inline(&self) -> usize {
        self.limits.max_inline as usize
    }
}

/// Bytes that a slot has for data of its own. An ATOMIC WRITE carries its data in any case.
fn inline_room(max_inline: u32) -> usize {
    max_inline.max(ATOMIC_LEN) as usize
}

/// `len` elements from `first` on; none if there are fewer.
fn window<T>(all: &[T], first: usize, len: usize) -> &[T] {
    all.get(first..first.saturating_add(len))
        .unwrap_or_default()
}

/// As [`window`].
fn window_mut<T>(all: &mut [T], first: usize, len: usize) -> &mut [T] {
    all.get_mut(first..first.saturating_add(len))
        .unwrap_or_default()
}

/// The machine's form of a status that decoding found.
fn status(status: ib::WcStatus) -> WcStatus {
    match status {
        ib::WcStatus::LocLenErr => WcStatus::LocLenErr,
        ib::WcStatus::LocProtErr => WcStatus::LocProtErr,
        _ => WcStatus::LocQpOpErr,
    }
}

/// The machine's form of a work request, but for its length and its destination.
pub(super) fn translate<A, M>(wr_id: u64, flags: ib::SendFlags, op: &ib::SendOp<A, M>) -> SendWqe {
    let mut wqe = SendWqe {
        wr_id,
        flags: SendFlags {
            signaled: flags.contains(ib::SendFlags::SIGNALED),
            solicited: flags.contains(ib::SendFlags::SOLICITED),
            fence: flags.contains(ib::SendFlags::FENCE),
        },
        ..SendWqe::default()
    };
    match op {
        ib::SendOp::Send { ext, to } => {
            (wqe.op, wqe.imm) = match ext {
                ib::SendExt::None => (SendOp::Send, 0),
                ib::SendExt::Imm(imm) => (SendOp::SendImm, u32::from_be_bytes(*imm)),
                ib::SendExt::Invalidate(rkey) => (SendOp::SendInv, *rkey),
            };
            wqe.ud = to.as_ref().map(|to| UdDest {
                qpn: Qpn::new(to.qpn),
                qkey: QKey::new(to.qkey),
                ..UdDest::default()
            });
        }
        ib::SendOp::Write { addr, rkey, imm } => {
            (wqe.op, wqe.imm) = match imm {
                None => (SendOp::Write, 0),
                Some(imm) => (SendOp::WriteImm, u32::from_be_bytes(*imm)),
            };
            (wqe.remote_va, wqe.rkey) = (*addr, Key::new(*rkey));
        }
        ib::SendOp::Read { addr, rkey } => {
            wqe.op = SendOp::Read;
            (wqe.remote_va, wqe.rkey) = (*addr, Key::new(*rkey));
        }
        ib::SendOp::CompareSwap {
            addr,
            rkey,
            compare,
            swap,
        } => {
            wqe.op = SendOp::CompareSwap;
            (wqe.remote_va, wqe.rkey) = (*addr, Key::new(*rkey));
            (wqe.compare, wqe.swap_add) = (*compare, *swap);
        }
        ib::SendOp::FetchAdd { addr, rkey, add } => {
            wqe.op = SendOp::FetchAdd;
            (wqe.remote_va, wqe.rkey) = (*addr, Key::new(*rkey));
            wqe.swap_add = *add;
        }
        ib::SendOp::AtomicWrite { addr, rkey } => {
            wqe.op = SendOp::AtomicWrite;
            (wqe.remote_va, wqe.rkey) = (*addr, Key::new(*rkey));
        }
        ib::SendOp::Flush {
            addr,
            rkey,
            types,
            level,
            ..
        } => {
            wqe.op = SendOp::Flush;
            (wqe.remote_va, wqe.rkey) = (*addr, Key::new(*rkey));
            wqe.flush = Feth {
                selectivity: *level,
                placement: *types,
            };
        }
        ib::SendOp::LocalInvalidate { .. } => wqe.op = SendOp::LocalInv,
        ib::SendOp::BindMw(_) => wqe.op = SendOp::BindMw,
        ib::SendOp::RegMr { .. } => wqe.op = SendOp::RegMr,
    }
    wqe
}

/// The size of the machine's ring for `wr` work requests: a power of two.
pub(super) fn slots(wr: u32) -> usize {
    (wr.max(1) as usize).next_power_of_two()
}

/// The longest message.
pub(super) const MAX_MESSAGE: u32 = machine::wqe::MAX_MESSAGE;
