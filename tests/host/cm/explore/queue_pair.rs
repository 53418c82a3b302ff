// SPDX-License-Identifier: GPL-2.0

//! The paths of a queue pair, and the rule by which it follows its peer.

use super::Rules;
use crate::ends::ACTIVE_LID;
use proto::transport::migration::{
    judge,
    Verdict, //
};
use proto::transport::{
    Alternate,
    MigState,
    PathAv,
    QpConfig, //
};
use wire::header::Header;
use wire::{
    Lid,
    PKey,
    PortNum, //
};

/// A queue pair's paths, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    pub(super) primary: u8,
    pub(super) alternate: Option<u8>,
    pub(super) migration: Migration,
}

/// [`MigState`] that can be hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Migration {
    Migrated,
    Rearm,
    Armed,
}

impl Migration {
    pub(super) fn state(self) -> MigState {
        match self {
            Self::Migrated => MigState::Migrated,
            Self::Rearm => MigState::Rearm,
            Self::Armed => MigState::Armed,
        }
    }
}

impl Pair {
    /// The consumer loads a path; an ARMED queue pair refuses.
    pub(super) fn load(&mut self, number: u8) -> bool {
        if self.migration == Migration::Armed {
            return false;
        }
        self.alternate = Some(number);
        self.migration = Migration::Rearm;
        true
    }

    pub(super) fn migrate(&mut self) {
        if let Some(alternate) = self.alternate.take() {
            self.primary = alternate;
            self.migration = Migration::Migrated;
        }
    }

    /// Whether it follows a peer that has migrated to the path `number`.
    pub(super) fn follows(&self, number: u8, rules: Rules) -> bool {
        let way = |number: u8| PathAv {
            dlid: Lid::new(ACTIVE_LID + u16::from(number)),
            ..PathAv::default()
        };
        let config = QpConfig {
            path: way(self.primary),
            port: PortNum::new(1 + self.primary),
            pkey: PKey::DEFAULT,
            alternate: self.alternate.map(|number| Alternate {
                path: way(number),
                port: PortNum::new(1 + number),
                pkey: PKey::DEFAULT,
                ..Alternate::default()
            }),
            mig_state: self.migration.state(),
            follow_unarmed: rules.follow,
            pardon_late: true,
            ..QpConfig::default()
        };
        let mut header = Header::default();
        header.lrh.slid = Lid::new(ACTIVE_LID + u16::from(number));
        header.bth.pkey = PKey::DEFAULT;
        header.bth.migreq = true;
        self.migration != Migration::Migrated
            && judge(&header, PortNum::new(1 + number), &config) == Verdict::Follow
    }
}
