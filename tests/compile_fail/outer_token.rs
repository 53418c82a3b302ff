// SPDX-License-Identifier: GPL-2.0
// E0499 cannot borrow `cx` as mutable more than once at a time

//! The outer token while an inner guard lives.

use rdma::sync::{CqLock, Cx, LevelLock, QpLock, Unlocked};

/// Goes around the order by means of the first token.
pub fn test(mut cx: Cx<'_, Unlocked>, qp: &LevelLock<u32, QpLock>, cq: &LevelLock<u32, CqLock>) {
    let inner = cx.lock(cq);
    let outer = cx.lock(qp);
    drop(inner);
    drop(outer);
}
