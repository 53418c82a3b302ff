// SPDX-License-Identifier: GPL-2.0

//! SIDR_REQ and SIDR_REP: which queue pair serves datagrams of a service (IBA "Service ID Resolution Protocol").

use super::{
    cm_message,
    Kind, //
};
use crate::mad::bits::attribute;
use crate::types::{
    PKey,
    QKey,
    Qpn, //
};

/// Values of [`SidrRep::status`] (IBA table "SIDR_REP Status").
pub mod sidr_status {
    /// Queue pair and Q_Key are valid.
    pub const VALID: u8 = 0;
    /// The service ID is not supported.
    pub const UNSUPPORTED: u8 = 1;
    /// Rejected by the provider of the service.
    pub const REJECTED: u8 = 2;
    /// No queue pair to be had.
    pub const NO_QP: u8 = 3;
    /// Ask elsewhere: the additional information is a ClassPortInfo.
    pub const REDIRECT: u8 = 4;
    /// The class version. The additional information is the one supported.
    pub const UNSUPPORTED_VERSION: u8 = 5;
}

attribute! {
    /// Asks for the queue pair of a service.
    pub struct SidrReq [16] {
        /// What the requester calls its question.
        request_id: u32 = 0, 32;
        /// The partition.
        pkey: PKey = 32, 16;
        /// The service.
        service_id: u64 = 64, 64;
    }
}
cm_message!(SidrReq = Kind::SidrReq);

attribute! {
    /// Names the queue pair of a service.
    pub struct SidrRep [96] {
        /// What the requester calls its question.
        request_id: u32 = 0, 32;
        /// One of [`sidr_status`].
        status: u8 = 32, 8;
        /// Bytes of `info` that count.
        info_length: u8 = 40, 8;
        /// Vendor whose enhancements the service has: bits 23 to 8.
        vendor_id_h: u16 = 48, 16;
        /// The queue pair.
        qpn: Qpn = 64, 24;
        /// Bits 7 to 0 of the vendor.
        vendor_id_l: u8 = 88, 8;
        /// The service.
        service_id: u64 = 96, 64;
        /// The Q_Key of the queue pair.
        qkey: QKey = 160, 32;
        /// Additional information, as the status has it.
        info: [u8; 72] = 192, 576;
    }
}
cm_message!(SidrRep = Kind::SidrRep);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_sidr))]
mod tests {
    use super::*;
    use crate::mad::cm::testing;

    #[test]
    fn question_known_bytes() {
        let bytes = [1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 13, 14];
        let req = SidrReq {
            request_id: 0x0102_0304,
            pkey: PKey::new(0x0506),
            service_id: 0x0708_090a_0b0c_0d0e,
        };
        testing::known_bytes(&bytes, &req);
    }

    #[test]
    fn answer_known_bytes() {
        let mut bytes = [0; SidrRep::LEN];
        let head = [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, //
            0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
        ];
        bytes[..24].copy_from_slice(&head);
        bytes[24..].copy_from_slice(&testing::bytes::<72>(0x41));
        let rep = SidrRep {
            request_id: 0x0102_0304,
            status: sidr_status::UNSUPPORTED_VERSION,
            info_length: 6,
            vendor_id_h: 0x0708,
            qpn: Qpn::new(0x09_0a0b),
            vendor_id_l: 0x0c,
            service_id: 0x0d0e_0f10_1112_1314,
            qkey: QKey::new(0x1516_1718),
            info: testing::bytes(0x41),
        };
        testing::known_bytes(&bytes, &rep);
    }
}
