// SPDX-License-Identifier: GPL-2.0

//! What traps tell.

use super::Sender;
use crate::fabric::Mad;
use wire::mad::smp::trap::{
    self,
    TrapDetails, //
};
use wire::mad::smp::{
    NodeType,
    Smp, //
};
use wire::mad::{
    attr,
    class,
    method,
    MadHeader,
    Notice,
    DETAILS_LEN, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    PortNum,
    QKey,
    Qpn,
    Sl, //
};

/// A packet that was refused for its P_Key or Q_Key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadKey {
    /// LRH:SLID.
    pub slid: Lid,
    /// LRH:DLID.
    pub dlid: Lid,
    /// The P_Key, in the low 16 bits, or the Q_Key.
    pub key: u32,
    /// LRH:SL.
    pub sl: Sl,
    /// The source queue pair; 0 where the packet does not say it.
    pub src_qp: Qpn,
    /// The destination queue pair.
    pub dest_qp: Qpn,
    /// The source GID; zero where there is no GRH.
    pub sgid: Gid,
    /// The destination GID; zero where there is no GRH.
    pub dgid: Gid,
}

/// A subnet management packet that was refused for its M_Key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct BadMKey {
    details: [u8; DETAILS_LEN],
}

impl BadMKey {
    /// Of the packet `smp`, which came with the source LID `slid`.
    pub(in crate::fabric) fn new(smp: &Smp, slid: Lid) -> Self {
        let path_room = DETAILS_LEN.saturating_sub(trap::BadMKey::RETURN_PATH.start);
        let mut bad = trap::BadMKey {
            lid: slid,
            method: smp.method(),
            attr_id: smp.attr_id(),
            attr_mod: smp.attr_mod(),
            mkey: smp.mkey(),
            ..trap::BadMKey::default()
        };
        if !smp.is_directed() {
            return Self {
                details: bad.emit(),
            };
        }
        bad.dr_slid = smp.dr_slid();
        bad.is_directed = true;
        bad.is_truncated = usize::from(smp.hop_cnt()) > path_room;
        bad.hop_cnt = smp.hop_cnt().min(path_room as u8);
        let path = smp.return_path_bytes().get(1..).unwrap_or(&[]);
        Self {
            details: bad.emit_with_path(path.get(..usize::from(bad.hop_cnt)).unwrap_or(&[])),
        }
    }
}

/// Something that the subnet manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) enum Event {
    /// A link of the switch went up or down.
    LinkStateChange,
    /// The capability mask or something else changed by order of the local host.
    LocalChange {
        /// The mask now.
        cap_mask: u32,
        /// Constants of [`trap::CapabilityChange`]; 0 if only the mask changed.
        flags: u16,
    },
    /// A bad M_Key.
    BadMKey(BadMKey),
    /// A bad P_Key at a channel adapter.
    BadPKey(BadKey),
    /// A bad P_Key at this external port of the switch.
    BadPKeySwitch(BadKey, PortNum),
    /// A bad Q_Key.
    BadQKey(BadKey),
}

impl Event {
    /// The slot of this kind of event.
    pub(super) const fn kind(&self) -> usize {
        match self {
            Self::LinkStateChange => 0,
            Self::LocalChange { .. } => 1,
            Self::BadMKey(_) => 2,
            Self::BadPKey(_) | Self::BadPKeySwitch(..) => 3,
            Self::BadQKey(_) => 4,
        }
    }

    /// This event after `pending` of the same kind, which the subnet manager may not have seen.
    pub(super) fn after(self, pending: &Self) -> Self {
        match (self, pending) {
            (Self::LocalChange { cap_mask, flags }, Self::LocalChange { flags: old, .. }) => {
                Self::LocalChange {
                    cap_mask,
                    flags: flags | old,
                }
            }
            (event, _) => event,
        }
    }

