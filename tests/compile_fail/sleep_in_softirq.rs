// SPDX-License-Identifier: GPL-2.0
// E0308 mismatched types

//! A wait in a softirq, which has no right to sleep.

use rdma::net::{Arrivals, Receive};
use rdma::sync::{Cx, Gate, IrqsOn, Unlocked};

/// Something with a gate.
pub struct Fabric(pub Gate);

impl Receive for Fabric {
    fn receive(&self, _arrivals: &mut Arrivals<'_>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        self.0.close(&mut cx, irqs);
    }
}
