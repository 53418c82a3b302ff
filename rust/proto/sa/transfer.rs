// SPDX-License-Identifier: GPL-2.0

//! Tables on their way: the sender of reliable multi-packet transactions (IBA "Reliable Multi-Packet Transaction
//! Protocol", "Sender-initiated Transfer").

use super::{
    Address,
    Report,
    Storage,
    Transmit, //
};
use crate::time::{
    Duration,
    Instant, //
};
use wire::mad::sa::rmpp::{
    self,
    flag,
    kind,
    Rmpp, //
};
use wire::mad::sa::{
    Sa,
    DATA_LEN, //
};
use wire::mad::MadHeader;

/// Bytes of each segment that the length of a message counts besides the data.
const CLASS_HEADER: u32 = 20;

/// What is the same in all segments of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Title {
    pub(super) to: Address,
    pub(super) header: MadHeader,
    pub(super) attribute_offset: u16,
    pub(super) component_mask: u64,
}

/// A table on its way; or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transfer(Option<Progress>);

impl Transfer {
    /// No table.
    pub const fn new() -> Self {
        Self(None)
    }
}

/// How far a table is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    title: Title,
    start: usize,
    len: usize,
    /// The last segment of those that have all arrived.
    acked: u32,
    /// The last segment that may be sent.
    window: u32,
    /// The segment that is sent next.
    next: u32,
    /// When the first segment that has not arrived is sent again. Only its arrival puts that off.
    due: Instant,
    tries_left: u8,
    /// Why the receiver is to be told that there is no more.
    abort: Option<u8>,
}

impl Progress {
    /// The number of segments.
    fn segments(&self) -> u32 {
        self.len.div_ceil(DATA_LEN).max(1) as u32
    }

    fn control(&self, kind: u8, status: u8) -> Sa {
        let mut sa = Sa::new(&self.title.header);
        sa.set_attribute_offset(self.title.attribute_offset);
        sa.set_component_mask(self.title.component_mask);
        sa.set_rmpp(&Rmpp {
            version: rmpp::VERSION,
            kind,
            resp_time: rmpp::NO_RESP_TIME,
            flags: flag::ACTIVE,
            status,
            data1: 0,
            data2: 0,
        });
        sa
    }

    /// What tells the receiver that there is no more.
    fn end(&self, status: u8) -> Transmit {
        Transmit {
            mad: *self.control(kind::ABORT, status).as_bytes(),
            to: self.title.to,
        }
    }

    /// A segment, from 1.
    fn segment(&self, number: u32, table: &[u8]) -> Transmit {
        let segments = self.segments();
        let mut sa = self.control(kind::DATA, rmpp::status::NORMAL);
        let mut flags = flag::ACTIVE;
        let first = (number.saturating_sub(1) as usize).saturating_mul(DATA_LEN);
        let rest = self.len.saturating_sub(first);
        let mut length = 0;
        if number == 1 {
            flags |= flag::FIRST;
            length = (self.len as u32).saturating_add(segments.saturating_mul(CLASS_HEADER));
        }
        if number == segments {
            flags |= flag::LAST;
            length = (rest as u32).saturating_add(CLASS_HEADER);
        }
        sa.set_rmpp(&Rmpp {
            flags,
            data1: number,
            data2: length,
            ..sa.rmpp()
        });
        let from = self.start.saturating_add(first);
        let bytes = table.iter().skip(from).take(rest);
        for (to, byte) in sa.data_mut().iter_mut().zip(bytes) {
            *to = *byte;
        }
        Transmit {
            mad: *sa.as_bytes(),
            to: self.title.to,
        }
    }
}

/// The tables on their way.
///
/// # Invariants
///
/// The parts of `tables` that transfers have do not overlap.
pub(super) struct Transfers<S: Storage> {
    slots: S::Transfers,
    tables: S::Tables,
    /// The slot whose turn it is.
    turn: usize,
    timeout: Duration,
    tries: u8,
}

