// SPDX-License-Identifier: GPL-2.0

//! Packets that have come and wait for memory, or for a key that is in use.
//!
//! Memory may come late, and a peer that hears nothing asks again. A request that waits is not kept twice: its
//! peer is told to pause (RNR NAK), as real HCAs do whose memory is on demand, and hears of the end of the wait by
//! the acknowledgement. A key is in use for moments: who asks again meanwhile is told nothing, as a peer may allow
//! no pauses at all. A requester whose answers wait on its own side does not take its peer for silent.

use wire::header::Header;
use wire::Psn;

/// RNR timer code for the peer of a queue pair that waits for memory, 245.76 ms. The acknowledgement or answer ends the
/// pause, so that its length is only what one retry of the peer is worth.
pub(super) const PAUSE: u8 = 29;

/// What waits for memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferral {
    /// PSN of the newest request.
    newest: Option<Psn>,
    /// Whether there is an answer.
    answers: bool,
    /// Whether the oldest waits for a key.
    for_key: bool,
    /// Whether the peer was told to pause.
    paused: bool,
    /// PSN of the first request that there was no room for. None is kept after it.
    lost_request: Option<Psn>,
    /// Whether there was no room for an answer.
    lost_answer: bool,
}

impl Deferral {
    /// A packet has to wait. False if it is a request that waits already, and is not to be kept again, or one that
    /// comes after what was lost.
    pub(super) fn add(&mut self, header: &Header) -> bool {
        if header.bth.opcode.is_response() {
            self.answers = true;
            return true;
        }
        let psn = header.bth.psn;
        if self.lost_request.is_some() || self.holds(psn) {
            return false;
        }
        self.newest = Some(psn);
        true
    }

    /// The path is left that what waits has come by, so that none of it is taken. Requests come again, by another one,
    /// and wait anew.
    pub(super) fn on_path_left(&mut self) {
        self.newest = None;
        self.lost_request = None;
    }

    /// Whether the request with this PSN may be among those that wait.
    fn holds(&self, psn: Psn) -> bool {
        self.newest.is_some_and(|newest| !psn.is_after(newest))
    }

    /// The oldest waits for a key, or for memory.
    pub(super) fn begin(&mut self, for_key: bool) {
        self.for_key = for_key;
    }

    /// What the peer is told that has sent the request `psn`, which is not kept, if `expected` is what is missing. If that
    /// was lost, a later request does not ask for it again: who sends that hears of the loss when the wait is over.
    pub(super) fn pause(&mut self, psn: Psn, expected: Psn) -> Option<u8> {
        let asks = match self.lost_request {
            Some(lost) if lost == expected => lost == psn,
            Some(_) | None => self.holds(expected),
        };
        let waits = asks && !self.for_key;
        self.paused |= waits;
        waits.then_some(PAUSE)
    }

    /// Whether the peer was told to pause.
    pub(super) fn has_paused(&self) -> bool {
        self.paused
    }

    /// There was no room for a packet.
    pub(super) fn lose(&mut self, header: &Header) {
        if header.bth.opcode.is_response() {
            self.lost_answer = true;
        } else {
            self.lost_request.get_or_insert(header.bth.psn);
        }
    }

    /// PSN of the first request that was lost.
    pub(super) fn lost_request(&self) -> Option<Psn> {
        self.lost_request
    }

    /// Whether an answer was lost.
    pub(super) fn has_lost_answer(&self) -> bool {
        self.lost_answer
    }

    /// Whether an answer waits.
    pub(super) fn has_answers(&self) -> bool {
        self.answers
    }
}
