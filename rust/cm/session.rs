// SPDX-License-Identifier: GPL-2.0

//! An open file of `/dev/sib_cm`: its identifiers, and the events that it has not read.

use crate::abi;
use crate::consumer::{
    Consumer,
    Identifier,
    Purpose,
    BACKLOG, //
};
use crate::device::Device;
use crate::mailbox::Mailbox;
use crate::tables::Shared;
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
use rdma::call::Call;
use rdma::chardev;
use rdma::sync::{
    Cx,
    NoIo,
    Sleepable,
    Unlocked, //
};

/// The most identifiers of one file.
const MAX_IDS: u32 = 65536;

/// What connections, listeners and questions of a file belong to.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) session: Arc<Session>,
    pub(crate) id: u32,
    /// What the program calls it.
    uid: u64,
}

impl Owner {
    /// Has the program read of an event.
    pub(crate) fn tell(&self, event: abi::Event) {
        self.session.push(abi::Event {
            uid: self.uid,
            id: self.id,
            ..event
        });
    }

    /// The same, by who has no lock that would keep the program from destroying the identifier meanwhile.
    pub(crate) fn tell_if_there(&self, event: abi::Event) {
        // Whoever destroys an identifier takes it away first, and forgets its events then.
        let mut ids = self.session.ids.lock();
        if ids.get(self.id).is_ok() {
            self.tell(event);
        }
    }

    /// Makes an identifier for what a peer has asked this listener for.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the program has destroyed the listener; `ENODEV`, `ENOSPC` or `ENOMEM` if there is no identifier.
    pub(crate) fn adopt(
        &self,
        device: &Arc<Device>,
        purpose: Purpose,
        belong: impl FnOnce(Consumer),
    ) -> Result {
        let mut ids = self.session.ids.lock();
        ids.get(self.id)?;
        let id = ids.add(Entry {
            uid: self.uid,
            device: device.clone(),
            purpose,
        })?;
        belong(Consumer::File(Self { id, ..self.clone() }));
        Ok(())
    }
}

/// An identifier of a program, by its number.
pub(crate) struct Number {
    pub(crate) session: Arc<Session>,
    pub(crate) id: u32,
}

impl Identifier for Number {
    fn shared(&self) -> Arc<Shared> {
        self.session.shared.clone()
    }

    fn with<R>(
        &self,
        f: impl FnOnce(&Arc<Device>, Consumer, &mut Purpose) -> Result<R>,
    ) -> Result<R> {
        let mut ids = self.session.ids.lock();
        let entry = ids.get(self.id)?;
        let consumer = Consumer::File(Owner {
            session: self.session.clone(),
            id: self.id,
            uid: entry.uid,
        });
        f(&entry.device, consumer, &mut entry.purpose)
    }
}

/// An identifier.
pub(crate) struct Entry {
    pub(crate) uid: u64,
    pub(crate) device: Arc<Device>,
    pub(crate) purpose: Purpose,
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
            .try_create_and_insert(self.last, entry, GFP_KERNEL_ACCOUNT)?;
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
    /// Who takes it allocates in a scope of [`NoIo`], as for a [`NoIoMutex`](rdma::sync::NoIoMutex).
    #[pin]
    events: Mutex<Mailbox>,
    #[pin]
    readers: PollCondVar,
}

impl Session {
    /// Adds an event. If there is no memory for it, it is lost.
    fn push(&self, event: abi::Event) {
        let _scope = NoIo::begin();
        let Ok(event) = KBox::new(event, GFP_KERNEL_ACCOUNT) else {
            return;
        };
        let pushed = self.events.lock().push(event);
        if pushed.is_ok() {
            self.readers.notify_all();
        }
    }

    /// Whether one more request may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.events.lock().len() < BACKLOG
    }

    /// Takes the oldest event, and waits for one if it may. The number is for [`Self::put_back`].
    pub(crate) fn next_event(&self, nonblocking: bool) -> Result<(u64, KBox<abi::Event>)> {
        let mut events = self.events.lock();
        loop {
            if let Some(event) = events.pop() {
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

    /// Keeps an event that the program could not be given: it is the next one again. If there is no memory for it, it is
    /// lost.
    pub(crate) fn put_back(&self, age: u64, event: KBox<abi::Event>) {
        let _scope = NoIo::begin();
        // Whoever destroys an identifier takes it away first, and forgets its events then.
        let mut ids = self.ids.lock();
        if ids.get(event.id).is_err() {
            return;
        }
        let kept = self.events.lock().put_back(age, event);
        drop(ids);
        if kept.is_ok() {
            self.readers.notify_all();
        }
    }

    /// No event of `id` comes any more.
    pub(crate) fn forget_events(&self, id: u32) {
        self.events.lock().forget(id);
    }

    /// Refuses what peers have asked a listener for that is none any more, as far as the program has not read of it.
    pub(crate) fn refuse_requests(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        listener: u32,
    ) {
        loop {
            let request = self.events.lock().take_request(listener);
            let Some(id) = request else { return };
            let entry = self.ids.lock().remove(id);
            if let Ok(entry) = entry {
                self.end(cx, s, entry);
                self.forget_events(id);
            }
        }
    }

    /// Ends what an identifier stood for.
    pub(crate) fn end(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>, entry: Entry) {
        entry.purpose.end(cx, s, &self.shared, &entry.device);
    }
}

impl chardev::Session for Session {
    const MODULE: &'static ThisModule = &crate::MODULE;

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
                events <- new_mutex!(Mailbox::new(), "Session::events"),
                readers <- new_poll_condvar!("Session::readers"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    fn ioctl(
        self: &Arc<Self>,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        call: Call<'_>,
    ) -> Result<isize> {
        crate::commands::of_file::run(self, cx, s, call)
    }

    fn waiters(&self) -> &PollCondVar {
        &self.readers
    }

    fn is_ready(&self) -> bool {
        self.events.lock().len() != 0
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
