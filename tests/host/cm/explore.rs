// SPDX-License-Identifier: GPL-2.0

//! All that can happen to two connections and their queue pairs on a network that loses, doubles and reorders.
//!
//! The ends are the real machine, and so is the rule by which a queue pair follows its peer. A consumer loads a
//! path into its queue pair in one step and answers in another, and hears of a migration late. Each state that can
//! be reached with a number of LAPs and of datagrams under way is visited once, and looked at: a connection of
//! which one end has migrated and the other never can is lost.
//!
//! The four rules of [`proto::cm`] are all needed: without one of them the same walk finds a lost connection.

use crate::ends::{
    active,
    env,
    passive,
    path,
    reply,
    request,
    source,
    ACTIVE_LID, //
};
use proto::cm::{
    Action,
    Actions,
    Ap,
    Conn,
    Event,
    LapFailure,
    LapTiming,
    Notice,
    Order,
    Refusal,
    Slot,
    State,
    Ways, //
};
use proto::time::Instant;
use proto::transport::migration::{
    judge,
    Verdict, //
};
use proto::transport::{
    Alternate,
    MigState,
    PathAv,
    QpConfig, //
};
use std::collections::{
    HashMap,
    VecDeque, //
};
use std::hash::{
    Hash,
    Hasher, //
};
use wire::header::Header;
use wire::mad::cm::{
    ap_status,
    attr,
    Cm, //
};
use wire::{
    Lid,
    PKey,
    PortNum, //
};

/// Which end.
const A: usize = 0;
const P: usize = 1;

/// Paths to choose from.
const PATHS: u8 = 3;

/// The rules that can be left out.
#[derive(Clone, Copy)]
struct Rules {
    /// Older LAPs are dropped.
    monotonic: bool,
    /// An end that has an alternate path offers no other.
    single: bool,
    /// A queue pair in REARM follows.
    follow: bool,
    /// No LAP before the peer has followed.
    settled: bool,
}

const ALL: Rules = Rules {
    monotonic: true,
    single: true,
    follow: true,
    settled: true,
};

#[derive(Clone, Copy)]
struct Bounds {
    rules: Rules,
    /// LAPs, but for their repetitions.
    laps: u32,
    /// Datagrams under way at a time.
    channel: usize,
    /// Consumers act before anything else happens.
    prompt: bool,
    /// They hear of migrations before anything else happens.
    informed: bool,
    /// None of them asks for patience.
    hasty: bool,
    /// Either may end the connection.
    ends: bool,
}

/// All that there is, but no end.
const FREE: Bounds = Bounds {
    rules: ALL,
    laps: 2,
    channel: 2,
    prompt: false,
    informed: false,
    hasty: false,
    ends: false,
};

/// Nobody is late.
const QUICK: Bounds = Bounds {
    prompt: true,
    informed: true,
    hasty: true,
    ..FREE
};

/// A queue pair's paths, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pair {
    primary: u8,
    alternate: Option<u8>,
    migration: Migration,
}

/// [`MigState`] that can be hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Migration {
    Migrated,
    Rearm,
    Armed,
}

impl Migration {
    fn state(self) -> MigState {
        match self {
            Self::Migrated => MigState::Migrated,
            Self::Rearm => MigState::Rearm,
            Self::Armed => MigState::Armed,
        }
    }
}

impl Pair {
    /// The consumer loads a path; an ARMED queue pair refuses.
    fn load(&mut self, number: u8) -> bool {
        if self.migration == Migration::Armed {
            return false;
        }
        self.alternate = Some(number);
        self.migration = Migration::Rearm;
        true
    }

    fn migrate(&mut self) {
        if let Some(alternate) = self.alternate.take() {
            self.primary = alternate;
            self.migration = Migration::Migrated;
        }
    }

