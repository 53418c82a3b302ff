// SPDX-License-Identifier: GPL-2.0

//! The fabrics of this host: one for each underlay that is in use.

use crate::driver::Sib;
use crate::fabric::{
    Assignments,
    Fabric,
    Files,
    Key, //
};
use crate::guid::{
    GuidBase,
    EUI48_LEN, //
};
use crate::hca::Hca;
use crate::params;
use crate::peers::Peers;
use kernel::device;
use kernel::faux;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use rdma::debugfs::Dir;
use rdma::ib::Device;
use rdma::net::{
    DeviceEvent,
    DeviceName,
    NetDevice,
    Notify, //
};
use rdma::random;
use rdma::sync::{
    Cx,
    Held,
    Sleepable,
    Unlocked,
    Watch, //
};
use wire::Mtu;

kernel::sync::global_lock! {
    // SAFETY: Initialised when the module is loaded, before anything else of it runs.
    unsafe(uninit) static FABRICS: Mutex<Fabrics> = Fabrics {
        entries: KVec::new(),
        next: Ticket(0),
        debug: None,
        key: None,
        partitions: None,
    };
}

/// The list can be used. Without this it is empty, as the module goes, which drops no static: the fabric key and the
/// partitions are forgotten, and what is left of a first fabric that could not be made.
pub(crate) struct Registry(());

impl Registry {
    /// Makes the list usable.
    ///
    /// # Safety
    ///
    /// To be called once, before anything else of this file.
    #[allow(
        unsafe_code,
        reason = "module glue: a static lock needs initialisation"
    )]
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: Called once by the caller's promise.
        unsafe { FABRICS.init() };
        Self(())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let mut fabrics = FABRICS.lock();
        fabrics.entries = KVec::new();
        fabrics.debug = None;
        fabrics.key = None;
        fabrics.partitions = None;
    }
}

/// The fabrics in use.
struct Fabrics {
    entries: KVec<Entry>,
    /// The ticket of the next lease.
    next: Ticket,
    /// `/sys/kernel/debug/sib`, while there are fabrics.
    debug: Option<Dir>,
    /// The fabric key of all fabrics, if there is one.
    key: Option<Arc<Key>>,
    /// The partitions of all fabrics, if any were told.
    partitions: Option<Assignments>,
}

/// A fabric in use.
struct Entry {
    /// The underlay; `None` from the time when it goes away.
    underlay: Option<NetDevice>,
    /// Where that was before the first socket was opened: its network namespace, and its index there.
    place: (usize, u32),
    fabric: Arc<Fabric>,
    /// The parent of the fabric's devices.
    parent: faux::Registration,
    /// Who uses the fabric.
    leases: KVec<(Ticket, User)>,
    /// What is in `/sys/kernel/debug/sib/NAME`, where NAME is that of the parent.
    _files: Files,
}

/// An HCA that ib_core knows.
pub(crate) struct Enlisted {
    pub(crate) device: Device<Sib>,
    pub(crate) hca: Watch<Hca>,
}

/// Who uses a fabric.
pub(crate) enum User {
    /// A cable, be it one to a port of an HCA that has its place elsewhere.
    Cable,
    /// An HCA, which has GUIDs of the fabric, with its device once that is registered.
    Hca(Option<Enlisted>),
}

impl User {
    /// The HCA, if it is one that ib_core knows.
    fn enlisted(&self) -> Option<&Enlisted> {
        match self {
            Self::Cable => None,
            Self::Hca(enlisted) => enlisted.as_ref(),
        }
    }
}

/// Tells leases apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// A use of a fabric, to be given back with [`release`].
pub(crate) struct Lease {
    /// The fabric.
    pub(crate) fabric: Arc<Fabric>,
    /// The parent of its devices.
    pub(crate) parent: ARef<device::Device>,
    /// Who uses it.
    pub(crate) ticket: Ticket,
}

/// `/sys/kernel/debug/sib`. May sleep.
pub(crate) fn debug_dir() -> Result<Dir> {
    FABRICS.lock().debug_dir()
}

