// SPDX-License-Identifier: GPL-2.0

//! REP: accepts a request for a connection (IBA "REP - Reply to Request for Communication").

use super::{
    cm_message,
    Kind, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Guid,
    Psn,
    QKey,
    Qpn, //
};

/// Values of [`Rep::failover_accepted`].
pub mod failover {
    /// The alternate path will do.
    pub const ACCEPTED: u8 = 0;
    /// The responder knows no alternate paths.
    pub const NOT_SUPPORTED: u8 = 1;
    /// It does not want this alternate path.
    pub const REJECTED: u8 = 2;
}

attribute! {
    /// Reply to a request for a connection.
    pub struct Rep [36] {
        /// What the responder calls the connection.
        local_comm_id: u32 = 0, 32;
        /// What the requester calls it.
        remote_comm_id: u32 = 32, 32;
        /// The responder's Q_Key; for reliable datagrams.
        local_qkey: QKey = 64, 32;
        /// Its queue pair.
        local_qpn: Qpn = 96, 24;
        /// Vendor whose enhancements the connection has: bits 23 to 16.
        vendor_id_h: u8 = 120, 8;
        /// The responder's end-to-end context (24 bits); for reliable datagrams.
        local_eecn: u32 = 128, 24;
        /// Bits 15 to 8 of the vendor.
        vendor_id_m: u8 = 152, 8;
        /// PSN of the responder's first packet.
        starting_psn: Psn = 160, 24;
        /// Bits 7 to 0 of the vendor.
        vendor_id_l: u8 = 184, 8;
        /// RDMA reads and atomics that the responder takes at a time.
        responder_resources: u8 = 192, 8;
        /// RDMA reads and atomics that it will have in flight.
        initiator_depth: u8 = 200, 8;
        /// How long its channel adapter takes to acknowledge a packet, the exponent of
        /// [`crate::timer::exponential_ns`] (5 bits).
        target_ack_delay: u8 = 208, 5;
        /// One of [`failover`].
        failover_accepted: u8 = 213, 2;
        /// The responder's receive queue grants credits.
        end_to_end_flow_control: bool = 215, 1;
        /// Times that the requester is to try again after an RNR NAK (3 bits); 7 is without end.
        rnr_retry_count: u8 = 216, 3;
        /// The responder's queue pair has a shared receive queue.
        srq: bool = 219, 1;
        /// Its channel adapter.
        local_ca_guid: Guid = 224, 64;
    }
}
cm_message!(Rep = Kind::Rep);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_rep))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;

    #[test]
    fn known_bytes() {
        let bytes = [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, //
            0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, //
            0x19, 0x1a, 0xdd, 0xd0, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24,
        ];
        let rep = Rep {
            local_comm_id: 0x0102_0304,
            remote_comm_id: 0x0506_0708,
            local_qkey: QKey::new(0x090a_0b0c),
            local_qpn: Qpn::new(0x0d_0e0f),
            vendor_id_h: 0x10,
            local_eecn: 0x11_1213,
            vendor_id_m: 0x14,
            starting_psn: Psn::new(0x15_1617),
            vendor_id_l: 0x18,
            responder_resources: 0x19,
            initiator_depth: 0x1a,
            target_ack_delay: 27,
            failover_accepted: failover::REJECTED,
            end_to_end_flow_control: true,
            rnr_retry_count: 6,
            srq: true,
            local_ca_guid: Guid::new(0x1d1e_1f20_2122_2324),
        };
        testing::known_bytes(&bytes, &rep);
    }
}
