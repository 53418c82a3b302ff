// SPDX-License-Identifier: GPL-2.0

//! Answers that come later than usual.

use crate::rules::{
    deliver,
    network,
    pair, //
};
use crate::world::{
    wqe,
    Node, //
};
use proto::time::Instant;
use proto::transport::{
    Lapse,
    QpState,
    SendOp,
    TxSegment,
    WcStatus, //
};

const COUNT: usize = 20;

fn post(node: &mut Node) {
    node.post(wqe(0, SendOp::Write, 10, 0), vec![0; 10]);
}

/// Packets and their payload.
type Packets = Vec<(TxSegment, Vec<u8>)>;

/// One node, which has been reminded of its messages, and the time; the other one; the packets, and the one sent again.
fn reminded() -> (Node, Node, Packets, Packets, Instant) {
    let [mut one, two] = network();
    for _ in 0..COUNT {
        post(&mut one);
    }
    let packets = one.poll_all(0);
    assert_eq!(packets.len(), COUNT);
    let due = one.qp.next_deadline().expect("nobody will ask");
    assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::Reminder);
    let again = one.poll_all(due.nanos());
    assert_eq!(again.len(), 1);
    (one, two, packets, again, due)
}

#[test]
fn what_has_not_left_is_not_late() {
    let [mut one, _] = network();
    post(&mut one);
    one.poll_all(0);
    let due = one.qp.next_deadline().expect("nobody will ask");
    assert!(one.qp.would_remind(due));
    one.qp.put_off(due);
    assert!(!one.qp.would_remind(due));
    assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::None);
    assert!(one.poll_all(due.nanos()).is_empty());
    let later = one.qp.next_deadline().expect("nobody will ask");
    assert!(later > due);
    assert_eq!(one.qp.on_timeout(later, &mut one.host), Lapse::Reminder);
    assert_eq!(one.poll_all(later.nanos()).len(), 1);
}

/// Putting off does not move the ACK timeout.
#[test]
fn what_never_leaves_runs_into_the_timeout() {
    let [mut one, _] = network();
    post(&mut one);
    one.poll_all(0);
    for _ in 0..1_000_000 {
        let due = one.qp.next_deadline().expect("nobody will ask");
        one.qp.put_off(due);
        match one.qp.on_timeout(due, &mut one.host) {
            Lapse::None => {}
            lapse => return assert_eq!(lapse, Lapse::Timeout),
        }
    }
    panic!("it never ends");
}

/// Only what nothing has been sent of is new, and only if there is no answer to be sent.
#[test]
fn what_is_new_is_told_from_what_is_sent_again() {
    let [mut fresh, _] = network();
    for _ in 0..2 {
        post(&mut fresh);
        assert!(fresh.qp.has_output() && fresh.qp.has_only_new());
        assert_eq!(fresh.poll_all(0).len(), 1);
    }
    let (mut one, mut two, packets, again, due) = reminded();
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert!(one.qp.has_output() && !one.qp.has_only_new());
    let rest = one.poll_all(due.nanos());
    assert!(rest.len() > 1);
    post(&mut two);
    assert!(two.qp.has_only_new());
    deliver(&mut two, &packets[1..2]);
    assert!(two.qp.has_output() && !two.qp.has_only_new());
}

/// A reminder whose message has no memory any more is a question.
#[test]
fn a_reminder_needs_no_memory() {
    for late in [true, false] {
        let [mut one, mut two] = network();
        for _ in 0..COUNT {
            post(&mut one);
        }
        let packets = one.poll_all(0);
        // The second one comes after the first was sent again.
        for fails in [false, true, true] {
            one.host.bad_buffers = fails;
            let due = one.qp.next_deadline().expect("nobody will ask");
            assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::Reminder);
            let again = one.poll_all(due.nanos());
            assert_eq!(again.len(), 1);
            assert_eq!(again[0].1.is_empty(), fails);
            assert!(again[0].0.header.bth.ack_req);
        }
        if late {
            deliver(&mut two, &packets);
            deliver(&mut one, &two.poll_all(0));
            assert_eq!(one.host.sent.len(), COUNT);
            assert!(one
                .host
                .sent
                .iter()
                .all(|wc| wc.status == WcStatus::Success));
            assert_eq!(one.qp.state(), QpState::Rts);
            continue;
        }
        loop {
            let due = one.qp.next_deadline().expect("nobody will ask");
            match one.qp.on_timeout(due, &mut one.host) {
                Lapse::Timeout => break,
                _ => one.poll_all(due.nanos()),
            };
        }
        assert!(one.poll_all(0).is_empty());
        assert_eq!(one.host.sent[0].status, WcStatus::LocProtErr);
    }
}

