// SPDX-License-Identifier: GPL-2.0

//! LAP: gives a connection an alternate path (IBA "LAP - Load Alternate Path").

use super::{
    cm_message,
    path::InLap,
    Kind,
    Path, //
};
use crate::mad::bits::attribute;
use crate::types::Qpn;

attribute! {
    /// Request to load an alternate path. P_Key and MTU are those of the primary path.
    pub struct Lap [64] {
        /// What the sender calls the connection.
        local_comm_id: u32 = 0, 32;
        /// What the receiver calls it.
        remote_comm_id: u32 = 32, 32;
        /// The receiver's queue pair or end-to-end context.
        remote_qpn: Qpn = 96, 24;
        /// How long the receiver may take to answer, the exponent of [`crate::timer::exponential_ns`] (5 bits).
        remote_cm_response_timeout: u8 = 120, 5;
        /// The alternate path.
        path: Path as InLap = 160, 352;
    }
}
cm_message!(Lap = Kind::Lap);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_lap))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;
    use crate::types::{
        Lid,
        Sl, //
    };

    #[test]
    fn known_bytes() {
        let bytes = [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x00, 0x00, 0x00, 0x00, 0x09, 0x0a,
            0x0b, 0x98, //
            0x00, 0x00, 0x00, 0x00, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15,
            0x16, 0x17, //
            0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25,
            0x26, 0x27, //
            0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, 0x31, 0x32, 0x30, 0x34, 0x35, 0x36,
            0x78, 0x88,
        ];
        let lap = Lap {
            local_comm_id: 0x0102_0304,
            remote_comm_id: 0x0506_0708,
            remote_qpn: Qpn::new(0x09_0a0b),
            remote_cm_response_timeout: 19,
            path: Path {
                local_lid: Lid::new(0x0c0d),
                remote_lid: Lid::new(0x0e0f),
                local_gid: testing::gid(0x10),
                remote_gid: testing::gid(0x20),
                flow_label: 0x3_1323,
                traffic_class: 0x34,
                hop_limit: 0x35,
                rate: 0x36,
                sl: Sl::new(7),
                subnet_local: true,
                ack_timeout: 17,
            },
        };
        testing::known_bytes(&bytes, &lap);
    }
}
