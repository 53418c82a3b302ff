// SPDX-License-Identifier: GPL-2.0

//! Packets that have come and wait for memory.
//!
//! Memory may come late, and a peer that hears nothing asks again. A request that waits is not kept twice: its
//! peer is told to pause (RNR NAK), as real HCAs do whose memory is on demand, and hears of the end of the wait by
//! the acknowledgement. A requester whose answers wait on its own side does not take its peer for silent.

use wire::header::Header;
use wire::Psn;

/// RNR timer code for the peer of a queue pair that waits for memory, 245.76 ms. The acknowledgement ends the
/// pause, so that its length is only what one retry of the peer is worth.
pub(super) const PAUSE: u8 = 29;

/// What waits for memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferral {
    /// PSN of the newest request.
    newest: Option<Psn>,
    /// Whether there is an answer.
    answers: bool,
}

impl Deferral {
    /// A packet has to wait. False if it is a request that waits already, and is not to be kept again.
    pub(super) fn add(&mut self, header: &Header) -> bool {
        if header.bth.opcode.is_response() {
            self.answers = true;
            return true;
        }
        let psn = header.bth.psn;
        if self.holds(psn) {
            return false;
        }
        self.newest = Some(psn);
        true
    }

    /// Whether the request with this PSN may be among those that wait.
    pub(super) fn holds(&self, psn: Psn) -> bool {
        self.newest.is_some_and(|newest| !psn.is_after(newest))
    }

    /// Whether an answer waits.
    pub(super) fn has_answers(&self) -> bool {
        self.answers
    }
}
