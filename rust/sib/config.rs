// SPDX-License-Identifier: GPL-2.0

//! Cables by order of the administrator: `/sys/kernel/config/sib`.
//!
//! The file `key` there has the fabric key of all cables, automatic ones too, that have none of their own.
//! A folder is a cable. Its files:
//!
//! | file     | what                                                                             |
//! |----------|----------------------------------------------------------------------------------|
//! | `netdev` | the underlay at this end, which must have an HCA                                  |
//! | `remote` | the other end: `ADDRESS` or `ADDRESS:PORT`, IPv6 in brackets if there is a port   |
//! | `enable` | 1 plugs the cable in, 0 pulls it out                                             |
//! | `key`    | the fabric key of this cable alone                                               |
//!
//! A key is 1 to 64 bytes, without the end of the line that may follow; an empty one takes it away. It is not to be
//! read again: the file says `set` or `none`.
//!
//! Removing the folder pulls the cable out. An IPv6 address of the link is one of the underlay's link.

use crate::fabric::{
    Key,
    Origin, //
};
use crate::params;
use crate::registry::{
    self,
    Lease, //
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
use rdma::new_work;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use wire::PortNum;

/// The size of a name of a network device with its terminator.
const NAME_SIZE: usize = 16;

/// The name of a network device, padded with zeros.
type Name = [u8; NAME_SIZE];

/// A cable that is plugged in.
struct Plugged {
    lease: Lease,
    port: PortNum,
}

/// What a worker may be asked to do.
#[derive(Clone, Copy)]
enum Task {
    /// To plug the cable in.
    Plug,
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
    remote: Option<SocketAddr>,
    key: Option<Arc<Key>>,
    plugged: Option<Plugged>,
    order: Order,
}

/// A cable.
#[pin_data]
struct Item {
    queue: Arc<Queue>,
    #[pin]
    state: Mutex<State>,
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Item>,
}

/// The folder of a cable.
pub(crate) struct Cable(Arc<Item>);

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
    let queue = Arc::new(Queue::new(c"sib-config", sleepable)?, GFP_KERNEL)?;
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
    KBox::pin_init(
        Subsystem::new(c"sib", kind, Ok::<_, Error>(Cables { ring, queue })),
        GFP_KERNEL,
    )
}

