// SPDX-License-Identifier: GPL-2.0

//! Connections that begin and end.

use crate::ends::{
    env,
    passive,
    path,
    reply,
    request,
    source,
    Ports,
    ACTIVE_ID,
    ACTIVE_QPN,
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
    transport_refusal,
    Ap,
    Conn,
    Event,
    Notice,
    Order,
    Refusal,
    Slot,
    State, //
};
use proto::time::Instant;
use proto::transport::MigState;
use wire::mad::cm::{
    attr,
    failover,
    mraed,
    reason,
    rejected,
    service_type,
    Cm,
    Drep,
    Dreq,
    Mra,
    Path,
    Rej,
    Rep,
    Req,
    Rtu, //
};
use wire::{
    Guid,
    Qpn, //
};

#[test]
fn a_connection_is_made_and_ended() {
    let mut pair = Pair::established();
    assert_eq!(pair.conns[A].comm_ids(), (ACTIVE_ID, PASSIVE_ID));
    assert_eq!(pair.conns[P].comm_ids(), (PASSIVE_ID, ACTIVE_ID));
    assert_eq!(
        pair.conns[A].peer(),
        (Guid::new(0xbb), Qpn::new(PASSIVE_QPN))
    );
    assert_eq!(
        pair.conns[P].peer(),
        (Guid::new(0xaa), Qpn::new(ACTIVE_QPN))
    );
    pair.order(A, Order::Disconnect(b"bye"));
    pair.carry(A);
    assert_eq!(pair.told(P), [Notice::DreqReceived]);
    pair.order(P, Order::Depart(b"bye"));
    pair.carry(P);
    assert_eq!(pair.told(A), [Notice::DrepReceived]);
    pair.expect(State::Timewait, State::Timewait);
    for end in [A, P] {
        pair.wait(end);
        assert_eq!(pair.told(end), [Notice::TimewaitExit]);
    }
    pair.expect(State::Idle, State::Idle);
    assert_eq!(pair.conns[A].deadline(), None);
}

#[test]
fn messages_say_what_they_are_told_to() {
    let mut pair = Pair::new();
    let req = pair.conns[A].datagram(Slot::Request).clone();
    let told: Req = req.message();
    assert_eq!(
        (told.local_comm_id, told.local_ca_guid),
        (ACTIVE_ID, Guid::new(0xaa))
    );
    assert_eq!((told.service_id, told.primary), (7, path(0)));
    assert_eq!(&req.private_data()[..6], b"hello\0");

    pair.order(P, Order::Accept(&reply(), b"welcome"));
    let rep = pair.take(P);
    assert_eq!(rep.tid(), req.tid());
    let told: Rep = rep.message();
    assert_eq!(
        (told.local_comm_id, told.remote_comm_id),
        (PASSIVE_ID, ACTIVE_ID)
    );
    assert_eq!(told.local_qpn, Qpn::new(PASSIVE_QPN));
    assert_eq!(&rep.private_data()[..8], b"welcome\0");
    pair.give(A, &rep);

    pair.order(A, Order::Ready(b"go"));
    let rtu = pair.take(A);
    assert_eq!(rtu.tid(), req.tid());
    assert_eq!(
        rtu.message::<Rtu>(),
        Rtu {
            local_comm_id: ACTIVE_ID,
            remote_comm_id: PASSIVE_ID,
        }
    );
    pair.give(P, &rtu);

    pair.order(P, Order::Disconnect(&[]));
    let dreq = pair.take(P);
    assert_ne!(dreq.tid(), req.tid());
    assert_eq!(dreq.message::<Dreq>().remote_qpn, Qpn::new(ACTIVE_QPN));
    pair.give(A, &dreq);
    pair.order(A, Order::Depart(&[]));
    let drep = pair.take(A);
    assert_eq!(drep.tid(), dreq.tid());
    assert_eq!(drep.message::<Drep>().remote_comm_id, PASSIVE_ID);
}

