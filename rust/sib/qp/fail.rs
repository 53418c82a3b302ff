// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that go to the error state for a reason of the device's.

use super::{
    leave::settle,
    Qp,
    State, //
};
use crate::{
    hca::Hca,
    payload::Source,
    run::RunQueue, //
};
use proto::transport::{
    Env,
    QpEvent,
    QpState,
    FLUSH_BATCH, //
};
use rdma::sync::{
    Cx,
    Held,
    Off,
    QpLock,
    Sleepable,
    Unlocked, //
};

impl State {
    /// See [`Qp::fail`].
    fn fail(&mut self, qp: &Qp, cx: Cx<'_, QpLock, Off>, event: Option<QpEvent>) -> bool {
        if matches!(self.machine.state(), QpState::Reset | QpState::Err) {
            return false;
        }
        self.with_machine(qp, cx, Source::Bytes(&[]), |machine, env| {
            machine.to_error(env);
            if let Some(event) = event {
                env.event(event);
            }
        });
        qp.watch(self);
        true
    }
}

impl Qp {
    /// Moves the queue pair to the error state for a reason of the device's, unless it is there already or has
    /// nothing to do with the reason yet; returns whether it has. The client is told of `event`.
    fn fail(&self, cx: &mut Cx<'_, Unlocked>, event: Option<QpEvent>) -> bool {
        let mut guard = cx.lock(&self.state);
        let (state, cx) = guard.split();
        state.fail(self, cx, event)
    }

    /// The same for a queue in error. What comes of it is told by a worker, which also flushes.
    pub(super) fn fail_and_flush(qp: &Held<Self>, cx: &mut Cx<'_, Unlocked>) {
        if qp.fail(cx, Some(QpEvent::Fatal)) {
            Self::schedule_again(qp);
        }
    }

    /// The same if a queue of it has broken since it came into use.
    fn fail_bereft(qp: &Held<Self>, cx: &mut Cx<'_, Unlocked>) {
        let failed = {
            let mut guard = cx.lock(&qp.state);
            let (state, cx) = guard.split();
            // It may have come into use again meanwhile.
            if !qp.is_bereft() {
                return;
            }
            // In a state of error it is concerned no more.
            qp.since.renew(&qp.hca.breaks);
            state.fail(qp, cx, Some(QpEvent::Fatal))
        };
        if failed {
            Self::schedule_again(qp);
        }
    }

    fn schedule_again(qp: &Held<Self>) {
        if let Some(qp) = qp.try_clone() {
            Self::schedule(qp);
        }
    }
}

/// Flushes what a queue pair in a state of error has to flush; of work that is posted meanwhile not more than fits into
/// its queues.
pub(super) fn flush_out(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, qp: &Held<Qp>) {
    let irqs = sleepable.irqs_on();
    let most = qp.cap.max_send_wr.saturating_add(qp.cap.max_recv_wr);
    // Each queue may end amid a part, and the last part may be found to be empty.
    let parts = most.div_ceil(FLUSH_BATCH).saturating_add(2);
    for _ in 0..parts {
        if !cx.lock(&qp.state).machine.is_flushing() {
            break;
        }
        RunQueue::in_task(cx, irqs, |cx, irqs, run| Qp::transmit(qp, cx, irqs, run));
        // If somebody else is at it, he flushes a part when he ends.
        settle(cx, sleepable, qp);
    }
}

/// Calls `act` with each queue pair of `hca` that is `concerned`, which is asked under the lock of the HCA.
fn for_each(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    concerned: impl Fn(&Qp) -> bool,
    act: impl Fn(&mut Cx<'_, Unlocked>, Held<Qp>),
) {
    let mut index = 0;
    loop {
        let qp = {
            let state = cx.lock(&hca.state);
            let Some((at, qp)) = state.qps.next(index) else {
                return;
            };
            index = at.wrapping_add(1);
            if concerned(qp) {
                qp.try_clone()
            } else {
                None
            }
        };
        if let Some(qp) = qp {
            act(cx, qp);
        }
    }
}

/// Moves those queue pairs of `hca` to the error state that have a queue which has broken since they came into use.
///
/// What comes of it is told by workers: it may lead to an error of another queue, and so on, as far as clients
/// like to chain queues and queue pairs.
pub(crate) fn fail_bereft(cx: &mut Cx<'_, Unlocked>, hca: &Hca) {
    for_each(cx, hca, Qp::is_bereft, |cx, qp| Qp::fail_bereft(&qp, cx));
}

/// Completes the work of all queue pairs of programs, whose device goes, by flushing it. They find that in their
/// queues, which stay mapped, when they have lost everything else. From now on none of them gets into use.
pub(crate) fn flush_users(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, hca: &Hca) {
    let irqs = sleepable.irqs_on();
    hca.end();
    for_each(
        cx,
        hca,
        |qp| qp.user,
        |cx, qp| {
            qp.fail(cx, None);
            // Who is at it just now flushes one part, and does not stay for the rest.
            settle(cx, sleepable, &qp);
            // Also for one that was in error before: nobody has told of receives that were posted since it was looked at.
            RunQueue::in_task(cx, irqs, |cx, irqs, run| Qp::transmit(&qp, cx, irqs, run));
            flush_out(cx, sleepable, &qp);
            // Who sends a segment of it just now completes its work when that has arrived, also of one that was in the
            // error state before.
            settle(cx, sleepable, &qp);
        },
    );
}
