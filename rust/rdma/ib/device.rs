// SPDX-License-Identifier: GPL-2.0

//! The life of a device.
//!
//! ```text
//!  UnregisteredDevice ──register()──► Device, in use ──┬─ unregister()
//!         │                                            ├─ unregister_queued()
//!       drop()                                         ├─ `rdma link del`
//!                                                      └─ removal of the module
//!                                                                │
//!                                            Driver::removed() ◄─┘
//! ```
//!
//! Whoever unregisters first does it; the others wait until it is done. C header:
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::link::Registrar;
use super::obj::Obj;
use super::ops::{
    DeviceObj,
    DeviceState,
    OpsTable, //
};
use super::upcall::DeviceLink;
use super::{
    DeviceUpcall,
    Driver,
    LOCAL_DMA_LKEY, //
};
use crate::cm;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::types::NotThreadSafe;
use sib_bindings as bindings;

/// The write commands of uverbs that librxe needs beside those that all devices have.
const CMD_MASK: u64 = 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
    | 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;

/// What is known of a device before it is registered.
pub struct DeviceInit<'a> {
    /// The number of ports.
    pub ports: u32,
    /// The GUID of the node, in host order.
    pub node_guid: u64,
    /// The node description, filled up with zeros.
    pub node_desc: [u8; 64],
    /// The number of completion vectors, at least 1: vector 0 has no CPU of its own, vector `n` has CPU `n - 1`,
    /// see [`CqUpcall::complete`](super::CqUpcall::complete).
    pub num_comp_vectors: u32,
    /// The parent in the device tree; without one the device is a virtual one.
    pub parent: Option<&'a kernel::device::Device>,
}

/// A reference to a device of ib_core: to its memory, whether it is registered or not.
///
/// # Invariants
///
/// The reference count of the embedded `struct device` counts this reference.
pub(crate) struct DeviceRef(NonNull<bindings::ib_device>);

// SAFETY: The count may be changed by any task, and unregistration is thread-safe.
unsafe impl Send for DeviceRef {}
// SAFETY: As above.
unsafe impl Sync for DeviceRef {}

/// The embedded `struct device`.
///
/// # Safety
///
/// The memory of the device is alive.
unsafe fn embedded(raw: NonNull<bindings::ib_device>) -> *mut kernel::bindings::device {
    // SAFETY: Alive by the promise; no reference is made.
    unsafe { (&raw mut (*raw.as_ptr()).__bindgen_anon_1).cast() }
}

impl DeviceRef {
    /// Counts a reference.
    ///
    /// # Safety
    ///
    /// The memory of the device is alive.
    pub(crate) unsafe fn new(raw: NonNull<bindings::ib_device>) -> Self {
        // SAFETY: The memory is alive by the promise; `dev` is initialised at the allocation.
        unsafe { kernel::bindings::get_device(embedded(raw)) };
        // INVARIANT: Just counted.
        Self(raw)
    }

    /// Has the driver end the work of users, unless the device is not registered any more.
    ///
    /// # Safety
    ///
    /// The device is of driver `D`, which has given it its value.
    pub(super) unsafe fn end<D: Driver>(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let raw = self.0.as_ptr();
        // SAFETY: The memory is alive by the invariant.
        if unsafe { bindings::sib_helper_ib_device_try_get(raw) } {
            // SAFETY: The device stays registered, and has its value, until the reference is given back.
            let state = unsafe { DeviceObj::<D>::get(raw) };
            D::ending(cx.reborrow(), s, &state.handle);
            // SAFETY: Taken above.
            unsafe { bindings::ib_device_put(raw) };
        }
    }

    /// Unregisters the device unless that has been done, and waits until it is.
    pub(super) fn unregister(&self, _cx: &mut Cx<'_, Unlocked>, _s: Sleepable<'_>) {
        // SAFETY: The memory is alive by the invariant. ib_core does nothing if the device is not
        // registered, and serialises callers by a lock of the device.
        unsafe { bindings::ib_unregister_device(self.0.as_ptr()) };
    }

