// SPDX-License-Identifier: GPL-2.0

//! Sending what a queue pair has to send.
//!
//! Segments leave in order since one context at a time has the [`Transmitter`] of a queue pair; another one
//! that comes meanwhile goes, as the first looks for more before it gives the transmitter back. Between two
//! segments the lock is free, so that answers get in. While a segment is on its way, completions of sends
//! are withheld.

use super::{
    absence::Wait,
    env::Events,
    local::Executed,
    send::Payload,
    Arrival,
    Qp,
    State, //
};
use crate::{
    convoy::{
        Seats,
        SEATS, //
    },
    fabric::{
        Address,
        Lane,
        Segment, //
    },
    payload::{
        Gather,
        Source,
        MAX_INLINE, //
    },
    run::RunQueue, //
};
use kernel::prelude::*;
use proto::transport::{
    self as machine,
    Access,
    PlaceError,
    QpConfig,
    TxSegment,
    WcStatus, //
};
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Off,
    QpLock,
    Unlocked, //
};
use wire::header::Header;

/// Segments after which completions are delivered although there is more to send.
const BURST: u32 = 32;

/// Bytes of an answer that is given back at once, as a copy.
const MAX_REPLY: usize = 256;

/// What a context needs to transmit, and nobody else has meanwhile.
pub(super) struct Transmitter {
    /// The segment to send.
    segment: TxSegment,
    flight: Flight,
    /// The way of segments.
    lane: Lane,
    /// Whether `lane` has just been looked for, and is used whatever has happened since but a migration.
    fresh: bool,
    /// The end of `lane`, from the first segment to the last.
    end: Option<Held<Qp>>,
    /// Whether nothing follows the segment, so that an acknowledgement is wanted at once.
    last: bool,
    /// That, or another short answer.
    reply: Reply,
    /// Whether an operation of this side has to wait.
    waits: bool,
    /// Whether the segment to send has to wait for its memory.
    absent: bool,
    /// Whether an answer that came at once has to wait, and nobody sees to that yet.
    unattended: bool,
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

/// A short answer to a segment, given back at once.
pub(super) struct Reply {
    segment: Option<TxSegment>,
    /// Its payload is what these begin with.
    bytes: [u8; MAX_REPLY],
}

impl Reply {
    fn none() -> impl Init<Self> {
        init!(Self {
            segment: None,
            bytes: [0; MAX_REPLY],
        })
    }
}

/// A segment's payload, on its way.
struct Flight {
    gather: Gather,
    inline: [u8; MAX_INLINE],
    inline_len: usize,
}

impl Flight {
    fn empty() -> impl Init<Self> {
        init!(Self {
            gather: Gather::new(),
            inline: [0; MAX_INLINE],
            inline_len: 0,
        })
    }

    fn clear(&mut self) {
        self.gather.clear();
        self.inline_len = 0;
    }

    fn source(&self) -> Source<'_> {
        if self.inline_len > 0 {
            Source::Bytes(self.inline.get(..self.inline_len).unwrap_or_default())
        } else {
            Source::Gather(&self.gather)
        }
    }

