// SPDX-License-Identifier: GPL-2.0
// E0277 the trait bound `Mine: rdma::sealed::Sealed` is not satisfied

//! Work that says itself where it runs.

use rdma::sync::Sleepable;
use rdma::work::Place;

/// Where there is a token of another place.
pub enum Mine {}

impl Place for Mine {
    type Token<'a> = Sleepable<'a>;

    unsafe fn token<'a>() -> Sleepable<'a> {
        loop {}
    }
}
