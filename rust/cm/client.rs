// SPDX-License-Identifier: GPL-2.0

//! Identifiers of other modules of the kernel, by `include/rdma/sib_cm.h`.
//!
//! The handler of a client is called by a worker, one event after the other, with no lock held. The request of a peer
//! comes with a new identifier, and is told by the worker of the listener: so whoever destroys the listener waits for
//! that, and the new one is the client's as soon as its handler has said so.

use crate::abi::Event;
use crate::commands;
use crate::consumer::{
    Consumer,
    Identifier,
    Purpose,
    BACKLOG, //
};
use crate::device::Device;
use crate::mailbox::Mailbox;
use crate::tables::Shared;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};
use rdma::call::Call;
use rdma::cm::api::{
    self,
    Handle, //
};
use rdma::new_work;
use rdma::sync::{
    Cx,
    NoIoMutex,
    Sleepable,
    Unlocked, //
};
use rdma::work::{
    Run,
    Work, //
};

/// How far an identifier has come.
enum Stage {
    /// The listener's handler has not been asked whether it wants it.
    Held(Arc<Client>),
    /// The client has it.
    Open,
    /// Nobody wants it, and a worker is to end it.
    Unwanted,
    /// It is over: no handler is called any more.
    Over,
}

/// What the client has not been told yet.
struct State {
    stage: Stage,
    events: Mailbox,
    /// Of a listener: what peers have asked for.
    requests: KVec<(KBox<Event>, Arc<Client>)>,
}

/// An identifier.
#[pin_data]
pub(crate) struct Client {
    shared: Arc<Shared>,
    device: Arc<Device>,
    handle: Handle<Client>,
    #[pin]
    purpose: Mutex<Purpose>,
    /// The innermost lock but for those of queues.
    #[pin]
    state: NoIoMutex<State>,
    #[pin]
    work: Work<Client>,
}

/// What a worker has to do.
enum Task {
    End,
    Tell(KBox<Event>),
    Ask(KBox<Event>, Arc<Client>),
}