    /// Whether the device is registered, or is being moved to another network namespace.
    pub(super) fn is_registered(&self) -> bool {
        // SAFETY: The memory is alive by the invariant.
        unsafe { bindings::sib_helper_ib_device_registered(self.0.as_ptr()) }
    }
}

impl PartialEq for DeviceRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        // SAFETY: The memory is alive by the invariant.
        unsafe { Self::new(self.0) }
    }
}

impl Drop for DeviceRef {
    fn drop(&mut self) {
        // SAFETY: Gives back the reference that is counted by the invariant.
        unsafe { kernel::bindings::put_device(embedded(self.0)) };
    }
}

/// A device that nobody knows of yet.
///
/// # Invariants
///
/// `raw` has been allocated, is not registered, and is ours alone.
pub struct UnregisteredDevice<'a, D: Driver> {
    raw: NonNull<bindings::ib_device>,
    link: Arc<DeviceLink>,
    registrar: &'a Registrar<D>,
    /// The parent, until the registration has a reference of its own.
    parent: Option<ARef<kernel::device::Device>>,
    _single: NotThreadSafe,
}

impl<'a, D: Driver> UnregisteredDevice<'a, D> {
    /// Allocates a device.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there are no ports or no completion vectors, `ENOMEM` when there is no memory.
    pub fn new(registrar: &'a Registrar<D>, init: &DeviceInit<'_>) -> Result<Self> {
        if init.ports == 0 || init.num_comp_vectors == 0 {
            return Err(EINVAL);
        }
        let num_comp_vectors = c_int::try_from(init.num_comp_vectors).map_err(|_| EINVAL)?;
        // SAFETY: May be called by any task with a size that holds the C struct.
        let raw = unsafe { bindings::sib_helper_ib_alloc_device(DeviceObj::<D>::SIZE) };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: `Self::drop` and `dealloc_driver` close the link before the device goes away.
        let link = match unsafe { DeviceLink::new(raw.as_ptr(), init.ports) } {
            Ok(link) => link,
            Err(e) => {
                // SAFETY: Just allocated.
                unsafe { bindings::ib_dealloc_device(raw.as_ptr()) };
                return Err(e);
            }
        };
        // INVARIANT: Just allocated.
        let this = Self {
            raw,
            link,
            registrar,
            parent: init.parent.map(ARef::from),
            _single: NotThreadSafe,
        };
        // SAFETY: The device is alive, and ours alone. All pointers stored live as long as the module, but
        // the parent, to which there is a reference until the registration takes one.
        unsafe {
            let dev = raw.as_ptr();
            (*dev).node_type = bindings::RDMA_NODE_IB_CA as u8;
            (*dev).node_guid = init.node_guid.to_be();
            (*dev).node_desc = init.node_desc;
            (*dev).phys_port_cnt = init.ports;
            (*dev).num_comp_vectors = num_comp_vectors;
            (*dev).local_dma_lkey = LOCAL_DMA_LKEY;
            (*dev).uverbs_cmd_mask |= CMD_MASK;
            (*dev).name_assign_type = bindings::rdma_nl_name_assign_type_RDMA_NAME_ASSIGN_TYPE_USER;
            (*dev).link_ops = registrar.link_ops();
            // `kernel::device::Device` is transparent.
            (*embedded(raw)).parent = init.parent.map_or(ptr::null_mut(), |parent| {
                (&raw const *parent).cast_mut().cast()
            });
        }
        Ok(this)
    }

    /// The upcalls of the device, which the driver may keep.
    pub fn upcall(&self) -> DeviceUpcall {
        self.link.upcall()
    }

