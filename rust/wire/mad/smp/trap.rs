// SPDX-License-Identifier: GPL-2.0

//! What the details of a notice say, by trap number (IBA "Traps", tables "Notice DataDetails").

use crate::mad::bits::attribute;
use crate::mad::{
    NoticeType,
    DETAILS_LEN, //
};
use crate::types::{
    Gid,
    Guid,
    Lid,
    PKey,
    PortNum,
    QKey,
    Qpn,
    Sl, //
};

/// The details of a kind of trap.
pub trait TrapDetails: Sized {
    /// The severity that the IBA gives the trap.
    const KIND: NoticeType;
    /// Reads the details of a notice.
    fn parse(details: &[u8; DETAILS_LEN]) -> Self;
    /// The details for a notice.
    fn emit(&self) -> [u8; DETAILS_LEN];
}

macro_rules! trap_details {
    ($name:ty, $kind:ident) => {
        impl TrapDetails for $name {
            const KIND: NoticeType = NoticeType::$kind;

            fn parse(details: &[u8; DETAILS_LEN]) -> Self {
                Self::read(details)
            }

            fn emit(&self) -> [u8; DETAILS_LEN] {
                let mut details = [0; DETAILS_LEN];
                self.write(&mut details);
                details
            }
        }
    };
}

/// Of the subnet manager: a port has come.
pub const GID_IN_SERVICE: u16 = 64;
/// Of the subnet manager: a port has gone.
pub const GID_OUT_OF_SERVICE: u16 = 65;
/// Of the subnet manager: a multicast group was made.
pub const GROUP_CREATED: u16 = 66;
/// Of the subnet manager: a multicast group has ended.
pub const GROUP_DELETED: u16 = 67;
/// Trap: the state of a link of a switch changed.
pub const LINK_STATE_CHANGE: u16 = 128;
/// Trap: local link integrity errors passed their threshold.
pub const LOCAL_LINK_INTEGRITY: u16 = 129;
/// Trap: buffer overruns passed their threshold.
pub const BUFFER_OVERRUN: u16 = 130;
/// Trap: the flow control watchdog fired.
pub const FLOW_CONTROL_WATCHDOG: u16 = 131;
/// Trap: the capability mask or something else of a port changed.
pub const CAPABILITY_CHANGE: u16 = 144;
/// Trap: the system image GUID changed.
pub const SYSTEM_IMAGE_GUID_CHANGE: u16 = 145;
/// Trap: a bad M_Key.
pub const BAD_MKEY: u16 = 256;
/// Trap: a bad P_Key at a port of a CA or router.
pub const BAD_PKEY: u16 = 257;
/// Trap: a bad Q_Key.
pub const BAD_QKEY: u16 = 258;
/// Trap: a bad P_Key at an external port of a switch.
pub const BAD_PKEY_SWITCH: u16 = 259;

attribute! {
    /// Details of [`GID_IN_SERVICE`], [`GID_OUT_OF_SERVICE`], [`GROUP_CREATED`] and [`GROUP_DELETED`].
    pub struct GidEvent [54] {
        /// The port or group.
        gid: Gid = 48, 128;
    }
}
trap_details!(GidEvent, SubnetManagement);

attribute! {
    /// Details of [`LINK_STATE_CHANGE`].
    pub struct LinkStateChange [54] {
        /// The switch.
        lid: Lid = 0, 16;
    }
}
trap_details!(LinkStateChange, Urgent);

attribute! {
    /// Details of [`LOCAL_LINK_INTEGRITY`], [`BUFFER_OVERRUN`] and [`FLOW_CONTROL_WATCHDOG`].
    pub struct LinkErrors [54] {
        /// The node.
        lid: Lid = 16, 16;
        /// Its port.
        port: PortNum = 32, 8;
    }
}
trap_details!(LinkErrors, Urgent);

attribute! {
    /// Details of [`CAPABILITY_CHANGE`].
    pub struct CapabilityChange [54] {
        /// The port.
        lid: Lid = 16, 16;
        /// `change_flags` count.
        other_local_changes: bool = 47, 1;
        /// The new capability mask: see [`super::cap`].
        capability_mask: u32 = 48, 32;
        /// What else changed: the constants of this structure.
        change_flags: u16 = 80, 16;
        /// The new second capability mask: see [`super::cap2`].
        capability_mask2: u16 = 96, 16;
    }
}
trap_details!(CapabilityChange, Informational);

