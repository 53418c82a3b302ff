// SPDX-License-Identifier: GPL-2.0

//! The subnet manager on port 0 of the switch, with subnet administration.
//!
//! Both are machines without IO ([`proto::sm`], [`proto::sa`]). The manager computes too much for a lock that keeps
//! interrupts off. So they have a worker of their own, and a mutex. What arrives for them waits in an inbox under the
//! lock of the fabric; their clock wakes the worker, at once for a datagram, else when they have asked for it.

use super::smp::{
    gsi_header,
    smi_header, //
};
use super::storage::{
    self,
    Assignments,
    Heap,
    Room, //
};
use super::view::show_subnet;
use super::{
    now,
    Fabric,
    Segment,
    State, //
};
use crate::params;
use crate::payload::Source;
use crate::run::RunQueue;
use kernel::fmt;
use kernel::new_mutex;
use kernel::pr_warn_once;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};
use proto::fabric::switch::Lrh;
use proto::fabric::Mad;
use proto::ratelimit::Ratelimit;
use proto::sa::{
    self,
    Address,
    Agent, //
};
use proto::sm::{
    Config,
    Manager,
    Next, //
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
    Timer, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use wire::header::Header;
use wire::mad::smp::SmState;
use wire::mad::MadHeader;
use wire::{
    Gid,
    PortNum,
    Sl, //
};

/// Datagrams that wait. What is more is lost, and asked for again.
const INBOX: usize = 128;

/// Where requests of others find no more room, so that the manager hears its answers.
const CROWD: usize = INBOX / 2;

/// How often both are polled before the worker lets others run, whatever is asked of them.
const ROUNDS: u32 = 64;

/// Who a datagram is for, and whom it is from.
#[derive(Clone, Copy)]
enum Route {
    /// For the manager, with these addresses.
    Manager(Lrh),
    /// For subnet administration.
    Administration(Address),
}

/// A datagram.
type Letter = (Mad, Route);

/// What the manager and subnet administration have not seen yet.
pub(super) struct Inbox {
    letters: KVVec<Letter>,
    /// Something has changed that no trap may tell of.
    stirred: bool,
    /// The partitions, where they have changed.
    partitions: Option<Assignments>,
}

impl Inbox {
    /// Whether there is anything that has not been seen.
    fn is_waiting(&self) -> bool {
        self.stirred || self.partitions.is_some() || !self.letters.is_empty()
    }
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
    agent: KBox<Agent<Heap>>,
    config: Config,
    room: Room,
    /// The manager has taken over from one with as much room, and no sweep since has found enough.
    is_renewed: bool,
    /// The partitions, if any were told.
    partitions: Option<Assignments>,
    /// Takes the place of the inbox while its letters are read.
    spare: KVVec<Letter>,
    /// What the log says the manager does.
    told: SmState,
    /// How often it may say so.
    lines: Ratelimit,
    /// The sweeps that have been looked at.
    sweeps: u32,
    /// When the last of them was over.
    swept: Option<Instant>,
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
            agent: storage::administration()?,
            config,
            room: Room::SMALL,
            is_renewed: false,
            partitions: None,
            spare: KVVec::with_capacity(INBOX, GFP_KERNEL)?,
            told: SmState::Discovering,
            lines: Ratelimit::default(),
            sweeps: 0,
            swept: None,
        })
    }

    /// The room for the next manager, after a sweep that found none. As much as there was will do if half of it is
    /// kept for nodes that have gone: a new manager does not know them. If it finds no room either, that was not why.
    fn next_room(&self) -> Option<Room> {
        if !self.is_renewed && self.manager.absent_nodes() >= self.room.nodes() / 2 {
            return Some(self.room);
        }
        self.room.next()
    }

    /// Makes a new manager if a sweep has found the storage of this one too small. It takes over what the ports know. If it
    /// may not be larger, this one has to do. Returns whether there is more to do now.
    fn grow(&mut self) -> Result<bool> {
        let report = self.manager.report();
        let is_new = core::mem::replace(&mut self.sweeps, report.sweeps) != report.sweeps;
        if is_new {
            self.swept = Some(now());
        }
        if !is_new {
            return Ok(false);
        }
        if !report.no_room {
            self.is_renewed = false;
            return Ok(false);
        }
        let Some(room) = self.next_room() else {
            self.manager.make_do(now());
            return Ok(true);
        };
        let mut manager = storage::manager(self.config, room)?;
        manager.succeed(&self.manager);
        self.manager = manager;
        if let Some(list) = self.partitions.clone() {
            self.manager.set_partitions(list, now());
        }
        self.agent.renew();
        self.is_renewed = self.room == room;
        self.room = room;
        self.sweeps = 0;
        Ok(true)
    }

    /// The headers of a datagram of subnet administration.
    fn header_to(&self, to: &Address) -> Option<Header> {
        let gid = Gid::from_parts(self.config.gid_prefix, self.config.guid);
        gsi_header(self.manager.lid(), gid, to)
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
        if self.lines.admit(now()).is_some() {
            let switch = self.config.guid.get();
            pr_info!("switch {switch:#018x}: {words}\n");
        }
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
            partitions: None,
        };
        let config = Config {
            gives_way: true,
            ..Config::new(self.base.switch())
        };
        *self.seat.desk.lock() = Some(Desk::new(config)?);
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

    /// Puts a datagram for the subnet manager into the inbox, which the caller has locked.
    pub(super) fn post(&self, state: &mut State, mad: &Mad, lrh: Lrh) {
        let is_answer = MadHeader::parse(mad).is_ok_and(|header| header.is_response());
        let room = if is_answer { INBOX } else { CROWD };
        self.put(state, (*mad, Route::Manager(lrh)), room);
    }

    /// Puts a datagram for subnet administration into the inbox, which the caller has locked.
    pub(super) fn post_request(&self, state: &mut State, mad: &Mad, from: Address) {
        self.put(state, (*mad, Route::Administration(from)), CROWD);
    }

    /// Writes down what the subnet manager knows. May sleep.
    pub(super) fn show_manager(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.seat.desk.lock() {
            Some(desk) => show_subnet(f, &desk.manager, desk.swept),
            None => writeln!(f, "state none"),
        }
    }

    /// Puts a letter into the inbox if there are fewer than `room`. One that finds none is lost.
    fn put(&self, state: &mut State, letter: Letter, room: usize) {
        if let Some(inbox) = &mut state.inbox {
            if inbox.letters.len() < room {
                let _ = inbox.letters.push_within_capacity(letter);
            }
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

    /// Tells the subnet manager who is in which partition.
    pub(crate) fn set_partitions(&self, cx: &mut Cx<'_, Unlocked>, list: Assignments) {
        let mut state = cx.lock(&self.state);
        let old = match &mut state.inbox {
            Some(inbox) => inbox.partitions.replace(list),
            None => None,
        };
        self.seat.clock.arm(now().nanos());
        drop(state);
        drop(old);
    }

    /// Lets the subnet manager and subnet administration do what they have to, for a while.
    fn serve(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let mut guard = self.seat.desk.lock();
        let Some(desk) = &mut *guard else {
            return;
        };
        RunQueue::with(cx, irqs, |cx, run| {
            if !(0..ROUNDS).any(|_| self.round(cx, irqs, run, desk)) {
                self.seat.clock.arm(now().nanos());
            }
        });
    }

    /// Polls both. Returns whether there is nothing more to do before the clock strikes.
    fn round(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        desk: &mut Desk,
    ) -> bool {
        self.read(cx, desk);
        let manager = match desk.manager.poll(now()) {
            Next::Send(transmit) => {
                if let Some(header) = smi_header(transmit.lrh, Sl::new(0)) {
                    self.mail(cx, irqs, run, &header, &transmit.mad);
                }
                return false;
            }
            Next::Again => None,
            Next::Wait(at) => Some(at),
        };
        let agent = match desk.agent.poll(&mut desk.manager, now()) {
            sa::Next::Send(transmit) => {
                if let Some(header) = desk.header_to(&transmit.to) {
                    self.mail(cx, irqs, run, &header, &transmit.mad);
                }
                return false;
            }
            sa::Next::Again => None,
            sa::Next::Wait(at) => Some(at),
        };
        let (Some(manager), Some(agent)) = (manager, agent) else {
            return false;
        };
        desk.tell();
        match desk.grow() {
            Ok(true) => return false,
            Ok(false) => {}
            Err(_) => {
                pr_warn_once!("no memory for a subnet of this size\n");
                desk.manager.make_do(now());
                return false;
            }
        }
        self.rest(cx, [manager, agent].into_iter().flatten().min())
    }

    /// Hands the manager what is in its inbox.
    fn read(&self, cx: &mut Cx<'_, Unlocked>, desk: &mut Desk) {
        let (stirred, partitions) = match &mut cx.lock(&self.state).inbox {
            Some(inbox) => {
                core::mem::swap(&mut inbox.letters, &mut desk.spare);
                (core::mem::take(&mut inbox.stirred), inbox.partitions.take())
            }
            None => (false, None),
        };
        let now = now();
        for (mad, route) in &desk.spare {
            match route {
                Route::Manager(lrh) => desk.manager.on_mad(mad, *lrh, now),
                Route::Administration(from) => desk.agent.on_gmp(mad, *from, now),
            };
        }
        desk.spare.clear();
        if stirred {
            desk.manager.request_sweep(now);
        }
        if let Some(list) = partitions {
            desk.partitions = Some(list.clone());
            desk.manager.set_partitions(list, now);
        }
    }

    /// Sets the clock of the manager to `at`, unless its inbox is not empty.
    fn rest(&self, cx: &mut Cx<'_, Unlocked>, at: Option<Instant>) -> bool {
        let state = cx.lock(&self.state);
        let inbox = state.inbox.as_ref();
        if inbox.is_some_and(Inbox::is_waiting) {
            return false;
        }
        if let Some(at) = at {
            self.seat.clock.arm(at.nanos());
        }
        true
    }

    /// Sends a datagram from port 0.
    fn mail(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        header: &Header,
        mad: &Mad,
    ) {
        let source = Source::Bytes(mad);
        let segment = Segment {
            header,
            span: 1,
            source: &source,
            damage: None,
            hops: 0,
        };
        self.carry(cx, irqs, run, PortNum::MANAGEMENT, segment);
    }
}

impl Expire<1> for Fabric {
    type Pointer = Arc<Self>;

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
