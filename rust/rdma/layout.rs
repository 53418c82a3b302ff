// SPDX-License-Identifier: GPL-2.0

//! A check that Rust and C code agree on the layout of the structures that they share.
//!
//! The bindings come from libclang, while gcc may have compiled the kernel; the two may also have seen
//! different headers. Both would corrupt memory without a word.

use core::mem::offset_of;
use kernel::prelude::*;
use sib_bindings as c;

/// Sizes and offsets as the bindings have them, in the order of `rust/helpers/layout.c`.
const LAYOUT: [usize; 38] = [
    size_of::<c::ib_device>(),
    offset_of!(c::ib_device, ops),
    offset_of!(c::ib_device, attrs),
    offset_of!(c::ib_device, node_guid),
    offset_of!(c::ib_device, phys_port_cnt),
    size_of::<c::ib_device_ops>(),
    offset_of!(c::ib_device_ops, post_send),
    offset_of!(c::ib_device_ops, process_mad),
    size_of::<c::ib_device_attr>(),
    size_of::<c::ib_port_attr>(),
    size_of::<c::ib_port_immutable>(),
    size_of::<c::ib_pd>(),
    size_of::<c::ib_ah>(),
    size_of::<c::ib_cq>(),
    size_of::<c::ib_qp>(),
    offset_of!(c::ib_qp, qp_num),
    size_of::<c::ib_srq>(),
    size_of::<c::ib_mr>(),
    size_of::<c::ib_mw>(),
    size_of::<c::ib_ucontext>(),
    size_of::<c::ib_udata>(),
    size_of::<c::ib_umem>(),
    offset_of!(c::ib_umem, sgt_append),
    size_of::<c::ib_send_wr>(),
    size_of::<c::ib_rdma_wr>(),
    size_of::<c::ib_atomic_wr>(),
    size_of::<c::ib_ud_wr>(),
    size_of::<c::ib_reg_wr>(),
    size_of::<c::ib_recv_wr>(),
    size_of::<c::ib_wc>(),
    size_of::<c::ib_sge>(),
    size_of::<c::ib_qp_attr>(),
    size_of::<c::ib_qp_init_attr>(),
    size_of::<c::rdma_ah_attr>(),
    size_of::<c::rdma_user_mmap_entry>(),
    size_of::<c::rxe_send_wqe>(),
    size_of::<c::rxe_recv_wqe>(),
    offset_of!(c::rxe_queue_buf, data),
];

/// Fails with `ENOEXEC` when Rust and C code differ.
pub(crate) fn check() -> Result {
    let mut count = 0;
    // SAFETY: `count` is valid for the result.
    let theirs = unsafe { c::sib_helper_layout(&mut count) };
    // SAFETY: The C side returns a static array of so many elements.
    let theirs = unsafe { core::slice::from_raw_parts(theirs, count) };
    if theirs == LAYOUT {
        return Ok(());
    }
    for (nth, (ours, theirs)) in LAYOUT.iter().zip(theirs).enumerate() {
        if ours != theirs {
            pr_err!("layout entry {nth} is {ours} in Rust code and {theirs} in C code\n");
        }
    }
    Err(ENOEXEC)
}

#[kunit_tests(sib_rdma_layout)]
mod tests {
    use super::*;

    #[test]
    fn agrees() {
        assert!(check().is_ok());
    }
}
