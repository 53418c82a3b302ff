// SPDX-License-Identifier: GPL-2.0

//! Alternate paths: each row of the tables of LAP and APR.

use crate::ends::{
    path,
    reply,
    source,
    ACTIVE_ID,
    DOWN,
    FOREIGN,
    LONELY,
    NAMELESS,
    OUTSIDE,
    PASSIVE_ID,
    PASSIVE_QPN, //
};
use crate::pair::{
    Pair,
    A,
    P, //
};
use proto::cm::{
    Ap,
    Count,
    Event,
    LapFailure,
    LapTiming,
    Notice,
    Order,
    Refusal,
    State,
    Ways, //
};
use proto::transport::MigState;
use wire::mad::cm::{
    ap_status,
    attr,
    mraed,
    Apr,
    Cm,
    Lap,
    Mra,
    Path, //
};
use wire::{
    Gid,
    Qpn, //
};

fn idle() -> State {
    State::Established(Ap::Idle)
}

/// A LAP of a peer whose transaction IDs need not grow.
fn lap(tid: u32, path: &Path, qpn: u32) -> Cm {
    let mut mad = Cm::new(attr::LAP, 1 << 32 | u64::from(tid));
    mad.set_message(&Lap {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
        remote_qpn: Qpn::new(qpn),
        remote_cm_response_timeout: 16,
        path: *path,
    });
    mad
}

#[test]
fn a_path_is_loaded() {
    let mut pair = Pair::established();
    pair.order(A, Order::Load(&path(1), LapTiming::default(), b"why"));
    let mad = pair.take(A);
    let told: Lap = mad.message();
    assert_eq!(
        (told.local_comm_id, told.remote_comm_id),
        (ACTIVE_ID, PASSIVE_ID)
    );
    assert_eq!(
        (told.remote_qpn, told.path),
        (Qpn::new(PASSIVE_QPN), path(1))
    );
    assert_eq!(&mad.private_data()[..3], b"why");
    pair.give(P, &mad);
    assert_eq!(pair.told(P), [Notice::LapReceived(1, path(1).reversed())]);
    pair.order(P, Order::Answer(1, ap_status::LOADED, &[], b"yes"));
    let apr = pair.take(P);
    assert_eq!(apr.tid(), mad.tid());
    assert_eq!(&apr.private_data()[..3], b"yes");
    pair.give(A, &apr);
    assert_eq!(
        pair.told(A),
        [Notice::AprReceived(ap_status::LOADED, path(1))]
    );
    pair.expect(idle(), idle());
    assert_eq!(pair.conns[A].deadline(), None);
    assert_eq!(pair.conns[P].deadline(), None);
}

#[test]
fn a_path_is_refused() {
    for status in 1..=13 {
        let mut pair = Pair::offered();
        pair.order(P, Order::Answer(1, status, &[1, 2, 3], &[]));
        let apr = pair.take(P);
        let told: Apr = apr.message();
        assert_eq!(
            (told.ap_status, told.info_length, told.info[2]),
            (status, 3, 3)
        );
        pair.give(A, &apr);
        assert_eq!(pair.told(A), [Notice::AprReceived(status, path(1))]);
        assert_eq!(pair.conns[A].alternate(), None);
        assert_eq!(pair.conns[P].alternate(), None);
        pair.expect(idle(), idle());
        // Who says that paths are not supported is not asked again.
        let again = pair.try_order(A, Order::Load(&path(1), LapTiming::default(), &[]));
        assert_eq!(again.is_ok(), status != ap_status::UNSUPPORTED);
    }
}

/// The APR is lost: the LAP comes again, and is answered as before, without asking anybody.
#[test]
fn a_lost_answer_is_repeated() {
    let mut pair = Pair::offered();
    pair.order(P, Order::Answer(1, ap_status::LOADED, &[], &[]));
    let apr = pair.take(P);
    pair.wait(A);
    pair.carry(A);
    assert_eq!(pair.take(P), apr);
    assert_eq!(pair.told(P), []);
    pair.give(A, &apr);
    pair.give(A, &apr);
    assert_eq!(
        pair.told(A),
        [Notice::AprReceived(ap_status::LOADED, path(1))]
    );
}

