// SPDX-License-Identifier: GPL-2.0

//! What passes a port of an HCA, counted without a lock.
//!
//! The counters of the agents are guarded by the lock of the HCA, which packets do not take. So packets are
//! counted here, and the agents hear of them when somebody asks.

use super::route::Segment;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use proto::fabric::counters::Counters;

/// Packets of one kind in one direction.
struct Flow {
    packets: Atomic<u32>,
    octets: Atomic<u64>,
}

impl Flow {
    const fn new() -> Self {
        Self {
            packets: Atomic::new(0),
            octets: Atomic::new(0),
        }
    }

    fn count(&self, segment: &Segment<'_>) {
        self.packets.fetch_add(segment.span, Relaxed);
        self.octets.fetch_add(segment.octets(), Relaxed);
    }

    /// Takes what has been counted.
    fn take(&self) -> (u32, u64) {
        (self.packets.xchg(0, Relaxed), self.octets.xchg(0, Relaxed))
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

    pub(super) fn count_sent(&self, segment: &Segment<'_>) {
        if let Some(flow) = self.sent.get(usize::from(segment.is_multicast())) {
            flow.count(segment);
        }
    }

    pub(super) fn count_received(&self, segment: &Segment<'_>) {
        if let Some(flow) = self.received.get(usize::from(segment.is_multicast())) {
            flow.count(segment);
        }
    }

    /// Moves what has been counted to `counters`.
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
