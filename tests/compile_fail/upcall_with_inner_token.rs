// SPDX-License-Identifier: GPL-2.0
// E0308 mismatched types

//! An upcall with the token of a lock.

use rdma::sync::{CqLock, Cx, LevelLock, Unlocked};

fn upcall(_cx: &mut Cx<'_, Unlocked>) {}

/// Passes the token that it has.
pub fn test(cx: &mut Cx<'_, Unlocked>, cq: &LevelLock<u32, CqLock>) {
    let mut guard = cx.lock(cq);
    let (_, mut cx) = guard.split();
    upcall(&mut cx);
}
