// SPDX-License-Identifier: GPL-2.0

//! Work queues of our own, and work items that keep their object alive.
//!
//! To defer work of an object, give it a [`Work`] field, implement [`Run`] for it, and pass a counted
//! pointer to [`Queue::enqueue`]. The item keeps the pointer until it has run or is cancelled.
//!
//! # Examples
//!
//! ```ignore
//! #[pin_data]
//! struct Port {
//!     #[pin]
//!     sweep: Work<Port>,
//! }
//!
//! impl Run for Port {
//!     type Pointer = Arc<Port>;
//!
//!     fn run(this: Arc<Port>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
//!         this.sweep_now(&mut cx, sleepable);
//!     }
//! }
//!
//! let port = Arc::pin_init(pin_init!(Port { sweep <- new_work!("Port::sweep") }), GFP_KERNEL)?;
//! let _ = queue.enqueue(&port.sweep, port.clone());
//! ```
//!
//! Items run in tasks, unless they are declared to run in softirqs, as `Work<Port, 0, Softirq>` with
//! `impl Run<0, Softirq>`: these go to a queue of that kind, and get a token that does not let them sleep.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

mod item;

pub(crate) use self::item::Item;

use crate::sealed::Sealed;
use crate::sync::{
    smp_mb,
    Anchor,
    Cx,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use core::pin::Pin;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::container_of;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full, //
};
use kernel::sync::LockClassKey;

/// Another processor that may work for the one that runs; `None` if there is none, or all others are isolated.
pub fn other_cpu() -> Option<CpuId> {
    // SAFETY: Callable in any context.
    let cpu = CpuId::from_i32(unsafe { sib_bindings::sib_helper_other_cpu() })?;
    (cpu != CpuId::current()).then_some(cpu)
}

/// Where the items of a queue run.
pub trait Place: Sealed + 'static {
    /// What they may do there.
    type Token<'a>;

    /// Makes the token.
    ///
    /// # Safety
    ///
    /// Called in an item of such a queue.
    unsafe fn token<'a>() -> Self::Token<'a>;
}

/// In tasks.
pub enum Task {}

/// In softirqs.
pub enum Softirq {}

impl Sealed for Task {}

impl Place for Task {
    type Token<'a> = Sleepable<'a>;

    unsafe fn token<'a>() -> Sleepable<'a> {
        // SAFETY: Tasks may sleep.
        unsafe { Sleepable::new() }
    }
}

impl Sealed for Softirq {}

impl Place for Softirq {
    type Token<'a> = IrqsOn<'a>;

    unsafe fn token<'a>() -> IrqsOn<'a> {
        // SAFETY: Softirqs run with interrupts enabled.
        unsafe { IrqsOn::new() }
    }
}

/// A work queue that this module owns.
///
/// # Invariants
///
/// `raw` is a live work queue of which this is the only owner. Its items run in the place that the type says.
pub struct Queue<P = Task> {
    raw: NonNull<bindings::workqueue_struct>,
    place: PhantomData<P>,
}

// SAFETY: A work queue may be used and destroyed from any task.
unsafe impl<P> Send for Queue<P> {}
// SAFETY: The functions of a work queue are thread-safe.
unsafe impl<P> Sync for Queue<P> {}

impl Queue {
    /// Creates a queue, whose workers carry `name`, run on any CPU ahead of normal tasks, and make progress when memory
    /// is short, since storage clients sit on the path that frees memory.
    pub fn new(name: &CStr, _sleepable: Sleepable<'_>) -> Result<Self> {
        let flags = bindings::wq_flags_WQ_MEM_RECLAIM
            | bindings::wq_flags_WQ_HIGHPRI
            | bindings::wq_flags_WQ_UNBOUND;
        Self::with(name, flags)
    }

    /// Creates a queue whose items may wait for memory, and for whatever that takes. They run as normal tasks do.
    pub fn slow(name: &CStr, _sleepable: Sleepable<'_>) -> Result<Self> {
        Self::with(name, bindings::wq_flags_WQ_UNBOUND)
    }

    /// The same for items that run on the processor that queues them, unless they are queued already or run elsewhere: what
    /// they go on with has been sent from there, and might be overtaken by what another one sends.
    pub fn slow_here(name: &CStr, _sleepable: Sleepable<'_>) -> Result<Self> {
        Self::with(name, bindings::wq_flags_WQ_PERCPU)
    }

