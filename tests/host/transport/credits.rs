// SPDX-License-Identifier: GPL-2.0

//! End-to-end flow control: what a responder says about its receives, and what a requester makes of it.

use crate::rules::{
    deliver,
    exchange,
    operations,
    pair,
    post,
    syndromes, //
};
use crate::world::{
    Dice,
    Node, //
};
use proptest::prelude::*;
use proto::time::{
    Duration,
    Instant, //
};
use proto::transport::{
    RxDrop,
    SendOp,
    TxSegment,
    WcStatus, //
};
use wire::aeth::{
    self,
    Aeth,
    Syndrome, //
};
use wire::opcode::Operation;

type Packets = [(TxSegment, Vec<u8>)];

fn aeths(packets: &Packets) -> Vec<(u32, u8)> {
    let headers = packets
        .iter()
        .filter_map(|(segment, _)| segment.header.aeth);
    headers
        .map(|aeth| match aeth.syndrome {
            Syndrome::Ack { credits } => (aeth.msn, credits),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn recvs(node: &mut Node, count: u32) {
    for _ in 0..count {
        node.host.post_recv(1000);
    }
}

#[test]
fn the_first_message_asks() {
    let [mut one, mut two] = pair(|_| {});
    recvs(&mut two, 8);
    for wr_id in 0..9 {
        post(&mut one, wr_id, SendOp::Send, 10);
    }
    let first = one.poll_all(0);
    assert_eq!(operations(&first), [Operation::SendOnly]);
    deliver(&mut two, &first);
    let ack = two.poll_all(0);
    // Seven are left: code 5 stands for 6, code 6 for 8.
    assert_eq!(aeths(&ack), [(1, 5)]);
    deliver(&mut one, &ack);
    // Six, and one to ask.
    assert_eq!(one.poll_all(0).len(), 7);
}

#[test]
fn what_takes_no_receive_is_not_held_back_but_counts() {
    let [mut one, mut two] = pair(|_| {});
    recvs(&mut two, 3);
    post(&mut one, 0, SendOp::Send, 10);
    exchange(&mut one, &mut two);
    for (wr_id, op) in [SendOp::Write, SendOp::Read, SendOp::FetchAdd]
        .into_iter()
        .enumerate()
    {
        post(&mut one, 1 + wr_id as u64, op, 10);
    }
    // The second to fifth message, of which the peer will take the third beyond the first and one more.
    post(&mut one, 4, SendOp::WriteImm, 10);
    post(&mut one, 5, SendOp::Write, 10);
    let packets = one.poll_all(0);
    let expected = [
        Operation::WriteOnly,
        Operation::ReadRequest,
        Operation::FetchAdd,
    ];
    assert_eq!(operations(&packets), expected);
    deliver(&mut two, &packets);
    let answers = two.poll_all(0);
    assert_eq!(aeths(&answers), [(3, 2), (4, 2)]);
    deliver(&mut one, &answers);
    let expected = [Operation::WriteOnlyImm, Operation::WriteOnly];
    assert_eq!(operations(&one.poll_all(0)), expected);
}

#[test]
fn a_shared_receive_queue_has_no_credits() {
    let [mut one, mut two] = pair(|_| {});
    two.qp.config_mut().srq = true;
    recvs(&mut two, 1);
    for wr_id in 0..20 {
        post(&mut one, wr_id, SendOp::Send, 10);
    }
    let first = one.poll_all(0);
    assert_eq!(first.len(), 1);
    deliver(&mut two, &first);
    let ack = two.poll_all(0);
    assert_eq!(aeths(&ack), [(1, aeth::NO_FLOW_CONTROL)]);
    deliver(&mut one, &ack);
    // As many as the window lets pass.
    assert_eq!(one.poll_all(0).len(), 16);
}

#[test]
fn a_message_whose_ack_was_lost_is_acknowledged_with_what_was_known() {
    let [mut one, mut two] = pair(|_| {});
    recvs(&mut two, 5);
    post(&mut one, 0, SendOp::Send, 10);
    let packets = one.poll_all(0);
    deliver(&mut two, &packets);
    let ack = two.poll_all(0);
    deliver(&mut two, &packets);
    assert_eq!(aeths(&two.poll_all(0)), aeths(&ack));
}

/// Who was told that there is no receive is told when there is, once for many.
#[test]
fn new_receives_are_announced_to_who_may_wait() {
    let [mut one, mut two] = pair(|_| {});
    recvs(&mut two, 2);
    // Nobody has asked.
    assert!(!two.qp.receives_posted(2));
    for wr_id in 0..6 {
        post(&mut one, wr_id, SendOp::Send, 10);
    }
    let first = one.poll_all(0);
    deliver(&mut two, &first);
    deliver(&mut one, &two.poll_all(0));
    // The third message asks, and is put off.
    let packets = one.poll_all(0);
    assert_eq!(packets.len(), 2);
    deliver(&mut two, &packets);
    let refusal = two.poll_all(0);
    assert_eq!(syndromes(&refusal), [Syndrome::Rnr { timer: 1 }]);
    deliver(&mut one, &refusal);
    for count in 1..=4 {
        recvs(&mut two, 1);
        assert_eq!(two.qp.receives_posted(count), count == 1);
    }
    let news = two.poll_all(0);
    assert_eq!(aeths(&news), [(2, 4)]);
    recvs(&mut two, 1);
    assert!(!two.qp.receives_posted(5));
    assert_eq!(one.take(0, &news[0]), Err(RxDrop::Stale));
    let now = one.qp.next_deadline().unwrap();
    one.qp.on_timeout(now, &mut one.host);
    assert_eq!(one.poll_all(now.nanos()).len(), 4);
}

/// Has a peer without a receive be asked again when the pause is over: how long that was, from `now` on, in microseconds.
fn refused_again(one: &mut Node, two: &mut Node, now: &mut Instant) -> u64 {
    let due = one.qp.next_deadline().unwrap();
    let pause = (due.nanos() - now.nanos()) / 1000;
    *now = due;
    one.qp.on_timeout(due, &mut one.host);
    let packets = one.poll_all(due.nanos());
    assert_eq!(packets.len(), 1);
    let _ = two.take(due.nanos(), &packets[0]);
    for refusal in two.poll_all(due.nanos()) {
        let _ = one.take(due.nanos(), &refusal);
    }
    pause
}

/// Pauses of 10 us for ever leave a processor no time for anything else.
#[test]
fn who_is_refused_for_ever_asks_less_and_less() {
    // Without flow control nothing tells that the peer is ready.
    let [mut one, mut two] = pair(|_| {});
    two.qp.config_mut().srq = true;
    for wr_id in 0..6 {
        post(&mut one, wr_id, SendOp::Send, 10);
    }
    let mut now = Instant::from_nanos(0);
    let first = one.poll_all(0);
    deliver(&mut two, &first);
    deliver(&mut one, &two.poll_all(0));
    let pauses: Vec<u64> = std::iter::repeat_with(|| refused_again(&mut one, &mut two, &mut now))
        .take(60)
        .collect();
    assert_eq!(pauses[..5], [10; 5]);
    let passed = pauses.iter().scan(0, |passed, pause| {
        *passed += pause;
        Some(*passed)
    });
    for (passed, next) in passed.zip(&pauses[1..]).skip(4) {
        assert!(next.abs_diff((passed / 4).min(64_000)) <= 10);
    }
    assert_eq!(pauses[59], 64_000);
    assert_eq!(one.qp.progress().rnr_retries_left, 7);
    // All goes on at once when the first message is taken.
    recvs(&mut two, 6);
    refused_again(&mut one, &mut two, &mut now);
    assert_eq!(one.host.sent.len(), 1);
    assert_eq!(one.poll_all(now.nanos()).len(), 5);
}

/// Such a peer is asked again when it is ready, if it says so.
#[test]
fn an_announcement_ends_a_pause_that_has_grown() {
    let [mut one, mut two] = pair(|_| {});
    recvs(&mut two, 1);
    for wr_id in 0..2 {
        post(&mut one, wr_id, SendOp::Send, 10);
    }
    let mut now = Instant::from_nanos(0);
    for _ in 0..2 {
        deliver(&mut two, &one.poll_all(0));
        deliver(&mut one, &two.poll_all(0));
    }
    while refused_again(&mut one, &mut two, &mut now) < 20_000 {}
    recvs(&mut two, 1);
    assert!(two.qp.receives_posted(1));
    let news = two.poll_all(now.nanos());
    assert_eq!(one.take(now.nanos(), &news[0]), Err(RxDrop::Stale));
    let due = one.qp.next_deadline().unwrap();
    assert_eq!(due, now.after(Duration::from_nanos(10_000)));
    let packets = one.poll_all(due.nanos());
    assert_eq!(packets.len(), 1);
    deliver(&mut two, &packets);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 2);
}

#[test]
fn an_announcement_after_the_end_is_none() {
    let [mut one, mut two] = pair(|_| {});
    recvs(&mut two, 1);
    post(&mut one, 0, SendOp::Send, 10);
    exchange(&mut one, &mut two);
    two.qp.to_error(&mut two.host);
    assert!(!two.qp.receives_posted(1));
    assert!(two.poll_all(0).is_empty());
}

/// Reads what is lost at first, and is asked for in small parts then. Returns when that was.
fn read_in_parts(one: &mut Node, two: &mut Node) -> Instant {
    post(one, 0, SendOp::Read, 10 * 256);
    one.poll_all(0);
    let now = one.qp.next_deadline().unwrap();
    one.qp.on_timeout(now, &mut one.host);
    let mut requests = 0;
    while one.host.sent.is_empty() {
        let packets = one.poll_all(now.nanos());
        requests += packets.len();
        deliver(two, &packets);
        deliver(one, &two.poll_all(0));
    }
    assert!(requests > 1);
    now
}

/// A READ that was cut after a loss counts more than once at the peer.
#[test]
fn the_numbers_agree_again_when_all_is_acknowledged() {
    let [mut one, mut two] = pair(|_| {});
    recvs(&mut two, 1);
    read_in_parts(&mut one, &mut two);
    post(&mut one, 1, SendOp::Send, 10);
    exchange(&mut one, &mut two);
    assert_eq!(one.host.sent.len(), 2);
    // There is none left: one message asks, and no second one.
    for wr_id in 2..5 {
        post(&mut one, wr_id, SendOp::Send, 10);
    }
    assert_eq!(one.poll_all(0).len(), 1);
    let now = one.qp.next_deadline().unwrap();
    one.qp.on_timeout(now, &mut one.host);
    assert_eq!(one.poll_all(now.nanos()).len(), 1);
}

/// The same if the answer to a READ is what acknowledges all.
#[test]
fn the_numbers_agree_again_with_an_answer() {
    let [mut one, mut two] = pair(|_| {});
    let now = read_in_parts(&mut one, &mut two);
    // There is no receive: one message asks, and no second one.
    for wr_id in 1..4 {
        post(&mut one, wr_id, SendOp::Send, 10);
    }
    assert_eq!(one.poll_all(now.nanos()).len(), 1);
}

/// Packets that are lost before there is progress.
const MOST_LOSSES: u32 = 3;

/// Sends messages over a link that loses, to a peer whose receives come as they like, and checks each of them
/// against what the requester had been told.
fn carry(messages: u32, loss_percent: u8, tells: bool, seed: u64) {
    let [mut one, mut two] = pair(|_| {});
    let mut dice = Dice::new(seed);
    let (mut posted, mut given) = (0, 0);
    let (mut first_psn, mut limit) = (None, 0);
    // Never so often that the requester gives up.
    let (mut losses, mut progress) = (0, 0);
    let mut now = 0;
    for round in 0.. {
        assert!(
            round < 100_000,
            "no end after {} messages",
            one.host.sent.len()
        );
        while posted < messages && one.qp.send_space() > 0 {
            post(&mut one, u64::from(posted), SendOp::Send, 10);
            posted += 1;
        }
        if given < messages && dice.percent(30) {
            let count = (1 + dice.below(5) as u32).min(messages - given);
            recvs(&mut two, count);
            given += count;
            if tells {
                let count = two.host.recv_queue.len() as u32;
                two.qp.receives_posted(count);
            }
        }
        for packet in one.poll_all(now) {
            let psn = packet.0.header.bth.psn;
            let first = *first_psn.get_or_insert(psn);
            // Each message is a packet.
            assert!(
                psn.sub(first) < limit + 1,
                "message {} at {limit}",
                psn.sub(first) + 1
            );
            if losses < MOST_LOSSES && dice.percent(loss_percent) {
                losses += 1;
                continue;
            }
            let _ = two.take(now, &packet);
        }
        for packet in two.poll_all(now) {
            if losses < MOST_LOSSES && dice.percent(loss_percent) {
                losses += 1;
                continue;
            }
            let aeth = packet.0.header.aeth.unwrap();
            if let Aeth {
                syndrome: Syndrome::Ack { credits },
                msn,
            } = aeth
            {
                let told = msn + u32::from(aeth::credits(credits).unwrap());
                assert!(told <= given);
                limit = limit.max(told);
            }
            let _ = one.take(now, &packet);
        }
        if one.host.sent.len() as u32 == messages {
            break;
        }
        if one.host.sent.len() > progress {
            (losses, progress) = (0, one.host.sent.len());
        }
        if dice.percent(20) {
            if let Some(deadline) = one.qp.next_deadline() {
                now = now.max(deadline.nanos());
                one.qp.on_timeout(Instant::from_nanos(now), &mut one.host);
            }
        }
        assert!(one
            .host
            .sent
            .iter()
            .all(|wc| wc.status == WcStatus::Success));
    }
    assert_eq!(two.host.received.len() as u32, messages);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_more_than_one_message_goes_beyond_the_limit(
        messages in 1..200u32,
        loss_percent in 0..40u8,
        tells in any::<bool>(),
        seed in any::<u64>(),
    ) {
        carry(messages, loss_percent, tells, seed);
    }
}
