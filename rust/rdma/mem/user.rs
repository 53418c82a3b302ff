// SPDX-License-Identifier: GPL-2.0

//! Memory of a user, of either kind.

use super::{
    OnDemand,
    Umem, //
};

/// Memory of a user that is registered.
///
/// Dropping it may sleep: it must be dropped by a task that holds no lock. Keep it in a
/// [`Tracked`](crate::sync::Tracked) object to have that by construction.
pub enum UserMemory {
    /// It stays in place.
    Pinned(Umem),
    /// Its pages come and go.
    OnDemand(OnDemand),
}

impl UserMemory {
    /// The size in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Pinned(umem) => umem.region().len(),
            Self::OnDemand(memory) => memory.size(),
        }
    }
}
