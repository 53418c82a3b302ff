// SPDX-License-Identifier: GPL-2.0

//! The place where the connection manager registers, and where it is called from.
//!
//! This is in the module of the driver, and the manager in another one, which may be unloaded at any time.
//! Calls from the driver are sections of an SRCU domain: whoever takes the manager away, or a device from
//! it, waits for those under way.

use super::adapter::{
    Adapter,
    Link, //
};
use crate::ib::{
    Mad,
    MAD_SIZE, //
};
use crate::sync::{
    Cx,
    Sleepable,
    Tracked,
    Unlocked, //
};
use core::ptr;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};
use kernel::types::Opaque;
use sib_bindings as bindings;

/// What becomes of a datagram, or of an event of a queue pair, that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is not for this manager alone: others get it.
    Pass,
    /// It was for this manager, and nobody else sees it.
    Consumed,
}

/// What has become of a connected queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// It has gone over to its alternate path. If this is consumed, its owner is not told.
    Migrated,
    /// Its peer has gone over to a path that is not its alternate one. If this is consumed, its owner is not told.
    MigrationFailed,
    /// Its peer has been heard on the path that it has gone over to. Its owner is not told.
    Heard,
    /// Its owner has put it into RESET or ERR, or destroys it: its connection is over.
    Gone,
}

/// A datagram that somebody in the kernel sends from QP1 of a port.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The port.
    pub port: u32,
    /// The LID that it goes to.
    pub dlid: u16,
    /// The datagram, as on the wire.
    pub mad: &'a [u8; MAD_SIZE],
}

/// A manager without its types. The first argument of all functions is `context`.
pub(super) struct Entry {
    pub(super) context: *const c_void,
    /// Makes what the manager keeps for a device.
    pub(super) add:
        unsafe fn(*const c_void, Cx<'_, Unlocked>, Sleepable<'_>, Adapter) -> Result<*mut c_void>,
    /// Has the manager let go of a device, of which it keeps the second argument.
    pub(super) remove: unsafe fn(*const c_void, Cx<'_, Unlocked>, Sleepable<'_>, *mut c_void),
    /// Drops the second argument.
    pub(super) forget: unsafe fn(*mut c_void),
    /// Offers a datagram for a device, of which the manager keeps the second argument.
    pub(super) receive: unsafe fn(
        *const c_void,
        *const c_void,
        Cx<'_, Unlocked>,
        Sleepable<'_>,
        &Mad<'_>,
    ) -> Verdict,
    /// Tells what has become of a queue pair of a device, given by its number, as [`Self::receive`].
    pub(super) qp_event: unsafe fn(
        *const c_void,
        *const c_void,
        Cx<'_, Unlocked>,
        Sleepable<'_>,
        u32,
        QpEvent,
    ) -> Verdict,
    /// Shows a datagram that leaves a device, as [`Self::receive`], in any context.
    pub(super) sent: unsafe fn(*const c_void, *const c_void, Cx<'_, Unlocked>, &Sent<'_>),
    /// Whether a device to be made with this name is to be the manager's alone.
    pub(super) claims: unsafe fn(*const c_void, &[u8]) -> bool,
    /// What ib_core knows of the manager.
    pub(super) client: Opaque<bindings::ib_client>,
}

/// The manager that ib_core is to know of: its callbacks are not told whose they are.
///
/// # Invariants
///
/// What it points to stays valid until it is null again, which is after ib_core has forgotten the client.
static LISTED: Atomic<*mut Entry> = Atomic::new(ptr::null_mut());

/// The manager that the driver calls.
///
/// # Invariants
///
/// Null, or the same as [`LISTED`], while ib_core knows the client.
static OPEN: Atomic<*mut Entry> = Atomic::new(ptr::null_mut());

/// Not 0 if the manager wants to see what others send, so that nothing is lost on this otherwise.
static LISTENS: Atomic<u32> = Atomic::new(0);

/// What ib_core keeps for a device, by its client.
struct Kept {
    /// What the manager keeps.
    data: *mut c_void,
    link: Tracked<Link>,
}

