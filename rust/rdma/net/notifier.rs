// SPDX-License-Identifier: GPL-2.0

//! Events of network devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::NetDevice;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::ptr::NonNull;
use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

/// What has happened to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// It is there: it is new, or has come from another network namespace, in which it has been reported as going away.
    Register,
    /// It has been brought up.
    Up,
    /// It has been brought down.
    Down,
    /// Its carrier or another part of its state has changed.
    Change,
    /// It has another hardware address.
    Address,
    /// It has another MTU.
    Mtu,
    /// It has another name.
    Rename,
    /// It is going away, and waits until all references to it are dropped.
    Unregister,
}

impl DeviceEvent {
    /// Converts one of `NETDEV_*`; `None` for those that are of no interest.
    fn from_raw(event: c_ulong) -> Option<Self> {
        Some(match u32::try_from(event).ok()? {
            sib_bindings::netdev_cmd_NETDEV_REGISTER => Self::Register,
            sib_bindings::netdev_cmd_NETDEV_UP => Self::Up,
            sib_bindings::netdev_cmd_NETDEV_DOWN => Self::Down,
            sib_bindings::netdev_cmd_NETDEV_CHANGE => Self::Change,
            sib_bindings::netdev_cmd_NETDEV_CHANGEADDR => Self::Address,
            sib_bindings::netdev_cmd_NETDEV_CHANGEMTU => Self::Mtu,
            sib_bindings::netdev_cmd_NETDEV_CHANGENAME => Self::Rename,
            sib_bindings::netdev_cmd_NETDEV_UNREGISTER => Self::Unregister,
            _ => return None,
        })
    }
}

/// Who wants to know of events.
pub trait Notify: Send + Sync + 'static {
    /// Learns of an event. The caller holds the RTNL mutex, so the call must not wait for anything that does.
    fn notify(
        &self,
        event: DeviceEvent,
        device: &NetDevice,
        cx: Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
    );
}

/// A registration for the events of all devices in all namespaces, until it is dropped.
///
/// At its beginning it learns [`DeviceEvent::Register`] of all devices, and [`DeviceEvent::Up`] of those that are up.
/// Dropping sleeps, and takes the RTNL mutex; the devices that exist then are reported as going away. With the last one
/// this waits until all sockets are closed.
///
/// # Invariants
///
/// `block` is registered, and this is its only owner.
pub struct Notifier<T: Notify> {
    block: NonNull<Block<T>>,
}

/// What the C side has on its list.
struct Block<T> {
    raw: Opaque<bindings::notifier_block>,
    target: T,
}

// SAFETY: The registration may be ended by any task, and `T` is `Send`.
unsafe impl<T: Notify> Send for Notifier<T> {}
// SAFETY: A shared reference gives access to nothing but `T`, which is `Sync`.
unsafe impl<T: Notify> Sync for Notifier<T> {}

impl<T: Notify> Notifier<T> {
    /// Registers `target`.
    pub fn register(
        target: T,
        _cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
    ) -> Result<Self> {
        let raw = bindings::notifier_block {
            notifier_call: Some(Self::trampoline),
            ..Default::default()
        };
        let block = KBox::new(
            Block {
                raw: Opaque::new(raw),
                target,
            },
            GFP_KERNEL,
        )?;
        let block = NonNull::from(KBox::leak(block));
        // INVARIANT: Registered below; on failure it is freed without being unregistered.
        let this = core::mem::ManuallyDrop::new(Self { block });
        // SAFETY: The block stays in place until it is unregistered.
        let err = to_result(unsafe { sib_bindings::sib_helper_notifier_register(this.raw()) });
        if let Err(err) = err {
            // SAFETY: Not registered, and ours.
            drop(unsafe { KBox::from_raw(block.as_ptr()) });
            return Err(err);
        }
        Ok(core::mem::ManuallyDrop::into_inner(this))
    }

    /// Who is told.
    pub fn target(&self) -> &T {
        // SAFETY: Live by the invariant.
        unsafe { &self.block.as_ref().target }
    }

    fn raw(&self) -> *mut bindings::notifier_block {
        // SAFETY: Live by the invariant.
        unsafe { self.block.as_ref() }.raw.get()
    }

    /// What the notifier chain calls.
    ///
    /// # Safety
    ///
    /// `block` is the `raw` of a registered block, and `info` belongs to an event of a device.
    unsafe extern "C" fn trampoline(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        /// Lets the chain go on.
        const NOTIFY_DONE: c_int = 0;

        let Some(event) = DeviceEvent::from_raw(event) else {
            return NOTIFY_DONE;
        };
        // SAFETY: `block` is the field of a `Block` by the promise above; `Opaque` is transparent.
        let block = unsafe { &*container_of!(Opaque::cast_from(block), Block<T>, raw) };
        // SAFETY: `info` belongs to an event of a device.
        let device = unsafe { sib_bindings::sib_helper_notifier_netdev(info) };
        // SAFETY: The device of an event is alive.
        if let Ok(device) = unsafe { NetDevice::get(device) } {
            // SAFETY: The chain runs in a task that holds the RTNL mutex and no lock of ours.
            let cx = unsafe { Cx::root() };
            // SAFETY: As above; a mutex does not keep it from sleeping.
            let sleepable = unsafe { Sleepable::new() };
            block.target.notify(event, &device, cx, sleepable);
        }
        NOTIFY_DONE
    }
}

impl<T: Notify> Drop for Notifier<T> {
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant. The C side waits for callbacks that are running.
        unsafe { sib_bindings::sib_helper_notifier_unregister(self.raw()) };
        // SAFETY: Ours by the invariant, and nobody uses it any more.
        drop(unsafe { KBox::from_raw(self.block.as_ptr()) });
    }
}
