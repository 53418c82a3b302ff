// SPDX-License-Identifier: GPL-2.0

//! How long a connection waits. All times are codes v for 4.096 us * 2^v.

use super::Conn;
use crate::time::{
    Duration,
    Instant, //
};
use wire::timer::exponential_ns;

/// No peer is waited for longer than this at a time, whatever it says: 8.6 s.
pub const LONGEST: u8 = 21;

/// How long the peer is asked to be patient when the consumer takes its time over a LAP: 4.3 s.
pub(super) const PATIENCE: u8 = 20;

/// A time by its code.
pub(super) fn time(code: u8) -> Duration {
    Duration::from_nanos(exponential_ns(code.min(LONGEST)))
}

impl Conn {
    /// A packet's longest way, one way: half of what an acknowledgement may take.
    fn packet_life(&self) -> Duration {
        time(self.primary.ack_timeout.saturating_sub(1))
    }

    /// When an answer to what is sent now is overdue.
    pub(super) fn answer_due(&self, now: Instant, response: u8) -> Instant {
        let way = self.packet_life();
        now.after(way).after(way).after(time(response))
    }

    /// When the patience that a peer has asked for by MRA ends.
    pub(super) fn patience_ends(&self, now: Instant, service: u8) -> Instant {
        now.after(self.packet_life()).after(time(service))
    }

    /// When all packets of the connection have left the fabric.
    pub(super) fn wait_ends(&self, now: Instant) -> Instant {
        now.after(time(self.primary.ack_timeout))
    }
}
