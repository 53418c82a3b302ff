// SPDX-License-Identifier: GPL-2.0

//! Paths that are agreed on, loaded, used, refused and lost.

use super::{
    load,
    mad,
    ports,
    rtu,
    End,
    REQ_TID, //
};
use crate::ends::{
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
    Progress,
    Way,
    PAUSE,
    PERIOD,
    START, //
};
use proto::cm::{
    Ap,
    State, //
};
use wire::mad::cm::{
    ap_status,
    failover,
    Apr,
    Lap,
    Rep, //
};
use wire::mad::survey::Survey;
use wire::Qpn;

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
fn a_migration_that_is_told_late() {
    // Of the connection that the queue pair had before, or of this one, when a later one was looked at already.
    for is_active in [true, false] {
        let mut end = End::established(is_active);
        assert!(!end.migrate_to(*end.watched.primary()));
        assert!(!end.watched.is_foreign());
    }
    let (mut a, mut p) = (End::established(true), End::established(false));
    load(&mut a, &mut p, 5, 0, 1);
    for end in [&mut a, &mut p] {
        assert!(end.migrate());
        assert!(!end.migrate_to(*end.watched.primary()));
        assert!(!end.watched.is_foreign());
    }
    load(&mut a, &mut p, 6, 1, 0);
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

/// From then on the paths are its own, also one that is known here. What ends the connection still goes by the one in use.
#[test]
fn an_owner_that_begins_to_manage_paths() {
    let (mut a, mut p) = (End::established(true), End::established(false));
    load(&mut a, &mut p, 1, 0, 1);
    assert!(a.migrate() && p.migrate());
    for (end, back) in [(&mut a, path(0)), (&mut p, path(0).reversed())] {
        end.watched.leave();
        assert!(!end.migrate_to(back));
        assert!(end.watched.is_foreign());
        assert_eq!(end.watched.primary(), &back);
    }
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

/// However often that happens, a peer that answers questions is offered the path again.
#[test]
fn a_lap_without_an_answer() {
    let (mut a, mut p) = (End::established(true), End::established(false));
    for tid in 1..5 {
        a.wait(tid);
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
    load(&mut a, &mut p, 5, 0, 1);
}
