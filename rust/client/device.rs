// SPDX-License-Identifier: GPL-2.0

//! HCAs, and how a module learns of them.
//!
//! C header: `include/rdma/ib_verbs.h`.

use crate::path::Address;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::ffi::{
    c_int,
    c_void, //
};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Release, //
};
use kernel::sync::{
    Arc,
    ArcBorrow,
    Refcount, //
};
use kernel::types::Opaque;
use sib_bindings as bindings;

/// An HCA: `struct ib_device`.
///
/// The reference of an [`ARef`](kernel::sync::aref::ARef) keeps it registered: the removal of the HCA waits until the
/// last one is dropped. So a module drops what it has, and all that is on the HCA, in [`Client::remove`].
///
/// # Invariants
///
/// Registered with ib_core.
#[repr(transparent)]
pub struct Device(Opaque<bindings::ib_device>);

// SAFETY: Locked by ib_core.
unsafe impl Send for Device {}
// SAFETY: As above.
unsafe impl Sync for Device {}

// SAFETY: ib_core waits for its count of references to become zero before it frees a device.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: By the invariant; `Refcount` has the layout of `refcount_t`.
        let count = unsafe { &*(&raw const (*self.0.get()).refcount).cast::<Refcount>() };
        // It is not zero, since the device is registered.
        count.inc();
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { bindings::ib_device_put(obj.as_ptr().cast()) };
    }
}

impl Device {
    /// The device behind a pointer.
    ///
    /// # Safety
    ///
    /// It stays registered during `'a`.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // INVARIANT: Promised by the caller.
        // SAFETY: Promised by the caller; the layout is that of `ib_device`.
        unsafe { &*ptr.cast::<Self>() }
    }

    /// For the C side.
    pub fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    /// Its node GUID.
    pub fn node_guid(&self) -> u64 {
        // SAFETY: By the invariant. It is written before the registration.
        u64::from_be(unsafe { (*self.0.get()).node_guid })
    }

    /// What port `port` is called at present; the GID is the first one of its table.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port.
    pub fn address(&self, port: u32) -> Result<Address> {
        let mut attr = MaybeUninit::<bindings::ib_port_attr>::zeroed();
        // SAFETY: By the invariant; `attr` is valid for the call.
        to_result(unsafe { bindings::ib_query_port(self.as_raw(), port, attr.as_mut_ptr()) })?;
        let mut gid = MaybeUninit::<bindings::ib_gid>::zeroed();
        // SAFETY: As above.
        to_result(unsafe { bindings::rdma_query_gid(self.as_raw(), port, 0, gid.as_mut_ptr()) })?;
        Ok(Address {
            // SAFETY: It was zero, and the kernel has written to it.
            lid: unsafe { (*attr.as_ptr()).lid as u16 },
            // SAFETY: A GID is just its bytes.
            gid: unsafe { gid.as_ptr().cast::<[u8; 16]>().read() },
        })
    }
}

