// SPDX-License-Identifier: GPL-2.0

//! Waiting for the peer, and asking again.
//!
//! The pause that a peer asks for may be as short as 10 µs, which is less than it takes to ask again here. If that went
//! on for ever, as it may, a processor would do nothing else, and the program that is to post the receive work request
//! perhaps not get it. The pause is the shortest one that is right (IBA "RNR NAK Timer"), so it grows until the peer
//! says that it is ready. One that does not say so is asked again when a fourth of the time is over that it has taken. And
//! a peer that was not ready is sent a single packet, until it takes that.
//!
//! An answer that is late may have been sent: a busy processor sees the time that has passed before the packet that has
//! come. With retries that costs one. Without any it would cost the connection, so the peer is questioned once, and has the
//! same time again, which is within what the IBA lets the timer be late.
//!
//! Source: IBA "Transport Timer", "Retry Counters", "RNR NAK".

use super::{
    Reminder,
    Requester,
    Window, //
};
use crate::time::{
    Duration,
    Instant, //
};
use crate::transport::config::{
    QpConfig,
    RNR_RETRY_INFINITE, //
};
use crate::transport::env::Env;
use crate::transport::migration::MigState;
use crate::transport::qp_state::QpType;
use crate::transport::wc::WcStatus;
use crate::transport::wqe::SendEntry;
use core::ops::DerefMut;
use wire::timer;

/// A peer that is asked for ever has such a part of the time that it was not ready for a pause, at least.
const PATIENCE_SHIFT: u32 = 2;

/// The longest pause that it does not ask for.
const LONGEST: Duration = Duration::from_millis(64);

/// What the requester waits for, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Nothing, or for ever.
    Off,
    /// A response.
    Ack(Instant),
    /// The same, and the peer, which is not asked again, was questioned when it was late.
    LastAck(Instant),
    /// That the peer may have a receive work request. Nothing is sent before.
    Rnr(Instant),
}

impl Timer {
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Off => None,
            Self::Ack(at) | Self::LastAck(at) | Self::Rnr(at) => Some(at),
        }
    }
}

/// What time has done to a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lapse {
    /// Nothing to be repaired.
    #[default]
    None,
    /// The ACK timeout ran out, at the expense of the retry counter.
    Timeout,
    /// An answer is late, and was asked for again.
    Reminder,
}

/// How long a response may take; `None` is for ever.
fn ack_timeout(config: &QpConfig) -> Option<Duration> {
    let nanos = timer::ack_timeout_ns(config.timeout)?;
    Some(Duration::from_nanos(nanos).max(config.timeout_floor))
}

impl<S: DerefMut<Target = [SendEntry]>> Requester<S> {
    /// Gives the retry counters their full values: there was progress.
    pub(in crate::transport) fn renew(&mut self, config: &QpConfig) {
        self.retries_left = config.retry_cnt;
        self.rnr_retries_left = config.rnr_retry;
        self.refused = None;
        self.repaired = None;
    }

