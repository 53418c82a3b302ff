// SPDX-License-Identifier: GPL-2.0

//! Sending what a queue pair has to send.
//!
//! Segments leave in order since one context at a time has the [`Transmitter`] of a queue pair; another one
//! that comes meanwhile goes, as the first looks for more before it gives the transmitter back. Between two
//! segments the lock is free, so that answers get in. While a segment is on its way, completions of sends
//! are withheld.
//!
//! Acknowledgements alone may be overtaken: whoever gets one after a later answer, or after requests, has lost nothing
//! by that. So the transmitter is given back before they leave the host, and a program that answers the message meanwhile
//! does not have to wait.

use super::{
    absence::Wait,
    env::Events,
    flight::Flight,
    local::Executed,
    reply::Reply,
    Arrival,
    Qp,
    State, //
};
use crate::{
    convoy::SEATS,
    fabric::{
        Address,
        Goal,
        Lane,
        Order,
        Segment, //
    },
    payload::Source,
    run::RunQueue, //
};
use kernel::cpu::CpuId;
use kernel::prelude::*;
use proto::transport::{
    self as machine,
    PlaceError,
    QpConfig,
    TxSegment,
    WcStatus, //
};
use rdma::ib::QpType;
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Off,
    QpLock,
    Unlocked, //
};
use wire::header::Header;
use wire::opcode::{
    Operation,
    Service, //
};

/// Segments after which completions are delivered although there is more to send.
const BURST: u32 = 32;

/// Packets that an operation of this side counts as. The budget of a call chain lasts for 256, which are executed and
/// complete with interrupts off.
const LOCAL_COST: u32 = 4;

/// What a context needs to transmit, and nobody else has meanwhile.
pub(super) struct Transmitter {
    /// The segment to send.
    segment: TxSegment,
    pub(super) flight: Flight,
    /// The way of segments.
    pub(super) lane: Lane,
    /// Whether `lane` has just been looked for, and is used whatever has happened since but a migration.
    fresh: bool,
    /// The end of `lane`, from the first segment to the last.
    end: Option<Goal>,
    /// Whether the last segment has left by UDP for a peer in this kernel.
    inside: bool,
    /// Whether the last datagram, which has a way of its own, waits to leave by UDP.
    departs: bool,
    /// Whether nothing follows the segment, so that an acknowledgement is wanted at once.
    last: bool,
    /// Whether the next segment has to stay behind what was sent: that is more than acknowledgements.
    binds: bool,
    /// That, or another short answer.
    pub(super) reply: Reply,
    /// Whether an operation of this side has to wait.
    waits: bool,
    /// Whether the segment to send has to wait for its memory.
    absent: bool,
    /// Whether an answer that came at once has to wait, and nobody sees to that yet.
    pub(super) unattended: bool,
}

/// What a look at the machine has led to.
enum Step {
    /// The way to this address is to be found first.
    Find(KBox<Transmitter>, Address),
    /// There is a segment to send.
    Send(KBox<Transmitter>),
    /// What was sent is to leave first: who has the transmitter next may be another call chain.
    Flush(KBox<Transmitter>),
    /// The transmitter has been given back.
    End {
        /// There is more to send, and somebody else has to do that.
        exhausted: bool,
        /// There is, but its memory is not.
        absent: bool,
        /// What an answer waits for.
        wait: Wait,
        /// What the clients are to be told.
        events: Events,
    },
}

impl Transmitter {
    /// One that has sent nothing yet. May sleep.
    pub(super) fn new() -> Result<KBox<Self>> {
        // Too large to be made on the stack.
        let transmitter = init!(Self {
            segment: TxSegment {
                header: Header::default(),
                span: 1,
                payload: machine::Payload::None,
            },
            flight <- Flight::empty(),
            lane: Lane::unknown(),
            fresh: false,
            end: None,
            inside: false,
            departs: false,
            last: false,
            binds: false,
            reply <- Reply::none(),
            waits: false,
            absent: false,
            unattended: false,
        });
        KBox::init(transmitter, GFP_KERNEL_ACCOUNT)
    }

