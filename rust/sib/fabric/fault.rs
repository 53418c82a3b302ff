// SPDX-License-Identifier: GPL-2.0

//! Faults that are injected where packets pass a port of an HCA.
//!
//! [`proto::fault`] decides what happens to a packet; here that is done. While a port has rules its packets
//! leave and arrive one by one, since a segment that stands for many would suffer as a whole. What waits is
//! copied to a shelf of [`PLACES`] packets, and what finds no place there is lost.

use super::account::Dropped;
use super::now;
use super::route::Segment;
use crate::hca::{
    Hca,
    Tap, //
};
use crate::payload::Source;
use crate::run::RunQueue;
use kernel::alloc::KVVec;
use kernel::fmt;
use kernel::prelude::*;
use proto::fault::shelf::{
    Entry,
    Shelf, //
};
use proto::fault::text::{
    self,
    Command, //
};
use proto::fault::{
    Action,
    Direction,
    Fate,
    Injector,
    Packet, //
};
use proto::time::{
    Duration,
    Instant, //
};
use rdma::debugfs::Control;
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use rdma::timer::Expire;
use wire::header::Header;
use wire::{
    bth,
    grh,
    lrh,
    PortNum, //
};

/// The packets of a port that can wait at a time.
const PLACES: usize = 256;

/// The bytes at the beginning of a BTH in which the ICRC does not cover every bit.
const VARIANT: usize = 5;

/// A packet that waits.
struct Parcel {
    direction: Direction,
    header: Header,
    bytes: KVec<u8>,
}

impl Parcel {
    /// A copy of a segment.
    fn new(direction: Direction, segment: &Segment<'_>) -> Result<Self> {
        let mut bytes = KVec::from_elem(0, segment.source.len(), GFP_ATOMIC)?;
        segment.source.copy_out(0, &mut bytes).map_err(|_| EFAULT)?;
        Ok(Self {
            direction,
            header: *segment.header,
            bytes,
        })
    }
}

type Places = KVVec<Option<Entry<Parcel>>>;

/// The faults of one port.
pub(crate) struct PortFaults {
    injector: Injector,
    shelf: Shelf<Places>,
    /// Whether somebody is at letting packets go: two at a time would have them overtake each other.
    leaving: bool,
    /// Packets that should have waited, and found no place.
    lost: u64,
}

impl PortFaults {
    /// The packet whose turn it is, for who has had the last one (`next`), or for another when nobody is at it.
    fn take(&mut self, now: Instant, next: bool) -> Option<Parcel> {
        if self.leaving && !next {
            return None;
        }
        let parcel = self.shelf.take(now);
        self.leaving = parcel.is_some();
        parcel
    }
}

/// The faults of an HCA.
pub(crate) struct Faults {
    ports: KVec<PortFaults>,
    /// When the timer is set to expire.
    alarm: Option<Instant>,
}

impl Faults {
    /// None, for so many ports. May sleep.
    pub(crate) fn new(ports: u8) -> Result<Self> {
        let mut all = KVec::with_capacity(usize::from(ports), GFP_KERNEL)?;
        for _ in 0..ports {
            let faults = PortFaults {
                injector: Injector::new(),
                shelf: Shelf::new(KVVec::new()),
                leaving: false,
                lost: 0,
            };
            all.push(faults, GFP_KERNEL)?;
        }
        Ok(Self {
            ports: all,
            alarm: None,
        })
    }

    fn port(&mut self, port: PortNum) -> Option<&mut PortFaults> {
        self.ports.get_mut(usize::from(port.get()).checked_sub(1)?)
    }

    /// When the next packet is due of those ports where nobody is at letting them go.
    fn next_due(&self) -> Option<Instant> {
        let ports = self.ports.iter().filter(|port| !port.leaving);
        ports.filter_map(|port| port.shelf.next_due()).min()
    }
}

