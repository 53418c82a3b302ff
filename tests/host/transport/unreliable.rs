// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections: a message arrives whole or not at all, at most once, and in order.

use crate::world::{
    wqe,
    Faults,
    World, //
};
use proptest::prelude::*;
use proto::time::Instant;
use proto::transport::{
    QpEvent,
    QpState,
    QpType,
    SendOp,
    TxLimits,
    WcOpcode,
    WcStatus, //
};
use wire::{
    Lid,
    Mtu, //
};

const LONGEST: usize = 3000;

fn bytes(number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 3 + i / 256 * 17 + number * 29) as u8)
        .collect()
}

/// Sends messages of these lengths as `op` to a queue pair with `recvs` receives, which are `shared` or its own, and
/// returns the numbers of those that arrived.
fn exchange(
    op: SendOp,
    lengths: &[usize],
    faults: Faults,
    seed: u64,
    (recvs, shared): (usize, bool),
) -> Vec<usize> {
    let mut world = World::new(QpType::Uc, lengths.len() * LONGEST, faults, seed);
    world.nodes[1].qp.config_mut().srq = shared;
    for _ in 0..recvs {
        world.nodes[1].host.post_recv(LONGEST as u32);
    }
    for (number, &len) in lengths.iter().enumerate() {
        if world.nodes[0].qp.send_space() == 0 {
            world.transmit();
        }
        let wqe = wqe(number as u64, op, len, number * LONGEST);
        world.nodes[0].post(wqe, bytes(number, len));
        if world.dice.percent(30) {
            world.transmit();
            world.step();
        }
    }
    world.run();
    let sent = &world.nodes[0].host.sent;
    assert!(sent.iter().map(|wc| wc.wr_id).eq(0..lengths.len() as u64));
    assert!(sent.iter().all(|wc| wc.status == WcStatus::Success));
    let host = &world.nodes[1].host;
    assert!(host.events.is_empty());
    let (whole, partial): (Vec<_>, Vec<_>) = host
        .received
        .iter()
        .partition(|(_, wc)| wc.status == WcStatus::Success);
    assert!(shared || partial.is_empty());
    assert!(partial
        .iter()
        .all(|(_, wc)| wc.status == WcStatus::RemInvReqErr));
    // Of shared receives, none but the one of a last message that did not end is kept.
    let kept = recvs - host.received.len() - host.recv_queue.len();
    assert!(kept <= 1);
    let arrived = whole.iter().map(|(slot, wc)| {
        let number = wc.imm.unwrap() as usize;
        let len = lengths[number];
        assert_eq!(wc.byte_len, len as u32);
        let data = if op == SendOp::SendImm {
            assert_eq!(wc.opcode, WcOpcode::Recv);
            &host.recv_buffers[slot.0 as usize]
        } else {
            assert_eq!(wc.opcode, WcOpcode::RecvRdmaWithImm);
            &host.memory[number * LONGEST..]
        };
        assert!(data[..len] == bytes(number, len));
        number
    });
    arrived.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_whole_once_and_in_order(
        write in any::<bool>(),
        lengths in proptest::collection::vec(0..LONGEST, 0..60),
        drop_percent in 0..20u8,
        duplicate_percent in 0..20u8,
        reorder_percent in 0..20u8,
        longest_span in 1..10u32,
        seed in any::<u64>(),
        recvs in 0..80usize,
        shared in any::<bool>(),
    ) {
        let faults = Faults { drop_percent, duplicate_percent, reorder_percent, cut_percent: 30, absent_percent: 20, longest_span, ..Faults::default() };
        let op = if write { SendOp::WriteImm } else { SendOp::SendImm };
        let arrived = exchange(op, &lengths, faults, seed, (recvs, shared));
        prop_assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(arrived.len() <= recvs);
    }
}

#[test]
fn a_good_link_loses_nothing() {
    let lengths: Vec<usize> = (0..60).map(|i| i * 50).collect();
    for op in [SendOp::SendImm, SendOp::WriteImm] {
        for (absent_percent, shared) in [(0, false), (20, false), (20, true)] {
            let faults = Faults {
                absent_percent,
                ..Faults::default()
            };
            let arrived = exchange(op, &lengths, faults, 1, (60, shared));
            assert!(arrived.into_iter().eq(0..60));
        }
    }
}

#[test]
fn a_message_that_does_not_fit_leaves_the_receive_for_the_next() {
    let mut world = World::new(QpType::Uc, 0, Faults::default(), 1);
    world.nodes[1].host.post_recv(500);
    for (wr_id, len) in [(0, 501), (1, 1200), (2, 500)] {
        world.nodes[0].post(wqe(wr_id, SendOp::SendImm, len, 0), vec![wr_id as u8; len]);
    }
    world.run();
    let host = &world.nodes[1].host;
    assert_eq!(host.received.len(), 1);
    assert_eq!(host.received[0].1.imm, Some(2));
    assert_eq!(host.recv_buffers[0], [2; 500]);
    assert_eq!(world.nodes[1].qp.state(), QpState::Rts);
}

