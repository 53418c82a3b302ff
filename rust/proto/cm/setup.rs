// SPDX-License-Identifier: GPL-2.0

//! How a connection begins: REQ, REP, RTU, and what can come instead of them.

use super::attributes::Terms;
use super::event::{
    Actions,
    Env,
    Notice,
    Refusal,
    Slot,
    Source, //
};
use super::load::Load;
use super::state::{
    Ap,
    Role,
    State, //
};
use super::timing::LONGEST;
use super::{
    is_same,
    padded,
    Conn,
    Identity, //
};
use wire::mad::cm::{
    attr,
    failover,
    mraed,
    reason,
    rejected,
    Cm,
    Mra,
    Rej,
    Rep,
    Req,
    Rtu, //
};

impl Conn {
    /// A connection that the peer has asked for by the REQ `mad`: its consumer is to be told of
    /// [`Notice::ReqReceived`].
    pub fn incoming(identity: Identity, mad: &Cm, source: Source) -> Self {
        let req: Req = mad.message();
        let mut conn = Self::new(identity);
        conn.role = Role::Passive;
        conn.state = State::ReqRcvd;
        conn.source = source;
        conn.req_tid = mad.tid();
        conn.remote_id = req.local_comm_id;
        conn.remote_guid = req.local_ca_guid;
        conn.remote_qpn = req.local_qpn;
        conn.terms = Terms::heard(&req);
        conn.primary = req.primary.reversed();
        conn.alternate = req.has_alternate().then(|| req.alternate.reversed());
        conn.response = req.local_cm_response_timeout;
        conn.max_retries = req.max_cm_retries;
        conn
    }

    pub(super) fn connect(
        &mut self,
        req: &Req,
        private: &[u8],
        env: &Env<'_>,
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        if self.state != State::Idle || self.is_orphan {
            return Err(Refusal::Invalid);
        }
        let alternate = req.has_alternate().then_some(req.alternate);
        if alternate.is_some_and(|path| is_same(&path, &req.primary)) {
            return Err(Refusal::Invalid);
        }
        self.role = Role::Active;
        self.terms = Terms::asked(req);
        self.load = Load::default();
        self.primary = req.primary;
        self.alternate = alternate;
        self.can_fail_over = true;
        self.local_qpn = req.local_qpn;
        self.response = req.remote_cm_response_timeout;
        self.max_retries = req.max_cm_retries;
        self.remote_id = 0;
        // Nothing is left of an earlier connection.
        self.former = None;
        self.is_settled = true;
        self.source = Source::default();
        self.heard.any = false;
        self.req_tid = self.next_tid();
        self.request = Cm::new(attr::REQ, self.req_tid);
        self.request.set_message(&Req {
            local_comm_id: self.identity.comm_id,
            local_ca_guid: self.identity.guid,
            ..*req
        });
        self.request.set_private_data(private);
        self.state = State::ReqSent;
        self.ask(env, actions);
        Ok(())
    }

    /// Sends the request for the first time.
    pub(super) fn ask(&mut self, env: &Env<'_>, actions: &mut Actions) {
        self.retries = self.max_retries;
        self.deadline = Some(self.answer_due(env.now, self.response));
        self.send(Slot::Request, actions);
    }

    pub(super) fn accept(
        &mut self,
        rep: &Rep,
        private: &[u8],
        env: &Env<'_>,
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        if !matches!(self.state, State::ReqRcvd | State::MraReqSent) {
            return Err(Refusal::Invalid);
        }
        self.local_qpn = rep.local_qpn;
        self.terms.agree(rep);
        self.can_fail_over = rep.failover_accepted != failover::NOT_SUPPORTED;
        if rep.failover_accepted != failover::ACCEPTED {
            self.alternate = None;
        }
        self.request = Cm::new(attr::REP, self.req_tid);
        self.request.set_message(&Rep {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
            local_ca_guid: self.identity.guid,
            ..*rep
        });
        self.request.set_private_data(private);
        self.state = State::RepSent;
        self.ask(env, actions);
        Ok(())
    }

    pub(super) fn on_req(&mut self, mad: &Cm, actions: &mut Actions) {
        if mad.tid() != self.req_tid {
            return;
        }
        match self.state {
            // The answer was lost.
            State::MraReqSent => self.send(Slot::Reply, actions),
            State::RepSent => self.send(Slot::Request, actions),
            State::Idle
            | State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
            | State::Established(_)
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => {}
        }
    }

    pub(super) fn on_rep(&mut self, mad: &Cm, actions: &mut Actions) {
        if self.role == Role::Passive || mad.tid() != self.req_tid {
            return;
        }
        match self.state {
            State::ReqSent | State::MraReqRcvd => {
                let rep: Rep = mad.message();
                self.remote_id = rep.local_comm_id;
                self.remote_guid = rep.local_ca_guid;
                self.remote_qpn = rep.local_qpn;
                self.terms.agreed(&rep);
                self.can_fail_over = rep.failover_accepted != failover::NOT_SUPPORTED;
                if rep.failover_accepted != failover::ACCEPTED {
                    self.alternate = None;
                }
                self.deadline = None;
                self.state = State::RepRcvd;
                self.tell(Notice::RepReceived, actions);
            }
            // The RTU, or the MRA, was lost.
            State::MraRepSent | State::Established(_) => self.send(Slot::Reply, actions),
            State::Idle
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => {}
        }
    }

