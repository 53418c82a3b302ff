// SPDX-License-Identifier: GPL-2.0

//! From work requests to segments.

use super::retry::Timer;
use super::Position;
use super::Requester;
use crate::time::Instant;
use crate::transport::config::QpConfig;
use crate::transport::qp_state::QpType;
use crate::transport::segment::{
    connected_header,
    Payload,
    Piece,
    Place,
    TxLimits,
    TxSegment, //
};
use crate::transport::ud;
use crate::transport::wqe::{
    SendEntry,
    SendOp,
    SendSlot,
    SendWqe,
    ATOMIC_LEN, //
};
use core::ops::DerefMut;
use wire::atomic::AtomicEth;
use wire::header::Header;
use wire::ieth::Ieth;
use wire::imm::ImmDt;
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::reth::Reth;
use wire::{
    Key,
    Psn, //
};

/// A local operation is executed only if fewer work requests before it are not complete: one answer may complete them
/// all, and the driver has interrupts off meanwhile.
const LOCAL_WINDOW: u32 = 512;

impl<S: DerefMut<Target = [SendEntry]>> Requester<S> {
    /// The next segment to send; `may_begin` tells whether new work requests may begin.
    pub(in crate::transport) fn poll(
        &mut self,
        now: Instant,
        config: &QpConfig,
        limits: &TxLimits,
        may_begin: bool,
    ) -> Option<TxSegment> {
        self.local = None;
        if let Timer::Rnr(at) = self.timer {
            if now < at {
                return None;
            }
            self.restart_timer(now, config);
        }
        self.arrive(now, config, limits, may_begin)?;
        let room = self.room(config);
        if room == 0 || self.is_throttled(config) {
            return None;
        }
        let before = self.mark();
        let (segment, psns, complete) = self.build(now, config, limits, room)?;
        self.before = before;
        // INVARIANT: The cursor was before `begun` and its work request has at least `psns` PSNs left.
        self.cursor_psn = self.cursor_psn.add(psns);
        self.cursor = if complete {
            Position {
                index: self.cursor.index.next(),
                packet: 0,
            }
        } else {
            Position {
                packet: self.cursor.packet.wrapping_add(psns),
                ..self.cursor
            }
        };
        if self.cursor_psn.sub(self.acked) > self.sent_end.sub(self.acked) {
            let bth = &segment.header.bth;
            if !bth.opcode.has_payload() {
                self.reminder.on_sent(now, bth.psn.add(1));
            } else if bth.ack_req {
                self.reminder.on_sent(now, self.cursor_psn);
            }
            self.sent_end = self.cursor_psn;
        }
        let asks = segment.header.bth.ack_req || !segment.header.bth.opcode.has_payload();
        let begins = asks && !self.asking.asked.is_after(self.acked);
        if asks {
            self.asking.on_asked(self.cursor_psn);
        }
        // Time in which the peer was not asked is none that it has let pass.
        if self.qp_type == QpType::Rc && (begins || self.is_idle()) {
            self.restart_timer(now, config);
        }
        Some(segment)
    }

    /// Has the segment that was polled last be polled again, when its memory is there. If that is the first that is not
    /// acknowledged, the peer has not been asked for it again, and is not silent until then. But it has been asked if that
    /// was for a reminder, of which nothing may come: then the wait for the answer to what was sent before goes on.
    pub(in crate::transport) fn put_back(&mut self) {
        self.take_back();
        if self.cursor_psn == self.acked && self.doubt.is_none() {
            self.timer = Timer::Off;
            self.reminder.disarm();
        }
    }

    /// Has the segment that was polled last be polled again.
    pub(super) fn take_back(&mut self) {
        let before = self.before;
        // INVARIANT: As it was then; nothing has been acknowledged since.
        self.cursor = before.cursor;
        self.cursor_psn = before.cursor_psn;
        self.sent_end = before.sent_end;
        self.part_end = before.part_end;
        self.asking = before.asking;
        if self.acked == self.sent_end {
            self.timer = Timer::Off;
            self.reminder.disarm();
        }
    }

    /// Whether there are work requests that have not been sent, or have to be sent again.
    pub(in crate::transport) fn has_output(&self) -> bool {
        self.cursor.index != self.head || self.asking.is_due()
    }

