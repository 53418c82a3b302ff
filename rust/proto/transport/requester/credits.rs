// SPDX-License-Identifier: GPL-2.0

//! How many messages the peer has receive work requests for.
//!
//! Messages are numbered from 1 on, all that the peer counts: also those that take no receive work request. An
//! acknowledgement tells how many are done, and how many more may come; together that is the limit. One message
//! may go beyond it, so that a peer whose receives were posted since, or whose ACK was lost, is asked.
//!
//! A READ that is repeated in parts counts more than once at the peer. The numbers agree again when all is
//! acknowledged.
//!
//! Source: IBA "End-to-End (Message Level) Flow Control".

use wire::aeth::{
    self,
    Aeth,
    Syndrome, //
};

/// Message sequence numbers have 24 bits.
const MASK: u32 = 0xff_ffff;

/// Half of the numbers: those from one on that are after it.
const HALF: u32 = 1 << 23;

/// The limit of a requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Credits {
    /// Number of the last message that has begun.
    begun: u32,
    /// Number of the last message that the peer has a receive for; `None` if it has no flow control.
    limit: Option<u32>,
}

impl Default for Credits {
    /// Before the peer has said anything it is asked by one message.
    fn default() -> Self {
        Self {
            begun: 0,
            limit: Some(0),
        }
    }
}

/// Whether number `a` comes after `b`.
fn is_after(a: u32, b: u32) -> bool {
    let distance = a.wrapping_sub(b) & MASK;
    distance != 0 && distance < HALF
}

impl Credits {
    /// Whether the next message may begin if it takes a receive work request.
    pub(super) fn cover_next(&self) -> bool {
        // The next one is `begun + 1`, and may be `limit + 1`.
        self.limit.is_none_or(|limit| !is_after(self.begun, limit))
    }

    /// A message has begun, of whatever kind.
    pub(super) fn on_begun(&mut self) {
        self.begun = self.begun.wrapping_add(1) & MASK;
    }

    /// The peer has acknowledged something; `all` if that is everything. Returns whether more messages may begin.
    pub(super) fn on_aeth(&mut self, aeth: &Aeth, all: bool) -> bool {
        let before = self.limit;
        let Syndrome::Ack { credits } = aeth.syndrome else {
            return false;
        };
        if all {
            self.begun = aeth.msn & MASK;
        }
        self.limit = match (self.limit, aeth::credits(credits)) {
            (None, _) | (_, None) => None,
            (Some(limit), Some(credits)) => {
                let told = aeth.msn.wrapping_add(u32::from(credits)) & MASK;
                // What was said before is not taken back.
                Some(if is_after(told, limit) { told } else { limit })
            }
        };
        self.limit != before
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_credits))]
mod tests {
    use super::*;

    fn ack(msn: u32, credits: u8) -> Aeth {
        Aeth {
            syndrome: Syndrome::Ack { credits },
            msn,
        }
    }

    /// Messages that may begin now.
    fn allowed(credits: &mut Credits) -> u32 {
        let mut count = 0;
        while count < 100 && credits.cover_next() {
            credits.on_begun();
            count += 1;
        }
        count
    }

    #[test]
    fn one_goes_beyond_the_limit() {
        let mut credits = Credits::default();
        assert_eq!(allowed(&mut credits), 1);
        // Code 5 stands for 6.
        credits.on_aeth(&ack(1, 5), true);
        assert_eq!(allowed(&mut credits), 7);
        credits.on_aeth(&ack(5, 0), false);
        assert_eq!(allowed(&mut credits), 0);
        credits.on_aeth(&ack(8, 0), true);
        assert_eq!(allowed(&mut credits), 1);
    }

    #[test]
    fn numbers_wrap() {
        let mut credits = Credits::default();
        credits.on_aeth(&ack(0x7f_ffff, 0), true);
        credits.on_aeth(&ack(0xff_fffd, 0), true);
        assert_eq!(allowed(&mut credits), 1);
        credits.on_aeth(&ack(0xff_fffe, 4), true);
        assert_eq!(allowed(&mut credits), 5);
        assert_eq!(credits.begun, 3);
    }

    #[test]
    fn a_peer_without_flow_control_sets_no_limit() {
        let mut credits = Credits::default();
        credits.on_aeth(&ack(0, aeth::NO_FLOW_CONTROL), false);
        assert_eq!(allowed(&mut credits), 100);
        credits.on_aeth(&ack(100, 0), true);
        assert_eq!(allowed(&mut credits), 100);
    }

    #[test]
    fn an_old_word_takes_nothing_back() {
        let mut credits = Credits::default();
        credits.on_aeth(&ack(1, 4), true);
        credits.on_aeth(&ack(1, 2), false);
        credits.on_aeth(&ack(0, 0), false);
        assert_eq!(allowed(&mut credits), 5);
    }
}