    pub(super) fn ready(&mut self, private: &[u8], actions: &mut Actions) -> Result<(), Refusal> {
        if !matches!(self.state, State::RepRcvd | State::MraRepSent) {
            return Err(Refusal::Invalid);
        }
        self.reply = Cm::new(attr::RTU, self.req_tid);
        self.reply.set_message(&Rtu {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
        });
        self.reply.set_private_data(private);
        self.state = State::Established(Ap::Idle);
        self.send(Slot::Reply, actions);
        Ok(())
    }

    pub(super) fn on_rtu(&mut self, mad: &Cm, actions: &mut Actions) {
        if mad.tid() != self.req_tid {
            return;
        }
        match self.state {
            State::RepSent | State::MraRepRcvd => {
                self.establish();
                self.tell(Notice::RtuReceived, actions);
            }
            State::Idle
            | State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::Established(_)
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => {}
        }
    }

    /// The peer is known to be established, with an RTU or without.
    pub(super) fn establish(&mut self) {
        self.deadline = None;
        self.state = State::Established(Ap::Idle);
    }

    pub(super) fn established(&mut self) -> Result<(), Refusal> {
        match self.state {
            State::RepSent | State::MraRepRcvd => {
                self.establish();
                Ok(())
            }
            State::Established(_) => Ok(()),
            State::Idle
            | State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => Err(Refusal::Invalid),
        }
    }

    /// Asks the peer for patience.
    pub(super) fn delay(
        &mut self,
        service_timeout: u8,
        private: &[u8],
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        let (state, message_mraed, tid) = match self.state {
            State::ReqRcvd => (State::MraReqSent, mraed::REQ, self.req_tid),
            State::RepRcvd => (State::MraRepSent, mraed::REP, self.req_tid),
            State::Established(Ap::LapRcvd) => (
                State::Established(Ap::MraLapSent),
                mraed::LAP,
                self.heard.tid,
            ),
            State::Idle
            | State::ReqSent
            | State::MraReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::MraRepSent
            | State::Established(Ap::Idle | Ap::LapSent | Ap::MraLapRcvd | Ap::MraLapSent)
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => return Err(Refusal::Invalid),
        };
        self.reply = Cm::new(attr::MRA, tid);
        self.reply.set_message(&Mra {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
            message_mraed,
            service_timeout: service_timeout.min(LONGEST),
        });
        self.reply.set_private_data(private);
        self.state = state;
        self.deadline = None;
        self.send(Slot::Reply, actions);
        Ok(())
    }

    pub(super) fn on_mra(&mut self, mad: &Cm, env: &Env<'_>, actions: &mut Actions) {
        let mra: Mra = mad.message();
        let state = match (self.state, mra.message_mraed) {
            (State::ReqSent, mraed::REQ) => State::MraReqRcvd,
            (State::RepSent, mraed::REP) => State::MraRepRcvd,
            (State::Established(Ap::LapSent), mraed::LAP) if mad.tid() == self.load.tid => {
                State::Established(Ap::MraLapRcvd)
            }
            // One that comes late, or twice, or is for nothing that was sent.
            (
                State::Idle
                | State::ReqSent
                | State::MraReqRcvd
                | State::ReqRcvd
                | State::MraReqSent
                | State::RepSent
                | State::MraRepRcvd
                | State::RepRcvd
                | State::MraRepSent
                | State::Established(_)
                | State::DreqSent
                | State::DreqRcvd
                | State::Timewait,
                _,
            ) => return,
        };
        self.state = state;
        self.deadline = Some(self.patience_ends(env.now, mra.service_timeout));
        self.tell(Notice::MraReceived, actions);
    }

    /// Refuses, or takes back, what is not complete.
    pub(super) fn reject(
        &mut self,
        reason: u16,
        info: &[u8],
        private: &[u8],
        env: &Env<'_>,
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        let message_rejected = match self.state {
            State::ReqSent | State::MraReqRcvd | State::ReqRcvd | State::MraReqSent => {
                rejected::REQ
            }
            State::RepSent | State::MraRepRcvd | State::RepRcvd | State::MraRepSent => {
                rejected::REP
            }
            State::Idle
            | State::Established(_)
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => return Err(Refusal::Invalid),
        };
        self.once = Cm::new(attr::REJ, self.req_tid);
        let (info, reject_info_length) = padded(info);
        self.once.set_message(&Rej {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
            message_rejected,
            reject_info_length,
            reason,
            info,
        });
        self.once.set_private_data(private);
        self.send(Slot::Once, actions);
        if matches!(self.state, State::RepSent | State::MraRepRcvd) {
            self.wait(env);
        } else {
            self.rest(actions);
        }
        Ok(())
    }

    pub(super) fn on_rej(&mut self, mad: &Cm, env: &Env<'_>, actions: &mut Actions) {
        match self.state {
            State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd => {
                self.tell(Notice::RejReceived, actions);
                if mad.message::<Rej>().reason == reason::STALE_CONN {
                    self.wait(env);
                } else {
                    self.rest(actions);
                }
            }
            State::RepRcvd | State::MraRepSent | State::Established(_) | State::DreqSent => {
                self.abort_load(actions);
                self.tell(Notice::RejReceived, actions);
                self.wait(env);
            }
            State::Idle | State::DreqRcvd | State::Timewait => {}
        }
    }
}
