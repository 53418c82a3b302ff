// SPDX-License-Identifier: GPL-2.0

//! Each order in each state: what is carried out, what is refused, and by what reason.

use crate::ends::{
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
    Event,
    LapTiming,
    Order,
    Refusal,
    State, //
};

/// Leads an end, which it names, to a state.
pub(crate) type Prepare = fn() -> (Pair, usize);

/// The columns of [`ROWS`].
const ORDERS: usize = 14;

/// The states, how an end comes to them, and what becomes of each order there: it is done (`+`), or refused as
/// invalid (`.`), busy (`b`), stale (`s`) or too early (`e`).
///
/// The orders are connect, accept, ready, reject, delay, established, disconnect, depart, load, answer, answer to
/// another LAP, unload, confirmed; then the queue pair migrates.
pub(crate) const ROWS: [(State, Prepare, &str); 24] = [
    (State::Idle, idle, "+..........++."),
    (State::ReqSent, || (Pair::new(), A), "...+.......++."),
    (State::MraReqRcvd, || (delayed(), A), "...+.......++."),
    (State::ReqRcvd, || (Pair::new(), P), ".+.++......++."),
    (State::MraReqSent, || (delayed(), P), ".+.+.......++."),
    (State::RepSent, || (replied(), P), "...+.+.....++."),
    (State::MraRepRcvd, || (thinking(), P), "...+.+.....++."),
    (State::RepRcvd, || (replied(), A), "..+++......++."),
    (State::MraRepSent, || (thinking(), A), "..++.......++."),
    (up(Ap::Idle), || (Pair::established(), A), ".....++.+..++."),
    (up(Ap::Idle), || (Pair::established(), P), ".....++....++."),
    (up(Ap::Idle), || (Pair::loaded(), A), ".....++....+++"),
    (up(Ap::Idle), || (Pair::loaded(), P), ".....++....+++"),
    (up(Ap::Idle), || (moved(), A), ".....++.e..++."),
    (up(Ap::LapSent), || (Pair::offered(), A), ".....++.b..++."),
    (up(Ap::MraLapRcvd), || (pondered(), A), ".....++.b..++."),
    (up(Ap::LapRcvd), || (Pair::offered(), P), "....+++..+s++."),
    (up(Ap::MraLapSent), || (pondered(), P), ".....++..+s++."),
    (State::DreqSent, || (parting(), A), "...........++."),
    (State::DreqSent, || (leaving(), A), "...........+++"),
    (State::DreqRcvd, || (parting(), P), ".......+...++."),
    (State::DreqRcvd, || (leaving(), P), ".......+...+++"),
    (State::Timewait, || timewait(parting()), "...........++."),
    (State::Timewait, || timewait(leaving()), "...........++."),
];

const fn up(ap: Ap) -> State {
    State::Established(ap)
}

fn idle() -> (Pair, usize) {
    let mut pair = Pair::new();
    pair.step(A, Event::Gone);
    (pair, A)
}

/// The consumer has asked for patience with its answer to REQ.
fn delayed() -> Pair {
    let mut pair = Pair::new();
    pair.order(P, Order::Delay(18, &[]));
    pair.carry(P);
    pair
}

fn replied() -> Pair {
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&reply(), &[]));
    pair.carry(P);
    pair
}

/// And so has the other one, with its RTU.
fn thinking() -> Pair {
    let mut pair = replied();
    pair.order(A, Order::Delay(18, &[]));
    pair.carry(A);
    pair
}

fn moved() -> Pair {
    let mut pair = Pair::loaded();
    pair.step(A, Event::Migrated);
    pair
}

/// And with its APR.
fn pondered() -> Pair {
    let mut pair = Pair::offered();
    pair.order(P, Order::Delay(18, &[]));
    pair.carry(P);
    pair
}

/// Two ends of which the requester has asked for the end.
fn parted(mut pair: Pair) -> Pair {
    pair.order(A, Order::Disconnect(&[]));
    pair.carry(A);
    let _ = pair.told(P);
    pair
}

fn parting() -> Pair {
    parted(Pair::established())
}

/// They have an alternate path.
fn leaving() -> Pair {
    parted(Pair::loaded())
}

fn timewait(mut pair: Pair) -> (Pair, usize) {
    pair.order(P, Order::Depart(&[]));
    (pair, P)
}

/// Gives an end the order of this column.
fn give(pair: &mut Pair, end: usize, column: usize) -> Result<(), Refusal> {
    let (req, rep, lap) = (request(), reply(), path(2));
    let order = match column {
        0 => Order::Connect(&req, &[]),
        1 => Order::Accept(&rep, &[]),
        2 => Order::Ready(&[]),
        3 => Order::Reject(28, &[], &[]),
        4 => Order::Delay(18, &[]),
        5 => Order::Established,
        6 => Order::Disconnect(&[]),
        7 => Order::Depart(&[]),
        8 => Order::Load(&lap, LapTiming::default(), &[]),
        9 => Order::Answer(1, 0, &[], &[]),
        10 => Order::Answer(2, 0, &[], &[]),
        11 => Order::Unload,
        12 => Order::Confirmed,
        _ => return pair.try_step(end, Event::Migrated),
    };
    pair.try_order(end, order)
}

/// What is refused changes nothing, sends nothing and tells nothing.
#[test]
fn every_order_in_every_state() {
    for (state, prepare, row) in ROWS {
        assert_eq!(row.len(), ORDERS);
        for (column, want) in row.chars().enumerate() {
            let (mut pair, end) = prepare();
            assert_eq!(pair.conns[end].state(), state);
            let _ = (pair.take_all(end), pair.told(end));
            let before = pair.conns[end].clone();
            let got = give(&mut pair, end, column);
            let want = match want {
                '+' => Ok(()),
                'b' => Err(Refusal::Busy),
                's' => Err(Refusal::Stale),
                'e' => Err(Refusal::Again),
                _ => Err(Refusal::Invalid),
            };
            assert_eq!(got, want, "order {column} in {state:?}");
            if want.is_err() {
                assert_eq!(pair.conns[end], before, "order {column} in {state:?}");
                assert!(pair.take_all(end).is_empty() && pair.told(end).is_empty());
            }
        }
    }
}
