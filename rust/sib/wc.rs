// SPDX-License-Identifier: GPL-2.0

//! Work completions, from the machine's form to that of ib_core.

use crate::qp::Qp;
use proto::transport::{
    self as machine,
    WcOpcode,
    WcStatus, //
};
use rdma::ib;

/// The completion as the clients of `qp` get it.
pub(crate) fn translate(wc: &machine::Wc, qp: &Qp) -> ib::Wc {
    let mut out = ib::Wc::new(wc.wr_id, status(wc.status), opcode(wc.opcode), qp.qpn());
    out.qp = qp.reference();
    out.byte_len = wc.byte_len;
    out.ext = match (wc.imm, wc.invalidated) {
        (Some(imm), _) => ib::WcExt::Imm(imm.to_be_bytes()),
        (None, Some(key)) => ib::WcExt::Invalidate(key.get()),
        (None, None) => ib::WcExt::None,
    };
    out.grh = wc.grh;
    out.src_qp = wc.src_qp.get();
    out.slid = wc.slid.get();
    out.sl = wc.sl.get();
    out.dlid_path_bits = wc.path_bits & qp.path_mask();
    out.pkey_index = wc.pkey_index;
    out
}

fn opcode(opcode: WcOpcode) -> ib::WcOpcode {
    match opcode {
        WcOpcode::Send => ib::WcOpcode::Send,
        WcOpcode::RdmaWrite => ib::WcOpcode::RdmaWrite,
        WcOpcode::RdmaRead => ib::WcOpcode::RdmaRead,
        WcOpcode::CompareSwap => ib::WcOpcode::CompSwap,
        WcOpcode::FetchAdd => ib::WcOpcode::FetchAdd,
        WcOpcode::AtomicWrite => ib::WcOpcode::AtomicWrite,
        WcOpcode::Flush => ib::WcOpcode::Flush,
        WcOpcode::LocalInv => ib::WcOpcode::LocalInv,
        WcOpcode::BindMw => ib::WcOpcode::BindMw,
        WcOpcode::RegMr => ib::WcOpcode::RegMr,
        WcOpcode::Recv => ib::WcOpcode::Recv,
        WcOpcode::RecvRdmaWithImm => ib::WcOpcode::RecvRdmaWithImm,
    }
}

/// Statuses of reliable datagrams and end-to-end contexts, which no machine reports, are general
/// errors.
fn status(status: WcStatus) -> ib::WcStatus {
    match status {
        WcStatus::Success => ib::WcStatus::Success,
        WcStatus::LocLenErr => ib::WcStatus::LocLenErr,
        WcStatus::LocQpOpErr => ib::WcStatus::LocQpOpErr,
        WcStatus::LocProtErr => ib::WcStatus::LocProtErr,
        WcStatus::WrFlushErr => ib::WcStatus::WrFlushErr,
        WcStatus::MwBindErr => ib::WcStatus::MwBindErr,
        WcStatus::BadRespErr => ib::WcStatus::BadRespErr,
        WcStatus::LocAccessErr => ib::WcStatus::LocAccessErr,
        WcStatus::RemInvReqErr => ib::WcStatus::RemInvReqErr,
        WcStatus::RemAccessErr => ib::WcStatus::RemAccessErr,
        WcStatus::RemOpErr => ib::WcStatus::RemOpErr,
        WcStatus::RetryExcErr => ib::WcStatus::RetryExcErr,
        WcStatus::RnrRetryExcErr => ib::WcStatus::RnrRetryExcErr,
        WcStatus::RemAbortErr => ib::WcStatus::RemAbortErr,
        WcStatus::FatalErr => ib::WcStatus::FatalErr,
        WcStatus::RespTimeoutErr => ib::WcStatus::RespTimeoutErr,
        WcStatus::LocEecOpErr
        | WcStatus::LocRddViolErr
        | WcStatus::RemInvRdReqErr
        | WcStatus::InvEecnErr
        | WcStatus::InvEecStateErr
        | WcStatus::GeneralErr => ib::WcStatus::GeneralErr,
    }
}
