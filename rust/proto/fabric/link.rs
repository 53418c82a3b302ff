// SPDX-License-Identifier: GPL-2.0

//! The link of a port: its physical state, its logical state, what was negotiated (IBA chapter "Link
//! Layer", "Link States and Packet Handling", and the PortInfo components of these names).

/// The logical state of a port (PortInfo:PortState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LinkState {
    /// No link.
    #[default]
    Down = 1,
    /// The link is there; only subnet management packets pass.
    Init = 2,
    /// Configured: data is received, not yet sent.
    Armed = 3,
    /// Everything passes.
    Active = 4,
}

/// The physical state of a port (PortInfo:PortPhysicalState). Training takes no time here, so that Training
/// and Recovery do not occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PhysState {
    /// Asleep: wakes when told to poll.
    Sleep = 1,
    /// Looks for a peer.
    #[default]
    Polling = 2,
    /// Off until management turns it on.
    Disabled = 3,
    /// A peer is there.
    LinkUp = 5,
}

/// What the driver does for the cable of a port after a management datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkAction {
    /// Nothing.
    #[default]
    None,
    /// The port left its link and wants it again: take the peer down, then train.
    Retrain,
    /// The port left its link for good: take the peer down.
    Drop,
}

/// What a port offers its peer when they train: bit masks as in LinkWidthEnabled, LinkSpeedEnabled and
/// LinkSpeedExtEnabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    /// Widths: bit 0 is 1x, bit 1 4x, bit 2 8x, bit 3 12x.
    pub widths: u8,
    /// Speeds per lane: bit 0 is 2.5, bit 1 5, bit 2 10 Gb/s.
    pub speeds: u8,
    /// Extended speeds per lane: bit 0 is 14.0625 (FDR), bit 1 25.78125 Gb/s (EDR).
    pub ext_speeds: u8,
}

impl Phy {
    /// What every port here can do: up to 4x EDR, that is 100 Gb/s.
    pub const SUPPORTED: Self = Self {
        widths: 0b0011,
        speeds: 0b0111,
        ext_speeds: 0b0011,
    };

    /// The best of what both offer: one bit in each of `widths` and `speeds`, at most one in `ext_speeds`;
    /// `None` when there is no common width or speed.
    const fn negotiate(self, peer: Self) -> Option<Self> {
        let widths = highest_bit(self.widths & peer.widths);
        let speeds = highest_bit(self.speeds & peer.speeds);
        if widths == 0 || speeds == 0 {
            return None;
        }
        Some(Self {
            widths,
            speeds,
            ext_speeds: highest_bit(self.ext_speeds & peer.ext_speeds),
        })
    }
}

/// The highest bit of `mask` alone; 0 for 0.
const fn highest_bit(mask: u8) -> u8 {
    match mask.checked_ilog2() {
        Some(bit) => 1u8.wrapping_shl(bit),
        None => 0,
    }
}

/// The link half of a port.
///
/// # Invariants
///
/// `phys` is [`PhysState::LinkUp`] if and only if `state` is not [`LinkState::Down`].
#[derive(Clone, Copy, Debug)]
pub struct Link {
    state: LinkState,
    phys: PhysState,
    down_default: PhysState,
    enabled: Phy,
    active: Phy,
}

impl Link {
    /// A port without a cable, polling, with all it supports enabled.
    pub const fn new() -> Self {
        Self {
            state: LinkState::Down,
            phys: PhysState::Polling,
            down_default: PhysState::Polling,
            enabled: Phy::SUPPORTED,
            active: best(Phy::SUPPORTED),
        }
    }

    /// The logical state.
    pub const fn state(&self) -> LinkState {
        self.state
    }

    /// The physical state.
    pub const fn phys(&self) -> PhysState {
        self.phys
    }

    /// The state that the port takes when it loses its link: polling or asleep.
    pub const fn down_default(&self) -> PhysState {
        self.down_default
    }

    /// What is enabled; it takes effect when the link trains.
    pub const fn enabled(&self) -> Phy {
        self.enabled
    }

    /// What the link runs at: one bit in `widths` and `speeds`, at most one in `ext_speeds`. Without a link:
    /// what it ran at last, or the best supported.
    pub const fn active(&self) -> Phy {
        self.active
    }

    /// What to train with, if the port looks for a peer.
    pub const fn offer(&self) -> Option<Phy> {
        match self.phys {
            PhysState::Polling => Some(self.enabled),
            _ => None,
        }
    }

