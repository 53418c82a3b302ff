// SPDX-License-Identifier: GPL-2.0

//! One end of a cable: a machine that finds out whether the other end is there, and may be.
//!
//! Each end says Hello until the other has acknowledged: then it knows that datagrams pass both ways, who the
//! other end is, and its cookie. From then on each sends keepalives and echoes those of the other. An end that
//! is not heard any more, or does not hear, is gone, and the search begins again.
//!
//! Only an acknowledgement changes anything, since it echoes a nonce that this end has just made. A Hello may
//! be an old one that somebody has recorded. So it is answered, and if it tells of an end that is not known,
//! that is asked with a Hello of this one.
//!
//! An end with a fabric key takes only Hellos and acknowledgements whose tag was made with that key.

mod message;

pub use message::{
    Destination,
    Mac,
    Message,
    MAX_LEN, //
};

use crate::time::{
    Duration,
    Instant, //
};
use wire::outer::control::{
    Bye,
    ByeReason,
    Hello,
    Keepalive,
    Refuse,
    RefuseReason,
    TAG_LEN, //
};
use wire::outer::{
    Kind,
    Outer, //
};
use wire::{
    Guid,
    Mtu,
    PortNum,
    WireError, //
};

/// The time between two Hellos or keepalives.
const INTERVAL: Duration = Duration::from_millis(200);

/// A cable is dead when nothing has passed one way for this long.
const PATIENCE: Duration = Duration::from_millis(800);

/// Who this end is, as its Hellos tell.
#[derive(Clone, Copy, Debug)]
pub struct Oneself {
    /// The switch.
    pub guid: Guid,
    /// The port of the switch.
    pub port: PortNum,
    /// What the underlay carries.
    pub capacity: Capacity,
}

/// What an underlay carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The largest MTU of packets.
    pub mtu: Mtu,
    /// Bytes of a datagram with several packets, from the outer header on; 0 if each is to have a datagram.
    pub room: u16,
}

/// The other end, once it has acknowledged a Hello.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// Its switch.
    guid: Guid,
    /// What it wants to see in each datagram.
    cookie: u64,
    /// What its underlay carries of several packets in one datagram.
    room: u16,
    /// When the last keepalive came.
    heard: Instant,
    /// The sequence of that.
    sequence: u64,
    /// When it last showed that it hears this end.
    echoed: Instant,
    /// The sequence of this end that it echoed then.
    echo: u64,
}

/// What has become of the cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// The other end is there, and this is the largest payload that both carry.
    Up(Mtu),
    /// It is there no more.
    Down,
}

/// Why a cable waits although its other end has been heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The other end has not shown that it has the fabric key of this one.
    Key,
    /// The other end has refused this one.
    Refused(RefuseReason),
}

/// Why a datagram does not count at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not legible.
    Wire(WireError),
    /// It is not from the other end of this cable.
    Stranger,
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// What a datagram has done, and what is to be sent because of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// What has become of the cable.
    pub change: Change,
    /// What to answer, and to which cookie.
    pub answer: Option<(u64, Message)>,
    /// A Hello that is to be said as well, to no cookie.
    pub question: Option<Message>,
    /// The datagram had not the tag of the fabric key.
    pub refused: bool,
    /// What the cable has begun to wait for.
    pub obstacle: Option<Obstacle>,
}

/// One end of a cable.
#[derive(Debug)]
pub struct Line {
    oneself: Oneself,
    /// What the other end is to put into each datagram. Not 0.
    cookie: u64,
    /// What the next acknowledgement has to echo. None counts twice.
    nonce: u64,
    sequence: u64,
    peer: Option<Peer>,
    /// The switch that was at the other end last.
    known: Option<Guid>,
    /// When the other end was met last.
    met: Instant,
    /// It is not met again before.
    pause: Instant,
    obstacle: Option<Obstacle>,
    next: Instant,
    /// When a Hello was last said because of one that came.
    questioned: Option<Instant>,
    /// When this end was last asked what to say.
    asked: Instant,
}

