// SPDX-License-Identifier: GPL-2.0

//! States of a connection.

/// The state of a connection. Source: IBA "Communication Management", the state diagrams of the active and of
/// the passive side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the IBA's")]
pub enum State {
    #[default]
    Idle,
    ReqSent,
    MraReqRcvd,
    ReqRcvd,
    MraReqSent,
    RepSent,
    MraRepRcvd,
    RepRcvd,
    MraRepSent,
    Established(Ap),
    DreqSent,
    DreqRcvd,
    Timewait,
}

/// Where an established connection is in the exchange of an alternate path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the IBA's")]
pub enum Ap {
    #[default]
    Idle,
    LapSent,
    MraLapRcvd,
    LapRcvd,
    MraLapSent,
}

/// Who began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// This end: it alone may offer paths.
    #[default]
    Active,
    /// The peer.
    Passive,
}
