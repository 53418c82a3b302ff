// SPDX-License-Identifier: GPL-2.0

//! What the consumer is to set in its queue pair: what both ends have said of it in REQ, REP and LAP.
//!
//! Source: IBA "Communication Management", the messages' fields; ib_cm's `ib_cm_init_qp_attr`.

use super::event::Refusal;
use super::state::{
    Ap,
    Role,
    State, //
};
use super::Conn;
use wire::mad::cm::{
    service_type,
    Path,
    Rep,
    Req, //
};
use wire::{
    PKey,
    Psn,
    Qpn, //
};

/// What REQ and REP say of the queue pair of this end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    is_reliable: bool,
    pkey: PKey,
    mtu: u8,
    sq_psn: Psn,
    rq_psn: Psn,
    /// READs and atomic operations of the peer, and of this end.
    inbound: u8,
    outbound: u8,
    retries: u8,
    rnr_retries: u8,
    /// How long the peer's HCA takes to acknowledge.
    ack_delay: u8,
}

impl Terms {
    /// What this end asks for.
    pub(super) fn asked(req: &Req) -> Self {
        Self {
            sq_psn: req.starting_psn,
            inbound: req.responder_resources,
            outbound: req.initiator_depth,
            ..Self::common(req)
        }
    }

    /// What the peer asks for.
    pub(super) fn heard(req: &Req) -> Self {
        Self {
            rq_psn: req.starting_psn,
            inbound: req.initiator_depth,
            outbound: req.responder_resources,
            ..Self::common(req)
        }
    }

    /// Of a connection in this partition nothing else is known.
    pub(super) fn within(pkey: PKey) -> Self {
        Self {
            pkey,
            ..Self::default()
        }
    }

    fn common(req: &Req) -> Self {
        Self {
            is_reliable: req.transport_service_type == service_type::RC,
            pkey: req.pkey,
            mtu: req.path_mtu,
            retries: req.retry_count,
            rnr_retries: req.rnr_retry_count,
            ..Self::default()
        }
    }

    /// This end agrees.
    pub(super) fn agree(&mut self, rep: &Rep) {
        self.sq_psn = rep.starting_psn;
        self.inbound = rep.responder_resources;
        self.outbound = rep.initiator_depth;
    }

    /// The peer agrees.
    pub(super) fn agreed(&mut self, rep: &Rep) {
        self.rq_psn = rep.starting_psn;
        self.inbound = rep.initiator_depth;
        self.outbound = rep.responder_resources;
        self.rnr_retries = rep.rnr_retry_count;
        self.ack_delay = rep.target_ack_delay;
    }
}

/// The state that a queue pair is to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the IBA's")]
pub enum Goal {
    Init,
    Rtr,
    Rts,
}

/// What is to be set. What is `None` is to be left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// For INIT. The port is that of the path.
    Init {
        /// The path in use.
        path: Path,
        /// Whether the peer may READ, and have atomic operations.
        may_read: bool,
    },
    /// For RTR.
    Rtr {
        /// The path in use.
        path: Path,
        /// The peer's queue pair.
        dest_qpn: Qpn,
        /// Its first PSN.
        rq_psn: Psn,
        /// The code of the MTU.
        mtu: u8,
        /// READs and atomic operations of the peer at a time; none of an unreliable connection.
        inbound: Option<u8>,
        /// The alternate path.
        alternate: Option<Alternate>,
    },
    /// For RTS.
    Rts {
        /// The first PSN.
        sq_psn: Psn,
        /// Of a reliable connection.
        reliable: Option<Reliable>,
        /// There is an alternate path, to be made ready: REARM.
        rearm: bool,
    },
    /// In RTS: an alternate path that LAP and APR agree on, to be made ready.
    Load(Alternate),
}

/// An alternate path, and its local ACK timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// The path.
    pub path: Path,
    /// Code of the local ACK timeout.
    pub timeout: u8,
}

