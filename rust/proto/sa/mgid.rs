// SPDX-License-Identifier: GPL-2.0

//! What multicast groups are called (IBA "Multicast GIDs"; RFC 4391, "IP over InfiniBand", section 4).

use wire::{
    Gid,
    PKey, //
};

/// The scopes that mean nothing (RFC 4291, section 2.7).
const RESERVED_SCOPES: [u8; 2] = [0, 0xf];

/// Scope link-local.
pub(super) const LINK_LOCAL: u8 = 2;

/// First byte of multicast GIDs.
const MULTICAST: u8 = 0xff;

/// Flag of GIDs that nobody has assigned for ever.
const TRANSIENT: u8 = 0x10;

/// Signature of GIDs that subnet administration gives.
const OWN: [u8; 2] = [0xa0, 0x1b];

/// Signatures of GIDs of IP groups, and the rest of the GID of that to which all belong, by IP version.
pub(super) const IP: [([u8; 2], u32); 2] = [
    // All hosts of the broadcast domain: 255.255.255.255.
    ([0x40, 0x1b], 0xffff_ffff),
    // All nodes: ff02::1.
    ([0x60, 0x1b], 0x0000_0001),
];

/// The scope in the GID of a group.
pub(super) const fn scope(mgid: Gid) -> u8 {
    mgid.get()[1] & 0xf
}

/// Whether somebody else than subnet administration may give this name.
pub(super) fn may_be_given(mgid: Gid) -> bool {
    let [_, _, a, b, ..] = mgid.get();
    mgid.is_multicast() && [a, b] != OWN && is_scope(scope(mgid))
}

/// Whether this is a name of IP over InfiniBand (RFC 4391, section 4).
pub(super) fn is_ip(mgid: Gid) -> bool {
    let [_, _, a, b, ..] = mgid.get();
    IP.iter().any(|(signature, _)| *signature == [a, b])
}

/// Whether this is a name of IP over InfiniBand in another partition than that of `pkey`.
pub(super) fn is_elsewhere(mgid: Gid, pkey: PKey) -> bool {
    let [_, _, _, _, high, low, ..] = mgid.get();
    let there = PKey::new(u16::from_be_bytes([high, low]));
    is_ip(mgid) && there.base() != pkey.base()
}

/// Whether a scope may be in a GID.
pub(super) fn is_scope(scope: u8) -> bool {
    !RESERVED_SCOPES.contains(&scope)
}

fn assemble(scope: u8, signature: [u8; 2], upper: [u8; 8], lower: u32) -> Gid {
    let [a, b] = signature;
    let [e, f, g, h, i, j, k, l] = upper;
    let [m, n, o, p] = lower.to_be_bytes();
    let flags = TRANSIENT | scope & 0xf;
    Gid::new([MULTICAST, flags, a, b, e, f, g, h, i, j, k, l, m, n, o, p])
}

/// The name that subnet administration of the subnet `prefix` gives for the `serial`th time.
pub(super) fn own(scope: u8, prefix: u64, serial: u32) -> Gid {
    assemble(scope, OWN, prefix.to_be_bytes(), serial)
}

/// The name of the IP group to which all belong in the partition `pkey`.
pub(super) fn ip(signature: [u8; 2], pkey: PKey, group: u32) -> Gid {
    let [high, low] = pkey.get().to_be_bytes();
    let upper = [high, low, 0, 0, 0, 0, 0, 0];
    assemble(LINK_LOCAL, signature, upper, group)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_sa_mgid))]
mod tests {
    use super::*;

    #[test]
    fn names_of_ip_groups() {
        let all = IP.map(|(signature, group)| ip(signature, PKey::DEFAULT, group).get());
        let v4 = [
            0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        let v6 = [
            0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        ];
        assert_eq!(all, [v4, v6]);
        assert!(all.iter().all(|name| may_be_given(Gid::new(*name))));
    }

    #[test]
    fn names_of_ip_are_of_a_partition() {
        for (signature, group) in IP {
            let name = ip(signature, PKey::new(0x8001), group);
            assert!(!is_elsewhere(name, PKey::new(0x8001)));
            assert!(!is_elsewhere(name, PKey::new(0x0001)));
            assert!(is_elsewhere(name, PKey::DEFAULT));
            assert!(is_ip(name));
        }
        let name = own(LINK_LOCAL, Gid::DEFAULT_PREFIX, 1);
        assert!(!is_ip(name));
        assert!(!is_elsewhere(name, PKey::DEFAULT));
    }

    #[test]
    fn own_names_are_not_given_by_others() {
        let name = own(5, Gid::DEFAULT_PREFIX, 0x0102_0304);
        let bytes = [
            0xff, 0x15, 0xa0, 0x1b, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4,
        ];
        assert_eq!(name.get(), bytes);
        assert_eq!(scope(name), 5);
        assert!(!may_be_given(name));
        let mut other = bytes;
        other[2] = 0xa1;
        assert!(may_be_given(Gid::new(other)));
        other[1] = 0x1f;
        assert!(!may_be_given(Gid::new(other)));
        other[1] = 0x10;
        assert!(!may_be_given(Gid::new(other)));
        other[..2].copy_from_slice(&[0xfe, 0x12]);
        assert!(!may_be_given(Gid::new(other)));
    }
}
