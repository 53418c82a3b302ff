// SPDX-License-Identifier: GPL-2.0
// E0594 cannot assign to data in dereference of

//! An entry of a client in the kernel with another address.

use rdma::ib::LocalSge;

/// Names memory that the client has not named.
pub fn test(sge: &mut LocalSge, addr: u64) {
    sge.addr = addr;
}
