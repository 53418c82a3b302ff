// SPDX-License-Identifier: GPL-2.0

//! What consumers are told to set in their queue pairs.

use crate::ends::{
    active,
    env,
    passive,
    path,
    reply,
    request,
    source,
    ACTIVE_QPN,
    PASSIVE_QPN, //
};
use crate::pair::{
    Pair,
    A,
    P, //
};
use proto::cm::{
    Alternate,
    Attributes,
    Conn,
    Event,
    Goal,
    Order,
    Refusal,
    Reliable,
    Slot, //
};
use proto::time::Instant;
use proto::transport::MigState;
use wire::mad::cm::{
    failover,
    service_type,
    Rep,
    Req, //
};
use wire::{
    PKey,
    Psn,
    Qpn, //
};

const GOALS: [Goal; 3] = [Goal::Init, Goal::Rtr, Goal::Rts];

fn asked() -> Req {
    Req {
        starting_psn: Psn::new(0x111),
        pkey: PKey::new(0x8001),
        transport_service_type: service_type::RC,
        path_mtu: 4,
        responder_resources: 3,
        initiator_depth: 5,
        retry_count: 6,
        rnr_retry_count: 7,
        alternate: path(1),
        ..request()
    }
}

fn answered() -> Rep {
    Rep {
        starting_psn: Psn::new(0x222),
        responder_resources: 4,
        initiator_depth: 2,
        target_ack_delay: 13,
        rnr_retry_count: 1,
        ..reply()
    }
}

/// A pair that has come to an agreement, after REQ has been heard, and REP.
fn pair(req: &Req, rep: &Rep) -> (Pair, Conn) {
    let mut pair = Pair::new();
    let env = env(Instant::default(), MigState::Migrated);
    let mut conn = Conn::new(active());
    let order = Event::Order(Order::Connect(req, &[]));
    assert!(conn.step(order, &env).is_ok());
    pair.conns[P] = Conn::incoming(passive(), conn.datagram(Slot::Request), source(true, 0));
    pair.conns[A] = conn;
    let before = pair.conns[P].clone();
    pair.order(P, Order::Accept(rep, &[]));
    pair.carry(P);
    (pair, before)
}

#[test]
fn both_ends_set_what_they_have_agreed_on() {
    let (mut pair, before) = pair(&asked(), &answered());
    let of = |conn: &Conn| GOALS.map(|goal| conn.attributes(goal, false));
    let alternate = |path, timeout| Some(Alternate { path, timeout });
    let init = |path| {
        Ok(Attributes::Init {
            path,
            may_read: true,
        })
    };
    // What takes as long as the path itself is added to it.
    let active = [
        init(path(0)),
        Ok(Attributes::Rtr {
            path: path(0),
            dest_qpn: Qpn::new(PASSIVE_QPN),
            rq_psn: Psn::new(0x222),
            mtu: 4,
            inbound: Some(2),
            alternate: alternate(path(1), 15),
        }),
        Ok(Attributes::Rts {
            sq_psn: Psn::new(0x111),
            reliable: Some(Reliable {
                timeout: 15,
                retries: 6,
                rnr_retries: 1,
                outbound: 4,
            }),
            rearm: true,
        }),
    ];
    let rtr = |inbound| {
        Ok(Attributes::Rtr {
            path: path(0).reversed(),
            dest_qpn: Qpn::new(ACTIVE_QPN),
            rq_psn: Psn::new(0x111),
            mtu: 4,
            inbound: Some(inbound),
            alternate: alternate(path(1).reversed(), 14),
        })
    };
    let passive = [
        init(path(0).reversed()),
        rtr(4),
        Ok(Attributes::Rts {
            sq_psn: Psn::new(0x222),
            reliable: Some(Reliable {
                timeout: 14,
                retries: 6,
                rnr_retries: 7,
                outbound: 2,
            }),
            rearm: true,
        }),
    ];
    assert_eq!(of(&pair.conns[A]), active);
    assert_eq!(of(&pair.conns[P]), passive);
    assert_eq!(pair.conns[A].pkey(), PKey::new(0x8001));
    assert_eq!(pair.conns[P].pkey(), PKey::new(0x8001));
    // Before it has answered, what the peer has asked for.
    let early = [
        init(path(0).reversed()),
        rtr(5),
        Err(Refusal::Invalid), //
    ];
    assert_eq!(of(&before), early);
    pair.order(A, Order::Ready(&[]));
    pair.carry(A);
    assert_eq!(of(&pair.conns[A]), active);
    assert_eq!(of(&pair.conns[P]), passive);
}

