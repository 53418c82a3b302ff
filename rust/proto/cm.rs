// SPDX-License-Identifier: GPL-2.0

//! The connection manager: one connection of two queue pairs, from REQ to TIMEWAIT, with the exchange of alternate
//! paths (LAP and APR) that mainline's has not.
//!
//! A [`Conn`] is told what happens by [`Conn::step`], and says what is to be sent and what the consumer is to be
//! told. It knows no table of connections and no queue pair: whoever owns it finds it by the communication IDs of
//! a datagram ([`Conn::concerns`]), steps it when [`Conn::deadline`] has passed, and tells it when the queue pair has
//! migrated.
//!
//! A [`Resolution`] is the same for a question about a service of datagrams (SIDR), which is no connection.
//!
//! Each function that takes an event lists all states, so that a new state does not compile before each event has
//! an answer for it.
//!
//! Sources: IBA "Communication Management"; the alternate path states of the seed on LAP and APR, with its open
//! questions answered so that the two ends never hold different paths while both are armed. The answers rest on
//! four rules: transaction IDs of LAPs grow, and older ones are dropped ([`answer`]); no path is offered by an end
//! that has one ([`load`]); a queue pair in REARM follows its peer to its alternate path
//! ([`crate::transport::migration`]); and after a migration no path is offered until the peer is heard on the new
//! one. `tests/host/cm/explore.rs` shows that no one of them can be left out.

mod adopt;
mod answer;
mod attributes;
mod end;
mod event;
mod hint;
mod load;
mod refusal;
mod setup;
mod sidr;
mod stale;
mod state;
mod timing;
mod unknown;
pub mod watch;

pub use adopt::Adoption;
pub use attributes::{
    Alternate,
    Attributes,
    Goal,
    Reliable, //
};
pub use event::{
    Action,
    Actions,
    Count,
    Env,
    Event,
    LapFailure,
    LapTiming,
    Local,
    Notice,
    Order,
    PathFault,
    Refusal,
    Slot,
    Source,
    Ways, //
};
pub use hint::Hint;
pub use refusal::transport_refusal;
pub use sidr::{
    Resolution,
    SidrAction,
    SidrAnswer,
    SidrEvent,
    SidrKey,
    SidrNotice,
    SidrOrder,
    SidrState,
    SidrTiming, //
};
pub use stale::stale_refusal;
pub use state::{
    Ap,
    Role,
    State, //
};
pub use timing::LONGEST;
pub use unknown::unknown_answer;

use crate::time::Instant;
use answer::{
    age,
    Age,
    Heard, //
};
use attributes::Terms;
use load::Load;
use wire::mad::cm::{
    attr,
    Cm,
    Path, //
};
use wire::{
    Guid,
    Qpn, //
};

/// Room for additional information in REJ and APR, in bytes.
const INFO_LEN: usize = 72;

/// What a connection is given when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its communication ID, which no other connection of the HCA has.
    pub comm_id: u32,
    /// GUID of the HCA.
    pub guid: Guid,
    /// High half of the transaction IDs of its datagrams.
    pub tid_high: u32,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conn {
    identity: Identity,
    role: Role,
    state: State,
    /// Nobody wants to hear of it any more.
    is_orphan: bool,
    remote_id: u32,
    remote_guid: Guid,
    local_qpn: Qpn,
    remote_qpn: Qpn,
    terms: Terms,
    primary: Path,
    alternate: Option<Path>,
    /// The path before the primary one: datagrams may still come by it.
    former: Option<Path>,
    can_fail_over: bool,
    /// The peer has been heard on the primary path.
    is_settled: bool,
    /// Code of the time that the peer's CM may take.
    response: u8,
    max_retries: u8,
    retries: u8,
    deadline: Option<Instant>,
    tid_low: u32,
    req_tid: u64,
    dreq_tid: u64,
    load: Load,
    heard: Heard,
    /// Where the last datagram came from.
    source: Source,
    request: Cm,
    reply: Cm,
    once: Cm,
}

