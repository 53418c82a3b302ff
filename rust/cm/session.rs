// SPDX-License-Identifier: GPL-2.0

//! An open file of `/dev/sib_cm`: its identifiers, and the events that it has not read.

use crate::abi;
use crate::connection::Connection;
use crate::device::Device;
use crate::question::Question;
use crate::tables::{
    Listener,
    Service,
    Shared, //
};
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::poll::PollCondVar;
use kernel::sync::{
    Arc,
    Mutex, //
};
use kernel::{
    new_mutex,
    new_poll_condvar, //
};
use proto::cm::{
    Event,
    Order,
    SidrEvent,
    SidrOrder, //
};
use rdma::chardev;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use wire::mad::cm::Cm;

/// Requests for connections that wait for the program. What is more is lost, and repeated by the peer.
const BACKLOG: usize = 1024;

/// The most identifiers of one file.
const MAX_IDS: u32 = 65536;

/// Whom a connection or a listener belongs to.
#[derive(Clone)]
pub(crate) struct Consumer {
    pub(crate) session: Arc<Session>,
    pub(crate) id: u32,
    /// What the program calls it.
    pub(crate) uid: u64,
}

impl Consumer {
    /// Has the program read of an event.
    pub(crate) fn tell(&self, event: abi::Event) {
        self.session.push(abi::Event {
            uid: self.uid,
            id: self.id,
            ..event
        });
    }
}

/// An identifier.
pub(crate) struct Entry {
    pub(crate) uid: u64,
    pub(crate) device: Arc<Device>,
    pub(crate) purpose: Purpose,
}

/// What an identifier stands for.
pub(crate) enum Purpose {
    /// Nothing yet.
    Nothing,
    /// A listener.
    Listener(Service),
    /// A connection.
    Connection(Arc<Connection>),
    /// A question for a queue pair.
    Question(Arc<Question>),
}

/// The identifiers.
pub(crate) struct Ids {
    entries: RBTree<u32, Entry>,
    count: u32,
    last: u32,
    is_closed: bool,
}

impl Ids {
    /// A new identifier.
    pub(crate) fn add(&mut self, entry: Entry) -> Result<u32> {
        if self.is_closed {
            return Err(ENODEV);
        }
        if self.count >= MAX_IDS {
            return Err(ENOSPC);
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.entries.get(&self.last).is_none() {
                break;
            }
        }
        self.entries
            .try_create_and_insert(self.last, entry, GFP_KERNEL)?;
        self.count = self.count.saturating_add(1);
        Ok(self.last)
    }

    /// What `id` stands for.
    pub(crate) fn get(&mut self, id: u32) -> Result<&mut Entry> {
        self.entries.get_mut(&id).ok_or(EINVAL)
    }

    /// Forgets `id`.
    pub(crate) fn remove(&mut self, id: u32) -> Result<Entry> {
        let entry = self.entries.remove(&id).ok_or(EINVAL)?;
        self.count = self.count.saturating_sub(1);
        Ok(entry)
    }

    /// Forgets one, if there is any.
    fn take_any(&mut self) -> Option<Entry> {
        let id = *self.entries.keys().next()?;
        self.remove(id).ok()
    }
}

/// An open file.
#[pin_data]
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    #[pin]
    pub(crate) ids: Mutex<Ids>,
    /// The oldest comes first.
    #[pin]
    events: Mutex<KVec<KBox<abi::Event>>>,
    #[pin]
    readers: PollCondVar,
}

impl Session {
    /// Adds an event. If there is no memory for it, it is lost. An offer of a path takes the place of one that has not
    /// been read, so that a peer cannot have any number of them kept.
    pub(crate) fn push(&self, event: abi::Event) {
        let Ok(event) = KBox::new(event, GFP_KERNEL) else {
            return;
        };
        let mut events = self.events.lock();
        if event.is_offer() {
            events.retain(|old| old.id != event.id || !old.is_offer());
        }
        let pushed = events.push(event, GFP_KERNEL);
        drop(events);
        if pushed.is_ok() {
            self.readers.notify_all();
        }
    }

    /// Takes the oldest event, and waits for one if it may.
    pub(crate) fn next_event(&self, nonblocking: bool) -> Result<KBox<abi::Event>> {
        let mut events = self.events.lock();
        loop {
            if let Ok(event) = events.remove(0) {
                return Ok(event);
            }
            if nonblocking {
                return Err(EAGAIN);
            }
            if self.readers.wait_interruptible(&mut events) {
                return Err(EINTR);
            }
        }
    }

