// SPDX-License-Identifier: GPL-2.0

//! What SwitchInfo holds (IBA chapter "Subnet Management", attribute SwitchInfo).

use super::NO_PORT;
use wire::{
    Lid,
    PortNum, //
};

/// Entries of a block of the linear forwarding table.
pub(super) const LFT_BLOCK: usize = 64;

/// The largest linear forwarding table: one entry for every unicast LID and for LID 0.
pub(super) const LFT_MAX: usize = 0xc000;

/// Entries of a block of the multicast forwarding table.
pub(super) const MFT_BLOCK: usize = 32;

/// The largest multicast forwarding table: whole blocks below the permissive LID.
pub(super) const MFT_MAX: usize = 0x3fe0;

/// The settable components of SwitchInfo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    /// LinearFDBTop: LIDs above it lead nowhere.
    pub(super) linear_top: Lid,
    /// DefaultPort; kept, but only random forwarding tables use it.
    pub(super) default_port: PortNum,
    /// DefaultMulticastPrimaryPort.
    pub(super) default_multicast_primary: PortNum,
    /// DefaultMulticastNotPrimaryPort.
    pub(super) default_multicast_other: PortNum,
    /// LifeTimeValue, 5 bits; packets do not age here.
    pub(super) life_time: u8,
    /// PortStateChange: a link went up or down since management last cleared it.
    pub(super) port_state_change: bool,
}

impl Config {
    /// The values of power-up.
    pub(super) const fn new() -> Self {
        Self {
            linear_top: Lid::NONE,
            default_port: PortNum::new(NO_PORT),
            default_multicast_primary: PortNum::new(NO_PORT),
            default_multicast_other: PortNum::new(NO_PORT),
            life_time: 0,
            port_state_change: false,
        }
    }
}
