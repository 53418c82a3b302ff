// SPDX-License-Identifier: GPL-2.0

//! Packets that pass a port of an HCA, kept for a reader: `tools/capture` makes a file for Wireshark of them.
//!
//! Faults are injected before packets that leave are captured, and before those that arrive are: a capture has
//! what the port has put on its cable, and what it has taken from there.

use super::fault;
use super::now;
use super::route::Segment;
use super::udp::KernelCrc;
use crate::hca::{
    Hca,
    Tap, //
};
use kernel::alloc::KVVec;
use kernel::fmt;
use kernel::prelude::*;
use proto::capture::{
    Head,
    Ring, //
};
use proto::fault::Direction;
use rdma::debugfs::{
    Control,
    Stream, //
};
use rdma::sync::{
    Cx,
    Held,
    Sleepable,
    Unlocked, //
};
use wire::{
    packet,
    PortNum, //
};

/// The memory for packets unless a size is given, in KiB.
const DEFAULT_KIB: usize = 4096;

/// The least and the most memory for packets, in KiB.
const KIB: core::ops::RangeInclusive<usize> = 16..=262_144;

/// The captures of an HCA, by port.
pub(crate) struct Captures(KVec<Ring<KVVec<u8>>>);

impl Captures {
    /// None, for so many ports. May sleep.
    pub(crate) fn new(ports: u8) -> Result<Self> {
        let mut all = KVec::with_capacity(usize::from(ports), GFP_KERNEL)?;
        for _ in 0..ports {
            all.push(Ring::new(KVVec::new()), GFP_KERNEL)?;
        }
        Ok(Self(all))
    }

    fn port(&mut self, port: PortNum) -> Option<&mut Ring<KVVec<u8>>> {
        self.0.get_mut(usize::from(port.get()).checked_sub(1)?)
    }
}

/// The bytes of a segment that is one packet; `None` for others, and without memory.
fn packet(segment: &Segment<'_>) -> Option<KVec<u8>> {
    if segment.span != 1 {
        return None;
    }
    let mut header = *segment.header;
    let len = segment.source.len();
    header.set_payload_len(len).ok()?;
    let mut bytes = KVec::from_elem(0, header.packet_len(), GFP_ATOMIC).ok()?;
    let start = header.emit(&mut bytes).ok()?;
    let end = start.checked_add(len)?;
    let payload = bytes.get_mut(start..end)?;
    segment.source.copy_out(0, payload).ok()?;
    packet::finish::<KernelCrc>(&header, &mut bytes).ok()?;
    if let Some(roll) = segment.damage {
        fault::damage(&header, &mut bytes, roll);
    }
    Some(bytes)
}

impl Hca {
    /// A segment passes `port`, whose packets are captured.
    #[cold]
    pub(super) fn capture(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        port: PortNum,
        direction: Direction,
        segment: &Segment<'_>,
    ) {
        let packet = packet(segment);
        if let Some(ring) = cx.lock(&self.captures).port(port) {
            // Read under the lock: times of packets that processors capture at once never run backwards.
            let head = Head {
                time: now(),
                direction,
            };
            match &packet {
                Some(packet) => ring.push(&head, packet),
                None => ring.miss(),
            }
        }
    }
}

/// The file that turns the capture of a port on and off.
pub(crate) struct Switch {
    hca: Held<Hca>,
    port: PortNum,
}

impl Switch {
    /// For a port.
    pub(crate) fn new(hca: Held<Hca>, port: PortNum) -> Self {
        Self { hca, port }
    }
}

/// The size that a text asks for, in KiB; 0 for none at all.
fn size(text: &str) -> Result<usize> {
    let mut words = text.split_ascii_whitespace();
    let kib = match (words.next(), words.next()) {
        (Some("off"), None) => 0,
        (Some("on"), None) => DEFAULT_KIB,
        (Some("on"), Some(kib)) => {
            let kib = kib.parse().map_err(|_| EINVAL)?;
            if !KIB.contains(&kib) {
                return Err(EINVAL);
            }
            kib
        }
        _ => return Err(EINVAL),
    };
    match words.next() {
        None => Ok(kib),
        Some(_) => Err(EINVAL),
    }
}

impl Control for Switch {
    const MODULE: &'static ThisModule = &crate::MODULE;

    fn show(
        &self,
        mut cx: Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let state = cx
            .lock(&self.hca.captures)
            .port(self.port)
            .map(|ring| (ring.size(), ring.used(), ring.counts()));
        match state {
            Some((size, used, (captured, lost))) if size > 0 => writeln!(
                f,
                "on size={size} used={used} captured={captured} lost={lost}"
            ),
            _ => writeln!(f, "off"),
        }
    }

    fn store(&self, mut cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>, text: &str) -> Result {
        let kib = size(text)?;
        let memory = KVVec::from_elem(0, kib.checked_mul(1024).ok_or(EINVAL)?, GFP_KERNEL)?;
        let mut old = Ring::new(memory);
        {
            let mut guard = cx.lock(&self.hca.captures);
            let ring = guard.port(self.port).ok_or(ENODEV)?;
            core::mem::swap(ring, &mut old);
            self.hca.set_tap(self.port, Tap::Capture, kib > 0);
        }
        self.hca.retap(&mut cx, self.port);
        drop(old);
        Ok(())
    }
}

/// The file that packets are read from.
pub(crate) struct Packets {
    hca: Held<Hca>,
    port: PortNum,
}

impl Packets {
    /// For a port.
    pub(crate) fn new(hca: Held<Hca>, port: PortNum) -> Self {
        Self { hca, port }
    }
}

impl Stream for Packets {
    const MODULE: &'static ThisModule = &crate::MODULE;

    fn read(
        &self,
        mut cx: Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
        out: &mut [u8],
    ) -> Result<usize> {
        let mut guard = cx.lock(&self.hca.captures);
        let ring = guard.port(self.port).ok_or(ENODEV)?;
        ring.take(out).ok_or(EMSGSIZE)
    }
}
