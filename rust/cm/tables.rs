// SPDX-License-Identifier: GPL-2.0

//! What all sessions have in common: HCAs, listeners, and connections by their names.
//!
//! The mutex of the tables is the innermost one: nothing else is locked while it is held.

use crate::abi::ServiceKind;
use crate::connection::{
    Connection,
    PeerKey,
    PeerQp, //
};
use crate::consumer::Consumer;
use crate::device::Device;
use crate::policy::Policies;
use crate::question::{
    Name,
    Question, //
};
use crate::watch::Watch;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::{
    Arc,
    Mutex, //
};
use rdma::errno;
use rdma::sync::Sleepable;
use rdma::work::Queue;

/// What somebody may listen for: a service ID, of connections or of datagrams.
pub(crate) type Service = (u64, ServiceKind);

/// Questions of peers that are kept. More are lost, and repeated by the peer.
const MAX_ASKED: u32 = 4096;

/// Who waits for connections, or for questions about datagrams.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) consumer: Consumer,
    pub(crate) device: Arc<Device>,
}

/// What the mutex guards.
struct Tables {
    devices: KVec<Arc<Device>>,
    listeners: RBTree<Service, Listener>,
    /// By communication ID.
    connections: RBTree<u32, Arc<Connection>>,
    /// Those that a peer has asked for.
    incoming: RBTree<PeerKey, Arc<Connection>>,
    /// By the queue pair of the peer, as soon as that is known.
    queue_pairs: RBTree<PeerQp, Arc<Connection>>,
    questions: RBTree<Name, Arc<Question>>,
    /// How many of the questions are of peers.
    asked: u32,
    /// See [`Shared::order_ids`].
    ordered_ids: KVec<u32>,
}

/// What has become of datagrams.
pub(crate) struct Tally {
    passed: Atomic<u64>,
    consumed: Atomic<u64>,
}

impl Tally {
    /// Counts a datagram.
    pub(crate) fn count(&self, is_consumed: bool) {
        if is_consumed {
            self.consumed.fetch_add(1, Relaxed);
        } else {
            self.passed.fetch_add(1, Relaxed);
        }
    }

    /// Those that were left to ib_cm, and those that were taken.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.passed.load(Relaxed), self.consumed.load(Relaxed))
    }
}

/// The manager.
#[pin_data]
pub(crate) struct Shared {
    /// Nobody allocates with it held: it is taken when a queue pair ends, which memory that is being reclaimed may
    /// wait for.
    #[pin]
    tables: Mutex<Tables>,
    /// Where clocks have their work done. Whoever unloads the module has the last reference.
    queue: Queue,
    /// Where clients in the kernel are told of events: as long as their handlers take.
    clients: Queue,
    /// The high half of the transaction IDs of this host.
    tid_high: u32,
    pub(crate) tally: Tally,
    /// What the administrator wants of each HCA.
    pub(crate) policies: Arc<Policies>,
    /// Connections of ib_cm.
    pub(crate) watch: Arc<Watch>,
}

