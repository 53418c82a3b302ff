// SPDX-License-Identifier: GPL-2.0

//! Upcalls of queue pairs.

use super::new_event;
use crate::cm;
use crate::ib::QpEvent;
use crate::sync::{
    Cx,
    Gate,
    NoIo,
    Sleepable,
    Unlocked, //
};
use crate::work::{
    Queue,
    Run,
    Work, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};
use kernel::sync::Arc;
use sib_bindings as bindings;

/// The events of queue pairs, in the order in which those that are due together are told.
///
/// What explains an error comes before what it leads to.
const ORDER: [QpEvent; 8] = [
    QpEvent::CommEst,
    QpEvent::PathMig,
    QpEvent::PathMigErr,
    QpEvent::SqDrained,
    QpEvent::RequestError,
    QpEvent::AccessError,
    QpEvent::Fatal,
    QpEvent::LastWqeReached,
];

/// A queue pair of ib_core, until it is destroyed.
///
/// # Invariants
///
/// `raw` is alive while `gate` is open or has passes.
#[pin_data]
pub(in crate::ib) struct QpLink {
    #[pin]
    gate: Gate,
    raw: *mut bindings::ib_qp,
    /// A bit for each event that is due, by its number, and [`HEARD`].
    due: Atomic<u32>,
    queue: Arc<Queue>,
    #[pin]
    work: Work<QpLink>,
}

// SAFETY: The pointer is used by thread-safe upcalls alone, and only while it is alive.
unsafe impl Send for QpLink {}
// SAFETY: As above.
unsafe impl Sync for QpLink {}

impl QpLink {
    /// Makes the link of a queue pair that is being created; its events are told from `queue`.
    ///
    /// # Safety
    ///
    /// `raw` stays alive until [`Self::close`] has returned, or the link is dropped.
    pub(in crate::ib) unsafe fn new(
        raw: *mut bindings::ib_qp,
        queue: Arc<Queue>,
    ) -> Result<Arc<Self>> {
        // INVARIANT: Promised by the caller.
        Arc::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
                raw,
                due: Atomic::new(0),
                queue,
                work <- crate::new_work!("ib::QpLink::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Ends the upcalls, and waits for those under way.
    pub(in crate::ib) fn close(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.gate.close(cx, s);
    }

    /// A handle for the driver.
    pub(in crate::ib) fn upcall(self: &Arc<Self>) -> QpUpcall {
        QpUpcall(self.clone())
    }

    /// Tells the connection manager of what concerns it.
    ///
    /// # Safety
    ///
    /// The gate has a pass.
    unsafe fn offer(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        event: cm::QpEvent,
    ) -> cm::Verdict {
        // SAFETY: The queue pair, and so its device, is alive while the gate has a pass.
        unsafe {
            let qp = self.raw;
            cm::qp_event((*qp).device, cx.reborrow(), s, (*qp).qp_num, event)
        }
    }

    /// Runs the event handler.
    ///
    /// # Safety
    ///
    /// The gate has a pass.
    unsafe fn tell(&self, event: QpEvent) {
        // SAFETY: Alive while the gate has a pass; the handler is set before the queue pair is created. The
        // event lives for the call.
        unsafe {
            let qp = self.raw;
            let mut event = new_event((*qp).device, event.raw(), |element| {
                *element.qp.as_mut() = qp;
            });
            if let Some(handler) = (*qp).event_handler {
                handler(&mut event, (*qp).qp_context);
            }
        }
    }
}

impl Run for QpLink {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        let Some(_pass) = this.gate.enter() else {
            return;
        };
        // The end of the queue pair waits for this.
        let _scope = NoIo::begin();
        let due = this.due.xchg(0, Full);
        for event in ORDER {
            if due & bit(event) != 0 {
                // SAFETY: The pass is held.
                unsafe {
                    let verdict = of_path(event)
                        .map_or(cm::Verdict::Pass, |event| this.offer(&mut cx, s, event));
                    if verdict == cm::Verdict::Pass {
                        this.tell(event);
                    }
                }
            }
        }
        if due & HEARD != 0 {
            // SAFETY: The pass is held.
            unsafe { this.offer(&mut cx, s, cm::QpEvent::Heard) };
        }
    }
}

/// What the connection manager is told of an event, if that concerns paths.
fn of_path(event: QpEvent) -> Option<cm::QpEvent> {
    match event {
        QpEvent::PathMig => Some(cm::QpEvent::Migrated),
        QpEvent::PathMigErr => Some(cm::QpEvent::MigrationFailed),
        QpEvent::Fatal
        | QpEvent::RequestError
        | QpEvent::AccessError
        | QpEvent::CommEst
        | QpEvent::SqDrained
        | QpEvent::LastWqeReached => None,
    }
}

/// The bit for [`cm::QpEvent::Heard`], which is no event of clients.
const HEARD: u32 = 1 << 31;

/// The bit of an event.
const fn bit(event: QpEvent) -> u32 {
    1u32.wrapping_shl(event.raw())
}

/// The upcalls of a queue pair.
#[derive(Clone)]
pub struct QpUpcall(Arc<QpLink>);

impl QpUpcall {
    /// Tells the client of an event, soon: handlers of queue pairs want a task that may sleep.
    ///
    /// An event that is due already is told once. Callable in any context that holds no lock.
    pub fn event(&self, cx: &mut Cx<'_, Unlocked>, event: QpEvent) {
        self.raise(cx, bit(event));
    }

    /// Tells the connection manager, soon, that the peer has been heard on the path that has become the primary
    /// one; after [`QpEvent::PathMig`], if that is due.
    pub fn heard(&self, cx: &mut Cx<'_, Unlocked>) {
        self.raise(cx, HEARD);
    }

    /// Has what belongs to a bit be told.
    fn raise(&self, _cx: &mut Cx<'_, Unlocked>, bit: u32) {
        let link = &self.0;
        if link.gate.is_closed() {
            return;
        }
        let mut due = link.due.load(Relaxed);
        while let Err(now) = link.due.cmpxchg(due, due | bit, Full) {
            due = now;
        }
        // An item that is queued already starts after this, and sees the bit.
        let _ = link.queue.enqueue(&link.work, link.clone());
    }

    /// The queue pair, as completions name it.
    pub fn qp_ref(&self) -> QpRef {
        QpRef(self.0.clone())
    }
}

/// The queue pair of a work completion.
#[derive(Clone)]
pub struct QpRef(Arc<QpLink>);

impl QpRef {
    /// Whether both refer to the same queue pair.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The pointer for `struct ib_wc`; `None` once the queue pair is being destroyed.
    ///
    /// As in any driver, who destroys a queue pair and polls its completion queue at the same time makes
    /// sure not to look at the queue pair of a completion that was polled before.
    pub(in crate::ib) fn raw(&self) -> Option<*mut bindings::ib_qp> {
        (!self.0.gate.is_closed()).then_some(self.0.raw)
    }
}
