// SPDX-License-Identifier: GPL-2.0

//! Requests that wait, and what else arrives.

use super::{
    Address,
    Agent,
    Storage, //
};
use crate::fabric::Mad;
use crate::time::Instant;
use wire::mad::sa::rmpp::{
    flag,
    kind, //
};
use wire::mad::sa::Sa;
use wire::mad::{
    class,
    method,
    MAD_LEN, //
};

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub(super) mad: Mad,
    pub(super) from: Address,
}

impl Request {
    /// No request.
    pub const fn new() -> Self {
        Self {
            mad: [0; MAD_LEN],
            from: Address::NONE,
        }
    }

    pub(super) fn sa(&self) -> &Sa {
        Sa::from_bytes(&self.mad)
    }

    /// Whether the request is a message of one segment, which its sender wants acknowledged.
    pub(super) fn is_segment(&self) -> bool {
        let rmpp = self.sa().rmpp();
        rmpp.is_active() && rmpp.kind == kind::DATA && rmpp.flags & flag::LAST != 0
    }
}

impl Default for Request {
    fn default() -> Self {
        Self::new()
    }
}

/// The requests that wait: a ring.
///
/// # Invariants
///
/// `head` is less than the number of slots if there are any, `len` at most that number.
pub(super) struct Inbox<S: Storage> {
    slots: S::Requests,
    head: usize,
    len: usize,
}

impl<S: Storage> Inbox<S> {
    pub(super) const fn new(slots: S::Requests) -> Self {
        Self {
            slots,
            head: 0,
            len: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// The request that waits longest.
    pub(super) fn first(&self) -> Option<Request> {
        let slot = self.slots.get(self.head)?;
        (self.len != 0).then_some(*slot)
    }

    /// Takes the request that waits longest out.
    pub(super) fn pop(&mut self) {
        if self.len != 0 {
            self.head = self.place(1);
            self.len = self.len.saturating_sub(1);
        }
    }

    /// The slot so many behind the head.
    fn place(&self, behind: usize) -> usize {
        let at = self.head.saturating_add(behind);
        at.checked_rem(self.slots.len()).unwrap_or_default()
    }

    /// Whether the same request waits already.
    fn has(&self, request: &Request) -> bool {
        let tid = request.sa().header().tid;
        let mut all = (0..self.len).filter_map(|behind| self.slots.get(self.place(behind)));
        all.any(|other| {
            let header = other.sa().header();
            header.tid == tid
                && header.attr_id == request.sa().header().attr_id
                && other.from.is_same(&request.from)
        })
    }

    /// Adds a request. Returns whether there was room.
    fn push(&mut self, request: Request) -> bool {
        let place = self.place(self.len);
        if self.len >= self.slots.len() {
            return false;
        }
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = request;
            self.len = self.len.saturating_add(1);
        }
        true
    }
}

/// Whether a datagram with this method wants an answer. What is sent without a wish for one, and answers, do not.
const fn wants_answer(code: u8) -> bool {
    let silent = matches!(
        code,
        method::SEND | method::TRAP | method::REPORT | method::TRAP_REPRESS
    );
    code & method::RESPONSE == 0 && !silent
}

impl<S: Storage> Agent<S> {
    /// Takes a datagram that has arrived at QP1. Returns whether it was for subnet administration.
    pub fn on_gmp(&mut self, mad: &Mad, from: Address, now: Instant) -> bool {
        let sa = Sa::from_bytes(mad);
        let (header, rmpp) = (sa.header(), sa.rmpp());
        if header.mgmt_class != class::SUBN_ADM {
            return false;
        }
        // Answers have the key of this port, which is a full member.
        let from = Address {
            pkey: from.pkey.as_full(),
            ..from
        };
        if header.method == method::REPORT_RESP {
            self.reports
                .answered(header.tid, &self.subscriptions, &from);
        } else if rmpp.is_active() && matches!(rmpp.kind, kind::ACK | kind::STOP | kind::ABORT) {
            self.transfers.on_control(header.tid, &from, &rmpp, now);
        } else if rmpp.is_active() && rmpp.data1 > 1 {
            // No request that is supported is longer than a segment. Others are refused by the first.
        } else if wants_answer(header.method) {
            let request = Request { mad: *mad, from };
            let known = self.inbox.has(&request) || self.transfers.has(header.tid, &from);
            if !known && !self.inbox.push(request) {
                self.report.dropped = self.report.dropped.saturating_add(1);
            }
        }
        true
    }
}