/// Each LAP and APR is counted by both ends, and what became of it.
#[test]
fn exchanges_are_counted() {
    let mut pair = Pair::offered();
    assert_eq!(pair.counted(A), [Count::LapSent]);
    assert_eq!(pair.counted(P), [Count::LapReceived]);
    pair.wait(A);
    let lap = pair.take(A);
    pair.give(P, &lap);
    assert_eq!(pair.counted(A), [Count::LapSent, Count::LapRetried]);
    assert_eq!(pair.counted(P), [Count::LapReceived, Count::LapDuplicate]);
    pair.order(P, Order::Answer(1, ap_status::REJECTED, &[], &[]));
    let apr = pair.take(P);
    assert_eq!(pair.counted(P), [Count::AprSent]);
    pair.give(P, &lap);
    let mut counted = pair.counted(P);
    counted.sort_by_key(|count| *count as u32);
    let again = [
        Count::LapReceived,
        Count::LapDuplicate,
        Count::AprSent,
        Count::AprRetried,
    ];
    assert_eq!(counted, again);
    pair.give(A, &apr);
    pair.give(A, &apr);
    let twice = [Count::AprReceived, Count::AprReceived, Count::AprDuplicate];
    assert_eq!(pair.counted(A), twice);
    pair.offer(2);
    pair.give(A, &apr);
    let late = [Count::LapSent, Count::AprReceived, Count::AprStale];
    assert_eq!(pair.counted(A), late);
    pair.carry(A);
    pair.give(P, &lap);
    let older = [Count::LapReceived, Count::LapReceived, Count::LapStale];
    assert_eq!(pair.counted(P), older);
}

/// The answer to an earlier LAP is not taken for that to the present one.
#[test]
fn a_late_answer_is_not_taken() {
    let mut pair = Pair::offered();
    pair.order(P, Order::Answer(1, ap_status::REJECTED, &[], &[]));
    let refused = pair.take(P);
    pair.give(A, &refused);
    pair.offer(2);
    pair.give(A, &refused);
    assert_eq!(pair.conns[A].state(), State::Established(Ap::LapSent));
    pair.carry(A);
    pair.order(P, Order::Answer(2, ap_status::LOADED, &[], &[]));
    pair.carry(P);
    assert_eq!(
        pair.told(A),
        [
            Notice::AprReceived(ap_status::REJECTED, path(1)),
            Notice::AprReceived(ap_status::LOADED, path(2)),
        ]
    );
}

/// A LAP that nobody answers is repeated, and given up; the connection lives on. The newer one counts, and the
/// consumer that answers the older one hears that it is stale.
#[test]
fn the_newest_offer_counts() {
    let mut pair = Pair::established();
    let timing = LapTiming {
        response: 16,
        retries: 2,
    };
    pair.order(A, Order::Load(&path(1), timing, &[]));
    let first = pair.take(A);
    for _ in 0..2 {
        pair.wait(A);
        assert_eq!(pair.take(A), first);
    }
    pair.wait(A);
    assert_eq!(pair.told(A), [Notice::LapError(LapFailure::Timeout)]);
    pair.silent(A);
    pair.offer(2);
    pair.give(P, &first);
    pair.carry(A);
    assert_eq!(
        pair.told(P),
        [
            Notice::LapReceived(1, path(1).reversed()),
            Notice::LapReceived(2, path(2).reversed()),
        ]
    );
    let stale = Order::Answer(1, ap_status::LOADED, &[], &[]);
    assert_eq!(pair.try_order(P, stale), Err(Refusal::Stale));
    pair.order(P, Order::Answer(2, ap_status::LOADED, &[], &[]));
    pair.carry(P);
    assert_eq!(
        pair.told(A),
        [Notice::AprReceived(ap_status::LOADED, path(2))]
    );
    // The first comes once more, from wherever it was.
    pair.give(P, &first);
    pair.silent(P);
    assert_eq!(pair.told(P), []);
    assert_eq!(pair.conns[P].alternate(), Some(&path(2).reversed()));
}

