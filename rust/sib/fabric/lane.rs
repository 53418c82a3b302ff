// SPDX-License-Identifier: GPL-2.0

//! The way of a connection's segments, found once and then remembered.
//!
//! Between two ports of HCAs of one fabric the switch takes the same decision for each segment, until something
//! changes: a forwarding table, the state of a link, a LID, a tap. All such changes give the fabric a new *generation*,
//! and a lane that was found in an older one does not count any more. While it counts, a segment goes straight
//! to the queue pair at its end, without the locks of the fabric and of the far HCA; the ports on its way count
//! it all the same.

use super::route::{
    Passage,
    Segment, //
};
use super::{
    End,
    Fabric,
    Traffic, //
};
use crate::counters::Counter;
use crate::hca::Hca;
use crate::qp::Qp;
use crate::rail::Place;
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
    Held,
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

    fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Counts a segment at the ports of the switch that it has passed without the lock.
    fn count(&self, in_port: PortNum, out_port: PortNum, segment: &Segment<'_>, octets: u64) {
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
    /// The queue pair.
    to: Watch<Qp>,
    /// Its port.
    port: PortNum,
    /// The ports of the switch where segments come in and go out; none if they turn back at their own port.
    relay: Option<(PortNum, PortNum)>,
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
        Some(self.straight.as_ref()?.port)
    }

    /// Whether segments can go straight to `qp`.
    pub(crate) fn ends_at(&self, qp: &Held<Qp>) -> bool {
        let straight = self.straight.as_ref();
        straight.is_some_and(|straight| straight.to.is_of(qp) && straight.port == qp.port())
    }

    /// Whether this is still the way of `segment`.
    pub(crate) fn fits(&self, segment: &Segment<'_>) -> bool {
        let header = segment.header;
        self.is_good()
            && self.address.dlid == header.lrh.dlid
            && self.address.pkey == header.bth.pkey
            && self.address.qpn == header.bth.dest_qp
    }

    /// The queue pair at the end, if segments can go straight there.
    pub(crate) fn end(&self) -> Option<Held<Qp>> {
        self.straight.as_ref()?.to.hold()
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
        let straight = if passage == Passage::Whole && open {
            self.straight(cx, &place, &address)
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
    ) -> Option<Straight> {
        if !address.dlid.is_unicast() {
            return None;
        }
        if self.view(address.port).owns(address.dlid) {
            let to = cx.lock(&self.state).qps.get(address.qpn.get())?.watcher();
            return Some(Straight {
                to,
                port: address.port,
                relay: None,
            });
        }
        let in_port = place.cable();
        let mut guard = cx.lock(&place.fabric().state);
        let (state, mut cx) = guard.split();
        // The segment that this is for follows.
        state.switch.active_trigger(in_port);
        let packet = Packet {
            dlid: address.dlid,
            pkey: Some(address.pkey),
            vl15: false,
        };
        let Forward::To(out) = state.switch.forward(in_port, &packet) else {
            return None;
        };
        let End::Hca(hca, port) = state.ends.get(usize::from(out.get()))? else {
            return None;
        };
        let view = hca.view(*port);
        if view.state != LinkState::Active || !view.owns(address.dlid) || hca.is_watched(*port) {
            return None;
        }
        let to = cx.lock(&hca.state).qps.get(address.qpn.get())?.watcher();
        Some(Straight {
            to,
            port: *port,
            relay: Some((in_port, out)),
        })
    }

    /// Counts a segment at all ports along `lane`, which is good and ends at `to`. Returns whether that is to look
    /// at it.
    pub(crate) fn count_along(&self, lane: &Lane, to: &Held<Qp>, segment: &Segment<'_>) -> bool {
        let Some(straight) = &lane.straight else {
            return false;
        };
        let octets = segment.octets();
        if let Some(traffic) = self.traffic(lane.address.port) {
            traffic.count_sent(segment, octets);
        }
        if let (Some((in_port, out_port)), Some((ways, _))) = (straight.relay, &lane.found) {
            ways.count(in_port, out_port, segment, octets);
        }
        if let Some(traffic) = to.hca.traffic(straight.port) {
            traffic.count_received(segment, octets);
        }
        let is_known = to.listens_at(straight.port) || to.has_left(straight.port);
        if !is_known {
            if let Some(counters) = to.hca.counters(straight.port) {
                counters.count(Counter::Discarded);
            }
        }
        is_known
    }
}

impl Fabric {
    /// All lanes that were found so far do not count any more. To be called after a change of what is read
    /// without a lock, and under the lock of the fabric with a change of what that guards.
    pub(crate) fn new_generation(&self) {
        // Who sees the new number looks at what has changed under the lock, or sees what was stored before.
        self.ways.generation.fetch_add(1, Release);
    }
}
