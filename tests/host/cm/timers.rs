// SPDX-License-Identifier: GPL-2.0

//! How long each wait is, in numbers, and how often what is not answered is sent again.

use crate::ends::{
    active,
    path,
    reply,
    request, //
};
use crate::pair::{
    Pair,
    A,
    P, //
};
use proto::cm::{
    Ap,
    Conn,
    Event,
    LapFailure,
    LapTiming,
    Notice,
    Order,
    State,
    Ways, //
};
use wire::mad::cm::{
    attr,
    reason,
    Mra,
    Path,
    Rej,
    Req, //
};

/// 4.096 us * 2^v, in nanoseconds.
const fn time(code: u8) -> u64 {
    4096 << code
}

/// A packet's way by a path with the ACK timeout 14: half of that.
const WAY: u64 = time(13);

/// No wait for a peer counts for more than this code.
const LONGEST: u8 = 21;

/// A request whose two ends take times of their own.
fn uneven() -> Req {
    Req {
        remote_cm_response_timeout: 17,
        local_cm_response_timeout: 15,
        max_cm_retries: 2,
        ..request()
    }
}

/// How long `end` waits from now on.
fn left(pair: &Pair, end: usize) -> u64 {
    let deadline = pair.conns[end].deadline().expect("nothing is waited for");
    deadline.nanos() - pair.now.nanos()
}

/// Waits for an answer that does not come: what was sent is sent again so often, and each time as long is waited.
fn be_patient(pair: &mut Pair, end: usize, each: u64, again: u8) {
    let sent = pair.take(end);
    for _ in 0..again {
        assert_eq!(left(pair, end), each);
        pair.wait(end);
        assert_eq!(pair.take(end), sent);
        assert_eq!(pair.told(end), []);
    }
    assert_eq!(left(pair, end), each);
    pair.wait(end);
}

/// A moment too early is too early.
#[test]
fn nothing_happens_before_its_time() {
    let mut pair = Pair::established();
    pair.offer(1);
    let _ = pair.take(A);
    let due = pair.conns[A].deadline().unwrap();
    pair.now = proto::time::Instant::from_nanos(due.nanos() - 1);
    pair.step(A, Event::Tick);
    pair.silent(A);
    assert_eq!(pair.conns[A].deadline(), Some(due));
}

#[test]
fn a_request_is_repeated() {
    let mut pair = Pair::asking(Conn::new(active()), &uneven());
    be_patient(&mut pair, A, 2 * WAY + time(17), 2);
    assert_eq!(pair.told(A), [Notice::ReqError]);
    let rej: Rej = pair.take_as(A);
    assert_eq!(rej.reason, reason::TIMEOUT);
    assert_eq!(pair.conns[A].state(), State::Idle);
    assert_eq!(pair.conns[A].deadline(), None);
}

/// How long it takes who has asked is said in REQ.
#[test]
fn a_reply_is_repeated() {
    let mut pair = Pair::asking(Conn::new(active()), &uneven());
    pair.order(P, Order::Accept(&reply(), &[]));
    be_patient(&mut pair, P, 2 * WAY + time(15), 2);
    assert_eq!(pair.told(P), [Notice::RepError]);
    assert_eq!(pair.take_as::<Rej>(P).reason, reason::TIMEOUT);
    assert_eq!(pair.conns[P].state(), State::Timewait);
    assert_eq!(left(&pair, P), time(14));
}

/// An MRA stretches one wait: what comes after is as before, and no try is given back.
#[test]
fn patience_is_not_for_ever() {
    let mut pair = Pair::asking(Conn::new(active()), &uneven());
    let req = pair.take(A);
    pair.wait(A);
    assert_eq!(pair.take(A), req);
    pair.order(P, Order::Delay(19, &[]));
    let mra = pair.take(P);
    assert_eq!(mra.message::<Mra>().service_timeout, 19);
    pair.give(A, &mra);
    assert_eq!(left(&pair, A), WAY + time(19));
    pair.wait(A);
    assert_eq!(pair.conns[A].state(), State::ReqSent);
    assert_eq!(pair.told(A), [Notice::MraReceived]);
    be_patient(&mut pair, A, 2 * WAY + time(17), 0);
    assert_eq!(pair.told(A), [Notice::ReqError]);
}

#[test]
fn a_lap_is_repeated() {
    // As often as its consumer says, or REQ, if that is less.
    for (retries, again) in [(0, 0), (1, 1), (3, 3), (7, 3)] {
        let mut pair = Pair::established();
        let timing = LapTiming {
            response: 18,
            retries,
        };
        pair.order(A, Order::Load(&path(1), timing, &[]));
        be_patient(&mut pair, A, 2 * WAY + time(18), again);
        assert_eq!(pair.told(A), [Notice::LapError(LapFailure::Timeout)]);
        pair.silent(A);
        assert_eq!(pair.conns[A].deadline(), None);
    }
}