    /// Queues `work`, which then keeps `this` until it has run. Callable in any context.
    ///
    /// # Errors
    ///
    /// Gives `this` back when the item is queued already. It then starts after this call, so it sees what
    /// the caller did before; unless somebody [cancels](Work::cancel) it meanwhile, when it may be given back as well
    /// although it is not queued.
    #[inline]
    pub fn enqueue<T: Run<ID>, const ID: u64>(
        &self,
        work: &Work<T, ID>,
        this: T::Pointer,
    ) -> Result<(), T::Pointer> {
        self.enqueue_at(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            work,
            this,
        )
    }
}

impl Queue<Softirq> {
    /// Creates a queue whose items run in softirqs.
    pub fn softirq(name: &CStr, _sleepable: Sleepable<'_>) -> Result<Self> {
        Self::with(
            name,
            bindings::wq_flags_WQ_BH | bindings::wq_flags_WQ_PERCPU,
        )
    }

    /// Has `work` run in a softirq of `cpu`, or of the running processor if that has gone. It keeps `this` until it has
    /// run.
    ///
    /// # Errors
    ///
    /// As [`Self::enqueue`].
    pub fn enqueue_on<T: Run<ID, Softirq>, const ID: u64>(
        &self,
        cpu: CpuId,
        work: &Work<T, ID, Softirq>,
        this: T::Pointer,
    ) -> Result<(), T::Pointer> {
        self.enqueue_at(cpu.into(), work, this)
    }
}

impl<P: Place> Queue<P> {
    fn with(name: &CStr, flags: bindings::wq_flags) -> Result<Self> {
        // SAFETY: The format has one conversion, which takes `name`; the C side copies it.
        let raw = unsafe {
            bindings::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, 0, name.as_char_ptr())
        };
        // INVARIANT: Fresh, unless null.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            place: PhantomData,
        })
    }

    #[inline]
    fn enqueue_at<T: Run<ID, P>, const ID: u64>(
        &self,
        cpu: c_int,
        work: &Work<T, ID, P>,
        this: T::Pointer,
    ) -> Result<(), T::Pointer> {
        // Orders what the caller wrote before a failing exchange, so that the run which is due reads it.
        smp_mb();
        let ptr = this.into_raw().cast_mut();
        // Until the item is queued nobody else can queue it, and a task that is preempted may stay so for long.
        // SAFETY: It may be called in any context, and is undone below.
        unsafe { sib_bindings::sib_helper_preempt_disable() };
        let kept = work.kept.cmpxchg(core::ptr::null_mut(), ptr, Full).is_ok();
        let queued = if kept {
            // SAFETY: The item is initialised, and stays in place: it is pinned, and its drop cancels it. The
            // queue is alive by the invariant.
            unsafe { sib_bindings::sib_helper_queue_work(cpu, self.raw.as_ptr(), work.raw.get()) }
        } else {
            false
        };
        // SAFETY: Disabled above.
        unsafe { sib_bindings::sib_helper_preempt_enable() };
        if !kept {
            // SAFETY: `ptr` was made above and given to nobody.
            return Err(unsafe { T::Pointer::from_raw(ptr) });
        }
        if !queued {
            // Cancellation is under way, and may have taken the reference.
            if let Some(this) = work.take() {
                return Err(this);
            }
        }
        Ok(())
    }

    /// Waits until all items that were queued before the call have run.
    pub fn flush(&self, _cx: &mut Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {
        // SAFETY: The queue is alive by the invariant.
        unsafe { bindings::__flush_workqueue(self.raw.as_ptr()) }
    }
}

impl<P> Drop for Queue<P> {
    /// Waits until the queue is empty, so that no item runs after the module is gone.
    ///
    /// Must happen in a task that holds no lock, and not in an item of this very queue.
    fn drop(&mut self) {
        // SAFETY: The queue is alive and ours by the invariant, and nobody can enqueue any more.
        unsafe { bindings::destroy_workqueue(self.raw.as_ptr()) }
    }
}

/// What a [`Work`] of `Self` does. `ID` tells several items of one type apart.
pub trait Run<const ID: u64 = 0, P: Place = Task>: Send + Sync + Sized + 'static {
    /// The counted pointer that the item keeps.
    type Pointer: Anchor<Target = Self>;

    /// Does the work, in such a place. One item never runs twice at the same time, if it is always put on the same queue.
    fn run(this: Self::Pointer, cx: Cx<'_, Unlocked>, token: P::Token<'_>);
}

