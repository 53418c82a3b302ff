// SPDX-License-Identifier: GPL-2.0

//! What peers are asked, what they answer, and which path follows of that.

use super::{
    mad,
    ports,
    rep,
    rtu,
    End, //
};
use crate::ends::{
    path,
    source,
    ACTIVE_ID,
    PASSIVE_ID,
    PASSIVE_QPN, //
};
use proto::cm::watch::{
    Choice,
    End as PeerPort,
    Progress,
    Way,
    Wishes,
    PATIENCE,
    PAUSE,
    REPEATS, //
};
use proto::cm::LapTiming;
use wire::mad::cm::{
    ap_status,
    attr,
    Apr,
    Lap,
    Path, //
};
use wire::mad::survey::Survey;
use wire::{
    Lid,
    PortNum,
    Qpn, //
};

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
