// SPDX-License-Identifier: GPL-2.0

//! `rdma link add` and `rdma link del`, and the registration of the driver.
//!
//! A module that has a driver also says `alias: ["rdma-link-TYPE"]`, so that `rdma link add` loads it.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use super::device::DeviceRef;
use super::ops::DeviceObj;
use super::Driver;
use crate::net::NetDevice;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use crate::work::Queue;
use core::marker::PhantomData;
use core::ptr;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Release, //
};
use kernel::sync::{
    Arc,
    Mutex, //
};
use kernel::types::Opaque;
use sib_bindings as bindings;

/// A driver whose devices are made by `rdma link add`.
pub trait Link: Driver {
    /// Makes the device `name` on the network device `netdev`, and registers it.
    fn newlink(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        registrar: &Registrar<Self>,
        name: &CStr,
        netdev: &NetDevice,
    ) -> Result;
}

/// The registrar of the one registration that a module has: the C side hands nothing to `newlink`.
static CURRENT: Atomic<*mut c_void> = Atomic::new(ptr::null_mut());

/// A device of the driver.
struct Listed {
    device: DeviceRef,
    /// Its registration has not ended.
    registering: bool,
}

/// What devices need to be registered.
#[pin_data]
pub struct Registrar<D: Driver> {
    module: &'static ThisModule,
    /// Where events of queue pairs are told from.
    events: Arc<Queue>,
    /// Devices, until after they have been removed.
    #[pin]
    devices: Mutex<KVec<Listed>>,
    #[pin]
    link_ops: Opaque<bindings::rdma_link_ops>,
    /// Learns that a device has come to clients, and is taken from them.
    #[pin]
    client: Opaque<bindings::ib_client>,
    driver: PhantomData<D>,
}

// SAFETY: The C structs are changed by the C side alone, under locks of its own; all other members may be used
// by any task.
unsafe impl<D: Driver> Send for Registrar<D> {}
// SAFETY: As above.
unsafe impl<D: Driver> Sync for Registrar<D> {}

impl<D: Driver> Registrar<D> {
    pub(super) fn module(&self) -> &'static ThisModule {
        self.module
    }

    pub(super) fn events(&self) -> Arc<Queue> {
        self.events.clone()
    }

    pub(super) fn link_ops(&self) -> *const bindings::rdma_link_ops {
        self.link_ops.get()
    }

    /// Lists a device that is about to be registered, and forgets those that are gone.
    pub(super) fn begin(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &DeviceRef,
    ) -> Result {
        let mut devices = self.devices.lock();
        devices.retain(|listed| {
            if listed.registering || listed.device.is_registered() {
                return true;
            }
            // Its removal may not have left the driver yet; this waits until it has.
            listed.device.unregister(cx, s);
            false
        });
        devices.push(
            Listed {
                device: device.clone(),
                registering: true,
            },
            GFP_KERNEL,
        )?;
        Ok(())
    }

    /// Notes that the registration of a listed device has ended, whether it succeeded or not.
    pub(super) fn end(&self, device: &DeviceRef) {
        let mut devices = self.devices.lock();
        if let Some(listed) = devices.iter_mut().find(|listed| listed.device == *device) {
            listed.registering = false;
        }
    }

    /// Removes all devices.
    fn unregister_all(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let mut devices = core::mem::take(&mut *self.devices.lock());
        for listed in &devices {
            // SAFETY: Devices are listed by those that are about to register them as devices of `D`, with their
            // values.
            unsafe { listed.device.end::<D>(cx, s) };
            listed.device.unregister(cx, s);
        }
        devices.clear();
        self.events.flush(cx, s);
    }
}

/// The registration of a driver. Dropping it removes all devices of the driver, and waits for that.
///
/// # Invariants
///
/// `registrar` is in `CURRENT`, with its `client` and its `link_ops` registered.
pub struct Registration<D: Link> {
    registrar: Arc<Registrar<D>>,
}

impl<D: Link> Registration<D> {
    /// Registers the type of link, from the module's entry.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the module has a registration already, `EEXIST` when another one has that type of link, `ENOMEM` when
    /// there is no memory.
    pub fn new(module: &'static ThisModule, s: Sleepable<'_>) -> Result<Self> {
        let events = Arc::new(Queue::new(D::LINK_TYPE, s)?, GFP_KERNEL)?;
        let registrar = Arc::pin_init(
            pin_init!(Registrar {
                module,
                events,
                devices <- new_mutex!(KVec::new(), "ib::Registrar::devices"),
                link_ops: Opaque::new(bindings::rdma_link_ops {
                    type_: D::LINK_TYPE.as_char_ptr(),
                    newlink: Some(newlink::<D>),
                    dellink: Some(dellink::<D>),
                    // SAFETY: All members are pointers that may be null.
                    ..unsafe { core::mem::zeroed() }
                }),
                client: Opaque::new(bindings::ib_client {
                    name: D::LINK_TYPE.as_char_ptr(),
                    add: Some(added::<D>),
                    remove: Some(leaving::<D>),
                    rename: Some(renamed::<D>),
                    ..Default::default()
                }),
                driver: PhantomData,
            }),
            GFP_KERNEL,
        )?;
        let raw = (&raw const *registrar).cast_mut().cast();
        CURRENT
            .cmpxchg(ptr::null_mut(), raw, Full)
            .map_err(|_| EBUSY)?;
        // SAFETY: The struct is pinned, with a name that lives forever, until `drop` has unregistered it.
        let known = to_result(unsafe { bindings::ib_register_client(registrar.client.get()) });
        if let Err(e) = known {
            CURRENT.store(ptr::null_mut(), Release);
            return Err(e);
        }
        let link_ops = registrar.link_ops.get();
        // SAFETY: As above.
        let known = unsafe { bindings::sib_helper_rdma_link_register(link_ops) };
        if let Err(e) = to_result(known) {
            // SAFETY: Registered above.
            unsafe { bindings::ib_unregister_client(registrar.client.get()) };
            CURRENT.store(ptr::null_mut(), Release);
            return Err(e);
        }
        // INVARIANT: Just done.
        Ok(Self { registrar })
    }
}

