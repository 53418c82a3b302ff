// SPDX-License-Identifier: GPL-2.0

//! MCMemberRecord: multicast groups and who is in them (IBA "MCMemberRecord").

use super::{
    attr,
    sa_record, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Gid,
    Lid,
    PKey,
    QKey,
    Sl, //
};

/// A member that sends and receives, and keeps the group alive: a bit of [`McMemberRecord::join_state`].
pub const JOIN_FULL: u8 = 1 << 0;
/// A member that sends and receives, and does not keep the group alive.
pub const JOIN_NON: u8 = 1 << 1;
/// A member that only sends, and does not keep the group alive.
pub const JOIN_SEND_ONLY: u8 = 1 << 2;
/// A member that only sends, and keeps the group alive.
pub const JOIN_SEND_ONLY_FULL: u8 = 1 << 3;

attribute! {
    /// A multicast group and one of its members.
    pub struct McMemberRecord [52] {
        /// The group.
        mgid: Gid = 0, 128;
        /// The member.
        port_gid: Gid = 128, 128;
        /// Q_Key of the group.
        qkey: QKey = 256, 32;
        /// LID of the group.
        mlid: Lid = 288, 16;
        /// [`selector`](super::selector) of `mtu`.
        mtu_selector: u8 = 304, 2;
        /// Code of the [`Mtu`](crate::types::Mtu) (6 bits).
        mtu: u8 = 306, 6;
        /// Traffic class of the GRH.
        traffic_class: u8 = 312, 8;
        /// The partition.
        pkey: PKey = 320, 16;
        /// [`selector`](super::selector) of `rate`.
        rate_selector: u8 = 336, 2;
        /// Code of the rate (6 bits).
        rate: u8 = 338, 6;
        /// [`selector`](super::selector) of `packet_life_time`.
        packet_life_time_selector: u8 = 344, 2;
        /// Time that a packet takes at most, as an exponent of 4.096 us (6 bits).
        packet_life_time: u8 = 346, 6;
        /// The service level.
        sl: Sl = 352, 4;
        /// Flow label of the GRH (20 bits).
        flow_label: u32 = 356, 20;
        /// Hop limit of the GRH.
        hop_limit: u8 = 376, 8;
        /// How far the group reaches: as the scope in its GID.
        scope: u8 = 384, 4;
        /// How the member takes part: [`JOIN_FULL`] and its like.
        join_state: u8 = 388, 4;
        /// Somebody else joined the member.
        proxy_join: bool = 392, 1;
    }
}
sa_record!(McMemberRecord = attr::MC_MEMBER_RECORD);

/// Bits of the component mask.
impl McMemberRecord {
    /// `mgid`.
    pub const MGID: u64 = 1 << 0;
    /// `port_gid`.
    pub const PORT_GID: u64 = 1 << 1;
    /// `qkey`.
    pub const QKEY: u64 = 1 << 2;
    /// `mlid`.
    pub const MLID: u64 = 1 << 3;
    /// `mtu_selector`.
    pub const MTU_SELECTOR: u64 = 1 << 4;
    /// `mtu`.
    pub const MTU: u64 = 1 << 5;
    /// `traffic_class`.
    pub const TRAFFIC_CLASS: u64 = 1 << 6;
    /// `pkey`.
    pub const PKEY: u64 = 1 << 7;
    /// `rate_selector`.
    pub const RATE_SELECTOR: u64 = 1 << 8;
    /// `rate`.
    pub const RATE: u64 = 1 << 9;
    /// `packet_life_time_selector`.
    pub const PACKET_LIFE_TIME_SELECTOR: u64 = 1 << 10;
    /// `packet_life_time`.
    pub const PACKET_LIFE_TIME: u64 = 1 << 11;
    /// `sl`.
    pub const SL: u64 = 1 << 12;
    /// `flow_label`.
    pub const FLOW_LABEL: u64 = 1 << 13;
    /// `hop_limit`.
    pub const HOP_LIMIT: u64 = 1 << 14;
    /// `scope`.
    pub const SCOPE: u64 = 1 << 15;
    /// `join_state`.
    pub const JOIN_STATE: u64 = 1 << 16;
    /// `proxy_join`.
    pub const PROXY_JOIN: u64 = 1 << 17;
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_mc_member))]
mod tests {
    use super::*;
    use crate::mad::sa::Record;
    use crate::types::Guid;

    #[test]
    fn known_bytes() {
        let mut group = [0; 16];
        group[0] = 0xff;
        group[15] = 9;
        let member = McMemberRecord {
            mgid: Gid::new(group),
            port_gid: Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(1)),
            qkey: QKey::new(0x0b1b),
            mlid: Lid::new(0xc001),
            mtu_selector: 2,
            mtu: 4,
            traffic_class: 0x11,
            pkey: PKey::DEFAULT,
            rate_selector: 2,
            rate: 3,
            packet_life_time_selector: 2,
            packet_life_time: 18,
            sl: Sl::new(3),
            flow_label: 0x4_5678,
            hop_limit: 0x12,
            scope: 2,
            join_state: JOIN_FULL | JOIN_SEND_ONLY,
            proxy_join: true,
        };
        let mut out = [0xee; McMemberRecord::SIZE];
        member.emit(&mut out);
        assert_eq!((out[0], out[15], out[16], out[31]), (0xff, 9, 0xfe, 1));
        let tail = [
            0x00, 0x00, 0x0b, 0x1b, 0xc0, 0x01, 0x84, 0x11, //
            0xff, 0xff, 0x83, 0x92, 0x34, 0x56, 0x78, 0x12, //
            0x25, 0x80, 0, 0,
        ];
        assert_eq!(out[32..], tail[..]);
        assert_eq!(McMemberRecord::parse(&out), member);
    }
}
