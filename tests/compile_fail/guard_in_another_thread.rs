// SPDX-License-Identifier: GPL-2.0
// E0277 cannot be sent between threads safely

//! A lock released by another thread.

use rdma::sync::{Any, Guard, QpLock};

fn spawn<F: FnOnce() + Send>(_f: F) {}

/// Moves the guard into what another thread runs.
pub fn test(guard: Guard<'static, u32, QpLock, Any>) {
    spawn(move || drop(guard));
}
