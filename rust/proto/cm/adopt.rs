// SPDX-License-Identifier: GPL-2.0

//! Connections that another manager has made.

use super::attributes::Terms;
use super::state::{
    Ap,
    Role,
    State, //
};
use super::{
    Conn,
    Identity, //
};
use wire::mad::cm::Path;
use wire::{
    Guid,
    PKey,
    Qpn, //
};

/// What there is to know of an established connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// Who began.
    pub role: Role,
    /// The peer's communication ID.
    pub remote_id: u32,
    /// GUID of the peer's HCA.
    pub remote_guid: Guid,
    /// The queue pair of this end.
    pub local_qpn: Qpn,
    /// That of the peer.
    pub remote_qpn: Qpn,
    /// The partition.
    pub pkey: PKey,
    /// The path in use, as this end sees it.
    pub primary: Path,
    /// Both ends have said nothing against alternate paths.
    pub can_fail_over: bool,
    /// Code of the time that the peer's manager may take.
    pub response: u8,
    /// How often a datagram is repeated at most.
    pub max_retries: u8,
}

impl Conn {
    /// An established connection without an alternate path. Its communication ID is what its own manager has given
    /// it.
    pub fn adopted(identity: Identity, known: &Adoption) -> Self {
        let mut conn = Self::new(identity);
        conn.role = known.role;
        conn.state = State::Established(Ap::Idle);
        conn.remote_id = known.remote_id;
        conn.remote_guid = known.remote_guid;
        conn.local_qpn = known.local_qpn;
        conn.remote_qpn = known.remote_qpn;
        conn.terms = Terms::within(known.pkey);
        conn.primary = known.primary;
        conn.can_fail_over = known.can_fail_over;
        conn.response = known.response;
        conn.max_retries = known.max_retries;
        conn
    }
}
