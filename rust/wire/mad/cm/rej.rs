// SPDX-License-Identifier: GPL-2.0

//! REJ: no (IBA "REJ - Reject").

use super::{
    cm_message,
    Kind, //
};
use crate::mad::bits::attribute;

/// Values of [`Rej::message_rejected`].
pub mod rejected {
    /// REQ.
    pub const REQ: u8 = 0;
    /// REP.
    pub const REP: u8 = 1;
    /// None, as after a timeout, or another.
    pub const OTHER: u8 = 2;
}

/// Values of [`Rej::reason`] (IBA table "REJ Reason codes").
pub mod reason {
    /// No queue pair to be had.
    pub const NO_QP: u16 = 1;
    /// No end-to-end context to be had.
    pub const NO_EEC: u16 = 2;
    /// No resources of another kind.
    pub const NO_RESOURCES: u16 = 3;
    /// An answer has not come. The additional information is the sender's CA GUID.
    pub const TIMEOUT: u16 = 4;
    /// The request is not supported.
    pub const UNSUPPORTED: u16 = 5;
    /// A communication ID is not known.
    pub const INVALID_COMM_ID: u16 = 6;
    /// Local and remote communication ID, QP or EEC do not belong together.
    pub const INVALID_COMM_INSTANCE: u16 = 7;
    /// No such service.
    pub const INVALID_SERVICE_ID: u16 = 8;
    /// Not with this transport service.
    pub const INVALID_TRANSPORT_TYPE: u16 = 9;
    /// The connection is gone; its other side may not have noticed.
    pub const STALE_CONN: u16 = 10;
    /// The channel of reliable datagrams does not exist.
    pub const RDC_NOT_EXIST: u16 = 11;
    /// Primary path: the remote GID. From here to the rate, the additional information is an acceptable value.
    pub const INVALID_GID: u16 = 12;
    /// Primary path: the remote LID.
    pub const INVALID_LID: u16 = 13;
    /// Primary path: the service level.
    pub const INVALID_SL: u16 = 14;
    /// Primary path: the traffic class.
    pub const INVALID_TRAFFIC_CLASS: u16 = 15;
    /// Primary path: the hop limit.
    pub const INVALID_HOP_LIMIT: u16 = 16;
    /// Primary path: the rate.
    pub const INVALID_PACKET_RATE: u16 = 17;
    /// Alternate path: the remote GID. From here to the rate, the additional information is an acceptable value.
    pub const INVALID_ALT_GID: u16 = 18;
    /// Alternate path: the remote LID.
    pub const INVALID_ALT_LID: u16 = 19;
    /// Alternate path: the service level.
    pub const INVALID_ALT_SL: u16 = 20;
    /// Alternate path: the traffic class.
    pub const INVALID_ALT_TRAFFIC_CLASS: u16 = 21;
    /// Alternate path: the hop limit.
    pub const INVALID_ALT_HOP_LIMIT: u16 = 22;
    /// Alternate path: the rate.
    pub const INVALID_ALT_PACKET_RATE: u16 = 23;
    /// Ask another port and queue pair: the additional information is a ClassPortInfo.
    pub const PORT_CM_REDIRECT: u16 = 24;
    /// Ask another port: the additional information is a ClassPortInfo.
    pub const PORT_REDIRECT: u16 = 25;
    /// The MTU. The additional information is an acceptable one.
    pub const INVALID_MTU: u16 = 26;
    /// Too few responder resources.
    pub const INSUFFICIENT_RESP_RESOURCES: u16 = 27;
    /// The application said no; what it says more is its own.
    pub const CONSUMER_DEFINED: u16 = 28;
    /// The number of tries after an RNR NAK.
    pub const INVALID_RNR_RETRY: u16 = 29;
    /// The communication ID is that of another connection.
    pub const DUPLICATE_LOCAL_COMM_ID: u16 = 30;
    /// The class version. The additional information is the one supported.
    pub const INVALID_CLASS_VERSION: u16 = 31;
    /// Primary path: the flow label. The additional information is an acceptable one.
    pub const INVALID_FLOW_LABEL: u16 = 32;
    /// Alternate path: the flow label. The additional information is an acceptable one.
    pub const INVALID_ALT_FLOW_LABEL: u16 = 33;
    /// A vendor's enhancement is not supported.
    pub const VENDOR_OPTION_NOT_SUPPORTED: u16 = 35;
}

attribute! {
    /// Rejects a message, or gives a connection up.
    pub struct Rej [84] {
        /// What the sender calls the connection; zero if it has no name for it.
        local_comm_id: u32 = 0, 32;
        /// What the receiver calls it; zero if the sender does not know.
        remote_comm_id: u32 = 32, 32;
        /// One of [`rejected`].
        message_rejected: u8 = 64, 2;
        /// Bytes of `info` that count (7 bits).
        reject_info_length: u8 = 72, 7;
        /// One of [`reason`].
        reason: u16 = 80, 16;
        /// Additional information, as the reason has it.
        info: [u8; 72] = 96, 576;
    }
}
cm_message!(Rej = Kind::Rej);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_rej))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;

    #[test]
    fn known_bytes() {
        let mut bytes = [0; Rej::LEN];
        bytes[..12].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0x40, 0x92, 0x01, 0x23]);
        bytes[12..].copy_from_slice(&testing::bytes::<72>(0x31));
        let rej = Rej {
            local_comm_id: 0x0102_0304,
            remote_comm_id: 0x0506_0708,
            message_rejected: rejected::REP,
            reject_info_length: 73,
            reason: 0x0123,
            info: testing::bytes(0x31),
        };
        testing::known_bytes(&bytes, &rej);
    }
}
