// SPDX-License-Identifier: GPL-2.0

//! How much is done for connections of ib_cm: what the parameters of the module say, for each HCA.

use crate::device::Device;
use crate::params;
use kernel::sync::atomic::Relaxed;
use rdma::cm::Verdict;

/// What is done for connections of ib_cm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Level {
    /// Nothing.
    Off = 0,
    /// Paths that peers offer are taken.
    Respond = 1,
    /// And paths are offered.
    Full = 2,
}

const LEVELS: [(Level, &str); 3] = [
    (Level::Off, "off"),
    (Level::Respond, "respond"),
    (Level::Full, "full"),
];

impl Default for Level {
    /// What the parameter says.
    fn default() -> Self {
        Self::from_number(params::watch().into())
    }
}

impl Level {
    fn from_number(number: u32) -> Self {
        let level = LEVELS.iter().find(|(level, _)| *level as u32 == number);
        level.map_or(Self::Off, |(level, _)| *level)
    }

    /// That of an HCA.
    pub(crate) fn of(device: &Device) -> Self {
        Self::from_number(device.level.load(Relaxed))
    }

    /// Sets that of an HCA.
    pub(crate) fn set(self, device: &Device) {
        if self != Self::Off {
            rdma::cm::listen();
        }
        device.level.store(self as u32, Relaxed);
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        let level = LEVELS.iter().find(|(level, _)| *level == self);
        level.map_or("", |(_, name)| name)
    }

    /// The one that is called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let level = LEVELS.iter().find(|(_, known)| *known == name);
        level.map(|(level, _)| *level)
    }
}

/// What becomes of an event of a queue pair whose path was loaded here.
pub(super) fn withhold() -> Verdict {
    if params::watch_events() {
        Verdict::Pass
    } else {
        Verdict::Consumed
    }
}
