// SPDX-License-Identifier: GPL-2.0

//! Objects of ib_core with what the driver keeps in them.
//!
//! ib_core allocates most objects, zeroed, of a size that the driver names, and frees them. The C struct
//! comes first; behind it lies a value of ours from the success of the call that creates the object until
//! the success of the call that destroys it. ib_core makes no other call for the object outside that time.

use core::mem::{
    align_of,
    size_of,
    MaybeUninit, //
};
use kernel::prelude::*;
use kernel::types::Opaque;

/// The alignment that `kzalloc()` guarantees for every size.
const KMALLOC_ALIGN: usize = align_of::<u64>();

/// An object: the struct `B` of ib_core, and our value.
#[repr(C)]
pub(super) struct Obj<B, T> {
    base: Opaque<B>,
    data: MaybeUninit<T>,
}

impl<B, T> Obj<B, T> {
    /// An initialiser of an object that the driver itself allocates: zeroed, without a value.
    pub(super) fn empty() -> impl Init<Self> {
        // SAFETY: The C struct may be zeroed like ib_core does it, and our value is not there yet.
        unsafe {
            pin_init::init_from_closure::<Self, core::convert::Infallible>(|slot| {
                slot.write_bytes(0, 1);
                Ok(())
            })
        }
    }

    /// The size to be allocated.
    pub(super) const SIZE: usize = {
        assert!(align_of::<Self>() <= KMALLOC_ALIGN);
        size_of::<Self>()
    };

    /// Stores the value when the object is created.
    ///
    /// # Safety
    ///
    /// `base` is the start of an allocation of [`Self::SIZE`] bytes without a value, and nobody else uses it.
    #[inline]
    pub(super) unsafe fn store(base: *mut B, value: T) {
        let this: *mut Self = base.cast();
        // SAFETY: In the allocation, and not in use by anyone, by the promise.
        unsafe { (&raw mut (*this).data).cast::<T>().write(value) };
    }

    /// The value.
    ///
    /// # Safety
    ///
    /// `base` is the start of an allocation of [`Self::SIZE`] bytes that has a value, which is not taken
    /// before the end of `'a`.
    #[inline]
    pub(super) unsafe fn get<'a>(base: *mut B) -> &'a T {
        let this: *mut Self = base.cast();
        // SAFETY: There is a value, which is only shared, by the promise.
        unsafe { &*(&raw const (*this).data).cast::<T>() }
    }

    /// Takes the value when the object is destroyed.
    ///
    /// # Safety
    ///
    /// `base` is the start of an allocation of [`Self::SIZE`] bytes that has a value, and nobody uses it.
    #[inline]
    pub(super) unsafe fn take(base: *mut B) -> T {
        let this: *mut Self = base.cast();
        // SAFETY: There is a value, and nobody uses it, by the promise.
        unsafe { (&raw const (*this).data).cast::<T>().read() }
    }
}
