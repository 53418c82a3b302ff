// SPDX-License-Identifier: GPL-2.0

//! Segments on a network: packets leave in batches of datagrams, which the network layer carries as one as far as it
//! can, and what arrives of a message in one batch becomes one segment again.
//!
//! Packets that are equally long, but for a last one that is shorter, share a datagram as far as both ends of the way
//! have room. The datagrams of a batch are equally long in the same way: that is what UDP segmentation offload asks for.

use super::fault;
use super::route::Segment;
use super::udp::{
    KernelCrc,
    Reader,
    Way, //
};
use crate::payload::{
    Packets,
    Rows,
    Source, //
};
use core::num::NonZeroUsize;
use kernel::cpu::CpuId;
use proto::transport::TxSegment;
use rdma::net::{
    Skb,
    SkbPool,
    Tail, //
};
use rdma::sync::{
    Cx,
    IrqsOn,
    Unlocked, //
};
use wire::header::{
    self,
    Header, //
};
use wire::icrc;
use wire::outer::{
    self,
    Kind,
    Outer, //
};
use wire::packet;

/// Bytes of a batch, if it holds more than one packet: with what the kernel puts around them they fit a page of
/// the pool.
pub(super) const BATCH_BYTES: usize = 31 * 1024;

/// Bytes of a batch of which nobody knows how many packets follow. Datagrams up to this size are worth a batch also if
/// the processor has to cut it.
const SMALL_BATCH_BYTES: usize = 2 * 1024;

/// Datagrams of a batch: the network layer has a limit, which differs from version to version.
const MAX_BATCH: usize = 64;

/// Bytes of the longest pad and an ICRC.
const MAX_REST: usize = 3 + icrc::LEN;

/// Packets that wait to leave with the next ones the same way.
///
/// Small messages that follow each other cost little more than one, if the network layer sees them as one.
pub(crate) struct Outbox {
    open: Option<Open>,
}

/// How a segment is to be sent.
#[derive(Default)]
pub(crate) struct Order {
    /// So many packets may follow.
    pub(crate) more: u32,
    /// Who sends it, if that is another processor.
    pub(crate) cpu: Option<CpuId>,
}

/// A batch that may grow.
struct Open {
    batch: Batch,
    way: Way,
    /// What all its datagrams say, so that packets for another reader, or from elsewhere, do not share them.
    cookie: u64,
    hops: u8,
    cpu: Option<CpuId>,
}

impl Outbox {
    /// Nothing waits.
    pub(crate) const fn new() -> Self {
        Self { open: None }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_none()
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        if let Some(Open {
            batch, way, cpu, ..
        }) = self.open.take()
        {
            // Without one if it was made for a packet whose payload could not be read.
            if batch.count > 0 {
                way.send(cx, irqs, batch.close(), cpu);
            }
        }
    }

