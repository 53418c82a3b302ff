// SPDX-License-Identifier: GPL-2.0

//! Memory that work requests name: user memory, pinned or not, lists of pages, and ranges of kernel memory.
//!
//! A [`Region`] is a window of such memory, and a list of regions is what a scatter/gather list resolves to.
//! Regions copy to and from slices and to each other, page by page, without a buffer in between. All of it is
//! callable in any context, and every access is checked against the bounds of the window.
//!
//! The memory is shared: with user space, with other CPUs, with other devices. Nothing here makes a Rust
//! reference to it; bytes are copied by C code, and atomics are the kernel's.
//!
//! The addresses are those of the kernel's linear map, which all memory is in on the 64-bit platforms that
//! the device needs anyway (`ib_uses_virt_dma()`).

mod bulk;
mod fast;
mod kernel;
mod on_demand;
mod pages;
mod region;
mod space;
mod umem;
mod user;

pub use self::kernel::KernelRange;
pub use bulk::{
    Bulk,
    BulkVec, //
};
pub(crate) use fast::Lender;
pub use fast::{
    FastPages,
    PagesUse, //
};
pub use on_demand::{
    OnDemand,
    PresentUse, //
};
pub(crate) use pages::Pages;
pub use region::{
    AccessError,
    Region, //
};
pub use space::KernelSpace;
pub use umem::Umem;
pub use user::UserMemory;
