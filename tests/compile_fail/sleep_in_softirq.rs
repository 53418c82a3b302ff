// SPDX-License-Identifier: GPL-2.0
// E0308 mismatched types

//! A wait in a softirq, which has no right to sleep.

use core::net::SocketAddr;
use rdma::net::{Receive, Skb};
use rdma::sync::{Cx, Gate, IrqsOn, Unlocked};

/// Something with a gate.
pub struct Fabric(pub Gate);

impl Receive for Fabric {
    fn receive(&self, _packet: Skb, _from: SocketAddr, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        self.0.close(&mut cx, irqs);
    }
}
