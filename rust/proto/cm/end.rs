// SPDX-License-Identifier: GPL-2.0

//! How a connection ends: DREQ, DREP, TIMEWAIT, and what happens when somebody is silent or gone.

use super::event::{
    Action,
    Actions,
    Count,
    Env,
    LapFailure,
    Notice,
    Refusal,
    Slot, //
};
use super::state::{
    Ap,
    State, //
};
use super::timing::PATIENCE;
use super::Conn;
use wire::mad::cm::{
    attr,
    reason,
    Cm,
    Drep,
    Dreq, //
};

impl Conn {
    pub(super) fn disconnect(
        &mut self,
        private: &[u8],
        env: &Env<'_>,
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        if !matches!(self.state, State::Established(_)) {
            return Err(Refusal::Invalid);
        }
        self.abort_load(actions);
        self.dreq_tid = self.next_tid();
        self.request = Cm::new(attr::DREQ, self.dreq_tid);
        self.request.set_message(&Dreq {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
            remote_qpn: self.remote_qpn,
        });
        self.request.set_private_data(private);
        self.state = State::DreqSent;
        self.ask(env, actions);
        Ok(())
    }

    pub(super) fn on_dreq(&mut self, mad: &Cm, env: &Env<'_>, actions: &mut Actions) {
        if mad.message::<Dreq>().remote_qpn != self.local_qpn {
            return;
        }
        match self.state {
            State::RepSent | State::MraRepRcvd | State::Established(_) | State::DreqSent => {
                self.abort_load(actions);
                self.dreq_tid = mad.tid();
                self.deadline = None;
                self.state = State::DreqRcvd;
                self.tell(Notice::DreqReceived, actions);
                if self.is_orphan {
                    // Both ends have let go at the same time; nobody else is there to answer.
                    let _ = self.depart(&[], env, actions);
                }
            }
            // The DREP was lost. The peer may repeat its DREQ for longer than this end waits.
            State::Timewait | State::Idle if self.remote_id != 0 => {
                self.reply = self.drep(mad.tid());
                self.send(Slot::Reply, actions);
            }
            State::Timewait
            | State::Idle
            | State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::DreqRcvd => {}
        }
    }

    fn drep(&self, tid: u64) -> Cm {
        let mut mad = Cm::new(attr::DREP, tid);
        mad.set_message(&Drep {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
        });
        mad
    }

    pub(super) fn depart(
        &mut self,
        private: &[u8],
        env: &Env<'_>,
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        if self.state != State::DreqRcvd {
            return Err(Refusal::Invalid);
        }
        self.reply = self.drep(self.dreq_tid);
        self.reply.set_private_data(private);
        self.send(Slot::Reply, actions);
        self.wait(env);
        Ok(())
    }

    pub(super) fn on_drep(&mut self, mad: &Cm, env: &Env<'_>, actions: &mut Actions) {
        if self.state == State::DreqSent && mad.tid() == self.dreq_tid {
            self.tell(Notice::DrepReceived, actions);
            self.wait(env);
        }
    }

    /// Waits until no packet of the connection can be on its way.
    pub(super) fn wait(&mut self, env: &Env<'_>) {
        self.state = State::Timewait;
        self.deadline = Some(self.wait_ends(env.now));
    }

    /// The end.
    pub(super) fn rest(&mut self, actions: &mut Actions) {
        self.state = State::Idle;
        self.deadline = None;
        if self.is_orphan {
            actions.push(Action::Free);
        }
    }

    /// The time is up.
    pub(super) fn tick(&mut self, env: &Env<'_>, actions: &mut Actions) {
        if self.deadline.is_none_or(|deadline| env.now < deadline) {
            return;
        }
        self.deadline = None;
        match self.state {
            State::ReqSent | State::MraReqRcvd => {
                if self.ask_again(State::ReqSent, env, actions) {
                    return;
                }
                self.tell(Notice::ReqError, actions);
                self.give_up(env, actions);
            }
            State::RepSent | State::MraRepRcvd => {
                if self.ask_again(State::RepSent, env, actions) {
                    return;
                }
                self.tell(Notice::RepError, actions);
                self.give_up(env, actions);
            }
            State::Established(Ap::LapSent | Ap::MraLapRcvd) => {
                if self.ask_again(State::Established(Ap::LapSent), env, actions) {
                    self.count(Count::LapRetried, actions);
                } else {
                    self.load_lost(actions);
                }
            }
            // The consumer takes its time.
            State::Established(Ap::LapRcvd) => {
                let _ = self.delay(PATIENCE, &[], actions);
            }
            State::DreqSent => {
                if self.ask_again(State::DreqSent, env, actions) {
                    return;
                }
                self.tell(Notice::DreqError, actions);
                self.wait(env);
            }
            State::Timewait => {
                self.tell(Notice::TimewaitExit, actions);
                self.rest(actions);
            }
            // None of these waits for the clock.
            State::Idle
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::Established(Ap::Idle | Ap::MraLapSent)
            | State::DreqRcvd => {}
        }
    }

    /// Sends the request again, unless it has been sent often enough.
    fn ask_again(&mut self, state: State, env: &Env<'_>, actions: &mut Actions) -> bool {
        let Some(left) = self.retries.checked_sub(1) else {
            return false;
        };
        self.retries = left;
        self.state = state;
        let response = match state {
            State::Established(_) => self.load.timing.response,
            _ => self.response,
        };
        self.deadline = Some(self.answer_due(env.now, response));
        self.send(Slot::Request, actions);
        true
    }

    /// Tells the silent peer that it is not waited for any more.
    fn give_up(&mut self, env: &Env<'_>, actions: &mut Actions) {
        let guid = self.identity.guid.get().to_be_bytes();
        let _ = self.reject(reason::TIMEOUT, &guid, &[], env, actions);
    }

    pub(super) fn destroy(&mut self, env: &Env<'_>, actions: &mut Actions) {
        self.is_orphan = true;
        // Each of these suits the states that it is for.
        let _ = match self.state {
            State::Idle => {
                actions.push(Action::Free);
                Ok(())
            }
            State::ReqSent | State::MraReqRcvd => {
                self.give_up(env, actions);
                Ok(())
            }
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent => self.reject(reason::CONSUMER_DEFINED, &[], &[], env, actions),
            State::Established(_) => self.disconnect(&[], env, actions),
            State::DreqRcvd => self.depart(&[], env, actions),
            State::DreqSent | State::Timewait => Ok(()),
        };
    }

    pub(super) fn gone(&mut self, actions: &mut Actions) {
        self.abort_load(actions);
        self.tell(Notice::Removed, actions);
        self.rest(actions);
    }

    /// The connection ends amid an exchange of an alternate path.
    pub(super) fn abort_load(&mut self, actions: &mut Actions) {
        if let State::Established(Ap::LapSent | Ap::MraLapRcvd) = self.state {
            self.tell(Notice::LapError(LapFailure::Aborted), actions);
        }
    }
}
