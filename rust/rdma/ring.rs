// SPDX-License-Identifier: GPL-2.0

//! The rings that a queue shares with user space, in the layout of `struct rxe_queue_buf`.
//!
//! User space maps the whole buffer for reading and writing. So nothing that is read from it is trusted, or
//! read twice, or borrowed: the geometry and the driver's own index are kept privately, the other side's
//! index is masked and cut to what is possible, and elements are copied out before anybody looks at them.
//! Whatever user space writes, it can only confuse itself.
//!
//! Who fills a ring has a [`Producer`], who empties it a [`Consumer`]. Each side writes its index with release
//! and reads the other one with acquire order, as user space does.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

mod transfer;

pub use transfer::{
    MoveError,
    Transfer, //
};

use crate::sync::Atomic;
use core::mem::offset_of;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::page::{
    PAGE_SHIFT,
    PAGE_SIZE, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Release, //
};
use kernel::sync::Arc;
use sib_bindings::rxe_queue_buf;

/// The smallest element, a cache line: user space and kernel do not share one across elements.
const MIN_ELEMENT: usize = 64;

/// The largest number of slots of a ring.
const MAX_SLOTS: u32 = 1 << 24;

/// The largest element.
const MAX_ELEMENT: usize = 1 << 16;

/// The memory of a ring.
///
/// Dropping it may sleep. User space keeps pages that it has mapped; they are counted one by one.
///
/// # Invariants
///
/// `buffer` is `size` bytes, whole pages of `sib_helper_alloc_pages()`, of which this is the only owner. They hold the
/// header and `mask + 1` elements of `1 << shift` bytes. `mask + 1` is a power of two.
pub struct Ring {
    buffer: NonNull<u8>,
    size: usize,
    mask: u32,
    shift: u32,
}

// SAFETY: The memory is accessed by any task, through atomics and copies in C.
unsafe impl Send for Ring {}
// SAFETY: As above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Allocates a ring for at least `entries` elements of `element` bytes, charged to the memory cgroup of the task.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the ring would be empty or too large, `ENOMEM` when there is no memory, or none for the task.
    pub fn new(entries: u32, element: usize) -> Result<Arc<Self>> {
        if entries == 0 || entries >= MAX_SLOTS || element > MAX_ELEMENT {
            return Err(EINVAL);
        }
        // One slot stays empty, so that a full ring differs from an empty one.
        let slots = entries
            .checked_add(1)
            .and_then(u32::checked_next_power_of_two)
            .ok_or(EINVAL)?;
        let element = element.max(MIN_ELEMENT).next_power_of_two();
        let data = element.checked_mul(slots as usize).ok_or(EINVAL)?;
        let size = offset_of!(rxe_queue_buf, data)
            .checked_add(data)
            .and_then(|size| size.checked_next_multiple_of(PAGE_SIZE))
            .ok_or(EINVAL)?;
        // SAFETY: Callable in a task with any number.
        let buffer = unsafe { sib_bindings::sib_helper_alloc_pages(size >> PAGE_SHIFT) };
        let buffer = NonNull::new(buffer.cast::<u8>()).ok_or(ENOMEM)?;
        // INVARIANT: As just computed and allocated.
        let ring = Self {
            buffer,
            size,
            mask: slots.wrapping_sub(1),
            shift: element.trailing_zeros(),
        };
        let header = ring.header();
        // SAFETY: The buffer has the header, is zeroed, and is not mapped yet.
        unsafe {
            (&raw mut (*header).log2_elem_size).write(ring.shift);
            (&raw mut (*header).index_mask).write(ring.mask);
        }
        Ok(Arc::new(ring, GFP_KERNEL_ACCOUNT)?)
    }

    /// The largest number of elements in the ring at one time.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.mask
    }

    /// The size of an element in bytes.
    #[inline]
    pub fn element_size(&self) -> usize {
        1usize.wrapping_shl(self.shift)
    }

    /// The size of the buffer in bytes, a multiple of the page size: what user space maps.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Maps the whole buffer into `vma`.
    ///
    /// # Safety
    ///
    /// The caller is the `mmap` operation for `vma`, which is as large as the buffer.
    pub(crate) unsafe fn map(&self, vma: *mut kernel::bindings::vm_area_struct) -> Result {
        // SAFETY: The buffer is pages in a row, as many as the area has by the promise of the caller.
        to_result(unsafe { sib_bindings::sib_helper_map_pages(vma, self.buffer.as_ptr().cast()) })
    }

    #[inline]
    fn header(&self) -> *mut rxe_queue_buf {
        self.buffer.as_ptr().cast()
    }

    #[inline]
    fn producer(&self) -> &Atomic<u32> {
        // SAFETY: The header is in the buffer and aligned; user space is outside of the memory model, and
        // the kernel accesses this word by atomics alone once the ring is made.
        unsafe { Atomic::from_ptr(&raw mut (*self.header()).producer_index) }
    }

    #[inline]
    fn consumer(&self) -> &Atomic<u32> {
        // SAFETY: As in `producer`.
        unsafe { Atomic::from_ptr(&raw mut (*self.header()).consumer_index) }
    }

    /// Where the element is that `index` names, of which only the low bits count.
    #[inline]
    fn slot(&self, index: u32) -> *mut u8 {
        let offset = ((index & self.mask) as usize).wrapping_shl(self.shift);
        // Within the buffer by the invariant.
        self.buffer
            .as_ptr()
            .wrapping_add(offset_of!(rxe_queue_buf, data).wrapping_add(offset))
    }

    /// How many elements lie from `tail` to `head`, `capacity` at most.
    #[inline]
    fn distance(&self, head: u32, tail: u32) -> u32 {
        head.wrapping_sub(tail) & self.mask
    }

    /// Copies the start of an element out, as much as both sides have.
    #[inline]
    fn read(&self, index: u32, element: &mut [u8]) {
        let len = element.len().min(self.element_size());
        // SAFETY: The slot has that many bytes, and so has `element`.
        unsafe {
            sib_bindings::sib_helper_copy(element.as_mut_ptr().cast(), self.slot(index).cast(), len)
        };
    }

    /// Copies the start of an element in, as much as both sides have.
    #[inline]
    fn write(&self, index: u32, element: &[u8]) {
        let len = element.len().min(self.element_size());
        // SAFETY: The slot has that many bytes, and so has `element`.
        unsafe {
            sib_bindings::sib_helper_copy(self.slot(index).cast(), element.as_ptr().cast(), len)
        };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: Ours by the invariant.
        unsafe { sib_bindings::sib_helper_vfree(self.buffer.as_ptr().cast()) }
    }
}

