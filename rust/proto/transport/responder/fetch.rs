// SPDX-License-Identifier: GPL-2.0

//! RDMA READ, atomic and placement operations that the peer asked for: their answers, now and again.
//!
//! The last operations are kept, as many as the peer may have outstanding: a new one proves that the oldest
//! was answered. Atomic operations, ATOMIC WRITE and FLUSH are executed once, and the result is kept. An RDMA
//! READ that is asked for again is read again from the packet that the peer names. If its memory has gone since,
//! the repetition is dropped: the network may have doubled a request, or been slow with an answer, and a peer that
//! has its answer may well have had the memory invalidated.
//!
//! Source: IBA "RDMA READ Responses", "ATOMIC Operations", and annex A19 "Memory Placement Extensions".

use crate::transport::config::QpConfig;
use crate::transport::env::{
    Access,
    AtomicOp,
    Env,
    Placement, //
};
use crate::transport::inbound::Fault;
use crate::transport::segment::{
    connected_header,
    Payload,
    Piece,
    Place,
    TxLimits,
    TxSegment, //
};
use crate::transport::send_queue::ring_capacity;
use crate::transport::wqe::{
    ATOMIC_LEN,
    MAX_MESSAGE, //
};
use core::cmp::Ordering;
use core::ops::DerefMut;
use wire::aeth::Aeth;
use wire::atomic::AtomicAckEth;
use wire::feth::{
    self,
    Selectivity, //
};
use wire::header::Header;
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::{
    Key,
    Psn, //
};

/// An operation that is answered with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    Read {
        rkey: Key,
        va: u64,
        len: u32,
    },
    Atomic {
        original: u64,
    },
    /// ATOMIC WRITE or FLUSH.
    Placement(Operation),
}

/// Room to remember one RDMA READ or atomic operation that the peer asked for.
///
/// # Invariants
///
/// `start <= next <= end <= count`, `rest.0 <= rest.1 <= count`, and `out <= count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    fetch: Fetch,
    /// PSN of the first packet of the answer.
    first: Psn,
    /// Packets of the answer.
    count: u32,
    /// Where the present answer began.
    start: u32,
    /// The packet to send next; `end` when the answer is out.
    next: u32,
    /// Where the present answer ends.
    end: u32,
    /// The packets that are sent after that: of an answer which was not out when some of it was asked for again.
    rest: (u32, u32),
    /// One after the last packet that has been out.
    out: u32,
    /// How far the messages have come with the operation, and how many more may.
    aeth: Aeth,
}

impl Default for Resource {
    fn default() -> Self {
        Self {
            fetch: Fetch::Atomic { original: 0 },
            first: Psn::new(0),
            count: 0,
            start: 0,
            next: 0,
            end: 0,
            rest: (0, 0),
            out: 0,
            aeth: Aeth::default(),
        }
    }
}

impl Resource {
    fn is_pending(&self) -> bool {
        self.next != self.end || self.rest.0 != self.rest.1
    }

    /// Goes on with the rest if all before that is out.
    fn proceed(&mut self) {
        if self.next == self.end {
            (self.next, self.end) = core::mem::take(&mut self.rest);
            self.start = self.next;
        }
    }

    /// Answers the packets from `at` to before `end` again. Returns whether there is something to send for it.
    ///
    /// What is not out yet need not be sent again, and is not lost to one that asks for less: the peer asks for a
    /// single packet when the answer is late, and does not expect it to end there.
    fn repeat(&mut self, at: u32, end: u32) -> bool {
        let rest = match self.rest {
            (from, to) if from == to => (self.next, self.end),
            rest => rest,
        };
        if at >= rest.0 && end <= rest.1 {
            return false;
        }
        // INVARIANT: `at` is less than `end`, and neither that nor what was pending is more than `count`.
        self.rest = (0, 0);
        self.end = end;
        if rest.0 != rest.1 && at < rest.0 && end < rest.1 {
            if end < rest.0 {
                self.rest = rest;
            } else {
                self.end = rest.1;
            }
        }
        self.start = at;
        self.next = at;
        true
    }

