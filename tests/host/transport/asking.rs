// SPDX-License-Identifier: GPL-2.0

//! Which messages ask for an acknowledgement.

use crate::rules::{
    deliver,
    network,
    operations,
    pair, //
};
use crate::world::{
    wqe,
    Node, //
};
use proto::time::{
    Duration,
    Instant, //
};
use proto::transport::{
    Lapse,
    QpState,
    SendOp,
    TxLimits,
    TxSegment,
    WcStatus, //
};
use wire::opcode::Operation;
use wire::{
    Lid,
    Mtu, //
};

/// Long after all reminders, and before the ACK timeout of the test.
const LATER: u64 = 500_000;

/// Two packets make a segment.
fn limits(node: &Node) -> TxLimits {
    TxLimits {
        max_payload: 2 * node.qp.config().mtu.bytes() as u32,
        lid: Lid::new(10),
        lmc: 0,
        mtu: Mtu::B4096,
    }
}

fn post(node: &mut Node, op: SendOp, signaled: bool) {
    let mut wqe = wqe(0, op, 10, 0);
    wqe.flags.signaled = signaled;
    node.post(wqe, vec![0; 10]);
}

fn asks(packets: &[(TxSegment, Vec<u8>)]) -> Vec<bool> {
    let headers = packets.iter().map(|(segment, _)| segment.header);
    headers.map(|header| header.bth.ack_req).collect()
}

#[test]
fn who_waits_for_a_completion_asks() {
    let [mut one, mut two] = network();
    for signaled in [false, false, true, false] {
        post(&mut one, SendOp::Write, signaled);
    }
    let packets = one.poll_all(0);
    assert_eq!(asks(&packets), [false, false, true, false]);
    deliver(&mut two, &packets);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 1);
    // The answer speaks for all that have come.
    assert_eq!(one.host.retired.len(), 4);
}

#[test]
fn what_ends_in_several_packets_asks() {
    let [mut one, _] = network();
    let mtu = one.qp.config().mtu.bytes();
    let limits = limits(&one);
    // Runs of two packets. The first message ends in one packet, the second in two.
    for packets in [3, 4] {
        let mut wqe = wqe(0, SendOp::Write, packets * mtu, 0);
        wqe.flags.signaled = false;
        one.post(wqe, vec![0; packets * mtu]);
    }
    let now = Instant::from_nanos(0);
    let segments = core::iter::from_fn(|| one.qp.poll_transmit(now, &limits));
    let asks: Vec<_> = segments
        .map(|segment| (segment.span, segment.header.bth.ack_req))
        .collect();
    assert_eq!(asks, [(2, false), (1, false), (2, false), (2, true)]);
}

#[test]
fn within_a_host_the_timeout_asks() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, SendOp::Write, false);
    let packets = one.poll_all(0);
    assert_eq!(asks(&packets), [false]);
    deliver(&mut two, &packets);
    let due = one.qp.next_deadline().expect("nobody will ask");
    let lapse = one.qp.on_timeout(due, &mut one.host);
    assert_eq!(lapse, Lapse::None);
    let again = one.poll_all(due.nanos());
    assert_eq!(asks(&again), [true]);
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(due.nanos()));
    assert_eq!(one.host.retired.len(), 1);
    assert_eq!(one.qp.next_deadline(), None);
}

/// The peer has not been asked about what is before a work request that fails here, and is not to be waited for.
#[test]
fn a_bad_buffer_behind_what_nobody_asked_about_is_told() {
    for floor in [Duration::ZERO, Duration::from_nanos(10_000)] {
        for (signaled, retries, absent) in [(false, 7, false), (true, 0, false), (false, 0, true)] {
            let [mut one, mut two] = pair(|config| {
                config.reminder_floor = floor;
                config.retry_cnt = retries;
            });
            post(&mut one, SendOp::Write, false);
            let mut bad = wqe(1, SendOp::Write, 10, 0);
            bad.flags.signaled = signaled;
            let slot = one.post(bad, vec![0; 10]);
            post(&mut one, SendOp::Write, true);
            if absent {
                // It is not there at first.
                let limits = limits(&one);
                let good = one
                    .qp
                    .poll_transmit(Instant::default(), &limits)
                    .expect("there is one");
                let late = one
                    .qp
                    .poll_transmit(Instant::default(), &limits)
                    .expect("there is one");
                one.qp.put_back(&late.payload);
                deliver(&mut two, &[(good, vec![0; 10])]);
            }
            one.host.bad_slot = Some(slot);
            let mut now = 0;
            for _ in 0..4 {
                let packets = one.poll_all(now);
                deliver(&mut two, &packets);
                deliver(&mut one, &two.poll_all(now));
                if let Some(due) = one.qp.next_deadline() {
                    now = due.nanos();
                    one.qp.on_timeout(due, &mut one.host);
                }
            }
            let ends: Vec<_> = one
                .host
                .sent
                .iter()
                .map(|wc| (wc.wr_id, wc.status))
                .collect();
            assert_eq!(ends, [(1, WcStatus::LocProtErr), (0, WcStatus::WrFlushErr)]);
            assert_eq!(one.qp.state(), QpState::Err);
        }
    }
}

