// SPDX-License-Identifier: GPL-2.0

//! The question of one connection manager of this project to another, whether it knows a connection and by what
//! ports it can be reached, and the answer: datagrams of a vendor (IBA "Vendor Specific Management").
//!
//! LAP must not be sent to a connection manager that does not answer it. Managers that are not of this project
//! do not know the class, and leave the question alone or answer with an error.

use super::bits::attribute;
use super::{
    method,
    MadHeader,
    HEADER_LEN,
    MAD_LEN, //
};
use crate::types::{
    Gid,
    Lid,
    PortNum, //
};

/// The management class, one of those that name their vendor.
pub const CLASS: u8 = 0x4e;

/// The vendor: an identifier that is administered locally.
pub const OUI: [u8; 3] = [0x02, 0x53, 0x49];

/// The attribute.
pub const ATTR_ID: u16 = 0x0011;

/// The most ports that an answer names.
pub const PORTS: usize = 8;

/// Where a datagram of a vendor names him: behind the header, that of segmentation, and a reserved byte.
const OUI_OFFSET: usize = HEADER_LEN + 13;

/// Where its data begin.
const DATA_OFFSET: usize = OUI_OFFSET + OUI.len();

/// Where the ports are within the data, and how many bytes each has.
const FIRST_PORT: usize = Head::LEN;

attribute! {
    /// What the data begin with.
    struct Head [32] {
        asker_id: u32 = 0, 32;
        asked_id: u32 = 32, 32;
        takes_paths: bool = 64, 1;
        is_known: bool = 65, 1;
        lid: Lid = 96, 16;
        gid: Gid = 128, 128;
    }
}

attribute! {
    /// A port that is active.
    pub struct SurveyPort [20] {
        /// Its number; 0 behind the last one.
        number: PortNum = 0, 8;
        /// Its base LID.
        lid: Lid = 16, 16;
        /// Its GID.
        gid: Gid = 32, 128;
    }
}

/// Ports, without gaps.
pub type SurveyPorts = [SurveyPort; PORTS];

/// A question, or the answer to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The transaction, which an answer has from its question.
    pub tid: u64,
    /// It is an answer.
    pub is_answer: bool,
    /// Of an answer: not 0 if the question was not understood.
    pub status: u16,
    /// What the asker calls the connection.
    pub asker_id: u32,
    /// What the asked calls it.
    pub asked_id: u32,
    /// Of an answer: alternate paths of connections that others have made are taken.
    pub takes_paths: bool,
    /// Of an answer: the connection is known.
    pub is_known: bool,
    /// Of an answer: the LID by which the connection is reached at present.
    pub lid: Lid,
    /// Of an answer: the GID of that port; ports in other subnets may have its LID.
    pub gid: Gid,
    /// Of an answer: the ports that are active.
    pub ports: SurveyPorts,
}

impl Survey {
    /// Reads a datagram; `None` if it is something else.
    pub fn parse(mad: &[u8; MAD_LEN]) -> Option<Self> {
        let header = MadHeader::parse(mad).ok()?;
        if header.mgmt_class != CLASS
            || !matches!(header.method, method::GET | method::GET_RESP)
            || header.attr_id != ATTR_ID
            || mad.get(OUI_OFFSET..DATA_OFFSET)? != OUI
        {
            return None;
        }
        let data = mad.get(DATA_OFFSET..)?;
        let head = Head::read(data);
        let mut ports = SurveyPorts::default();
        let entries = data.get(FIRST_PORT..)?.chunks_exact(SurveyPort::LEN);
        for (port, entry) in ports.iter_mut().zip(entries) {
            *port = SurveyPort::read(entry);
        }
        Some(Self {
            tid: header.tid,
            is_answer: header.is_response(),
            status: header.status,
            asker_id: head.asker_id,
            asked_id: head.asked_id,
            takes_paths: head.takes_paths,
            is_known: head.is_known,
            lid: head.lid,
            gid: head.gid,
            ports,
        })
    }

    /// The datagram.
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let mut mad = [0; MAD_LEN];
        let header = MadHeader {
            mgmt_class: CLASS,
            method: if self.is_answer {
                method::GET_RESP
            } else {
                method::GET
            },
            status: self.status,
            tid: self.tid,
            attr_id: ATTR_ID,
            ..MadHeader::default()
        };
        // There is room for all of it.
        let _ = header.emit(&mut mad);
        if let Some(oui) = mad.get_mut(OUI_OFFSET..DATA_OFFSET) {
            for (to, from) in oui.iter_mut().zip(OUI) {
                *to = from;
            }
        }
        let head = Head {
            asker_id: self.asker_id,
            asked_id: self.asked_id,
            takes_paths: self.takes_paths,
            is_known: self.is_known,
            lid: self.lid,
            gid: self.gid,
        };
        let data = mad.get_mut(DATA_OFFSET..).unwrap_or(&mut []);
        head.write(data);
        let entries = data.get_mut(FIRST_PORT..).unwrap_or(&mut []);
        for (entry, port) in entries.chunks_exact_mut(SurveyPort::LEN).zip(&self.ports) {
            port.write(entry);
        }
        mad
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_survey))]
mod tests {
    use super::*;

    fn answer() -> Survey {
        let mut answer = Survey {
            tid: 0x0102_0304_0506_0708,
            is_answer: true,
            asker_id: 0x1112_1314,
            asked_id: 0x1516_1718,
            takes_paths: true,
            is_known: true,
            lid: Lid::new(0x191a),
            gid: Gid::new([0x21; 16]),
            ..Survey::default()
        };
        answer.ports[0] = SurveyPort {
            number: PortNum::new(1),
            lid: Lid::new(0x191a),
            gid: Gid::new([0x21; 16]),
        };
        answer.ports[7] = SurveyPort {
            number: PortNum::new(8),
            lid: Lid::new(0x2223),
            gid: Gid::new([0x24; 16]),
        };
        answer
    }

    #[test]
    fn known_bytes() {
        let mad = answer().emit();
        assert_eq!(mad[..8], [1, 0x4e, 1, 0x81, 0, 0, 0, 0][..]);
        assert_eq!(mad[8..20], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0x11, 0, 0][..]);
        assert_eq!(mad[20..37], [0; 17][..]);
        assert_eq!(mad[37..40], [0x02, 0x53, 0x49][..]);
        let ids = [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(mad[40..48], ids[..]);
        assert_eq!(mad[48..56], [0xc0, 0, 0, 0, 0x19, 0x1a, 0, 0][..]);
        assert_eq!(mad[56..72], [0x21; 16][..]);
        assert_eq!(mad[72..76], [1, 0, 0x19, 0x1a][..]);
        assert_eq!(mad[76..92], [0x21; 16][..]);
        assert_eq!(mad[212..216], [8, 0, 0x22, 0x23][..]);
        assert_eq!(Survey::parse(&mad), Some(answer()));
    }

    #[test]
    fn others_are_left_alone() {
        let question = Survey {
            asker_id: 7,
            ..Survey::default()
        };
        let mad = question.emit();
        assert_eq!(Survey::parse(&mad), Some(question));
        for at in [1, 3, 17, 37, 38, 39] {
            let mut other = mad;
            other[at] ^= 0x40;
            assert_eq!(Survey::parse(&other), None);
        }
    }
}
