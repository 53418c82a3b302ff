// SPDX-License-Identifier: GPL-2.0

//! Objects by number: queue pairs by QPN, memory regions by key, address handles by index.
//!
//! A number carries the slot of its object in some bits and a random tag in the others, so that a
//! look-up is one array access and a stale or guessed number hardly ever hits. One that has just become stale never
//! does. Nothing here allocates: a full table hands the object back, and the caller brings larger [`Storage`] that
//! it allocated while it held no lock.

use crate::query::MAX_QP;
use core::marker::PhantomData;
use kernel::prelude::*;
use rdma::mem::BulkVec;

/// How a number is put together from a slot and a tag.
pub(crate) trait Layout {
    /// The number of slots that a table may grow to.
    const MAX_SLOTS: usize;

    /// The bits of a number that must be equal for a look-up to hit.
    const MATCH: u32;

    /// The number of `slot` with `tag`; surplus bits of `tag` are ignored.
    fn number(slot: u32, tag: u32) -> u32;

    /// The slot of `number`.
    fn slot(number: u32) -> u32;
}

/// Queue pair numbers: 24 bits, the slot in the low 14.
pub(crate) enum QpnLayout {}

impl QpnLayout {
    const SLOT_BITS: u32 = 14;
    const QPN_MASK: u32 = 0xff_ffff;
}

impl Layout for QpnLayout {
    // What the device says that it has: fewer than there is room for, as one number of the last slot is that of multicast.
    const MAX_SLOTS: usize = MAX_QP as usize;
    const MATCH: u32 = Self::QPN_MASK;

    fn number(slot: u32, tag: u32) -> u32 {
        (slot | tag << Self::SLOT_BITS) & Self::QPN_MASK
    }

    fn slot(number: u32) -> u32 {
        number & ((1 << Self::SLOT_BITS) - 1)
    }
}

const _: () = assert!(QpnLayout::MAX_SLOTS < 1 << QpnLayout::SLOT_BITS);

/// Local and remote keys: the low 8 bits belong to the consumer of a fast registration or memory
/// window (IBA, "Memory Region Types"), the slot follows, the top byte is random. A look-up leaves
/// the low 8 bits to the caller, since they change while an object exists.
///
/// Slots count from 1 here: no choice of the other bits makes a key 0, which stands for all memory of
/// a kernel client, or 1, which is made of 0 in requests of users (`rdma::ib::NO_LKEY`).
pub(crate) enum KeyLayout {}

impl KeyLayout {
    const CONSUMER_BITS: u32 = 8;
    const SLOT_BITS: u32 = 16;
    const SLOT_MASK: u32 = (1 << Self::SLOT_BITS) - 1;
    const FIRST_SLOT: u32 = 1;
}

impl Layout for KeyLayout {
    const MAX_SLOTS: usize = (Self::SLOT_MASK - Self::FIRST_SLOT + 1) as usize;
    const MATCH: u32 = !((1 << Self::CONSUMER_BITS) - 1);

    fn number(slot: u32, tag: u32) -> u32 {
        let slot = slot.wrapping_add(Self::FIRST_SLOT) & Self::SLOT_MASK;
        let fixed = slot << Self::CONSUMER_BITS;
        fixed | tag & !(Self::SLOT_MASK << Self::CONSUMER_BITS)
    }

    fn slot(number: u32) -> u32 {
        let slot = number >> Self::CONSUMER_BITS & Self::SLOT_MASK;
        slot.wrapping_sub(Self::FIRST_SLOT)
    }
}

/// Address handle numbers: never zero, which tells librxe that the kernel keeps no handle.
pub(crate) enum AhLayout {}

impl AhLayout {
    const SLOT_BITS: u32 = 16;
    const VALID: u32 = 1 << 31;
}

impl Layout for AhLayout {
    const MAX_SLOTS: usize = 1 << Self::SLOT_BITS;
    const MATCH: u32 = u32::MAX;

    fn number(slot: u32, tag: u32) -> u32 {
        slot | tag << Self::SLOT_BITS | Self::VALID
    }

    fn slot(number: u32) -> u32 {
        number & ((1 << Self::SLOT_BITS) - 1)
    }
}

/// What a slot holds.
enum Slot<T> {
    /// Nothing.
    Free {
        /// The next free slot of the list, or [`END`].
        next: u32,
        /// The number of the last object that was here.
        last: u32,
    },
    /// An object and its number.
    Used(u32, T),
}