impl<D: Link> Drop for Registration<D> {
    fn drop(&mut self) {
        // SAFETY: A module is removed by a task that may sleep and holds no lock.
        let (mut cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
        // SAFETY: Registered by the invariant. This waits for calls of `newlink` under way.
        unsafe { bindings::rdma_link_unregister(self.registrar.link_ops.get()) };
        self.registrar.unregister_all(&mut cx, s);
        // SAFETY: Registered by the invariant.
        unsafe { bindings::ib_unregister_client(self.registrar.client.get()) };
        // Not earlier: while there are devices of `D`, nobody is to register another driver, who would be told of them.
        CURRENT.store(ptr::null_mut(), Release);
    }
}

/// A device of any driver that is new, or was elsewhere.
///
/// # Safety
///
/// Called by ib_core with a device.
unsafe extern "C" fn added<D: Driver>(device: *mut bindings::ib_device) -> c_int {
    // SAFETY: ib_core lends the device.
    if !unsafe { bindings::sib_helper_ib_device_is_ours(device) } {
        return ENODEV.to_errno();
    }
    // SAFETY: The module has one registrar at a time, which is in `CURRENT` as long as there are devices. So this is one
    // of `D`, and has its value from before the registration until after it was taken from its clients.
    let state = unsafe { DeviceObj::<D>::get(device) };
    // SAFETY: The operation may sleep.
    let s = unsafe { Sleepable::new() };
    // SAFETY: ib_core ends a name by a zero, and does not change it during this call.
    let name = unsafe { CStr::from_char_ptr((&raw const (*device).name).cast()) };
    // A device that comes from another network namespace may have got another name there, and has missed what came on the
    // way.
    D::renamed(s, &state.handle, name);
    D::arrived(&state.handle);
    state.link.catch_up();
    0
}

/// A device that is taken from its clients. In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core for a device of `D` that [`added`] has accepted, once for each time.
unsafe extern "C" fn leaving<D: Driver>(device: *mut bindings::ib_device, _data: *mut c_void) {
    // SAFETY: The removal of clients may sleep, and is entered from ib_core.
    let (cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
    // SAFETY: The device has its value from before the registration until it is removed, which is after this.
    let state = unsafe { DeviceObj::<D>::get(device) };
    D::leaving(cx, s, &state.handle);
}

/// A device that has another name. In a task that may sleep, under the locks of ib_core's devices and of the device's
/// clients, which are shared.
///
/// # Safety
///
/// Called by ib_core for a device of `D` between [`added`] and [`leaving`].
unsafe extern "C" fn renamed<D: Driver>(device: *mut bindings::ib_device, _data: *mut c_void) {
    // SAFETY: The operation may sleep.
    let s = unsafe { Sleepable::new() };
    // SAFETY: The device has its value from before the registration until it is removed.
    let state = unsafe { DeviceObj::<D>::get(device) };
    // SAFETY: ib_core ends a name by a zero, and does not change it during this call.
    let name = unsafe { CStr::from_char_ptr((&raw const (*device).name).cast()) };
    D::renamed(s, &state.handle, name);
}

/// In a task that may sleep, under the lock of the link types, which is shared.
///
/// # Safety
///
/// Called by ib_core between the registration and the unregistration of the `link_ops` of a `Registrar<D>`,
/// with a name, and with a network device that it holds a reference to.
unsafe extern "C" fn newlink<D: Link>(
    name: *const c_char,
    netdev: *mut kernel::bindings::net_device,
) -> c_int {
    // SAFETY: The operation may sleep, and is entered from ib_core.
    let (cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
    from_result(|| {
        // SAFETY: There is one registration at a time, the one whose function this is. It stays until this
        // call has returned.
        let registrar = unsafe { &*CURRENT.load(Acquire).cast::<Registrar<D>>() };
        // SAFETY: ib_core lends the name for the call.
        let name = unsafe { CStr::from_char_ptr(name) };
        // SAFETY: ib_core has a reference for the length of the call.
        let netdev = unsafe { NetDevice::get(netdev) }?;
        D::newlink(cx, s, registrar, name, &netdev)?;
        Ok(0)
    })
}

/// `rdma link del`, before the device is unregistered. In a task that may sleep.
///
/// # Safety
///
/// Called by ib_core with a registered device of `D`, which stays that until this returns.
unsafe extern "C" fn dellink<D: Driver>(device: *mut bindings::ib_device) -> c_int {
    // SAFETY: The operation may sleep, and is entered from ib_core.
    let (cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
    // SAFETY: The device has its value from before the registration until it is removed, which is after this.
    let state = unsafe { DeviceObj::<D>::get(device) };
    D::ending(cx, s, &state.handle);
    0
}
