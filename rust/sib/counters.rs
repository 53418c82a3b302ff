// SPDX-License-Identifier: GPL-2.0

//! What a port counts beside what performance management asks for: `rdma statistic` shows it.
//!
//! A counter has the name that rxe (`drivers/infiniband/sw/rxe/rxe_hw_counters.c`) or, where rxe has none, mlx5
//! (`drivers/infiniband/hw/mlx5/counters.c`) gives to what is the same there; the last ones are our own.

use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use proto::transport::{
    Lapse,
    RxDrop,
    WcStatus, //
};
use rdma::ib::CounterName;
use wire::aeth::{
    NakCode,
    Syndrome, //
};
use wire::header::Header;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// An event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($(#[$doc])* $variant,)+
        }

        /// The names of all counters: those of [`Counter`], and the packets of the port.
        pub(crate) static NAMES: &[CounterName] = &[
            CounterName::new(c"sent_pkts"),
            CounterName::new(c"rcvd_pkts"),
            $(CounterName::new($name),)+
        ];
    };
}

/// How many names are not those of a [`Counter`].
const PACKETS: usize = 2;

counters! {
    /// A request came that had come before.
    DuplicateRequest = c"duplicate_request",
    /// A request came before one that precedes it.
    OutOfSequence = c"out_of_seq_request",
    /// The peer was not ready to receive.
    RnrReceived = c"rcvd_rnr_err",
    /// There was no receive work request for the peer's reliable message.
    RnrSent = c"send_rnr_err",
    /// The peer has missed a request.
    SequenceNak = c"rcvd_seq_err",
    /// An answer to an RDMA READ or atomic operation is missing.
    ImpliedNak = c"implied_nak_seq_err",
    /// The ACK timeout ran out.
    Timeout = c"local_ack_timeout_err",
    /// A work request failed since the peer did not answer.
    RetryExceeded = c"retry_exceeded_err",
    /// A work request failed since the peer was not ready.
    RnrExceeded = c"retry_rnr_exceeded_err",
    /// There was no receive work request for an unreliable message.
    OutOfBuffer = c"out_of_buffer",
    /// Something was sent again before the ACK timeout.
    Reminder = c"reminders",
    /// A queue pair refused a packet that was not for it, or not legible.
    Discarded = c"rcvd_discards",
}

/// The counters of a port.
pub(crate) struct Counters([Atomic<u64>; NAMES.len() - PACKETS]);

impl Counters {
    /// All are zero.
    pub(crate) const fn new() -> Self {
        Self([const { Atomic::new(0) }; NAMES.len() - PACKETS])
    }

    /// Counts an event.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        if let Some(counter) = self.0.get(counter as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Stores the values of all, in the order of [`NAMES`], behind those of the port's packets.
    pub(crate) fn report(&self, packets: [u64; PACKETS], values: &mut [u64]) {
        let own = self.0.iter().map(|counter| counter.load(Relaxed));
        for (to, value) in values
            .iter_mut()
            .zip(Iterator::chain(packets.into_iter(), own))
        {
            *to = value;
        }
    }

    /// Counts what a queue pair made of a packet.
    #[inline]
    pub(crate) fn count_packet(
        &self,
        header: &Header,
        outcome: Result<(), RxDrop>,
        reliable: bool,
    ) {
        if let Some(counter) = self.of_packet(header, outcome, reliable) {
            self.count(counter);
        }
    }

    #[inline]
    fn of_packet(
        &self,
        header: &Header,
        outcome: Result<(), RxDrop>,
        reliable: bool,
    ) -> Option<Counter> {
        let response = header.bth.opcode.is_response();
        match outcome {
            Ok(()) => match header.aeth?.syndrome {
                Syndrome::Ack { .. } => None,
                Syndrome::Rnr { .. } => Some(Counter::RnrReceived),
                Syndrome::Nak(NakCode::PsnSequenceError) => Some(Counter::SequenceNak),
                Syndrome::Nak(_) => None,
            },
            Err(RxDrop::Duplicate) => Some(Counter::DuplicateRequest),
            Err(RxDrop::OutOfSequence) if response => Some(Counter::ImpliedNak),
            Err(RxDrop::OutOfSequence) => Some(Counter::OutOfSequence),
            Err(RxDrop::NoRecv) if reliable => Some(Counter::RnrSent),
            Err(RxDrop::NoRecv) => Some(Counter::OutOfBuffer),
            // An answer that came twice is none too few.
            Err(RxDrop::Stale) => None,
            Err(_) => Some(Counter::Discarded),
        }
    }

    /// Counts what time has done to a queue pair.
    pub(crate) fn count_lapse(&self, lapse: Lapse) {
        match lapse {
            Lapse::None => {}
            Lapse::Timeout => self.count(Counter::Timeout),
            Lapse::Reminder => self.count(Counter::Reminder),
        }
    }

    /// Counts the end of a send work request.
    pub(crate) fn count_end(&self, status: WcStatus) {
        match status {
            WcStatus::RetryExcErr => self.count(Counter::RetryExceeded),
            WcStatus::RnrRetryExcErr => self.count(Counter::RnrExceeded),
            _ => {}
        }
    }
}