    /// Fetches the next segment; false if there is none, or not now. Work requests whose payload is out of reach fail.
    fn fetch(
        &mut self,
        qp: &Qp,
        state: &mut State,
        cx: &mut Cx<'_, QpLock, Off>,
        run: &mut RunQueue,
    ) -> bool {
        self.absent = false;
        // What waited for memory is polled again, or is not sent any more: then nobody has that come, and it is not to
        // hold its region.
        state.absence.sending.forget();
        loop {
            let now = crate::fabric::now();
            let polled = state.machine.poll_transmit(now, &self.lane.limits);
            let Some(segment) = &polled else {
                match state.execute_local(qp, cx) {
                    Executed::Done => {
                        run.charge(LOCAL_COST);
                        if !run.is_exhausted() {
                            continue;
                        }
                    }
                    executed => self.waits = executed == Executed::Waits,
                }
                return false;
            };
            self.segment = *segment;
            let payload = self.segment.payload;
            let loaded = self
                .flight
                .load(qp, state, cx, &payload)
                .and_then(|()| self.seal().map_err(PlaceError::from));
            let Err(error) = loaded else {
                return true;
            };
            self.flight.clear();
            let PlaceError::Failed(status) = error else {
                state.machine.put_back(&self.segment.payload);
                self.absent = true;
                return false;
            };
            state.with_machine(qp, cx.reborrow(), Source::Bytes(&[]), |machine, env| {
                machine.gather_failed(&payload, status, env);
            });
        }
    }

    /// Fills in the lengths of a segment that is a packet.
    fn seal(&mut self) -> Result<(), WcStatus> {
        if self.segment.span != 1 {
            return Ok(());
        }
        let len = self.segment.payload.len() as usize;
        let sealed = self.segment.header.set_payload_len(len);
        sealed.map_err(|_| WcStatus::LocLenErr)
    }

    /// Sends the segment: along the lane if that is good for it, else the long way.
    fn send(
        &mut self,
        qp: &Held<Qp>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        let segment = Segment {
            header: &self.segment.header,
            span: self.segment.span,
            source: &self.flight.source(),
            damage: None,
            hops: 0,
        };
        if self.end.is_none() {
            self.end = qp.hca.goal(cx, &self.lane);
        }
        let goal = self.end.as_ref();
        let goal = goal.filter(|_| self.lane.fits(&segment));
        self.inside = matches!(goal, Some(Goal::Udp(way, _)) if way.is_inside());
        match goal {
            Some(Goal::Qp(end)) => {
                if qp.hca.count_along(&self.lane, end, &segment) {
                    let arrival = Arrival {
                        segment,
                        port: self.lane.far_port().unwrap_or_default(),
                        pkey_index: None,
                    };
                    let fetches = self.segment.header.bth.opcode.operation().is_fetch();
                    let asker = (self.last || fetches).then_some((qp, &mut self.reply));
                    Qp::receive_from(end, cx, irqs, run, arrival, asker);
                }
                return;
            }
            Some(Goal::Udp(way, reader)) => {
                let way = (way, *reader);
                qp.hca.send_along(cx, irqs, run, &self.lane, way, &segment);
            }
            // The port of the queue pair may be another one meanwhile, and its way.
            None => {
                qp.hca.transmit(cx, irqs, run, self.lane.port(), segment);
                self.departs = matches!(qp.ty, QpType::Ud) && run.is_loaded();
            }
        }
        // Before the last of it leaves: the peer may invalidate a key that it has the data of.
        self.flight.clear();
        let is_ack = self.segment.header.bth.opcode.operation() == Operation::Ack;
        self.binds |= !is_ack;
        if self.last && self.binds {
            run.end(cx, irqs);
        }
    }
}

impl State {
    /// Whether there is something to send now.
    pub(super) fn has_output(&self) -> bool {
        let stays = self.halted || self.in_convoy && self.machine.has_only_new();
        !stays && self.machine.has_output()
    }

