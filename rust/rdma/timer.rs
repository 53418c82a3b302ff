// SPDX-License-Identifier: GPL-2.0

//! High-resolution timers, embedded in the objects that they serve.
//!
//! The life of a [`Timer`]: created unattached; [`Timer::attach`] gives it a counted pointer to what it
//! serves; from then on [`Timer::arm`] works, in any context and in the callback too; [`Timer::shutdown`]
//! ends it and drops the pointer. A timer inside the object that it points to keeps that object alive until
//! it is shut down: forgetting to do so leaks the object, and nothing worse as long as the module stays.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use crate::sync::{
    lend,
    Anchor,
    Cx,
    Gate,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use core::pin::Pin;
use kernel::bindings;
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Release, //
};
use kernel::types::Opaque;

/// Timers expire in softirqs: in hard interrupts the callback could not take the locks that it takes elsewhere.
const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;

/// What a [`Timer`] of `Self` does. `ID` tells several timers of one type apart.
pub trait Expire<const ID: u64 = 0>: Send + Sync + Sized + 'static {
    /// The counted pointer that the timer keeps.
    type Pointer: Anchor<Target = Self>;

    /// Runs in a softirq when the timer has expired. To arm it again, call [`Timer::arm`].
    ///
    /// One timer never runs twice at the same time.
    fn expire(this: &Self::Pointer, cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>);
}

/// A timer that calls [`Expire::expire`] at a time of [`now_ns`](crate::time::now_ns).
///
/// # Invariants
///
/// `kept` is null or a pointer made by [`Anchor::into_raw`]. While it is null the timer is not armed. It
/// becomes null only after the gate is closed and the timer is cancelled.
#[pin_data(PinnedDrop)]
pub struct Timer<T: Expire<ID>, const ID: u64 = 0> {
    #[pin]
    raw: Opaque<bindings::hrtimer>,
    #[pin]
    gate: Gate,
    kept: Atomic<*mut T>,
    anchor: PhantomData<T::Pointer>,
}

// SAFETY: A timer may be used from any context, and `T::Pointer` is `Send`.
unsafe impl<T: Expire<ID>, const ID: u64> Send for Timer<T, ID> {}
// SAFETY: All access to the timer is through thread-safe functions and atomics.
unsafe impl<T: Expire<ID>, const ID: u64> Sync for Timer<T, ID> {}

impl<T: Expire<ID>, const ID: u64> Timer<T, ID> {
    /// An initialiser of an unattached timer.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for the call and stays in place.
                unsafe {
                    bindings::hrtimer_setup(
                        slot,
                        Some(Self::trampoline),
                        bindings::CLOCK_MONOTONIC as bindings::clockid_t,
                        MODE,
                    )
                }
            }),
            gate <- Gate::new(),
            kept: Atomic::new(core::ptr::null_mut()),
            anchor: PhantomData,
        })
    }

    /// Tells the timer what it serves.
    ///
    /// # Errors
    ///
    /// Gives `this` back when the timer is attached already or has been shut down.
    pub fn attach(&self, this: T::Pointer) -> Result<(), T::Pointer> {
        let Some(_pass) = self.gate.enter() else {
            return Err(this);
        };
        let ptr = this.into_raw().cast_mut();
        match self.kept.cmpxchg(core::ptr::null_mut(), ptr, Release) {
            // INVARIANT: Made by `into_raw`.
            Ok(_) => Ok(()),
            // SAFETY: `ptr` was made above and given to nobody.
            Err(_) => Err(unsafe { T::Pointer::from_raw(ptr) }),
        }
    }

    /// Arms the timer, or moves its expiry if it is armed. Callable in any context.
    ///
    /// `at` is absolute, in nanoseconds; a time that has passed expires at once. `false` when the timer is
    /// not attached.
    #[inline]
    pub fn arm(&self, at: u64) -> bool {
        let Some(_pass) = self.gate.enter() else {
            return false;
        };
        if self.kept.load(Acquire).is_null() {
            return false;
        }
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        // SAFETY: The timer is initialised and stays in place: it is pinned, and its drop cancels it. The
        // pass keeps `shutdown` from cancelling before this, so that the invariant holds.
        unsafe { bindings::hrtimer_start_range_ns(self.raw.get(), at, 0, MODE) };
        true
    }

    /// Disarms the timer without waiting for a callback that is running: that one may have been armed again
    /// meanwhile, which then stands, so that an expiry which nobody wants may follow. Callable in any context.
    #[inline]
    pub fn disarm(&self) {
        // SAFETY: The timer is initialised.
        unsafe { bindings::hrtimer_try_to_cancel(self.raw.get()) };
    }

    /// Disarms the timer and waits for a callback that is running. It may be armed again.
    pub fn cancel(&self, _cx: &mut Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {
        // SAFETY: The timer is initialised; the caller holds no lock that the callback could want.
        unsafe { bindings::hrtimer_cancel(self.raw.get()) };
    }

    /// Disarms the timer for good and drops the pointer to what it serves.
    pub fn shutdown(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.gate.close(cx, sleepable);
        self.cancel(cx, sleepable);
        drop(self.take());
    }

    /// Takes the pointer, once nobody can arm the timer and no callback runs.
    fn take(&self) -> Option<T::Pointer> {
        let ptr = self.kept.xchg(core::ptr::null_mut(), Full);
        // SAFETY: By the invariant it comes from `into_raw`; the exchange hands it to one taker.
        (!ptr.is_null()).then(|| unsafe { T::Pointer::from_raw(ptr) })
    }

    /// What the timer code calls.
    ///
    /// # Safety
    ///
    /// `timer` is the `raw` of a live timer that has just expired.
    unsafe extern "C" fn trampoline(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        // SAFETY: `timer` is the field of a `Timer` by the promise above; `Opaque` is transparent.
        let this = unsafe { &*container_of!(Opaque::cast_from(timer), Self, raw) };
        let ptr = this.kept.load(Acquire);
        if !ptr.is_null() {
            // SAFETY: By the invariant the pointer comes from `into_raw`, and is not taken back before the
            // timer is cancelled, which waits for this callback.
            let anchor = unsafe { lend::<T::Pointer>(ptr) };
            // SAFETY: The timer code enters the callback with no lock held and on no other context of ours.
            let cx = unsafe { Cx::root() };
            // SAFETY: The timer expires in a softirq, which runs with interrupts enabled.
            let irqs = unsafe { IrqsOn::new() };
            T::expire(&anchor, cx, irqs);
        }
        // The kernel's bindings have this enumeration as a number or as a type of its own, by their version.
        // SAFETY: Its first value, which is 0, is HRTIMER_NORESTART.
        unsafe { core::mem::zeroed() }
    }
}

