// SPDX-License-Identifier: GPL-2.0

//! Paths of queue pairs, which the connection manager looks at and loads by their numbers.
//!
//! ib_core knows nothing of it: the queue pair belongs to somebody else, and what ib_core keeps of its attributes
//! are that one's.

use crate::ib::{
    device_of,
    AhAttr,
    Driver,
    MigState,
    PortModify, //
};
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Release, //
};
use sib_bindings as bindings;

/// The other end of a connected queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpPeer {
    /// The number of the queue pair there.
    pub qpn: u32,
    /// The LID that packets go to.
    pub lid: u16,
}

/// How a connected queue pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathState {
    /// What it is connected to, as soon as it is.
    pub peer: QpPeer,
    /// It has not been in RTS yet.
    pub is_fresh: bool,
    /// It is in RTS.
    pub is_ready: bool,
    /// Its owner has loaded a path, or changed the state of migration: it is to be left alone.
    pub is_managed: bool,
    /// The state of migration.
    pub migration: MigState,
    /// Its peer has not been heard since it went over to the path in use.
    pub is_unheard: bool,
    /// The path in use.
    pub primary: AhAttr,
    /// Code of its local ACK timeout.
    pub timeout: u8,
    /// The alternate path, if there is one.
    pub alternate: Option<AhAttr>,
}

/// What a manager has to do with alternate paths, for the counters of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCount {
    /// A LAP was sent, for the first time or again.
    LapSent,
    /// A LAP was sent again.
    LapRetried,
    /// A LAP came for a connection of the manager.
    LapReceived,
    /// It had come before.
    LapDuplicate,
    /// It was older than another one, or the connection not established.
    LapStale,
    /// It was refused, and the consumer not asked.
    LapRefused,
    /// An APR was sent, for the first time or again.
    AprSent,
    /// An APR was sent again, since its LAP came again.
    AprRetried,
    /// An APR came for a connection of the manager.
    AprReceived,
    /// It had come before.
    AprDuplicate,
    /// Its LAP had been given up.
    AprStale,
}

/// What the driver does for the manager.
struct Calls {
    state: unsafe fn(*mut bindings::ib_device, Cx<'_, Unlocked>, u32) -> Result<PathState>,
    load: unsafe fn(*mut bindings::ib_device, Cx<'_, Unlocked>, u32, QpPeer, &AhAttr) -> Result,
    count: unsafe fn(*mut bindings::ib_device, u32, PathCount),
    is_dedicated: unsafe fn(*mut bindings::ib_device) -> bool,
    modify_port: unsafe fn(
        *mut bindings::ib_device,
        Cx<'_, Unlocked>,
        Sleepable<'_>,
        u32,
        &PortModify,
    ) -> Result,
}

/// The calls of the driver: there is one in a module.
///
/// # Invariants
///
/// Null before the first device is registered, then a value that stays.
static CALLS: Atomic<*mut Calls> = Atomic::new(ptr::null_mut());

/// The calls of `D`.
struct CallsOf<D>(core::marker::PhantomData<D>);

impl<D: Driver> CallsOf<D> {
    const CALLS: &'static Calls = &Calls {
        state: state::<D>,
        load: load::<D>,
        count: count::<D>,
        is_dedicated: is_dedicated::<D>,
        modify_port: modify_port::<D>,
    };
}

/// Notes which driver the devices have.
pub(crate) fn serve<D: Driver>() {
    // INVARIANT: A constant, which nobody writes to.
    CALLS.store(ptr::from_ref(CallsOf::<D>::CALLS).cast_mut(), Release);
}

fn calls() -> Result<&'static Calls> {
    // SAFETY: By the invariant.
    unsafe { CALLS.load(Acquire).as_ref() }.ok_or(ENODEV)
}

/// # Safety
///
/// `device` is a device of `D` that is in use for the call.
unsafe fn state<D: Driver>(
    device: *mut bindings::ib_device,
    cx: Cx<'_, Unlocked>,
    qpn: u32,
) -> Result<PathState> {
    // SAFETY: By the promise.
    D::path_state(cx, unsafe { device_of::<D>(device) }, qpn)
}

/// # Safety
///
/// As [`state`].
unsafe fn load<D: Driver>(
    device: *mut bindings::ib_device,
    cx: Cx<'_, Unlocked>,
    qpn: u32,
    peer: QpPeer,
    path: &AhAttr,
) -> Result {
    // SAFETY: By the promise.
    D::load_path(cx, unsafe { device_of::<D>(device) }, qpn, peer, path)
}

/// # Safety
///
/// As [`state`].
unsafe fn count<D: Driver>(device: *mut bindings::ib_device, port: u32, count: PathCount) {
    // SAFETY: By the promise.
    D::count_path(unsafe { device_of::<D>(device) }, port, count);
}

/// # Safety
///
/// As [`state`].
unsafe fn is_dedicated<D: Driver>(device: *mut bindings::ib_device) -> bool {
    // SAFETY: By the promise.
    D::is_dedicated(unsafe { device_of::<D>(device) })
}

/// # Safety
///
/// As [`state`].
unsafe fn modify_port<D: Driver>(
    device: *mut bindings::ib_device,
    cx: Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    port: u32,
    change: &PortModify,
) -> Result {
    // SAFETY: By the promise.
    D::modify_port(cx, s, unsafe { device_of::<D>(device) }, port, change)
}

/// Whether ib_cm is kept off a device.
///
/// # Safety
///
/// As [`state_of`].
pub(super) unsafe fn is_dedicated_to_manager(device: *mut bindings::ib_device) -> bool {
    // SAFETY: By the promise.
    calls().is_ok_and(|calls| unsafe { (calls.is_dedicated)(device) })
}

/// Changes what a port says of itself, as ib_core may not for a dedicated device.
///
/// # Safety
///
/// As [`state_of`].
pub(super) unsafe fn change_port(
    device: *mut bindings::ib_device,
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    port: u32,
    change: &PortModify,
) -> Result {
    // SAFETY: By the promise.
    unsafe { (calls()?.modify_port)(device, cx.reborrow(), s, port, change) }
}

/// How the queue pair `qpn` stands.
///
/// # Safety
///
/// `device` is a device of this driver that is in use for the call.
pub(super) unsafe fn state_of(
    device: *mut bindings::ib_device,
    cx: &mut Cx<'_, Unlocked>,
    _s: Sleepable<'_>,
    qpn: u32,
) -> Result<PathState> {
    // SAFETY: By the promise.
    unsafe { (calls()?.state)(device, cx.reborrow(), qpn) }
}

/// Counts at a port.
///
/// # Safety
///
/// As [`state_of`].
pub(super) unsafe fn count_at(device: *mut bindings::ib_device, port: u32, count: PathCount) {
    if let Ok(calls) = calls() {
        // SAFETY: By the promise.
        unsafe { (calls.count)(device, port, count) };
    }
}

/// Loads an alternate path into the queue pair `qpn`, which is connected to `peer`, and asks for REARM.
///
/// # Safety
///
/// As [`state_of`].
pub(super) unsafe fn load_into(
    device: *mut bindings::ib_device,
    cx: &mut Cx<'_, Unlocked>,
    _s: Sleepable<'_>,
    qpn: u32,
    peer: QpPeer,
    path: &AhAttr,
) -> Result {
    // SAFETY: By the promise.
    unsafe { (calls()?.load)(device, cx.reborrow(), qpn, peer, path) }
}
