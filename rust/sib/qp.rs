// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the machine of the transport with its lock, its queues, its timer and its clients.
//!
//! What the machine decides is in [`proto::transport`]. Here are the ways into it:
//!
//! - [`mod@create`]: making and removing queue pairs.
//! - [`mod@modify`]: attributes and states.
//! - [`paths`]: alternate paths that the owner knows nothing of.
//! - [`post`]: work requests.
//! - [`transmit`]: segments that leave.
//! - [`local`]: operations that are for this side alone.
//! - [`fail`]: errors that the device finds, and the end of a device.
//! - [`absence`]: memory that is not there when it is needed.
//! - [`Qp::receive`], [`Expire`]: segments that arrive, and time that passes.
//!
//! Each of them locks the queue pair, calls the machine with [`mod@env`], and unlocks. What the machine
//! has to tell its clients is delivered afterwards by [`Qp::report`], with no lock held.

mod absence;
mod create;
mod env;
mod fail;
mod flight;
mod follow;
mod leave;
mod local;
mod modify;
mod paths;
mod post;
pub(crate) mod recv;
mod reply;
mod send;
mod transmit;

pub(crate) use absence::Room;
pub(crate) use create::{
    create,
    destroy, //
};
pub(crate) use fail::{
    fail_bereft,
    flush_users, //
};
pub(crate) use follow::follow_all;
pub(crate) use modify::{
    modify,
    query, //
};
pub(crate) use paths::{
    load_path,
    path_state, //
};
pub(crate) use post::{
    doorbell,
    post_recv,
    post_send,
    posted, //
};

use crate::{
    breaks::{
        Breaks,
        Since, //
    },
    counters::{
        self,
        Counter, //
    },
    cq::Cq,
    fabric::Segment,
    hca::Hca,
    partition,
    payload::Source,
    pd::Pd,
    relief::Relief,
    run::RunQueue,
    srq::Srq,
    steering::Course, //
};
use absence::Absence;
use env::{
    Events,
    Surroundings,
    Withheld, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use proto::{
    time::Instant,
    transport::{
        self as machine,
        QpConfig,
        QpState,
        Resource,
        RxDrop,
        SendEntry, //
    }, //
};
use rdma::{
    ib::{
        Detail,
        QpAttr,
        QpCap,
        QpRef,
        QpType,
        QpUpcall, //
    },
    mem::BulkVec,
    sync::{
        Atomic,
        Cx,
        Held,
        IrqsOn,
        LevelLock,
        Off,
        QpLock,
        Sleepable,
        Unlocked, //
    },
    timer::{
        Expire,
        Timer, //
    },
    trace,
    work::{
        Run,
        Work, //
    }, //
};
use recv::{
    RecvEntry,
    RecvQueue, //
};
use reply::Reply;
use send::SendQueue;
use transmit::Transmitter;
use wire::PortNum;

/// The machine with the storage that the driver lends it.
type Machine = machine::Qp<BulkVec<SendEntry>, BulkVec<Resource>>;

/// How often a user's receive queue is looked at while its queue pair is in error, in nanoseconds:
/// librxe posts receives without telling the kernel, and they have to be flushed.
const FLUSH_INTERVAL_NS: u64 = 5_000_000;

/// How often that time is doubled when nothing is found, up to 160 ms: a program may leave thousands of
/// queue pairs in error.
const FLUSH_DOUBLINGS: u32 = 5;

/// A segment that has come, and what is known of it.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// The segment.
    pub(crate) segment: Segment<'a>,
    /// The port that it came by.
    pub(crate) port: PortNum,
    /// Index of its P_Key in the table of that port, where it is not the queue pair's.
    pub(crate) pkey_index: Option<u16>,
}

/// Where the alternate port, and that before the last migration, stand in [`Qp::port`].
const ALTERNATE_PORT_SHIFT: u32 = 8;
const FORMER_PORT_SHIFT: u32 = 16;
const PORT_MASK: u32 = 0xff;

