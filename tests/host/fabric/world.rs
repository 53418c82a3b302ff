// SPDX-License-Identifier: GPL-2.0

//! Switches and channel adapters joined by cables: what a driver does with the machines, without a kernel.

use proto::fabric::counters::PortFault;
use proto::fabric::link::LinkAction;
use proto::fabric::port::PortEvents;
use proto::fabric::sma::{
    Hca,
    HcaPort,
    MadVerdict, //
};
use proto::fabric::switch::{
    Forward,
    Identity,
    Lrh,
    Packet,
    PortMask,
    SmpVerdict,
    Storage,
    Switch,
    SwitchPort,
    Tables,
    NO_PORT, //
};
use proto::fabric::tables::SlToVl;
use proto::fabric::Mad;
use proto::time::{
    Duration,
    Instant, //
};
use std::collections::{
    BTreeMap,
    VecDeque, //
};
use wire::mad::perf::{
    self,
    PerfMad,
    PortCounters, //
};
use wire::mad::{
    class,
    method,
    status,
    MadHeader, //
};
use wire::{
    Guid,
    Lid,
    Mtu,
    PKey,
    PortNum, //
};

/// Switch tables in vectors.
pub(crate) struct Vectors;

impl Storage for Vectors {
    type Ports = Vec<SwitchPort>;
    type Lft = Vec<u8>;
    type Mft = Vec<PortMask>;
    type SlToVl = Vec<SlToVl>;
}

pub(crate) type TestSwitch = Switch<Vectors>;
pub(crate) type TestHca = Hca<Vec<HcaPort>>;

/// A node of the fabric.
pub(crate) enum Node {
    Switch(Box<TestSwitch>),
    Hca(Box<TestHca>),
}

/// A port of a node: index of the node, number of the port.
pub(crate) type Place = (usize, u8);

/// A management datagram on its way.
struct Flight {
    to: Place,
    lrh: Lrh,
    mad: Mad,
}

/// The fabric.
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) cables: BTreeMap<Place, Place>,
    pub(crate) now: Instant,
    /// What arrived at a consumer of QP0: where, with which addresses, what.
    pub(crate) inbox: Vec<(Place, Lrh, Mad)>,
    /// What the consumers of ports were told.
    pub(crate) events: Vec<(Place, PortEvents)>,
    queue: VecDeque<Flight>,
}

/// The description of a node named `name`.
pub(crate) fn identity(guid: u64, name: &str) -> Identity {
    let mut description = [0; 64];
    description[..name.len()].copy_from_slice(name.as_bytes());
    Identity {
        node: Guid::new(guid),
        system: Guid::new(guid | 0xff),
        vendor: 0x00_1405,
        device: 1,
        revision: 1,
        description,
    }
}

/// A switch of `ports` external ports.
pub(crate) fn switch(guid: u64, ports: usize) -> TestSwitch {
    let all = ports + 1;
    let tables = Tables {
        ports: vec![SwitchPort::new(Mtu::B4096); all],
        lft: vec![NO_PORT; 1024],
        mft: vec![PortMask::EMPTY; 256],
        sl_to_vl: vec![SlToVl::new(); all * all],
    };
    Switch::new(identity(guid, "a switch"), tables).expect("the sizes are right")
}