    /// Whether the answer is one packet with at most so many bytes.
    fn is_short(&self, most: u32) -> bool {
        match self.fetch {
            Fetch::Read { len, .. } => self.count == 1 && len <= most,
            Fetch::Atomic { .. } | Fetch::Placement(_) => true,
        }
    }

    /// The end of the part of this answer that a repeated request names, which begins with packet `at`: a peer
    /// may ask for less than before, and for more, of which it gets what this operation has. `None` if it is
    /// another request.
    fn asked_until(&self, at: u32, header: &Header, config: &QpConfig) -> Option<u32> {
        match (self.fetch, header.reth) {
            (Fetch::Read { rkey, va, len }, Some(reth)) => {
                let offset = at.wrapping_shl(config.mtu.shift());
                let end = at.checked_add(config.mtu.packets(reth.dma_len))?;
                let part = end.wrapping_sub(at).wrapping_shl(config.mtu.shift());
                let fits = match end.cmp(&self.count) {
                    Ordering::Less => reth.dma_len == part,
                    Ordering::Equal => reth.dma_len == len.saturating_sub(offset),
                    Ordering::Greater => true,
                };
                let same = reth.rkey == rkey && reth.va == va.wrapping_add(u64::from(offset));
                (same && fits).then_some(end.min(self.count))
            }
            (Fetch::Atomic { .. }, None) => Some(self.count),
            (Fetch::Placement(operation), Some(_)) => {
                (operation == header.bth.opcode.operation()).then_some(self.count)
            }
            _ => None,
        }
    }
}

/// The segment of an answer that was polled last, for as long as its operation is as old as it was then.
#[derive(Clone, Copy, Debug)]
struct Polled {
    /// How many operations before the newest one it belongs to, counted from 1.
    age: u32,
    psn: Psn,
    /// The operation's `next` and `out` before.
    next: u32,
    out: u32,
}

/// The operations that are remembered.
///
/// # Invariants
///
/// `kept <= capacity`, which is a power of two or 0.
pub(super) struct Fetches<R> {
    ring: R,
    capacity: u32,
    /// Number of the next operation, counted from the first one ever, modulo 2^32.
    newest: u32,
    /// How many of the last ones are remembered.
    kept: u32,
    /// Whether some answer may be pending.
    pending: bool,
    /// The number of the oldest operation whose answer may be.
    oldest: u32,
    /// Whether the segment that is next was polled, and its memory was not there.
    absent: bool,
    /// The segment that was polled last.
    polled: Option<Polled>,
}