/// A consumer may have loaded the path of an offer before it hears that the offer is replaced. So it is asked even
/// about the path that was agreed on before.
#[test]
fn a_replaced_offer_leaves_doubt() {
    let mut pair = Pair::loaded();
    pair.give(P, &lap(8, &path(2), PASSIVE_QPN));
    pair.give(P, &lap(9, &path(1), PASSIVE_QPN));
    pair.silent(P);
    assert_eq!(
        pair.told(P),
        [
            Notice::LapReceived(2, path(2).reversed()),
            Notice::LapReceived(3, path(1).reversed()),
        ]
    );
    assert_eq!(pair.conns[P].alternate(), None);
}

#[test]
fn two_silences_are_enough() {
    let mut pair = Pair::established();
    let timing = LapTiming {
        response: 10,
        retries: 0,
    };
    for _ in 0..2 {
        pair.order(A, Order::Load(&path(1), timing, &[]));
        let _ = pair.take(A);
        pair.wait(A);
        assert_eq!(pair.told(A), [Notice::LapError(LapFailure::Timeout)]);
    }
    let again = pair.try_order(A, Order::Load(&path(1), timing, &[]));
    assert_eq!(again, Err(Refusal::Invalid));
    pair.expect(idle(), idle());
}

/// A consumer that takes its time: the peer is asked for patience by itself, and once more when it asks again.
#[test]
fn patience_is_asked_for() {
    let mut pair = Pair::offered();
    pair.wait(P);
    let mra = pair.take(P);
    assert_eq!(mra.message::<Mra>().message_mraed, mraed::LAP);
    assert_eq!(pair.conns[P].state(), State::Established(Ap::MraLapSent));
    let before = pair.conns[A].deadline();
    pair.give(A, &mra);
    assert!(pair.conns[A].deadline() > before);
    pair.give(A, &mra);
    assert_eq!(pair.told(A), [Notice::MraReceived]);
    assert_eq!(pair.conns[A].state(), State::Established(Ap::MraLapRcvd));
    // Even that was not enough.
    pair.wait(A);
    assert_eq!(pair.conns[A].state(), State::Established(Ap::LapSent));
    pair.carry(A);
    assert_eq!(pair.take(P), mra);
    assert_eq!(pair.told(P), []);
    pair.order(P, Order::Answer(1, ap_status::LOADED, &[], &[]));
    pair.carry(P);
    assert_eq!(
        pair.told(A),
        [Notice::AprReceived(ap_status::LOADED, path(1))]
    );
    // It comes after all is over.
    pair.give(A, &mra);
    assert_eq!(pair.told(A), []);
    pair.expect(idle(), idle());
}

/// What the consumer is not asked about.
#[test]
fn answers_that_need_no_consumer() {
    let cases = [
        (path(0), PASSIVE_QPN, ap_status::IS_CURRENT),
        (path(1), 1, ap_status::INVALID_QPN),
        (path(FOREIGN), PASSIVE_QPN, ap_status::INVALID_LID),
        (path(NAMELESS), PASSIVE_QPN, ap_status::INVALID_GID),
        (path(OUTSIDE), PASSIVE_QPN, ap_status::REJECTED),
    ];
    for (path, qpn, status) in cases {
        let mut pair = Pair::established();
        pair.give(P, &lap(1, &path, qpn));
        assert_eq!(pair.take_as::<Apr>(P).ap_status, status);
        assert_eq!(pair.told(P), []);
        let counted = [Count::LapReceived, Count::LapRefused, Count::AprSent];
        assert_eq!(pair.counted(P), counted);
        pair.expect(idle(), idle());
    }
    // The path that is loaded already.
    let mut pair = Pair::loaded();
    pair.give(P, &lap(9, &path(1), PASSIVE_QPN));
    assert_eq!(pair.take_as::<Apr>(P).ap_status, ap_status::LOADED);
    // Another one: as long as the queue pair is not armed.
    for (migration, taken) in [(MigState::Rearm, true), (MigState::Armed, false)] {
        let mut pair = Pair::loaded();
        pair.migration[P] = migration;
        pair.give(P, &lap(9, &path(2), PASSIVE_QPN));
        if taken {
            assert_eq!(pair.told(P), [Notice::LapReceived(2, path(2).reversed())]);
        } else {
            assert_eq!(pair.take_as::<Apr>(P).ap_status, ap_status::REJECTED);
        }
    }
    // One transaction ID for two paths.
    let mut pair = Pair::offered();
    let tid = pair.conns[A].datagram(proto::cm::Slot::Request).tid();
    pair.give(P, &lap(tid as u32, &path(2), PASSIVE_QPN));
    assert_eq!(pair.take_as::<Apr>(P).ap_status, ap_status::REJECTED);
    assert_eq!(pair.conns[P].state(), State::Established(Ap::LapRcvd));
}

