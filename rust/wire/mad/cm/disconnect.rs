// SPDX-License-Identifier: GPL-2.0

//! DREQ and DREP: the end of a connection (IBA "DREQ - Request for communication Release", "DREP - Reply to
//! Request for communication Release").

use super::{
    cm_message,
    Kind, //
};
use crate::mad::bits::attribute;
use crate::types::Qpn;

attribute! {
    /// Request to end a connection.
    pub struct Dreq [12] {
        /// What the sender calls the connection.
        local_comm_id: u32 = 0, 32;
        /// What the receiver calls it.
        remote_comm_id: u32 = 32, 32;
        /// The receiver's queue pair or end-to-end context.
        remote_qpn: Qpn = 64, 24;
    }
}
cm_message!(Dreq = Kind::Dreq);

attribute! {
    /// Reply to a request to end a connection.
    pub struct Drep [8] {
        /// What the sender calls the connection.
        local_comm_id: u32 = 0, 32;
        /// What the receiver calls it.
        remote_comm_id: u32 = 32, 32;
    }
}
cm_message!(Drep = Kind::Drep);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(sib_wire_cm_disconnect)
)]
mod tests {
    use super::*;
    use crate::mad::cm::testing;

    #[test]
    fn known_bytes() {
        let dreq = Dreq {
            local_comm_id: 0x0102_0304,
            remote_comm_id: 0x0506_0708,
            remote_qpn: Qpn::new(0x09_0a0b),
        };
        testing::known_bytes(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0], &dreq);
        let drep = Drep {
            local_comm_id: 0x1112_1314,
            remote_comm_id: 0x1516_1718,
        };
        testing::known_bytes(&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18], &drep);
    }
}
