// SPDX-License-Identifier: GPL-2.0

//! Connections of another manager: what is learnt of them, in whatever order datagrams are seen, and the paths that
//! they get.

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
    Choice,
    End as PeerPort,
    Hands,
    Progress,
    Stage,
    Watched,
    Way,
    Wishes,
    PATIENCE,
    PAUSE,
    PERIOD,
    REPEATS,
    START, //
};
use proto::cm::{
    Ap,
    Conn,
    Count,
    LapTiming,
    Role,
    Slot,
    Source,
    State,
    Ways, //
};
use proto::time::Instant;
use proto::transport::MigState;
use wire::mad::cm::{
    ap_status,
    attr,
    failover,
    mraed,
    rejected,
    service_type,
    Apr,
    Cm,
    Drep,
    Dreq,
    Lap,
    Message,
    Mra,
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
    Lid,
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
        let ways = Ways {
            primary: self.watched.alternate().copied().unwrap_or(path(1)),
            alternate: None,
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

#[test]
fn both_ends_are_learnt() {
    for is_active in [true, false] {
        let end = End::established(is_active);
        assert_eq!(end.watched.stage(), Stage::Established);
        assert_eq!(end.watched.state(), State::Established(Ap::Idle));
        let (qpns, primary) = if is_active {
            ((ACTIVE_QPN, PASSIVE_QPN), path(0))
        } else {
            ((PASSIVE_QPN, ACTIVE_QPN), path(0).reversed())
        };
        let (local, remote) = end.watched.qpns();
        assert_eq!((local.get(), remote.get()), qpns);
        assert_eq!(*end.watched.primary(), primary);
    }
}

#[test]
fn only_connections_without_paths_of_their_own() {
    let now = Instant::default();
    for (change, is_watched) in [
        (service_type::RC, true),
        (service_type::UC, true),
        (service_type::RD, false),
        (service_type::EXTENDED, false),
    ] {
        let message = Req {
            transport_service_type: change,
            ..request()
        };
        let watched = Watched::new(active(), &mad(1, &message), Way::Sent, now);
        assert_eq!(watched.is_some(), is_watched);
    }
    let own = Req {
        alternate: path(1),
        ..request()
    };
    assert!(Watched::new(active(), &mad(1, &own), Way::Sent, now).is_none());
    assert!(Watched::new(active(), &rep(), Way::Sent, now).is_none());
}

#[test]
fn every_order_of_datagrams() {
    // What counts is REP, then RTU; all else, and all of it again, changes nothing.
    let (rep, rtu, dreq) = (rep(), rtu(), dreq());
    let stray = rej(PASSIVE_ID ^ 1, ACTIVE_ID ^ 1);
    let seen: [(&Cm, Way); 6] = [
        (&rep, Way::Received),
        (&rtu, Way::Sent),
        (&rep, Way::Sent),
        (&rtu, Way::Received),
        (&dreq, Way::Received),
        (&stray, Way::Received),
    ];
    let mut reached = 0;
    for order in 0..seen.len().pow(4) {
        let mut end = End::new(true);
        let mut rest = order;
        let mut want = Stage::Asked;
        for _ in 0..4 {
            let (mad, way) = seen[rest % seen.len()];
            rest /= seen.len();
            end.see(mad, way);
            want = match (want, mad.attr_id(), way) {
                (Stage::Asked, attr::REP, Way::Received) => Stage::Answered,
                (Stage::Answered, attr::RTU, Way::Sent) => Stage::Established,
                (stage, _, _) => stage,
            };
            assert_eq!(end.watched.stage(), want, "order {order}");
        }
        reached += usize::from(want == Stage::Established);
    }
    assert!(reached > 0 && reached < seen.len().pow(4));
}

#[test]
fn refused_before_and_not_after() {
    for is_active in [true, false] {
        let way = |sent_by_active: bool| {
            if sent_by_active == is_active {
                Way::Sent
            } else {
                Way::Received
            }
        };
        let by_passive = rej(PASSIVE_ID, ACTIVE_ID);
        let unnamed = rej(0, ACTIVE_ID);
        let by_active = rej(ACTIVE_ID, PASSIVE_ID);
        assert_eq!(
            End::new(is_active).see(&unnamed, way(false)),
            Progress::Over
        );
        assert_eq!(
            End::new(is_active).see(&by_passive, way(false)),
            Progress::Over
        );
        let mut end = End::new(is_active);
        end.see(&rep(), way(false));
        assert_eq!(end.see(&by_active, way(true)), Progress::Over);
        let mut end = End::established(is_active);
        for (mad, sent_by_active) in [(&by_passive, false), (&by_active, true)] {
            assert_eq!(end.see(mad, way(sent_by_active)), Progress::None);
        }
        assert_eq!(end.watched.stage(), Stage::Established);
    }
}

#[test]
fn answers_of_others_do_not_count() {
    let of_other = |tid, remote_comm_id| {
        let message = Rep {
            local_comm_id: 9,
            remote_comm_id,
            ..reply()
        };
        mad(tid, &message)
    };
    let mut end = End::new(true);
    assert_eq!(
        end.see(&of_other(REQ_TID ^ 1, ACTIVE_ID), Way::Received),
        Progress::None
    );
    assert_eq!(
        end.see(&of_other(REQ_TID, ACTIVE_ID ^ 1), Way::Received),
        Progress::None
    );
    assert_eq!(end.see(&rep(), Way::Received), Progress::Named);
    assert_eq!(
        end.see(&of_other(REQ_TID, ACTIVE_ID), Way::Received),
        Progress::None
    );
    assert_eq!(end.watched.comm_ids(), (ACTIVE_ID, PASSIVE_ID));
}

#[test]
fn a_path_is_agreed_on_and_used_and_another_one() {
    let (mut a, mut p) = (End::established(true), End::established(false));
    assert_eq!(a.watched.deadline(true), Some(a.now.after(START)));
    assert_eq!(a.watched.deadline(false), None);
    load(&mut a, &mut p, 1, 0, 1);
    assert_eq!(a.watched.deadline(true), None);
    for round in 0..6u8 {
        let (old, new) = (round % 2, 1 - round % 2);
        assert!(p.migrate());
        assert!(a.migrate());
        assert_eq!(*a.watched.primary(), path(new));
        load(&mut a, &mut p, 2 + u64::from(round), new, old);
    }
}

#[test]
fn no_path_before_the_peer_has_followed() {
    let (mut a, mut p) = (End::established(true), End::established(false));
    load(&mut a, &mut p, 1, 0, 1);
    assert!(a.migrate());
    a.wait(2);
    let question = a.take_question();
    let late = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    a.answer(&late, source(false, 1), &[0, 1]);
    assert!(a.sent.is_empty());
    assert_eq!(a.watched.deadline(true), Some(a.now.after(PERIOD)));
    assert!(p.migrate());
    load(&mut a, &mut p, 3, 1, 0);
}

#[test]
fn a_silent_peer_is_sent_no_lap() {
    let mut a = End::established(true);
    for tid in 1..4 {
        a.wait(tid);
        let question = a.take_question();
        assert_eq!(
            (question.tid, question.asker_id, question.asked_id),
            (tid, ACTIVE_ID, PASSIVE_ID)
        );
        for _ in 0..REPEATS {
            let before = a.now;
            a.wait(99);
            assert_eq!(a.now, before.after(PATIENCE));
            assert_eq!(a.take_question(), question);
        }
        a.wait(99);
        assert!(a.asked.is_empty());
        assert_eq!(a.watched.deadline(true), Some(a.now.after(PAUSE)));
    }
    assert!(a.sent.is_empty() && a.loaded.is_empty());
}

#[test]
fn a_peer_that_does_not_know_is_sent_no_lap() {
    let p = End::established(false);
    for change in [
        |answer: &mut Survey| answer.status = 0x000c,
        |answer: &mut Survey| answer.takes_paths = false,
        |answer: &mut Survey| answer.is_known = false,
        |answer: &mut Survey| answer.tid ^= 1,
        |answer: &mut Survey| answer.lid = Lid::new(0x99),
        |answer: &mut Survey| answer.gid = path(1).remote_gid,
        |answer: &mut Survey| answer.ports = ports(false, &[0]),
    ] {
        let mut a = End::established(true);
        a.wait(1);
        let question = a.take_question();
        let mut answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
        change(&mut answer);
        a.answer(&answer, source(false, 0), &[0, 1]);
        assert!(a.sent.is_empty());
        assert!(a.watched.deadline(true) > Some(a.now));
    }
}

#[test]
fn answers_from_elsewhere_do_not_count() {
    let (mut a, p) = (End::established(true), End::established(false));
    a.wait(1);
    let question = a.take_question();
    let answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    a.answer(&answer, source(false, 1), &[0, 1]);
    assert!(a.sent.is_empty());
    a.answer(&answer, source(false, 0), &[0, 1]);
    assert_eq!(a.take_sent().attr_id(), attr::LAP);
    a.answer(&answer, source(false, 0), &[0, 1]);
    assert!(a.sent.is_empty());
}

#[test]
fn questions_about_others_are_not_answered() {
    let p = End::established(false);
    let question = Survey {
        asker_id: ACTIVE_ID,
        asked_id: PASSIVE_ID,
        ..Survey::default()
    };
    let own = ports(false, &[0]);
    assert!(p.watched.reply(&question, &own).is_some());
    for (asker_id, asked_id) in [
        (ACTIVE_ID ^ 1, PASSIVE_ID),
        (ACTIVE_ID, PASSIVE_ID ^ 1),
        (0, 0),
    ] {
        let other = Survey {
            asker_id,
            asked_id,
            ..question
        };
        assert!(p.watched.reply(&other, &own).is_none());
    }
    assert!(End::new(false).watched.reply(&question, &own).is_none());
}

#[test]
fn equal_ports_are_preferred() {
    for (near, far, want) in [
        (&[0, 2, 1][..], &[0, 1][..], Some((1, 1))),
        (&[0, 2], &[0, 1], Some((2, 1))),
        (&[0], &[0, 1], None),
        (&[0, 1], &[0], None),
        (&[], &[], None),
    ] {
        let (mut a, p) = (End::established(true), End::established(false));
        a.wait(1);
        let question = a.take_question();
        let answer = p.watched.reply(&question, &ports(false, far)).unwrap();
        a.answer(&answer, source(false, 0), near);
        let offered = a.sent.pop().map(|lap| lap.message::<Lap>().path);
        let want = want.map(|(near, far)| {
            let (near, far) = (path(near), path(far));
            Path {
                remote_lid: far.remote_lid,
                remote_gid: far.remote_gid,
                ..near
            }
        });
        assert_eq!(offered, want);
    }
}

#[test]
fn rails_may_have_lids_in_common() {
    let (mut a, p) = (End::established(true), End::established(false));
    a.wait(1);
    let question = a.take_question();
    let mut answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    answer.ports[1].lid = answer.ports[0].lid;
    a.answer(&answer, source(false, 0), &[0, 1]);
    let lap: Lap = a.take_sent().message();
    assert_eq!(
        lap.path,
        Path {
            remote_lid: path(0).remote_lid,
            ..path(1)
        }
    );
}

#[test]
fn a_port_in_use_is_known_by_its_lid_if_not_by_its_gid() {
    let (mut a, p) = (End::established(true), End::established(false));
    a.wait(1);
    let question = a.take_question();
    let mut answer = p.watched.reply(&question, &ports(false, &[0])).unwrap();
    answer.ports[0].gid = path(2).remote_gid;
    a.answer(&answer, source(false, 0), &[0, 1]);
    assert!(
        a.sent.is_empty(),
        "a path to the same port by its other GID"
    );
}

#[test]
fn the_path_that_was_chosen() {
    let lid = PeerPort::Lid(path(2).remote_lid);
    let gid = PeerPort::Gid(path(2).remote_gid);
    let timing = LapTiming {
        response: 9,
        retries: 1,
    };
    for (local, remote, want) in [
        (3, lid, (2, 2)),
        (2, gid, (1, 2)),
        // One that is not there, or in use.
        (4, lid, (1, 1)),
        (3, PeerPort::Lid(Lid::new(999)), (1, 1)),
        (1, PeerPort::Gid(path(0).remote_gid), (1, 1)),
    ] {
        let (mut a, p) = (End::established(true), End::established(false));
        a.wishes = Wishes {
            choice: Some(Choice {
                local: PortNum::new(local),
                remote,
            }),
            timing,
        };
        a.wait(1);
        let question = a.take_question();
        let answer = p.watched.reply(&question, &ports(false, &[0, 1, 2]));
        a.answer(&answer.unwrap(), source(false, 0), &[0, 1, 2]);
        let lap: Lap = a.take_sent().message();
        let (near, far) = (path(want.0), path(want.1));
        assert_eq!(
            (lap.path.local_lid, lap.path.remote_lid),
            (near.local_lid, far.remote_lid)
        );
        assert_eq!(
            (lap.path.local_gid, lap.path.remote_gid),
            (near.local_gid, far.remote_gid)
        );
        assert_eq!(lap.remote_cm_response_timeout, timing.response);
        a.wait(9);
        a.take_sent();
        a.wait(9);
        assert!(a.sent.is_empty(), "once again, and no more");
    }
}

#[test]
fn peers_that_have_no_say() {
    let mut a = End::new(true);
    assert_eq!(a.see(&rep(), Way::Received), Progress::Named);
    a.watched.forbid();
    assert_eq!(a.see(&rtu(), Way::Sent), Progress::Established);
    assert_eq!(a.watched.deadline(true), None, "nothing is asked");
    let mut p = End::new(false);
    assert_eq!(p.see(&rep(), Way::Sent), Progress::Named);
    p.watched.forbid();
    assert_eq!(p.see(&rtu(), Way::Received), Progress::Established);
    let mut a = End::established(true);
    a.wait(1);
    let question = a.take_question();
    let answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    assert!(answer.is_known && !answer.takes_paths);
    a.answer(&answer, source(false, 0), &[0, 1]);
    assert!(a.sent.is_empty());
    let lap = Lap {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
        remote_qpn: Qpn::new(PASSIVE_QPN),
        remote_cm_response_timeout: 16,
        path: path(1),
    };
    p.receive(&mad(5, &lap), source(true, 0));
    assert_eq!(
        p.take_sent().message::<Apr>().ap_status,
        ap_status::UNSUPPORTED
    );
    assert!(p.loaded.is_empty());
}

#[test]
fn the_rtu_was_lost() {
    let mut p = End::new(false);
    assert_eq!(p.see(&rep(), Way::Sent), Progress::Named);
    let lap = Lap {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
        remote_qpn: Qpn::new(PASSIVE_QPN),
        remote_cm_response_timeout: 16,
        path: path(1),
    };
    p.receive(&mad(5, &lap), source(true, 0));
    assert_eq!(p.watched.stage(), Stage::Established);
    assert_eq!(p.take_sent().message::<Apr>().ap_status, ap_status::LOADED);
    assert_eq!(p.loaded, [path(1).reversed()]);
}

#[test]
fn a_queue_pair_that_takes_no_path() {
    let (mut a, mut p) = (End::established(true), End::established(false));
    p.obeys = false;
    a.wait(1);
    let question = a.take_question();
    let answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    a.answer(&answer, source(false, 0), &[0, 1]);
    p.receive(&a.take_sent(), source(true, 0));
    let apr = p.take_sent();
    assert_eq!(apr.message::<Apr>().ap_status, ap_status::REJECTED);
    a.receive(&apr, source(false, 0));
    assert!(a.loaded.is_empty() && p.loaded.is_empty());
    assert_eq!(a.watched.deadline(true), Some(a.now.after(PAUSE)));

    // And if it is the one of the end that offers: it has none, and asks for the same again later.
    p.obeys = true;
    a.obeys = false;
    a.wait(2);
    let question = a.take_question();
    let answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    a.answer(&answer, source(false, 0), &[0, 1]);
    p.receive(&a.take_sent(), source(true, 0));
    a.receive(&p.take_sent(), source(false, 0));
    assert_eq!(a.watched.alternate(), None);
    assert_eq!(p.watched.alternate(), Some(&path(1).reversed()));
    a.obeys = true;
    a.wait(3);
    let question = a.take_question();
    let answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    a.answer(&answer, source(false, 0), &[0, 1]);
    p.receive(&a.take_sent(), source(true, 0));
    let apr = p.take_sent();
    assert_eq!(apr.message::<Apr>().ap_status, ap_status::LOADED);
    a.receive(&apr, source(false, 0));
    assert_eq!(a.watched.alternate(), Some(&path(1)));
}

#[test]
fn hostile_paths() {
    let lap = |remote_qpn, local, remote| {
        let message = Lap {
            local_comm_id: local,
            remote_comm_id: remote,
            remote_qpn: Qpn::new(remote_qpn),
            remote_cm_response_timeout: 16,
            path: path(1),
        };
        mad(5, &message)
    };
    let good = lap(PASSIVE_QPN, ACTIVE_ID, PASSIVE_ID);
    let mut p = End::established(false);
    assert!(!p
        .watched
        .is_concerned(&lap(PASSIVE_QPN, ACTIVE_ID ^ 1, PASSIVE_ID)));
    assert!(!p
        .watched
        .is_concerned(&lap(PASSIVE_QPN, ACTIVE_ID, PASSIVE_ID ^ 1)));
    // From a port that is not the peer's.
    p.receive(&good, source(true, 2));
    assert!(p.sent.is_empty() && p.loaded.is_empty());
    p.receive(
        &lap(PASSIVE_QPN ^ 1, ACTIVE_ID, PASSIVE_ID),
        source(true, 0),
    );
    assert_eq!(
        p.take_sent().message::<Apr>().ap_status,
        ap_status::INVALID_QPN
    );
    assert!(p.loaded.is_empty());
    // The end that offers takes no offers.
    let mut a = End::established(true);
    let back = lap(ACTIVE_QPN, PASSIVE_ID, ACTIVE_ID);
    a.receive(&back, source(false, 0));
    assert_eq!(
        a.take_sent().message::<Apr>().ap_status,
        ap_status::UNSUPPORTED
    );
    // An APR of nothing.
    let apr = Apr {
        local_comm_id: PASSIVE_ID,
        remote_comm_id: ACTIVE_ID,
        ..Apr::default()
    };
    a.receive(&mad(5, &apr), source(false, 0));
    assert!(a.loaded.is_empty() && a.watched.alternate().is_none());
}

#[test]
fn only_what_is_about_paths_is_taken() {
    let end = End::established(false);
    for mad in [req(), rep(), rtu(), dreq(), rej(ACTIVE_ID, PASSIVE_ID)] {
        assert!(!end.watched.is_concerned(&mad));
    }
    for (message_mraed, is_ours) in [(mraed::REQ, false), (mraed::REP, false), (mraed::LAP, true)] {
        let message = Mra {
            local_comm_id: ACTIVE_ID,
            remote_comm_id: PASSIVE_ID,
            message_mraed,
            ..Mra::default()
        };
        assert_eq!(end.watched.is_concerned(&mad(1, &message)), is_ours);
    }
}

#[test]
fn the_end() {
    let drep = mad(
        REQ_TID + 1,
        &Drep {
            local_comm_id: PASSIVE_ID,
            remote_comm_id: ACTIVE_ID,
        },
    );
    let (mut a, mut p) = (End::established(true), End::established(false));
    load(&mut a, &mut p, 1, 0, 1);
    assert!(a.migrate() && p.migrate());
    // Both are on path 1, of which their manager knows nothing.
    let (old, new) = (path(0), path(1));
    let [by_old, by_new] = [old, new].map(|path| (path.local_gid, path.remote_lid));
    assert_eq!(a.watched.detour(&dreq(), by_old), Some(&new));
    assert_eq!(a.watched.detour(&dreq(), by_new), None);
    assert_eq!(a.watched.detour(&rtu(), by_old), None);
    // The LIDs of another rail may be the same.
    assert_eq!(
        a.watched.detour(&dreq(), (old.local_gid, new.remote_lid)),
        Some(&new)
    );
    assert_eq!(a.see(&dreq(), Way::Sent), Progress::Ending);
    assert_eq!(p.see(&dreq(), Way::Received), Progress::Ending);
    assert_eq!(
        p.watched.detour(&drep, (old.remote_gid, old.local_lid)),
        Some(&new.reversed())
    );
    // No more paths.
    assert_eq!(a.watched.deadline(true), None);
    a.tick(9);
    assert!(a.asked.is_empty());
    let question = Survey {
        asker_id: ACTIVE_ID,
        asked_id: PASSIVE_ID,
        ..Survey::default()
    };
    assert!(p.watched.reply(&question, &ports(false, &[0])).is_none());
}

#[test]
fn a_dreq_for_another_queue_pair_ends_nothing() {
    let mut p = End::established(false);
    let message = Dreq {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
        remote_qpn: Qpn::new(PASSIVE_QPN ^ 1),
    };
    assert_eq!(p.see(&mad(1, &message), Way::Received), Progress::None);
    assert_eq!(p.watched.stage(), Stage::Established);
}

#[test]
fn a_queue_pair_that_its_owner_manages() {
    // It goes over to a path that nobody here has loaded.
    let mut a = End::established(true);
    assert!(!a.migrate());
    assert!(a.watched.is_foreign());
    assert_eq!(a.watched.deadline(true), None);
    let mut p = End::established(false);
    p.watched.leave();
    let question = Survey {
        asker_id: ACTIVE_ID,
        asked_id: PASSIVE_ID,
        ..Survey::default()
    };
    assert!(p.watched.reply(&question, &ports(false, &[0])).is_none());
    let lap = Lap {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
        remote_qpn: Qpn::new(PASSIVE_QPN),
        path: path(1),
        ..Lap::default()
    };
    p.receive(&mad(5, &lap), source(true, 0));
    assert!(p.sent.is_empty() && p.loaded.is_empty());
}

#[test]
fn a_peer_that_has_refused_paths_for_good() {
    let mut a = End::new(true);
    let message = Rep {
        local_comm_id: PASSIVE_ID,
        remote_comm_id: ACTIVE_ID,
        failover_accepted: failover::NOT_SUPPORTED,
        ..reply()
    };
    a.see(&mad(REQ_TID, &message), Way::Received);
    assert_eq!(a.see(&rtu(), Way::Sent), Progress::Established);
    assert_eq!(a.watched.deadline(true), None);
}

#[test]
fn a_lap_without_an_answer() {
    let (mut a, p) = (End::established(true), End::established(false));
    a.wait(1);
    let question = a.take_question();
    let answer = p.watched.reply(&question, &ports(false, &[0, 1])).unwrap();
    a.answer(&answer, source(false, 0), &[0, 1]);
    let lap = a.take_sent();
    for _ in 0..request().max_cm_retries {
        a.wait(9);
        assert_eq!(a.take_sent(), lap);
    }
    a.wait(9);
    assert!(a.sent.is_empty() && a.asked.is_empty());
    assert_eq!(a.watched.deadline(true), Some(a.now.after(PAUSE)));
    assert_eq!(a.watched.state(), State::Established(Ap::Idle));
}