/// What a reliable connection needs for RTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reliable {
    /// Code of the local ACK timeout.
    pub timeout: u8,
    /// How often a packet is sent again.
    pub retries: u8,
    /// And after RNR NAKs.
    pub rnr_retries: u8,
    /// READs and atomic operations of this end at a time.
    pub outbound: u8,
}

impl Conn {
    /// What is to be set in the queue pair for it to go to a state. In an established connection that has come to an
    /// alternate path by LAP, or is asked about one, RTS stands for that path, but with `is_fresh`: the queue pair has
    /// not been in RTS yet, and a LAP may come before its owner has it go there.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`] if that is not known yet, or there is no connection.
    pub fn attributes(&self, goal: Goal, is_fresh: bool) -> Result<Attributes, Refusal> {
        let knows_peer = match self.state {
            State::Idle | State::DreqSent | State::DreqRcvd | State::Timewait => {
                return Err(Refusal::Invalid)
            }
            State::ReqSent | State::MraReqRcvd => false,
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
            | State::Established(_) => true,
        };
        let has_answered = !matches!(self.state, State::ReqRcvd | State::MraReqSent);
        match goal {
            Goal::Init => Ok(Attributes::Init {
                path: self.primary,
                may_read: self.terms.is_reliable && self.terms.inbound != 0,
            }),
            Goal::Rtr if knows_peer => Ok(Attributes::Rtr {
                path: self.primary,
                dest_qpn: self.remote_qpn,
                rq_psn: self.terms.rq_psn,
                mtu: self.terms.mtu,
                inbound: self.terms.is_reliable.then_some(self.terms.inbound),
                alternate: self.alternate.map(|path| self.with_timeout(path)),
            }),
            Goal::Rts if self.is_about_path() && !is_fresh => {
                let path = self.path_at_hand().ok_or(Refusal::Invalid)?;
                Ok(Attributes::Load(self.with_timeout(path)))
            }
            Goal::Rts if knows_peer && has_answered => Ok(Attributes::Rts {
                sq_psn: self.terms.sq_psn,
                reliable: self.terms.is_reliable.then_some(Reliable {
                    timeout: self.ack_timeout(&self.primary),
                    retries: self.terms.retries,
                    rnr_retries: self.terms.rnr_retries,
                    outbound: self.terms.outbound,
                }),
                rearm: self.alternate.is_some(),
            }),
            Goal::Rtr | Goal::Rts => Err(Refusal::Invalid),
        }
    }

    /// The partition of the connection.
    pub fn pkey(&self) -> PKey {
        self.terms.pkey
    }

    /// Whether there has been a LAP.
    fn is_about_path(&self) -> bool {
        let State::Established(_) = self.state else {
            return false;
        };
        match self.role {
            Role::Active => self.load.tid != 0,
            Role::Passive => self.heard.any,
        }
    }

    /// The path that the consumer is asked about, or that both ends have agreed on.
    fn path_at_hand(&self) -> Option<Path> {
        match self.state {
            State::Established(Ap::LapRcvd | Ap::MraLapSent) => Some(self.heard.path),
            _ => self.alternate,
        }
    }

    fn with_timeout(&self, path: Path) -> Alternate {
        Alternate {
            path,
            timeout: self.ack_timeout(&path),
        }
    }

    /// The local ACK timeout of this end: two ways, and what the peer's HCA takes. The peer has put both into the paths
    /// that it offers.
    fn ack_timeout(&self, path: &Path) -> u8 {
        /// The field has five bits.
        const MOST: u8 = 31;

        let (ways, delay) = (path.ack_timeout, self.terms.ack_delay);
        let sum = match self.role {
            Role::Passive => ways,
            // Times of nearly the same length are twice as long together.
            Role::Active if ways.abs_diff(delay) <= 1 => ways.max(delay).saturating_add(1),
            Role::Active => ways.max(delay),
        };
        sum.min(MOST)
    }
}
