// SPDX-License-Identifier: GPL-2.0

//! The passive side of alternate paths: it is offered one by LAP, and answers by APR.
//!
//! The newest LAP counts: whoever sends it has given the older ones up. What comes with an older transaction ID
//! has been on its way for too long and is dropped. What comes again is answered as before.

use super::event::{
    Actions,
    Count,
    Env,
    Notice,
    PathFault,
    Refusal,
    Slot,
    Ways, //
};
use super::hint::Hint;
use super::state::{
    Ap,
    Role,
    State, //
};
use super::timing::time;
use super::{
    is_same,
    is_way_of,
    padded,
    Conn, //
};
use crate::time::Duration;
use crate::transport::migration::MigState;
use wire::mad::cm::{
    ap_status,
    attr,
    Apr,
    Cm,
    Lap,
    Path, //
};

/// The newest LAP that has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Heard {
    pub(super) tid: u64,
    /// There has been one.
    pub(super) any: bool,
    /// As this end sees it.
    pub(super) path: Path,
    answered: bool,
    /// Which of the LAPs that the consumer was told of it is.
    generation: u32,
}

/// How a request stands to the newest one of its kind.
pub(super) enum Age {
    Older,
    Same,
    Newer,
}

/// How a request stands to one with the transaction ID `known`. The high half names the sender; the low half counts, and
/// wraps.
pub(super) fn age(known: u64, tid: u64) -> Age {
    if tid >> 32 != known >> 32 {
        return Age::Newer;
    }
    match (tid as u32).wrapping_sub(known as u32) as i32 {
        0 => Age::Same,
        1.. => Age::Newer,
        _ => Age::Older,
    }
}

impl Heard {
    fn age(&self, tid: u64) -> Age {
        match self.any {
            true => age(self.tid, tid),
            false => Age::Newer,
        }
    }
}

impl Conn {
    pub(super) fn on_lap(&mut self, mad: &Cm, env: &Env<'_>, actions: &mut Actions) {
        self.count(Count::LapReceived, actions);
        match self.state {
            // Whoever sends it is established: the RTU was lost.
            State::RepSent | State::MraRepRcvd => {
                self.establish();
                self.tell(Notice::Established, actions);
            }
            State::Established(_) => {}
            State::Idle
            | State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait => return self.count(Count::LapStale, actions),
        }
        let lap: Lap = mad.message();
        if self.role == Role::Active {
            return self.refuse(mad.tid(), ap_status::UNSUPPORTED, actions);
        }
        let path = lap.path.reversed();
        match self.heard.age(mad.tid()) {
            Age::Older => self.count(Count::LapStale, actions),
            Age::Same if path != self.heard.path => {
                self.refuse(mad.tid(), ap_status::REJECTED, actions);
            }
            Age::Same => {
                self.count(Count::LapDuplicate, actions);
                if self.heard.answered {
                    self.count(Count::AprRetried, actions);
                }
                if self.heard.answered || self.state == State::Established(Ap::MraLapSent) {
                    self.send(Slot::Reply, actions);
                }
            }
            Age::Newer => {
                if let State::Established(Ap::LapRcvd | Ap::MraLapSent) = self.state {
                    // Nobody knows whether the consumer has loaded the path of the LAP that this one replaces.
                    self.alternate = None;
                }
                self.heard.any = true;
                self.heard.tid = mad.tid();
                self.heard.path = path;
                self.heard.answered = false;
                match self.judge(&lap, env) {
                    Some((status, hint)) => {
                        if status != ap_status::LOADED {
                            self.count(Count::LapRefused, actions);
                        }
                        self.reply_apr(status, hint.as_bytes(), &[], actions);
                    }
                    None => {
                        self.heard.generation = self.heard.generation.wrapping_add(1);
                        self.state = State::Established(Ap::LapRcvd);
                        let half = time(lap.remote_cm_response_timeout).nanos() / 2;
                        self.deadline = Some(env.now.after(Duration::from_nanos(half)));
                        let told = Notice::LapReceived(self.heard.generation, path);
                        self.tell(told, actions);
                    }
                }
            }
        }
    }

