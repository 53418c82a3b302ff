// SPDX-License-Identifier: GPL-2.0

//! Lists of pages for fast registration.

use crate::mem::{
    Lender,
    Pages, //
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr;
use kernel::bindings::scatterlist;
use kernel::prelude::*;
use sib_bindings as bindings;

/// What `ib_sg_to_pages()` calls for each page.
type SetPage = unsafe extern "C" fn(mr: *mut bindings::ib_mr, addr: u64) -> c_int;

/// The list that [`PageList::fill`] fills, where the callback of `ib_sg_to_pages()` finds it: in the region.
///
/// # Invariants
///
/// `pages` is null but while [`PageList::fill`] is under way, which has the list for itself.
pub(super) struct Target {
    pages: Cell<*mut Pages>,
}

impl Target {
    /// No list.
    pub(super) const fn none() -> Self {
        // INVARIANT: Null.
        Self {
            pages: Cell::new(ptr::null_mut()),
        }
    }

    /// Appends a page to the list.
    ///
    /// # Safety
    ///
    /// Called from within [`PageList::fill`]. At `addr` is a page of the region's page size, which the client
    /// lets the region have.
    pub(super) unsafe fn push(&self, addr: u64) -> Result {
        // SAFETY: By the invariant, as `fill` is under way.
        let pages = unsafe { self.pages.get().as_mut() }.ok_or(EINVAL)?;
        // SAFETY: `fill` sets the range with the region's page size; the rest is promised.
        unsafe { pages.push(addr) }
    }
}

/// The pages that a client in the kernel wants a region for fast registration to have.
pub struct PageList<'a> {
    mr: *mut bindings::ib_mr,
    sg: *mut scatterlist,
    nents: c_int,
    offset: *mut c_uint,
    target: &'a Target,
    lender: Option<&'a Lender>,
    set_page: SetPage,
    mapped: c_int,
    is_taken: bool,
    call: PhantomData<&'a mut scatterlist>,
}

impl<'a> PageList<'a> {
    /// Takes the arguments of `map_mr_sg`.
    ///
    /// # Safety
    ///
    /// All are those of one call, which lasts for `'a`, and of which there is one at a time for the region;
    /// `target` is the one that `set_page` pushes to for the region, and `lender` that of the region's pages.
    pub(super) unsafe fn new(
        mr: *mut bindings::ib_mr,
        sg: *mut scatterlist,
        nents: c_int,
        offset: *mut c_uint,
        target: &'a Target,
        lender: Option<&'a Lender>,
        set_page: SetPage,
    ) -> Self {
        Self {
            mr,
            sg,
            nents,
            offset,
            target,
            lender,
            set_page,
            mapped: 0,
            is_taken: false,
            call: PhantomData,
        }
    }

    /// That of the pages of the region, if it is one for fast registration.
    pub(crate) fn lender(&self) -> Option<&'a Lender> {
        self.lender
    }

    /// How many entries of the client's list have been taken.
    pub(super) fn mapped(&self) -> c_int {
        self.mapped
    }

    /// Replaces what is in `pages` by as many pages of the client's list as fit without allocating. To be done once.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the list is empty or its page size is not a power of two, or it has been taken; `ENOMEM` when
    /// nothing fits. `pages` is empty then.
    pub(crate) fn fill(&mut self, pages: &mut Pages) -> Result {
        pages.clear();
        // The offset of the call is not that of the first entry any more.
        if core::mem::replace(&mut self.is_taken, true) {
            return Err(EINVAL);
        }
        // SAFETY: The region is alive for the call; the client has set the page size before.
        let page_size = unsafe { (*self.mr).page_size };
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        // INVARIANT: The list is ours until the pointer is reset below.
        self.target.pages.set(pages);
        // SAFETY: The arguments are those of the call.
        let mapped = unsafe {
            bindings::ib_sg_to_pages(
                self.mr,
                self.sg,
                self.nents,
                self.offset,
                Some(self.set_page),
            )
        };
        self.target.pages.set(ptr::null_mut());
        if mapped < 0 {
            pages.clear();
            return Err(Error::from_errno(mapped));
        }
        // SAFETY: Set by the call above, for the client's list.
        let (iova, length) = unsafe { ((*self.mr).iova, (*self.mr).length) };
        let first = iova & u64::from(page_size.wrapping_sub(1));
        // SAFETY: The pages have that size. The client lets the region read and write them; what peers may do
        // is up to the rights of the registration.
        unsafe {
            pages.set_range(
                page_size.trailing_zeros(),
                first as usize,
                length as usize,
                true,
            )
        }?;
        self.mapped = mapped;
        Ok(())
    }
}
