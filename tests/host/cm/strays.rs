// SPDX-License-Identifier: GPL-2.0

//! Datagrams where they do not belong: in each state, what is dropped and what is counted; and what has other names, or
//! comes from elsewhere, changes nothing.

use crate::ends::{
    path,
    source, //
};
use crate::orders::ROWS;
use crate::pair::{
    Pair,
    A,
    P, //
};
use proptest::prelude::*;
use proto::cm::{
    Ap,
    Conn,
    Count,
    Event,
    Notice,
    Order,
    Role,
    Slot,
    Source,
    State, //
};
use wire::mad::cm::{
    ap_status,
    attr,
    mraed,
    Apr,
    Cm,
    Lap,
    Mra,
    Rej,
    Rtu, //
};

/// A transaction ID that nobody has used.
const STRANGE: u64 = 7 << 32 | 70;

/// Another port of the fabric.
const ELSEWHERE: u8 = 6;

/// A datagram with the communication IDs that `end` expects.
fn addressed(pair: &Pair, end: usize, attr_id: u16, tid: u64) -> Cm {
    let (ours, theirs) = pair.conns[end].comm_ids();
    let mut mad = Cm::new(attr_id, tid);
    match attr_id {
        attr::LAP => mad.set_message(&Lap {
            local_comm_id: theirs,
            remote_comm_id: ours,
            remote_qpn: pair.conns[end].local_qpn(),
            remote_cm_response_timeout: 16,
            path: if end == A {
                path(2).reversed()
            } else {
                path(2)
            },
        }),
        attr::APR => mad.set_message(&Apr {
            local_comm_id: theirs,
            remote_comm_id: ours,
            ..Apr::default()
        }),
        _ => mad.set_message(&Mra {
            local_comm_id: theirs,
            remote_comm_id: ours,
            message_mraed: mraed::LAP,
            service_timeout: 18,
        }),
    }
    mad
}

/// What there is of a connection but where the last datagram came from.
fn look(conn: &Conn) -> impl PartialEq + std::fmt::Debug {
    (
        (conn.state(), conn.deadline(), conn.peer()),
        (*conn.primary(), conn.alternate().copied()),
        (
            conn.datagram(Slot::Request).clone(),
            conn.datagram(Slot::Reply).clone(),
        ),
    )
}

/// LAP, APR and the MRA of a LAP in each state.
#[test]
fn offers_and_answers_in_every_state() {
    for (state, prepare, _) in ROWS {
        for attr_id in [attr::LAP, attr::APR, attr::MRA] {
            let (mut pair, end) = prepare();
            let _ = (pair.take_all(end), pair.told(end), pair.counted(end));
            let mad = addressed(&pair, end, attr_id, STRANGE);
            let knows_peer = pair.conns[end].comm_ids().1 != 0;
            let before = look(&pair.conns[end]);
            pair.give(end, &mad);
            let counted = pair.counted(end);
            let what = format!("{attr_id:#x} in {state:?}");
            let is_dropped = match (attr_id, state) {
                (attr::MRA, _) => {
                    assert_eq!(counted, [], "{what}");
                    true
                }
                _ if !knows_peer => {
                    assert_eq!(counted, [], "{what}");
                    true
                }
                (attr::APR, _) => {
                    let late = [Count::AprReceived, Count::AprStale];
                    assert_eq!(counted, late, "{what}");
                    true
                }
                (_, State::RepSent | State::MraRepRcvd | State::Established(_)) => {
                    assert_eq!(counted[0], Count::LapReceived, "{what}");
                    false
                }
                _ => {
                    let late = [Count::LapReceived, Count::LapStale];
                    assert_eq!(counted, late, "{what}");
                    true
                }
            };
            if is_dropped {
                pair.silent(end);
                assert_eq!(pair.told(end), [], "{what}");
                assert_eq!(look(&pair.conns[end]), before, "{what}");
            } else if pair.conns[end].role() == Role::Active {
                assert_eq!(
                    pair.take_as::<Apr>(end).ap_status,
                    ap_status::UNSUPPORTED,
                    "{what}"
                );
                assert_eq!(look(&pair.conns[end]), before, "{what}");
            }
        }
    }
}

