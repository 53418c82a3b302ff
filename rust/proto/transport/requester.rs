// SPDX-License-Identifier: GPL-2.0

//! The sending side of a queue pair: from work requests to request packets, and from responses to completions.
//!
//! The send queue is one ring, cut in three by two marks. From the oldest on, work requests are
//! - *waiting* for the response to what was sent, up to the cursor;
//! - *sending*, or about to send again what was lost, up to `begun`;
//! - *submitted*, and without a PSN yet, up to the end.
//!
//! A work request begins, which gives it its PSNs, when the cursor arrives at it and neither a fence nor the
//! limit of outstanding RDMA READ and atomic operations holds it back. Going back to repair a loss is moving
//! the cursor to the first packet that is not acknowledged. A work request is complete when its last packet is
//! acknowledged or answered; only the oldest ever completes, so completions are in order.
//!
//! An error that concerns a later work request than the oldest is *parked*: the cursor does not pass it, and it
//! becomes that work request's completion when the ones before it are complete.
//!
//! A message that takes a receive work request of the peer begins when the peer has said that there is one
//! ([`credits`]), or when it is the one by which the peer is asked.
//!
//! Local operations take no PSN. The cursor stops before one until the driver has executed it, so that what
//! follows finds it done; going back does not execute it again.
//!
//! Unreliable services share all of it; there, what was sent is complete.

mod asking;
mod credits;
mod doubt;
mod reminder;
mod response;
mod retry;
mod transmit;
mod window;

use crate::time::Instant;
use crate::transport::config::QpConfig;
use crate::transport::env::Env;
use crate::transport::qp::FLUSH_BATCH;
use crate::transport::qp_state::QpType;
use crate::transport::send_queue::{
    Index,
    SendQueue, //
};
use crate::transport::wc::{
    Wc,
    WcStatus, //
};
use crate::transport::wqe::{
    SendEntry,
    SendOp,
    SendSlot,
    SendWqe,
    MAX_MESSAGE, //
};
use asking::Asking;
use core::ops::DerefMut;
use credits::Credits;
use doubt::Doubt;
use reminder::Reminder;
pub use retry::Lapse;
use retry::Timer;
pub(super) use transmit::own_bytes;
use window::Window;
use wire::{
    Mtu,
    Psn, //
};

/// A packet of a work request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    index: Index,
    /// Packets of the work request before this one.
    packet: u32,
}

/// An error that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parked {
    index: Index,
    status: WcStatus,
}

/// Where a requester was before it polled a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    cursor: Position,
    cursor_psn: Psn,
    sent_end: Psn,
    part_end: Psn,
    asking: Asking,
}

/// How far the work of a send queue has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Work requests that are not complete.
    pub sends: u32,
    /// Those of them that have their PSNs.
    pub begun: u32,
    /// RDMA READ and atomic operations among those.
    pub fetches: u32,
    /// The first PSN that is not acknowledged.
    pub acked: Psn,
    /// One after the last PSN ever sent.
    pub sent_end: Psn,
    /// How often the ACK timeout may still run out.
    pub retries_left: u8,
    /// How often the peer may still be not ready.
    pub rnr_retries_left: u8,
}

/// The sending side of a queue pair.
///
/// # Invariants
///
/// In the order of posting: `oldest.index`, `cursor.index`, `begun`, `head`, and between the first and the last
/// are at most `queue.capacity()` work requests.
///
/// In the order of PSNs, none more than 2^23 after the first: `acked`, `cursor_psn`, `sent_end`, `next_psn`.
pub(super) struct Requester<S> {
    qp_type: QpType,
    queue: SendQueue<S>,
    /// The first packet that is not acknowledged, or where the next one will be.
    oldest: Position,
    /// The packet to send next.
    cursor: Position,
    /// The first work request that has not begun.
    begun: Index,
    /// Where the next work request goes.
    head: Index,
    /// PSN of `oldest`.
    acked: Psn,
    /// PSN of `cursor`.
    cursor_psn: Psn,
    /// One after the last PSN ever sent.
    sent_end: Psn,
    /// The first PSN that belongs to no work request yet.
    next_psn: Psn,
    /// RDMA READ and atomic operations that have begun and are not complete.
    fetches: u32,
    /// How many of them may be under way at present, if fewer than the configured number: see
    /// [`Self::throttle`].
    allowance: u8,
    window: Window,
    credits: Credits,
    /// Where the part of an RDMA READ ends that was asked for first. Before that end is reached nothing beyond it
    /// is asked for: the peer may know the part as an operation of its own.
    part_end: Psn,
    asking: Asking,
    /// Before the segment that was polled last.
    before: Mark,
    retries_left: u8,
    rnr_retries_left: u8,
    /// Since when the peer is not ready.
    refused: Option<Instant>,
    /// Until when the peer has asked for a pause, the last time that it did.
    asked_until: Instant,
    timer: Timer,
    reminder: Reminder,
    /// What a reminder may have been wrong about.
    doubt: Option<Doubt>,
    /// Value of `acked` for which a missing answer was asked for again already.
    repaired: Option<Psn>,
    parked: Option<Parked>,
    /// The local operation that the cursor stopped at when the next segment was asked for.
    local: Option<SendSlot>,
    /// Whether a work request failed since the last [`Self::take_failure`].
    failed: bool,
    /// See [`Self::take_stranded`].
    stranded: bool,
    /// Whether a work request could not begin because of the PSNs of those before it.
    lacks_psns: bool,
}

