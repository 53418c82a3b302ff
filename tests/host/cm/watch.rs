// SPDX-License-Identifier: GPL-2.0

//! Connections of another manager: what is learnt of them, in whatever order datagrams are seen, and the paths that
//! they get.

#[path = "watch/learning.rs"]
mod learning;
#[path = "watch/paths.rs"]
mod paths;
#[path = "watch/survey.rs"]
mod survey;

use crate::ends::{
    active,
    env,
    passive,
    path,
    reply,
    request,
    source,
    ACTIVE_ID,
    ACTIVE_QPN,
    PASSIVE_ID,
    PASSIVE_QPN, //
};
use proto::cm::watch::{
    Hands,
    Progress,
    Watched,
    Way,
    Wishes, //
};
use proto::cm::{
    Conn,
    Count,
    Role,
    Slot,
    Source,
    Ways, //
};
use proto::time::Instant;
use proto::transport::MigState;
use wire::mad::cm::{
    ap_status,
    rejected,
    Apr,
    Cm,
    Dreq,
    Message,
    Path,
    Rej,
    Rep,
    Req,
    Rtu, //
};
use wire::mad::survey::{
    Survey,
    SurveyPort,
    SurveyPorts, //
};
use wire::{
    Guid,
    PortNum,
    Qpn, //
};

const REQ_TID: u64 = 0x7777_0000_0001;

fn mad<T: Message>(tid: u64, message: &T) -> Cm {
    let mut mad = Cm::new(T::KIND.attr(), tid);
    mad.set_message(message);
    mad
}

fn req() -> Cm {
    let message = Req {
        local_comm_id: ACTIVE_ID,
        local_ca_guid: Guid::new(0xaa),
        ..request()
    };
    mad(REQ_TID, &message)
}

fn rep() -> Cm {
    let message = Rep {
        local_comm_id: PASSIVE_ID,
        remote_comm_id: ACTIVE_ID,
        local_ca_guid: Guid::new(0xbb),
        ..reply()
    };
    mad(REQ_TID, &message)
}

fn rtu() -> Cm {
    let message = Rtu {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
    };
    mad(REQ_TID, &message)
}

fn dreq() -> Cm {
    let message = Dreq {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
        remote_qpn: Qpn::new(PASSIVE_QPN),
    };
    mad(REQ_TID + 1, &message)
}

fn rej(local: u32, remote: u32) -> Cm {
    let message = Rej {
        local_comm_id: local,
        remote_comm_id: remote,
        message_rejected: rejected::REQ,
        ..Rej::default()
    };
    mad(REQ_TID, &message)
}

/// The active ports of one end, of those with these numbers.
fn ports(of_active: bool, numbers: &[u8]) -> SurveyPorts {
    let mut ports = SurveyPorts::default();
    for (entry, number) in ports.iter_mut().zip(numbers) {
        let path = path(*number);
        let (lid, gid) = if of_active {
            (path.local_lid, path.local_gid)
        } else {
            (path.remote_lid, path.remote_gid)
        };
        *entry = SurveyPort {
            number: PortNum::new(number + 1),
            lid,
            gid,
        };
    }
    ports
}

/// One end, and what has been done for it.
struct End {
    watched: Watched,
    sent: Vec<Cm>,
    loaded: Vec<Path>,
    asked: Vec<Survey>,
    /// Whether paths can be loaded.
    obeys: bool,
    wishes: Wishes,
    now: Instant,
}

struct Log<'a> {
    sent: &'a mut Vec<Cm>,
    loaded: &'a mut Vec<Path>,
    asked: &'a mut Vec<Survey>,
    obeys: bool,
}

impl Hands for Log<'_> {
    fn send(&mut self, conn: &Conn, slot: Slot) {
        self.sent.push(conn.datagram(slot).clone());
    }

    fn count(&mut self, _conn: &Conn, _count: Count) {}

    fn load(&mut self, _conn: &Conn, (ours, theirs): (Qpn, Qpn), path: &Path) -> bool {
        let mut both = [ours.get(), theirs.get()];
        both.sort();
        assert_eq!(
            both,
            [ACTIVE_QPN.min(PASSIVE_QPN), ACTIVE_QPN.max(PASSIVE_QPN)]
        );
        if self.obeys {
            self.loaded.push(*path);
        }
        self.obeys
    }

    fn ask(&mut self, _conn: &Conn, question: &Survey) {
        self.asked.push(*question);
    }
}