/// What the lock of a queue pair guards.
struct State {
    machine: Machine,
    sends: SendQueue,
    recvs: RecvQueue,
    /// The receive work request that the machine has taken and not completed.
    entry: RecvEntry,
    absence: Absence,
    events: Events,
    /// Messages that were posted since the last completion, but of a datagram, or request of the peer.
    unanswered: u32,
    withheld: Withheld,
    /// What it takes to transmit; somebody who does has taken it.
    transmitter: Option<KBox<Transmitter>>,
    /// Whether what leaves goes by UDP, as far as who transmits has seen.
    is_far: bool,
    /// Whether requests of which nothing has been sent are left to the convoy, which the queue pair is in, or is about
    /// to join.
    in_convoy: bool,
    /// Whether nothing more leaves for now: its owner is about to put it out of use.
    halted: bool,
    /// Who sends what leaves the host.
    course: Course,
    /// The attributes that the client set, for queries.
    attr: QpAttr,
    /// When the timer is set to expire.
    alarm: Option<u64>,
    /// How often in a row the timer found nothing to flush.
    idle: u32,
    /// Its owner has set an alternate path or a state of migration since it was in RESET.
    is_managed: bool,
    /// The connection manager has loaded an alternate path since its owner has named one, or it was in RESET.
    is_lent: bool,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    pub(crate) hca: Held<Hca>,
    pd: Arc<Pd>,
    send_cq: Held<Cq>,
    recv_cq: Held<Cq>,
    srq: Option<Held<Srq>>,
    /// It is of a program.
    user: bool,
    upcall: QpUpcall,
    ty: QpType,
    sig_all: bool,
    cap: QpCap,
    qpn: Atomic<u32>,
    /// When it came into use, to see whether a queue of it has broken meanwhile.
    since: Since,
    /// Tells it from all other queue pairs that its protection domain ever had.
    serial: u64,
    /// Its port, and behind that the one of the alternate path; 0 for none.
    port: Atomic<u32>,
    #[pin]
    state: LevelLock<State, QpLock>,
    #[pin]
    work: Work<Qp>,
    /// It waits in the convoy.
    waits: Atomic<bool>,
    #[pin]
    memory: Work<Qp, { absence::WORK }>,
    #[pin]
    timer: Timer<Qp>,
}

impl State {
    /// Whether there was a completion, or a request of the peer, since the last doorbell.
    fn is_answered(&self) -> bool {
        self.unanswered == 0
    }