/// Finds the fabric over `underlay` for `user`, or makes it. May sleep.
///
/// # Errors
///
/// `ENODEV` for an underlay that goes away, `ENOMEM`, and what the driver core has.
pub(crate) fn acquire(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    underlay: &NetDevice,
    user: User,
) -> Result<Lease> {
    let mut guard = FABRICS.lock();
    // One that goes from now on finds what is entered below.
    if !underlay.is_registered() {
        return Err(ENODEV);
    }
    let fabrics = &mut *guard;
    let ticket = fabrics.next;
    fabrics.next = Ticket(ticket.0.wrapping_add(1));
    let known = fabrics.entries.iter_mut().find(|entry| {
        let other = entry.underlay.as_ref();
        other.is_some_and(|other| other.is_same(underlay))
    });
    if let Some(entry) = known {
        return entry.lease(ticket, user);
    }
    fabrics.end_forsaken(cx, sleepable);
    fabrics.entries.reserve(1, GFP_KERNEL)?;
    let place = place(underlay);
    let base = base(&fabrics.entries, underlay);
    let name = CString::try_from_fmt(fmt!("sib-{:012x}", base.get()))?;
    let fabric = Fabric::new(
        base,
        description(underlay),
        params::switch_ports(),
        Mtu::B4096,
        sleepable,
    )?;
    fabric.set_key(cx, sleepable.irqs_on(), fabrics.key.clone());
    let parent = faux::Registration::new(&name, None)?;
    let debug = fabrics.debug_dir()?.subdir(&name)?;
    let files = Files::new(&debug, &fabric)?;
    let mut entry = Entry {
        underlay: Some(underlay.clone()),
        place,
        fabric,
        parent,
        leases: KVec::new(),
        _files: files,
    };
    let lease = entry.lease(ticket, user)?;
    if let Err(error) = lease.fabric.start(cx, sleepable, underlay) {
        lease.fabric.close(cx, sleepable);
        return Err(error);
    }
    if let Some(list) = fabrics.partitions.clone() {
        lease.fabric.set_partitions(cx, list);
    }
    fabrics.entries.push(entry, GFP_KERNEL)?;
    Ok(lease)
}

/// Finds the fabric over the underlay called `name`, which is in use already.
///
/// # Errors
///
/// `ENODEV` if there is none, `EINVAL` if several network namespaces have one.
pub(crate) fn find(name: &[u8]) -> Result<(Lease, NetDevice)> {
    let mut guard = FABRICS.lock();
    let fabrics = &mut *guard;
    let mut named = fabrics.entries.iter_mut().filter_map(|entry| {
        let underlay = entry.underlay.clone()?;
        (underlay.name().as_bytes() == name).then_some((entry, underlay))
    });
    let (entry, underlay) = named.next().ok_or(ENODEV)?;
    if named.next().is_some() {
        return Err(EINVAL);
    }
    let ticket = fabrics.next;
    fabrics.next = Ticket(ticket.0.wrapping_add(1));
    Ok((entry.lease(ticket, User::Cable)?, underlay))
}

/// Sets the fabric key of all cables that have none of their own. May sleep.
pub(crate) fn set_key(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, key: Option<Arc<Key>>) {
    let mut fabrics = FABRICS.lock();
    for entry in &fabrics.entries {
        entry.fabric.set_key(cx, sleepable.irqs_on(), key.clone());
    }
    fabrics.key = key;
}

/// Tells all subnet managers who is in which partition.
pub(crate) fn set_partitions(cx: &mut Cx<'_, Unlocked>, list: &Assignments) {
    let mut fabrics = FABRICS.lock();
    for entry in &fabrics.entries {
        entry.fabric.set_partitions(cx, list.clone());
    }
    fabrics.partitions = Some(list.clone());
}