impl Client {
    fn new(
        shared: &Arc<Shared>,
        device: &Arc<Device>,
        handle: Handle<Self>,
        purpose: Purpose,
        stage: Stage,
    ) -> Result<Arc<Self>> {
        let shared = shared.clone();
        let device = device.clone();
        Arc::pin_init(
            pin_init!(Self {
                shared,
                device,
                handle,
                purpose <- new_mutex!(purpose, "Client::purpose"),
                state <- NoIoMutex::new(new_mutex!(
                    State {
                        stage,
                        events: Mailbox::new(),
                        requests: KVec::new(),
                    },
                    "Client::state"
                )),
                work <- new_work!("Client::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    fn wake(self: &Arc<Self>) {
        // An item that is queued already starts after this.
        let _ = self.shared.clients().enqueue(&self.work, self.clone());
    }

    /// Whether one more request may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.state.lock().requests.len() < BACKLOG
    }

    /// Has the handler be told of an event. Without memory it is lost, and a request refused.
    pub(crate) fn tell(self: &Arc<Self>, event: Event) {
        let is_request = event.is_request();
        let event = KBox::new(event, GFP_KERNEL_ACCOUNT);
        if is_request {
            let listener = match &self.state.lock().stage {
                Stage::Held(listener) => Some(listener.clone()),
                Stage::Open | Stage::Unwanted | Stage::Over => None,
            };
            let asked = match (listener, event) {
                (Some(listener), Ok(event)) => listener.ask(event, self),
                _ => false,
            };
            if !asked {
                self.refuse();
            }
            return;
        }
        let Ok(event) = event else { return };
        let mut state = self.state.lock();
        let is_due = match state.stage {
            Stage::Held(_) => false,
            Stage::Open => true,
            Stage::Unwanted | Stage::Over => return,
        };
        let pushed = state.events.push(event);
        drop(state);
        if is_due && pushed.is_ok() {
            self.wake();
        }
    }

    /// Has the handler of this listener be asked whether it wants `newcomer`. Returns whether it will be.
    fn ask(self: &Arc<Self>, event: KBox<Event>, newcomer: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        let Stage::Open = state.stage else {
            return false;
        };
        let pushed = state
            .requests
            .push((event, newcomer.clone()), GFP_KERNEL_ACCOUNT);
        drop(state);
        self.wake();
        pushed.is_ok()
    }

    /// The handler of the listener wants it.
    fn open(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let listener = match core::mem::replace(&mut state.stage, Stage::Open) {
            Stage::Held(listener) => listener,
            stage => {
                // The client has destroyed it in the meantime.
                state.stage = stage;
                return;
            }
        };
        let is_due = state.events.len() != 0;
        drop(state);
        drop(listener);
        if is_due {
            self.wake();
        }
    }

    /// Nobody wants it: a worker ends it.
    fn refuse(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if let Stage::Over = state.stage {
            return;
        }
        let stage = core::mem::replace(&mut state.stage, Stage::Unwanted);
        drop(state);
        drop(stage);
        self.wake();
    }

    /// Makes an identifier for what a peer has asked this listener for.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        device: &Arc<Device>,
        purpose: Purpose,
        belong: impl FnOnce(Consumer),
    ) -> Result {
        let stage = Stage::Held(self.clone());
        let handle = self.handle.another()?;
        let newcomer = Self::new(&self.shared, device, handle, purpose, stage)?;
        // Until the handler has said that the client has it, the reference is taken back by whoever ends it.
        Handle::give(&newcomer)?;
        belong(Consumer::Kernel(newcomer));
        Ok(())
    }

    /// What is to be done next.
    fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        match state.stage {
            Stage::Held(_) | Stage::Over => None,
            Stage::Unwanted => {
                state.stage = Stage::Over;
                Some(Task::End)
            }
            Stage::Open => match state.requests.remove(0) {
                Ok((event, newcomer)) => Some(Task::Ask(event, newcomer)),
                Err(_) => state.events.pop().map(|(_, event)| Task::Tell(event)),
            },
        }
    }

    /// The end, as far as the client is concerned. Returns what was not told.
    fn close(&self) -> KVec<(KBox<Event>, Arc<Client>)> {
        let mut state = self.state.lock();
        let stage = core::mem::replace(&mut state.stage, Stage::Over);
        let events = core::mem::replace(&mut state.events, Mailbox::new());
        let requests = core::mem::take(&mut state.requests);
        drop(state);
        drop((stage, events));
        requests
    }

    /// Ends what it stood for. No handler is called any more.
    fn end(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        for (_, newcomer) in self.close() {
            newcomer.refuse();
        }
        let purpose = core::mem::replace(&mut *self.purpose.lock(), Purpose::Nothing);
        purpose.end(cx, s, &self.shared, &self.device);
    }
}

impl Run for Client {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        while let Some(task) = this.next() {
            match task {
                Task::End => {
                    this.end(&mut cx, s);
                    drop(this.handle.take());
                }
                Task::Tell(event) => {
                    if !this.handle.call(&mut cx, s, &event) {
                        this.refuse();
                    }
                }
                Task::Ask(event, newcomer) => {
                    if newcomer.handle.call(&mut cx, s, &event) {
                        newcomer.open();
                    } else {
                        newcomer.refuse();
                    }
                }
            }
        }
    }
}

impl Identifier for Arc<Client> {
    fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    fn with<R>(
        &self,
        f: impl FnOnce(&Arc<Device>, Consumer, &mut Purpose) -> Result<R>,
    ) -> Result<R> {
        f(
            &self.device,
            Consumer::Kernel(self.clone()),
            &mut self.purpose.lock(),
        )
    }
}

impl api::Client for Client {
    type Shared = Shared;
    type Event = Event;

    fn create(shared: &Arc<Shared>, guid: u64, handle: Handle<Self>) -> Result<Arc<Self>> {
        let device = shared.device(guid).ok_or(ENODEV)?;
        Self::new(shared, &device, handle, Purpose::Nothing, Stage::Open)
    }

    fn handle(&self) -> &Handle<Self> {
        &self.handle
    }

    fn command(
        self: &Arc<Self>,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        call: Call<'_>,
    ) -> Result<isize> {
        commands::run(|_| self.clone(), cx, s, call)
    }

    fn destroy(self: Arc<Self>, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let requests = self.close();
        for (_, newcomer) in requests {
            newcomer.refuse();
        }
        self.work.cancel(&mut cx, s);
        self.end(&mut cx, s);
    }
}