    /// Whether it follows a peer that has migrated to the path `number`.
    fn follows(&self, number: u8, rules: Rules) -> bool {
        let way = |number: u8| PathAv {
            dlid: Lid::new(ACTIVE_LID + u16::from(number)),
            ..PathAv::default()
        };
        let config = QpConfig {
            path: way(self.primary),
            port: PortNum::new(1 + self.primary),
            pkey: PKey::DEFAULT,
            alternate: self.alternate.map(|number| Alternate {
                path: way(number),
                port: PortNum::new(1 + number),
                pkey: PKey::DEFAULT,
                ..Alternate::default()
            }),
            mig_state: self.migration.state(),
            follow_unarmed: rules.follow,
            pardon_late: true,
            ..QpConfig::default()
        };
        let mut header = Header::default();
        header.lrh.slid = Lid::new(ACTIVE_LID + u16::from(number));
        header.bth.pkey = PKey::DEFAULT;
        header.bth.migreq = true;
        self.migration != Migration::Migrated
            && judge(&header, PortNum::new(1 + number), &config) == Verdict::Follow
    }
}

/// What a consumer has still to do.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Consumer {
    /// The path of a LAP or an APR that it has heard of.
    told: Option<u8>,
    /// The LAP to answer, and with what.
    answer: Option<(u32, u8)>,
    /// LAPs without an end yet.
    open: u32,
    /// It has been told that the connection ends, and has not agreed yet.
    parts: bool,
}

/// What the HCA has not told the connection manager yet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Late {
    migrated: u8,
    confirmed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    conns: [Conn; 2],
    pairs: [Pair; 2],
    consumers: [Consumer; 2],
    late: [Late; 2],
    /// Where it goes, and what it is.
    channel: Vec<(usize, [u8; 256])>,
    laps: u32,
    /// The generation of the LAP that the passive consumer was told of last.
    generation: u32,
    broken: Option<&'static str>,
}

fn number_of(path: &wire::mad::cm::Path) -> u8 {
    (path.local_lid.get() & 0xf) as u8
}

