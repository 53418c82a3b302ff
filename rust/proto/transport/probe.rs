// SPDX-License-Identifier: GPL-2.0

//! Asking the peer about its path without a message to send.
//!
//! Both ends of a connection learn of each other's paths from the packets that they exchange. One that carries no
//! traffic would never be armed, and one that has migrated would not be followed. So an end that has nothing to send,
//! or pauses, asks by itself: with an RDMA WRITE of no bytes that has the PSN of the last request. The peer takes it
//! for a repetition, acknowledges it, and does nothing else (IBA "Duplicate requests"). Neither consumer sees any of
//! it.
//!
//! An end that waits to be armed, and is asked so by a peer that has an alternate path, asks in turn: a request that
//! came before does not arm, since it may have been under way for long, but the answer to its own one does.
//!
//! The IBA has no such thing; to any HCA it is ordinary traffic.

use crate::time::{
    Duration,
    Instant, //
};
use crate::transport::config::QpConfig;
use crate::transport::segment::{
    question,
    TxLimits,
    TxSegment, //
};
use wire::aeth::Syndrome;
use wire::header::Header;
use wire::opcode::Operation;
use wire::{
    timer,
    Psn, //
};

/// How often a peer that does not answer is asked.
const QUESTIONS: u8 = 16;

/// How long an answer may take on a connection that waits for ever.
const PATIENCE: Duration = Duration::from_millis(500);

/// When the peer is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Plan {
    /// Not again.
    #[default]
    Rest,
    /// Now, and this often if it does not answer.
    Now(u8),
    /// At that time, if it has not answered, and this often.
    Later(Instant, u8),
}

/// What an end asks its peer about the path in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Probe {
    plan: Plan,
    /// Whether the peer has been asked since [`Self::start`]. There may be more answers than one.
    asked: bool,
}

impl Probe {
    /// Something new is to be found out.
    pub(super) fn start(&mut self) {
        self.asked = false;
        self.repeat();
    }

    /// The peer may have another answer now.
    pub(super) fn repeat(&mut self) {
        self.plan = Plan::Now(QUESTIONS);
    }

    /// The peer has answered. It is asked all the same if it may have another answer since.
    pub(super) fn rest(&mut self) {
        if !self.is_due() {
            self.plan = Plan::Rest;
        }
    }

    /// There is nothing to be found out.
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }

    /// Whether the peer is to be asked now.
    pub(super) fn is_due(&self) -> bool {
        matches!(self.plan, Plan::Now(_))
    }

    /// When the peer is asked again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.plan {
            Plan::Later(at, _) => Some(at),
            Plan::Rest | Plan::Now(_) => None,
        }
    }

    /// It is `now`.
    pub(super) fn on_time(&mut self, now: Instant) {
        match self.plan {
            Plan::Later(at, 0) if at <= now => self.plan = Plan::Rest,
            Plan::Later(at, left) if at <= now => self.plan = Plan::Now(left),
            Plan::Rest | Plan::Now(_) | Plan::Later(..) => {}
        }
    }

    /// The question, if the peer is to be asked now; all requests before `next` are acknowledged.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        next: Psn,
        config: &QpConfig,
        limits: &TxLimits,
    ) -> Option<TxSegment> {
        let Plan::Now(left) = self.plan else {
            return None;
        };
        let patience = timer::ack_timeout_ns(config.timeout).map_or(PATIENCE, |nanos| {
            Duration::from_nanos(nanos).max(config.timeout_floor)
        });
        self.plan = Plan::Later(now.after(patience), left.saturating_sub(1));
        self.asked = true;
        question(next, config, limits)
    }

    /// Whether the packet answers the question; all requests before `next` are acknowledged.
    pub(super) fn is_answer(&self, header: &Header, next: Psn) -> bool {
        let is_ack = |syndrome| matches!(syndrome, Syndrome::Ack { .. });
        self.asked
            && header.bth.opcode.operation() == Operation::Ack
            && header.bth.psn == next.back(1)
            && header.aeth.is_some_and(|aeth| is_ack(aeth.syndrome))
    }
}
