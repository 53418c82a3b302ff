// SPDX-License-Identifier: GPL-2.0

//! The way of a packet: out of a port of an HCA, through the switch, to the next.

use super::account::Dropped;
use super::udp::{
    Reader,
    Way, //
};
use super::{
    now,
    End,
    Fabric,
    State, //
};
use crate::counters::Counter;
use crate::events;
use crate::hca::{
    Hca,
    Tap, //
};
use crate::partition;
use crate::payload::Source;
use crate::rail::Place;
use crate::run::RunQueue;
use crate::rx;
use proto::fabric::counters::PortFault;
use proto::fabric::link::LinkState;
use proto::fabric::switch::{
    Drop,
    Forward,
    Packet,
    PortMask,
    SmpVerdict, //
};
use proto::fault::Direction;
use proto::transport::TxSegment;
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Unlocked, //
};
use wire::header::Header;
use wire::{
    Lid,
    PortNum,
    Vl, //
};

/// A segment on its way: the headers, the number of packets that it stands for, and where the payload is.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    /// The headers; sealed if `span` is 1.
    pub(crate) header: &'a Header,
    /// The number of packets.
    pub(crate) span: u32,
    /// The payload.
    pub(crate) source: &'a Source<'a>,
    /// Which of its bits is wrong, if one is: `super::fault::damage` knows which.
    pub(crate) damage: Option<u32>,
    /// How many cables it has passed.
    pub(crate) hops: u8,
}

impl Segment<'_> {
    /// The state that a port must have to send this.
    fn needs(&self) -> LinkState {
        if self.is_vl15() {
            LinkState::Init
        } else {
            LinkState::Active
        }
    }

    /// Whether this is a subnet management packet.
    pub(super) fn is_vl15(&self) -> bool {
        self.header.lrh.vl == Vl::MANAGEMENT
    }

    /// Whether this names a partition, or needs none.
    fn has_partition(&self) -> bool {
        self.is_vl15() || self.header.bth.pkey.is_valid()
    }

    /// Whether this is for a group.
    pub(super) fn is_multicast(&self) -> bool {
        self.header.lrh.dlid.is_multicast()
    }

    /// What the counters of a port call octets: the packets without link-level framing. The last one is padded.
    pub(super) fn octets(&self) -> u64 {
        let headers = TxSegment::headers_len(self.header, self.span);
        let codes = u64::from(self.span).saturating_mul(wire::icrc::LEN as u64);
        let payload = (self.source.len() as u64).saturating_add(3) & !3;
        headers.saturating_add(codes).saturating_add(payload)
    }
}

/// How segments get from a port of an HCA to a unicast LID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Whole, by calls: none is lost.
    Whole,
    /// Whole at first. On their way they become packets, any of which may get lost.
    Cut,
    /// As packets from the start: someone looks at them one by one, and some may get lost.
    Single,
}

/// What is at the other end of a cable.
pub(super) enum Hop {
    /// Nothing that takes packets.
    Nowhere,
    /// A port of an HCA.
    Hca(Held<Hca>, PortNum),
    /// A UDP endpoint, and who reads there.
    Udp(Way, Reader),
}

/// What the switch makes of a packet.
enum Verdict {
    /// It goes to one port.
    Out(Hop),
    /// It goes to several.
    Each {
        /// To these.
        ports: PortMask,
        /// It is in no partition of others, of which the subnet manager is to be told.
        refused: bool,
    },
    /// It is a subnet management packet for the switch to look at.
    Smp,
    /// It is for QP1 of the switch.
    Gmp,
    /// It is in no partition of a port on its way, of which the subnet manager is to be told.
    Refused,
}

impl Hca {
    /// Sends a segment out of `port`. It may arrive before the return.
    ///
    /// What cannot leave is dropped: the transport, or the consumer of a datagram, knows what to do.
    pub(crate) fn transmit(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        segment: Segment<'_>,
    ) {
        if self.view(port).state < segment.needs() || !segment.has_partition() {
            return;
        }
        if let Some(traffic) = self.traffic(port) {
            traffic.count_sent(&segment, segment.octets());
        }
        if self.is_tapped(port, Tap::FaultsOut) {
            return self.suffer(cx, irqs, run, port, Direction::Out, segment);
        }
        self.launch(cx, irqs, run, port, segment);
    }

    /// Puts a segment on the cable of `port`.
    pub(super) fn launch(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        segment: Segment<'_>,
    ) {
        let dlid = segment.header.lrh.dlid;
        let Some(place) = self.place(cx, port) else {
            return;
        };
        let (fabric, cable) = (place.fabric(), place.cable());
        if self.is_tapped(port, Tap::Capture) {
            self.capture(cx, port, Direction::Out, &segment);
        }
        let own = self.view(port).owns(dlid);
        if own || segment.is_multicast() {
            fabric.turn_back(cx, irqs, run, cable, segment);
        }
        if !own {
            fabric.carry(cx, irqs, run, cable, segment);
        }
    }

