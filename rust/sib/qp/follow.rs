// SPDX-License-Identifier: GPL-2.0

//! Queue pairs follow the tables of their ports.
//!
//! They refer to entries of the tables of P_Keys and GIDs. When an entry changes, so do their partition and the
//! GID that they send from at once. When their P_Key is emptied, nothing that comes is theirs any more, and what
//! they send does not leave the port.
//!
//! Source: IBA "Partitioning", "Address Vector".

use super::Qp;
use crate::hca::{
    Hca,
    Sma, //
};
use proto::transport::PathAv;
use rdma::sync::{
    Cx,
    DevLock,
    Off,
    Unlocked, //
};
use wire::{
    PKey,
    PortNum, //
};

/// Has the queue pairs of `port`, one of whose tables has changed, follow.
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

/// Has a queue pair whose attributes were set follow tables that may have changed meanwhile.
pub(super) fn follow(cx: &mut Cx<'_, Unlocked>, qp: &Qp) {
    let mut guard = cx.lock(&qp.hca.state);
    let (state, cx) = guard.split();
    qp.follow(cx, &state.sma);
}

impl Qp {
    /// Takes over the P_Keys and GIDs that the tables of its ports have now. To be called under the lock of the HCA, so
    /// that no older one is taken over later.
    fn follow(&self, mut cx: Cx<'_, DevLock, Off>, sma: &Sma) {
        let follow = |port, pkey_index, pkey: &mut PKey, path: &mut PathAv| {
            let Some(port) = sma.port(port) else { return };
            *pkey = port.pkeys().get(pkey_index).unwrap_or(*pkey);
            if let Some(grh) = &mut path.grh {
                grh.sgid = port.gid(grh.sgid_index.into()).unwrap_or(grh.sgid);
            }
        };
        let mut state = cx.lock(&self.state);
        let config = state.machine.config_mut();
        follow(
            self.port(),
            config.pkey_index,
            &mut config.pkey,
            &mut config.path,
        );
        if let Some(alternate) = &mut config.alternate {
            follow(
                alternate.port,
                alternate.pkey_index,
                &mut alternate.pkey,
                &mut alternate.path,
            );
        }
    }
}
