// SPDX-License-Identifier: GPL-2.0

//! Cables by order of the administrator: `/sys/kernel/config/sib`.
//!
//! The file `key` there has the fabric key of all cables, automatic ones too, that have none of their own.
//! A folder is a cable, from the switch of an underlay to the switch of another host, or to a port of an HCA of this
//! host, which is moved by that. Its files:
//!
//! | file     | what                                                                             |
//! |----------|----------------------------------------------------------------------------------|
//! | `netdev` | the underlay, whose switch is made if need be; the name that it has now           |
//! | `remote` | the other end: `ADDRESS` or `ADDRESS:PORT`, IPv6 in brackets if there is a port   |
//! | `port`   | the other end: `DEVICE/PORT` of an HCA here                                       |
//! | `enable` | 1 plugs the cable in, 0 pulls it out; it is 0 also once the underlay is gone     |
//! | `key`    | the fabric key of this cable alone                                               |
//!
//! The underlay is looked for in the network namespace of who enables the cable, and if there is none of that name,
//! among those that have a switch.
//!
//! A key is 1 to 64 bytes, without the end of the line that may follow; an empty one takes it away. It is not to be
//! read again: the file says `set` or `none`.
//!
//! Removing the folder pulls the cable out. An IPv6 address of the link is one of the underlay's link.
//!
//! The errno of a write says little, so the log says why it was refused.

use crate::fabric::{
    refusal,
    Key,
    Origin, //
};
use crate::hca::Hca;
use crate::params;
use crate::registry::{
    self,
    Lease,
    Ticket,
    User, //
};
#[allow(
    unused_imports,
    reason = "`configfs_attrs!` wants THIS_MODULE in scope, but not that of kernel 7.3"
)]
use crate::*;
use core::net::{
    IpAddr,
    SocketAddr, //
};
use core::str::FromStr;
use kernel::configfs::{
    AttributeOperations,
    Group,
    GroupOperations,
    Subsystem, //
};
use kernel::configfs_attrs;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{
    Arc,
    CondVar,
    Mutex, //
};
use kernel::{
    new_condvar,
    new_mutex, //
};
use rdma::configfs::{
    self,
    show, //
};
use rdma::module;
use rdma::net::NetDevice;
use rdma::new_work;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked,
    Watch, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use wire::PortNum;

/// The size of a name of a network device with its terminator.
pub(crate) const NAME_SIZE: usize = 16;

/// The name of a network device, padded with zeros.
type Name = [u8; NAME_SIZE];

/// The size of a name of a device with its terminator, `IB_DEVICE_NAME_MAX`.
const DEVICE_NAME_SIZE: usize = 64;

/// The name of a device, padded with zeros.
type DeviceName = [u8; DEVICE_NAME_SIZE];

/// The other end of a cable.
#[derive(Clone, Copy)]
enum Far {
    /// Not said yet.
    Unknown,
    /// A switch.
    Switch(SocketAddr),
    /// A port of an HCA here.
    Port(DeviceName, PortNum),
}

/// A cable that is plugged in.
enum Plugged {
    /// To another switch, in a port of this one.
    Switch(Lease, PortNum),
    /// To a port of an HCA, if that is still there, by this lease.
    Port(Watch<Hca>, PortNum, Ticket),
}

/// What a worker may be asked to do.
enum Task {
    /// To plug the cable in, into the switch of this underlay if there is one of the name.
    Plug(Option<NetDevice>),
    /// To pull it out.
    Pull,
    /// To have the cable use its key.
    Rekey,
}

/// What a worker has been asked to do, and has answered.
enum Order {
    /// Nothing.
    None,
    /// This.
    Do(Task),
    /// It has been done, or not.
    Done(Result),
}

struct State {
    netdev: Name,
    far: Far,
    key: Option<Arc<Key>>,
    plugged: Option<Plugged>,
    order: Order,
}

/// A cable.
#[pin_data]
struct Item {
    #[pin]
    state: Mutex<State>,
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Item>,
}

/// The folder of a cable.
pub(crate) struct Cable {
    item: Arc<Item>,
    /// Where its work is done. Not of the item: a worker that lets go of the last item would wait for itself.
    queue: Arc<Queue>,
}

/// The fabric key of all cables that have none of their own.
#[pin_data]
struct Ring {
    #[pin]
    state: Mutex<RingState>,
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Ring>,
}

struct RingState {
    key: Option<Arc<Key>>,
    /// The fabrics have yet to be given it.
    pending: bool,
}

/// The folder of all cables.
pub(crate) struct Cables {
    ring: Arc<Ring>,
    queue: Arc<Queue>,
}

