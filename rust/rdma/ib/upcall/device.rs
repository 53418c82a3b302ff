// SPDX-License-Identifier: GPL-2.0

//! Upcalls of devices.

use super::new_event;
use crate::ib::PortEvent;
use crate::sync::{
    Cx,
    Gate,
    Sleepable,
    Unlocked, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};
use kernel::sync::Arc;
use sib_bindings as bindings;

/// A device of ib_core, until it is removed.
///
/// # Invariants
///
/// `raw` is alive while `gate` is open or has passes.
#[pin_data]
pub(in crate::ib) struct DeviceLink {
    #[pin]
    gate: Gate,
    raw: *mut bindings::ib_device,
    ports: u32,
    /// An event came before clients could be told.
    missed: Atomic<bool>,
    /// The device is to be removed.
    is_doomed: Atomic<bool>,
}

// SAFETY: The pointer is used by thread-safe upcalls alone, and only while it is alive.
unsafe impl Send for DeviceLink {}
// SAFETY: As above.
unsafe impl Sync for DeviceLink {}

impl DeviceLink {
    /// Makes the link of a device that has just been allocated.
    ///
    /// # Safety
    ///
    /// `raw` stays alive until [`Self::close`] has returned, or the link is dropped.
    pub(in crate::ib) unsafe fn new(
        raw: *mut bindings::ib_device,
        ports: u32,
    ) -> Result<Arc<Self>> {
        // INVARIANT: Promised by the caller.
        Arc::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
                raw,
                ports,
                missed: Atomic::new(false),
                is_doomed: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Ends the upcalls, and waits for those under way.
    pub(in crate::ib) fn close(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.gate.close(cx, s);
    }

    /// A handle for the driver.
    pub(in crate::ib) fn upcall(self: &Arc<Self>) -> DeviceUpcall {
        DeviceUpcall(self.clone())
    }

    /// Makes up for what came while nobody could get a reference to the device: ib_core reads everything again, or
    /// removes it.
    ///
    /// ib_core fills its caches before it registers the device, and takes events only afterwards. It takes none either
    /// while it moves the device to another network namespace.
    pub(in crate::ib) fn catch_up(&self) {
        self.with_registered(|| ());
    }

    /// Has ib_core remove the device soon: one that is being moved to another network namespace when it has come to
    /// clients again.
    pub(in crate::ib) fn doom(&self) {
        // If the move ends right now, either this or `catch_up` sees the other one's write.
        self.is_doomed.xchg(true, Full);
        self.catch_up();
    }

    /// Hands the event to ib_core, or notes that one was missed.
    fn tell(&self, port: u32, event: PortEvent) {
        // Clients look their own ports up by the number, and do not check it.
        if !(1..=self.ports).contains(&port) {
            return;
        }
        if self.with_registered(|| self.dispatch(port, event)) {
            return;
        }
        // If the registration ends right now, either this or `catch_up` sees the other one's write.
        self.missed.xchg(true, Full);
        self.catch_up();
    }

    /// Runs `f` while the device is registered, after making up for what was missed; `false` if it is not.
    fn with_registered(&self, f: impl FnOnce()) -> bool {
        let Some(_pass) = self.gate.enter() else {
            return true;
        };
        // SAFETY: Alive while the gate has a pass.
        if !unsafe { bindings::sib_helper_ib_device_try_get(self.raw) } {
            return false;
        }
        if self.missed.xchg(false, Full) {
            for port in 1..=self.ports {
                self.dispatch(port, PortEvent::PkeyChange);
                self.dispatch(port, PortEvent::ClientReregister);
            }
        }
        if self.is_doomed.xchg(false, Full) {
            // SAFETY: The device is registered while we have the reference. The module waits in the removal of its
            // registrar until the work is done.
            unsafe { bindings::ib_unregister_device_queued(self.raw) };
        }
        f();
        // SAFETY: Gives back the reference that `sib_helper_ib_device_try_get` took.
        unsafe { bindings::ib_device_put(self.raw) };
        true
    }

    /// Hands the event to ib_core. Called by [`Self::with_registered`] alone, while the device is registered.
    fn dispatch(&self, port: u32, event: PortEvent) {
        // SAFETY: The members of the union are numbers and pointers, of which this event has the port.
        let event = new_event(self.raw, event.raw(), |element| unsafe {
            *element.port_num.as_mut() = port;
        });
        // SAFETY: The device is registered. The event is copied, with an atomic allocation.
        unsafe { bindings::ib_dispatch_event(&event) };
    }
}

/// The upcalls of a device.
#[derive(Clone)]
pub struct DeviceUpcall(Arc<DeviceLink>);

impl DeviceUpcall {
    /// Tells ib_core of an event of a port, from 1. Clients are told soon, from a workqueue.
    ///
    /// One of a port that is not there is dropped. Events of a device that is not registered yet are made up for at
    /// the end of its registration. Callable in any context that holds no lock.
    pub fn dispatch(&self, _cx: &mut Cx<'_, Unlocked>, port: u32, event: PortEvent) {
        self.0.tell(port, event);
    }
}