/// Turns over one bit of a packet that its ICRC covers, or of the ICRC: which one is up to `roll`.
pub(super) fn damage(header: &Header, packet: &mut [u8], roll: u32) {
    let global = if header.grh.is_some() { grh::LEN } else { 0 };
    let (_, covered) = packet
        .split_at_mut_checked(global.saturating_add(lrh::LEN + VARIANT))
        .unwrap_or_default();
    let bits = covered.len().saturating_mul(8);
    if let Some(bit) = (roll as usize).checked_rem(bits) {
        if let Some(byte) = covered.get_mut(bit >> 3) {
            *byte ^= 1u8.wrapping_shl(bit as u32 & 7);
        }
    }
}

const _: () = assert!(VARIANT < bth::LEN);

impl Hca {
    /// A segment passes `port`, which has rules for this direction.
    #[cold]
    pub(super) fn suffer(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        direction: Direction,
        segment: Segment<'_>,
    ) {
        let packet = Packet::new(direction, segment.header);
        let fate = match cx.lock(&self.faults).port(port) {
            Some(faults) => faults.injector.decide(&packet),
            None => Fate::Pass,
        };
        let whole = segment.span == 1;
        match fate {
            Fate::Drop => return,
            Fate::Duplicate if whole => {
                self.pass(cx, irqs, run, port, direction, segment);
                self.pass(cx, irqs, run, port, direction, segment);
            }
            Fate::Corrupt(roll) if whole => {
                let segment = Segment {
                    damage: Some(roll),
                    ..segment
                };
                self.pass(cx, irqs, run, port, direction, segment);
            }
            Fate::Delay(delay) if whole => {
                return self.hold(cx, port, direction, &segment, delay, None);
            }
            Fate::Reorder(behind, patience) if whole => {
                return self.hold(cx, port, direction, &segment, patience, Some(behind));
            }
            // Several packets in one leave only if they were on their way when the first rule came.
            _ => self.pass(cx, irqs, run, port, direction, segment),
        }
        if let Some(faults) = cx.lock(&self.faults).port(port) {
            faults
                .shelf
                .overtaken(|parcel| parcel.direction == direction);
        }
        self.unshelve(cx, irqs, run, port);
    }

    fn pass(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
        direction: Direction,
        segment: Segment<'_>,
    ) {
        match direction {
            Direction::Out => self.launch(cx, irqs, run, port, segment),
            Direction::In if segment.damage.is_some() => {
                if let Some(place) = self.place(cx, port) {
                    place.fabric().account.dropped(Dropped::Icrc);
                }
            }
            Direction::In => self.accept(cx, irqs, run, port, segment),
        }
    }

    /// Lets a segment wait.
    fn hold(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        port: PortNum,
        direction: Direction,
        segment: &Segment<'_>,
        delay: Duration,
        behind: Option<u8>,
    ) {
        let parcel = Parcel::new(direction, segment);
        let mut guard = cx.lock(&self.faults);
        let all = &mut *guard;
        let Some(faults) = all.port(port) else {
            return;
        };
        let refused = match parcel {
            Ok(parcel) => faults.shelf.put(parcel, now(), delay, behind).err(),
            Err(_) => {
                faults.lost = faults.lost.wrapping_add(1);
                return;
            }
        };
        if refused.is_some() {
            faults.lost = faults.lost.wrapping_add(1);
        }
        self.set_fault_clock(all);
        drop(guard);
        drop(refused);
    }

    /// Lets those packets of `port` go whose turn it is. What they meet at the next port may have others there go, and
    /// those others here again: that is left to the timer, since the call chain would grow with every packet.
    fn unshelve(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
    ) {
        if run.set_unshelving(true) {
            return self.set_fault_clock(&mut cx.lock(&self.faults));
        }
        let now = now();
        let mut some = false;
        loop {
            let parcel = cx
                .lock(&self.faults)
                .port(port)
                .and_then(|faults| faults.take(now, some));
            let Some(parcel) = parcel else {
                break;
            };
            some = true;
            let source = Source::Bytes(&parcel.bytes);
            let segment = Segment {
                header: &parcel.header,
                span: 1,
                source: &source,
                damage: None,
                hops: 0,
            };
            self.pass(cx, irqs, run, port, parcel.direction, segment);
        }
        run.set_unshelving(false);
        if some {
            self.set_fault_clock(&mut cx.lock(&self.faults));
        }
    }

