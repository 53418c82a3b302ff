// SPDX-License-Identifier: GPL-2.0

//! Raw bindings to the RDMA headers and to the C shims of `rust/helpers`.
//!
//! For the crates `rdma` and `sib_cm` only. A type that the `kernel` crate binds as well is imported from there, so both
//! crates name the same type; `struct ib_device`, which is opaque there, is complete here.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]

mod generated {
    use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::MaybeZeroable;

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    include!(concat!(
        env!("SIB_OBJ"),
        "/rust/bindings/bindings_generated.rs"
    ));
}

pub use generated::*;
