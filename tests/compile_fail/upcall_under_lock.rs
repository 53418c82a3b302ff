// SPDX-License-Identifier: GPL-2.0
// E0499 cannot borrow `*cx` as mutable more than once at a time

//! An upcall while a lock is held.

use rdma::sync::{CqLock, Cx, LevelLock, Unlocked};

fn upcall(_cx: &mut Cx<'_, Unlocked>, _wc: u32) {}

/// Tells of a completion without releasing the queue.
pub fn test(cx: &mut Cx<'_, Unlocked>, cq: &LevelLock<u32, CqLock>) {
    let guard = cx.lock(cq);
    upcall(cx, *guard);
    drop(guard);
}
