// SPDX-License-Identifier: GPL-2.0

//! INIT_QP_ATTR: what a consumer is to set in the queue pair of a connection.

use super::Desk;
use crate::abi;
use crate::connection::Connection;
use crate::consumer::Identifier;
use crate::device::Ends;
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::cm::{
    Alternate,
    Attributes,
    Goal, //
};
use wire::mad::cm::Path;
use wire::PKey;
use zerocopy::{
    FromZeros,
    IntoBytes, //
};

/// States: `enum ibv_qp_state`.
mod state {
    pub(super) const INIT: u32 = 1;
    pub(super) const RTR: u32 = 2;
    pub(super) const RTS: u32 = 3;
}

/// Which attributes count: `enum ibv_qp_attr_mask`.
mod mask {
    pub(super) const STATE: u32 = 1 << 0;
    pub(super) const ACCESS_FLAGS: u32 = 1 << 3;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const PORT: u32 = 1 << 5;
    pub(super) const AV: u32 = 1 << 7;
    pub(super) const PATH_MTU: u32 = 1 << 8;
    pub(super) const TIMEOUT: u32 = 1 << 9;
    pub(super) const RETRY_CNT: u32 = 1 << 10;
    pub(super) const RNR_RETRY: u32 = 1 << 11;
    pub(super) const RQ_PSN: u32 = 1 << 12;
    pub(super) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(super) const ALT_PATH: u32 = 1 << 14;
    pub(super) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(super) const SQ_PSN: u32 = 1 << 16;
    pub(super) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(super) const PATH_MIG_STATE: u32 = 1 << 18;
    pub(super) const DEST_QPN: u32 = 1 << 20;
}

/// Access: `enum ibv_access_flags`.
mod access {
    pub(super) const REMOTE_WRITE: u32 = 1 << 1;
    pub(super) const REMOTE_READ: u32 = 1 << 2;
    pub(super) const REMOTE_ATOMIC: u32 = 1 << 3;
}

/// `IBV_MIG_REARM`
const REARM: u32 = 1;

/// Where a path begins, in the terms of queue pairs.
struct Place {
    port: u8,
    pkey_index: u16,
    ah: abi::AhAttr,
}

impl<I: Identifier> Desk<'_, I> {
    pub(super) fn init_qp_attr(&mut self, it: &mut abi::InitQpAttr) -> Result {
        let goal = match it.attr.qp_state {
            state::INIT => Goal::Init,
            state::RTR => Goal::Rtr,
            state::RTS => Goal::Rts,
            _ => return Err(EINVAL),
        };
        let mut asked = abi::QpAttr::new_zeroed();
        asked.qp_state = it.attr.qp_state;
        if it.reserved != 0 || asked.as_bytes() != it.attr.as_bytes() {
            return Err(EINVAL);
        }
        let connection = self.connection()?;
        let (attributes, pkey) = connection.attributes(&mut self.cx, self.s, goal)?;
        self.fill(&mut it.attr, &connection, attributes, pkey)
    }

    fn fill(
        &mut self,
        attr: &mut abi::QpAttr,
        connection: &Arc<Connection>,
        attributes: Attributes,
        pkey: PKey,
    ) -> Result {
        let device = connection.device();
        let ends = device.ends(&mut self.cx, self.s);
        let place = |path: &Path| {
            place(&ends, path, |port| {
                device.adapter.pkey_index(port, pkey.get())
            })
        };
        match attributes {
            Attributes::Init { path, may_read } => {
                let place = place(&path)?;
                attr.mask = mask::STATE | mask::ACCESS_FLAGS | mask::PKEY_INDEX | mask::PORT;
                attr.qp_access_flags = access::REMOTE_WRITE;
                if may_read {
                    attr.qp_access_flags |= access::REMOTE_READ | access::REMOTE_ATOMIC;
                }
                attr.pkey_index = place.pkey_index;
                attr.port_num = place.port;
            }
            Attributes::Rtr {
                path,
                dest_qpn,
                rq_psn,
                mtu,
                inbound,
                alternate,
            } => {
                attr.mask = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
                attr.ah = place(&path)?.ah;
                attr.path_mtu = mtu.into();
                attr.dest_qp_num = dest_qpn.get();
                attr.rq_psn = rq_psn.get();
                if let Some(inbound) = inbound {
                    attr.mask |= mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
                    attr.max_dest_rd_atomic = inbound;
                }
                if let Some(alternate) = alternate {
                    set_alternate(attr, &alternate, place(&alternate.path)?);
                }
            }
            Attributes::Rts {
                sq_psn,
                reliable,
                rearm,
            } => {
                attr.mask = mask::STATE | mask::SQ_PSN;
                attr.sq_psn = sq_psn.get();
                if let Some(reliable) = reliable {
                    attr.mask |=
                        mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
                    attr.timeout = reliable.timeout;
                    attr.retry_cnt = reliable.retries;
                    attr.rnr_retry = reliable.rnr_retries;
                    attr.max_rd_atomic = reliable.outbound;
                }
                if rearm {
                    set_rearm(attr);
                }
            }
            Attributes::Load(alternate) => {
                set_alternate(attr, &alternate, place(&alternate.path)?);
                set_rearm(attr);
            }
        }
        Ok(())
    }
}

/// # Errors
///
/// `EINVAL` if the path does not begin here any more; `ENOENT` if its port is not in the partition.
fn place(ends: &Ends, path: &Path, pkey_index: impl FnOnce(u32) -> Result<u16>) -> Result<Place> {
    let (port, way) = ends.along(path, 0).ok_or(EINVAL)?;
    let port_num = u8::try_from(port).map_err(|_| EINVAL)?;
    let mut ah = abi::AhAttr {
        dlid: way.dlid,
        sl: way.sl,
        src_path_bits: way.src_path_bits,
        static_rate: path.rate,
        port_num,
        ..abi::AhAttr::new_zeroed()
    };
    if let Some(global) = way.global {
        ah.is_global = 1;
        ah.dgid = global.dgid;
        ah.flow_label = global.flow_label;
        ah.sgid_index = global.sgid_index;
        ah.hop_limit = global.hop_limit;
        ah.traffic_class = global.traffic_class;
    }
    Ok(Place {
        port: port_num,
        pkey_index: pkey_index(port)?,
        ah,
    })
}

fn set_alternate(attr: &mut abi::QpAttr, alternate: &Alternate, place: Place) {
    attr.mask |= mask::ALT_PATH;
    attr.alt_ah = place.ah;
    attr.alt_port_num = place.port;
    attr.alt_pkey_index = place.pkey_index;
    attr.alt_timeout = alternate.timeout;
}

fn set_rearm(attr: &mut abi::QpAttr) {
    attr.mask |= mask::PATH_MIG_STATE;
    attr.path_mig_state = REARM;
}