    /// Whether nothing has been sent of any of those.
    pub(in crate::transport) fn is_at_new(&self) -> bool {
        self.cursor.index == self.begun && !self.asking.is_due()
    }

    /// Moves the cursor to the next work request that has something to send.
    fn arrive(
        &mut self,
        now: Instant,
        config: &QpConfig,
        limits: &TxLimits,
        may_begin: bool,
    ) -> Option<()> {
        loop {
            let index = self.cursor.index;
            if self.is_blocked(index) {
                if self.is_asked() || self.is_blocked(self.oldest.index) {
                    return None;
                }
                // It has its completion when those before it have theirs.
                self.ask(now, config);
                return None;
            }
            if index == self.begun && !(may_begin && self.begin(config, limits.mtu)) {
                if self.is_asked() || (may_begin && !self.next_waits(index)) {
                    return None;
                }
                self.ask(now, config);
                return None;
            }
            let entry = self.queue.get(index)?;
            if !entry.wqe.op.is_local() {
                return Some(());
            }
            let (signaled, executed) = (entry.wqe.flags.signaled, entry.executed);
            let crowded = !executed
                && self.qp_type == QpType::Rc
                && index.since(self.oldest.index) >= LOCAL_WINDOW;
            if (signaled || crowded) && !self.is_all_asked() {
                // Its completion comes after theirs, and once it is executed they may not find their memory any more.
                self.ask(now, config);
                return None;
            }
            if crowded {
                return None;
            }
            if !executed {
                self.local = Some(self.queue.slot(index));
                return None;
            }
            // INVARIANT: The cursor was before `begun`.
            self.cursor = Position {
                index: index.next(),
                packet: 0,
            };
        }
    }

    /// Number of packets that may be sent without hearing from the peer.
    fn room(&self, config: &QpConfig) -> u32 {
        if self.qp_type == QpType::Rc {
            let unacked = self.cursor_psn.sub(self.acked);
            let window = match self.is_refused() {
                true => 1,
                false => self.window.packets(config),
            };
            window.saturating_sub(unacked)
        } else {
            u32::MAX
        }
    }

    /// The segment at the cursor, the number of its PSNs, and whether it is its work request's last one.
    fn build(
        &mut self,
        now: Instant,
        config: &QpConfig,
        limits: &TxLimits,
        room: u32,
    ) -> Option<(TxSegment, u32, bool)> {
        let slot = self.queue.slot(self.cursor.index);
        let entry = self.queue.get(self.cursor.index)?;
        let wqe = &entry.wqe;
        let psn = self.cursor_psn;
        if self.qp_type.is_datagram() {
            let segment = ud::segment(wqe, slot, psn, self.qp_type, config, limits)?;
            return Some((segment, 1, true));
        }
        if wqe.op.is_fetch() {
            let at = self.cursor.packet;
            let left = entry.psn_count.wrapping_sub(at);
            let mut psns = left;
            if wqe.op == SendOp::Read {
                if self.window.is_reduced(config) {
                    psns = psns.min(room);
                }
                // The parts of one operation count as one, so there is one at a time.
                if (psns != left || at != 0) && psn != self.acked {
                    self.await_answers(now, config);
                    return None;
                }
                if self.part_end.is_after(psn) {
                    psns = psns.min(self.part_end.sub(psn));
                } else {
                    self.part_end = psn.add(psns);
                }
            }
            let header = fetch_header(wqe, (at, psns), psn, config, limits)?;
            let segment = TxSegment {
                header,
                span: 1,
                payload: match wqe.op {
                    SendOp::AtomicWrite => own_bytes(slot, 0, ATOMIC_LEN),
                    _ => Payload::None,
                },
            };
            return Some((segment, psns, psns == left));
        }
        let at = self.cursor.packet;
        let piece = Piece::cut(config.mtu, limits, (wqe.length, entry.psn_count), at, room);
        let place = Place::new(at == 0, piece.ends);
        let service = match self.qp_type {
            QpType::Uc => Service::Uc,
            _ => Service::Rc,
        };
        let mut header = message_header(wqe, service, place, psn, config, limits)?;
        if self.qp_type == QpType::Rc {
            let (op, flags) = (wqe.op, wqe.flags);
            header.bth.ack_req = self.asks(op, flags, &piece, room, config);
        }
        let segment = TxSegment {
            header,
            span: piece.span,
            payload: own_bytes(slot, piece.offset, piece.len),
        };
        Some((segment, piece.span, piece.ends))
    }
}