/// The end of the list of free slots.
const END: u32 = u32::MAX;

/// The slots of a table.
pub(crate) struct Storage<T>(BulkVec<Slot<T>>);

impl<T> Storage<T> {
    /// Allocates room for `slots` objects. May sleep.
    fn new(slots: usize) -> Result<Self> {
        Ok(Self(BulkVec::with_capacity(slots, GFP_KERNEL_ACCOUNT)?))
    }
}

/// Objects by number.
///
/// # Invariants
///
/// `free` is the head of a list that runs through all free slots and ends with [`END`].
pub(crate) struct Table<T, L> {
    slots: Storage<T>,
    free: u32,
    layout: PhantomData<fn() -> L>,
}

impl<T, L: Layout> Table<T, L> {
    /// The slots of the first storage.
    const FIRST: usize = 64;

    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self {
            slots: Storage(BulkVec::new()),
            free: END,
            layout: PhantomData,
        }
    }

    /// How many slots the table has to get before it takes another object: 0 if it has room.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the table has reached the largest size of its layout.
    pub(crate) fn wanted(&self) -> Result<usize> {
        let used = self.slots.0.len();
        if self.free != END || used < self.slots.0.capacity() {
            return Ok(0);
        }
        if used >= L::MAX_SLOTS {
            return Err(ENOMEM);
        }
        Ok(used.saturating_mul(2).clamp(Self::FIRST, L::MAX_SLOTS))
    }

    /// Allocates storage of the size that [`Self::wanted`] told. May sleep.
    pub(crate) fn allocate(wanted: usize) -> Result<Storage<T>> {
        Storage::new(wanted)
    }

    /// Moves everything into `larger` and returns the old storage, to be dropped without a lock.
    ///
    /// A storage that is no larger, since someone else was faster, is given back unused.
    pub(crate) fn grow(&mut self, mut larger: Storage<T>) -> Storage<T> {
        if larger.0.capacity() <= self.slots.0.capacity() {
            return larger;
        }
        for slot in self.slots.0.drain_all() {
            if larger.0.push_within_capacity(slot).is_err() {
                break;
            }
        }
        core::mem::replace(&mut self.slots, larger)
    }

    /// Adds an object under a number made with `tag`, which is returned: the object does not know it. If that is the
    /// number of the last object in its slot, the tag is the complement: somebody may have that number still.
    ///
    /// # Errors
    ///
    /// Gives the object back if the table is full.
    pub(crate) fn insert(&mut self, tag: u32, item: T) -> Result<u32, T> {
        let free = self.free;
        if let Some(slot) = self.slots.0.get_mut(free as usize) {
            if let Slot::Free { next, last } = *slot {
                let mut number = L::number(free, tag);
                if (number ^ last) & L::MATCH == 0 {
                    number = L::number(free, !tag);
                }
                *slot = Slot::Used(number, item);
                self.free = next;
                return Ok(number);
            }
        }
        let index = self.slots.0.len();
        if index >= L::MAX_SLOTS || index >= self.slots.0.capacity() {
            return Err(item);
        }
        let number = L::number(index as u32, tag);
        match self.slots.0.push_within_capacity(Slot::Used(number, item)) {
            Ok(()) => Ok(number),
            Err(error) => match error.0 {
                Slot::Used(_, item) => Err(item),
                Slot::Free { .. } => Ok(number),
            },
        }
    }

    /// The object of `number`.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        match self.slots.0.get(L::slot(number) as usize)? {
            Slot::Used(own, item) if (*own ^ number) & L::MATCH == 0 => Some(item),
            _ => None,
        }
    }

    /// The object of `number`, to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.slots.0.get_mut(L::slot(number) as usize)? {
            Slot::Used(own, item) if (*own ^ number) & L::MATCH == 0 => Some(item),
            _ => None,
        }
    }

    /// Takes the object of `number` out.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        self.get(number)?;
        let index = L::slot(number);
        let slot = self.slots.0.get_mut(index as usize)?;
        let free = Slot::Free {
            next: self.free,
            last: number,
        };
        let old = core::mem::replace(slot, free);
        self.free = index;
        match old {
            Slot::Used(_, item) => Some(item),
            Slot::Free { .. } => None,
        }
    }

    /// The first object whose slot is `index` or a later one, and its slot: for walks that do not
    /// keep the table locked.
    pub(crate) fn next(&self, index: usize) -> Option<(usize, &T)> {
        let slots = self.slots.0.iter().enumerate().skip(index);
        slots.into_iter().find_map(|(at, slot)| match slot {
            Slot::Used(_, item) => Some((at, item)),
            Slot::Free { .. } => None,
        })
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_table)]
mod tests {
    use super::*;
    use rdma::ib::{
        LOCAL_DMA_LKEY,
        NO_LKEY, //
    };
    use wire::Qpn;

