// SPDX-License-Identifier: GPL-2.0

//! The way of elements from a ring to another one that takes its place.
//!
//! There may be hundreds of thousands, and the lock of a queue keeps interrupts off. So they are copied without it, while
//! both sides go on; what has come meanwhile is copied again without it, until that is little enough for the lock.
//! Elements keep their distances, so what user space takes meanwhile only moves the start of what is there.

use super::Ring;
use kernel::prelude::*;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;

/// Elements that are copied at most where a ring takes the place of another one.
const REST: u32 = 64;

/// How often more than that may have come. Copying is much faster than filling a ring in earnest.
const MAX_ROUNDS: u32 = 16;

/// Why elements do not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// They do not fit, or the two rings are the same.
    NoRoom,
    /// Another ring has taken the place of the old one.
    Replaced,
    /// They come faster than they are copied.
    Restless,
}

impl From<MoveError> for Error {
    fn from(error: MoveError) -> Error {
        match error {
            MoveError::NoRoom => EINVAL,
            MoveError::Replaced | MoveError::Restless => EBUSY,
        }
    }
}

/// Elements that are being moved.
///
/// # Invariants
///
/// `from` and `to` are not the same ring.
pub struct Transfer {
    from: Arc<Ring>,
    pub(super) to: Arc<Ring>,
    /// The index of the element that comes to the first slot of `to`.
    base: u32,
    /// The first one that is not copied.
    next: u32,
    /// The one behind the last.
    end: u32,
    rounds: u32,
}

/// The indices of elements in the ring that they have been moved to.
pub(super) struct Moved {
    pub(super) first: u32,
    pub(super) end: u32,
}

impl Transfer {
    /// Of `count` elements from `first` on.
    pub(super) fn new(
        from: &Arc<Ring>,
        to: &Arc<Ring>,
        first: u32,
        count: u32,
    ) -> Result<Self, MoveError> {
        if count > to.capacity() || Arc::ptr_eq(from, to) {
            return Err(MoveError::NoRoom);
        }
        // INVARIANT: Just checked.
        Ok(Self {
            from: from.clone(),
            to: to.clone(),
            base: first,
            next: first,
            end: first.wrapping_add(count),
            rounds: 0,
        })
    }

