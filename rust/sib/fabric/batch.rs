// SPDX-License-Identifier: GPL-2.0

//! Segments on a network: packets leave in batches of datagrams, which the network layer carries as one as far as it
//! can, and what arrives of a message in one batch becomes one segment again.
//!
//! The datagrams of a batch are equally long, but for a last one that is shorter: that is what UDP segmentation
//! offload asks for.

use super::fault;
use super::route::Segment;
use super::udp::{
    KernelCrc,
    Way, //
};
use crate::payload::{
    Packets,
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

/// Bytes of a batch, if it holds more than one datagram: with what the kernel puts around them they fit a page of
/// the pool.
pub(super) const BATCH_BYTES: usize = 31 * 1024;

/// Bytes of a batch of which nobody knows how many packets follow.
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
        if let Some(Open { batch, way, cpu }) = self.open.take() {
            // Without one if it was made for a packet whose payload could not be read.
            if batch.count > 0 {
                way.send(cx, irqs, batch.close(), cpu);
            }
        }
    }

    /// Adds the datagrams of a segment for the holder of `cookie`, and sends what does not fit.
    ///
    /// `None` if the segment is none, or memory is short: what was added so far will leave.
    pub(crate) fn add(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        (way, cookie): (&Way, u64),
        segment: &Segment<'_>,
        order: &Order,
    ) -> Option<()> {
        // Elsewhere the receiver has processors of his own.
        let cpu = order.cpu.filter(|_| way.path.is_inside());
        let len = segment.source.len();
        let chunk = packet_len(len, segment.span)?;
        for at in 0..segment.span {
            let mut header = TxSegment::packet_header(segment.header, segment.span, at)?;
            let from = chunk.get().checked_mul(at as usize)?;
            let part = len.checked_sub(from)?.min(chunk.get());
            header.set_payload_len(part).ok()?;
            let size = outer::LEN.checked_add(header.packet_len())?;
            let fits =
                |open: &Open| open.batch.takes(size) && open.way.is_same(way) && open.cpu == cpu;
            let batch = if segment.damage.is_some() {
                Some(Batch::single(size)?)
            } else if self.open.as_ref().is_some_and(fits) {
                None
            } else {
                let left = segment.span.checked_sub(at)?.saturating_add(order.more);
                let pool = way.endpoint.socket.pool();
                Some(Batch::new(size, left as usize, (pool, irqs))?)
            };
            if let Some(batch) = batch {
                self.flush(cx, irqs);
                self.open = Some(Open {
                    batch,
                    way: way.try_clone()?,
                    cpu,
                });
            }
            let Open { batch, .. } = self.open.as_mut()?;
            let payload = (segment.source, from, part);
            let hurried = cpu.is_some() && header.bth.opcode.is_request();
            let outer = Outer {
                kind: Kind::Data,
                flags: if hurried { outer::HURRIED } else { 0 },
                cookie,
            };
            let fill = |tail: &mut Tail<'_>| write(tail, size, &outer, &header, payload);
            let buffer = batch.skb.append_with(size, fill)?;
            packet::finish::<KernelCrc>(&header, buffer.get_mut(outer::LEN..)?).ok()?;
            if let Some(roll) = segment.damage {
                fault::damage(&header, buffer.get_mut(outer::LEN..)?, roll);
            }
            batch.count = batch.count.wrapping_add(1);
            batch.ended = size < batch.size;
        }
        Some(())
    }
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