    /// Whether neither a response nor the end of a pause is waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.timer == Timer::Off && self.reminder.due().is_none()
    }

    /// Waits for responses to what has been sent, from now on.
    pub(super) fn restart_timer(&mut self, now: Instant, config: &QpConfig) {
        self.timer = Timer::Off;
        if self.acked == self.sent_end {
            self.reminder.disarm();
            return;
        }
        let timeout = ack_timeout(config);
        if let Some(timeout) = timeout {
            self.timer = Timer::Ack(now.after(timeout));
        }
        self.reminder.arm(now, timeout, config.reminder_floor);
    }

    /// Whether an answer seems to be late.
    pub(in crate::transport) fn would_remind(&self, now: Instant) -> bool {
        self.reminder.due().is_some_and(|at| at <= now)
    }

    /// What was sent still waits in this host, so an answer that seems to be late may yet come. The ACK timeout runs on.
    pub(in crate::transport) fn put_off(&mut self, now: Instant, config: &QpConfig) {
        if self.would_remind(now) {
            self.reminder
                .arm(now, ack_timeout(config), config.reminder_floor);
        }
    }

    /// Sends everything again that is not acknowledged.
    pub(super) fn go_back(&mut self, now: Instant, config: &QpConfig) {
        // INVARIANT: The oldest is not after `begun`.
        self.cursor = self.oldest;
        self.cursor_psn = self.acked;
        self.asking.on_go_back(self.acked);
        self.reminder.on_go_back();
        self.doubt = None;
        self.restart_timer(now, config);
    }

    /// Goes back at the expense of the retry counter.
    pub(super) fn retry(&mut self, now: Instant, config: &QpConfig, env: &mut impl Env) {
        match self.retries_left.checked_sub(1) {
            Some(left) => {
                self.retries_left = left;
                self.go_back(now, config);
            }
            None if config.mig_state == MigState::Armed => self.stranded = true,
            None => self.fail(WcStatus::RetryExcErr, env),
        }
    }

    /// Whether the peer does not answer on the primary path and there is another, since this was asked last.
    pub(in crate::transport) fn take_stranded(&mut self) -> bool {
        core::mem::take(&mut self.stranded)
    }

    /// The way to the peer is another one from now on: what is not acknowledged goes again, there. A pause that
    /// the peer has asked for goes on.
    pub(in crate::transport) fn change_path(&mut self, now: Instant, config: &QpConfig) {
        self.renew(config);
        self.allowance = u8::MAX;
        self.window = Window::default();
        self.reminder = Reminder::default();
        if self.qp_type == QpType::Rc && !matches!(self.timer, Timer::Rnr(_)) {
            self.go_back(now, config);
        }
    }

    /// The answer to the oldest work request, an RDMA READ or atomic operation, was lost: a later response is
    /// there (IBA "Implied NAK"). Asks again, once until there is progress; then the timer has to help.
    pub(super) fn repair(&mut self, now: Instant, config: &QpConfig) {
        if self.repaired != Some(self.acked) {
            self.repaired = Some(self.acked);
            self.throttle(self.allowance.min(config.max_rd_atomic) >> 1);
            self.window.on_loss(config);
            self.go_back(now, config);
        }
    }

    /// An answer was lost at this side: asks again, unless that is to be done after a pause anyway.
    pub(in crate::transport) fn recover(&mut self, now: Instant, config: &QpConfig) {
        if self.acked == self.sent_end || matches!(self.timer, Timer::Rnr(_)) {
            return;
        }
        self.repaired = None;
        self.repair(now, config);
    }

    /// Lets no more than `allowance` RDMA READ and atomic operations be under way, and at least one. Their answers
    /// are what no window limits: after a loss there are fewer of them, and one more with each that is answered.
    fn throttle(&mut self, allowance: u8) {
        self.allowance = allowance.max(1);
    }

    /// An RDMA READ or atomic operation was answered.
    pub(super) fn relax(&mut self, config: &QpConfig) {
        if self.allowance < config.max_rd_atomic {
            self.allowance = self.allowance.saturating_add(1);
        }
    }

    /// Whether the operation at the cursor, if it is answered with data, would be one too many under way.
    pub(super) fn is_throttled(&self, config: &QpConfig) -> bool {
        let is_fetch = |index| {
            let entry = self.queue.get(index);
            entry.is_some_and(|entry| entry.wqe.op.is_fetch())
        };
        if self.allowance >= config.max_rd_atomic || !is_fetch(self.cursor.index) {
            return false;
        }
        let mut under_way = 0u32;
        let mut index = self.oldest.index;
        while index != self.cursor.index && under_way < u32::from(self.allowance) {
            under_way = under_way.wrapping_add(u32::from(is_fetch(index)));
            index = index.next();
        }
        under_way >= u32::from(self.allowance)
    }

    /// Whether nothing has been sent since the peer asked for a pause.
    pub(in crate::transport) fn is_pausing(&self) -> bool {
        matches!(self.timer, Timer::Rnr(_)) && self.cursor_psn == self.acked
    }

    /// Whether nothing is to be sent now of which the peer could be asked to acknowledge it.
    pub(in crate::transport) fn is_silent(&self) -> bool {
        self.is_quiet() || self.is_pausing()
    }

    /// The peer says that it is ready: nothing but the pause that it has asked for is waited for.
    pub(super) fn end_patience(&mut self) {
        self.refused = None;
        if let Timer::Rnr(at) = self.timer {
            self.timer = Timer::Rnr(at.min(self.asked_until));
        }
    }

    /// Whether the peer is not ready, as far as it has said.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// The peer was not ready for the oldest work request, and asks for a pause. It did answer, so the count of
    /// questions without an answer begins anew.
    pub(super) fn pause(&mut self, now: Instant, code: u8, config: &QpConfig, env: &mut impl Env) {
        if config.rnr_retry != RNR_RETRY_INFINITE {
            match self.rnr_retries_left.checked_sub(1) {
                Some(left) => self.rnr_retries_left = left,
                None => return self.fail(WcStatus::RnrRetryExcErr, env),
            }
        }
        self.retries_left = config.retry_cnt;
        self.go_back(now, config);
        let asked = Duration::from_nanos(timer::rnr_delay_ns(code));
        self.asked_until = now.after(asked);
        let since = *self.refused.get_or_insert(now);
        let grown = match config.rnr_retry {
            RNR_RETRY_INFINITE => now.nanos().saturating_sub(since.nanos()) >> PATIENCE_SHIFT,
            _ => 0,
        };
        let grown = Duration::from_nanos(grown).min(LONGEST);
        self.timer = Timer::Rnr(now.after(asked.max(grown)));
        self.reminder.disarm();
    }

    /// Sends what is overdue again, without prejudice to the timer.
    fn remind(&mut self, now: Instant, config: &QpConfig) {
        let timer = self.timer;
        let doubt = self.doubt();
        self.reminder.on_reminded();
        self.throttle(1);
        self.window.on_silence(config);
        self.go_back(now, config);
        // It was before, and has not answered.
        self.asking.on_asked(self.acked.add(1));
        self.doubt = doubt;
        self.timer = timer;
    }

    /// The peer is to be given up at once, since nothing is sent again to it. It is questioned before.
    fn ask_at_last(&mut self, now: Instant, config: &QpConfig) {
        self.ask(now, config);
        if let Timer::Ack(at) = self.timer {
            self.timer = Timer::LastAck(at);
        }
    }

    pub(in crate::transport) fn on_timeout(
        &mut self,
        now: Instant,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Lapse {
        match self.timer {
            Timer::Rnr(at) if at <= now => self.restart_timer(now, config),
            Timer::Ack(at) if at <= now && !self.is_asked() => self.ask(now, config),
            Timer::Ack(at) if at <= now && config.retry_cnt == 0 => self.ask_at_last(now, config),
            Timer::Ack(at) | Timer::LastAck(at) if at <= now => {
                self.throttle(1);
                self.window.on_silence(config);
                self.retry(now, config, env);
                return Lapse::Timeout;
            }
            _ if self.would_remind(now) => {
                if !self.is_asked() {
                    self.ask(now, config);
                    return Lapse::None;
                }
                self.remind(now, config);
                return Lapse::Reminder;
            }
            _ => {}
        }
        Lapse::None
    }
}
