// SPDX-License-Identifier: GPL-2.0

//! Partitions: packets of the wrong partition, or with a wrong Q_Key, are told to the subnet manager.
//!
//! Source: IBA "P_Key Violations Counter", "Q_Key Violations Counter".

use crate::{
    fabric::now,
    hca::Hca, //
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