impl World {
    fn new() -> Self {
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
            conns: [conn, other],
            pairs: [pair; 2],
            consumers: Default::default(),
            late: Default::default(),
            channel: Vec::new(),
            laps: 0,
            generation: 0,
            broken: None,
        }
    }

    /// Steps an end; `None` if there is no room for what it sends.
    fn step(
        &mut self,
        end: usize,
        event: Event<'_>,
        now: Instant,
        bounds: Bounds,
    ) -> Option<Result<(), Refusal>> {
        let migration = self.pairs[end].migration.state();
        match self.conns[end].step(event, &env(now, migration)) {
            Ok(actions) => self.act(end, &actions, bounds).then_some(Ok(())),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    fn act(&mut self, end: usize, actions: &Actions, bounds: Bounds) -> bool {
        for action in actions.iter() {
            match action {
                Action::Send(slot) => {
                    let mad = *self.conns[end].datagram(slot).as_bytes();
                    let is_over = matches!(self.conns[end].state(), State::Timewait | State::Idle);
                    if is_over && self.conns[end].datagram(slot).attr_id() != attr::DREP {
                        self.broken = Some("a connection that is over sends something");
                    }
                    if !self.put(1 - end, mad, bounds) {
                        return false;
                    }
                }
                Action::Tell(notice) => self.tell(end, notice),
                Action::Count(_) => {}
                Action::Free => self.broken = Some("freed"),
            }
        }
        true
    }

    fn put(&mut self, to: usize, mad: [u8; 256], bounds: Bounds) -> bool {
        if self.channel.len() >= bounds.channel {
            return false;
        }
        self.channel.push((to, mad));
        self.channel.sort_unstable();
        true
    }

    fn tell(&mut self, end: usize, notice: Notice) {
        let is_up = matches!(self.conns[end].state(), State::Established(_));
        let consumer = &mut self.consumers[end];
        match notice {
            Notice::DreqReceived => consumer.parts = true,
            Notice::DrepReceived | Notice::DreqError | Notice::TimewaitExit => {}
            Notice::LapError(LapFailure::Aborted) if !is_up => self.ended(end),
            _ if !is_up => self.broken = Some("news of a connection that is over"),
            Notice::LapReceived(generation, path) => {
                self.generation = generation;
                consumer.told = Some(number_of(&path));
                consumer.answer = None;
            }
            Notice::AprReceived(status, path) => {
                consumer.told = (status == ap_status::LOADED).then(|| number_of(&path));
                self.ended(end);
            }
            Notice::LapError(LapFailure::Timeout) => self.ended(end),
            Notice::MraReceived | Notice::Migrated(_) => {}
            _ => self.broken = Some("an event out of place"),
        }
    }

    fn ended(&mut self, end: usize) {
        match self.consumers[end].open.checked_sub(1) {
            Some(open) => self.consumers[end].open = open,
            None => self.broken = Some("a LAP has ended twice"),
        }
    }

    /// Every state that may follow, with what led there.
    fn successors(&self, bounds: Bounds) -> Vec<(String, Self)> {
        let (mut out, mut news) = (Vec::new(), Vec::new());
        for end in [A, P] {
            self.consume(end, bounds, &mut out);
            self.learn(end, bounds, &mut news);
        }
        let is_urgent = (bounds.prompt && !out.is_empty()) || (bounds.informed && !news.is_empty());
        if bounds.informed || !is_urgent {
            out.append(&mut news);
        }
        if is_urgent {
            return out;
        }
        self.orders(bounds, &mut out);
        for end in [A, P] {
            self.clock(end, bounds, &mut out);
        }
        self.deliveries(bounds, &mut out);
        self.packets(bounds, &mut out);
        out
    }

    fn orders(&self, bounds: Bounds, out: &mut Vec<(String, Self)>) {
        let timing = LapTiming {
            response: 16,
            retries: 1,
        };
        // A consumer loads the path of an APR before it offers another.
        if bounds.ends {
            for end in [A, P] {
                let mut next = self.clone();
                let order = Event::Order(Order::Disconnect(&[]));
                if next.step(end, order, Instant::default(), bounds) == Some(Ok(())) {
                    out.push((format!("{end}: ends it"), next));
                }
            }
        }
        if self.laps >= bounds.laps || self.consumers[A].told.is_some() {
            return;
        }
        for number in 0..PATHS {
            let mut next = self.clone();
            if !bounds.rules.single && self.is_up(A) {
                let _ = next.step(A, Event::Order(Order::Unload), Instant::default(), bounds);
            }
            let lap = path(number);
            let order = Event::Order(Order::Load(&lap, timing, &[]));
            if next.step(A, order, Instant::default(), bounds) == Some(Ok(())) {
                next.laps += 1;
                next.consumers[A].open += 1;
                out.push((format!("LAP {number}"), next));
            }
        }
    }

    fn clock(&self, end: usize, bounds: Bounds, out: &mut Vec<(String, Self)>) {
        if bounds.hasty && self.conns[end].state() == State::Established(Ap::LapRcvd) {
            return;
        }
        if let Some(deadline) = self.conns[end].deadline() {
            let mut next = self.clone();
            if next.step(end, Event::Tick, deadline, bounds).is_some() {
                out.push((format!("{end}: time is up"), next));
            }
        }
    }

    fn learn(&self, end: usize, bounds: Bounds, out: &mut Vec<(String, Self)>) {
        let late = self.late[end];
        if let Some(left) = late.migrated.checked_sub(1) {
            let mut next = self.clone();
            next.late[end].migrated = left;
            let ways = self.ways(end);
            if next
                .step(end, Event::Moved(&ways), Instant::default(), bounds)
                .is_some()
            {
                out.push((format!("{end}: hears of its migration"), next));
            }
        } else if late.confirmed || !bounds.rules.settled {
            let mut next = self.clone();
            next.late[end].confirmed = false;
            let _ = next.step(end, Event::Confirmed, Instant::default(), bounds);
            if next != *self {
                out.push((format!("{end}: hears that its peer has followed"), next));
            }
        }
    }

    /// What the HCA tells of a queue pair.
    fn ways(&self, end: usize) -> Ways {
        let way = |number: u8| {
            if end == A {
                path(number)
            } else {
                path(number).reversed()
            }
        };
        Ways {
            primary: way(self.pairs[end].primary),
            alternate: self.pairs[end].alternate.map(way),
        }
    }

    fn consume(&self, end: usize, bounds: Bounds, out: &mut Vec<(String, Self)>) {
        let consumer = self.consumers[end];
        if consumer.parts {
            let mut next = self.clone();
            next.consumers[end].parts = false;
            let order = Event::Order(Order::Depart(&[]));
            if next.step(end, order, Instant::default(), bounds).is_some() {
                out.push((format!("{end}: agrees to the end"), next));
            }
        }
        if let Some((generation, status)) = consumer.answer {
            let mut next = self.clone();
            next.consumers[end].answer = None;
            let order = Event::Order(Order::Answer(generation, status, &[], &[]));
            if next.step(end, order, Instant::default(), bounds).is_some() {
                out.push((format!("{end}: answers {status}"), next));
            }
        }
        let Some(number) = consumer.told else {
            return;
        };
        let mut next = self.clone();
        next.consumers[end].told = None;
        let loaded = next.pairs[end].load(number);
        if end == P {
            let mut refused = self.clone();
            refused.consumers[end].told = None;
            refused.consumers[end].answer = Some((self.generation, ap_status::REJECTED));
            out.push((format!("{end}: will refuse"), refused));
            let status = if loaded {
                ap_status::LOADED
            } else {
                ap_status::REJECTED
            };
            next.consumers[end].answer = Some((self.generation, status));
        }
        out.push((format!("{end}: loads {number}: {loaded}"), next));
        if end == A {
            let mut without = self.clone();
            without.consumers[end].told = None;
            let order = Event::Order(Order::Unload);
            if without
                .step(end, order, Instant::default(), bounds)
                .is_some()
            {
                out.push((format!("{end}: does not load {number}"), without));
            }
        }
    }

    fn deliveries(&self, bounds: Bounds, out: &mut Vec<(String, Self)>) {
        for (index, &(to, mad)) in self.channel.iter().enumerate() {
            let what = format!(
                "{:#x} {:#x}",
                Cm::from_bytes(&mad).attr_id(),
                Cm::from_bytes(&mad).tid()
            );
            let mut next = self.clone();
            next.channel.remove(index);
            out.push((format!("{what} is lost"), next.clone()));
            let mut twice = self.clone();
            let copies = self.channel.iter().filter(|&&other| other == (to, mad));
            if copies.count() < 2 && twice.put(to, mad, bounds) {
                out.push((format!("{what} is doubled"), twice));
            }
            let mad = if bounds.rules.monotonic {
                Cm::from_bytes(&mad).clone()
            } else {
                unordered(Cm::from_bytes(&mad))
            };
            let from = source(to == P, self.pairs[1 - to].primary);
            let event = Event::Received(&mad, from);
            if next.step(to, event, Instant::default(), bounds).is_some() {
                out.push((format!("{what} arrives at {to}"), next));
            }
        }
    }

    /// Packets of the queue pairs, which take no time.
    fn packets(&self, bounds: Bounds, out: &mut Vec<(String, Self)>) {
        // Whose connection ends resets the queue pair.
        if !self.is_up(A) || !self.is_up(P) {
            return;
        }
        let together = self.pairs[A].primary == self.pairs[P].primary;
        for end in [A, P] {
            let sender = self.pairs[1 - end];
            let mut next = self.clone();
            let pair = &mut next.pairs[end];
            if together {
                if sender.migration != Migration::Migrated && pair.migration == Migration::Rearm {
                    pair.migration = Migration::Armed;
                }
                // Its packets come by the new path, so it has followed.
                next.late[end].confirmed = true;
            } else if sender.migration == Migration::Migrated
                && pair.follows(sender.primary, bounds.rules)
            {
                pair.migrate();
                next.late[end].migrated += 1;
                next.late[end].confirmed = false;
            }
            if next != *self {
                out.push((format!("a packet arrives at {end}"), next));
            }
            if together && self.pairs[end].migration == Migration::Armed {
                let mut next = self.clone();
                next.pairs[end].migrate();
                next.late[end].migrated += 1;
                next.late[end].confirmed = false;
                out.push((format!("{end}: migrates"), next));
            }
        }
    }

    /// What is wrong with this state.
    fn fault(&self, bounds: Bounds) -> Option<&'static str> {
        let [a, p] = self.pairs;
        if self.broken.is_some() {
            return self.broken;
        }
        let is_open = matches!(
            self.conns[A].state(),
            State::Established(Ap::LapSent | Ap::MraLapRcvd)
        );
        if self.consumers[A].open != u32::from(is_open) {
            return Some("a LAP without an end");
        }
        if !self.is_up(A) || !self.is_up(P) {
            return None;
        }
        let stuck = |mover: Pair, other: Pair| {
            mover.migration == Migration::Migrated
                && other.migration != Migration::Migrated
                && !other.follows(mover.primary, bounds.rules)
        };
        if a.primary != p.primary {
            if stuck(a, p) || stuck(p, a) {
                return Some("one end has migrated, and the other never can");
            }
            if a.migration == Migration::Migrated && p.migration == Migration::Migrated {
                return Some("the ends are on different paths");
            }
        }
        let armed = |pair: Pair| pair.migration == Migration::Armed;
        if armed(a) && armed(p) && a.alternate != p.alternate {
            return Some("both ends are armed, with different paths");
        }
        for end in [A, P] {
            let is_late = self.late[end].migrated != 0;
            if !is_late && number_of(self.conns[end].primary()) != self.pairs[end].primary {
                return Some("a connection and its queue pair are on different paths");
            }
        }
        None
    }

    fn is_up(&self, end: usize) -> bool {
        matches!(self.conns[end].state(), State::Established(_))
    }
}