/// A connection without retries does not end because a processor was busy: the answer has come, or that to a question
/// will.
#[test]
fn without_retries_the_peer_is_questioned_once() {
    for answers in [0, 1, 2] {
        let [mut one, mut two] = pair(|config| config.retry_cnt = 0);
        post(&mut one);
        let packets = one.poll_all(0);
        if answers != 0 {
            deliver(&mut two, &packets);
        }
        let answer = two.poll_all(0);
        let due = one.qp.next_deadline().expect("nobody waits");
        assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::None);
        let question = one.poll_all(due.nanos());
        assert_eq!(question.len(), 1);
        assert!(question[0].1.is_empty());
        if answers == 1 {
            deliver(&mut one, &answer);
        } else {
            deliver(&mut two, &question);
            deliver(&mut one, &two.poll_all(0));
        }
        if answers != 0 {
            assert_eq!(one.host.sent[0].status, WcStatus::Success);
            assert_eq!(one.qp.next_deadline(), None);
            continue;
        }
        let end = Instant::from_nanos(2 * due.nanos());
        assert_eq!(one.qp.next_deadline(), Some(end));
        assert_eq!(one.qp.on_timeout(end, &mut one.host), Lapse::Timeout);
        assert_eq!(one.host.sent[0].status, WcStatus::RetryExcErr);
    }
}

#[test]
fn what_was_late_is_not_sent_again() {
    let (mut one, mut two, packets, again, due) = reminded();
    deliver(&mut two, &packets[..COUNT / 2]);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), COUNT / 2);
    assert!(one.poll_all(due.nanos()).is_empty());
    // The window is what it was, too.
    for _ in 0..COUNT {
        post(&mut one);
    }
    let more = one.poll_all(due.nanos());
    assert_eq!(more.len(), COUNT);
    assert_eq!(
        more[0].0.header.bth.psn,
        packets[0].0.header.bth.psn.add(COUNT as u32)
    );
    deliver(&mut two, &packets[COUNT / 2..]);
    deliver(&mut two, &again);
    deliver(&mut two, &more);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 2 * COUNT);
    assert_eq!(one.qp.next_deadline(), None);
}

#[test]
fn what_was_lost_is_sent_again() {
    let (mut one, mut two, packets, again, due) = reminded();
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    let mut rest = one.poll_all(due.nanos());
    assert!(!rest.is_empty());
    assert_eq!(rest[0].0.header.bth.psn, packets[1].0.header.bth.psn);
    while !rest.is_empty() {
        deliver(&mut two, &rest);
        deliver(&mut one, &two.poll_all(0));
        rest = one.poll_all(due.nanos());
    }
    assert_eq!(one.host.sent.len(), COUNT);
}

/// Some of what followed is lost although the answer came late: the next reminder finds that.
#[test]
fn a_late_answer_does_not_hide_a_loss() {
    let (mut one, mut two, packets, again, _) = reminded();
    deliver(&mut two, &packets[..COUNT / 2]);
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    for _ in 0..COUNT {
        let Some(due) = one.qp.next_deadline() else {
            break;
        };
        assert_ne!(one.qp.on_timeout(due, &mut one.host), Lapse::Timeout);
        loop {
            let packets = one.poll_all(due.nanos());
            if packets.is_empty() {
                break;
            }
            deliver(&mut two, &packets);
            deliver(&mut one, &two.poll_all(due.nanos()));
        }
    }
    assert_eq!(one.host.sent.len(), COUNT);
}

