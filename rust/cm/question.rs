// SPDX-License-Identifier: GPL-2.0

//! A question for the queue pair of a service, at either end: the machine of [`proto::cm::Resolution`], its clock,
//! and whom it belongs to. As [`crate::connection`], of which it is none.

use crate::abi::ServiceKind;
use crate::connection::{
    now,
    refused, //
};
use crate::consumer::{
    self,
    Consumer, //
};
use crate::device::{
    back,
    Device, //
};
use crate::tables::Shared;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};
use proto::cm::{
    Resolution,
    SidrAction,
    SidrEvent,
    SidrKey,
    SidrOrder,
    Source, //
};
use rdma::new_work;
use rdma::sync::{
    Cx,
    IrqsOn,
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
    attr,
    Cm,
    SidrReq, //
};

/// What a question is known by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// The request ID of one that is asked here.
    Ours(u32),
    /// The GUID of the HCA, and what a peer calls its question to that.
    Theirs(u64, SidrKey),
}

/// A question.
#[pin_data]
pub(crate) struct Question {
    name: Name,
    shared: Arc<Shared>,
    device: Arc<Device>,
    #[pin]
    inner: Mutex<Inner>,
    /// Expires when the machine wants to be ticked, and wakes the worker.
    #[pin]
    clock: Timer<Question>,
    #[pin]
    work: Work<Question>,
}

/// What the mutex guards.
struct Inner {
    it: Resolution,
    consumer: Option<Consumer>,
    pkey_index: u16,
    /// Nothing happens any more, and that is what orders get.
    over: Option<Error>,
}

