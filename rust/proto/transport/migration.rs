// SPDX-License-Identifier: GPL-2.0

//! Automatic path migration: two ways to the peer, and when the second one becomes the first.
//!
//! A consumer loads an alternate path and asks for REARM. Each end says in every packet whether it is MIGRATED
//! (the MigReq bit of the BTH), and takes a packet without the bit for the sign that its peer has an alternate
//! path as well: then it is ARMED. An armed end goes over to the alternate path when its peer is silent on the
//! primary one, when its peer has gone over, or when its consumer says so; then there is no alternate path until
//! the consumer loads another.
//!
//! What is sent is decided by the state at the time of sending, so that all that is sent again after a migration
//! asks the peer to follow. An end that is in REARM before it has heard its peer on the new path goes on asking, since
//! a peer that has not followed takes nothing else. Sequence numbers, and what was done for the peer, do not change.
//!
//! Source: IBA "Automatic Path Migration", "Migration request (MigReq)".

use crate::time::Duration;
use crate::transport::config::{
    PathAv,
    QpConfig, //
};
use crate::transport::qp::{
    ModifyError,
    RxDrop, //
};
use crate::transport::qp_state::{
    AttrMask,
    QpState, //
};
use wire::header::Header;
use wire::{
    PKey,
    PortNum, //
};

/// State of path migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigState {
    /// There is one path, or the alternate one is not in use.
    #[default]
    Migrated,
    /// This end is ready to migrate, and waits for a sign that its peer is.
    Rearm,
    /// Both ends may migrate.
    Armed,
}

/// The other way to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alternate {
    /// As [`QpConfig::path`].
    pub path: PathAv,
    /// As [`QpConfig::port`].
    pub port: PortNum,
    /// As [`QpConfig::pkey`].
    pub pkey: PKey,
    /// As [`QpConfig::pkey_index`].
    pub pkey_index: u16,
    /// As [`QpConfig::timeout`].
    pub timeout: u8,
    /// As [`QpConfig::reminder_floor`].
    pub reminder_floor: Duration,
}

/// A path that was the primary one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Former {
    path: PathAv,
    port: PortNum,
    pkey: PKey,
}

impl Former {
    /// The primary path of `config`, which is about to leave it.
    pub(super) fn of(config: &QpConfig) -> Self {
        Self {
            path: config.path,
            port: config.port,
            pkey: config.pkey,
        }
    }

    /// Whether a packet that has come by `port` has come by this path.
    pub(super) fn is_way_of(&self, header: &Header, port: PortNum) -> bool {
        check(header, port, (&self.path, self.port, self.pkey)).is_ok()
    }
}

/// What a consumer's change of attributes does to the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Rearm,
    Migrate,
}

/// What becomes of a packet whose sender has migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is treated as any other packet.
    Ordinary,
    /// This end follows it.
    Follow,
    /// It is dropped, and the consumer told.
    Refuse,
}

/// What the attributes `new`, of which `mask` are given, mean to a queue pair with the attributes `old`.
pub(super) fn plan(
    to: QpState,
    mask: AttrMask,
    old: &QpConfig,
    new: &QpConfig,
) -> Result<Change, ModifyError> {
    // The peer may go over to the path that there is at any moment, and knows of no other.
    if mask.contains(AttrMask::ALT_PATH) && old.mig_state == MigState::Armed {
        return Err(ModifyError::Migration);
    }
    if !mask.contains(AttrMask::PATH_MIG_STATE) {
        return Ok(Change::None);
    }
    match (old.mig_state, new.mig_state) {
        (MigState::Migrated, MigState::Migrated) => Ok(Change::None),
        (MigState::Armed, MigState::Migrated) => Ok(Change::Migrate),
        (MigState::Migrated | MigState::Rearm, MigState::Rearm)
            if to == QpState::Rts && new.alternate.is_some() =>
        {
            Ok(Change::Rearm)
        }
        (_, MigState::Armed)
        | (MigState::Rearm, MigState::Migrated)
        | (MigState::Migrated | MigState::Rearm | MigState::Armed, MigState::Rearm) => {
            Err(ModifyError::Migration)
        }
    }
}

/// Judges a packet with MigReq that has come by `port` while this end is not MIGRATED.
pub fn judge(header: &Header, port: PortNum, config: &QpConfig) -> Verdict {
    let armed = config.mig_state == MigState::Armed;
    let alternate = config.alternate.as_ref();
    if (armed || config.follow_unarmed)
        && alternate.is_some_and(|alternate| {
            check(
                header,
                port,
                (&alternate.path, alternate.port, alternate.pkey),
            )
            .is_ok()
        })
    {
        Verdict::Follow
    } else if !armed || (config.pardon_late && check_primary(header, port, config).is_ok()) {
        Verdict::Ordinary
    } else {
        Verdict::Refuse
    }
}

/// Whether a packet that has come by `port` has come by the primary path.
#[inline]
pub(super) fn check_primary(
    header: &Header,
    port: PortNum,
    config: &QpConfig,
) -> Result<(), RxDrop> {
    check(header, port, (&config.path, config.port, config.pkey))
}

fn check(
    header: &Header,
    port: PortNum,
    (path, own_port, pkey): (&PathAv, PortNum, PKey),
) -> Result<(), RxDrop> {
    if !pkey.matches(header.bth.pkey) {
        return Err(RxDrop::PKey);
    }
    let same_route = match (&path.grh, &header.grh) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => ours.dgid == theirs.sgid && ours.sgid == theirs.dgid,
        _ => false,
    };
    if port != own_port || header.lrh.slid != path.dlid || !same_route {
        return Err(RxDrop::Source);
    }
    Ok(())
}

impl QpConfig {
    /// Whether packets ask the peer to follow.
    pub(super) fn asks_to_follow(&self) -> bool {
        self.mig_state == MigState::Migrated || self.unheard
    }

    /// Makes the alternate path, if there is one, the only one.
    pub(super) fn take_alternate(&mut self) -> bool {
        let Some(alternate) = self.alternate.take() else {
            return false;
        };
        self.path = alternate.path;
        self.port = alternate.port;
        self.pkey = alternate.pkey;
        self.pkey_index = alternate.pkey_index;
        self.timeout = alternate.timeout;
        self.reminder_floor = alternate.reminder_floor;
        self.mig_state = MigState::Migrated;
        self.unheard = true;
        true
    }
}