    /// Sets the timer to the next packet that is due, unless it expires before that anyway.
    fn set_fault_clock(&self, faults: &mut Faults) {
        if let Some(due) = faults.next_due() {
            if faults.alarm.is_none_or(|alarm| due < alarm) {
                faults.alarm = Some(due);
                self.fault_clock.arm(due.nanos());
            }
        }
    }
}

impl Expire<1> for Hca {
    type Pointer = Held<Self>;

    fn expire(this: &Held<Self>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        RunQueue::with(&mut cx, irqs, |cx, run| {
            for port in (1..=this.ports()).map(PortNum::new) {
                this.unshelve(cx, irqs, run, port);
            }
        });
        let mut guard = cx.lock(&this.faults);
        guard.alarm = None;
        this.set_fault_clock(&mut guard);
    }
}

/// The file with the rules of a port.
pub(crate) struct Rules {
    hca: Held<Hca>,
    port: PortNum,
}

impl Rules {
    /// For a port.
    pub(crate) fn new(hca: Held<Hca>, port: PortNum) -> Self {
        Self { hca, port }
    }
}

impl Control for Rules {
    const MODULE: &'static ThisModule = &crate::MODULE;

    fn show(
        &self,
        mut cx: Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let copy = cx
            .lock(&self.hca.faults)
            .port(self.port)
            .map(|faults| (faults.injector, faults.shelf.len(), faults.lost));
        let Some((injector, held, lost)) = copy else {
            return Ok(());
        };
        for record in injector.rules() {
            writeln!(f, "{record}")?;
        }
        writeln!(f, "# held={held} lost={lost}")
    }

    fn store(&self, mut cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>, text: &str) -> Result {
        let mut holds = false;
        for command in text::parse(text) {
            let command = command.map_err(|_| {
                pr_err!("faults: not every line is ACTION in|out [KEY=VALUE]... or clear\n");
                EINVAL
            })?;
            if let Command::Add(rule) = command {
                holds |= matches!(rule.action, Action::Delay { .. } | Action::Reorder { .. });
            }
        }
        let mut places = Places::new();
        if holds {
            places.reserve(PLACES, GFP_KERNEL)?;
            for _ in 0..PLACES {
                places.push(None, GFP_KERNEL)?;
            }
        }
        let mut guard = cx.lock(&self.hca.faults);
        let all = &mut *guard;
        let faults = all.port(self.port).ok_or(ENODEV)?;
        let mut injector = faults.injector;
        let mut cleared = false;
        for command in text::parse(text) {
            match command {
                Ok(Command::Clear) => {
                    injector = Injector::new();
                    cleared = true;
                }
                Ok(Command::Add(rule)) if injector.add(rule) => {}
                Ok(Command::Add(_)) => return Err(ENOSPC),
                Err(_) => return Err(EINVAL),
            }
        }
        faults.injector = injector;
        let unused = match faults.shelf.grow(places) {
            Ok(old) => old,
            Err(new) => new,
        };
        let has = |direction| {
            let mut rules = injector.rules();
            rules.any(|record| record.rule.filter.direction == direction)
        };
        let hca = &self.hca;
        hca.set_tap(self.port, Tap::FaultsOut, has(Direction::Out));
        hca.set_tap(self.port, Tap::FaultsIn, has(Direction::In));
        if cleared {
            faults.shelf.hurry(now());
            all.alarm = None;
            self.hca.set_fault_clock(all);
        }
        drop(guard);
        hca.retap(&mut cx, self.port);
        drop(unused);
        Ok(())
    }
}
