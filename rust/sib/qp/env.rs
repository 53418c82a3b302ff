// SPDX-License-Identifier: GPL-2.0

//! What the machine of a queue pair sees of its surroundings, while the queue pair is locked.

use super::{
    absence::{
        Absence,
        Need, //
    },
    send::{
        Payload,
        SendQueue, //
    },
    Qp, //
};
use crate::{
    counters,
    keys::Refusal,
    payload::{
        Piece,
        Source, //
    },
    pd::Pd,
    qp::recv::{
        RecvEntry,
        RecvQueue,
        Taken, //
    },
    wc, //
};
use kernel::prelude::*;
use proto::transport::{
    Access,
    AtomicOp,
    Env,
    InvalidateError,
    PlaceError,
    Placement,
    QpEvent,
    RecvSlot,
    RecvWqe,
    RemoteError,
    RemoteFault,
    SendSlot,
    Wc,
    WcStatus, //
};
use rdma::{
    ib::{
        self,
        AhAttr,
        LocalSge,
        QpAttr,
        QpType, //
    },
    mem::BulkVec,
    sync::{
        smp_mb,
        Cx,
        Off,
        QpLock, //
    },
    trace, //
};
use wire::{
    grh::{
        self,
        Grh, //
    },
    Key,
    PortNum, //
};

/// Events that wait until no lock is held, as a set.
#[derive(Clone, Copy, Default)]
pub(super) struct Events {
    /// Those of clients, a bit for each of [`EVENTS`].
    told: u8,
    /// Whether the peer has been heard for the first time on the path in use.
    pub(super) heard: bool,
    /// Whether a queue of it was found in error: a completion is lost, or no receive can be taken.
    pub(super) failed: bool,
}

/// All events, in the order in which a consumer gets those of one moment.
const EVENTS: [(QpEvent, ib::QpEvent); 8] = [
    (QpEvent::CommEst, ib::QpEvent::CommEst),
    (QpEvent::PathMig, ib::QpEvent::PathMig),
    (QpEvent::PathMigErr, ib::QpEvent::PathMigErr),
    (QpEvent::SqDrained, ib::QpEvent::SqDrained),
    (QpEvent::ReqErr, ib::QpEvent::RequestError),
    (QpEvent::AccessErr, ib::QpEvent::AccessError),
    (QpEvent::Fatal, ib::QpEvent::Fatal),
    (QpEvent::LastWqeReached, ib::QpEvent::LastWqeReached),
];

impl Events {
    fn add(&mut self, event: QpEvent) {
        for (bit, (known, _)) in EVENTS.iter().enumerate() {
            if *known == event {
                self.told |= 1u8.wrapping_shl(bit as u32);
            }
        }
    }

    /// Whether there is none to be told of.
    pub(super) fn is_empty(self) -> bool {
        self.told == 0 && !self.heard
    }

    /// Calls `f` with each event for clients.
    pub(super) fn for_each(self, mut f: impl FnMut(ib::QpEvent)) {
        for (bit, (_, event)) in EVENTS.iter().enumerate() {
            if self.told & 1u8.wrapping_shl(bit as u32) != 0 {
                f(*event);
            }
        }
    }
}

/// Send completions that are withheld while a segment of the queue pair is on its way: until it has
/// arrived, its bytes are read from the memory of a work request, which the client may use again as
/// soon as it sees the completion.
pub(super) struct Withheld {
    /// At most as many as there are slots of the send queue.
    wcs: BulkVec<(ib::Wc, bool)>,
}

impl Withheld {
    /// Room for `slots` completions. May sleep.
    pub(super) fn new(slots: usize) -> Result<Self> {
        Ok(Self {
            wcs: BulkVec::with_capacity(slots, GFP_KERNEL_ACCOUNT)?,
        })
    }

