// SPDX-License-Identifier: GPL-2.0

//! Management of an HCA: datagrams for its agents, what they lead to, and its traps.
//!
//! ib_core owns QP0 and QP1 and offers every datagram for an agent here first. An order to take a link down is
//! carried out a little later, when the answer has gone out over that same link.
//!
//! ib_mad sends the answers, also while it lets go of an HCA, and does not protect what it sends them by from its own
//! removal. So an HCA is [silent](fall_silent) before. It [speaks](speak) once ib_mad has all that it needs, in the
//! network namespace where it was made, and in each that it is moved to.

use crate::events;
use crate::fabric::{
    now,
    trap_header,
    Segment, //
};
use crate::hca::{
    Hca,
    Sma, //
};
use crate::payload::Source;
use crate::qp;
use crate::run::RunQueue;
use kernel::sync::atomic::{
    Acquire,
    Full,
    Release, //
};
use proto::fabric::port::PortEvent;
use proto::fabric::sma::MadVerdict;
use proto::time::{
    Duration,
    Instant, //
};
use rdma::ib::{
    Mad,
    MadResult,
    MAD_SIZE, //
};
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use rdma::timer::Expire;
use wire::{
    Lid,
    PortNum, //
};

/// The time that an answer has to leave before the link does what it was told.
const SETTLE: Duration = Duration::from_millis(50);

/// Orders for links that wait until the answers have left.
#[derive(Clone, Copy, Default)]
pub(crate) struct Orders {
    /// Bit n is port n.
    ports: u16,
    /// When all of them are carried out.
    at: Instant,
}

impl Orders {
    fn add(&mut self, port: PortNum, now: Instant) {
        self.ports |= 1u16.wrapping_shl(u32::from(port.get()));
        self.at = now.after(SETTLE);
    }

    fn due(&self) -> Option<Instant> {
        (self.ports != 0).then_some(self.at)
    }

    /// Takes the orders that are due at `now`.
    fn take(&mut self, now: Instant) -> impl Iterator<Item = PortNum> {
        let ports = if self.at <= now {
            core::mem::take(&mut self.ports)
        } else {
            0
        };
        (0..u16::BITS as u8)
            .filter(move |port| ports >> port & 1 != 0)
            .map(PortNum::new)
    }
}

/// The ports of an HCA.
fn ports(sma: &Sma) -> impl Iterator<Item = PortNum> + use<> {
    (1..=sma.port_count()).map(PortNum::new)
}

/// Offers a datagram to the agents.
pub(crate) fn process(
    cx: &mut Cx<'_, Unlocked>,
    hca: &Hca,
    mad: &Mad<'_>,
    reply: &mut [u8; MAD_SIZE],
) -> MadResult {
    let Ok(port) = u8::try_from(mad.port) else {
        return MadResult::Failure;
    };
    let slid = mad.source.map_or(Lid::NONE, |from| Lid::new(from.slid));
    let guarded = (!mad.ignore_mkey).then_some(slid);
    let outcome = {
        let now = now();
        let mut guard = cx.lock(&hca.state);
        let state = &mut *guard;
        for port in ports(&state.sma) {
            if let (Some(traffic), Some(counters)) =
                (hca.traffic(port), state.sma.counters_mut(port))
            {
                traffic.report(counters);
            }
        }
        let outcome = state
            .sma
            .process(PortNum::new(port), mad.request, reply, guarded, now);
        hca.publish(state, outcome.port);
        if outcome.settle {
            state.orders.add(outcome.port, now);
        }
        hca.set_clock(state.orders, &state.sma);
        outcome
    };
    let tables = [PortEvent::PkeyChange, PortEvent::GidChange];
    if tables
        .into_iter()
        .any(|table| outcome.events.contains(table))
    {
        qp::follow_all(cx, hca, outcome.port);
    }
    events::dispatch(cx, hca, outcome.port, outcome.events);
    // Of what is passed, ib_mad answers requests that nobody wants.
    let is_answered = outcome.verdict == MadVerdict::Reply || mad.is_request();
    if is_answered && mad.source.is_some() && hca.is_silent.load(Acquire) {
        return MadResult::Consumed;
    }
    match outcome.verdict {
        MadVerdict::Reply => MadResult::Reply,
        MadVerdict::Consumed => MadResult::Consumed,
        MadVerdict::Pass => MadResult::Pass,
    }
}

/// Has datagrams answered: ib_mad can send the answers.
pub(crate) fn speak(hca: &Hca) {
    hca.is_silent.store(false, Release);
}

/// Has no datagram answered any more when this returns. What is asked from now on may still be done.
pub(crate) fn fall_silent(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, hca: &Hca) {
    // Before it is seen whether workers of these queues have anything to do: they answer what came before.
    hca.is_silent.xchg(true, Full);
    for port in 0..usize::from(hca.ports()) {
        let pair = {
            let state = cx.lock(&hca.state);
            let pair = state.special.get(port);
            pair.map(|pair| pair.each_ref().map(|qp| qp.as_ref()?.try_clone()))
        };
        for qp in pair.into_iter().flatten().flatten() {
            qp.flush(cx, sleepable);
        }
    }
}

impl Hca {
    /// Sets the clock to the next order or trap. To be called under the lock of the HCA after every call into
    /// its agents that takes a time.
    pub(crate) fn set_clock(&self, orders: Orders, sma: &Sma) {
        let traps = ports(sma).filter_map(|port| sma.next_trap(port));
        if let Some(due) = traps.chain(orders.due()).min() {
            self.clock.arm(due.nanos());
        }
    }

    /// Sends the traps of `port` that are due.
    fn send_traps(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
        port: PortNum,
    ) {
        loop {
            let trap = cx.lock(&self.state).sma.poll_trap(port, now());
            let Some(trap) = trap else { break };
            let Some(header) = trap_header(&trap) else {
                continue;
            };
            let source = Source::Bytes(&trap.mad);
            let segment = Segment {
                header: &header,
                span: 1,
                source: &source,
                damage: None,
                hops: 0,
            };
            self.transmit(cx, irqs, run, port, segment);
        }
    }
}

impl Expire for Hca {
    type Pointer = Held<Self>;

    fn expire(this: &Held<Self>, mut cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>) {
        let orders = cx.lock(&this.state).orders.take(now());
        for port in orders {
            this.settle(&mut cx, port);
        }
        RunQueue::with(&mut cx, irqs, |cx, run| {
            for port in (1..=this.ports()).map(PortNum::new) {
                this.send_traps(cx, irqs, run, port);
            }
        });
        let guard = cx.lock(&this.state);
        this.set_clock(guard.orders, &guard.sma);
    }
}
