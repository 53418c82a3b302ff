// SPDX-License-Identifier: GPL-2.0

//! Service ID resolution: one question for the queue pair that serves datagrams of a service, and its answer, at
//! either end.
//!
//! A question is known by its request ID, its transaction ID and the port that it comes from, so that one which is
//! repeated is answered as before, and no answer is taken for that to another question. Nobody asks for patience
//! here: whoever asks waits for a time of its own.
//!
//! Source: IBA "Service ID Resolution Protocol".

use super::event::{
    Actions,
    Refusal,
    Source, //
};
use super::padded;
use super::timing::{
    time,
    LONGEST, //
};
use crate::time::Instant;
use wire::mad::cm::{
    attr,
    sidr_status,
    Cm,
    Path,
    SidrRep,
    SidrReq, //
};
use wire::{
    Gid,
    Lid,
    QKey,
    Qpn, //
};

/// The state of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SidrState {
    /// Not asked, or answered.
    #[default]
    Idle,
    /// Asked, and not answered.
    Asking,
    /// A peer asks, and waits for the consumer.
    Asked,
    /// The peer has an answer, which is repeated as long as it may ask again.
    Answered,
}

/// What happens to a question.
#[derive(Clone, Copy, Debug)]
pub enum SidrEvent<'a> {
    /// The consumer wants something.
    Order(SidrOrder<'a>),
    /// A datagram has come that [`Resolution::concerns`] this question.
    Received(&'a Cm, Source),
    /// [`Resolution::deadline`] may have passed.
    Tick,
    /// The HCA is gone.
    Gone,
}

/// What a consumer wants. The last field of most is the private data, of which what does not fit is cut.
#[derive(Clone, Copy, Debug)]
pub enum SidrOrder<'a> {
    /// Ask: SIDR_REQ. The request ID is filled in.
    Ask(&'a SidrReq, &'a Path, SidrTiming, &'a [u8]),
    /// Answer: SIDR_REP.
    Answer(&'a SidrAnswer<'a>, &'a [u8]),
    /// The consumer lets go.
    Destroy,
}

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SidrTiming {
    /// Code of the time that the peer may take.
    pub response: u8,
    /// How often the question is repeated at most.
    pub retries: u8,
}

/// An answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SidrAnswer<'a> {
    /// One of [`sidr_status`]. Without [`sidr_status::VALID`] there is no queue pair.
    pub status: u8,
    /// The queue pair.
    pub qpn: Qpn,
    /// Its Q_Key.
    pub qkey: QKey,
    /// Additional information, as the status has it.
    pub info: &'a [u8],
}

/// What the consumer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidrNotice {
    /// The answer has come.
    RepReceived,
    /// The peer is silent.
    ReqError,
    /// The HCA is gone.
    Removed,
}

/// What a question does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidrAction {
    /// Send [`Resolution::datagram`].
    Send,
    /// Tell the consumer.
    Tell(SidrNotice),
    /// Nothing will happen any more: the question can be freed.
    Free,
}

/// What names a question that a peer asks, apart from the HCA that it has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SidrKey {
    lid: Lid,
    gid: Gid,
    request_id: u32,
    tid: u64,
}

