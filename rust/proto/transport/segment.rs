// SPDX-License-Identifier: GPL-2.0

//! What the machines have sent.

use crate::transport::config::{
    GrhAv,
    PathAv,
    QpConfig, //
};
use crate::transport::wqe::SendSlot;
use wire::aeth;
use wire::bth::Bth;
use wire::grh::{
    self,
    Grh, //
};
use wire::header::Header;
use wire::lrh::Lrh;
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::reth::Reth;
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
    /// The number of path bits that the port has (its LMC). Of those of a way, others are ignored: they would
    /// make the LID of another port.
    pub lmc: u8,
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

impl TxSegment {
    /// The header of packet `at` of a segment with this header and `span` packets; its lengths are still to be
    /// filled in. `None` if there is no such packet.
    pub fn packet_header(header: &Header, span: u32, at: u32) -> Option<Header> {
        let last = span.checked_sub(1)?;
        if at > last {
            return None;
        }
        let whole = header.bth.opcode;
        let place = Place::new(whole.starts() && at == 0, whole.ends() && at == last);
        let opcode = Opcode::new(whole.service(), operation_at(whole.operation(), place))?;
        let mut packet = *header;
        packet.bth.opcode = opcode;
        packet.bth.psn = header.bth.psn.add(at);
        packet.bth.ack_req = header.bth.ack_req && at == last;
        packet.bth.se = header.bth.se && opcode.ends();
        packet.reth = header.reth.filter(|_| opcode.has_reth());
        packet.aeth = header.aeth.filter(|_| opcode.has_aeth());
        packet.imm = header.imm.filter(|_| opcode.has_imm());
        packet.ieth = header.ieth.filter(|_| opcode.has_ieth());
        Some(packet)
    }

    /// Size in bytes of the headers of all packets of a segment with this header and `span` packets.
    #[inline]
    pub fn headers_len(header: &Header, span: u32) -> u64 {
        let whole = header.bth.opcode;
        let extensions = whole.ext_len();
        let base = header.len().wrapping_sub(extensions) as u64;
        // Each extension header is in one packet, but for that of a response: in the first one and in the last.
        let twice = span > 1 && whole.has_aeth() && whole.starts() && whole.ends();
        let again = if twice { aeth::LEN } else { 0 };
        u64::from(span)
            .wrapping_mul(base)
            .wrapping_add(extensions.wrapping_add(again) as u64)
    }
}

impl TxSegment {
    /// The header of a segment with `header` and `span` packets and one more, which is `next`; the lengths mean
    /// nothing. `None` if that is not the next packet of the same message.
    pub fn joined_header(header: &Header, span: u32, next: &Header) -> Option<Header> {
        let (bth, next_bth) = (&header.bth, &next.bth);
        let route = |header: &Header| header.grh.map(|grh| (grh.sgid, grh.dgid));
        let follows = !bth.opcode.ends()
            && !next_bth.opcode.starts()
            && middle_of(bth.opcode) == middle_of(next_bth.opcode)
            && next_bth.psn == bth.psn.add(span)
            && next_bth.dest_qp == bth.dest_qp
            && next_bth.pkey == bth.pkey
            && next_bth.migreq == bth.migreq
            && (next.lrh.dlid, next.lrh.slid) == (header.lrh.dlid, header.lrh.slid)
            && route(next) == route(header);
        if !follows {
            return None;
        }
        let place = Place::new(bth.opcode.starts(), next_bth.opcode.ends());
        let operation = operation_at(next_bth.opcode.operation(), place);
        let mut joined = *header;
        joined.bth.opcode = Opcode::new(bth.opcode.service(), operation)?;
        joined.bth.ack_req = bth.ack_req || next_bth.ack_req;
        joined.bth.se = next_bth.se;
        joined.aeth = next.aeth.or(header.aeth);
        joined.imm = next.imm;
        joined.ieth = next.ieth;
        Some(joined)
    }
}

/// Service and operation of the packets in the middle of a message with such a packet.
fn middle_of(opcode: Opcode) -> (Service, Operation) {
    let operation = operation_at(opcode.operation(), Place::Middle);
    (opcode.service(), operation)
}

/// The operation of the packets of a message with `operation` that have this place.
#[rustfmt::skip]
fn operation_at(operation: Operation, place: Place) -> Operation {
    use Operation::*;
    let [first, middle, last, only] = match operation {
        SendFirst | SendMiddle | SendLast | SendOnly     => [SendFirst, SendMiddle, SendLast, SendOnly],
        SendLastImm | SendOnlyImm                        => [SendFirst, SendMiddle, SendLastImm, SendOnlyImm],
        SendLastInv | SendOnlyInv                        => [SendFirst, SendMiddle, SendLastInv, SendOnlyInv],
        WriteFirst | WriteMiddle | WriteLast | WriteOnly => [WriteFirst, WriteMiddle, WriteLast, WriteOnly],
        WriteLastImm | WriteOnlyImm                      => [WriteFirst, WriteMiddle, WriteLastImm, WriteOnlyImm],
        ReadRespFirst | ReadRespMiddle | ReadRespLast | ReadRespOnly =>
            [ReadRespFirst, ReadRespMiddle, ReadRespLast, ReadRespOnly],
        alone => [alone; 4],
    };
    match place {
        Place::First => first,
        Place::Middle => middle,
        Place::Last => last,
        Place::Only => only,
    }
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
            migreq: config.asks_to_follow(),
            pkey: config.pkey,
            dest_qp: config.dest_qpn,
            psn,
            ..Bth::default()
        },
        ..Header::default()
    }
}

/// A question to the peer: how far has it come? To any responder it is a repetition, of the last request before `next`,
/// whatever that was; there is no memory in it.
pub(super) fn question(next: Psn, config: &QpConfig, limits: &TxLimits) -> Option<TxSegment> {
    let opcode = Opcode::new(Service::Rc, Operation::WriteOnly)?;
    let mut header = connected_header(config, limits, opcode, next.back(1));
    header.reth = Some(Reth::default());
    header.bth.ack_req = true;
    Some(TxSegment {
        header,
        span: 1,
        payload: Payload::None,
    })
}

/// The link header of a packet that goes the way `av`.
pub(super) fn link_header(av: &PathAv, limits: &TxLimits, vl: Vl) -> Lrh {
    Lrh {
        vl,
        sl: av.sl,
        dlid: av.dlid,
        slid: match limits.lid {
            Lid::NONE => Lid::PERMISSIVE,
            lid => lid.with_path_bits(av.src_path_bits, limits.lmc),
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