/// A work item, to be embedded in the object that it works on.
///
/// # Invariants
///
/// `kept` is a pointer made by [`Anchor::into_raw`] while the item is queued, else null.
#[pin_data(PinnedDrop)]
pub struct Work<T: Run<ID, P>, const ID: u64 = 0, P: Place = Task> {
    #[pin]
    raw: Item,
    kept: Atomic<*mut T>,
    anchor: PhantomData<T::Pointer>,
}

// SAFETY: A work item may be used from any task, and `T::Pointer` is `Send`.
unsafe impl<T: Run<ID, P>, const ID: u64, P: Place> Send for Work<T, ID, P> {}
// SAFETY: All access to the item is through thread-safe functions and atomics.
unsafe impl<T: Run<ID, P>, const ID: u64, P: Place> Sync for Work<T, ID, P> {}

impl<T: Run<ID, P>, const ID: u64, P: Place> Work<T, ID, P> {
    /// An initialiser; [`new_work!`](crate::new_work) supplies the lock class.
    pub fn new(name: &'static CStr, class: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Item::new(Self::trampoline, name, class),
            kept: Atomic::new(core::ptr::null_mut()),
            anchor: PhantomData,
        })
    }

    /// Takes the item off its queue, or waits until it has run. Returns whether it was taken off.
    ///
    /// The item may be queued again afterwards.
    pub fn cancel(&self, _cx: &mut Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) -> bool {
        let cancelled = self.raw.cancel();
        if cancelled {
            drop(self.take());
        }
        cancelled
    }

    /// Takes the reference that the item keeps.
    fn take(&self) -> Option<T::Pointer> {
        let ptr = self.kept.xchg(core::ptr::null_mut(), Full);
        // SAFETY: By the invariant it comes from `into_raw`; the exchange hands it to one taker.
        (!ptr.is_null()).then(|| unsafe { T::Pointer::from_raw(ptr) })
    }

    /// What the work queue calls.
    ///
    /// # Safety
    ///
    /// `work` is the `raw` of a live item that has just been taken off its queue.
    unsafe extern "C" fn trampoline(work: *mut bindings::work_struct) {
        // SAFETY: `work` is the field of an item by the promise above.
        let item = unsafe { &*container_of!(Item::of(work), Self, raw) };
        let Some(this) = item.take() else { return };
        // SAFETY: A worker enters an item with no lock held, and comes from no other function of ours.
        let cx = unsafe { Cx::root() };
        // SAFETY: Only queues with this place take the item.
        let token = unsafe { P::token() };
        T::run(this, cx, token);
    }
}

#[pinned_drop]
impl<T: Run<ID, P>, const ID: u64, P: Place> PinnedDrop for Work<T, ID, P> {
    fn drop(self: Pin<&mut Self>) {
        // An item inside the object that it keeps alive is never queued here, so nothing waits then; an
        // item that is being dropped by its own run is not either.
        if !self.kept.load(Acquire).is_null() {
            // Whoever queued it for an object elsewhere drops it in a task.
            self.raw.cancel();
            drop(self.take());
        }
    }
}

/// Makes an initialiser of a [`Work`] with a name and a lockdep class of its own.
#[macro_export]
macro_rules! new_work {
    ($name:literal) => {
        $crate::work::Work::new(::kernel::c_str!($name), ::kernel::static_lock_class!())
    };
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_rdma_work)]
mod tests {
    use super::*;
    use crate::sync::test_context;
    use kernel::cpu::nr_cpu_ids;
    use kernel::sync::atomic::Relaxed;
    use kernel::sync::Arc;

    /// Remembers the processor that its item has run on.
    #[pin_data]
    struct Mark {
        place: Atomic<u32>,
        #[pin]
        work: Work<Mark, 0, Softirq>,
    }

    impl Run<0, Softirq> for Mark {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>, _: Cx<'_, Unlocked>, _: IrqsOn<'_>) {
            this.place.store(CpuId::current().as_u32(), Relaxed);
        }
    }

    #[test]
    fn softirqs_run_where_they_are_to() -> Result {
        let (_, sleepable) = test_context();
        let nowhere = nr_cpu_ids();
        let mark = Arc::pin_init(
            pin_init!(Mark {
                place: Atomic::new(nowhere),
                work <- crate::new_work!("Mark::work"),
            }),
            GFP_KERNEL,
        )?;
        let cpu = other_cpu().unwrap_or(CpuId::current());
        let queue = Queue::softirq(c"sib_test", sleepable)?;
        assert!(queue.enqueue_on(cpu, &mark.work, mark.clone()).is_ok());
        drop(queue);
        assert_eq!(mark.place.load(Relaxed), cpu.as_u32());
        Ok(())
    }
}