/// Whether two paths are the same way: the ends decide, not how packets are treated on it.
fn is_same(one: &Path, other: &Path) -> bool {
    let ends = |path: &Path| {
        (
            (path.local_lid, path.remote_lid),
            (path.local_gid, path.remote_gid),
            path.subnet_local,
        )
    };
    ends(one) == ends(other)
}

/// Whether a queue pair that has the path `told` uses the path `known`.
fn is_way_of(told: &Path, known: &Path) -> bool {
    let ends = |path: &Path| (path.local_gid, path.local_lid, path.remote_lid);
    ends(told) == ends(known) && (told.subnet_local || told.remote_gid == known.remote_gid)
}

/// Additional information as messages have it, with its length. What there is no room for is cut off.
fn padded(info: &[u8]) -> ([u8; INFO_LEN], u8) {
    let mut padded = [0; INFO_LEN];
    let mut len = 0u8;
    for (to, from) in padded.iter_mut().zip(info) {
        *to = *from;
        len = len.saturating_add(1);
    }
    (padded, len)
}

impl Conn {
    /// A connection in the state IDLE.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            role: Role::Active,
            state: State::Idle,
            is_orphan: false,
            remote_id: 0,
            remote_guid: Guid::default(),
            local_qpn: Qpn::default(),
            remote_qpn: Qpn::default(),
            terms: Terms::default(),
            primary: Path::default(),
            alternate: None,
            former: None,
            can_fail_over: true,
            is_settled: true,
            response: 0,
            max_retries: 0,
            retries: 0,
            deadline: None,
            tid_low: 0,
            req_tid: 0,
            dreq_tid: 0,
            load: Load::default(),
            heard: Heard::default(),
            source: Source::default(),
            request: Cm::new(attr::REQ, 0),
            reply: Cm::new(attr::RTU, 0),
            once: Cm::new(attr::REJ, 0),
        }
    }

    /// Takes an event, and says what is to be done about it, in order.
    ///
    /// # Errors
    ///
    /// An order that cannot be carried out changes nothing. Of the other events [`Event::Migrated`] can be refused, when
    /// there is no alternate path, and [`Event::Moved`], when it is known; both when there is no queue pair
    /// ([`State::has_queue_pair`]).
    pub fn step(&mut self, event: Event<'_>, env: &Env<'_>) -> Result<Actions, Refusal> {
        let mut actions = Actions::default();
        match event {
            Event::Order(order) => self.ordered(order, env, &mut actions)?,
            Event::Received(mad, source) => self.received(mad, source, env, &mut actions),
            Event::Tick => self.tick(env, &mut actions),
            Event::Migrated => self.migrated(&mut actions)?,
            Event::Moved(ways) => self.moved(ways, &mut actions)?,
            Event::Confirmed => self.is_settled = true,
            Event::StaleRep(mad, source) => self.on_stale_rep(mad, source, &mut actions),
            Event::Stale(source) => self.on_stale(&source, env, &mut actions),
            Event::Gone => self.gone(&mut actions),
        }
        Ok(actions)
    }

    fn ordered(
        &mut self,
        order: Order<'_>,
        env: &Env<'_>,
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        match order {
            Order::Connect(req, private) => self.connect(req, private, env, actions),
            Order::Accept(rep, private) => self.accept(rep, private, env, actions),
            Order::Ready(private) => self.ready(private, actions),
            Order::Reject(reason, info, private) => {
                self.reject(reason, info, private, env, actions)
            }
            Order::Delay(service, private) => self.delay(service, private, actions),
            Order::Established => self.established(),
            Order::Disconnect(private) => self.disconnect(private, env, actions),
            Order::Depart(private) => self.depart(private, env, actions),
            Order::Load(path, timing, private) => {
                self.send_lap(path, timing, private, env, actions)
            }
            Order::Confirmed => {
                self.is_settled = true;
                Ok(())
            }
            Order::Unload => {
                self.alternate = None;
                Ok(())
            }
            Order::Answer(generation, status, info, private) => {
                self.send_apr(generation, status, info, private, actions)
            }
            Order::Destroy => {
                self.destroy(env, actions);
                Ok(())
            }
        }
    }

    fn received(&mut self, mad: &Cm, source: Source, env: &Env<'_>, actions: &mut Actions) {
        if !self.concerns(mad) || !self.is_from_peer(&source) {
            return;
        }
        self.source = source;
        match mad.attr_id() {
            attr::REQ => self.on_req(mad, actions),
            attr::MRA => self.on_mra(mad, env, actions),
            attr::REJ => self.on_rej(mad, env, actions),
            attr::REP => self.on_rep(mad, actions),
            attr::RTU => self.on_rtu(mad, actions),
            attr::DREQ => self.on_dreq(mad, env, actions),
            attr::DREP => self.on_drep(mad, env, actions),
            attr::LAP => self.on_lap(mad, env, actions),
            attr::APR => self.on_apr(mad, actions),
            _ => {}
        }
    }

    /// Whether a datagram is for this connection: it has its communication IDs, or answers its REQ. So is a REQ of an
    /// earlier attempt, which has been on its way for too long: it shows nothing that the peer has lost.
    pub fn concerns(&self, mad: &Cm) -> bool {
        let theirs = mad.local_comm_id();
        if mad.attr_id() == attr::REQ {
            return self.role == Role::Passive
                && theirs == self.remote_id
                && !matches!(age(self.req_tid, mad.tid()), Age::Newer);
        }
        let ours = mad.remote_comm_id();
        if mad.attr_id() == attr::REJ && ours == 0 {
            // From a requester that has given up, and has never heard this end's ID.
            return self.role == Role::Passive
                && self.state.is_requested()
                && theirs == self.remote_id;
        }
        // As long as the peer's ID is not known there are but answers to the REQ. A connection of ib_cm may have this ID.
        let is_theirs = if self.remote_id == 0 {
            mad.tid() == self.req_tid
        } else {
            theirs == self.remote_id
        };
        ours == self.identity.comm_id && is_theirs
    }

    /// Whether a datagram has come from one of the peer's ports. IDs alone can be guessed.
    fn is_from_peer(&self, source: &Source) -> bool {
        [Some(self.primary), self.alternate, self.former]
            .iter()
            .flatten()
            .any(|path| source.is_far_end_of(path))
    }

    fn next_tid(&mut self) -> u64 {
        self.tid_low = self.tid_low.wrapping_add(1);
        u64::from(self.identity.tid_high) << 32 | u64::from(self.tid_low)
    }

    fn send(&self, slot: Slot, actions: &mut Actions) {
        actions.push(Action::Send(slot));
        match self.datagram(slot).attr_id() {
            attr::LAP => self.count(Count::LapSent, actions),
            attr::APR => self.count(Count::AprSent, actions),
            _ => {}
        }
    }

    fn count(&self, count: Count, actions: &mut Actions) {
        actions.push(Action::Count(count));
    }

    fn tell(&self, notice: Notice, actions: &mut Actions) {
        if !self.is_orphan {
            actions.push(Action::Tell(notice));
        }
    }

    /// The datagram to send.
    pub fn datagram(&self, slot: Slot) -> &Cm {
        match slot {
            Slot::Request => &self.request,
            Slot::Reply => &self.reply,
            Slot::Once => &self.once,
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Who began.
    pub fn role(&self) -> Role {
        self.role
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The path in use: that of requests.
    pub fn primary(&self) -> &Path {
        &self.primary
    }

    /// The alternate path, if both ends have agreed on one.
    pub fn alternate(&self) -> Option<&Path> {
        self.alternate.as_ref()
    }

    /// Where replies go.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Its communication ID and the peer's, which is 0 as long as it is not known.
    pub fn comm_ids(&self) -> (u32, u32) {
        (self.identity.comm_id, self.remote_id)
    }

    /// The peer: its CA GUID and queue pair.
    pub fn peer(&self) -> (Guid, Qpn) {
        (self.remote_guid, self.remote_qpn)
    }

    /// The queue pair of this end.
    pub fn local_qpn(&self) -> Qpn {
        self.local_qpn
    }
}
