// SPDX-License-Identifier: GPL-2.0

//! Entries of a user's receive queue.

use super::send::BadWqe;
use super::{
    DmaInfo,
    SgeList, //
};
use crate::ib::{
    Sge,
    WcStatus, //
};
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::prelude::*;
use sib_bindings as bindings;
use zerocopy_derive::Immutable;

/// `struct rxe_recv_wqe` without the list behind it.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RecvWqe {
    wr_id: u64,
    reserved: u32,
    padding: u32,
    dma: DmaInfo,
}

/// The length of a ring entry of a receive queue with `max_sge` scatter entries, in bytes.
pub const fn recv_wqe_size(max_sge: u32) -> usize {
    size_of::<RecvWqe>().saturating_add((max_sge as usize).saturating_mul(size_of::<Sge>()))
}

/// A receive request of a user.
#[derive(Clone, Copy, Debug)]
pub struct UserRecv<'a> {
    /// What the completion is to carry.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: SgeList<'a>,
}

impl<'a> UserRecv<'a> {
    /// Checks a private copy of a ring entry. A list longer than `max_sge` is refused.
    pub fn decode(bytes: &'a [u8], max_sge: u32) -> Result<Self, BadWqe> {
        let Ok((wqe, data)) = RecvWqe::read_from_prefix(bytes) else {
            return Err(BadWqe::new(0, WcStatus::LocQpOpErr));
        };
        if wqe.dma.num_sge > max_sge {
            return Err(BadWqe::new(wqe.wr_id, WcStatus::LocQpOpErr));
        }
        let sges = SgeList::new(data, wqe.dma.num_sge)
            .ok_or(BadWqe::new(wqe.wr_id, WcStatus::LocQpOpErr))?;
        Ok(Self {
            wr_id: wqe.wr_id,
            sges,
        })
    }
}

const _: () = {
    assert!(size_of::<RecvWqe>() == 40);
    assert!(size_of::<RecvWqe>() == size_of::<bindings::rxe_recv_wqe>());
    assert!(offset_of!(RecvWqe, dma) == offset_of!(bindings::rxe_recv_wqe, dma));
};