    /// The trap number, severity and details.
    fn describe(&self, sender: &Sender) -> (u16, u8, [u8; DETAILS_LEN]) {
        match self {
            Self::LinkStateChange => {
                let details = trap::LinkStateChange { lid: sender.lid };
                describe(trap::LINK_STATE_CHANGE, &details)
            }
            Self::LocalChange { cap_mask, flags } => {
                let details = trap::CapabilityChange {
                    lid: sender.lid,
                    other_local_changes: *flags != 0,
                    capability_mask: *cap_mask,
                    change_flags: *flags,
                    capability_mask2: 0,
                };
                describe(trap::CAPABILITY_CHANGE, &details)
            }
            Self::BadMKey(bad) => (
                trap::BAD_MKEY,
                <trap::BadMKey as TrapDetails>::KIND as u8,
                bad.details,
            ),
            Self::BadPKey(bad) => {
                let details = trap::BadPKey {
                    slid: bad.slid,
                    dlid: bad.dlid,
                    pkey: PKey::new(bad.key as u16),
                    sl: bad.sl,
                    src_qp: bad.src_qp,
                    dest_qp: bad.dest_qp,
                    sgid: bad.sgid,
                    dgid: bad.dgid,
                };
                describe(trap::BAD_PKEY, &details)
            }
            Self::BadPKeySwitch(bad, port) => {
                let details = trap::BadPKeySwitch {
                    data_valid: valid_fields(bad),
                    slid: bad.slid,
                    dlid: bad.dlid,
                    pkey: PKey::new(bad.key as u16),
                    sl: bad.sl,
                    src_qp: bad.src_qp,
                    dest_qp: bad.dest_qp,
                    sgid: bad.sgid,
                    dgid: bad.dgid,
                    switch_lid: sender.lid,
                    port: *port,
                };
                describe(trap::BAD_PKEY_SWITCH, &details)
            }
            Self::BadQKey(bad) => {
                let details = trap::BadQKey {
                    slid: bad.slid,
                    dlid: bad.dlid,
                    qkey: QKey::new(bad.key),
                    sl: bad.sl,
                    src_qp: bad.src_qp,
                    dest_qp: bad.dest_qp,
                    sgid: bad.sgid,
                    dgid: bad.dgid,
                };
                describe(trap::BAD_QKEY, &details)
            }
        }
    }

    /// The datagram that tells this event under the transaction `tid`.
    pub(super) fn trap(&self, sender: &Sender, tid: u64) -> Mad {
        let (number, kind, details) = self.describe(sender);
        let producer = if sender.switch {
            NodeType::Switch
        } else {
            NodeType::Ca
        };
        let mut smp = Smp::new(&MadHeader {
            mgmt_class: class::SUBN_LID,
            method: method::TRAP,
            tid,
            attr_id: attr::NOTICE,
            ..MadHeader::default()
        });
        smp.set_attribute(&Notice {
            is_generic: true,
            kind,
            producer: u32::from(producer as u8),
            trap: number,
            issuer_lid: sender.lid,
            toggle: false,
            count: 0,
            details,
        });
        *smp.as_bytes()
    }
}

fn describe<T: TrapDetails>(number: u16, details: &T) -> (u16, u8, [u8; DETAILS_LEN]) {
    (number, T::KIND as u8, details.emit())
}

/// DataValid of trap 259: LIDs, P_Key, service level and destination are always known.
fn valid_fields(bad: &BadKey) -> u16 {
    const LIDS_PKEY_SL: u16 = 0b1111 << 12;
    const SRC_QP: u16 = 1 << 11;
    const DEST_QP: u16 = 1 << 10;
    const GIDS: u16 = 0b11 << 8;
    let mut valid = LIDS_PKEY_SL | DEST_QP;
    if bad.src_qp != Qpn::SMI {
        valid |= SRC_QP;
    }
    if !bad.sgid.is_zero() {
        valid |= GIDS;
    }
    valid
}