impl<S: DerefMut<Target = [SendEntry]>> Requester<S> {
    pub(super) fn new(qp_type: QpType, ring: S) -> Self {
        // INVARIANT: All indices and PSNs are equal.
        Self {
            qp_type,
            queue: SendQueue::new(ring),
            oldest: Position::default(),
            cursor: Position::default(),
            begun: Index::default(),
            head: Index::default(),
            acked: Psn::default(),
            cursor_psn: Psn::default(),
            sent_end: Psn::default(),
            next_psn: Psn::default(),
            fetches: 0,
            allowance: u8::MAX,
            window: Window::default(),
            credits: Credits::default(),
            part_end: Psn::default(),
            asking: Asking::default(),
            before: Mark::default(),
            retries_left: 0,
            rnr_retries_left: 0,
            refused: None,
            asked_until: Instant::from_nanos(0),
            timer: Timer::Off,
            reminder: Reminder::default(),
            doubt: None,
            repaired: None,
            parked: None,
            local: None,
            failed: false,
            stranded: false,
            lacks_psns: false,
        }
    }

    /// Starts to number packets from the configured PSN. The queue is empty.
    pub(super) fn open(&mut self, config: &QpConfig) {
        self.number_from(config.sq_psn);
        self.allowance = u8::MAX;
        self.window = Window::default();
        self.credits = Credits::default();
        self.renew(config);
    }

    /// Numbers packets from `psn` on. The queue is empty.
    fn number_from(&mut self, psn: Psn) {
        // INVARIANT: All PSNs are equal.
        self.acked = psn;
        self.cursor_psn = psn;
        self.sent_end = psn;
        self.next_psn = psn;
        self.part_end = psn;
        self.asking = Asking::new(psn);
    }

    /// Where it is now.
    fn mark(&self) -> Mark {
        Mark {
            cursor: self.cursor,
            cursor_psn: self.cursor_psn,
            sent_end: self.sent_end,
            part_end: self.part_end,
            asking: self.asking,
        }
    }

    /// Forgets all work, and how far its numbers had come.
    pub(super) fn reset(&mut self) {
        self.discard();
        self.number_from(Psn::default());
        self.failed = false;
        self.stranded = false;
    }

    pub(super) fn next_psn(&self) -> Psn {
        self.next_psn
    }

    /// Number of work requests that fit.
    pub(super) fn space(&self) -> u32 {
        self.queue
            .capacity()
            .saturating_sub(self.head.since(self.oldest.index))
    }

    /// Queues a work request; `None` if the queue is full.
    pub(super) fn push(&mut self, wqe: SendWqe) -> Option<SendSlot> {
        if self.space() == 0 {
            return None;
        }
        self.queue.get_mut(self.head)?.wqe = wqe;
        let slot = self.queue.slot(self.head);
        // INVARIANT: There was room.
        self.head = self.head.next();
        Some(slot)
    }

