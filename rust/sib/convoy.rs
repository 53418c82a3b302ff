// SPDX-License-Identifier: GPL-2.0

//! Queue pairs whose messages leave together.
//!
//! A task in a hurry (see [`crate::pace`]) may post to one queue pair after the other. What it posts goes the same way
//! more often than not, and several datagrams that leave at once cost hardly more than one. So messages wait for each
//! other, whichever queue pairs of an HCA they are of: until there are [enough](FULL) of them, which the task that
//! posts the last one sends; or until nobody has posted for a while, or the first one has waited [long enough](Patience),
//! when a timer does. Who transmits for one of them meanwhile, an answer perhaps, leaves to the convoy what waits there.
//!
//! A convoy that one task has filled may be [sent by another processor](crate::steering). If the task posts to one queue
//! pair after the other, that processor also transmits for them, and the task goes on to post. What it posts meanwhile is
//! the next convoy, which that processor takes by itself, so that it need not be woken. This is not for a task with
//! one queue pair: it soon has to wait for what it has posted, all of which would be sent before any of it is received.
//! Nor is it for RDMA READ and the like: they are answered by that processor, which is most of the work.
//!
//! A worker in place of the two would begin at the first message, or when a processor is free for it, and send few or
//! many as it happens.

use crate::fabric;
use crate::hca::Hca;
use crate::pace::Patience;
use crate::qp::Qp;
use crate::relief::Relief;
use crate::run::RunQueue;
use crate::steering::{
    self,
    Steering, //
};
use kernel::cpu::CpuId;
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
    Timer, //
};
use rdma::work::{
    Queue,
    Run,
    Softirq,
    Work, //
};

/// Messages that leave at once.
const FULL: u32 = 32;

/// Messages that wait at most for who transmits already: fewer than a call chain may send.
const MOST: u32 = 8 * FULL;

/// Queue pairs that wait at most.
pub(crate) const SEATS: usize = 32;

/// Tells the timer from others of an HCA.
const CLOCK: u64 = 2;

/// Tells the work item from others of an HCA.
const WORK: u64 = 1;

/// Queue pairs that have something to send.
pub(crate) type Seats = [Option<Held<Qp>>; SEATS];

/// What a doorbell leaves to a convoy.
#[derive(Clone, Copy)]
pub(crate) struct Freight {
    pub(crate) messages: u32,
    /// Whether another processor may transmit them: they are of a reliable connection, and an acknowledgement is all
    /// the answer that each has.
    pub(crate) portable: bool,
}

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
    /// Whether another processor may transmit all.
    portable: bool,
    /// Who has sent the last ones of one task.
    steering: Option<Steering>,
    /// The QPN of the first one of the last convoy.
    last: u32,
    /// Until when tasks are taken to post to one queue pair after the other.
    changing: Instant,
    /// Those that another processor is to transmit for.
    handed: Option<(Seats, Steering)>,
    /// The work item is due, or looks here again before it ends.
    is_served: bool,
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
    /// All, and this processor transmits for them.
    Handed(CpuId),
    /// Who has just come, and has more holders than can be counted.
    One,
}

