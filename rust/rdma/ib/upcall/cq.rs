// SPDX-License-Identifier: GPL-2.0

//! Upcalls of completion queues.
//!
//! The completion handler of a queue runs where its vector says: with vector 0 in the context that adds the
//! completion, with vector `n` in a softirq of CPU `n - 1`. So who does not ask for a CPU does not pay for having it
//! interrupted, and who does gets it. No handler runs in a hard interrupt, where it could not take the locks that it takes
//! elsewhere. One that is due again whenever it has run goes on in a softirq of that processor.

use super::new_event;
use crate::sync::{
    Cx,
    Gate,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use crate::work::Item;
use kernel::container_of;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full, //
};
use kernel::sync::Arc;
use sib_bindings as bindings;

/// How often a handler runs in one go at most. A client that goes on to arm the queue has more come during each run, and
/// who adds the completion may be somebody else.
const AT_ONCE: i32 = 4;

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
    /// Where the completion handler runs; `None` for where the completion is added.
    cpu: Option<CpuId>,
    /// Belongs to who has moved `due` from zero, and then to who runs the handler.
    #[pin]
    work: Item,
    /// Calls of the completion handler that are due, or under way.
    due: Atomic<i32>,
}

// SAFETY: The pointer is used by thread-safe upcalls alone, and only while it is alive.
unsafe impl Send for CqLink {}
// SAFETY: As above.
unsafe impl Sync for CqLink {}

impl CqLink {
    /// Makes the link of a queue that is being created, with a completion vector below that of
    /// [`DeviceInit::num_comp_vectors`](crate::ib::DeviceInit::num_comp_vectors).
    ///
    /// # Safety
    ///
    /// `raw` stays alive until [`Self::close`] has returned, or the link is dropped.
    pub(in crate::ib) unsafe fn new(raw: *mut bindings::ib_cq, vector: u32) -> Result<Arc<Self>> {
        static NAME: &CStr = c"CqLink::work";
        let class = kernel::static_lock_class!();
        // INVARIANT: Promised by the caller.
        Arc::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
                raw,
                cpu: vector.checked_sub(1).and_then(CpuId::from_u32),
                work <- Item::new(Self::resume, NAME, class),
                due: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
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

    /// Runs the completion handler until nothing is due, and gives the pass back; or for a while, and leaves the rest to
    /// a softirq, before which others get a turn.
    ///
    /// # Safety
    ///
    /// The caller has moved `due` from zero, or does this for who has. The gate has a pass, which is left to this.
    unsafe fn serve(self: &Arc<Self>) {
        for _ in 0..AT_ONCE {
            // A call that comes from now on may be about what the handler does not see.
            let due = self.due.load(Acquire);
            // SAFETY: Alive while the gate has a pass. ib_core sets the handler before it arms the
            // notification for the first time, and does not change it afterwards.
            unsafe {
                if let Some(handler) = (*self.raw).comp_handler {
                    handler(self.raw, (*self.raw).cq_context);
                }
            }
            if self.due.fetch_sub(due, Full) == due {
                return self.gate.leave();
            }
        }
        // SAFETY: Something is due, and the pass is left to it.
        unsafe { self.serve_on(CpuId::current()) };
    }

    /// Has [`Self::serve`] run in a softirq of `cpu`, or of the running processor if that is not there.
    ///
    /// # Safety
    ///
    /// As for [`Self::serve`].
    unsafe fn serve_on(self: &Arc<Self>, cpu: CpuId) {
        // The item has a count until it runs.
        let _ = Arc::into_raw(self.clone());
        // SAFETY: Stays in place for as long as it has a count. It is the caller's, and on no queue: who runs the handler
        // has been taken off it, or has never been on it.
        unsafe { self.work.queue_bh(cpu) };
    }

    /// What the work queue calls.
    ///
    /// # Safety
    ///
    /// `work` is the item of a link, queued by [`Self::serve_on`], which has left its pass and a count of the link to this.
    unsafe extern "C" fn resume(work: *mut kernel::bindings::work_struct) {
        // SAFETY: `work` is that field by the promise above.
        let link = unsafe { container_of!(Item::of(work), Self, work) };
        // SAFETY: A count that `serve_on` has left to this.
        let link = unsafe { Arc::from_raw(link) };
        // SAFETY: On behalf of who moved `due`; the pass is left to this.
        unsafe { link.serve() };
    }
}

/// The upcalls of a completion queue.
#[derive(Clone)]
pub struct CqUpcall(Arc<CqLink>);

impl CqUpcall {
    /// Tells the client that there are completions, once it has armed the notification.
    ///
    /// The handler never runs twice at the same time: a call that comes while it runs makes it run again
    /// afterwards, on the processor where it is running, and returns at once.
    pub fn complete(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let link = &self.0;
        let Some(pass) = link.gate.enter() else {
            return;
        };
        if link.due.fetch_add(1, Full) != 0 {
            return;
        }
        // It goes on to the handler.
        core::mem::forget(pass);
        if let Some(cpu) = link.cpu {
            // SAFETY: Nothing was due, and the pass is kept.
            return unsafe { link.serve_on(cpu) };
        }
        // Nobody else runs the handler meanwhile.
        irqs.undisturbed(cx, |_, _| {
            // SAFETY: Nothing was due, and the pass is kept.
            unsafe { link.serve() }
        });
    }

