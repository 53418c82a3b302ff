// SPDX-License-Identifier: GPL-2.0

//! What the administrator wants of each HCA, by its name. It may be said before the HCA is there.

use crate::params;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};

/// Whose connections are made on an HCA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those of ib_cm and of this manager.
    Shared,
    /// Those of this manager: ib_cm is kept off.
    Dedicated,
}

impl Mode {
    /// Dedicated, if `is_dedicated`.
    pub(crate) fn new(is_dedicated: bool) -> Self {
        if is_dedicated {
            Self::Dedicated
        } else {
            Self::Shared
        }
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Dedicated => "dedicated",
        }
    }

    /// The one that is called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Shared, Self::Dedicated]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// What is wanted of one HCA.
#[pin_data]
pub(crate) struct Policy {
    name: KVec<u8>,
    #[pin]
    mode: Mutex<Mode>,
}

impl Policy {
    /// That of the HCA which is, or will be called `name`.
    pub(crate) fn new(name: &[u8], mode: Mode) -> Result<Arc<Self>> {
        let mut owned = KVec::new();
        owned.extend_from_slice(name, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                name: owned,
                mode <- new_mutex!(mode, "Policy::mode"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The mode of an HCA of this name that is made now.
    pub(crate) fn mode(&self) -> Mode {
        *self.mode.lock()
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        *self.mode.lock() = mode;
    }
}

/// All that has been said.
#[pin_data]
pub(crate) struct Policies {
    #[pin]
    list: Mutex<KVec<Arc<Policy>>>,
}

impl Policies {
    /// Nothing has been said.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "Policies::list"),
        })
    }

    pub(crate) fn add(&self, policy: Arc<Policy>) -> Result {
        Ok(self.list.lock().push(policy, GFP_KERNEL)?)
    }

    pub(crate) fn remove(&self, policy: &Arc<Policy>) {
        self.list.lock().retain(|known| !Arc::ptr_eq(known, policy));
    }

    /// The mode of an HCA that is made now by this name.
    pub(crate) fn mode_of(&self, name: &[u8]) -> Mode {
        let list = self.list.lock();
        let policy = list.iter().find(|policy| policy.name() == name);
        policy.map_or_else(|| Mode::new(params::dedicated()), |policy| policy.mode())
    }
}