impl CapabilityChange {
    /// The node description changed.
    pub const NODE_DESCRIPTION: u16 = 1 << 0;
    /// The enabled link width changed.
    pub const LINK_WIDTH_ENABLED: u16 = 1 << 1;
    /// The enabled link speed changed.
    pub const LINK_SPEED_ENABLED: u16 = 1 << 2;
    /// The priority of the subnet manager changed.
    pub const SM_PRIORITY: u16 = 1 << 3;
    /// The second capability mask changed.
    pub const CAPABILITY_MASK2: u16 = 1 << 5;
}

attribute! {
    /// Details of [`SYSTEM_IMAGE_GUID_CHANGE`].
    pub struct SystemImageGuidChange [54] {
        /// The node.
        lid: Lid = 16, 16;
        /// The new GUID.
        guid: Guid = 48, 64;
    }
}
trap_details!(SystemImageGuidChange, Informational);

attribute! {
    /// Details of [`BAD_MKEY`], but for [`BadMKey::RETURN_PATH`].
    pub struct BadMKey [54] {
        /// Who sent the bad packet.
        lid: Lid = 16, 16;
        /// Its DrSLID.
        dr_slid: Lid = 32, 16;
        /// Its method.
        method: u8 = 48, 8;
        /// Its attribute.
        attr_id: u16 = 64, 16;
        /// Its attribute modifier.
        attr_mod: u32 = 80, 32;
        /// Its M_Key.
        mkey: u64 = 112, 64;
        /// It was a directed-route packet.
        is_directed: bool = 184, 1;
        /// Its return path is longer than fits.
        is_truncated: bool = 185, 1;
        /// Hops of the return path (6 bits).
        hop_cnt: u8 = 186, 6;
    }
}
trap_details!(BadMKey, Security);

impl BadMKey {
    /// Where in the details the return path of a directed-route packet stands.
    pub const RETURN_PATH: core::ops::Range<usize> = 24..DETAILS_LEN;

    /// The details with the front of `return_path`, as much as fits.
    pub fn emit_with_path(&self, return_path: &[u8]) -> [u8; DETAILS_LEN] {
        let mut details = self.emit();
        let place = details.get_mut(Self::RETURN_PATH).unwrap_or(&mut []);
        for (to, from) in place.iter_mut().zip(return_path) {
            *to = *from;
        }
        details
    }
}

attribute! {
    /// Details of [`BAD_PKEY`].
    pub struct BadPKey [54] {
        /// Source of the bad packet.
        slid: Lid = 16, 16;
        /// Its destination.
        dlid: Lid = 32, 16;
        /// Its P_Key, in the low half of 32 bits.
        pkey: PKey = 64, 16;
        /// Its service level.
        sl: Sl = 80, 4;
        /// Its source queue pair, if it says one.
        src_qp: Qpn = 88, 24;
        /// Its destination queue pair.
        dest_qp: Qpn = 120, 24;
        /// Its source GID, if it has a GRH.
        sgid: Gid = 144, 128;
        /// Its destination GID.
        dgid: Gid = 272, 128;
    }
}
trap_details!(BadPKey, Security);

attribute! {
    /// Details of [`BAD_QKEY`].
    pub struct BadQKey [54] {
        /// Source of the bad packet.
        slid: Lid = 16, 16;
        /// Its destination.
        dlid: Lid = 32, 16;
        /// Its Q_Key.
        qkey: QKey = 48, 32;
        /// Its service level.
        sl: Sl = 80, 4;
        /// Its source queue pair.
        src_qp: Qpn = 88, 24;
        /// Its destination queue pair.
        dest_qp: Qpn = 120, 24;
        /// Its source GID, if it has a GRH.
        sgid: Gid = 144, 128;
        /// Its destination GID.
        dgid: Gid = 272, 128;
    }
}
trap_details!(BadQKey, Security);