/// The ACK timeout is about what was asked.
#[test]
fn the_peer_has_its_time_from_the_first_question_on() {
    for op in [SendOp::Write, SendOp::Read] {
        let [mut one, _] = pair(|_| {});
        post(&mut one, SendOp::Write, false);
        assert_eq!(asks(&one.poll_all(0)), [false]);
        let due = one.qp.next_deadline().expect("nobody will ask");
        let shortly_before = due.nanos() - 1;
        post(&mut one, op, true);
        assert_eq!(one.poll_all(shortly_before).len(), 1);
        assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::None);
        let later = Instant::from_nanos(shortly_before + due.nanos());
        assert_eq!(one.qp.next_deadline(), Some(later));
        // What asks as well does not put it off.
        post(&mut one, SendOp::Write, true);
        assert_eq!(asks(&one.poll_all(due.nanos())), [true]);
        assert_eq!(one.qp.next_deadline(), Some(later));
        assert_eq!(one.qp.on_timeout(later, &mut one.host), Lapse::Timeout);
    }
}

#[test]
fn all_ask_if_nothing_would_ask_later() {
    let [mut one, _] = pair(|config| config.timeout = 0);
    post(&mut one, SendOp::Write, false);
    assert_eq!(asks(&one.poll_all(0)), [true]);
}

#[test]
fn the_peer_is_asked_when_nothing_follows() {
    let [mut one, mut two] = network();
    for _ in 0..5 {
        post(&mut one, SendOp::Write, false);
    }
    let packets = one.poll_all(0);
    assert_eq!(asks(&packets), [false; 5]);
    deliver(&mut two, &packets);
    assert!(two.poll_all(0).is_empty());
    let lapse = one.qp.on_timeout(Instant::from_nanos(LATER), &mut one.host);
    assert_eq!(lapse, Lapse::None);
    let again = one.poll_all(LATER);
    assert_eq!(asks(&again), [true]);
    // It repeats what was acknowledged before all of them.
    assert_eq!(
        again[0].0.header.bth.psn,
        packets[0].0.header.bth.psn.back(1)
    );
    assert!(again[0].1.is_empty());
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(LATER));
    assert_eq!(one.host.retired.len(), 5);
    assert_eq!(one.qp.next_deadline(), None);
}

#[test]
fn the_answer_tells_what_is_lost() {
    for arrived in 0..4 {
        let [mut one, mut two] = network();
        for _ in 0..5 {
            post(&mut one, SendOp::Write, false);
        }
        let packets = one.poll_all(0);
        deliver(&mut two, &packets[..arrived]);
        one.qp.on_timeout(Instant::from_nanos(LATER), &mut one.host);
        deliver(&mut two, &one.poll_all(LATER));
        deliver(&mut one, &two.poll_all(LATER));
        assert_eq!(one.host.retired.len(), arrived);
        assert_eq!(one.poll_all(LATER).len(), 5 - arrived);
    }
}

/// The peer's program may have answered, and this one have deregistered what it sent.
#[test]
fn a_question_needs_no_memory() {
    for floor in [Duration::ZERO, Duration::from_nanos(10_000)] {
        let [mut one, mut two] = pair(|config| config.reminder_floor = floor);
        for _ in 0..3 {
            post(&mut one, SendOp::Write, false);
        }
        deliver(&mut two, &one.poll_all(0));
        one.host.bad_buffers = true;
        let due = one.qp.next_deadline().expect("nobody will ask");
        one.qp.on_timeout(due, &mut one.host);
        deliver(&mut two, &one.poll_all(due.nanos()));
        deliver(&mut one, &two.poll_all(due.nanos()));
        assert_eq!(one.qp.state(), QpState::Rts);
        assert_eq!(one.host.retired.len(), 3);
        assert_eq!(one.qp.next_deadline(), None);
    }
}