/// The ring has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFull;

impl From<RingFull> for Error {
    fn from(_: RingFull) -> Error {
        ENOMEM
    }
}

/// The emptying side of a ring that user space fills: a send queue or a receive queue.
///
/// An element is first fetched and later retired: until then its slot counts as occupied for user space, which
/// so has no more work requests outstanding than it asked for.
///
/// # Invariants
///
/// `fetched - retired` is the number of fetched elements that are not retired; it is `capacity` at most.
pub struct Consumer {
    ring: Arc<Ring>,
    fetched: u32,
    retired: u32,
}

impl Consumer {
    /// Becomes the emptying side of a fresh ring.
    pub fn new(ring: Arc<Ring>) -> Self {
        // INVARIANT: Nothing is fetched.
        Self {
            ring,
            fetched: 0,
            retired: 0,
        }
    }

    /// The ring.
    #[inline]
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// How many elements user space has added that are not fetched.
    #[inline]
    pub fn available(&self) -> u32 {
        let produced = self.ring.producer().load(Acquire);
        let room = self.ring.capacity().wrapping_sub(self.outstanding());
        // A hostile index yields elements that were never written, but no more than fit.
        self.ring.distance(produced, self.fetched).min(room)
    }

    /// How many elements are fetched and not retired.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.fetched.wrapping_sub(self.retired)
    }

    /// Copies the next element to `element`, as much of it as fits; `false` if there is none.
    ///
    /// The element is read once. What user space writes to the slot afterwards has no effect.
    #[inline]
    #[must_use]
    pub fn fetch(&mut self, element: &mut [u8]) -> bool {
        if self.available() == 0 {
            return false;
        }
        self.ring.read(self.fetched, element);
        // INVARIANT: One more outstanding, of which there was room.
        self.fetched = self.fetched.wrapping_add(1);
        true
    }

    /// Gives the slots of the `count` oldest fetched elements back to user space.
    #[inline]
    pub fn retire(&mut self, count: u32) {
        // INVARIANT: Never more than are outstanding.
        self.retired = self.retired.wrapping_add(count.min(self.outstanding()));
        self.ring
            .consumer()
            .store(self.retired & self.ring.mask, Release);
    }

    /// Forgets what is outstanding and available: the ring is empty again.
    pub fn clear(&mut self) {
        let produced = self.ring.producer().load(Acquire);
        // INVARIANT: Nothing is outstanding.
        self.fetched = produced & self.ring.mask;
        self.retired = self.fetched;
        self.ring
            .consumer()
            .store(self.retired & self.ring.mask, Release);
    }

    /// Begins to move the available elements to a fresh ring.
    ///
    /// # Errors
    ///
    /// They do not fit, or the ring is the same.
    pub fn transfer(&self, to: &Arc<Ring>) -> Result<Transfer, MoveError> {
        Transfer::new(&self.ring, to, self.fetched, self.available())
    }

    /// Has the ring that the elements have been moved to take the place of the old one; `false` if too much has come
    /// since to be moved here: that is to be [copied](Transfer::copy) before.
    ///
    /// Elements that are outstanding are retired by this: the new ring knows nothing of them.
    ///
    /// # Errors
    ///
    /// What there is now does not fit, or another ring has taken the place. Nothing happens then.
    pub fn replace(&mut self, transfer: &mut Transfer) -> Result<bool, MoveError> {
        let Some(moved) = transfer.finish(&self.ring, self.fetched, self.available())? else {
            return Ok(false);
        };
        // INVARIANT: Nothing is outstanding.
        *self = Self {
            ring: transfer.to.clone(),
            fetched: moved.first,
            retired: moved.first,
        };
        Ok(true)
    }
}