/// Paths are offered by the requester alone.
#[test]
fn the_wrong_end_offers() {
    let mut pair = Pair::established();
    let offer = pair.try_order(P, Order::Load(&path(1), LapTiming::default(), &[]));
    assert_eq!(offer, Err(Refusal::Invalid));
    let mut mad = Cm::new(attr::LAP, 1);
    mad.set_message(&Lap {
        local_comm_id: PASSIVE_ID,
        remote_comm_id: ACTIVE_ID,
        path: path(1).reversed(),
        ..Lap::default()
    });
    pair.give(A, &mad);
    assert_eq!(pair.take_as::<Apr>(A).ap_status, ap_status::UNSUPPORTED);
    pair.expect(idle(), idle());
}

/// A LAP proves that the requester is established.
#[test]
fn a_lap_stands_for_an_rtu() {
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    pair.carry(P);
    pair.order(A, Order::Ready(&[]));
    let rtu = pair.take(A);
    pair.offer(1);
    pair.carry(A);
    assert_eq!(
        pair.told(P),
        [
            Notice::Established,
            Notice::LapReceived(1, path(1).reversed())
        ]
    );
    pair.give(P, &rtu);
    assert_eq!(pair.told(P), []);
}

/// Who refuses a LID or a GID says one that would do, if there is one, but for what would be the path in use.
#[test]
fn a_refusal_says_what_would_do() {
    let with_lid_of = |number: u8, other: u8| Path {
        remote_lid: path(number).remote_lid,
        ..path(other)
    };
    let gid = path(1).remote_gid.get();
    let lid = path(3).remote_lid.get().to_be_bytes();
    let cases: [(Path, u8, &[u8]); 7] = [
        (with_lid_of(FOREIGN, 3), ap_status::INVALID_LID, &lid),
        (with_lid_of(FOREIGN, 0), ap_status::INVALID_LID, &[]),
        (with_lid_of(DOWN, 3), ap_status::INVALID_LID, &[]),
        (path(NAMELESS), ap_status::INVALID_GID, &gid),
        (path(LONELY), ap_status::INVALID_GID, &[]),
        (path(OUTSIDE), ap_status::REJECTED, &[]),
        (path(0), ap_status::IS_CURRENT, &[]),
    ];
    for (path, status, info) in cases {
        let mut pair = Pair::established();
        let lap = lap(1, &path, PASSIVE_QPN);
        pair.give(P, &lap);
        let apr = pair.take(P);
        let mut padded = [0; 72];
        padded[..info.len()].copy_from_slice(info);
        // Its length, the status, and what is behind the reserved bytes, as on the wire.
        assert_eq!(&apr.as_bytes()[24 + 8..24 + 10], [info.len() as u8, status]);
        assert_eq!(&apr.as_bytes()[24 + 12..24 + 84], padded);
        // It comes again with it.
        pair.give(P, &lap);
        assert_eq!(pair.take(P), apr);
    }
}

/// Orders that do not fit.
#[test]
fn orders_out_of_place() {
    let timing = LapTiming::default();
    let mut pair = Pair::established();
    for number in [0, FOREIGN, NAMELESS, OUTSIDE] {
        let offer = pair.try_order(A, Order::Load(&path(number), timing, &[]));
        assert_eq!(offer, Err(Refusal::Invalid));
    }
    let answer = pair.try_order(P, Order::Answer(0, 0, &[], &[]));
    assert_eq!(answer, Err(Refusal::Invalid));
    assert_eq!(pair.try_step(A, Event::Migrated), Err(Refusal::Invalid));

    let mut pair = Pair::offered();
    let offer = pair.try_order(A, Order::Load(&path(2), timing, &[]));
    assert_eq!(offer, Err(Refusal::Busy));
    assert_eq!(pair.try_step(A, Event::Migrated), Err(Refusal::Invalid));

    let mut pair = Pair::loaded();
    let offer = pair.try_order(A, Order::Load(&path(2), timing, &[]));
    assert_eq!(offer, Err(Refusal::Invalid));
    pair.order(A, Order::Unload);
    pair.offer(2);
}