/// Makes `/sys/kernel/config/sib`.
pub(crate) fn register(sleepable: Sleepable<'_>) -> Result<Pin<KBox<Subsystem<Cables>>>> {
    // A worker may make and end fabrics, and waits for their own queues, which are slow ones.
    let queue = Arc::new(Queue::slow(c"sib_config", sleepable)?, GFP_KERNEL)?;
    let state = RingState {
        key: None,
        pending: false,
    };
    let ring = Arc::pin_init(
        pin_init!(Ring {
            state <- new_mutex!(state, "config::Ring::state"),
            changed <- new_condvar!("config::Ring::changed"),
            work <- new_work!("config::Ring::work"),
        }),
        GFP_KERNEL,
    )?;
    let kind = configfs_attrs! {
        container: Subsystem<Cables>,
        data: Cables,
        child: Cable,
        attributes: [
            key: 0,
        ],
    };
    configfs::register(c"sib", kind, Cables { ring, queue })
}

#[vtable]
impl GroupOperations for Cables {
    type Child = Cable;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Cable>, Error>> {
        module::check_loaded(&crate::MODULE)?;
        let kind = configfs_attrs! {
            container: Group<Cable>,
            data: Cable,
            attributes: [
                netdev: 0,
                remote: 1,
                enable: 2,
                key: 3,
                port: 4,
            ],
        };
        let state = State {
            netdev: [0; NAME_SIZE],
            far: Far::Unknown,
            key: None,
            plugged: None,
            order: Order::None,
        };
        let item = Arc::pin_init(
            pin_init!(Item {
                state <- new_mutex!(state, "config::Item::state"),
                changed <- new_condvar!("config::Item::changed"),
                work <- new_work!("config::Item::work"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Group::new(
            CString::try_from(name)?,
            kind,
            Ok::<_, Error>(Cable {
                item,
                queue: self.queue.clone(),
            }),
        ))
    }
}

impl Run for Item {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let mut state = this.state.lock();
        if let Order::Do(task) = core::mem::replace(&mut state.order, Order::None) {
            let result = match task {
                Task::Plug(underlay) => state.plug(&mut cx, sleepable, underlay),
                Task::Pull => {
                    state.unplug(&mut cx, sleepable);
                    Ok(())
                }
                Task::Rekey => {
                    state.rekey(&mut cx, sleepable);
                    Ok(())
                }
            };
            state.order = Order::Done(result);
            this.changed.notify_all();
        }
    }
}

impl State {
    /// The network device may have been renamed since the cable was plugged in, and is to be found again.
    fn follow_name(&mut self) {
        let ticket = match &self.plugged {
            None => return,
            Some(Plugged::Switch(lease, _)) => lease.ticket,
            Some(Plugged::Port(_, _, ticket)) => *ticket,
        };
        if let Some(name) = registry::underlay_name(ticket) {
            self.set_netdev(name.as_bytes());
        }
    }

    fn set_netdev(&mut self, name: &[u8]) {
        self.netdev = [0; NAME_SIZE];
        let room = self.netdev.iter_mut().take(NAME_SIZE - 1);
        for (to, from) in room.zip(name) {
            *to = *from;
        }
    }

    /// Whether the cable is plugged in. It is not any more if its network device is gone.
    fn is_plugged(&self) -> bool {
        match &self.plugged {
            None => false,
            Some(Plugged::Switch(lease, _)) => registry::is_alive(&lease.fabric),
            Some(Plugged::Port(hca, port, ticket)) => {
                hca.hold().is_some_and(|hca| hca.is_moved(*port, *ticket))
            }
        }
    }

    /// What a cable joins changes only while it is not plugged in.
    fn may_change(&self) -> Result {
        if self.is_plugged() {
            pr_err!("configfs: a cable has to be pulled out before it is changed: 0 in enable\n");
            return Err(EBUSY);
        }
        Ok(())
    }

    fn plug(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: Option<NetDevice>,
    ) -> Result {
        if self.is_plugged() {
            return Ok(());
        }
        if text(&self.netdev).is_empty() {
            pr_err!("configfs: a cable wants a netdev before it is enabled\n");
            return Err(EINVAL);
        }
        // The switch that it was in may still be held, whose network device is gone.
        self.unplug(cx, sleepable);
        let far = self.far;
        // What the other end is is known before a switch is made.
        let hca = match &far {
            Far::Unknown => {
                pr_err!("configfs: a cable wants a remote or a port before it is enabled\n");
                return Err(EINVAL);
            }
            Far::Switch(_) => None,
            Far::Port(device, _) => Some(registry::hca(text(device)).inspect_err(|error| {
                let count = if *error == EINVAL { "several" } else { "no" };
                pr_err!(
                    "configfs: {count} HCAs of sib are called \"{}\"\n",
                    shown(device)
                );
            })?),
        };
        let (lease, underlay) = match underlay {
            Some(underlay) => {
                let lease = registry::acquire(cx, sleepable, &underlay, User::Cable);
                (
                    lease.inspect_err(|error| tell(&self.netdev, *error, None))?,
                    underlay,
                )
            }
            None => registry::find(text(&self.netdev)).inspect_err(|error| {
                let why = match *error {
                    ENODEV => Some("there is no such netdev"),
                    EINVAL => Some("several network namespaces have such a netdev"),
                    _ => None,
                };
                tell(&self.netdev, *error, why);
            })?,
        };
        self.plugged = Some(match (far, hca) {
            (Far::Port(_, port), Some(hca)) => {
                let moved = Hca::move_port(&hca, cx, sleepable, port, lease);
                let ticket = moved.inspect_err(|error| {
                    let why = match *error {
                        EINVAL => Some("the HCA has no such port"),
                        EBUSY => Some("the port of the HCA has been moved already"),
                        ENOSPC => Some("the switch has no free port"),
                        _ => None,
                    };
                    tell(&self.netdev, *error, why);
                })?;
                Plugged::Port(hca.watcher(), port, ticket)
            }
            (Far::Switch(remote), _) => {
                let (origin, key) = (Origin::Configured, self.key.clone());
                let plugged = lease
                    .fabric
                    .plug(cx, sleepable, &underlay, remote, origin, key);
                let port = plugged.inspect_err(|error| {
                    registry::release(cx, sleepable, &lease.fabric, lease.ticket);
                    tell(&self.netdev, *error, refusal(*error));
                })?;
                Plugged::Switch(lease, port)
            }
            _ => return Err(EINVAL),
        });
        Ok(())
    }

    fn unplug(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.follow_name();
        match self.plugged.take() {
            None => {}
            Some(Plugged::Switch(lease, port)) => {
                lease.fabric.unplug(cx, sleepable.irqs_on(), port);
                registry::release(cx, sleepable, &lease.fabric, lease.ticket);
            }
            Some(Plugged::Port(hca, port, ticket)) => {
                if let Some(hca) = hca.hold() {
                    Hca::return_port(&hca, cx, sleepable, port, ticket);
                }
            }
        }
    }

    fn rekey(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        if let Some(Plugged::Switch(lease, port)) = &self.plugged {
            let irqs = sleepable.irqs_on();
            lease
                .fabric
                .set_cable_key(cx, irqs, *port, self.key.clone());
        }
    }
}

impl Run for Ring {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let mut state = this.state.lock();
        registry::set_key(&mut cx, sleepable, state.key.clone());
        state.pending = false;
        this.changed.notify_all();
    }
}

impl Cable {
    /// Has a worker do `task`, and waits until it has.
    fn order(&self, task: Task) -> Result {
        let item = &self.item;
        let mut state = item.state.lock();
        while !matches!(state.order, Order::None) {
            item.changed.wait(&mut state);
        }
        state.order = Order::Do(task);
        // An item that is queued already has yet to take the lock, and then finds this order.
        drop(self.queue.enqueue(&item.work, item.clone()));
        let result = loop {
            if let Order::Done(result) = state.order {
                break result;
            }
            item.changed.wait(&mut state);
        };
        state.order = Order::None;
        item.changed.notify_all();
        result
    }

