// SPDX-License-Identifier: GPL-2.0

//! Two connections, and a hand that carries their datagrams.

use crate::ends::{
    active,
    env,
    passive,
    path,
    reply,
    request,
    source, //
};
use proto::cm::{
    Action,
    Actions,
    Ap,
    Conn,
    Count,
    Event,
    LapTiming,
    Notice,
    Order,
    Refusal,
    Slot,
    State, //
};
use proto::time::Instant;
use proto::transport::MigState;
use wire::mad::cm::{
    Cm,
    Message,
    Req, //
};

/// The requester.
pub(crate) const A: usize = 0;
/// Its peer.
pub(crate) const P: usize = 1;

pub(crate) struct Pair {
    pub(crate) conns: [Conn; 2],
    pub(crate) now: Instant,
    pub(crate) migration: [MigState; 2],
    /// What each end has been told, and has not been asked about yet.
    told: [Vec<Notice>; 2],
    /// What each end has counted, likewise.
    counted: [Vec<Count>; 2],
    /// What each end has sent, and nobody has taken yet.
    sent: [Vec<Cm>; 2],
    pub(crate) freed: [bool; 2],
}

impl Pair {
    /// An end that has asked for a connection, and one that has heard of it.
    pub(crate) fn new() -> Self {
        Self::by(Conn::new(active()))
    }

    /// The same, by an end that has none now.
    pub(crate) fn by(conn: Conn) -> Self {
        let mut pair = Self::asking(conn, &request());
        let _ = pair.take(A);
        pair
    }

    /// The same by this request, which has not been taken yet.
    pub(crate) fn asking(mut conn: Conn, req: &Req) -> Self {
        let order = Event::Order(Order::Connect(req, b"hello"));
        let now = env(Instant::default(), MigState::Migrated);
        assert!(conn.step(order, &now).is_ok());
        let sent = [vec![conn.datagram(Slot::Request).clone()], Vec::new()];
        let other = Conn::incoming(passive(), conn.datagram(Slot::Request), source(true, 0));
        Self {
            conns: [conn, other],
            now: Instant::default(),
            migration: [MigState::Migrated; 2],
            told: Default::default(),
            counted: Default::default(),
            sent,
            freed: [false; 2],
        }
    }

    /// Two ends with a connection.
    pub(crate) fn established() -> Self {
        let mut pair = Self::new();
        pair.establish();
        pair
    }

    /// Makes the connection that was asked for.
    pub(crate) fn establish(&mut self) {
        self.order(P, Order::Accept(&reply(), b"welcome"));
        self.carry(P);
        self.order(A, Order::Ready(b"go"));
        self.carry(A);
        assert_eq!(self.told(A), [Notice::RepReceived]);
        assert_eq!(self.told(P), [Notice::RtuReceived]);
        self.expect(State::Established(Ap::Idle), State::Established(Ap::Idle));
    }

    /// Two ends of which the requester has offered path 1, and the other has been told.
    pub(crate) fn offered() -> Self {
        let mut pair = Self::established();
        pair.offer(1);
        pair.carry(A);
        assert_eq!(pair.told(P), [Notice::LapReceived(1, path(1).reversed())]);
        pair.expect(
            State::Established(Ap::LapSent),
            State::Established(Ap::LapRcvd),
        );
        pair
    }

    /// Two ends that have agreed on path 1.
    pub(crate) fn loaded() -> Self {
        let mut pair = Self::offered();
        pair.order(P, Order::Answer(1, 0, &[], &[]));
        pair.carry(P);
        assert_eq!(pair.told(A), [Notice::AprReceived(0, path(1))]);
        assert_eq!(pair.conns[A].alternate(), Some(&path(1)));
        assert_eq!(pair.conns[P].alternate(), Some(&path(1).reversed()));
        pair
    }

    pub(crate) fn expect(&self, active: State, passive: State) {
        assert_eq!(
            (self.conns[A].state(), self.conns[P].state()),
            (active, passive)
        );
    }

    pub(crate) fn try_step(&mut self, end: usize, event: Event<'_>) -> Result<(), Refusal> {
        let env = env(self.now, self.migration[end]);
        let actions: Actions = self.conns[end].step(event, &env)?;
        for action in actions.iter() {
            match action {
                Action::Send(slot) => self.sent[end].push(self.conns[end].datagram(slot).clone()),
                Action::Tell(notice) => self.told[end].push(notice),
                Action::Count(count) => self.counted[end].push(count),
                Action::Free => self.freed[end] = true,
            }
        }
        Ok(())
    }

    pub(crate) fn step(&mut self, end: usize, event: Event<'_>) {
        assert_eq!(self.try_step(end, event), Ok(()));
    }

    pub(crate) fn order(&mut self, end: usize, order: Order<'_>) {
        self.step(end, Event::Order(order));
    }

    pub(crate) fn try_order(&mut self, end: usize, order: Order<'_>) -> Result<(), Refusal> {
        self.try_step(end, Event::Order(order))
    }

    pub(crate) fn offer(&mut self, number: u8) {
        self.order(A, Order::Load(&path(number), LapTiming::default(), &[]));
    }

    /// Takes the datagram that `end` has sent: just one.
    pub(crate) fn take(&mut self, end: usize) -> Cm {
        assert_eq!(self.sent[end].len(), 1, "datagrams of end {end}");
        self.sent[end].remove(0)
    }

    /// Takes all datagrams that `end` has sent.
    pub(crate) fn take_all(&mut self, end: usize) -> Vec<Cm> {
        std::mem::take(&mut self.sent[end])
    }

    /// Takes it as the message that it is.
    pub(crate) fn take_as<T: Message>(&mut self, end: usize) -> T {
        let mad = self.take(end);
        assert_eq!(mad.attr_id(), T::KIND.attr());
        mad.message()
    }

    /// Nothing has been sent.
    pub(crate) fn silent(&self, end: usize) {
        assert!(self.sent[end].is_empty(), "end {end} has sent something");
    }

    /// Hands a datagram to `end`.
    pub(crate) fn give(&mut self, end: usize, mad: &Cm) {
        self.step(end, Event::Received(mad, source(end == P, 0)));
    }

    /// Carries the datagram that `end` has sent to the other end.
    pub(crate) fn carry(&mut self, end: usize) {
        let mad = self.take(end);
        self.give(1 - end, &mad);
    }

    /// Lets time pass until `end` does something about it.
    pub(crate) fn wait(&mut self, end: usize) {
        self.now = self.conns[end].deadline().expect("nothing to wait for");
        self.step(end, Event::Tick);
    }

    /// What `end` has been told since it was last asked.
    pub(crate) fn told(&mut self, end: usize) -> Vec<Notice> {
        std::mem::take(&mut self.told[end])
    }

    pub(crate) fn counted(&mut self, end: usize) -> Vec<Count> {
        std::mem::take(&mut self.counted[end])
    }
}
