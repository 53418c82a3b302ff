// SPDX-License-Identifier: GPL-2.0

//! Values with one owner and many holders.

use super::{
    Cx,
    Gate,
    Sleepable,
    Unlocked, //
};
use core::convert::Infallible;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A value with one owner, who alone destroys it, and any number of holders, for whom he waits.
///
/// The owner destroys the value in his own context, which may sleep. A holder may be dropped anywhere, in
/// softirqs and under locks too, since dropping one destroys nothing. This is how the objects of ib_core,
/// whose destroy call sleeps until nobody uses the object, are to be kept: tables, timers and work items
/// have a [`Held`], the object of ib_core has the `Tracked`.
///
/// Dropping the owner waits for the holders as well: it must happen where sleeping is allowed. Call
/// [`Self::close`] first, so that the type system checks this.
///
/// # Invariants
///
/// `inner` comes from `Arc::into_raw`, and this is the only one that may drop its value.
pub struct Tracked<T> {
    inner: NonNull<Inner<T>>,
    owns: PhantomData<Inner<T>>,
}

#[pin_data]
struct Inner<T> {
    #[pin]
    gate: Gate,
    #[pin]
    value: ManuallyDrop<T>,
}

// SAFETY: The owner destroys the value on the thread where he is, and holders share it meanwhile.
unsafe impl<T: Send + Sync> Send for Tracked<T> {}
// SAFETY: A shared owner yields `&T` and holders, which are `Sync` and `Send` under the same bounds.
unsafe impl<T: Send + Sync> Sync for Tracked<T> {}

impl<T> Tracked<T> {
    /// Allocates the value, charged to the memory cgroup of the task. May sleep.
    pub fn new<E: From<Infallible>>(value: impl PinInit<T, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        // SAFETY: `ManuallyDrop<T>` has the layout of `T`, and is initialised when the `T` in it is. It stays
        // pinned, since an `Arc` never moves its value.
        let value = unsafe { pin_init::cast_pin_init::<T, ManuallyDrop<T>, E>(value) };
        let inner = Arc::pin_init(
            try_pin_init!(Inner {
                gate <- Gate::new(),
                value <- value,
            }? E),
            GFP_KERNEL_ACCOUNT,
        )?;
        // SAFETY: `Arc::into_raw` does not return null.
        let inner = unsafe { NonNull::new_unchecked(Arc::into_raw(inner).cast_mut()) };
        // INVARIANT: Fresh from the allocator.
        Ok(Self {
            inner,
            owns: PhantomData,
        })
    }

    /// Becomes a holder, unless the owner has begun to close.
    #[inline]
    pub fn hold(&self) -> Option<Held<T>> {
        // INVARIANT: The count was raised while the owner is alive.
        self.gate().try_enter().then(|| Held { inner: self.inner })
    }

    /// Refuses new holders, and waits until the present ones are gone.
    pub fn close(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.gate().close(cx, sleepable);
    }

    fn gate(&self) -> &Gate {
        // SAFETY: Alive by the invariant.
        unsafe { &self.inner.as_ref().gate }
    }
}

impl<T> Deref for Tracked<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: Alive by the invariant.
        unsafe { &self.inner.as_ref().value }
    }
}

impl<T> Drop for Tracked<T> {
    fn drop(&mut self) {
        let gate = self.gate();
        gate.refuse();
        gate.wait();
        // SAFETY: The value is ours by the invariant, and since the gate is closed and idle nobody else has a
        // reference to it, or can get one. It stays where it is while it is dropped.
        unsafe { ManuallyDrop::drop(&mut (*self.inner.as_ptr()).value) };
        // SAFETY: By the invariant this takes back what `Arc::into_raw` gave, once.
        drop(unsafe { Arc::from_raw(self.inner.as_ptr()) });
    }
}

/// A counted reference to the value of a [`Tracked`].
///
/// # Invariants
///
/// A pass of the gate in `inner` is counted for this holder, so `inner` is alive.
pub struct Held<T> {
    inner: NonNull<Inner<T>>,
}

// SAFETY: A holder is a shared reference that can be dropped anywhere, as it destroys nothing.
unsafe impl<T: Send + Sync> Send for Held<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Held<T> {}

impl<T> Held<T> {
    /// One more holder, which the owner waits for too, even if he has begun to.
    ///
    /// `None` only when there are half as many holders as an `i32` counts.
    #[inline]
    pub fn try_clone(&self) -> Option<Self> {
        // INVARIANT: Counted while `self` keeps the owner from destroying the value.
        self.gate()
            .enter_again()
            .then(|| Held { inner: self.inner })
    }

    /// Whether both hold the same value.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }

    /// A reference that the owner does not wait for.
    pub fn watcher(&self) -> Watch<T> {
        // SAFETY: The pointer is that of an `Arc` which is alive, and the one that it stands for is only lent.
        let inner = ManuallyDrop::new(unsafe { Arc::from_raw(self.inner.as_ptr()) });
        Watch {
            inner: Arc::clone(&inner),
        }
    }

    /// Turns the holder into a pointer to the value; [`Self::from_raw`] is the way back.
    pub fn into_raw(self) -> *const T {
        let this = ManuallyDrop::new(self);
        // SAFETY: Alive by the invariant; no reference is made.
        unsafe { (&raw const (*this.inner.as_ptr()).value).cast() }
    }

