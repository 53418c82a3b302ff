// SPDX-License-Identifier: GPL-2.0

//! Upcalls of shared receive queues.

use super::new_event;
use crate::ib::SrqEvent;
use crate::sync::{
    Cx,
    Gate,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use sib_bindings as bindings;

/// A shared receive queue of ib_core, until it is destroyed.
///
/// # Invariants
///
/// `raw` is alive while `gate` is open or has passes.
#[pin_data]
pub(in crate::ib) struct SrqLink {
    #[pin]
    gate: Gate,
    raw: *mut bindings::ib_srq,
}

// SAFETY: The pointer is used by thread-safe upcalls alone, and only while it is alive.
unsafe impl Send for SrqLink {}
// SAFETY: As above.
unsafe impl Sync for SrqLink {}

impl SrqLink {
    /// Makes the link of a queue that is being created.
    ///
    /// # Safety
    ///
    /// `raw` stays alive until [`Self::close`] has returned, or the link is dropped.
    pub(in crate::ib) unsafe fn new(raw: *mut bindings::ib_srq) -> Result<Arc<Self>> {
        // INVARIANT: Promised by the caller.
        Arc::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
                raw,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Ends the upcalls, and waits for those under way.
    pub(in crate::ib) fn close(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) {
        self.gate.close(cx, s);
    }

    /// A handle for the driver.
    pub(in crate::ib) fn upcall(self: &Arc<Self>) -> SrqUpcall {
        SrqUpcall(self.clone())
    }
}

/// The upcalls of a shared receive queue.
#[derive(Clone)]
pub struct SrqUpcall(Arc<SrqLink>);

impl SrqUpcall {
    /// Tells the client of an event.
    pub fn event(&self, _cx: &mut Cx<'_, Unlocked>, _irqs: IrqsOn<'_>, event: SrqEvent) {
        let link = &*self.0;
        let Some(_pass) = link.gate.enter() else {
            return;
        };
        // SAFETY: Alive while the gate has a pass; the handler is set before the queue is created. The event
        // lives for the call.
        unsafe {
            let srq = link.raw;
            let mut event = new_event((*srq).device, event.raw(), |element| {
                *element.srq.as_mut() = srq;
            });
            if let Some(handler) = (*srq).event_handler {
                handler(&mut event, (*srq).srq_context);
            }
        }
    }
}
