// SPDX-License-Identifier: GPL-2.0

//! Memory that is long in coming.

use crate::host::MEMORY_KEY;
use crate::rules::{
    deliver,
    key_in_use,
    network,
    operations,
    pair,
    post,
    syndromes, //
};
use crate::world::{
    lid,
    wqe,
    Faults,
    Node,
    World,
    PRIMARY, //
};
use proto::time::Instant;
use proto::transport::{
    Lapse,
    QpConfig,
    QpState,
    QpType,
    RxDrop,
    SendOp,
    TxLimits,
    WcStatus, //
};
use wire::aeth::Syndrome;
use wire::opcode::Operation;
use wire::{
    Key,
    Mtu, //
};

/// Longer than the retries of the simulation last, by far.
const LONG_NANOS: u64 = 1_000_000_000;

#[test]
fn a_request_that_waits_is_kept_once_and_its_peer_pauses() {
    let [mut one, mut two] = pair(|_| {});
    two.host.post_recv(1000);
    post(&mut one, 7, SendOp::Send, 10);
    let packets = one.poll_all(0);
    two.host.absent = true;
    assert_eq!(two.take(0, &packets[0]), Err(RxDrop::Absent));
    assert!(two.defer(&packets[0]));
    assert!(two.poll_all(0).is_empty());

    assert!(!two.defer(&packets[0]));
    let answers = two.poll_all(0);
    assert!(matches!(syndromes(&answers)[..], [Syndrome::Rnr { .. }]));
    deliver(&mut one, &answers);
    assert!(one.poll_all(0).is_empty());

    assert_eq!(two.take(0, &packets[0]), Ok(()));
    two.qp.resume(Instant::from_nanos(0));
    let ack = two.poll_all(0);
    assert_eq!(operations(&ack), [Operation::Ack]);
    // It ends the pause.
    deliver(&mut one, &ack);
    assert_eq!(one.host.sent.len(), 1);
    post(&mut one, 8, SendOp::Write, 10);
    assert_eq!(one.poll_all(0).len(), 1);
}

#[test]
fn a_peer_that_asks_again_for_a_key_in_use_is_told_nothing() {
    let [mut one, mut two] = pair(|config| config.rnr_retry = 0);
    two.host.post_recv(1000);
    two.host.busy = 1;
    post(&mut one, 7, SendOp::SendInv, 10);
    let packets = one.poll_all(0);
    assert_eq!(two.take(0, &packets[0]), Err(RxDrop::Busy));
    assert!(two.defer(&packets[0]));
    assert!(!two.defer(&packets[0]));
    assert!(two.poll_all(0).is_empty());

    assert_eq!(two.take(0, &packets[0]), Ok(()));
    two.qp.resume(Instant::from_nanos(0));
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent[0].status, WcStatus::Success);
}

#[test]
fn what_there_was_no_room_for_is_asked_for_again() {
    let [mut one, mut two] = pair(|config| config.timeout = 0);
    for wr_id in 0..3 {
        post(&mut one, wr_id, SendOp::Write, 10);
    }
    let packets = one.poll_all(0);
    two.host.absent = true;
    assert_eq!(two.take(0, &packets[0]), Err(RxDrop::Absent));
    assert!(two.defer(&packets[0]));
    assert!(two.defer(&packets[1]));
    two.qp.lose(&packets[1].0.header);
    // What comes after it would be of no use.
    assert!(!two.defer(&packets[2]));
    assert!(!two.defer(&packets[1]));
    assert_eq!(two.take(0, &packets[0]), Ok(()));
    two.qp.resume(Instant::from_nanos(0));
    let answers = two.poll_all(0);
    deliver(&mut one, &answers);
    let again = one.poll_all(0);
    assert_eq!(operations(&again), [Operation::WriteOnly; 2]);
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 3);

    // The same with answers.
    for wr_id in 0..2 {
        post(&mut one, wr_id, SendOp::Read, 10);
    }
    deliver(&mut two, &one.poll_all(0));
    let answers = two.poll_all(0);
    one.host.absent = true;
    assert_eq!(one.take(0, &answers[0]), Err(RxDrop::Absent));
    assert!(one.defer(&answers[0]));
    assert!(one.defer(&answers[1]));
    one.qp.lose(&answers[1].0.header);
    assert_eq!(one.take(0, &answers[0]), Ok(()));
    one.qp.resume(Instant::from_nanos(0));
    let again = one.poll_all(0);
    assert_eq!(operations(&again), [Operation::ReadRequest]);
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 5);
}