#[test]
fn a_silent_peer_is_asked_again_and_given_up() {
    let mut pair = Pair::new();
    for _ in 0..request().max_cm_retries {
        pair.wait(A);
        let again = pair.take(A);
        assert_eq!(&again, pair.conns[A].datagram(Slot::Request));
        pair.give(P, &again);
        pair.silent(P);
    }
    pair.wait(A);
    let rej = pair.take(A);
    let told: Rej = rej.message();
    assert_eq!(
        (told.reason, told.message_rejected),
        (reason::TIMEOUT, rejected::REQ)
    );
    assert_eq!(told.info[..8], 0xaau64.to_be_bytes());
    assert_eq!(told.remote_comm_id, 0);
    assert_eq!(pair.told(A), [Notice::ReqError]);
    pair.give(P, &rej);
    assert_eq!(pair.told(P), [Notice::RejReceived]);
    pair.expect(State::Idle, State::Idle);
}

#[test]
fn a_lost_rtu_is_asked_for() {
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    pair.carry(P);
    pair.order(A, Order::Ready(&[]));
    let rtu = pair.take(A);
    pair.wait(P);
    pair.carry(P);
    assert_eq!(pair.take(A), rtu);
    pair.give(P, &rtu);
    pair.give(P, &rtu);
    assert_eq!(pair.told(P), [Notice::RtuReceived]);
    // And one that stays away.
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    for _ in 0..request().max_cm_retries {
        let _ = pair.take(P);
        pair.wait(P);
    }
    let _ = pair.take(P);
    pair.wait(P);
    assert_eq!(pair.told(P), [Notice::RepError]);
    assert_eq!(pair.take_as::<Rej>(P).message_rejected, rejected::REP);
    assert_eq!(pair.conns[P].state(), State::Timewait);
}

#[test]
fn patience_is_asked_for() {
    let mut pair = Pair::new();
    pair.order(P, Order::Delay(18, &[]));
    let mra = pair.take(P);
    let told: Mra = mra.message();
    assert_eq!((told.message_mraed, told.service_timeout), (mraed::REQ, 18));
    let before = pair.conns[A].deadline();
    pair.give(A, &mra);
    assert!(pair.conns[A].deadline() > before);
    pair.give(A, &mra);
    assert_eq!(pair.told(A), [Notice::MraReceived]);
    // The REQ comes again: so does its MRA.
    pair.wait(A);
    pair.carry(A);
    assert_eq!(pair.take(P), mra);

    pair.order(P, Order::Accept(&reply(), &[]));
    pair.carry(P);
    pair.order(A, Order::Delay(31, &[]));
    let mra = pair.take(A);
    assert_eq!(mra.message::<Mra>().service_timeout, proto::cm::LONGEST);
    pair.give(P, &mra);
    pair.expect(State::MraRepSent, State::MraRepRcvd);
    pair.order(A, Order::Ready(&[]));
    pair.carry(A);
    pair.expect(State::Established(Ap::Idle), State::Established(Ap::Idle));
}

#[test]
fn a_request_is_refused() {
    for (why, after) in [
        (reason::CONSUMER_DEFINED, State::Idle),
        (reason::STALE_CONN, State::Timewait),
    ] {
        let mut pair = Pair::new();
        pair.order(P, Order::Reject(why, b"because", b"sorry"));
        let rej = pair.take(P);
        assert_eq!(rej.message::<Rej>().reject_info_length, 7);
        assert_eq!(&rej.private_data()[..5], b"sorry");
        pair.give(A, &rej);
        assert_eq!(pair.told(A), [Notice::RejReceived]);
        pair.expect(after, State::Idle);
    }
    // And a reply.
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    pair.carry(P);
    pair.order(A, Order::Reject(reason::CONSUMER_DEFINED, &[], &[]));
    pair.carry(A);
    assert_eq!(pair.told(P), [Notice::RejReceived]);
    pair.expect(State::Idle, State::Idle);
}

