// SPDX-License-Identifier: GPL-2.0

//! The receiving side of a connection: from request packets to memory, completions and responses.
//!
//! An ACK is a debt, not a packet: requests that want one are noted, and whoever polls gets a single ACK for
//! all of them. RDMA READ, atomic operations and the like are remembered ([`fetch`]) until the peer cannot ask
//! for their answers again. Answers go out in the order of PSNs, and an ACK or NAK goes after them, since a response
//! speaks for all requests before it.
//!
//! Every acknowledgement tells how many messages are done, and how many more find a receive work request. A peer
//! that was told of none sends one message at a time to ask again, or hears of new ones by an ACK of their own.
//!
//! Source: IBA "Responder: receiving inbound requests", "Acknowledge message scheduling", "Duplicate requests",
//! "End-to-End Flow Control".

pub(super) mod fetch;
mod uc;

use crate::transport::config::QpConfig;
use crate::transport::deferral::PAUSE;
use crate::transport::env::{
    Env,
    QpEvent, //
};
use crate::transport::inbound::{
    Fault,
    Inbound, //
};
use crate::transport::qp::RxDrop;
use crate::transport::segment::{
    connected_header,
    Payload,
    TxLimits,
    TxSegment, //
};
use crate::transport::wc::WcStatus;
use core::ops::DerefMut;
use fetch::Fetches;
pub use fetch::Resource;
use wire::aeth::{
    self,
    Aeth,
    NakCode,
    Syndrome, //
};
use wire::header::Header;
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::Psn;

/// Message sequence numbers have 24 bits.
const MSN_MASK: u32 = 0xff_ffff;

/// What is to be said to the peer when all answers are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    None,
    /// All before the expected packet is done.
    Ack,
    /// The expected packet is missing.
    Missing,
    /// The same, and what follows it has come, and was thrown away.
    Skipped,
    /// The expected packet finds no receive work request, or another reason to come again after a pause with
    /// this code.
    NotReady(u8),
    /// The request with this PSN is refused, and the queue pair is in error.
    Refused(Psn, NakCode),
}

/// Why a request had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing happened but what the peer can repair.
    Drop(RxDrop),
    /// The queue pair has to go to the error state.
    Fatal,
}

impl From<RxDrop> for Refusal {
    fn from(drop: RxDrop) -> Self {
        Self::Drop(drop)
    }
}

/// The receiving side of a connection.
pub(super) struct Responder<R> {
    pub(super) inbound: Inbound,
    /// PSN of the packet that is next.
    expected: Psn,
    /// Messages completed, modulo 2^24.
    msn: u32,
    /// Packets before the expected one are missing, or it was refused for now: the peer knows (reliable), or
    /// the rest of a message is skipped (unreliable).
    broken: bool,
    reply: Reply,
    /// Receive work requests that were left when a message took one. There may be more by now.
    recvs: u32,
    /// Whether the peer was, or will be, told that there are none.
    exhausted: bool,
    fetches: Fetches<R>,
    /// Whether the peer has asked again while an answer waits for its memory.
    pauses: bool,
}

impl<R: DerefMut<Target = [Resource]>> Responder<R> {
    pub(super) fn new(storage: R) -> Self {
        Self {
            inbound: Inbound::default(),
            expected: Psn::default(),
            msn: 0,
            broken: false,
            reply: Reply::None,
            recvs: 0,
            exhausted: false,
            fetches: Fetches::new(storage),
            pauses: false,
        }
    }

    /// Starts to expect packets from the configured PSN on.
    pub(super) fn open(&mut self, config: &QpConfig) {
        self.reset();
        self.expected = config.rq_psn;
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        self.inbound.reset();
        self.expected = Psn::default();
        self.msn = 0;
        self.recvs = 0;
        self.broken = false;
        self.silence();
    }

    /// Forgets what is to be said.
    pub(super) fn silence(&mut self) {
        self.reply = Reply::None;
        self.exhausted = false;
        self.fetches.clear();
        self.pauses = false;
    }

    pub(super) fn expected(&self) -> Psn {
        self.expected
    }

    /// Number of RDMA READ and atomic operations that can be remembered.
    pub(super) fn capacity(&self) -> u32 {
        self.fetches.capacity()
    }