    /// Collects the payload of a segment.
    fn load(
        &mut self,
        qp: &Qp,
        state: &mut State,
        cx: &mut Cx<'_, QpLock, Off>,
        payload: &machine::Payload,
    ) -> Result<(), PlaceError> {
        let need = &mut state.absence.sending;
        need.begin();
        match *payload {
            machine::Payload::None => Ok(()),
            machine::Payload::Remote { rkey, va, len } => {
                let piece = qp
                    .pd
                    .remote(cx.reborrow(), qp.serial, rkey, (va, len), Access::Read)
                    .map_err(|miss| need.local(miss))?;
                self.gather.push(piece);
                Ok(())
            }
            machine::Payload::Wqe { slot, offset, len } => match state.sends.payload(slot) {
                Payload::Inline(bytes) => {
                    self.load_inline(bytes, offset as usize, len as usize)?;
                    Ok(())
                }
                Payload::Gather(list) => {
                    let mut skip = offset;
                    let mut left = len;
                    let mut absent = false;
                    for sge in list {
                        if left == 0 {
                            break;
                        }
                        if skip >= sge.length {
                            skip = skip.wrapping_sub(sge.length);
                            continue;
                        }
                        let part = left.min(sge.length.wrapping_sub(skip));
                        let space = qp.space.as_ref();
                        let piece = qp.pd.local(cx.reborrow(), space, sge, (skip, part), false);
                        match piece.map_err(|miss| need.local(miss)) {
                            Ok(piece) => {
                                if piece.region().is_none() || !self.gather.push(piece) {
                                    return Err(WcStatus::LocProtErr.into());
                                }
                            }
                            // All that is not there is to come at once.
                            Err(PlaceError::Absent) => absent = true,
                            Err(error) => return Err(error),
                        }
                        left = left.wrapping_sub(part);
                        skip = 0;
                    }
                    if absent {
                        Err(PlaceError::Absent)
                    } else if left == 0 {
                        Ok(())
                    } else {
                        Err(WcStatus::LocLenErr.into())
                    }
                }
            },
        }
    }

    fn load_inline(&mut self, bytes: &[u8], offset: usize, len: usize) -> Result<(), WcStatus> {
        let end = offset.checked_add(len).ok_or(WcStatus::LocLenErr)?;
        let from = bytes.get(offset..end).ok_or(WcStatus::LocLenErr)?;
        for (to, from) in self.inline.iter_mut().zip(from) {
            *to = *from;
        }
        self.inline_len = len;
        Ok(())
    }
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
            last: false,
            reply <- Reply::none(),
            waits: false,
            absent: false,
            unattended: false,
        });
        KBox::init(transmitter, GFP_KERNEL)
    }

    /// Fetches the next segment; false if there is none, or not now. Work requests whose payload is out of reach fail.
    fn fetch(&mut self, qp: &Qp, state: &mut State, cx: &mut Cx<'_, QpLock, Off>) -> bool {
        self.absent = false;
        loop {
            let now = crate::fabric::now();
            let Some(segment) = state.machine.poll_transmit(now, &self.lane.limits) else {
                match state.execute_local(qp, cx) {
                    Executed::Done => continue,
                    executed => self.waits = executed == Executed::Waits,
                }
                return false;
            };
            self.segment = segment;
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
        };
        match &self.end {
            Some(end) if self.lane.fits(&segment) => {
                if qp.hca.count_along(&self.lane, end, &segment) {
                    let arrival = Arrival {
                        segment,
                        port: self.lane.far_port().unwrap_or_default(),
                        pkey_index: None,
                    };
                    let asker = self.last.then_some((qp, &mut self.reply));
                    Qp::receive_from(end, cx, irqs, run, arrival, asker);
                }
            }
            // The port of the queue pair may be another one meanwhile, and its way.
            _ => {
                qp.hca.transmit(cx, irqs, run, self.lane.port(), segment);
                // Before the last of it leaves: the peer may invalidate a key that it has the data of.
                self.flight.clear();
                if self.last {
                    run.end(cx, irqs);
                }
            }
        }
    }
}

impl State {
    /// Whether what is sent now leaves the host, by a connection whose way is known.
    pub(super) fn goes_far(&self) -> bool {
        let transmitter = self.transmitter.as_ref();
        transmitter.is_some_and(|own| own.lane.is_far())
    }

    /// Whether somebody transmits.
    pub(super) fn is_busy(&self) -> bool {
        self.transmitter.is_none()
    }

    /// Has the machine take the answer to the segment that was sent last, if one came at once. Nothing
    /// is on its way now, so no completion has to wait.
    fn take_reply(&mut self, own: &mut Transmitter, qp: &Qp, cx: &mut Cx<'_, QpLock, Off>) {
        if let Some(answer) = own.reply.segment.take() {
            let len = answer.payload.len() as usize;
            let segment = Segment {
                header: &answer.header,
                span: 1,
                source: &Source::Bytes(own.reply.bytes.get(..len).unwrap_or_default()),
                damage: None,
            };
            self.withheld.release(cx, qp);
            // Both ends have agreed on a partition: this answers a segment that was taken.
            let arrival = Arrival {
                segment,
                port: own.lane.port(),
                pkey_index: None,
            };
            let attended = self.absence.is_waiting();
            let _ = self.accept(false, qp, cx.reborrow(), &arrival);
            own.unattended |= !attended && self.absence.is_waiting();
        }
    }

