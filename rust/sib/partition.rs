// SPDX-License-Identifier: GPL-2.0

//! Partitions: queue pairs follow the P_Key table of their port, and packets of the wrong partition, or with a
//! wrong Q_Key, are told to the subnet manager.
//!
//! Queue pairs refer to entries of the table. When an entry changes, so does their partition at once; when it
//! is emptied, nothing that comes is theirs any more, and what they send does not leave the port.
//!
//! Source: IBA "Partitioning", "P_Key Violations Counter", "Q_Key Violations Counter".

use crate::{
    fabric::now,
    hca::Hca,
    qp::Qp, //
};
use proto::{
    fabric::trap::BadKey,
    transport::RxDrop, //
};
use rdma::sync::{
    Cx,
    Unlocked, //
};
use wire::{
    header::Header,
    Gid,
    PortNum,
    Qpn, //
};

/// Has the queue pairs of `port`, whose P_Key table has changed, follow.
pub(crate) fn follow_all(cx: &mut Cx<'_, Unlocked>, hca: &Hca, port: PortNum) {
    let mut index = 0;
    loop {
        let mut guard = cx.lock(&hca.state);
        let (state, cx) = guard.split();
        let Some((at, qp)) = state.qps.next(index) else {
            return;
        };
        index = at.wrapping_add(1);
        if qp.listens_at(port) {
            qp.follow(cx, &state.sma);
        }
    }
}

/// Has a queue pair whose attributes were set follow a table that may have changed meanwhile.
pub(crate) fn follow(cx: &mut Cx<'_, Unlocked>, qp: &Qp) {
    let mut guard = cx.lock(&qp.hca.state);
    let (state, cx) = guard.split();
    qp.follow(cx, &state.sma);
}

/// A packet that came in on `port` was dropped for `reason`: counts it and has the subnet manager told if that
/// is a key of the wrong kind.
pub(crate) fn refused(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    port: PortNum,
    header: &Header,
    reason: RxDrop,
) {
    if !matches!(reason, RxDrop::PKey | RxDrop::QKey) {
        return;
    }
    let mut guard = cx.lock(&hca.state);
    let state = &mut *guard;
    match (reason, header.deth) {
        (RxDrop::QKey, Some(deth)) => {
            let bad = bad_key(header, deth.qkey.get());
            state.sma.refuse_qkey(port, &bad, now());
        }
        _ => {
            state.sma.refuse_pkey(port, &bad_pkey(header), now());
        }
    }
    hca.set_clock(state.orders, &state.sma);
}

/// What the subnet manager is told of a packet whose P_Key is refused.
pub(crate) fn bad_pkey(header: &Header) -> BadKey {
    bad_key(header, u32::from(header.bth.pkey.get()))
}

fn bad_key(header: &Header, key: u32) -> BadKey {
    let (sgid, dgid) = match &header.grh {
        Some(grh) => (grh.sgid, grh.dgid),
        None => (Gid::ZERO, Gid::ZERO),
    };
    BadKey {
        slid: header.lrh.slid,
        dlid: header.lrh.dlid,
        key,
        sl: header.lrh.sl,
        src_qp: header.deth.map_or(Qpn::new(0), |deth| deth.src_qp),
        dest_qp: header.bth.dest_qp,
        sgid,
        dgid,
    }
}
