// SPDX-License-Identifier: GPL-2.0

//! Queue pairs whose messages leave together.
//!
//! A task in a hurry (see [`crate::pace`]) may post to one queue pair after the other. What it posts goes the same way
//! more often than not, and several datagrams that leave at once cost hardly more than one. So messages wait for each
//! other, whichever queue pairs of an HCA they are of: until there are [enough](FULL) of them, which the task that
//! posts the last one sends; or until nobody has posted for a while, or the first one has waited [long enough](Patience),
//! when a timer does. Who transmits for one of them meanwhile, an answer perhaps, leaves to the convoy what waits there.
//!
//! A convoy that one task has filled may be [sent by another processor](crate::steering).
//!
//! A worker in place of the two would begin at the first message, or when a processor is free for it, and send few or
//! many as it happens.

use crate::fabric;
use crate::hca::Hca;
use crate::pace::Patience;
use crate::qp::Qp;
use crate::run::RunQueue;
use crate::steering::Steering;
use kernel::prelude::*;
use kernel::task::Pid;
use proto::time::Instant;
use rdma::sync::{
    Cx,
    DevSched,
    Held,
    IrqsOn,
    LevelLock,
    Sleepable,
    Unlocked, //
};
use rdma::timer::{
    Expire,
    Soft,
    Timer, //
};

/// Messages that leave at once.
const FULL: u32 = 32;

/// Queue pairs that wait at most.
pub(crate) const SEATS: usize = 32;

/// Tells the timer from others of an HCA.
const CLOCK: u64 = 2;

/// Queue pairs that have something to send.
pub(crate) type Seats = [Option<Held<Qp>>; SEATS];

/// What the lock guards.
struct Waiting {
    qps: Seats,
    count: usize,
    /// Messages that were posted to them.
    messages: u32,
    /// Who has posted the first one.
    first: Pid,
    /// Whether nobody else has posted one.
    alone: bool,
    /// Who has sent the last ones of one task.
    steering: Option<Steering>,
    /// When they leave, if no more are posted.
    due: Instant,
    /// When they leave at the latest.
    limit: Instant,
    /// When the timer will expire, be it too early.
    armed: Option<Instant>,
}

/// Who does not wait any longer.
enum Leaving {
    Nobody,
    All(Seats, Option<Steering>),
    /// Who has just come, and has more holders than can be counted.
    One,
}

impl Waiting {
    /// Has `qp`, to which so many messages have been posted, wait.
    fn add(
        &mut self,
        qp: &Held<Qp>,
        messages: u32,
        patience: &Patience,
        clock: &Timer<Hca, CLOCK>,
    ) -> Leaving {
        let task = kernel::current!().pid();
        if self.count == 0 {
            self.limit = patience.limit;
            self.first = task;
            self.alone = true;
        } else {
            self.limit = patience.limit.min(self.limit);
            self.alone &= self.first == task;
        }
        if qp.boards() {
            let passenger = qp.try_clone();
            if passenger.is_none() {
                qp.alights();
                return Leaving::One;
            }
            if let Some(seat) = self.qps.get_mut(self.count) {
                *seat = passenger;
            }
            self.count = self.count.wrapping_add(1);
        }
        self.messages = self.messages.saturating_add(messages);
        if self.messages >= FULL || self.count >= SEATS {
            let steering = self
                .alone
                .then(|| Steering::renewed(self.steering))
                .flatten();
            self.steering = steering.or(self.steering);
            return Leaving::All(self.take(), steering);
        }
        let due = patience.due.min(self.limit);
        self.due = due;
        if self.armed.is_none_or(|at| due < at) {
            self.armed = clock.arm(due.nanos()).then_some(due);
        }
        Leaving::Nobody
    }

    /// Takes all that wait. What is posted to them from now on makes them wait again.
    fn take(&mut self) -> Seats {
        self.count = 0;
        self.messages = 0;
        let qps = core::mem::replace(&mut self.qps, [const { None }; SEATS]);
        for qp in qps.iter().flatten() {
            qp.alights();
        }
        qps
    }
}

/// The queue pairs of an HCA that wait; [`Qp::boards`] sees to it that none waits twice.
#[pin_data]
pub(crate) struct Convoy {
    #[pin]
    waiting: LevelLock<Waiting, DevSched>,
    #[pin]
    clock: Timer<Hca, CLOCK>,
}

impl Convoy {
    /// An initialiser; nobody waits.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            waiting <- LevelLock::new(Waiting {
                qps: [const { None }; SEATS],
                count: 0,
                messages: 0,
                first: 0,
                alone: false,
                steering: None,
                due: Instant::from_nanos(0),
                limit: Instant::from_nanos(0),
                armed: None,
            }),
            clock <- Timer::new(),
        })
    }

    /// Tells the timer whom it serves. To be called before there are queue pairs.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has been told, or has ended.
    pub(crate) fn begin(&self, hca: Held<Hca>) -> Result {
        self.clock.attach(hca).map_err(|_| EBUSY)
    }

    /// Has `qp`, to which so many messages have been posted, wait for others; or lets all leave.
    pub(crate) fn join(
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        qp: &Held<Qp>,
        messages: u32,
        patience: &Patience,
    ) {
        let convoy = &qp.hca.convoy;
        // Those who leave may be of others, and nobody else sends what they have.
        irqs.undisturbed(cx, |cx, irqs| {
            let leaving = cx
                .lock(&convoy.waiting)
                .add(qp, messages, patience, &convoy.clock);
            match leaving {
                Leaving::Nobody => {}
                Leaving::All(qps, steering) => Self::leave(&qps, steering, cx, irqs, run),
                Leaving::One => Qp::transmit_alone(qp, cx, irqs, run),
            }
        });
    }

    /// Has those that have waited transmit.
    fn leave(
        qps: &Seats,
        steering: Option<Steering>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        run.gather(steering);
        Qp::transmit_convoy(qps, cx, irqs, run);
    }

    /// Ends the timer, for good. All queue pairs are gone.
    pub(crate) fn end(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.clock.shutdown(cx, sleepable);
    }
}

impl Expire<CLOCK> for Hca {
    type Pointer = Held<Self>;
    type Mode = Soft;

    fn expire(this: &Held<Self>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let convoy = &this.convoy;
        let qps = {
            let mut waiting = cx.lock(&convoy.waiting);
            let due = waiting.due;
            let is_early = waiting.count > 0 && fabric::now() < due;
            waiting.armed = (is_early && convoy.clock.arm(due.nanos())).then_some(due);
            if waiting.armed.is_some() {
                return;
            }
            waiting.take()
        };
        RunQueue::with(&mut cx, irqs, |cx, run| {
            Convoy::leave(&qps, None, cx, irqs, run);
        });
    }
}
