// SPDX-License-Identifier: GPL-2.0

//! The subnet manager on port 0 of the switch.
//!
//! The manager itself is a machine without IO ([`proto::sm`]), which computes too much for a lock that keeps
//! interrupts off. So it has a worker of its own, and a mutex. What arrives for it waits in an inbox under the lock of
//! the fabric; its clock wakes the worker, at once for a datagram, else when the manager has asked for it.

use super::smp::smi_header;
use super::storage::{
    self,
    Heap,
    Room, //
};
use super::{
    now,
    Fabric,
    Segment,
    State, //
};
use crate::params;
use crate::payload::Source;
use crate::run::RunQueue;
use kernel::new_mutex;
use kernel::pr_warn_once;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};
use proto::fabric::switch::Lrh;
use proto::fabric::Mad;
use proto::sm::{
    Config,
    Manager,
    Next,
    Transmit, //
};
use proto::time::Instant;
use rdma::new_work;
use rdma::sync::{
    Cx,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use rdma::timer::{
    Expire,
    Soft,
    Timer, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use wire::mad::smp::SmState;
use wire::{
    PortNum,
    Sl, //
};

/// Datagrams that wait for the manager. What is more is lost, and asked for again.
const INBOX: usize = 64;

/// A datagram for the manager.
type Letter = (Mad, Lrh);

/// What the manager has not seen yet.
pub(super) struct Inbox {
    letters: KVVec<Letter>,
    /// Something has changed that no trap may tell of.
    stirred: bool,
}

/// The place of the manager in its fabric.
#[pin_data]
pub(super) struct Seat {
    /// Where its worker runs; `None` if the fabric is to have no manager. To end a queue is to sleep: the last
    /// reference to a fabric goes in a task.
    queue: Option<Queue>,
    #[pin]
    desk: Mutex<Option<Desk>>,
    #[pin]
    work: Work<Fabric>,
    /// Wakes the worker.
    #[pin]
    clock: Timer<Fabric, 1>,
}

/// The manager and what its worker needs.
struct Desk {
    manager: KBox<Manager<Heap>>,
    config: Config,
    room: Room,
    /// Takes the place of the inbox while its letters are read.
    spare: KVVec<Letter>,
    /// What the log says the manager does.
    told: SmState,
    /// The sweeps that have been looked at.
    sweeps: u32,
}

impl Seat {
    /// An initialiser of an empty seat.
    pub(super) fn new(sleepable: Sleepable<'_>) -> Result<impl PinInit<Self, Error>> {
        let queue = match params::sm() {
            true => Some(Queue::slow(c"sib_sm", sleepable)?),
            false => None,
        };
        Ok(try_pin_init!(Self {
            queue,
            desk <- new_mutex!(None, "Seat::desk"),
            work <- new_work!("Seat::work"),
            clock <- Timer::new(),
        }? Error))
    }
}

impl Desk {
    fn new(config: Config) -> Result<Self> {
        Ok(Self {
            manager: storage::manager(config, Room::SMALL)?,
            config,
            room: Room::SMALL,
            spare: KVVec::with_capacity(INBOX, GFP_KERNEL)?,
            told: SmState::Discovering,
            sweeps: 0,
        })
    }

    /// Gives the manager more storage if a sweep has found it too small. The new one takes over what the ports know.
    fn grow(&mut self) -> Result<bool> {
        let report = self.manager.report();
        let is_new = core::mem::replace(&mut self.sweeps, report.sweeps) != report.sweeps;
        if !is_new || !report.no_room {
            return Ok(false);
        }
        let Some(room) = self.room.next() else {
            return Ok(false);
        };
        self.manager = storage::manager(self.config, room)?;
        self.room = room;
        self.sweeps = 0;
        Ok(true)
    }

    /// Says in the log when the manager has become something else.
    fn tell(&mut self) {
        let state = self.manager.state();
        if state == SmState::Discovering || state == core::mem::replace(&mut self.told, state) {
            return;
        }
        let words = match state {
            SmState::Master => "manages the subnet",
            _ => "leaves the subnet to another subnet manager",
        };
        let switch = self.config.guid.get();
        pr_info!("switch {switch:#018x}: {words}\n");
    }
}

impl Fabric {
    /// Seats a subnet manager on the switch, if a parameter wants one.
    pub(super) fn open_manager(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>) -> Result {
        if self.seat.queue.is_none() {
            return Ok(());
        }
        let inbox = Inbox {
            letters: KVVec::with_capacity(INBOX, GFP_KERNEL)?,
            stirred: false,
        };
        *self.seat.desk.lock() = Some(Desk::new(Config::new(self.base.switch()))?);
        self.seat.clock.attach(self.clone()).map_err(|_| EBUSY)?;
        let mut state = cx.lock(&self.state);
        state.inbox = Some(inbox);
        state.switch.set_manager(true, now());
        Ok(())
    }

    /// Ends the subnet manager.
    pub(super) fn close_manager(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.seat.clock.shutdown(cx, sleepable);
        self.seat.work.cancel(cx, sleepable);
        let desk = self.seat.desk.lock().take();
        drop(desk);
    }

    /// Puts a datagram for the subnet manager into its inbox, which the caller has locked.
    pub(super) fn post(&self, state: &mut State, mad: &Mad, lrh: Lrh) {
        if let Some(inbox) = &mut state.inbox {
            // One that finds no room is lost.
            let _ = inbox.letters.push_within_capacity((*mad, lrh));
            self.seat.clock.arm(now().nanos());
        }
    }

    /// Has the subnet manager look around: nodes have come, or gone, or are ready to answer.
    pub(crate) fn stir(&self, cx: &mut Cx<'_, Unlocked>) {
        let mut state = cx.lock(&self.state);
        if let Some(inbox) = &mut state.inbox {
            inbox.stirred = true;
            self.seat.clock.arm(now().nanos());
        }
    }

    /// Lets the subnet manager do what it has to.
    fn serve(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let mut guard = self.seat.desk.lock();
        let Some(desk) = &mut *guard else {
            return;
        };
        let mut run = RunQueue::new();
        loop {
            self.read(cx, desk);
            match desk.manager.poll(now()) {
                Next::Send(transmit) => self.mail(cx, irqs, &mut run, &transmit),
                // Others may want the processor.
                Next::Again => {
                    self.seat.clock.arm(now().nanos());
                    break;
                }
                Next::Wait(at) => {
                    desk.tell();
                    match desk.grow() {
                        Ok(true) => continue,
                        Ok(false) => {}
                        Err(_) => pr_warn_once!("no memory for a subnet of this size\n"),
                    }
                    if self.rest(cx, at) {
                        break;
                    }
                }
            }
        }
        run.drain(cx, irqs);
    }

    /// Hands the manager what is in its inbox.
    fn read(&self, cx: &mut Cx<'_, Unlocked>, desk: &mut Desk) {
        let stirred = match &mut cx.lock(&self.state).inbox {
            Some(inbox) => {
                core::mem::swap(&mut inbox.letters, &mut desk.spare);
                core::mem::take(&mut inbox.stirred)
            }
            None => false,
        };
        let now = now();
        for (mad, lrh) in &desk.spare {
            desk.manager.on_mad(mad, *lrh, now);
        }
        desk.spare.clear();
        if stirred {
            desk.manager.request_sweep(now);
        }
    }

    /// Sets the clock of the manager to `at`, unless its inbox is not empty.
    fn rest(&self, cx: &mut Cx<'_, Unlocked>, at: Option<Instant>) -> bool {
        let state = cx.lock(&self.state);
        let inbox = state.inbox.as_ref();
        if inbox.is_some_and(|inbox| inbox.stirred || !inbox.letters.is_empty()) {
            return false;
        }
        if let Some(at) = at {
            self.seat.clock.arm(at.nanos());
        }
        true
    }

    /// Sends a datagram of the manager.
    fn mail(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        transmit: &Transmit,
    ) {
        let Some(header) = smi_header(transmit.lrh, Sl::new(0)) else {
            return;
        };
        let source = Source::Bytes(&transmit.mad);
        let segment = Segment {
            header: &header,
            span: 1,
            source: &source,
            damage: None,
        };
        self.carry(cx, irqs, run, PortNum::MANAGEMENT, segment);
    }
}

impl Expire<1> for Fabric {
    type Pointer = Arc<Self>;
    type Mode = Soft;

    fn expire(this: &Arc<Self>, _cx: Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
        if let Some(queue) = &this.seat.queue {
            // One that is queued already sees what it is woken for.
            let _ = queue.enqueue(&this.seat.work, this.clone());
        }
    }
}

impl Run for Fabric {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        this.serve(&mut cx, sleepable.irqs_on());
    }
}