    /// Says what the other end is.
    fn set_far(&self, far: Far) -> Result {
        let mut state = self.item.state.lock();
        state.may_change()?;
        state.far = far;
        Ok(())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Pulling a cable out does not fail.
        let _ = self.order(Task::Pull);
    }
}

/// The bytes before the first zero.
fn text(padded: &[u8]) -> &[u8] {
    padded.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The text before the first zero.
fn shown(padded: &[u8]) -> &str {
    core::str::from_utf8(text(padded)).unwrap_or_default()
}

/// Has the log say why `text` is refused.
pub(crate) fn misfit(text: &str, wanted: &str) -> Error {
    pr_err!("configfs: \"{text:.60}\" is not {wanted}\n");
    EINVAL
}

/// Has the log say `why` a cable of `netdev` is not plugged in, or if that is not known the error.
fn tell(netdev: &[u8], error: Error, why: Option<&str>) {
    let netdev = shown(netdev);
    match why {
        Some(why) => pr_err!("configfs: a cable of \"{netdev}\": {why}\n"),
        None => pr_err!("configfs: a cable of \"{netdev}\" cannot be plugged in: {error:?}\n"),
    }
}

/// What was written, as text without the end of the line.
pub(crate) fn line(page: &[u8]) -> Result<&str> {
    Ok(core::str::from_utf8(page)
        .map_err(|_| misfit("...", "text"))?
        .trim())
}

/// The other end of a cable: `ADDRESS` or `ADDRESS:PORT`, IPv6 in brackets if there is a port.
///
/// # Errors
///
/// `EINVAL` for anything else, and for an address that no single host has.
pub(crate) fn remote(text: &str) -> Result<SocketAddr> {
    let remote = match SocketAddr::from_str(text) {
        Ok(remote) => remote,
        Err(_) => {
            let ip = IpAddr::from_str(text).map_err(|_| EINVAL)?;
            SocketAddr::new(ip, params::udp_port())
        }
    };
    // An IPv4 address may be written as one of IPv6, but is none of its network.
    let mapped = match remote.ip() {
        IpAddr::V6(ip) => ip.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    let remote = mapped.map_or(remote, |ip| SocketAddr::new(IpAddr::V4(ip), remote.port()));
    let ip = remote.ip();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if is_broadcast || ip.is_unspecified() || ip.is_multicast() || remote.port() == 0 {
        return Err(EINVAL);
    }
    Ok(remote)
}

/// `DEVICE/PORT`.
fn device_port(text: &str) -> Result<Far> {
    let (device, port) = text.rsplit_once('/').ok_or(EINVAL)?;
    let mut name = [0; DEVICE_NAME_SIZE];
    if device.is_empty() || device.len() >= name.len() || device.contains('\0') {
        return Err(EINVAL);
    }
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = from;
    }
    match u8::from_str(port) {
        Ok(port) if port > 0 => Ok(Far::Port(name, PortNum::new(port))),
        _ => Err(EINVAL),
    }
}

/// The key that was written, without the end of the line.
fn key(page: &[u8]) -> Result<Option<Arc<Key>>> {
    Key::new(page.strip_suffix(b"\n").unwrap_or(page)).inspect_err(|error| {
        if *error == EINVAL {
            pr_err!("configfs: a key has 64 bytes at most\n");
        }
    })
}

/// What there is to be read of a key.
fn show_key(page: &mut [u8; PAGE_SIZE], key: Option<&Arc<Key>>) -> Result<usize> {
    let word = if key.is_some() { "set" } else { "none" };
    show(page, fmt!("{word}\n"))
}

#[vtable]
impl AttributeOperations<0> for Cables {
    type Data = Cables;

    fn show(cables: &Cables, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        show_key(page, cables.ring.state.lock().key.as_ref())
    }

    fn store(cables: &Cables, page: &[u8]) -> Result {
        let key = key(page)?;
        let ring = &cables.ring;
        let mut state = ring.state.lock();
        state.key = key;
        state.pending = true;
        // One that is queued already has yet to take the lock, and then finds this key.
        drop(cables.queue.enqueue(&ring.work, ring.clone()));
        while state.pending {
            ring.changed.wait(&mut state);
        }
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<0> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let mut state = cable.item.state.lock();
        state.follow_name();
        show(page, fmt!("{}\n", shown(&state.netdev)))
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        let name = line(page)?;
        if name.is_empty() || name.len() >= NAME_SIZE || name.contains('\0') {
            return Err(misfit(name, "a name of a network device"));
        }
        let mut state = cable.item.state.lock();
        state.may_change()?;
        state.set_netdev(name.as_bytes());
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<1> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        match cable.item.state.lock().far {
            Far::Switch(remote) => show(page, core::format_args!("{remote}\n")),
            _ => show(page, fmt!("\n")),
        }
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        let text = line(page)?;
        let wanted = "ADDRESS or ADDRESS:PORT of a host";
        cable.set_far(Far::Switch(remote(text).map_err(|_| misfit(text, wanted))?))
    }
}

#[vtable]
impl AttributeOperations<2> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let plugged = cable.item.state.lock().is_plugged();
        show(page, fmt!("{}\n", u8::from(plugged)))
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        match line(page)? {
            "1" => {
                // The worker is in no namespace of any user.
                let name = cable.item.state.lock().netdev;
                let underlay = NetDevice::by_name(text(&name)).ok();
                cable.order(Task::Plug(underlay))
            }
            "0" => cable.order(Task::Pull),
            other => Err(misfit(other, "0 or 1")),
        }
    }
}

#[vtable]
impl AttributeOperations<3> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        show_key(page, cable.item.state.lock().key.as_ref())
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        let key = key(page)?;
        cable.item.state.lock().key = key;
        cable.order(Task::Rekey)
    }
}

#[vtable]
impl AttributeOperations<4> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        match cable.item.state.lock().far {
            Far::Port(device, port) => show(page, fmt!("{}/{}\n", shown(&device), port.get())),
            _ => show(page, fmt!("\n")),
        }
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        let text = line(page)?;
        cable.set_far(device_port(text).map_err(|_| misfit(text, "DEVICE/PORT"))?)
    }
}