#[pinned_drop]
impl<T: Expire<ID>, const ID: u64> PinnedDrop for Timer<T, ID> {
    fn drop(self: Pin<&mut Self>) {
        // A timer inside what it serves has been shut down or never attached when it is dropped. The other
        // kind is cancelled here.
        if !self.kept.load(Acquire).is_null() {
            // SAFETY: The timer is initialised, and nobody arms it any more, as it is being dropped.
            unsafe { bindings::hrtimer_cancel(self.raw.get()) };
            drop(self.take());
        }
    }
}

#[kunit_tests(sib_rdma_timer)]
mod tests {
    use super::*;
    use crate::sync::test_context;
    use crate::time::now_ns;
    use kernel::sync::atomic::Acquire;
    use kernel::sync::atomic::Relaxed;
    use kernel::sync::Arc;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;

    const MILLISECOND: u64 = 1_000_000;

    /// Fires `left` times.
    #[pin_data]
    struct Countdown {
        #[pin]
        timer: Timer<Countdown>,
        left: Atomic<i32>,
        early: Atomic<i32>,
        due: Atomic<i64>,
    }

    impl Countdown {
        fn new(left: i32) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    timer <- Timer::new(),
                    left: Atomic::new(left),
                    early: Atomic::new(0),
                    due: Atomic::new(0),
                }),
                GFP_KERNEL,
            )
        }

        fn next(&self) -> u64 {
            let due = now_ns().wrapping_add(MILLISECOND);
            self.due.store(due as i64, Relaxed);
            due
        }

        /// Waits for the last time.
        fn wait(&self) {
            while self.left.load(Acquire) > 0 {
                fsleep(Delta::from_millis(1));
            }
        }
    }

    impl Expire for Countdown {
        type Pointer = Arc<Countdown>;

        fn expire(this: &Arc<Countdown>, _cx: Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
            if (now_ns() as i64) < this.due.load(Relaxed) {
                this.early.add(1, Relaxed);
            }
            if this.left.fetch_sub(1, Full) > 1 {
                this.timer.arm(this.next());
            }
        }
    }

    #[test]
    fn rearms_itself() -> Result {
        let (mut cx, sleepable) = test_context();
        let this = Countdown::new(5)?;
        assert!(!this.timer.arm(0));
        assert!(this.timer.attach(this.clone()).is_ok());
        assert!(this.timer.attach(this.clone()).is_err());
        assert!(this.timer.arm(this.next()));
        this.wait();
        assert_eq!(this.early.load(Relaxed), 0);
        this.timer.shutdown(&mut cx, sleepable);
        assert_eq!(this.left.load(Relaxed), 0);
        assert!(!this.timer.arm(0));
        assert!(this.timer.attach(this.clone()).is_err());
        // Nobody else has it: the timer dropped its pointer.
        assert!(Arc::into_unique_or_drop(this).is_some());
        Ok(())
    }

    #[test]
    fn cancelled_does_not_fire() -> Result {
        let (mut cx, sleepable) = test_context();
        let this = Countdown::new(1)?;
        assert!(this.timer.attach(this.clone()).is_ok());
        assert!(this
            .timer
            .arm(now_ns().wrapping_add(3_600_000 * MILLISECOND)));
        this.timer.disarm();
        assert!(this.timer.arm(u64::MAX));
        this.timer.cancel(&mut cx, sleepable);
        assert_eq!(this.left.load(Relaxed), 1);
        this.timer.shutdown(&mut cx, sleepable);
        Ok(())
    }

    #[test]
    fn dropped_elsewhere() -> Result {
        let this = Countdown::new(1)?;
        let timer = KBox::pin_init(Timer::<Countdown>::new(), GFP_KERNEL)?;
        assert!(timer.attach(this.clone()).is_ok());
        assert!(timer.arm(u64::MAX));
        drop(timer);
        assert!(Arc::into_unique_or_drop(this).is_some());
        Ok(())
    }
}
