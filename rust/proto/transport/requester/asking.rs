// SPDX-License-Identifier: GPL-2.0

//! When to ask for an acknowledgement.
//!
//! On a network an acknowledgement is a packet of its own, and costs both hosts as much as a small message. So a
//! message asks for one there only if somebody waits for it: the consumer for its completion, or the requester
//! since the window, or the receive work requests that the peer has told of, come to an end. Of messages that nobody
//! asked about, the peer is asked by a question after a while. A run of several packets always asks, which costs little
//! beside them; and so do all if nothing would ever put the question. It is put at once if what follows cannot go on, or
//! not complete, without an answer. Within a host an acknowledgement is no packet, but costs a tenth of a small message
//! all the same.
//!
//! The question is an RDMA WRITE of no bytes that has the PSN of the last packet which is acknowledged, so that the peer
//! takes it for a repetition, and acknowledges all that it has (IBA "Duplicate requests"). It needs no memory: a program
//! that was answered by its peer may not wait for completions, and have deregistered that of its messages. What the peer
//! has not got goes again.
//!
//! Source: IBA "Acknowledge Request", "Coalesced Acknowledge Messages".

use super::Requester;
use crate::time::{
    Duration,
    Instant, //
};
use crate::transport::config::QpConfig;
use crate::transport::qp_state::QpType;
use crate::transport::segment::{
    question,
    Piece,
    TxLimits,
    TxSegment, //
};
use crate::transport::wqe::{
    SendEntry,
    SendFlags,
    SendOp, //
};
use core::ops::DerefMut;
use wire::Psn;

/// One acknowledgement is asked for in each such part of the window.
const ASKS_PER_WINDOW_SHIFT: u32 = 2;

/// One acknowledgement is asked for when so much of the send queue waits for it.
const QUEUE_SHIFT: u32 = 1;

/// What the peer was asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asking {
    /// Packets sent since one asked for an acknowledgement.
    unasked: u32,
    /// One after the last packet that did.
    pub(super) asked: Psn,
    /// Whether what is sent next asks.
    due: bool,
    /// Whether the last to ask was a question, and all that the peer owes is its answer.
    questioned: bool,
}

impl Asking {
    /// For the first packet with this PSN.
    pub(super) fn new(psn: Psn) -> Self {
        Self {
            asked: psn,
            ..Self::default()
        }
    }

    /// All packets from `acked` on will be sent again. That they asked the first time is nothing to wait for: they need
    /// not ask again.
    pub(super) fn on_go_back(&mut self, acked: Psn) {
        *self = Self::new(acked);
    }

    /// All packets before `end` have been asked about.
    pub(super) fn on_asked(&mut self, end: Psn) {
        self.unasked = 0;
        self.asked = end;
        self.due = false;
        self.questioned = false;
    }

    /// Whether something is still to be sent that asks.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// The peer is to be asked.
    pub(super) fn begin(&mut self) {
        self.due = true;
    }
}

impl<S: DerefMut<Target = [SendEntry]>> Requester<S> {
    /// Whether the peer owes an answer, or nothing waits for one.
    pub(in crate::transport) fn is_asked(&self) -> bool {
        self.is_all_asked() || self.asking.asked.is_after(self.acked)
    }

    /// Whether the peer owes no answer: there is no work at all, or it was not asked about that.
    pub(in crate::transport) fn is_owed_nothing(&self) -> bool {
        self.is_quiet() || !self.is_asked()
    }

    /// Whether the peer owes an answer to all that was sent, or nothing waits for one.
    pub(super) fn is_all_asked(&self) -> bool {
        self.qp_type != QpType::Rc || self.asking.unasked == 0 || self.acked == self.sent_end
    }

    /// Counts the packets of a segment, a piece of a message by `op` with these flags. Returns whether it is to ask
    /// for an acknowledgement; `room` is how many packets may be sent without one.
    pub(super) fn asks(
        &mut self,
        op: SendOp,
        flags: SendFlags,
        piece: &Piece,
        room: u32,
        config: &QpConfig,
    ) -> bool {
        self.asking.unasked = self.asking.unasked.saturating_add(piece.span);
        let window = self.window.packets(config);
        let waiting = self.begun.since(self.oldest.index);
        let forever = config.timeout == 0 && config.reminder_floor == Duration::ZERO;
        self.asking.due
            || piece.span == room
            || self.asking.unasked >= window.wrapping_shr(ASKS_PER_WINDOW_SHIFT)
            || (piece.ends
                && (forever
                    || piece.span > 1
                    || flags.signaled
                    || waiting >= self.queue.capacity().wrapping_shr(QUEUE_SHIFT)
                    || (op.takes_recv() && !self.credits.cover_next())))
    }

    /// Has what is sent next ask, or a question be put if that is nothing.
    pub(in crate::transport) fn ask(&mut self, now: Instant, config: &QpConfig) {
        self.asking.begin();
        self.restart_timer(now, config);
    }

    /// What is next to be sent waits for the answers to all before it.
    #[cold]
    pub(super) fn await_answers(&mut self, now: Instant, config: &QpConfig) {
        if !self.is_asked() {
            self.ask(now, config);
        }
    }

    /// Whether a question is to be put if nothing else is to be sent.
    #[inline]
    pub(in crate::transport) fn is_to_ask(&self) -> bool {
        self.asking.due
    }

    /// The question, if there is something to ask about.
    #[cold]
    pub(in crate::transport) fn question(
        &mut self,
        config: &QpConfig,
        limits: &TxLimits,
    ) -> Option<TxSegment> {
        let owed = self.is_asked();
        self.asking.on_asked(self.cursor_psn);
        if self.acked == self.sent_end {
            return None;
        }
        self.asking.questioned = !owed;
        question(self.acked, config, limits)
    }

    /// The peer has told how far it has come. If that answers the question, and is not all, the rest goes again.
    #[inline]
    pub(super) fn heed(&mut self, now: Instant, config: &QpConfig) {
        if core::mem::take(&mut self.asking.questioned) && self.asking.asked.is_after(self.acked) {
            self.repair(now, config);
        }
    }
}
