// SPDX-License-Identifier: GPL-2.0
// compiles

//! Locks in the order, some levels skipped, tokens passed down.

use rdma::sync::{After, CqLock, Cx, DevLock, Irq, LevelLock, QpLock, Unlocked};

fn complete<L, I: Irq>(mut cx: Cx<'_, L, I>, cq: &LevelLock<u32, CqLock>)
where
    CqLock: After<L>,
{
    *cx.lock(cq) += 1;
}

/// Locks three levels, twice.
pub fn test(
    mut cx: Cx<'_, Unlocked>,
    dev: &LevelLock<u32, DevLock>,
    qp: &LevelLock<u32, QpLock>,
    cq: &LevelLock<u32, CqLock>,
) {
    {
        let mut guard = cx.lock(dev);
        let (_, mut cx) = guard.split();
        let mut guard = cx.lock(qp);
        let (_, mut cx) = guard.split();
        complete(cx.reborrow(), cq);
        complete(cx, cq);
    }
    complete(cx, cq);
}
