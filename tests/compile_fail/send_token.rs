// SPDX-License-Identifier: GPL-2.0
// E0277 cannot be sent between threads safely

//! A token given to another thread.

use rdma::sync::{Cx, Unlocked};

fn spawn<F: FnOnce() + Send>(_f: F) {}

/// Moves the token into what another thread runs.
pub fn test(cx: Cx<'static, Unlocked>) {
    spawn(move || drop(cx));
}
