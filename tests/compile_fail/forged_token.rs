// SPDX-License-Identifier: GPL-2.0
// E0133 call to unsafe function `Cx::<'_, Unlocked>::root` is unsafe

//! A token out of nothing.

use rdma::sync::{Cx, LevelLock, QpLock};

/// Locks without a token of the caller.
pub fn test(qp: &LevelLock<u32, QpLock>) {
    let mut cx = Cx::root();
    *cx.lock(qp) += 1;
}