    /// How segments get from `port` to `dlid`.
    pub(crate) fn passage(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum, dlid: Lid) -> Passage {
        match self.place(cx, port) {
            Some(place) => self.passage_from(cx, &place, port, dlid),
            None => Passage::Single,
        }
    }

    /// The same from `place`, where `port` hangs.
    pub(super) fn passage_from(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        place: &Place<'_>,
        port: PortNum,
        dlid: Lid,
    ) -> Passage {
        if self.is_watched(port) {
            return Passage::Single;
        }
        place.fabric().passage(cx, place.cable(), dlid)
    }

    /// Takes a segment that came over the cable of `port`.
    pub(super) fn receive(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        segment: Segment<'_>,
    ) {
        let view = self.view(port);
        let vl15 = segment.is_vl15();
        if !vl15 && !matches!(view.state, LinkState::Active | LinkState::Armed) {
            return;
        }
        if !view.takes(segment.header.lrh.dlid, vl15) {
            // The forwarding tables lead astray.
            if let Some(counters) = self.counters(port) {
                counters.count(Counter::Discarded);
            }
            return;
        }
        if !vl15 && view.state == LinkState::Armed {
            let events = {
                let mut guard = cx.lock(&self.state);
                let events = guard.sma.active_trigger(port);
                self.publish(&guard, port);
                events
            };
            events::dispatch(cx, self, port, events);
        }
        if self.is_tapped(port, Tap::FaultsIn) {
            return self.suffer(cx, irqs, run, port, Direction::In, segment);
        }
        self.accept(cx, irqs, run, port, segment);
    }

    /// Takes a segment that has passed `port`.
    pub(super) fn accept(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        segment: Segment<'_>,
    ) {
        if self.is_tapped(port, Tap::Capture) {
            self.capture(cx, port, Direction::In, &segment);
        }
        if let Some(traffic) = self.traffic(port) {
            traffic.count_received(&segment, segment.octets());
        }
        rx::deliver(cx, irqs, run, self, port, segment);
    }
}

impl Fabric {
    /// Takes a segment that came in on `in_port` of the switch, or that the switch itself sends (port 0).
    pub(super) fn carry(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        in_port: PortNum,
        segment: Segment<'_>,
    ) {
        let verdict = cx.lock(&self.state).relay(in_port, &segment);
        let stays = matches!(verdict, Verdict::Smp | Verdict::Gmp);
        if stays && segment.damage.is_some() {
            return self.account.dropped(Dropped::Icrc);
        }
        match verdict {
            Verdict::Out(hop) => self.hand_on(cx, irqs, run, hop, segment),
            Verdict::Each { ports, refused } => {
                if refused {
                    self.rearm(cx);
                }
                for port in ports.iter() {
                    let hop = cx.lock(&self.state).leave_by(port, &segment);
                    self.hand_on(cx, irqs, run, hop, segment);
                }
            }
            Verdict::Smp => self.manage(cx, irqs, run, in_port, segment),
            Verdict::Gmp => self.answer(cx, irqs, run, segment),
            Verdict::Refused => self.rearm(cx),
        }
    }

    /// Sends a segment out of `port` of the switch, whatever the forwarding tables say.
    pub(super) fn send_out(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        segment: Segment<'_>,
    ) {
        let hop = cx.lock(&self.state).leave_by(port, &segment);
        self.hand_on(cx, irqs, run, hop, segment);
    }

    /// Returns a segment to the port of an HCA that it came from, whose cable is in `port`.
    fn turn_back(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        segment: Segment<'_>,
    ) {
        let hop = cx.lock(&self.state).hop(port);
        self.hand_on(cx, irqs, run, hop, segment);
    }

    /// Lets a segment arrive.
    fn hand_on(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        hop: Hop,
        segment: Segment<'_>,
    ) {
        match hop {
            Hop::Nowhere => {}
            Hop::Hca(..) if segment.damage.is_some() => self.account.dropped(Dropped::Icrc),
            Hop::Hca(hca, port) => hca.receive(cx, irqs, run, port, segment),
            Hop::Udp(way, reader) => self.send_packets(cx, irqs, run, (&way, reader), segment),
        }
    }

    /// How segments get to `dlid` from a port of an HCA that nobody watches and whose cable is in `port`.
    fn passage(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum, dlid: Lid) -> Passage {
        let guard = cx.lock(&self.state);
        if guard.own.is_some() {
            return Passage::Cut;
        }
        match guard.way_out(port, dlid) {
            Some(End::Cable(_)) => Passage::Cut,
            Some(End::Hca(hca, port)) if hca.is_watched(*port) => Passage::Single,
            _ => Passage::Whole,
        }
    }
}

impl State {
    /// Who gets what comes in on `port` for `dlid`.
    fn way_out(&self, port: PortNum, dlid: Lid) -> Option<&End> {
        let out = self.switch.route(dlid).unwrap_or(port);
        self.ends.get(usize::from(out.get()))
    }

