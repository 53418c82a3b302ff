// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC, which covers what no switch or router changes (IBA "Invariant CRC (ICRC)").
//!
//! It is the CRC-32 of Ethernet over the packet from the LRH through the pad, with the variant
//! fields replaced by ones: of a local packet the virtual lane and the BTH byte with FECN and BECN;
//! of a global packet the whole LRH, traffic class, flow label and hop limit, and that same byte.

use crate::bth;
use crate::error::WireError;
use crate::grh;
use crate::lrh;

/// Size in bytes.
pub const LEN: usize = 4;

/// How to compute a CRC-32. The kernel plugs its accelerated one in.
pub trait Crc32 {
    /// Continues the CRC `crc` over `data`: bits reflected, polynomial 0xedb88320, no inversion at
    /// either end (`crc32_le()` of the kernel).
    fn update(crc: u32, data: &[u8]) -> u32;
}

/// A CRC-32 by table, for hosts and tests.
pub enum SoftCrc32 {}

const POLYNOMIAL: u32 = 0xedb8_8320;

static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                crc >> 1 ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

impl Crc32 for SoftCrc32 {
    fn update(crc: u32, data: &[u8]) -> u32 {
        data.iter().fold(crc, |crc, &byte| {
            let [low, ..] = crc.to_le_bytes();
            let entry = TABLE.get(usize::from(low ^ byte)).copied();
            crc >> 8 ^ entry.unwrap_or(0)
        })
    }
}

/// An invariant CRC in the making.
pub struct Icrc<C: Crc32 = SoftCrc32> {
    crc: u32,
    _crc: core::marker::PhantomData<C>,
}

impl<C: Crc32> Icrc<C> {
    /// Starts over the headers of a packet: `headers` begins with the LRH and holds at least LRH,
    /// GRH if the LNH announces one, and BTH. What follows them in `headers` is covered too.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    pub fn start(headers: &[u8]) -> Result<Self, WireError> {
        let (lrh, rest) = headers
            .split_first_chunk::<{ lrh::LEN }>()
            .ok_or(WireError::Truncated)?;
        let mut lrh = *lrh;
        let [vl_lver, sl_lnh, ..] = &mut lrh;
        let mut crc = !0;
        let rest = if *sl_lnh & 3 == lrh::Lnh::Global as u8 {
            let (grh, rest) = rest
                .split_first_chunk::<{ grh::LEN }>()
                .ok_or(WireError::Truncated)?;
            let mut grh = *grh;
            let [ver_tclass, tclass_flow, flow, flow_low, _, _, _, hop_limit, ..] = &mut grh;
            *ver_tclass |= 0x0f;
            *tclass_flow = 0xff;
            *flow = 0xff;
            *flow_low = 0xff;
            *hop_limit = 0xff;
            crc = C::update(crc, &[0xff; lrh::LEN]);
            crc = C::update(crc, &grh);
            rest
        } else {
            *vl_lver |= 0xf0;
            crc = C::update(crc, &lrh);
            rest
        };
        let (bth, rest) = rest
            .split_first_chunk::<{ bth::LEN }>()
            .ok_or(WireError::Truncated)?;
        let mut bth = *bth;
        let [_, _, _, _, variant, ..] = &mut bth;
        *variant = 0xff;
        crc = C::update(crc, &bth);
        crc = C::update(crc, rest);
        Ok(Self {
            crc,
            _crc: core::marker::PhantomData,
        })
    }

    /// Goes on over more of the packet: extension headers, payload, pad, in pieces of any size.
    #[inline]
    pub fn update(&mut self, data: &[u8]) {
        self.crc = C::update(self.crc, data);
    }

    /// Ends; returns the four bytes as they stand on the wire.
    #[inline]
    pub fn finish(self) -> [u8; LEN] {
        (!self.crc).to_le_bytes()
    }

    /// The ICRC of a whole packet without its last four bytes.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`].
    pub fn of(packet: &[u8]) -> Result<[u8; LEN], WireError> {
        Self::start(packet).map(Self::finish)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_icrc))]
mod tests {
    use super::*;

    /// The IBA's sample packet for the ICRC, local, without its ICRC: RDMA WRITE Only of 14 bytes.
    const LOCAL: [u8; 52] = [
        0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, 0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1,
        0xb3, 0x00, 0x0d, 0xec, 0x2a, 0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2,
        0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e, 0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72,
        0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00,
    ];

    #[test]
    fn crc32_check_value() {
        assert_eq!(!SoftCrc32::update(!0, b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn sample_packet() {
        assert_eq!(Icrc::<SoftCrc32>::of(&LOCAL), Ok([0x96, 0x25, 0xb7, 0x5a]));
    }

    #[test]
    fn pieces_equal_the_whole() {
        for at in 20..LOCAL.len() {
            let (head, tail) = LOCAL.split_at(at);
            let started = Icrc::<SoftCrc32>::start(head);
            assert!(started.is_ok());
            if let Ok(mut icrc) = started {
                icrc.update(tail);
                assert_eq!(icrc.finish(), [0x96, 0x25, 0xb7, 0x5a]);
            }
        }
    }

    #[test]
    fn variant_fields_do_not_count() {
        let mut packet = LOCAL;
        packet[0] ^= 0xf0;
        packet[12] ^= 0xff;
        assert_eq!(Icrc::<SoftCrc32>::of(&packet), Ok([0x96, 0x25, 0xb7, 0x5a]));
        packet[1] ^= 0x10;
        assert!(Icrc::<SoftCrc32>::of(&packet) != Ok([0x96, 0x25, 0xb7, 0x5a]));
    }

    #[test]
    fn too_short() {
        assert_eq!(
            Icrc::<SoftCrc32>::of(&LOCAL[..19]),
            Err(WireError::Truncated)
        );
        let mut global = LOCAL;
        global[1] |= 1;
        assert_eq!(
            Icrc::<SoftCrc32>::of(&global[..51]),
            Err(WireError::Truncated)
        );
    }
}