/// What was sent after the question is not what its answer is about.
#[test]
fn an_answer_says_nothing_about_what_came_later() {
    let [mut one, mut two] = network();
    post(&mut one, SendOp::Write, false);
    deliver(&mut two, &one.poll_all(0));
    one.qp.on_timeout(Instant::from_nanos(LATER), &mut one.host);
    let question = one.poll_all(LATER);
    post(&mut one, SendOp::Write, false);
    let later = one.poll_all(LATER);
    assert_eq!(asks(&later), [false]);
    deliver(&mut two, &question);
    deliver(&mut one, &two.poll_all(LATER));
    assert_eq!(one.host.retired.len(), 1);
    assert!(one.poll_all(LATER).is_empty());
}

#[test]
fn who_would_be_blocked_asks() {
    // By the window: one ask in each quarter.
    let [mut one, _] = network();
    for _ in 0..15 {
        post(&mut one, SendOp::Write, false);
    }
    assert_eq!(asks(&one.poll_all(0)), [false; 15]);
    post(&mut one, SendOp::Write, false);
    assert_eq!(asks(&one.poll_all(0)), [true]);

    // By the end of the receives that the peer has told of.
    let [mut one, mut two] = network();
    for _ in 0..3 {
        two.host.post_recv(100);
        post(&mut one, SendOp::Send, false);
    }
    let first = one.poll_all(0);
    assert_eq!(asks(&first), [true]);
    deliver(&mut two, &first);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(asks(&one.poll_all(0)), [false, false]);
    post(&mut one, SendOp::Send, false);
    assert_eq!(asks(&one.poll_all(0)), [true]);
}

#[test]
fn what_waits_for_all_before_it_makes_the_last_one_ask() {
    let [mut one, mut two] = network();
    post(&mut one, SendOp::Write, false);
    let packets = one.poll_all(0);
    assert_eq!(asks(&packets), [false]);
    deliver(&mut two, &packets);
    let mut fenced = wqe(1, SendOp::LocalInv, 0, 0);
    fenced.flags.fence = true;
    one.post(fenced, vec![0; 8]);
    let again = one.poll_all(0);
    assert_eq!(operations(&again), [Operation::WriteOnly]);
    assert_eq!(asks(&again), [true]);
    assert!(one.poll_all(0).is_empty());
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert!(one.poll_all(0).is_empty());
    assert!(one.qp.local_request().is_some());
}

#[test]
fn a_drain_asks() {
    let [mut one, mut two] = network();
    post(&mut one, SendOp::Write, false);
    deliver(&mut two, &one.poll_all(0));
    one.go(QpState::Sqd);
    let again = one.poll_all(0);
    assert_eq!(asks(&again), [true]);
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert!(!one.qp.is_draining());
}

/// Carries packets until nothing more is sent.
fn settle([one, two]: &mut [Node; 2], now: u64) {
    loop {
        let packets = one.poll_all(now);
        if packets.is_empty() {
            return;
        }
        deliver(two, &packets);
        deliver(one, &two.poll_all(now));
    }
}

/// Two nodes of which the first one's window is small, since something was lost.
pub(crate) fn after_a_loss() -> [Node; 2] {
    let mut nodes = network();
    post(&mut nodes[0], SendOp::Write, true);
    assert_eq!(nodes[0].poll_all(0).len(), 1);
    let now = Instant::from_nanos(LATER);
    let lapse = nodes[0].qp.on_timeout(now, &mut nodes[0].host);
    assert_eq!(lapse, Lapse::Reminder);
    settle(&mut nodes, LATER);
    assert_eq!(nodes[0].host.sent.len(), 1);
    nodes
}

/// One of the driver's finding is as good as one whose buffer is bad.
#[test]
fn a_bad_work_request_behind_what_nobody_asked_about_is_told() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, SendOp::Write, false);
    let mut bad = wqe(1, SendOp::Write, 10, 0);
    bad.fault = Some(WcStatus::LocQpOpErr);
    one.post(bad, vec![0; 10]);
    let packets = one.poll_all(0);
    assert_eq!(asks(&packets), [false, true]);
    deliver(&mut two, &packets);
    deliver(&mut one, &two.poll_all(0));
    let statuses: Vec<_> = one.host.sent.iter().map(|wc| wc.status).collect();
    assert_eq!(statuses, [WcStatus::LocQpOpErr]);
}