impl Line {
    /// A cable whose other end has not been heard. `cookie` and `nonce` are random.
    pub fn new(oneself: Oneself, cookie: u64, nonce: u64) -> Self {
        Self {
            oneself,
            cookie: cookie.max(1),
            nonce,
            sequence: 0,
            peer: None,
            known: None,
            met: Instant::default(),
            pause: Instant::default(),
            obstacle: None,
            next: Instant::default(),
            questioned: None,
            asked: Instant::default(),
        }
    }

    /// The cookie of this end.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The cookie of the other end, 0 while it is not known.
    pub fn peer_cookie(&self) -> u64 {
        self.peer.map_or(0, |peer| peer.cookie)
    }

    /// How many bytes of packets, with the outer header, the other end takes in one datagram; 0 if it takes one packet.
    pub fn room(&self) -> u16 {
        let peer = self.peer.map_or(0, |peer| peer.room);
        peer.min(self.oneself.capacity.room)
    }

    /// Whether datagrams pass both ways.
    pub fn is_up(&self) -> bool {
        self.peer.is_some()
    }

    /// What has kept the two ends apart, if something has.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle
    }

    /// The switch at the other end, while datagrams pass both ways.
    pub fn peer(&self) -> Option<Guid> {
        Some(self.peer?.guid)
    }

    /// The switch that is at the other end, or was there last.
    pub fn known(&self) -> Option<Guid> {
        self.known
    }

    /// When [`Self::poll`] next has something to say.
    pub fn due(&self) -> Instant {
        self.next
    }

    /// What time has done, and what is to be sent now, to the cookie that [`Self::peer_cookie`] was before.
    pub fn poll(&mut self, now: Instant) -> (Change, Option<Message>) {
        if now < self.next {
            return (Change::None, None);
        }
        self.next = now.after(INTERVAL);
        self.excuse(now);
        let Some(peer) = self.peer else {
            return (Change::None, Some(Message::Hello(self.hello(0))));
        };
        let silent = peer.heard.after(PATIENCE) < now || peer.echoed.after(PATIENCE) < now;
        if silent {
            self.part();
            return (Change::Down, Some(Message::Bye(ByeReason::Silence)));
        }
        self.sequence = self.sequence.wrapping_add(1);
        let keepalive = Keepalive {
            sequence: self.sequence,
            echo: peer.sequence,
        };
        (Change::None, Some(Message::Keepalive(keepalive)))
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
            mtu: self.oneself.capacity.mtu,
            room: self.oneself.capacity.room,
            cookie: self.cookie,
            nonce: self.nonce,
            echo,
            tag: [0; TAG_LEN],
        }
    }

    /// Takes a control message, from the outer header on, which has come from where the cable leads to, and went `to`
    /// there. `mac` is the fabric key of this end; `wanted` says whether its port looks for a link.
    ///
    /// # Errors
    ///
    /// A datagram that does not count.
    pub fn take<M: Mac>(
        &mut self,
        datagram: &[u8],
        mac: Option<&M>,
        to: Destination,
        wanted: bool,
        now: Instant,
    ) -> Result<Heard, Fault> {
        let (outer, body) = Outer::parse(datagram)?;
        if outer.kind != Kind::Hello && outer.cookie != self.cookie {
            return Err(Fault::Stranger);
        }
        let mut heard = Heard::default();
        match outer.kind {
            Kind::Hello => {
                let hello = self.greeting(body)?;
                if !wanted && !self.is_up() {
                    return Ok(heard);
                }
                if !is_authentic(datagram, mac, to)? {
                    let refuse = Refuse {
                        reason: RefuseReason::Key,
                        echo: hello.nonce,
                    };
                    heard.answer = Some((hello.cookie, Message::Refuse(refuse)));
                    return Ok(self.refuse(heard));
                }
                let answer = Message::HelloAck(self.hello(hello.nonce));
                heard.answer = Some((hello.cookie, answer));
                heard.question = self.question(hello.cookie, now);
            }
            Kind::HelloAck => {
                let hello = self.greeting(body)?;
                let expected = wanted || self.is_up();
                if !expected || hello.echo != self.nonce {
                    return Ok(heard);
                }
                if !is_authentic(datagram, mac, to)? {
                    return Ok(self.refuse(heard));
                }
                heard.change = self.meet(&hello, now);
            }
            Kind::Keepalive => self.on_keepalive(&Keepalive::parse(body)?, now),
            Kind::Bye => {
                Bye::parse(body)?;
                if self.is_up() {
                    self.lose(now);
                    heard.change = Change::Down;
                }
            }
            Kind::Refuse => {
                let refuse = Refuse::parse(body)?;
                if refuse.echo == self.nonce {
                    heard.obstacle = self.wait_for(Obstacle::Refused(refuse.reason));
                }
            }
            Kind::Data | Kind::Beacon => {}
        }
        Ok(heard)
    }

    /// Reads a Hello or its acknowledgement. One of this switch has come round in a loop, or was sent back.
    fn greeting(&self, body: &[u8]) -> Result<Hello, Fault> {
        let hello = Hello::parse(body)?;
        if hello.guid == self.oneself.guid {
            return Err(Fault::Stranger);
        }
        Ok(hello)
    }

    /// Notes that the other end has not shown the key. That changes nothing of a cable that is up: somebody
    /// else may have sent it.
    fn refuse(&mut self, heard: Heard) -> Heard {
        Heard {
            refused: true,
            obstacle: self.wait_for(Obstacle::Key),
            ..heard
        }
    }

    /// Notes why the cable waits, and returns that if it was not known.
    fn wait_for(&mut self, obstacle: Obstacle) -> Option<Obstacle> {
        if self.is_up() || self.obstacle.is_some() {
            return None;
        }
        self.obstacle = Some(obstacle);
        self.obstacle
    }

    /// The Hello for an end with `cookie` that is not known, now and then.
    fn question(&mut self, cookie: u64, now: Instant) -> Option<Message> {
        let recent = self.questioned.is_some_and(|at| now < at.after(INTERVAL));
        if recent || self.peer_cookie() == cookie {
            return None;
        }
        self.questioned = Some(now);
        Some(Message::Hello(self.hello(0)))
    }

    /// The other end is there, as it has just shown. A new cookie is a new life, for which this end begins anew.
    fn meet(&mut self, hello: &Hello, now: Instant) -> Change {
        self.nonce = self.nonce.wrapping_add(1);
        if let Some(peer) = self.peer {
            if peer.cookie == hello.cookie {
                return Change::None;
            }
            self.lose(now);
            self.next = now.max(self.pause);
            return Change::Down;
        }
        if now < self.pause {
            return Change::None;
        }
        self.next = now;
        self.met = now;
        self.obstacle = None;
        self.known = Some(hello.guid);
        self.peer = Some(Peer {
            guid: hello.guid,
            cookie: hello.cookie,
            room: hello.room,
            heard: now,
            sequence: 0,
            echoed: now,
            echo: 0,
        });
        Change::Up(self.oneself.capacity.mtu.min(hello.mtu))
    }

    /// The other end lives.
    fn on_keepalive(&mut self, keepalive: &Keepalive, now: Instant) {
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

    /// The other end says that it goes, or is another one. Whoever does so again and again is given time.
    fn lose(&mut self, now: Instant) {
        if now < self.met.after(INTERVAL) {
            self.pause = now.after(INTERVAL);
        }
        self.part();
    }

    /// The other end is there no more. What it has been told so far is void.
    fn part(&mut self) {
        self.peer = None;
        self.nonce = self.nonce.wrapping_add(1);
    }

    /// This end leaves, for `reason`. What to tell the other, to the cookie that [`Self::peer_cookie`] was
    /// before, if it is there.
    pub fn leave(&mut self, reason: ByeReason) -> Option<Message> {
        let up = self.is_up();
        self.part();
        up.then_some(Message::Bye(reason))
    }

    /// This end has another fabric key, and begins anew with another `cookie`, which is random. Returns the same
    /// as [`Self::leave`].
    pub fn renew(&mut self, cookie: u64, now: Instant) -> Option<Message> {
        self.restart(ByeReason::Key, cookie, now)
    }

    /// The underlay of this end has this `capacity` from now on. If that is news, this end begins anew, so that the
    /// other one learns of it; as in [`Self::renew`].
    pub fn resize(&mut self, capacity: Capacity, cookie: u64, now: Instant) -> Option<Message> {
        if self.oneself.capacity == capacity {
            return None;
        }
        self.oneself.capacity = capacity;
        self.restart(ByeReason::Mtu, cookie, now)
    }

    /// Begins anew. With another cookie, so that the other end notices even if it does not hear the message.
    fn restart(&mut self, reason: ByeReason, cookie: u64, now: Instant) -> Option<Message> {
        let message = self.leave(reason);
        self.cookie = cookie.max(1);
        self.obstacle = None;
        self.questioned = None;
        self.next = now;
        message
    }
}