/// Two messages that have more packets together than PSNs tell apart: the second begins when the first has left.
#[test]
fn the_longest_messages_follow_each_other() {
    const LEN: u32 = 1 << 31;
    let mut world = World::new(QpType::Uc, 0, Faults::default(), 1);
    let node = &mut world.nodes[0];
    for wr_id in 0..2 {
        let mut wqe = wqe(wr_id, SendOp::Write, 0, 0);
        wqe.length = LEN;
        node.post(wqe, Vec::new());
    }
    let limits = TxLimits {
        max_payload: u32::MAX,
        lid: Lid::new(10),
        lmc: 0,
        mtu: Mtu::B1024,
    };
    let mut sent = Vec::new();
    loop {
        while let Some(segment) = node.qp.poll_transmit(Instant::from_nanos(0), &limits) {
            if segment.header.bth.opcode.ends() {
                sent.push(node.host.sent.len());
            }
        }
        if !node.qp.transmitted(&mut node.host) {
            break;
        }
    }
    assert_eq!(sent, [0, 1]);
    assert_eq!(node.host.sent.len(), 2);
}

#[test]
fn operations_that_it_lacks_end_in_send_queue_error() {
    let mut world = World::new(QpType::Uc, 100, Faults::default(), 1);
    world.nodes[1].host.post_recv(100);
    world.nodes[0].host.post_recv(100);
    for (wr_id, op) in [(0, SendOp::Write), (1, SendOp::Read), (2, SendOp::Write)] {
        world.nodes[0].post(wqe(wr_id, op, 50, 0), vec![3; 50]);
    }
    world.run();
    let statuses: Vec<_> = world.nodes[0]
        .host
        .sent
        .iter()
        .map(|wc| wc.status)
        .collect();
    let expected = [
        WcStatus::Success,
        WcStatus::LocQpOpErr,
        WcStatus::WrFlushErr,
    ];
    assert_eq!(statuses, expected);
    assert_eq!(world.nodes[0].qp.state(), QpState::Sqe);
    // The receive queue goes on.
    world.nodes[1].post(wqe(0, SendOp::SendImm, 100, 0), vec![4; 100]);
    world.run();
    assert_eq!(world.nodes[0].host.received.len(), 1);
    world.nodes[0].go(QpState::Rts);
    world.nodes[0].post(wqe(3, SendOp::SendImm, 50, 0), vec![3; 50]);
    world.run();
    assert_eq!(world.nodes[1].host.received.len(), 1);
}

#[test]
fn a_receive_without_memory_is_an_error() {
    let mut world = World::new(QpType::Uc, 0, Faults::default(), 1);
    world.nodes[1].host.post_recv(500);
    world.nodes[1].host.post_recv(500);
    world.nodes[1].host.bad_buffers = true;
    world.nodes[0].post(wqe(0, SendOp::Send, 50, 0), vec![0; 50]);
    world.run();
    let host = &world.nodes[1].host;
    let statuses: Vec<_> = host.received.iter().map(|(_, wc)| wc.status).collect();
    assert_eq!(statuses, [WcStatus::LocProtErr, WcStatus::WrFlushErr]);
    assert!(!host.events.contains(&QpEvent::LastWqeReached));
}

#[test]
fn local_operations_are_executed_and_complete_in_order() {
    let mut world = World::new(QpType::Uc, 1 << 16, Faults::default(), 1);
    let ops = [
        SendOp::Write,
        SendOp::BindMw,
        SendOp::Write,
        SendOp::LocalInv,
        SendOp::RegMr,
        SendOp::Write,
    ];
    for (wr_id, op) in ops.into_iter().enumerate() {
        let len = if op.is_local() { 0 } else { 300 };
        let mut wqe = wqe(wr_id as u64, op, len, 0);
        wqe.flags.fence = true;
        world.nodes[0].post(wqe, vec![wr_id as u8; len]);
    }
    world.run();
    let host = &world.nodes[0].host;
    let completed: Vec<_> = host.sent.iter().map(|wc| (wc.wr_id, wc.status)).collect();
    let expected: Vec<_> = (0..6).map(|wr_id| (wr_id, WcStatus::Success)).collect();
    assert_eq!(completed, expected);
    assert_eq!(host.executed.len(), 3);
    assert_eq!(world.nodes[1].host.memory[..300], [5; 300]);
}