/// The completion of a local operation comes after those of the messages before it.
#[test]
fn who_waits_for_a_local_operation_asks() {
    for (before, signaled, expected) in [
        (&[false][..], true, &[false, true][..]),
        (&[true, false], true, &[true, false, true]),
        (&[true], true, &[true]),
        (&[false], false, &[false]),
    ] {
        let [mut one, mut two] = pair(|_| {});
        for &signaled in before {
            post(&mut one, SendOp::Write, signaled);
        }
        post(&mut one, SendOp::LocalInv, signaled);
        let packets = one.poll_all(0);
        assert_eq!(asks(&packets), expected);
        let slot = one.qp.local_request().expect("it is its turn");
        one.qp.local_done(slot, WcStatus::Success, &mut one.host);
        // An acknowledgement for each, as within a host.
        for packet in packets {
            deliver(&mut two, &[packet]);
            deliver(&mut one, &two.poll_all(0));
        }
        let done = before.iter().filter(|&&signaled| signaled).count();
        assert_eq!(one.host.sent.len(), done + usize::from(signaled));
        assert!(one.poll_all(0).is_empty());
    }
}

/// So it is when all is sent again.
#[test]
fn who_waits_for_a_local_operation_asks_again() {
    let [mut one, mut two] = pair(|_| {});
    for op in [SendOp::Write, SendOp::Write, SendOp::LocalInv] {
        post(&mut one, op, op == SendOp::LocalInv);
    }
    let packets = one.poll_all(0);
    assert_eq!(asks(&packets), [false, false, true]);
    let slot = one.qp.local_request().expect("it is its turn");
    one.qp.local_done(slot, WcStatus::Success, &mut one.host);
    deliver(&mut two, &packets[1..]);
    deliver(&mut one, &two.poll_all(0));
    let mut nodes = [one, two];
    settle(&mut nodes, 0);
    assert_eq!(nodes[0].host.sent.len(), 1);
    assert_eq!(nodes[0].host.executed.len(), 0);
}

/// The one that asked is sent again, and has no reason to ask now. That the peer says nothing is not a silence.
#[test]
fn a_question_that_is_not_sent_again_is_not_waited_for() {
    let [mut one, mut two] = pair(|config| {
        config.max_unacked = 64;
        config.retry_cnt = 1;
    });
    for _ in 0..16 {
        post(&mut one, SendOp::Write, false);
    }
    let packets = one.poll_all(0);
    assert!(asks(&packets)[15]);
    deliver(&mut two, &packets[..14]);
    deliver(&mut two, &packets[15..]);
    deliver(&mut one, &two.poll_all(0));
    let again = one.poll_all(0);
    assert_eq!(asks(&again), [false; 2]);
    deliver(&mut two, &again);
    assert!(two.poll_all(0).is_empty());
    let due = one.qp.next_deadline().expect("nobody will ask");
    assert_eq!(one.qp.on_timeout(due, &mut one.host), Lapse::None);
    let mut nodes = [one, two];
    settle(&mut nodes, due.nanos());
    assert_eq!(nodes[0].qp.state(), QpState::Rts);
    assert_eq!(nodes[0].host.retired.len(), 16);
}

#[test]
fn what_waits_for_psns_makes_the_last_one_ask() {
    let [mut one, _] = pair(|_| {});
    post(&mut one, SendOp::Write, false);
    one.post(wqe(1, SendOp::Write, 1 << 31, 0), Vec::new());
    assert_eq!(asks(&one.poll_all(0)), [false, true]);
}

/// A READ that is asked for in parts begins when all before it is acknowledged.
#[test]
fn a_read_in_parts_makes_the_last_one_ask() {
    let [mut one, mut two] = after_a_loss();
    post(&mut one, SendOp::Write, false);
    let len = 20 * one.qp.config().mtu.bytes();
    one.post(wqe(0, SendOp::Read, len, 0), vec![0; len]);
    let packets = one.poll_all(LATER);
    assert_eq!(operations(&packets), [Operation::WriteOnly; 2]);
    assert_eq!(asks(&packets), [false, true]);
    deliver(&mut two, &packets);
    deliver(&mut one, &two.poll_all(LATER));
    assert_eq!(operations(&one.poll_all(LATER)), [Operation::ReadRequest]);
}
