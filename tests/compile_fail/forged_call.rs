// SPDX-License-Identifier: GPL-2.0
// E0616 field `number` of struct `Call` is private

//! An order whose number says that its structure is larger than it is.

use kernel::prelude::*;
use rdma::call::Call;

/// Writes behind the structure of another module.
pub fn test(mut call: Call<'_>, number: u32) -> Result {
    call.number = number;
    call.write(&[0u8; 4096])
}
