// SPDX-License-Identifier: GPL-2.0

//! Which partitions a port is in, as bits.
//!
//! A list of assignments may be long, and is gone through once for each port. What follows for the port is kept with it.

use super::partitions::Assignment;
use wire::mad::smp::PKeyTable;
use wire::{
    Guid,
    PKey, //
};

/// The largest number of partitions, with the default one: so many a port has room for.
const MOST: usize = PKeyTable::ENTRIES;

/// The bit of the default partition.
const DEFAULT: u32 = 1;

/// The partitions of a list, in its order, but for the default one, which is the first. Each has a bit. What is too much
/// is left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// The keys of full members.
    keys: [PKey; MOST],
    len: usize,
    /// The list is not empty.
    any: bool,
    /// The list tells of the default partition.
    default: bool,
}

impl Names {
    /// Those of no list.
    pub(super) const NONE: Self = Self {
        keys: [PKey::DEFAULT; MOST],
        len: 1,
        any: false,
        default: false,
    };

    pub(super) fn of(list: &[Assignment]) -> Self {
        let mut this = Self::NONE;
        let mut last = PKey::INVALID;
        for pkey in list.iter().map(|entry| entry.pkey.as_full()) {
            if pkey == last {
                continue;
            }
            last = pkey;
            this.any = true;
            this.default |= pkey == PKey::DEFAULT;
            if pkey.is_valid() && this.bit(pkey) == 0 {
                if let Some(place) = this.keys.get_mut(this.len) {
                    *place = pkey;
                    this.len = this.len.saturating_add(1);
                }
            }
        }
        this
    }

    /// Whether there is nobody in the list.
    pub(super) const fn is_empty(&self) -> bool {
        !self.any
    }

    /// The partitions, each by the key of its full members.
    pub(super) fn iter(&self) -> impl Iterator<Item = PKey> + '_ {
        self.keys.iter().take(self.len).copied()
    }

    fn bits(&self) -> impl Iterator<Item = (u32, PKey)> + '_ {
        let bits = core::iter::successors(Some(DEFAULT), |bit| Some(bit.wrapping_shl(1)));
        bits.zip(self.iter())
    }

    /// The bit of the partition of a key; 0 if it is none.
    pub(super) fn bit(&self, pkey: PKey) -> u32 {
        let found = self.bits().find(|(_, key)| key.base() == pkey.base());
        found.map_or(0, |(bit, _)| bit)
    }

    /// The first one of several partitions, by the key of its full members.
    pub(super) fn first(&self, bits: u32) -> Option<PKey> {
        let found = self.bits().find(|(bit, _)| bits & bit != 0);
        found.map(|(_, key)| key)
    }
}

/// The partitions that a port is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    /// Those that it is a full member of.
    full: u32,
    /// Those that it is a limited member of.
    limited: u32,
}

impl Membership {
    /// Full, and of the default partition alone.
    pub(super) const DEFAULT: Self = Self {
        full: DEFAULT,
        limited: 0,
    };

    /// What a list gives to a port.
    pub(super) fn of(names: &Names, list: &[Assignment], port: Guid) -> Self {
        let (mut full, mut limited) = (0, 0);
        let (mut last, mut bit) = (PKey::INVALID, 0);
        for entry in list {
            if entry.pkey.base() != last.base() {
                last = entry.pkey;
                bit = names.bit(last);
            }
            let concerned = entry.port.is_none_or(|named| named == port);
            match (concerned, entry.pkey.is_full()) {
                (true, true) => full |= bit,
                (true, false) => limited |= bit,
                (false, _) => {}
            }
        }
        if (full | limited) & DEFAULT == 0 {
            if names.default {
                limited |= DEFAULT;
            } else {
                full |= DEFAULT;
            }
        }
        Self {
            full,
            limited: limited & !full,
        }
    }

    /// The partitions, whatever the kind of membership.
    pub(super) const fn any(self) -> u32 {
        self.full | self.limited
    }

    /// The partitions in which the port may talk to another one: one of both is a full member.
    pub(super) const fn meets(self, other: Self) -> u32 {
        self.any() & other.any() & (self.full | other.full)
    }

