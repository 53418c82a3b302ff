// SPDX-License-Identifier: GPL-2.0
// E0277 cannot be shared between threads safely

//! A task that sleeps where it is not to be preempted.

use kernel::time::Delta;
use rdma::sync::{Cx, Sleepable, Unlocked};

/// Takes the right to sleep along.
pub fn test(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
    sleepable.irqs_on().unpreempted(cx, |cx, _| {
        sleepable.pause(cx, Delta::from_millis(1));
    });
}
