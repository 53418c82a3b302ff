// SPDX-License-Identifier: GPL-2.0

//! REQ: asks for a connection (IBA "REQ - Request for Communication").

use super::{
    cm_message,
    path::InReq,
    Kind,
    Path, //
};
use crate::mad::bits::attribute;
use crate::types::{
    Guid,
    Lid,
    PKey,
    Psn,
    QKey,
    Qpn, //
};

/// Values of [`Req::transport_service_type`].
pub mod service_type {
    /// Reliable connection.
    pub const RC: u8 = 0;
    /// Unreliable connection.
    pub const UC: u8 = 1;
    /// Reliable datagram.
    pub const RD: u8 = 2;
    /// What [`Req::extended_transport_type`](super::Req::extended_transport_type) says.
    pub const EXTENDED: u8 = 3;
}

/// Values of [`Req::extended_transport_type`].
pub mod extended_type {
    /// Extended reliable connection.
    pub const XRC: u8 = 1;
}

attribute! {
    /// Request for a connection.
    pub struct Req [140] {
        /// What the requester calls the connection.
        local_comm_id: u32 = 0, 32;
        /// Vendor whose enhancements the requester can do (24 bits); zero if none.
        vendor_id: u32 = 40, 24;
        /// The service that it is for.
        service_id: u64 = 64, 64;
        /// The requester's channel adapter.
        local_ca_guid: Guid = 128, 64;
        /// Its Q_Key; for reliable datagrams.
        local_qkey: QKey = 224, 32;
        /// Its queue pair.
        local_qpn: Qpn = 256, 24;
        /// RDMA reads and atomics that it takes at a time.
        responder_resources: u8 = 280, 8;
        /// Its end-to-end context (24 bits); for reliable datagrams.
        local_eecn: u32 = 288, 24;
        /// RDMA reads and atomics that it wants to have in flight.
        initiator_depth: u8 = 312, 8;
        /// The responder's end-to-end context (24 bits); for reliable datagrams.
        remote_eecn: u32 = 320, 24;
        /// How long the responder may take to answer a message, the exponent of
        /// [`crate::timer::exponential_ns`] (5 bits).
        remote_cm_response_timeout: u8 = 344, 5;
        /// One of [`service_type`].
        transport_service_type: u8 = 349, 2;
        /// The requester's receive queue grants credits.
        end_to_end_flow_control: bool = 351, 1;
        /// PSN of its first packet.
        starting_psn: Psn = 352, 24;
        /// How long the requester takes to answer a message, the exponent of
        /// [`crate::timer::exponential_ns`] (5 bits).
        local_cm_response_timeout: u8 = 376, 5;
        /// Times that the responder is to send a packet again (3 bits).
        retry_count: u8 = 381, 3;
        /// The partition.
        pkey: PKey = 384, 16;
        /// Code of the [`Mtu`](crate::types::Mtu) (4 bits).
        path_mtu: u8 = 400, 4;
        /// There is a channel of reliable datagrams already.
        rdc_exists: bool = 404, 1;
        /// Times that the responder is to try again after an RNR NAK (3 bits); 7 is without end.
        rnr_retry_count: u8 = 405, 3;
        /// Times that the responder is to send a message again (4 bits).
        max_cm_retries: u8 = 408, 4;
        /// The requester's queue pair has a shared receive queue.
        srq: bool = 412, 1;
        /// One of [`extended_type`], if the transport service type says so (3 bits).
        extended_transport_type: u8 = 413, 3;
        /// The path that the connection begins with.
        primary: Path as InReq = 416, 352;
        /// The path that it may migrate to, if [`Self::has_alternate`].
        alternate: Path as InReq = 768, 352;
        /// The requester knows SAP and SPR.
        sap_supported: bool = 1117, 1;
    }
}
cm_message!(Req = Kind::Req);

impl Req {
    /// Whether `alternate` counts.
    pub fn has_alternate(&self) -> bool {
        self.alternate.local_lid != Lid::NONE
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_req))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;
    use crate::types::{
        Gid,
        Sl, //
    };

    const BYTES: [u8; Req::LEN] = [
        0x01, 0x02, 0x03, 0x04, 0x00, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
        0x0f, //
        0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x00, 0x00, 0x00, 0x00, 0x18, 0x19, 0x1a,
        0x1b, //
        0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0xa3, 0x27, 0x28, 0x29,
        0xb6, //
        0x2a, 0x2b, 0x5c, 0xf9, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a,
        0x3b, //
        0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a,
        0x4b, //
        0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x60, 0x16, 0x57, 0x58, 0xd8,
        0x78, //
        0x59, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x5f, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67,
        0x68, //
        0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77,
        0x78, //
        0x79, 0x7a, 0x7b, 0x7c, 0x7d, 0x7e, 0x70, 0x1f, 0x80, 0x81, 0xe8, 0x8c,
    ];

    fn req() -> Req {
        Req {
            local_comm_id: 0x0102_0304,
            vendor_id: 0x05_0607,
            service_id: 0x0809_0a0b_0c0d_0e0f,
            local_ca_guid: Guid::new(0x1011_1213_1415_1617),
            local_qkey: QKey::new(0x1819_1a1b),
            local_qpn: Qpn::new(0x1c_1d1e),
            responder_resources: 0x1f,
            local_eecn: 0x20_2122,
            initiator_depth: 0x23,
            remote_eecn: 0x24_2526,
            remote_cm_response_timeout: 20,
            transport_service_type: service_type::UC,
            end_to_end_flow_control: true,
            starting_psn: Psn::new(0x27_2829),
            local_cm_response_timeout: 22,
            retry_count: 6,
            pkey: PKey::new(0x2a2b),
            path_mtu: 5,
            rdc_exists: true,
            rnr_retry_count: 4,
            max_cm_retries: 15,
            srq: true,
            extended_transport_type: extended_type::XRC,
            primary: Path {
                local_lid: Lid::new(0x3031),
                remote_lid: Lid::new(0x3233),
                local_gid: testing::gid(0x34),
                remote_gid: testing::gid(0x44),
                flow_label: 0x5_4556,
                traffic_class: 0x57,
                hop_limit: 0x58,
                rate: 22,
                sl: Sl::new(13),
                subnet_local: true,
                ack_timeout: 15,
            },
            alternate: Path {
                local_lid: Lid::new(0x595a),
                remote_lid: Lid::new(0x5b5c),
                local_gid: testing::gid(0x5d),
                remote_gid: testing::gid(0x6d),
                flow_label: 0x7_d7e7,
                traffic_class: 0x80,
                hop_limit: 0x81,
                rate: 31,
                sl: Sl::new(14),
                subnet_local: true,
                ack_timeout: 17,
            },
            sap_supported: true,
        }
    }

    #[test]
    fn known_bytes() {
        testing::known_bytes(&BYTES, &req());
    }

    #[test]
    fn an_alternate_path_has_a_lid() {
        assert!(req().has_alternate());
        let mut without = req();
        without.alternate.local_lid = Lid::NONE;
        assert!(!without.has_alternate());
        assert_eq!(Req::default().primary.remote_gid, Gid::new([0; 16]));
        assert!(!Req::default().has_alternate());
    }
}
