// SPDX-License-Identifier: GPL-2.0

//! What traps have told: kept for subnet administration, which tells those who have subscribed.

use core::ops::DerefMut;
use wire::mad::Notice;
use wire::Lid;

/// What a trap has told, and by whom; or nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told(Option<(Notice, Lid)>);

impl Told {
    /// Nothing.
    pub const fn new() -> Self {
        Self(None)
    }
}

/// Notices, the oldest first.
pub(super) struct Notices<R> {
    row: R,
}

impl<R: DerefMut<Target = [Told]>> Notices<R> {
    pub(super) fn new(mut row: R) -> Self {
        row.fill(Told::new());
        Self { row }
    }

    /// Keeps what `issuer` has told, if there is room. What finds none is not told.
    pub(super) fn push(&mut self, notice: &Notice, issuer: Lid) {
        if let Some(place) = self.row.iter_mut().find(|place| place.0.is_none()) {
            *place = Told(Some((*notice, issuer)));
        }
    }

    /// Takes the oldest one.
    pub(super) fn pop(&mut self) -> Option<(Notice, Lid)> {
        let first = self.row.first_mut()?.0.take();
        self.row.rotate_left(1);
        first
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_sm_notices))]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_bounded() {
        let mut row = [Told::new(); 16];
        let mut notices = Notices::new(row.as_mut_slice());
        for lid in 1..=20 {
            notices.push(&Notice::default(), Lid::new(lid));
        }
        for lid in 1..=16 {
            let told = notices.pop().map(|(_, issuer)| issuer);
            assert_eq!(told, Some(Lid::new(lid)));
        }
        assert_eq!(notices.pop(), None);
    }
}
