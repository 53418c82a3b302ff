// SPDX-License-Identifier: GPL-2.0

//! InformInfo: which notices a requester wants to be told (IBA "InformInfo").

use super::sa_record;
use crate::mad::attr;
use crate::mad::bits::attribute;
use crate::types::{
    Gid,
    Lid,
    Qpn, //
};

attribute! {
    /// A subscription to notices.
    pub struct InformInfo [36] {
        /// The port that the notices are about; zero: those of `lid_begin` to `lid_end`.
        gid: Gid = 0, 128;
        /// The first LID; [`Lid::PERMISSIVE`]: all.
        lid_begin: Lid = 128, 16;
        /// The last LID.
        lid_end: Lid = 144, 16;
        /// The notices are ones that the IBA defines.
        is_generic: bool = 183, 1;
        /// 1 to subscribe, 0 to stop.
        subscribe: u8 = 184, 8;
        /// The [`NoticeType`](crate::mad::NoticeType), or [`Self::ANY`].
        kind: u16 = 192, 16;
        /// Generic: the trap number, or [`Self::ANY`]. Else: device.
        trap: u16 = 208, 16;
        /// To stop: the queue pair that has subscribed.
        qpn: Qpn = 224, 24;
        /// Time to answer a report, as an exponent of 4.096 us (5 bits).
        resp_time: u8 = 251, 5;
        /// Generic: the [`NodeType`](crate::mad::smp::NodeType) of the producer, or all ones. Else: vendor (24 bits).
        producer: u32 = 264, 24;
    }
}
sa_record!(InformInfo = attr::INFORM_INFO);

impl InformInfo {
    /// Any type, any trap.
    pub const ANY: u16 = 0xffff;
    /// Any producer.
    pub const ANY_PRODUCER: u32 = 0xff_ffff;
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_inform))]
mod tests {
    use super::*;
    use crate::mad::sa::Record;

    #[test]
    fn known_bytes() {
        let info = InformInfo {
            lid_begin: Lid::PERMISSIVE,
            lid_end: Lid::new(0x0102),
            is_generic: true,
            subscribe: 1,
            kind: 3,
            trap: 64,
            qpn: Qpn::GSI,
            resp_time: 18,
            producer: 4,
            ..InformInfo::default()
        };
        let mut out = [0xee; 36];
        info.emit(&mut out);
        assert_eq!(out[..16], [0; 16]);
        let tail = [
            0xff, 0xff, 0x01, 0x02, 0, 0, 1, 1, 0, 3, 0, 64, //
            0, 0, 1, 18, 0, 0, 0, 4,
        ];
        assert_eq!(out[16..], tail[..]);
        assert_eq!(InformInfo::parse(&out), info);
    }
}