/// Writes one datagram of `size` bytes, but for pad and ICRC, which are zero.
fn write(
    tail: &mut Tail<'_>,
    size: usize,
    outer: &Outer,
    header: &Header,
    (source, from, len): (&Source<'_>, usize, usize),
) -> Option<()> {
    let mut head = [0; outer::LEN + header::MAX_LEN];
    let start = outer.emit(&mut head).ok()?;
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
    /// The length of each but the last.
    size: usize,
    /// Bytes that fit.
    capacity: usize,
    /// Their number.
    count: usize,
    /// The last one is there, for it is shorter.
    ended: bool,
}

impl Batch {
    /// Room for `count` datagrams of `size` bytes, or fewer, but for one.
    fn new(size: usize, count: usize, (pool, irqs): (&SkbPool, IrqsOn<'_>)) -> Option<Self> {
        let most = BATCH_BYTES.checked_div(size)?.min(count).max(1);
        let many = size.checked_mul(most)?.max(SMALL_BATCH_BYTES).max(size);
        match pool.alloc(many, irqs) {
            Ok(skb) => Some(Self::of(skb, size, many)),
            Err(_) => Self::single(size),
        }
    }

    /// Room for one datagram of `size` bytes, outside the pool: the receiver does not take its ICRC on trust.
    fn single(size: usize) -> Option<Self> {
        Some(Self::of(Skb::alloc(size).ok()?, size, size))
    }

    /// An empty one in `skb`.
    fn of(skb: Skb, size: usize, capacity: usize) -> Self {
        Self {
            skb,
            size,
            capacity,
            count: 0,
            ended: false,
        }
    }

    /// Whether a datagram of `size` bytes may follow.
    fn takes(&self, size: usize) -> bool {
        let fits = self.skb.len().checked_add(size);
        !self.ended
            && size <= self.size
            && self.count < MAX_BATCH
            && fits.is_some_and(|len| len <= self.capacity)
    }

    /// The finished packet of the network layer.
    fn close(mut self) -> Skb {
        if self.skb.len() > self.size {
            // There are two at least, and fewer than the limit since each has a header.
            let _ = self.skb.segment(self.size);
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
    /// The length of the datagrams.
    stride: usize,
    /// Bytes of the batch from the next datagram on.
    left: Option<usize>,
}

impl<'a> Train<'a> {
    /// One packet, whose payload is at `offset` of `bytes`, the rest of the batch that it begins; `stride` is the
    /// length of the datagrams.
    pub(super) fn new(header: Header, bytes: &'a [u8], offset: usize, stride: usize) -> Self {
        Self {
            header,
            span: 1,
            packets: Packets::new(
                bytes.get(offset..).unwrap_or_default(),
                stride,
                header.payload_len(),
            ),
            offset,
            stride,
            left: bytes.len().checked_sub(stride),
        }
    }

    /// Appends the packet with `header` and the payload at `offset` of it, with which `bytes` begins, the rest of the
    /// batch; false if it does not go on where the last one stops, or something else was between the two.
    pub(super) fn extend(&mut self, header: &Header, bytes: &[u8], offset: usize) -> bool {
        let len = header.payload_len();
        let is_next = self.left == Some(bytes.len());
        if !is_next || offset != self.offset || !self.packets.may_extend(len) {
            return false;
        }
        let Some(joined) = TxSegment::joined_header(&self.header, self.span, header) else {
            return false;
        };
        self.header = joined;
        self.span = self.span.wrapping_add(1);
        self.packets.extend(len);
        self.left = bytes.len().checked_sub(self.stride);
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

    const STRIDE: usize = 100;
    const OFFSET: usize = 20;
    const PAYLOAD: usize = 64;

    fn header(operation: Operation, psn: u32) -> Result<Header> {
        let mut header = Header::default();
        header.bth.opcode = Opcode::new(Service::Rc, operation).ok_or(EINVAL)?;
        header.bth.psn = Psn::new(psn);
        header.set_payload_len(PAYLOAD).map_err(|_| EINVAL)?;
        Ok(header)
    }

    /// What is between two packets of a message is no part of it, whatever became of it.
    #[test]
    fn a_train_is_of_datagrams_that_follow_each_other() -> Result {
        let batch = KVec::from_elem(0u8, 3 * STRIDE, GFP_KERNEL)?;
        let rest = |place: usize| {
            batch
                .get(place.saturating_mul(STRIDE)..)
                .unwrap_or_default()
        };
        let first = header(Operation::SendFirst, 7)?;
        let next = header(Operation::SendMiddle, 8)?;
        let mut train = Train::new(first, rest(0), OFFSET, STRIDE);
        assert!(!train.extend(&next, rest(2), OFFSET));
        assert!(train.extend(&next, rest(1), OFFSET));
        let last = header(Operation::SendLast, 9)?;
        assert!(!train.extend(&last, rest(1), OFFSET));
        assert!(train.extend(&last, rest(2), OFFSET));
        Ok(())
    }
}
