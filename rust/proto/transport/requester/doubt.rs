// SPDX-License-Identifier: GPL-2.0

//! Answers that were late, and were taken for lost.
//!
//! A [reminder](super::reminder) sends the oldest packet again, and waits. If what followed it was lost too, the answer
//! acknowledges that packet and no more, and all the others go again. If nothing was lost, and a queue has become longer
//! or a processor busy, the answer to what was sent first is still to come, and acknowledges more than that. Then
//! the rest is under way as well, and nothing else is sent again.
//!
//! Of an RDMA READ one packet is asked for again. What is more than that is of the first answer.
//!
//! A reminder is not what the IBA has a message repeated for, and the memory of one that its peer has may be gone by then.
//! So that is no error: the peer is asked by a question, and if it has not got the message, the ACK timeout has it
//! repeated.
//!
//! TCP knows this as forward RTO recovery (RFC 5682).

use super::{
    Mark,
    Requester,
    Window, //
};
use crate::transport::wqe::SendEntry;
use core::ops::DerefMut;
use wire::Psn;

/// What is true if nothing was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// One after the packet that is sent again.
    end: Psn,
    /// How far sending had come.
    mark: Mark,
    window: Window,
    allowance: u8,
}

impl<S: DerefMut<Target = [SendEntry]>> Requester<S> {
    /// For who is about to send again what may not be lost; `None` if the answer would not tell. One of a single packet is
    /// the same the first time and the second.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        if self.doubt.is_some() {
            // Since then the packet that it is about was sent again, and nothing else.
            return self.doubt;
        }
        let oldest = self.queue.get(self.oldest.index)?;
        let left = oldest.psn_count.wrapping_sub(self.oldest.packet);
        let tells = !oldest.wqe.op.is_fetch() || left > 1;
        (tells && self.cursor_psn == self.sent_end).then(|| Doubt {
            end: self.acked.add(1),
            mark: self.mark(),
            window: self.window,
            allowance: self.allowance,
        })
    }

    /// There is an answer: does not send again what it says is under way.
    pub(super) fn resolve(&mut self) {
        let Some(doubt) = self.doubt.filter(|doubt| !doubt.end.is_after(self.acked)) else {
            return;
        };
        self.doubt = None;
        if self.acked == doubt.end {
            return;
        }
        self.give_up_reminder(&doubt);
    }

    /// The memory of what was to be sent again is gone: asks, if it was for a reminder. Returns whether it was.
    pub(super) fn remind_without(&mut self) -> bool {
        let Some(doubt) = self.doubt.take() else {
            return false;
        };
        self.give_up_reminder(&doubt);
        self.asking.begin();
        true
    }

    /// Sends nothing again.
    fn give_up_reminder(&mut self, doubt: &Doubt) {
        self.window = doubt.window;
        self.allowance = doubt.allowance;
        self.part_end = doubt.mark.part_end;
        if self.acked != self.sent_end {
            // INVARIANT: So it was, and the oldest is still before it: some of what it is after is not acknowledged.
            self.cursor = doubt.mark.cursor;
            self.cursor_psn = doubt.mark.cursor_psn;
            self.asking = doubt.mark.asking;
        }
    }
}