    /// How far the work has come.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            sends: self.head.since(self.oldest.index),
            begun: self.begun.since(self.oldest.index),
            fetches: self.fetches,
            acked: self.acked,
            sent_end: self.sent_end,
            retries_left: self.retries_left,
            rnr_retries_left: self.rnr_retries_left,
        }
    }

    /// Whether there is no work at all.
    pub(super) fn is_quiet(&self) -> bool {
        self.oldest.index == self.head
    }

    /// Number of work requests that have not been sent to their end.
    pub(super) fn backlog(&self) -> u32 {
        self.head.since(self.cursor.index)
    }

    /// Whether all that has been sent is acknowledged.
    pub(super) fn is_all_acked(&self) -> bool {
        self.acked == self.sent_end
    }

    /// The first PSN that is not acknowledged.
    pub(super) fn acked(&self) -> Psn {
        self.acked
    }

    /// Whether all work that has begun is complete.
    pub(super) fn is_drained(&self) -> bool {
        self.oldest.index == self.begun
    }

    /// Whether a work request failed since this was asked last.
    pub(super) fn take_failure(&mut self) -> bool {
        core::mem::take(&mut self.failed)
    }

    /// Gives the next submitted work request its PSNs. False if it may not begin yet, or never.
    fn begin(&mut self, config: &QpConfig, port_mtu: Mtu) -> bool {
        if self.begun == self.head {
            return false;
        }
        let outstanding = self.next_psn.sub(self.acked);
        let Some(entry) = self.queue.get_mut(self.begun) else {
            return false;
        };
        let wqe = &entry.wqe;
        if let Some(status) = defect(wqe, self.qp_type, config, port_mtu) {
            let index = self.begun;
            self.park(index, status);
            return false;
        }
        let is_fetch = wqe.op.is_fetch();
        let is_alone = self.oldest.index == self.begun || self.qp_type != QpType::Rc;
        if (wqe.flags.fence && self.fetches != 0)
            || (!is_alone && waits_for_all(wqe, &self.credits))
            || (is_fetch && self.fetches >= u32::from(config.max_rd_atomic.min(self.allowance)))
        {
            return false;
        }
        let single = wqe.op.is_atomic() || wqe.op.is_placement() || self.qp_type.is_datagram();
        let count = if wqe.op.is_local() {
            0
        } else if single {
            1
        } else {
            config.mtu.packets(wqe.length)
        };
        if outstanding.saturating_add(count) > Psn::WINDOW {
            self.lacks_psns = true;
            return false;
        }
        entry.first_psn = self.next_psn;
        entry.psn_count = count;
        entry.executed = false;
        // INVARIANT: `next_psn` stays within 2^23 of `acked`; `begun` was not `head`.
        self.next_psn = self.next_psn.add(count);
        self.begun = self.begun.next();
        if is_fetch {
            self.fetches = self.fetches.wrapping_add(1);
        }
        if count != 0 {
            self.credits.on_begun();
        }
        true
    }

    /// Whether the work request `next`, which has not begun, waits for those before it: it may not begin before they are
    /// complete, or has no PSNs before, or has failed.
    fn next_waits(&mut self, next: Index) -> bool {
        let waits_for_all = |entry: &SendEntry| waits_for_all(&entry.wqe, &self.credits);
        next != self.head
            && (self.queue.get(next).is_some_and(waits_for_all)
                || self.is_blocked(next)
                || core::mem::take(&mut self.lacks_psns))
    }

    /// Notes that the work request `index` has failed, unless an older one has.
    fn park(&mut self, index: Index, status: WcStatus) {
        let base = self.oldest.index;
        match self.parked {
            Some(parked) if parked.index.since(base) <= index.since(base) => {}
            _ => self.parked = Some(Parked { index, status }),
        }
    }

    /// The payload of the segment polled last could not be gathered from the work request in `slot`.
    pub(super) fn gather_failed(&mut self, slot: SendSlot, status: WcStatus) {
        let index = self.queue.index_of(slot, self.oldest.index);
        if index.since(self.oldest.index) < self.head.since(self.oldest.index) {
            if self.qp_type == QpType::Rc {
                // The peer is not to be waited for because of what it never gets.
                self.take_back();
                if self.remind_without() {
                    return;
                }
            }
            self.park(index, status);
        }
    }

    /// Whether nothing of this work request may be sent, since it or an older one has failed.
    fn is_blocked(&self, index: Index) -> bool {
        let base = self.oldest.index;
        self.parked
            .is_some_and(|parked| parked.index.since(base) <= index.since(base))
    }

    /// The local operation that is to be executed now, if there is one.
    pub(super) fn local(&self) -> Option<SendSlot> {
        self.local
    }

    /// The local operation in `slot` has been executed, and ends with `status`.
    pub(super) fn local_done(&mut self, slot: SendSlot, status: WcStatus, env: &mut impl Env) {
        let index = self.cursor.index;
        if self.local.take() != Some(slot) || self.queue.slot(index) != slot {
            return;
        }
        if status != WcStatus::Success {
            return self.park(index, status);
        }
        if let Some(entry) = self.queue.get_mut(index) {
            entry.executed = true;
        }
        // INVARIANT: The cursor was before `begun`.
        self.cursor = Position {
            index: index.next(),
            packet: 0,
        };
        self.complete_local(env);
    }

    /// Completes the local operations that are the oldest work requests and have been executed.
    fn complete_local(&mut self, env: &mut impl Env) {
        for _ in 0..self.begun.since(self.oldest.index) {
            let index = self.oldest.index;
            let entry = self.queue.get(index);
            if !entry.is_some_and(|entry| entry.wqe.op.is_local() && entry.executed) {
                break;
            }
            self.complete_oldest(WcStatus::Success, env);
            if self.cursor.index == index {
                // INVARIANT: The cursor does not stay behind the oldest.
                self.cursor = self.oldest;
            }
        }
    }

    /// Completes what was complete by being sent, if the service is unreliable. Returns whether there is something to
    /// send now: a work request that has waited for this may begin.
    pub(super) fn transmitted(&mut self, env: &mut impl Env) -> bool {
        if self.qp_type == QpType::Rc {
            return false;
        }
        let waited = core::mem::take(&mut self.lacks_psns);
        let sent = self.cursor.index.since(self.oldest.index);
        let good = match self.parked {
            Some(parked) => sent.min(parked.index.since(self.oldest.index)),
            None => sent,
        };
        for _ in 0..good {
            self.complete_oldest(WcStatus::Success, env);
        }
        if self.parked.is_none() {
            // INVARIANT: Nothing before the cursor is waited for.
            self.oldest = self.cursor;
            self.acked = self.cursor_psn;
        }
        waited
    }

    /// Lets a parked error have its completion if its turn has come.
    pub(super) fn settle(&mut self, env: &mut impl Env) {
        if let Some(parked) = self.parked {
            if parked.index == self.oldest.index {
                self.fail(parked.status, env);
            }
        }
    }

    /// Completes the oldest work request and moves on to the next.
    fn complete_oldest(&mut self, status: WcStatus, env: &mut impl Env) {
        let index = self.oldest.index;
        if index == self.head {
            return;
        }
        if let Some(SendEntry { wqe, .. }) = self.queue.get(index) {
            env.retire_send(self.queue.slot(index));
            if wqe.flags.signaled || status != WcStatus::Success {
                env.complete_send(Wc {
                    byte_len: wqe.length,
                    imm: wqe.op.has_imm().then_some(wqe.imm),
                    ..Wc::new(wqe.wr_id, wqe.op.into(), status)
                });
            }
            if wqe.op.is_fetch() {
                self.fetches = self.fetches.saturating_sub(1);
            }
        }
        if self.parked.is_some_and(|parked| parked.index == index) {
            self.parked = None;
        }
        self.oldest = Position {
            index: index.next(),
            packet: 0,
        };
    }

    /// Ends the oldest work request with an error. The others are to be flushed.
    fn fail(&mut self, status: WcStatus, env: &mut impl Env) {
        self.complete_oldest(status, env);
        self.abandon();
        self.failed = true;
    }

    /// Completes work requests as flushed, at most [`FLUSH_BATCH`].
    pub(super) fn flush(&mut self, env: &mut impl Env) {
        self.abandon();
        for _ in 0..self.head.since(self.oldest.index).min(FLUSH_BATCH) {
            self.complete_oldest(WcStatus::WrFlushErr, env);
        }
    }

    /// Empties the queue.
    fn discard(&mut self) {
        self.abandon();
        // INVARIANT: All indices are equal.
        self.oldest = self.cursor;
    }

    /// Carries out none of the work requests any further. PSNs that were given to them are not used again.
    pub(super) fn abandon(&mut self) {
        // INVARIANT: All indices but that of `oldest` are equal, and so are all PSNs.
        self.cursor = Position {
            index: self.head,
            packet: 0,
        };
        self.begun = self.head;
        self.acked = self.next_psn;
        self.cursor_psn = self.next_psn;
        self.sent_end = self.next_psn;
        self.fetches = 0;
        self.part_end = self.next_psn;
        self.asking = Asking::new(self.acked);
        self.timer = Timer::Off;
        self.reminder = Reminder::default();
        self.doubt = None;
        self.repaired = None;
        self.parked = None;
        self.local = None;
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        [self.timer.deadline(), self.reminder.due()]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Whether a work request begins only when all before it are complete: it invalidates a key that they may use, or
/// it is the message that asks the peer for receive work requests.
fn waits_for_all(wqe: &SendWqe, credits: &Credits) -> bool {
    (wqe.flags.fence && wqe.op == SendOp::LocalInv)
        || (wqe.op.takes_recv() && !credits.cover_next())
}

/// Why a work request must not be executed, if so.
fn defect(wqe: &SendWqe, qp_type: QpType, config: &QpConfig, port_mtu: Mtu) -> Option<WcStatus> {
    let longest = if qp_type.is_datagram() {
        1u32.wrapping_shl(port_mtu.shift())
    } else {
        MAX_MESSAGE
    };
    if wqe.fault.is_some() {
        wqe.fault
    } else if !wqe.op.allowed(qp_type)
        || (wqe.op.is_fetch() && config.max_rd_atomic == 0)
        || (qp_type.is_datagram() && wqe.ud.is_none())
    {
        Some(WcStatus::LocQpOpErr)
    } else if wqe.length > longest {
        Some(WcStatus::LocLenErr)
    } else {
        None
    }
}
