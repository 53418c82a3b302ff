// SPDX-License-Identifier: GPL-2.0
// E0505 cannot move out of `outer` because it is borrowed

//! The outer guard released first, which would restore the interrupt state too early.

use rdma::sync::{CqLock, Cx, LevelLock, QpLock, Unlocked};

/// Releases in the wrong order.
pub fn test(mut cx: Cx<'_, Unlocked>, qp: &LevelLock<u32, QpLock>, cq: &LevelLock<u32, CqLock>) {
    let mut outer = cx.lock(qp);
    let (_, mut cx) = outer.split();
    let mut inner = cx.lock(cq);
    drop(outer);
    *inner += 1;
}