    /// Gives the answer that is owed to `asker`, if it is short and can go there at once.
    pub(super) fn reply(
        &mut self,
        qp: &Qp,
        cx: &mut Cx<'_, QpLock, Off>,
        asker: &Held<Qp>,
        reply: &mut Reply,
    ) {
        if let Some(mut own) = self.transmitter.take() {
            reply.segment = self.answer(&mut own, qp, cx, asker, &mut reply.bytes);
            own.flight.clear();
            self.transmitter = Some(own);
        }
    }

    fn answer(
        &mut self,
        own: &mut Transmitter,
        qp: &Qp,
        cx: &mut Cx<'_, QpLock, Off>,
        asker: &Held<Qp>,
        bytes: &mut [u8; MAX_REPLY],
    ) -> Option<TxSegment> {
        let address = qp.address(self.machine.config());
        if !own.lane.leads_to(&address) || !own.lane.ends_at(asker) {
            return None;
        }
        let most = MAX_REPLY as u32;
        let mut answer = self.machine.poll_reply(most, &own.lane.limits)?;
        let payload = answer.payload;
        let len = payload.len() as usize;
        let bytes = bytes.get_mut(..len)?;
        if len > 0 {
            let loaded = own.flight.load(qp, self, cx, &payload);
            if loaded.is_err() || own.flight.source().copy_out(0, bytes).is_err() {
                // Whoever sends it the long way finds out what is wrong.
                self.machine.put_back(&payload);
                return None;
            }
        }
        answer.header.set_payload_len(len).ok()?;
        let segment = Segment {
            header: &answer.header,
            span: 1,
            source: &Source::Bytes(bytes),
            damage: None,
        };
        let taken = qp.hca.count_along(&own.lane, asker, &segment);
        taken.then_some(answer)
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
        let fresh = core::mem::take(&mut own.fresh) && own.lane.led_to(&address);
        if !fresh && !own.lane.leads_to(&address) {
            return Step::Find(own, address);
        }
        // To find nothing costs nothing, and is no reason for somebody else to look.
        let has_output = self.machine.has_output();
        let exhausted = has_output && run.is_exhausted();
        if has_output && !exhausted && own.fetch(qp, self, cx) {
            if own.end.is_none() {
                own.end = own.lane.end();
            }
            own.last = !self.machine.has_output();
            run.charge(own.segment.span);
            run.expect(self.machine.backlog());
            return Step::Send(own);
        }
        if run.is_loaded() {
            return Step::Flush(own);
        }
        own.end = None;
        let waits = core::mem::take(&mut own.waits);
        let absent = core::mem::take(&mut own.absent);
        let wait = match core::mem::take(&mut own.unattended) {
            true => self.absence.wait(),
            false => Wait::Nothing,
        };
        self.transmitter = Some(own);
        self.withheld.release(cx, qp);
        self.with_machine(qp, cx.reborrow(), Source::Bytes(&[]), |machine, env| {
            machine.transmitted(env);
        });
        qp.watch(self);
        Step::End {
            exhausted: exhausted || waits,
            absent,
            wait,
            events: core::mem::take(&mut self.events),
        }
    }
}

impl Qp {
    /// Where the segments of a connection go.
    fn address(&self, config: &QpConfig) -> Address {
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

    /// Sends what several queue pairs have to send, within the budget of the call chain, and has it leave together.
    pub(crate) fn transmit_together(
        qps: &Seats,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        let mut loaded = [const { None }; SEATS];
        for (qp, loaded) in qps.iter().zip(&mut loaded) {
            let Some(qp) = qp else {
                continue;
            };
            let own = cx.lock(&qp.state).transmitter.take();
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
                        qp.report(cx, irqs);
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
        qp.deliver(cx, irqs, events);
        None
    }
}