/// The datagram with a transaction ID that is as unique as its own, but does not grow: what the passive end makes
/// of it is what it would if IDs had no order.
fn unordered(mad: &Cm) -> Cm {
    let mut bytes = *mad.as_bytes();
    let low = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    let high = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    match (mad.attr_id(), low) {
        (attr::LAP, _) => bytes[8..12].copy_from_slice(&(low + 0x100).to_be_bytes()),
        (attr::APR | attr::MRA, _) if high > 0x100 => {
            bytes[8..12].copy_from_slice(&1u32.to_be_bytes())
        }
        _ => {}
    }
    Cm::from_bytes(&bytes).clone()
}

/// Two sums of what is hashed, of 64 bits each, which have little to do with each other. So a state is known by 128 bits:
/// that two of a hundred million have the same is out of the question.
struct Print(u64, u64);

impl Print {
    fn add(&mut self, value: u64) {
        /// Odd numbers with half of the bits set.
        const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

        let fold = |sum: u64, factor: u64| {
            let product = u128::from((sum ^ value).rotate_left(23) ^ factor) * u128::from(factor);
            (product as u64) ^ ((product >> 64) as u64) ^ sum.rotate_left(7)
        };
        self.0 = fold(self.0, FACTORS[0]);
        self.1 = fold(self.1, FACTORS[1]);
    }
}