    /// Trains with `peer`: Down becomes Init. Returns whether the link came up now.
    pub(super) fn up(&mut self, peer: Phy) -> bool {
        let Some(offer) = self.offer() else {
            return false;
        };
        let Some(active) = offer.negotiate(peer) else {
            return false;
        };
        self.active = active;
        self.phys = PhysState::LinkUp;
        self.state = LinkState::Init;
        true
    }

    /// The peer is gone. Returns the state that the link had if it was up.
    pub(super) fn down(&mut self) -> Option<LinkState> {
        let old = self.state;
        if old == LinkState::Down {
            return None;
        }
        self.state = LinkState::Down;
        self.phys = self.down_default;
        Some(old)
    }

    /// Goes down by order of management and stays in `phys`.
    pub(super) fn force(&mut self, phys: PhysState) -> LinkAction {
        let was_up = self.state != LinkState::Down;
        self.state = LinkState::Down;
        self.phys = match phys {
            PhysState::LinkUp => PhysState::Polling,
            other => other,
        };
        match self.phys {
            PhysState::Polling => LinkAction::Retrain,
            _ if was_up => LinkAction::Drop,
            _ => LinkAction::None,
        }
    }

    /// Init or Armed becomes Armed. Returns whether management may ask for that now.
    pub(super) fn arm(&mut self) -> bool {
        match self.state {
            LinkState::Init | LinkState::Armed => {
                self.state = LinkState::Armed;
                true
            }
            LinkState::Down | LinkState::Active => false,
        }
    }

    /// Armed becomes Active. Returns whether it did.
    pub(super) fn activate(&mut self) -> bool {
        if self.state == LinkState::Armed {
            self.state = LinkState::Active;
            true
        } else {
            false
        }
    }

    /// Sets what an unset link falls back to; [`PhysState::LinkUp`] and `Disabled` are not possible values.
    pub(super) fn set_down_default(&mut self, phys: PhysState) {
        if matches!(phys, PhysState::Sleep | PhysState::Polling) {
            self.down_default = phys;
        }
    }

    /// Sets what the next training offers.
    pub(super) fn set_enabled(&mut self, enabled: Phy) {
        self.enabled = enabled;
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

/// The best width and speeds of `phy`.
const fn best(phy: Phy) -> Phy {
    Phy {
        widths: highest_bit(phy.widths),
        speeds: highest_bit(phy.speeds),
        ext_speeds: highest_bit(phy.ext_speeds),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_link))]
mod tests {
    use super::*;

    #[test]
    fn trains_at_the_best_common_rate() {
        let mut link = Link::new();
        let slow = Phy {
            widths: 0b0001,
            speeds: 0b0111,
            ext_speeds: 0,
        };
        assert!(link.up(slow));
        assert_eq!(
            link.active(),
            Phy {
                widths: 1,
                speeds: 4,
                ext_speeds: 0
            }
        );
        assert_eq!(link.state(), LinkState::Init);
        assert_eq!(link.phys(), PhysState::LinkUp);
        assert!(!link.up(Phy::SUPPORTED));
    }

    #[test]
    fn nothing_in_common_is_no_link() {
        let mut link = Link::new();
        let wide = Phy {
            widths: 0b1000,
            ..Phy::SUPPORTED
        };
        assert!(!link.up(wide));
        assert_eq!(link.state(), LinkState::Down);
    }

    #[test]
    fn only_the_allowed_steps() {
        let mut link = Link::new();
        assert!(!link.arm());
        assert!(!link.activate());
        assert!(link.up(Phy::SUPPORTED));
        assert!(!link.activate());
        assert!(link.arm());
        assert!(link.arm());
        assert!(link.activate());
        assert!(!link.activate());
        assert!(!link.arm());
        assert_eq!(link.down(), Some(LinkState::Active));
        assert_eq!(link.down(), None);
        assert_eq!(link.phys(), PhysState::Polling);
    }

    #[test]
    fn management_takes_it_down() {
        let mut link = Link::new();
        assert!(link.up(Phy::SUPPORTED));
        assert_eq!(link.force(PhysState::Disabled), LinkAction::Drop);
        assert_eq!(link.offer(), None);
        assert_eq!(link.force(PhysState::Disabled), LinkAction::None);
        assert_eq!(link.force(PhysState::Polling), LinkAction::Retrain);
        assert_eq!(link.force(PhysState::Polling), LinkAction::Retrain);
        assert!(link.up(Phy::SUPPORTED));
        assert_eq!(link.force(PhysState::Polling), LinkAction::Retrain);
    }
}
