// SPDX-License-Identifier: GPL-2.0

//! The error states: work requests that are not carried out any more have their completions.
//!
//! Queues may be long, so they are flushed in parts.

use super::Qp;
use crate::transport::env::{
    Env,
    QpEvent, //
};
use crate::transport::qp_state::QpState;
use crate::transport::responder::Resource;
use crate::transport::wc::{
    Wc,
    WcOpcode,
    WcStatus, //
};
use crate::transport::wqe::SendEntry;
use core::ops::DerefMut;

/// How many work requests of each queue are flushed at once. The driver does it with interrupts off.
pub const FLUSH_BATCH: u32 = 256;

impl<S, R> Qp<S, R>
where
    S: DerefMut<Target = [SendEntry]>,
    R: DerefMut<Target = [Resource]>,
{
    /// Whether there are work requests that are still to be flushed, which [`Self::transmitted`] does. Of posted
    /// receives it learns no sooner.
    pub fn is_flushing(&self) -> bool {
        match self.state {
            QpState::Sqe => !self.requester.is_quiet(),
            QpState::Err => self.unflushed || !self.requester.is_quiet(),
            _ => false,
        }
    }

    /// Goes to the error state for a reason of the driver's, and begins to [flush](Self::is_flushing). No buffer is
    /// touched from now on.
    pub fn to_error(&mut self, env: &mut impl Env) {
        self.responder.silence();
        self.fail(env);
    }

    /// Goes to the error state. What the peer is still to be told remains, but it is asked nothing more.
    pub(super) fn fail(&mut self, env: &mut impl Env) {
        if self.state == QpState::Err {
            return;
        }
        self.state = QpState::Err;
        self.requester.abandon();
        self.probe.stop();
        if self.config.srq {
            let inbound = &mut self.responder.inbound;
            inbound.complete_error(WcStatus::WrFlushErr, env);
            env.event(QpEvent::LastWqeReached);
        } else {
            self.unflushed = true;
        }
        self.flush(env);
    }

    /// In a state of error, flushes work requests: first those of the send queue, then those of the receive queue (not
    /// a shared one).
    ///
    /// While a segment is on its way nothing happens: on a completion queue for both, a send that tells why the
    /// queue pair has failed comes before the receives that were flushed for it.
    pub(super) fn flush(&mut self, env: &mut impl Env) {
        if !matches!(self.state, QpState::Sqe | QpState::Err) || env.is_sending() {
            return;
        }
        self.requester.flush(env);
        if self.state == QpState::Err && !self.config.srq && self.requester.is_quiet() {
            self.flush_recv(env);
        }
    }

    fn flush_recv(&mut self, env: &mut impl Env) {
        let inbound = &mut self.responder.inbound;
        inbound.complete_error(WcStatus::WrFlushErr, env);
        self.unflushed = true;
        for _ in 0..FLUSH_BATCH {
            let Some(recv) = env.take_recv() else {
                self.unflushed = false;
                break;
            };
            let wc = Wc::new(recv.wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
            env.complete_recv(recv.slot, wc);
        }
    }
}