    /// The key of the port in the partition of `wanted`.
    pub(super) fn key(self, names: &Names, wanted: PKey) -> Option<PKey> {
        self.kind(names.bit(wanted), wanted.as_full())
    }

    /// The keys of the port, that of the default partition first.
    pub(super) fn keys(self, names: &Names) -> impl Iterator<Item = PKey> + '_ {
        names
            .bits()
            .filter_map(move |(bit, key)| self.kind(bit, key))
    }

    /// The key that the port has of a partition, given its bit and the key of its full members.
    const fn kind(self, bit: u32, key: PKey) -> Option<PKey> {
        if self.full & bit != 0 {
            Some(key)
        } else if self.limited & bit != 0 {
            Some(PKey::new(key.base()))
        } else {
            None
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(sib_proto_sm_membership)
)]
mod tests {
    use super::*;

    const HERE: Guid = Guid::new(7);
    const THERE: Guid = Guid::new(8);

    fn one(pkey: u16, port: Option<Guid>) -> Assignment {
        Assignment {
            pkey: PKey::new(pkey),
            port,
        }
    }

    /// The keys of a port, but for those past the fourth.
    fn keys(list: &[Assignment], port: Guid) -> [u16; 4] {
        let names = Names::of(list);
        let mut told = [0; 4];
        let keys = Membership::of(&names, list, port);
        for (place, key) in told.iter_mut().zip(keys.keys(&names)) {
            *place = key.get();
        }
        told
    }

    #[test]
    fn members_are_named_or_all() {
        let list = [
            one(0x0001, None),
            one(0x8001, Some(HERE)),
            one(0x0002, Some(THERE)),
        ];
        assert_eq!(keys(&list, HERE), [0xffff, 0x8001, 0, 0]);
        assert_eq!(keys(&list, THERE), [0xffff, 0x0001, 0x0002, 0]);
        assert_eq!(keys(&[], HERE), [0xffff, 0, 0, 0]);
        let names = Names::of(&list);
        let here = Membership::of(&names, &list, HERE);
        assert_eq!(here.key(&names, PKey::new(1)), Some(PKey::new(0x8001)));
        assert_eq!(here.key(&names, PKey::new(0x8002)), None);
        assert_eq!(here.key(&names, PKey::new(0x8003)), None);
        assert_eq!(here.key(&names, PKey::INVALID), None);
    }

    #[test]
    fn the_default_partition_has_everybody() {
        let list = [one(0xffff, Some(HERE))];
        assert_eq!(keys(&list, HERE), [0xffff, 0, 0, 0]);
        assert_eq!(keys(&list, THERE), [0x7fff, 0, 0, 0]);
        // Where nobody is named, nobody is a full member.
        let list = [one(0x7fff, None)];
        assert_eq!(keys(&list, HERE), [0x7fff, 0, 0, 0]);
        assert!(!Names::of(&list).is_empty());
    }

    #[test]
    fn who_meets_where() {
        let list = [
            one(0xffff, Some(HERE)),
            one(0x8002, Some(HERE)),
            one(0x0002, Some(THERE)),
            one(0x0003, None),
            one(0x8004, Some(THERE)),
        ];
        let names = Names::of(&list);
        let [here, there] = [HERE, THERE].map(|port| Membership::of(&names, &list, port));
        assert_eq!(names.first(here.meets(there)), Some(PKey::DEFAULT));
        let second = names.bit(PKey::new(0x0002));
        assert_eq!(here.meets(there), DEFAULT | second);
        assert_eq!(names.first(second), Some(PKey::new(0x8002)));
        // Limited members do not meet.
        assert_eq!(there.meets(there), names.bit(PKey::new(4)));
        assert_eq!(names.first(0), None);
    }

    #[test]
    fn partitions_that_are_too_many_are_left_out() {
        let list: [Assignment; 40] = core::array::from_fn(|at| one(0x8001 + at as u16, None));
        let names = Names::of(&list);
        let here = Membership::of(&names, &list, HERE);
        let known = |pkey: u16| here.key(&names, PKey::new(pkey)).is_some();
        assert!(known(0xffff) && known(0x8001) && known(0x801f));
        assert!(!known(0x8020) && !known(0x8028));
        assert_eq!((here.full, here.limited), (u32::MAX, 0));
    }
}
