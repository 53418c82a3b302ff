// SPDX-License-Identifier: GPL-2.0

//! Why bytes are not a packet, or a value cannot become bytes.

/// What is wrong with the input.
///
/// A receiver drops the packet whatever the variant; they differ so that counters can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The buffer ends before the structure does.
    Truncated,
    /// The output buffer is too small.
    NoSpace,
    /// The LRH has another link version than 0. Holds the version.
    LinkVersion(u8),
    /// The LRH announces no IBA transport (raw packets, which nothing here carries).
    LinkNextHeader,
    /// The LRH packet length is not the length of the packet.
    PacketLength,
    /// The GRH is not version 6, or does not announce a BTH.
    GlobalHeader,
    /// The GRH payload length is not what follows it.
    GlobalLength,
    /// The BTH has another transport version than 0. Holds the version.
    TransportVersion(u8),
    /// The BTH opcode is unknown, or of a service that nothing here speaks. Holds the opcode.
    Opcode(u8),
    /// The opcode carries no payload, but there is one; or more pad than payload.
    PayloadLength,
    /// The AETH syndrome is a reserved one. Holds the syndrome.
    Syndrome(u8),
    /// The extension headers present are not those of the opcode, or LNH and GRH disagree.
    Mismatch,
    /// The payload does not fit the length fields.
    TooLong,
    /// The invariant CRC is wrong.
    Icrc,
    /// The datagram does not begin with the outer header's magic.
    OuterMagic,
    /// The outer header is of another version. Holds the version.
    OuterVersion(u8),
    /// The outer header has an unknown kind. Holds the kind.
    OuterKind(u8),
    /// A field of a control message has a value without a meaning.
    Control,
}
