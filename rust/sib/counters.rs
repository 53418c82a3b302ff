// SPDX-License-Identifier: GPL-2.0

//! What a port counts beside what performance management asks for: `rdma statistic` shows it.
//!
//! A counter has the name that rxe (`drivers/infiniband/sw/rxe/rxe_hw_counters.c`) or, where rxe has none, mlx5
//! (`drivers/infiniband/hw/mlx5/counters.c`) gives to what is the same there; the last ones are our own.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use proto::transport::{
    Lapse,
    QpEvent,
    RxDrop,
    WcStatus, //
};
use rdma::cm::PathCount;
use rdma::ib::{
    CounterName,
    QpType, //
};
use rdma::sync::Atomic;
use rdma::trace::Cause;
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
    /// A packet was for no LID of the port, or no queue pair that is there, or refused by it: not for it, or not
    /// legible; or it had the LID of a multicast group or its queue pair, and not both.
    Discarded = c"rcvd_discards",
    /// A queue pair has left the port for its alternate path.
    Migration = c"path_mig",
    /// The peer of a queue pair has migrated to a path that is not this end's alternate one.
    MigrationFailed = c"path_mig_err",
    /// A packet came for a queue pair by the path that this has left.
    OldPath = c"rcvd_old_path",
    /// A LAP was sent, for the first time or again.
    LapSent = c"sent_lap",
    /// A LAP was sent again.
    LapRetried = c"retried_lap",
    /// A LAP came that is for a connection of the port's connection manager.
    LapReceived = c"rcvd_lap",
    /// It had come before.
    LapDuplicate = c"duplicate_lap",
    /// It was older than another one, or the connection not established.
    LapStale = c"stale_lap",
    /// It was refused, and the consumer not asked.
    LapRefused = c"refused_lap",
    /// An APR was sent, for the first time or again.
    AprSent = c"sent_apr",
    /// An APR was sent again, since its LAP came again.
    AprRetried = c"retried_apr",
    /// An APR came that is for a connection of the port's connection manager.
    AprReceived = c"rcvd_apr",
    /// It had come before.
    AprDuplicate = c"duplicate_apr",
    /// Its LAP had been given up.
    AprStale = c"stale_apr",
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
}

impl Counter {
    /// Why something will be sent again, if it will.
    pub(crate) fn cause(self) -> Option<Cause> {
        match self {
            Self::Timeout => Some(Cause::Timeout),
            Self::Reminder => Some(Cause::Reminder),
            Self::SequenceNak => Some(Cause::SequenceNak),
            Self::ImpliedNak => Some(Cause::ImpliedNak),
            Self::RnrReceived => Some(Cause::RnrNak),
            _ => None,
        }
    }
}

/// What to count for what a queue pair of this type made of a packet.
#[inline]
pub(crate) fn of_packet(
    header: &Header,
    outcome: Result<(), RxDrop>,
    ty: QpType,
) -> Option<Counter> {
    match outcome {
        Ok(()) => match header.aeth?.syndrome {
            Syndrome::Ack { .. } => None,
            Syndrome::Rnr { .. } => Some(Counter::RnrReceived),
            Syndrome::Nak(NakCode::PsnSequenceError) => Some(Counter::SequenceNak),
            Syndrome::Nak(_) => None,
        },
        Err(RxDrop::Duplicate) => Some(Counter::DuplicateRequest),
        Err(RxDrop::OutOfSequence) if header.bth.opcode.is_response() => Some(Counter::ImpliedNak),
        Err(RxDrop::OutOfSequence) => Some(Counter::OutOfSequence),
        Err(RxDrop::NoRecv) if ty == QpType::Rc => Some(Counter::RnrSent),
        Err(RxDrop::NoRecv) => Some(Counter::OutOfBuffer),
        // An answer that came twice is none too few, and what comes again is not lost.
        Err(RxDrop::Stale | RxDrop::Absent | RxDrop::Busy) => None,
        // ib_mad has made it, and is about to use it.
        Err(RxDrop::State) if matches!(ty, QpType::Smi | QpType::Gsi) => None,
        Err(RxDrop::OldPath) => Some(Counter::OldPath),
        Err(_) => Some(Counter::Discarded),
    }
}

/// What to count for an event of a queue pair.
pub(crate) fn of_event(event: QpEvent) -> Option<Counter> {
    match event {
        QpEvent::PathMig => Some(Counter::Migration),
        QpEvent::PathMigErr => Some(Counter::MigrationFailed),
        QpEvent::CommEst
        | QpEvent::SqDrained
        | QpEvent::ReqErr
        | QpEvent::AccessErr
        | QpEvent::Fatal
        | QpEvent::LastWqeReached => None,
    }
}

/// What to count for what the connection manager has to do with alternate paths.
pub(crate) fn of_manager(count: PathCount) -> Counter {
    match count {
        PathCount::LapSent => Counter::LapSent,
        PathCount::LapRetried => Counter::LapRetried,
        PathCount::LapReceived => Counter::LapReceived,
        PathCount::LapDuplicate => Counter::LapDuplicate,
        PathCount::LapStale => Counter::LapStale,
        PathCount::LapRefused => Counter::LapRefused,
        PathCount::AprSent => Counter::AprSent,
        PathCount::AprRetried => Counter::AprRetried,
        PathCount::AprReceived => Counter::AprReceived,
        PathCount::AprDuplicate => Counter::AprDuplicate,
        PathCount::AprStale => Counter::AprStale,
    }
}

/// What to count for what time has done to a queue pair.
pub(crate) fn of_lapse(lapse: Lapse) -> Option<Counter> {
    match lapse {
        Lapse::None => None,
        Lapse::Timeout => Some(Counter::Timeout),
        Lapse::Reminder => Some(Counter::Reminder),
    }
}

/// What to count for the end of a send work request.
#[inline]
pub(crate) fn of_end(status: WcStatus) -> Option<Counter> {
    match status {
        WcStatus::RetryExcErr => Some(Counter::RetryExceeded),
        WcStatus::RnrRetryExcErr => Some(Counter::RnrExceeded),
        _ => None,
    }
}