impl Hasher for Print {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
}

fn print_of(world: &World) -> u128 {
    let mut print = Print(1, 2);
    world.hash(&mut print);
    u128::from(print.0) << 64 | u128::from(print.1)
}

/// What has been seen: each state, and the one before it.
type Seen = HashMap<u128, u128>;

/// How a state was come by.
fn trail(seen: &Seen, print: u128, bounds: Bounds) -> Vec<String> {
    let mut prints = vec![print];
    while let Some(before) = prints.last().map(|last| seen[last]) {
        if prints.last() == Some(&before) {
            break;
        }
        prints.push(before);
    }
    let mut world = World::new();
    let mut steps = Vec::new();
    for print in prints.iter().rev().skip(1) {
        let successors = world.successors(bounds);
        let found = successors
            .into_iter()
            .find(|(_, next)| print_of(next) == *print);
        let (step, next) = found.expect("a state follows from the one before it");
        steps.push(step);
        world = next;
    }
    steps
}

/// Walks all states. Returns their number, and how the first fault was come by, in as few steps as can be.
fn explore(bounds: Bounds) -> (usize, Option<String>) {
    let first = World::new();
    let mut seen = Seen::new();
    let root = print_of(&first);
    seen.insert(root, root);
    let mut queue = VecDeque::from([(root, first)]);
    while let Some((print, world)) = queue.pop_front() {
        if let Some(fault) = world.fault(bounds) {
            let mut steps = trail(&seen, print, bounds);
            steps.push(fault.to_string());
            return (seen.len(), Some(steps.join("\n")));
        }
        for (_, next) in world.successors(bounds) {
            let next_print = print_of(&next);
            if let std::collections::hash_map::Entry::Vacant(place) = seen.entry(next_print) {
                place.insert(print);
                queue.push_back((next_print, next));
            }
        }
    }
    (seen.len(), None)
}

