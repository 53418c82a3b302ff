// SPDX-License-Identifier: GPL-2.0

//! What a fabric has sent and received as UDP datagrams, and what it has dropped.

use kernel::sync::atomic::Relaxed;
use proto::fabric::line::Fault;
use rdma::net::Packet;
use rdma::sync::Atomic;
use wire::error::WireError;

macro_rules! drops {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// Why a datagram, or a packet to be sent, was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Dropped {
            $($(#[$doc])* $variant,)+
        }

        impl Dropped {
            const NAMES: &'static [&'static str] = &[$($name),+];
        }
    };
}

drops! {
    /// Shorter than its headers.
    Truncated = "truncated",
    /// Not of this protocol.
    Magic = "magic",
    /// Of another version of it.
    Version = "version",
    /// Of an unknown kind, or not legible as what it says it is.
    Malformed = "malformed",
    /// With a cookie that nobody has, or not from where that was given to.
    Stranger = "stranger",
    /// A packet whose headers contradict each other or its length.
    Header = "header",
    /// A packet with a wrong ICRC.
    Icrc = "icrc",
    /// A Hello, or its acknowledgement, without the tag of the fabric key.
    Key = "key",
    /// A packet for a port without a link.
    NoLink = "no_link",
    /// Put together by the network layer, without memory to take it apart.
    Memory = "memory",
    /// To be sent, but too large, or without memory.
    Unsendable = "unsendable",
    /// Datagrams to be sent, but refused by the network layer.
    Network = "network",
}

impl From<WireError> for Dropped {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Truncated => Self::Truncated,
            WireError::OuterMagic => Self::Magic,
            WireError::OuterVersion(_) => Self::Version,
            WireError::Icrc => Self::Icrc,
            WireError::OuterKind(_) | WireError::Control => Self::Malformed,
            _ => Self::Header,
        }
    }
}

impl From<Fault> for Dropped {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Wire(error) => error.into(),
            Fault::Stranger => Self::Stranger,
        }
    }
}

/// Batches that went one way: what is one packet to the network layer.
struct Traffic {
    batches: Atomic<u64>,
    datagrams: Atomic<u64>,
}

impl Traffic {
    const fn new() -> Self {
        Self {
            batches: Atomic::new(0),
            datagrams: Atomic::new(0),
        }
    }

    /// Returns the number of datagrams in it.
    fn count(&self, batch: &Packet) -> usize {
        let datagrams = batch.datagrams();
        self.batches.fetch_add(1, Relaxed);
        self.datagrams.fetch_add(datagrams as u64, Relaxed);
        datagrams
    }
}

/// What the sockets of a fabric have done.
pub(crate) struct Account {
    drops: [Atomic<u64>; Dropped::NAMES.len()],
    sent: Traffic,
    received: Traffic,
    /// How often somebody looked at what had come.
    rounds: Atomic<u64>,
}

impl Account {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self {
            drops: [const { Atomic::new(0) }; Dropped::NAMES.len()],
            sent: Traffic::new(),
            received: Traffic::new(),
            rounds: Atomic::new(0),
        }
    }

    /// Counts a datagram, or a packet to be sent, that was dropped.
    pub(super) fn dropped(&self, cause: Dropped) {
        self.add(cause, 1);
    }

    /// Counts datagrams that the network layer has refused.
    pub(super) fn unsent(&self, datagrams: usize) {
        self.add(Dropped::Network, datagrams as u64);
    }

    fn add(&self, cause: Dropped, amount: u64) {
        if let Some(counter) = self.drops.get(cause as usize) {
            counter.fetch_add(amount, Relaxed);
        }
    }

    /// Counts a batch that is handed to the network layer. Returns the number of datagrams in it.
    pub(super) fn sent(&self, batch: &Packet) -> usize {
        self.sent.count(batch)
    }

    /// Counts that somebody looks at what has come, which may be several batches.
    pub(super) fn looked(&self) {
        self.rounds.fetch_add(1, Relaxed);
    }

    /// Counts a batch that has come.
    pub(super) fn received(&self, batch: &Packet) {
        self.received.count(batch);
    }

    /// The names of the causes of drops, and the counts.
    pub(crate) fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let names = Dropped::NAMES.iter().copied();
        names.zip(self.drops.iter().map(|counter| counter.load(Relaxed)))
    }

    /// The names of what is counted of batches, and the counts.
    pub(crate) fn carried(&self) -> [(&'static str, u64); 5] {
        [
            ("sent_batches", &self.sent.batches),
            ("sent_datagrams", &self.sent.datagrams),
            ("rcvd_batches", &self.received.batches),
            ("rcvd_datagrams", &self.received.datagrams),
            ("rcvd_rounds", &self.rounds),
        ]
        .map(|(name, counter)| (name, counter.load(Relaxed)))
    }
}