    /// Copies what was there at the last look. To be called without a lock: it may be tens of megabytes.
    pub fn copy(&mut self) {
        let (from, to) = (&self.from, &self.to);
        let len = from.element_size().min(to.element_size());
        for _ in 0..self.end.wrapping_sub(self.next) {
            let slot = to.slot(self.next.wrapping_sub(self.base));
            // SAFETY: Both slots have that many bytes. Different rings do not overlap, and these are by the invariant.
            unsafe { sib_bindings::sib_helper_copy(slot.cast(), from.slot(self.next).cast(), len) };
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Copies the rest of the `count` elements that `from` holds by now, from `first` on, and gives `to` its indices;
    /// `None` if too many are not copied.
    pub(super) fn finish(
        &mut self,
        from: &Arc<Ring>,
        first: u32,
        count: u32,
    ) -> Result<Option<Moved>, MoveError> {
        if !Arc::ptr_eq(&self.from, from) {
            return Err(MoveError::Replaced);
        }
        if count > self.to.capacity() {
            return Err(MoveError::NoRoom);
        }
        // All that is copied has been taken, or user space has taken elements back.
        if self.next.wrapping_sub(first) > count {
            self.next = first;
        }
        self.end = first.wrapping_add(count);
        if self.end.wrapping_sub(self.next) > REST {
            self.rounds = self.rounds.wrapping_add(1);
            return match self.rounds < MAX_ROUNDS {
                true => Ok(None),
                false => Err(MoveError::Restless),
            };
        }
        self.copy();
        let moved = Moved {
            first: first.wrapping_sub(self.base),
            end: self.end.wrapping_sub(self.base),
        };
        let to = &self.to;
        to.consumer().store(moved.first & to.mask, Release);
        to.producer().store(moved.end & to.mask, Release);
        Ok(Some(moved))
    }
}

#[kunit_tests(sib_rdma_ring_transfer)]
mod tests {
    use super::super::tests::{
        fetch,
        user_pop,
        user_push, //
    };
    use super::super::{
        Consumer,
        Producer, //
    };
    use super::*;

    fn fill(producer: &mut Producer, values: core::ops::Range<u64>) -> Result {
        for value in values {
            producer.push(&value.to_ne_bytes())?;
        }
        Ok(())
    }

    #[test]
    fn what_is_pending_stays() -> Result {
        let old = Ring::new(3, 8)?;
        let mut producer = Producer::new(old.clone());
        fill(&mut producer, 0..3)?;
        assert_eq!(user_pop(&old), Some(0));
        assert_eq!(user_pop(&old), Some(1));
        fill(&mut producer, 3..5)?;
        assert_eq!(
            producer.transfer(&Ring::new(1, 8)?).err(),
            Some(MoveError::NoRoom)
        );
        assert_eq!(producer.transfer(&old).err(), Some(MoveError::NoRoom));
        let new = Ring::new(60, 8)?;
        let mut transfer = producer.transfer(&new)?;
        assert_eq!(producer.replace(&mut transfer), Ok(true));
        fill(&mut producer, 5..6)?;
        for value in 2..6 {
            assert_eq!(user_pop(&new), Some(value));
        }
        assert_eq!(user_pop(&new), None);

        let old = Ring::new(3, 8)?;
        let mut consumer = Consumer::new(old.clone());
        for value in 10..13 {
            user_push(&old, value);
        }
        assert_eq!(fetch(&mut consumer), Some(10));
        let new = Ring::new(9, 8)?;
        let mut transfer = consumer.transfer(&new)?;
        transfer.copy();
        assert_eq!(fetch(&mut consumer), Some(11));
        consumer.retire(1);
        assert_eq!(consumer.replace(&mut transfer), Ok(true));
        assert_eq!(consumer.outstanding(), 0);
        user_push(&new, 13);
        assert_eq!(fetch(&mut consumer), Some(12));
        assert_eq!(fetch(&mut consumer), Some(13));
        assert_eq!(fetch(&mut consumer), None);
        Ok(())
    }

    #[test]
    fn what_comes_and_goes_meanwhile_is_neither_lost_nor_doubled() -> Result {
        let old = Ring::new(255, 8)?;
        let mut producer = Producer::new(old.clone());
        fill(&mut producer, 0..200)?;
        for value in 0..150 {
            assert_eq!(user_pop(&old), Some(value));
        }
        // The places of these are those of the first.
        fill(&mut producer, 200..300)?;
        let new = Ring::new(255, 8)?;
        let mut transfer = producer.transfer(&new)?;
        assert_eq!(producer.replace(&mut transfer), Ok(false));
        transfer.copy();
        // More than was copied is taken.
        fill(&mut producer, 300..400)?;
        for value in 150..310 {
            assert_eq!(user_pop(&old), Some(value));
        }
        assert_eq!(producer.replace(&mut transfer), Ok(false));
        transfer.copy();
        fill(&mut producer, 400..450)?;
        assert_eq!(producer.replace(&mut transfer), Ok(true));
        fill(&mut producer, 450..500)?;
        for value in 310..500 {
            assert_eq!(user_pop(&new), Some(value));
        }
        assert_eq!(user_pop(&new), None);
        Ok(())
    }

    #[test]
    fn only_the_first_of_two_replaces() -> Result {
        let mut producer = Producer::new(Ring::new(3, 8)?);
        fill(&mut producer, 0..2)?;
        let (first, second) = (Ring::new(3, 8)?, Ring::new(3, 8)?);
        let mut late = producer.transfer(&second)?;
        let mut early = producer.transfer(&first)?;
        assert_eq!(producer.replace(&mut early), Ok(true));
        assert_eq!(producer.replace(&mut late), Err(MoveError::Replaced));
        assert_eq!(user_pop(&first), Some(0));
        Ok(())
    }

    #[test]
    fn a_hostile_index_ends_it() -> Result {
        let old = Ring::new(255, 8)?;
        let mut consumer = Consumer::new(old.clone());
        let new = Ring::new(127, 8)?;
        let mut transfer = consumer.transfer(&new)?;
        old.producer().store(100, Release);
        for _ in 1..MAX_ROUNDS {
            assert_eq!(consumer.replace(&mut transfer), Ok(false));
        }
        assert_eq!(consumer.replace(&mut transfer), Err(MoveError::Restless));
        old.producer().store(255, Release);
        assert_eq!(consumer.replace(&mut transfer), Err(MoveError::NoRoom));

        // The end comes before what is copied.
        old.producer().store(100, Release);
        let mut transfer = consumer.transfer(&new)?;
        transfer.copy();
        old.producer().store(10, Release);
        assert_eq!(consumer.replace(&mut transfer), Ok(true));
        assert_eq!(consumer.available(), 10);
        Ok(())
    }
}