/// One node with an answer that waits for memory, behind which there is room for nothing; the other one, whose first
/// request is done.
fn without_room(tune: impl Fn(&mut QpConfig)) -> [Node; 2] {
    let [mut one, mut two] = pair(tune);
    post(&mut one, 0, SendOp::Write, 10);
    deliver(&mut two, &one.poll_all(0));
    deliver(&mut one, &two.poll_all(0));
    post(&mut two, 0, SendOp::Read, 10);
    deliver(&mut one, &two.poll_all(0));
    let answers = one.poll_all(0);
    two.host.absent = true;
    assert_eq!(two.take(0, &answers[0]), Err(RxDrop::Absent));
    assert!(two.defer(&answers[0]));
    [one, two]
}

/// A peer whose request there was no room for does not give up before the memory is there.
#[test]
fn who_asks_for_what_was_lost_pauses() {
    let [mut one, mut two] = without_room(|_| {});
    post(&mut one, 1, SendOp::Write, 10);
    post(&mut one, 2, SendOp::Write, 10);
    let packets = one.poll_all(0);
    assert!(two.defer(&packets[0]));
    two.qp.lose(&packets[0].0.header);
    // That one is new, and may be followed by the memory at once.
    assert!(!two.defer(&packets[1]));
    assert!(two.poll_all(0).is_empty());
    assert!(!two.defer(&packets[0]));
    let refusal = two.poll_all(0);
    assert!(matches!(syndromes(&refusal)[..], [Syndrome::Rnr { .. }]));
    deliver(&mut one, &refusal);
    two.qp.resume(Instant::from_nanos(0));
    deliver(&mut one, &two.poll_all(0));
    let due = one.qp.next_deadline().expect("nobody asks again");
    one.qp.on_timeout(due, &mut one.host);
    // After a refusal they come one by one.
    for _ in 0..2 {
        deliver(&mut two, &one.poll_all(due.nanos()));
        deliver(&mut one, &two.poll_all(due.nanos()));
    }
    assert_eq!(one.host.sent.len(), 3);
}

/// A repetition does not count as the first request that there was no room for.
#[test]
fn what_was_carried_out_is_answered_at_once() {
    let [mut one, mut two] = without_room(|config| config.timeout = 0);
    post(&mut one, 1, SendOp::Write, 10);
    let packets = one.poll_all(0);
    let mut known = packets[0].clone();
    known.0.header.bth.psn = known.0.header.bth.psn.back(1);
    for packet in [&known, &packets[0]] {
        if two.defer(packet) {
            two.qp.lose(&packet.0.header);
        }
    }
    assert_eq!(operations(&two.poll_all(0)), [Operation::Ack]);
    two.qp.resume(Instant::from_nanos(0));
    deliver(&mut one, &two.poll_all(0));
    deliver(&mut two, &one.poll_all(0));
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 2);
}

#[test]
fn requests_behind_one_that_waits_are_kept_too() {
    let [mut one, mut two] = pair(|_| {});
    for wr_id in 0..3 {
        post(&mut one, wr_id, SendOp::Write, 10);
    }
    let packets = one.poll_all(0);
    for packet in &packets {
        assert!(two.defer(packet));
    }
    assert!(!two.defer(&packets[0]));
    assert!(!two.defer(&packets[2]));
    two.qp.resume(Instant::from_nanos(0));
    assert!(two.defer(&packets[0]));
}

#[test]
fn who_has_the_answer_does_not_ask_again() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 10);
    deliver(&mut two, &one.poll_all(0));
    let answers = two.poll_all(0);
    one.host.absent = true;
    assert_eq!(one.take(0, &answers[0]), Err(RxDrop::Absent));
    assert!(one.qp.next_deadline().is_some());
    assert!(one.defer(&answers[0]));
    assert_eq!(one.qp.next_deadline(), None);
    let late = Instant::from_nanos(LONG_NANOS);
    for _ in 0..100 {
        one.qp.on_timeout(late, &mut one.host);
    }
    assert!(one.poll_all(LONG_NANOS).is_empty());

    assert_eq!(one.take(LONG_NANOS, &answers[0]), Ok(()));
    one.qp.resume(Instant::from_nanos(0));
    assert_eq!(one.host.sent[0].status, WcStatus::Success);
}

