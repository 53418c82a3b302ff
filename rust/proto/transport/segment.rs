// SPDX-License-Identifier: GPL-2.0

//! What the machines have sent.

use crate::transport::config::{
    GrhAv,
    PathAv,
    QpConfig, //
};
use crate::transport::wqe::SendSlot;
use wire::bth::Bth;
use wire::grh::{
    self,
    Grh, //
};
use wire::header::Header;
use wire::lrh::Lrh;
use wire::opcode::Opcode;
use wire::{
    Key,
    Lid,
    Mtu,
    Psn,
    Vl, //
};

/// What the port allows at the moment of transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxLimits {
    /// Bytes that one segment may carry at most. The path MTU where segments become packets one to one; a
    /// large multiple of it where they do not. Never taken for less than the path MTU.
    pub max_payload: u32,
    /// The port's base LID. A segment's source LID is this and the path bits of its way.
    pub lid: Lid,
    /// The port's active MTU: the limit of a datagram.
    pub mtu: Mtu,
}

/// Where the payload of a segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There is none.
    None,
    /// Bytes of a send work request: of the memory that its gather list names, or of its inline data.
    Wqe {
        /// The work request.
        slot: SendSlot,
        /// The first byte within the message.
        offset: u32,
        /// Number of bytes, not 0.
        len: u32,
    },
    /// Memory that the peer reads.
    Remote {
        /// The key that it named.
        rkey: Key,
        /// The first byte.
        va: u64,
        /// Number of bytes, not 0.
        len: u32,
    },
}

impl Payload {
    /// Number of bytes.
    #[inline]
    pub const fn len(&self) -> u32 {
        match *self {
            Self::None => 0,
            Self::Wqe { len, .. } | Self::Remote { len, .. } => len,
        }
    }

    /// Whether there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A segment to be sent now.
///
/// Where it is cut into packets on the way, each gets the header with its own PSN, FIRST, MIDDLE and LAST
/// opcodes by its place, and the extension headers that go with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxSegment {
    /// The headers, complete but for the lengths that [`Header::set_payload_len`] fills in. `bth.psn` is the
    /// first packet's.
    pub header: Header,
    /// Number of packets: `payload.len()` divided by the path MTU, rounded up, and at least 1.
    pub span: u32,
    /// What follows the headers.
    pub payload: Payload,
}

/// Place of a segment in its message, in the words of the opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    First,
    Middle,
    Last,
    Only,
}

impl Place {
    /// The place of a segment that begins and ends its message, or not.
    pub(super) const fn new(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, false) => Self::Middle,
            (false, true) => Self::Last,
        }
    }
}

/// The next piece of a message that is `total` bytes and `packets` packets long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) span: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) ends: bool,
}

impl Piece {
    /// Cuts from packet `at`, which is before `packets`, at most `room` packets, and at most what a segment
    /// may carry; at least one packet.
    pub(super) fn cut(
        mtu: Mtu,
        limits: &TxLimits,
        (total, packets): (u32, u32),
        at: u32,
        room: u32,
    ) -> Self {
        let shift = mtu.shift();
        let left = packets.wrapping_sub(at);
        let most = limits.max_payload.wrapping_shr(shift).min(room).max(1);
        let span = left.min(most);
        let offset = at.wrapping_shl(shift);
        let len = total.saturating_sub(offset).min(span.wrapping_shl(shift));
        Self {
            span,
            offset,
            len,
            ends: span == left,
        }
    }
}

/// The headers that every packet of a connection has.
pub(super) fn connected_header(
    config: &QpConfig,
    limits: &TxLimits,
    opcode: Opcode,
    psn: Psn,
) -> Header {
    Header {
        lrh: link_header(&config.path, limits, Vl::new(0)),
        grh: config.path.grh.as_ref().map(global_header),
        bth: Bth {
            opcode,
            // The state of a queue pair that has no alternate path is "migrated".
            migreq: true,
            pkey: config.pkey,
            dest_qp: config.dest_qpn,
            psn,
            ..Bth::default()
        },
        ..Header::default()
    }
}

/// The link header of a packet that goes the way `av`.
pub(super) fn link_header(av: &PathAv, limits: &TxLimits, vl: Vl) -> Lrh {
    Lrh {
        vl,
        sl: av.sl,
        dlid: av.dlid,
        slid: match limits.lid {
            Lid::NONE => Lid::PERMISSIVE,
            lid => Lid::new(lid.get() | u16::from(av.src_path_bits & 0x7f)),
        },
        ..Lrh::default()
    }
}

/// The global route header of a packet that goes the way `grh`.
pub(super) fn global_header(grh: &GrhAv) -> Grh {
    Grh {
        version: grh::VERSION,
        traffic_class: grh.traffic_class,
        flow_label: grh.flow_label,
        next_hdr: grh::NEXT_HEADER_IBA,
        hop_limit: grh.hop_limit,
        sgid: grh.sgid,
        dgid: grh.dgid,
        ..Grh::default()
    }
}
