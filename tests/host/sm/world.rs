// SPDX-License-Identifier: GPL-2.0

//! Switches, channel adapters and subnet managers in virtual time: datagrams take time on each link, and may be lost.

use crate::cables::Cables;
use crate::nodes::{
    hca,
    switch,
    Assignments,
    Node,
    Place,
    TestAgent,
    TestManager,
    MLIDS, //
};
use proto::fabric::link::LinkAction;
use proto::fabric::port::PortEvent;
use proto::fabric::sma::MadVerdict;
use proto::fabric::switch::{
    Forward,
    Lrh,
    Packet,
    SmpVerdict, //
};
use proto::fabric::Mad;
use proto::sa::{
    self,
    Address, //
};
use proto::sm::{
    Assignment,
    Next,
    Transmit, //
};
use proto::time::{
    Duration,
    Instant, //
};
use std::cell::Cell;
use std::cmp::{
    Ordering,
    Reverse, //
};
use std::collections::{
    BTreeMap,
    BinaryHeap, //
};
use std::rc::Rc;
use wire::{
    Lid,
    PKey,
    PortNum,
    Qpn,
    Sl, //
};

/// Time that a datagram takes over a link, and through an agent.
const LINK: Duration = Duration::from_nanos(1_000);
const AGENT: Duration = Duration::from_nanos(5_000);

/// Something that happens.
enum Event {
    /// A datagram arrives.
    Arrive { to: Place, lrh: Lrh, mad: Box<Mad> },
    /// A datagram reaches the consumer of QP0.
    Deliver { at: Place, lrh: Lrh, mad: Box<Mad> },
    /// A node may have a trap to send.
    Trap(usize),
    /// A datagram reaches QP1.
    Gmp(Box<Gmp>),
    /// A subnet manager wants to be polled.
    Wake(usize),
}