/// Ends a use of `fabric`, and with the last one the fabric.
pub(crate) fn release(
    cx: &mut Cx<'_, Unlocked>,
    sleepable: Sleepable<'_>,
    fabric: &Arc<Fabric>,
    ticket: Ticket,
) {
    let mut fabrics = FABRICS.lock();
    let Some(index) = fabrics.position(fabric) else {
        return;
    };
    let last = fabrics.entries.get_mut(index).is_some_and(|entry| {
        entry.leases.retain(|(other, _)| *other != ticket);
        entry.leases.is_empty()
    });
    if last {
        if let Ok(entry) = fabrics.entries.remove(index) {
            entry.fabric.close(cx, sleepable);
        }
        if fabrics.entries.is_empty() {
            fabrics.entries = KVec::new();
            fabrics.debug = None;
        }
    }
}

/// Finds the HCA that is called `name` now.
///
/// # Errors
///
/// `ENODEV` if there is none, `EINVAL` if there are several: from kernel 7.3 each network namespace has its names.
pub(crate) fn hca(name: &[u8]) -> Result<Held<Hca>> {
    let fabrics = FABRICS.lock();
    let leases = fabrics.entries.iter().flat_map(|entry| &entry.leases);
    let enlisted = leases.filter_map(|(_, user)| user.enlisted());
    let mut named = enlisted.filter(|enlisted| enlisted.device.is_called(name));
    let found = named.next();
    if named.next().is_some() {
        return Err(EINVAL);
    }
    found.and_then(|found| found.hca.hold()).ok_or(ENODEV)
}

/// Whether the underlay of `fabric`, which is in use, has not gone away.
pub(crate) fn is_alive(fabric: &Arc<Fabric>) -> bool {
    let fabrics = FABRICS.lock();
    let entry = fabrics
        .position(fabric)
        .and_then(|at| fabrics.entries.get(at));
    entry.is_some_and(|entry| entry.underlay.is_some())
}

/// The name of the underlay that this is a lease of, as of now, if it has not gone away.
pub(crate) fn underlay_name(ticket: Ticket) -> Option<DeviceName> {
    let fabrics = FABRICS.lock();
    let mut entries = fabrics.entries.iter();
    let entry = entries.find(|entry| entry.leases.iter().any(|(other, _)| *other == ticket))?;
    entry.underlay.as_ref().map(NetDevice::name)
}

/// Remembers the device of a lease, which has been registered, so that it goes when its underlay goes.
///
/// Does nothing if the lease has ended already, since the device has been removed.
///
/// # Errors
///
/// Gives the device back if the underlay has gone: it is to be removed, too.
pub(crate) fn enlist(
    fabric: &Arc<Fabric>,
    ticket: Ticket,
    enlisted: Enlisted,
) -> Result<(), Device<Sib>> {
    let mut fabrics = FABRICS.lock();
    let index = fabrics.position(fabric);
    let Some(entry) = index.and_then(|index| fabrics.entries.get_mut(index)) else {
        return Ok(());
    };
    let lease = entry.leases.iter_mut().find(|(other, _)| *other == ticket);
    if let Some((_, user)) = lease {
        if entry.underlay.is_none() {
            return Err(enlisted.device);
        }
        *user = User::Hca(Some(enlisted));
    }
    Ok(())
}

impl Fabrics {
    fn debug_dir(&mut self) -> Result<Dir> {
        if let Some(dir) = &self.debug {
            return Ok(dir.clone());
        }
        Ok(self.debug.insert(Dir::new(c"sib")?).clone())
    }

    fn position(&self, fabric: &Arc<Fabric>) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| Arc::ptr_eq(&entry.fabric, fabric))
    }

    /// Ends the fabrics that lead nowhere any more and that only cables use: the next one may be of the same underlay,
    /// which has come back, and is to have the same GUIDs.
    fn end_forsaken(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        while let Some(index) = self.entries.iter().position(Entry::is_forsaken) {
            let Ok(entry) = self.entries.remove(index) else {
                return;
            };
            entry.fabric.close(cx, sleepable);
        }
    }
}

