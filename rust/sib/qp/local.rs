// SPDX-License-Identifier: GPL-2.0

//! Work requests that are for this side alone: fast registration, binding of memory windows, and
//! invalidation. They are carried out when the send queue arrives at them.

use super::{
    send::Local,
    Qp,
    State, //
};
use crate::{
    keys::Refusal,
    payload::Source, //
};
use proto::transport::WcStatus;
use rdma::sync::{
    Cx,
    Off,
    QpLock, //
};

/// What has become of the operation that a send queue has arrived at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Executed {
    /// There is none.
    Nothing,
    /// It is done.
    Done,
    /// It has to wait, and a worker to try again.
    Waits,
}

impl State {
    /// Executes the operation that the send queue has arrived at.
    pub(super) fn execute_local(&mut self, qp: &Qp, cx: &mut Cx<'_, QpLock, Off>) -> Executed {
        let Some(slot) = self.machine.local_request() else {
            return Executed::Nothing;
        };
        let result = {
            let mut tables = cx.lock(&qp.pd.tables);
            match self.sends.local(slot) {
                Some(Local::Invalidate(key)) => tables.invalidate(key, qp.serial, false),
                Some(Local::Bind(bind)) => tables.bind(&bind, qp.serial),
                Some(Local::Register(registration)) => tables.register(&registration),
                None => Err(Refusal::Fault),
            }
        };
        let status = match result {
            Ok(()) => WcStatus::Success,
            Err(Refusal::Fault) => WcStatus::MwBindErr,
            Err(Refusal::Busy) => return Executed::Waits,
        };
        self.with_machine(qp, cx.reborrow(), Source::Bytes(&[]), |machine, env| {
            machine.local_done(slot, status, env);
        });
        Executed::Done
    }
}
