// SPDX-License-Identifier: GPL-2.0

//! Sending what a queue pair has to send.
//!
//! Segments leave in order since one context at a time transmits for a queue pair; another one that
//! comes meanwhile leaves a note and goes. Between two segments the lock is free, so that answers
//! get in. While a segment is on its way, completions of sends are withheld.

use super::{
    send::Payload,
    Qp,
    State, //
};
use crate::{
    fabric::Segment,
    payload::{
        Gather,
        Source,
        MAX_INLINE, //
    },
    run::RunQueue, //
};
use kernel::prelude::*;
use proto::transport::{
    self as machine,
    Access,
    TxLimits,
    TxSegment,
    WcStatus, //
};
use rdma::sync::{
    Cx,
    Held,
    IrqsOn,
    Off,
    QpLock,
    Unlocked, //
};

/// Bytes of one segment. What has to become packets does so on its way.
const MAX_SEGMENT: u32 = 64 * 1024;

/// Segments after which completions are delivered although there is more to send.
const BURST: u32 = 32;

/// A segment's payload, on its way.
struct Flight {
    gather: Gather,
    inline: [u8; MAX_INLINE],
    inline_len: usize,
}

impl Flight {
    const fn new() -> Self {
        Self {
            gather: Gather::new(),
            inline: [0; MAX_INLINE],
            inline_len: 0,
        }
    }

    fn clear(&mut self) {
        self.gather.clear();
        self.inline_len = 0;
    }

    fn source(&self) -> Source<'_> {
        if self.inline_len > 0 {
            Source::Bytes(self.inline.get(..self.inline_len).unwrap_or_default())
        } else {
            Source::Gather(&self.gather)
        }
    }

    /// Collects the payload of a segment.
    fn load(
        &mut self,
        qp: &Qp,
        state: &State,
        cx: &mut Cx<'_, QpLock, Off>,
        payload: &machine::Payload,
    ) -> Result<(), WcStatus> {
        match *payload {
            machine::Payload::None => Ok(()),
            machine::Payload::Remote { rkey, va, len } => {
                let piece = qp
                    .pd
                    .remote(cx.reborrow(), qp.serial, rkey, (va, len), Access::Read)
                    .ok_or(WcStatus::RemAccessErr)?;
                self.gather.push(piece);
                Ok(())
            }
            machine::Payload::Wqe { slot, offset, len } => match state.sends.payload(slot) {
                Payload::Inline(bytes) => self.load_inline(bytes, offset as usize, len as usize),
                Payload::Gather(list) => {
                    let mut skip = offset;
                    let mut left = len;
                    for sge in list {
                        if left == 0 {
                            break;
                        }
                        if skip >= sge.length {
                            skip = skip.wrapping_sub(sge.length);
                            continue;
                        }
                        let part = left.min(sge.length.wrapping_sub(skip));
                        let space = qp.space.as_ref();
                        let piece = qp
                            .pd
                            .local(cx.reborrow(), space, sge, (skip, part), false)?;
                        if piece.region().is_none() || !self.gather.push(piece) {
                            return Err(WcStatus::LocProtErr);
                        }
                        left = left.wrapping_sub(part);
                        skip = 0;
                    }
                    if left == 0 {
                        Ok(())
                    } else {
                        Err(WcStatus::LocLenErr)
                    }
                }
            },
        }
    }

    fn load_inline(&mut self, bytes: &[u8], offset: usize, len: usize) -> Result<(), WcStatus> {
        let end = offset.checked_add(len).ok_or(WcStatus::LocLenErr)?;
        let from = bytes.get(offset..end).ok_or(WcStatus::LocLenErr)?;
        for (to, from) in self.inline.iter_mut().zip(from) {
            *to = *from;
        }
        self.inline_len = len;
        Ok(())
    }
}

/// The segment with its lengths filled in, where it is a packet.
fn sealed(mut segment: TxSegment) -> Result<TxSegment, WcStatus> {
    if segment.span == 1 {
        segment
            .header
            .set_payload_len(segment.payload.len() as usize)
            .map_err(|_| WcStatus::LocLenErr)?;
    }
    Ok(segment)
}

impl Qp {
    /// Sends what there is to send, within the budget of the call chain. The rest goes to the work
    /// queue.
    pub(crate) fn transmit(
        qp: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
        run: &mut RunQueue,
    ) {
        let dlid = {
            let mut guard = cx.lock(&qp.state);
            if guard.busy {
                guard.again = true;
                return;
            }
            guard.busy = true;
            guard.machine.config().path.dlid
        };
        let port = qp.port();
        let view = qp.hca.view(port);
        let takes_segments = qp.hca.takes_segments(cx, port, dlid);
        let limits = TxLimits {
            max_payload: if takes_segments { MAX_SEGMENT } else { 0 },
            lid: view.lid,
            mtu: view.mtu,
        };
        let mut flight = Flight::new();
        let mut sent: u32 = 0;
        let exhausted = loop {
            if !run.charge() {
                break true;
            }
            flight.clear();
            let Some(segment) = qp.next_segment(cx, &limits, &mut flight) else {
                break false;
            };
            let segment = Segment {
                header: &segment.header,
                span: segment.span,
                source: &flight.source(),
                damage: None,
            };
            qp.hca.transmit(cx, irqs, run, port, segment);
            sent = sent.wrapping_add(1);
            if sent & BURST.wrapping_sub(1) == 0 {
                qp.report(cx, irqs);
            }
        };
        flight.clear();
        if qp.finish(cx, exhausted) {
            if let Some(qp) = qp.try_clone() {
                Qp::schedule(qp);
            }
        }
        qp.report(cx, irqs);
    }

    /// The next segment, with its payload in `flight`. Work requests whose payload is out of reach
    /// fail.
    fn next_segment(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        limits: &TxLimits,
        flight: &mut Flight,
    ) -> Option<TxSegment> {
        let mut guard = cx.lock(&self.state);
        let (state, mut cx) = guard.split();
        state.again = false;
        loop {
            let now = crate::fabric::now();
            let Some(segment) = state.machine.poll_transmit(now, limits) else {
                if state.execute_local(self, &mut cx) {
                    continue;
                }
                return None;
            };
            let loaded = flight
                .load(self, state, &mut cx, &segment.payload)
                .and_then(|()| sealed(segment));
            match loaded {
                Ok(segment) => return Some(segment),
                Err(status) => {
                    flight.clear();
                    state.with_machine(self, cx.reborrow(), Source::Bytes(&[]), |machine, env| {
                        machine.gather_failed(&segment.payload, status, env);
                    });
                }
            }
        }
    }

    /// Ends transmission; returns whether there is reason to start again.
    fn finish(&self, cx: &mut Cx<'_, Unlocked>, exhausted: bool) -> bool {
        let mut guard = cx.lock(&self.state);
        let (state, mut cx) = guard.split();
        state.busy = false;
        state.withheld.release(&mut cx, self);
        state.with_machine(self, cx.reborrow(), Source::Bytes(&[]), |machine, env| {
            machine.transmitted(env);
        });
        self.watch(state);
        exhausted || state.again
    }
}
