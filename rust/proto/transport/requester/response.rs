// SPDX-License-Identifier: GPL-2.0

//! From responses to completions.
//!
//! Source: IBA "Responses", "Acknowledge message scheduling", "Requester: generating and receiving".

use super::Requester;
use crate::time::Instant;
use crate::transport::config::QpConfig;
use crate::transport::env::{
    Env,
    PlaceError, //
};
use crate::transport::qp::RxDrop;
use crate::transport::wc::WcStatus;
use crate::transport::wqe::{
    SendEntry,
    SendOp, //
};
use core::ops::DerefMut;
use wire::aeth::{
    NakCode,
    Syndrome, //
};
use wire::header::Header;
use wire::opcode::Operation;
use wire::{
    timer,
    Psn, //
};

/// An answer to an earlier RDMA READ or atomic operation is missing.
struct Missing;

impl<S: DerefMut<Target = [SendEntry]>> Requester<S> {
    /// Takes a response of `span` packets with `len` bytes of payload.
    pub(in crate::transport) fn on_response(
        &mut self,
        now: Instant,
        header: &Header,
        (span, len): (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), RxDrop> {
        let psn = header.bth.psn;
        let is_ack = header.bth.opcode.operation() == Operation::Ack;
        if psn.sub(self.acked) >= self.sent_end.sub(self.acked) {
            if let Some(aeth) = header.aeth.filter(|_| is_ack && psn == self.acked.back(1)) {
                if self.credits.on_aeth(&aeth, false) {
                    self.end_patience();
                }
                if matches!(aeth.syndrome, Syndrome::Ack { .. }) {
                    self.heed(now, config);
                }
            }
            if !is_ack {
                self.on_known_answer(now, (psn, span), config);
            }
            return Err(RxDrop::Stale);
        }
        if let Some(aeth) = header.aeth {
            let all = header.bth.opcode.ends() && psn.add(span) == self.next_psn;
            self.credits.on_aeth(&aeth, all);
        }
        match header.bth.opcode.operation() {
            Operation::Ack => {
                let aeth = header.aeth.ok_or(RxDrop::Malformed)?;
                self.on_ack(now, psn, aeth.syndrome, config, env);
                Ok(())
            }
            Operation::ReadRespFirst
            | Operation::ReadRespMiddle
            | Operation::ReadRespLast
            | Operation::ReadRespOnly => {
                self.expect_answer(now, psn, config, env)?;
                self.on_read_response(now, (span, len), config, env)?;
                if header.bth.opcode.ends() {
                    self.on_answer_end(now, config);
                }
                Ok(())
            }
            Operation::AtomicAck => {
                let answer = header.atomic_ack.ok_or(RxDrop::Malformed)?;
                self.expect_answer(now, psn, config, env)?;
                self.on_atomic_response(now, answer.original, config, env)
            }
            _ => Err(RxDrop::Opcode),
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        psn: Psn,
        syndrome: Syndrome,
        config: &QpConfig,
        env: &mut impl Env,
    ) {
        let end = match syndrome {
            Syndrome::Ack { .. } => psn.add(1),
            Syndrome::Rnr { .. } | Syndrome::Nak(_) => psn,
        };
        let missing = self.acknowledge(now, end, config, env).is_err();
        match syndrome {
            // Responses may overtake each other: the missing answer still has its chance, until the timer, if
            // there is one, ends it. But the peer will not answer it again. What is refused itself waits for nothing.
            Syndrome::Nak(code) if code != NakCode::PsnSequenceError => {
                let status = match code {
                    NakCode::InvalidRequest => WcStatus::RemInvReqErr,
                    NakCode::RemoteAccessError => WcStatus::RemAccessErr,
                    _ => WcStatus::RemOpErr,
                };
                self.park_at(psn, status);
                let waits = missing && !self.is_blocked(self.oldest.index);
                if waits && timer::ack_timeout_ns(config.timeout).is_none() {
                    self.fail(WcStatus::RetryExcErr, env);
                }
            }
            _ if missing => self.repair(now, config),
            Syndrome::Ack { .. } => self.heed(now, config),
            // The peer says so for each copy that has reached it; the pause is being kept.
            Syndrome::Rnr { .. } if self.is_pausing() => {}
            Syndrome::Rnr { timer } => self.pause(now, timer, config, env),
            // If the cursor is there already, this is an echo of what it went back for.
            Syndrome::Nak(_) if self.cursor_psn == self.acked => {}
            Syndrome::Nak(_) => {
                self.window.on_loss(config);
                self.retry(now, config, env);
            }
        }
    }

    /// Makes the oldest work request the one that the answer `psn` is for.
    fn expect_answer(
        &mut self,
        now: Instant,
        psn: Psn,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), RxDrop> {
        if self.acknowledge(now, psn, config, env).is_err() {
            self.repair(now, config);
            return Err(RxDrop::OutOfSequence);
        }
        Ok(())
    }

    fn on_read_response(
        &mut self,
        now: Instant,
        (span, len): (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), RxDrop> {
        let slot = self.queue.slot(self.oldest.index);
        let Some(entry) = self.queue.get(self.oldest.index) else {
            return Ok(());
        };
        let at = self.oldest.packet;
        let offset = at.wrapping_shl(config.mtu.shift());
        let left = entry.psn_count.wrapping_sub(at);
        let op = entry.wqe.op;
        let total = if op.is_placement() {
            0
        } else {
            entry.wqe.length
        };
        let asked = self.sent_end.sub(self.acked);
        let fits = match span {
            _ if span == 0 || span > asked => false,
            _ if span == left => len == total.saturating_sub(offset),
            _ => span < left && len == span.wrapping_shl(config.mtu.shift()),
        };
        if !(op == SendOp::Read || op.is_placement()) || !fits {
            self.fail(WcStatus::BadRespErr, env);
            return Ok(());
        }
        let placed = match len {
            0 => Ok(()),
            _ => env.place_local(slot, offset, len),
        };
        self.placed(now, placed, span, config, env)
    }

    /// Takes an answer of `span` packets that has been placed, or could not be.
    fn placed(
        &mut self,
        now: Instant,
        placed: Result<(), PlaceError>,
        span: u32,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), RxDrop> {
        match placed {
            Ok(()) => {
                self.advance(now, span, config, env);
                self.resolve();
            }
            Err(PlaceError::Failed(status)) => self.fail(status, env),
            Err(PlaceError::Absent) => return Err(RxDrop::Absent),
        }
        Ok(())
    }

    /// An answer has ended. If that is amid what was asked for, the rest is asked for again: the request for more than
    /// this part may have been lost, so that the peer knows the part as the whole operation.
    fn on_answer_end(&mut self, now: Instant, config: &QpConfig) {
        if self.oldest.packet != 0 && self.cursor_psn != self.acked {
            self.go_back(now, config);
        }
    }

    /// An answer that begins before what is missing. A segment of which only the end is new is not taken, but the peer
    /// holds all of it for answered, so that the end is asked for again.
    fn on_known_answer(&mut self, now: Instant, (psn, span): (Psn, u32), config: &QpConfig) {
        if self.acked.sub(psn) < span && self.cursor_psn != self.acked {
            self.go_back(now, config);
        }
    }

    fn on_atomic_response(
        &mut self,
        now: Instant,
        original: u64,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), RxDrop> {
        let slot = self.queue.slot(self.oldest.index);
        let Some(entry) = self.queue.get(self.oldest.index) else {
            return Ok(());
        };
        if !entry.wqe.op.is_atomic() {
            self.fail(WcStatus::BadRespErr, env);
            return Ok(());
        }
        let placed = env.place_local_u64(slot, original);
        self.placed(now, placed, 1, config, env)
    }

    /// Takes all packets before `end` for acknowledged.
    ///
    /// Fails at the first one that wants an answer and has none. `end` is not after `sent_end`.
    fn acknowledge(
        &mut self,
        now: Instant,
        end: Psn,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Missing> {
        for _ in 0..self.begun.since(self.oldest.index) {
            let covered = end.sub(self.acked);
            if covered == 0 {
                break;
            }
            let Some(entry) = self.queue.get(self.oldest.index) else {
                break;
            };
            if entry.wqe.op.is_fetch() {
                return Err(Missing);
            }
            let left = entry.psn_count.wrapping_sub(self.oldest.packet);
            self.advance(now, covered.min(left), config, env);
        }
        self.resolve();
        Ok(())
    }

    /// The first `count` packets of those that were not acknowledged are; they belong to the oldest work
    /// request.
    fn advance(&mut self, now: Instant, count: u32, config: &QpConfig, env: &mut impl Env) {
        let ahead = self.cursor_psn.sub(self.acked);
        // INVARIANT: `count` packets were sent, so `acked` does not pass `sent_end`.
        self.acked = self.acked.add(count);
        self.oldest.packet = self.oldest.packet.wrapping_add(count);
        let oldest = self.queue.get(self.oldest.index);
        let complete = oldest.is_some_and(|entry| self.oldest.packet >= entry.psn_count);
        if complete {
            if oldest.is_some_and(|entry| entry.wqe.op.is_fetch()) {
                self.relax(config);
            }
            self.complete_oldest(WcStatus::Success, env);
            self.complete_local(env);
        }
        if count > ahead {
            // INVARIANT: The cursor does not stay behind the oldest.
            self.cursor = self.oldest;
            self.cursor_psn = self.acked;
        }
        self.renew(config);
        self.window.on_progress(count, config);
        self.reminder.on_progress(now, self.acked);
        self.restart_timer(now, config);
    }

    /// Notes that the work request which the packet `psn` belongs to has failed.
    fn park_at(&mut self, psn: Psn, status: WcStatus) {
        let mut index = self.oldest.index;
        for _ in 0..self.begun.since(self.oldest.index) {
            let Some(entry) = self.queue.get(index) else {
                return;
            };
            if psn.sub(entry.first_psn) < entry.psn_count {
                return self.park(index, status);
            }
            index = index.next();
        }
    }
}
