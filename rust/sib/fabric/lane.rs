// SPDX-License-Identifier: GPL-2.0

//! The way of a connection's segments, found once and then remembered.
//!
//! Between two ports of HCAs of one fabric the switch takes the same decision for each segment, until something
//! changes: a forwarding table, the state of a link, a LID, a tap. All such changes give the fabric a new *generation*,
//! and a lane that was found in an older one does not count any more. While it counts, a segment goes straight
//! to the queue pair at its end, without the locks of the fabric and of the far HCA; the ports on its way count
//! it all the same. Where the switch sends it out by a cable, it goes straight to the [`Way`] of that.

use super::account::Dropped;
use super::route::{
    Hop,
    Passage,
    Segment, //
};
use super::udp::{
    Reader,
    Way, //
};
use super::{
    Fabric,
    State,
    Traffic, //
};
use crate::counters::Counter;
use crate::hca::Hca;
use crate::qp::Qp;
use crate::rail::Place;
use crate::run::RunQueue;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Release, //
};
use kernel::sync::Arc;
use proto::fabric::link::LinkState;
use proto::fabric::switch::{
    Forward,
    Packet, //
};
use proto::transport::TxLimits;
use rdma::sync::{
    Atomic,
    Cx,
    FabricLock,
    Held,
    IrqsOn,
    Off,
    Unlocked,
    Watch, //
};
use wire::{
    Lid,
    Mtu,
    PKey,
    PortNum,
    Qpn, //
};

/// Bytes of one segment. What has to become packets does so on its way.
const MAX_SEGMENT: u32 = 64 * 1024;

/// What decides on the way of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    /// The port that it leaves by.
    pub(crate) port: PortNum,
    /// Where to.
    pub(crate) dlid: Lid,
    /// The partition.
    pub(crate) pkey: PKey,
    /// The queue pair there.
    pub(crate) qpn: Qpn,
}

/// What lanes have to know of their fabric, which they may outlive.
pub(super) struct Ways {
    /// Rises with every change of a way through the fabric.
    generation: Atomic<u64>,
    /// What has passed each port of the switch without the lock.
    pub(super) traffic: KVec<Traffic>,
}

impl Ways {
    /// Of a switch with `ports` ports.
    pub(super) fn new(ports: u8) -> Result<Arc<Self>> {
        let mut traffic = KVec::with_capacity(usize::from(ports).saturating_add(1), GFP_KERNEL)?;
        for _ in 0..=ports {
            traffic.push(Traffic::new(), GFP_KERNEL)?;
        }
        let ways = Self {
            generation: Atomic::new(0),
            traffic,
        };
        Ok(Arc::new(ways, GFP_KERNEL)?)
    }

    /// The present one.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// A new one begins. To be called after a change of what is read without a lock, and under the lock of the fabric
    /// with a change of what that guards.
    pub(super) fn renew(&self) {
        // Who sees the new number looks at what has changed under the lock, or sees what was stored before.
        self.generation.fetch_add(1, Release);
    }

    /// Counts a segment at the ports of the switch that it has passed without the lock.
    pub(super) fn count(
        &self,
        in_port: PortNum,
        out_port: PortNum,
        segment: &Segment<'_>,
        octets: u64,
    ) {
        if let Some(traffic) = self.traffic.get(usize::from(in_port.get())) {
            traffic.count_in(segment, octets);
        }
        if let Some(traffic) = self.traffic.get(usize::from(out_port.get())) {
            traffic.count_out(segment, octets);
        }
    }
}

/// The end of a way that visits no lock.
struct Straight {
    end: End,
    /// The ports of the switch where segments come in and go out; none if they turn back at their own port.
    relay: Option<(PortNum, PortNum)>,
}

/// What is at the end of such a way.
enum End {
    /// A queue pair, and its port.
    Qp(Watch<Qp>, PortNum),
    /// A UDP endpoint. It may be gone before who sends looks for the way again, and so it is not kept.
    Cable,
}

/// The end of a way, for as long as somebody sends.
pub(crate) enum Goal {
    /// A queue pair of this host.
    Qp(Held<Qp>),
    /// A UDP endpoint, and who reads there.
    Udp(Way, Reader),
}

/// A way, as it was when somebody looked.
pub(crate) struct Lane {
    address: Address,
    /// The ways of the fabric where somebody looked, and their generation then.
    found: Option<(Arc<Ways>, u64)>,
    /// What segments may be like.
    pub(crate) limits: TxLimits,
    straight: Option<Straight>,
    /// Whether packets leave the host.
    far: bool,
}

impl Lane {
    /// For who has not looked yet.
    pub(crate) const fn unknown() -> Self {
        Self::nowhere(Address {
            port: PortNum::MANAGEMENT,
            dlid: Lid::NONE,
            pkey: PKey::DEFAULT,
            qpn: Qpn::new(0),
        })
    }

