// SPDX-License-Identifier: GPL-2.0

//! Answers to what was asked for more than once, and which of them are given at once.

use crate::rules::{
    deliver,
    exchange,
    operations,
    pair,
    post, //
};
use crate::world::{
    config,
    lid,
    Node,
    PRIMARY, //
};
use proto::time::Instant;
use proto::transport::{
    RxDrop,
    SendOp,
    TxLimits,
    TxSegment,
    WcStatus, //
};
use wire::opcode::Operation;
use wire::Mtu;

/// Lets the ACK timeout of a node run out.
fn time_out(node: &mut Node) {
    let due = node.qp.next_deadline().expect("nothing is waited for");
    node.qp.on_timeout(due, &mut node.host);
}

fn assert_done(node: &Node) {
    let statuses: Vec<_> = node.host.sent.iter().map(|wc| wc.status).collect();
    assert_eq!(statuses, [WcStatus::Success]);
}

/// The request for all of an RDMA READ was lost, and the peer knows it by one for a part.
#[test]
fn an_answer_that_ends_early_is_not_all() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 20 * 256);
    one.poll_all(0);
    time_out(&mut one);
    // After silence a single packet is asked for, and then several.
    deliver(&mut two, &one.poll_all(0));
    deliver(&mut one, &two.poll_all(0));
    deliver(&mut two, &one.poll_all(0));
    let answer = two.poll_all(0);
    assert_eq!(answer.len(), 8);
    // The rest of that is lost. What is asked for next goes beyond its end.
    deliver(&mut one, &answer[..3]);
    time_out(&mut one);
    exchange(&mut one, &mut two);
    assert_done(&one);
}

/// One segment of several packets of an answer.
fn join(packets: &[(TxSegment, Vec<u8>)]) -> (TxSegment, Vec<u8>) {
    let mut joined = packets[0].clone();
    for (packet, payload) in &packets[1..] {
        let header = TxSegment::joined_header(&joined.0.header, joined.0.span, &packet.header);
        joined.0.header = header.unwrap();
        joined.0.span += 1;
        joined.1.extend_from_slice(payload);
    }
    joined
}

/// Of a segment the first packet has come before, with another answer. The peer will not send the others again by
/// itself.
#[test]
fn an_answer_that_is_known_in_part_is_asked_for_again() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 600);
    deliver(&mut two, &one.poll_all(0));
    let answers = two.poll_all(0);
    deliver(&mut one, &answers[..2]);
    let known_in_part = join(&answers[1..]);
    assert_eq!(one.take(0, &known_in_part), Err(RxDrop::Stale));
    let again = one.poll_all(0);
    assert_eq!(operations(&again), [Operation::ReadRequest]);
    assert_eq!(again[0].0.header.reth.unwrap().dma_len, 600 - 512);
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert_done(&one);

    // What is known as a whole is no reason to ask.
    post(&mut one, 1, SendOp::Read, 10);
    one.poll_all(0);
    assert_eq!(one.take(0, &known_in_part), Err(RxDrop::Stale));
    assert!(one.poll_all(0).is_empty());
}

/// Who ends a connection gives the acknowledgement that is owed, also if the last that it has sent was an answer.
#[test]
fn an_acknowledgement_after_an_answer_is_short() {
    let [mut one, mut two] = pair(|_| {});
    let limits = TxLimits {
        max_payload: 1024,
        lid: lid(1, PRIMARY),
        lmc: 0,
        mtu: Mtu::B1024,
    };
    post(&mut one, 0, SendOp::Read, 10);
    deliver(&mut two, &one.poll_all(0));
    let answer = two.qp.poll_transmit(Instant::from_nanos(0), &limits);
    assert!(answer.is_some());
    post(&mut one, 1, SendOp::Write, 10);
    deliver(&mut two, &one.poll_all(0));
    let reply = two.qp.poll_reply(0, &limits).expect("none is owed");
    assert_eq!(reply.header.bth.opcode.operation(), Operation::Ack);
    assert_eq!(reply.header.bth.psn, config(0).sq_psn.add(1));
}

/// Of several operations, whatever order their answers are asked for in, each is answered, and again.
#[test]
fn answers_are_looked_for_from_the_oldest_that_is_owed() {
    let [mut one, mut two] = pair(|_| {});
    for _ in 0..3 {
        post(&mut one, 0, SendOp::Read, 8);
    }
    let requests = one.poll_all(0);
    deliver(&mut two, &requests);
    assert_eq!(two.poll_all(0).len(), 3);
    for asked in [&[0usize][..], &[2, 0], &[1], &[2, 1, 0]] {
        for at in asked {
            deliver(&mut two, &requests[*at..=*at]);
        }
        let mut psns: Vec<_> = asked
            .iter()
            .map(|at| requests[*at].0.header.bth.psn)
            .collect();
        psns.sort_by_key(|psn| psn.get());
        let told: Vec<_> = two
            .poll_all(0)
            .iter()
            .map(|sent| sent.0.header.bth.psn)
            .collect();
        assert_eq!(told, psns);
    }
}
