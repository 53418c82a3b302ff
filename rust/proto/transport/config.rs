// SPDX-License-Identifier: GPL-2.0

//! The attributes of a queue pair that its machine works by.

use crate::time::Duration;
use crate::transport::migration::{
    Alternate,
    MigState, //
};
use wire::{
    Gid,
    Lid,
    Mtu,
    PKey,
    PortNum,
    Psn,
    QKey,
    Qpn,
    Sl, //
};

/// The part of an address vector that goes into a global route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrhAv {
    /// Index of the source in the GID table of the port.
    pub sgid_index: u8,
    /// Source: the GID that stands there.
    pub sgid: Gid,
    /// Destination.
    pub dgid: Gid,
    /// Flow label (20 bits).
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// An address vector: the way to a port (IBA "Address Vector").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathAv {
    /// Destination LID.
    pub dlid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Which of the port's LIDs to send from (7 bits).
    pub src_path_bits: u8,
    /// Static rate. Kept for queries; an emulated link has no rate to hold back.
    pub static_rate: u8,
    /// The global route, if packets are to have a GRH.
    pub grh: Option<GrhAv>,
}

/// What remote peers may do through a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessFlags {
    /// RDMA WRITE.
    pub remote_write: bool,
    /// RDMA READ.
    pub remote_read: bool,
    /// Atomic operations.
    pub remote_atomic: bool,
    /// FLUSH to global visibility.
    pub flush_global: bool,
    /// FLUSH to persistence.
    pub flush_persistent: bool,
}

/// `rnr_retry` and its meaning "for ever".
pub const RNR_RETRY_INFINITE: u8 = 7;

/// Attributes of a queue pair, as `ib_modify_qp` sets them, resolved: keys instead of indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpConfig {
    /// This queue pair.
    pub qpn: Qpn,
    /// The peer (RC, UC).
    pub dest_qpn: Qpn,
    /// The way to the peer (RC, UC).
    pub path: PathAv,
    /// The port at this end of that way (RC, UC).
    pub port: PortNum,
    /// The other way, if there is one (RC, UC).
    pub alternate: Option<Alternate>,
    /// What becomes of that one.
    pub mig_state: MigState,
    /// Whether the peer has not been heard since the migration, and may not know of it.
    pub unheard: bool,
    /// Whether a peer that has migrated is followed although this end has not heard that it was ready to. The
    /// IBA drops such a packet; then a peer that goes over too early is lost.
    pub follow_unarmed: bool,
    /// Whether a packet that the peer sent before it had an alternate path may still come on the primary path.
    /// The IBA's networks keep the order of packets, so that it reports such a one as a failed migration.
    pub pardon_late: bool,
    /// Whether an end without traffic asks its peer, in order to be armed, and to be followed (RC).
    pub probes: bool,
    /// Path MTU (RC, UC).
    pub mtu: Mtu,
    /// The P_Key that `pkey_index` names.
    pub pkey: PKey,
    /// Index of `pkey`.
    pub pkey_index: u16,
    /// Q_Key (datagrams).
    pub qkey: QKey,
    /// First PSN to send.
    pub sq_psn: Psn,
    /// First PSN to expect.
    pub rq_psn: Psn,
    /// Local ACK timeout code (5 bits): see [`wire::timer::ack_timeout_ns`]. 0 waits for ever.
    pub timeout: u8,
    /// The shortest ACK timeout in effect, whatever `timeout` says: what an answer takes on a loaded machine.
    pub timeout_floor: Duration,
    /// The shortest time after which a missing answer is asked for again early, at no charge to `retry_cnt`, if
    /// answers usually come sooner. Zero leaves all repair to NAKs and the ACK timeout.
    pub reminder_floor: Duration,
    /// How often to ask again without an answer (3 bits).
    pub retry_cnt: u8,
    /// How often to ask again after RNR NAKs (3 bits); [`RNR_RETRY_INFINITE`] is for ever.
    pub rnr_retry: u8,
    /// RNR NAK timer code to send (5 bits): see [`wire::timer::rnr_delay_ns`].
    pub min_rnr_timer: u8,
    /// RDMA READ and atomic operations outstanding at most, as requester.
    pub max_rd_atomic: u8,
    /// RDMA READ and atomic operations outstanding at most, as responder.
    pub max_dest_rd_atomic: u8,
    /// Packets sent but not acknowledged at most; a message may always have one segment under way. 0 is
    /// taken for 1.
    pub max_unacked: u32,
    /// What the peer may do.
    pub access: AccessFlags,
    /// Whether receive work requests come from a shared receive queue.
    pub srq: bool,
    /// Whether a drained send queue is reported ([`QpEvent::SqDrained`](super::QpEvent::SqDrained)).
    pub notify_drained: bool,
}
