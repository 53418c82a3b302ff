// SPDX-License-Identifier: GPL-2.0

//! Attributes that all management classes share (IBA "Management Datagrams", common attributes).

use super::bits::attribute;
use crate::codec;
use crate::types::{
    Gid,
    Lid,
    PKey,
    QKey,
    Qpn,
    Sl, //
};
use zerocopy::byteorder::big_endian::U16;
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

attribute! {
    /// What a manager of a class can do, and where it wants its traps (attribute 0x0001).
    pub struct ClassPortInfo [72] {
        /// Highest base version.
        base_version: u8 = 0, 8;
        /// Highest class version.
        class_version: u8 = 8, 8;
        /// Capabilities; the low 8 bits are common to all classes, the high 8 belong to the class.
        capability_mask: u16 = 16, 16;
        /// More capabilities (27 bits), all of the class.
        capability_mask2: u32 = 32, 27;
        /// Time to answer, as the exponent of [`crate::timer::exponential_ns`] (5 bits).
        resp_time: u8 = 59, 5;
        /// Where to send requests instead.
        redirect_gid: Gid = 64, 128;
        /// Traffic class for it.
        redirect_tc: u8 = 192, 8;
        /// Service level for it.
        redirect_sl: Sl = 200, 4;
        /// Flow label for it (20 bits).
        redirect_fl: u32 = 204, 20;
        /// LID for it; zero if there is no redirection.
        redirect_lid: Lid = 224, 16;
        /// P_Key for it.
        redirect_pkey: PKey = 240, 16;
        /// Queue pair for it.
        redirect_qp: Qpn = 264, 24;
        /// Q_Key for it.
        redirect_qkey: QKey = 288, 32;
        /// Where traps go.
        trap_gid: Gid = 320, 128;
        /// Traffic class for them.
        trap_tc: u8 = 448, 8;
        /// Service level for them.
        trap_sl: Sl = 456, 4;
        /// Flow label for them (20 bits).
        trap_fl: u32 = 460, 20;
        /// LID for them.
        trap_lid: Lid = 480, 16;
        /// P_Key for them.
        trap_pkey: PKey = 496, 16;
        /// Hop limit for them.
        trap_hl: u8 = 512, 8;
        /// Queue pair for them.
        trap_qp: Qpn = 520, 24;
        /// Q_Key for them.
        trap_qkey: QKey = 544, 32;
    }
}

impl ClassPortInfo {
    /// Common capability: the class sends traps.
    pub const CAP_TRAP: u16 = 1 << 0;
    /// Common capability: Get and Set of Notice.
    pub const CAP_NOTICE: u16 = 1 << 1;
    /// Common capability: `capability_mask2` counts.
    pub const CAP_MASK2: u16 = 1 << 2;
}

/// How grave a notice is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NoticeType {
    /// The device is in trouble.
    Fatal = 0,
    /// An administrator should look.
    Urgent = 1,
    /// A key was violated.
    Security = 2,
    /// Subnet management.
    SubnetManagement = 3,
    /// For information.
    #[default]
    Informational = 4,
    /// No notice: the answer to a Get when there is none.
    Empty = 0x7f,
}

/// Size in bytes of [`Notice::details`].
pub const DETAILS_LEN: usize = 54;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawNotice {
    generic_kind: u8,
    producer: [u8; 3],
    trap: U16,
    issuer_lid: U16,
    toggle_count: U16,
    details: [u8; DETAILS_LEN],
}

const GENERIC: u8 = 0x80;
const TOGGLE: u16 = 0x8000;

