// SPDX-License-Identifier: GPL-2.0

//! Two ends, their queue pairs and consumers, and the network between them; and what may happen next.

use super::book::{
    Book,
    ConnId,
    Deed,
    Happening,
    MadId, //
};
use super::queue_pair::{
    Migration,
    Pair, //
};
use super::{
    number_of,
    Bounds,
    A,
    P, //
};
use crate::ends::{
    active,
    env,
    passive,
    reply,
    request,
    source, //
};
use proto::cm::{
    Ap,
    Conn,
    Event,
    LapFailure,
    Notice,
    Order,
    Refusal,
    Slot,
    State, //
};
use proto::time::Instant;
use proto::transport::MigState;
use wire::mad::cm::{
    ap_status,
    attr, //
};

/// Paths to choose from.
const PATHS: u8 = 3;

/// The most datagrams under way at a time.
const ROOM: usize = 4;

/// What a consumer has still to do.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Consumer {
    /// The path of a LAP or an APR that it has heard of.
    told: Option<u8>,
    /// The LAP to answer, and with what.
    answer: Option<(u8, u8)>,
    /// LAPs without an end yet.
    open: u8,
    /// It has been told that the connection ends, and has not agreed yet.
    parts: bool,
}

/// What the HCA has not told the connection manager yet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Late {
    migrated: u8,
    confirmed: bool,
    /// The peer has been heard since the last migration, of which there is news to come.
    heard: bool,
}

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// A connection that is over sends something.
    SentAfterTheEnd,
    /// There is news of a connection that is over.
    ToldAfterTheEnd,
    /// There is news out of place.
    OutOfPlace,
    /// A connection is freed that has an owner.
    Freed,
    /// A LAP has ended twice.
    EndedTwice,
    /// A LAP is without an end.
    NoEnd,
    /// One end has migrated, and the other never can.
    Lost,
    /// The ends are on different paths for good.
    Apart,
    /// Both ends are armed, with different paths.
    ArmedApart,
    /// A connection and its queue pair are on different paths, though there is no news on its way.
    Behind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    conns: [ConnId; 2],
    pairs: [Pair; 2],
    consumers: [Consumer; 2],
    late: [Late; 2],
    /// Where it goes, and what it is; in order, those that are none first.
    channel: [(u8, MadId); ROOM],
    laps: u8,
    /// The generation of the LAP that the passive consumer was told of last.
    generation: u8,
    broken: Option<Fault>,
}