#[test]
fn both_ends_disconnect_at_once() {
    let mut pair = Pair::established();
    pair.order(A, Order::Disconnect(&[]));
    pair.order(P, Order::Disconnect(&[]));
    let (theirs, ours) = (pair.take(P), pair.take(A));
    pair.give(A, &theirs);
    pair.give(P, &ours);
    pair.expect(State::DreqRcvd, State::DreqRcvd);
    for end in [A, P] {
        assert_eq!(pair.told(end), [Notice::DreqReceived]);
        pair.order(end, Order::Depart(&[]));
    }
    pair.carry(A);
    pair.carry(P);
    pair.expect(State::Timewait, State::Timewait);
}

#[test]
fn both_ends_let_go_at_once() {
    let mut pair = Pair::established();
    pair.order(A, Order::Destroy);
    pair.order(P, Order::Destroy);
    let (theirs, ours) = (pair.take(P), pair.take(A));
    pair.give(A, &theirs);
    pair.give(P, &ours);
    pair.expect(State::Timewait, State::Timewait);
    for end in [A, P] {
        assert_eq!(pair.take(end).attr_id(), attr::DREP);
        assert_eq!(pair.told(end), []);
        pair.wait(end);
        assert!(pair.freed[end]);
    }
}

#[test]
fn a_lost_drep_is_sent_again() {
    let mut pair = Pair::established();
    pair.order(A, Order::Disconnect(&[]));
    pair.carry(A);
    pair.order(P, Order::Depart(&[]));
    let _ = pair.take(P);
    pair.wait(A);
    pair.carry(A);
    pair.carry(P);
    assert_eq!(pair.told(A), [Notice::DrepReceived]);
    // One that never comes.
    let mut pair = Pair::established();
    pair.order(A, Order::Disconnect(&[]));
    for _ in 0..request().max_cm_retries {
        let _ = pair.take(A);
        pair.wait(A);
    }
    let _ = pair.take(A);
    pair.wait(A);
    assert_eq!(pair.told(A), [Notice::DreqError]);
    assert_eq!(pair.conns[A].state(), State::Timewait);
}

/// What is not the peer's, and what is for another queue pair.
fn wrong_dreqs(right: Dreq) -> [Dreq; 3] {
    [
        Dreq {
            local_comm_id: 1,
            ..right
        },
        Dreq {
            remote_comm_id: 1,
            ..right
        },
        Dreq {
            remote_qpn: Qpn::new(1),
            ..right
        },
    ]
}

/// Its time of waiting is over, and its consumer keeps it, when the DREQ comes again.
#[test]
fn a_kept_id_still_answers_a_dreq() {
    for kept in [A, P] {
        let mut pair = Pair::established();
        pair.order(1 - kept, Order::Disconnect(&[]));
        pair.carry(1 - kept);
        pair.order(kept, Order::Depart(&[]));
        let _ = (pair.take(kept), pair.told(kept));
        pair.wait(kept);
        assert_eq!(pair.told(kept), [Notice::TimewaitExit]);
        pair.wait(1 - kept);
        let dreq = pair.take(1 - kept);
        let right: Dreq = dreq.message();
        for wrong in wrong_dreqs(right) {
            let mut mad = dreq.clone();
            mad.set_message(&wrong);
            pair.give(kept, &mad);
            pair.silent(kept);
        }
        pair.step(kept, Event::Received(&dreq, source(kept == P, 7)));
        pair.silent(kept);

        pair.give(kept, &dreq);
        pair.carry(kept);
        assert_eq!(pair.told(1 - kept), [Notice::DrepReceived]);
        assert_eq!(pair.told(kept), []);
        assert_eq!(pair.conns[kept].state(), State::Idle);
        assert_eq!(pair.conns[kept].deadline(), None);

        // With another connection by this ID it is for nobody, which is answered elsewhere.
        let mut pair = Pair::by(pair.conns[kept].clone());
        let before = pair.conns[A].clone();
        assert!(!before.concerns(&dreq));
        pair.step(A, Event::Received(&dreq, source(kept == P, 0)));
        pair.silent(A);
        assert_eq!(pair.conns[A], before);
    }
}