/// Payload of a work request.
pub(in crate::transport) fn own_bytes(slot: SendSlot, offset: u32, len: u32) -> Payload {
    if len == 0 {
        Payload::None
    } else {
        Payload::Wqe { slot, offset, len }
    }
}

/// Headers of the segment of a SEND or RDMA WRITE that has this place.
fn message_header(
    wqe: &SendWqe,
    service: Service,
    place: Place,
    psn: Psn,
    config: &QpConfig,
    limits: &TxLimits,
) -> Option<Header> {
    let operation = message_operation(wqe.op, place)?;
    let opcode = Opcode::new(service, operation)?;
    let mut header = connected_header(config, limits, opcode, psn);
    if opcode.has_reth() {
        header.reth = Some(Reth {
            va: wqe.remote_va,
            rkey: wqe.rkey,
            dma_len: wqe.length,
        });
    }
    if opcode.has_imm() {
        header.imm = Some(ImmDt::from_u32(wqe.imm));
    }
    if opcode.has_ieth() {
        header.ieth = Some(Ieth {
            rkey: Key::new(wqe.imm),
        });
    }
    // Only a receive completion is an event.
    let completes = opcode.ends() && wqe.op != SendOp::Write;
    header.bth.se = wqe.flags.solicited && completes;
    Some(header)
}

#[rustfmt::skip]
fn message_operation(op: SendOp, place: Place) -> Option<Operation> {
    use Operation::*;
    let [first, middle, last, only] = match op {
        SendOp::Send     => [SendFirst,  SendMiddle,  SendLast,     SendOnly],
        SendOp::SendImm  => [SendFirst,  SendMiddle,  SendLastImm,  SendOnlyImm],
        SendOp::SendInv  => [SendFirst,  SendMiddle,  SendLastInv,  SendOnlyInv],
        SendOp::Write    => [WriteFirst, WriteMiddle, WriteLast,    WriteOnly],
        SendOp::WriteImm => [WriteFirst, WriteMiddle, WriteLastImm, WriteOnlyImm],
        SendOp::Read
        | SendOp::CompareSwap
        | SendOp::FetchAdd
        | SendOp::AtomicWrite
        | SendOp::Flush
        | SendOp::LocalInv
        | SendOp::BindMw
        | SendOp::RegMr => return None,
    };
    Some(match place {
        Place::First => first,
        Place::Middle => middle,
        Place::Last => last,
        Place::Only => only,
    })
}

/// Headers of the request for `count` packets, from packet `at` on, of the answer of an RDMA READ, or of another
/// operation that has one.
fn fetch_header(
    wqe: &SendWqe,
    (at, count): (u32, u32),
    psn: Psn,
    config: &QpConfig,
    limits: &TxLimits,
) -> Option<Header> {
    let operation = match wqe.op {
        SendOp::Read => Operation::ReadRequest,
        SendOp::CompareSwap => Operation::CompareSwap,
        SendOp::FetchAdd => Operation::FetchAdd,
        SendOp::AtomicWrite => Operation::AtomicWrite,
        SendOp::Flush => Operation::Flush,
        _ => return None,
    };
    let opcode = Opcode::new(Service::Rc, operation)?;
    let mut header = connected_header(config, limits, opcode, psn);
    if wqe.op.is_atomic() {
        header.atomic = Some(AtomicEth {
            va: wqe.remote_va,
            rkey: wqe.rkey,
            swap_add: wqe.swap_add,
            compare: wqe.compare,
        });
    } else {
        let offset = at.wrapping_shl(config.mtu.shift());
        let left = wqe.length.saturating_sub(offset);
        header.reth = Some(Reth {
            va: wqe.remote_va.wrapping_add(u64::from(offset)),
            rkey: wqe.rkey,
            dma_len: match wqe.op {
                SendOp::AtomicWrite => ATOMIC_LEN,
                SendOp::Flush => wqe.length,
                _ => left.min(count.wrapping_shl(config.mtu.shift())),
            },
        });
    }
    // A request with a payload that has an answer is one that asks for it.
    header.bth.ack_req = opcode.has_payload();
    header.feth = opcode.has_feth().then_some(wqe.flush);
    Some(header)
}