/// All memory is away for longer than the retries last, at first access.
#[test]
fn patience_outlasts_the_retries() {
    for op in [SendOp::Send, SendOp::Write, SendOp::Read, SendOp::FetchAdd] {
        let faults = Faults {
            away_percent: 100,
            away_nanos: LONG_NANOS,
            longest_span: 1,
            ..Faults::default()
        };
        let mut world = World::new(QpType::Rc, 1 << 16, faults, 1);
        world.nodes[1].host.post_recv(8);
        post(&mut world.nodes[0], 0, op, 8);
        while world.now < LONG_NANOS {
            while world.transmit() {}
            world.step();
        }
        world.faults.away_percent = 0;
        world.run();
        let sent = &world.nodes[0].host.sent;
        assert_eq!(sent.len(), 1, "{op:?}");
        assert_eq!(sent[0].status, WcStatus::Success, "{op:?}");
    }
}

/// The request that waits did not ask for an acknowledgement, and the one that asks comes again while it waits.
#[test]
fn who_was_told_to_pause_hears_of_the_end_of_the_wait() {
    let [mut one, mut two] = pair(|_| {});
    let mut quiet = wqe(7, SendOp::Write, 10, 0);
    quiet.flags.signaled = false;
    one.post(quiet, vec![7; 10]);
    let packets = one.poll_all(0);
    assert!(!packets[0].0.header.bth.ack_req);
    two.host.absent = true;
    assert_eq!(two.take(0, &packets[0]), Err(RxDrop::Absent));
    assert!(two.defer(&packets[0]));
    let due = one.qp.next_deadline().expect("nobody will ask");
    one.qp.on_timeout(due, &mut one.host);
    let again = one.poll_all(due.nanos());
    assert!(again[0].0.header.bth.ack_req);
    assert!(!two.defer(&again[0]));
    let answers = two.poll_all(0);
    assert!(matches!(syndromes(&answers)[..], [Syndrome::Rnr { .. }]));
    deliver(&mut one, &answers);

    assert_eq!(two.take(0, &packets[0]), Ok(()));
    two.qp.resume(Instant::from_nanos(0));
    let ack = two.poll_all(0);
    assert_eq!(operations(&ack), [Operation::Ack]);
    deliver(&mut one, &ack);
    assert_eq!(one.qp.progress().sends, 0);
    assert_eq!(one.qp.next_deadline(), None);
}

/// What a node sends next, one packet at a time; its memory is not there.
fn put_back(node: &mut Node, number: usize, now: u64) {
    let limits = TxLimits {
        max_payload: 256,
        lid: lid(number, PRIMARY),
        lmc: 0,
        mtu: Mtu::B1024,
    };
    let segment = node
        .qp
        .poll_transmit(Instant::from_nanos(now), &limits)
        .expect("there is something to send");
    assert!(!segment.payload.is_empty());
    node.qp.put_back(&segment.payload);
}

/// The memory of an answer is away for longer than the retries of the peer last.
#[test]
fn who_asks_again_for_an_answer_that_waits_pauses() {
    let [mut one, mut two] = pair(|config| config.retry_cnt = 1);
    post(&mut one, 0, SendOp::Read, 600);
    deliver(&mut two, &one.poll_all(0));
    let first = two.poll(0).expect("it is there");
    let next = first.0.header.bth.psn.add(1);
    deliver(&mut one, &[first]);
    let mut now = 0;
    for _ in 0..10 {
        put_back(&mut two, 1, now);
        let due = one.qp.next_deadline().expect("nobody asks again");
        now = due.nanos();
        one.qp.on_timeout(due, &mut one.host);
        deliver(&mut two, &one.poll_all(now));
        let refusal = two.poll(now).expect("nobody is told");
        assert!(matches!(
            refusal.0.header.aeth.map(|aeth| aeth.syndrome),
            Some(Syndrome::Rnr { .. })
        ));
        assert_eq!(refusal.0.header.bth.psn, next);
        assert_eq!(one.take(now, &refusal), Ok(()));
        assert!(one.host.sent.is_empty());
    }
    // The answer ends the pause.
    for packet in two.poll_all(now) {
        assert_eq!(one.take(now, &packet), Ok(()));
    }
    assert_eq!(one.host.sent[0].status, WcStatus::Success);
    assert_eq!(one.qp.next_deadline(), None);
}

/// A message that invalidates the key of such an answer waits for that memory, too: it is not to be looked at again
/// every moment.
#[test]
fn a_key_of_an_answer_that_waits_is_in_use_for_as_long() {
    let ([mut one, mut two], message) = key_in_use();
    put_back(&mut two, 1, 0);
    assert_eq!(two.take(0, &message), Err(RxDrop::Absent));
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(two.take(0, &message), Ok(()));
    two.qp.resume(Instant::from_nanos(0));
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(two.host.invalidated, [MEMORY_KEY]);
    assert_eq!(one.host.sent.len(), 3);
}