/// An event and its time; of those at the same time, the first one that was entered is the first.
struct Entry {
    at: Instant,
    serial: u64,
    event: Event,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// A subnet manager and where it is: port 0 of a switch, or a port of an adapter.
pub(crate) struct Seat {
    pub(crate) at: Place,
    pub(crate) manager: TestManager,
    /// Subnet administration, where it is there.
    pub(crate) agent: Option<TestAgent>,
    pub(crate) alive: bool,
    /// When it will be polled next.
    wake: Option<Instant>,
}

/// A datagram that has come to QP1.
#[derive(Clone, Debug)]
pub(crate) struct Gmp {
    pub(crate) at: Place,
    pub(crate) from: Address,
    pub(crate) mad: Mad,
}

/// The fabric.
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) cables: Cables,
    pub(crate) seats: Vec<Seat>,
    /// What has come to QP1 of a port without subnet administration.
    pub(crate) gmps: Vec<Gmp>,
    pub(crate) now: Instant,
    /// Of 1000 datagrams so many are lost at each link.
    pub(crate) loss: u64,
    /// The same for those of QP1 alone.
    pub(crate) gmp_loss: u64,
    /// Of 1000 datagrams so many reach a subnet manager with a wrong byte.
    pub(crate) noise: u64,
    /// Whether no trap arrives.
    pub(crate) traps_lost: bool,
    /// Method and attribute of what subnet managers send in vain.
    pub(crate) unheard: Option<(u8, u16)>,
    /// The same of what never reaches them.
    pub(crate) unseen: Option<(u8, u16)>,
    /// How often subnet managers have gone through lists of partitions.
    pub(crate) partition_reads: Rc<Cell<u64>>,
    /// How often adapters were told that their P_Keys have changed.
    pub(crate) key_changes: BTreeMap<Place, u64>,
    /// How often adapters were asked to register anew.
    pub(crate) registrations: BTreeMap<Place, u64>,
    /// How often subnet administration has wanted to go on at once.
    pub(crate) rounds: u64,
    /// Datagrams that went over a link.
    pub(crate) hops: u64,
    /// When a subnet manager has last sent something.
    pub(crate) last_sent: Instant,
    agenda: BinaryHeap<Reverse<Entry>>,
    serial: u64,
    random: u64,
    /// When each node was last seen to want to send a trap.
    trap_at: BTreeMap<usize, Instant>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            cables: Cables::default(),
            seats: Vec::new(),
            gmps: Vec::new(),
            key_changes: BTreeMap::new(),
            registrations: BTreeMap::new(),
            now: Instant::from_nanos(1),
            loss: 0,
            gmp_loss: 0,
            noise: 0,
            traps_lost: false,
            unheard: None,
            unseen: None,
            partition_reads: Rc::default(),
            rounds: 0,
            hops: 0,
            last_sent: Instant::from_nanos(1),
            agenda: BinaryHeap::new(),
            serial: 0,
            random: 0x1234_5678_9abc_def1,
            trap_at: BTreeMap::new(),
        }
    }

    /// Adds a switch of `ports` ports whose tables have `lids` entries.
    pub(crate) fn add_switch(&mut self, ports: usize, lids: usize) -> usize {
        self.add_switch_for(ports, lids, MLIDS)
    }

    /// The same, for so many multicast LIDs.
    pub(crate) fn add_switch_for(&mut self, ports: usize, lids: usize, mlids: usize) -> usize {
        let guid = 0x0200_0000_0000_0000 + ((self.nodes.len() as u64) << 8);
        self.nodes
            .push(Node::Switch(Box::new(switch(guid, ports, lids, mlids))));
        self.cables.add_node(ports);
        self.nodes.len() - 1
    }

    /// Adds an adapter of `ports` ports.
    pub(crate) fn add_hca(&mut self, ports: usize) -> usize {
        let guid = 0x0200_0000_0000_0000 + ((self.nodes.len() as u64) << 8);
        self.nodes.push(Node::Hca(Box::new(hca(guid, ports))));
        self.cables.add_node(ports);
        self.nodes.len() - 1
    }

    /// Lets a subnet manager run.
    pub(crate) fn seat(&mut self, at: Place, manager: TestManager) -> usize {
        let now = self.now;
        match &mut self.nodes[at.0] {
            Node::Switch(switch) => switch.set_manager(true, now),
            Node::Hca(hca) => hca.change_cap_mask(PortNum::new(at.1), 1 << 1, 0, now),
        }
        self.seats.push(Seat {
            at,
            manager,
            agent: None,
            alive: true,
            wake: None,
        });
        let seat = self.seats.len() - 1;
        self.wake(seat, Some(now));
        self.traps(at.0);
        seat
    }

    /// Ends a subnet manager.
    pub(crate) fn unseat(&mut self, seat: usize) {
        self.seats[seat].alive = false;
        let (now, at) = (self.now, self.seats[seat].at);
        match &mut self.nodes[at.0] {
            Node::Switch(switch) => switch.set_manager(false, now),
            Node::Hca(hca) => hca.change_cap_mask(PortNum::new(at.1), 0, 1 << 1, now),
        }
        self.traps(at.0);
    }

    /// Asks a subnet manager for a heavy sweep.
    pub(crate) fn sweep(&mut self, seat: usize) {
        self.seats[seat].manager.request_sweep(self.now);
        self.wake(seat, Some(self.now));
    }

    /// Has a subnet manager take these partitions.
    pub(crate) fn partition(&mut self, seat: usize, list: &[Assignment]) {
        let now = self.now;
        let list = Assignments {
            list: list.to_vec(),
            reads: self.partition_reads.clone(),
        };
        self.seats[seat].manager.set_partitions(list, now);
        self.wake(seat, Some(now));
    }

    /// The P_Keys of a port of an adapter, or by which a port of a switch enforces partitions.
    pub(crate) fn pkeys(&self, at: Place) -> Vec<u16> {
        let port = PortNum::new(at.1);
        let table = match &self.nodes[at.0] {
            Node::Switch(switch) => switch.port(port).expect("it is there").pkeys(),
            Node::Hca(hca) => hca.port(port).expect("it is there").pkeys(),
        };
        let used = table.keys().iter().rposition(|key| key.is_valid());
        let keys = table.keys().iter().take(used.map_or(0, |last| last + 1));
        keys.map(|key| key.get()).collect()
    }

    /// Plugs a cable in.
    pub(crate) fn plug(&mut self, a: Place, b: Place) {
        self.cables.plug(a, b);
        self.train(a);
        self.traps(a.0);
        self.traps(b.0);
    }

    /// Pulls the cable of `a`.
    pub(crate) fn unplug(&mut self, a: Place) {
        if let Some(b) = self.cables.unplug(a) {
            self.down(a);
            self.down(b);
            self.traps(a.0);
            self.traps(b.0);
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self
            .agenda
            .peek()
            .is_some_and(|Reverse(entry)| entry.at <= end)
        {
            self.step();
        }
        self.now = end;
    }

    /// Lets time pass until no subnet manager has anything to do; returns when they have stopped to send. Fails
    /// after `limit`.
    pub(crate) fn settle(&mut self, limit: Duration) -> Duration {
        let start = self.now;
        let end = start.after(limit);
        // Two traps of a kind are 200 ms apart, and may be due only then.
        self.pass(Duration::from_millis(250));
        while self
            .seats
            .iter()
            .any(|seat| seat.alive && !seat.manager.is_idle())
        {
            assert!(
                self.step() && self.now <= end,
                "the fabric does not settle: {:?}",
                self.seats[0].manager.report()
            );
        }
        Duration::from_nanos(self.last_sent.nanos().saturating_sub(start.nanos()))
    }

    /// A pseudo-random number below `bound`.
    pub(crate) fn random(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn put(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.agenda.push(Reverse(Entry {
            at: at.max(self.now),
            serial: self.serial,
            event,
        }));
    }

    /// The next event. Returns whether there was one.
    fn step(&mut self) -> bool {
        let Some(Reverse(entry)) = self.agenda.pop() else {
            return false;
        };
        self.now = self.now.max(entry.at);
        match entry.event {
            Event::Arrive { to, lrh, mut mad } => {
                self.arrive(to, lrh, &mut mad);
            }
            Event::Deliver { at, lrh, mad } => self.deliver(at, lrh, &mad),
            Event::Trap(node) => {
                self.trap_at.remove(&node);
                self.traps(node);
            }
            Event::Gmp(gmp) => self.gmp_arrives(*gmp),
            // One that was put off, or done before, is none any more.
            Event::Wake(seat) if self.seats[seat].wake.is_some_and(|at| at <= self.now) => {
                self.seats[seat].wake = None;
                self.poll(seat);
            }
            Event::Wake(_) => {}
        }
        true
    }

    /// Does what a subnet manager wants, and subnet administration.
    fn poll(&mut self, seat: usize) {
        while self.seats[seat].alive {
            let mut at_rest = false;
            match self.seats[seat].manager.poll(self.now) {
                Next::Send(transmit) => {
                    self.last_sent = self.now;
                    self.send(self.seats[seat].at, transmit);
                    continue;
                }
                Next::Again => {}
                Next::Wait(at) => {
                    at_rest = true;
                    self.wake(seat, at);
                }
            }
            if self.poll_agent(seat) && at_rest {
                return;
            }
        }
    }

    /// Has a seat polled at a time, if it is not before that.
    fn wake(&mut self, seat: usize, at: Option<Instant>) {
        let known = self.seats[seat].wake;
        if let Some(at) = at.filter(|at| known.is_none_or(|known| *at < known)) {
            self.seats[seat].wake = Some(at);
            self.put(at, Event::Wake(seat));
        }
    }

    /// Does what subnet administration wants. Returns whether that is nothing now.
    fn poll_agent(&mut self, seat: usize) -> bool {
        loop {
            let Seat {
                at, manager, agent, ..
            } = &mut self.seats[seat];
            let (at, Some(agent)) = (*at, agent) else {
                return true;
            };
            match agent.poll(manager, self.now) {
                sa::Next::Send(sa::Transmit { mad, to }) => {
                    self.send_gmp(at, to.lid, Some(to.pkey), &mad)
                }
                sa::Next::Again => {
                    self.rounds += 1;
                    return false;
                }
                sa::Next::Wait(at) => {
                    self.wake(seat, at);
                    return true;
                }
            }
        }
    }

    /// Sends a datagram from QP1 of a port to that of another, by a P_Key, or the first one that the port has.
    pub(crate) fn send_gmp(&mut self, from: Place, dlid: Lid, pkey: Option<PKey>, mad: &Mad) {
        let first = || self.pkeys(from).first().copied().unwrap_or_default();
        let pkey = pkey.unwrap_or_else(|| PKey::new(first()));
        let address = Address {
            lid: self.lid(from),
            qpn: Qpn::GSI,
            sl: Sl::new(0),
            pkey,
            gid: None,
        };
        let packet = Packet {
            dlid,
            pkey: Some(pkey),
            vl15: false,
            hops: 0,
        };
        let (mut at, mut time) = (from, self.now);
        for _ in 0..self.nodes.len() {
            let out = match &self.nodes[at.0] {
                Node::Switch(switch) => match switch.forward(PortNum::new(at.1), &packet) {
                    Forward::To(PortNum::MANAGEMENT) => {
                        at.1 = 0;
                        break;
                    }
                    Forward::To(out) => (at.0, out.get()),
                    _ if self.lid((at.0, 0)) == dlid => break,
                    _ => return,
                },
                Node::Hca(_) if self.lid(at) == dlid => break,
                Node::Hca(_) => at,
            };
            let Some(next) = self.cables.far(out) else {
                return;
            };
            let loss = self.loss.max(self.gmp_loss);
            if loss != 0 && self.random(1000) < loss {
                return;
            }
            at = next;
            time = time.after(LINK);
        }
        let gmp = Gmp {
            at,
            from: address,
            mad: *mad,
        };
        self.put(time, Event::Gmp(Box::new(gmp)));
    }

    /// The LID of a port.
    pub(crate) fn lid(&self, at: Place) -> Lid {
        let port = PortNum::new(at.1);
        match &self.nodes[at.0] {
            Node::Switch(switch) => switch.lid(),
            Node::Hca(hca) => hca.port(port).expect("it is there").attrs().lid(),
        }
    }

    fn gmp_arrives(&mut self, gmp: Gmp) {
        let mut seats = self.seats.iter_mut();
        let seat = seats.position(|seat| seat.alive && seat.at == gmp.at && seat.agent.is_some());
        // Subnet administration does not ask: answers to it are those to its reports.
        let is_request = gmp.mad[3] & 0x80 == 0 || gmp.mad[3] == 0x86;
        match seat {
            Some(seat) if is_request => {
                if let Some(agent) = &mut self.seats[seat].agent {
                    agent.on_gmp(&gmp.mad, gmp.from, self.now);
                }
                self.poll(seat);
            }
            _ => self.gmps.push(gmp),
        }
    }

    /// Lets a datagram come to a subnet manager out of nowhere.
    pub(crate) fn inject(&mut self, seat: usize, mad: &Mad) {
        let lrh = Lrh {
            slid: Lid::new(1 + u16::from(mad[20])),
            dlid: self.seats[seat].manager.lid(),
        };
        self.deliver(self.seats[seat].at, lrh, mad);
    }

    /// A datagram has reached the consumer of QP0 at `at`.
    fn deliver(&mut self, at: Place, lrh: Lrh, mad: &Mad) {
        if self.unseen == Some(subject(mad)) {
            return;
        }
        let now = self.now;
        let here = self
            .seats
            .iter()
            .position(|seat| seat.alive && seat.at == at);
        if let Some(seat) = here {
            let mut mad = *mad;
            if self.noise != 0 && self.random(1000) < self.noise {
                // The data are a good place to do harm; they begin at byte 64.
                let at = 64 + self.random(64) as usize;
                mad[at] = self.random(256) as u8;
            }
            self.seats[seat].manager.on_mad(&mad, lrh, now);
            self.poll(seat);
        }
    }

    /// Sends what a subnet manager at `at` wants to send.
    fn send(&mut self, at: Place, transmit: Transmit) {
        let Transmit { mut mad, lrh } = transmit;
        if self.unheard == Some(subject(&mad)) {
            return;
        }
        let directed = mad[1] == 0x81;
        match &mut self.nodes[at.0] {
            Node::Switch(switch) => {
                if switch.takes_smp(lrh.dlid) {
                    self.arrive((at.0, 0), lrh, &mut mad);
                } else {
                    self.relay((at.0, 0), lrh, Box::new(mad));
                }
            }
            Node::Hca(_) if directed && lrh.dlid == Lid::PERMISSIVE => {
                let returning = mad[4] & 0x80 != 0;
                if mad[7] == 0 {
                    self.adapter(at, lrh, &mut mad);
                } else if returning {
                    mad[6] = mad[7];
                    let from = (at.0, mad[192 + usize::from(mad[7])]);
                    self.transmit(from, self.now, lrh, Box::new(mad));
                } else {
                    mad[6] = 1;
                    self.transmit((at.0, mad[129]), self.now, lrh, Box::new(mad));
                }
            }
            Node::Hca(_) => self.transmit(at, self.now, lrh, Box::new(mad)),
        }
    }

    /// Puts a datagram on the cable of `from`; an adapter's own LID comes back to it.
    fn transmit(&mut self, from: Place, time: Instant, lrh: Lrh, mad: Box<Mad>) {
        let own = match &self.nodes[from.0] {
            Node::Hca(hca) => hca
                .port(PortNum::new(from.1))
                .is_some_and(|port| port.attrs().owns_lid(lrh.dlid)),
            Node::Switch(_) => false,
        };
        if own {
            return self.put(time.after(LINK), Event::Arrive { to: from, lrh, mad });
        }
        let Some(to) = self.cables.far(from) else {
            return;
        };
        self.hops += 1;
        if self.loss == 0 || self.random(1000) >= self.loss {
            self.put(time.after(LINK), Event::Arrive { to, lrh, mad });
        }
    }

    fn arrive(&mut self, mut to: Place, mut lrh: Lrh, mad: &mut Mad) {
        let mut time = self.now;
        loop {
            let (node, port) = to;
            let Node::Switch(switch) = &mut self.nodes[node] else {
                break;
            };
            if !switch.takes_smp(lrh.dlid) {
                return self.relay(to, lrh, Box::new(*mad));
            }
            let outcome = switch.on_smp(PortNum::new(port), mad, lrh, self.now);
            match outcome.verdict {
                // What only passes through goes on at once; no event is needed for each hop.
                SmpVerdict::Forward { port, lrh: next } => {
                    let Some(far) = self.cables.far((node, port.get())) else {
                        return;
                    };
                    (to, lrh) = (far, next);
                    time = time.after(LINK);
                    self.hops += 1;
                    if self.loss != 0 && self.random(1000) < self.loss {
                        return;
                    }
                    continue;
                }
                SmpVerdict::Reply { port, lrh } => {
                    self.transmit((node, port.get()), time.after(AGENT), lrh, Box::new(*mad));
                }
                SmpVerdict::Deliver => {
                    let (at, mad) = ((node, 0), Box::new(*mad));
                    self.put(time, Event::Deliver { at, lrh, mad });
                }
                SmpVerdict::Drop => {}
            }
            if let Some(port) = outcome.settle {
                self.settle_link((node, port.get()));
            }
            return self.traps(node);
        }
        if time > self.now {
            let mad = Box::new(*mad);
            return self.put(time, Event::Arrive { to, lrh, mad });
        }
        self.adapter(to, lrh, mad);
        self.traps(to.0);
    }

    /// Forwards a datagram by its LID, over as many switches as it takes.
    fn relay(&mut self, mut at: Place, lrh: Lrh, mad: Box<Mad>) {
        let packet = Packet {
            dlid: lrh.dlid,
            pkey: None,
            vl15: true,
            hops: 0,
        };
        let mut time = self.now;
        for _ in 0..self.nodes.len() {
            let Node::Switch(switch) = &self.nodes[at.0] else {
                break;
            };
            if switch.takes_smp(lrh.dlid) {
                break;
            }
            let Forward::To(out) = switch.forward(PortNum::new(at.1), &packet) else {
                return;
            };
            let Some(next) = self.cables.far((at.0, out.get())) else {
                return;
            };
            at = next;
            time = time.after(LINK);
            self.hops += 1;
            if self.loss != 0 && self.random(1000) < self.loss {
                return;
            }
        }
        self.put(time, Event::Arrive { to: at, lrh, mad });
    }

    /// What `ib_core` and the driver do with a datagram at an adapter.
    fn adapter(&mut self, at: Place, lrh: Lrh, mad: &mut Mad) {
        let directed = mad[1] == 0x81;
        if directed && mad[7] != 0 && !endpoint_takes(mad, at.1) {
            return;
        }
        let Node::Hca(hca) = &mut self.nodes[at.0] else {
            return;
        };
        let mut out = [0; 256];
        let port = PortNum::new(at.1);
        let outcome = hca.process(port, mad, &mut out, Some(lrh.slid), self.now);
        if outcome.events.contains(PortEvent::ClientReregister) {
            *self.registrations.entry(at).or_default() += 1;
        }
        if outcome.events.contains(PortEvent::PkeyChange) {
            *self.key_changes.entry(at).or_default() += 1;
        }
        match outcome.verdict {
            MadVerdict::Pass => self.deliver(at, lrh, mad),
            MadVerdict::Consumed => {}
            MadVerdict::Reply if directed && out[7] == 0 => self.deliver(at, lrh, &out),
            MadVerdict::Reply => self.reply(at, lrh, out),
        }
        if outcome.settle {
            self.settle_link((at.0, outcome.port.get()));
        }
    }

    /// The answer of an adapter's agent leaves.
    fn reply(&mut self, at: Place, lrh: Lrh, mut out: Mad) {
        let later = self.now.after(AGENT);
        let back = Lrh {
            slid: lrh.dlid,
            dlid: lrh.slid,
        };
        let from = if out[1] == 0x81 {
            out[6] = out[7];
            (at.0, out[192 + usize::from(out[7])])
        } else {
            at
        };
        self.transmit(from, later, back, Box::new(out));
    }

    /// Sends what traps of a node are due.
    fn traps(&mut self, node: usize) {
        let (mut out, mut next) = (Vec::new(), None);
        match &mut self.nodes[node] {
            Node::Switch(switch) => {
                while let Some(trap) = switch.poll_trap(self.now) {
                    out.push((0, trap));
                }
                next = switch.next_trap();
            }
            Node::Hca(hca) => {
                for port in 1..=hca.port_count() {
                    while let Some(trap) = hca.poll_trap(PortNum::new(port), self.now) {
                        out.push((port, trap));
                    }
                    next = next
                        .into_iter()
                        .chain(hca.next_trap(PortNum::new(port)))
                        .min();
                }
            }
        }
        if self.traps_lost {
            out.clear();
        }
        for (port, trap) in out {
            let transmit = Transmit {
                mad: trap.mad,
                lrh: Lrh {
                    slid: trap.slid,
                    dlid: trap.dlid,
                },
            };
            if trap.slid == trap.dlid {
                self.deliver((node, port), transmit.lrh, &transmit.mad);
            } else {
                self.send((node, port), transmit);
            }
        }
        if let Some(next) = next {
            if self.trap_at.get(&node).is_none_or(|known| next < *known) {
                self.trap_at.insert(node, next);
                self.put(next, Event::Trap(node));
            }
        }
    }

    fn settle_link(&mut self, at: Place) {
        let port = PortNum::new(at.1);
        let action = match &mut self.nodes[at.0] {
            Node::Switch(switch) => switch.link_settle(port),
            Node::Hca(hca) => hca.link_settle(port).0,
        };
        let peer = self.cables.far(at);
        if let (LinkAction::Drop | LinkAction::Retrain, Some(peer)) = (action, peer) {
            self.down(peer);
        }
        if action == LinkAction::Retrain {
            self.train(at);
        }
    }

    fn train(&mut self, a: Place) {
        let Some(b) = self.cables.far(a) else {
            return;
        };
        let offer = |world: &Self, at: Place| match &world.nodes[at.0] {
            Node::Switch(switch) => switch.offer(PortNum::new(at.1)),
            Node::Hca(hca) => hca.offer(PortNum::new(at.1)),
        };
        let (Some(of_a), Some(of_b)) = (offer(self, a), offer(self, b)) else {
            return;
        };
        for (at, peer) in [(a, of_b), (b, of_a)] {
            let port = PortNum::new(at.1);
            let up = match &mut self.nodes[at.0] {
                Node::Switch(switch) => switch.link_up(port, peer, self.now),
                Node::Hca(hca) => hca.link_up(port, peer),
            };
            assert!(up, "the link of {at:?} does not train");
        }
    }

    fn down(&mut self, at: Place) {
        let port = PortNum::new(at.1);
        match &mut self.nodes[at.0] {
            Node::Switch(switch) => {
                switch.link_down(port, self.now);
            }
            Node::Hca(hca) => {
                hca.link_down(port);
            }
        }
    }
}

/// Method and attribute of a datagram.
fn subject(mad: &Mad) -> (u8, u16) {
    (mad[3], u16::from_be_bytes([mad[16], mad[17]]))
}

/// Directed-route handling at the end of a route; returns whether the datagram has arrived.
fn endpoint_takes(mad: &mut Mad, port: u8) -> bool {
    let returning = mad[4] & 0x80 != 0;
    let (pointer, count) = (mad[6], mad[7]);
    if count > 63 {
        return false;
    }
    if returning {
        if pointer == 1 {
            mad[6] = 0;
        }
        return pointer <= 1;
    }
    if pointer == count {
        mad[192 + usize::from(pointer)] = port;
        mad[6] = count + 1;
        return true;
    }
    pointer == count + 1
}
