// SPDX-License-Identifier: GPL-2.0

//! Memory that users of a device map.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `struct rdma_user_mmap_entry`.
//!
//! The entry of a ring is in the table of its user context from the creation of the object to which the
//! ring belongs until its destruction. The pages themselves are counted by the mappings: a user who keeps
//! a mapping keeps the pages, but no object.

use super::abi::MmapInfo;
use super::udata::Udata;
use crate::ring::Ring;
use core::mem::{
    offset_of,
    ManuallyDrop, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};
use kernel::sync::Arc;
use kernel::types::Opaque;
use sib_bindings as bindings;

/// An entry in the table of a user context.
///
/// # Invariants
///
/// `base` is initialised by ib_core. The struct lies in a box that belongs to ib_core's count of uses: it is
/// freed by [`mmap_free`].
#[repr(C)]
struct Entry {
    base: Opaque<bindings::rdma_user_mmap_entry>,
    ring: Arc<Ring>,
}

/// A ring that is in the table of a user context.
///
/// The drop may sleep.
///
/// # Invariants
///
/// `entry` is a live [`Entry`] in the table of a user context, and this is the one reference that the
/// removal gives back.
pub(super) struct Mapping {
    entry: NonNull<Entry>,
}

// SAFETY: The functions of ib_core that work on entries lock what they need, and the ring is `Send`.
unsafe impl Send for Mapping {}
// SAFETY: As above; a shared `Mapping` reads constants alone.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Enters `ring` into the table of `context`.
    ///
    /// # Safety
    ///
    /// `context` is alive, and outlives the result.
    pub(super) unsafe fn new(context: *mut bindings::ib_ucontext, ring: Arc<Ring>) -> Result<Self> {
        let length = ring.size();
        let entry = KBox::into_raw(KBox::new(
            Entry {
                base: Opaque::zeroed(),
                ring,
            },
            GFP_KERNEL_ACCOUNT,
        )?);
        // SAFETY: `context` is alive, and the entry is a zeroed `struct rdma_user_mmap_entry` that no one
        // else knows. The call initialises it.
        let ret = to_result(unsafe {
            bindings::rdma_user_mmap_entry_insert(
                context,
                Opaque::cast_into(&raw const (*entry).base),
                length,
            )
        });
        if let Err(e) = ret {
            // SAFETY: The entry is not in the table, so the box is still ours alone.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(e);
        }
        // SAFETY: `KBox::into_raw` does not return null.
        let entry = unsafe { NonNull::new_unchecked(entry) };
        // INVARIANT: Just entered; the first reference is ours.
        Ok(Self { entry })
    }

    /// Enters `ring` into the table of the caller's context, and tells the caller where it is.
    ///
    /// Without a ring the answer is empty.
    ///
    /// # Safety
    ///
    /// The context of the call outlives the result.
    pub(super) unsafe fn answer(
        udata: &Udata<'_>,
        ring: Option<Arc<Ring>>,
    ) -> Result<Option<Self>> {
        let map = ring
            // SAFETY: `udata` is that of a call in a live context; that it outlives the result is promised.
            .map(|ring| unsafe { Self::new(udata.context(), ring) })
            .transpose()?;
        udata.respond(&Self::info_of(&map))?;
        Ok(map)
    }

    /// What the user needs to map the ring, if there is one.
    pub(super) fn info_of(map: &Option<Self>) -> MmapInfo {
        map.as_ref().map_or(MmapInfo::none(), Self::info)
    }

    /// What the user needs to map the ring.
    pub(super) fn info(&self) -> MmapInfo {
        // SAFETY: The entry is alive by the invariant; `start_pgoff` does not change after the insertion.
        let (pgoff, size) = unsafe {
            let entry = self.entry.as_ref();
            ((*entry.base.get()).start_pgoff, entry.ring.size())
        };
        MmapInfo::new((pgoff as u64) << kernel::page::PAGE_SHIFT, size as u32)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The entry is alive and in the table, and the reference is given back once. The user
        // context is alive by the promise made to `Mapping::new`.
        unsafe { bindings::rdma_user_mmap_entry_remove(self.entry.as_ref().base.get()) };
    }
}

/// The ring that an object has in the table of its user, which resizing replaces.
///
/// Calls that resize come at the same time; the last one wins.
///
/// # Invariants
///
/// `entry` is null or the pointer of a [`Mapping`] that this cell owns.
pub(super) struct MapCell {
    entry: Atomic<*mut Entry>,
}

// SAFETY: The cell is an owner of a `Mapping`, which may be moved to any task.
unsafe impl Send for MapCell {}
// SAFETY: The pointer is exchanged atomically.
unsafe impl Sync for MapCell {}

impl MapCell {
    /// A cell with `map`.
    pub(super) fn new(map: Option<Mapping>) -> Self {
        // INVARIANT: The cell becomes the owner.
        Self {
            entry: Atomic::new(Self::into_raw(map)),
        }
    }

    /// Puts `map` into the cell, and removes the one that was there. May sleep.
    pub(super) fn replace(&self, map: Option<Mapping>) {
        // INVARIANT: The cell becomes the owner of the new one, and gives up the old one.
        let old = self.entry.xchg(Self::into_raw(map), Full);
        drop(NonNull::new(old).map(|entry| Mapping { entry }));
    }

    fn into_raw(map: Option<Mapping>) -> *mut Entry {
        map.map_or(ptr::null_mut(), |map| ManuallyDrop::new(map).entry.as_ptr())
    }
}

impl Drop for MapCell {
    fn drop(&mut self) {
        self.replace(None);
    }
}

/// The entry that holds `base`.
///
/// # Safety
///
/// `base` comes from an [`Entry`].
unsafe fn entry_of(base: *mut bindings::rdma_user_mmap_entry) -> *mut Entry {
    const { assert!(offset_of!(Entry, base) == 0) };
    base.cast()
}

/// `ib_device_ops.mmap_free`: nobody refers to the entry any more.
///
/// # Safety
///
/// Called by ib_core, once for each entry, with an entry that [`Mapping::new`] made.
pub(super) unsafe extern "C" fn mmap_free(base: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: All entries are made by `Mapping::new`, and ib_core has given up its last reference.
    drop(unsafe { KBox::from_raw(entry_of(base)) });
}

/// `ib_device_ops.mmap`: maps a ring.
///
/// In the task that calls mmap(), with its mmap lock held for writing, and with the device kept from being
/// disassociated.
///
/// # Safety
///
/// Called by ib_core, with a live user context and the area that is being set up.
pub(super) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut kernel::bindings::vm_area_struct,
) -> c_int {
    // SAFETY: Both are valid by the safety requirement.
    let base = unsafe { bindings::rdma_user_mmap_entry_get(context, vma) };
    if base.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: The table holds our entries alone, and the reference just taken keeps this one alive.
    let ring = unsafe { &(*entry_of(base)).ring };
    // SAFETY: This is the `mmap` operation for `vma`, which ib_core has found to be as large as the entry.
    let ret = from_result(|| unsafe { ring.map(vma) }.map(|()| 0));
    // SAFETY: Gives back the reference taken above.
    unsafe { bindings::rdma_user_mmap_entry_put(base) };
    ret
}
