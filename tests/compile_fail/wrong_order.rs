// SPDX-License-Identifier: GPL-2.0
// E0277 lock level `QpLock` must not be acquired while `CqLock` is held

//! A queue pair's lock under that of a completion queue.

use rdma::sync::{CqLock, Cx, LevelLock, QpLock, Unlocked};

/// Locks two levels the wrong way round.
pub fn test(mut cx: Cx<'_, Unlocked>, qp: &LevelLock<u32, QpLock>, cq: &LevelLock<u32, CqLock>) {
    let mut guard = cx.lock(cq);
    let (_, mut cx) = guard.split();
    *cx.lock(qp) += 1;
}
