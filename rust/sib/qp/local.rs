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

impl State {
    /// Executes the operation that the send queue has arrived at. Returns whether there was one, and
    /// it is done; what has to wait is tried again by a worker.
    pub(super) fn execute_local(&mut self, qp: &Qp, cx: &mut Cx<'_, QpLock, Off>) -> bool {
        let Some(slot) = self.machine.local_request() else {
            return false;
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
            Err(Refusal::Busy) => {
                self.again = true;
                return false;
            }
        };
        self.with_machine(qp, cx.reborrow(), Source::Bytes(&[]), |machine, env| {
            machine.local_done(slot, status, env);
        });
        true
    }
}
