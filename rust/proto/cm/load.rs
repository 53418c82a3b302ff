// SPDX-License-Identifier: GPL-2.0

//! The active side of alternate paths: it offers one by LAP, and the peer answers by APR.
//!
//! Each LAP has a transaction ID of its own, greater than those before; its repetitions have the same. So an
//! answer can be told from that to an earlier LAP, however late it comes. A connection that has migrated offers
//! no path before its peer is known to have followed: it may still need the old one to find the way. A connection
//! that has an alternate path offers no other: its queue pair might go over to the first while the peer has replaced
//! it by the second.

use super::event::{
    Actions,
    Count,
    Env,
    LapFailure,
    LapTiming,
    Notice,
    Refusal,
    Slot, //
};
use super::state::{
    Ap,
    Role,
    State, //
};
use super::{
    is_same,
    Conn, //
};
use wire::mad::cm::{
    ap_status,
    attr,
    Apr,
    Cm,
    Lap,
    Path, //
};

/// After so many LAPs in a row without an answer no more are sent.
const SILENCES: u8 = 2;

/// The LAP that is under way, or was the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Load {
    pub(super) tid: u64,
    pub(super) path: Path,
    pub(super) timing: LapTiming,
    /// How many LAPs in a row were not answered; 0 if the last one was.
    silences: u8,
}

impl Conn {
    pub(super) fn send_lap(
        &mut self,
        path: &Path,
        timing: LapTiming,
        private: &[u8],
        env: &Env<'_>,
        actions: &mut Actions,
    ) -> Result<(), Refusal> {
        match self.state {
            State::Established(Ap::Idle) => {}
            State::Established(Ap::LapSent | Ap::MraLapRcvd) => return Err(Refusal::Busy),
            State::Established(Ap::LapRcvd | Ap::MraLapSent)
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
            | State::Timewait => return Err(Refusal::Invalid),
        }
        if self.role == Role::Passive
            || !self.can_fail_over
            || is_same(path, &self.primary)
            || env.local.check(path, self.pkey()).is_err()
            || self.alternate.is_some()
        {
            return Err(Refusal::Invalid);
        }
        if !self.is_settled {
            return Err(Refusal::Again);
        }
        self.load.tid = self.next_tid();
        self.load.path = *path;
        self.load.timing = timing;
        self.request = Cm::new(attr::LAP, self.load.tid);
        self.request.set_message(&Lap {
            local_comm_id: self.identity.comm_id,
            remote_comm_id: self.remote_id,
            remote_qpn: self.remote_qpn,
            remote_cm_response_timeout: timing.response,
            path: *path,
        });
        self.request.set_private_data(private);
        self.state = State::Established(Ap::LapSent);
        self.retries = timing.retries.min(self.max_retries);
        self.deadline = Some(self.answer_due(env.now, timing.response));
        self.send(Slot::Request, actions);
        Ok(())
    }

    pub(super) fn on_apr(&mut self, mad: &Cm, actions: &mut Actions) {
        self.count(Count::AprReceived, actions);
        match self.state {
            State::Established(Ap::LapSent | Ap::MraLapRcvd) if mad.tid() == self.load.tid => {}
            State::Established(Ap::Idle)
                if mad.tid() == self.load.tid && self.load.silences == 0 =>
            {
                return self.count(Count::AprDuplicate, actions);
            }
            // One that is late.
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
            | State::Timewait => return self.count(Count::AprStale, actions),
        }
        let path = self.load.path;
        let status = match mad.message::<Apr>().ap_status {
            // The queue pair has gone there meanwhile.
            ap_status::LOADED if is_same(&path, &self.primary) => ap_status::IS_CURRENT,
            status => status,
        };
        match status {
            ap_status::LOADED => self.alternate = Some(path),
            ap_status::UNSUPPORTED => self.can_fail_over = false,
            _ => {}
        }
        self.load.silences = 0;
        self.establish();
        self.tell(Notice::AprReceived(status, path), actions);
    }

    /// The peer has said by other means that it answers LAPs: those that it has not answered were lost.
    pub(super) fn forgive(&mut self) {
        if self.load.silences >= SILENCES {
            self.can_fail_over = true;
        }
        self.load.silences = 0;
    }

    /// The LAP has not been answered, often enough. The connection goes on without the path.
    pub(super) fn load_lost(&mut self, actions: &mut Actions) {
        self.load.silences = self.load.silences.saturating_add(1);
        if self.load.silences >= SILENCES {
            self.can_fail_over = false;
        }
        self.establish();
        self.tell(Notice::LapError(LapFailure::Timeout), actions);
    }
}