/// Whether a Hello or its acknowledgement has the tag of the fabric key, if there is one.
fn is_authentic<M: Mac>(
    datagram: &[u8],
    mac: Option<&M>,
    to: Destination,
) -> Result<bool, WireError> {
    let Some(mac) = mac else { return Ok(true) };
    let (covered, tag) = Hello::split_tag(datagram)?;
    Ok(to.cover(covered, |all| mac.verify(all, tag)))
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_line))]
mod tests {
    use super::*;

    /// No key at all.
    enum Unkeyed {}

    impl Mac for Unkeyed {
        fn tag(&self, _: &[u8]) -> [u8; TAG_LEN] {
            match *self {}
        }

        fn verify(&self, _: &[u8], _: &[u8; TAG_LEN]) -> bool {
            match *self {}
        }
    }

    const NO_KEY: Option<&Unkeyed> = None;

    fn line(cookie: u64) -> Line {
        let oneself = Oneself {
            guid: Guid::new(cookie),
            port: PortNum::new(1),
            capacity: Capacity {
                mtu: Mtu::B2048,
                room: 0,
            },
        };
        Line::new(oneself, cookie, cookie.wrapping_mul(7))
    }

    fn at(millis: u64) -> Instant {
        Instant::default().after(Duration::from_millis(millis))
    }

