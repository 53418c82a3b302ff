// SPDX-License-Identifier: GPL-2.0

//! Pinned user memory.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use super::{
    Pages,
    Region, //
};
use crate::ib::DeviceRef;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::page::{
    PAGE_SHIFT,
    PAGE_SIZE, //
};
use kernel::prelude::*;

/// User memory that stays in place for as long as this value exists.
///
/// Dropping it unpins the memory, which may sleep: it must be dropped by a task that holds no lock. Keep it
/// in a [`Tracked`](crate::sync::Tracked) object to have that by construction.
///
/// # Invariants
///
/// `raw` is a pinned memory of ib_core of which this is the only owner; `pages` are its pages.
pub struct Umem {
    pages: Pages,
    raw: NonNull<sib_bindings::ib_umem>,
    /// The memory names it until it is released.
    _device: DeviceRef,
}

// SAFETY: Pinned memory may be accessed and released by any task.
unsafe impl Send for Umem {}
// SAFETY: A shared reference gives access to `pages` alone, which is `Sync`.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes at `addr` of the current task's memory, for writing if `access` (`IB_ACCESS_*`) has
    /// a flag that writes.
    ///
    /// ib_core checks the limit of locked memory.
    ///
    /// # Safety
    ///
    /// `device` is a live device.
    pub(crate) unsafe fn pin(
        device: *mut sib_bindings::ib_device,
        addr: u64,
        len: usize,
        access: i32,
        _cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
    ) -> Result<Self> {
        let pages = Pages::with_capacity(0)?;
        // SAFETY: The device is live by the caller's promise. Without an attribute bundle the memory is named
        // by its address, as `ib_umem_get_va()` does.
        let raw = from_err_ptr(unsafe {
            sib_bindings::ib_umem_get_attr_or_va(device, core::ptr::null(), 0, addr, len, access)
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: A live device by the promise of the caller, so it is not null.
        let device = unsafe { DeviceRef::new(NonNull::new_unchecked(device)) };
        // INVARIANT: Fresh from ib_core; from here on `Drop` releases it.
        let this = Self {
            pages,
            raw,
            _device: device,
        };
        this.with_pages(addr, len)
    }

    /// Lists the pages of memory that has just been pinned.
    fn with_pages(mut self, addr: u64, len: usize) -> Result<Self> {
        let raw = self.raw.as_ptr();
        // SAFETY: Live by the invariant.
        let count = unsafe { sib_bindings::sib_helper_umem_num_pages(raw) };
        let mut pages = Pages::with_capacity(count)?;
        let (room, capacity) = pages.spare();
        // SAFETY: There is room for `capacity` addresses.
        let found = unsafe {
            sib_bindings::sib_helper_umem_page_addresses(raw, room.cast(), capacity.min(count))
        };
        // SAFETY: So many were stored. They are in the linear map and stay pinned until `Drop`.
        unsafe { pages.filled(found) };
        // SAFETY: `raw` is live.
        let writable = unsafe { (*raw).writable() } != 0;
        let first = (addr as usize) & PAGE_SIZE.wrapping_sub(1);
        // SAFETY: The list has pages of the system's size, pinned for writing if `writable`.
        unsafe { pages.set_range(PAGE_SHIFT as u32, first, len, writable) }?;
        self.pages = pages;
        Ok(self)
    }

    /// The memory.
    #[inline]
    pub fn region(&self) -> Region<'_> {
        Region::from(&self.pages)
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        self.pages.clear();
        // SAFETY: Live and ours by the invariant; nothing refers to its pages any more.
        unsafe { sib_bindings::ib_umem_release(self.raw.as_ptr()) }
    }
}