/// An adapter of `ports` ports.
pub(crate) fn hca(guid: u64, ports: usize) -> TestHca {
    let ports = (1..=ports as u64)
        .map(|port| HcaPort::new(Guid::new(guid + port), Mtu::B4096))
        .collect();
    Hca::new(identity(guid, "a channel adapter"), ports)
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            cables: BTreeMap::new(),
            now: Instant::from_nanos(1),
            inbox: Vec::new(),
            events: Vec::new(),
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Plugs a cable in.
    pub(crate) fn plug(&mut self, a: Place, b: Place) {
        self.cables.insert(a, b);
        self.cables.insert(b, a);
        self.train(a);
    }

    /// Pulls the cable of `a`.
    pub(crate) fn unplug(&mut self, a: Place) {
        if let Some(b) = self.cables.remove(&a) {
            self.cables.remove(&b);
            self.down(a);
            self.down(b);
        }
    }

    /// LinkDownedCounter of a port, as its node tells.
    pub(crate) fn link_downed(&mut self, at: Place) -> u8 {
        self.counters(at).link_downed
    }

    /// PortCounters of a port, as its node tells.
    pub(crate) fn counters(&mut self, at: Place) -> PortCounters {
        let port = PortNum::new(at.1);
        let mut asked = PerfMad::new(&MadHeader {
            mgmt_class: class::PERF,
            method: method::GET,
            attr_id: perf::attr::PORT_COUNTERS,
            ..MadHeader::default()
        });
        asked.set_attribute(&PortCounters {
            port,
            ..PortCounters::default()
        });
        let mut mad = *asked.as_bytes();
        match &mut self.nodes[at.0] {
            Node::Switch(switch) => assert!(switch.on_gmp(&mut mad)),
            Node::Hca(hca) => {
                let asked = mad;
                let outcome = hca.process(port, &asked, &mut mad, None, self.now);
                assert_eq!(outcome.verdict, MadVerdict::Reply);
            }
        }
        let told = PerfMad::from_bytes(&mad);
        assert_eq!(told.header().status, status::OK);
        told.attribute()
    }

    /// Lets time pass, and the traps that fall due be sent.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.run();
    }

    /// Sends a datagram from an adapter's QP0.
    pub(crate) fn send(&mut self, from: Place, lrh: Lrh, mad: Mad) {
        self.transmit(from, lrh, mad);
        self.run();
    }

    /// Lets a datagram arrive at a port without a cable: what an adapter sends to itself.
    pub(crate) fn arrive_here(&mut self, at: Place, lrh: Lrh, mad: Mad) {
        self.queue.push_back(Flight { to: at, lrh, mad });
        self.run();
    }

    /// Follows a data packet from an adapter's port to all places where it arrives.
    pub(crate) fn trace(&mut self, from: Place, dlid: u16, pkey: u16) -> Vec<Place> {
        let mut arrived = Vec::new();
        let mut queue = VecDeque::from_iter(self.cables.get(&from).map(|&at| (at, 0)));
        let mut steps = 0;
        while let Some(((node, port), hops)) = queue.pop_front() {
            steps += 1;
            assert!(steps < 1000, "a packet goes round in circles");
            let packet = Packet {
                dlid: Lid::new(dlid),
                pkey: Some(PKey::new(pkey)),
                vl15: false,
                hops,
            };
            match &mut self.nodes[node] {
                Node::Hca(_) => arrived.push((node, port)),
                Node::Switch(switch) => {
                    let outs: Vec<_> = match switch.forward(PortNum::new(port), &packet) {
                        Forward::To(out) => vec![out],
                        Forward::Multicast(spread) => {
                            for drop in spread.drops() {
                                let (port, fault) = drop.fault(PortNum::new(port));
                                count(switch, port, fault);
                            }
                            spread.to.iter().collect()
                        }
                        Forward::Drop(drop) => {
                            let (port, fault) = drop.fault(PortNum::new(port));
                            count(switch, port, fault);
                            vec![]
                        }
                    };
                    for out in outs {
                        if out == PortNum::MANAGEMENT {
                            arrived.push((node, 0));
                        } else {
                            let next = self.cables.get(&(node, out.get()));
                            queue.extend(next.map(|&at| (at, hops + 1)));
                        }
                    }
                }
            }
        }
        arrived
    }

    fn run(&mut self) {
        loop {
            while let Some(flight) = self.queue.pop_front() {
                self.arrive(flight);
            }
            if !self.traps() {
                return;
            }
        }
    }

    /// Sends what traps are due. Returns whether there were any.
    fn traps(&mut self) -> bool {
        let mut any = false;
        for node in 0..self.nodes.len() {
            let mut out = Vec::new();
            match &mut self.nodes[node] {
                Node::Switch(switch) => {
                    while let Some(trap) = switch.poll_trap(self.now) {
                        let packet = Packet {
                            dlid: trap.dlid,
                            pkey: None,
                            vl15: true,
                            hops: 0,
                        };
                        if let Forward::To(port) = switch.forward(PortNum::MANAGEMENT, &packet) {
                            out.push((port.get(), trap));
                        }
                        any = true;
                    }
                }
                Node::Hca(hca) => {
                    for port in 1..=hca.port_count() {
                        while let Some(trap) = hca.poll_trap(PortNum::new(port), self.now) {
                            out.push((port, trap));
                            any = true;
                        }
                    }
                }
            }
            for (port, trap) in out {
                let lrh = Lrh {
                    slid: trap.slid,
                    dlid: trap.dlid,
                };
                self.transmit((node, port), lrh, trap.mad);
            }
        }
        any
    }

    /// Puts a datagram on the cable of `from`; an adapter's own LID comes back to it.
    fn transmit(&mut self, from: Place, lrh: Lrh, mad: Mad) {
        let own = match &self.nodes[from.0] {
            Node::Hca(hca) => hca
                .port(PortNum::new(from.1))
                .is_some_and(|port| port.attrs().owns_lid(lrh.dlid)),
            Node::Switch(_) => false,
        };
        let to = if own {
            Some(from)
        } else {
            self.cables.get(&from).copied()
        };
        if let Some(to) = to {
            self.queue.push_back(Flight { to, lrh, mad });
        }
    }

    fn arrive(&mut self, flight: Flight) {
        let Flight {
            to: (node, port),
            lrh,
            mut mad,
        } = flight;
        let in_port = PortNum::new(port);
        match &mut self.nodes[node] {
            Node::Switch(switch) if switch.takes_smp(lrh.dlid) => {
                let outcome = switch.on_smp(in_port, &mut mad, lrh, self.now);
                match outcome.verdict {
                    SmpVerdict::Forward { port, lrh } | SmpVerdict::Reply { port, lrh } => {
                        self.transmit((node, port.get()), lrh, mad);
                    }
                    SmpVerdict::Deliver => self.inbox.push(((node, 0), lrh, mad)),
                    SmpVerdict::Drop => {}
                }
                if let Some(port) = outcome.settle {
                    self.settle((node, port.get()));
                }
            }
            Node::Switch(switch) => {
                let packet = Packet {
                    dlid: lrh.dlid,
                    pkey: None,
                    vl15: true,
                    hops: 0,
                };
                match switch.forward(in_port, &packet) {
                    Forward::To(port) => self.transmit((node, port.get()), lrh, mad),
                    Forward::Multicast(_) => panic!("a multicast subnet management packet"),
                    Forward::Drop(drop) => {
                        let (port, fault) = drop.fault(in_port);
                        count(switch, port, fault);
                    }
                }
            }
            Node::Hca(_) => self.adapter((node, port), lrh, mad),
        }
    }

    /// What `ib_core` and the driver do with a datagram at an adapter.
    fn adapter(&mut self, at: Place, lrh: Lrh, mut mad: Mad) {
        let directed = mad[1] == 0x81;
        if directed && !endpoint_takes(&mut mad, at.1) {
            return;
        }
        let Node::Hca(hca) = &mut self.nodes[at.0] else {
            return;
        };
        let mut out = [0; 256];
        let port = PortNum::new(at.1);
        let outcome = hca.process(port, &mad, &mut out, Some(lrh.slid), self.now);
        if !outcome.events.is_empty() {
            self.events
                .push(((at.0, outcome.port.get()), outcome.events));
        }
        match outcome.verdict {
            MadVerdict::Pass => self.inbox.push((at, lrh, mad)),
            MadVerdict::Consumed => {}
            MadVerdict::Reply if directed && out[7] == 0 => {
                out[6] = 0;
                self.inbox.push((at, lrh, out));
            }
            MadVerdict::Reply if directed => {
                // The answer begins its way back: from hop count + 1 to hop count.
                out[6] = out[7];
                let from = (at.0, out[192 + usize::from(out[7])]);
                let permissive = Lrh {
                    slid: Lid::PERMISSIVE,
                    dlid: Lid::PERMISSIVE,
                };
                let late = u16::from_be_bytes([out[34], out[35]]) != 0xffff;
                if late {
                    out[6] = out[7] + 1;
                    let back = Lrh {
                        slid: lrh.dlid,
                        dlid: lrh.slid,
                    };
                    self.transmit(at, back, out);
                } else {
                    self.transmit(from, permissive, out);
                }
            }
            MadVerdict::Reply => {
                let back = Lrh {
                    slid: lrh.dlid,
                    dlid: lrh.slid,
                };
                self.transmit(at, back, out);
            }
        }
        if outcome.settle {
            self.settle((at.0, outcome.port.get()));
        }
    }

    fn settle(&mut self, at: Place) {
        let port = PortNum::new(at.1);
        let (action, events) = match &mut self.nodes[at.0] {
            Node::Switch(switch) => (switch.link_settle(port), PortEvents::NONE),
            Node::Hca(hca) => hca.link_settle(port),
        };
        if !events.is_empty() {
            self.events.push((at, events));
        }
        let peer = self.cables.get(&at).copied();
        match action {
            LinkAction::None => {}
            LinkAction::Drop => {
                if let Some(peer) = peer {
                    self.down(peer);
                }
            }
            LinkAction::Retrain => {
                if let Some(peer) = peer {
                    self.down(peer);
                }
                self.train(at);
            }
        }
    }

    fn train(&mut self, a: Place) {
        let Some(&b) = self.cables.get(&a) else {
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
                let events = hca.link_down(port);
                if !events.is_empty() {
                    self.events.push((at, events));
                }
            }
        }
    }
}

fn count(switch: &mut TestSwitch, port: PortNum, fault: PortFault) {
    if let Some(counters) = switch.counters_mut(port) {
        counters.count_fault(fault);
    }
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