    /// No event of `id` comes any more.
    pub(crate) fn forget_events(&self, id: u32) {
        self.events.lock().retain(|event| event.id != id);
    }

    /// Takes a connection that a peer has asked for.
    pub(crate) fn welcome(
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        listener: &Listener,
        connection: &Arc<Connection>,
        mad: &Cm,
    ) {
        let session = &listener.consumer.session;
        let has_room = session.events.lock().len() < BACKLOG;
        let taken = if has_room {
            session.adopt(&listener.consumer, connection)
        } else {
            Err(ENOMEM)
        };
        match taken {
            Ok(()) => connection.announce(mad, listener.consumer.id),
            Err(_) => connection.discard(cx, s),
        }
    }

    /// Gives a connection an identifier.
    fn adopt(self: &Arc<Self>, listener: &Consumer, connection: &Arc<Connection>) -> Result {
        self.shared.insert(connection)?;
        let mut ids = self.ids.lock();
        let id = ids.add(Entry {
            uid: listener.uid,
            device: connection.device().clone(),
            purpose: Purpose::Connection(connection.clone()),
        })?;
        connection.belong(self.consumer(id, listener.uid));
        Ok(())
    }

    fn consumer(self: &Arc<Self>, id: u32, uid: u64) -> Consumer {
        Consumer {
            session: self.clone(),
            id,
            uid,
        }
    }

    /// Takes a question that a peer asks.
    pub(crate) fn consider(
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        listener: &Listener,
        question: &Arc<Question>,
        mad: &Cm,
    ) {
        let session = &listener.consumer.session;
        let has_room = session.events.lock().len() < BACKLOG;
        let taken = if has_room {
            session.adopt_question(&listener.consumer, question)
        } else {
            Err(ENOMEM)
        };
        match taken {
            Ok(()) => question.announce(mad, listener.consumer.id),
            Err(_) => question.discard(cx, s),
        }
    }

    /// Gives a question an identifier.
    fn adopt_question(self: &Arc<Self>, listener: &Consumer, question: &Arc<Question>) -> Result {
        self.shared.insert_question(question)?;
        let mut ids = self.ids.lock();
        let id = ids.add(Entry {
            uid: listener.uid,
            device: question.device().clone(),
            purpose: Purpose::Question(question.clone()),
        })?;
        question.belong(self.consumer(id, listener.uid));
        Ok(())
    }

    /// Has an identifier that stands for nothing yet stand for something.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it does already.
    pub(crate) fn occupy(self: &Arc<Self>, id: u32, purpose: Purpose) -> Result<Consumer> {
        let mut ids = self.ids.lock();
        let entry = ids.get(id)?;
        let Purpose::Nothing = entry.purpose else {
            return Err(EBUSY);
        };
        entry.purpose = purpose;
        Ok(self.consumer(id, entry.uid))
    }

    /// Ends what an identifier stood for.
    pub(crate) fn end(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>, entry: Entry) {
        match entry.purpose {
            Purpose::Nothing => {}
            Purpose::Listener(service) => self.shared.unlisten(service, &entry.device),
            Purpose::Connection(connection) => {
                let _ = connection.step(cx, s, Event::Order(Order::Destroy), None);
            }
            Purpose::Question(question) => {
                let order = SidrEvent::Order(SidrOrder::Destroy);
                let _ = question.step(cx, s, order, None);
            }
        }
    }
}

impl chardev::Session for Session {
    type Shared = Shared;

    fn open(shared: &Arc<Shared>) -> Result<Arc<Self>> {
        let shared = shared.clone();
        Arc::pin_init(
            pin_init!(Self {
                shared,
                ids <- new_mutex!(
                    Ids {
                        entries: RBTree::new(),
                        count: 0,
                        last: 0,
                        is_closed: false,
                    },
                    "Session::ids"
                ),
                events <- new_mutex!(KVec::new(), "Session::events"),
                readers <- new_poll_condvar!("Session::readers"),
            }),
            GFP_KERNEL,
        )
    }

    fn ioctl(
        self: &Arc<Self>,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        call: chardev::Call,
    ) -> Result<isize> {
        crate::commands::run(self, cx, s, call)
    }

    fn waiters(&self) -> &PollCondVar {
        &self.readers
    }

    fn is_ready(&self) -> bool {
        !self.events.lock().is_empty()
    }

    fn close(self: Arc<Self>, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.ids.lock().is_closed = true;
        loop {
            let entry = self.ids.lock().take_any();
            let Some(entry) = entry else { break };
            self.end(&mut cx, s, entry);
        }
    }
}
