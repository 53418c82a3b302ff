// SPDX-License-Identifier: GPL-2.0

//! Answers to RDMA READs whose memory goes before they do.

use crate::rules::{
    deliver,
    operations,
    pair,
    post,
    syndromes, //
};
use crate::world::{
    lid,
    Node,
    PRIMARY, //
};
use proto::time::Instant;
use proto::transport::{
    QpState,
    SendOp,
    TxLimits,
    TxSegment,
    WcStatus, //
};
use wire::aeth::{
    NakCode,
    Syndrome, //
};
use wire::opcode::Operation;
use wire::Mtu;

/// A message that needs several packets.
const LONG: usize = 5000;

const REFUSED: Syndrome = Syndrome::Nak(NakCode::RemoteAccessError);

#[test]
fn what_the_peer_cannot_have_is_refused() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, LONG);
    deliver(&mut two, &one.poll_all(0));
    let first = two.poll(0).unwrap();
    two.host.memory.clear();
    let rest = two.poll_all(0);
    assert_eq!(syndromes(&rest), [REFUSED]);
    assert_eq!(two.qp.state(), QpState::Err);
    deliver(&mut one, &[first]);
    deliver(&mut one, &rest);
    assert_eq!(one.host.sent[0].status, WcStatus::RemAccessErr);
}

/// As a network does it that doubles packets.
#[test]
fn a_repetition_is_dropped() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, LONG);
    let request = one.poll_all(0);
    deliver(&mut two, &request);
    let answer = two.poll_all(0);
    two.host.memory.clear();
    deliver(&mut two, &request);
    assert!(two.poll_all(0).is_empty());
    assert_eq!(two.qp.state(), QpState::Rts);

    // What follows finds the connection as it was.
    deliver(&mut one, &answer);
    two.host.post_recv(10);
    post(&mut one, 1, SendOp::Send, 10);
    deliver(&mut two, &one.poll_all(0));
    let reply = two.poll_all(0);
    assert_eq!(operations(&reply), [Operation::Ack]);
    deliver(&mut one, &reply);
    let statuses: Vec<_> = one.host.sent.iter().map(|wc| wc.status).collect();
    assert_eq!(statuses, [WcStatus::Success; 2]);
}

/// A part of the answer was out, and its end never.
#[test]
fn a_repetition_is_refused_as_far_as_it_is_new() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, LONG);
    let request = one.poll_all(0);
    deliver(&mut two, &request);
    let first = two.poll(0).unwrap();
    deliver(&mut two, &request);
    let again = two.poll(0).unwrap();
    assert_eq!(again.0.header.bth.psn, first.0.header.bth.psn);
    two.host.memory.clear();
    assert_eq!(syndromes(&two.poll_all(0)), [REFUSED]);
    assert_eq!(two.qp.state(), QpState::Err);
}

/// The same if not even what was out can be given again.
#[test]
fn a_repetition_without_memory_does_not_hide_what_is_new() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, LONG);
    let request = one.poll_all(0);
    deliver(&mut two, &request);
    let first = two.poll(0).unwrap();
    let next = first.0.header.bth.psn.add(1);
    deliver(&mut two, &request);
    two.host.memory.clear();
    let replies = two.poll_all(0);
    assert_eq!(syndromes(&replies), [REFUSED]);
    assert_eq!(replies[0].0.header.bth.psn, next);
    assert_eq!(two.qp.state(), QpState::Err);
    deliver(&mut one, &[first]);
    deliver(&mut one, &replies);
    assert_eq!(one.host.sent[0].status, WcStatus::RemAccessErr);
}

/// Has the answer to an RDMA READ begin anew, in one segment, when its first packet was out, and the memory go then.
/// Returns that packet, and what the peer is told.
fn withdrawn_amid(one: &mut Node, two: &mut Node) -> [Vec<(TxSegment, Vec<u8>)>; 2] {
    post(one, 0, SendOp::Read, LONG);
    let request = one.poll_all(0);
    deliver(two, &request);
    let first = two.poll(0).unwrap();
    deliver(two, &request);
    let limits = TxLimits {
        max_payload: 1 << 16,
        lid: lid(1, PRIMARY),
        lmc: 0,
        mtu: Mtu::B1024,
    };
    let again = two.qp.poll_transmit(Instant::from_nanos(0), &limits);
    let again = again.unwrap();
    assert_eq!(again.header.bth.psn, first.0.header.bth.psn);
    assert!(again.span > 1);
    two.host.memory.clear();
    two.qp
        .gather_failed(&again.payload, WcStatus::LocProtErr, &mut two.host);
    let replies = two.poll_all(0);
    assert_eq!(syndromes(&replies), [REFUSED]);
    [vec![first], replies]
}

/// The segment begins with what the peer has, and what it has not is in it. The peer is told, and need not find out by
/// asking in vain.
#[test]
fn who_has_the_beginning_of_a_segment_hears_of_its_end() {
    let [mut one, mut two] = pair(|_| {});
    let [first, replies] = withdrawn_amid(&mut one, &mut two);
    deliver(&mut one, &first);
    deliver(&mut one, &replies);
    assert_eq!(one.host.sent[0].status, WcStatus::RemAccessErr);
}

/// The same if the beginning was lost, also where nothing is asked for again.
#[test]
fn who_has_nothing_of_a_segment_hears_why() {
    let [mut one, mut two] = pair(|config| config.timeout = 0);
    let [_, replies] = withdrawn_amid(&mut one, &mut two);
    deliver(&mut one, &replies);
    assert_eq!(one.host.sent[0].status, WcStatus::RemAccessErr);
}