impl SidrKey {
    /// The name of the question in a SIDR_REQ.
    pub fn new(mad: &Cm, source: &Source) -> Self {
        Self {
            lid: source.slid,
            gid: source.sgid.unwrap_or_default(),
            request_id: mad.local_comm_id(),
            tid: mad.tid(),
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resolution {
    state: SidrState,
    /// Nobody wants to hear of it any more.
    is_orphan: bool,
    request_id: u32,
    service_id: u64,
    tid: u64,
    /// By which way the question goes.
    path: Path,
    /// Where it has come from.
    source: Source,
    response: u8,
    retries: u8,
    deadline: Option<Instant>,
    mad: Cm,
}

impl Resolution {
    /// A question that has not been asked. No other of the HCA has its request ID; transaction IDs begin with `tid`.
    pub fn new(request_id: u32, tid: u64) -> Self {
        Self {
            state: SidrState::Idle,
            is_orphan: false,
            request_id,
            service_id: 0,
            tid,
            path: Path::default(),
            source: Source::default(),
            response: 0,
            retries: 0,
            deadline: None,
            mad: Cm::new(attr::SIDR_REQ, tid),
        }
    }

    /// A question that a peer asks by the SIDR_REQ `mad`: the consumer is to be told of it.
    pub fn incoming(mad: &Cm, source: Source) -> Self {
        let req: SidrReq = mad.message();
        Self {
            state: SidrState::Asked,
            service_id: req.service_id,
            source,
            ..Self::new(req.request_id, mad.tid())
        }
    }

    /// Takes an event, and says what is to be done about it, in order.
    ///
    /// # Errors
    ///
    /// An order that does not fit the state changes nothing. Other events are never refused.
    pub fn step(
        &mut self,
        event: SidrEvent<'_>,
        now: Instant,
    ) -> Result<Actions<SidrAction>, Refusal> {
        let mut actions = Actions::default();
        match event {
            SidrEvent::Order(SidrOrder::Ask(req, path, timing, private)) => {
                self.ask(req, path, timing, private, now, &mut actions)?;
            }
            SidrEvent::Order(SidrOrder::Answer(answer, private)) => {
                self.answer(answer, private, now, &mut actions)?;
            }
            SidrEvent::Order(SidrOrder::Destroy) => self.destroy(now, &mut actions),
            SidrEvent::Received(mad, source) => self.received(mad, &source, &mut actions),
            SidrEvent::Tick => self.tick(now, &mut actions),
            SidrEvent::Gone => {
                self.tell(SidrNotice::Removed, &mut actions);
                self.rest(&mut actions);
            }
        }
        Ok(actions)
    }

    fn ask(
        &mut self,
        req: &SidrReq,
        path: &Path,
        timing: SidrTiming,
        private: &[u8],
        now: Instant,
        actions: &mut Actions<SidrAction>,
    ) -> Result<(), Refusal> {
        match self.state {
            SidrState::Idle if !self.is_orphan => {}
            SidrState::Asking => return Err(Refusal::Busy),
            SidrState::Idle | SidrState::Asked | SidrState::Answered => {
                return Err(Refusal::Invalid)
            }
        }
        self.tid = self.tid.wrapping_add(1);
        self.service_id = req.service_id;
        self.path = *path;
        self.response = timing.response;
        self.retries = timing.retries;
        self.mad = Cm::new(attr::SIDR_REQ, self.tid);
        self.mad.set_message(&SidrReq {
            request_id: self.request_id,
            ..*req
        });
        self.mad.set_private_data(private);
        self.state = SidrState::Asking;
        self.deadline = Some(self.answer_due(now));
        actions.push(SidrAction::Send);
        Ok(())
    }

    /// When the answer to a question that is sent now is overdue: after two ways and the response time.
    fn answer_due(&self, now: Instant) -> Instant {
        let way = time(self.path.ack_timeout.saturating_sub(1));
        now.after(way).after(way).after(time(self.response))
    }

    fn answer(
        &mut self,
        answer: &SidrAnswer<'_>,
        private: &[u8],
        now: Instant,
        actions: &mut Actions<SidrAction>,
    ) -> Result<(), Refusal> {
        match self.state {
            SidrState::Asked => {}
            SidrState::Idle | SidrState::Asking | SidrState::Answered => {
                return Err(Refusal::Invalid)
            }
        }
        let (info, info_length) = padded(answer.info);
        let is_valid = answer.status == sidr_status::VALID;
        self.mad = Cm::new(attr::SIDR_REP, self.tid);
        self.mad.set_message(&SidrRep {
            request_id: self.request_id,
            status: answer.status,
            info_length,
            qpn: if is_valid { answer.qpn } else { Qpn::default() },
            service_id: self.service_id,
            qkey: if is_valid {
                answer.qkey
            } else {
                QKey::default()
            },
            info,
            ..SidrRep::default()
        });
        self.mad.set_private_data(private);
        self.state = SidrState::Answered;
        // Who waits for longer before it asks again is answered anew.
        self.deadline = Some(now.after(time(LONGEST)));
        actions.push(SidrAction::Send);
        Ok(())
    }

    fn destroy(&mut self, now: Instant, actions: &mut Actions<SidrAction>) {
        self.is_orphan = true;
        match self.state {
            SidrState::Asked => {
                let refusal = SidrAnswer {
                    status: sidr_status::REJECTED,
                    ..SidrAnswer::default()
                };
                // It suits the state.
                let _ = self.answer(&refusal, &[], now, actions);
            }
            SidrState::Answered => {}
            // An answer is still taken, so that nobody else gets it.
            SidrState::Asking => self.retries = 0,
            SidrState::Idle => self.rest(actions),
        }
    }

    fn received(&mut self, mad: &Cm, source: &Source, actions: &mut Actions<SidrAction>) {
        match (self.state, mad.attr_id()) {
            (SidrState::Asking, attr::SIDR_REP)
                if self.concerns(mad) && source.is_far_end_of(&self.path) =>
            {
                self.settle(SidrNotice::RepReceived, actions);
            }
            // The answer was lost.
            (SidrState::Answered, attr::SIDR_REQ) if self.concerns(mad) => {
                actions.push(SidrAction::Send);
            }
            (SidrState::Idle | SidrState::Asking | SidrState::Asked | SidrState::Answered, _) => {}
        }
    }

    fn tick(&mut self, now: Instant, actions: &mut Actions<SidrAction>) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            SidrState::Asking => match self.retries.checked_sub(1) {
                Some(left) => {
                    self.retries = left;
                    self.deadline = Some(self.answer_due(now));
                    actions.push(SidrAction::Send);
                }
                None => self.settle(SidrNotice::ReqError, actions),
            },
            SidrState::Answered => self.rest(actions),
            // Neither waits for the clock.
            SidrState::Idle | SidrState::Asked => self.deadline = None,
        }
    }

    /// What was asked is answered, or nobody waits for the answer any more.
    fn settle(&mut self, notice: SidrNotice, actions: &mut Actions<SidrAction>) {
        self.state = SidrState::Idle;
        self.deadline = None;
        self.tell(notice, actions);
        if self.is_orphan {
            self.rest(actions);
        }
    }

    /// The end.
    fn rest(&mut self, actions: &mut Actions<SidrAction>) {
        self.state = SidrState::Idle;
        self.is_orphan = true;
        self.deadline = None;
        actions.push(SidrAction::Free);
    }

    fn tell(&self, notice: SidrNotice, actions: &mut Actions<SidrAction>) {
        if !self.is_orphan {
            actions.push(SidrAction::Tell(notice));
        }
    }

    /// Whether a datagram has the names of this question.
    pub fn concerns(&self, mad: &Cm) -> bool {
        mad.local_comm_id() == self.request_id && mad.tid() == self.tid
    }

    /// The datagram to send: the question along [`Resolution::path`], the answer to [`Resolution::source`].
    pub fn datagram(&self) -> &Cm {
        &self.mad
    }

    /// The state.
    pub fn state(&self) -> SidrState {
        self.state
    }

    /// When [`SidrEvent::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What whoever asks calls the question.
    pub fn request_id(&self) -> u32 {
        self.request_id
    }

    /// The service that it is about.
    pub fn service_id(&self) -> u64 {
        self.service_id
    }

    /// By which way it goes, at the end that asks.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it has come from, at the other end.
    pub fn source(&self) -> &Source {
        &self.source
    }
}