    /// Withholds a completion. The slot of its work request may be in use again, so a client that posts whatever fits
    /// may have more complete than there is room for. Then the earlier ones are let go, to keep the order.
    fn push(
        &mut self,
        cx: &mut Cx<'_, QpLock, Off>,
        qp: &Qp,
        events: &mut Events,
        (wc, solicited): (ib::Wc, bool),
    ) {
        if self.wcs.len() == self.wcs.capacity() {
            self.release(cx, qp, events);
        }
        if let Err(full) = self.wcs.push_within_capacity((wc, solicited)) {
            events.failed |= !qp.send_cq.push(cx.reborrow(), full.0 .0, solicited);
        }
    }

    /// Lets go of all completions, in order.
    pub(super) fn release(&mut self, cx: &mut Cx<'_, QpLock, Off>, qp: &Qp, events: &mut Events) {
        for (wc, solicited) in self.wcs.drain_all() {
            events.failed |= !qp.send_cq.push(cx.reborrow(), wc, solicited);
        }
    }

    /// Forgets all completions.
    pub(super) fn clear(&mut self) {
        self.wcs.clear();
    }
}

/// The surroundings of a machine.
pub(super) struct Surroundings<'a> {
    pub(super) qp: &'a Qp,
    pub(super) cx: Cx<'a, QpLock, Off>,
    pub(super) sends: &'a mut SendQueue,
    pub(super) recvs: &'a mut RecvQueue,
    pub(super) entry: &'a mut RecvEntry,
    pub(super) absence: &'a mut Absence,
    pub(super) events: &'a mut Events,
    /// Of the queue pair's state.
    pub(super) unanswered: &'a mut u32,
    pub(super) withheld: &'a mut Withheld,
    /// What queries are answered.
    pub(super) attr: &'a mut QpAttr,
    /// Whether send completions are to be withheld.
    pub(super) withhold: bool,
    /// The bytes of the packet.
    pub(super) source: Source<'a>,
    /// The port that it came by.
    pub(super) port: PortNum,
    /// Index of the packet's P_Key in the port's table, where it is not the queue pair's.
    pub(super) pkey_index: Option<u16>,
}

impl Surroundings<'_> {
    /// Copies the first `len` bytes of `source` to the buffers of a list, whose keys are of `pd`, from their byte
    /// `offset` on.
    fn scatter(
        (pd, need): (&Pd, &mut Need),
        cx: &mut Cx<'_, QpLock, Off>,
        list: &[LocalSge],
        mut offset: u32,
        source: &Source<'_>,
        len: u32,
    ) -> Result<(), PlaceError> {
        let mut done: u32 = 0;
        let mut absent = false;
        for sge in list {
            let left = len.saturating_sub(done);
            if left == 0 {
                break;
            }
            if offset >= sge.length {
                offset = offset.wrapping_sub(sge.length);
                continue;
            }
            let part = left.min(sge.length.wrapping_sub(offset));
            let piece = pd.local(cx.reborrow(), sge, (offset, part), true);
            match piece.map_err(|miss| need.local(miss)) {
                Ok(piece) if !absent => {
                    let region = piece.region().ok_or(WcStatus::LocProtErr)?;
                    source
                        .copy_to(done as usize, &region, 0, part as usize)
                        .map_err(|_| WcStatus::LocProtErr)?;
                }
                // All that is not there is to come at once.
                Ok(_) => {}
                Err(PlaceError::Absent) => absent = true,
                Err(error) => return Err(error),
            }
            done = done.saturating_add(part);
            offset = 0;
        }
        if absent {
            Err(PlaceError::Absent)
        } else if done == len {
            Ok(())
        } else {
            Err(WcStatus::LocLenErr.into())
        }
    }

    /// The memory that the peer names, if the queue pair may be asked for it.
    fn remote(
        &mut self,
        rkey: Key,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<Piece, RemoteError> {
        let need = &mut self.absence.taking;
        self.qp
            .pd
            .remote(self.cx.reborrow(), self.qp.serial, rkey, (va, len), access)
            .map_err(|miss| need.remote(miss))
    }
}