impl World {
    /// Both ends are connected.
    pub(super) fn new(book: &mut Book) -> Self {
        let mut conn = Conn::new(active());
        let now = env(Instant::default(), MigState::Migrated);
        let step = |conn: &mut Conn, event: Event<'_>| {
            let _ = conn.step(event, &now);
        };
        step(&mut conn, Event::Order(Order::Connect(&request(), &[])));
        let req = conn.datagram(Slot::Request).clone();
        let mut other = Conn::incoming(passive(), &req, source(true, 0));
        step(&mut other, Event::Order(Order::Accept(&reply(), &[])));
        let rep = other.datagram(Slot::Request).clone();
        step(&mut conn, Event::Received(&rep, source(false, 0)));
        step(&mut conn, Event::Order(Order::Ready(&[])));
        let rtu = conn.datagram(Slot::Reply).clone();
        step(&mut other, Event::Received(&rtu, source(true, 0)));
        assert_eq!(conn.state(), State::Established(Ap::Idle));
        assert_eq!(other.state(), State::Established(Ap::Idle));
        let pair = Pair {
            primary: 0,
            alternate: None,
            migration: Migration::Migrated,
        };
        Self {
            conns: [book.number(A, conn), book.number(P, other)],
            pairs: [pair; 2],
            consumers: Default::default(),
            late: Default::default(),
            channel: Default::default(),
            laps: 0,
            generation: 0,
            broken: None,
        }
    }

    fn state(&self, book: &Book, end: usize) -> State {
        book.state(self.conns[end])
    }

    fn is_up(&self, book: &Book, end: usize) -> bool {
        matches!(self.state(book, end), State::Established(_))
    }

    /// How many datagrams are under way.
    fn under_way(&self) -> usize {
        self.channel.iter().filter(|(_, mad)| *mad != 0).count()
    }

    /// Steps an end; `None` if there is no room for what it sends.
    fn step(
        &mut self,
        book: &mut Book,
        end: usize,
        happening: Happening,
        bounds: Bounds,
    ) -> Option<Result<(), Refusal>> {
        let migration = self.pairs[end].migration.state();
        let step = book.step(self.conns[end], happening, migration);
        let deeds = match &step.deeds {
            Ok(deeds) => deeds,
            Err(refusal) => return Some(Err(*refusal)),
        };
        self.conns[end] = step.conn;
        let state = book.state(step.conn);
        let is_over = matches!(state, State::Timewait | State::Idle);
        let mut sent = 0;
        for deed in deeds {
            match *deed {
                Deed::Sent(mad) => {
                    if is_over && book.mad_of(mad).attr_id() != attr::DREP {
                        self.broken = Some(Fault::SentAfterTheEnd);
                    }
                    sent += 1;
                    // Who sends more at a time could be kept from it by one datagram that might be lost.
                    assert_eq!(sent, 1);
                    if !self.put((1 - end) as u8, mad, bounds) {
                        return None;
                    }
                }
                Deed::Told(notice) => self.tell(end, notice, state),
                Deed::Freed => self.broken = Some(Fault::Freed),
                Deed::Dropped => {}
            }
        }
        for place in &mut self.channel {
            if bounds.thrifty
                && place.1 != 0
                && book.is_dead(self.conns[usize::from(place.0)], place.1)
            {
                *place = (0, 0);
            }
        }
        self.channel.sort_unstable();
        Some(Ok(()))
    }

    fn put(&mut self, to: u8, mad: MadId, bounds: Bounds) -> bool {
        if self.under_way() >= bounds.channel {
            return false;
        }
        // The first is the least, and there is room.
        self.channel[0] = (to, mad);
        self.channel.sort_unstable();
        true
    }

    fn tell(&mut self, end: usize, notice: Notice, state: State) {
        let is_up = matches!(state, State::Established(_));
        let consumer = &mut self.consumers[end];
        match notice {
            Notice::DreqReceived => consumer.parts = true,
            Notice::DrepReceived | Notice::DreqError | Notice::TimewaitExit => {}
            Notice::LapError(LapFailure::Aborted) if !is_up => self.ended(end),
            Notice::Migrated(_) if state.has_queue_pair() => {}
            _ if !is_up => self.broken = Some(Fault::ToldAfterTheEnd),
            Notice::LapReceived(generation, path) => {
                self.generation = generation as u8;
                consumer.told = Some(number_of(&path));
                consumer.answer = None;
            }
            Notice::AprReceived(status, path) => {
                consumer.told = (status == ap_status::LOADED).then(|| number_of(&path));
                self.ended(end);
            }
            Notice::LapError(LapFailure::Timeout) => self.ended(end),
            Notice::MraReceived => {}
            _ => self.broken = Some(Fault::OutOfPlace),
        }
    }

    fn ended(&mut self, end: usize) {
        match self.consumers[end].open.checked_sub(1) {
            Some(open) => self.consumers[end].open = open,
            None => self.broken = Some(Fault::EndedTwice),
        }
    }

    /// Every state that may follow, with what led there.
    pub(super) fn successors(&self, book: &mut Book, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        self.losses(bounds, out);
        let before = out.len();
        for end in [A, P] {
            self.consume(book, end, bounds, out);
        }
        let acts = out.len() > before;
        let mut news = Vec::new();
        for end in [A, P] {
            self.learn(book, end, bounds, &mut news);
        }
        let is_urgent = (bounds.prompt && acts) || (bounds.informed && !news.is_empty());
        if bounds.informed || !is_urgent {
            out.append(&mut news);
        }
        if is_urgent {
            return;
        }
        self.orders(book, bounds, out);
        for end in [A, P] {
            self.clock(book, end, bounds, out);
        }
        self.deliveries(book, bounds, out);
        self.packets(book, bounds, out);
    }

    /// A datagram is lost when there is no room for another. Before that it makes no difference: it may as well never come.
    /// That it makes room must not wait for what is urgent, which may need it.
    fn losses(&self, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        if bounds.thrifty && self.under_way() < bounds.channel {
            return;
        }
        for index in 0..ROOM {
            let (_, mad) = self.channel[index];
            if mad == 0 {
                continue;
            }
            let mut next = *self;
            next.take(index);
            out.push((Cause::Lost(mad), next));
        }
    }

    fn take(&mut self, index: usize) {
        self.channel[index] = (0, 0);
        self.channel.sort_unstable();
    }

    fn orders(&self, book: &mut Book, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        if bounds.ends {
            for end in [A, P] {
                let mut next = *self;
                if next.step(book, end, Happening::Disconnect, bounds) == Some(Ok(())) {
                    out.push((Cause::Disconnects(end), next));
                }
            }
        }
        // A consumer loads the path of an APR before it offers another.
        if self.laps >= bounds.laps || self.consumers[A].told.is_some() {
            return;
        }
        // The paths that have not been named yet differ by their numbers alone.
        let paths = if self.laps == 0 { 2 } else { PATHS };
        for number in 0..paths {
            let mut next = *self;
            if !bounds.rules.single && self.is_up(book, A) {
                let _ = next.step(book, A, Happening::Unload, bounds);
            }
            if next.step(book, A, Happening::Load(number), bounds) == Some(Ok(())) {
                next.laps += 1;
                next.consumers[A].open += 1;
                out.push((Cause::Offers(number), next));
            }
        }
    }

    fn clock(&self, book: &mut Book, end: usize, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        let conn = book.conn(self.conns[end]);
        if bounds.hasty && conn.state() == State::Established(Ap::LapRcvd) {
            return;
        }
        if conn.deadline().is_some() {
            let mut next = *self;
            if next.step(book, end, Happening::Tick, bounds).is_some() {
                out.push((Cause::Waits(end), next));
            }
        }
    }

    fn learn(&self, book: &mut Book, end: usize, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        let late = self.late[end];
        let mut next = *self;
        if let Some(left) = late.migrated.checked_sub(1) {
            next.late[end].migrated = left;
            next.late[end].heard &= left > 0;
            let pair = self.pairs[end];
            let moved = Happening::Moved(pair.primary, pair.alternate, late.heard);
            if next.step(book, end, moved, bounds).is_some() {
                out.push((Cause::HearsOfMigration(end), next));
            }
        }
        // What is heard may overtake the news of the migration.
        if late.confirmed || (late.migrated == 0 && !bounds.rules.settled) {
            let mut next = *self;
            next.late[end].confirmed = false;
            let _ = next.step(book, end, Happening::Confirmed, bounds);
            if next != *self {
                out.push((Cause::HearsOfPeer(end), next));
            }
        }
    }

    fn consume(&self, book: &mut Book, end: usize, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        let consumer = self.consumers[end];
        if consumer.parts {
            let mut next = *self;
            next.consumers[end].parts = false;
            if next.step(book, end, Happening::Depart, bounds).is_some() {
                out.push((Cause::Departs(end), next));
            }
        }
        if let Some((generation, status)) = consumer.answer {
            let mut next = *self;
            next.consumers[end].answer = None;
            let answer = Happening::Answer(generation.into(), status);
            if next.step(book, end, answer, bounds).is_some() {
                out.push((Cause::Answers(end, status), next));
            }
        }
        let Some(number) = consumer.told else {
            return;
        };
        let mut next = *self;
        next.consumers[end].told = None;
        let loaded = next.pairs[end].load(number);
        if end == P {
            let mut refused = *self;
            refused.consumers[end].told = None;
            refused.consumers[end].answer = Some((self.generation, ap_status::REJECTED));
            out.push((Cause::WillRefuse(end), refused));
            let status = if loaded {
                ap_status::LOADED
            } else {
                ap_status::REJECTED
            };
            next.consumers[end].answer = Some((self.generation, status));
        }
        out.push((Cause::Loads(end, number, loaded), next));
        if end == A {
            let mut without = *self;
            without.consumers[end].told = None;
            if without.step(book, end, Happening::Unload, bounds).is_some() {
                out.push((Cause::DoesNotLoad(end, number), without));
            }
        }
    }

    fn deliveries(&self, book: &mut Book, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        for index in 0..ROOM {
            let (to, mad) = self.channel[index];
            if mad == 0 {
                continue;
            }
            let mut twice = *self;
            let copies = self.channel.iter().filter(|&&other| other == (to, mad));
            if copies.count() < 2 && twice.put(to, mad, bounds) {
                out.push((Cause::Doubled(mad), twice));
            }
            let to = usize::from(to);
            let mut next = *self;
            next.take(index);
            let received = Happening::Received(mad, self.pairs[1 - to].primary);
            if next.step(book, to, received, bounds).is_some() {
                out.push((Cause::Arrives(to, mad), next));
            }
        }
    }

    /// Packets of the queue pairs, which take no time.
    fn packets(&self, book: &Book, bounds: Bounds, out: &mut Vec<(Cause, Self)>) {
        // Who hears that it is over resets the queue pair.
        if [A, P]
            .iter()
            .any(|end| !self.state(book, *end).has_queue_pair())
        {
            return;
        }
        let together = self.pairs[A].primary == self.pairs[P].primary;
        for end in [A, P] {
            let sender = self.pairs[1 - end];
            let mut next = *self;
            let pair = &mut next.pairs[end];
            if together {
                if sender.migration != Migration::Migrated && pair.migration == Migration::Rearm {
                    pair.migration = Migration::Armed;
                }
                // Its packets come by the new path, so it has followed.
                next.late[end].confirmed = true;
                next.late[end].heard = next.late[end].migrated > 0;
            } else if sender.migration == Migration::Migrated
                && pair.follows(sender.primary, bounds.rules)
            {
                next.move_over(end);
            }
            if next != *self {
                out.push((Cause::Packet(end), next));
            }
            if together && self.pairs[end].migration == Migration::Armed {
                let mut next = *self;
                next.move_over(end);
                out.push((Cause::Migrates(end), next));
            }
        }
    }

    fn move_over(&mut self, end: usize) {
        self.pairs[end].migrate();
        self.late[end].migrated += 1;
        self.late[end].confirmed = false;
        self.late[end].heard = false;
    }

    /// The same without what is under way.
    pub(super) fn ends(self) -> Self {
        Self {
            channel: Default::default(),
            ..self
        }
    }

    /// What is wrong with this state.
    pub(super) fn fault(&self, book: &Book, bounds: Bounds) -> Option<Fault> {
        let [a, p] = self.pairs;
        if self.broken.is_some() {
            return self.broken;
        }
        let is_open = matches!(
            self.state(book, A),
            State::Established(Ap::LapSent | Ap::MraLapRcvd)
        );
        if self.consumers[A].open != u8::from(is_open) {
            return Some(Fault::NoEnd);
        }
        for end in [A, P] {
            let conn = book.conn(self.conns[end]);
            let knows_all = conn.state().has_queue_pair() && self.late[end].migrated == 0;
            if knows_all && number_of(conn.primary()) != self.pairs[end].primary {
                return Some(Fault::Behind);
            }
        }
        if !self.is_up(book, A) || !self.is_up(book, P) {
            return None;
        }
        let stuck = |mover: Pair, other: Pair| {
            mover.migration == Migration::Migrated
                && other.migration != Migration::Migrated
                && !other.follows(mover.primary, bounds.rules)
        };
        if a.primary != p.primary {
            if stuck(a, p) || stuck(p, a) {
                return Some(Fault::Lost);
            }
            if a.migration == Migration::Migrated && p.migration == Migration::Migrated {
                return Some(Fault::Apart);
            }
        }
        let armed = |pair: Pair| pair.migration == Migration::Armed;
        if armed(a) && armed(p) && a.alternate != p.alternate {
            return Some(Fault::ArmedApart);
        }
        None
    }
}

/// What leads from a state to the next; ends, paths and datagrams by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Lost(MadId),
    Doubled(MadId),
    Arrives(usize, MadId),
    Disconnects(usize),
    Departs(usize),
    Offers(u8),
    Waits(usize),
    HearsOfMigration(usize),
    /// Its peer has followed.
    HearsOfPeer(usize),
    Answers(usize, u8),
    WillRefuse(usize),
    /// Whether the queue pair takes the path.
    Loads(usize, u8, bool),
    DoesNotLoad(usize, u8),
    /// A packet of the peer's queue pair arrives.
    Packet(usize),
    Migrates(usize),
}
