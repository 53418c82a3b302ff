// SPDX-License-Identifier: GPL-2.0

//! APR: answers LAP (IBA "APR - Alternate Path Response").

use super::{
    cm_message,
    Kind, //
};
use crate::mad::bits::attribute;

/// Values of [`Apr::ap_status`] (IBA table "AP Status").
pub mod ap_status {
    /// The alternate path is loaded.
    pub const LOADED: u8 = 0;
    /// A communication ID is not known.
    pub const INVALID_COMM_ID: u8 = 1;
    /// Alternate paths are not supported.
    pub const UNSUPPORTED: u8 = 2;
    /// The path is rejected.
    pub const REJECTED: u8 = 3;
    /// Ask elsewhere: the additional information is a ClassPortInfo.
    pub const REDIRECT: u8 = 4;
    /// The path is the one in use.
    pub const IS_CURRENT: u8 = 5;
    /// The queue pair or end-to-end context is not that of the connection.
    pub const INVALID_QPN: u8 = 6;
    /// The LID. From here on, the additional information is an acceptable value.
    pub const INVALID_LID: u8 = 7;
    /// The GID.
    pub const INVALID_GID: u8 = 8;
    /// The flow label.
    pub const INVALID_FLOW_LABEL: u8 = 9;
    /// The traffic class.
    pub const INVALID_TRAFFIC_CLASS: u8 = 10;
    /// The hop limit.
    pub const INVALID_HOP_LIMIT: u8 = 11;
    /// The rate.
    pub const INVALID_PACKET_RATE: u8 = 12;
    /// The service level.
    pub const INVALID_SL: u8 = 13;
}

attribute! {
    /// Reply to a request to load an alternate path.
    pub struct Apr [84] {
        /// What the sender calls the connection.
        local_comm_id: u32 = 0, 32;
        /// What the receiver calls it.
        remote_comm_id: u32 = 32, 32;
        /// Bytes of `info` that count.
        info_length: u8 = 64, 8;
        /// One of [`ap_status`].
        ap_status: u8 = 72, 8;
        /// Additional information, as the status has it.
        info: [u8; 72] = 96, 576;
    }
}
cm_message!(Apr = Kind::Apr);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_apr))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;

    #[test]
    fn known_bytes() {
        let mut bytes = [0; Apr::LEN];
        bytes[..12].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x0d, 0, 0]);
        bytes[12..].copy_from_slice(&testing::bytes::<72>(0x21));
        let apr = Apr {
            local_comm_id: 0x0102_0304,
            remote_comm_id: 0x0506_0708,
            info_length: 16,
            ap_status: ap_status::INVALID_SL,
            info: testing::bytes(0x21),
        };
        testing::known_bytes(&bytes, &apr);
    }
}
