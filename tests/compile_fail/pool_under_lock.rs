// SPDX-License-Identifier: GPL-2.0
// E0499 cannot borrow `cx` as mutable more than once at a time

//! A packet of a pool while a lock is held, and so interrupts are off.

use rdma::net::SkbPool;
use rdma::sync::{Cx, FabricLock, IrqsOn, LevelLock, Unlocked};

/// Allocates without releasing the fabric.
pub fn test(
    mut cx: Cx<'_, Unlocked>,
    irqs: IrqsOn<'_>,
    fabric: &LevelLock<usize, FabricLock>,
    pool: &SkbPool,
) {
    let guard = cx.lock(fabric);
    let _ = pool.alloc(*guard, &mut cx, irqs);
    drop(guard);
}
