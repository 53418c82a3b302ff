// SPDX-License-Identifier: GPL-2.0

//! Devices as the connection manager has them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::ib::PortCaps;
use crate::sync::{
    Cx,
    Held,
    Sleepable,
    Tracked,
    Unlocked,
    Watch, //
};
use core::convert::Infallible;
use kernel::error::to_result;
use kernel::prelude::*;
use sib_bindings as bindings;

/// A device that the manager has.
///
/// # Invariants
///
/// `raw` is registered.
pub(super) struct Link {
    raw: *mut bindings::ib_device,
}

// SAFETY: The device is used by thread-safe functions alone, and only while it is registered.
unsafe impl Send for Link {}
// SAFETY: As above.
unsafe impl Sync for Link {}

impl Link {
    /// Notes a device.
    ///
    /// # Safety
    ///
    /// The device stays registered until the owner has been dropped.
    pub(super) unsafe fn new(raw: *mut bindings::ib_device) -> Result<Tracked<Self>> {
        // INVARIANT: As promised.
        Tracked::new::<Infallible>(Self { raw })
    }
}

/// A device, until the manager has let go of it. After that all calls fail with `ENODEV`.
pub struct Adapter {
    link: Watch<Link>,
    ports: u32,
}

impl Adapter {
    pub(super) fn new(link: &Held<Link>) -> Self {
        Self {
            link: link.watcher(),
            // SAFETY: The device is alive while its link is held, and this never changes.
            ports: unsafe { (*link.raw).phys_port_cnt },
        }
    }

    /// The number of ports, which are numbered from 1.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    fn link(&self) -> Result<Held<Link>> {
        self.link.hold().ok_or(ENODEV)
    }

    /// Changes what the port says of itself to the subnet.
    pub fn change_caps(
        &self,
        _cx: &mut Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        port: u32,
        set: PortCaps,
        clear: PortCaps,
    ) -> Result {
        let link = self.link()?;
        let mut change = bindings::ib_port_modify {
            set_port_cap_mask: set.bits(),
            clr_port_cap_mask: clear.bits(),
            ..Default::default()
        };
        // SAFETY: The device is registered while its link is held; ib_core checks the port.
        to_result(unsafe { bindings::ib_modify_port(link.raw, port, 0, &mut change) })
    }
}