/// Of an RDMA READ one packet is asked for again, so what is more is the first answer.
#[test]
fn what_was_read_late_is_not_asked_for_again() {
    let [mut one, mut two] = network();
    let mtu = one.qp.config().mtu.bytes();
    let len = 4 * mtu;
    for wr_id in 0..2 {
        one.post(wqe(wr_id, SendOp::Read, len, 0), vec![0; len]);
    }
    let requests = one.poll_all(0);
    assert_eq!(requests.len(), 2);
    let due = one.qp.next_deadline().expect("nobody will ask");
    assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::Reminder);
    let again = one.poll_all(due.nanos());
    assert_eq!(again.len(), 1);
    let reth = again[0].0.header.reth.expect("it is a request");
    assert_eq!(reth.dma_len as usize, mtu);

    deliver(&mut two, &requests);
    let answers = two.poll_all(0);
    assert_eq!(answers.len(), 8);
    let [(first, head), (second, tail), rest @ ..] = &answers[..] else {
        panic!("there are eight");
    };
    let joined = TxSegment::joined_header(&first.header, 1, &second.header).expect("they follow");
    let payload = [&head[..], tail].concat();
    one.take_segment(0, &joined, 2, &payload)
        .expect("it is awaited");
    assert!(one.poll_all(due.nanos()).is_empty());
    deliver(&mut two, &again);
    let repeated = two.poll_all(0);
    assert_eq!(repeated.len(), 1);
    deliver(&mut one, rest);
    deliver(&mut one, &repeated);
    assert_eq!(one.host.sent.len(), 2);
    assert!(one.poll_all(due.nanos()).is_empty());
    assert_eq!(one.qp.next_deadline(), None);
}

/// What was sent without asking is asked about by a question, not by all, after a late answer as before.
#[test]
fn a_late_answer_does_not_make_all_ask() {
    const SIGNALED: usize = 6;
    let [mut one, mut two] = network();
    for number in 0..10 {
        let mut wqe = wqe(0, SendOp::Write, 10, 0);
        wqe.flags.signaled = number < SIGNALED;
        one.post(wqe, vec![0; 10]);
    }
    let packets = one.poll_all(0);
    let due = one.qp.next_deadline().expect("nobody will ask");
    let lapse = one.qp.on_timeout(due, &mut one.host);
    assert_eq!(lapse, Lapse::Reminder);
    assert_eq!(one.poll_all(due.nanos()).len(), 1);
    deliver(&mut two, &packets[..SIGNALED]);
    deliver(&mut one, &two.poll_all(0));
    assert!(one.poll_all(due.nanos()).is_empty());
    let due = one.qp.next_deadline().expect("nobody will ask");
    assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::None);
    let asking = one.poll_all(due.nanos());
    let psns: Vec<_> = asking
        .iter()
        .map(|(segment, _)| segment.header.bth.psn)
        .collect();
    assert_eq!(psns, [packets[SIGNALED - 1].0.header.bth.psn]);
}

/// A reminder that meets the answer on its way repeats what it names, and cuts nothing off.
#[test]
fn a_reminder_does_not_end_the_answer_that_is_under_way() {
    const PACKETS: usize = 12;
    for sent in 1..PACKETS {
        for named in 0..sent {
            let [mut one, mut two] = network();
            let len = PACKETS * one.qp.config().mtu.bytes();
            one.post(wqe(0, SendOp::Read, len, 0), vec![0; len]);
            deliver(&mut two, &one.poll_all(0));
            let mut answers: Vec<_> = (0..sent).filter_map(|_| two.poll(0)).collect();
            // What is before that has come, and then nothing for long.
            deliver(&mut one, &answers[..named]);
            let due = one.qp.next_deadline().expect("nobody will ask");
            assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::Reminder);
            let again = one.poll_all(due.nanos());
            assert_eq!(again.len(), 1);
            deliver(&mut two, &again);
            answers.extend(two.poll_all(0));
            assert_eq!(answers.len(), PACKETS + 1);
            deliver(&mut one, &answers[named..]);
            assert!(one.poll_all(due.nanos()).is_empty());
            assert_eq!(one.host.sent.len(), 1);
            assert_eq!(one.qp.next_deadline(), None);
        }
    }
}
