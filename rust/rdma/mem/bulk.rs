// SPDX-License-Identifier: GPL-2.0

//! Memory of which a program may want much.

use core::alloc::Layout;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::alloc::allocator::{
    KVmalloc,
    Kmalloc, //
};
use kernel::alloc::{
    AllocError,
    Allocator,
    Flags,
    NumaNode,
    Vec, //
};
use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// The allocator of memory of which a program may want much, in pieces of any size. It is charged to the memory cgroup
/// of the task, which has to say so: flags other than `GFP_KERNEL_ACCOUNT` are refused.
///
/// For a task at its limit an allocation fails, while [`KVmalloc`] may have a task killed.
pub struct Bulk;

/// A vector of such memory.
pub type BulkVec<T> = Vec<T, Bulk>;

// SAFETY: Memory of `kmalloc()` and `vmap()` stays until `kvfree()`, which takes either. The layout is as for
// `kmalloc()`, so that what that gives is aligned; the other is aligned to pages, and what wants more is refused.
unsafe impl Allocator for Bulk {
    const MIN_ALIGN: usize = KVmalloc::MIN_ALIGN;

    unsafe fn realloc(
        ptr: Option<NonNull<u8>>,
        layout: Layout,
        old_layout: Layout,
        flags: Flags,
        _nid: NumaNode,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let layout = Kmalloc::aligned_layout(layout);
        let new: *mut u8 = if layout.size() == 0 {
            ptr::without_provenance_mut(layout.align())
        } else if flags == GFP_KERNEL_ACCOUNT && layout.align() <= PAGE_SIZE {
            // SAFETY: Callable with any size where such flags are right.
            unsafe { sib_bindings::sib_helper_alloc_bulk(layout.size()) }.cast()
        } else {
            ptr::null_mut()
        };
        let new = NonNull::new(new).ok_or(AllocError)?;
        if let Some(old) = ptr.filter(|_| old_layout.size() != 0) {
            let kept = old_layout.size().min(layout.size());
            // SAFETY: Both have so many bytes, and the old ones are nobody else's and not needed any more, by the
            // promises of the caller.
            unsafe {
                ptr::copy_nonoverlapping(old.as_ptr(), new.as_ptr(), kept);
                bindings::kvfree(old.as_ptr().cast());
            }
        }
        Ok(NonNull::slice_from_raw_parts(new, layout.size()))
    }
}

#[kunit_tests(sib_rdma_bulk)]
mod tests {
    use super::*;

    #[test]
    fn any_size_is_had_and_grows() -> Result {
        for len in [1, 100, PAGE_SIZE, PAGE_SIZE + 1, 2000 * PAGE_SIZE] {
            let mut bytes = BulkVec::<u8>::from_elem(7, len, GFP_KERNEL_ACCOUNT)?;
            bytes.extend_with(len, 8, GFP_KERNEL_ACCOUNT)?;
            assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), len);
            assert!(bytes.iter().skip(len).all(|byte| *byte == 8));
        }
        Ok(())
    }

    #[test]
    fn what_pages_are_not_aligned_to_is_refused() -> Result {
        let layout = Layout::from_size_align(1, 2 * PAGE_SIZE).map_err(|_| EINVAL)?;
        assert!(Bulk::alloc(layout, GFP_KERNEL_ACCOUNT, NumaNode::NO_NODE).is_err());
        Ok(())
    }

    #[test]
    fn what_is_not_charged_is_refused() {
        assert!(BulkVec::<u8>::with_capacity(1, GFP_KERNEL).is_err());
        assert!(BulkVec::<u8>::with_capacity(1, GFP_ATOMIC).is_err());
    }
}