impl<S: Storage> Transfers<S> {
    pub(super) fn new(
        mut slots: S::Transfers,
        tables: S::Tables,
        timeout: Duration,
        tries: u8,
    ) -> Self {
        slots.fill(Transfer::new());
        Self {
            slots,
            tables,
            turn: 0,
            timeout,
            tries,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(Transfer::new());
    }

    /// The tables on their way.
    fn under_way(&self) -> impl Iterator<Item = &Progress> + Clone {
        self.slots.iter().filter_map(|slot| slot.0.as_ref())
    }

    /// Whether the answer to a request is on its way.
    pub(super) fn has(&self, tid: u64, to: &Address) -> bool {
        let mut all = self.under_way();
        all.any(|known| known.title.header.tid == tid && known.title.to.is_same(to))
    }

    /// The largest part of the tables that is free: where it begins, and its length. `None` if no more tables may be on
    /// their way.
    pub(super) fn room(&self) -> Option<(usize, usize)> {
        self.slots.iter().find(|slot| slot.0.is_none())?;
        let used = || self.under_way().filter(|known| known.len != 0);
        let ends = used().map(|slot| slot.start.saturating_add(slot.len));
        let starts = core::iter::once(0).chain(ends);
        let gaps = starts.map(|start| {
            let inside = used()
                .any(|slot| slot.start <= start && start < slot.start.saturating_add(slot.len));
            let after = used().map(|slot| slot.start).filter(|next| *next >= start);
            let end = after.min().unwrap_or(self.tables.len());
            let len = if inside { 0 } else { end.saturating_sub(start) };
            (start, len)
        });
        gaps.max_by_key(|(_, len)| *len)
    }

    /// A part of the tables, to be written.
    pub(super) fn part(&mut self, start: usize, len: usize) -> Option<&mut [u8]> {
        self.tables.get_mut(start..start.checked_add(len)?)
    }

    /// Begins to send a part of the tables, of which nothing else is made before this.
    pub(super) fn start(&mut self, title: Title, start: usize, len: usize, now: Instant) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.0.is_none()) {
            slot.0 = Some(Progress {
                title,
                start,
                len,
                acked: 0,
                window: 1,
                next: 1,
                due: now,
                tries_left: self.tries,
                abort: None,
            });
        }
    }

    /// The next segment that may be sent.
    pub(super) fn poll(&mut self, now: Instant, report: &mut Report) -> Option<Transmit> {
        for _ in 0..self.slots.len() {
            let next = self.turn.saturating_add(1);
            self.turn = next.checked_rem(self.slots.len()).unwrap_or_default();
            let Some(Transfer(slot)) = self.slots.get_mut(self.turn) else {
                continue;
            };
            let Some(transfer) = slot else {
                continue;
            };
            if let Some(status) = transfer.abort {
                let end = transfer.end(status);
                *slot = None;
                return Some(end);
            }
            let waits = transfer.next > transfer.window.min(transfer.segments());
            if waits && transfer.due > now {
                continue;
            }
            if waits {
                // What is not acknowledged is sent again.
                transfer.next = transfer.acked.saturating_add(1);
            }
            if transfer.next == transfer.acked.saturating_add(1) {
                if transfer.tries_left == 0 {
                    report.given_up = report.given_up.saturating_add(1);
                    let end = transfer.end(rmpp::status::TOO_MANY_RETRIES);
                    *slot = None;
                    return Some(end);
                }
                transfer.tries_left = transfer.tries_left.saturating_sub(1);
                transfer.due = now.after(self.timeout);
            }
            let number = transfer.next;
            transfer.next = number.saturating_add(1);
            return Some(transfer.segment(number, &self.tables));
        }
        None
    }

    /// When [`Self::poll`] will next have something.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.under_way().map(|known| known.due).min()
    }

    /// The receiver tells what has arrived, or that it wants no more.
    pub(super) fn on_control(&mut self, tid: u64, from: &Address, told: &Rmpp, now: Instant) {
        let tries = self.tries;
        let found = self.slots.iter_mut().find(|slot| {
            slot.0.is_some_and(|known| {
                let title = &known.title;
                title.header.tid == tid && title.to.is_same(from) && known.abort.is_none()
            })
        });
        let Some(Transfer(slot)) = found else {
            return;
        };
        let Some(transfer) = slot else {
            return;
        };
        if told.kind != kind::ACK {
            *slot = None;
            return;
        }
        let (segment, window) = (told.data1, told.data2);
        let sent = transfer.next.saturating_sub(1).max(transfer.acked);
        transfer.abort = if told.version != rmpp::VERSION {
            Some(rmpp::status::UNSUPPORTED_VERSION)
        } else if told.status != rmpp::status::NORMAL {
            Some(rmpp::status::ILLEGAL_STATUS)
        } else if window < segment {
            Some(rmpp::status::WINDOW_TOO_SMALL)
        } else if segment > transfer.window.min(transfer.segments()) {
            Some(rmpp::status::SEGMENT_TOO_BIG)
        } else {
            None
        };
        if transfer.abort.is_some() {
            transfer.due = now;
            return;
        }
        if segment >= transfer.segments() {
            *slot = None;
            return;
        }
        if segment < transfer.acked || window < transfer.window {
            return;
        }
        if segment > transfer.acked {
            transfer.acked = segment;
            transfer.tries_left = tries;
            transfer.next = sent.max(segment).saturating_add(1);
            transfer.due = now.after(self.timeout);
        }
        transfer.window = window;
    }
}
