// SPDX-License-Identifier: GPL-2.0

//! A connection: the machine of [`proto::cm`], its clock, and whom it belongs to.
//!
//! What a step leads to is done under the mutex of the connection, so that datagrams leave and events are told in
//! the order of the steps. Neither calls back.

use crate::bound::Bound;
use crate::consumer::Consumer;
use crate::device::{
    back,
    migration_of,
    Device,
    Ends,
    Here, //
};
use crate::tables::Shared;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use proto::cm::{
    Action,
    Attributes,
    Conn,
    Env,
    Event,
    Goal,
    Notice,
    Order,
    Refusal,
    Slot,
    State, //
};
use proto::time::{
    Duration,
    Instant, //
};
use rdma::cm::{
    PathState,
    Way, //
};
use rdma::errno;
use rdma::new_work;
use rdma::sync::{
    Cx,
    IrqsOn,
    NoIoMutex,
    Sleepable,
    Unlocked, //
};
use rdma::timer::{
    Expire,
    Timer, //
};
use rdma::work::{
    Run,
    Work, //
};
use wire::mad::cm::{
    Cm,
    Path, //
};
use wire::{
    Guid,
    PKey,
    Qpn, //
};

/// What the peer calls a connection that it has asked for: the GUID of the HCA here, its CA GUID and its communication ID,
/// by which it may ask another HCA for another one.
pub(crate) type PeerKey = (u64, u64, u32);

/// The GUID of the HCA here, and the peer's CA GUID and queue pair.
pub(crate) type PeerQp = (u64, u64, u32);

/// A connection.
#[pin_data]
pub(crate) struct Connection {
    comm_id: u32,
    /// Set if the peer has asked for it.
    peer: Option<PeerKey>,
    /// Its queue pair.
    pub(crate) bound: Bound,
    shared: Arc<Shared>,
    device: Arc<Device>,
    #[pin]
    inner: NoIoMutex<Inner>,
    /// Expires when the machine wants to be ticked, and wakes the worker.
    #[pin]
    clock: Timer<Connection>,
    #[pin]
    work: Work<Connection>,
}

/// What the mutex guards.
struct Inner {
    conn: Conn,
    consumer: Option<Consumer>,
    /// The partition of its datagrams, by whichever port they leave.
    pkey: u16,
    /// The queue pair of the peer, which has no other connection here.
    claimed: Option<PeerQp>,
    /// Nothing happens any more.
    is_over: bool,
}

impl Inner {
    /// Tells the consumer; an event is large.
    #[inline(never)]
    fn tell(&self, notice: Notice, mad: Option<&Cm>) {
        if let Some(consumer) = &self.consumer {
            consumer.tell(crate::events::notice(&self.conn, notice, mad));
        }
    }
}

/// What is known to a program of a refusal.
pub(crate) fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Invalid => EINVAL,
        Refusal::Busy => EBUSY,
        Refusal::Again => EAGAIN,
        Refusal::Stale => errno::stale(),
    }
}

/// The time.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(rdma::time::now_ns())
}

