// SPDX-License-Identifier: GPL-2.0

//! PathRecord: how to reach a port (IBA "PathRecord").

use super::{
    attr,
    sa_record, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Gid,
    Lid,
    PKey,
    Sl, //
};

/// How a request wants a number: the values of selectors.
pub mod selector {
    /// More than the given one.
    pub const GREATER: u8 = 0;
    /// Less than the given one.
    pub const LESS: u8 = 1;
    /// The given one.
    pub const EXACT: u8 = 2;
    /// The largest there is; with a time, the smallest.
    pub const BEST: u8 = 3;
}

attribute! {
    /// A path between two ports.
    pub struct PathRecord [64] {
        /// The service that the path is for; 0 for any.
        service_id: u64 = 0, 64;
        /// The far port.
        dgid: Gid = 64, 128;
        /// The near port.
        sgid: Gid = 192, 128;
        /// LID of the far port.
        dlid: Lid = 320, 16;
        /// LID of the near port.
        slid: Lid = 336, 16;
        /// Raw packets pass; else IBA packets.
        raw_traffic: bool = 352, 1;
        /// Flow label of the GRH (20 bits).
        flow_label: u32 = 356, 20;
        /// Hop limit of the GRH.
        hop_limit: u8 = 376, 8;
        /// Traffic class of the GRH.
        traffic_class: u8 = 384, 8;
        /// The path works in both directions.
        reversible: bool = 392, 1;
        /// In a request: the largest number of paths to tell (7 bits).
        numb_path: u8 = 393, 7;
        /// The partition.
        pkey: PKey = 400, 16;
        /// Class of quality of service (12 bits).
        qos_class: u16 = 416, 12;
        /// The service level.
        sl: Sl = 428, 4;
        /// [`selector`] of `mtu`.
        mtu_selector: u8 = 432, 2;
        /// Code of the [`Mtu`](crate::types::Mtu) (6 bits).
        mtu: u8 = 434, 6;
        /// [`selector`] of `rate`.
        rate_selector: u8 = 440, 2;
        /// Code of the rate (6 bits).
        rate: u8 = 442, 6;
        /// [`selector`] of `packet_life_time`.
        packet_life_time_selector: u8 = 448, 2;
        /// Time that a packet takes at most, as an exponent of 4.096 us (6 bits).
        packet_life_time: u8 = 450, 6;
        /// Place among the paths of an answer; 0 is best.
        preference: u8 = 456, 8;
    }
}
sa_record!(PathRecord = attr::PATH_RECORD);

/// Bits of the component mask.
impl PathRecord {
    /// Both halves of the service ID.
    pub const SERVICE_ID: u64 = 0b11;
    /// `dgid`.
    pub const DGID: u64 = 1 << 2;
    /// `sgid`.
    pub const SGID: u64 = 1 << 3;
    /// `dlid`.
    pub const DLID: u64 = 1 << 4;
    /// `slid`.
    pub const SLID: u64 = 1 << 5;
    /// `raw_traffic`.
    pub const RAW_TRAFFIC: u64 = 1 << 6;
    /// `flow_label`.
    pub const FLOW_LABEL: u64 = 1 << 8;
    /// `hop_limit`.
    pub const HOP_LIMIT: u64 = 1 << 9;
    /// `traffic_class`.
    pub const TRAFFIC_CLASS: u64 = 1 << 10;
    /// `reversible`.
    pub const REVERSIBLE: u64 = 1 << 11;
    /// `numb_path`.
    pub const NUMB_PATH: u64 = 1 << 12;
    /// `pkey`.
    pub const PKEY: u64 = 1 << 13;
    /// `qos_class`.
    pub const QOS_CLASS: u64 = 1 << 14;
    /// `sl`.
    pub const SL: u64 = 1 << 15;
    /// `mtu_selector`.
    pub const MTU_SELECTOR: u64 = 1 << 16;
    /// `mtu`.
    pub const MTU: u64 = 1 << 17;
    /// `rate_selector`.
    pub const RATE_SELECTOR: u64 = 1 << 18;
    /// `rate`.
    pub const RATE: u64 = 1 << 19;
    /// `packet_life_time_selector`.
    pub const PACKET_LIFE_TIME_SELECTOR: u64 = 1 << 20;
    /// `packet_life_time`.
    pub const PACKET_LIFE_TIME: u64 = 1 << 21;
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_path_record))]
mod tests {
    use super::*;
    use crate::mad::sa::Record;
    use crate::types::Guid;

    #[test]
    fn known_bytes() {
        let path = PathRecord {
            service_id: 0x0102_0304_0506_0708,
            dgid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(2)),
            sgid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(1)),
            dlid: Lid::new(0x1112),
            slid: Lid::new(0x1314),
            raw_traffic: true,
            flow_label: 0x2_2223,
            hop_limit: 0x24,
            traffic_class: 0x25,
            reversible: true,
            numb_path: 0x7f,
            pkey: PKey::DEFAULT,
            qos_class: 0x313,
            sl: Sl::new(2),
            mtu_selector: selector::EXACT,
            mtu: 5,
            rate_selector: selector::EXACT,
            rate: 16,
            packet_life_time_selector: selector::EXACT,
            packet_life_time: 18,
            preference: 1,
        };
        let mut out = [0xee; PathRecord::SIZE];
        path.emit(&mut out);
        assert_eq!(out[..8], [1, 2, 3, 4, 5, 6, 7, 8][..]);
        assert_eq!((out[23], out[39]), (2, 1));
        let tail = [
            0x11, 0x12, 0x13, 0x14, 0x82, 0x22, 0x23, 0x24, //
            0x25, 0xff, 0xff, 0xff, 0x31, 0x32, 0x85, 0x90, //
            0x92, 0x01, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(out[40..], tail[..]);
        assert_eq!(PathRecord::parse(&out), path);
    }
}
