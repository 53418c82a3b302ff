// SPDX-License-Identifier: GPL-2.0

//! How many objects of a kind an HCA has.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use rdma::sync::Atomic;

/// The objects of a kind.
struct Quota {
    most: u32,
    used: Atomic<u32>,
}

/// A number of objects of a kind that an HCA may have.
#[derive(Clone)]
pub(crate) struct Allowance(Arc<Quota>);

/// One of them, until this is dropped.
pub(crate) struct Share(Arc<Quota>);

impl Allowance {
    /// `most` objects.
    pub(crate) fn new(most: u32) -> Result<Self> {
        let quota = Quota {
            most,
            used: Atomic::new(0),
        };
        Ok(Self(Arc::new(quota, GFP_KERNEL)?))
    }

    /// Takes one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there are as many as there may be.
    pub(crate) fn take(&self) -> Result<Share> {
        let share = Share(self.0.clone());
        let used = self.0.used.fetch_add(1, Relaxed);
        // One that is too many is given back by its end.
        (used < self.0.most).then_some(share).ok_or(ENOMEM)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Relaxed);
    }
}
