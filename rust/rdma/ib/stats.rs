// SPDX-License-Identifier: GPL-2.0

//! The counters of a port that `rdma statistic` shows.

use core::ptr;
use kernel::prelude::*;
use sib_bindings as bindings;

/// The name of a counter.
#[repr(transparent)]
pub struct CounterName(bindings::rdma_stat_desc);

// SAFETY: The names are static text that nobody writes to.
unsafe impl Sync for CounterName {}

impl CounterName {
    /// A counter of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: name.as_ptr().cast(),
            flags: 0,
            priv_: ptr::null(),
        })
    }
}

/// The descriptions of `names` for the C side.
pub(super) fn descriptions(names: &'static [CounterName]) -> *const bindings::rdma_stat_desc {
    names.as_ptr().cast()
}
