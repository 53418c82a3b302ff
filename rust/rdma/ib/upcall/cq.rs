// SPDX-License-Identifier: GPL-2.0

//! Upcalls of completion queues.

use super::new_event;
use crate::sync::{
    Cx,
    Gate,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};
use kernel::sync::Arc;
use sib_bindings as bindings;

/// A completion queue of ib_core, until it is destroyed.
///
/// # Invariants
///
/// `raw` is alive while `gate` is open or has passes.
#[pin_data]
pub(in crate::ib) struct CqLink {
    #[pin]
    gate: Gate,
    raw: *mut bindings::ib_cq,
    /// Calls of the completion handler that are due, or under way.
    due: Atomic<i32>,
}

// SAFETY: The pointer is used by thread-safe upcalls alone, and only while it is alive.
unsafe impl Send for CqLink {}
// SAFETY: As above.
unsafe impl Sync for CqLink {}

impl CqLink {
    /// Makes the link of a queue that is being created.
    ///
    /// # Safety
    ///
    /// `raw` stays alive until [`Self::close`] has returned, or the link is dropped.
    pub(in crate::ib) unsafe fn new(raw: *mut bindings::ib_cq) -> Result<Arc<Self>> {
        // INVARIANT: Promised by the caller.
        Arc::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
                raw,
                due: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Ends the upcalls, and waits for those under way.
    pub(in crate::ib) fn close(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.gate.close(cx, s);
    }

    /// A handle for the driver.
    pub(in crate::ib) fn upcall(self: &Arc<Self>) -> CqUpcall {
        CqUpcall(self.clone())
    }
}

/// The upcalls of a completion queue.
#[derive(Clone)]
pub struct CqUpcall(Arc<CqLink>);

impl CqUpcall {
    /// Tells the client that there are completions, once it has armed the notification.
    ///
    /// The handler never runs twice at the same time: a call that comes while it runs makes it run again
    /// afterwards, on the CPU where it is running, and returns at once.
    pub fn complete(&self, _cx: &mut Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
        let link = &*self.0;
        let Some(_pass) = link.gate.enter() else {
            return;
        };
        if link.due.fetch_add(1, Full) != 0 {
            return;
        }
        let mut served = 1;
        loop {
            // SAFETY: Alive while the gate has a pass. ib_core sets the handler before it arms the
            // notification for the first time, and does not change it afterwards.
            unsafe {
                if let Some(handler) = (*link.raw).comp_handler {
                    handler(link.raw, (*link.raw).cq_context);
                }
            }
            let due = link.due.fetch_sub(served, Full);
            if due == served {
                return;
            }
            served = due.wrapping_sub(served);
        }
    }

    /// Tells the client that the queue has overflowed or is in error otherwise.
    pub fn error(&self, _cx: &mut Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
        let link = &*self.0;
        let Some(_pass) = link.gate.enter() else {
            return;
        };
        // SAFETY: Alive while the gate has a pass; the handler is set before the queue is created. The event
        // lives for the call.
        unsafe {
            let cq = link.raw;
            let mut event = new_event(
                (*cq).device,
                bindings::ib_event_type_IB_EVENT_CQ_ERR,
                |element| {
                    *element.cq.as_mut() = cq;
                },
            );
            if let Some(handler) = (*cq).event_handler {
                handler(&mut event, (*cq).cq_context);
            }
        }
    }
}