impl Env for Surroundings<'_> {
    fn in_port(&mut self) -> PortNum {
        self.port
    }

    fn take_recv(&mut self) -> Option<RecvWqe> {
        let taken = match &self.qp.srq {
            Some(srq) => {
                let taken = srq.take(self.cx.reborrow(), self.entry);
                self.events.failed |= taken == Taken::Spoilt;
                taken == Taken::Whole
            }
            None => self.recvs.take(self.entry) != Taken::None,
        };
        taken.then_some(RecvWqe {
            slot: RecvSlot(0),
            wr_id: self.entry.wr_id,
            len: self.entry.len,
        })
    }

    fn recv_count(&mut self) -> u32 {
        self.recvs.len()
    }

    fn place_recv(&mut self, _slot: RecvSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
        let list = self.entry.sges();
        Self::scatter(
            (self.qp.recv_pd(), &mut self.absence.taking),
            &mut self.cx,
            list,
            offset,
            &self.source,
            len,
        )
    }

    fn place_grh(&mut self, _slot: RecvSlot, header: Option<&Grh>) -> Result<(), PlaceError> {
        let mut bytes = [0; grh::LEN];
        if let Some(header) = header {
            header.emit(&mut bytes).map_err(|_| WcStatus::GeneralErr)?;
        }
        let list = self.entry.sges();
        let source = Source::Bytes(&bytes);
        Self::scatter(
            (self.qp.recv_pd(), &mut self.absence.taking),
            &mut self.cx,
            list,
            0,
            &source,
            grh::LEN as u32,
        )
    }

    fn check_remote(
        &mut self,
        rkey: Key,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<(), RemoteFault> {
        let cx = self.cx.reborrow();
        let range = (va, len);
        if self
            .qp
            .pd
            .may_access(cx, self.qp.serial, rkey, range, access)
        {
            Ok(())
        } else {
            Err(RemoteFault)
        }
    }

    fn place_remote(&mut self, rkey: Key, va: u64, len: u32) -> Result<(), RemoteError> {
        let piece = self.remote(rkey, va, len, Access::Write)?;
        let region = piece.region().ok_or(RemoteError::Fault)?;
        self.source
            .copy_to(0, &region, 0, len as usize)
            .map_err(|_| RemoteError::Fault)
    }

    fn atomic(&mut self, rkey: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteError> {
        let piece = self.remote(rkey, va, size_of::<u64>() as u32, Access::Atomic)?;
        let region = piece.region().ok_or(RemoteError::Fault)?;
        match op {
            AtomicOp::CompareSwap { compare, swap } => region.compare_swap(0, compare, swap),
            AtomicOp::FetchAdd { add } => region.fetch_add(0, add),
        }
        .map_err(|_| RemoteError::Fault)
    }

    fn atomic_write(&mut self, rkey: Key, va: u64) -> Result<(), RemoteError> {
        let mut bytes = [0; size_of::<u64>()];
        self.source
            .copy_out(0, &mut bytes)
            .map_err(|_| RemoteError::Fault)?;
        let piece = self.remote(rkey, va, bytes.len() as u32, Access::Write)?;
        let region = piece.region().ok_or(RemoteError::Fault)?;
        region
            .store(0, u64::from_ne_bytes(bytes))
            .map_err(|_| RemoteError::Fault)
    }

    fn flush(
        &mut self,
        rkey: Key,
        range: Option<(u64, u32)>,
        placement: Placement,
    ) -> Result<(), RemoteFault> {
        let via = self.qp.serial;
        let pd = &self.qp.pd;
        if !pd.may_flush(self.cx.reborrow(), via, rkey, range, placement) {
            return Err(RemoteFault);
        }
        // What peers write is stored by processors, and memory is coherent.
        smp_mb();
        Ok(())
    }

    fn invalidate(&mut self, rkey: Key) -> Result<(), InvalidateError> {
        let via = self.qp.serial;
        let mut tables = self.cx.lock(&self.qp.pd.tables);
        tables
            .invalidate(rkey.get(), via, true)
            .map_err(|refusal| match refusal {
                Refusal::Fault => InvalidateError::Fault,
                Refusal::Busy => InvalidateError::Busy,
            })
    }

    fn place_local(&mut self, slot: SendSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
        match self.sends.payload(slot) {
            Payload::Gather(list) => Self::scatter(
                (&self.qp.pd, &mut self.absence.taking),
                &mut self.cx,
                list,
                offset,
                &self.source,
                len,
            ),
            Payload::Inline(_) => Err(WcStatus::LocProtErr.into()),
        }
    }

    fn place_local_u64(&mut self, slot: SendSlot, value: u64) -> Result<(), PlaceError> {
        let bytes = value.to_ne_bytes();
        match self.sends.payload(slot) {
            Payload::Gather(list) => {
                let source = Source::Bytes(&bytes);
                let len = bytes.len() as u32;
                Self::scatter(
                    (&self.qp.pd, &mut self.absence.taking),
                    &mut self.cx,
                    list,
                    0,
                    &source,
                    len,
                )
            }
            Payload::Inline(_) => Err(WcStatus::LocProtErr.into()),
        }
    }

    fn retire_send(&mut self, _slot: SendSlot) {
        self.sends.retire();
    }

    fn is_sending(&self) -> bool {
        self.withhold
    }

    fn complete_send(&mut self, wc: Wc) {
        let solicited = wc.solicited;
        let (qpn, status) = (self.qp.qpn(), wc.status as u32);
        self.qp.note(counters::of_end(wc.status));
        if !matches!(wc.status, WcStatus::Success | WcStatus::WrFlushErr) {
            trace::error(qpn, trace::Fault::SendQueue, status);
        }
        trace::complete(qpn, wc.wr_id, status, false);
        // A datagram is complete when it leaves.
        if !matches!(self.qp.ty, QpType::Ud) {
            *self.unanswered = 0;
        }
        let wc = wc::translate(&wc, self.qp);
        if self.withhold {
            self.withheld
                .push(&mut self.cx, self.qp, self.events, (wc, solicited));
        } else {
            self.events.failed |= !self.qp.send_cq.push(self.cx.reborrow(), wc, solicited);
        }
    }

    fn complete_recv(&mut self, _slot: RecvSlot, wc: Wc) {
        let solicited = wc.solicited;
        trace::complete(self.qp.qpn(), wc.wr_id, wc.status as u32, true);
        let mut wc = wc::translate(&wc, self.qp);
        if let Some(index) = self.pkey_index {
            wc.pkey_index = index;
        }
        self.events.failed |= !self.qp.recv_cq.push(self.cx.reborrow(), wc, solicited);
    }

    fn event(&mut self, event: QpEvent) {
        let fault = match event {
            QpEvent::Fatal => Some(trace::Fault::Fatal),
            QpEvent::ReqErr => Some(trace::Fault::Request),
            QpEvent::AccessErr => Some(trace::Fault::Access),
            QpEvent::CommEst
            | QpEvent::SqDrained
            | QpEvent::LastWqeReached
            | QpEvent::PathMig
            | QpEvent::PathMigErr => None,
        };
        if let Some(fault) = fault {
            trace::error(self.qp.qpn(), fault, 0);
        }
        // A port counts what leaves it.
        self.qp.note(counters::of_event(event));
        if event == QpEvent::PathMig {
            self.qp.take_alternate_port();
            self.attr.ah = self.attr.alt_ah;
            forget_alternate(self.attr);
        }
        self.events.add(event);
    }

    fn heard(&mut self) {
        self.events.heard = true;
    }
}

/// There is no alternate path any more.
pub(super) fn forget_alternate(attr: &mut QpAttr) {
    attr.alt_ah = AhAttr::default();
    attr.alt_port = 0;
    attr.alt_pkey_index = 0;
    attr.alt_timeout = 0;
}
