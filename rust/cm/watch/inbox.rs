// SPDX-License-Identifier: GPL-2.0

//! What is told in contexts that cannot deal with it, until somebody does.

use crate::device::Device;
use kernel::alloc::KVVec;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::ib::MAD_SIZE;
use wire::Lid;

/// How much there may be. What is beyond is lost: connections that are not known have no alternate path, and queue pairs
/// that are gone are found out by who looks at all connections now and then.
const CAPACITY: usize = 256;

/// Something that was told.
#[allow(
    clippy::large_enum_variant,
    reason = "nothing can be allocated where most of it is told"
)]
pub(super) enum Item {
    /// A datagram leaves QP1 of a port, to a LID.
    Sent(Arc<Device>, (u32, Lid), [u8; MAD_SIZE]),
    /// A queue pair, by its number, is not connected any more.
    Gone(Arc<Device>, u32),
}

/// A ring of them.
pub(super) struct Inbox {
    slots: KVVec<Option<Item>>,
    first: usize,
    len: usize,
}

impl Inbox {
    /// An empty one. May sleep.
    pub(super) fn new() -> Result<Self> {
        let mut slots = KVVec::with_capacity(CAPACITY, GFP_KERNEL)?;
        for _ in 0..CAPACITY {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            first: 0,
            len: 0,
        })
    }

    /// Adds an item, which is given back if there is no room.
    pub(super) fn push(&mut self, item: Item) -> Option<Item> {
        if self.len >= self.slots.len() {
            return Some(item);
        }
        let at = self.first.wrapping_add(self.len) % CAPACITY;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(item);
            self.len = self.len.wrapping_add(1);
        }
        None
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<Item> {
        loop {
            self.len = self.len.checked_sub(1)?;
            let item = self.slots.get_mut(self.first)?.take();
            self.first = self.first.wrapping_add(1) % CAPACITY;
            if item.is_some() {
                return item;
            }
        }
    }

    /// Drops what is about `device`.
    pub(super) fn forget(&mut self, device: &Arc<Device>) {
        for slot in self.slots.iter_mut() {
            if matches!(slot, Some(Item::Sent(of, ..) | Item::Gone(of, _)) if Arc::ptr_eq(of, device))
            {
                *slot = None;
            }
        }
    }
}