/// The same IDs from a port that is not the peer's: neither an answer nor an offer, and it is not counted.
#[test]
fn the_peer_is_where_its_paths_end() {
    let elsewhere = |end: usize| source(end == P, ELSEWHERE);
    let drop = |pair: &mut Pair, end: usize, mad: &Cm| {
        let before = pair.conns[end].clone();
        let _ = pair.counted(end);
        pair.step(end, Event::Received(mad, elsewhere(end)));
        assert_eq!(pair.conns[end], before);
        assert_eq!(pair.counted(end), []);
        assert_eq!(pair.told(end), []);
        pair.silent(end);
    };
    // REP.
    let mut pair = Pair::new();
    pair.order(P, Order::Accept(&crate::ends::reply(), &[]));
    let rep = pair.take(P);
    drop(&mut pair, A, &rep);
    pair.give(A, &rep);
    assert_eq!(pair.told(A), [Notice::RepReceived]);
    // LAP.
    let mut pair = Pair::established();
    pair.offer(1);
    let lap = pair.take(A);
    drop(&mut pair, P, &lap);
    pair.give(P, &lap);
    assert_eq!(pair.told(P), [Notice::LapReceived(1, path(1).reversed())]);
    // MRA.
    pair.wait(P);
    let mra = pair.take(P);
    drop(&mut pair, A, &mra);
    pair.give(A, &mra);
    assert_eq!(pair.told(A), [Notice::MraReceived]);
    // APR.
    pair.order(P, Order::Answer(1, 0, &[], &[]));
    let apr = pair.take(P);
    drop(&mut pair, A, &apr);
    pair.give(A, &apr);
    assert_eq!(pair.told(A), [Notice::AprReceived(0, path(1))]);
}

/// The RTU was lost, and REP comes again while a LAP is under way.
#[test]
fn a_reply_comes_again_amid_an_offer() {
    for patient in [false, true] {
        let mut pair = Pair::new();
        pair.order(P, Order::Accept(&crate::ends::reply(), &[]));
        let rep = pair.take(P);
        pair.give(A, &rep);
        pair.order(A, Order::Ready(b"go"));
        let rtu = pair.take(A);
        pair.offer(1);
        let lap = pair.take(A);
        if patient {
            pair.give(P, &lap);
            pair.wait(P);
            pair.carry(P);
        }
        let _ = pair.told(A);
        let before = look(&pair.conns[A]);
        pair.give(A, &rep);
        assert_eq!(pair.take(A), rtu);
        assert_eq!(pair.told(A), []);
        assert_eq!(look(&pair.conns[A]), before);
        // What is sent again is still the LAP.
        pair.wait(A);
        assert_eq!(pair.take(A), lap);
    }
}

/// The RTU comes late, or again, while the consumer is asked about a path.
#[test]
fn an_rtu_comes_again_amid_an_offer() {
    for patient in [false, true] {
        let mut pair = Pair::offered();
        if patient {
            pair.wait(P);
            let _ = pair.take(P);
        }
        let (ours, theirs) = pair.conns[P].comm_ids();
        let mut rtu = Cm::new(attr::RTU, pair.conns[A].datagram(Slot::Reply).tid());
        rtu.set_message(&Rtu {
            local_comm_id: theirs,
            remote_comm_id: ours,
        });
        let before = look(&pair.conns[P]);
        pair.give(P, &rtu);
        assert_eq!(pair.told(P), []);
        assert_eq!(look(&pair.conns[P]), before);
        pair.order(P, Order::Answer(1, 0, &[], &[]));
    }
}

/// Leads a pair to a state of an exchange.
fn amid(ap: Ap) -> (Pair, usize) {
    let is_late = matches!(ap, Ap::MraLapRcvd | Ap::MraLapSent);
    let mut pair = Pair::offered();
    if is_late {
        pair.wait(P);
        pair.carry(P);
    }
    let end = match ap {
        Ap::LapSent | Ap::MraLapRcvd => A,
        Ap::Idle | Ap::LapRcvd | Ap::MraLapSent => P,
    };
    assert_eq!(pair.conns[end].state(), State::Established(ap));
    let _ = (pair.told(A), pair.told(P));
    (pair, end)
}

/// The consumer goes: nobody is told, the connection ends, and no clock is left.
#[test]
fn a_consumer_goes_amid_an_offer() {
    for ap in [Ap::LapSent, Ap::MraLapRcvd, Ap::LapRcvd, Ap::MraLapSent] {
        let (mut pair, end) = amid(ap);
        pair.order(end, Order::Destroy);
        assert_eq!(pair.told(end), []);
        assert_eq!(pair.conns[end].state(), State::DreqSent);
        pair.carry(end);
        pair.order(1 - end, Order::Depart(&[]));
        pair.carry(1 - end);
        pair.wait(end);
        assert_eq!(pair.told(end), []);
        assert!(pair.freed[end]);
        assert_eq!(pair.conns[end].deadline(), None);
        // The other end is told as ever: of its own offer first.
        let other = pair.told(1 - end);
        assert!(other.contains(&Notice::DreqReceived));
        let aborted = other
            .iter()
            .filter(|notice| matches!(notice, Notice::LapError(_)))
            .count();
        assert_eq!(aborted, usize::from(end == P));
    }
}

