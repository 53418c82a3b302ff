// SPDX-License-Identifier: GPL-2.0
// E0277 the trait bound `Mine: rdma::sealed::Sealed` is not satisfied

//! A timer that says itself where it expires.

use rdma::timer::Mode;

/// One that the C side does not have.
pub enum Mine {}

impl Mode for Mine {
    type Token<'a> = ();
    const RAW: kernel::bindings::hrtimer_mode = !0;

    unsafe fn token<'a>() -> Self::Token<'a> {}
}
