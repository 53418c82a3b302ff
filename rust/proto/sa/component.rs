// SPDX-License-Identifier: GPL-2.0

//! Component masks: which parts of a record a request asks for (IBA "ComponentMask").

use wire::mad::sa::selector;
use wire::Rate;

/// The components of a record: bit offset and width of each, by the bit of the component mask. A width of 0 is a
/// component that matches everything.
pub(super) type Components = &'static [(u16, u16)];

/// Whether all components of `record` that `mask` names are as `asked`.
pub(super) fn matches(mask: u64, components: Components, asked: &[u8], record: &[u8]) -> bool {
    let named = components
        .iter()
        .zip(0..=u64::BITS)
        .filter(|(_, bit)| mask.checked_shr(*bit).unwrap_or_default() & 1 != 0);
    named
        .map(|(place, _)| *place)
        .all(|(offset, width)| same_bits(asked, record, offset.into(), width.into()))
}

/// Whether `width` bits from `offset` on are the same. What is missing counts as zero.
fn same_bits(a: &[u8], b: &[u8], offset: usize, width: usize) -> bool {
    let end = offset.saturating_add(width);
    let mut bit = offset;
    while bit < end {
        let byte = bit / 8;
        let next = byte.saturating_add(1).saturating_mul(8);
        let before = u8::MAX.checked_shr((bit % 8) as u32).unwrap_or_default();
        let after = u8::MAX
            .checked_shl(next.saturating_sub(end) as u32)
            .unwrap_or_default();
        let mask = if next > end { before & after } else { before };
        let get = |bytes: &[u8]| bytes.get(byte).copied().unwrap_or_default() & mask;
        if get(a) != get(b) {
            return false;
        }
        bit = next;
    }
    true
}

/// Whether `have` is what the selector wants of `asked`.
pub(super) fn selects<T: PartialOrd>(how: u8, asked: T, have: T) -> bool {
    match how {
        selector::GREATER => have > asked,
        selector::LESS => have < asked,
        selector::EXACT => have == asked,
        _ => true,
    }
}

/// The same of a rate, whose order is not that of the codes. Of a code that means nothing the best one alone is wanted.
pub(super) fn selects_rate(how: u8, asked: u8, have: Option<Rate>) -> bool {
    let asked = Rate::from_code(asked);
    how == selector::BEST || (asked.is_some() && selects(how, asked, have))
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(sib_proto_sa_component)
)]
mod tests {
    use super::*;

    #[test]
    fn bits_alone_count() {
        let (a, b) = ([0x12, 0x34, 0x56], [0x52, 0x3c, 0x56]);
        assert!(same_bits(&a, &b, 4, 8));
        assert!(!same_bits(&a, &b, 4, 9));
        assert!(!same_bits(&a, &b, 1, 4));
        assert!(same_bits(&a, &b, 2, 10));
        assert!(same_bits(&a, &b, 13, 11));
        assert!(same_bits(&a, &b, 12, 0));
        assert!(same_bits(&a, &b, 24, 64));
    }

    #[test]
    fn masks_name_components() {
        const PLACES: Components = &[(0, 8), (0, 0), (8, 4), (12, 12)];
        let (asked, record) = ([1, 0x23, 4], [1, 0x24, 4]);
        assert!(matches(0, PLACES, &asked, &record));
        assert!(matches(0b0111, PLACES, &asked, &record));
        assert!(!matches(0b1000, PLACES, &asked, &record));
        assert!(matches(1 << 63, PLACES, &asked, &record));
    }

    #[test]
    fn selectors() {
        for (how, below, same, above) in [
            (selector::GREATER, false, false, true),
            (selector::LESS, true, false, false),
            (selector::EXACT, false, true, false),
            (selector::BEST, true, true, true),
        ] {
            assert_eq!(selects(how, 4, 3), below);
            assert_eq!(selects(how, 4, 4), same);
            assert_eq!(selects(how, 4, 5), above);
        }
    }
}
