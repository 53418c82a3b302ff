// SPDX-License-Identifier: GPL-2.0

//! The messages of communication management, by their attribute IDs (IBA "Communication Management",
//! "Message Details").

use super::{
    Apr,
    Drep,
    Dreq,
    Lap,
    Mra,
    Rej,
    Rep,
    Req,
    Rtu,
    SidrRep,
    SidrReq,
    DATA_LEN, //
};

/// Attribute IDs of communication management.
#[allow(missing_docs, reason = "the names are the IBA's")]
pub mod attr {
    pub const REQ: u16 = 0x0010;
    pub const MRA: u16 = 0x0011;
    pub const REJ: u16 = 0x0012;
    pub const REP: u16 = 0x0013;
    pub const RTU: u16 = 0x0014;
    pub const DREQ: u16 = 0x0015;
    pub const DREP: u16 = 0x0016;
    pub const SIDR_REQ: u16 = 0x0017;
    pub const SIDR_REP: u16 = 0x0018;
    pub const LAP: u16 = 0x0019;
    pub const APR: u16 = 0x001a;
    pub const SAP: u16 = 0x001b;
    pub const SPR: u16 = 0x001c;
}

/// The messages that have a structure here: all but those of service-assisted path selection, SAP and SPR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Request for a connection.
    Req,
    /// A message has arrived, but its answer takes time.
    Mra,
    /// No.
    Rej,
    /// Reply to a request: yes.
    Rep,
    /// Ready to use: the reply has arrived.
    Rtu,
    /// Request to end a connection.
    Dreq,
    /// Reply to a request to end a connection.
    Drep,
    /// Asks for the queue pair of a service of datagrams.
    SidrReq,
    /// Reply to such a question.
    SidrRep,
    /// Load an alternate path.
    Lap,
    /// Reply to such a request.
    Apr,
}

/// Each message with its attribute ID and the number of bytes that precede its private data, which takes the
/// rest.
const KINDS: [(Kind, u16, usize); 11] = [
    (Kind::Req, attr::REQ, Req::LEN),
    (Kind::Mra, attr::MRA, Mra::LEN),
    (Kind::Rej, attr::REJ, Rej::LEN),
    (Kind::Rep, attr::REP, Rep::LEN),
    (Kind::Rtu, attr::RTU, Rtu::LEN),
    (Kind::Dreq, attr::DREQ, Dreq::LEN),
    (Kind::Drep, attr::DREP, Drep::LEN),
    (Kind::SidrReq, attr::SIDR_REQ, SidrReq::LEN),
    (Kind::SidrRep, attr::SIDR_REP, SidrRep::LEN),
    (Kind::Lap, attr::LAP, Lap::LEN),
    (Kind::Apr, attr::APR, Apr::LEN),
];

impl Kind {
    /// The message of an attribute ID; `None` for one that is reserved or has no structure here.
    pub fn from_attr(attr_id: u16) -> Option<Self> {
        let entry = KINDS.iter().find(|(_, attr, _)| *attr == attr_id)?;
        Some(entry.0)
    }

    /// The attribute ID.
    pub fn attr(self) -> u16 {
        self.entry().1
    }

    /// Size in bytes of the private data that it carries.
    pub fn private_len(self) -> usize {
        DATA_LEN.saturating_sub(self.private_offset())
    }

    /// Where in the data of the datagram the private data begins.
    pub(super) fn private_offset(self) -> usize {
        self.entry().2
    }

    fn entry(self) -> (Self, u16, usize) {
        let entry = KINDS.iter().find(|(kind, _, _)| *kind == self);
        // Every message is in the table; one that were not would have no room for private data.
        entry.copied().unwrap_or((self, 0, DATA_LEN))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_kind))]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_private_data() {
        let sizes = [92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148];
        for ((attr_id, len), entry) in (attr::REQ..).zip(sizes).zip(KINDS) {
            let kind = Kind::from_attr(attr_id).unwrap();
            assert_eq!(kind, entry.0);
            assert_eq!(kind.attr(), attr_id);
            assert_eq!(kind.private_len(), len);
        }
    }

    #[test]
    fn unknown_attributes() {
        for attr_id in [0, 1, 0x000f, attr::SAP, attr::SPR, 0x001d, 0x0110, u16::MAX] {
            assert_eq!(Kind::from_attr(attr_id), None);
        }
    }
}
