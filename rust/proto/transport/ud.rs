// SPDX-License-Identifier: GPL-2.0

//! Datagrams: UD queue pairs, and the two management interfaces, which are such with rules of their own.
//!
//! Source: IBA "Unreliable Datagram", "Q_Key", "Subnet Management Interface", "General Service Interface".

use crate::transport::config::QpConfig;
use crate::transport::env::{
    Env,
    PlaceError, //
};
use crate::transport::inbound::{
    path_bits,
    Inbound, //
};
use crate::transport::qp::RxDrop;
use crate::transport::qp_state::QpType;
use crate::transport::requester::own_bytes;
use crate::transport::responder::Refusal;
use crate::transport::segment::{
    global_header,
    link_header,
    TxLimits,
    TxSegment, //
};
use crate::transport::wc::{
    Wc,
    WcOpcode,
    WcStatus, //
};
use crate::transport::wqe::{
    SendOp,
    SendSlot,
    SendWqe, //
};
use wire::bth::Bth;
use wire::deth::Deth;
use wire::grh;
use wire::header::Header;
use wire::imm::ImmDt;
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::{
    Psn,
    Qpn,
    Vl, //
};

/// Bytes in front of the payload of a received datagram, for a GRH, whether there is one or not.
const GRH_AREA: u32 = grh::LEN as u32;

/// The packet of a datagram.
pub(super) fn segment(
    wqe: &SendWqe,
    slot: SendSlot,
    psn: Psn,
    qp_type: QpType,
    config: &QpConfig,
    limits: &TxLimits,
) -> Option<TxSegment> {
    let dest = wqe.ud.as_ref()?;
    let (operation, imm) = match wqe.op {
        SendOp::SendImm => (Operation::SendOnlyImm, Some(ImmDt::from_u32(wqe.imm))),
        _ => (Operation::SendOnly, None),
    };
    let qkey = if dest.qkey.is_privileged() {
        config.qkey
    } else {
        dest.qkey
    };
    let vl = if qp_type == QpType::Smi {
        Vl::MANAGEMENT
    } else {
        Vl::new(0)
    };
    let header = Header {
        lrh: link_header(&dest.av, limits, vl),
        grh: dest.av.grh.as_ref().map(global_header),
        bth: Bth {
            opcode: Opcode::new(Service::Ud, operation)?,
            se: wqe.flags.solicited,
            pkey: dest.pkey.unwrap_or(config.pkey),
            dest_qp: dest.qpn,
            psn,
            ..Bth::default()
        },
        deth: Some(Deth {
            qkey,
            src_qp: config.qpn,
        }),
        imm,
        ..Header::default()
    };
    Some(TxSegment {
        header,
        span: 1,
        payload: own_bytes(slot, 0, wqe.length),
    })
}

/// Takes a datagram with `len` bytes of payload. For one that does not fit see [`Inbound::abandon`].
pub(super) fn receive(
    inbound: &mut Inbound,
    header: &Header,
    len: u32,
    qp_type: QpType,
    config: &QpConfig,
    env: &mut impl Env,
) -> Result<(), Refusal> {
    let deth = header.deth.ok_or(RxDrop::Malformed)?;
    match qp_type {
        // Only subnet management packets reach QP0: from another QP0, and on their own lane.
        QpType::Smi => {
            if deth.src_qp != Qpn::SMI || header.lrh.vl != Vl::MANAGEMENT {
                return Err(RxDrop::Source.into());
            }
        }
        _ => {
            if header.lrh.vl == Vl::MANAGEMENT {
                return Err(RxDrop::Source.into());
            }
            if deth.qkey != config.qkey {
                return Err(RxDrop::QKey.into());
            }
        }
    }
    let recv = inbound.hold(env).map_err(|_| RxDrop::NoRecv)?;
    let byte_len = len.saturating_add(GRH_AREA);
    if byte_len > recv.len {
        inbound.abandon(WcStatus::LocLenErr, config, env);
        return Err(RxDrop::TooLong.into());
    }
    let placed = env
        .place_grh(recv.slot, header.grh.as_ref())
        .and_then(|()| match len {
            0 => Ok(()),
            _ => env.place_recv(recv.slot, GRH_AREA, len),
        });
    match placed {
        Ok(()) => {}
        Err(PlaceError::Absent) => return Err(RxDrop::Absent.into()),
        Err(PlaceError::Failed(status)) => {
            inbound.complete_error(status, env);
            return Err(Refusal::Fatal);
        }
    }
    inbound.complete(env, |recv| Wc {
        byte_len,
        imm: header.imm.map(|imm| imm.to_u32()),
        src_qp: deth.src_qp,
        slid: header.lrh.slid,
        sl: header.lrh.sl,
        path_bits: path_bits(header),
        pkey_index: config.pkey_index,
        grh: header.grh.is_some(),
        solicited: header.bth.se,
        ..Wc::new(recv.wr_id, WcOpcode::Recv, WcStatus::Success)
    });
    Ok(())
}
