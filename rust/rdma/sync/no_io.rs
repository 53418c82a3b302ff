// SPDX-License-Identifier: GPL-2.0

//! Memory without waiting for I/O.
//!
//! A file system on a network, such as NFS over RDMA, writes pages out by a queue pair, and may have to destroy that
//! first, since its connection is broken. So an allocation may wait for the end of a queue pair. What the end of a queue
//! pair waits for must not wait for such an allocation: neither by one of its own, nor for a mutex that another task
//! holds over one.
//!
//! Source: `Documentation/core-api/gfp_mask-from-fs-io.rst` of the kernel.

use core::marker::PhantomData;
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::prelude::*;
use kernel::sync::lock::mutex::MutexGuard;
use kernel::sync::Mutex;
use kernel::types::NotThreadSafe;
use sib_bindings as bindings;

/// While it lives, no allocation of this task waits for I/O.
///
/// Scopes that overlap end in the reverse order: with the first one that has begun all of them end.
#[must_use = "the scope ends at once when it is unused"]
pub struct NoIo {
    /// The flag, if this scope has set it.
    set: c_uint,
    _task: NotThreadSafe,
}

impl NoIo {
    /// Begins a scope. Callable in any task.
    pub fn begin() -> Self {
        Self {
            // SAFETY: A flag of the task, which has no other effect.
            set: unsafe { bindings::sib_helper_no_io_begin() },
            _task: PhantomData,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: As above; `_task` keeps this in the task that has begun it.
        unsafe { bindings::sib_helper_no_io_end(self.set) }
    }
}

/// A mutex that the end of a queue pair may wait for: who holds it allocates without waiting for I/O.
#[pin_data]
pub struct NoIoMutex<T> {
    #[pin]
    inner: Mutex<T>,
}

impl<T> NoIoMutex<T> {
    /// An initialiser, of what [`kernel::new_mutex!`] makes.
    pub fn new(inner: impl PinInit<Mutex<T>>) -> impl PinInit<Self> {
        pin_init!(Self { inner <- inner })
    }

    /// Locks it. Sleeps.
    pub fn lock(&self) -> NoIoGuard<'_, T> {
        let scope = NoIo::begin();
        NoIoGuard {
            guard: self.inner.lock(),
            _scope: scope,
        }
    }
}

/// What a [`NoIoMutex`] guards, while it is locked. Guards of several are dropped in the reverse order: what is still
/// locked when the first one goes is held by a task that may wait for I/O.
pub struct NoIoGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    /// Ends when the mutex is unlocked.
    _scope: NoIo,
}

impl<T> Deref for NoIoGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: Unpin> DerefMut for NoIoGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[kunit_tests(sib_rdma_no_io)]
mod tests {
    use super::*;
    use kernel::new_mutex;

    fn may_wait() -> bool {
        // SAFETY: Reads a flag of the task.
        unsafe { bindings::sib_helper_may_wait_for_io() }
    }

    #[test]
    fn all_scopes_end_with_the_first() {
        let first = NoIo::begin();
        let second = NoIo::begin();
        drop(second);
        assert!(!may_wait());
        let third = NoIo::begin();
        drop(first);
        assert!(may_wait());
        drop(third);
        assert!(may_wait());
    }

    #[test]
    fn who_holds_the_mutex_does_not_wait_for_io() -> Result {
        let outer = KBox::pin_init(NoIoMutex::new(new_mutex!(1)), GFP_KERNEL)?;
        let inner = KBox::pin_init(NoIoMutex::new(new_mutex!(2)), GFP_KERNEL)?;
        assert!(may_wait());
        let first = outer.lock();
        assert!(!may_wait());
        let mut second = inner.lock();
        *second += *first;
        assert!(!may_wait());
        drop(second);
        assert!(!may_wait());
        drop(first);
        assert!(may_wait());
        assert_eq!(*inner.lock(), 3);
        Ok(())
    }
}
