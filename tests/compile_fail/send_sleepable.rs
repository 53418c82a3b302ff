// SPDX-License-Identifier: GPL-2.0
// E0277 cannot be sent between threads safely

//! The right to sleep given to another thread.

use rdma::sync::Sleepable;

fn spawn<F: FnOnce() + Send>(_f: F) {}

/// Moves the token into what another thread runs.
pub fn test(sleepable: Sleepable<'static>) {
    spawn(move || {
        let _ = sleepable.irqs_on();
    });
}
