// SPDX-License-Identifier: GPL-2.0

//! Addresses as C code and as Rust code have them.

use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV6, //
};
use sib_bindings::sib_udp_address;

/// What the C side calls an IPv4 address.
pub(super) const VERSION_4: u8 = 4;

/// What the C side calls an IPv6 address.
pub(super) const VERSION_6: u8 = 6;

/// Converts for the C side.
pub(super) fn to_c(address: SocketAddr) -> sib_udp_address {
    let (version, bytes, scope) = match address {
        SocketAddr::V4(v4) => {
            let [a, b, c, d] = v4.ip().octets();
            let mut bytes = [0; 16];
            if let Some(start) = bytes.first_chunk_mut() {
                *start = [a, b, c, d];
            }
            (VERSION_4, bytes, 0)
        }
        SocketAddr::V6(v6) => (VERSION_6, v6.ip().octets(), v6.scope_id()),
    };
    sib_udp_address {
        version,
        bytes,
        scope,
        port: address.port(),
        of_many: false,
    }
}

/// Converts what the C side has filled in.
pub(super) fn from_c(address: &sib_udp_address) -> SocketAddr {
    if address.version == VERSION_4 {
        let [a, b, c, d, ..] = address.bytes;
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), address.port)
    } else {
        let ip = Ipv6Addr::from(address.bytes);
        SocketAddr::V6(SocketAddrV6::new(ip, address.port, 0, address.scope))
    }
}