    /// Registers the device under `name`; calls of `D` come from here on.
    ///
    /// [`Driver::removed`] is called once for `handle`, also if the registration fails.
    ///
    /// # Errors
    ///
    /// `ENFILE` when the name is taken, `EINVAL` for one with a `%`, which ib_core would take for a format; and whatever
    /// ib_core and the driver's queries return.
    pub fn register(
        self,
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        name: &CStr,
        handle: D::Device,
    ) -> Result<Device<D>> {
        let this = ManuallyDrop::new(self);
        let raw = this.raw.as_ptr();
        // SAFETY: The `ManuallyDrop` is not used for this field any more.
        let link = unsafe { ptr::read(&this.link) };
        // SAFETY: As above.
        let _parent = unsafe { ptr::read(&this.parent) };
        // SAFETY: The device is alive until `dealloc_driver` has run.
        let device = Device::<D>::new(unsafe { DeviceRef::new(this.raw) }, link.clone());
        let ops = bindings::ib_device_ops {
            owner: this.registrar.module().as_ptr(),
            ..OpsTable::<D>::OPS
        };
        let state = DeviceState::<D> {
            handle,
            link: link.clone(),
            events: this.registrar.events(),
        };
        // SAFETY: The device is ours alone until it is registered; the table is copied. From here on
        // `dealloc_driver` takes the value.
        unsafe {
            Obj::store(raw, state);
            bindings::ib_set_device_ops(raw, &ops);
        }
        cm::serve::<D>();
        // The list must know the device before somebody can remove the module.
        let registered = this
            .registrar
            .begin(&mut cx, s, &device.raw)
            .and_then(|()| {
                let ret = if name.to_bytes().contains(&b'%') {
                    Err(EINVAL)
                } else {
                    // SAFETY: The device is complete. The name is copied, and no format. Without a DMA device
                    // addresses are virtual.
                    to_result(unsafe {
                        bindings::ib_register_device(raw, name.as_char_ptr(), ptr::null_mut())
                    })
                };
                this.registrar.end(&device.raw);
                ret
            });
        if let Err(e) = registered {
            // SAFETY: The device is not registered, so that its deallocation is left to us.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(e);
        }
        link.catch_up();
        Ok(device)
    }
}

impl<D: Driver> Drop for UnregisteredDevice<'_, D> {
    fn drop(&mut self) {
        // SAFETY: Devices are made by tasks that may sleep, and this type does not leave its task; no lock of
        // ours can be held, as the drop of what sleeps is to happen without one.
        let (mut cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
        self.link.close(&mut cx, s);
        // SAFETY: Not registered, and ours alone, by the invariant. The table has not been set, so that no
        // function of ours is called.
        unsafe { bindings::ib_dealloc_device(self.raw.as_ptr()) };
    }
}

/// A device that has been registered, and may have been removed since.
pub struct Device<D: Driver> {
    raw: DeviceRef,
    link: Arc<DeviceLink>,
    driver: PhantomData<D>,
}

impl<D: Driver> Device<D> {
    fn new(raw: DeviceRef, link: Arc<DeviceLink>) -> Self {
        Self {
            raw,
            link,
            driver: PhantomData,
        }
    }

    /// Removes the device, or waits until it is removed by somebody else.
    ///
    /// Not to be called from within a call of [`Driver`], which would wait for itself.
    pub fn unregister(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.raw.unregister(cx, s);
    }

    /// Whether `name` is the name of the device now.
    pub fn is_called(&self, name: &[u8]) -> bool {
        let raw = self.raw.0.as_ptr();
        // SAFETY: The memory is alive by the invariant of `DeviceRef`; the C side reads `name.len()` bytes.
        unsafe { bindings::sib_helper_ib_device_is_called(raw, name.as_ptr().cast(), name.len()) }
    }

    /// Removes the device soon. For callers that hold locks of the network stack.
    pub fn unregister_queued(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        // SAFETY: The device has been registered as one of `D`, so it has its value until it is removed.
        unsafe { self.raw.end::<D>(cx, s) };
        self.link.doom();
    }
}

impl<D: Driver> Clone for Device<D> {
    fn clone(&self) -> Self {
        Self::new(self.raw.clone(), self.link.clone())
    }
}