/// An ID that has had no peer knows none that a DREP could be for.
#[test]
fn an_id_without_a_peer_answers_no_dreq() {
    for (reason, state) in [
        (reason::CONSUMER_DEFINED, State::Idle),
        (reason::STALE_CONN, State::Timewait),
    ] {
        let mut pair = Pair::new();
        pair.order(P, Order::Reject(reason, &[], &[]));
        pair.carry(P);
        assert_eq!(pair.conns[A].state(), state);
        // Without a peer it is the transaction ID that counts.
        let req_tid = pair.conns[A].datagram(Slot::Request).tid();
        let mut dreq = Cm::new(attr::DREQ, req_tid);
        dreq.set_message(&Dreq {
            local_comm_id: PASSIVE_ID,
            remote_comm_id: ACTIVE_ID,
            remote_qpn: Qpn::new(ACTIVE_QPN),
        });
        assert!(pair.conns[A].concerns(&dreq));
        pair.give(A, &dreq);
        pair.silent(A);
    }
}

/// What a consumer lets go ends by itself, and tells nothing.
#[test]
fn destroyed_in_any_state() {
    // What leads to the state.
    type Prepare = fn(&mut Pair);
    // With what is sent, and whether that is all.
    let cases: [(Prepare, Option<u16>, bool); 6] = [
        (|_| {}, Some(attr::REJ), true),
        (
            |pair| pair.order(P, Order::Delay(18, &[])),
            Some(attr::REJ),
            true,
        ),
        (
            |pair| pair.order(P, Order::Accept(&reply(), &[])),
            Some(attr::REJ),
            false,
        ),
        (
            |pair| {
                *pair = Pair::offered();
            },
            Some(attr::DREQ),
            false,
        ),
        (
            |pair| {
                *pair = Pair::established();
                pair.order(A, Order::Disconnect(&[]));
                pair.carry(A);
            },
            Some(attr::DREP),
            false,
        ),
        (
            |pair| {
                *pair = Pair::established();
                pair.order(P, Order::Disconnect(&[]));
            },
            None,
            false,
        ),
    ];
    for (prepare, sent, ends) in cases {
        let mut pair = Pair::new();
        prepare(&mut pair);
        let _ = (pair.take_all(P), pair.told(P));
        pair.order(P, Order::Destroy);
        if let Some(sent) = sent {
            assert_eq!(pair.take(P).attr_id(), sent);
        }
        assert_eq!(pair.freed[P], ends);
        while !pair.freed[P] {
            pair.wait(P);
        }
        assert_eq!(pair.told(P), []);
        assert_eq!(
            pair.try_order(P, Order::Connect(&request(), &[])),
            Err(Refusal::Invalid)
        );
    }
}

#[test]
fn the_hca_goes() {
    let mut pair = Pair::offered();
    for end in [A, P] {
        pair.step(end, Event::Gone);
        assert_eq!(pair.told(end).last(), Some(&Notice::Removed));
        assert_eq!(pair.conns[end].state(), State::Idle);
        assert_eq!(pair.conns[end].deadline(), None);
    }
}

/// A reply may say that paths are not for this connection, or not this one.
#[test]
fn a_request_offers_an_alternate_path() {
    for (answer, kept, may_load) in [
        (failover::ACCEPTED, true, false),
        (failover::NOT_SUPPORTED, false, false),
        (failover::REJECTED, false, true),
    ] {
        let mut conn = Conn::new(crate::ends::active());
        let now = env(Instant::default(), MigState::Migrated);
        let req = Req {
            alternate: path(1),
            ..request()
        };
        let order = Event::Order(Order::Connect(&req, &[]));
        assert!(conn.step(order, &now).is_ok());
        let mad = conn.datagram(Slot::Request).clone();
        let mut pair = Pair::new();
        pair.conns = [
            conn,
            Conn::incoming(crate::ends::passive(), &mad, source(true, 0)),
        ];
        let rep = Rep {
            failover_accepted: answer,
            ..reply()
        };
        pair.order(P, Order::Accept(&rep, &[]));
        pair.carry(P);
        pair.order(A, Order::Ready(&[]));
        pair.carry(A);
        assert_eq!(pair.conns[A].alternate(), kept.then_some(&path(1)));
        assert_eq!(
            pair.conns[P].alternate(),
            kept.then_some(&path(1).reversed())
        );
        let lap = path(2);
        let order = Order::Load(&lap, Default::default(), &[]);
        assert_eq!(pair.try_order(A, order).is_ok(), may_load);
    }
}

