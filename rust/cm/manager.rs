// SPDX-License-Identifier: GPL-2.0

//! What the driver asks of the manager.

use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use rdma::cm::{
    Adapter,
    Manager,
    Verdict, //
};
use rdma::ib::{
    Mad,
    PortCaps, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};

/// What has become of datagrams.
pub(crate) struct Tally {
    passed: Atomic<u64>,
    consumed: Atomic<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            passed: Atomic::new(0),
            consumed: Atomic::new(0),
        }
    }

    fn count(&self, verdict: Verdict) {
        match verdict {
            Verdict::Pass => &self.passed,
            Verdict::Consumed => &self.consumed,
        }
        .fetch_add(1, Relaxed);
    }

    /// Those that were left to ib_cm, and those that were taken.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.passed.load(Relaxed), self.consumed.load(Relaxed))
    }
}

/// The manager that shares devices with ib_cm.
pub(crate) struct Shared {
    tally: Arc<Tally>,
}

impl Shared {
    pub(crate) fn new(tally: Arc<Tally>) -> Self {
        Self { tally }
    }
}

/// Says on all ports of a device whether there is a connection manager.
fn announce(
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    adapter: &Adapter,
    set: PortCaps,
    clear: PortCaps,
) -> Result {
    (1..=adapter.ports()).try_for_each(|port| adapter.change_caps(cx, s, port, set, clear))
}

impl Manager for Shared {
    type Device = Adapter;

    fn add(&self, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, adapter: Adapter) -> Result<Adapter> {
        announce(&mut cx, s, &adapter, PortCaps::CM, PortCaps::NONE)?;
        Ok(adapter)
    }

    fn remove(&self, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>, adapter: &Adapter) {
        let _ = announce(&mut cx, s, adapter, PortCaps::NONE, PortCaps::CM);
    }

    fn receive(
        &self,
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        _adapter: &Adapter,
        _mad: &Mad<'_>,
    ) -> Verdict {
        let verdict = Verdict::Pass;
        self.tally.count(verdict);
        verdict
    }
}