    /// Calls `f` with the machine and its surroundings.
    fn with_machine<R>(
        &mut self,
        qp: &Qp,
        cx: Cx<'_, QpLock, Off>,
        source: Source<'_>,
        f: impl FnOnce(&mut Machine, &mut Surroundings<'_>) -> R,
    ) -> R {
        let withhold = self.is_busy();
        self.with_machine_and(withhold, qp, cx, source, f)
    }

    /// The same; `withhold` tells whether completions of sends have to wait.
    fn with_machine_and<R>(
        &mut self,
        withhold: bool,
        qp: &Qp,
        cx: Cx<'_, QpLock, Off>,
        source: Source<'_>,
        f: impl FnOnce(&mut Machine, &mut Surroundings<'_>) -> R,
    ) -> R {
        let mut surroundings = Surroundings {
            qp,
            cx,
            sends: &mut self.sends,
            recvs: &mut self.recvs,
            entry: &mut self.entry,
            absence: &mut self.absence,
            events: &mut self.events,
            unanswered: &mut self.unanswered,
            withheld: &mut self.withheld,
            attr: &mut self.attr,
            withhold,
            source,
            port: PortNum::MANAGEMENT,
            pkey_index: None,
        };
        f(&mut self.machine, &mut surroundings)
    }

    /// Gives the machine a segment that has come, unless it has to wait. Returns why it was dropped, if so.
    fn accept(
        &mut self,
        withhold: bool,
        qp: &Qp,
        mut cx: Cx<'_, QpLock, Off>,
        arrival: &Arrival<'_>,
    ) -> Option<RxDrop> {
        if !self.absence.is_waiting() {
            let outcome = self.offer(withhold, qp, cx.reborrow(), arrival);
            match outcome {
                Err(reason) if reason.waits() => self.absence.refuse(reason),
                _ => return outcome.err(),
            }
        }
        let now = crate::fabric::now();
        let segment = &arrival.segment;
        let kept = self.with_machine_and(withhold, qp, cx, *segment.source, |machine, env| {
            env.port = arrival.port;
            machine.defer(now, segment.header, segment.span, env)
        });
        if kept && !self.absence.keep(qp, arrival) {
            self.machine.lose(segment.header);
        }
        None
    }

    /// Gives the machine a segment.
    fn offer(
        &mut self,
        withhold: bool,
        qp: &Qp,
        cx: Cx<'_, QpLock, Off>,
        arrival: &Arrival<'_>,
    ) -> Result<(), RxDrop> {
        let segment = &arrival.segment;
        let now = crate::fabric::now();
        let len = segment.source.len() as u32;
        if !segment.header.bth.opcode.is_response() {
            self.unanswered = 0;
        }
        self.absence.taking.forget();
        // Taken or not, it may have an answer: a duplicate its acknowledgement, a gap its NAK.
        let outcome = self.with_machine_and(withhold, qp, cx, *segment.source, |machine, env| {
            env.port = arrival.port;
            env.pkey_index = arrival.pkey_index;
            machine.on_packet(now, segment.header, segment.span, len, env)
        });
        if outcome != Err(RxDrop::Absent) {
            self.absence.taking.forget();
        }
        let counter = counters::of_packet(segment.header, outcome, qp.ty);
        qp.note_at(arrival.port, counter);
        outcome
    }
}

impl Qp {
    /// Its number.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// Its port; none before the client has set it.
    pub(crate) fn port(&self) -> PortNum {
        PortNum::new((self.port.load(Relaxed) & PORT_MASK) as u8)
    }

    /// Whether what comes by `port` may be for it: by its own, or by that of the alternate path.
    pub(crate) fn listens_at(&self, port: PortNum) -> bool {
        let ports = self.port.load(Relaxed);
        let port = u32::from(port.get());
        port == ports & PORT_MASK || port == ports.wrapping_shr(ALTERNATE_PORT_SHIFT) & PORT_MASK
    }

    /// Whether it has left `port` for another one. What still comes there is not taken, but it is known what it is.
    pub(crate) fn has_left(&self, port: PortNum) -> bool {
        let former = self.port.load(Relaxed).wrapping_shr(FORMER_PORT_SHIFT);
        former == u32::from(port.get())
    }

    /// Takes over its ports from its attributes.
    fn set_ports(&self, config: &QpConfig) {
        let alternate = config.alternate.map_or(0, |alternate| alternate.port.get());
        let former = self.port.load(Relaxed) & PORT_MASK.wrapping_shl(FORMER_PORT_SHIFT);
        let ports = former
            | u32::from(alternate).wrapping_shl(ALTERNATE_PORT_SHIFT)
            | u32::from(config.port.get());
        self.port.store(ports, Relaxed);
    }

    /// The port of the alternate path is the only one from now on.
    fn take_alternate_port(&self) {
        let ports = self.port.load(Relaxed);
        let former = (ports & PORT_MASK).wrapping_shl(FORMER_PORT_SHIFT);
        let taken = ports.wrapping_shr(ALTERNATE_PORT_SHIFT) & PORT_MASK;
        self.port.store(former | taken, Relaxed);
    }

    /// Counts what has happened to this queue pair, and traces it if something will be sent again.
    #[inline]
    fn note(&self, counter: Option<Counter>) {
        self.note_at(self.port(), counter);
    }

    /// As [`Self::note`], of a packet that has come by `port`.
    #[inline]
    fn note_at(&self, port: PortNum, counter: Option<Counter>) {
        let Some(counter) = counter else { return };
        if let Some(counters) = self.hca.counters(port) {
            counters.count(counter);
        }
        if let Some(cause) = counter.cause() {
            trace::retry(self.qpn(), cause);
        }
    }

    /// What completions of kernel clients refer to.
    pub(crate) fn reference(&self) -> Option<QpRef> {
        (!self.user).then(|| self.upcall.qp_ref())
    }

    /// The bits of a LID that tell the ways to its port apart.
    pub(crate) fn path_mask(&self) -> u8 {
        let lmc = u32::from(self.hca.view(self.port()).lmc);
        1u8.wrapping_shl(lmc).wrapping_sub(1)
    }

    /// Waits until its consumer in the kernel has handled the completions that it was told of.
    pub(crate) fn flush(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        for cq in [&self.send_cq, &self.recv_cq] {
            cq.flush(cx, sleepable);
        }
    }

    /// Whether a queue of it has broken since it came into use.
    fn is_bereft(&self) -> bool {
        let srq = self.srq.as_ref().map(|srq| &srq.mark);
        [Some(&self.send_cq.mark), Some(&self.recv_cq.mark), srq]
            .into_iter()
            .flatten()
            .any(|mark| self.since.has_broken(mark))
    }

    /// What the keys of its receives are of.
    fn recv_pd(&self) -> &Pd {
        match &self.srq {
            Some(srq) => &srq.pd,
            None => &self.pd,
        }
    }

    /// Has a worker transmit.
    pub(crate) fn schedule(qp: Held<Self>) {
        if let Some(pointer) = qp.try_clone() {
            // A queued item runs after this, so a refusal is as good.
            let _ = qp.hca.queue.enqueue(&qp.work, pointer);
        }
    }

    /// Whether it does not wait in the convoy yet; it does from now on. To be called under the lock of that.
    pub(crate) fn boards(&self) -> bool {
        let waits = self.waits.load(Relaxed);
        self.waits.store(true, Relaxed);
        !waits
    }

    /// It does not wait any more. To be called under the same lock, before it transmits: what is posted from then on
    /// may not be seen.
    pub(crate) fn alights(&self) {
        self.waits.store(false, Relaxed);
    }

    /// Takes a segment that has come for this queue pair. The answer is up to `run`.
    pub(crate) fn receive(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        arrival: Arrival<'_>,
    ) {
        Self::receive_from(qp, cx, irqs, run, arrival, None);
    }

    /// The same from a queue pair of this host: an answer that is short is given back at once.
    fn receive_from(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        arrival: Arrival<'_>,
        asker: Option<(&Held<Self>, &mut Reply)>,
    ) {
        let (dropped, has_output, wait, events) = {
            let mut guard = cx.lock(&qp.state);
            let (state, mut cx) = guard.split();
            let dropped = state.accept(state.is_busy(), qp, cx.reborrow(), &arrival);
            if let Some((asker, reply)) = asker {
                state.reply(qp, &mut cx, asker, reply);
            }
            qp.watch(state);
            let events = core::mem::take(&mut state.events);
            // Who transmits now looks for more before he ends.
            let has_output = state.has_output() && !state.is_busy();
            let is_response = arrival.segment.header.bth.opcode.is_response();
            if is_response && state.machine.backlog() > 1 {
                state.course.go_on();
            }
            let is_left = has_output
                && is_response
                && state.is_sent_here()
                && Relief::take_over(&mut cx, qp, crate::fabric::now());
            (
                dropped,
                has_output && !is_left,
                state.absence.wait(),
                events,
            )
        };
        if let Some(reason) = dropped {
            partition::refused(cx, &qp.hca, arrival.port, arrival.segment.header, reason);
        }
        Self::attend(qp, wait);
        if has_output {
            run.push(qp);
        }
        Self::deliver(qp, cx, irqs, events);
    }

    /// Tells details.
    pub(crate) fn show(&self, cx: &mut Cx<'_, Unlocked>, detail: &mut Detail<'_>) -> Result {
        let (progress, recvs, limits) = {
            let state = cx.lock(&self.state);
            let config = state.machine.config();
            let limits = (config.max_unacked, config.reminder_floor.nanos());
            (state.machine.progress(), state.recvs.len(), limits)
        };
        let unacked = progress.sent_end.sub(progress.acked);
        detail.number(c"sends", u64::from(progress.sends))?;
        detail.number(c"begun", u64::from(progress.begun))?;
        detail.number(c"fetches", u64::from(progress.fetches))?;
        detail.number(c"acked_psn", u64::from(progress.acked.get()))?;
        detail.number(c"unacked_pkts", u64::from(unacked))?;
        detail.number(c"max_unacked_pkts", u64::from(limits.0))?;
        detail.number(c"reminder_ns", limits.1)?;
        detail.number(c"retries_left", u64::from(progress.retries_left))?;
        detail.number(c"rnr_retries_left", u64::from(progress.rnr_retries_left))?;
        detail.number(c"recvs", u64::from(recvs))
    }

    /// Sets the timer to what the machine waits for.
    #[inline]
    fn watch(&self, state: &mut State) {
        let flushing = state.machine.state() == QpState::Err && self.user && self.srq.is_none();
        let deadline = match state.machine.next_deadline() {
            Some(deadline) => deadline.nanos(),
            None if flushing => {
                let doublings = state.idle.min(FLUSH_DOUBLINGS);
                rdma::time::now_ns().saturating_add(FLUSH_INTERVAL_NS.wrapping_shl(doublings))
            }
            None => return,
        };
        // A timer that expires early finds nothing due and is set again: cheaper than moving it with
        // every acknowledgement.
        if state.alarm.is_none_or(|alarm| deadline < alarm) {
            state.alarm = Some(deadline);
            self.timer.arm(deadline);
        }
    }

    /// Whether an answer seems to be late, while what was sent may still wait for another processor.
    fn is_held_up(&self, cx: &mut Cx<'_, Unlocked>, now: Instant) -> bool {
        let (address, cpu) = {
            let state = cx.lock(&self.state);
            match state.course.of_requests() {
                Some(cpu) if state.machine.would_remind(now) => {
                    (self.address(state.machine.config()), cpu)
                }
                _ => return false,
            }
        };
        self.hca.is_waited_for(cx, &address, cpu)
    }

    /// Tells the clients what has happened.
    fn report(qp: &Held<Self>, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let events = core::mem::take(&mut cx.lock(&qp.state).events);
        Self::deliver(qp, cx, irqs, events);
    }

    /// Tells the clients of `events`, and that there are completions. A queue pair with a queue in error goes to
    /// the error state: it may have come to that when it was in error already.
    fn deliver(qp: &Held<Self>, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, events: Events) {
        qp.tell(cx, irqs, events);
        if events.failed {
            Self::fail_and_flush(qp, cx);
        }
    }

    /// The same, whatever state its queues are in.
    fn tell(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, events: Events) {
        if !events.is_empty() {
            events.for_each(|event| self.upcall.event(cx, event));
            if events.heard {
                self.upcall.heard(cx);
            }
        }
        let breaks = &self.hca.breaks;
        let mut broken = false;
        for cq in [&self.send_cq, &self.recv_cq] {
            broken |= cq.notify(cx, irqs, breaks);
        }
        if let Some(srq) = &self.srq {
            broken |= srq.notify(cx, irqs, breaks);
        }
        if broken {
            Breaks::follow(&self.hca);
        }
    }
}

impl Run for Qp {
    type Pointer = Held<Qp>;

    fn run(this: Held<Qp>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let irqs = sleepable.irqs_on();
        RunQueue::with(&mut cx, irqs, |cx, run| Qp::transmit(&this, cx, irqs, run));
        Qp::await_key(&this, &mut cx, sleepable);
    }
}

impl Expire for Qp {
    type Pointer = Held<Qp>;

    fn expire(this: &Held<Qp>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let now = Instant::from_nanos(rdma::time::now_ns());
        let held_up = this.is_held_up(&mut cx, now);
        {
            let mut guard = cx.lock(&this.state);
            let (state, cx) = guard.split();
            state.alarm = None;
            let in_error = state.machine.state() == QpState::Err;
            state.idle = if in_error && state.recvs.len() == 0 {
                state.idle.saturating_add(1)
            } else {
                0
            };
            if held_up {
                state.machine.put_off(now);
            }
            state.with_machine(this, cx, Source::Bytes(&[]), |machine, env| {
                let lapse = machine.on_timeout(now, env);
                this.note(counters::of_lapse(lapse));
            });
            this.watch(state);
        }
        Qp::report(this, &mut cx, irqs);
        RunQueue::with(&mut cx, irqs, |cx, run| Qp::transmit(this, cx, irqs, run));
    }
}