impl Waiting {
    /// Has `qp`, to which so much has been posted, wait.
    fn add(
        &mut self,
        qp: &Held<Qp>,
        freight: Freight,
        patience: &Patience,
        clock: &Timer<Hca, CLOCK>,
    ) -> Leaving {
        let task = kernel::current!().pid();
        if self.count == 0 {
            self.limit = patience.limit;
            self.first = task;
            self.alone = true;
            self.portable = freight.portable;
        } else {
            self.limit = patience.limit.min(self.limit);
            self.alone &= self.first == task;
            self.portable &= freight.portable;
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
        self.messages = self.messages.saturating_add(freight.messages);
        let has_room = self.messages < MOST && self.count < SEATS;
        let is_next = self.is_served && self.is_portable() && has_room;
        if !is_next && (self.messages >= FULL || self.count >= SEATS) {
            return self.depart();
        }
        let due = match is_next {
            true => self.limit,
            false => patience.due.min(self.limit),
        };
        self.due = due;
        if self.armed.is_none_or(|at| due < at) {
            self.armed = clock.arm(due.nanos()).then_some(due);
        }
        Leaving::Nobody
    }

    /// Whether there are enough to leave, and another processor may transmit them.
    fn is_portable(&self) -> bool {
        self.messages >= FULL && self.alone && self.portable
    }

    /// Lets all leave.
    fn depart(&mut self) -> Leaving {
        let steering = self
            .alone
            .then(|| Steering::renewed(self.steering))
            .flatten();
        self.steering = steering.or(self.steering);
        let now = fabric::now();
        self.look_for_change(now);
        let changes = now < self.changing;
        let free = steering.filter(|to| changes && Relief::has_time(to.cpu(), now));
        let is_portable = self.is_portable() && !self.is_served;
        let qps = self.take();
        match free {
            Some(to) if is_portable => {
                self.is_served = true;
                self.handed = Some((qps, to));
                Leaving::Handed(to.cpu())
            }
            _ => Leaving::All(qps, steering),
        }
    }

    /// Looks whether those that leave `now` are others than the last ones.
    fn look_for_change(&mut self, now: Instant) {
        let first = self.qps.first().and_then(Option::as_ref);
        let qpn = first.map_or(0, |qp| qp.qpn());
        if self.count > 1 || qpn != self.last {
            self.changing = now.after(steering::HOLD);
        }
        self.last = qpn;
    }

    /// What was handed over is sent: so is what has come meanwhile, if there is enough. Returns whether there is.
    fn hand_over_more(&mut self, steering: Steering) -> bool {
        self.is_served = self.is_portable();
        if self.is_served {
            self.look_for_change(fabric::now());
            self.handed = Some((self.take(), steering));
        }
        self.is_served
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
    queue: Queue<Softirq>,
    #[pin]
    work: Work<Hca, WORK, Softirq>,
}

impl Convoy {
    /// An initialiser; nobody waits.
    pub(crate) fn new(sleepable: Sleepable<'_>) -> Result<impl PinInit<Self>> {
        let queue = Queue::softirq(c"sib_convoy", sleepable)?;
        Ok(pin_init!(Self {
            waiting <- LevelLock::new(Waiting {
                qps: [const { None }; SEATS],
                count: 0,
                messages: 0,
                first: 0,
                alone: false,
                portable: false,
                steering: None,
                last: 0,
                changing: Instant::from_nanos(0),
                handed: None,
                is_served: false,
                due: Instant::from_nanos(0),
                limit: Instant::from_nanos(0),
                armed: None,
            }),
            clock <- Timer::new(),
            queue,
            work <- rdma::new_work!("Convoy::work"),
        }))
    }

    /// Tells the timer whom it serves. To be called before there are queue pairs.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has been told, or has ended.
    pub(crate) fn begin(&self, hca: Held<Hca>) -> Result {
        self.clock.attach(hca).map_err(|_| EBUSY)
    }

    /// Has `qp`, to which so much has been posted, wait for others; or lets all leave.
    pub(crate) fn join(
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        qp: &Held<Qp>,
        freight: Freight,
        patience: &Patience,
    ) {
        let convoy = &qp.hca.convoy;
        // Those who leave may be of others, and nobody else sends what they have.
        irqs.undisturbed(cx, |cx, irqs| {
            let leaving = cx
                .lock(&convoy.waiting)
                .add(qp, freight, patience, &convoy.clock);
            match leaving {
                Leaving::Nobody => {}
                Leaving::Handed(cpu) => {
                    let is_due = convoy.serve_on(cpu, &qp.hca);
                    while !is_due && convoy.serve(cx, irqs) {}
                }
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

    /// Has the work item run on `cpu`; false if `hca` has more holders than can be counted.
    fn serve_on(&self, cpu: CpuId, hca: &Held<Hca>) -> bool {
        Hca::work_on(hca, &self.queue, &self.work, cpu)
    }

    /// Transmits for those that were handed over. Returns whether there are more.
    fn serve(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) -> bool {
        let Some((qps, steering)) = cx.lock(&self.waiting).handed.take() else {
            return false;
        };
        RunQueue::with(cx, irqs, |cx, run| {
            Self::leave(&qps, Some(steering), cx, irqs, run);
        });
        cx.lock(&self.waiting).hand_over_more(steering)
    }

    /// Ends the timer, for good. All queue pairs are gone.
    pub(crate) fn end(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.clock.shutdown(cx, sleepable);
    }
}

impl Expire<CLOCK> for Hca {
    type Pointer = Held<Self>;

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

impl Run<WORK, Softirq> for Hca {
    type Pointer = Held<Self>;

    fn run(this: Held<Self>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let convoy = &this.convoy;
        // Others get a turn before the next item.
        while convoy.serve(&mut cx, irqs) && !convoy.serve_on(CpuId::current(), &this) {}
    }
}