    /// Waits until the client in the kernel has handled what it was told of, if it does that in a worker of ib_core.
    ///
    /// Not to be called from what handles completions, which would wait for itself.
    pub fn flush(&self, _cx: &mut Cx<'_, Unlocked>, _s: Sleepable<'_>) {
        let Some(_pass) = self.0.gate.enter() else {
            return;
        };
        // SAFETY: Alive while the gate has a pass. Clients make their queue in one task, and set how they handle its
        // completions before anything else knows it.
        unsafe { bindings::sib_helper_ib_cq_flush(self.0.raw) };
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

#[kunit_tests(sib_rdma_cq)]
mod tests {
    use super::*;
    use crate::sync::test_context;
    use crate::work::other_cpu;
    use kernel::sync::atomic::Relaxed;
    use kernel::types::Opaque;

    /// How often more comes while the handler runs.
    const FED: i32 = 100;

    /// What the handler of the test finds.
    struct Feed {
        link: Arc<CqLink>,
        runs: Atomic<i32>,
    }

    /// Does what another processor may do meanwhile.
    ///
    /// # Safety
    ///
    /// `context` is a [`Feed`].
    unsafe extern "C" fn feed(_: *mut bindings::ib_cq, context: *mut c_void) {
        // SAFETY: Promised by the caller.
        let feed = unsafe { &*context.cast::<Feed>() };
        if feed.runs.fetch_add(1, Full) < FED {
            feed.link.due.add(1, Relaxed);
        }
    }

    /// How often the handler below looks whether its link is being closed.
    const LOOKS: u32 = 1 << 20;

    /// What that handler finds.
    struct Late {
        link: Arc<CqLink>,
        has_seen: Atomic<bool>,
    }

    /// Does not return before somebody closes the link, for a while.
    ///
    /// # Safety
    ///
    /// `context` is a [`Late`].
    unsafe extern "C" fn linger(_: *mut bindings::ib_cq, context: *mut c_void) {
        // SAFETY: Promised by the caller.
        let late = unsafe { &*context.cast::<Late>() };
        for _ in 0..LOOKS {
            if late.link.gate.is_closed() {
                return late.has_seen.store(true, Relaxed);
            }
            core::hint::spin_loop();
        }
    }

    /// Closes a link while its handler runs on `cpu`. Returns whether that has seen it.
    fn close_meanwhile(cpu: CpuId) -> Result<bool> {
        let (mut cx, sleepable) = test_context();
        let cq = KBox::new(Opaque::<bindings::ib_cq>::zeroed(), GFP_KERNEL)?;
        // SAFETY: The queue is dropped after the link has been closed.
        let link = unsafe { CqLink::new(cq.get(), cpu.as_u32().wrapping_add(1)) }?;
        let late = Late {
            link: link.clone(),
            has_seen: Atomic::new(false),
        };
        let late = KBox::new(late, GFP_KERNEL)?;
        // SAFETY: Nobody else has the queue yet.
        unsafe {
            (*cq.get()).comp_handler = Some(linger);
            (*cq.get()).cq_context = (&raw const *late).cast_mut().cast();
        }
        link.upcall().complete(&mut cx, sleepable.irqs_on());
        link.close(&mut cx, sleepable);
        Ok(late.has_seen.load(Relaxed))
    }

    #[test]
    fn another_processor_may_be_the_last_to_leave() -> Result {
        let mut has_seen = false;
        // The test may be moved to the processor of the handler.
        for _ in 0..10 {
            has_seen |= match other_cpu() {
                Some(cpu) => close_meanwhile(cpu)?,
                None => return Ok(()),
            };
        }
        assert!(has_seen);
        Ok(())
    }

    #[test]
    fn others_get_a_turn_before_a_handler_that_is_always_due() -> Result {
        let (mut cx, sleepable) = test_context();
        let cq = KBox::new(Opaque::<bindings::ib_cq>::zeroed(), GFP_KERNEL)?;
        // SAFETY: The queue is dropped after the link has been closed.
        let link = unsafe { CqLink::new(cq.get(), 0) }?;
        let fed = Feed {
            link: link.clone(),
            runs: Atomic::new(0),
        };
        let fed = KBox::new(fed, GFP_KERNEL)?;
        // SAFETY: Nobody else has the queue yet.
        unsafe {
            (*cq.get()).comp_handler = Some(feed);
            (*cq.get()).cq_context = (&raw const *fed).cast_mut().cast();
        }
        let upcall = link.upcall();
        // No softirq runs here before the end of this.
        let runs = sleepable.irqs_on().undisturbed(&mut cx, |cx, irqs| {
            upcall.complete(cx, irqs);
            fed.runs.load(Relaxed)
        });
        link.close(&mut cx, sleepable);
        assert_eq!(runs, AT_ONCE);
        assert_eq!(fed.runs.load(Relaxed), FED + 1);
        Ok(())
    }
}
