// SPDX-License-Identifier: GPL-2.0

//! The small tables of a port: P_Keys, GUIDs, SL to VL, VL arbitration.

use wire::mad::smp;
use wire::mad::smp::VlWeight;
use wire::{
    Guid,
    PKey,
    Sl,
    Vl, //
};

/// Entries of a port's P_Key table: one block of the attribute P_KeyTable.
pub const PKEYS: usize = 32;

/// Entries of a port's GUID table: one block of the attribute GUIDInfo.
pub const GUIDS: usize = 8;

/// The P_Keys of a port.
#[derive(Clone, Copy, Debug)]
pub struct PKeyTable([PKey; PKEYS]);

impl PKeyTable {
    /// The table of power-up: the default P_Key in entry 0.
    pub const fn new() -> Self {
        let mut keys = [PKey::INVALID; PKEYS];
        keys[0] = PKey::DEFAULT;
        Self(keys)
    }

    /// Entry `index`; `None` past the end.
    pub fn get(&self, index: u16) -> Option<PKey> {
        self.0.get(usize::from(index)).copied()
    }

    /// All entries.
    pub const fn keys(&self) -> &[PKey; PKEYS] {
        &self.0
    }

    /// Whether an entry matches the P_Key of a packet (IBA "P_Key Matching").
    pub fn admits(&self, pkey: PKey) -> bool {
        self.0.iter().any(|entry| entry.matches(pkey))
    }

    /// The entry by which a packet with `pkey` is admitted, a full membership before a limited one.
    pub fn matching(&self, pkey: PKey) -> Option<PKey> {
        let entries = self.0.iter().copied();
        entries.filter(|entry| entry.matches(pkey)).max()
    }

    /// Whether the holder of this table may send packets with `pkey`: it has the key, or a full membership
    /// where the packet claims a limited one.
    pub fn may_send(&self, pkey: PKey) -> bool {
        pkey.is_valid()
            && self
                .0
                .iter()
                .any(|entry| entry.base() == pkey.base() && (entry.is_full() || !pkey.is_full()))
    }

    /// Replaces the table. Returns whether it changed.
    pub(super) fn replace(&mut self, keys: [PKey; PKEYS]) -> bool {
        let changed = self.0 != keys;
        self.0 = keys;
        changed
    }
}

impl Default for PKeyTable {
    fn default() -> Self {
        Self::new()
    }
}

/// The GUIDs of a port: entry 0 is its own and stays, the others are aliases that management sets.
#[derive(Clone, Copy, Debug)]
pub struct GuidTable([Guid; GUIDS]);

impl GuidTable {
    /// The table of power-up: the port's own GUID alone.
    pub const fn new(port: Guid) -> Self {
        let mut guids = [Guid::ZERO; GUIDS];
        guids[0] = port;
        Self(guids)
    }

    /// Entry `index`; `None` past the end. An entry without an alias is [`Guid::ZERO`].
    pub fn get(&self, index: u16) -> Option<Guid> {
        self.0.get(usize::from(index)).copied()
    }

    /// The port's own GUID.
    pub const fn port(&self) -> Guid {
        self.0[0]
    }

    /// All entries.
    pub const fn guids(&self) -> &[Guid; GUIDS] {
        &self.0
    }

    /// Replaces the aliases. Returns whether any changed.
    pub(super) fn replace(&mut self, mut guids: [Guid; GUIDS]) -> bool {
        guids[0] = self.0[0];
        let changed = self.0 != guids;
        self.0 = guids;
        changed
    }
}

/// The virtual lane of each service level, packed as in the attribute SLtoVLMappingTable: a switch holds one
/// of these for each pair of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlToVl([u8; 8]);

impl SlToVl {
    /// Everything on VL0, as before a subnet manager has spoken.
    pub const fn new() -> Self {
        Self([0; 8])
    }

    /// The lane of `sl`. The table is kept for management: all data goes by VL0, and none is dropped since its service level
    /// maps to VL15.
    pub fn lane(&self, sl: Sl) -> Vl {
        match self.0.get(usize::from(sl.get() >> 1)) {
            Some(pair) if sl.get() & 1 == 0 => Vl::new(pair >> 4),
            Some(pair) => Vl::new(*pair),
            None => Vl::MANAGEMENT,
        }
    }

    /// The table in the attribute.
    pub(super) fn from_wire(table: &smp::SlToVl) -> Self {
        let mut packed = [0; 8];
        for (pair, lanes) in packed.iter_mut().zip(table.0.chunks_exact(2)) {
            if let [even, odd] = lanes {
                *pair = (even.get() << 4) | odd.get();
            }
        }
        Self(packed)
    }

    /// The table as an attribute.
    pub(super) fn to_wire(self) -> smp::SlToVl {
        let mut table = smp::SlToVl::default();
        for (pair, lanes) in self.0.iter().zip(table.0.chunks_exact_mut(2)) {
            if let [even, odd] = lanes {
                *even = Vl::new(pair >> 4);
                *odd = Vl::new(*pair);
            }
        }
        table
    }
}

