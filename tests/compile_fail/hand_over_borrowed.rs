// SPDX-License-Identifier: GPL-2.0
// E0505 cannot move out of `guard` because it is borrowed

//! The next lock borrowed from the data that are being released.

use kernel::sync::Arc;
use rdma::sync::{Cx, DevLock, LevelLock, QpLock, Unlocked};

/// Hands over to a lock that nothing keeps alive.
pub fn test(
    mut cx: Cx<'_, Unlocked>,
    dev: &LevelLock<Option<Arc<LevelLock<u32, QpLock>>>, DevLock>,
) {
    let guard = cx.lock(dev);
    if let Some(qp) = guard.as_ref() {
        let mut guard = guard.hand_over(qp);
        *guard += 1;
    }
}
