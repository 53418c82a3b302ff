// SPDX-License-Identifier: GPL-2.0

//! The arrival of segments at a port of an HCA.

use crate::{
    counters::Counter,
    fabric::Segment,
    hca::Hca,
    mcast::{
        Cursor,
        Group, //
    },
    partition,
    qp::{
        Arrival,
        Qp, //
    },
    run::RunQueue, //
};
use proto::transport::RxDrop;
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Unlocked, //
};
use wire::{
    PortNum,
    Qpn, //
};

/// Hands a segment that has come to `port` to its queue pair, or to those of its multicast group.
/// What belongs to nobody is dropped.
pub(crate) fn deliver(
    cx: &mut Cx<'_, Unlocked>,
    irqs: IrqsOn<'_>,
    run: &mut RunQueue,
    hca: &Hca,
    port: PortNum,
    segment: Segment<'_>,
) {
    let header = segment.header;
    let qpn = header.bth.dest_qp;
    let is_for_group = qpn == Qpn::MULTICAST;
    if is_for_group != header.lrh.dlid.is_multicast() {
        // IBA, "Base Transport Header", "Destination QP": this number goes with multicast LIDs, and with those alone.
        return discard(hca, port);
    }
    if is_for_group {
        // IBA, "Packet Header Validation": a multicast packet has a GRH.
        let Some(gid) = header.grh.map(|grh| grh.dgid) else {
            return discard(hca, port);
        };
        let group = Group {
            lid: header.lrh.dlid,
            gid,
        };
        let mut cursor = Cursor::default();
        loop {
            let member = cx
                .lock(&hca.state)
                .mcast
                .next_member(&mut cursor, port, group);
            let Some(qp) = member else {
                return;
            };
            let arrival = Arrival {
                segment,
                port,
                pkey_index: None,
            };
            // To a group of many one packet is as much work as many packets.
            run.charge(1);
            Qp::receive(&qp, cx, irqs, run, arrival);
        }
    }
    let (qp, pkey_index) = {
        let state = cx.lock(&hca.state);
        let qp = match qpn {
            Qpn::SMI | Qpn::GSI => state
                .special
                .get(usize::from(port.get()).wrapping_sub(1))
                .and_then(|pair| pair.get(qpn.get() as usize))
                .and_then(Option::as_ref),
            _ => state.qps.get(qpn.get()),
        };
        let mut pkey_index = None;
        if qpn == Qpn::GSI {
            // The GSI takes packets of every partition that the port is in.
            let found = state.sma.port(port).and_then(|port| {
                let mut keys = port.pkeys().keys().iter();
                keys.position(|key| key.matches(header.bth.pkey))
            });
            let Some(index) = found else {
                drop(state);
                return partition::refused(cx, hca, port, header, RxDrop::PKey);
            };
            pkey_index = Some(index as u16);
        }
        (qp.and_then(Held::try_clone), pkey_index)
    };
    match qp {
        Some(qp) if qp.listens_at(port) || qp.has_left(port) => {
            let arrival = Arrival {
                segment,
                port,
                pkey_index,
            };
            Qp::receive(&qp, cx, irqs, run, arrival);
        }
        // These come when ib_mad does. Who manages the fabric meets the HCA before that, and asks again.
        None if matches!(qpn, Qpn::SMI | Qpn::GSI) => {}
        _ => discard(hca, port),
    }
}

/// What has come to `port` is for nobody.
fn discard(hca: &Hca, port: PortNum) {
    if let Some(counters) = hca.counters(port) {
        counters.count(Counter::Discarded);
    }
}
