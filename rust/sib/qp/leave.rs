// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that their owner puts out of use.
//!
//! Whoever transmits may be preempted between the arrival of a message at another queue pair of this host and the answer,
//! and a softirq has all of a batch arrive before it answers. Clients see the message sooner, and may have the connection
//! ended for it. On neither side that is to look as if it had not arrived: nobody flushes it, or asks in vain.

use super::{
    Qp,
    State, //
};
use crate::{
    fabric::Segment,
    payload::Source,
    run::RunQueue, //
};
use kernel::time::Delta;
use rdma::sync::{
    Cx,
    Off,
    QpLock,
    Sleepable,
    Unlocked, //
};

/// How long to sleep at a time while a segment is on its way.
const SETTLE_PAUSE: Delta = Delta::from_micros(50);

/// Waits until no segment of a queue pair that sends nothing more is on its way.
pub(super) fn settle(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, qp: &Qp) {
    while cx.lock(&qp.state).is_busy() {
        sleepable.pause(cx, SETTLE_PAUSE);
    }
}

/// Waits for the segment that alone keeps an idle send queue from having drained: a queue pair may answer its peer all the
/// time.
pub(super) fn settle_drained(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, qp: &Qp) {
    while cx.lock(&qp.state).machine.is_about_to_drain() {
        sleepable.pause(cx, SETTLE_PAUSE);
    }
}

/// Calls `end` with the queue pair locked when nobody transmits, and then sends the answer that was owed before.
pub(super) fn take_leave<R>(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    qp: &Qp,
    end: impl FnOnce(&mut State, Cx<'_, QpLock, Off>) -> R,
) -> R {
    let address = {
        let mut state = cx.lock(&qp.state);
        state.halted = true;
        qp.address(state.machine.config())
    };
    let limits = qp.hca.lane(cx, address).limits;
    let (answer, result) = loop {
        settle(cx, sleepable, qp);
        let mut guard = cx.lock(&qp.state);
        let (state, cx) = guard.split();
        if state.is_busy() {
            continue;
        }
        // Without a payload: that may be much, and of memory that goes.
        let answer = state.machine.poll_reply(0, &limits);
        let result = end(state, cx);
        state.halted = false;
        break (answer, result);
    };
    let Some(mut answer) = answer else {
        return result;
    };
    if answer.header.set_payload_len(0).is_ok() {
        let irqs = sleepable.irqs_on();
        RunQueue::in_task(cx, irqs, |cx, irqs, run| {
            let segment = Segment {
                header: &answer.header,
                span: 1,
                source: &Source::Bytes(&[]),
                damage: None,
                hops: 0,
            };
            qp.hca.transmit(cx, irqs, run, address.port, segment);
        });
    }
    result
}
