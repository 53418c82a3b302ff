// SPDX-License-Identifier: GPL-2.0

//! Short answers, which are given back to whoever brings the question.
//!
//! An acknowledgement, or the answer to a small RDMA READ or an atomic operation, that goes to another HCA of this
//! host need not go the way of segments: the call that hands the question on returns it.

use super::transmit::Transmitter;
use super::{
    Arrival,
    Qp,
    State, //
};
use crate::fabric::Segment;
use crate::payload::Source;
use kernel::prelude::*;
use proto::transport::{
    Payload,
    TxSegment, //
};
use rdma::sync::{
    Cx,
    Held,
    Off,
    QpLock, //
};

/// Bytes of an answer that is given back at once, as a copy.
const MAX_REPLY: usize = 256;

/// A short answer to a segment, given back at once.
pub(super) struct Reply {
    segment: Option<TxSegment>,
    /// Its payload is what these begin with.
    bytes: [u8; MAX_REPLY],
}

impl Reply {
    pub(super) fn none() -> impl Init<Self> {
        init!(Self {
            segment: None,
            bytes: [0; MAX_REPLY],
        })
    }
}

impl State {
    /// Has the machine take the answer to the segment that was sent last, if one came at once. Nothing
    /// is on its way now, so no completion has to wait.
    pub(super) fn take_reply(
        &mut self,
        own: &mut Transmitter,
        qp: &Qp,
        cx: &mut Cx<'_, QpLock, Off>,
    ) {
        if let Some(answer) = own.reply.segment.take() {
            let len = answer.payload.len() as usize;
            let segment = Segment {
                header: &answer.header,
                span: 1,
                source: &Source::Bytes(own.reply.bytes.get(..len).unwrap_or_default()),
                damage: None,
                hops: 0,
            };
            self.withheld.release(cx, qp, &mut self.events);
            // Both ends have agreed on a partition: this answers a segment that was taken.
            let arrival = Arrival {
                segment,
                port: own.lane.port(),
                pkey_index: None,
            };
            let attended = self.absence.is_waiting();
            let _ = self.accept(false, qp, cx.reborrow(), &arrival);
            own.unattended |= !attended && self.absence.is_waiting();
        }
    }

    /// Gives the answer that is owed to `asker`, if it is short and can go there at once.
    pub(super) fn reply(
        &mut self,
        qp: &Qp,
        cx: &mut Cx<'_, QpLock, Off>,
        asker: &Held<Qp>,
        reply: &mut Reply,
    ) {
        let address = qp.address(self.machine.config());
        let Some(own) = &self.transmitter else {
            return;
        };
        if !own.lane.leads_to(&address) || !own.lane.ends_at(asker) {
            return;
        }
        let answer = self.machine.poll_reply(MAX_REPLY as u32, &own.lane.limits);
        let Some(mut answer) = answer else {
            return;
        };
        let len = answer.payload.len() as usize;
        let Some(bytes) = reply.bytes.get_mut(..len) else {
            return;
        };
        if len > 0 && self.load_reply(qp, cx, &answer.payload, bytes).is_none() {
            // Whoever sends it the long way finds out what is wrong, if it is sent: nobody waits for its memory now.
            self.absence.sending.forget();
            return self.machine.put_back(&answer.payload);
        }
        if answer.header.set_payload_len(len).is_err() {
            return;
        }
        let segment = Segment {
            header: &answer.header,
            span: 1,
            source: &Source::Bytes(bytes),
            damage: None,
            hops: 0,
        };
        let lane = self.transmitter.as_ref().map(|own| &own.lane);
        if lane.is_some_and(|lane| qp.hca.count_along(lane, asker, &segment)) {
            reply.segment = Some(answer);
        }
    }

    /// Fills `bytes` with the payload of an answer.
    fn load_reply(
        &mut self,
        qp: &Qp,
        cx: &mut Cx<'_, QpLock, Off>,
        payload: &Payload,
        bytes: &mut [u8],
    ) -> Option<()> {
        let mut own = self.transmitter.take()?;
        let loaded = own.flight.load(qp, self, cx, payload).is_ok();
        let copied = loaded && own.flight.source().copy_out(0, bytes).is_ok();
        own.flight.clear();
        self.transmitter = Some(own);
        copied.then_some(())
    }
}