    /// The way to an address that nothing leads to: never good for long, and found all the same, so that nobody looks
    /// for it again at once.
    const fn nowhere(address: Address) -> Self {
        Self {
            address,
            found: None,
            limits: TxLimits {
                max_payload: 0,
                lid: Lid::NONE,
                lmc: 0,
                mtu: Mtu::B256,
            },
            straight: None,
            far: false,
        }
    }

    /// Whether nothing has changed since somebody looked.
    fn is_good(&self) -> bool {
        let found = self.found.as_ref();
        found.is_some_and(|(ways, generation)| ways.generation() == *generation)
    }

    /// Whether this is still the way to `address`.
    pub(crate) fn leads_to(&self, address: &Address) -> bool {
        self.is_good() && self.address == *address
    }

    /// Whether this is, or was when somebody looked, the way to `address`.
    pub(crate) fn led_to(&self, address: &Address) -> bool {
        self.address == *address
    }

    /// Whether its segments leave the host as packets.
    pub(crate) fn is_far(&self) -> bool {
        self.far
    }

    /// The port that segments leave by.
    pub(crate) fn port(&self) -> PortNum {
        self.address.port
    }

    /// The port that segments come to, if they can go straight there.
    pub(crate) fn far_port(&self) -> Option<PortNum> {
        match self.straight.as_ref()?.end {
            End::Qp(_, port) => Some(port),
            End::Cable => None,
        }
    }

    /// Whether segments can go straight to `qp`.
    pub(crate) fn ends_at(&self, qp: &Held<Qp>) -> bool {
        match self.straight.as_ref().map(|straight| &straight.end) {
            Some(End::Qp(to, port)) => to.is_of(qp) && *port == qp.port(),
            _ => false,
        }
    }

    /// Whether this is still the way of `segment`.
    pub(crate) fn fits(&self, segment: &Segment<'_>) -> bool {
        let header = segment.header;
        self.is_good()
            && self.address.dlid == header.lrh.dlid
            && self.address.pkey == header.bth.pkey
            && self.address.qpn == header.bth.dest_qp
    }
}

impl Hca {
    /// Looks for the way to `address`.
    pub(crate) fn lane(&self, cx: &mut Cx<'_, Unlocked>, address: Address) -> Lane {
        // Read first: what is read afterwards belongs to this generation or a later one. A port that moves leaves
        // under the same lock, and has a new generation begin where it was.
        let (place, generation) = {
            let guard = cx.lock(&self.state);
            let Some(place) = self.place_now(&guard, address.port) else {
                return Lane::nowhere(address);
            };
            let generation = place.fabric().ways.generation();
            (place, generation)
        };
        let view = self.view(address.port);
        let passage = self.passage_from(cx, &place, address.port, address.dlid);
        let open = view.state == LinkState::Active && address.pkey.is_valid();
        let straight = if passage != Passage::Single && open {
            self.straight(cx, &place, &address, passage)
        } else {
            None
        };
        let max_payload = match passage {
            Passage::Whole | Passage::Cut => MAX_SEGMENT,
            Passage::Single => 0,
        };
        Lane {
            address,
            found: Some((place.fabric().ways.clone(), generation)),
            limits: TxLimits {
                max_payload,
                lid: view.lid,
                lmc: view.lmc,
                mtu: view.mtu,
            },
            straight,
            far: passage == Passage::Cut,
        }
    }

    /// Whether packets wait for `cpu` to send them the way to `address`.
    pub(crate) fn is_waited_for(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        address: &Address,
        cpu: CpuId,
    ) -> bool {
        let Some(place) = self.place(cx, address.port) else {
            return false;
        };
        let guard = cx.lock(&place.fabric().state);
        let way = guard.way_to(place.cable(), address.dlid);
        way.is_some_and(|way| way.is_waited_for(cpu))
    }

    fn straight(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        place: &Place<'_>,
        address: &Address,
        passage: Passage,
    ) -> Option<Straight> {
        if !address.dlid.is_unicast() {
            return None;
        }
        if self.view(address.port).owns(address.dlid) {
            if passage != Passage::Whole {
                return None;
            }
            let to = cx.lock(&self.state).qps.get(address.qpn.get())?.watcher();
            return Some(Straight {
                end: End::Qp(to, address.port),
                relay: None,
            });
        }
        let in_port = place.cable();
        let mut guard = cx.lock(&place.fabric().state);
        let (state, cx) = guard.split();
        let (out, hop) = state.lead(in_port, address.dlid, address.pkey)?;
        let end = match hop {
            Hop::Hca(hca, port) => {
                let to = find(cx, &hca, port, address.dlid, address.qpn)?;
                End::Qp(to.watcher(), port)
            }
            Hop::Udp(..) => End::Cable,
            Hop::Nowhere => return None,
        };
        Some(Straight {
            end,
            relay: Some((in_port, out)),
        })
    }

