// SPDX-License-Identifier: GPL-2.0

//! A queue pair: its state, its two sides, and what goes between them.

mod flush;

use crate::time::Instant;
use crate::transport::config::QpConfig;
use crate::transport::deferral::Deferral;
use crate::transport::env::{
    Env,
    QpEvent, //
};
use crate::transport::migration::{
    self,
    Change,
    Former,
    MigState,
    Verdict, //
};
use crate::transport::probe::Probe;
use crate::transport::qp_state::{
    self,
    AttrMask,
    QpState,
    QpType,
    TransitionError, //
};
use crate::transport::requester::{
    Lapse,
    Progress,
    Requester, //
};
use crate::transport::responder::{
    Refusal,
    Resource,
    Responder, //
};
use crate::transport::segment::{
    Payload,
    TxLimits,
    TxSegment, //
};
use crate::transport::ud;
use crate::transport::wc::WcStatus;
use crate::transport::wqe::{
    SendEntry,
    SendSlot,
    SendWqe, //
};
use core::ops::DerefMut;
pub use flush::FLUSH_BATCH;
use wire::header::Header;
use wire::opcode::Service;
use wire::{
    Psn,
    Vl, //
};

/// Why attributes were not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyError {
    /// The way between the states, or the attributes for it.
    Transition(TransitionError),
    /// The send queue still drains, or is still [flushed](Qp::is_flushing).
    Draining,
    /// More outstanding operations than there is storage for.
    Resources,
    /// Not the state of path migration that is next, or no path for it.
    Migration,
}

/// Why a work request was not accepted. It will have no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The queue pair does not send in its state, not even to flush.
    State,
    /// The send queue is full.
    Full,
}

/// Why a packet was not taken. For counters: it may still have an answer, such as the acknowledgement of a
/// duplicate, and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxDrop {
    /// The queue pair does not receive in its state.
    State,
    /// The opcode is of another service, or is none that a peer may send.
    Opcode,
    /// The packet's partition is not the queue pair's.
    PKey,
    /// The packet's Q_Key is not the queue pair's.
    QKey,
    /// The packet does not come from the peer, or not the way it should.
    Source,
    /// The packet comes from the peer by the path that the queue pair has left.
    OldPath,
    /// Span, payload length or extension headers contradict each other.
    Malformed,
    /// A datagram or message of an unreliable connection is longer than the receive work request.
    TooLong,
    /// There was no receive work request for the message.
    NoRecv,
    /// The key that the message invalidates is in use at the moment, by an access that was begun before: the packet
    /// [waits](Self::waits).
    Busy,
    /// The memory that the packet needs is not there now, or that of an answer which uses the key that the message
    /// invalidates: the packet [waits](Self::waits), and the driver has the memory come.
    Absent,
    /// Packets are missing before this one.
    OutOfSequence,
    /// This packet came before.
    Duplicate,
    /// Nothing waits for this response.
    Stale,
    /// The unreliable message has no right to what it names, or is not whole.
    Refused,
}

impl RxDrop {
    /// Whether the packet has had no effect that its coming again would repeat, and the driver is to give it to the
    /// machine again later, before all that came after it: see [`Qp::defer`].
    #[inline]
    pub const fn waits(self) -> bool {
        matches!(self, Self::Absent | Self::Busy)
    }
}

/// A queue pair.
///
/// `S` lends the storage of the send queue and `R` that of the RDMA READ and atomic operations that the queue
/// pair executes for its peer. Of both, the largest power of two of elements that fits is used.
pub struct Qp<S, R> {
    qp_type: QpType,
    state: QpState,
    config: QpConfig,
    requester: Requester<S>,
    responder: Responder<R>,
    /// Whether the peer has been heard of since RTR.
    established: bool,
    /// Whether the end of a drain is still to be reported.
    draining: bool,
    /// Whether the segment polled last was a response.
    responded: bool,
    /// Whether there may be receive work requests that are still to be flushed.
    unflushed: bool,
    deferral: Deferral,
    /// Whether the consumer knows, since the queue pair is armed, that a migration of the peer failed.
    refused: bool,
    /// The path before the last migration.
    former: Option<Former>,
    probe: Probe,
}

