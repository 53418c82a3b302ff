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

impl State {
    /// Whether what becomes of the queue pair is of interest: the peer is known, and datagrams go by the path that it uses.
    pub fn has_queue_pair(self) -> bool {
        match self {
            Self::RepSent
            | Self::MraRepRcvd
            | Self::RepRcvd
            | Self::MraRepSent
            | Self::Established(_)
            | Self::DreqSent
            | Self::DreqRcvd => true,
            Self::Idle
            | Self::ReqSent
            | Self::MraReqRcvd
            | Self::ReqRcvd
            | Self::MraReqSent
            | Self::Timewait => false,
        }
    }

    /// Whether the peer has asked for the connection, and may not have heard an answer.
    pub(super) fn is_requested(self) -> bool {
        matches!(
            self,
            Self::ReqRcvd | Self::MraReqSent | Self::RepSent | Self::MraRepRcvd
        )
    }

    /// Whether the connection ends, so that its queue pair may have another one as soon as its owner has reset it.
    pub fn is_ending(self) -> bool {
        matches!(self, Self::DreqSent | Self::DreqRcvd)
    }
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