/// An answer comes whose memory is away, and whose request was refused before: the requests before that are done now, so
/// the queue pair fails, and takes nothing any more. Nobody is to have that memory come.
#[test]
fn an_answer_to_what_was_refused_does_not_wait() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 10);
    post(&mut one, 1, SendOp::Write, 10);
    let mut refused = wqe(2, SendOp::Read, 10, 0);
    refused.rkey = Key::new(0);
    one.post(refused, vec![0; 10]);
    deliver(&mut two, &one.poll_all(0));
    let answers = two.poll_all(0);
    let [read, .., refusal] = &answers[..] else {
        panic!("two answers are missing");
    };
    assert!(matches!(
        refusal.0.header.aeth.map(|aeth| aeth.syndrome),
        Some(Syndrome::Nak(_))
    ));
    deliver(&mut one, &[refusal.clone(), read.clone()]);
    assert_eq!(one.host.sent.len(), 1);
    let mut belated = read.clone();
    belated.0.header.bth.psn = refusal.0.header.bth.psn;
    one.host.absent = true;
    assert_eq!(one.take(0, &belated), Err(RxDrop::State));
    assert_eq!(one.qp.state(), QpState::Err);
    assert!(!one.defer(&belated));
    assert_eq!(one.host.sent[2].status, WcStatus::RemAccessErr);
}

/// What was lost waits for its memory, for longer than the retries last. The peer is asked nothing meanwhile.
#[test]
fn who_cannot_ask_again_does_not_give_up() {
    let [mut one, mut two] = pair(|config| config.retry_cnt = 1);
    post(&mut one, 0, SendOp::Write, 10);
    assert_eq!(one.poll_all(0).len(), 1);
    let due = one.qp.next_deadline().expect("nobody asks again");
    one.qp.on_timeout(due, &mut one.host);
    for _ in 0..10 {
        put_back(&mut one, 0, due.nanos());
        assert_eq!(one.qp.next_deadline(), None);
        one.qp
            .on_timeout(Instant::from_nanos(LONG_NANOS), &mut one.host);
        assert!(one.host.sent.is_empty());
    }
    let again = one.poll_all(LONG_NANOS);
    assert_eq!(operations(&again), [Operation::WriteOnly]);
    assert!(one.qp.next_deadline().is_some());
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(LONG_NANOS));
    assert_eq!(one.host.sent[0].status, WcStatus::Success);
}

/// The memory of what a reminder is to send waits, and then does not come. The peer has been asked before, and is gone.
#[test]
fn a_reminder_that_waits_does_not_end_the_wait_for_the_peer() {
    let [mut one, _] = network();
    post(&mut one, 0, SendOp::Write, 10);
    assert_eq!(one.poll_all(0).len(), 1);
    let due = one.qp.next_deadline().expect("nobody asks again");
    assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::Reminder);
    put_back(&mut one, 0, due.nanos());
    one.host.bad_buffers = true;
    let question = one.poll_all(due.nanos());
    assert_eq!(question.len(), 1);
    assert!(question[0].1.is_empty());
    loop {
        let due = one.qp.next_deadline().expect("nobody asks again");
        match one.qp.on_timeout(due, &mut one.host) {
            Lapse::Timeout => break,
            _ => one.poll_all(due.nanos()),
        };
    }
    assert!(one.poll_all(0).is_empty());
    assert_eq!(one.host.sent[0].status, WcStatus::LocProtErr);
}

/// The peer asks for what is there, before what waits. It gets that, and need not allow a pause.
#[test]
fn who_asks_again_for_what_is_there_gets_it() {
    let [mut one, mut two] = pair(|config| config.rnr_retry = 0);
    post(&mut one, 0, SendOp::Read, 600);
    deliver(&mut two, &one.poll_all(0));
    let lost = two.poll(0).expect("it is there");
    put_back(&mut two, 1, 0);
    let due = one.qp.next_deadline().expect("nobody asks again");
    one.qp.on_timeout(due, &mut one.host);
    deliver(&mut two, &one.poll_all(due.nanos()));
    let again = two.poll(due.nanos()).expect("nobody is told");
    assert_eq!(again.0.header.bth.psn, lost.0.header.bth.psn);
    assert_eq!(
        again.0.header.bth.opcode.operation(),
        Operation::ReadRespFirst
    );
    assert_eq!(one.take(due.nanos(), &again), Ok(()));
    for packet in two.poll_all(due.nanos()) {
        assert_eq!(one.take(due.nanos(), &packet), Ok(()));
    }
    assert_eq!(one.host.sent[0].status, WcStatus::Success);
}
