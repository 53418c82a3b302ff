// SPDX-License-Identifier: GPL-2.0

//! Who transmits next.
//!
//! Delivering a segment to a queue pair of this host may give that one something to say, an
//! acknowledgement first of all. It is not said there and then, since the call chain would grow
//! with every answer: the queue pair goes to the [`RunQueue`] of the call chain, and
//! [`RunQueue::drain`] lets one after the other transmit. What is too much for one call chain goes
//! to the work queue of the device.
//!
//! Packets that leave by UDP wait in the [`Outbox`] of the call chain for those that follow the same way: at most until
//! its end.

use crate::fabric::{
    Order,
    Outbox,
    Reader,
    Segment,
    Way, //
};
use crate::qp::Qp;
use crate::steering::Steering;
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Unlocked, //
};

/// Queue pairs that a call chain remembers. More than two are due where a multicast ends, or a batch of datagrams has
/// come for several.
pub(crate) const SLOTS: usize = 16;

/// Packets that one call chain sends before it leaves the rest to the work queue: enough for a
/// burst of messages, far less than what would be felt as a stall.
const BUDGET: u32 = 1024;

/// A call chain.
pub(crate) struct RunQueue {
    /// The queue pairs that have something to transmit, in the order in which they became due. Many call chains have
    /// none.
    due: Option<[Option<Held<Qp>>; SLOTS]>,
    len: usize,
    budget: u32,
    outbox: Outbox,
    /// How the segment that is being sent leaves.
    order: Order,
    /// What is sent waits until several queue pairs have sent.
    gathers: bool,
    /// Who may send all that.
    steering: Option<Steering>,
    /// What has come says that the peer is in a hurry.
    hurried: bool,
    /// Packets that have waited at a port are on their way.
    unshelving: bool,
}

impl RunQueue {
    /// Runs `body` as a call chain, and then lets all transmit who have become due in it.
    pub(crate) fn with<R>(
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        body: impl FnOnce(&mut Cx<'_, Unlocked>, &mut Self) -> R,
    ) -> R {
        let mut run = Self {
            due: None,
            len: 0,
            budget: BUDGET,
            outbox: Outbox::new(),
            order: Order::default(),
            gathers: false,
            steering: None,
            hurried: false,
            unshelving: false,
        };
        let result = body(cx, &mut run);
        run.drain(cx, irqs);
        result
    }

    /// The same in a task of somebody's, of whatever priority, which is not preempted before the end.
    ///
    /// A call chain holds the queue pairs and the sockets at the far end, and has answers of others wait for it. Whoever
    /// destroys the one, or a network device, perhaps with RTNL, waits for that.
    pub(crate) fn in_task<R>(
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        body: impl FnOnce(&mut Cx<'_, Unlocked>, IrqsOn<'_>, &mut Self) -> R + Send,
    ) -> R {
        irqs.unpreempted(cx, |cx, irqs| {
            Self::with(cx, irqs, |cx, run| body(cx, irqs, run))
        })
    }

    /// Sends a segment as datagrams, soon; `None` if that cannot be.
    pub(crate) fn post(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        way: (&Way, Reader),
        segment: &Segment<'_>,
    ) -> Option<()> {
        self.outbox.add(cx, irqs, way, segment, &self.order)
    }

    /// How the segment that is to be sent now leaves, if it leaves the host.
    pub(crate) fn order(&mut self, order: Order) {
        self.order = order;
    }

    /// From now on what is the last of a queue pair does not leave at once, and `steering` may have it sent.
    pub(crate) fn gather(&mut self, steering: Option<Steering>) {
        self.gathers = true;
        self.steering = steering;
    }

    /// Who may send what a queue pair has to send.
    pub(crate) fn steering(&self) -> Option<Steering> {
        self.steering
    }

    /// A request has come, whose sender has not waited for the answers to those before it, or has.
    pub(crate) fn hurry(&mut self, hurried: bool) {
        self.hurried = hurried;
    }

    /// Whether the one that has come last is of who has not waited.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried
    }

    /// Packets that have waited at a port are let go, one after the other, from now on or not any more. Returns whether
    /// the call chain was doing that already.
    pub(crate) fn set_unshelving(&mut self, unshelving: bool) -> bool {
        core::mem::replace(&mut self.unshelving, unshelving)
    }

    /// What has been sent is the last of its queue pair for now.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        if !self.gathers {
            self.flush(cx, irqs);
        }
    }

    /// Whether datagrams wait.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends the datagrams that wait.
    pub(crate) fn flush(&mut self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        self.outbox.flush(cx, irqs);
    }

    /// Remembers that `qp` has something to transmit.
    pub(crate) fn push(&mut self, qp: &Held<Qp>) {
        if self.len > 0
            && self
                .due
                .iter()
                .flatten()
                .flatten()
                .any(|due| due.ptr_eq(qp))
        {
            return;
        }
        let Some(qp) = qp.try_clone() else {
            return;
        };
        if self.is_full() {
            return Qp::schedule(qp);
        }
        let due = self.due.get_or_insert([const { None }; SLOTS]);
        if let Some(slot) = due.get_mut(self.len) {
            *slot = Some(qp);
            self.len = self.len.wrapping_add(1);
        }
    }

    /// Whether no more queue pairs are remembered, until those that are due have transmitted.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= SLOTS
    }

    /// Whether the call chain may send nothing more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.budget == 0
    }

    /// A segment of so many packets is sent, or something is done that takes as long.
    pub(crate) fn charge(&mut self, packets: u32) {
        self.budget = self.budget.saturating_sub(packets);
    }

    /// Lets all that are due transmit, and those that become due meanwhile. What several send leaves together.
    pub(crate) fn drain(&mut self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        loop {
            let len = core::mem::take(&mut self.len);
            self.gathers = len > 1;
            match self.due.as_mut().and_then(|due| due.get_mut(..len)) {
                None | Some([]) => break,
                Some([qp]) => {
                    if let Some(qp) = qp.take() {
                        // Nobody else sends what it has.
                        irqs.undisturbed(cx, |cx, irqs| Qp::transmit(&qp, cx, irqs, self));
                    }
                }
                Some(several) => {
                    let mut qps = [const { None }; SLOTS];
                    for (to, from) in qps.iter_mut().zip(several) {
                        *to = from.take();
                    }
                    let qps = qps.get(..len).unwrap_or_default();
                    // As above.
                    irqs.undisturbed(cx, |cx, irqs| {
                        Qp::transmit_together(qps, cx, irqs, self);
                    });
                }
            }
        }
        self.flush(cx, irqs);
        // It was for those who were due.
        self.order = Order::default();
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_run)]
mod tests {
    use super::*;
    use kernel::cpu::CpuId;

    /// Who comes after a queue pair has not ordered what that one has.
    #[test]
    fn an_order_ends_with_those_who_are_due() {
        let (mut cx, sleepable) = rdma::sync::test_context();
        let irqs = sleepable.irqs_on();
        RunQueue::with(&mut cx, irqs, |cx, run| {
            run.order(Order {
                more: 7,
                cpu: CpuId::from_u32(0),
            });
            run.drain(cx, irqs);
            assert_eq!((run.order.more, run.order.cpu), (0, None));
        });
    }
}