/// Nothing changes by a datagram with the wrong IDs, from the wrong place, or of the wrong transaction.
#[test]
fn strangers_are_not_heard() {
    let mut pair = Pair::established();
    let mut dreq = Cm::new(attr::DREQ, 5);
    let right = Dreq {
        local_comm_id: ACTIVE_ID,
        remote_comm_id: PASSIVE_ID,
        remote_qpn: Qpn::new(PASSIVE_QPN),
    };
    for wrong in wrong_dreqs(right) {
        dreq.set_message(&wrong);
        pair.give(P, &dreq);
    }
    dreq.set_message(&right);
    pair.step(P, Event::Received(&dreq, source(true, 7)));
    assert_eq!(pair.told(P), []);
    pair.give(P, &dreq);
    assert_eq!(pair.told(P), [Notice::DreqReceived]);

    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    let rep = pair.take(P);
    let mut other = Cm::new(attr::REP, rep.tid() + 1);
    other.set_message(&rep.message::<Rep>());
    pair.give(A, &other);
    assert_eq!(pair.conns[A].state(), State::ReqSent);
}

/// A connection of ib_cm with the same ID goes on meanwhile.
#[test]
fn until_the_peer_is_known_there_are_but_answers_to_the_req() {
    let mut pair = Pair::new();
    let tid = pair.conns[A].datagram(Slot::Request).tid();
    let about = |tid: u64, attr_id: u16| {
        let mut mad = Cm::new(attr_id, tid);
        match attr_id {
            attr::REJ => mad.set_message(&Rej {
                remote_comm_id: ACTIVE_ID,
                ..Rej::default()
            }),
            _ => mad.set_message(&Dreq {
                local_comm_id: 0x77,
                remote_comm_id: ACTIVE_ID,
                ..Dreq::default()
            }),
        }
        mad
    };
    for attr_id in [
        attr::REP,
        attr::MRA,
        attr::REJ,
        attr::DREQ,
        attr::DREP,
        attr::LAP,
    ] {
        let mad = about(tid ^ 1 << 32, attr_id);
        assert!(!pair.conns[A].concerns(&mad), "{attr_id:#x}");
    }
    for attr_id in [attr::REP, attr::MRA, attr::REJ] {
        assert!(pair.conns[A].concerns(&about(tid, attr_id)), "{attr_id:#x}");
    }
    pair.order(P, Order::Accept(&reply(), b"welcome"));
    pair.carry(P);
    assert!(!pair.conns[A].concerns(&about(tid, attr::DREQ)));
}

/// What the responder says to a REQ with these paths: the reason, and the additional information.
fn refusal_of(primary: Path, alternate: Path) -> (u16, Vec<u8>) {
    let mut mad = Cm::new(attr::REQ, 1);
    mad.set_message(&Req {
        primary,
        alternate,
        ..request()
    });
    let conn = Conn::incoming(passive(), &mad, source(true, 0));
    let (said, hint) = conn.stray(&Ports).unwrap_or_default();
    (said, hint.as_bytes().to_vec())
}

/// The path by the ports `other`, but to the LID of `number`.
fn with_lid_of(number: u8, other: u8) -> Path {
    Path {
        remote_lid: path(number).remote_lid,
        ..path(other)
    }
}

