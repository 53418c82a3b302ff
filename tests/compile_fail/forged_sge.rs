// SPDX-License-Identifier: GPL-2.0
// E0451 field `0` of struct `LocalSge` is private

//! An entry of a client in the kernel out of nothing.

use rdma::ib::{LocalSge, Sge};

/// Names whatever memory there is.
pub fn test(sge: Sge) -> LocalSge {
    LocalSge { 0: sge }
}