    /// Takes back what [`Self::into_raw`] gave away.
    ///
    /// # Safety
    ///
    /// `ptr` comes from [`Self::into_raw`], and is taken back once.
    pub unsafe fn from_raw(ptr: *const T) -> Self {
        // SAFETY: `ptr` is the `value` of an `Inner`, so the result stays in the same allocation.
        let inner = unsafe { ptr.byte_sub(core::mem::offset_of!(Inner<T>, value)) };
        // SAFETY: Derived from a pointer that is not null.
        let inner = unsafe { NonNull::new_unchecked(inner.cast::<Inner<T>>().cast_mut()) };
        // INVARIANT: The pass is the one that `into_raw` kept counted.
        Self { inner }
    }

    fn gate(&self) -> &Gate {
        // SAFETY: Alive by the invariant.
        unsafe { &self.inner.as_ref().gate }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: Alive by the invariant.
        unsafe { &self.inner.as_ref().value }
    }
}

impl<T> Drop for Held<T> {
    #[inline]
    fn drop(&mut self) {
        self.gate().leave();
    }
}

/// A reference that keeps the memory of a value, but not the value: for caches.
///
/// May be dropped anywhere.
pub struct Watch<T> {
    inner: Arc<Inner<T>>,
}

// SAFETY: All that can be had from it is a holder, which needs the same bounds.
unsafe impl<T: Send + Sync> Send for Watch<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Watch<T> {}

impl<T> Watch<T> {
    /// Becomes a holder, unless the owner has begun to close.
    #[inline]
    pub fn hold(&self) -> Option<Held<T>> {
        // Not from a reference, which would not lead to the count that `Held::watcher` raises.
        let inner = NonNull::new(Arc::as_ptr(&self.inner).cast_mut())?;
        // INVARIANT: A gate that lets somebody in has an owner who has not dropped the value, and who waits.
        self.inner.gate.try_enter().then(|| Held { inner })
    }

    /// Whether this is a reference to what `held` holds.
    #[inline]
    pub fn is_of(&self, held: &Held<T>) -> bool {
        NonNull::from(&*self.inner) == held.inner
    }
}

#[kunit_tests(sib_rdma_tracked)]
mod tests {
    use super::*;
    use crate::new_work;
    use crate::sync::test_context;
    use crate::work::{
        Queue,
        Run,
        Work, //
    };
    use kernel::sync::atomic::{
        Atomic,
        Relaxed, //
    };
    use kernel::sync::Arc;
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    /// A value that counts how often it was used, and whether it was destroyed.
    #[pin_data(PinnedDrop)]
    struct Value {
        uses: Atomic<i32>,
        destroyed: Arc<Atomic<i32>>,
        #[pin]
        work: Work<Value>,
    }

    #[pinned_drop]
    impl PinnedDrop for Value {
        fn drop(self: Pin<&mut Self>) {
            self.destroyed.store(self.uses.load(Relaxed), Relaxed);
        }
    }

    impl Run for Value {
        type Pointer = Held<Value>;

        fn run(this: Held<Value>, _cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {
            fsleep(Delta::from_millis(20));
            this.uses.add(1, Relaxed);
        }
    }

    fn value(destroyed: &Arc<Atomic<i32>>) -> Result<Tracked<Value>> {
        let destroyed = destroyed.clone();
        Tracked::new(pin_init!(Value {
            uses: Atomic::new(0),
            destroyed,
            work <- new_work!("sib_test"),
        }))
    }

    #[test]
    fn owner_waits_for_work() -> Result {
        let (mut cx, sleepable) = test_context();
        let queue = Queue::new(c"sib_test", sleepable)?;
        let destroyed = Arc::new(Atomic::new(-1), GFP_KERNEL)?;
        let owner = value(&destroyed)?;
        let held = owner.hold().ok_or(EINVAL)?;
        assert!(held.try_clone().is_some_and(|other| other.ptr_eq(&held)));
        assert!(queue.enqueue(&owner.work, held).is_ok());
        owner.close(&mut cx, sleepable);
        assert_eq!(owner.uses.load(Relaxed), 1);
        assert!(owner.hold().is_none());
        assert_eq!(destroyed.load(Relaxed), -1);
        drop(owner);
        assert_eq!(destroyed.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn drop_waits_too() -> Result {
        let (_cx, sleepable) = test_context();
        let queue = Queue::new(c"sib_test", sleepable)?;
        let destroyed = Arc::new(Atomic::new(-1), GFP_KERNEL)?;
        let owner = value(&destroyed)?;
        let held = owner.hold().ok_or(EINVAL)?;
        let _ = queue.enqueue(&owner.work, held);
        drop(owner);
        assert_eq!(destroyed.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn cancelled_work_lets_go() -> Result {
        let (mut cx, sleepable) = test_context();
        let queue = Queue::new(c"sib_test", sleepable)?;
        let destroyed = Arc::new(Atomic::new(-1), GFP_KERNEL)?;
        let owner = value(&destroyed)?;
        for _ in 0..100 {
            let held = owner.hold().ok_or(EINVAL)?;
            let _ = queue.enqueue(&owner.work, held);
            owner.work.cancel(&mut cx, sleepable);
        }
        owner.close(&mut cx, sleepable);
        Ok(())
    }

    #[test]
    fn owner_does_not_wait_for_watchers() -> Result {
        let (mut cx, sleepable) = test_context();
        let destroyed = Arc::new(Atomic::new(-1), GFP_KERNEL)?;
        let owner = value(&destroyed)?;
        let watch = owner.hold().ok_or(EINVAL)?.watcher();
        let held = watch.hold().ok_or(EINVAL)?;
        assert!(watch.is_of(&held));
        held.uses.add(5, Relaxed);
        drop(held);
        owner.close(&mut cx, sleepable);
        assert!(watch.hold().is_none());
        assert_eq!(destroyed.load(Relaxed), -1);
        drop(owner);
        assert_eq!(destroyed.load(Relaxed), 5);
        assert!(watch.hold().is_none());
        Ok(())
    }
}
