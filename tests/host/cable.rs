// SPDX-License-Identifier: GPL-2.0

//! The handshake of two ends of a cable: with fabric keys, without, and with somebody between them who records
//! and repeats what they say.

use hmac::{
    Hmac,
    Mac as _, //
};
use proptest::prelude::*;
use proto::fabric::line::{
    Capacity,
    Change,
    Destination,
    Fault,
    Heard,
    Line,
    Mac,
    Message,
    Obstacle,
    Oneself,
    MAX_LEN, //
};
use proto::time::{
    Duration,
    Instant, //
};
use sha2::Sha256;
use std::net::SocketAddr;
use wire::outer::control::{
    ByeReason,
    Hello,
    RefuseReason,
    TAG_LEN, //
};
use wire::outer::{
    self,
    Kind,
    Outer, //
};
use wire::{
    Guid,
    Mtu,
    PortNum, //
};

/// A key of crates that know nothing of the kernel's.
#[derive(Clone)]
struct Key(Vec<u8>);

impl Key {
    fn hmac(&self, covered: &[u8]) -> Hmac<Sha256> {
        let mut hmac = Hmac::new_from_slice(&self.0).expect("any length will do");
        hmac.update(covered);
        hmac
    }
}

impl Mac for Key {
    fn tag(&self, covered: &[u8]) -> [u8; TAG_LEN] {
        self.hmac(covered).finalize().into_bytes().into()
    }

    fn verify(&self, covered: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        self.hmac(covered).verify_slice(tag).is_ok()
    }
}

/// One end, with its key.
struct End {
    line: Line,
    key: Option<Key>,
    /// Whether its port looks for a link.
    wanted: bool,
    ups: usize,
    /// That of the last link.
    mtu: Option<Mtu>,
    downs: usize,
    refused: usize,
    obstacles: Vec<Obstacle>,
}

/// The address of an end, and what it takes for that of the other one.
type Way = (SocketAddr, SocketAddr);

/// Two ends, and what they have said.
struct World {
    ends: [End; 2],
    ways: [Way; 2],
    now: Instant,
    /// By whom, and the datagram.
    log: Vec<(usize, Vec<u8>)>,
    /// Whether what an end says gets lost.
    cut: [bool; 2],
}

/// Of an underlay with room for as many bytes as two packets have.
fn capacity(mtu: Mtu) -> Capacity {
    Capacity {
        mtu,
        room: 2 * mtu.bytes() as u16,
    }
}

fn way(own: &str, far: &str) -> Way {
    let address = |text: &str| text.parse().expect("an address");
    (address(own), address(far))
}

fn end(number: u64, key: Option<&str>) -> End {
    let oneself = Oneself {
        guid: Guid::new(number),
        port: PortNum::new(1),
        capacity: capacity(Mtu::B2048),
    };
    End {
        line: Line::new(oneself, number << 8 | 1, number << 32),
        key: key.map(|text| Key(text.into())),
        wanted: true,
        ups: 0,
        mtu: None,
        downs: 0,
        refused: 0,
        obstacles: Vec::new(),
    }
}

impl World {
    fn new(a: Option<&str>, b: Option<&str>) -> Self {
        Self {
            ends: [end(1, a), end(2, b)],
            ways: [
                way("[fe80::1]:61515", "[fe80::2]:61515"),
                way("[fe80::2]:61515", "[fe80::1]:61515"),
            ],
            now: Instant::default(),
            log: Vec::new(),
            cut: [false; 2],
        }
    }

    /// The datagram of a message of `from`, which the other end gets.
    fn send(&mut self, from: usize, cookie: u64, message: Message) {
        let mut buf = [0; MAX_LEN];
        let (_, far) = self.ways[from];
        let to = Destination::new(far, far);
        let len = message
            .emit(cookie, self.ends[from].key.as_ref(), to, &mut buf)
            .expect("there is room");
        let datagram = buf[..len].to_vec();
        self.log.push((from, datagram.clone()));
        if !self.cut[from] {
            let _ = self.deliver(1 - from, &datagram);
        }
    }