    /// What is at the end of `lane`, if segments can go straight there.
    pub(crate) fn goal(&self, cx: &mut Cx<'_, Unlocked>, lane: &Lane) -> Option<Goal> {
        let straight = lane.straight.as_ref()?;
        match (&straight.end, straight.relay) {
            (End::Qp(to, _), _) => Some(Goal::Qp(to.hold()?)),
            (End::Cable, Some((_, out))) => {
                let place = self.place(cx, lane.address.port)?;
                let hop = cx.lock(&place.fabric().state).hop(out);
                match hop {
                    Hop::Udp(way, reader) => Some(Goal::Udp(way, reader)),
                    _ => None,
                }
            }
            (End::Cable, None) => None,
        }
    }

    /// Counts a segment at the ports of this side along `lane`, which is good. Returns its octets.
    fn count_out(&self, lane: &Lane, segment: &Segment<'_>) -> u64 {
        let octets = segment.octets();
        if let Some(traffic) = self.traffic(lane.address.port) {
            traffic.count_sent(segment, octets);
        }
        let relay = lane.straight.as_ref().and_then(|straight| straight.relay);
        if let (Some((in_port, out_port)), Some((ways, _))) = (relay, &lane.found) {
            ways.count(in_port, out_port, segment, octets);
        }
        octets
    }

    /// Sends a segment as datagrams along `lane`, which is good and has this goal, at the latest at the end of the call
    /// chain.
    pub(crate) fn send_along(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        lane: &Lane,
        (way, reader): (&Way, Reader),
        segment: &Segment<'_>,
    ) {
        self.count_out(lane, segment);
        if run.post(cx, irqs, (way, reader), segment).is_none() {
            way.endpoint.account.dropped(Dropped::Unsendable);
        }
    }

    /// Counts a segment at all ports along `lane`, which is good and ends at `to`. Returns whether that is to look
    /// at it.
    pub(crate) fn count_along(&self, lane: &Lane, to: &Held<Qp>, segment: &Segment<'_>) -> bool {
        let octets = self.count_out(lane, segment);
        let port = lane.far_port();
        port.is_some_and(|port| count_arrival(to, port, segment, octets))
    }
}

/// Counts a segment of so many octets at the port of `to`, to which it has come. Returns whether that is to look at it.
pub(super) fn count_arrival(
    to: &Held<Qp>,
    port: PortNum,
    segment: &Segment<'_>,
    octets: u64,
) -> bool {
    if let Some(traffic) = to.hca.traffic(port) {
        traffic.count_received(segment, octets);
    }
    let is_known = to.listens_at(port) || to.has_left(port);
    if !is_known {
        if let Some(counters) = to.hca.counters(port) {
            counters.count(Counter::Discarded);
        }
    }
    is_known
}

/// The queue pair `qpn` behind `port` of `hca`, if segments for `dlid` can go straight there: the port takes them, and
/// nobody looks at them.
pub(super) fn find(
    mut cx: Cx<'_, FabricLock, Off>,
    hca: &Hca,
    port: PortNum,
    dlid: Lid,
    qpn: Qpn,
) -> Option<Held<Qp>> {
    let view = hca.view(port);
    if view.state != LinkState::Active || !view.owns(dlid) || hca.is_watched(port) {
        return None;
    }
    cx.lock(&hca.state).qps.get(qpn.get())?.try_clone()
}

impl State {
    /// A data packet has come in on `port` of the switch.
    pub(super) fn trigger(&mut self, port: PortNum) {
        if self.switch.active_trigger(port) {
            self.ways.renew();
        }
    }

    /// The port that a data packet goes out by that comes in by `in_port` for one port, and what is there. The packet
    /// follows.
    pub(super) fn lead(
        &mut self,
        in_port: PortNum,
        dlid: Lid,
        pkey: PKey,
    ) -> Option<(PortNum, Hop)> {
        self.trigger(in_port);
        let packet = Packet {
            dlid,
            pkey: Some(pkey),
            vl15: false,
            // What has come in by a cable is asked about only if it arrives here.
            hops: 0,
        };
        match self.switch.forward(in_port, &packet) {
            Forward::To(out) => Some((out, self.hop(out))),
            _ => None,
        }
    }
}

impl Fabric {
    /// All lanes that were found so far do not count any more: see [`Ways::renew`].
    pub(crate) fn new_generation(&self) {
        self.ways.renew();
    }
}
