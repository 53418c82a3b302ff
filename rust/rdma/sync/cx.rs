// SPDX-License-Identifier: GPL-2.0

//! Tokens that prove what the running context may do.

use super::{
    After,
    Guard,
    Level,
    LevelLock,
    Unlocked, //
};
use crate::sealed::Sealed;
use core::marker::PhantomData;
use kernel::bindings;
use kernel::prelude::*;
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// What the type system knows about local interrupts.
///
/// [`Any`] saves and restores their state around a lock; [`Off`] has nothing to do.
pub trait Irq: Sealed {
    /// What [`Self::release`] needs back.
    type Saved: Copy;

    /// Acquires `lock`.
    ///
    /// # Safety
    ///
    /// `lock` is initialised, and is released by [`Self::release`] with the value returned.
    unsafe fn acquire(lock: *mut bindings::spinlock_t) -> Self::Saved;

    /// Releases `lock`.
    ///
    /// # Safety
    ///
    /// The caller holds `lock`, and `saved` is what its [`Self::acquire`] returned.
    unsafe fn release(lock: *mut bindings::spinlock_t, saved: Self::Saved);
}

/// Local interrupts may be enabled or not.
pub enum Any {}

/// Local interrupts are disabled, so that no handler and no softirq takes a lock in this context.
///
/// With PREEMPT_RT they stay enabled, and wherever this module says that they are disabled it means what follows from it,
/// which is so there as well: handlers are tasks of their own, and softirqs run in such tasks, or where somebody enables
/// them, as nobody does who holds a lock.
pub enum Off {}

impl Sealed for Any {}

impl Irq for Any {
    type Saved = c_ulong;

    #[inline(always)]
    unsafe fn acquire(lock: *mut bindings::spinlock_t) -> c_ulong {
        // SAFETY: `lock` is initialised by the caller's promise.
        unsafe { sib_bindings::sib_helper_spin_lock_irqsave(lock) }
    }

    #[inline(always)]
    unsafe fn release(lock: *mut bindings::spinlock_t, saved: c_ulong) {
        // SAFETY: The caller holds `lock`, and `saved` comes from its acquisition.
        unsafe { sib_bindings::sib_helper_spin_unlock_irqrestore(lock, saved) }
    }
}

impl Sealed for Off {}

impl Irq for Off {
    type Saved = ();

    #[inline(always)]
    unsafe fn acquire(lock: *mut bindings::spinlock_t) {
        // SAFETY: `lock` is initialised by the caller's promise.
        unsafe { bindings::spin_lock(lock) }
    }

    #[inline(always)]
    unsafe fn release(lock: *mut bindings::spinlock_t, _saved: ()) {
        // SAFETY: The caller holds `lock`.
        unsafe { bindings::spin_unlock(lock) }
    }
}

/// Proof that `L` is the innermost level of the lock order held by this context.
///
/// Zero-sized and `!Send`. A guard borrows the token that it was taken through, so an outer token cannot
/// be used while an inner guard lives. Functions state in their signature where they may be called:
///
/// - `Cx<'_, Unlocked>` or `&mut Cx<'_, Unlocked>`: no lock is held. Upcalls, transmission, and whatever
///   sleeps take this one.
/// - `Cx<'_, L, I> where CqLock: After<L>`: any context that may take a completion queue's lock.
///
/// # Examples
///
/// ```ignore
/// fn complete<L, I: Irq>(mut cx: Cx<'_, L, I>, cq: &Cq, wc: Wc)
/// where
///     CqLock: After<L>,
/// {
///     cx.lock(&cq.inner).push(wc);
/// }
/// ```
///
/// # Invariants
///
/// `L` is the innermost level held for `'a`, and with `I = Off` local interrupts are disabled.
pub struct Cx<'a, L, I = Any>(PhantomData<(&'a mut (), *mut L, I)>);

impl Cx<'_, Unlocked> {
    /// Makes the token of a context that has just been entered.
    ///
    /// # Safety
    ///
    /// This context of execution holds no lock of the hierarchy, and no other root of it is in use while
    /// this one is.
    #[inline(always)]
    pub unsafe fn root() -> Self {
        // INVARIANT: Promised by the caller.
        Cx(PhantomData)
    }
}

impl<'a, L> Cx<'a, L, Off> {
    /// Makes the token that a held guard yields.
    ///
    /// # Safety
    ///
    /// `L` is the innermost level held for `'a`, and local interrupts are disabled.
    #[inline(always)]
    pub(super) unsafe fn inner() -> Self {
        // INVARIANT: Promised by the caller.
        Cx(PhantomData)
    }
}