impl Shared {
    /// A manager without anything.
    pub(crate) fn new(s: Sleepable<'_>) -> Result<Arc<Self>> {
        let queue = Queue::slow(c"sib_cm", s)?;
        let clients = Queue::slow(c"sib_cm_clients", s)?;
        let tid_high = rdma::random::u32();
        let policies = Policies::new()?;
        let watch = Watch::new(tid_high, policies.clone(), s)?;
        Arc::pin_init(
            pin_init!(Self {
                tables <- new_mutex!(
                    Tables {
                        devices: KVec::new(),
                        listeners: RBTree::new(),
                        connections: RBTree::new(),
                        incoming: RBTree::new(),
                        queue_pairs: RBTree::new(),
                        questions: RBTree::new(),
                        asked: 0,
                        ordered_ids: KVec::new(),
                    },
                    "Shared::tables"
                ),
                queue,
                clients,
                tid_high,
                tally: Tally {
                    passed: Atomic::new(0),
                    consumed: Atomic::new(0),
                },
                policies,
                watch,
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn clients(&self) -> &Queue {
        &self.clients
    }

    pub(crate) fn tid_high(&self) -> u32 {
        self.tid_high
    }

    /// Adds an HCA.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add_device(&self, device: Arc<Device>) -> Result {
        loop {
            let count = self.tables.lock().devices.len().saturating_add(1);
            let mut devices = KVec::with_capacity(count, GFP_KERNEL)?;
            let mut tables = self.tables.lock();
            let fits = Iterator::chain(tables.devices.iter(), [&device])
                .all(|device| devices.push_within_capacity(device.clone()).is_ok());
            if fits {
                core::mem::swap(&mut tables.devices, &mut devices);
                return Ok(());
            }
        }
    }

    /// Copies what `each` shows of the tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn copy<T: Clone>(&self, each: impl Fn(&Tables, &mut dyn FnMut(&T))) -> Result<KVec<T>> {
        loop {
            let mut count = 0_usize;
            each(&self.tables.lock(), &mut |_| {
                count = count.saturating_add(1)
            });
            let mut all = KVec::with_capacity(count, GFP_KERNEL)?;
            let mut fits = true;
            each(&self.tables.lock(), &mut |value: &T| {
                fits &= all.push_within_capacity(value.clone()).is_ok();
            });
            if fits {
                return Ok(all);
            }
        }
    }

    /// The HCA with this GUID.
    pub(crate) fn device(&self, guid: u64) -> Option<Arc<Device>> {
        let tables = self.tables.lock();
        let mut devices = tables.devices.iter();
        devices
            .find(|device| device.adapter.guid() == guid)
            .cloned()
    }

    /// The HCA of this name.
    pub(crate) fn device_called(&self, name: &[u8]) -> Option<Arc<Device>> {
        let tables = self.tables.lock();
        let mut devices = tables.devices.iter();
        devices
            .find(|device| device.adapter.is_called(name))
            .cloned()
    }

    /// Calls `f` with each HCA.
    pub(crate) fn each_device<E>(
        &self,
        f: impl FnMut(&Arc<Device>) -> core::result::Result<(), E>,
    ) -> core::result::Result<(), E> {
        let tables = self.tables.lock();
        tables.devices.iter().try_for_each(f)
    }

    /// Forgets an HCA.
    pub(crate) fn remove_device(&self, device: &Arc<Device>) {
        let mut tables = self.tables.lock();
        tables.devices.retain(|known| !Arc::ptr_eq(known, device));
        device.leave();
    }

    /// Some connection on an HCA, or on any.
    pub(crate) fn any_on(&self, device: Option<&Arc<Device>>) -> Option<Arc<Connection>> {
        let tables = self.tables.lock();
        let mut connections = tables.connections.values();
        connections
            .find(|connection| device.is_none_or(|device| connection.is_on(device)))
            .cloned()
    }

    /// Some listener on an HCA, which is forgotten.
    pub(crate) fn take_listener_on(&self, device: &Arc<Device>) -> Option<Listener> {
        let mut tables = self.tables.lock();
        let mut listeners = tables.listeners.iter();
        let found = listeners.find(|(_, listener)| Arc::ptr_eq(&listener.device, device));
        let service = found.map(|(service, _)| *service)?;
        tables.listeners.remove(&service)
    }

    /// Notes a listener.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if there is another one; `ENODEV` if the HCA is gone.
    pub(crate) fn listen(&self, service: Service, listener: Listener) -> Result {
        let device = listener.device.clone();
        let node = RBTreeNode::new(service, listener, GFP_KERNEL_ACCOUNT)?;
        let mut tables = self.tables.lock();
        device.check()?;
        if tables.listeners.get(&service).is_some() {
            return Err(errno::address_in_use());
        }
        tables.listeners.insert(node);
        Ok(())
    }

    /// Forgets the listener for a service, if it is that of `device`, which may be gone.
    pub(crate) fn unlisten(&self, service: Service, device: &Arc<Device>) {
        let mut tables = self.tables.lock();
        let listener = tables.listeners.get(&service);
        let is_it = listener.is_some_and(|listener| Arc::ptr_eq(&listener.device, device));
        let listener = is_it.then(|| tables.listeners.remove(&service));
        drop(tables);
        drop(listener);
    }

    /// Who listens for this service.
    pub(crate) fn listener(&self, service: Service) -> Option<Listener> {
        self.tables.lock().listeners.get(&service).cloned()
    }

    /// A request ID that no question has.
    pub(crate) fn request_id(&self) -> u32 {
        let tables = self.tables.lock();
        loop {
            let id = rdma::random::u32();
            if tables.questions.get(&Name::Ours(id)).is_none() {
                return id;
            }
        }
    }

    /// Puts a question into the table.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one of its name; `ENOSPC` if too many peers ask; `ENODEV` if the HCA is gone.
    pub(crate) fn insert_question(&self, question: &Arc<Question>) -> Result {
        let name = question.name();
        let node = RBTreeNode::new(name, question.clone(), GFP_KERNEL_ACCOUNT)?;
        let mut tables = self.tables.lock();
        question.device().check()?;
        if tables.questions.get(&name).is_some() {
            return Err(EEXIST);
        }
        let is_asked = matches!(name, Name::Theirs(..));
        if is_asked && tables.asked >= MAX_ASKED {
            return Err(ENOSPC);
        }
        tables.questions.insert(node);
        tables.asked = tables.asked.saturating_add(is_asked.into());
        Ok(())
    }

    /// Takes a question out of the table, if it is there.
    pub(crate) fn forget_question(&self, question: &Arc<Question>) {
        let mut tables = self.tables.lock();
        let name = question.name();
        let known = tables.questions.get(&name);
        if known.is_some_and(|known| Arc::ptr_eq(known, question)) {
            tables.questions.remove(&name);
            let is_asked = matches!(name, Name::Theirs(..));
            tables.asked = tables.asked.saturating_sub(is_asked.into());
        }
    }

    /// The question of this name.
    pub(crate) fn question(&self, name: Name) -> Option<Arc<Question>> {
        self.tables.lock().questions.get(&name).cloned()
    }

    /// Some question on an HCA, or on any.
    pub(crate) fn any_question_on(&self, device: Option<&Arc<Device>>) -> Option<Arc<Question>> {
        let tables = self.tables.lock();
        let mut questions = tables.questions.values();
        questions
            .find(|question| device.is_none_or(|device| question.is_on(device)))
            .cloned()
    }

    /// All questions.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn questions(&self) -> Result<KVec<Arc<Question>>> {
        self.copy(|tables, show| tables.questions.values().for_each(show))
    }

    /// Has the next connections be called by these communication IDs, as far as no connection here is; 0 leaves one
    /// alone. For tests: so they can have the name of one of ib_cm.
    pub(crate) fn order_ids(&self, ids: KVec<u32>) {
        let old = core::mem::replace(&mut self.tables.lock().ordered_ids, ids);
        drop(old);
    }

    /// Those of [`order_ids`](Self::order_ids) that no connection has got yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn ordered_ids(&self) -> Result<KVec<u32>> {
        self.copy(|tables, show| tables.ordered_ids.iter().for_each(show))
    }