/// A notice, of which traps are made (attribute 0x0002), as subnet management packets carry it. In
/// other classes the 16 bytes of the issuer's GID follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The notice is one that the IBA defines; else `producer` is a vendor and `trap` a device.
    pub is_generic: bool,
    /// A [`NoticeType`] (7 bits).
    pub kind: u8,
    /// Generic: the [`NodeType`](super::smp::NodeType) of the producer. Else: vendor (24 bits).
    pub producer: u32,
    /// Generic: the trap number. Else: device.
    pub trap: u16,
    /// Who issued it.
    pub issuer_lid: Lid,
    /// Flips with each new notice.
    pub toggle: bool,
    /// Notices waiting (15 bits).
    pub count: u16,
    /// What happened; the trap number says how to read it: see [`super::smp::trap`].
    pub details: [u8; DETAILS_LEN],
}

impl Default for Notice {
    /// The empty notice.
    fn default() -> Self {
        Self {
            is_generic: true,
            kind: NoticeType::Empty as u8,
            producer: 0,
            trap: 0,
            issuer_lid: Lid::NONE,
            toggle: false,
            count: 0,
            details: [0; DETAILS_LEN],
        }
    }
}

impl Notice {
    /// Size in bytes.
    pub const LEN: usize = size_of::<RawNotice>();

    /// Reads a notice.
    pub fn parse(data: &[u8; Self::LEN]) -> Self {
        let raw: &RawNotice = zerocopy::transmute_ref!(data);
        Self {
            is_generic: raw.generic_kind & GENERIC != 0,
            kind: raw.generic_kind & !GENERIC,
            producer: codec::from_be24(raw.producer),
            trap: raw.trap.get(),
            issuer_lid: Lid::new(raw.issuer_lid.get()),
            toggle: raw.toggle_count.get() & TOGGLE != 0,
            count: raw.toggle_count.get() & !TOGGLE,
            details: raw.details,
        }
    }

    /// Writes the notice.
    pub fn emit(&self, data: &mut [u8; Self::LEN]) {
        let raw = RawNotice {
            generic_kind: self.kind & !GENERIC | if self.is_generic { GENERIC } else { 0 },
            producer: codec::to_be24(self.producer),
            trap: U16::new(self.trap),
            issuer_lid: U16::new(self.issuer_lid.get()),
            toggle_count: U16::new(self.count & !TOGGLE | if self.toggle { TOGGLE } else { 0 }),
            details: self.details,
        };
        *data = zerocopy::transmute!(raw);
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_notice))]
mod tests {
    use super::*;

    #[test]
    fn notice_known_bytes() {
        let mut bytes = [0; Notice::LEN];
        let head = [
            0x84, 0x00, 0x00, 0x02, 0x00, 0x80, 0x00, 0x07, 0x80, 0x03, 0x00, 0x07,
        ];
        bytes[..head.len()].copy_from_slice(&head);
        let mut details = [0; DETAILS_LEN];
        details[1] = 7;
        let notice = Notice {
            kind: NoticeType::Informational as u8,
            producer: 2,
            trap: 128,
            issuer_lid: Lid::new(7),
            toggle: true,
            count: 3,
            details,
            ..Notice::default()
        };
        assert_eq!(Notice::parse(&bytes), notice);
        let mut out = [0xee; Notice::LEN];
        notice.emit(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn class_port_info_known_bytes() {
        let mut bytes = [0; ClassPortInfo::LEN];
        bytes[..8].copy_from_slice(&[1, 1, 0x06, 0x04, 0x00, 0x00, 0x00, 0x32]);
        bytes[28..36].copy_from_slice(&[0x00, 0x05, 0xff, 0xff, 0x00, 0x00, 0x00, 0x01]);
        bytes[64] = 0x40;
        let info = ClassPortInfo {
            base_version: 1,
            class_version: 1,
            capability_mask: 0x0604,
            capability_mask2: 1,
            resp_time: 18,
            redirect_lid: Lid::new(5),
            redirect_pkey: PKey::DEFAULT,
            redirect_qp: Qpn::GSI,
            trap_hl: 0x40,
            ..ClassPortInfo::default()
        };
        assert_eq!(ClassPortInfo::read(&bytes), info);
        let mut out = [0xee; ClassPortInfo::LEN];
        info.write(&mut out);
        assert_eq!(out, bytes);
    }
}
