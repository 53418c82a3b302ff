// SPDX-License-Identifier: GPL-2.0
// E0277 the trait bound `Mine: rdma::sealed::Sealed` is not satisfied

//! A level of its own, for which the order says nothing.

use rdma::sync::{After, Unlocked};

/// Comes after all, and before all.
pub enum Mine {}

impl After<Unlocked> for Mine {}
