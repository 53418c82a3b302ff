// SPDX-License-Identifier: GPL-2.0

//! The interface to user space, which is that of `rdma_rxe`.
//!
//! User space drives the device with the stock provider librxe: queues are rings in shared memory, and a
//! doorbell tells that the send ring has new entries. What a ring holds is never trusted: an entry is copied
//! once, and these functions turn the copy into a checked value.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h). That the
//! layouts are equal is asserted here against the bindings, and in `rust/helpers/ib.c` by the compiler of
//! the kernel.

mod recv;
mod send;
mod wc;

pub use recv::{
    recv_wqe_size,
    UserRecv, //
};
pub use send::{
    send_wqe_size,
    BadWqe,
    SendLimits,
    UserData,
    UserSend, //
};
pub(super) use wc::ext_parts;
pub use wc::UverbsWc;

use super::{
    LocalSge,
    Sge, //
};
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::prelude::*;
use sib_bindings as bindings;
use zerocopy_derive::Immutable;

/// Where a user finds a ring: `struct mminfo`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct MmapInfo {
    offset: u64,
    size: u32,
    pad: u32,
}

impl MmapInfo {
    /// The ring that mmap() finds at `offset`, of `size` bytes.
    pub(super) const fn new(offset: u64, size: u32) -> Self {
        Self {
            offset,
            size,
            pad: 0,
        }
    }

    /// No ring.
    pub(super) const fn none() -> Self {
        Self::new(0, 0)
    }
}

/// `struct rxe_create_qp_resp`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct CreateQpResp {
    pub(super) rq: MmapInfo,
    pub(super) sq: MmapInfo,
}

/// `struct rxe_create_srq_resp`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct CreateSrqResp {
    pub(super) ring: MmapInfo,
    pub(super) srq_num: u32,
    pub(super) reserved: u32,
}

/// `struct rxe_create_ah_resp`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct CreateAhResp {
    pub(super) ah_num: u32,
    pub(super) reserved: u32,
}

/// `struct rxe_modify_srq_cmd`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct ModifySrqCmd {
    /// Where in the user's memory the new `struct mminfo` goes.
    pub(super) mmap_info_addr: u64,
}

/// `struct rxe_dma_info` without the data behind it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct DmaInfo {
    length: u32,
    resid: u32,
    cur_sge: u32,
    num_sge: u32,
    sge_offset: u32,
    reserved: u32,
}

/// The gather or scatter list of a user's work request.
#[derive(Clone, Copy, Debug, Default)]
pub struct SgeList<'a>(&'a [u8]);

impl<'a> SgeList<'a> {
    /// The list of `count` entries at the start of `data`, if they are all there.
    fn new(data: &'a [u8], count: u32) -> Option<Self> {
        let size = (count as usize).checked_mul(size_of::<Sge>())?;
        data.get(..size).map(Self)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len() / size_of::<Sge>()
    }

    /// Whether the list has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = LocalSge> + 'a {
        self.0
            .chunks_exact(size_of::<Sge>())
            .filter_map(|entry| Sge::read_from_bytes(entry).ok().map(LocalSge::from))
    }

    /// The sum of the lengths; `None` if it does not fit.
    pub fn length(&self) -> Option<u32> {
        self.iter()
            .try_fold(0u32, |sum, sge| sum.checked_add(sge.length))
    }
}

const _: () = {
    assert!(size_of::<MmapInfo>() == size_of::<bindings::mminfo>());
    assert!(offset_of!(MmapInfo, offset) == offset_of!(bindings::mminfo, offset));
    assert!(offset_of!(MmapInfo, size) == offset_of!(bindings::mminfo, size));
    assert!(size_of::<MmapInfo>() == size_of::<bindings::rxe_create_cq_resp>());
    assert!(size_of::<MmapInfo>() == size_of::<bindings::rxe_resize_cq_resp>());
    assert!(size_of::<CreateQpResp>() == size_of::<bindings::rxe_create_qp_resp>());
    assert!(offset_of!(CreateQpResp, rq) == offset_of!(bindings::rxe_create_qp_resp, rq_mi));
    assert!(offset_of!(CreateQpResp, sq) == offset_of!(bindings::rxe_create_qp_resp, sq_mi));
    assert!(size_of::<CreateSrqResp>() == size_of::<bindings::rxe_create_srq_resp>());
    assert!(
        offset_of!(CreateSrqResp, srq_num) == offset_of!(bindings::rxe_create_srq_resp, srq_num)
    );
    assert!(size_of::<CreateAhResp>() == size_of::<bindings::rxe_create_ah_resp>());
    assert!(size_of::<ModifySrqCmd>() == size_of::<bindings::rxe_modify_srq_cmd>());
    assert!(size_of::<DmaInfo>() == size_of::<bindings::rxe_dma_info>());
    assert!(offset_of!(DmaInfo, num_sge) == offset_of!(bindings::rxe_dma_info, num_sge));
};
