// SPDX-License-Identifier: GPL-2.0

//! What the consumers of a port are told after a management datagram or a link change.

/// One kind of asynchronous event of a port; each has its `IB_EVENT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortEvent {
    /// The GID prefix or an entry of the GID table changed.
    GidChange = 0,
    /// The LID or the LMC changed.
    LidChange = 1,
    /// The LID or service level of the master subnet manager changed.
    SmChange = 2,
    /// The subnet manager asks all clients to register again.
    ClientReregister = 3,
    /// The port became Active.
    PortActive = 4,
    /// The port left Active.
    PortError = 5,
    /// The P_Key table changed.
    PkeyChange = 6,
}

impl PortEvent {
    /// All of them, in the order in which they are dispatched: addresses before states, so that a consumer
    /// that wakes up on PortActive finds them in place.
    const ALL: [Self; 7] = [
        Self::GidChange,
        Self::LidChange,
        Self::SmChange,
        Self::ClientReregister,
        Self::PortActive,
        Self::PortError,
        Self::PkeyChange,
    ];

    const fn bit(self) -> u8 {
        match self {
            Self::GidChange => 1 << 0,
            Self::LidChange => 1 << 1,
            Self::SmChange => 1 << 2,
            Self::ClientReregister => 1 << 3,
            Self::PortActive => 1 << 4,
            Self::PortError => 1 << 5,
            Self::PkeyChange => 1 << 6,
        }
    }
}

/// A set of [`PortEvent`]s.
///
/// # Examples
///
/// ```
/// use proto::fabric::port::{PortEvent, PortEvents};
///
/// let mut events = PortEvents::NONE;
/// events.insert(PortEvent::PortActive);
/// events.insert(PortEvent::LidChange);
/// assert!(events.iter().eq([PortEvent::LidChange, PortEvent::PortActive]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortEvents(u8);

impl PortEvents {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The set of `event` alone.
    pub const fn just(event: PortEvent) -> Self {
        Self(event.bit())
    }

    /// Adds `event`.
    pub fn insert(&mut self, event: PortEvent) {
        self.0 |= event.bit();
    }

    /// Whether `event` is in the set.
    pub const fn contains(self, event: PortEvent) -> bool {
        self.0 & event.bit() != 0
    }

    /// Whether there is nothing to dispatch.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The events in the order in which they are to be dispatched.
    pub fn iter(self) -> impl Iterator<Item = PortEvent> {
        PortEvent::ALL
            .into_iter()
            .filter(move |event| self.contains(*event))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_events))]
mod tests {
    use super::*;

    #[test]
    fn come_out_in_dispatch_order() {
        let mut events = PortEvents::just(PortEvent::PkeyChange);
        events.insert(PortEvent::PortActive);
        events.insert(PortEvent::GidChange);
        events.insert(PortEvent::GidChange);
        let want = [
            PortEvent::GidChange,
            PortEvent::PortActive,
            PortEvent::PkeyChange,
        ];
        assert!(events.iter().eq(want));
        assert!(!events.is_empty());
        assert!(PortEvents::NONE.is_empty());
    }
}
