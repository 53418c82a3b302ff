// SPDX-License-Identifier: GPL-2.0

//! Requests and responses of the driver's own in a call from user space.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h).

use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use sib_bindings as bindings;
use zerocopy::Immutable;

/// The driver's part of a call from user space.
///
/// # Invariants
///
/// `raw` is the `driver_udata` of the attributes of a call that lasts for `'a`.
pub(super) struct Udata<'a> {
    raw: NonNull<bindings::ib_udata>,
    call: PhantomData<&'a mut bindings::ib_udata>,
}

impl<'a> Udata<'a> {
    /// Wraps the pointer that ib_core passes; `None` for a client in the kernel.
    ///
    /// # Safety
    ///
    /// `raw` is null or the `driver_udata` of the attributes of a call that lasts for `'a`.
    pub(super) unsafe fn from_raw(raw: *mut bindings::ib_udata) -> Option<Self> {
        // INVARIANT: Promised by the caller.
        NonNull::new(raw).map(|raw| Self {
            raw,
            call: PhantomData,
        })
    }

    /// The context of the user. It outlives all objects made from it.
    pub(super) fn context(&self) -> *mut bindings::ib_ucontext {
        // SAFETY: By the invariant.
        unsafe { bindings::sib_helper_ib_udata_context(self.raw.as_ptr()) }
    }

    /// The room for the response, in bytes.
    pub(super) fn out_len(&self) -> usize {
        // SAFETY: By the invariant.
        unsafe { (*self.raw.as_ptr()).outlen }
    }

    /// Refuses a call whose request has anything but zeros.
    pub(super) fn no_request(&self) -> Result {
        // SAFETY: By the invariant; ib_core checks the user's memory.
        to_result(unsafe { bindings::sib_helper_ib_is_udata_in_empty(self.raw.as_ptr()) })
    }

    /// Refuses a call without the room for a response of type `T`.
    pub(super) fn has_room_for<T>(&self) -> Result {
        if self.out_len() < size_of::<T>() {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Reads the request. What the user gives beyond its length must be zero.
    pub(super) fn request<T: FromBytes + IntoBytes>(&self) -> Result<T> {
        let mut request = T::new_zeroed();
        // SAFETY: By the invariant; `request` has the length given, and any bytes are a valid `T`.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                (&raw mut request).cast(),
                size_of::<T>(),
                size_of::<T>(),
            )
        })?;
        Ok(request)
    }

    /// Writes the response. Room beyond its length is filled with zeros.
    pub(super) fn respond<T: IntoBytes + Immutable>(&self, response: &T) -> Result {
        let bytes = response.as_bytes();
        // SAFETY: By the invariant; `bytes` has the length given, and no padding.
        to_result(unsafe {
            bindings::_ib_respond_udata(self.raw.as_ptr(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Refuses a request, and fills the room for a response with zeros.
    pub(super) fn nothing(&self) -> Result {
        self.no_request()?;
        // SAFETY: By the invariant; ib_core checks the user's memory.
        to_result(unsafe { bindings::sib_helper_ib_respond_empty_udata(self.raw.as_ptr()) })
    }
}