    /// Whether somebody transmits to a peer elsewhere, and that is answers: there is no request to send, and none that
    /// is not acknowledged.
    pub(super) fn only_answers(&self) -> bool {
        self.is_far && self.is_busy() && self.machine.backlog() == 0 && self.machine.is_all_acked()
    }

    /// Whether there are requests, and this processor sends those that others transmit.
    pub(super) fn is_sent_here(&self) -> bool {
        let inside = self.transmitter.as_ref().is_some_and(|own| own.inside);
        inside && self.machine.backlog() > 0 && self.course.of_requests() == Some(CpuId::current())
    }

    /// The processor that sends a segment that leaves the host, if that is another one; `alone` says that before it all
    /// was acknowledged.
    fn steer(&mut self, own: &Transmitter, alone: bool, run: &RunQueue) -> Option<CpuId> {
        let bth = &own.segment.header.bth;
        if !own.lane.is_far() || bth.opcode.service() != Service::Rc {
            return None;
        }
        if bth.opcode.is_request() {
            self.course.of_request(run.steering(), alone)
        } else {
            // One of a single packet leaves with others, if at all.
            self.course
                .of_answer(run.is_hurried() && own.segment.span > 1)
        }
    }

    /// Whether somebody transmits.
    pub(super) fn is_busy(&self) -> bool {
        self.transmitter.is_none()
    }

    /// Finds out what to do next; gives the transmitter back if that is nothing.
    fn step(
        &mut self,
        mut own: KBox<Transmitter>,
        qp: &Qp,
        cx: &mut Cx<'_, QpLock, Off>,
        run: &mut RunQueue,
    ) -> Step {
        own.flight.clear();
        self.take_reply(&mut own, qp, cx);
        let address = qp.address(self.machine.config());
        self.is_far = own.lane.is_far() || own.departs;
        let fresh = core::mem::take(&mut own.fresh) && own.lane.led_to(&address);
        if !fresh && !own.lane.leads_to(&address) {
            return Step::Find(own, address);
        }
        let alone = self.machine.is_all_acked();
        if self.has_output() && !run.is_exhausted() && own.fetch(qp, self, cx, run) {
            own.last = !self.has_output();
            run.charge(own.segment.span);
            run.order(Order {
                more: self.machine.backlog(),
                cpu: self.steer(&own, alone, run),
            });
            return Step::Send(own);
        }
        if own.binds && run.is_loaded() {
            return Step::Flush(own);
        }
        own.binds = false;
        own.end = None;
        // To find nothing costs nothing, and is no reason for somebody else to look.
        let exhausted = run.is_exhausted() && self.has_output();
        let waits = core::mem::take(&mut own.waits);
        self.absence.stall(waits);
        let absent = core::mem::take(&mut own.absent);
        let wait = match core::mem::take(&mut own.unattended) {
            true => self.absence.wait(),
            false => Wait::Nothing,
        };
        self.transmitter = Some(own);
        self.withheld.release(cx, qp, &mut self.events);
        let more = self.with_machine(qp, cx.reborrow(), Source::Bytes(&[]), |machine, env| {
            machine.transmitted(env)
        });
        qp.watch(self);
        Step::End {
            exhausted: exhausted || waits || more,
            absent,
            wait,
            events: core::mem::take(&mut self.events),
        }
    }
}

impl Qp {
    /// Where the segments of a connection go.
    pub(super) fn address(&self, config: &QpConfig) -> Address {
        Address {
            port: self.port(),
            dlid: config.path.dlid,
            pkey: config.pkey,
            qpn: config.dest_qpn,
        }
    }

    /// Sends what there is to send, within the budget of the call chain. The rest goes to the work
    /// queue.
    pub(crate) fn transmit(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        // Nothing is prepared that could fail.
        let _ = Self::transmit_after(qp, cx, irqs, run, |_, _| Ok(true));
    }