#[test]
fn a_connection_migrates() {
    let mut pair = Pair::loaded();
    pair.step(A, Event::Migrated);
    assert_eq!(pair.told(A), [Notice::Migrated(path(1))]);
    assert_eq!(pair.conns[A].primary(), &path(1));
    assert_eq!(pair.conns[A].alternate(), None);
    // The old path may be what the peer needs to follow.
    let back = path(0);
    let offer = pair.try_order(A, Order::Load(&back, LapTiming::default(), &[]));
    assert_eq!(offer, Err(Refusal::Again));
    pair.step(P, Event::Migrated);
    pair.step(A, Event::Confirmed);
    pair.offer(0);
    // What comes by the new path, and what was sent by the old one, is from the peer.
    let mad = pair.take(A);
    pair.step(P, Event::Received(&mad, source(true, 1)));
    assert_eq!(
        pair.told(P)[1..],
        [Notice::LapReceived(2, path(0).reversed())]
    );
    pair.order(P, Order::Answer(2, 0, &[], &[]));
    let apr = pair.take(P);
    pair.step(A, Event::Received(&apr, source(false, 0)));
    assert_eq!(pair.told(A), [Notice::AprReceived(0, path(0))]);
}

/// The queue pair goes to the path that was agreed on, while another is offered.
#[test]
fn migrated_amid_an_offer() {
    let mut pair = Pair::loaded();
    pair.order(A, Order::Unload);
    pair.offer(2);
    pair.carry(A);
    assert_eq!(pair.told(P), [Notice::LapReceived(2, path(2).reversed())]);
    pair.step(P, Event::Migrated);
    assert_eq!(pair.told(P), [Notice::Migrated(path(1).reversed())]);
    pair.order(P, Order::Answer(2, 0, &[], &[]));
    assert_eq!(pair.conns[P].primary(), &path(1).reversed());
    assert_eq!(pair.conns[P].alternate(), Some(&path(2).reversed()));
}

/// What the HCA tells of a queue pair by path `number`, seen from this end.
fn ways(of_active: bool, number: u8, alternate: Option<u8>) -> Ways {
    let way = |number: u8| {
        let seen = if of_active {
            path(number)
        } else {
            path(number).reversed()
        };
        // Without a global route nobody knows the GID of the other end.
        Path {
            remote_gid: Gid::default(),
            ..seen
        }
    };
    Ways {
        primary: way(number),
        alternate: alternate.map(way),
        is_heard: false,
    }
}

/// The program has loaded a path of its own: the connection goes by it none the less.
#[test]
fn a_queue_pair_goes_its_own_way() {
    let mut pair = Pair::established();
    for end in [A, P] {
        let ways = ways(end == A, 2, None);
        pair.step(end, Event::Moved(&ways));
        assert_eq!(pair.told(end), [Notice::Migrated(ways.primary)]);
        assert_eq!(pair.conns[end].primary(), &ways.primary);
        // That is all there is to say.
        let again = pair.try_step(end, Event::Moved(&ways));
        assert_eq!(again, Err(Refusal::Stale));
    }
    pair.order(A, Order::Confirmed);
    // Offers come by the new path, and what was sent by the old one is still the peer's.
    pair.offer(1);
    let mad = pair.take(A);
    pair.step(P, Event::Received(&mad, source(true, 1)));
    assert_eq!(pair.told(P), []);
    pair.step(P, Event::Received(&mad, source(true, 2)));
    assert_eq!(pair.told(P), [Notice::LapReceived(1, path(1).reversed())]);
    pair.order(P, Order::Answer(1, 0, &[], &[]));
    let apr = pair.take(P);
    pair.step(A, Event::Received(&apr, source(false, 0)));
    assert_eq!(pair.told(A), [Notice::AprReceived(0, path(1))]);
}