    /// A communication ID that no connection has, nor one of ib_cm that is known, unless another was ordered.
    pub(crate) fn comm_id(&self) -> u32 {
        let ordered = self.tables.lock().ordered_ids.remove(0).unwrap_or(0);
        if ordered != 0 && self.connection(ordered).is_none() {
            return ordered;
        }
        loop {
            let id = rdma::random::u32();
            if id != 0 && self.connection(id).is_none() && !self.watch.has_id(id) {
                return id;
            }
        }
    }

    /// Puts a connection into the tables.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one of one of its names; `ENODEV` if the HCA is gone.
    pub(crate) fn insert(&self, connection: &Arc<Connection>) -> Result {
        let comm_id = connection.comm_id();
        let peer = connection.peer();
        let node = RBTreeNode::new(comm_id, connection.clone(), GFP_KERNEL_ACCOUNT)?;
        let named = peer.map(|peer| RBTreeNode::new(peer, connection.clone(), GFP_KERNEL_ACCOUNT));
        let named = named.transpose()?;
        let mut tables = self.tables.lock();
        connection.device().check()?;
        let is_known = peer.is_some_and(|peer| tables.incoming.get(&peer).is_some());
        if is_known || tables.connections.get(&comm_id).is_some() {
            return Err(EEXIST);
        }
        if let Some(named) = named {
            tables.incoming.insert(named);
        }
        tables.connections.insert(node);
        Ok(())
    }

