// SPDX-License-Identifier: GPL-2.0

//! MultiPathRecord: a wish for paths between several ports (IBA "MultiPathRecord"). The answer is made of
//! [`PathRecord`](super::PathRecord)s.

use super::{
    attr,
    sa_record,
    DATA_LEN, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Gid,
    PKey,
    Sl, //
};

/// Where the GIDs begin.
const GIDS: usize = 24;

/// Size in bytes of a GID.
const GID_LEN: usize = 16;

attribute! {
    /// What is asked of all paths, and how many GIDs follow: those of the near ports, then those of the far ones.
    /// [`Self::gid`] reads them.
    pub struct MultiPathRecord [24] {
        /// Raw packets pass; else IBA packets.
        raw_traffic: bool = 0, 1;
        /// Flow label of the GRH (20 bits).
        flow_label: u32 = 4, 20;
        /// Hop limit of the GRH.
        hop_limit: u8 = 24, 8;
        /// Traffic class of the GRH.
        traffic_class: u8 = 32, 8;
        /// The paths are to work in both directions.
        reversible: bool = 40, 1;
        /// The largest number of paths to tell (7 bits).
        numb_path: u8 = 41, 7;
        /// The partition.
        pkey: PKey = 48, 16;
        /// Class of quality of service (12 bits).
        qos_class: u16 = 64, 12;
        /// The service level.
        sl: Sl = 76, 4;
        /// [`selector`](super::selector) of `mtu`.
        mtu_selector: u8 = 80, 2;
        /// Code of the [`Mtu`](crate::types::Mtu) (6 bits).
        mtu: u8 = 82, 6;
        /// [`selector`](super::selector) of `rate`.
        rate_selector: u8 = 88, 2;
        /// Code of the rate (6 bits).
        rate: u8 = 90, 6;
        /// [`selector`](super::selector) of `packet_life_time`.
        packet_life_time_selector: u8 = 96, 2;
        /// Time that a packet takes at most, as an exponent of 4.096 us (6 bits).
        packet_life_time: u8 = 98, 6;
        /// The uppermost 8 bits of the service that the paths are for.
        service_id_high: u8 = 104, 8;
        /// Whether the paths are to have as little in common as can be (2 bits).
        independence: u8 = 112, 2;
        /// The number of GIDs of near ports.
        sgid_count: u8 = 120, 8;
        /// The number of GIDs of far ports.
        dgid_count: u8 = 128, 8;
        /// The other 56 bits of the service.
        service_id_low: u64 = 136, 56;
    }
}
sa_record!(MultiPathRecord = attr::MULTI_PATH_RECORD);

impl MultiPathRecord {
    /// The GIDs that fit a datagram.
    pub const MAX_GIDS: usize = (DATA_LEN - GIDS) / GID_LEN;

    /// The service that the paths are for; 0 for any.
    pub const fn service_id(&self) -> u64 {
        (self.service_id_high as u64) << 56 | self.service_id_low
    }

    /// The GID in a place of the list that follows a record at the front of `data`; `None` if it does not fit.
    pub fn gid(data: &[u8; DATA_LEN], place: usize) -> Option<Gid> {
        let bytes = data.get(GIDS..)?.chunks_exact(GID_LEN).nth(place)?;
        bytes.first_chunk().copied().map(Gid::new)
    }

    /// Writes a GID there. Nothing happens if it does not fit.
    pub fn set_gid(data: &mut [u8; DATA_LEN], place: usize, gid: Gid) {
        let gids = data.get_mut(GIDS..).unwrap_or_default();
        let bytes = gids.chunks_exact_mut(GID_LEN).nth(place);
        if let Some(bytes) = bytes.and_then(<[u8]>::first_chunk_mut) {
            *bytes = gid.get();
        }
    }
}

/// Bits of the component mask.
impl MultiPathRecord {
    /// `raw_traffic`.
    pub const RAW_TRAFFIC: u64 = 1 << 0;
    /// `traffic_class`.
    pub const TRAFFIC_CLASS: u64 = 1 << 4;
    /// `numb_path`.
    pub const NUMB_PATH: u64 = 1 << 6;
    /// `pkey`.
    pub const PKEY: u64 = 1 << 7;
    /// `sl`.
    pub const SL: u64 = 1 << 9;
    /// `mtu_selector`.
    pub const MTU_SELECTOR: u64 = 1 << 10;
    /// `mtu`.
    pub const MTU: u64 = 1 << 11;
    /// `rate_selector`.
    pub const RATE_SELECTOR: u64 = 1 << 12;
    /// `rate`.
    pub const RATE: u64 = 1 << 13;
    /// `packet_life_time_selector`.
    pub const PACKET_LIFE_TIME_SELECTOR: u64 = 1 << 14;
    /// `packet_life_time`.
    pub const PACKET_LIFE_TIME: u64 = 1 << 15;
    /// Both parts of the service.
    pub const SERVICE_ID: u64 = 1 << 16 | 1 << 21;
    /// `sgid_count`, and the GIDs.
    pub const SGID_COUNT: u64 = 1 << 19;
    /// `dgid_count`, and the GIDs.
    pub const DGID_COUNT: u64 = 1 << 20;
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(sib_wire_multi_path_record)
)]
mod tests {
    use super::*;
    use crate::mad::sa::{
        selector,
        Record, //
    };
    use crate::types::Guid;

    #[test]
    fn known_bytes() {
        let wish = MultiPathRecord {
            raw_traffic: true,
            flow_label: 0x2_2223,
            hop_limit: 0x24,
            traffic_class: 0x25,
            reversible: true,
            numb_path: 2,
            pkey: PKey::DEFAULT,
            qos_class: 0x313,
            sl: Sl::new(2),
            mtu_selector: selector::EXACT,
            mtu: 5,
            rate_selector: selector::EXACT,
            rate: 16,
            packet_life_time_selector: selector::EXACT,
            packet_life_time: 18,
            service_id_high: 1,
            independence: 1,
            sgid_count: 3,
            dgid_count: 4,
            service_id_low: 0x02_0304_0506_0708,
        };
        let mut data = [0xee; DATA_LEN];
        wish.emit(&mut data);
        let want = [
            0x82, 0x22, 0x23, 0x24, 0x25, 0x82, 0xff, 0xff, //
            0x31, 0x32, 0x85, 0x90, 0x92, 0x01, 0x40, 0x03, //
            0x04, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
        ];
        assert_eq!(data[..24], want[..]);
        assert_eq!(MultiPathRecord::parse(&data), wish);
        assert_eq!(wish.service_id(), 0x0102_0304_0506_0708);
    }

    #[test]
    fn gids_fill_the_datagram() {
        assert_eq!(MultiPathRecord::MAX_GIDS, 11);
        let mut data = [0; DATA_LEN];
        let gid = |place: usize| Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(place as u64 + 1));
        for place in 0..12 {
            MultiPathRecord::set_gid(&mut data, place, gid(place));
        }
        assert_eq!((data[39], data[199]), (1, 11));
        for place in 0..11 {
            assert_eq!(MultiPathRecord::gid(&data, place), Some(gid(place)));
        }
        assert_eq!(MultiPathRecord::gid(&data, 11), None);
    }
}