/// Walks all states, which must be without a fault, and many.
fn flawless(what: &str, bounds: Bounds) {
    let (states, fault) = explore(bounds);
    let (laps, channel) = (bounds.laps, bounds.channel);
    println!("{what}: {laps} LAPs, {channel} datagrams under way: {states} states");
    assert_eq!(fault, None);
    assert!(states > 10_000, "only {states} states");
}

#[test]
fn no_connection_is_lost() {
    flawless("all late", FREE);
    flawless("quick", Bounds { laps: 3, ..QUICK });
}

/// Nothing is sent, and nobody is told anything, when a connection is over; a LAP under way ends.
#[test]
fn connections_end() {
    let bounds = Bounds {
        laps: 1,
        ends: true,
        ..QUICK
    };
    flawless("quick, with an end", bounds);
}

#[test]
#[ignore = "takes minutes"]
fn no_connection_is_lost_in_longer_walks() {
    let longest = Bounds {
        laps: 4,
        channel: 3,
        ..QUICK
    };
    flawless("all late", Bounds { laps: 3, ..FREE });
    flawless("quick", longest);
}

#[test]
#[ignore = "takes minutes"]
fn connections_end_in_longer_walks() {
    let bounds = Bounds {
        ends: true,
        ..QUICK
    };
    flawless("quick, with an end", bounds);
}

#[test]
fn each_rule_is_needed() {
    for (name, rules) in [
        (
            "monotonic",
            Rules {
                monotonic: false,
                ..ALL
            },
        ),
        (
            "single",
            Rules {
                single: false,
                ..ALL
            },
        ),
        (
            "follow",
            Rules {
                follow: false,
                ..ALL
            },
        ),
        (
            "settled",
            Rules {
                settled: false,
                ..ALL
            },
        ),
    ] {
        let bounds = Bounds {
            rules,
            laps: 3,
            ..QUICK
        };
        let (states, fault) = explore(bounds);
        println!(
            "{name}: {states} states\n{}\n",
            fault.as_deref().unwrap_or("nothing")
        );
        assert!(fault.is_some(), "{name} is not needed");
    }
}
