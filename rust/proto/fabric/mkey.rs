// SPDX-License-Identifier: GPL-2.0

//! The management key of a node (IBA chapter "Subnet Management", "Management Key").

use crate::time::{
    Duration,
    Instant, //
};

/// What a datagram wants of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// SubnGet.
    Read,
    /// SubnSet and SubnTrapRepress.
    Write,
}

/// An M_Key with its protection and lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct MKey {
    /// The key; 0 lets everybody in.
    pub(super) key: u64,
    /// M_KeyProtectBits, 0 to 3.
    pub(super) protect: u8,
    /// M_KeyLeasePeriod in seconds; 0 is for ever.
    pub(super) lease_period: u16,
    /// M_KeyViolations, which stays at its maximum.
    pub(super) violations: u16,
    /// When the running lease ends.
    expires: Option<Instant>,
}

/// The lowest protection level at which reading takes the key, too.
const PROTECT_READS: u8 = 2;

impl MKey {
    /// No key.
    pub(super) const NONE: Self = Self {
        key: 0,
        protect: 0,
        lease_period: 0,
        violations: 0,
        expires: None,
    };

    /// Lets a lease that has run out take effect: the protection falls to 0.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.expires.is_some_and(|at| now >= at) {
            self.expires = None;
            self.protect = 0;
        }
    }

    /// Whether a datagram that carries `key` may do `access`. A refused one counts as a violation and
    /// starts the lease; the right key ends a running lease.
    pub(super) fn check(&mut self, key: u64, access: Access, now: Instant) -> bool {
        self.expire(now);
        if self.key == 0 || self.key == key {
            self.expires = None;
            return true;
        }
        if access == Access::Read && self.protect < PROTECT_READS {
            return true;
        }
        self.violations = self.violations.saturating_add(1);
        if self.expires.is_none() && self.lease_period != 0 {
            let lease = Duration::from_millis(u64::from(self.lease_period).saturating_mul(1000));
            self.expires = Some(now.after(lease));
        }
        false
    }

    /// The key as a SubnGet(PortInfo) that carries `key` may see it.
    pub(super) const fn visible(&self, key: u64) -> u64 {
        if self.protect == 0 || self.key == key {
            self.key
        } else {
            0
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_mkey))]
mod tests {
    use super::*;

    const KEY: u64 = 0x1122_3344_5566_7788;
    const START: Instant = Instant::from_nanos(0);

    fn at(seconds: u64) -> Instant {
        START.after(Duration::from_millis(seconds * 1000))
    }

    fn guarded(protect: u8, lease_period: u16) -> MKey {
        MKey {
            key: KEY,
            protect,
            lease_period,
            ..MKey::NONE
        }
    }

    #[test]
    fn levels() {
        // (level, may read with a wrong key, sees the key with a wrong one)
        for (protect, reads, sees) in [
            (0, true, true),
            (1, true, false),
            (2, false, false),
            (3, false, false),
        ] {
            let mut mkey = guarded(protect, 0);
            assert_eq!(mkey.check(1, Access::Read, START), reads);
            assert!(!mkey.check(1, Access::Write, START));
            assert!(mkey.check(KEY, Access::Write, START));
            assert!(mkey.check(KEY, Access::Read, START));
            let seen = mkey.visible(1) == KEY;
            assert_eq!(seen, sees);
            assert_eq!(mkey.visible(KEY), KEY);
        }
    }

    #[test]
    fn no_key_is_no_check() {
        let mut mkey = MKey::NONE;
        mkey.protect = 3;
        assert!(mkey.check(1, Access::Write, START));
        assert_eq!(mkey.violations, 0);
    }

    #[test]
    fn lease_runs_out() {
        let mut mkey = guarded(1, 2);
        assert!(!mkey.check(1, Access::Write, START));
        assert!(!mkey.check(1, Access::Write, at(1)));
        assert_eq!(mkey.violations, 2);
        mkey.expire(at(2));
        assert_eq!(mkey.protect, 0);
        assert_eq!(mkey.visible(1), KEY);
    }

    #[test]
    fn the_right_key_renews_the_lease() {
        let mut mkey = guarded(1, 2);
        assert!(!mkey.check(1, Access::Write, START));
        assert!(mkey.check(KEY, Access::Read, at(1)));
        mkey.expire(at(10));
        assert_eq!(mkey.protect, 1);
    }
}
