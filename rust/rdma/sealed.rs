// SPDX-License-Identifier: GPL-2.0

//! Traits that only types of this crate have.

/// What such a trait demands, and nobody else can give.
pub trait Sealed {}
