// SPDX-License-Identifier: GPL-2.0

//! Whatever comes, nothing panics, and an offer of a path has one end.

use crate::ends::{
    path,
    reply,
    request,
    source, //
};
use crate::pair::{
    Pair,
    A,
    P, //
};
use proptest::prelude::*;
use proto::cm::{
    Event,
    LapTiming,
    Notice,
    Order,
    Ways, //
};
use wire::mad::cm::{
    attr,
    Cm, //
};

#[derive(Clone, Debug)]
enum Act {
    /// Any bytes, with an attribute ID of the class.
    Noise(usize, u16, Vec<u8>),
    /// What was sent before, with a byte changed or not.
    Replay(usize, usize, Option<(usize, u8)>),
    Deliver(usize),
    Drop(usize),
    Wait(usize),
    Order(usize, u8),
    Migrated(usize),
    Moved(usize, u8, Option<u8>),
    Confirmed(usize),
    Stale(usize, u8),
    StaleRep(usize, usize),
    Gone(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let end = || 0..2usize;
    prop_oneof![
        1 => (end(), attr::REQ..=attr::SPR, proptest::collection::vec(any::<u8>(), 232))
            .prop_map(|(end, id, bytes)| Act::Noise(end, id, bytes)),
        4 => (end(), any::<usize>(), proptest::option::of((0..256usize, any::<u8>())))
            .prop_map(|(end, which, change)| Act::Replay(end, which, change)),
        8 => end().prop_map(Act::Deliver),
        2 => end().prop_map(Act::Drop),
        3 => end().prop_map(Act::Wait),
        6 => (end(), 0..13u8).prop_map(|(end, which)| Act::Order(end, which)),
        1 => end().prop_map(Act::Migrated),
        1 => (end(), 0..4u8, proptest::option::of(0..4u8))
            .prop_map(|(end, number, other)| Act::Moved(end, number, other)),
        1 => end().prop_map(Act::Confirmed),
        1 => (end(), 0..2u8).prop_map(|(end, port)| Act::Stale(end, port)),
        1 => (end(), any::<usize>()).prop_map(|(end, which)| Act::StaleRep(end, which)),
        1 => end().prop_map(Act::Gone),
    ]
}

fn order(pair: &mut Pair, end: usize, which: u8, generation: u32) -> bool {
    let lap = path(1 + (generation & 1) as u8);
    let (req, rep) = (request(), reply());
    let order = match which {
        0 => Order::Connect(&req, &[]),
        1 => Order::Accept(&rep, &[]),
        2 => Order::Ready(&[]),
        3 => Order::Reject(28, &[], &[]),
        4 => Order::Delay(18, &[]),
        5 => Order::Established,
        6 => Order::Disconnect(&[]),
        7 => Order::Depart(&[]),
        8 => Order::Answer(generation, 0, &[], &[]),
        9 => Order::Unload,
        10 => Order::Confirmed,
        11 => Order::Destroy,
        _ => {
            let offer = Order::Load(&lap, LapTiming::default(), &[]);
            return pair.try_order(end, offer).is_ok();
        }
    };
    let _ = pair.try_order(end, order);
    false
}

proptest! {
    #[test]
    fn anything_may_come(acts in proptest::collection::vec(act(), 0..120)) {
        let mut pair = Pair::new();
        let mut seen: Vec<Cm> = Vec::new();
        let mut way: [Vec<Cm>; 2] = Default::default();
        let mut open = [0i32; 2];
        let mut generation = 0;
        for act in acts {
            match act {
                Act::Noise(end, id, bytes) => {
                    let mut mad = Cm::new(id, 1);
                    mad.data_mut().copy_from_slice(&bytes);
                    pair.give(end, &mad);
                }
                Act::Replay(end, which, change) if !seen.is_empty() => {
                    let mut bytes = *seen[which % seen.len()].as_bytes();
                    if let Some((place, byte)) = change {
                        bytes[place] = byte;
                    }
                    pair.give(end, Cm::from_bytes(&bytes));
                }
                Act::Deliver(end) if !way[end].is_empty() => {
                    let mad = way[end].remove(0);
                    pair.step(1 - end, Event::Received(&mad, source(end == A, 0)));
                }
                Act::Drop(end) if !way[end].is_empty() => {
                    way[end].remove(0);
                }
                Act::Wait(end) => {
                    if pair.conns[end].deadline().is_some() {
                        pair.wait(end);
                    }
                }
                Act::Order(end, which) => {
                    open[end] += i32::from(order(&mut pair, end, which, generation));
                }
                Act::Migrated(end) => {
                    let _ = pair.try_step(end, Event::Migrated);
                }
                Act::Moved(end, number, other) => {
                    let ways = Ways {
                        primary: path(number),
                        alternate: other.map(path),
                        is_heard: other.is_none(),
                    };
                    let has_moved = pair.conns[end].state().has_queue_pair();
                    let before = *pair.conns[end].primary();
                    let _ = pair.try_step(end, Event::Moved(&ways));
                    let after = if has_moved { path(number) } else { before };
                    prop_assert_eq!(*pair.conns[end].primary(), after);
                }
                Act::Confirmed(end) => pair.step(end, Event::Confirmed),
                Act::Stale(end, port) => {
                    pair.step(end, Event::Stale(source(end == P, port)));
                }
                Act::StaleRep(end, which) if !seen.is_empty() => {
                    let mad = &seen[which % seen.len()];
                    pair.step(end, Event::StaleRep(mad, source(end == P, 0)));
                }
                Act::Gone(end) => pair.step(end, Event::Gone),
                Act::Replay(..) | Act::Deliver(_) | Act::Drop(_) | Act::StaleRep(..) => {}
            }
            for end in [A, P] {
                let sent = pair.take_all(end);
                seen.extend(sent.iter().cloned());
                way[end].extend(sent);
                for notice in pair.told(end) {
                    match notice {
                        Notice::LapReceived(newest, _) => generation = newest,
                        Notice::AprReceived(..) | Notice::LapError(_) => open[end] -= 1,
                        _ => {}
                    }
                }
                prop_assert!((0..=1).contains(&open[end]), "{} offers open", open[end]);
            }
        }
        for end in [A, P] {
            pair.step(end, Event::Gone);
            for notice in pair.told(end) {
                open[end] -= i32::from(matches!(notice, Notice::LapError(_)));
            }
            prop_assert_eq!(open[end], 0);
        }
    }
}