    /// Adds the packets of a segment for `reader`, and sends what does not fit.
    ///
    /// `None` if the segment is none, or memory is short: what was added so far will leave.
    pub(crate) fn add(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        (way, reader): (&Way, Reader),
        segment: &Segment<'_>,
        order: &Order,
    ) -> Option<()> {
        // Elsewhere the receiver has processors of his own.
        let cpu = order.cpu.filter(|_| way.is_inside());
        let len = segment.source.len();
        let chunk = packet_len(len, segment.span)?;
        for at in 0..segment.span {
            let from = chunk.get().checked_mul(at as usize)?;
            let part = len.checked_sub(from)?.min(chunk.get());
            let cut;
            let header = if segment.span == 1 {
                segment.header
            } else {
                cut = packet_header(segment, at, part)?;
                &cut
            };
            let size = header.packet_len();
            let fits = |open: &Open| {
                open.batch.takes(size)
                    && open.way.is_same(way)
                    && open.cookie == reader.cookie
                    && open.hops == segment.hops
                    && open.cpu == cpu
            };
            let batch = if segment.damage.is_some() {
                Some(Batch::single(size, 1)?)
            } else if self.open.as_ref().is_some_and(fits) {
                None
            } else {
                let left = segment.span.checked_sub(at)?.saturating_add(order.more) as usize;
                let pool = way.endpoint.socket.pool();
                let row = row(size, reader.room);
                Some(Batch::new(size, row, left, way.segments, (pool, cx, irqs))?)
            };
            if let Some(batch) = batch {
                self.flush(cx, irqs);
                self.open = Some(Open {
                    batch,
                    way: way.try_clone()?,
                    cookie: reader.cookie,
                    hops: segment.hops,
                    cpu,
                });
            }
            let Open { batch, .. } = self.open.as_mut()?;
            let payload = (segment.source, from, part);
            let hurried = cpu.is_some() && header.bth.opcode.is_request();
            let outer = batch.begins_datagram().then_some(Outer {
                kind: Kind::Data,
                flags: outer::flags(hurried, segment.hops),
                stride: u16::try_from(batch.size).ok()?,
                cookie: reader.cookie,
            });
            let start = if outer.is_some() { outer::LEN } else { 0 };
            let total = start.checked_add(size)?;
            let fill = |tail: &mut Tail<'_>| write(tail, total, outer.as_ref(), header, payload);
            let buffer = batch.skb.append_with(total, fill)?;
            packet::finish::<KernelCrc>(header, buffer.get_mut(start..)?).ok()?;
            if let Some(roll) = segment.damage {
                fault::damage(header, buffer.get_mut(start..)?, roll);
            }
            batch.count = batch.count.wrapping_add(1);
            batch.ended = size < batch.size;
        }
        Some(())
    }
}

/// Packets of `size` bytes that one datagram with `room` has.
fn row(size: usize, room: u16) -> usize {
    let room = usize::from(room).saturating_sub(outer::LEN);
    room.checked_div(size).unwrap_or(0).max(1)
}

/// Bytes of each packet but the last of a segment of `len` bytes in `span` packets: the path MTU, which is a
/// power of two, or all of it.
fn packet_len(len: usize, span: u32) -> Option<NonZeroUsize> {
    if span == 1 {
        return NonZeroUsize::new(len.max(1));
    }
    let span = NonZeroUsize::new(span as usize)?;
    NonZeroUsize::new(len.div_ceil(span.get()).checked_next_power_of_two()?)
}

/// The header of packet `at` of a segment, with a payload of `len` bytes.
fn packet_header(segment: &Segment<'_>, at: u32, len: usize) -> Option<Header> {
    let mut header = TxSegment::packet_header(segment.header, segment.span, at)?;
    header.set_payload_len(len).ok()?;
    Some(header)
}

