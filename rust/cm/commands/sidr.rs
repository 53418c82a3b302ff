// SPDX-License-Identifier: GPL-2.0

//! The orders about services of datagrams.

use super::{
    bits,
    private,
    within,
    zero,
    Desk,
    QPN_BITS,
    TIME_BITS, //
};
use crate::abi;
use crate::consumer::{
    Identifier,
    Purpose, //
};
use crate::question::{
    Name,
    Question, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::cm::{
    Resolution,
    SidrAnswer,
    SidrEvent,
    SidrOrder,
    SidrTiming, //
};
use wire::mad::cm::{
    sidr_status,
    Kind,
    Path,
    SidrReq, //
};
use wire::{
    PKey,
    QKey,
    Qpn, //
};

impl<I: Identifier> Desk<'_, I> {
    pub(super) fn send_sidr_req(&mut self, it: &abi::SendSidrReq) -> Result {
        zero(&it.reserved)?;
        let data = private(&it.private_data, it.private_data_len.into(), Kind::SidrReq)?;
        bits(it.response_timeout.into(), TIME_BITS)?;
        let path = it.path.get().ok_or(EINVAL)?;
        let req = SidrReq {
            pkey: PKey::new(it.pkey),
            service_id: it.service_id,
            ..SidrReq::default()
        };
        let timing = SidrTiming {
            response: it.response_timeout,
            retries: it.retries,
        };
        let (question, pkey_index) = self.inquirer(&path, it.pkey)?;
        let order = SidrOrder::Ask(&req, &path, timing, data);
        question.ask(&mut self.cx, self.s, order, pkey_index)
    }

    /// The question of an identifier that asks, which is made at the first try, and where the P_Key stands.
    fn inquirer(&mut self, path: &Path, pkey: u16) -> Result<(Arc<Question>, u16)> {
        let shared = &self.ident.shared();
        let (device, present) = self.with(|device, _, purpose| {
            let present = match purpose {
                Purpose::Nothing => None,
                Purpose::Question(question) => Some(question.clone()),
                Purpose::Listener(_) | Purpose::Connection(_) => return Err(EINVAL),
            };
            Ok((device.clone(), present))
        })?;
        let ends = device.ends(&mut self.cx, self.s);
        let port = ends.port_of(path).ok_or(EINVAL)?;
        let pkey_index = device.adapter.pkey_index(port, pkey)?;
        if let Some(question) = present {
            return Ok((question, pkey_index));
        }
        let request_id = shared.request_id();
        let tid = u64::from(shared.tid_high()) << 32 | u64::from(rdma::random::u32());
        let name = Name::Ours(request_id);
        let it = Resolution::new(request_id, tid);
        let question = Question::new(shared, &device, name, it, pkey_index)?;
        let inserted = shared.insert_question(&question).and_then(|()| {
            question.belong(self.occupy(Purpose::Question(question.clone()))?);
            Ok(())
        });
        match inserted {
            Ok(()) => Ok((question, pkey_index)),
            Err(err) => {
                question.discard(&mut self.cx, self.s);
                Err(err)
            }
        }
    }

    pub(super) fn send_sidr_rep(&mut self, it: &abi::SendSidrRep) -> Result {
        let info = within(&it.info, it.info_len.into())?;
        let data = private(&it.private_data, it.private_data_len.into(), Kind::SidrRep)?;
        bits(it.qpn, QPN_BITS)?;
        if it.reserved != 0 || it.status > sidr_status::UNSUPPORTED_VERSION {
            return Err(EINVAL);
        }
        let answer = SidrAnswer {
            status: it.status,
            qpn: Qpn::new(it.qpn),
            qkey: QKey::new(it.qkey),
            info,
        };
        let question = self.with(|_, _, purpose| match purpose {
            Purpose::Question(question) => Ok(question.clone()),
            Purpose::Nothing | Purpose::Listener(_) | Purpose::Connection(_) => Err(EINVAL),
        })?;
        let order = SidrEvent::Order(SidrOrder::Answer(&answer, data));
        question.step(&mut self.cx, self.s, order, None)
    }
}