    /// What the peer calls a connection may be another one's name: it is at rest.
    pub(crate) fn forget_name(&self, connection: &Arc<Connection>) {
        let Some(peer) = connection.peer() else {
            return;
        };
        let mut tables = self.tables.lock();
        let found = tables.incoming.get(&peer);
        if found.is_some_and(|found| Arc::ptr_eq(found, connection)) {
            tables.incoming.remove(&peer);
        }
    }

    /// Takes a connection out of the tables, if it is there.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        let mut tables = self.tables.lock();
        let is_it = |found: Option<&Arc<Connection>>| {
            found.is_some_and(|found| Arc::ptr_eq(found, connection))
        };
        if is_it(tables.connections.get(&connection.comm_id())) {
            tables.connections.remove(&connection.comm_id());
        }
        if let Some(peer) = connection.peer() {
            if is_it(tables.incoming.get(&peer)) {
                tables.incoming.remove(&peer);
            }
        }
    }

    /// Has a connection be the one of a queue pair of a peer, unless there is another, which is returned.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn claim(
        &self,
        peer: PeerQp,
        connection: &Arc<Connection>,
    ) -> Result<Option<Arc<Connection>>> {
        let node = RBTreeNode::new(peer, connection.clone(), GFP_KERNEL_ACCOUNT)?;
        let mut tables = self.tables.lock();
        if let Some(known) = tables.queue_pairs.get(&peer) {
            let is_it = Arc::ptr_eq(known, connection);
            return Ok((!is_it).then(|| known.clone()));
        }
        tables.queue_pairs.insert(node);
        Ok(None)
    }

    /// A connection has the queue pair that it has claimed no more.
    pub(crate) fn release(&self, peer: PeerQp) {
        let connection = self.tables.lock().queue_pairs.remove(&peer);
        drop(connection);
    }

    /// All connections, by communication ID.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn connections(&self) -> Result<KVec<Arc<Connection>>> {
        self.copy(|tables, show| tables.connections.values().for_each(show))
    }

    /// The connection with this communication ID.
    pub(crate) fn connection(&self, comm_id: u32) -> Option<Arc<Connection>> {
        self.tables.lock().connections.get(&comm_id).cloned()
    }

    /// The connection of a queue pair; one that ends, or whose program has put the queue pair out of use, only if there
    /// is no other.
    pub(crate) fn connection_of(&self, device: &Arc<Device>, qpn: u32) -> Option<Arc<Connection>> {
        let tables = self.tables.lock();
        let connections = tables.connections.values();
        connections
            .filter(|connection| connection.is_of(device, qpn))
            .min_by_key(|connection| connection.bound.yields())
            .cloned()
    }

    /// The connection that a peer has asked for by this name.
    pub(crate) fn incoming(&self, peer: PeerKey) -> Option<Arc<Connection>> {
        self.tables.lock().incoming.get(&peer).cloned()
    }
}