#[vtable]
impl GroupOperations for Cables {
    type Child = Cable;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Cable>, Error>> {
        let kind = configfs_attrs! {
            container: Group<Cable>,
            data: Cable,
            attributes: [
                netdev: 0,
                remote: 1,
                enable: 2,
                key: 3,
            ],
        };
        let state = State {
            netdev: [0; NAME_SIZE],
            remote: None,
            key: None,
            plugged: None,
            order: Order::None,
        };
        let item = Arc::pin_init(
            pin_init!(Item {
                queue: self.queue.clone(),
                state <- new_mutex!(state, "config::Item::state"),
                changed <- new_condvar!("config::Item::changed"),
                work <- new_work!("config::Item::work"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Group::new(
            CString::try_from(name)?,
            kind,
            Ok::<_, Error>(Cable(item)),
        ))
    }
}

impl Run for Item {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let mut state = this.state.lock();
        if let Order::Do(task) = state.order {
            let result = match task {
                Task::Plug => state.plug(&mut cx, sleepable),
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

impl Item {
    /// Has a worker do `task`, and waits until it has.
    fn order(this: &Arc<Self>, task: Task) -> Result {
        let mut state = this.state.lock();
        while !matches!(state.order, Order::None) {
            this.changed.wait(&mut state);
        }
        state.order = Order::Do(task);
        // An item that is queued already has yet to take the lock, and then finds this order.
        drop(this.queue.enqueue(&this.work, this.clone()));
        let result = loop {
            if let Order::Done(result) = state.order {
                break result;
            }
            this.changed.wait(&mut state);
        };
        state.order = Order::None;
        this.changed.notify_all();
        result
    }
}

impl State {
    fn plug(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) -> Result {
        if self.plugged.is_some() {
            return Ok(());
        }
        let remote = self.remote.ok_or(EINVAL)?;
        let (lease, underlay) = registry::find(text(&self.netdev))?;
        match lease.fabric.plug(
            cx,
            sleepable,
            &underlay,
            remote,
            Origin::Configured,
            self.key.clone(),
        ) {
            Ok(port) => {
                self.plugged = Some(Plugged { lease, port });
                Ok(())
            }
            Err(error) => {
                registry::release(cx, sleepable, &lease.fabric, lease.ticket);
                Err(error)
            }
        }
    }

    fn unplug(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        if let Some(Plugged { lease, port }) = self.plugged.take() {
            lease.fabric.unplug(cx, sleepable.irqs_on(), port);
            registry::release(cx, sleepable, &lease.fabric, lease.ticket);
        }
    }

    fn rekey(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        if let Some(Plugged { lease, port }) = &self.plugged {
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

impl Drop for Cable {
    fn drop(&mut self) {
        // Pulling a cable out does not fail.
        let _ = Item::order(&self.0, Task::Pull);
    }
}

/// The bytes before the first zero.
fn text(padded: &[u8]) -> &[u8] {
    padded.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// What was written, as text without the end of the line.
fn line(page: &[u8]) -> Result<&str> {
    Ok(core::str::from_utf8(page).map_err(|_| EINVAL)?.trim())
}

/// `ADDRESS` or `ADDRESS:PORT`.
fn address(text: &str) -> Result<SocketAddr> {
    if let Ok(address) = SocketAddr::from_str(text) {
        return Ok(address);
    }
    let ip = IpAddr::from_str(text).map_err(|_| EINVAL)?;
    Ok(SocketAddr::new(ip, params::udp_port()))
}

/// The key that was written, without the end of the line.
fn key(page: &[u8]) -> Result<Option<Arc<Key>>> {
    Key::new(page.strip_suffix(b"\n").unwrap_or(page))
}

/// What there is to be read of a key.
fn show_key(page: &mut [u8; PAGE_SIZE], key: Option<&Arc<Key>>) -> Result<usize> {
    let word = if key.is_some() { "set" } else { "none" };
    show(page, fmt!("{word}\n"))
}

/// Writes formatted text to `page`.
fn show(page: &mut [u8; PAGE_SIZE], args: kernel::fmt::Arguments<'_>) -> Result<usize> {
    let mut cursor = Cursor { page, len: 0 };
    core::fmt::Write::write_fmt(&mut cursor, args).map_err(|_| EMSGSIZE)?;
    Ok(cursor.len)
}

/// A page that text is written to.
struct Cursor<'a> {
    page: &'a mut [u8; PAGE_SIZE],
    len: usize,
}

impl core::fmt::Write for Cursor<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.page.get_mut(self.len..).unwrap_or_default();
        if text.len() > room.len() {
            return Err(core::fmt::Error);
        }
        for (to, from) in room.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.len = self.len.saturating_add(text.len());
        Ok(())
    }
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
        let state = cable.0.state.lock();
        let name = core::str::from_utf8(text(&state.netdev)).unwrap_or_default();
        show(page, fmt!("{name}\n"))
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        let name = line(page)?.as_bytes();
        if name.is_empty() || name.len() >= NAME_SIZE {
            return Err(EINVAL);
        }
        let mut state = cable.0.state.lock();
        if state.plugged.is_some() {
            return Err(EBUSY);
        }
        state.netdev = [0; NAME_SIZE];
        for (to, from) in state.netdev.iter_mut().zip(name) {
            *to = *from;
        }
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<1> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        match cable.0.state.lock().remote {
            Some(remote) => show(page, core::format_args!("{remote}\n")),
            None => show(page, core::format_args!("\n")),
        }
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        let remote = address(line(page)?)?;
        if remote.ip().is_unspecified() || remote.ip().is_multicast() || remote.port() == 0 {
            return Err(EINVAL);
        }
        let mut state = cable.0.state.lock();
        if state.plugged.is_some() {
            return Err(EBUSY);
        }
        state.remote = Some(remote);
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<2> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let plugged = cable.0.state.lock().plugged.is_some();
        show(page, fmt!("{}\n", u8::from(plugged)))
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        match line(page)? {
            "1" => Item::order(&cable.0, Task::Plug),
            "0" => Item::order(&cable.0, Task::Pull),
            _ => Err(EINVAL),
        }
    }
}

#[vtable]
impl AttributeOperations<3> for Cable {
    type Data = Cable;

    fn show(cable: &Cable, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        show_key(page, cable.0.state.lock().key.as_ref())
    }

    fn store(cable: &Cable, page: &[u8]) -> Result {
        let key = key(page)?;
        cable.0.state.lock().key = key;
        Item::order(&cable.0, Task::Rekey)
    }
}