/// Another path than the one that was agreed on: that one is gone, unless the queue pair still has it.
#[test]
fn a_queue_pair_goes_another_way() {
    for still in [None, Some(1)] {
        let mut pair = Pair::loaded();
        pair.step(P, Event::Moved(&ways(false, 2, still)));
        let kept = still.map(|number| path(number).reversed());
        assert_eq!(pair.conns[P].alternate().copied(), kept);
    }
    // The GID that is not known of the path in use is known of the one that was agreed on.
    let mut pair = Pair::loaded();
    pair.step(P, Event::Moved(&ways(false, 1, None)));
    assert_eq!(pair.told(P), [Notice::Migrated(path(1).reversed())]);
    assert_eq!(pair.conns[P].alternate(), None);
}

/// The news of a migration comes after the LAP that followed it, and its answer.
#[test]
fn the_news_of_a_migration_is_late() {
    let mut pair = Pair::loaded();
    pair.step(A, Event::Moved(&ways(true, 1, None)));
    pair.step(A, Event::Confirmed);
    pair.offer(2);
    let lap = pair.take(A);
    pair.step(P, Event::Received(&lap, source(true, 1)));
    assert_eq!(pair.told(P), [Notice::LapReceived(2, path(2).reversed())]);
    pair.order(P, Order::Answer(2, 0, &[], &[]));
    let ways = ways(false, 1, Some(2));
    pair.step(P, Event::Moved(&ways));
    assert_eq!(pair.told(P), [Notice::Migrated(ways.primary)]);
    assert_eq!(pair.conns[P].primary(), &ways.primary);
    assert_eq!(pair.conns[P].alternate(), Some(&path(2).reversed()));
}

/// The peer has been heard on the new path before this end is told of the migration: there is no other news of that.
#[test]
fn the_peer_is_heard_before_the_news_of_a_migration() {
    let mut pair = Pair::loaded();
    pair.step(A, Event::Confirmed);
    pair.step(
        A,
        Event::Moved(&Ways {
            is_heard: true,
            ..ways(true, 1, None)
        }),
    );
    assert_eq!(pair.told(A), [Notice::Migrated(path(1))]);
    pair.offer(0);
    assert_eq!(pair.take(A).attr_id(), attr::LAP);
}

/// A queue pair goes over while its connection ends: what is sent from then on goes the new way, and what comes by it is
/// the peer's.
#[test]
fn a_queue_pair_migrates_at_the_end() {
    let mut pair = Pair::loaded();
    pair.order(A, Order::Disconnect(b"why"));
    let dreq = pair.take(A);
    pair.give(P, &dreq);
    assert_eq!(pair.told(P), [Notice::DreqReceived]);
    for end in [A, P] {
        assert!(pair.conns[end].state().has_queue_pair());
        let ways = ways(end == A, 1, None);
        pair.step(end, Event::Moved(&ways));
        let seen = if end == A {
            path(1)
        } else {
            path(1).reversed()
        };
        assert_eq!(pair.told(end), [Notice::Migrated(seen)]);
        assert_eq!(pair.conns[end].primary(), &seen);
        let again = pair.try_step(end, Event::Moved(&ways));
        assert_eq!(again, Err(Refusal::Stale));
    }
    pair.wait(A);
    let again = pair.take(A);
    assert_eq!(again, dreq);
    pair.step(P, Event::Received(&again, source(true, 1)));
    pair.order(P, Order::Depart(&[]));
    assert_eq!(pair.conns[P].source(), source(true, 1));
    let drep = pair.take(P);
    pair.step(A, Event::Received(&drep, source(false, 1)));
    assert_eq!(pair.told(A), [Notice::DrepReceived]);
    // Now it is over, wherever the queue pair goes.
    for end in [A, P] {
        assert!(!pair.conns[end].state().has_queue_pair());
        let late = pair.try_step(end, Event::Moved(&ways(end == A, 2, None)));
        assert_eq!(late, Err(Refusal::Invalid));
        assert_eq!(pair.told(end), []);
    }
}

