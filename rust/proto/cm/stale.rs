// SPDX-License-Identifier: GPL-2.0

//! Connections that one side alone still knows.
//!
//! A queue pair has one connection. When the peer comes with the number of one that is that of a connection here, it
//! has lost that: its host has booted, or its program was killed and nobody could be told. What it comes with now is
//! refused for [`reason::STALE_CONN`], for packets of the old connection may still be on their way, and the old
//! connection is ended. That is only believed if it comes from a port of the peer.
//!
//! Whoever owns the connections finds the old one, by [`Conn::peer`]. Source: IBA "Stale Connection".

use super::event::{
    Actions,
    Env,
    Notice,
    Slot,
    Source, //
};
use super::refusal::refusal;
use super::state::{
    Role,
    State, //
};
use super::Conn;
use wire::mad::cm::{
    attr,
    reason,
    rejected,
    Cm, //
};

/// The answer to the REQ `mad`, whose queue pair has another connection here.
pub fn stale_refusal(mad: &Cm) -> Cm {
    refusal(mad, 0, rejected::REQ, reason::STALE_CONN)
}

impl Conn {
    /// Whether a REP is the one that is waited for.
    pub fn awaits(&self, mad: &Cm, source: &Source) -> bool {
        let is_waiting = match self.state {
            State::ReqSent | State::MraReqRcvd => true,
            State::Idle
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
            | State::Established(_)
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => false,
        };
        is_waiting
            && self.role == Role::Active
            && mad.attr_id() == attr::REP
            && mad.tid() == self.req_tid
            && self.concerns(mad)
            && self.is_from_peer(source)
    }

    /// The REP that is waited for names a queue pair that has another connection here.
    pub(super) fn on_stale_rep(&mut self, mad: &Cm, source: Source, actions: &mut Actions) {
        if self.awaits(mad, &source) {
            self.source = source;
            let comm_id = self.identity.comm_id;
            self.once = refusal(mad, comm_id, rejected::REP, reason::STALE_CONN);
            self.send(Slot::Once, actions);
            self.tell(Notice::RepStale, actions);
            self.rest(actions);
        }
    }

    /// The peer has come with the queue pair of this connection, for another.
    pub(super) fn on_stale(&mut self, source: &Source, env: &Env<'_>, actions: &mut Actions) {
        match self.state {
            State::Established(_) if self.is_from_peer(source) => {
                // It suits the state.
                let _ = self.disconnect(&[], env, actions);
                self.tell(Notice::Stale, actions);
            }
            // What has not begun, or is about to end, ends by itself.
            State::Established(_)
            | State::Idle
            | State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => {}
        }
    }
}