impl Connection {
    /// A connection, which is in no table yet.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        device: &Arc<Device>,
        conn: Conn,
        is_incoming: bool,
        pkey: u16,
    ) -> Result<Arc<Self>> {
        let (comm_id, theirs) = conn.comm_ids();
        let (guid, _) = conn.peer();
        let peer = is_incoming.then_some((device.adapter.guid(), guid.get(), theirs));
        let shared = shared.clone();
        let device = device.clone();
        let this = Arc::pin_init(
            pin_init!(Self {
                comm_id,
                peer,
                bound: Bound::new(),
                shared,
                device,
                inner <- NoIoMutex::new(new_mutex!(
                    Inner {
                        conn,
                        consumer: None,
                        pkey,
                        claimed: None,
                        is_over: false,
                    },
                    "Connection::inner"
                )),
                clock <- Timer::new(),
                work <- new_work!("Connection::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        this.clock.attach(this.clone()).map_err(|_| EBUSY)?;
        Ok(this)
    }

    /// Its communication ID.
    pub(crate) fn comm_id(&self) -> u32 {
        self.comm_id
    }

    /// What the peer calls it, if the peer has asked for it.
    pub(crate) fn peer(&self) -> Option<PeerKey> {
        self.peer
    }

    /// Whether it is on this HCA.
    pub(crate) fn is_on(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Whether its queue pair is this one.
    pub(crate) fn is_of(&self, device: &Arc<Device>, qpn: u32) -> bool {
        self.bound.is(qpn) && self.is_on(device)
    }

    /// The HCA that it is on.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Has it be the connection of the peer's queue pair, unless there is another, which is returned. It has no other one
    /// of the peer's then: two REPs may name two of them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` if it is over.
    pub(crate) fn claim(self: &Arc<Self>, guid: Guid, qpn: Qpn) -> Result<Option<Arc<Self>>> {
        let peer = (self.device.adapter.guid(), guid.get(), qpn.get());
        let mut inner = self.inner.lock();
        if inner.is_over {
            return Err(ENODEV);
        }
        let other = self.shared.claim(peer, self)?;
        if other.is_none() && inner.claimed != Some(peer) {
            self.release(&mut inner);
            inner.claimed = Some(peer);
        }
        Ok(other)
    }

    /// Gives it to a consumer.
    pub(crate) fn belong(&self, consumer: Consumer) {
        self.inner.lock().consumer = Some(consumer);
    }

    /// Looks at the machine.
    pub(crate) fn inspect<R>(&self, look: impl FnOnce(&Conn) -> R) -> R {
        look(&self.inner.lock().conn)
    }

    /// What the consumer is to set in the queue pair for it to go to a state, and in which partition.
    pub(crate) fn attributes(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        goal: Goal,
    ) -> Result<(Attributes, PKey)> {
        let inner = self.inner.lock();
        let conn = &inner.conn;
        let adapter = &self.device.adapter;
        let state = adapter.path_state(cx, s, conn.local_qpn().get());
        // One that is not there may have been.
        let is_fresh = state.is_ok_and(|state| state.is_fresh);
        let attributes = conn.attributes(goal, is_fresh).map_err(refused)?;
        Ok((attributes, conn.pkey()))
    }

    /// Tells the consumer of the REQ that the connection was made for.
    pub(crate) fn announce(&self, mad: &Cm, listener: u32) {
        let inner = self.inner.lock();
        if let Some(consumer) = &inner.consumer {
            let mut event = crate::events::received(&inner.conn, mad);
            event.listener = listener;
            consumer.tell(event);
        }
    }

    /// Steps the machine, and does what that leads to. `mad` is the datagram that the event is about.
    pub(crate) fn step(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        event: Event<'_>,
        mad: Option<&Cm>,
    ) -> Result {
        let ends = self.device.ends(cx, s);
        let mut inner = self.inner.lock();
        if inner.is_over {
            return Err(ENODEV);
        }
        let state = self.path_state(cx, s, &inner.conn);
        if matches!(event, Event::Confirmed) && state.is_some_and(|state| state.is_unheard) {
            // It has gone over again since that was due, and its peer is yet to be heard.
            return Ok(());
        }
        let env = Env {
            now: now(),
            migration: migration_of(state.as_ref()),
            local: &Here {
                device: &self.device,
                ends: &ends,
            },
        };
        // What the queue pair has counts, whoever tells of a migration, and however late.
        let ways = match event {
            Event::Migrated => state.as_ref().and_then(|state| ends.ways(state)),
            _ => None,
        };
        let event = ways.as_ref().map_or(event, Event::Moved);
        // Whoever reads that the HCA is gone is not to be told anything else by the next order.
        let is_gone = matches!(event, Event::Gone);
        let pkey = match &event {
            Event::Order(Order::Connect(req, _)) => Some(req.pkey.get()),
            _ => None,
        };
        let actions = inner.conn.step(event, &env).map_err(refused)?;
        self.bound.follow(&inner.conn);
        inner.pkey = pkey.unwrap_or(inner.pkey);
        inner.is_over |= is_gone;
        for action in actions.iter() {
            match action {
                Action::Send(slot) => self.send(cx, s, &inner, slot, &ends),
                Action::Tell(notice) => inner.tell(notice, mad),
                Action::Count(count) => self.device.count(&ends, &inner.conn, count),
                Action::Free => inner.is_over = true,
            }
        }
        if inner.conn.state() == State::Idle {
            self.release(&mut inner);
            self.shared.forget_name(self);
        }
        let is_over = inner.is_over;
        match inner.conn.deadline() {
            Some(at) if !is_over => {
                self.clock.arm(at.nanos());
            }
            _ => self.clock.disarm(),
        }
        drop(inner);
        if is_over {
            self.end(cx, s);
        }
        Ok(())
    }

    /// How the queue pair stands, if it is connected as both ends have said.
    fn path_state(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        conn: &Conn,
    ) -> Option<PathState> {
        let state = self
            .device
            .adapter
            .path_state(cx, s, conn.local_qpn().get())
            .ok()?;
        (state.peer.qpn == conn.peer().1.get()).then_some(state)
    }

    /// The HCA tells that the queue pair has gone over: to its alternate path, or to one that the program has loaded
    /// without a LAP.
    pub(crate) fn migrated(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let agreed = self.inspect(|conn| conn.alternate().copied());
        if self.step(cx, s, Event::Migrated, None).is_err() {
            return;
        }
        let primary = self.inspect(|conn| *conn.primary());
        if agreed != Some(primary) {
            self.log_stray(&primary);
        }
    }

    /// Logs that the queue pair is on another path than both ends have agreed on, but not each time.
    fn log_stray(&self, path: &Path) {
        /// When that was last done, in nanoseconds; 0 for never.
        static LAST: Atomic<u64> = Atomic::new(0);
        const PAUSE: Duration = Duration::from_millis(5_000);

        let (now, last) = (now(), LAST.load(Relaxed));
        if last != 0 && now < Instant::from_nanos(last).after(PAUSE) {
            return;
        }
        LAST.store(now.nanos(), Relaxed);
        pr_info!(
            "connection {:#x}: its queue pair has gone to LID {}, by another path than was agreed on\n",
            self.comm_id,
            path.remote_lid.get()
        );
    }

    /// The program tells of it, which is no news if the HCA has, or knows nothing of it.
    pub(crate) fn told_of_migration(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
    ) -> Result {
        match self.step(cx, s, Event::Migrated, None) {
            Err(err) if err == errno::stale() => Ok(()),
            outcome => outcome,
        }
    }

    /// Sends a datagram that the machine keeps. One that cannot be sent is lost, as on the way.
    fn send(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        inner: &Inner,
        slot: Slot,
        ends: &Ends,
    ) {
        let conn = &inner.conn;
        let adapter = &self.device.adapter;
        let forth = || ends.along(conn.primary(), 0);
        let way = match slot {
            Slot::Request => forth(),
            Slot::Reply | Slot::Once => back(&conn.source(), 0).or_else(forth),
        };
        if let Some((port, way)) = way {
            let way = Way {
                pkey_index: adapter.pkey_index(port, inner.pkey).unwrap_or(0),
                ..way
            };
            let _ = adapter.send(cx, s, port, &way, conn.datagram(slot).as_bytes());
        }
    }

    /// The HCA goes: there is nothing left to do.
    pub(crate) fn abandon(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let _ = self.step(cx, s, Event::Gone, None);
        self.discard(cx, s);
    }

    /// Refuses the REQ that it was made for if a path in that begins nowhere here; returns whether it does.
    ///
    /// What it needs of the stack is not to be part of its caller's frame.
    #[inline(never)]
    pub(crate) fn refuse_stray(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
    ) -> bool {
        let here = Here {
            device: &self.device,
            ends: &self.device.ends(cx, s),
        };
        let Some((reason, hint)) = self.inspect(|conn| conn.stray(&here)) else {
            return false;
        };
        let refusal = Order::Reject(reason, hint.as_bytes(), &[]);
        let _ = self.step(cx, s, Event::Order(refusal), None);
        true
    }

    /// Nobody wants it, and the peer is not told.
    pub(crate) fn discard(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.inner.lock().is_over = true;
        self.end(cx, s);
    }

    /// Ends its clock, and takes it out of the tables, in this order: what is in no table queues nothing, which is what
    /// the module waits for when it goes. Its consumer may keep it.
    fn end(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.clock.shutdown(cx, s);
        self.shared.forget(self);
        let mut inner = self.inner.lock();
        self.release(&mut inner);
        let consumer = inner.consumer.take();
        drop(inner);
        drop(consumer);
    }

    /// The peer may have another connection of its queue pair.
    fn release(&self, inner: &mut Inner) {
        if let Some(peer) = inner.claimed.take() {
            self.shared.release(peer);
        }
    }
}

impl Expire for Connection {
    type Pointer = Arc<Self>;

    fn expire(this: &Arc<Self>, _cx: Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
        let _ = this.shared.queue().enqueue(&this.work, this.clone());
    }
}

impl Run for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let _ = this.step(&mut cx, s, Event::Tick, None);
    }
}
