// SPDX-License-Identifier: GPL-2.0

//! Connections that one side alone still knows.

use crate::ends::{
    reply,
    source,
    ACTIVE_ID,
    PASSIVE_ID, //
};
use crate::pair::{
    Pair,
    A,
    P, //
};
use proto::cm::{
    stale_refusal,
    Ap,
    Event,
    LapFailure,
    Notice,
    Order,
    Slot,
    State, //
};
use wire::mad::cm::{
    attr,
    reason,
    rejected,
    Cm,
    Drep,
    Dreq,
    Rej,
    Rep,
    Req, //
};

#[test]
fn a_stale_request_is_refused() {
    let mut pair = Pair::new();
    let req = pair.conns[A].datagram(Slot::Request).clone();
    let mad = stale_refusal(&req);
    assert_eq!((mad.attr_id(), mad.tid()), (attr::REJ, req.tid()));
    let rej: Rej = mad.message();
    assert_eq!(
        (rej.local_comm_id, rej.remote_comm_id),
        (0, ACTIVE_ID),
        "nobody has a name for it here"
    );
    assert_eq!(
        (rej.message_rejected, rej.reason),
        (rejected::REQ, reason::STALE_CONN)
    );
    pair.give(A, &mad);
    assert_eq!(pair.told(A), [Notice::RejReceived]);
    // Packets of the old connection may be on their way.
    assert_eq!(pair.conns[A].state(), State::Timewait);
    pair.wait(A);
    assert_eq!(pair.told(A), [Notice::TimewaitExit]);
}

#[test]
fn the_old_connection_ends() {
    for end in [A, P] {
        let mut pair = Pair::established();
        pair.step(end, Event::Stale(source(end == P, 0)));
        assert_eq!(pair.told(end), [Notice::Stale]);
        assert_eq!(pair.conns[end].state(), State::DreqSent);
        let mad = pair.take(end);
        assert_eq!(mad.attr_id(), attr::DREQ);
        // Whoever does not know a connection agrees that it ends.
        let dreq: Dreq = mad.message();
        let mut drep = Cm::new(attr::DREP, mad.tid());
        drep.set_message(&Drep {
            local_comm_id: dreq.remote_comm_id,
            remote_comm_id: dreq.local_comm_id,
        });
        pair.give(end, &drep);
        assert_eq!(pair.told(end), [Notice::DrepReceived]);
        pair.wait(end);
        assert_eq!(pair.told(end), [Notice::TimewaitExit]);
    }
}

#[test]
fn the_old_connection_ends_amid_an_offer() {
    let mut pair = Pair::offered();
    pair.step(A, Event::Stale(source(false, 0)));
    assert_eq!(
        pair.told(A),
        [Notice::LapError(LapFailure::Aborted), Notice::Stale]
    );
    assert_eq!(pair.take(A).attr_id(), attr::DREQ);
}

#[test]
fn others_cannot_end_a_connection() {
    let mut pair = Pair::established();
    let before = pair.conns.clone();
    pair.step(A, Event::Stale(source(false, 1)));
    pair.step(P, Event::Stale(source(true, 1)));
    assert_eq!(before, pair.conns);
    pair.silent(A);
    pair.silent(P);
}

#[test]
fn what_is_not_established_ends_by_itself() {
    let mut pair = Pair::new();
    pair.step(P, Event::Stale(source(true, 0)));
    assert_eq!(pair.conns[P].state(), State::ReqRcvd);
    pair.order(P, Order::Accept(&reply(), &[]));
    pair.take_all(P);
    pair.step(P, Event::Stale(source(true, 0)));
    assert_eq!(pair.conns[P].state(), State::RepSent);
    pair.silent(P);
    let mut pair = Pair::established();
    pair.order(A, Order::Disconnect(&[]));
    pair.carry(A);
    pair.order(P, Order::Depart(&[]));
    assert_eq!(pair.conns[P].state(), State::Timewait);
    let until = pair.conns[P].deadline();
    pair.take_all(P);
    pair.told(P);
    pair.step(P, Event::Stale(source(true, 0)));
    assert_eq!(pair.conns[P].state(), State::Timewait);
    assert_eq!(pair.conns[P].deadline(), until, "its time is its own");
    assert_eq!(pair.told(P), []);
    pair.silent(P);
}

#[test]
fn a_stale_reply_is_refused() {
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    let rep = pair.take(P);
    assert!(pair.conns[A].awaits(&rep, &source(false, 0)));
    assert!(!pair.conns[P].awaits(&rep, &source(true, 0)));
    pair.step(A, Event::StaleRep(&rep, source(false, 0)));
    assert_eq!(pair.told(A), [Notice::RepStale]);
    assert_eq!(pair.conns[A].state(), State::Idle);
    assert_eq!(pair.conns[A].deadline(), None);
    let rej: Rej = pair.conns[A].datagram(Slot::Once).message();
    assert_eq!(
        (rej.local_comm_id, rej.remote_comm_id),
        (ACTIVE_ID, PASSIVE_ID)
    );
    assert_eq!(
        (rej.message_rejected, rej.reason),
        (rejected::REP, reason::STALE_CONN)
    );
    pair.carry(A);
    assert_eq!(pair.told(P), [Notice::RejReceived]);
    assert_eq!(pair.conns[P].state(), State::Timewait);
}

#[test]
fn a_reply_out_of_place_is_not_stale() {
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    let rep = pair.take(P);
    let mut other = Cm::new(attr::REP, rep.tid() + 1);
    other.set_message(&rep.message::<Rep>());
    for (mad, port, why) in [
        (&other, 0, "of another request"),
        (&rep, 1, "from another port"),
    ] {
        assert!(!pair.conns[A].awaits(mad, &source(false, port)), "{why}");
        pair.step(A, Event::StaleRep(mad, source(false, port)));
        assert_eq!(pair.conns[A].state(), State::ReqSent);
        pair.silent(A);
    }
    pair.give(A, &rep);
    assert!(!pair.conns[A].awaits(&rep, &source(false, 0)));
    pair.step(A, Event::StaleRep(&rep, source(false, 0)));
    assert_eq!(pair.conns[A].state(), State::RepRcvd);
    pair.order(A, Order::Ready(&[]));
    pair.step(A, Event::StaleRep(&rep, source(false, 0)));
    assert_eq!(pair.conns[A].state(), State::Established(Ap::Idle));
}

#[test]
fn a_request_of_an_earlier_attempt_is_late() {
    let mut pair = Pair::new();
    let earlier = pair.conns[A].datagram(Slot::Request).clone();
    pair.order(P, Order::Reject(reason::CONSUMER_DEFINED, &[], &[]));
    pair.carry(P);
    let mut pair = Pair::by(pair.conns[A].clone());
    pair.order(P, Order::Accept(&reply(), &[]));
    assert_eq!(pair.take(P).attr_id(), attr::REP);
    assert!(
        pair.conns[P].concerns(&earlier),
        "it shows nothing that the peer has lost"
    );
    pair.give(P, &earlier);
    pair.silent(P);
    assert_eq!(pair.conns[P].state(), State::RepSent);
    // A later attempt, and one of a host that has booted, are no business of this connection.
    let tid = pair.conns[A].datagram(Slot::Request).tid();
    for other in [tid + 1, tid ^ 1 << 40] {
        let mut mad = Cm::new(attr::REQ, other);
        mad.set_message(&earlier.message::<Req>());
        assert!(!pair.conns[P].concerns(&mad));
    }
}