/// Calls a function of what is watched, with what it has done for it.
macro_rules! with_log {
    ($end:ident, |$watched:ident, $env:ident, $log:ident| $call:expr) => {{
        let $env = &env($end.now, MigState::Rearm);
        let $watched = &mut $end.watched;
        let $log = &mut Log {
            sent: &mut $end.sent,
            loaded: &mut $end.loaded,
            asked: &mut $end.asked,
            obeys: $end.obeys,
        };
        $call
    }};
}

impl End {
    /// The end that has sent, or received, a REQ.
    fn new(is_active: bool) -> Self {
        let (identity, way) = if is_active {
            (active(), Way::Sent)
        } else {
            (passive(), Way::Received)
        };
        let now = Instant::default();
        Self {
            watched: Watched::new(identity, &req(), way, now).unwrap(),
            sent: Vec::new(),
            loaded: Vec::new(),
            asked: Vec::new(),
            obeys: true,
            wishes: Wishes::default(),
            now,
        }
    }

    fn see(&mut self, mad: &Cm, way: Way) -> Progress {
        self.watched.observe(mad, way, self.now)
    }

    fn established(is_active: bool) -> Self {
        let mut end = Self::new(is_active);
        let (to, from) = if is_active {
            (Way::Received, Way::Sent)
        } else {
            (Way::Sent, Way::Received)
        };
        assert_eq!(end.see(&rep(), to), Progress::Named);
        assert_eq!(end.see(&rtu(), from), Progress::Established);
        assert_eq!(end.watched.comm_ids(), end.names());
        end
    }

    fn names(&self) -> (u32, u32) {
        match self.watched.role() {
            Role::Active => (ACTIVE_ID, PASSIVE_ID),
            Role::Passive => (PASSIVE_ID, ACTIVE_ID),
        }
    }

    fn receive(&mut self, mad: &Cm, source: Source) {
        assert!(self.watched.is_concerned(mad));
        with_log!(self, |watched, env, log| watched
            .receive(mad, source, env, log));
    }

    fn tick(&mut self, tid: u64) {
        with_log!(self, |watched, env, log| watched.tick(true, tid, env, log));
    }

    /// The queue pair goes over: to the path that was loaded, if there is one.
    fn migrate(&mut self) -> bool {
        self.migrate_to(self.watched.alternate().copied().unwrap_or(path(1)))
    }

    /// It is told that the queue pair, which has this path now, has gone over.
    fn migrate_to(&mut self, primary: Path) -> bool {
        let ways = Ways {
            primary,
            alternate: None,
            is_heard: false,
        };
        with_log!(self, |watched, env, log| watched.migrated(&ways, env, log))
    }

    fn answer(&mut self, answer: &Survey, source: Source, numbers: &[u8]) {
        let own = ports(true, numbers);
        let wishes = self.wishes;
        with_log!(self, |watched, env, log| watched
            .on_answer(answer, &source, &own, &wishes, env, log));
    }

    /// Lets time pass until it wants something.
    fn wait(&mut self, tid: u64) {
        self.now = self.watched.deadline(true).expect("nothing to wait for");
        self.tick(tid);
    }

    fn take_sent(&mut self) -> Cm {
        assert_eq!(self.sent.len(), 1);
        self.sent.remove(0)
    }

    fn take_question(&mut self) -> Survey {
        assert_eq!(self.asked.len(), 1);
        self.asked.remove(0)
    }
}

/// Has path `number` agreed on; both are on path `from`.
fn load(a: &mut End, p: &mut End, tid: u64, from: u8, number: u8) {
    a.wait(tid);
    let question = a.take_question();
    let answer = p
        .watched
        .reply(&question, &ports(false, &[from, number]))
        .expect("it is known");
    a.answer(&answer, source(false, from), &[from, number]);
    let lap = a.take_sent();
    p.receive(&lap, source(true, from));
    let apr = p.take_sent();
    assert_eq!(apr.message::<Apr>().ap_status, ap_status::LOADED);
    a.receive(&apr, source(false, from));
    assert_eq!(a.loaded.pop(), Some(path(number)));
    assert_eq!(p.loaded.pop(), Some(path(number).reversed()));
    assert_eq!(a.watched.alternate(), Some(&path(number)));
}