impl Entry {
    /// Ends the cables, and the HCAs, since the underlay goes.
    fn end(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.underlay = None;
        self.fabric.detach(cx, sleepable);
        self.fabric.unhang_all(cx);
        let hcas = self.leases.iter().filter_map(|(_, user)| user.enlisted());
        for enlisted in hcas {
            enlisted.device.unregister_queued(cx, sleepable);
        }
    }

    /// Whether its underlay has gone, and no HCA has GUIDs of it.
    fn is_forsaken(&self) -> bool {
        let mut users = self.leases.iter();
        self.underlay.is_none() && users.all(|(_, user)| matches!(user, User::Cable))
    }

    fn lease(&mut self, ticket: Ticket, user: User) -> Result<Lease> {
        self.leases.push((ticket, user), GFP_KERNEL)?;
        // From kernel 7.3 the registration leads to the device of its bus first.
        #[allow(clippy::useless_asref, reason = "by the version of the kernel")]
        let parent = self.parent.as_ref().as_ref();
        Ok(Lease {
            fabric: self.fabric.clone(),
            parent: parent.into(),
            ticket,
        })
    }
}

/// Where a device is.
fn place(device: &NetDevice) -> (usize, u32) {
    (device.namespace_id(), device.ifindex())
}

/// A base for GUIDs that no other fabric of this host has.
fn base(fabrics: &[Entry], underlay: &NetDevice) -> GuidBase {
    let taken = |base: GuidBase| fabrics.iter().any(|entry| entry.fabric.base() == base);
    let borrowed = underlay.mac().and_then(|mac| GuidBase::borrowed(&mac));
    if let Some(base) = borrowed.filter(|base| !taken(*base)) {
        return base;
    }
    loop {
        let base = GuidBase::random(random_octets());
        if !taken(base) {
            return base;
        }
    }
}

fn random_octets() -> [u8; EUI48_LEN] {
    let ([a, b, c, _], [d, e, f, _]) = (random::u32().to_ne_bytes(), random::u32().to_ne_bytes());
    [a, b, c, d, e, f]
}

/// NodeDescription of the switch over `underlay`.
fn description(underlay: &NetDevice) -> [u8; 64] {
    let mut text = [0; 64];
    let name = underlay.name();
    let bytes = Iterator::chain(b"sib switch ".iter(), name.as_bytes());
    for (to, from) in text.iter_mut().zip(bytes) {
        *to = *from;
    }
    text
}

/// Watches the underlays.
pub(crate) struct Watcher {
    peers: Peers,
}

impl Watcher {
    /// One that has the cables to `peers` follow their network devices.
    pub(crate) fn new(peers: Peers) -> Self {
        Self { peers }
    }

    /// The cables that the parameter asks for.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }
}

impl Notify for Watcher {
    fn notify(
        &self,
        event: DeviceEvent,
        device: &NetDevice,
        mut cx: Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
    ) {
        // The cables find out for themselves whether anything passes, and the rest is of no interest.
        if matches!(
            event,
            DeviceEvent::Up | DeviceEvent::Down | DeviceEvent::Change | DeviceEvent::Address
        ) {
            return;
        }
        for entry in FABRICS.lock().entries.iter_mut() {
            let underlay = entry.underlay.as_ref();
            if !underlay.is_some_and(|underlay| underlay.is_same(device)) {
                continue;
            }
            match event {
                DeviceEvent::Unregister => entry.end(&mut cx, sleepable),
                // It was on its way to another namespace when it was entered, and had said so before.
                DeviceEvent::Register if entry.place != place(device) => {
                    entry.end(&mut cx, sleepable);
                }
                DeviceEvent::Mtu => {
                    let irqs = sleepable.irqs_on();
                    entry.fabric.resize_cables(&mut cx, irqs, device);
                }
                DeviceEvent::Rename => {
                    let description = description(device);
                    entry.fabric.set_description(&mut cx, description);
                }
                _ => {}
            }
        }
        self.peers.stir();
    }
}
