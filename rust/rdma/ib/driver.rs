// SPDX-License-Identifier: GPL-2.0

//! What a driver implements.

use super::{
    unsupported,
    AccessFlags,
    Advice,
    AhAttr,
    CounterName,
    CqUpcall,
    Detail,
    DeviceAttr,
    KernelData,
    LocalSge,
    Mad,
    MadResult,
    PageList,
    PortAttr,
    PortImmutable,
    PortModify,
    QpAttr,
    QpAttrMask,
    QpCap,
    QpType,
    QpUpcall,
    SendOp,
    Sge,
    SrqUpcall,
    WcOut,
    MAD_SIZE, //
};
use crate::cm::{
    PathCount,
    PathState,
    QpPeer, //
};
use crate::mem::{
    FastPages,
    KernelSpace,
    UserMemory, //
};
use crate::ring::Ring;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A work request of a kernel client for a send queue.
pub struct SendWr<'a, D: Driver> {
    /// What the completion is to carry.
    pub wr_id: u64,
    /// Modifiers.
    pub flags: super::SendFlags,
    /// What to do.
    pub op: SendOp<&'a D::Ah, &'a D::Mr>,
    /// The local memory; inline data exactly with [`SendFlags::INLINE`](super::SendFlags::INLINE).
    pub data: KernelData<'a>,
}

/// A work request of a kernel client for a receive queue.
pub struct RecvWr<'a> {
    /// What the completion is to carry.
    pub wr_id: u64,
    /// The local memory.
    pub sges: &'a [LocalSge],
}

/// What a completion queue is asked to be.
#[derive(Clone, Copy, Debug)]
pub struct CqInit {
    /// The least number of entries; not 0.
    pub entries: u32,
}

/// A new completion queue.
pub struct NewCq<C> {
    /// The handle.
    pub cq: C,
    /// The number of entries granted.
    pub entries: u32,
    /// The ring that the user maps; `None` for kernel clients.
    pub map: Option<Arc<Ring>>,
}

/// For what completions the client wants to be notified.
#[derive(Clone, Copy, Debug)]
pub struct Notify {
    /// For solicited ones and errors alone.
    pub solicited_only: bool,
    /// The client wants to know whether entries are there already.
    pub report_missed: bool,
}

/// What a queue pair is asked to be.
pub struct QpInit<'a, D: Driver> {
    /// The type.
    pub ty: QpType,
    /// The completion queue of the send queue.
    pub send_cq: &'a D::Cq,
    /// The completion queue of the receive queue.
    pub recv_cq: &'a D::Cq,
    /// The shared receive queue, if the queue pair has none of its own.
    pub srq: Option<&'a D::Srq>,
    /// The least sizes of the queues.
    pub cap: QpCap,
    /// Every send completes with an entry in the completion queue.
    pub sig_all: bool,
    /// The port of SMI and GSI, from 1.
    pub port: u32,
}

/// A new queue pair.
pub struct NewQp<Q> {
    /// The handle.
    pub qp: Q,
    /// Its number: 0 and 1 for SMI and GSI on every port, unique and of 24 bits for the others.
    pub qpn: u32,
    /// The sizes granted.
    pub cap: QpCap,
    /// The ring of the send queue that the user maps; `None` for kernel clients.
    pub sq_map: Option<Arc<Ring>>,
    /// The ring of the receive queue; `None` too with a shared receive queue.
    pub rq_map: Option<Arc<Ring>>,
}

/// What a shared receive queue is asked to be, and what it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct SrqAttr {
    /// Work requests.
    pub max_wr: u32,
    /// Scatter entries of a work request.
    pub max_sge: u32,
    /// The number of work requests below which an event is raised; 0 for never.
    pub limit: u32,
}

/// A change of a shared receive queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct SrqModify {
    /// The new number of work requests.
    pub max_wr: Option<u32>,
    /// The new limit.
    pub limit: Option<u32>,
}

/// A new shared receive queue.
pub struct NewSrq<S> {
    /// The handle.
    pub srq: S,
    /// Its number.
    pub srqn: u32,
    /// What was granted.
    pub attr: SrqAttr,
    /// The ring that the user maps; `None` for kernel clients.
    pub map: Option<Arc<Ring>>,
}