/// Entries of each of the two arbitration tables of a port (VLArbitrationLowCap, VLArbitrationHighCap).
pub const VL_ARB_ENTRIES: usize = 8;

/// An arbitration table.
pub type VlWeights = [VlWeight; VL_ARB_ENTRIES];

/// The weights of a port's lanes. They are kept for management; nothing here queues per lane.
#[derive(Clone, Copy, Debug)]
pub struct VlArb {
    low: VlWeights,
    high: VlWeights,
}

/// Block of VLArbitrationTable that holds the low-priority table.
const LOW_BLOCK: u16 = 1;

/// Block of VLArbitrationTable that holds the high-priority table.
const HIGH_BLOCK: u16 = 3;

impl VlArb {
    /// Tables without weights.
    pub const fn new() -> Self {
        const NONE: VlWeight = VlWeight {
            vl: Vl::new(0),
            weight: 0,
        };
        Self {
            low: [NONE; VL_ARB_ENTRIES],
            high: [NONE; VL_ARB_ENTRIES],
        }
    }

    /// The low-priority table.
    pub const fn low(&self) -> &VlWeights {
        &self.low
    }

    /// The high-priority table.
    pub const fn high(&self) -> &VlWeights {
        &self.high
    }

    /// Block `block` of the attribute; `None` if the tables are too short to have it.
    pub(super) fn block(&self, block: u16) -> Option<smp::VlArb> {
        let table = match block {
            LOW_BLOCK => &self.low,
            HIGH_BLOCK => &self.high,
            _ => return None,
        };
        let mut wire = smp::VlArb::default();
        for (to, from) in wire.0.iter_mut().zip(table) {
            *to = *from;
        }
        Some(wire)
    }

    /// Replaces block `block`; `None` if the tables are too short to have it.
    pub(super) fn set_block(&mut self, block: u16, wire: &smp::VlArb) -> Option<()> {
        let table = match block {
            LOW_BLOCK => &mut self.low,
            HIGH_BLOCK => &mut self.high,
            _ => return None,
        };
        for (to, from) in table.iter_mut().zip(&wire.0) {
            *to = *from;
        }
        Some(())
    }
}

impl Default for VlArb {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_tables))]
mod tests {
    use super::*;

    #[test]
    fn pkeys_admit_by_membership() {
        let mut table = PKeyTable::new();
        assert!(table.admits(PKey::new(0x7fff)));
        assert!(!table.admits(PKey::new(0x8001)));
        let mut keys = *table.keys();
        keys[1] = PKey::new(0x0001);
        assert!(table.replace(keys));
        assert!(!table.replace(keys));
        assert!(table.admits(PKey::new(0x8001)));
        assert!(!table.admits(PKey::new(0x0001)));
        assert!(table.may_send(PKey::new(0x0001)));
        assert!(!table.may_send(PKey::new(0x8001)));
        assert!(table.may_send(PKey::new(0x7fff)));
        assert!(!table.may_send(PKey::INVALID));
        assert_eq!(table.get(1), Some(PKey::new(0x0001)));
        assert_eq!(table.get(32), None);
    }

    #[test]
    fn own_guid_stays() {
        let mut table = GuidTable::new(Guid::new(7));
        let mut guids = [Guid::new(9); GUIDS];
        assert!(table.replace(guids));
        assert_eq!(table.port(), Guid::new(7));
        assert_eq!(table.get(1), Some(Guid::new(9)));
        guids[0] = Guid::ZERO;
        assert!(!table.replace(guids));
    }

    #[test]
    fn lanes_survive_packing() {
        let mut wire = smp::SlToVl::default();
        for (sl, lane) in wire.0.iter_mut().enumerate() {
            *lane = Vl::new(15 - sl as u8);
        }
        let table = SlToVl::from_wire(&wire);
        assert_eq!(table.to_wire(), wire);
        for sl in 0..16 {
            assert_eq!(table.lane(Sl::new(sl)), Vl::new(15 - sl));
        }
    }

    #[test]
    fn arbitration_has_two_blocks() {
        let mut arb = VlArb::new();
        let wire = smp::VlArb(
            [VlWeight {
                vl: Vl::new(1),
                weight: 4,
            }; 32],
        );
        for (block, there) in [(0, false), (1, true), (2, false), (3, true), (4, false)] {
            assert_eq!(arb.set_block(block, &wire).is_some(), there);
            assert_eq!(arb.block(block).is_some(), there);
        }
        assert_eq!(arb.low()[7].weight, 4);
        let back = arb
            .block(3)
            .map(|block| (block.0[7].weight, block.0[8].weight));
        assert_eq!(back, Some((4, 0)));
    }
}