/// Who refuses a REQ for its alternate path says what would do, but for what would be the path in use.
#[test]
fn a_refusal_of_a_req_says_what_would_do() {
    let gid = path(1).remote_gid.get();
    let lid = path(3).remote_lid.get().to_be_bytes();
    let cases: [(Path, u16, &[u8]); 8] = [
        (path(1), 0, &[]),
        (Path::default(), 0, &[]),
        (with_lid_of(FOREIGN, 3), reason::INVALID_ALT_LID, &lid),
        (with_lid_of(FOREIGN, 0), reason::INVALID_ALT_LID, &[]),
        (with_lid_of(DOWN, 3), reason::INVALID_ALT_LID, &[]),
        (path(NAMELESS), reason::INVALID_ALT_GID, &gid),
        (path(LONELY), reason::INVALID_ALT_GID, &[]),
        (path(OUTSIDE), reason::INVALID_ALT_GID, &[]),
    ];
    for (alternate, reason, info) in cases {
        assert_eq!(refusal_of(path(0), alternate), (reason, info.to_vec()));
    }
}

/// And for its primary path, whatever the other one is.
#[test]
fn a_req_by_a_path_from_nowhere_is_refused() {
    let gid = path(NAMELESS + 1).remote_gid.get();
    let lid = path(3).remote_lid.get().to_be_bytes();
    let cases: [(Path, u16, &[u8]); 5] = [
        (with_lid_of(FOREIGN, 3), reason::INVALID_LID, &lid),
        (with_lid_of(DOWN, 3), reason::INVALID_LID, &[]),
        (path(NAMELESS), reason::INVALID_GID, &gid),
        (path(LONELY), reason::INVALID_GID, &[]),
        (path(OUTSIDE), reason::INVALID_GID, &[]),
    ];
    for (primary, reason, info) in cases {
        for alternate in [Path::default(), path(1), path(OUTSIDE)] {
            assert_eq!(refusal_of(primary, alternate), (reason, info.to_vec()));
        }
    }
}

#[test]
fn other_transport_services_are_refused() {
    for (transport_service_type, is_ours) in [
        (service_type::RC, true),
        (service_type::UC, true),
        (service_type::RD, false),
        (service_type::EXTENDED, false),
    ] {
        let mut pair = Pair::new();
        let asked = pair.conns[A].datagram(Slot::Request).clone();
        let mut req = Cm::new(attr::REQ, asked.tid());
        req.set_message(&Req {
            transport_service_type,
            path_mtu: 5,
            ..asked.message()
        });
        let Some(mad) = transport_refusal(&req) else {
            assert!(is_ours, "service type {transport_service_type}");
            continue;
        };
        assert!(!is_ours, "service type {transport_service_type}");
        assert_eq!((mad.attr_id(), mad.tid()), (attr::REJ, req.tid()));
        let rej: Rej = mad.message();
        assert_eq!((rej.local_comm_id, rej.remote_comm_id), (0, ACTIVE_ID));
        assert_eq!(
            (rej.message_rejected, rej.reason),
            (rejected::REQ, reason::INVALID_TRANSPORT_TYPE)
        );
        pair.give(A, &mad);
        assert_eq!(pair.told(A), [Notice::RejReceived]);
        assert_eq!(pair.conns[A].state(), State::Idle);
    }
}

/// Whoever is told of a request may rely on its MTU.
#[test]
fn codes_of_no_mtu_are_refused() {
    let pair = Pair::new();
    let asked = pair.conns[A].datagram(Slot::Request);
    for path_mtu in 0..16 {
        let mut req = Cm::new(attr::REQ, asked.tid());
        req.set_message(&Req {
            path_mtu,
            ..asked.message()
        });
        let why = transport_refusal(&req).map(|mad| mad.message::<Rej>().reason);
        let is_one = (1..=5).contains(&path_mtu);
        assert_eq!(
            why,
            (!is_one).then_some(reason::INVALID_MTU),
            "code {path_mtu}"
        );
    }
}
