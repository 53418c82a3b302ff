// SPDX-License-Identifier: GPL-2.0

//! One end of a cable: a machine that finds out whether the other end is there.
//!
//! Each end says Hello until the other has acknowledged: then both know each other's cookie, and that
//! datagrams pass both ways. From then on each sends keepalives and echoes those of the other. An end that is
//! not heard any more, or does not hear, is gone, and the search begins again.

use proto::time::{
    Duration,
    Instant, //
};
use wire::outer::control::{
    ByeReason,
    Hello,
    Keepalive,
    TAG_LEN, //
};
use wire::{
    Guid,
    Mtu,
    PortNum, //
};

/// The time between two Hellos or keepalives.
const INTERVAL: Duration = Duration::from_millis(200);

/// A cable is dead when nothing has passed one way for this long.
const PATIENCE: Duration = Duration::from_millis(800);

/// Who this end is, as its Hellos tell.
#[derive(Clone, Copy)]
pub(super) struct Oneself {
    /// The switch.
    pub(super) guid: Guid,
    /// The port of the switch.
    pub(super) port: PortNum,
    /// What the underlay carries.
    pub(super) mtu: Mtu,
}

/// The other end, once it has said Hello.
#[derive(Clone, Copy)]
struct Peer {
    /// Its switch.
    guid: Guid,
    /// What it wants to see in each datagram.
    cookie: u64,
    mtu: Mtu,
    /// It has acknowledged a Hello of this end.
    acknowledged: bool,
    /// When the last keepalive came.
    heard: Instant,
    /// The sequence of that.
    sequence: u64,
    /// When it last showed that it hears this end.
    echoed: Instant,
    /// The sequence of this end that it echoed then.
    echo: u64,
}

/// What a datagram has done to the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// The other end is there, and this is the largest payload that both carry.
    Up(Mtu),
    /// It is there no more.
    Down,
}

/// A control message to be sent.
#[derive(Clone, Copy)]
pub(super) enum Message {
    /// Says Hello.
    Hello(Hello),
    /// Answers one.
    HelloAck(Hello),
    /// Says that this end lives.
    Keepalive(Keepalive),
    /// Ends the cable.
    Bye(ByeReason),
}

/// One end of a cable.
pub(super) struct Line {
    oneself: Oneself,
    /// What the other end is to put into each datagram. Not 0.
    cookie: u64,
    nonce: u64,
    sequence: u64,
    peer: Option<Peer>,
    next: Instant,
    /// When this end was last asked what to say.
    asked: Instant,
}

impl Line {
    /// A cable whose other end has not been heard. `cookie` and `nonce` are random.
    pub(super) fn new(oneself: Oneself, cookie: u64, nonce: u64) -> Self {
        Self {
            oneself,
            cookie: cookie.max(1),
            nonce,
            sequence: 0,
            peer: None,
            next: Instant::default(),
            asked: Instant::default(),
        }
    }

    /// The cookie of this end.
    pub(super) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The cookie of the other end, 0 while it is not known.
    pub(super) fn peer_cookie(&self) -> u64 {
        self.peer.map_or(0, |peer| peer.cookie)
    }

    /// Whether datagrams pass both ways.
    pub(super) fn is_up(&self) -> bool {
        self.peer.is_some_and(|peer| peer.acknowledged)
    }

    /// The switch at the other end, while datagrams pass both ways.
    pub(super) fn peer(&self) -> Option<Guid> {
        let peer = self.peer.filter(|peer| peer.acknowledged)?;
        Some(peer.guid)
    }

    /// When [`Self::poll`] next has something to say.
    pub(super) fn due(&self) -> Instant {
        self.next
    }

    /// What time has done, and what is to be sent now.
    pub(super) fn poll(&mut self, now: Instant) -> (Change, Option<Message>) {
        if now < self.next {
            return (Change::None, None);
        }
        self.next = now.after(INTERVAL);
        self.excuse(now);
        if let Some(peer) = self.peer.filter(|peer| peer.acknowledged) {
            let silent = peer.heard.after(PATIENCE) < now || peer.echoed.after(PATIENCE) < now;
            if silent {
                self.peer = None;
                return (Change::Down, Some(Message::Bye(ByeReason::Silence)));
            }
            self.sequence = self.sequence.wrapping_add(1);
            let keepalive = Keepalive {
                sequence: self.sequence,
                echo: peer.sequence,
            };
            return (Change::None, Some(Message::Keepalive(keepalive)));
        }
        (Change::None, Some(Message::Hello(self.hello(0))))
    }

    /// Time in which this end did not run, since its host was busy, says nothing about the other end.
    fn excuse(&mut self, now: Instant) {
        let since = now.nanos().saturating_sub(self.asked.nanos());
        let stalled = Duration::from_nanos(since.saturating_sub(INTERVAL.nanos()));
        self.asked = now;
        if let Some(peer) = &mut self.peer {
            peer.heard = peer.heard.after(stalled).min(now);
            peer.echoed = peer.echoed.after(stalled).min(now);
        }
    }

    fn hello(&self, echo: u64) -> Hello {
        Hello {
            guid: self.oneself.guid,
            port: self.oneself.port,
            mtu: self.oneself.mtu,
            cookie: self.cookie,
            nonce: self.nonce,
            echo,
            tag: [0; TAG_LEN],
        }
    }

    /// The other end says Hello. What to answer.
    pub(super) fn on_hello(&mut self, hello: &Hello, now: Instant) -> (Change, Message) {
        let change = self.meet(hello, now);
        (change, Message::HelloAck(self.hello(hello.nonce)))
    }

