// SPDX-License-Identifier: GPL-2.0

//! Alternate paths that the connection manager loads into queue pairs whose owners know nothing of them.

use super::{
    modify,
    Qp, //
};
use crate::hca::Hca;
use crate::query;
use kernel::prelude::*;
use proto::transport::QpState;
use rdma::cm::{
    PathState,
    QpPeer, //
};
use rdma::ib::{
    self,
    AhAttr,
    MigState,
    QpAttr,
    QpAttrMask, //
};
use rdma::sync::{
    Cx,
    Held,
    Unlocked, //
};
use wire::PortNum;

/// The queue pair with this number.
fn find(cx: &mut Cx<'_, Unlocked>, hca: &Hca, qpn: u32) -> Result<Held<Qp>> {
    let state = cx.lock(&hca.state);
    let found = state.qps.get(qpn).and_then(|qp| qp.try_clone());
    found.ok_or(ENOENT)
}

/// How a queue pair stands.
pub(crate) fn path_state(cx: &mut Cx<'_, Unlocked>, hca: &Hca, qpn: u32) -> Result<PathState> {
    let qp = find(cx, hca, qpn)?;
    let state = cx.lock(&qp.state);
    let config = state.machine.config();
    let is_in = state.machine.state();
    Ok(PathState {
        peer: modify::peer(config),
        is_fresh: matches!(is_in, QpState::Reset | QpState::Init | QpState::Rtr),
        is_ready: is_in == QpState::Rts,
        is_managed: state.is_managed,
        migration: modify::mig_state_name(config.mig_state),
        is_unheard: state.machine.is_unheard(),
        primary: state.attr.ah,
        timeout: config.timeout,
        alternate: config.alternate.map(|_| state.attr.alt_ah),
    })
}

/// Loads an alternate path into a queue pair that is connected to `peer`, and asks for REARM. P_Key and ACK timeout are
/// those of the path in use.
///
/// # Errors
///
/// `ENOENT` if there is no such queue pair, `EPERM` if its owner manages paths or it is connected to another one,
/// `EINVAL` if it is not in RTS, or ARMED, or the path cannot be.
pub(crate) fn load_path(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    qpn: u32,
    peer: QpPeer,
    path: &AhAttr,
) -> Result {
    let qp = find(cx, hca, qpn)?;
    let (pkey, timeout) = {
        let state = cx.lock(&qp.state);
        let config = state.machine.config();
        (config.pkey, config.timeout)
    };
    let attr = QpAttr {
        state: ib::QpState::Rts,
        cur_state: ib::QpState::Rts,
        mig_state: MigState::Rearm,
        alt_ah: *path,
        alt_port: path.port,
        alt_pkey_index: query::pkey_index(cx, hca, PortNum::new(path.port as u8), pkey)?,
        alt_timeout: timeout,
        ..QpAttr::default()
    };
    let mask = QpAttrMask::STATE
        | QpAttrMask::CUR_STATE
        | QpAttrMask::ALT_PATH
        | QpAttrMask::PATH_MIG_STATE;
    modify::modify_paths(cx, &qp, peer, &attr, mask)?;
    Qp::schedule(qp);
    Ok(())
}
