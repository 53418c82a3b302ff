// SPDX-License-Identifier: GPL-2.0

//! The way of packets from a cable to their queue pair, found once for those of a batch.
//!
//! As a [lane](super::lane), it counts as long as the fabric has no new generation.

use super::lane::{
    count_arrival,
    find,
    Address, //
};
use super::route::{
    Hop,
    Segment, //
};
use super::Fabric;
use crate::qp::{
    Arrival,
    Qp, //
};
use crate::run::RunQueue;
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Unlocked, //
};
use wire::PortNum;

/// Where packets for an address arrive.
pub(super) struct Landing {
    /// Its port is that of the switch where they come in.
    address: Address,
    /// The generation of the fabric when somebody looked.
    generation: u64,
    /// The port of the switch that they go out by.
    out_port: PortNum,
    qp: Held<Qp>,
    /// Its port.
    port: PortNum,
}

impl Fabric {
    /// Finds the queue pair for `segment`, which has come in by `in_port`, unless `known` is where that arrives.
    ///
    /// `None` if it has to go the way of all packets, whatever is on that.
    pub(super) fn land<'a>(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        known: &'a mut Option<Landing>,
        in_port: PortNum,
        segment: &Segment<'_>,
    ) -> Option<&'a Landing> {
        if segment.is_vl15() || segment.is_multicast() {
            return None;
        }
        let address = Address {
            port: in_port,
            dlid: segment.header.lrh.dlid,
            pkey: segment.header.bth.pkey,
            qpn: segment.header.bth.dest_qp,
        };
        let generation = self.ways.generation();
        let is_known =
            |landing: &Landing| landing.generation == generation && landing.address == address;
        if !known.as_ref().is_some_and(is_known) {
            *known = self.find_landing(cx, address, generation);
        }
        known.as_ref()
    }

    /// Looks where packets for `address` arrive.
    fn find_landing(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        address: Address,
        generation: u64,
    ) -> Option<Landing> {
        let mut guard = cx.lock(&self.state);
        let (state, cx) = guard.split();
        let (out_port, hop) = state.lead(address.port, address.dlid, address.pkey)?;
        let Hop::Hca(hca, port) = hop else {
            return None;
        };
        Some(Landing {
            address,
            generation,
            out_port,
            qp: find(cx, &hca, port, address.dlid, address.qpn)?,
            port,
        })
    }

    /// Lets a segment arrive at `landing`, which is its.
    pub(super) fn land_at(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        landing: &Landing,
        segment: Segment<'_>,
    ) {
        let octets = segment.octets();
        let in_port = landing.address.port;
        self.ways.count(in_port, landing.out_port, &segment, octets);
        if count_arrival(&landing.qp, landing.port, &segment, octets) {
            let arrival = Arrival {
                segment,
                port: landing.port,
                pkey_index: None,
            };
            Qp::receive(&landing.qp, cx, irqs, run, arrival);
        }
    }
}
