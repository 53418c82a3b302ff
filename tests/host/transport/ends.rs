// SPDX-License-Identifier: GPL-2.0

//! How work requests end when they do not end well: which status each side sees.

use crate::rules::network;
use crate::world::{
    config,
    wqe,
    Faults,
    Node,
    World, //
};
use proto::transport::{
    AttrMask,
    ModifyError,
    PostError,
    QpConfig,
    QpEvent,
    QpState,
    QpType,
    SendOp,
    SendWqe,
    Wc,
    WcStatus,
    FLUSH_BATCH, //
};
use wire::opcode::Operation;
use wire::{
    Key,
    Psn, //
};

fn quiet() -> World {
    World::new(QpType::Rc, 1 << 16, Faults::default(), 1)
}

fn statuses(completions: &[Wc]) -> Vec<(u64, WcStatus)> {
    completions.iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

fn recv_statuses(world: &World, node: usize) -> Vec<WcStatus> {
    let received = world.nodes[node].host.received.iter();
    received.map(|(_, wc)| wc.status).collect()
}

fn write(wr_id: u64) -> (SendWqe, Vec<u8>) {
    (wqe(wr_id, SendOp::Write, 600, 1000), vec![wr_id as u8; 600])
}

#[test]
fn silence_ends_with_retry_exceeded() {
    let mut world = quiet();
    world.kill(1);
    for wr_id in 0..5 {
        let (mut wqe, buffer) = write(wr_id);
        wqe.flags.signaled = wr_id == 0;
        world.nodes[0].post(wqe, buffer);
    }
    world.nodes[0].host.post_recv(10);
    world.run();
    let node = &world.nodes[0];
    let mut expected = vec![(0, WcStatus::RetryExcErr)];
    expected.extend((1..5).map(|wr_id| (wr_id, WcStatus::WrFlushErr)));
    assert_eq!(statuses(&node.host.sent), expected);
    assert_eq!(recv_statuses(&world, 0), [WcStatus::WrFlushErr]);
    assert_eq!(node.qp.state(), QpState::Err);
    assert_eq!(node.qp.next_deadline(), None);
    // Eight times the timeout of 4.096 us * 2^8: the first and seven more.
    assert_eq!(world.now, 8 * (4096 << 8));
}

/// While a driver holds completions of sends back, those of receives must not overtake them.
#[test]
fn receives_are_flushed_after_what_is_on_its_way() {
    let mut world = quiet();
    world.nodes[0].host.post_recv(10);
    let node = &mut world.nodes[0];
    node.host.sending = true;
    node.qp.to_error(&mut node.host);
    assert!(node.qp.transmitted(&mut node.host));
    assert_eq!(recv_statuses(&world, 0), []);
    let node = &mut world.nodes[0];
    node.host.sending = false;
    assert!(!node.qp.transmitted(&mut node.host));
    assert_eq!(recv_statuses(&world, 0), [WcStatus::WrFlushErr]);
}

/// The work requests are still there, but nothing is asked or waited for.
#[test]
fn who_fails_during_a_send_asks_no_more() {
    let [mut one, _] = network();
    let mut unsignaled = wqe(0, SendOp::Write, 10, 0);
    unsignaled.flags.signaled = false;
    one.post(unsignaled, vec![0; 10]);
    one.poll_all(0);
    let due = one.qp.next_deadline().unwrap();
    one.qp.on_timeout(due, &mut one.host);
    assert!(one.qp.has_output());
    one.host.sending = true;
    one.qp.to_error(&mut one.host);
    assert_eq!(one.poll(due.nanos()), None);
    assert_eq!(one.qp.next_deadline(), None);
}

/// A driver flushes with interrupts off, so it does not flush all of a long queue at once.
#[test]
fn long_queues_are_flushed_in_parts() {
    const WRS: u64 = 1024;
    let mut node = Node::with_depth(QpType::Rc, 0, WRS as usize);
    node.connect(&config(0));
    for wr_id in 0..WRS {
        let (wqe, buffer) = write(wr_id);
        node.post(wqe, buffer);
        node.host.post_recv(10);
    }
    node.qp.to_error(&mut node.host);
    let mut parts = 0;
    let mut before = (0, 0);
    loop {
        let done = (node.host.sent.len(), node.host.received.len());
        for part in [done.0 - before.0, done.1 - before.1] {
            assert!(part <= FLUSH_BATCH as usize);
        }
        assert!(done.0 == WRS as usize || done.1 == 0);
        before = done;
        if !node.qp.has_output() {
            break;
        }
        let _ = node.qp.transmitted(&mut node.host);
        parts += 1;
    }
    assert!(parts >= 7, "{parts} parts");
    let all: Vec<_> = (0..WRS).map(|id| (id, WcStatus::WrFlushErr)).collect();
    assert_eq!(statuses(&node.host.sent), all);
    let received: Vec<_> = node.host.received.iter().map(|(_, wc)| *wc).collect();
    assert_eq!(statuses(&received), all);
}

/// What was posted before an error of a send queue is not carried out after it.
#[test]
fn a_send_queue_works_again_when_it_is_flushed() {
    const WRS: u64 = 1024;
    let mut node = Node::with_depth(QpType::Uc, 0, WRS as usize);
    node.connect(&config(0));
    for wr_id in 0..WRS {
        let mut wqe = wqe(wr_id, SendOp::Send, 10, 0);
        wqe.fault = (wr_id == 0).then_some(WcStatus::LocProtErr);
        node.post(wqe, vec![0; 10]);
    }
    assert!(node.poll(0).is_none());
    assert!(node.qp.transmitted(&mut node.host));
    assert_eq!(node.qp.state(), QpState::Sqe);
    let config = *node.qp.config();
    let again = |node: &mut Node| node.modify(QpState::Rts, AttrMask::STATE, &config);
    assert_eq!(again(&mut node), Err(ModifyError::Draining));
    node.flush();
    // Somebody has not heard of the error.
    node.post(wqe(WRS, SendOp::Send, 10, 0), vec![0; 10]);
    assert_eq!(again(&mut node), Ok(()));
    assert!(node.poll_all(0).is_empty());
    let mut all = vec![(0, WcStatus::LocProtErr)];
    all.extend((1..=WRS).map(|id| (id, WcStatus::WrFlushErr)));
    assert_eq!(statuses(&node.host.sent), all);
}

/// Nor is a send queue drained before they are there.
#[test]
fn a_queue_is_drained_once_its_completions_are_there() {
    let mut world = quiet();
    let (wqe, buffer) = write(0);
    world.nodes[0].post(wqe, buffer);
    world.transmit();
    drain(&mut world.nodes[0]);
    world.nodes[0].host.sending = true;
    world.run();
    let node = &mut world.nodes[0];
    assert_eq!(statuses(&node.host.sent), [(0, WcStatus::Success)]);
    assert!(node.host.events.is_empty());
    node.host.sending = false;
    assert!(!node.qp.transmitted(&mut node.host));
    assert_eq!(node.host.events, [QpEvent::SqDrained]);
}

/// Has the send queue drain, and the end of that reported.
fn drain(node: &mut Node) {
    let mut config = *node.qp.config();
    config.notify_drained = true;
    let mask = AttrMask::STATE.with(AttrMask::EN_SQD_ASYNC_NOTIFY);
    node.modify(QpState::Sqd, mask, &config).unwrap();
}

/// That the end of one drain was to be reported says nothing of the next.
#[test]
fn each_drain_is_reported_to_who_asks_for_it() {
    let mut world = quiet();
    let node = &mut world.nodes[0];
    drain(node);
    assert_eq!(node.host.events, [QpEvent::SqDrained]);
    node.go(QpState::Rts);
    node.go(QpState::Sqd);
    assert!(!node.qp.is_draining());
    assert_eq!(node.host.events, [QpEvent::SqDrained]);
    node.go(QpState::Rts);
    drain(node);
    assert_eq!(node.host.events, [QpEvent::SqDrained; 2]);
}

#[test]
fn more_than_a_window_of_silence_ends_as_well() {
    let mut world = quiet();
    world.kill(1);
    world.nodes[0].post(wqe(0, SendOp::Write, 40_000, 0), vec![0; 40_000]);
    world.run();
    let sent = &world.nodes[0].host.sent;
    assert_eq!(statuses(sent), [(0, WcStatus::RetryExcErr)]);
}

#[test]
fn no_receive_ends_with_rnr_exceeded() {
    let mut world = quiet();
    let config = QpConfig {
        rnr_retry: 2,
        ..config(0)
    };
    world.nodes[0].go(QpState::Reset);
    world.nodes[0].connect(&config);
    world.nodes[1].qp.config_mut().min_rnr_timer = 14;
    world.nodes[0].post(wqe(0, SendOp::Send, 10, 0), vec![0; 10]);
    world.run();
    let sent = &world.nodes[0].host.sent;
    assert_eq!(statuses(sent), [(0, WcStatus::RnrRetryExcErr)]);
    let attempts = world.trace.iter().filter(|entry| entry.0 == 0).count();
    assert_eq!(attempts, 3);
    // Two pauses of 1.28 ms, and six times the way.
    assert_eq!(world.now, 2 * 1_280_000 + 6 * 5_000);
    assert_eq!(world.nodes[1].qp.state(), QpState::Rts);
}

#[test]
fn a_late_receive_is_waited_for() {
    let mut world = quiet();
    world.nodes[0].post(wqe(0, SendOp::Send, 700, 0), vec![7; 700]);
    for _ in 0..50 {
        world.transmit();
        world.step();
    }
    assert!(world.nodes[0].host.sent.is_empty());
    world.nodes[1].host.post_recv(700);
    world.run();
    let sent = &world.nodes[0].host.sent;
    assert_eq!(statuses(sent), [(0, WcStatus::Success)]);
    assert_eq!(world.nodes[1].host.recv_buffers[0], [7; 700]);
}

/// The answers to what came before a refused request still go out.
#[test]
fn a_refusal_comes_after_the_answers_before_it() {
    let mut world = quiet();
    world.nodes[1].host.memory[..5000].fill(9);
    world.nodes[0].post(wqe(0, SendOp::Read, 5000, 0), vec![0; 5000]);
    world.nodes[0].post(wqe(1, SendOp::FetchAdd, 8, 0), vec![0; 8]);
    let mut bad = wqe(2, SendOp::Write, 8, 0);
    bad.rkey = Key::new(0);
    world.nodes[0].post(bad, vec![0; 8]);
    world.run();
    let expected = [
        (0, WcStatus::Success),
        (1, WcStatus::Success),
        (2, WcStatus::RemAccessErr),
    ];
    assert_eq!(statuses(&world.nodes[0].host.sent), expected);
    assert_eq!(world.nodes[0].host.retired[0], [9; 5000]);
}

/// No ACK timeout ends the wait for an answer that is lost, but a peer that refuses what is behind it answers no more.
#[test]
fn a_refusal_behind_a_lost_answer_ends_the_wait() {
    let mut world = quiet();
    world.nodes[0].qp.config_mut().timeout = 0;
    world.nodes[0].post(wqe(0, SendOp::Read, 100, 0), vec![0; 100]);
    let mut bad = wqe(1, SendOp::Write, 8, 0);
    bad.rkey = Key::new(0);
    world.nodes[0].post(bad, vec![0; 8]);
    world.transmit();
    world.step();
    world.transmit();
    world.lose(|header| header.bth.opcode.operation() == Operation::ReadRespOnly);
    world.run();
    let expected = [(0, WcStatus::RetryExcErr), (1, WcStatus::WrFlushErr)];
    assert_eq!(statuses(&world.nodes[0].host.sent), expected);
}

#[test]
fn memory_that_goes_during_a_read_is_an_access_error() {
    let mut world = quiet();
    world.nodes[0].post(wqe(0, SendOp::Read, 5000, 0), vec![0; 5000]);
    world.transmit();
    world.step();
    world.nodes[1].host.memory.truncate(1000);
    world.run();
    let [requester, responder] = &world.nodes;
    assert_eq!(
        statuses(&requester.host.sent),
        [(0, WcStatus::RemAccessErr)]
    );
    assert_eq!(responder.qp.state(), QpState::Err);
    assert_eq!(responder.host.events, [QpEvent::AccessErr]);
}

#[test]
fn memory_that_goes_during_a_send_fails_it_after_what_was_before() {
    let mut world = quiet();
    let (good, buffer) = write(0);
    world.nodes[0].post(good, buffer);
    world.transmit();
    world.nodes[0].host.bad_buffers = true;
    for wr_id in 1..3 {
        let (wqe, buffer) = write(wr_id);
        world.nodes[0].post(wqe, buffer);
    }
    world.run();
    let expected = [
        (0, WcStatus::Success),
        (1, WcStatus::LocProtErr),
        (2, WcStatus::WrFlushErr),
    ];
    assert_eq!(statuses(&world.nodes[0].host.sent), expected);
}

#[test]
fn drain_ends_what_has_begun_and_begins_nothing() {
    let mut world = quiet();
    for wr_id in 0..6 {
        let (wqe, buffer) = write(wr_id);
        world.nodes[0].post(wqe, buffer);
        if wr_id == 3 {
            world.transmit();
        }
    }
    drain(&mut world.nodes[0]);
    assert!(world.nodes[0].qp.is_draining());
    let config = *world.nodes[0].qp.config();
    let node = &mut world.nodes[0];
    let again = node.modify(QpState::Sqd, AttrMask::STATE, &config);
    assert_eq!(again, Err(ModifyError::Draining));
    world.run();
    assert_eq!(world.nodes[0].host.sent.len(), 4);
    assert_eq!(world.nodes[0].host.events, [QpEvent::SqDrained]);
    assert!(!world.nodes[0].qp.is_draining());
    world.nodes[0].go(QpState::Rts);
    world.run();
    let all: Vec<_> = (0..6).map(|wr_id| (wr_id, WcStatus::Success)).collect();
    assert_eq!(statuses(&world.nodes[0].host.sent), all);
    assert_eq!(world.nodes[0].host.events.len(), 1);
}

#[test]
fn posts_in_error_are_flushed_and_in_reset_refused() {
    let mut world = quiet();
    world.nodes[0].go(QpState::Err);
    let (wqe, buffer) = write(0);
    world.nodes[0].post(wqe, buffer);
    world.transmit();
    let node = &mut world.nodes[0];
    assert_eq!(statuses(&node.host.sent), [(0, WcStatus::WrFlushErr)]);
    node.host.post_recv(10);
    assert!(!node.qp.transmitted(&mut node.host));
    assert_eq!(node.host.received.len(), 1);
    node.go(QpState::Reset);
    assert_eq!(node.qp.post_send(wqe), Err(PostError::State));
    for to in [QpState::Init, QpState::Rtr] {
        let mut other = World::new(QpType::Rc, 0, Faults::default(), 1);
        other.nodes[0].go(QpState::Reset);
        other.nodes[0].connect_to(&config(0), to);
        assert_eq!(other.nodes[0].qp.post_send(wqe), Err(PostError::State));
    }
}

#[test]
fn reset_forgets_without_a_completion_and_a_new_life_begins() {
    let mut world = quiet();
    for wr_id in 0..5 {
        let (wqe, buffer) = write(wr_id);
        world.nodes[0].post(wqe, buffer);
    }
    world.transmit();
    for (i, node) in world.nodes.iter_mut().enumerate() {
        node.go(QpState::Reset);
        assert_eq!(node.qp.next_deadline(), None);
        let psns = (node.qp.sq_psn(), node.qp.rq_psn());
        assert_eq!(psns, (Psn::default(), Psn::default()));
        node.connect(&config(i));
    }
    world.lose_all();
    world.run();
    assert!(world.nodes[0].host.sent.is_empty());
    let (wqe, buffer) = write(7);
    world.nodes[0].post(wqe, buffer);
    world.run();
    let sent = &world.nodes[0].host.sent;
    assert_eq!(statuses(sent), [(7, WcStatus::Success)]);
}

#[test]
fn a_shared_receive_queue_keeps_what_was_not_taken() {
    for begun in [false, true] {
        let mut world = quiet();
        world.nodes[1].qp.config_mut().srq = true;
        world.nodes[1].host.post_recv(1000);
        world.nodes[1].host.post_recv(1000);
        if begun {
            world.faults.longest_span = 1;
            world.nodes[0].post(wqe(0, SendOp::Send, 1000, 0), vec![0; 1000]);
            world.transmit();
            world.lose(|header| header.bth.opcode.operation() == Operation::SendLast);
            world.step();
        }
        world.nodes[1].go(QpState::Err);
        world.nodes[1].go(QpState::Err);
        let host = &world.nodes[1].host;
        assert_eq!(host.recv_queue.len(), if begun { 1 } else { 2 });
        assert_eq!(host.received.len(), usize::from(begun));
        assert_eq!(host.events, [QpEvent::LastWqeReached]);
    }
}

#[test]
fn the_first_packet_establishes_the_communication() {
    let mut world = quiet();
    let node = &mut world.nodes[1];
    node.go(QpState::Reset);
    node.connect_to(&config(1), QpState::Rtr);
    for wr_id in 0..3 {
        let (wqe, buffer) = write(wr_id);
        world.nodes[0].post(wqe, buffer);
    }
    world.run();
    assert_eq!(world.nodes[0].host.sent.len(), 3);
    assert_eq!(world.nodes[1].host.events, [QpEvent::CommEst]);
}

/// The second node is ready to receive, and no more.
fn receiving(qp_type: QpType) -> World {
    let mut world = World::new(qp_type, 1 << 16, Faults::default(), 1);
    world.nodes[1].go(QpState::Reset);
    world.nodes[1].connect_to(&config(1), QpState::Rtr);
    world
}

#[test]
fn so_does_one_that_finds_no_receive_or_is_refused() {
    let mut world = receiving(QpType::Rc);
    world.nodes[0].post(wqe(0, SendOp::Send, 100, 0), vec![0; 100]);
    world.transmit();
    world.step();
    assert_eq!(world.nodes[1].host.events, [QpEvent::CommEst]);
    world.nodes[1].host.post_recv(1000);
    world.run();
    let sent = &world.nodes[0].host.sent;
    assert_eq!(statuses(sent), [(0, WcStatus::Success)]);
    assert_eq!(world.nodes[1].host.events, [QpEvent::CommEst]);

    let mut world = receiving(QpType::Rc);
    let (mut bad, buffer) = write(0);
    bad.rkey = Key::new(0);
    world.nodes[0].post(bad, buffer);
    world.run();
    let expected = [QpEvent::CommEst, QpEvent::AccessErr];
    assert_eq!(world.nodes[1].host.events, expected);
}

#[test]
fn one_before_which_others_are_missing_does_so_if_nobody_repeats_them() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut world = receiving(qp_type);
        world.nodes[0].post(wqe(0, SendOp::Send, 100, 0), vec![0; 100]);
        world.transmit();
        world.lose(|_| true);
        world.nodes[0].post(wqe(1, SendOp::Send, 100, 0), vec![0; 100]);
        world.transmit();
        world.step();
        let established = !world.nodes[1].host.events.is_empty();
        assert_eq!(established, qp_type == QpType::Uc);
    }
}
