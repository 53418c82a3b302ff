// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a datagram from a cable.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::outer::{
    control,
    Kind,
    Outer, //
};
use wire::packet::Packet;

/// Parses a body, writes it, and parses that.
macro_rules! round_trip {
    ($body:ident as $control:ty) => {
        if let Ok(value) = <$control>::parse($body) {
            let mut out = [0; <$control>::LEN];
            assert_eq!(value.emit(&mut out), Ok(<$control>::LEN));
            assert_eq!(<$control>::parse(&out), Ok(value));
        }
    };
}

fuzz_target!(|bytes: &[u8]| {
    let Ok((outer, body)) = Outer::parse(bytes) else {
        return;
    };
    match outer.kind {
        Kind::Data => {
            let _ = Packet::parse(body);
        }
        Kind::Hello | Kind::HelloAck => round_trip!(body as control::Hello),
        Kind::Keepalive => round_trip!(body as control::Keepalive),
        Kind::Bye => round_trip!(body as control::Bye),
        Kind::Refuse => round_trip!(body as control::Refuse),
        Kind::Beacon => round_trip!(body as control::Beacon),
    }
});