/// Registers a manager with ib_core and with the driver.
///
/// # Errors
///
/// `EBUSY` if there is one.
///
/// # Safety
///
/// `entry` stays valid until [`withdraw`] has returned, or this has failed, and its functions do what they say.
pub(super) unsafe fn put(
    entry: *mut Entry,
    _cx: &mut Cx<'_, Unlocked>,
    _s: Sleepable<'_>,
) -> Result {
    // INVARIANT: Promised by the caller.
    LISTED
        .cmpxchg(ptr::null_mut(), entry, Full)
        .map_err(|_| EBUSY)?;
    // SAFETY: Valid by the promise; no reference is made.
    let client = unsafe { (*entry).client.get() };
    // SAFETY: `client` is initialised, and stays in place until it is unregistered.
    let registered = to_result(unsafe { bindings::ib_register_client(client) });
    match registered {
        // Not earlier, since the number that ib_core gives to the client is part of a call.
        // INVARIANT: ib_core knows the client.
        Ok(()) => {
            OPEN.store(entry, Release);
        }
        Err(_) => LISTED.store(ptr::null_mut(), Release),
    }
    registered
}

/// Takes the manager away, and waits for all calls of it.
///
/// # Safety
///
/// `entry` is what [`put`] has put, and this is the only call for that.
pub(super) unsafe fn withdraw(entry: *mut Entry) {
    LISTENS.store(0, Relaxed);
    OPEN.store(ptr::null_mut(), Release);
    quiesce();
    // SAFETY: Registered by `put`. This has all devices removed.
    unsafe { bindings::ib_unregister_client((*entry).client.get()) };
    LISTED.store(ptr::null_mut(), Release);
}

/// Waits for all calls from the driver that have begun.
fn quiesce() {
    // SAFETY: Callable in a task that holds no lock which such a call wants, or is made under: ib_core lets go of its own,
    // and clients have lent none.
    unsafe { bindings::sib_helper_manager_quiesce() };
}

/// The client for an [`Entry`].
pub(super) fn client(name: &'static CStr) -> Opaque<bindings::ib_client> {
    Opaque::new(bindings::ib_client {
        name: name.as_char_ptr(),
        add: Some(added),
        remove: Some(removed),
        ..Default::default()
    })
}