/// The filling side of a ring that user space empties: a completion queue.
pub struct Producer {
    ring: Arc<Ring>,
    produced: u32,
}

impl Producer {
    /// Becomes the filling side of a fresh ring.
    pub fn new(ring: Arc<Ring>) -> Self {
        Self { ring, produced: 0 }
    }

    /// The ring.
    #[inline]
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// How many elements user space has not taken yet.
    #[inline]
    pub fn pending(&self) -> u32 {
        let consumed = self.ring.consumer().load(Acquire);
        self.ring.distance(self.produced, consumed)
    }

    /// How many elements fit.
    #[inline]
    pub fn room(&self) -> u32 {
        self.ring.capacity().wrapping_sub(self.pending())
    }

    /// Adds an element.
    ///
    /// # Errors
    ///
    /// Nothing happens when the ring is full.
    #[inline]
    pub fn push(&mut self, element: &[u8]) -> Result<(), RingFull> {
        if self.room() == 0 {
            return Err(RingFull);
        }
        self.ring.write(self.produced, element);
        self.produced = self.produced.wrapping_add(1);
        self.ring
            .producer()
            .store(self.produced & self.ring.mask, Release);
        Ok(())
    }

    /// Begins to move the pending elements to a fresh ring.
    ///
    /// # Errors
    ///
    /// They do not fit, or the ring is the same.
    pub fn transfer(&self, to: &Arc<Ring>) -> Result<Transfer, MoveError> {
        let pending = self.pending();
        Transfer::new(&self.ring, to, self.produced.wrapping_sub(pending), pending)
    }

    /// Has the ring that the elements have been moved to take the place of the old one; `false` if too much has come
    /// since to be moved here: that is to be [copied](Transfer::copy) before.
    ///
    /// # Errors
    ///
    /// What there is now does not fit, or another ring has taken the place. Nothing happens then.
    pub fn replace(&mut self, transfer: &mut Transfer) -> Result<bool, MoveError> {
        let pending = self.pending();
        let first = self.produced.wrapping_sub(pending);
        let Some(moved) = transfer.finish(&self.ring, first, pending)? else {
            return Ok(false);
        };
        *self = Self {
            ring: transfer.to.clone(),
            produced: moved.end,
        };
        Ok(true)
    }
}

#[kunit_tests(sib_rdma_ring)]
mod tests {
    use super::*;

    /// What user space does when it adds an element.
    pub(super) fn user_push(ring: &Ring, value: u64) {
        let index = ring.producer().load(Acquire);
        ring.write(index, &value.to_ne_bytes());
        ring.producer()
            .store(index.wrapping_add(1) & ring.mask, Release);
    }

    /// What user space does when it takes an element.
    pub(super) fn user_pop(ring: &Ring) -> Option<u64> {
        let index = ring.consumer().load(Acquire);
        if index == ring.producer().load(Acquire) {
            return None;
        }
        let mut bytes = [0; 8];
        ring.read(index, &mut bytes);
        ring.consumer()
            .store(index.wrapping_add(1) & ring.mask, Release);
        Some(u64::from_ne_bytes(bytes))
    }

