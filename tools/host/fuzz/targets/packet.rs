// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a packet: what is accepted is written back the same, but for reserved bits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::header::Header;
use wire::icrc::SoftCrc32;
use wire::packet::{
    self,
    Packet, //
};

fuzz_target!(|bytes: &[u8]| {
    let _ = Header::parse_head(bytes, bytes.len().wrapping_mul(2));
    let _ = packet::verify_icrc::<SoftCrc32>(bytes);
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    let mut header = packet.header;
    let mut out = vec![0; bytes.len()];
    let len = packet::build::<SoftCrc32>(&mut header, packet.payload, &mut out);
    assert_eq!(len, Ok(bytes.len()));
    assert_eq!(Packet::parse_checked::<SoftCrc32>(&out), Ok(packet));
});