impl<R: DerefMut<Target = [Resource]>> Fetches<R> {
    pub(super) fn new(ring: R) -> Self {
        let capacity = ring_capacity(ring.len());
        Self {
            ring,
            capacity,
            newest: 0,
            kept: 0,
            pending: false,
            oldest: 0,
            absent: false,
            polled: None,
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Whether some answer may be pending.
    pub(super) fn is_pending(&self) -> bool {
        self.pending
    }

    /// So many of the newest operations may have a pending answer.
    fn waiting(&self) -> u32 {
        match self.pending {
            true => self.newest.wrapping_sub(self.oldest).min(self.kept),
            false => 0,
        }
    }

    /// The answer to the operation that is `age` before the newest one is pending.
    fn owe(&mut self, age: u32) {
        self.oldest = self.newest.wrapping_sub(age.max(self.waiting()));
        self.pending = true;
    }

    /// Whether some answer is pending. The last one may be out without [`Self::poll`] having looked for more.
    pub(super) fn owes(&mut self) -> bool {
        if self.pending {
            let mut ages = 1..=self.waiting();
            self.pending = ages.any(|age| {
                self.get_mut(age)
                    .is_some_and(|resource| resource.is_pending())
            });
        }
        self.pending
    }

    /// Whether some pending answer is to be read by this key.
    pub(super) fn is_to_read(&mut self, key: Key) -> bool {
        if !self.pending {
            return false;
        }
        (1..=self.waiting()).any(|age| {
            self.get_mut(age).is_some_and(|resource| {
                let by_key = matches!(resource.fetch, Fetch::Read { rkey, .. } if rkey == key);
                by_key && resource.is_pending()
            })
        })
    }

    /// Forgets all operations.
    pub(super) fn clear(&mut self) {
        self.kept = 0;
        self.pending = false;
        self.absent = false;
        self.polled = None;
    }

    /// The remembered operation that is `age` before the newest one, counted from 1.
    fn get_mut(&mut self, age: u32) -> Option<&mut Resource> {
        let position = self.newest.wrapping_sub(age) & self.capacity.wrapping_sub(1);
        self.ring.get_mut(position as usize)
    }

    /// Takes a new operation with `len` bytes of payload in `span` packets, executes it unless it is an RDMA
    /// READ, and returns the number of its PSNs.
    pub(super) fn accept(
        &mut self,
        header: &Header,
        (span, len): (u32, u32),
        config: &QpConfig,
        env: &mut impl Env,
    ) -> Result<u32, Fault> {
        self.make_room(config)?;
        let operation = header.bth.opcode.operation();
        let expected = match operation {
            Operation::AtomicWrite => ATOMIC_LEN,
            _ => 0,
        };
        if (span, len) != (1, expected) {
            return Err(Fault::Invalid);
        }
        let (fetch, count) = match operation {
            Operation::ReadRequest => read(header, config, env)?,
            Operation::AtomicWrite => atomic_write(header, config, env)?,
            Operation::Flush => flush(header, config, env)?,
            _ => atomic(header, config, env)?,
        };
        self.newest = self.newest.wrapping_add(1);
        self.polled = None;
        // INVARIANT: There was room.
        self.kept = self.kept.wrapping_add(1);
        self.owe(1);
        if let Some(resource) = self.get_mut(1) {
            // INVARIANT: 0 <= 0 <= count <= count, and 0 <= 0 <= count.
            *resource = Resource {
                fetch,
                first: header.bth.psn,
                count,
                start: 0,
                next: 0,
                end: count,
                rest: (0, 0),
                out: 0,
                aeth: Aeth::default(),
            };
        }
        Ok(count)
    }

    /// What the answer to the operation accepted last acknowledges.
    pub(super) fn note_aeth(&mut self, aeth: Aeth) {
        if let Some(resource) = self.get_mut(1) {
            resource.aeth = aeth;
        }
    }

    /// Forgets the oldest operations until there is room for one more.
    fn make_room(&mut self, config: &QpConfig) -> Result<(), Fault> {
        let limit = u32::from(config.max_dest_rd_atomic).min(self.capacity);
        if limit == 0 {
            return Err(Fault::Invalid);
        }
        while self.kept >= limit {
            let oldest = self.kept;
            // An answer that has never been out is still awaited: the peer has more outstanding than it may.
            if self
                .get_mut(oldest)
                .is_some_and(|resource| resource.out < resource.count)
            {
                return Err(Fault::Invalid);
            }
            self.kept = oldest.saturating_sub(1);
        }
        Ok(())
    }

    /// Answers an operation again, if it is remembered.
    pub(super) fn replay(&mut self, header: &Header, config: &QpConfig) {
        let psn = header.bth.psn;
        for age in 1..=self.kept {
            let Some(resource) = self.get_mut(age) else {
                break;
            };
            let at = psn.sub(resource.first);
            if at >= resource.count {
                continue;
            }
            let Some(end) = resource.asked_until(at, header, config) else {
                break;
            };
            if resource.repeat(at, end) {
                // Another segment is next now, unless the one that waits is of an older operation.
                self.absent &= age < self.waiting();
                self.owe(age);
            }
            break;
        }
    }

    /// The memory of the segment polled last is gone. Returns the PSN of the first packet of it that the peer cannot have
    /// yet, if there is one: then all answers are forgotten. Who has what is before that would take a smaller one for
    /// old. Else the repetition is dropped of what the peer had, and what it cannot have yet is next.
    pub(super) fn revoke(&mut self) -> Option<Psn> {
        let polled = self.polled.take()?;
        if let Some(resource) = self.get_mut(polled.age) {
            if resource.next <= polled.out {
                // INVARIANT: Neither before what it was nor after `end`.
                resource.next = resource.end.min(polled.out);
                return None;
            }
        }
        self.clear();
        Some(polled.psn.add(polled.out.saturating_sub(polled.next)))
    }

    /// Whether what is to be sent next waits for its memory.
    pub(super) fn is_held_up(&self) -> bool {
        self.absent
    }

    /// PSN of what is to be sent next, if that waits for its memory. All before it are out.
    pub(super) fn held_up(&mut self) -> Option<Psn> {
        if !self.absent {
            return None;
        }
        for age in (1..=self.waiting()).rev() {
            let resource = self.get_mut(age)?;
            if resource.is_pending() {
                resource.proceed();
                return Some(resource.first.add(resource.next));
            }
        }
        None
    }

    /// Has the segment that was polled last be polled again, when its memory is there.
    pub(super) fn put_back(&mut self) {
        let Some(polled) = self.polled.take() else {
            return;
        };
        if let Some(resource) = self.get_mut(polled.age) {
            // INVARIANT: This is how it was.
            resource.next = polled.next;
            resource.out = polled.out;
            self.owe(polled.age);
            self.absent = true;
        }
    }

    /// The next segment of the oldest pending answer.
    pub(super) fn poll(&mut self, config: &QpConfig, limits: &TxLimits) -> Option<TxSegment> {
        self.absent = false;
        if !self.pending {
            return None;
        }
        for age in (1..=self.waiting()).rev() {
            let Some(resource) = self.get_mut(age) else {
                break;
            };
            if resource.is_pending() {
                resource.proceed();
                let (next, out) = (resource.next, resource.out);
                let segment = answer(resource, config, limits)?;
                // INVARIANT: `next` is at most `count`.
                resource.out = out.max(resource.next);
                // All before it are out.
                let left = match resource.is_pending() {
                    true => age,
                    false => age.wrapping_sub(1),
                };
                self.oldest = self.newest.wrapping_sub(left);
                self.pending = left > 0;
                self.polled = Some(Polled {
                    age,
                    psn: segment.header.bth.psn,
                    next,
                    out,
                });
                return Some(segment);
            }
        }
        self.pending = false;
        None
    }

    /// The answer to the newest operation, if it is the only one that is pending, and one packet with at most `most`
    /// bytes.
    pub(super) fn poll_short(
        &mut self,
        most: u32,
        config: &QpConfig,
        limits: &TxLimits,
    ) -> Option<TxSegment> {
        let newest = self.get_mut(1)?;
        if !newest.is_pending() || !newest.is_short(most) {
            return None;
        }
        for age in 2..=self.waiting() {
            if self.get_mut(age)?.is_pending() {
                return None;
            }
        }
        let segment = self.poll(config, limits);
        self.pending = false;
        segment
    }
}

/// Checks an RDMA READ request.
fn read(header: &Header, config: &QpConfig, env: &mut impl Env) -> Result<(Fetch, u32), Fault> {
    let reth = header.reth.ok_or(Fault::Invalid)?;
    let len = reth.dma_len;
    if len > MAX_MESSAGE {
        return Err(Fault::Invalid);
    }
    if !config.access.remote_read {
        return Err(Fault::Invalid);
    }
    if len != 0 {
        env.check_remote(reth.rkey, reth.va, len, Access::Read)?;
    }
    let fetch = Fetch::Read {
        rkey: reth.rkey,
        va: reth.va,
        len,
    };
    Ok((fetch, config.mtu.packets(len)))
}

/// The bits of an address that are 0 for an atomic access.
const ALIGNMENT_MASK: u64 = ATOMIC_LEN as u64 - 1;

/// Executes an ATOMIC WRITE.
fn atomic_write(
    header: &Header,
    config: &QpConfig,
    env: &mut impl Env,
) -> Result<(Fetch, u32), Fault> {
    let reth = header.reth.ok_or(Fault::Invalid)?;
    if reth.dma_len != ATOMIC_LEN || reth.va & ALIGNMENT_MASK != 0 {
        return Err(Fault::Invalid);
    }
    if !config.access.remote_write {
        return Err(Fault::Invalid);
    }
    env.atomic_write(reth.rkey, reth.va)?;
    Ok((Fetch::Placement(Operation::AtomicWrite), 1))
}

/// Executes a FLUSH. All requests before it have been executed.
fn flush(header: &Header, config: &QpConfig, env: &mut impl Env) -> Result<(Fetch, u32), Fault> {
    const KNOWN: u8 = feth::GLOBAL_VISIBILITY | feth::PERSISTENCE;
    let reth = header.reth.ok_or(Fault::Invalid)?;
    let feth = header.feth.ok_or(Fault::Invalid)?;
    let placement = Placement {
        global: feth.placement & feth::GLOBAL_VISIBILITY != 0,
        persistent: feth.placement & feth::PERSISTENCE != 0,
    };
    let range = if feth.selectivity == Selectivity::Range as u8 {
        Some((reth.va, reth.dma_len))
    } else {
        None
    };
    if feth.placement & !KNOWN != 0
        || feth.placement == 0
        || feth.selectivity > Selectivity::Region as u8
        || reth.dma_len > MAX_MESSAGE
    {
        return Err(Fault::Invalid);
    }
    if (placement.global && !config.access.flush_global)
        || (placement.persistent && !config.access.flush_persistent)
    {
        return Err(Fault::Invalid);
    }
    // As with RDMA READ and WRITE, no bytes need no key.
    if range.is_none_or(|(_, len)| len != 0) {
        env.flush(reth.rkey, range, placement)?;
    }
    Ok((Fetch::Placement(Operation::Flush), 1))
}

/// Executes an atomic operation.
fn atomic(header: &Header, config: &QpConfig, env: &mut impl Env) -> Result<(Fetch, u32), Fault> {
    let eth = header.atomic.ok_or(Fault::Invalid)?;
    if eth.va & ALIGNMENT_MASK != 0 {
        return Err(Fault::Invalid);
    }
    if !config.access.remote_atomic {
        return Err(Fault::Invalid);
    }
    let op = if header.bth.opcode.operation() == Operation::CompareSwap {
        AtomicOp::CompareSwap {
            compare: eth.compare,
            swap: eth.swap_add,
        }
    } else {
        AtomicOp::FetchAdd { add: eth.swap_add }
    };
    let original = env.atomic(eth.rkey, eth.va, op)?;
    Ok((Fetch::Atomic { original }, 1))
}

/// The next segment of an answer.
fn answer(resource: &mut Resource, config: &QpConfig, limits: &TxLimits) -> Option<TxSegment> {
    let psn = resource.first.add(resource.next);
    let (operation, piece, payload) = match resource.fetch {
        Fetch::Atomic { .. } | Fetch::Placement(_) => {
            let operation = match resource.fetch {
                Fetch::Atomic { .. } => Operation::AtomicAck,
                _ => Operation::ReadRespOnly,
            };
            let piece = Piece::cut(config.mtu, limits, (0, 1), 0, 1);
            (operation, piece, Payload::None)
        }
        Fetch::Read { rkey, va, len } => {
            let whole = (len, resource.count);
            let left = resource.end.wrapping_sub(resource.next);
            let piece = Piece::cut(config.mtu, limits, whole, resource.next, left);
            let ends = piece.span == left;
            let operation = match Place::new(resource.next == resource.start, ends) {
                Place::First => Operation::ReadRespFirst,
                Place::Middle => Operation::ReadRespMiddle,
                Place::Last => Operation::ReadRespLast,
                Place::Only => Operation::ReadRespOnly,
            };
            let payload = match piece.len {
                0 => Payload::None,
                len => Payload::Remote {
                    rkey,
                    va: va.wrapping_add(u64::from(piece.offset)),
                    len,
                },
            };
            (operation, piece, payload)
        }
    };
    let opcode = Opcode::new(Service::Rc, operation)?;
    let mut header = connected_header(config, limits, opcode, psn);
    if opcode.has_aeth() {
        header.aeth = Some(resource.aeth);
    }
    if let Fetch::Atomic { original } = resource.fetch {
        header.atomic_ack = Some(AtomicAckEth { original });
    }
    // INVARIANT: A piece is no longer than what is left.
    resource.next = resource.next.wrapping_add(piece.span);
    Some(TxSegment {
        header,
        span: piece.span,
        payload,
    })
}