    pub(super) fn fetch(consumer: &mut Consumer) -> Option<u64> {
        let mut bytes = [0; 8];
        consumer
            .fetch(&mut bytes)
            .then_some(u64::from_ne_bytes(bytes))
    }

    #[test]
    fn geometry() -> Result {
        let ring = Ring::new(100, 48)?;
        assert_eq!(ring.capacity(), 127);
        assert_eq!(ring.element_size(), 64);
        assert_eq!(ring.size() % PAGE_SIZE, 0);
        assert!(ring.size() >= 384 + 128 * 64);
        assert_eq!(offset_of!(rxe_queue_buf, producer_index), 128);
        assert_eq!(offset_of!(rxe_queue_buf, consumer_index), 256);
        assert_eq!(offset_of!(rxe_queue_buf, data), 384);
        assert_eq!(Ring::new(1, 65)?.element_size(), 128);
        assert_eq!(Ring::new(1, 64)?.capacity(), 1);
        assert!(Ring::new(0, 64).is_err());
        assert!(Ring::new(u32::MAX, 64).is_err());
        assert!(Ring::new(1, usize::MAX).is_err());
        Ok(())
    }

    #[test]
    fn consumer_fetches_then_retires() -> Result {
        let ring = Ring::new(3, 8)?;
        let mut consumer = Consumer::new(ring.clone());
        let mut next = 0;
        for round in 0..50u64 {
            user_push(&ring, round * 2);
            user_push(&ring, round * 2 + 1);
            assert_eq!(consumer.available(), 2);
            assert_eq!(fetch(&mut consumer), Some(next));
            assert_eq!(fetch(&mut consumer), Some(next + 1));
            assert_eq!(fetch(&mut consumer), None);
            assert_eq!(consumer.outstanding(), 2);
            consumer.retire(2);
            next += 2;
        }
        assert_eq!(consumer.outstanding(), 0);
        consumer.retire(5);
        assert_eq!(consumer.outstanding(), 0);
        Ok(())
    }

    #[test]
    fn hostile_producer_index() -> Result {
        let ring = Ring::new(7, 8)?;
        let mut consumer = Consumer::new(ring.clone());
        for index in [1u32, 7, 8, 0x8000_0000, u32::MAX, 3, 2] {
            ring.producer().store(index, Release);
            let mut count = 0;
            while fetch(&mut consumer).is_some() {
                count += 1;
                assert!(count <= 7);
            }
            assert!(consumer.outstanding() <= ring.capacity());
        }
        // Whatever the index, no more than the ring holds is ever outstanding.
        ring.producer().store(u32::MAX, Release);
        assert!(consumer.available() <= ring.capacity() - consumer.outstanding());
        consumer.clear();
        assert_eq!(consumer.outstanding(), 0);
        assert_eq!(consumer.available(), 0);
        // The header is not trusted either.
        // SAFETY: The header is in the buffer.
        unsafe { (&raw mut (*ring.header()).index_mask).write_volatile(u32::MAX) };
        assert_eq!(ring.capacity(), 7);
        Ok(())
    }

    #[test]
    fn producer_stops_when_full() -> Result {
        let ring = Ring::new(3, 8)?;
        let mut producer = Producer::new(ring.clone());
        for value in 0..3u64 {
            assert!(producer.push(&value.to_ne_bytes()).is_ok());
        }
        assert_eq!(producer.push(&[0; 8]), Err(RingFull));
        assert_eq!(user_pop(&ring), Some(0));
        assert!(producer.push(&3u64.to_ne_bytes()).is_ok());
        for value in 1..4u64 {
            assert_eq!(user_pop(&ring), Some(value));
        }
        assert_eq!(user_pop(&ring), None);
        Ok(())
    }

    #[test]
    fn hostile_consumer_index() -> Result {
        let ring = Ring::new(3, 8)?;
        let mut producer = Producer::new(ring.clone());
        for index in [0u32, 1, 2, 3, 4, u32::MAX, 0x8000_0001] {
            ring.consumer().store(index, Release);
            assert!(producer.pending() <= 3);
            assert!(producer.room() <= 3);
            let _ = producer.push(&[0xff; 1000]);
        }
        Ok(())
    }
}