/// Writes `size` bytes: the outer header, if there is one, and a packet, but for pad and ICRC, which are zero.
fn write(
    tail: &mut Tail<'_>,
    size: usize,
    outer: Option<&Outer>,
    header: &Header,
    (source, from, len): (&Source<'_>, usize, usize),
) -> Option<()> {
    let mut head = [0; outer::LEN + header::MAX_LEN];
    let start = match outer {
        Some(outer) => outer.emit(&mut head).ok()?,
        None => 0,
    };
    let more = header.emit(head.get_mut(start..)?).ok()?;
    let end = start.checked_add(more)?;
    tail.write(head.get(..end)?)?;
    source.append_to(from, len, tail)?;
    let rest = size.checked_sub(end)?.checked_sub(len)?;
    tail.write([0; MAX_REST].get(..rest)?)
}

/// Datagrams that leave together.
struct Batch {
    skb: Skb,
    /// The length of each packet but the last.
    size: usize,
    /// Packets of each datagram but the last.
    row: usize,
    /// Bytes that fit.
    capacity: usize,
    /// The number of packets.
    count: usize,
    /// The last one is there, for it is shorter.
    ended: bool,
}

impl Batch {
    /// Room for `count` packets of `size` bytes, or fewer, but for one; `row` of them are one datagram. Large datagrams
    /// are alone unless the underlay `segments` batches.
    fn new(
        size: usize,
        row: usize,
        count: usize,
        segments: bool,
        (pool, cx, irqs): (&SkbPool, &mut Cx<'_, Unlocked>, IrqsOn<'_>),
    ) -> Option<Self> {
        let bytes = |count: usize| {
            let starts = count.div_ceil(row).saturating_mul(outer::LEN);
            count.saturating_mul(size).saturating_add(starts)
        };
        let is_small = bytes(row) <= SMALL_BATCH_BYTES;
        let most = if segments || is_small {
            count
        } else {
            count.min(row)
        };
        let wanted = bytes(most).min(BATCH_BYTES);
        let many = wanted.max(SMALL_BATCH_BYTES).max(bytes(1));
        match pool.alloc(many, cx, irqs) {
            Ok(skb) => Some(Self::of(skb, size, row, many)),
            Err(_) => Self::single(size, row),
        }
    }

    /// Room for one packet of `size` bytes, outside the pool: the receiver does not take its ICRC on trust.
    fn single(size: usize, row: usize) -> Option<Self> {
        let one = outer::LEN.checked_add(size)?;
        Some(Self::of(Skb::alloc(one).ok()?, size, row, one))
    }

    /// An empty one in `skb`.
    fn of(skb: Skb, size: usize, row: usize, capacity: usize) -> Self {
        Self {
            skb,
            size,
            row,
            capacity,
            count: 0,
            ended: false,
        }
    }

    /// Whether the next packet is the first one of a datagram.
    fn begins_datagram(&self) -> bool {
        self.count.checked_rem(self.row) == Some(0)
    }

    /// Whether a packet of `size` bytes may follow.
    fn takes(&self, size: usize) -> bool {
        let begins = self.begins_datagram();
        let start = if begins { outer::LEN } else { 0 };
        let fits = self.skb.len().saturating_add(start).checked_add(size);
        let full = begins && self.count.checked_div(self.row) >= Some(MAX_BATCH);
        !self.ended && size <= self.size && !full && fits.is_some_and(|len| len <= self.capacity)
    }

    /// The finished packet of the network layer.
    fn close(mut self) -> Skb {
        let datagram = self
            .row
            .saturating_mul(self.size)
            .saturating_add(outer::LEN);
        if self.skb.len() > datagram {
            // There are two at least, and fewer than the limit since each has a header.
            let _ = self.skb.segment(datagram);
        }
        self.skb
    }
}

/// Packets of one message that follow each other in a batch.
pub(super) struct Train<'a> {
    /// The headers of all of them as one segment.
    pub(super) header: Header,
    /// Their number.
    pub(super) span: u32,
    /// Where their payload is.
    pub(super) packets: Packets<'a>,
    /// Where the payload is in each of them.
    offset: usize,
    /// Bytes of the batch from the first one on.
    len: usize,
}

impl<'a> Train<'a> {
    /// One packet, with which `bytes` begins, the rest of the batch, and whose payload is at `offset` of it; it has the
    /// place `first` in its datagram, and packets stand in `rows`.
    #[inline]
    pub(super) fn new(
        header: &Header,
        bytes: &'a [u8],
        offset: usize,
        (rows, first): (Rows, usize),
    ) -> Self {
        let payload = bytes.get(offset..).unwrap_or_default();
        Self {
            header: *header,
            span: 1,
            packets: Packets::new(payload, rows, first, header.payload_len()),
            offset,
            len: bytes.len(),
        }
    }