impl<L, I: Irq> Cx<'_, L, I> {
    /// Lends the token for a shorter time, so that it is still there after a call that consumes one.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Cx<'_, L, I> {
        // INVARIANT: The borrow freezes `self`, so the same facts hold for its duration.
        Cx(PhantomData)
    }

    /// Acquires `lock`, whose level must come after `L` in the order.
    #[inline(always)]
    pub fn lock<'g, T, M: Level + After<L>>(
        &'g mut self,
        lock: &'g LevelLock<T, M>,
    ) -> Guard<'g, T, M, I> {
        Guard::acquire(self, lock)
    }
}

/// Proof that local interrupts were enabled when the running context was entered.
///
/// Services of softirq level (transmission, freeing of packets) need it; `post_send` of a kernel client
/// does not have it, as MAD sends with interrupts off. Such services take a `&mut Cx<'_, Unlocked>` too:
/// only both together say that interrupts are enabled now.
#[derive(Clone, Copy)]
pub struct IrqsOn<'a>(PhantomData<(&'a (), *mut ())>);

impl IrqsOn<'_> {
    /// Makes the token.
    ///
    /// # Safety
    ///
    /// Local interrupts are enabled whenever this context holds no lock of the hierarchy.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        IrqsOn(PhantomData)
    }

    /// Runs `body` as a softirq would: no other task runs on this processor meanwhile. For what holds things of others
    /// between two locks, since a task that is preempted then may stay so for as long as somebody likes.
    ///
    /// `body` must not sleep. As it could be sent to another thread, there is no [`Sleepable`] in it.
    #[inline]
    pub fn undisturbed<R>(
        self,
        cx: &mut Cx<'_, Unlocked>,
        body: impl FnOnce(&mut Cx<'_, Unlocked>, IrqsOn<'_>) -> R + Send,
    ) -> R {
        // SAFETY: It may be called in any context but hard interrupts, which have no `IrqsOn`.
        unsafe { sib_bindings::sib_helper_bh_disable() };
        let result = body(cx, self);
        // SAFETY: They are disabled by the above. Interrupts are on, as no lock is held.
        unsafe { sib_bindings::sib_helper_bh_enable() };
        result
    }

    /// Runs `body` with no other task on this processor meanwhile, while softirqs go on to interrupt it. For a task that
    /// holds things of others for longer, who wait for that when they end.
    ///
    /// `body` must not sleep, as in [`Self::undisturbed`]; nor may it free what `vmalloc()` has given, which only a softirq
    /// leaves to others.
    #[inline]
    pub fn unpreempted<R>(
        self,
        cx: &mut Cx<'_, Unlocked>,
        body: impl FnOnce(&mut Cx<'_, Unlocked>, IrqsOn<'_>) -> R + Send,
    ) -> R {
        if cfg!(CONFIG_PREEMPT_RT) {
            // Locks of such a kernel may sleep.
            return self.undisturbed(cx, body);
        }
        // SAFETY: It may be called in any context, and is undone below.
        unsafe { sib_bindings::sib_helper_preempt_disable() };
        let result = body(cx, self);
        // SAFETY: Disabled above.
        unsafe { sib_bindings::sib_helper_preempt_enable() };
        result
    }
}

/// Proof that the running context is a task that may sleep while it holds no lock.
///
/// What sleeps takes it together with `&mut Cx<'_, Unlocked>`: the first excludes softirqs and the verbs
/// that must not sleep, the second excludes held locks.
#[derive(Clone, Copy)]
pub struct Sleepable<'a>(PhantomData<(&'a (), *mut ())>);

impl<'a> Sleepable<'a> {
    /// Makes the token.
    ///
    /// # Safety
    ///
    /// This context may sleep whenever it holds no lock of the hierarchy.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Sleepable(PhantomData)
    }

    /// A task that may sleep runs with interrupts enabled.
    #[inline(always)]
    pub fn irqs_on(self) -> IrqsOn<'a> {
        IrqsOn(PhantomData)
    }

    /// Sleeps for about `time`. That the context is free shows that no lock of the hierarchy is held.
    pub fn pause(self, _cx: &mut Cx<'_, Unlocked>, time: Delta) {
        fsleep(time);
    }
}

/// The tokens of a KUnit test, which runs in a task of its own and comes from no other function of ours.
///
/// To be called once in a test.
#[cfg(CONFIG_KUNIT = "y")]
pub fn test_context() -> (Cx<'static, Unlocked>, Sleepable<'static>) {
    // SAFETY: No lock of the hierarchy is held at the beginning of a test.
    let cx = unsafe { Cx::root() };
    // SAFETY: Tests run in tasks.
    (cx, unsafe { Sleepable::new() })
}
