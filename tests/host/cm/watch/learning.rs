// SPDX-License-Identifier: GPL-2.0

//! What is learnt of the connections of ib_cm: which there are, whose paths they have, and when they end.

use super::{
    dreq,
    load,
    mad,
    ports,
    rej,
    rep,
    req,
    rtu,
    End,
    REQ_TID, //
};
use crate::ends::{
    active,
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
    Stage,
    Watched,
    Way, //
};
use proto::cm::{
    Ap,
    State, //
};
use proto::time::Instant;
use wire::mad::cm::{
    ap_status,
    attr,
    mraed,
    service_type,
    Apr,
    Cm,
    Drep,
    Dreq,
    Lap,
    Mra,
    Rep,
    Req, //
};
use wire::mad::survey::Survey;
use wire::Qpn;

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
fn refused_before_and_after() {
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
        for (mad, sent_by_active) in [(&by_passive, false), (&by_active, true)] {
            let mut end = End::established(is_active);
            let way = way(sent_by_active);
            let want = match way {
                Way::Sent => (Progress::None, Stage::Established),
                Way::Received => (Progress::Ending, Stage::Ending),
            };
            assert_eq!((end.see(mad, way), end.watched.stage()), want);
        }
        let mut end = End::established(is_active);
        assert_eq!(end.see(&unnamed, Way::Received), Progress::None);
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