/// A new address handle.
pub struct NewAh<A> {
    /// The handle.
    pub ah: A,
    /// The number by which user work requests name it; not 0.
    pub number: u32,
}

/// A new memory region.
pub struct NewMr<M> {
    /// The handle.
    pub mr: M,
    /// Its local key. The low 8 bits may become others; the rest is not 0, as in the keys that name no region.
    pub lkey: u32,
    /// Its remote key.
    pub rkey: u32,
}

/// The type of a memory window. IBA, "Memory Windows".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MwType {
    /// Bound by a verb, checked by protection domain.
    Type1,
    /// Bound by a work request, checked by queue pair.
    Type2,
}

/// A new memory window.
pub struct NewMw<W> {
    /// The handle.
    pub mw: W,
    /// Its key.
    pub rkey: u32,
}

/// A driver of InfiniBand devices.
///
/// # Objects
///
/// The associated types are *handles*: what the object of ib_core keeps on behalf of the driver, from the
/// return of the call that creates the object until the call that destroys it has returned. The bridge
/// drops the handle then, in a context that may sleep unless the documentation says otherwise. An
/// [`Arc`] or a [`Tracked`](crate::sync::Tracked) are the usual choices. ib_core counts
/// uses: no object is destroyed while another one made from it exists.
///
/// A creation that fails after the driver has succeeded, since the user's response buffer is not writable,
/// is undone by the call that destroys.
///
/// # Contexts
///
/// Every call has a token of the lock order. A [`Sleepable`] tells that the call may sleep; calls without
/// one come from any context, with interrupts on or off, and must not sleep
/// (`Documentation/infiniband/core_locking.rst`). Upcalls need tokens that such calls do not have.
///
/// # Users
///
/// When `user` is false the client is in the kernel. The queues of user clients are rings that they map, so
/// [`Self::post_send`], [`Self::post_recv`], [`Self::post_srq_recv`] and [`Self::poll_cq`] see objects of
/// kernel clients alone, and [`Self::doorbell`] those of user clients alone.
#[vtable]
pub trait Driver: Sized + Send + Sync + 'static {
    /// The type of link in `rdma link add NAME type TYPE`.
    const LINK_TYPE: &'static CStr;

    /// The names of the counters that each port has beside those of performance management; at least one.
    const PORT_COUNTERS: &'static [CounterName];

    /// Whether the devices have memory regions whose pages come and go.
    const ON_DEMAND: bool;

    /// The handle of a device. Dropped when the device is removed.
    type Device: Send + Sync + 'static;
    /// The handle of a protection domain.
    type Pd: Send + Sync + 'static;
    /// The handle of a completion queue.
    type Cq: Send + Sync + 'static;
    /// The handle of a queue pair.
    type Qp: Send + Sync + 'static;
    /// The handle of a shared receive queue.
    type Srq: Send + Sync + 'static;
    /// The handle of an address handle. Dropped in any context: its drop must not sleep.
    type Ah: Send + Sync + 'static;
    /// The handle of a memory region.
    type Mr: Send + Sync + 'static;
    /// The handle of a memory window.
    type Mw: Send + Sync + 'static;

    // Devices. The queries are called before the registration of the device has ended.

    /// The limits and capabilities of the device.
    fn query_device(dev: &Self::Device) -> DeviceAttr;

    /// The attributes of a port, from 1.
    fn query_port(cx: Cx<'_, Unlocked>, dev: &Self::Device, port: u32) -> Result<PortAttr>;

    /// What never changes about a port.
    fn port_immutable(dev: &Self::Device, port: u32) -> Result<PortImmutable>;

    /// An entry of the GID table, in network order; zero if the entry is empty.
    fn query_gid(
        cx: Cx<'_, Unlocked>,
        dev: &Self::Device,
        port: u32,
        index: u32,
    ) -> Result<[u8; 16]>;

    /// An entry of the P_Key table; zero if the entry is empty.
    fn query_pkey(cx: Cx<'_, Unlocked>, dev: &Self::Device, port: u32, index: u16) -> Result<u16>;

    /// Stores the values of [`Self::PORT_COUNTERS`] for a port.
    fn port_counters(dev: &Self::Device, port: u32, values: &mut [u64]) -> Result;

    /// Tells details of a queue pair, as do the next three functions of other objects.
    fn show_qp(cx: Cx<'_, Unlocked>, qp: &Self::Qp, detail: &mut Detail<'_>) -> Result;

    /// Tells details of a completion queue.
    fn show_cq(cx: Cx<'_, Unlocked>, cq: &Self::Cq, detail: &mut Detail<'_>) -> Result;

    /// Tells details of a memory region.
    fn show_mr(cx: Cx<'_, Unlocked>, mr: &Self::Mr, detail: &mut Detail<'_>) -> Result;

    /// Tells details of a shared receive queue.
    fn show_srq(cx: Cx<'_, Unlocked>, srq: &Self::Srq, detail: &mut Detail<'_>) -> Result;

    /// Changes a port for a client of ib_core.
    fn modify_port(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        dev: &Self::Device,
        port: u32,
        change: &PortModify,
    ) -> Result;

    /// Sets the node description.
    fn modify_device(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        dev: &Self::Device,
        node_desc: &[u8; 64],
    ) -> Result;

    /// Offers a management datagram to the driver before clients get it.
    ///
    /// `reply` is zero. What is in it counts for [`MadResult::Reply`] alone. Does not sleep.
    fn process_mad(
        cx: Cx<'_, Unlocked>,
        dev: &Self::Device,
        mad: &Mad<'_>,
        reply: &mut [u8; MAD_SIZE],
    ) -> MadResult;

    /// The device will be removed, by order of the administrator or with what it stands on. All clients have their
    /// objects yet, and those that are users learn of it when they have lost them: their work is to be completed now.
    ///
    /// It may come more than once, and not at all for a device whose registration fails, or that ib_core takes from its
    /// clients for a reason of its own: another driver with the same id goes, or the network namespace changes.
    fn ending(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, dev: &Self::Device);

    /// The device has come to clients: after it was registered, and with each network namespace that it is moved to.
    /// ib_mad, which came before the driver, has it already.
    fn arrived(dev: &Self::Device);

    /// The device is taken from its clients, since it is about to be removed or to be moved to another network
    /// namespace. Those that came after the driver have let go of it. ib_mad, which came before, will later.
    ///
    /// An answer that ib_mad sends while it does that is sent by what it has just freed: no datagram may be answered
    /// any more when this returns, until the device [has come](Self::arrived) to clients again.
    fn leaving(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, dev: &Self::Device);

    /// The device is called `name` now.
    fn renamed(s: Sleepable<'_>, dev: &Self::Device, name: &CStr);

    /// The device has been removed: no call comes any more, and no object is left.
    ///
    /// The handle is dropped after the return.
    fn removed(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, dev: &Self::Device);

    // Protection domains and memory.

    /// Makes a protection domain.
    fn alloc_pd(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, dev: &Self::Device) -> Result<Self::Pd>;

    /// Removes a protection domain.
    fn dealloc_pd(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, pd: &Self::Pd);

    /// Registers memory of a user, which keys name from `iova` on.
    ///
    /// The pages of `memory` come and go only if [`Self::ON_DEMAND`].
    fn reg_user_mr(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        memory: UserMemory,
        iova: u64,
        access: AccessFlags,
    ) -> Result<NewMr<Self::Mr>>;

    /// Takes an advice about memory, which lists name by local keys. With `flush` it is to be followed before the
    /// return.
    fn advise_mr(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        advice: Advice,
        flush: bool,
        list: &[Sge],
    ) -> Result {
        let _ = (cx, s, pd, advice, flush, list);
        Err(unsupported())
    }

    /// Registers all memory of the kernel, by its virtual addresses, for peers of a client there, which itself names it
    /// by [`LOCAL_DMA_LKEY`](super::LOCAL_DMA_LKEY).
    fn get_dma_mr(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        space: KernelSpace,
        access: AccessFlags,
    ) -> Result<NewMr<Self::Mr>>;

    /// Removes a memory region. Nothing refers to its memory after the handle has been dropped.
    fn dereg_mr(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, mr: &Self::Mr) -> Result;

    /// Makes a region for fast registration, which is to have `pages`: as many as it was asked for, and no more than
    /// [`DeviceAttr::max_fast_reg_page_list_len`](super::DeviceAttr::max_fast_reg_page_list_len).
    fn alloc_mr(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        pages: FastPages,
    ) -> Result<NewMr<Self::Mr>> {
        let _ = (cx, s, pd, pages);
        Err(unsupported())
    }

    /// Takes a new list of the pages of a region for fast registration, with
    /// [`FastPages::map`](crate::mem::FastPages::map).
    ///
    /// Does not sleep. The client sees to it that no request uses the region meanwhile.
    fn map_mr(cx: Cx<'_, Unlocked>, mr: &Self::Mr, list: &mut PageList<'_>) -> Result {
        let _ = (cx, mr, list);
        Err(unsupported())
    }

    /// Makes a memory window.
    fn alloc_mw(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        ty: MwType,
    ) -> Result<NewMw<Self::Mw>> {
        let _ = (cx, s, pd, ty);
        Err(unsupported())
    }

    /// Removes a memory window.
    fn dealloc_mw(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, mw: &Self::Mw) -> Result {
        let _ = (cx, s, mw);
        Err(unsupported())
    }

    // Completion queues.

    /// Makes a completion queue.
    fn create_cq(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        dev: &Self::Device,
        upcall: CqUpcall,
        init: &CqInit,
        user: bool,
    ) -> Result<NewCq<Self::Cq>>;

    /// Removes a completion queue. Its upcall does nothing any more after this.
    fn destroy_cq(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, cq: &Self::Cq);

    /// Moves the entries of a user's completion queue to a ring of another size.
    ///
    /// Tells the user of the new ring by `publish` before that: a queue whose user cannot be told stays as it is.
    /// Returns the number of entries granted.
    fn resize_cq(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        cq: &Self::Cq,
        entries: u32,
        publish: impl FnOnce(&Arc<Ring>) -> Result,
    ) -> Result<u32> {
        let _ = (cx, s, cq, entries, publish);
        Err(unsupported())
    }

    /// Moves completions of a kernel client's queue into `out` while there is room.
    fn poll_cq(cx: Cx<'_, Unlocked>, cq: &Self::Cq, out: &mut WcOut<'_>) -> Result;

    /// Arms the notification. Returns whether entries are there, if that is asked for.
    fn req_notify_cq(cx: Cx<'_, Unlocked>, cq: &Self::Cq, notify: Notify) -> Result<bool>;

    // Queue pairs.

    /// Makes a queue pair.
    fn create_qp(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        upcall: QpUpcall,
        init: &QpInit<'_, Self>,
        user: bool,
    ) -> Result<NewQp<Self::Qp>>;

    /// Changes a queue pair. The state machine is the driver's.
    fn modify_qp(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        qp: &Self::Qp,
        attr: &QpAttr,
        mask: QpAttrMask,
    ) -> Result;

    /// The attributes of a queue pair, and whether all its sends are signalled.
    fn query_qp(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, qp: &Self::Qp) -> Result<(QpAttr, bool)>;

    /// Removes a queue pair.
    ///
    /// The driver removes its completions from the completion queues of kernel clients. Its upcall does
    /// nothing any more after this.
    fn destroy_qp(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, qp: &Self::Qp) -> Result;

    /// A user has put requests into the ring of the send queue. In the task of the user.
    fn doorbell(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, qp: &Self::Qp) -> Result;

    /// Takes one request of a kernel client.
    fn post_send(cx: Cx<'_, Unlocked>, qp: &Self::Qp, wr: &SendWr<'_, Self>) -> Result;

    /// Takes one receive request of a kernel client.
    fn post_recv(cx: Cx<'_, Unlocked>, qp: &Self::Qp, wr: &RecvWr<'_>) -> Result;

    /// A chain of calls of [`Self::post_send`], of which one or more succeeded, has ended.
    fn posted(cx: Cx<'_, Unlocked>, qp: &Self::Qp);

    /// Attaches a datagram queue pair to a multicast group, by its GID in network order and its LID.
    fn attach_mcast(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        qp: &Self::Qp,
        mgid: &[u8; 16],
        mlid: u16,
    ) -> Result {
        let _ = (cx, s, qp, mgid, mlid);
        Err(unsupported())
    }

    /// Detaches a datagram queue pair from a multicast group.
    fn detach_mcast(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        qp: &Self::Qp,
        mgid: &[u8; 16],
        mlid: u16,
    ) -> Result {
        let _ = (cx, s, qp, mgid, mlid);
        Err(unsupported())
    }

    // Paths of queue pairs by number, for the connection manager.

    /// Whether connections on the device are the business of the manager of [`crate::cm`] alone, so that ib_cm is kept
    /// off it. Never changes.
    fn is_dedicated(dev: &Self::Device) -> bool;

    /// How a connected queue pair stands.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none of this number.
    fn path_state(cx: Cx<'_, Unlocked>, dev: &Self::Device, qpn: u32) -> Result<PathState>;

    /// Counts what the connection manager has to do with alternate paths, at the port where it has.
    fn count_path(dev: &Self::Device, port: u32, count: PathCount);

    /// Loads an alternate path into a queue pair that is connected to `peer` for its owner, who does not know, and asks
    /// for REARM. Its P_Key and its ACK timeout are those in use.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none of this number, `EPERM` if its owner manages paths or it is connected to another one,
    /// `EINVAL` if it is not in RTS, or ARMED, or the path cannot be.
    fn load_path(
        cx: Cx<'_, Unlocked>,
        dev: &Self::Device,
        qpn: u32,
        peer: QpPeer,
        path: &AhAttr,
    ) -> Result;

    // Shared receive queues.

    /// Makes a shared receive queue.
    fn create_srq(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        pd: &Self::Pd,
        upcall: SrqUpcall,
        init: &SrqAttr,
        user: bool,
    ) -> Result<NewSrq<Self::Srq>> {
        let _ = (cx, s, pd, upcall, init, user);
        Err(unsupported())
    }

    /// Changes a shared receive queue. Tells a user whose queue gets another size of the new ring by `publish` before
    /// that: a queue whose user cannot be told stays as it is.
    fn modify_srq(
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        srq: &Self::Srq,
        change: &SrqModify,
        user: bool,
        publish: impl FnOnce(&Arc<Ring>) -> Result,
    ) -> Result {
        let _ = (cx, s, srq, change, user, publish);
        Err(unsupported())
    }

    /// The attributes of a shared receive queue.
    fn query_srq(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, srq: &Self::Srq) -> Result<SrqAttr> {
        let _ = (cx, s, srq);
        Err(unsupported())
    }

    /// Removes a shared receive queue. Its upcall does nothing any more after this.
    fn destroy_srq(cx: Cx<'_, Unlocked>, s: Sleepable<'_>, srq: &Self::Srq) {
        let _ = (cx, s, srq);
    }

    /// Takes one receive request of a kernel client.
    fn post_srq_recv(cx: Cx<'_, Unlocked>, srq: &Self::Srq, wr: &RecvWr<'_>) -> Result {
        let _ = (cx, srq, wr);
        Err(unsupported())
    }

    // Address handles. These calls sleep only with a token for it.

    /// Makes an address handle, of a user with the token.
    fn create_ah(
        cx: Cx<'_, Unlocked>,
        pd: &Self::Pd,
        attr: &AhAttr,
        user: Option<Sleepable<'_>>,
    ) -> Result<NewAh<Self::Ah>>;

    /// The address of an address handle.
    fn query_ah(cx: Cx<'_, Unlocked>, ah: &Self::Ah) -> Result<AhAttr>;

    /// Changes the address of an address handle.
    fn modify_ah(cx: Cx<'_, Unlocked>, ah: &Self::Ah, attr: &AhAttr) -> Result;

    /// Removes an address handle.
    fn destroy_ah(cx: Cx<'_, Unlocked>, ah: &Self::Ah);
}