/// A client of ib_core: who is told of HCAs that come and go.
///
/// # Examples
///
/// ```ignore
/// struct Mine { /* ... */ }
///
/// impl Client for Mine {
///     type Data = ARef<Device>;
///     const NAME: &'static CStr = c"mine";
///
///     fn add(this: ArcBorrow<'_, Self>, device: &Device) -> Result<ARef<Device>> {
///         Ok(device.into())
///     }
///
///     fn remove(this: ArcBorrow<'_, Self>, device: ARef<Device>) {}
/// }
///
/// let registration = Registration::new(mine)?;
/// ```
pub trait Client: Send + Sync + Sized + 'static {
    /// What it has for each HCA.
    type Data: Send + Sync + 'static;

    /// What ib_core calls it.
    const NAME: &'static CStr;

    /// Learns of an HCA, of sib or not, or of one that was there before the registration.
    ///
    /// # Errors
    ///
    /// After an error it never hears of the HCA again.
    fn add(this: ArcBorrow<'_, Self>, device: &Device) -> Result<Self::Data>;

    /// An HCA goes, or the registration ends. `data` are what [`Client::add`] has returned. All identifiers and queue
    /// pairs on the HCA are to be dropped before this returns.
    fn remove(this: ArcBorrow<'_, Self>, data: Self::Data);
}

/// The client of this module. ib_core does not tell a callback which client it is for.
///
/// # Invariants
///
/// `owner` is null, or comes from [`Arc::into_raw`] of what the callbacks in `client` are for.
struct Slot {
    client: Opaque<bindings::ib_client>,
    owner: Atomic<*mut c_void>,
}

// SAFETY: `client` is ib_core's while there is an owner, and otherwise written by the one task that sets it. Owners are
// `Send` and `Sync`.
unsafe impl Sync for Slot {}

// INVARIANT: Nobody owns it.
static SLOT: Slot = Slot {
    client: Opaque::zeroed(),
    owner: Atomic::new(ptr::null_mut()),
};

/// The registration of a client. When it is dropped, all HCAs are taken from the client; that waits for its calls.
///
/// # Invariants
///
/// The owner of [`SLOT`] is a `T`, and ib_core knows the client.
pub struct Registration<T: Client>(PhantomData<Arc<T>>);

impl<T: Client> Registration<T> {
    /// Registers `client`. When this returns it has been told of all HCAs that are there.
    ///
    /// # Errors
    ///
    /// `EBUSY` if this module has registered one.
    pub fn new(client: Arc<T>) -> Result<Self> {
        let owner = Arc::into_raw(client).cast_mut().cast();
        if SLOT.owner.cmpxchg(ptr::null_mut(), owner, Full).is_err() {
            // SAFETY: Nobody has got it.
            drop(unsafe { Arc::<T>::from_raw(owner.cast_const().cast()) });
            return Err(EBUSY);
        }
        // INVARIANT: Just made by `into_raw`.
        let raw = SLOT.client.get();
        // SAFETY: ib_core does not know the client, and this task has set the owner. All may be zero in it.
        unsafe {
            raw.write_bytes(0, 1);
            (*raw).name = T::NAME.as_char_ptr();
            (*raw).add = Some(add::<T>);
            (*raw).remove = Some(remove::<T>);
        }
        // SAFETY: It is initialised, and stays in place.
        let registered = to_result(unsafe { bindings::ib_register_client(raw) });
        if let Err(err) = registered {
            // SAFETY: ib_core has told the client of the end of all devices, and does not know it any more.
            unsafe { Self::vacate() };
            return Err(err);
        }
        // INVARIANT: As above.
        Ok(Self(PhantomData))
    }

    /// # Safety
    ///
    /// The owner of [`SLOT`] is a `T`, and ib_core does not know the client.
    unsafe fn vacate() {
        let owner = SLOT.owner.load(Acquire);
        SLOT.owner.store(ptr::null_mut(), Release);
        // SAFETY: By the invariant of `SLOT`.
        drop(unsafe { Arc::<T>::from_raw(owner.cast_const().cast()) });
    }
}

impl<T: Client> Drop for Registration<T> {
    /// May sleep.
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant.
        unsafe { bindings::ib_unregister_client(SLOT.client.get()) };
        // SAFETY: Just unregistered.
        unsafe { Self::vacate() };
    }
}

/// # Safety
///
/// Called by ib_core for the client in [`SLOT`], whose owner is a `T`.
unsafe fn owner<'a, T: Client>() -> ArcBorrow<'a, T> {
    // SAFETY: It stays until ib_core has forgotten the client.
    unsafe { ArcBorrow::from_raw(SLOT.owner.load(Acquire).cast_const().cast()) }
}

/// # Safety
///
/// Called by ib_core for the client in [`SLOT`], whose owner is a `T`.
unsafe extern "C" fn add<T: Client>(device: *mut bindings::ib_device) -> c_int {
    from_result(|| {
        let room = KBox::<T::Data>::new_uninit(GFP_KERNEL)?;
        // SAFETY: Called by ib_core, and the device stays registered for the call.
        let data = unsafe { T::add(owner::<T>(), Device::from_raw(device))? };
        let data = KBox::into_raw(KBox::write(room, data)).cast();
        // SAFETY: Called by ib_core, for this device.
        unsafe { bindings::ib_set_client_data(device, SLOT.client.get(), data) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by ib_core for the client in [`SLOT`], whose owner is a `T`, with what [`add`] has set.
unsafe extern "C" fn remove<T: Client>(_: *mut bindings::ib_device, data: *mut c_void) {
    // SAFETY: It comes from `add`, and ib_core gives it back once.
    let data = unsafe { KBox::<T::Data>::from_raw(data.cast()) };
    // SAFETY: Called by ib_core.
    T::remove(unsafe { owner::<T>() }, KBox::into_inner(data));
}
