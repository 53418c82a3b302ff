// SPDX-License-Identifier: GPL-2.0

//! What passes a port, counted without a lock, and traced.
//!
//! The counters of the agents are guarded by the lock of the HCA or the fabric, which packets do not take. So
//! packets are counted here, and the agents hear of them when somebody asks.

use super::route::Segment;
use kernel::sync::atomic::Relaxed;
use proto::fabric::counters::Counters;
use rdma::sync::Atomic;
use rdma::trace::{
    self,
    Packets, //
};
use wire::header::Header;

/// A number that grows, and what of it the agents know.
struct Count {
    total: Atomic<u64>,
    told: Atomic<u64>,
}

impl Count {
    const fn new() -> Self {
        Self {
            total: Atomic::new(0),
            told: Atomic::new(0),
        }
    }

    #[inline]
    fn add(&self, amount: u64) {
        self.total.fetch_add(amount, Relaxed);
    }

    fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// By how much it has grown since this was asked last.
    fn take(&self) -> u64 {
        let total = self.total();
        total.wrapping_sub(self.told.xchg(total, Relaxed))
    }
}

/// Packets of one kind in one direction.
struct Flow {
    packets: Count,
    octets: Count,
}

impl Flow {
    const fn new() -> Self {
        Self {
            packets: Count::new(),
            octets: Count::new(),
        }
    }

    #[inline]
    fn count(&self, segment: &Segment<'_>, octets: u64) {
        self.packets.add(u64::from(segment.span));
        self.octets.add(octets);
    }

    /// What has been counted since this was asked last. To be called under one lock.
    fn take(&self) -> (u64, u64) {
        (self.packets.take(), self.octets.take())
    }
}

/// What tracepoints tell of a segment.
fn traced(segment: &Segment<'_>) -> Packets {
    let Header { lrh, bth, .. } = segment.header;
    Packets {
        slid: lrh.slid.get(),
        dlid: lrh.dlid.get(),
        opcode: bth.opcode.byte(),
        dest_qp: bth.dest_qp.get(),
        psn: bth.psn.get(),
        span: segment.span,
        length: segment.source.len() as u32,
    }
}

/// What has passed a port.
pub(crate) struct Traffic {
    /// Sent: unicast, multicast.
    sent: [Flow; 2],
    /// Received: unicast, multicast.
    received: [Flow; 2],
}

impl Traffic {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self {
            sent: [const { Flow::new() }; 2],
            received: [const { Flow::new() }; 2],
        }
    }

    /// `octets` are those of the segment.
    #[inline]
    pub(super) fn count_sent(&self, segment: &Segment<'_>, octets: u64) {
        trace::transmit(|| traced(segment));
        self.count_out(segment, octets);
    }

    /// The same of a port of the switch, whose packets are traced where they begin and end.
    #[inline]
    pub(super) fn count_out(&self, segment: &Segment<'_>, octets: u64) {
        if let Some(flow) = self.sent.get(usize::from(segment.is_multicast())) {
            flow.count(segment, octets);
        }
    }

    /// As [`Self::count_sent`].
    #[inline]
    pub(super) fn count_received(&self, segment: &Segment<'_>, octets: u64) {
        trace::receive(|| traced(segment));
        self.count_in(segment, octets);
    }

    /// As [`Self::count_out`].
    #[inline]
    pub(super) fn count_in(&self, segment: &Segment<'_>, octets: u64) {
        if let Some(flow) = self.received.get(usize::from(segment.is_multicast())) {
            flow.count(segment, octets);
        }
    }

    /// The packets that have ever been sent, and received.
    pub(crate) fn packets(&self) -> [u64; 2] {
        [&self.sent, &self.received].map(|flows| {
            let totals = flows.iter().map(|flow| flow.packets.total());
            totals.fold(0, u64::wrapping_add)
        })
    }

    /// Tells `counters` what has been counted since this was asked last. To be called under the lock of the HCA, or of the
    /// fabric if it is a port of the switch.
    pub(crate) fn report(&self, counters: &mut Counters) {
        for (flow, multicast) in self.sent.iter().zip([false, true]) {
            let (packets, octets) = flow.take();
            counters.count_xmit(packets, octets, multicast);
        }
        for (flow, multicast) in self.received.iter().zip([false, true]) {
            let (packets, octets) = flow.take();
            counters.count_recv(packets, octets, multicast);
        }
    }
}