    /// The other end acknowledges a Hello of this one.
    pub(super) fn on_hello_ack(&mut self, hello: &Hello, now: Instant) -> Change {
        if hello.echo != self.nonce {
            return Change::None;
        }
        let change = self.meet(hello, now);
        match &mut self.peer {
            Some(peer) if !peer.acknowledged => {
                peer.acknowledged = true;
                peer.heard = now;
                peer.echoed = now;
                self.next = now;
                Change::Up(self.oneself.mtu.min(peer.mtu))
            }
            _ => change,
        }
    }

    /// Notes who the other end is. A new cookie is a new life.
    fn meet(&mut self, hello: &Hello, now: Instant) -> Change {
        if let Some(peer) = self.peer {
            if peer.cookie == hello.cookie {
                return Change::None;
            }
        }
        let was_up = self.is_up();
        self.peer = Some(Peer {
            guid: hello.guid,
            cookie: hello.cookie,
            mtu: hello.mtu,
            acknowledged: false,
            heard: now,
            sequence: 0,
            echoed: now,
            echo: 0,
        });
        self.next = now;
        if was_up {
            Change::Down
        } else {
            Change::None
        }
    }

    /// The other end lives.
    pub(super) fn on_keepalive(&mut self, keepalive: &Keepalive, now: Instant) {
        let latest = self.sequence;
        if let Some(peer) = &mut self.peer {
            if keepalive.sequence > peer.sequence {
                peer.sequence = keepalive.sequence;
                peer.heard = now;
            }
            if keepalive.echo > peer.echo && keepalive.echo <= latest {
                peer.echo = keepalive.echo;
                peer.echoed = now;
            }
        }
    }

    /// The other end leaves.
    pub(super) fn on_bye(&mut self) -> Change {
        let was_up = self.is_up();
        self.peer = None;
        if was_up {
            Change::Down
        } else {
            Change::None
        }
    }

    /// This end leaves, for `reason`. What to tell the other, if it is there.
    pub(super) fn leave(&mut self, reason: ByeReason) -> Option<Message> {
        self.peer.map(|_| Message::Bye(reason))
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_line)]
mod tests {
    use super::*;

    fn line(cookie: u64) -> Line {
        let oneself = Oneself {
            guid: Guid::new(cookie),
            port: PortNum::new(1),
            mtu: Mtu::B2048,
        };
        Line::new(oneself, cookie, cookie.wrapping_mul(7))
    }

    fn at(millis: u64) -> Instant {
        Instant::default().after(Duration::from_millis(millis))
    }

    /// Delivers `message` to `to`; returns what it did and the answer.
    fn deliver(to: &mut Line, message: Option<Message>, now: Instant) -> (Change, Option<Message>) {
        match message {
            Some(Message::Hello(hello)) => {
                let (change, answer) = to.on_hello(&hello, now);
                (change, Some(answer))
            }
            Some(Message::HelloAck(hello)) => (to.on_hello_ack(&hello, now), None),
            Some(Message::Keepalive(keepalive)) => {
                to.on_keepalive(&keepalive, now);
                (Change::None, None)
            }
            Some(Message::Bye(_)) => (to.on_bye(), None),
            None => (Change::None, None),
        }
    }

    /// One Hello of `a` and the answer of `b`.
    fn greet(a: &mut Line, b: &mut Line, now: Instant) -> Change {
        let (_, hello) = a.poll(now);
        let (_, answer) = deliver(b, hello, now);
        deliver(a, answer, now).0
    }

    #[test]
    fn two_ends_find_each_other_and_lose_each_other() {
        let (mut a, mut b) = (line(1), line(2));
        assert_eq!(greet(&mut a, &mut b, at(0)), Change::Up(Mtu::B2048));
        assert!(!b.is_up());
        assert_eq!(greet(&mut b, &mut a, at(0)), Change::Up(Mtu::B2048));
        for step in 1..20 {
            let now = at(step * 200);
            let (change, message) = a.poll(now);
            assert_eq!(change, Change::None);
            deliver(&mut b, message, now);
            let (change, message) = b.poll(now);
            assert_eq!(change, Change::None);
            deliver(&mut a, message, now);
        }
        // Now a is heard no more.
        let mut down = None;
        for step in 20..40 {
            if b.poll(at(step * 200)).0 == Change::Down {
                down = Some(step);
                break;
            }
        }
        assert!(down.is_some_and(|step| step <= 25));
    }

    #[test]
    fn a_stalled_host_hears_late_but_hears() {
        let (mut a, mut b) = (line(1), line(2));
        assert_eq!(greet(&mut a, &mut b, at(0)), Change::Up(Mtu::B2048));
        assert_eq!(greet(&mut b, &mut a, at(0)), Change::Up(Mtu::B2048));
        let _ = a.poll(at(200));
        assert_eq!(a.poll(at(5000)).0, Change::None);
        assert!(a.is_up());
    }

    #[test]
    fn a_new_cookie_is_a_new_life() {
        let (mut a, mut b) = (line(1), line(2));
        assert_eq!(greet(&mut a, &mut b, at(0)), Change::Up(Mtu::B2048));
        let mut c = line(3);
        let (_, hello) = c.poll(at(1));
        assert_eq!(deliver(&mut a, hello, at(1)).0, Change::Down);
        assert_eq!(a.peer_cookie(), 3);
    }

    #[test]
    fn an_answer_to_nobody_is_ignored() {
        let (mut a, mut b) = (line(1), line(2));
        let (_, hello) = b.poll(at(0));
        let (_, answer) = deliver(&mut a, hello, at(0));
        let mut stranger = line(9);
        assert_eq!(deliver(&mut stranger, answer, at(0)).0, Change::None);
        assert!(!stranger.is_up());
    }
}