/// REJ, and the loss of the HCA, at the end that is asked: it hears of no LAP any more, and no clock is left.
#[test]
fn the_end_amid_an_offer() {
    for ap in [Ap::LapSent, Ap::MraLapRcvd, Ap::LapRcvd, Ap::MraLapSent] {
        let offers = matches!(ap, Ap::LapSent | Ap::MraLapRcvd);
        let first = usize::from(offers);
        let (mut pair, end) = amid(ap);
        let (local_comm_id, remote_comm_id) = pair.conns[1 - end].comm_ids();
        let mut rej = Cm::new(attr::REJ, STRANGE);
        rej.set_message(&Rej {
            local_comm_id,
            remote_comm_id,
            ..Rej::default()
        });
        pair.give(end, &rej);
        assert_eq!(pair.told(end)[first..], [Notice::RejReceived]);
        assert_eq!(pair.conns[end].state(), State::Timewait);
        pair.wait(end);
        assert_eq!(pair.told(end), [Notice::TimewaitExit]);
        assert_eq!(pair.conns[end].deadline(), None);

        let (mut pair, end) = amid(ap);
        pair.step(end, Event::Gone);
        assert_eq!(pair.told(end)[first..], [Notice::Removed]);
        assert_eq!(pair.conns[end].state(), State::Idle);
        assert_eq!(pair.conns[end].deadline(), None);
        let late = pair.try_order(end, Order::Answer(1, 0, &[], &[]));
        assert!(late.is_err());
    }
}

/// Who has completed a connection, or talks about it, knows both IDs.
#[test]
fn a_rejection_without_an_id_ends_no_connection() {
    let ends: [fn() -> (Pair, usize); 3] = [
        || (Pair::established(), P),
        || amid(Ap::LapRcvd),
        || {
            let mut pair = Pair::established();
            pair.order(P, Order::Disconnect(&[]));
            (pair, P)
        },
    ];
    let rows = ROWS.iter().map(|(_, prepare, _)| *prepare);
    for prepare in rows.chain(ends) {
        let (mut pair, end) = prepare();
        let _ = (pair.take_all(end), pair.told(end));
        let (before, state) = (look(&pair.conns[end]), pair.conns[end].state());
        let mut rej = Cm::new(attr::REJ, STRANGE);
        rej.set_message(&Rej {
            local_comm_id: pair.conns[end].comm_ids().1,
            ..Rej::default()
        });
        pair.give(end, &rej);
        let may_be_unknown = end == P
            && matches!(
                state,
                State::ReqRcvd | State::MraReqSent | State::RepSent | State::MraRepRcvd
            );
        if may_be_unknown {
            assert_eq!(pair.told(end), [Notice::RejReceived], "{state:?}");
        } else {
            assert_eq!(pair.told(end), [], "{state:?}");
            assert_eq!(look(&pair.conns[end]), before, "{state:?}");
        }
    }
}

/// What is wrong with a datagram.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// Its receiver's ID; and what a REQ, or a REJ without that ID, is known by.
    Ours,
    /// Its sender's, or what answers a REQ.
    Theirs,
    /// The port that it comes from.
    Source,
}

fn wrong() -> impl Strategy<Value = Wrong> {
    prop_oneof![Just(Wrong::Ours), Just(Wrong::Theirs), Just(Wrong::Source),]
}

proptest! {
    /// Whatever it says, in whichever state: without both IDs, and the place that they belong to, nothing changes.
    #[test]
    fn strangers_change_nothing(
        row in 0..ROWS.len(),
        attr_id in attr::REQ..=attr::SPR,
        bytes in proptest::collection::vec(any::<u8>(), 232),
        other in 1..=u32::MAX,
        fault in wrong(),
        tid in any::<bool>(),
    ) {
        let (_, prepare, _) = ROWS[row];
        let (mut pair, end) = prepare();
        let _ = (pair.take_all(end), pair.told(end), pair.counted(end));
        let (ours, theirs) = pair.conns[end].comm_ids();
        // That of the REQ, unless it is what tells the datagram from one that counts.
        let known = pair.conns[A].datagram(Slot::Reply).tid();
        let answers = theirs == 0 && matches!(fault, Wrong::Theirs);
        let tid = if tid && !answers { known } else { STRANGE };
        let mut mad = Cm::new(attr_id, tid);
        mad.data_mut().copy_from_slice(&bytes);
        let (sender, receiver) = match fault {
            Wrong::Ours => (theirs ^ other, ours ^ other),
            Wrong::Theirs => (theirs ^ other, ours),
            Wrong::Source => (theirs, ours),
        };
        mad.data_mut()[..4].copy_from_slice(&sender.to_be_bytes());
        mad.data_mut()[4..8].copy_from_slice(&receiver.to_be_bytes());
        let from = match fault {
            Wrong::Ours | Wrong::Theirs => source(end == P, 0),
            // In the subnet it is known by its LID, whatever it says of its GID.
            Wrong::Source => Source {
                sgid: Some(pair.conns[end].primary().remote_gid),
                ..source(end == P, ELSEWHERE)
            },
        };
        let before = pair.conns[end].clone();
        pair.step(end, Event::Received(&mad, from));
        prop_assert_eq!(&pair.conns[end], &before);
        prop_assert!(pair.take_all(end).is_empty());
        prop_assert!(pair.told(end).is_empty());
        prop_assert!(pair.counted(end).is_empty());
    }
}