/// The path of an offer under way is in use now: it is of no use as an alternate one.
#[test]
fn the_path_that_is_offered_is_in_use() {
    let mut pair = Pair::offered();
    pair.step(P, Event::Moved(&ways(false, 1, None)));
    let apr = pair.take(P);
    assert_eq!(apr.message::<Apr>().ap_status, ap_status::IS_CURRENT);
    let late = pair.try_order(P, Order::Answer(1, 0, &[], &[]));
    assert_eq!(late, Err(Refusal::Invalid));
    pair.give(A, &apr);
    assert_eq!(
        pair.told(A),
        [Notice::AprReceived(ap_status::IS_CURRENT, path(1))]
    );
    pair.expect(idle(), idle());

    // The requester is there first, and the peer takes the path.
    let mut pair = Pair::offered();
    pair.step(A, Event::Moved(&ways(true, 1, None)));
    assert_eq!(pair.conns[A].state(), State::Established(Ap::LapSent));
    pair.order(P, Order::Answer(1, 0, &[], &[]));
    pair.carry(P);
    assert_eq!(
        pair.told(A)[1..],
        [Notice::AprReceived(ap_status::IS_CURRENT, path(1))]
    );
    assert_eq!(pair.conns[A].alternate(), None);
}

/// Whatever ends the connection, an offer under way ends with it, once.
#[test]
fn an_offer_ends_with_the_connection() {
    let aborted = Notice::LapError(LapFailure::Aborted);
    for patient in [false, true] {
        let prepare = || {
            let mut pair = Pair::offered();
            if patient {
                pair.order(P, Order::Delay(18, &[]));
                pair.carry(P);
                assert_eq!(pair.told(A), [Notice::MraReceived]);
            }
            pair
        };
        let mut pair = prepare();
        pair.order(A, Order::Disconnect(&[]));
        assert_eq!(pair.told(A), [aborted]);
        pair.carry(A);
        let late = pair.try_order(P, Order::Answer(1, 0, &[], &[]));
        assert_eq!(late, Err(Refusal::Invalid));

        let mut pair = prepare();
        pair.order(P, Order::Disconnect(&[]));
        pair.carry(P);
        assert_eq!(pair.told(A), [aborted, Notice::DreqReceived]);

        let mut pair = prepare();
        pair.step(A, Event::Gone);
        assert_eq!(pair.told(A), [aborted, Notice::Removed]);

        let mut pair = prepare();
        let mut rej = Cm::new(attr::REJ, 1);
        rej.set_message(&wire::mad::cm::Rej {
            local_comm_id: PASSIVE_ID,
            remote_comm_id: ACTIVE_ID,
            ..Default::default()
        });
        pair.give(A, &rej);
        assert_eq!(pair.told(A), [aborted, Notice::RejReceived]);
        assert_eq!(pair.conns[A].state(), State::Timewait);
    }
}

/// A LAP for a connection that is not there yet, or not any more.
#[test]
fn offers_out_of_place() {
    let mad = lap(1, &path(1), PASSIVE_QPN);
    let mut pair = Pair::new();
    pair.give(P, &mad);
    pair.silent(P);
    let mut pair = Pair::established();
    pair.order(P, Order::Disconnect(&[]));
    let _ = pair.take(P);
    pair.give(P, &mad);
    pair.silent(P);
    pair.step(P, Event::Gone);
    let _ = pair.told(P);
    pair.give(P, &mad);
    pair.silent(P);
    assert_eq!(pair.told(P), []);
}

/// Transaction IDs wrap.
#[test]
fn transaction_ids_wrap() {
    let mut pair = Pair::established();
    pair.give(P, &lap(u32::MAX, &path(1), PASSIVE_QPN));
    assert_eq!(pair.told(P).len(), 1);
    pair.give(P, &lap(0, &path(2), PASSIVE_QPN));
    assert_eq!(pair.told(P), [Notice::LapReceived(2, path(2).reversed())]);
    pair.give(P, &lap(u32::MAX, &path(1), PASSIVE_QPN));
    assert_eq!(pair.told(P), []);
}

/// A connection by an identifier that has had another one before: nothing of that counts any more.
#[test]
fn an_identifier_begins_anew() {
    let mut pair = Pair::loaded();
    pair.migration[A] = MigState::Armed;
    pair.step(A, Event::Migrated);
    pair.order(A, Order::Disconnect(&[]));
    for _ in 0..100 {
        if pair.conns[A].state() == State::Idle {
            break;
        }
        pair.wait(A);
    }
    assert_eq!(pair.conns[A].state(), State::Idle);
    let [conn, _] = pair.conns;
    let mut pair = Pair::by(conn);
    let _ = pair.take_all(A);
    pair.establish();
    pair.offer(2);
    pair.carry(A);
    assert_eq!(pair.told(P), [Notice::LapReceived(1, path(2).reversed())]);
}