    /// Delivers `message`, which was sent to `cookie`.
    fn deliver(to: &mut Line, cookie: u64, message: Message, now: Instant) -> Heard {
        let mut buf = [0; MAX_LEN];
        let here = Destination::default();
        let len = message.emit(cookie, NO_KEY, here, &mut buf).unwrap_or(0);
        let bytes = buf.get(..len).unwrap_or_default();
        to.take(bytes, NO_KEY, here, true, now).unwrap_or_default()
    }

    /// What `a` has to say now, and the answer of `b` to that.
    fn say(a: &mut Line, b: &mut Line, now: Instant) -> Change {
        let cookie = a.peer_cookie();
        let (change, Some(message)) = a.poll(now) else {
            return Change::None;
        };
        let heard = deliver(b, cookie, message, now);
        match heard.answer {
            Some((cookie, answer)) => deliver(a, cookie, answer, now).change,
            None => change,
        }
    }

    #[test]
    fn two_ends_find_each_other_and_lose_each_other() {
        let (mut a, mut b) = (line(1), line(2));
        assert_eq!(say(&mut a, &mut b, at(0)), Change::Up(Mtu::B2048));
        assert!(!b.is_up());
        assert_eq!(say(&mut b, &mut a, at(0)), Change::Up(Mtu::B2048));
        for step in 1..20 {
            assert_eq!(say(&mut a, &mut b, at(step * 200)), Change::None);
            assert_eq!(say(&mut b, &mut a, at(step * 200)), Change::None);
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
        assert_eq!(say(&mut a, &mut b, at(0)), Change::Up(Mtu::B2048));
        assert_eq!(say(&mut b, &mut a, at(0)), Change::Up(Mtu::B2048));
        let _ = a.poll(at(200));
        assert_eq!(a.poll(at(5000)).0, Change::None);
        assert!(a.is_up());
    }
}