    /// The same once `prepare` has succeeded, which is called under the lock, and if it says so.
    pub(super) fn transmit_after(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        prepare: impl FnOnce(&mut State, &mut Cx<'_, QpLock, Off>) -> Result<bool>,
    ) -> Result {
        let step = {
            let mut guard = cx.lock(&qp.state);
            let (state, mut cx) = guard.split();
            if !prepare(state, &mut cx)? {
                return Ok(());
            }
            let Some(own) = state.transmitter.take() else {
                return Ok(());
            };
            state.step(own, qp, &mut cx, run)
        };
        let mut loaded = Self::proceed(qp, cx, irqs, run, step);
        while let Some(own) = loaded {
            run.flush(cx, irqs);
            loaded = Self::resume(qp, cx, irqs, run, own);
        }
        Ok(())
    }

    /// The same for one that has no place in the convoy.
    pub(crate) fn transmit_alone(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        let leave = |state: &mut State, _: &mut Cx<'_, QpLock, Off>| {
            state.in_convoy = false;
            Ok(true)
        };
        // As above.
        let _ = Self::transmit_after(qp, cx, irqs, run, leave);
    }

    /// Sends what several queue pairs have to send, within the budget of the call chain, and has it leave together.
    pub(crate) fn transmit_together(
        qps: &[Option<Held<Self>>],
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        Self::transmit_each(qps, cx, irqs, run, |_| {});
    }

    /// The same for those that have been in the convoy.
    pub(crate) fn transmit_convoy(
        qps: &[Option<Held<Self>>],
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        Self::transmit_each(qps, cx, irqs, run, |state| state.in_convoy = false);
    }

    /// The same once each has been prepared, which is done under its lock.
    fn transmit_each(
        qps: &[Option<Held<Self>>],
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        prepare: impl Fn(&mut State),
    ) {
        let mut loaded = [const { None }; SEATS];
        for (qp, loaded) in qps.iter().zip(&mut loaded) {
            let Some(qp) = qp else {
                continue;
            };
            let own = {
                let mut state = cx.lock(&qp.state);
                prepare(&mut state);
                state.transmitter.take()
            };
            *loaded = own.and_then(|own| Self::resume(qp, cx, irqs, run, own));
        }
        while loaded.iter().any(Option::is_some) {
            run.flush(cx, irqs);
            for (qp, loaded) in qps.iter().zip(&mut loaded) {
                if let (Some(qp), Some(own)) = (qp, loaded.take()) {
                    *loaded = Self::resume(qp, cx, irqs, run, own);
                }
            }
        }
    }

    /// Goes on with a transmitter, as [`Self::proceed`].
    fn resume(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        own: KBox<Transmitter>,
    ) -> Option<KBox<Transmitter>> {
        let step = {
            let mut guard = cx.lock(&qp.state);
            let (state, mut cx) = guard.split();
            state.step(own, qp, &mut cx, run)
        };
        Self::proceed(qp, cx, irqs, run, step)
    }

    /// Sends until nothing is left, or until what was sent has to leave before the transmitter, which is returned,
    /// goes on.
    fn proceed(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        mut step: Step,
    ) -> Option<KBox<Transmitter>> {
        let mut sent: u32 = 0;
        let (exhausted, absent, wait, events) = loop {
            let own = match step {
                Step::Find(mut own, address) => {
                    own.end = None;
                    own.lane = qp.hca.lane(cx, address);
                    own.fresh = true;
                    own
                }
                Step::Send(mut own) => {
                    own.send(qp, cx, irqs, run);
                    sent = sent.wrapping_add(1);
                    if sent & BURST.wrapping_sub(1) == 0 {
                        Qp::report(qp, cx, irqs);
                    }
                    own
                }
                Step::Flush(own) => return Some(own),
                Step::End {
                    exhausted,
                    absent,
                    wait,
                    events,
                } => break (exhausted, absent, wait, events),
            };
            let mut guard = cx.lock(&qp.state);
            let (state, mut cx) = guard.split();
            step = state.step(own, qp, &mut cx, run);
        };
        if exhausted {
            if let Some(qp) = qp.try_clone() {
                Qp::schedule(qp);
            }
        }
        if absent {
            Qp::await_memory(qp);
        }
        Qp::attend(qp, wait);
        Qp::deliver(qp, cx, irqs, events);
        None
    }
}
