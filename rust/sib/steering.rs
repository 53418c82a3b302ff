// SPDX-License-Identifier: GPL-2.0

//! Messages that one processor posts and another one sends.
//!
//! Where the receiver is in the same kernel, it works on the processor that sends, and most of the work is his: then a
//! task that posts as fast as it can is held up by what it has sent. So a [convoy](crate::convoy) that one task alone has
//! filled is handed to another processor. The task goes on to post the next one, and both work at once. A convoy that
//! several tasks have filled is sent where it is: they use several processors already.
//!
//! What a queue pair sends must not overtake what it has sent before, which may wait on the other processor. So all its
//! requests go the same way, whoever sends them, until there has been no such convoy for a [while](HOLD) and all are
//! acknowledged.

use crate::fabric;
use kernel::cpu::CpuId;
use proto::time::{
    Duration,
    Instant, //
};
use rdma::net::other_cpu;

/// How long a processor goes on after the last full convoy.
const HOLD: Duration = Duration::from_millis(20);

/// Which processor sends, and how long it is to go on with it.
#[derive(Clone, Copy)]
pub(crate) struct Steering {
    cpu: CpuId,
    until: Instant,
}

impl Steering {
    /// The same one for another while, or one to another processor if it is over or there was none.
    ///
    /// `None` if there is no other processor, or the task has come to that one: then it ends, before there is another.
    pub(crate) fn renewed(last: Option<Self>) -> Option<Self> {
        let now = fabric::now();
        let cpu = last
            .filter(|steering| now < steering.until)
            .map(|steering| steering.cpu)
            .or_else(other_cpu)?;
        (cpu != CpuId::current()).then_some(Self {
            cpu,
            until: now.after(HOLD),
        })
    }

    /// Who sends.
    pub(crate) fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Whether nobody has renewed it in time.
    pub(crate) fn is_over(&self) -> bool {
        self.until < fabric::now()
    }
}