    /// Appends the packet with `header` and the payload at `offset` of it, with which `bytes` begins, the rest of the
    /// batch; false if it does not go on where the last one stops, or something else was between the two.
    pub(super) fn extend(&mut self, header: &Header, bytes: &[u8], offset: usize) -> bool {
        let len = header.payload_len();
        let is_next = self.len.checked_sub(self.packets.distance()) == Some(bytes.len());
        if !is_next || offset != self.offset || !self.packets.may_extend(len) {
            return false;
        }
        let Some(joined) = TxSegment::joined_header(&self.header, self.span, header) else {
            return false;
        };
        self.header = joined;
        self.span = self.span.wrapping_add(1);
        self.packets.extend(len);
        true
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_batch)]
mod tests {
    use super::*;
    use kernel::prelude::*;
    use wire::opcode::{
        Opcode,
        Operation,
        Service, //
    };
    use wire::Psn;

    const SIZE: usize = 100;
    const OFFSET: usize = 20;
    const PAYLOAD: usize = 64;
    /// Packets of a datagram.
    const ROW: usize = 2;

    fn header(operation: Operation, psn: u32) -> Result<Header> {
        let mut header = Header::default();
        header.bth.opcode = Opcode::new(Service::Rc, operation).ok_or(EINVAL)?;
        header.bth.psn = Psn::new(psn);
        header.set_payload_len(PAYLOAD).map_err(|_| EINVAL)?;
        Ok(header)
    }

    const ROWS: Rows = Rows {
        stride: SIZE,
        each: ROW,
        gap: outer::LEN,
    };

    /// Where packet `number` of a batch begins.
    fn place(number: usize) -> usize {
        outer::LEN
            .saturating_mul(number / ROW + 1)
            .saturating_add(SIZE.saturating_mul(number))
    }

    #[test]
    fn rows_have_gaps() {
        for first in 0..ROW {
            for number in 0..7 {
                let distance = place(first + number).saturating_sub(place(first));
                assert_eq!(ROWS.distance(first, number), distance);
            }
        }
    }

    /// What is between two packets of a message is no part of it, whatever became of it.
    #[test]
    fn a_train_is_of_packets_that_follow_each_other() -> Result {
        let batch = KVec::from_elem(0u8, place(5), GFP_KERNEL)?;
        let rest = |number| batch.get(place(number)..).unwrap_or_default();
        let first = header(Operation::SendFirst, 7)?;
        let next = header(Operation::SendMiddle, 8)?;
        let last = header(Operation::SendLast, 9)?;
        for begin in 0..ROW {
            let mut train = Train::new(&first, rest(begin), OFFSET, (ROWS, begin));
            assert!(!train.extend(&next, rest(begin + 2), OFFSET));
            assert!(train.extend(&next, rest(begin + 1), OFFSET));
            assert!(!train.extend(&last, rest(begin + 1), OFFSET));
            assert!(train.extend(&last, rest(begin + 2), OFFSET));
        }
        Ok(())
    }

    /// A batch for `count` packets, and how many it takes.
    fn taken(row: usize, count: usize, segments: bool) -> Result<usize> {
        let (mut cx, sleepable) = rdma::sync::test_context();
        let pool = SkbPool::new()?;
        let memory = (&pool, &mut cx, sleepable.irqs_on());
        let mut batch = Batch::new(SIZE, row, count, segments, memory).ok_or(ENOMEM)?;
        while batch.takes(SIZE) {
            let start = if batch.begins_datagram() {
                outer::LEN
            } else {
                0
            };
            let zeros = [0; outer::LEN + SIZE];
            let bytes = zeros
                .get(outer::LEN.saturating_sub(start)..)
                .unwrap_or_default();
            batch.skb.append(bytes).ok_or(ENOMEM)?;
            batch.count = batch.count.saturating_add(1);
        }
        assert!(!batch.takes(SIZE + 1));
        Ok(batch.count)
    }

    #[test]
    fn large_datagrams_are_alone_if_the_processor_has_to_cut() -> Result {
        assert_eq!(taken(40, 100, false)?, 40);
        assert_eq!(taken(40, 100, true)?, 100);
        assert_eq!(taken(10, 100, false)?, 100);
        assert_eq!(taken(1, 1000, true)?, MAX_BATCH);
        assert_eq!(taken(2, 1000, true)?, 2 * MAX_BATCH);
        Ok(())
    }
}