impl Question {
    /// A question, which is in no table yet.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        device: &Arc<Device>,
        name: Name,
        it: Resolution,
        pkey_index: u16,
    ) -> Result<Arc<Self>> {
        let shared = shared.clone();
        let device = device.clone();
        let this = Arc::pin_init(
            pin_init!(Self {
                name,
                shared,
                device,
                inner <- new_mutex!(
                    Inner {
                        it,
                        consumer: None,
                        pkey_index,
                        over: None,
                    },
                    "Question::inner"
                ),
                clock <- Timer::new(),
                work <- new_work!("Question::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        this.clock.attach(this.clone()).map_err(|_| EBUSY)?;
        Ok(this)
    }

    /// What it is known by.
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// The HCA that it is on.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Whether it is on this HCA.
    pub(crate) fn is_on(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Gives it to a consumer.
    pub(crate) fn belong(&self, consumer: Consumer) {
        self.inner.lock().consumer = Some(consumer);
    }

    /// Looks at the machine.
    pub(crate) fn inspect<R>(&self, look: impl FnOnce(&Resolution) -> R) -> R {
        look(&self.inner.lock().it)
    }

    /// Tells the consumer of the SIDR_REQ that the question was made for.
    pub(crate) fn announce(&self, mad: &Cm, listener: u32) {
        let inner = self.inner.lock();
        if let Some(consumer) = &inner.consumer {
            let mut event = crate::events::asked(&inner.it, mad);
            event.listener = listener;
            consumer.tell(event);
        }
    }

    /// Has it ask, in the partition of entry `pkey_index`. If it has asked already, that goes on as it is.
    pub(crate) fn ask(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        order: SidrOrder<'_>,
        pkey_index: u16,
    ) -> Result {
        self.step_in(cx, s, SidrEvent::Order(order), None, Some(pkey_index))
    }

    /// Steps the machine, and does what that leads to. `mad` is the datagram that the event is about.
    pub(crate) fn step(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        event: SidrEvent<'_>,
        mad: Option<&Cm>,
    ) -> Result {
        self.step_in(cx, s, event, mad, None)
    }

    /// The same; what it sends is of another partition from now on, if one is given and the machine takes the event.
    fn step_in(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        event: SidrEvent<'_>,
        mad: Option<&Cm>,
        pkey_index: Option<u16>,
    ) -> Result {
        let mut inner = self.inner.lock();
        if let Some(err) = inner.over {
            return Err(err);
        }
        let over = match event {
            SidrEvent::Gone => ENODEV,
            _ => EINVAL,
        };
        let actions = inner.it.step(event, now()).map_err(refused)?;
        inner.pkey_index = pkey_index.unwrap_or(inner.pkey_index);
        for action in actions.iter() {
            match action {
                SidrAction::Send => self.send(cx, s, &inner),
                SidrAction::Tell(notice) => {
                    if let Some(consumer) = &inner.consumer {
                        consumer.tell(crate::events::sidr_notice(notice, mad));
                    }
                }
                SidrAction::Free => inner.over = Some(over),
            }
        }
        let is_over = inner.over.is_some();
        match inner.it.deadline() {
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

    /// Sends the datagram that the machine keeps. One that cannot be sent is lost, as on the way.
    fn send(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>, inner: &Inner) {
        let it = &inner.it;
        let way = match self.name {
            Name::Ours(_) => self.device.ends(cx, s).along(it.path(), inner.pkey_index),
            Name::Theirs(..) => back(it.source(), inner.pkey_index),
        };
        if let Some((port, way)) = way {
            let mad = it.datagram().as_bytes();
            let _ = self.device.adapter.send(cx, s, port, &way, mad);
        }
    }

    /// The HCA goes: there is nothing left to do.
    pub(crate) fn abandon(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let _ = self.step(cx, s, SidrEvent::Gone, None);
        self.discard(cx, s);
    }

    /// Nobody wants it, and the peer is not told.
    pub(crate) fn discard(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.inner.lock().over = Some(ENODEV);
        self.end(cx, s);
    }

    /// Ends its clock, and takes it out of the table, in this order: what is in no table queues nothing, which is what
    /// the module waits for when it goes. Its consumer may keep it.
    fn end(self: &Arc<Self>, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.clock.shutdown(cx, s);
        self.shared.forget_question(self);
        let consumer = self.inner.lock().consumer.take();
        drop(consumer);
    }
}

impl Expire for Question {
    type Pointer = Arc<Self>;

    fn expire(this: &Arc<Self>, _cx: Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
        let _ = this.shared.queue().enqueue(&this.work, this.clone());
    }
}

impl Run for Question {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let _ = this.step(&mut cx, s, SidrEvent::Tick, None);
    }
}

/// Takes a SIDR_REQ or a SIDR_REP, if it is for somebody here. A question that there is no room for is lost; the
/// peer repeats it.
pub(crate) fn take(
    shared: &Arc<Shared>,
    cx: &mut Cx<'_, Unlocked>,
    s: Sleepable<'_>,
    device: &Arc<Device>,
    mad: &Cm,
    source: Source,
    pkey_index: u16,
) -> bool {
    let name = match mad.attr_id() {
        attr::SIDR_REQ => Name::Theirs(device.adapter.guid(), SidrKey::new(mad, &source)),
        _ => Name::Ours(mad.local_comm_id()),
    };
    let is_its =
        |it: &Arc<Question>| it.is_on(device) && it.inspect(|question| question.concerns(mad));
    if let Some(question) = shared.question(name).filter(is_its) {
        let _ = question.step(cx, s, SidrEvent::Received(mad, source), Some(mad));
        return true;
    }
    if let Name::Ours(_) = name {
        return false;
    }
    let service_id = mad.message::<SidrReq>().service_id;
    let listener = shared.listener((service_id, ServiceKind::Datagrams));
    let Some(listener) = listener.filter(|it| Arc::ptr_eq(&it.device, device)) else {
        return false;
    };
    let it = Resolution::incoming(mad, source);
    if let Ok(question) = Question::new(shared, device, name, it, pkey_index) {
        consumer::consider(shared, cx, s, &listener, &question, mad);
    }
    true
}