    /// The way of datagrams from `port` to `dlid`, if there is one.
    pub(super) fn way_to(&self, port: PortNum, dlid: Lid) -> Option<&Way> {
        match (self.way_out(port, dlid)?, &self.own) {
            (End::Cable(cable), _) => Some(&cable.way),
            (End::Hca(..), Some(own)) => Some(&own.way),
            _ => None,
        }
    }

    /// Where the switch sends a segment that came in on `in_port`. Counts it.
    fn relay(&mut self, in_port: PortNum, segment: &Segment<'_>) -> Verdict {
        let vl15 = segment.is_vl15();
        let lrh = &segment.header.lrh;
        if !vl15 && in_port != PortNum::MANAGEMENT {
            self.trigger(in_port);
        }
        self.count_in(in_port, segment);
        if vl15 && self.switch.takes_smp(lrh.dlid) {
            return Verdict::Smp;
        }
        let packet = Packet {
            dlid: lrh.dlid,
            pkey: (!vl15).then_some(segment.header.bth.pkey),
            vl15,
            hops: segment.hops,
        };
        match self.switch.forward(in_port, &packet) {
            Forward::To(PortNum::MANAGEMENT) => {
                self.count_out(PortNum::MANAGEMENT, segment);
                Verdict::Gmp
            }
            Forward::To(port) => Verdict::Out(self.leave_by(port, segment)),
            Forward::Multicast(spread) => {
                for drop in spread.drops() {
                    self.count_drop(in_port, drop, segment);
                }
                Verdict::Each {
                    ports: spread.to,
                    refused: !spread.refused.is_empty(),
                }
            }
            Forward::Drop(drop) if self.count_drop(in_port, drop, segment) => Verdict::Refused,
            Forward::Drop(_) => Verdict::Out(Hop::Nowhere),
        }
    }

    /// Counts a segment that came in on `in_port` and is dropped. Returns whether the subnet manager is to be told.
    fn count_drop(&mut self, in_port: PortNum, drop: Drop, segment: &Segment<'_>) -> bool {
        let (port, fault) = drop.fault(in_port);
        if let Some(counters) = self.switch.counters_mut(port) {
            counters.count_fault(fault);
        }
        let refused = matches!(fault, PortFault::RcvConstraint | PortFault::XmitConstraint);
        if refused {
            let bad = partition::bad_pkey(segment.header);
            self.switch.refuse_pkey(port, &bad, now());
        }
        refused
    }

    /// Counts a segment that leaves by `port`. Returns where it arrives.
    fn leave_by(&mut self, port: PortNum, segment: &Segment<'_>) -> Hop {
        self.count_out(port, segment);
        self.hop(port)
    }

    /// Counts a segment that the switch takes in by `port`: what it takes from itself has left its port 0.
    fn count_in(&mut self, port: PortNum, segment: &Segment<'_>) {
        self.count(port, segment, port != PortNum::MANAGEMENT);
    }

    /// Counts a segment that the switch gives to `port`: what it gives to itself has come to its port 0.
    fn count_out(&mut self, port: PortNum, segment: &Segment<'_>) {
        self.count(port, segment, port == PortNum::MANAGEMENT);
    }

    fn count(&mut self, port: PortNum, segment: &Segment<'_>, received: bool) {
        let Some(counters) = self.switch.counters_mut(port) else {
            return;
        };
        let (octets, multicast) = (segment.octets(), segment.is_multicast());
        let packets = u64::from(segment.span);
        if received {
            counters.count_recv(packets, octets, multicast);
        } else {
            counters.count_xmit(packets, octets, multicast);
        }
    }

    /// Counts a subnet management packet that the switch has looked at.
    pub(super) fn count_smp(&mut self, segment: &Segment<'_>, verdict: SmpVerdict) {
        if matches!(verdict, SmpVerdict::Deliver | SmpVerdict::Reply { .. }) {
            self.count_out(PortNum::MANAGEMENT, segment);
        }
        if matches!(verdict, SmpVerdict::Reply { .. }) {
            self.count_in(PortNum::MANAGEMENT, segment);
        }
    }

    /// What is at the other end of the cable of `port`.
    pub(super) fn hop(&self, port: PortNum) -> Hop {
        let hop = match (self.ends.get(usize::from(port.get())), &self.own) {
            (Some(End::Hca(..)), Some(own)) => own
                .way
                .try_clone()
                .map(|way| Hop::Udp(way, own.reader(port))),
            (Some(End::Hca(hca, port)), None) => hca.try_clone().map(|hca| Hop::Hca(hca, *port)),
            (Some(End::Cable(cable)), _) if cable.line.is_up() => cable
                .way
                .try_clone()
                .map(|way| Hop::Udp(way, cable.reader())),
            _ => None,
        };
        hop.unwrap_or(Hop::Nowhere)
    }
}