    /// A table with room for some objects.
    fn table<L: Layout>() -> Result<Table<u32, L>> {
        let mut table = Table::new();
        let room = Table::<u32, L>::allocate(table.wanted()?)?;
        drop(table.grow(room));
        Ok(table)
    }

    fn insert<L: Layout>(table: &mut Table<u32, L>, tag: u32, item: u32) -> Result<u32> {
        table.insert(tag, item).map_err(|_| ENOMEM)
    }

    #[test]
    fn no_key_is_that_of_all_memory() -> Result {
        const CONSUMER_MASK: u32 = 0xff;
        let mut table = table::<KeyLayout>()?;
        for item in 0..8 {
            let key = insert(&mut table, 0, item)?;
            assert!(key & !CONSUMER_MASK != LOCAL_DMA_LKEY);
            assert_eq!(table.get(key), Some(&item));
            assert_eq!(table.get(key | CONSUMER_MASK), Some(&item));
        }
        assert_eq!(table.get(LOCAL_DMA_LKEY), None);
        assert_eq!(table.get(NO_LKEY), None);
        Ok(())
    }

    #[test]
    fn all_slots_of_keys_have_numbers_of_their_own() {
        let last = KeyLayout::MAX_SLOTS as u32 - 1;
        for slot in [0, 1, 255, 256, last - 1, last] {
            for tag in [0, 0xff, u32::MAX] {
                assert_eq!(KeyLayout::slot(KeyLayout::number(slot, tag)), slot);
            }
        }
    }

    #[test]
    fn there_are_as_many_queue_pairs_as_the_device_says() -> Result {
        let mut table = table::<QpnLayout>()?;
        let mut count: u32 = 0;
        loop {
            match table.insert(u32::MAX, count) {
                Ok(qpn) => {
                    assert!(qpn != Qpn::MULTICAST.get());
                    count = count.saturating_add(1);
                }
                Err(_) => match table.wanted() {
                    Ok(wanted) => {
                        let room = Table::<u32, QpnLayout>::allocate(wanted)?;
                        drop(table.grow(room));
                    }
                    Err(error) => {
                        assert_eq!(error, ENOMEM);
                        break;
                    }
                },
            }
        }
        assert_eq!(count, MAX_QP);
        Ok(())
    }

    #[test]
    fn a_stale_number_misses() -> Result {
        let mut table = table::<QpnLayout>()?;
        let old = insert(&mut table, 1, 10)?;
        assert_eq!(table.remove(old), Some(10));
        assert_eq!(table.remove(old), None);
        let new = insert(&mut table, 2, 20)?;
        assert_eq!(QpnLayout::slot(new), QpnLayout::slot(old));
        assert_eq!(table.get(old), None);
        assert_eq!(table.get(new), Some(&20));
        Ok(())
    }

    /// Whatever the tag, and whatever the bits that the consumer of a key chose.
    fn no_number_comes_twice_in_succession<L: Layout>() -> Result {
        let mut table = table::<L>()?;
        for tag in [0, 1, 0x5a5a_5a5a, u32::MAX] {
            let old = insert(&mut table, tag, 10)?;
            assert_eq!(table.remove(old ^ !L::MATCH), Some(10));
            let new = insert(&mut table, tag, 20)?;
            assert_eq!(L::slot(new), L::slot(old));
            assert_eq!(table.get(old), None);
            assert_eq!(table.remove(new), Some(20));
        }
        Ok(())
    }

    #[test]
    fn no_qpn_comes_twice_in_succession() -> Result {
        no_number_comes_twice_in_succession::<QpnLayout>()
    }

    #[test]
    fn no_key_comes_twice_in_succession() -> Result {
        no_number_comes_twice_in_succession::<KeyLayout>()
    }

    #[test]
    fn no_handle_comes_twice_in_succession() -> Result {
        no_number_comes_twice_in_succession::<AhLayout>()
    }
}