#[test]
fn an_unreliable_connection_has_fewer() {
    let req = Req {
        transport_service_type: service_type::UC,
        alternate: Default::default(),
        ..asked()
    };
    let (pair, _) = pair(&req, &answered());
    for conn in &pair.conns {
        let init = conn.attributes(Goal::Init, false);
        assert!(matches!(
            init,
            Ok(Attributes::Init {
                may_read: false,
                ..
            })
        ));
        let rtr = conn.attributes(Goal::Rtr, false);
        assert!(matches!(
            rtr,
            Ok(Attributes::Rtr {
                inbound: None,
                alternate: None,
                ..
            })
        ));
        let rts = conn.attributes(Goal::Rts, false);
        assert!(matches!(
            rts,
            Ok(Attributes::Rts {
                reliable: None,
                rearm: false,
                ..
            })
        ));
    }
}

#[test]
fn a_path_that_is_rejected_is_not_set() {
    let rep = Rep {
        failover_accepted: failover::REJECTED,
        ..answered()
    };
    let (pair, _) = pair(&asked(), &rep);
    for conn in &pair.conns {
        let rtr = conn.attributes(Goal::Rtr, false);
        assert!(matches!(
            rtr,
            Ok(Attributes::Rtr {
                alternate: None,
                ..
            })
        ));
        let rts = conn.attributes(Goal::Rts, false);
        assert!(matches!(rts, Ok(Attributes::Rts { rearm: false, .. })));
    }
}

#[test]
fn a_path_is_set_when_it_is_agreed_on() {
    let load = |path| Ok(Attributes::Load(Alternate { path, timeout: 14 }));
    let mut pair = Pair::offered();
    // The passive side before it answers, the active side after that.
    assert_eq!(
        pair.conns[P].attributes(Goal::Rts, false),
        load(path(1).reversed())
    );
    assert_eq!(
        pair.conns[A].attributes(Goal::Rts, false),
        Err(Refusal::Invalid)
    );
    pair.order(P, Order::Answer(1, 0, &[], &[]));
    pair.carry(P);
    assert_eq!(
        pair.conns[P].attributes(Goal::Rts, false),
        load(path(1).reversed())
    );
    let timeout = match pair.conns[A].attributes(Goal::Rts, false) {
        Ok(Attributes::Load(alternate)) if alternate.path == path(1) => alternate.timeout,
        other => panic!("{other:?}"),
    };
    assert_eq!(timeout, 14);

    let mut pair = Pair::offered();
    pair.order(P, Order::Answer(1, 3, &[], &[]));
    pair.carry(P);
    for conn in &pair.conns {
        assert_eq!(conn.attributes(Goal::Rts, false), Err(Refusal::Invalid));
    }
}

#[test]
fn an_offer_may_come_before_the_queue_pair_is_in_rts() {
    let mut pair = Pair::established();
    let way = pair
        .conns
        .clone()
        .map(|conn| conn.attributes(Goal::Rts, true));
    assert!(matches!(way[P], Ok(Attributes::Rts { rearm: false, .. })));
    pair.offer(1);
    pair.carry(A);
    for end in [A, P] {
        assert_eq!(pair.conns[end].attributes(Goal::Rts, true), way[end]);
    }
    // There, it is about the path.
    let load = Ok(Attributes::Load(Alternate {
        path: path(1).reversed(),
        timeout: 14,
    }));
    assert_eq!(pair.conns[P].attributes(Goal::Rts, false), load);
}

#[test]
fn nothing_is_set_without_a_connection() {
    let mut pair = Pair::new();
    assert!(pair.conns[A].attributes(Goal::Init, false).is_ok());
    assert_eq!(
        pair.conns[A].attributes(Goal::Rtr, false),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        pair.conns[A].attributes(Goal::Rts, false),
        Err(Refusal::Invalid)
    );
    pair.order(P, Order::Reject(28, &[], &[]));
    for goal in GOALS {
        assert_eq!(pair.conns[P].attributes(goal, false), Err(Refusal::Invalid));
    }
    let mut pair = Pair::established();
    pair.order(A, Order::Disconnect(&[]));
    for goal in GOALS {
        assert_eq!(pair.conns[A].attributes(goal, false), Err(Refusal::Invalid));
    }
}
