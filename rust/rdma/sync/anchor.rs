// SPDX-License-Identifier: GPL-2.0

//! Counted pointers that C code can keep for us.

use super::Held;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use kernel::sync::Arc;

/// A counted pointer to a pinned value, which work items and timers keep as a raw pointer.
///
/// Implemented by [`Arc`], whose last drop destroys the value wherever it happens, and by [`Held`], whose
/// drop destroys nothing.
///
/// # Safety
///
/// [`Self::into_raw`] returns a pointer to the value, which stays alive and in place until the pointer is
/// given to [`Self::from_raw`].
pub unsafe trait Anchor: Deref + Sized + Send + Sync + 'static {
    /// Gives the reference away.
    fn into_raw(self) -> *const Self::Target;

    /// Takes back the reference.
    ///
    /// # Safety
    ///
    /// `ptr` comes from [`Self::into_raw`], and is taken back once.
    unsafe fn from_raw(ptr: *const Self::Target) -> Self;

    /// One more reference; `None` if the count is exhausted.
    fn another(&self) -> Option<Self>;
}

/// Lends the reference that [`Anchor::into_raw`] gave away, without taking it back.
///
/// # Safety
///
/// `ptr` comes from [`Anchor::into_raw`], and is not taken back while the result is in use.
pub(crate) unsafe fn lend<A: Anchor>(ptr: *const A::Target) -> ManuallyDrop<A> {
    // SAFETY: `ManuallyDrop` keeps the count with whoever has the raw pointer.
    ManuallyDrop::new(unsafe { A::from_raw(ptr) })
}

// SAFETY: An `Arc` pins its value, and the raw pointer keeps the count.
unsafe impl<T: Send + Sync + 'static> Anchor for Arc<T> {
    fn into_raw(self) -> *const T {
        Arc::into_raw(self)
    }

    unsafe fn from_raw(ptr: *const T) -> Self {
        // SAFETY: `ptr` comes from `Arc::into_raw` by the caller's promise.
        unsafe { Arc::from_raw(ptr) }
    }

    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }
}

// SAFETY: The owner of a held value neither moves nor destroys it while the raw pointer keeps the count.
unsafe impl<T: Send + Sync + 'static> Anchor for Held<T> {
    fn into_raw(self) -> *const T {
        Held::into_raw(self)
    }

    unsafe fn from_raw(ptr: *const T) -> Self {
        // SAFETY: `ptr` comes from `Held::into_raw` by the caller's promise.
        unsafe { Held::from_raw(ptr) }
    }

    fn another(&self) -> Option<Self> {
        self.try_clone()
    }
}