    /// The answer to the newest LAP, if the consumer need not be asked, and its additional information.
    fn judge(&self, lap: &Lap, env: &Env<'_>) -> Option<(u8, Hint)> {
        let path = &self.heard.path;
        let status = if lap.remote_qpn != self.local_qpn {
            ap_status::INVALID_QPN
        } else if !self.can_fail_over {
            ap_status::UNSUPPORTED
        } else if is_same(path, &self.primary) {
            ap_status::IS_CURRENT
        } else if self.alternate.is_some_and(|known| is_same(&known, path)) {
            ap_status::LOADED
        } else if !self.may_reload(env) {
            ap_status::REJECTED
        } else {
            let (fault, hint) = self.place(path, env.local).err()?;
            let status = match fault {
                PathFault::Gid => ap_status::INVALID_GID,
                PathFault::Lid(_) => ap_status::INVALID_LID,
                PathFault::PKey => ap_status::REJECTED,
            };
            return Some((status, hint));
        };
        Some((status, Hint::default()))
    }

    /// Whether a path may be taken while there may be one already: this end has one, and the other has not, if
    /// an APR was lost. A queue pair that is ARMED has a peer that may go over to the old one.
    fn may_reload(&self, env: &Env<'_>) -> bool {
        self.alternate.is_none() || env.migration != MigState::Armed
    }

    fn apr(&self, tid: u64, status: u8, info: &[u8], private: &[u8]) -> Cm {
        let mut mad = Cm::new(attr::APR, tid);
        let (info, info_length) = padded(info);
        mad.set_message(&Apr {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
            info_length,
            ap_status: status,
            info,
        });
        mad.set_private_data(private);
        mad
    }

    /// Answers what is not the business of the LAP under way.
    fn refuse(&mut self, tid: u64, status: u8, actions: &mut Actions) {
        self.count(Count::LapRefused, actions);
        self.once = self.apr(tid, status, &[], &[]);
        self.send(Slot::Once, actions);
    }

    /// Answers the newest LAP.
    pub(super) fn reply_apr(
        &mut self,
        status: u8,
        info: &[u8],
        private: &[u8],
        actions: &mut Actions,
    ) {
        self.reply = self.apr(self.heard.tid, status, info, private);
        self.heard.answered = true;
        self.establish();
        self.send(Slot::Reply, actions);
    }

    pub(super) fn send_apr(
        &mut self,
        generation: u32,
        status: u8,
        info: &[u8],
        private: &[u8],
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        if !matches!(self.state, State::Established(Ap::LapRcvd | Ap::MraLapSent)) {
            return Err(Refusal::Invalid);
        }
        if generation != self.heard.generation {
            return Err(Refusal::Stale);
        }
        match status {
            ap_status::LOADED => self.alternate = Some(self.heard.path),
            ap_status::UNSUPPORTED => self.can_fail_over = false,
            _ => {}
        }
        self.reply_apr(status, info, private, actions);
        Ok(())
    }

    /// The queue pair has migrated: what was the alternate path is the only one.
    pub(super) fn migrated(&mut self, actions: &mut Actions) -> Result<(), Refusal> {
        if !self.state.has_queue_pair() {
            return Err(Refusal::Invalid);
        }
        let path = self.alternate.take().ok_or(Refusal::Invalid)?;
        self.go_over(path, actions);
        Ok(())
    }

    /// The queue pair has these paths, after a migration. The consumer may have loaded them without a LAP, or the answer
    /// to one may have been quicker than the news.
    pub(super) fn moved(&mut self, ways: &Ways, actions: &mut Actions) -> Result<(), Refusal> {
        if !self.state.has_queue_pair() {
            return Err(Refusal::Invalid);
        }
        if is_way_of(&ways.primary, &self.primary) {
            return Err(Refusal::Stale);
        }
        let path = self.known(&ways.primary).unwrap_or(ways.primary);
        let still = ways.alternate;
        self.alternate = self
            .alternate
            .filter(|known| still.is_some_and(|still| is_way_of(&still, known)));
        self.go_over(path, actions);
        // That news may have been quicker, and does not come again.
        self.is_settled = ways.is_heard;
        Ok(())
    }

    /// The path that a queue pair has, as the ends have told each other of it.
    pub(super) fn known(&self, told: &Path) -> Option<Path> {
        let heard = self.heard.any.then_some(self.heard.path);
        [self.alternate, heard, Some(self.load.path), self.former]
            .into_iter()
            .flatten()
            .find(|known| is_way_of(told, known))
    }

    /// Whatever is under way goes on by the new path; one that offers this path is answered.
    fn go_over(&mut self, path: Path, actions: &mut Actions) {
        self.former = Some(self.primary);
        self.primary = path;
        self.is_settled = false;
        self.tell(Notice::Migrated(path), actions);
        if let State::Established(Ap::LapRcvd | Ap::MraLapSent) = self.state {
            if is_same(&self.heard.path, &path) {
                self.count(Count::LapRefused, actions);
                self.reply_apr(ap_status::IS_CURRENT, &[], &[], actions);
            }
        }
    }
}