/// The peer asks for patience over a LAP and is silent then: one end, after the tries that were left.
#[test]
fn an_mra_and_silence() {
    let mut pair = Pair::established();
    let timing = LapTiming {
        response: 16,
        retries: 2,
    };
    pair.order(A, Order::Load(&path(1), timing, &[]));
    let lap = pair.take(A);
    pair.wait(A);
    assert_eq!(pair.take(A), lap);
    pair.give(P, &lap);
    // Half of the time that the answer may take, before the peer is asked for more.
    assert_eq!(left(&pair, P), time(16) / 2);
    pair.wait(P);
    let mra = pair.take(P);
    assert_eq!(mra.message::<Mra>().service_timeout, 20);
    assert_eq!(pair.conns[P].deadline(), None);
    pair.give(A, &mra);
    assert_eq!(left(&pair, A), WAY + time(20));
    pair.wait(A);
    assert_eq!(pair.conns[A].state(), State::Established(Ap::LapSent));
    be_patient(&mut pair, A, 2 * WAY + time(16), 0);
    let told = [Notice::MraReceived, Notice::LapError(LapFailure::Timeout)];
    assert_eq!(pair.told(A), told);
    pair.expect(
        State::Established(Ap::Idle),
        State::Established(Ap::MraLapSent),
    );
}

#[test]
fn an_end_is_repeated() {
    let mut pair = Pair::asking(Conn::new(active()), &uneven());
    let _ = pair.take(A);
    pair.establish();
    pair.order(A, Order::Disconnect(&[]));
    be_patient(&mut pair, A, 2 * WAY + time(17), 2);
    assert_eq!(pair.told(A), [Notice::DreqError]);
    assert_eq!(pair.conns[A].state(), State::Timewait);
    assert_eq!(left(&pair, A), time(14));
    pair.wait(A);
    assert_eq!(pair.told(A), [Notice::TimewaitExit]);
    assert_eq!(pair.conns[A].deadline(), None);
}

/// Whoever agrees to the end waits as long.
#[test]
fn both_ends_rest() {
    let mut pair = Pair::established();
    pair.order(P, Order::Disconnect(&[]));
    pair.carry(P);
    assert_eq!(pair.conns[A].deadline(), None);
    pair.order(A, Order::Depart(&[]));
    pair.carry(A);
    for end in [A, P] {
        assert_eq!(pair.conns[end].state(), State::Timewait);
        assert_eq!(left(&pair, end), time(14));
    }
}

/// No peer is waited for longer than 8.6 s at a time, whatever it says, nor is any way longer.
#[test]
fn waits_are_bounded() {
    let req = Req {
        remote_cm_response_timeout: 31,
        local_cm_response_timeout: 31,
        primary: Path {
            ack_timeout: 31,
            ..path(0)
        },
        ..request()
    };
    let mut pair = Pair::asking(Conn::new(active()), &req);
    assert_eq!(left(&pair, A), 3 * time(LONGEST));
    // One that asks for more asks for as much as counts.
    pair.order(P, Order::Delay(31, &[]));
    let mut mra = pair.take(P);
    assert_eq!(mra.message::<Mra>().service_timeout, LONGEST);
    let greedy = Mra {
        service_timeout: 31,
        ..mra.message()
    };
    mra.set_message(&greedy);
    pair.give(A, &mra);
    assert_eq!(left(&pair, A), 2 * time(LONGEST));

    let mut pair = Pair::asking(Conn::new(active()), &req);
    let _ = pair.take(A);
    pair.establish();
    let timing = LapTiming {
        response: 31,
        retries: 0,
    };
    pair.order(A, Order::Load(&path(1), timing, &[]));
    assert_eq!(left(&pair, A), 3 * time(LONGEST));
    let lap = pair.take(A);
    pair.give(P, &lap);
    assert_eq!(left(&pair, P), time(LONGEST) / 2);
    pair.order(A, Order::Disconnect(&[]));
    pair.carry(A);
    pair.order(P, Order::Depart(&[]));
    assert_eq!(left(&pair, P), time(LONGEST));

    // The other way: the shortest there is.
    let req = Req {
        remote_cm_response_timeout: 0,
        primary: Path {
            ack_timeout: 0,
            ..path(0)
        },
        ..request()
    };
    let pair = Pair::asking(Conn::new(active()), &req);
    assert_eq!(left(&pair, A), 3 * time(0));
}

/// After a migration the way is that of the path in use now.
#[test]
fn another_path_takes_another_time() {
    let long = Path {
        ack_timeout: 19,
        ..path(1)
    };
    let ready = || {
        let mut pair = Pair::established();
        pair.order(A, Order::Load(&long, LapTiming::default(), &[]));
        pair.carry(A);
        pair.order(P, Order::Answer(1, 0, &[], &[]));
        pair.carry(P);
        for end in [A, P] {
            // A queue pair does not say how long its path takes the manager.
            let alternate = pair.conns[end].alternate().unwrap();
            let ways = Ways {
                primary: Path {
                    ack_timeout: 3,
                    ..*alternate
                },
                alternate: None,
                is_heard: false,
            };
            pair.step(end, Event::Moved(&ways));
            let _ = pair.told(end);
        }
        pair.step(A, Event::Confirmed);
        pair
    };
    let mut pair = ready();
    pair.offer(0);
    assert_eq!(left(&pair, A), 2 * time(18) + time(16));
    let mut pair = ready();
    pair.order(P, Order::Disconnect(&[]));
    assert_eq!(pair.take(P).attr_id(), attr::DREQ);
    assert_eq!(left(&pair, P), 2 * time(18) + time(16));
    for _ in 0..4 {
        pair.wait(P);
    }
    assert_eq!(pair.conns[P].state(), State::Timewait);
    assert_eq!(left(&pair, P), time(19));
}
