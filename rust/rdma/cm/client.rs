// SPDX-License-Identifier: GPL-2.0

//! Connection managers, and their registration.

use super::adapter::Adapter;
use super::hook::{
    self,
    Entry,
    QpEvent,
    Sent,
    Verdict, //
};
use crate::ib::Mad;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// A connection manager.
pub trait Manager: Send + Sync + Sized + 'static {
    /// What it keeps for a device.
    type Device: Send + Sync + 'static;

    /// Whether a device to be made with this name is to be the manager's alone: a *dedicated* one, which ib_cm is kept
    /// off as long as it is there. May sleep.
    fn claims(&self, name: &[u8]) -> bool;

    /// Learns of a device, or of one that was there before the registration.
    ///
    /// # Errors
    ///
    /// After an error the manager never hears of the device again.
    fn add(&self, cx: Cx<'_, Unlocked>, s: Sleepable<'_>, adapter: Adapter)
        -> Result<Self::Device>;

    /// Lets go of a device, of which no more datagrams come. Its adapter sends until this returns, and
    /// refuses everything afterwards.
    fn remove(&self, cx: Cx<'_, Unlocked>, s: Sleepable<'_>, device: &Self::Device);

    /// Looks at a datagram of communication management that has come from the network. What is passed and has come to a
    /// dedicated device is lost.
    fn receive(
        &self,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Self::Device,
        mad: &Mad<'_>,
    ) -> Verdict;

    /// Learns what has become of a queue pair, given by its number, before its owner does.
    ///
    /// Its owner may hold locks of its own, and may be what frees memory.
    fn qp_event(
        &self,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        device: &Self::Device,
        qpn: u32,
        event: QpEvent,
    ) -> Verdict;

    /// Sees a datagram that somebody in the kernel is about to send from QP1, this manager included. In any context,
    /// with locks held and interrupts off. Called only after [`listen`](super::listen).
    fn sent(&self, cx: Cx<'_, Unlocked>, device: &Self::Device, datagram: &Sent<'_>);
}

/// A manager and what the driver knows of it.
struct Listed<M> {
    entry: Entry,
    manager: M,
}

/// The registration of a manager, until it is dropped, which waits for all calls of it.
///
/// # Invariants
///
/// `listed` is registered, and this is its only owner.
pub struct Registration<M: Manager> {
    listed: NonNull<Listed<M>>,
}

// SAFETY: The registration may be ended by any task, and `M` is `Send`.
unsafe impl<M: Manager> Send for Registration<M> {}
// SAFETY: A shared reference gives access to the manager alone, which is `Sync`.
unsafe impl<M: Manager> Sync for Registration<M> {}

impl<M: Manager> Registration<M> {
    /// Registers `manager`, which has learnt of all devices when this returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is another one.
    pub fn new(
        name: &'static CStr,
        manager: M,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
    ) -> Result<Self> {
        let listed = KBox::<Listed<M>>::new_uninit(GFP_KERNEL)?;
        let listed = KBox::write(
            listed,
            Listed {
                entry: Entry {
                    context: core::ptr::null(),
                    add: add::<M>,
                    remove: remove::<M>,
                    forget: forget::<M>,
                    receive: receive::<M>,
                    qp_event: qp_event::<M>,
                    sent: sent::<M>,
                    claims: claims::<M>,
                    client: hook::client(name),
                },
                manager,
            },
        );
        let listed = NonNull::from(KBox::leak(listed));
        // SAFETY: Alive; no reference is made.
        let entry = unsafe { &raw mut (*listed.as_ptr()).entry };
        // No unique reference is made any more, which would end what this pointer is good for.
        // SAFETY: Alive, and nobody else knows of it.
        unsafe { (*entry).context = (&raw const (*listed.as_ptr()).manager).cast() };
        // SAFETY: It stays in place until `drop` has withdrawn it. The functions are for this manager.
        if let Err(err) = unsafe { hook::put(entry, cx, s) } {
            // SAFETY: Not registered, and ours.
            drop(unsafe { KBox::from_raw(listed.as_ptr()) });
            return Err(err);
        }
        // INVARIANT: Registered.
        Ok(Self { listed })
    }

    /// The manager.
    pub fn manager(&self) -> &M {
        // SAFETY: Alive by the invariant.
        unsafe { &self.listed.as_ref().manager }
    }
}

impl<M: Manager> Drop for Registration<M> {
    /// Must happen in a task that holds no lock.
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant, and not withdrawn before.
        unsafe { hook::withdraw(&raw mut (*self.listed.as_ptr()).entry) };
        // SAFETY: Registered nowhere any more, and ours by the invariant.
        drop(unsafe { KBox::from_raw(self.listed.as_ptr()) });
    }
}

/// # Safety
///
/// As `add` of an [`Entry`] whose context is an `M`.
unsafe fn add<M: Manager>(
    context: *const c_void,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    adapter: Adapter,
) -> Result<*mut c_void> {
    let room = KBox::<M::Device>::new_uninit(GFP_KERNEL)?;
    // SAFETY: The context is an `M` that is alive for the call.
    let device = unsafe { &*context.cast::<M>() }.add(cx, s, adapter)?;
    Ok(KBox::into_raw(KBox::write(room, device)).cast())
}

/// # Safety
///
/// As `remove` of an [`Entry`] whose context is an `M`.
unsafe fn remove<M: Manager>(
    context: *const c_void,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    data: *mut c_void,
) {
    // SAFETY: The context is an `M` that is alive for the call, and the data come from `add`.
    let (manager, device) = unsafe { (&*context.cast::<M>(), &*data.cast::<M::Device>()) };
    manager.remove(cx, s, device);
}

/// # Safety
///
/// `data` come from [`add`], and nobody uses them any more.
unsafe fn forget<M: Manager>(data: *mut c_void) {
    // SAFETY: Promised by the caller.
    drop(unsafe { KBox::<M::Device>::from_raw(data.cast()) });
}

/// # Safety
///
/// As `receive` of an [`Entry`] whose context is an `M`.
unsafe fn receive<M: Manager>(
    context: *const c_void,
    data: *const c_void,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    mad: &Mad<'_>,
) -> Verdict {
    // SAFETY: The context is an `M` that is alive for the call, and so are the data, which come from `add`.
    let (manager, device) = unsafe { (&*context.cast::<M>(), &*data.cast::<M::Device>()) };
    manager.receive(cx, s, device, mad)
}

/// # Safety
///
/// As `qp_event` of an [`Entry`] whose context is an `M`.
unsafe fn qp_event<M: Manager>(
    context: *const c_void,
    data: *const c_void,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    qpn: u32,
    event: QpEvent,
) -> Verdict {
    // SAFETY: As in `receive`.
    let (manager, device) = unsafe { (&*context.cast::<M>(), &*data.cast::<M::Device>()) };
    manager.qp_event(cx, s, device, qpn, event)
}

/// # Safety
///
/// As `sent` of an [`Entry`] whose context is an `M`.
unsafe fn sent<M: Manager>(
    context: *const c_void,
    data: *const c_void,
    cx: Cx<'_, Unlocked>,
    datagram: &Sent<'_>,
) {
    // SAFETY: As in `receive`.
    let (manager, device) = unsafe { (&*context.cast::<M>(), &*data.cast::<M::Device>()) };
    manager.sent(cx, device, datagram);
}

/// # Safety
///
/// As `claims` of an [`Entry`] whose context is an `M`.
unsafe fn claims<M: Manager>(context: *const c_void, name: &[u8]) -> bool {
    // SAFETY: The context is an `M` that is alive for the call.
    unsafe { &*context.cast::<M>() }.claims(name)
}