/// A device that is new, or new for the manager.
///
/// # Safety
///
/// Called by ib_core for the client of the entry that is listed.
unsafe extern "C" fn added(device: *mut bindings::ib_device) -> c_int {
    from_result(|| {
        // SAFETY: ib_core lends the device.
        if !unsafe { bindings::sib_helper_ib_device_is_ours(device) } {
            return Err(ENODEV);
        }
        // SAFETY: Null, or valid until ib_core has forgotten the client.
        let entry = unsafe { LISTED.load(Acquire).as_ref() }.ok_or(ENODEV)?;
        // SAFETY: The registration of devices and of clients are tasks that hold no lock of ours.
        let (mut cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
        let kept = KBox::<Kept>::new_uninit(GFP_KERNEL)?;
        // SAFETY: The device is registered until `removed` has dropped the link.
        let link = unsafe { Link::new(device) }?;
        let adapter = Adapter::new(&link.hold().ok_or(ENODEV)?);
        // SAFETY: The entry is valid.
        match unsafe { (entry.add)(entry.context, cx.reborrow(), s, adapter) } {
            Ok(data) => {
                let kept = KBox::into_raw(KBox::write(kept, Kept { data, link }));
                // SAFETY: ib_core is in the call that adds the device to the client.
                unsafe { bindings::ib_set_client_data(device, entry.client.get(), kept.cast()) };
                Ok(0)
            }
            Err(err) => {
                link.close(&mut cx, s);
                Err(err)
            }
        }
    })
}

/// A device that goes, or goes for the manager.
///
/// # Safety
///
/// Called by ib_core for the client of the entry that is listed, with what [`added`] has set.
unsafe extern "C" fn removed(device: *mut bindings::ib_device, data: *mut c_void) {
    // SAFETY: Valid until ib_core has forgotten the client.
    let Some(entry) = (unsafe { LISTED.load(Acquire).as_ref() }) else {
        return;
    };
    // SAFETY: As in `added`.
    let (mut cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
    // SAFETY: ib_core is in the call that removes the device from the client.
    unsafe { bindings::ib_set_client_data(device, entry.client.get(), ptr::null_mut()) };
    quiesce();
    // SAFETY: `added` made it, and nobody can find it any more.
    let kept = unsafe { KBox::<Kept>::from_raw(data.cast()) };
    // SAFETY: The entry is valid, and the data come from its `add`.
    unsafe { (entry.remove)(entry.context, cx.reborrow(), s, kept.data) };
    kept.link.close(&mut cx, s);
    // SAFETY: As above.
    unsafe { (entry.forget)(kept.data) };
}

/// A section in which the manager stays.
struct Section(c_int);

impl Section {
    fn enter() -> Self {
        // SAFETY: Callable in any context.
        Self(unsafe { bindings::sib_helper_manager_enter() })
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // SAFETY: Entered by `enter`, in this same context.
        unsafe { bindings::sib_helper_manager_leave(self.0) };
    }
}

/// Calls the manager, if there is one, with what it keeps for the device.
///
/// # Safety
///
/// `device` is a device of this driver, and in use for the call.
unsafe fn with_manager<R>(
    device: *mut bindings::ib_device,
    call: impl FnOnce(&Entry, *const c_void) -> R,
) -> Option<R> {
    let _section = Section::enter();
    // SAFETY: Null, or valid for the section, which `withdraw` waits for.
    let entry = unsafe { OPEN.load(Acquire).as_ref() }?;
    // SAFETY: ib_core knows the client by the invariant, and the device is in use.
    let kept = unsafe { bindings::sib_helper_ib_get_client_data(device, entry.client.get()) };
    // SAFETY: Null, or what `added` has set, which `removed` frees after the section.
    let kept = unsafe { kept.cast::<Kept>().as_ref() }?;
    Some(call(entry, kept.data))
}

/// Whether there is a manager that wants a device for itself, which is to be made and called `name`. May sleep.
pub fn claims(name: &[u8]) -> bool {
    let _section = Section::enter();
    // SAFETY: Null, or valid for the section, which `withdraw` waits for.
    let entry = unsafe { OPEN.load(Acquire).as_ref() };
    // SAFETY: The context is its own.
    entry.is_some_and(|entry| unsafe { (entry.claims)(entry.context, name) })
}

/// Offers a datagram to the manager, if there is one.
///
/// # Safety
///
/// `device` is a device of this driver, and in use for the call.
pub(crate) unsafe fn offer(
    device: *mut bindings::ib_device,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    mad: &Mad<'_>,
) -> Verdict {
    // SAFETY: Promised by the caller; the data are those that the entry has made for the device.
    let verdict = unsafe {
        with_manager(device, |entry, data| {
            (entry.receive)(entry.context, data, cx, s, mad)
        })
    };
    verdict.unwrap_or(Verdict::Pass)
}

/// Shows the manager what others send, from now on until it is taken away.
pub fn listen() {
    LISTENS.store(1, Relaxed);
}

/// Whether there is a manager that wants to see what others send.
#[inline]
pub(crate) fn is_listening() -> bool {
    LISTENS.load(Relaxed) != 0
}

/// Shows the manager, if there is one, a datagram that leaves. In any context.
///
/// # Safety
///
/// As [`offer`].
pub(crate) unsafe fn sent(
    device: *mut bindings::ib_device,
    cx: Cx<'_, Unlocked>,
    datagram: &Sent<'_>,
) {
    // SAFETY: As in `offer`.
    unsafe {
        with_manager(device, |entry, data| {
            (entry.sent)(entry.context, data, cx, datagram);
        })
    };
}

/// Tells the manager, if there is one, what has become of a queue pair.
///
/// # Safety
///
/// As [`offer`].
pub(crate) unsafe fn qp_event(
    device: *mut bindings::ib_device,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    qpn: u32,
    event: QpEvent,
) -> Verdict {
    // SAFETY: As in `offer`.
    let verdict = unsafe {
        with_manager(device, |entry, data| {
            (entry.qp_event)(entry.context, data, cx, s, qpn, event)
        })
    };
    verdict.unwrap_or(Verdict::Pass)
}