    /// Gives `datagram` to an end, and what that says to it to the other one.
    fn deliver(&mut self, to: usize, datagram: &[u8]) -> Result<Heard, Fault> {
        let end = &mut self.ends[to];
        let (own, far) = self.ways[to];
        let goal = Destination::new(own, far);
        let heard = end
            .line
            .take(datagram, end.key.as_ref(), goal, end.wanted, self.now)?;
        end.count(heard.change);
        end.refused += usize::from(heard.refused);
        end.obstacles.extend(heard.obstacle);
        if let Some((cookie, answer)) = heard.answer {
            self.send(to, cookie, answer);
        }
        if let Some(question) = heard.question {
            self.send(to, 0, question);
        }
        Ok(heard)
    }

    /// Lets time pass.
    fn run(&mut self, millis: u64) {
        for _ in 0..millis / 10 {
            self.now = self.now.after(Duration::from_millis(10));
            for from in [0, 1] {
                let cookie = self.ends[from].line.peer_cookie();
                let (change, message) = self.ends[from].line.poll(self.now);
                self.ends[from].count(change);
                let wanted = self.ends[from].wanted;
                let said =
                    message.filter(|message| wanted || !matches!(message, Message::Hello(_)));
                if let Some(message) = said {
                    self.send(from, cookie, message);
                }
            }
        }
    }

    /// Sets the key of an end.
    fn rekey(&mut self, at: usize, key: Option<&str>) {
        let cookie = self.ends[at].line.peer_cookie();
        let bye = self.ends[at]
            .line
            .renew(self.now.nanos() | 0x77 << 56 | 1, self.now);
        self.ends[at].key = key.map(|text| Key(text.into()));
        if let Some(bye) = bye {
            assert_eq!(bye, Message::Bye(ByeReason::Key));
            self.ends[at].downs += 1;
            self.send(at, cookie, bye);
        }
    }

    /// What `from` has said so far that is of `kind`.
    fn said(&self, from: usize, kind: Kind) -> Vec<Vec<u8>> {
        let of_kind =
            |datagram: &Vec<u8>| Outer::parse(datagram).map(|(outer, _)| outer.kind) == Ok(kind);
        let log = self.log.iter().filter(|(by, _)| *by == from);
        log.map(|(_, datagram)| datagram.clone())
            .filter(of_kind)
            .collect()
    }

    fn up(&self) -> [bool; 2] {
        [0, 1].map(|at| self.ends[at].line.is_up())
    }
}

impl End {
    fn count(&mut self, change: Change) {
        match change {
            Change::None => {}
            Change::Up(mtu) => {
                self.ups += 1;
                self.mtu = Some(mtu);
            }
            Change::Down => self.downs += 1,
        }
    }
}

/// That of `rust/sib/fabric/key.rs`.
fn golden_hello() -> Hello {
    Hello {
        guid: Guid::new(0x0102_0304_0506_0708),
        port: PortNum::new(3),
        mtu: Mtu::B4096,
        room: 0,
        cookie: 0x1112_1314_1516_1718,
        nonce: 0x2122_2324_2526_2728,
        echo: 0x3132_3334_3536_3738,
        tag: [0; TAG_LEN],
    }
}

/// What the kernel makes of the same Hello: see `rust/sib/fabric/key.rs`.
#[test]
fn a_tag_is_what_everybody_else_makes_of_it() {
    let hello = golden_hello();
    let mut buf = [0; MAX_LEN];
    let key = Key(b"a fabric key".into());
    let to = Destination::default();
    let len = Message::HelloAck(hello).emit(0x4142_4344_4546_4748, Some(&key), to, &mut buf);
    assert_eq!(len, Ok(MAX_LEN));
    let (covered, tag) = Hello::split_tag(&buf).expect("whole");
    assert_eq!(covered.len(), 56);
    assert_eq!(tag, &GOLDEN);
    assert!(key.verify(covered, tag));
}

