// SPDX-License-Identifier: GPL-2.0
// error: lifetime may not live long enough

//! A token kept beyond the context that it belongs to.

use rdma::sync::{Cx, Unlocked};

/// Remembers a token.
pub struct Keeper(pub Option<Cx<'static, Unlocked>>);

/// Stores the token for later.
pub fn test(keeper: &mut Keeper, cx: Cx<'_, Unlocked>) {
    keeper.0 = Some(cx);
}
