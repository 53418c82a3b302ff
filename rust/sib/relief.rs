// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that another processor transmits for.
//!
//! Inside one host a message is there as soon as it is sent, and most of the work is the receiver's. A task that posts
//! small messages upon each other, and waits for none of them (see [`crate::pace`]), is held up by that: it could have
//! posted the next one. So it only says what it has posted, and another processor transmits for it meanwhile. If that
//! has [enough](SHARED) to do already, the task helps itself: both work all the time, on different queue pairs.
//!
//! A processor whose own tasks post such messages has no time for others.
//!
//! This is for reliable connections alone, as is [steering](crate::steering), by which another processor sends what leaves
//! the host. An acknowledgement comes to that one, and allows more requests: if it transmitted them as well, it would
//! do everything, and the one whose task has posted them nothing. So it leaves that to another processor, also if that
//! has enough to do.

use crate::hca::Hca;
use crate::qp::Qp;
use crate::run::RunQueue;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use proto::time::{
    Duration,
    Instant, //
};
use rdma::sync::{
    Atomic,
    Cx,
    DevSched,
    Held,
    IrqsOn,
    LevelLock,
    Off,
    QpLock,
    Sleepable,
    Unlocked, //
};
use rdma::work::{
    other_cpu,
    Queue,
    Run,
    Softirq,
    Work, //
};

/// How often queue pairs wait at most, beside those that are being transmitted for; one may do so several times.
const SEATS: usize = 32;

/// Those of them for which the processor would have time that hands them over: if so many wait, it does that work.
const SHARED: usize = 8;

/// A processor where messages were posted in this time is at it. It is long enough for one that a hypervisor takes away
/// meanwhile: should that be taken to be idle and given work, its tasks would not come to post, and it would go on to
/// look idle.
const BUSY: Duration = Duration::from_millis(10);

/// How far the time of the last message is off at most, as it is not noted for each.
const COARSE: Duration = Duration::from_nanos(250_000);

/// Processors that are told apart.
const CPUS: usize = 64;

/// When messages were last posted on a processor, in nanoseconds, in a cache line of its own.
#[repr(align(64))]
struct Posted(Atomic<u64>);

/// That of each processor; those whose numbers differ by a multiple of [`CPUS`] share one.
static POSTED: [Posted; CPUS] = [const { Posted(Atomic::new(0)) }; CPUS];

impl Posted {
    /// That of `cpu`.
    fn on(cpu: CpuId) -> Option<&'static Self> {
        POSTED.get(cpu.as_u32() as usize % CPUS)
    }

    fn note(&self, now: Instant) {
        if !self.is_within(now, COARSE) {
            self.0.store(now.nanos(), Relaxed);
        }
    }

    /// Whether some were posted in the last `time`.
    fn is_within(&self, now: Instant, time: Duration) -> bool {
        now.nanos().saturating_sub(self.0.load(Relaxed)) < time.nanos()
    }
}

/// Those that wait, in the order in which they came.
type Seats = [Option<Held<Qp>>; SEATS];

/// What the lock guards.
struct Waiting {
    qps: Seats,
    len: usize,
    /// The work item is due, or looks here again before it ends.
    is_served: bool,
}

impl Waiting {
    /// Has `qp` wait; false if `most` do, or there is no room for it.
    fn add(&mut self, qp: &Held<Qp>, most: usize) -> bool {
        let Some(seat) = self.qps.iter_mut().take(most).nth(self.len) else {
            return false;
        };
        *seat = qp.try_clone();
        let is_there = seat.is_some();
        self.len = self.len.wrapping_add(usize::from(is_there));
        is_there
    }

    /// Takes all that wait; `None`, and nobody serves them any more, if there are none.
    fn take(&mut self) -> Option<Seats> {
        self.is_served = self.len > 0;
        self.len = 0;
        self.is_served
            .then(|| core::mem::replace(&mut self.qps, [const { None }; SEATS]))
    }
}

/// The queue pairs of an HCA that wait for another processor.
#[pin_data]
pub(crate) struct Relief {
    #[pin]
    waiting: LevelLock<Waiting, DevSched>,
    queue: Queue<Softirq>,
    #[pin]
    work: Work<Hca, 0, Softirq>,
}

impl Relief {
    /// An initialiser; nobody waits.
    pub(crate) fn new(sleepable: Sleepable<'_>) -> Result<impl PinInit<Self>> {
        let queue = Queue::softirq(c"sib_relief", sleepable)?;
        Ok(pin_init!(Self {
            waiting <- LevelLock::new(Waiting {
                qps: [const { None }; SEATS],
                len: 0,
                is_served: false,
            }),
            queue,
            work <- rdma::new_work!("Relief::work"),
        }))
    }

    /// A short message is posted on this processor `now`.
    pub(crate) fn note(now: Instant) {
        if let Some(posted) = Posted::on(CpuId::current()) {
            posted.note(now);
        }
    }

    /// Whether `cpu` has time for others `now`.
    pub(crate) fn has_time(cpu: CpuId, now: Instant) -> bool {
        Posted::on(cpu).is_some_and(|posted| !posted.is_within(now, BUSY))
    }

    /// Has another processor transmit what was posted here to `qp`; false if there is none that has time `now`, or it
    /// has enough to do.
    pub(crate) fn share(cx: &mut Cx<'_, QpLock, Off>, qp: &Held<Qp>, now: Instant) -> bool {
        Self::hand_over(cx, qp, now, SHARED)
    }

    /// Has another processor transmit what an answer that has come here allows; false if there is none that has time
    /// `now`, or too many wait.
    pub(crate) fn take_over(cx: &mut Cx<'_, QpLock, Off>, qp: &Held<Qp>, now: Instant) -> bool {
        Self::hand_over(cx, qp, now, SEATS)
    }

    fn hand_over(cx: &mut Cx<'_, QpLock, Off>, qp: &Held<Qp>, now: Instant, most: usize) -> bool {
        let Some(cpu) = other_cpu().filter(|cpu| Self::has_time(*cpu, now)) else {
            return false;
        };
        let relief = &qp.hca.relief;
        let mut waiting = cx.lock(&relief.waiting);
        if !waiting.is_served {
            waiting.is_served = relief.serve_on(cpu, &qp.hca);
        }
        waiting.is_served && waiting.add(qp, most)
    }

    /// Has the work item run on `cpu`; false if `hca` has more holders than can be counted.
    fn serve_on(&self, cpu: CpuId, hca: &Held<Hca>) -> bool {
        Hca::work_on(hca, &self.queue, &self.work, cpu)
    }

    /// Transmits for those that wait, within the budget of a call chain. Returns whether there may be more of them.
    fn serve(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) -> bool {
        RunQueue::with(cx, irqs, |cx, run| {
            while !run.is_exhausted() {
                let Some(qps) = cx.lock(&self.waiting).take() else {
                    return false;
                };
                for qp in qps.iter().flatten() {
                    Qp::transmit(qp, cx, irqs, run);
                    // To find nothing to send takes time, too, and others may have more of them wait all the time.
                    run.charge(1);
                }
                // Who is answered is not to wait until nobody posts any more.
                run.drain(cx, irqs);
            }
            true
        })
    }
}

impl Run<0, Softirq> for Hca {
    type Pointer = Held<Self>;

    fn run(this: Held<Self>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        // Others get a turn before the next item.
        while this.relief.serve(&mut cx, irqs) && !this.relief.serve_on(CpuId::current(), &this) {}
    }
}