/// By Python: `hmac.new(b"a fabric key", covered, "sha256")`.
const GOLDEN: [u8; TAG_LEN] = [
    0x59, 0x1b, 0x7b, 0xb8, 0xfe, 0x9b, 0xad, 0x24, //
    0x62, 0x49, 0xb9, 0xe0, 0x38, 0x5e, 0x0b, 0xa2, //
    0x96, 0x8b, 0xf5, 0x96, 0x75, 0xd3, 0xe7, 0x43, //
    0x1c, 0x65, 0xbc, 0xcc, 0x57, 0x97, 0x86, 0x5b,
];

#[test]
fn one_key_or_none_at_both_ends() {
    for key in [
        None,
        Some("k"),
        Some("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
    ] {
        let mut world = World::new(key, key);
        world.run(100);
        assert_eq!(world.up(), [true; 2]);
        world.run(10_000);
        for end in &world.ends {
            assert_eq!((end.ups, end.downs, end.refused), (1, 0, 0));
            assert!(end.obstacles.is_empty());
        }
    }
}

#[test]
fn another_key_or_none_at_one_end() {
    let mut world = World::new(Some("one"), Some("two"));
    world.run(5000);
    assert_eq!(world.up(), [false; 2]);
    for end in &world.ends {
        assert_eq!(end.ups, 0);
        assert!(end.refused >= 20);
        // Said once, not with every Hello.
        assert_eq!(end.obstacles.len(), 1);
    }
    let mut world = World::new(Some("one"), None);
    world.run(5000);
    assert_eq!(world.up(), [false; 2]);
    assert!(world.ends[0].refused >= 20);
    assert_eq!(world.ends[1].refused, 0);
    assert_eq!(world.ends[0].obstacles, [Obstacle::Key]);
    assert_eq!(
        world.ends[1].obstacles,
        [Obstacle::Refused(RefuseReason::Key)]
    );
}

#[test]
fn every_byte_under_the_tag_counts() {
    let mut world = World::new(Some("key"), Some("key"));
    world.run(100);
    let cookie = world.ends[1].line.cookie();
    let hello = world.said(0, Kind::Hello)[0].clone();
    for at in 0..hello.len() {
        let mut bad = hello.clone();
        bad[at] ^= 0x10;
        let before = world.ends[1].refused;
        if let Ok(heard) = world.deliver(1, &bad) {
            let kind = Outer::parse(&bad).map(|(outer, _)| outer.kind);
            assert!(heard.refused || kind != Ok(Kind::Hello), "byte {at}");
            assert_eq!(world.ends[1].refused, before + usize::from(heard.refused));
        }
        assert_eq!(world.up(), [true; 2]);
        assert_eq!(world.ends[1].line.cookie(), cookie);
    }
    assert_eq!(world.ends[1].downs, 0);
}

/// Whenever a cable dies, one way or both, its ends know within a second, and never while it lives.
#[test]
fn a_dead_cable_is_down_within_a_second() {
    for cut in [[true, true], [true, false], [false, true]] {
        for phase in 0..40 {
            let mut world = World::new(None, None);
            world.run(3000 + phase * 10);
            assert_eq!(world.up(), [true; 2]);
            assert_eq!((world.ends[0].downs, world.ends[1].downs), (0, 0));
            world.cut = cut;
            world.run(500);
            assert_eq!(world.up(), [true; 2], "a lost keepalive or two are none");
            world.run(500);
            assert_eq!((world.ends[0].downs, world.ends[1].downs), (1, 1));
            world.cut = [false; 2];
            world.run(1000);
            assert_eq!(world.up(), [true; 2]);
        }
    }
}

#[test]
fn a_key_that_changes_ends_the_cable_until_both_have_it() {
    let mut world = World::new(Some("old"), Some("old"));
    world.run(1000);
    world.rekey(0, Some("new"));
    // The other end hears of it at once.
    assert_eq!(world.up(), [false; 2]);
    world.run(3000);
    assert_eq!(world.up(), [false; 2]);
    world.rekey(1, Some("new"));
    world.run(300);
    assert_eq!(world.up(), [true; 2]);
    world.run(3000);
    for end in &world.ends {
        assert_eq!((end.ups, end.downs), (2, 1));
    }
    // A key where there was none, at one end and then at the other.
    let mut world = World::new(None, None);
    world.run(1000);
    world.rekey(1, Some("new"));
    world.run(1000);
    assert_eq!(world.up(), [false; 2]);
    world.rekey(0, Some("new"));
    world.run(1000);
    assert_eq!(world.up(), [true; 2]);
}

#[test]
fn an_mtu_that_changes_is_learnt_by_the_other_end() {
    // Whether the Bye arrives or not.
    for lost in [false, true] {
        let mut world = World::new(None, None);
        world.run(1000);
        for (at, mtu, link) in [
            (0, Mtu::B1024, Mtu::B1024),
            (0, Mtu::B4096, Mtu::B2048),
            (1, Mtu::B4096, Mtu::B4096),
            (1, Mtu::B256, Mtu::B256),
        ] {
            let downs = world.ends.each_ref().map(|end| end.downs);
            let cookie = world.ends[at].line.peer_cookie();
            let new = world.now.nanos() | 0x77 << 56 | 1;
            let bye = world.ends[at].line.resize(capacity(mtu), new, world.now);
            assert_eq!(bye, Some(Message::Bye(ByeReason::Mtu)));
            assert!(!world.ends[at].line.is_up());
            world.ends[at].downs += 1;
            if let Some(bye) = bye.filter(|_| !lost) {
                world.send(at, cookie, bye);
            }
            world.run(1000);
            assert_eq!(world.up(), [true; 2]);
            for (end, before) in world.ends.iter().zip(downs) {
                assert_eq!((end.mtu, end.downs), (Some(link), before + 1));
            }
            // What is no news disturbs nobody.
            assert_eq!(
                world.ends[at].line.resize(capacity(mtu), new, world.now),
                None
            );
            assert_eq!(world.up(), [true; 2]);
        }
    }
}

#[test]
fn packets_share_a_datagram_if_both_ends_say_so() {
    let mut world = World::new(None, None);
    let rooms = |world: &World| world.ends.each_ref().map(|end| end.line.room());
    assert_eq!(rooms(&world), [0; 2]);
    world.run(1000);
    assert_eq!(rooms(&world), [capacity(Mtu::B2048).room; 2]);
    for (at, room, both) in [(0, 9000, 4096), (1, 1500, 1500), (0, 0, 0), (0, 1400, 1400)] {
        let new = world.now.nanos() | 0x77 << 56 | 1;
        let capacity = Capacity {
            mtu: Mtu::B2048,
            room,
        };
        let cookie = world.ends[at].line.peer_cookie();
        let bye = world.ends[at].line.resize(capacity, new, world.now);
        world.send(at, cookie, bye.expect("that is news"));
        world.run(1000);
        assert_eq!(rooms(&world), [both; 2]);
    }
}

#[test]
fn what_was_recorded_brings_no_cable_up() {
    // Two lives of both ends, under one key.
    let mut first = World::new(Some("key"), Some("key"));
    first.run(2000);
    let mut second = World::new(Some("key"), Some("key"));
    let oneself = Oneself {
        guid: Guid::new(1),
        port: PortNum::new(1),
        capacity: capacity(Mtu::B2048),
    };
    // The other end is dead; its datagrams of the first life come again, after every Hello.
    second.ends[0].line = Line::new(oneself, 0x99 << 8 | 1, 5 << 40);
    second.ends[1].wanted = false;
    for _ in 0..20 {
        second.run(100);
        for (_, datagram) in first.log.iter().filter(|(by, _)| *by == 1) {
            let _ = second.deliver(0, datagram);
        }
    }
    assert!(!second.ends[0].line.is_up());
    assert_eq!(second.ends[0].ups, 0);
}

#[test]
fn what_was_recorded_disturbs_no_cable() {
    let mut world = World::new(Some("key"), Some("key"));
    world.run(1000);
    // End 1 begins a new life, so its first one is old.
    let old: Vec<_> = world.log.clone();
    let fresh = end(2, Some("key"));
    world.ends[1] = fresh;
    let oneself = Oneself {
        guid: Guid::new(2),
        port: PortNum::new(1),
        capacity: capacity(Mtu::B2048),
    };
    world.ends[1].line = Line::new(oneself, 0x55 << 8 | 1, 6 << 40);
    world.run(2000);
    assert_eq!(world.up(), [true; 2]);
    let (ups, downs) = (world.ends[0].ups, world.ends[0].downs);
    assert_eq!((ups, downs), (2, 1));
    let said = world.log.len();
    let rounds = 100;
    for _ in 0..rounds {
        for (by, datagram) in &old {
            let _ = world.deliver(1 - by, datagram);
            // Sent back to who has said it.
            let _ = world.deliver(*by, datagram);
        }
        world.run(20);
    }
    assert_eq!(world.up(), [true; 2]);
    assert_eq!((world.ends[0].ups, world.ends[0].downs), (ups, downs));
    assert_eq!((world.ends[1].ups, world.ends[1].downs), (1, 0));
    // Nor does it make them talk without end: an answer for each Hello, and a question now and then.
    let hellos = old.iter().filter(|(_, datagram)| {
        Outer::parse(datagram).map(|(outer, _)| outer.kind) == Ok(Kind::Hello)
    });
    let most = rounds * hellos.count() + 200;
    assert!(
        world.log.len() - said < most,
        "{} of {most}",
        world.log.len() - said
    );
}

/// Somebody on the link has both ends say Hello to him, and passes on what they say.
#[test]
fn what_is_passed_on_at_a_link_brings_no_cable_up() {
    let mut world = World::new(Some("key"), Some("key"));
    world.ways = [
        way("[fe80::1]:61515", "[fe80::a]:61515"),
        way("[fe80::2]:61515", "[fe80::b]:61515"),
    ];
    world.run(5000);
    assert_eq!(world.up(), [false; 2]);
    for end in &world.ends {
        assert_eq!((end.ups, end.obstacles.len()), (0, 1));
        assert!(end.refused >= 20);
    }
    // Nor to another port, or to another address of the right one.
    for far in ["[fe80::2]:61516", "[fe80::2:2]:61515"] {
        world.ways[0].1 = far.parse().expect("an address");
        world.run(1000);
        assert_eq!(world.up(), [false; 2]);
    }
    // Elsewhere it may be a router that translates addresses.
    world.ways = [
        way("10.0.0.1:61515", "192.0.2.2:7000"),
        way("[2001:db8::2]:61515", "[2001:db8::9]:61515"),
    ];
    world.run(1000);
    assert_eq!(world.up(), [true; 2]);
}

/// By Python: `hmac.new(b"a fabric key", covered + IPv6Address("fe80::2").packed + b"\xf0\x4b", "sha256")`.
const GOLDEN_ON_LINK: [u8; TAG_LEN] = [
    0x32, 0x07, 0xe8, 0x4c, 0xa0, 0x0f, 0xd5, 0xc6, //
    0xc6, 0xe9, 0xe1, 0x2d, 0x39, 0xf7, 0xa7, 0x56, //
    0x76, 0x8e, 0x89, 0xc0, 0xac, 0x0e, 0x13, 0x5c, //
    0xcb, 0x34, 0x13, 0x3a, 0xb9, 0x52, 0x29, 0xb7,
];

#[test]
fn at_a_link_the_tag_covers_where_it_goes() {
    let hello = golden_hello();
    let key = Key(b"a fabric key".into());
    let (_, far) = way("[fe80::1]:1", "[fe80::2]:61515");
    let mut buf = [0; MAX_LEN];
    let len = Message::HelloAck(hello).emit(
        0x4142_4344_4546_4748,
        Some(&key),
        Destination::new(far, far),
        &mut buf,
    );
    assert_eq!(len, Ok(MAX_LEN));
    let (_, tag) = Hello::split_tag(&buf).expect("whole");
    assert_eq!(tag, &GOLDEN_ON_LINK);
}

#[test]
fn an_acknowledgement_counts_once() {
    let mut world = World::new(Some("key"), Some("key"));
    world.run(500);
    let acknowledgements = world.said(1, Kind::HelloAck);
    assert!(!acknowledgements.is_empty());
    world.ends[0].wanted = false;
    let bye = world.ends[0].line.leave(ByeReason::Disabled);
    assert!(bye.is_some());
    world.ends[0].wanted = true;
    for datagram in &acknowledgements {
        let _ = world.deliver(0, datagram);
    }
    assert!(!world.ends[0].line.is_up());
}

/// An end that hears somebody who says what he likes.
struct Victim {
    end: End,
    now: Instant,
}

impl Victim {
    fn hear(&mut self, message: Message) -> Heard {
        let unkeyed: Option<&Key> = None;
        let mut buf = [0; MAX_LEN];
        let cookie = self.end.line.cookie();
        let len = message
            .emit(cookie, unkeyed, Destination::default(), &mut buf)
            .expect("there is room");
        let here = Destination::default();
        let heard = self
            .end
            .line
            .take(&buf[..len], unkeyed, here, true, self.now);
        let heard = heard.expect("it is legible");
        self.end.count(heard.change);
        heard
    }

    /// Somebody with this cookie is there: he asks for the nonce, which is to be acknowledged, and does.
    fn meet(&mut self, cookie: u64) {
        let mut hello = Hello {
            guid: Guid::new(2),
            port: PortNum::new(1),
            mtu: Mtu::B256,
            room: 0,
            cookie,
            nonce: 1,
            echo: 0,
            tag: [0; TAG_LEN],
        };
        let Some((_, Message::HelloAck(answer))) = self.hear(Message::Hello(hello)).answer else {
            panic!("no answer");
        };
        hello.echo = answer.nonce;
        self.hear(Message::HelloAck(hello));
    }
}

/// The other end comes and goes, or becomes another one, as fast as it can say so.
#[test]
fn a_cable_does_not_flap() {
    for leaves in [false, true] {
        let mut victim = Victim {
            end: end(1, None),
            now: Instant::default().after(Duration::from_millis(5_000)),
        };
        for millis in 0..1_000 {
            victim.now = victim.now.after(Duration::from_millis(1));
            for life in 0..10 {
                victim.meet(0xdead + life % 2);
                if leaves {
                    victim.hear(Message::Bye(ByeReason::Shutdown));
                }
            }
            assert!(victim.end.ups <= 1 + millis / 200, "at {millis} ms");
        }
        assert!(victim.end.ups >= 4, "{}", victim.end.ups);
    }
}

/// Who has been there for a while may begin anew at once.
#[test]
fn a_host_that_begins_anew_is_there_at_once() {
    let mut victim = Victim {
        end: end(1, None),
        now: Instant::default(),
    };
    victim.meet(1);
    victim.now = victim.now.after(Duration::from_millis(1_000));
    victim.meet(2);
    victim.meet(2);
    assert!(victim.end.line.is_up());
    assert_eq!((victim.end.ups, victim.end.downs), (2, 1));
}

#[test]
fn a_hello_with_another_cookie_is_a_new_life_only_if_that_answers() {
    let mut world = World::new(None, None);
    world.run(500);
    // Without a key somebody else makes one up.
    let forged = Hello {
        guid: Guid::new(2),
        port: PortNum::new(1),
        mtu: Mtu::B256,
        room: 0,
        cookie: 0xdead,
        nonce: 1,
        echo: 0,
        tag: [0; TAG_LEN],
    };
    let mut buf = [0; MAX_LEN];
    let unkeyed: Option<&Key> = None;
    assert_eq!(
        Message::Hello(forged).emit(0, unkeyed, Destination::default(), &mut buf),
        Ok(MAX_LEN)
    );
    for _ in 0..50 {
        assert!(world.deliver(0, &buf).is_ok());
        world.run(50);
    }
    assert_eq!(world.up(), [true; 2]);
    assert_eq!((world.ends[0].ups, world.ends[0].downs), (1, 0));
}

#[test]
fn a_port_that_is_disabled_does_not_train() {
    let mut world = World::new(Some("key"), Some("key"));
    world.ends[1].wanted = false;
    world.run(10);
    let cookie = world.ends[1].line.cookie();
    assert!(!world.ends[1].line.is_up());
    assert_ne!(cookie, 0);
    assert!(world.said(1, Kind::HelloAck).is_empty());
}

/// What becomes of the two ends and of what they have said.
#[derive(Clone, Debug)]
enum Act {
    /// Time passes, in milliseconds.
    Wait(u64),
    /// Something that was said comes to an end of the cable, changed and cut off.
    Forge {
        pick: usize,
        to: usize,
        changes: Vec<(usize, u8)>,
        len: usize,
    },
}

fn act() -> impl Strategy<Value = Act> {
    // Where a datagram says what it is and for whom, or anywhere.
    let at = prop_oneof![0..outer::LEN, 0..MAX_LEN];
    let changes = proptest::collection::vec((at, any::<u8>()), 0..4);
    let len = prop_oneof![4 => Just(MAX_LEN), 1 => 0..=MAX_LEN];
    let forge =
        (any::<usize>(), 0..2usize, changes, len).prop_map(|(pick, to, changes, len)| Act::Forge {
            pick,
            to,
            changes,
            len,
        });
    prop_oneof![1 => (0..60u64).prop_map(|tens| Act::Wait(10 * tens)), 4 => forge]
}

impl World {
    /// Of what was said last as well as long ago.
    fn forge(&mut self, pick: usize, to: usize, changes: &[(usize, u8)], len: usize) {
        let count = self.log.len();
        let index = if pick % 2 == 0 {
            pick / 2 % count
        } else {
            count - 1 - pick / 2 % count.min(8)
        };
        let mut datagram = self.log[index].1.clone();
        for (at, byte) in changes {
            if let Some(old) = datagram.get_mut(*at) {
                *old = *byte;
            }
        }
        datagram.truncate(len);
        let _ = self.deliver(to, &datagram);
    }

    /// Who an end takes for the other one is that, as far as it knows anybody. Without a key the other one's name
    /// can be forged, and only its cookie tells.
    fn know_each_other(&self, has_key: bool) -> bool {
        [0, 1].into_iter().all(|at| {
            let (line, other) = (&self.ends[at].line, &self.ends[1 - at].line);
            let guid = Guid::new(2 - at as u64);
            let is_named = !has_key || line.peer() == Some(guid);
            !line.is_up() || line.peer_cookie() == other.cookie() && is_named
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever comes, legible or not, in any order: afterwards the cable is up at both ends, and stays so. With
    /// a fabric key nobody is met but the other end.
    #[test]
    fn anything_may_be_forged(
        has_key in any::<bool>(),
        acts in proptest::collection::vec(act(), 0..150),
    ) {
        let key = has_key.then_some("key");
        let mut world = World::new(key, key);
        world.run(10);
        for act in acts {
            match act {
                Act::Wait(millis) => world.run(millis),
                Act::Forge { pick, to, changes, len } => world.forge(pick, to, &changes, len),
            }
            prop_assert!(!has_key || world.know_each_other(has_key));
        }
        // An end that was told nonsense notices when nobody answers, and begins again.
        world.run(3000);
        prop_assert_eq!(world.up(), [true; 2]);
        prop_assert!(world.know_each_other(has_key));
        let downs = [0, 1].map(|at| world.ends[at].downs);
        world.run(5000);
        prop_assert_eq!(world.up(), [true; 2]);
        prop_assert_eq!([0, 1].map(|at| world.ends[at].downs), downs);
    }
}