impl<S, R> Qp<S, R>
where
    S: DerefMut<Target = [SendEntry]>,
    R: DerefMut<Target = [Resource]>,
{
    /// A queue pair in RESET.
    pub fn new(qp_type: QpType, sends: S, resources: R) -> Self {
        Self {
            qp_type,
            state: QpState::Reset,
            config: QpConfig::default(),
            requester: Requester::new(qp_type, sends),
            responder: Responder::new(resources),
            established: false,
            draining: false,
            responded: false,
            unflushed: false,
            deferral: Deferral::default(),
            refused: false,
            former: None,
            probe: Probe::default(),
        }
    }

    /// Its type.
    pub fn qp_type(&self) -> QpType {
        self.qp_type
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Its attributes.
    pub fn config(&self) -> &QpConfig {
        &self.config
    }

    /// Its attributes, for what may change beside [`Self::modify`]: `pkey` when the port's P_Key table does.
    pub fn config_mut(&mut self) -> &mut QpConfig {
        &mut self.config
    }

    /// The PSN that the next work request will begin with.
    pub fn sq_psn(&self) -> Psn {
        self.requester.next_psn()
    }

    /// How far the work of the send queue has come.
    pub fn progress(&self) -> Progress {
        self.requester.progress()
    }

    /// Takes the alternate path back, as if it had not been loaded. The peer may go over to it all the same: whoever
    /// takes it back sees to that.
    pub fn unload(&mut self) {
        self.config.alternate = None;
        self.config.mig_state = MigState::Migrated;
        if !self.config.unheard {
            self.probe.stop();
        }
    }

    /// Whether the peer has not been heard since the queue pair has gone over to the path in use.
    pub fn is_unheard(&self) -> bool {
        self.config.unheard
    }

    /// Whether all requests that have been sent are acknowledged.
    pub fn is_all_acked(&self) -> bool {
        self.requester.is_all_acked()
    }

    /// Number of work requests of the send queue that have not been sent to their end.
    pub fn backlog(&self) -> u32 {
        self.requester.backlog()
    }

    /// The PSN that is expected next.
    pub fn rq_psn(&self) -> Psn {
        self.responder.expected()
    }

    /// Whether the send queue is told to drain and has not done so.
    pub fn is_draining(&self) -> bool {
        self.state == QpState::Sqd && self.draining
    }

    /// Whether it is, and all work that it is to wait for is done: it has drained as soon as [`Self::transmitted`] is
    /// called.
    pub fn is_about_to_drain(&self) -> bool {
        self.is_draining() && self.requester.is_drained()
    }

    /// Goes to the state `to` and takes over the attributes of `config`, which must be those of
    /// [`Self::config`] but for what `mask` names. To ERR, begins to [flush](Self::is_flushing); to RESET, forgets
    /// all work without a completion. [`MigState::Migrated`] is an order to migrate if the queue pair is armed.
    ///
    /// # Errors
    ///
    /// See [`ModifyError`].
    pub fn modify(
        &mut self,
        now: Instant,
        to: QpState,
        mask: AttrMask,
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), ModifyError> {
        let from = self.state;
        qp_state::check(self.qp_type, from, to, mask).map_err(ModifyError::Transition)?;
        if from == QpState::Sqe && to == QpState::Rts {
            // Others may post whenever they like, and are no reason to refuse.
            self.flush(env);
        }
        let is_draining = from == QpState::Sqd && to == QpState::Sqd && self.is_draining();
        let is_flushing = from == QpState::Sqe && to == QpState::Rts && self.is_flushing();
        if is_draining || is_flushing {
            return Err(ModifyError::Draining);
        }
        if mask.contains(AttrMask::MAX_DEST_RD_ATOMIC)
            && u32::from(config.max_dest_rd_atomic) > self.responder.capacity()
        {
            return Err(ModifyError::Resources);
        }
        let change = migration::plan(to, mask, &self.config, config)?;
        self.config = QpConfig {
            mig_state: self.config.mig_state,
            unheard: self.config.unheard,
            ..*config
        };
        match (from, to) {
            (_, QpState::Err) => {
                self.to_error(env);
                return Ok(());
            }
            (_, QpState::Reset) => {
                self.requester.reset();
                self.responder.reset();
                self.unflushed = false;
                self.deferral = Deferral::default();
                self.config.alternate = None;
                self.config.mig_state = MigState::Migrated;
                self.config.unheard = false;
                self.former = None;
                self.probe.stop();
            }
            (QpState::Init, QpState::Rtr) => {
                self.responder.open(config);
                self.established = false;
            }
            (QpState::Rtr, QpState::Rts) => self.requester.open(config),
            (QpState::Rts, QpState::Sqd) => {
                self.draining = true;
                // It is asked for each time.
                self.config.notify_drained &= mask.contains(AttrMask::EN_SQD_ASYNC_NOTIFY);
            }
            (QpState::Sqd, QpState::Sqd) => self.requester.renew(config),
            _ => {}
        }
        self.state = to;
        match change {
            Change::None => {}
            Change::Rearm => {
                self.config.mig_state = MigState::Rearm;
                self.ask();
            }
            Change::Migrate => self.migrate(now, env),
        }
        self.settle(env);
        Ok(())
    }

    /// Draws the consequences of what has just happened to the send queue.
    #[inline]
    fn settle(&mut self, env: &mut impl Env) {
        if self.state.sends() {
            self.requester.settle(env);
        }
        if self.requester.take_failure() {
            if self.qp_type == QpType::Rc {
                self.responder.silence();
                self.fail(env);
            } else if self.state.sends() {
                self.state = QpState::Sqe;
            }
        }
        if self.state != QpState::Sqd {
            self.draining = false;
        } else if self.draining && self.requester.is_drained() && !env.is_sending() {
            self.draining = false;
            if self.config.notify_drained {
                env.event(QpEvent::SqDrained);
            }
        }
    }

    /// Queues a send work request. It is carried out, or flushed, by the next [`Self::poll_transmit`] and
    /// [`Self::transmitted`].
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub fn post_send(&mut self, wqe: SendWqe) -> Result<SendSlot, PostError> {
        if !self.state.takes_sends() {
            return Err(PostError::State);
        }
        self.requester.push(wqe).ok_or(PostError::Full)
    }

    /// Number of send work requests that may be posted now.
    pub fn send_space(&self) -> u32 {
        self.requester.space()
    }

    /// The next segment to send, if there is one that may go now. Responses and requests take turns.
    pub fn poll_transmit(&mut self, now: Instant, limits: &TxLimits) -> Option<TxSegment> {
        let responded = core::mem::replace(&mut self.responded, false);
        // A segment is large, and each combinator would move it once more.
        if !responded {
            let segment = self.respond(limits);
            if segment.is_some() {
                return segment;
            }
        }
        if self.may_ask() && !self.requester.is_silent() {
            self.requester.ask(now, &self.config);
        }
        let segment = self.request(now, limits);
        if segment.is_some() {
            return segment;
        }
        if self.requester.is_to_ask() {
            let segment = self.requester.question(&self.config, limits);
            if segment.is_some() {
                return segment;
            }
        }
        if responded {
            let segment = self.respond(limits);
            if segment.is_some() {
                return segment;
            }
        }
        if self.may_ask() && self.requester.is_silent() {
            let acked = self.requester.acked();
            return self.probe.poll(now, acked, &self.config, limits);
        }
        None
    }

    /// Whether [`Self::poll_transmit`] and [`Self::transmitted`] are worth calling: false only if there is nothing to
    /// send or to flush at any time before the next call of another method.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.is_flushing()
            || (self.qp_type == QpType::Rc && self.responder.has_output())
            || (self.state.sends() && self.requester.has_output())
            || (self.is_draining() && !self.requester.is_drained() && !self.requester.is_asked())
            || self.may_ask()
    }

    /// Whether all that there is to send, if there is something, is requests of which nothing has been sent: they may
    /// wait.
    pub fn has_only_new(&self) -> bool {
        let answers = self.qp_type == QpType::Rc && self.responder.has_output();
        !answers && self.state == QpState::Rts && self.requester.is_at_new() && !self.may_ask()
    }

    /// The next response, if that is one packet with a payload of at most `most` bytes: it may be passed on where a
    /// segment has just been taken, without the ado of a transmission.
    pub fn poll_reply(&mut self, most: u32, limits: &TxLimits) -> Option<TxSegment> {
        if self.qp_type != QpType::Rc {
            return None;
        }
        self.responder.poll_reply(most, &self.config, limits)
    }

    /// There are `recvs` work requests on the receive queue (not a shared one) after some were posted: a peer that
    /// may wait for them is told by the next [`Self::poll_transmit`]. Returns whether there is something to send
    /// that there was not before.
    ///
    /// A driver that does not see posts need not call this: such a peer tries one message.
    pub fn receives_posted(&mut self, recvs: u32) -> bool {
        self.qp_type == QpType::Rc && self.state.receives() && self.responder.receives_posted(recvs)
    }

    #[inline]
    fn respond(&mut self, limits: &TxLimits) -> Option<TxSegment> {
        if self.qp_type != QpType::Rc {
            return None;
        }
        let segment = self.responder.poll(&self.config, limits);
        self.responded |= segment.is_some();
        segment
    }

    fn request(&mut self, now: Instant, limits: &TxLimits) -> Option<TxSegment> {
        if !self.state.sends() {
            return None;
        }
        let may_begin = self.state == QpState::Rts;
        self.requester.poll(now, &self.config, limits, may_begin)
    }

    /// The local operation that the send queue has arrived at, if [`Self::poll_transmit`] has just returned `None`
    /// because of one: to be executed, and then [`Self::local_done`]. What is not executed now comes again.
    pub fn local_request(&self) -> Option<SendSlot> {
        self.requester.local()
    }

    /// The local operation in `slot`, which [`Self::local_request`] named, has been executed and ends with
    /// `status`. There may be something to send now.
    pub fn local_done(&mut self, slot: SendSlot, status: WcStatus, env: &mut impl Env) {
        if self.state.sends() {
            self.requester.local_done(slot, status, env);
        }
        self.settle(env);
    }

    /// The driver has gathered the payloads of all segments polled so far, and their buffers may change:
    /// completes what is complete by being sent, and flushes of what is on the queues in error at most
    /// [`FLUSH_BATCH`] each. To be called when [`Self::poll_transmit`] has returned `None`, and before a pause; also
    /// when a receive was posted in the error state. Returns whether both are to be called again, since there may be
    /// more to send now, or more to flush.
    #[must_use]
    pub fn transmitted(&mut self, env: &mut impl Env) -> bool {
        let more = self.state.sends() && self.requester.transmitted(env);
        self.settle(env);
        self.flush(env);
        more || self.is_flushing()
    }

    /// The payload of the segment polled last is not there now, and the segment was not sent: it will be polled
    /// again. To be called before any other method.
    pub fn put_back(&mut self, payload: &Payload) {
        match *payload {
            Payload::None => {}
            Payload::Wqe { .. } => self.requester.put_back(),
            Payload::Remote { .. } => self.responder.put_back(),
        }
    }

    /// The payload of the segment polled last could not be gathered, and the segment was not sent. `status` is
    /// for a work request of this side; a peer learns that its access is refused.
    pub fn gather_failed(&mut self, payload: &Payload, status: WcStatus, env: &mut impl Env) {
        match *payload {
            Payload::None => {}
            Payload::Wqe { slot, .. } => {
                if self.state.sends() {
                    self.requester.gather_failed(slot, status);
                    self.settle(env);
                }
            }
            Payload::Remote { .. } => {
                if self.responder.gather_failed() {
                    if self.state != QpState::Err {
                        env.event(QpEvent::AccessErr);
                    }
                    self.fail(env);
                }
            }
        }
    }

    /// A packet, or segment of `span` packets and `len` bytes of payload, has come to this queue pair. The
    /// driver has checked that it came to a port of the queue pair, and for a GSI queue pair the P_Key.
    ///
    /// # Errors
    ///
    /// Why it was dropped.
    pub fn on_packet(
        &mut self,
        now: Instant,
        header: &Header,
        span: u32,
        len: u32,
        env: &mut impl Env,
    ) -> Result<(), RxDrop> {
        if !self.state.receives() {
            return Err(RxDrop::State);
        }
        self.admit(now, header, env)?;
        if core::mem::take(&mut self.config.unheard) {
            if self.config.mig_state == MigState::Migrated {
                self.probe.stop();
            }
            env.heard();
        }
        let result = self.process(now, header, span, len, env);
        if self.config.mig_state == MigState::Rearm && !header.bth.migreq {
            self.learn(&result);
        }
        if let Err(drop @ (RxDrop::Absent | RxDrop::Busy)) = result {
            self.deferral.begin(drop == RxDrop::Busy);
        }
        result
    }

    /// What became of a packet whose sender has an alternate path as well.
    fn learn(&mut self, result: &Result<(), RxDrop>) {
        match result {
            Ok(()) => {
                self.config.mig_state = MigState::Armed;
                self.refused = false;
                self.probe.stop();
            }
            Err(RxDrop::Duplicate) if self.asks() => self.probe.repeat(),
            Err(_) => {}
        }
    }

    /// The peer is to be asked, if it is not heard anyway.
    fn ask(&mut self) {
        if self.asks() {
            self.probe.start();
        }
    }

    /// Whether the peer may be asked at all.
    fn asks(&self) -> bool {
        self.config.probes && self.qp_type == QpType::Rc
    }

    /// Whether the peer is to be asked now: it owes no answer, and there is nothing new that it would answer. A pause
    /// may be longer than its patience with a path that this end has left.
    fn may_ask(&self) -> bool {
        self.probe.is_due()
            && self.state == QpState::Rts
            && (self.requester.is_owed_nothing() || self.requester.is_pausing())
    }

    /// Does what a packet is about.
    fn process(
        &mut self,
        now: Instant,
        header: &Header,
        span: u32,
        len: u32,
        env: &mut impl Env,
    ) -> Result<(), RxDrop> {
        if header.bth.opcode.is_response() {
            if !self.state.sends() {
                return Err(RxDrop::State);
            }
            let size = (span, len);
            let is_answer = self.probe.is_answer(header, self.requester.acked());
            let result = self
                .requester
                .on_response(now, header, size, &self.config, env);
            self.leave_silence(now, env);
            self.settle(env);
            return match result {
                _ if is_answer => {
                    self.probe.rest();
                    Ok(())
                }
                // It has led to the end of the queue pair, which keeps nothing.
                Err(drop) if drop.waits() && !self.state.receives() => Err(RxDrop::State),
                _ => result,
            };
        }
        if self.state == QpState::Rtr && !self.established {
            self.meet(header, env);
        }
        let size = (span, len);
        let (config, responder) = (&self.config, &mut self.responder);
        let result = match self.qp_type {
            QpType::Rc => responder.on_request(header, size, config, env),
            QpType::Uc => responder.on_unreliable(header, size, config, env),
            QpType::Ud | QpType::Gsi | QpType::Smi => {
                let inbound = &mut responder.inbound;
                ud::receive(inbound, header, len, self.qp_type, config, env)
            }
        };
        match result {
            Ok(()) => Ok(()),
            Err(Refusal::Drop(drop)) => Err(drop),
            Err(Refusal::Fatal) => {
                self.fail(env);
                Err(RxDrop::Refused)
            }
        }
    }

    /// A request has come to a queue pair that is not ready to send. The first one whose turn it is, whatever becomes of it,
    /// shows that the peer takes the connection for established (IBA "Communication Established"). There is none between
    /// queue pairs of datagrams.
    #[cold]
    fn meet(&mut self, header: &Header, env: &mut impl Env) {
        let (psn, expected) = (header.bth.psn, self.responder.expected());
        self.established = match self.qp_type {
            QpType::Rc => psn == expected,
            // Nobody repeats those before it.
            QpType::Uc => psn == expected || (header.bth.opcode.starts() && psn.is_after(expected)),
            QpType::Ud | QpType::Gsi | QpType::Smi => false,
        };
        if self.established {
            env.event(QpEvent::CommEst);
        }
    }

    /// A packet of `span` packets has to wait: [`Self::on_packet`] has said so ([`RxDrop::waits`]), or would see it
    /// before one that waits. Returns whether the driver is to keep it. It does not keep a request that
    /// waits, or was carried out, already: the peer, which has asked again, is answered by the next
    /// [`Self::poll_transmit`], and told to pause if the wait is for memory.
    ///
    /// While an answer waits, the queue pair does not wait for its peer: see [`Self::next_deadline`].
    pub fn defer(&mut self, now: Instant, header: &Header, span: u32, env: &mut impl Env) -> bool {
        if self.qp_type != QpType::Rc {
            return true;
        }
        if !self.state.receives() || self.admit(now, header, env).is_err() {
            return false;
        }
        let is_known =
            header.bth.opcode.is_request() && header.bth.psn.is_before(self.responder.expected());
        if !is_known && self.deferral.add(header) {
            return true;
        }
        let pause = self
            .deferral
            .pause(header.bth.psn, self.responder.expected());
        self.responder
            .on_deferred(header, span, pause, &self.config);
        false
    }

    /// The driver has no room for a packet that it was to keep.
    pub fn lose(&mut self, header: &Header) {
        self.deferral.lose(header);
    }

    /// No packet waits any more: all that the driver kept have been given to [`Self::on_packet`] again, or to
    /// nobody. What it had no room for is asked for again.
    pub fn resume(&mut self, now: Instant) {
        let past = core::mem::take(&mut self.deferral);
        if self.qp_type != QpType::Rc {
            return;
        }
        if self.state.receives() {
            if past.lost_request() == Some(self.responder.expected()) {
                self.responder.miss();
            } else if past.has_paused() {
                self.responder.end_pause();
            }
        }
        if self.state.sends() && past.has_lost_answer() {
            self.requester.recover(now, &self.config);
        }
    }

    /// Makes the alternate path the primary one.
    fn migrate(&mut self, now: Instant, env: &mut impl Env) {
        let former = Former::of(&self.config);
        if !self.config.take_alternate() {
            return;
        }
        self.former = Some(former);
        env.event(QpEvent::PathMig);
        self.deferral.on_path_left();
        self.ask();
        if self.state.sends() {
            self.requester.change_path(now, &self.config);
        }
    }

    /// Migrates if the peer does not answer on the primary path.
    fn leave_silence(&mut self, now: Instant, env: &mut impl Env) {
        if self.requester.take_stranded() {
            self.migrate(now, env);
        }
    }

    /// Whether the packet may concern this queue pair at all. A peer that has migrated is followed.
    #[inline]
    fn admit(&mut self, now: Instant, header: &Header, env: &mut impl Env) -> Result<(), RxDrop> {
        let service = match self.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud | QpType::Gsi | QpType::Smi => Service::Ud,
        };
        if header.bth.opcode.service() != service {
            return Err(RxDrop::Opcode);
        }
        if self.qp_type.is_datagram() {
            let any_partition = matches!(self.qp_type, QpType::Gsi | QpType::Smi);
            return if any_partition || self.config.pkey.matches(header.bth.pkey) {
                Ok(())
            } else {
                Err(RxDrop::PKey)
            };
        }
        // It passes links that carry no data yet, and past the partitions that switches enforce.
        if header.lrh.vl == Vl::MANAGEMENT {
            return Err(RxDrop::Source);
        }
        let port = env.in_port();
        if self.config.mig_state != MigState::Migrated && header.bth.migreq {
            match migration::judge(header, port, &self.config) {
                Verdict::Ordinary => {}
                Verdict::Follow => self.migrate(now, env),
                Verdict::Refuse => {
                    if !core::mem::replace(&mut self.refused, true) {
                        env.event(QpEvent::PathMigErr);
                    }
                    return Err(RxDrop::Source);
                }
            }
        }
        migration::check_primary(header, port, &self.config).map_err(|drop| match &self.former {
            Some(former) if former.is_way_of(header, port) => RxDrop::OldPath,
            Some(_) | None => drop,
        })
    }

    /// When [`Self::on_timeout`] wants to be called; `None` for never, or not before [`Self::resume`].
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.deferral.has_answers() {
            return None;
        }
        [self.requester.next_deadline(), self.probe.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether [`Self::on_timeout`] would ask the peer again at `now`, unless it is [put off](Self::put_off).
    pub fn would_remind(&self, now: Instant) -> bool {
        self.requester.would_remind(now)
    }

    /// What was sent still waits in this host at `now`, so that no answer to it is late.
    pub fn put_off(&mut self, now: Instant) {
        self.requester.put_off(now, &self.config);
    }

    /// Does what is due at `now`, and returns what that was. Harmless when called early.
    pub fn on_timeout(&mut self, now: Instant, env: &mut impl Env) -> Lapse {
        self.probe.on_time(now);
        let lapse = if self.state.sends() && !self.deferral.has_answers() {
            self.requester.on_timeout(now, &self.config, env)
        } else {
            Lapse::None
        };
        self.leave_silence(now, env);
        self.settle(env);
        lapse
    }
}
