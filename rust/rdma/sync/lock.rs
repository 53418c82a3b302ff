// SPDX-License-Identifier: GPL-2.0

//! Spin locks that know their place in the lock order.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use super::{
    After,
    Any,
    Cx,
    Irq,
    Level,
    Off, //
};
use core::cell::UnsafeCell;
use core::convert::Infallible;
use core::marker::{
    PhantomData,
    PhantomPinned, //
};
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::bindings;
use kernel::prelude::*;
use kernel::types::Opaque;

/// Data guarded by a spin lock of level `L`.
///
/// The outermost lock of a context disables local interrupts and restores them, inner ones are plain.
/// Acquired through [`Cx::lock`] only.
#[pin_data]
pub struct LevelLock<T, L> {
    #[pin]
    raw: Opaque<bindings::spinlock_t>,
    #[pin]
    _pin: PhantomPinned,
    data: UnsafeCell<T>,
    level: PhantomData<L>,
}

// SAFETY: The lock hands its data to one context at a time, so sending it sends the data.
unsafe impl<T: Send, L> Send for LevelLock<T, L> {}
// SAFETY: The lock serialises access to its data, which therefore needs no `Sync`.
unsafe impl<T: Send, L> Sync for LevelLock<T, L> {}

impl<T, L: Level> LevelLock<T, L> {
    /// An initialiser of the lock with `data`, which may be a value or an initialiser in place.
    pub fn new<E: From<Infallible>>(data: impl Init<T, E>) -> impl PinInit<Self, E> {
        // SAFETY: `UnsafeCell<T>` has the layout of `T`, and is initialised when the `T` in it is.
        let data = unsafe { pin_init::cast_init::<T, UnsafeCell<T>, E>(data) };
        try_pin_init!(Self {
            data <- data,
            _pin: PhantomPinned,
            level: PhantomData,
            raw <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for the call; name and class live forever.
                unsafe {
                    bindings::__spin_lock_init(slot, L::name().as_char_ptr(), L::class().as_ptr())
                }
            }),
        }? E)
    }
}

impl<T, L> LevelLock<T, L> {
    /// The data, without locking, since nobody else can have a reference.
    pub fn get_mut(self: Pin<&mut Self>) -> &mut T {
        // SAFETY: `data` is not structurally pinned, and nothing else is moved.
        unsafe { self.get_unchecked_mut() }.data.get_mut()
    }
}

/// A held lock, released on drop.
///
/// # Invariants
///
/// This context holds `lock`, and `saved` is what its acquisition returned.
#[must_use = "the lock is released at once when the guard is unused"]
pub struct Guard<'g, T, L, I: Irq = Any> {
    lock: &'g LevelLock<T, L>,
    saved: I::Saved,
    cx: PhantomData<(&'g mut (), *mut L)>,
}

impl<'g, T, L: Level, I: Irq> Guard<'g, T, L, I> {
    #[inline(always)]
    pub(super) fn acquire<O>(_cx: &'g mut Cx<'_, O, I>, lock: &'g LevelLock<T, L>) -> Self
    where
        L: After<O>,
    {
        // SAFETY: A `LevelLock` is initialised by its only constructor; `Guard` releases it.
        let saved = unsafe { I::acquire(lock.raw.get()) };
        // INVARIANT: Just acquired.
        Guard {
            lock,
            saved,
            cx: PhantomData,
        }
    }

    /// The data, and the token for the locks inside this one.
    #[inline(always)]
    pub fn split(&mut self) -> (&mut T, Cx<'_, L, Off>) {
        // SAFETY: The lock is held by the invariant, and `self` is borrowed mutably for as long as the
        // reference lives.
        let data = unsafe { &mut *self.lock.data.get() };
        // SAFETY: The token borrows the guard, so no inner guard outlives it and no outer token is
        // usable; the outermost acquisition disabled interrupts.
        (data, unsafe { Cx::inner() })
    }
}

impl<T, L, I: Irq> Deref for Guard<'_, T, L, I> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: The lock is held by the invariant.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T, L, I: Irq> DerefMut for Guard<'_, T, L, I> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: The lock is held by the invariant, and `self` is borrowed mutably.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T, L, I: Irq> Drop for Guard<'_, T, L, I> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: The lock is held by the invariant, with `saved` from its acquisition.
        unsafe { I::release(self.lock.raw.get(), self.saved) }
    }
}

#[kunit_tests(sib_rdma_lock)]
mod tests {
    use super::*;
    use crate::sync::{
        prime,
        test_context,
        CqLock,
        DevLock,
        QpLock, //
    };

    #[test]
    fn whole_order() {
        let (mut cx, _) = test_context();
        prime(cx.reborrow());
        prime(cx.reborrow());
    }

    #[test]
    fn nested_data() -> Result {
        let (mut cx, _) = test_context();
        let dev = KBox::pin_init(LevelLock::<u32, DevLock>::new(1), GFP_KERNEL)?;
        let qp = KBox::pin_init(LevelLock::<u32, QpLock>::new(2), GFP_KERNEL)?;
        let cq = KBox::pin_init(LevelLock::<u32, CqLock>::new(3), GFP_KERNEL)?;
        {
            let mut guard = cx.lock(&dev);
            let (dev, mut cx) = guard.split();
            let mut guard = cx.lock(&qp);
            let (qp, mut cx) = guard.split();
            *cx.lock(&cq) += *dev + *qp;
            *qp += 10;
        }
        assert_eq!(*cx.lock(&cq), 6);
        assert_eq!(*cx.lock(&qp), 12);
        Ok(())
    }
}