    /// Takes a request of a reliable connection.
    pub(super) fn on_request(
        &mut self,
        header: &Header,
        size: (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Refusal> {
        let distance = header.bth.psn.diff(self.expected);
        if distance > 0 {
            if !self.broken {
                self.broken = true;
                self.reply = Reply::Skipped;
            }
            return Err(RxDrop::OutOfSequence.into());
        }
        if distance < 0 {
            self.on_duplicate(header, size.0, distance.unsigned_abs(), config);
            return Err(RxDrop::Duplicate.into());
        }
        let result = match header.bth.opcode.operation() {
            operation if operation.is_fetch() => self.on_fetch(header, size, config, env),
            _ => self.on_message(header, size, config, env),
        };
        match result {
            Ok(()) => {
                // What was thrown away is missing now, unless the peer knows that already.
                self.broken = self.reply == Reply::Skipped;
                Ok(())
            }
            Err(Fault::NotReady) => {
                self.put_off(config.min_rnr_timer);
                Err(RxDrop::NoRecv.into())
            }
            // Whatever is to be said about it will be said when it comes again.
            Err(Fault::Absent) => Err(RxDrop::Absent.into()),
            Err(Fault::Busy) => Err(RxDrop::Busy.into()),
            Err(fault) => Err(self.refuse(fault, env)),
        }
    }

    /// Answers a request that has come again while others wait. If the expected one does, the peer is to `pause`.
    pub(super) fn on_deferred(
        &mut self,
        header: &Header,
        span: u32,
        pause: Option<u8>,
        config: &QpConfig,
    ) {
        let distance = header.bth.psn.diff(self.expected);
        if distance < 0 {
            self.on_duplicate(header, span, distance.unsigned_abs(), config);
        }
        if let Some(pause) = pause {
            self.put_off(pause);
        }
    }

    /// The expected packet was lost at this side.
    pub(super) fn miss(&mut self) {
        self.broken = true;
        self.reply = Reply::Missing;
    }

    /// What the peer was told to pause for has come. It has asked, though perhaps by a packet that was not kept.
    pub(super) fn end_pause(&mut self) {
        if self.reply == Reply::None {
            self.reply = Reply::Ack;
        }
    }

    /// Has the expected packet come again after a pause.
    fn put_off(&mut self, timer: u8) {
        self.broken = true;
        self.reply = Reply::NotReady(timer);
    }

    fn on_message(
        &mut self,
        header: &Header,
        size: (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Fault> {
        if header
            .ieth
            .is_some_and(|ieth| self.fetches.is_to_read(ieth.rkey))
        {
            return Err(match self.fetches.is_held_up() {
                true => Fault::Absent,
                false => Fault::Busy,
            });
        }
        self.inbound.on_request(header, size, config, env)?;
        self.expected = self.expected.add(size.0);
        if header.bth.opcode.ends() {
            self.count_message();
            let operation = header.bth.opcode.operation();
            let took_recv = !matches!(operation, Operation::WriteLast | Operation::WriteOnly);
            if took_recv && !config.srq {
                self.recvs = env.recv_count();
                self.exhausted = self.recvs == 0;
            }
        }
        self.reply = match self.reply {
            // The NAK of what comes next acknowledges this.
            Reply::Skipped => Reply::Skipped,
            last if header.bth.ack_req || last == Reply::Ack => Reply::Ack,
            _ => Reply::None,
        };
        Ok(())
    }

    fn on_fetch(
        &mut self,
        header: &Header,
        size: (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<(), Fault> {
        if self.inbound.is_open() {
            return Err(Fault::Invalid);
        }
        let count = self.fetches.accept(header, size, config, env)?;
        self.expected = self.expected.add(count);
        self.count_message();
        self.fetches.note_aeth(self.aeth(config));
        // The answer acknowledges all that came before.
        if self.reply != Reply::Skipped {
            self.reply = Reply::None;
        }
        Ok(())
    }

    /// A message is done.
    fn count_message(&mut self) {
        self.msn = self.msn.wrapping_add(1) & MSN_MASK;
    }

    /// How far the messages have come, and how many more may.
    fn aeth(&self, config: &QpConfig) -> Aeth {
        let credits = if config.srq {
            aeth::NO_FLOW_CONTROL
        } else {
            aeth::credit_code(self.recvs)
        };
        Aeth {
            syndrome: Syndrome::Ack { credits },
            msn: self.msn,
        }
    }

    /// There are `recvs` work requests on the receive queue now, some of which were posted since a message came.
    /// Who was told that there are none is told of them; returns whether that makes an ACK of its own.
    pub(super) fn receives_posted(&mut self, recvs: u32) -> bool {
        if !self.exhausted || self.inbound.is_open() {
            return false;
        }
        self.recvs = recvs;
        let silent = self.reply == Reply::None;
        if silent {
            self.reply = Reply::Ack;
        }
        silent
    }

    /// Answers a request again that begins `behind` packets before the expected one.
    fn on_duplicate(&mut self, header: &Header, span: u32, behind: u32, config: &QpConfig) {
        self.pauses |= self.fetches.is_held_up();
        match header.bth.opcode.operation() {
            operation if operation.is_fetch() => self.fetches.replay(header, config),
            // A segment of which only the end is new is refused as a whole: the peer cuts it anew. It is also a
            // sign that the peer has not heard of an earlier NAK.
            _ if span > behind => {
                self.broken = true;
                self.reply = Reply::Missing;
            }
            _ => {
                if self.reply == Reply::None {
                    self.reply = Reply::Ack;
                }
            }
        }
    }

    /// Tells the peer, the consumer, and the caller, that the expected request is refused for good. The consumer
    /// has a completion if a receive work request serves the request, else an event.
    fn refuse(&mut self, fault: Fault, env: &mut impl Env) -> Refusal {
        let code = match fault {
            Fault::Local(WcStatus::LocLenErr)
            | Fault::Invalid
            | Fault::NotReady
            | Fault::Absent
            | Fault::Busy => NakCode::InvalidRequest,
            Fault::Access => NakCode::RemoteAccessError,
            Fault::Local(_) => NakCode::RemoteOperationalError,
        };
        if !self.inbound.complete_error(fault.status(), env) {
            env.event(match fault {
                Fault::Access => QpEvent::AccessErr,
                _ => QpEvent::ReqErr,
            });
        }
        self.reply = Reply::Refused(self.expected, code);
        Refusal::Fatal
    }

    /// The memory that a polled answer was to come from is gone. Returns whether that is an error, of which the
    /// peer will be told.
    pub(super) fn gather_failed(&mut self) -> bool {
        let psn = self.fetches.revoke();
        if let Some(psn) = psn {
            self.reply = Reply::Refused(psn, NakCode::RemoteAccessError);
        }
        psn.is_some()
    }

    /// The segment of an answer with data that was polled last was not sent: it is to be polled again.
    pub(super) fn put_back(&mut self) {
        self.fetches.put_back();
    }

    /// Whether there may be a response to send.
    pub(super) fn has_output(&self) -> bool {
        self.reply != Reply::None || self.fetches.is_pending()
    }

    /// Tells a peer that has asked again to pause until the memory of the answer is there, as is done while a request
    /// waits.
    fn pause(&mut self, config: &QpConfig, limits: &TxLimits) -> Option<TxSegment> {
        if !core::mem::take(&mut self.pauses) {
            return None;
        }
        let psn = self.fetches.held_up()?;
        let aeth = Aeth {
            syndrome: Syndrome::Rnr { timer: PAUSE },
            msn: self.msn,
        };
        acknowledgement(psn, aeth, config, limits)
    }

    /// The next response to send.
    pub(super) fn poll(&mut self, config: &QpConfig, limits: &TxLimits) -> Option<TxSegment> {
        if let Some(segment) = self.pause(config, limits) {
            return Some(segment);
        }
        if let Some(segment) = self.fetches.poll(config, limits) {
            return Some(segment);
        }
        self.acknowledge(config, limits)
    }

    /// The same if it is one packet with at most `most` bytes, and nothing else has to go first.
    pub(super) fn poll_reply(
        &mut self,
        most: u32,
        config: &QpConfig,
        limits: &TxLimits,
    ) -> Option<TxSegment> {
        if let Some(segment) = self.pause(config, limits) {
            return Some(segment);
        }
        if self.fetches.owes() {
            return self.fetches.poll_short(most, config, limits);
        }
        self.acknowledge(config, limits)
    }

    fn acknowledge(&mut self, config: &QpConfig, limits: &TxLimits) -> Option<TxSegment> {
        let refusal = |syndrome| Aeth {
            syndrome,
            msn: self.msn,
        };
        let (psn, aeth) = match self.reply {
            Reply::None => return None,
            Reply::Ack => (self.expected.back(1), self.aeth(config)),
            Reply::Missing | Reply::Skipped => {
                let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
                (self.expected, refusal(syndrome))
            }
            Reply::NotReady(timer) => (self.expected, refusal(Syndrome::Rnr { timer })),
            Reply::Refused(psn, code) => (psn, refusal(Syndrome::Nak(code))),
        };
        if self.reply == Reply::Ack {
            self.exhausted &= self.recvs == 0;
        }
        self.reply = Reply::None;
        acknowledgement(psn, aeth, config, limits)
    }
}

/// An acknowledgement of any kind.
fn acknowledgement(
    psn: Psn,
    aeth: Aeth,
    config: &QpConfig,
    limits: &TxLimits,
) -> Option<TxSegment> {
    let opcode = Opcode::new(Service::Rc, Operation::Ack)?;
    let mut header = connected_header(config, limits, opcode, psn);
    header.aeth = Some(aeth);
    Some(TxSegment {
        header,
        span: 1,
        payload: Payload::None,
    })
}