attribute! {
    /// Details of [`BAD_PKEY_SWITCH`].
    pub struct BadPKeySwitch [54] {
        /// Which of the fields below count, from `slid` (most significant) on.
        data_valid: u16 = 0, 16;
        /// Source of the bad packet.
        slid: Lid = 16, 16;
        /// Its destination.
        dlid: Lid = 32, 16;
        /// Its P_Key.
        pkey: PKey = 48, 16;
        /// Its service level.
        sl: Sl = 64, 4;
        /// Its source queue pair, if it says one.
        src_qp: Qpn = 72, 24;
        /// Its destination queue pair.
        dest_qp: Qpn = 104, 24;
        /// Its source GID, if it has a GRH.
        sgid: Gid = 128, 128;
        /// Its destination GID.
        dgid: Gid = 256, 128;
        /// The switch.
        switch_lid: Lid = 384, 16;
        /// Its port.
        port: PortNum = 400, 8;
    }
}
trap_details!(BadPKeySwitch, Security);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_trap))]
mod tests {
    use super::*;

    #[test]
    fn capability_change_known_bytes() {
        let value = CapabilityChange {
            lid: Lid::new(0x0102),
            other_local_changes: true,
            capability_mask: 0x1112_1314,
            change_flags: CapabilityChange::NODE_DESCRIPTION,
            capability_mask2: 0x2122,
        };
        let details = value.emit();
        let bytes = [0, 0, 1, 2, 0, 1, 0x11, 0x12, 0x13, 0x14, 0, 1, 0x21, 0x22];
        assert_eq!(details[..bytes.len()], bytes[..]);
        assert_eq!(CapabilityChange::parse(&details), value);
    }

    #[test]
    fn gid_event_known_bytes() {
        let value = GidEvent {
            gid: Gid::new([0x11; 16]),
        };
        let details = value.emit();
        assert_eq!(details[..6], [0; 6][..]);
        assert_eq!(details[6..22], [0x11; 16][..]);
        assert_eq!(details[22..], [0; 32][..]);
        assert_eq!(GidEvent::parse(&details), value);
    }

    #[test]
    fn bad_mkey_known_bytes() {
        let value = BadMKey {
            lid: Lid::new(0x0102),
            dr_slid: Lid::PERMISSIVE,
            method: 2,
            attr_id: 0x0015,
            attr_mod: 1,
            mkey: 0x1112_1314_1516_1718,
            is_directed: true,
            is_truncated: false,
            hop_cnt: 2,
        };
        let details = value.emit_with_path(&[0, 3, 4]);
        let bytes = [
            0, 0, 1, 2, 0xff, 0xff, 2, 0, 0x00, 0x15, 0, 0, 0, 1, //
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0, 0x82, 0, 3, 4, 0,
        ];
        assert_eq!(details[..bytes.len()], bytes[..]);
        assert_eq!(BadMKey::parse(&details), value);
        assert_eq!(value.emit_with_path(&[9; 64])[24..], [9; 30][..]);
    }

    #[test]
    fn bad_pkey_known_bytes() {
        let value = BadPKey {
            slid: Lid::new(1),
            dlid: Lid::new(2),
            pkey: PKey::new(0x8003),
            sl: Sl::new(4),
            src_qp: Qpn::new(5),
            dest_qp: Qpn::new(6),
            ..BadPKey::default()
        };
        let details = value.emit();
        let bytes = [0, 0, 0, 1, 0, 2, 0, 0, 0x80, 3, 0x40, 0, 0, 5, 0, 0, 0, 6];
        assert_eq!(details[..bytes.len()], bytes[..]);
        assert_eq!(BadPKey::parse(&details), value);
    }

    #[test]
    fn bad_qkey_and_switch_round_trip() {
        let gid = Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(7));
        let qkey = BadQKey {
            qkey: QKey::GSI,
            dgid: gid,
            ..BadQKey::default()
        };
        assert_eq!(qkey.emit()[6..10], [0x80, 0x01, 0x00, 0x00][..]);
        assert_eq!(BadQKey::parse(&qkey.emit()), qkey);
        let switch = BadPKeySwitch {
            sgid: gid,
            switch_lid: Lid::new(0x0102),
            port: PortNum::new(3),
            ..BadPKeySwitch::default()
        };
        assert_eq!(switch.emit()[48..51], [1, 2, 3][..]);
        assert_eq!(BadPKeySwitch::parse(&switch.emit()), switch);
    }
}
