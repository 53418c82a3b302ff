// SPDX-License-Identifier: GPL-2.0
// E0277 lock level `QpLock` must not be acquired while `QpLock` is held

//! Two queue pairs at once.

use rdma::sync::{Cx, LevelLock, QpLock, Unlocked};

/// Locks one level twice.
pub fn test(
    mut cx: Cx<'_, Unlocked>,
    first: &LevelLock<u32, QpLock>,
    second: &LevelLock<u32, QpLock>,
) {
    let mut guard = cx.lock(first);
    let (_, mut cx) = guard.split();
    *cx.lock(second) += 1;
}
