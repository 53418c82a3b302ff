// SPDX-License-Identifier: GPL-2.0

//! Rules of reliable connections, one by one, packet by packet.

use crate::asking::after_a_loss;
use crate::host::MEMORY_KEY;
use crate::world::{
    config,
    wqe,
    Faults,
    Node,
    World, //
};
use proto::time::{
    Duration,
    Instant, //
};
use proto::transport::{
    QpConfig,
    QpEvent,
    QpState,
    QpType,
    RxDrop,
    SendOp,
    TxLimits,
    TxSegment,
    WcOpcode,
    WcStatus, //
};
use wire::aeth::{
    NakCode,
    Syndrome, //
};
use wire::header::Header;
use wire::opcode::{
    Opcode,
    Operation,
    Service, //
};
use wire::reth::Reth;
use wire::{
    Lid,
    Mtu, //
};

const MISSING: Syndrome = Syndrome::Nak(NakCode::PsnSequenceError);

/// Two connected nodes, whose packets the test carries.
pub(crate) fn pair(tune: impl Fn(&mut QpConfig)) -> [Node; 2] {
    let mut world = World::new(QpType::Rc, 1 << 16, Faults::default(), 1);
    for (i, node) in world.nodes.iter_mut().enumerate() {
        let mut config = config(i);
        tune(&mut config);
        node.go(QpState::Reset);
        node.connect(&config);
    }
    world.nodes
}

/// Two nodes on a network, which may lose packets.
pub(crate) fn network() -> [Node; 2] {
    pair(|config| {
        config.reminder_floor = Duration::from_nanos(10_000);
        config.max_unacked = 64;
    })
}

pub(crate) fn post(node: &mut Node, wr_id: u64, op: SendOp, len: usize) {
    node.post(wqe(wr_id, op, len, 0), vec![wr_id as u8; len.max(8)]);
}

pub(crate) fn operations(packets: &[(TxSegment, Vec<u8>)]) -> Vec<Operation> {
    let headers = packets.iter().map(|(segment, _)| segment.header);
    headers
        .map(|header| header.bth.opcode.operation())
        .collect()
}

pub(crate) fn syndromes(packets: &[(TxSegment, Vec<u8>)]) -> Vec<Syndrome> {
    let headers = packets.iter().map(|(segment, _)| segment.header);
    headers
        .filter_map(|header| header.aeth)
        .map(|aeth| aeth.syndrome)
        .collect()
}

pub(crate) fn deliver(to: &mut Node, packets: &[(TxSegment, Vec<u8>)]) {
    for packet in packets {
        let _ = to.take(0, packet);
    }
}

/// Lets both send until neither does.
pub(crate) fn exchange(one: &mut Node, two: &mut Node) {
    loop {
        let packets = one.poll_all(0);
        deliver(two, &packets);
        let answers = two.poll_all(0);
        deliver(one, &answers);
        if packets.is_empty() && answers.is_empty() {
            break;
        }
    }
}

#[test]
fn a_fence_waits_for_the_reads_before_it() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 600);
    post(&mut one, 1, SendOp::Write, 10);
    let mut fenced = wqe(2, SendOp::Write, 10, 0);
    fenced.flags.fence = true;
    one.post(fenced, vec![0; 10]);
    post(&mut one, 3, SendOp::Write, 10);
    let packets = one.poll_all(0);
    let expected = [Operation::ReadRequest, Operation::WriteOnly];
    assert_eq!(operations(&packets), expected);
    deliver(&mut two, &packets);
    let answers = two.poll_all(0);
    deliver(&mut one, &answers[..2]);
    assert!(one.poll_all(0).is_empty());
    deliver(&mut one, &answers[2..]);
    assert_eq!(operations(&one.poll_all(0)), [Operation::WriteOnly; 2]);
}

/// Executes the local operation that the node has arrived at.
fn execute(node: &mut Node) -> bool {
    let Some(slot) = node.qp.local_request() else {
        return false;
    };
    let status = node.host.execute(slot);
    node.qp.local_done(slot, status, &mut node.host);
    true
}

#[test]
fn what_follows_a_local_operation_finds_it_done() {
    let [mut one, _] = pair(|_| {});
    post(&mut one, 0, SendOp::Write, 10);
    post(&mut one, 1, SendOp::RegMr, 0);
    post(&mut one, 2, SendOp::Write, 10);
    assert_eq!(operations(&one.poll_all(0)), [Operation::WriteOnly]);
    // Not executed yet: the same again.
    assert!(one.poll_all(0).is_empty());
    assert!(one.host.executed.is_empty());
    assert!(execute(&mut one));
    assert!(!execute(&mut one));
    assert_eq!(operations(&one.poll_all(0)), [Operation::WriteOnly]);
    assert!(one.host.sent.is_empty());
}

#[test]
fn a_local_operation_completes_in_its_turn_and_is_executed_once() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Write, 10);
    post(&mut one, 1, SendOp::BindMw, 0);
    post(&mut one, 2, SendOp::Write, 10);
    one.poll_all(0);
    assert!(execute(&mut one));
    one.poll_all(0);
    // Nothing of it arrived.
    let now = one.qp.next_deadline().unwrap();
    one.qp.on_timeout(now, &mut one.host);
    let packets = one.poll_all(now.nanos());
    assert_eq!(operations(&packets), [Operation::WriteOnly]);
    deliver(&mut two, &packets);
    deliver(&mut one, &two.poll_all(0));
    let wr_ids: Vec<u64> = one.host.sent.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(wr_ids, [0, 1]);
    assert_eq!(one.host.sent[1].opcode, WcOpcode::BindMw);
    assert_eq!(one.host.executed.len(), 1);
}

/// One answer does not complete a whole queue of them. Who waits for that of a message which asks for none asks.
#[test]
fn local_operations_are_not_executed_far_ahead() {
    const COUNT: usize = 4000;
    const MOST: usize = 600;
    for signaled in [false, true] {
        let [mut one, mut two] = [0, 1].map(|i| {
            let mut node = Node::with_depth(QpType::Rc, 1 << 16, 4096);
            node.connect(&config(i));
            node
        });
        let mut first = wqe(0, SendOp::Write, 10, 0);
        first.flags.signaled = false;
        one.post(first, vec![0; 10]);
        for wr_id in 1..=COUNT {
            let mut wqe = wqe(wr_id as u64, SendOp::LocalInv, 0, 0);
            wqe.flags.signaled = signaled || wr_id == COUNT;
            one.post(wqe, Vec::new());
        }
        let mut rounds = 0;
        while one.qp.progress().sends != 0 {
            let mut packets = one.poll_all(0);
            while execute(&mut one) {
                packets.extend(one.poll_all(0));
            }
            let before = one.qp.progress().sends as usize;
            deliver(&mut two, &packets);
            deliver(&mut one, &two.poll_all(0));
            assert!(before - one.qp.progress().sends as usize <= MOST);
            rounds += 1;
            assert!(rounds < 100, "nothing goes on");
        }
        assert_eq!(one.host.executed.len(), COUNT);
        assert_eq!(one.host.sent.len(), if signaled { COUNT } else { 1 });
        assert!(one.host.sent.is_sorted_by_key(|wc| wc.wr_id));
    }
}

/// A peer that was away finds all copies of a message, and is ready for none.
#[test]
fn copies_of_a_message_are_one_refusal() {
    let [mut one, mut two] = pair(|config| config.rnr_retry = 2);
    post(&mut one, 0, SendOp::Send, 10);
    let packets = one.poll_all(0);
    for _ in 0..6 {
        let _ = two.take(0, &packets[0]);
        deliver(&mut one, &two.poll_all(0));
    }
    assert!(one.host.sent.is_empty());
    assert_eq!(one.qp.progress().rnr_retries_left, 1);
    // Another one is, after the pause.
    let due = one.qp.next_deadline().unwrap();
    one.qp.on_timeout(due, &mut one.host);
    let packets = one.poll_all(due.nanos());
    let _ = two.take(0, &packets[0]);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.qp.progress().rnr_retries_left, 0);
}

#[test]
fn a_local_operation_that_fails_ends_what_follows() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Write, 10);
    let slot = one.post(wqe(1, SendOp::LocalInv, 0, 0), Vec::new());
    one.host.bad_slot = Some(slot);
    post(&mut one, 2, SendOp::Write, 10);
    let packets = one.poll_all(0);
    assert!(execute(&mut one));
    assert!(one.poll_all(0).is_empty());
    assert!(one.host.sent.is_empty());
    deliver(&mut two, &packets);
    deliver(&mut one, &two.poll_all(0));
    let statuses: Vec<WcStatus> = one.host.sent.iter().map(|wc| wc.status).collect();
    let expected = [WcStatus::Success, WcStatus::MwBindErr, WcStatus::WrFlushErr];
    assert_eq!(statuses, expected);
    assert_eq!(one.qp.state(), QpState::Err);
}

#[test]
fn a_fenced_invalidate_waits_for_all_before_it() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Write, 10);
    let mut fenced = wqe(1, SendOp::LocalInv, 0, 0);
    fenced.flags.fence = true;
    one.post(fenced, Vec::new());
    let packets = one.poll_all(0);
    assert!(!execute(&mut one));
    deliver(&mut two, &packets);
    deliver(&mut one, &two.poll_all(0));
    one.poll_all(0);
    assert!(execute(&mut one));
    assert_eq!(one.host.sent.len(), 2);
}

/// A message that invalidates a key waits while that is in use, and is taken once. The peer hears of it when it has
/// been taken.
#[test]
fn a_key_in_use_is_waited_for() {
    let [mut one, mut two] = pair(|_| {});
    two.host.post_recv(10);
    two.host.busy = 3;
    post(&mut one, 0, SendOp::SendInv, 10);
    let packets = one.poll_all(0);
    assert_eq!(two.take(0, &packets[0]), Err(RxDrop::Busy));
    assert!(two.defer(&packets[0]));
    for _ in 0..2 {
        assert_eq!(two.take(0, &packets[0]), Err(RxDrop::Busy));
        assert!(two.poll_all(0).is_empty());
        assert!(two.host.received.is_empty());
    }
    assert_eq!(two.take(0, &packets[0]), Ok(()));
    two.qp.resume(Instant::from_nanos(0));
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(two.host.received.len(), 1);
    assert_eq!(two.host.invalidated.len(), 1);
    assert_eq!(one.host.sent[0].status, WcStatus::Success);
}

/// Two nodes, of which the second has still to answer a READ, and the message that waits for that, as it takes the key away.
pub(crate) fn key_in_use() -> ([Node; 2], (TxSegment, Vec<u8>)) {
    let [mut one, mut two] = pair(|_| {});
    // The peer has to have said that there are receives.
    for _ in 0..3 {
        two.host.post_recv(10);
    }
    post(&mut one, 0, SendOp::Send, 10);
    deliver(&mut two, &one.poll_all(0));
    deliver(&mut one, &two.poll_all(0));
    post(&mut one, 0, SendOp::Read, 10);
    let mut send = wqe(1, SendOp::SendInv, 10, 0);
    send.imm = MEMORY_KEY.get();
    one.post(send, vec![1; 10]);
    let packets = one.poll_all(0);
    assert_eq!(two.take(0, &packets[0]), Ok(()));
    assert_eq!(two.take(0, &packets[1]), Err(RxDrop::Busy));
    assert!(two.defer(&packets[1]));
    let message = packets[1].clone();
    ([one, two], message)
}

#[test]
fn a_key_is_invalidated_after_the_answers_before_it() {
    let ([mut one, mut two], message) = key_in_use();
    assert!(two.host.invalidated.is_empty());
    let answers = two.poll_all(0);
    assert_eq!(operations(&answers), [Operation::ReadRespOnly]);
    deliver(&mut one, &answers);
    assert_eq!(two.take(0, &message), Ok(()));
    two.qp.resume(Instant::from_nanos(0));
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(two.host.invalidated, [MEMORY_KEY]);
    assert_eq!(two.host.received.len(), 2);
    // Another key does not wait.
    post(&mut one, 0, SendOp::Read, 10);
    post(&mut one, 1, SendOp::SendInv, 10);
    deliver(&mut two, &one.poll_all(0));
    assert_eq!(two.host.received.len(), 3);
}

#[test]
fn reads_and_atomics_wait_for_their_turn() {
    let [mut one, mut two] = pair(|config| config.max_rd_atomic = 2);
    for wr_id in 0..4 {
        post(&mut one, wr_id, SendOp::FetchAdd, 8);
    }
    let packets = one.poll_all(0);
    assert_eq!(packets.len(), 2);
    deliver(&mut two, &packets);
    let answers = two.poll_all(0);
    deliver(&mut one, &answers[..1]);
    assert_eq!(one.poll_all(0).len(), 1);
}

#[test]
fn fewer_reads_are_under_way_after_silence() {
    let [mut one, mut two] = pair(|_| {});
    for wr_id in 0..12 {
        post(&mut one, wr_id, SendOp::Read, 10);
    }
    assert_eq!(one.poll_all(0).len(), 4);
    let now = one.qp.next_deadline().unwrap();
    one.qp.on_timeout(now, &mut one.host);
    for under_way in [1, 2, 4, 4, 1] {
        let requests = one.poll_all(now.nanos());
        assert_eq!(requests.len(), under_way);
        deliver(&mut two, &requests);
        deliver(&mut one, &two.poll_all(0));
    }
    assert_eq!(one.host.sent.len(), 12);
}

#[test]
fn one_ack_answers_a_burst() {
    let [mut one, mut two] = pair(|_| {});
    for wr_id in 0..10 {
        post(&mut one, wr_id, SendOp::Write, 10);
    }
    let packets = one.poll_all(0);
    deliver(&mut two, &packets);
    let acks = two.poll_all(0);
    assert_eq!(operations(&acks), [Operation::Ack]);
    assert_eq!(acks[0].0.header.aeth.unwrap().msn, 10);
    deliver(&mut one, &acks);
    assert_eq!(one.host.sent.len(), 10);
}

#[test]
fn an_answer_is_an_ack() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Write, 10);
    post(&mut one, 1, SendOp::Read, 10);
    deliver(&mut two, &one.poll_all(0));
    let answers = two.poll_all(0);
    assert_eq!(operations(&answers), [Operation::ReadRespOnly]);
    deliver(&mut one, &answers);
    assert_eq!(one.host.sent.len(), 2);
}

#[test]
fn an_ack_goes_after_the_answers_before_it() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 600);
    post(&mut one, 1, SendOp::Write, 10);
    deliver(&mut two, &one.poll_all(0));
    let expected = [
        Operation::ReadRespFirst,
        Operation::ReadRespMiddle,
        Operation::ReadRespLast,
        Operation::Ack,
    ];
    assert_eq!(operations(&two.poll_all(0)), expected);
}

#[test]
fn a_later_response_tells_that_an_answer_was_lost() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 600);
    post(&mut one, 1, SendOp::Write, 10);
    deliver(&mut two, &one.poll_all(0));
    let answers = two.poll_all(0);
    // The middle of the answer is lost, and the rest tells so twice.
    deliver(&mut one, &answers[..1]);
    assert_eq!(one.take(0, &answers[2]), Err(RxDrop::OutOfSequence));
    let again = one.poll_all(0);
    assert_eq!(
        operations(&again),
        [Operation::ReadRequest, Operation::WriteOnly]
    );
    assert_eq!(again[0].0.header.reth.unwrap().dma_len, 600 - 256);
    deliver(&mut one, &answers[3..]);
    assert!(one.poll_all(0).is_empty());
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 2);
}

#[test]
fn an_ack_tells_that_an_answer_was_lost() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 10);
    post(&mut one, 1, SendOp::Write, 10);
    deliver(&mut two, &one.poll_all(0));
    deliver(&mut one, &two.poll_all(0)[1..]);
    assert!(one.host.sent.is_empty());
    let again = one.poll_all(0);
    assert_eq!(
        operations(&again),
        [Operation::ReadRequest, Operation::WriteOnly]
    );
    deliver(&mut two, &again);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 2);
}

/// A packet is late, and comes before the NAK of what was thrown away meanwhile has left.
#[test]
fn what_was_thrown_away_is_asked_for_although_the_gap_has_closed() {
    for late in [SendOp::Write, SendOp::Read] {
        let [mut one, mut two] = pair(|_| {});
        for (wr_id, op) in [(0, SendOp::Write), (1, late), (2, SendOp::Write)] {
            post(&mut one, wr_id, op, 10);
        }
        let mut packets = one.poll_all(0);
        packets[1].0.header.bth.ack_req = false;
        packets.swap(1, 2);
        deliver(&mut two, &packets);
        let answers = two.poll_all(0);
        assert_eq!(syndromes(&answers).last(), Some(&MISSING));
        deliver(&mut one, &answers);
        assert_eq!(one.host.sent.len(), 2);
        deliver(&mut two, &one.poll_all(0));
        deliver(&mut one, &two.poll_all(0));
        assert_eq!(one.host.sent.len(), 3);
    }
}

#[test]
fn an_echo_of_a_nak_is_not_charged() {
    let [mut one, mut two] = pair(|config| config.retry_cnt = 1);
    for wr_id in 0..3 {
        post(&mut one, wr_id, SendOp::Write, 10);
    }
    let packets = one.poll_all(0);
    deliver(&mut two, &packets[1..]);
    let nak = two.poll_all(0);
    assert_eq!(syndromes(&nak), [MISSING]);
    for _ in 0..5 {
        deliver(&mut one, &nak);
    }
    assert!(one.host.sent.is_empty());
    deliver(&mut two, &one.poll_all(0));
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 3);
}

#[test]
fn a_peer_that_is_not_ready_says_no_more_than_that() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Send, 600);
    post(&mut one, 1, SendOp::Write, 10);
    deliver(&mut two, &one.poll_all(0));
    assert_eq!(syndromes(&two.poll_all(0)), [Syndrome::Rnr { timer: 1 }]);
}

#[test]
fn a_peer_that_is_not_ready_is_not_silent() {
    let [mut one, mut two] = pair(|config| config.retry_cnt = 1);
    post(&mut one, 0, SendOp::Send, 10);
    let mut now = 0;
    // Alternately, the request is lost and the peer is not ready. It would be given up after two losses.
    for round in 0..10 {
        let packets = one.poll_all(now);
        assert_eq!(packets.len(), 1);
        if round % 2 == 0 {
            deliver(&mut two, &packets);
            let _ = one.take(now, &two.poll_all(now)[0]);
        }
        now = one.qp.next_deadline().unwrap().nanos();
        one.qp.on_timeout(Instant::from_nanos(now), &mut one.host);
    }
    assert!(one.host.sent.is_empty());
}

/// A request that is neither new nor all known: the peer must be told, even if it was before.
#[test]
fn a_segment_that_is_known_in_part_is_refused_each_time() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Write, 3 * 256);
    let packets = one.poll_all(0);
    deliver(&mut two, &packets[..1]);
    let mut whole = packets[0].0.header;
    whole.bth.opcode = Opcode::new(Service::Rc, Operation::WriteOnly).unwrap();
    for _ in 0..2 {
        let result = two.take_segment(0, &whole, 3, &[0; 3 * 256]);
        assert_eq!(result, Err(RxDrop::Duplicate));
        assert_eq!(syndromes(&two.poll_all(0)), [MISSING]);
    }
}

/// An answer that is being given again does not stand for an operation of its own.
#[test]
fn a_replay_does_not_count_as_outstanding() {
    let [mut one, mut two] = pair(|config| config.max_dest_rd_atomic = 1);
    post(&mut one, 0, SendOp::Read, 600);
    let request = one.poll_all(0);
    deliver(&mut two, &request);
    deliver(&mut one, &two.poll_all(0));
    assert_eq!(one.host.sent.len(), 1);
    deliver(&mut two, &request);
    post(&mut one, 1, SendOp::Read, 10);
    deliver(&mut two, &one.poll_all(0));
    let answers = two.poll_all(0);
    assert_eq!(operations(&answers), [Operation::ReadRespOnly]);
    assert_eq!(two.qp.state(), QpState::Rts);
}

#[test]
fn more_operations_than_agreed_are_refused() {
    let [mut one, mut two] = pair(|_| {});
    two.qp.config_mut().max_dest_rd_atomic = 1;
    post(&mut one, 0, SendOp::Read, 10);
    post(&mut one, 1, SendOp::Read, 10);
    deliver(&mut two, &one.poll_all(0));
    deliver(&mut one, &two.poll_all(0));
    let statuses: Vec<_> = one.host.sent.iter().map(|wc| wc.status).collect();
    assert_eq!(statuses, [WcStatus::Success, WcStatus::RemInvReqErr]);
    assert_eq!(two.host.events, [QpEvent::ReqErr]);
}

#[test]
fn a_queue_pair_in_error_says_nothing() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Read, 600);
    deliver(&mut two, &one.poll_all(0));
    // While the answer is due, a work request of the peer's own fails.
    let mut bad = wqe(0, SendOp::Write, 10, 0);
    bad.fault = Some(WcStatus::LocQpOpErr);
    two.post(bad, Vec::new());
    assert!(!two.qp.transmitted(&mut two.host));
    while two.qp.state() != QpState::Err {
        two.poll(0).unwrap();
        assert!(!two.qp.transmitted(&mut two.host));
    }
    assert!(two.poll_all(0).is_empty());
}

/// Requests that break the rules for lengths and sequence, each after a good SEND First.
#[test]
fn nonsense_is_refused() {
    let full = &[0; 256][..];
    let short = &[0; 255][..];
    let long = &[0; 257][..];
    for (begun, operation, span, payload, dma_len) in [
        (false, Operation::SendMiddle, 1, full, None),
        (false, Operation::SendLast, 1, full, None),
        (false, Operation::WriteMiddle, 1, full, None),
        (false, Operation::SendFirst, 1, short, None),
        (false, Operation::SendFirst, 1, long, None),
        (false, Operation::SendOnly, 1, long, None),
        (false, Operation::SendOnly, 2, full, None),
        (false, Operation::WriteFirst, 1, full, Some(256)),
        (false, Operation::WriteFirst, 1, full, Some(u32::MAX)),
        (false, Operation::WriteOnly, 1, full, Some(255)),
        (false, Operation::WriteOnly, 1, full, Some(257)),
        (false, Operation::WriteOnly, 1, full, None),
        (false, Operation::ReadRequest, 1, &[][..], Some(u32::MAX)),
        (false, Operation::ReadRequest, 1, &[][..], None),
        (false, Operation::FetchAdd, 1, &[][..], None),
        (true, Operation::SendFirst, 1, full, None),
        (true, Operation::SendOnly, 1, full, None),
        (true, Operation::SendMiddle, 1, short, None),
        (true, Operation::SendLast, 1, &[][..], None),
        (true, Operation::WriteLast, 1, full, None),
        (true, Operation::WriteOnly, 1, full, Some(256)),
        (true, Operation::ReadRequest, 1, &[][..], Some(1)),
    ] {
        let [mut one, mut two] = pair(|_| {});
        two.host.post_recv(1000);
        post(&mut one, 0, SendOp::Send, 600);
        let (first, payload_of_first) = one.poll(0).unwrap();
        if begun {
            two.take(0, &(first, payload_of_first)).unwrap();
        }
        let mut header = Header {
            reth: dma_len.map(|dma_len| Reth {
                va: wqe(0, SendOp::Write, 0, 0).remote_va,
                rkey: crate::host::MEMORY_KEY,
                dma_len,
            }),
            ..first.header
        };
        header.bth.opcode = Opcode::new(Service::Rc, operation).unwrap();
        header.bth.psn = two.qp.rq_psn();
        let result = two.take_segment(0, &header, span, payload);
        let case = (begun, operation, span, payload.len(), dma_len);
        assert_eq!(result, Err(RxDrop::Refused), "{case:?}");
        assert_eq!(two.qp.state(), QpState::Err, "{case:?}");
        // A SEND that has begun has a receive to complete.
        let (events, status) = match begun {
            true => (&[][..], WcStatus::RemInvReqErr),
            false => (&[QpEvent::ReqErr][..], WcStatus::WrFlushErr),
        };
        assert_eq!(two.host.events, events, "{case:?}");
        let replies = two.poll_all(0);
        let expected = Syndrome::Nak(NakCode::InvalidRequest);
        assert_eq!(syndromes(&replies), [expected], "{case:?}");
        let received: Vec<_> = two.host.received.iter().map(|(_, wc)| wc.status).collect();
        assert_eq!(received, [status], "{case:?}");
    }
}

/// Responses that make no sense fail the work request, or are dropped; they never touch memory.
#[test]
fn nonsense_in_answers_is_refused() {
    for (operation, span, len) in [
        (Operation::ReadRespFirst, 1, 255),
        (Operation::ReadRespFirst, 2, 256),
        (Operation::ReadRespLast, 3, 599),
        (Operation::ReadRespLast, 3, 601),
        (Operation::ReadRespOnly, 4, 1024),
        (Operation::ReadRespOnly, 0, 0),
        (Operation::AtomicAck, 1, 0),
    ] {
        let [mut one, mut two] = pair(|_| {});
        post(&mut one, 0, SendOp::Read, 600);
        deliver(&mut two, &one.poll_all(0));
        let (mut answer, _) = two.poll(0).unwrap();
        answer.header.bth.opcode = Opcode::new(Service::Rc, operation).unwrap();
        answer.header.atomic_ack = Some(Default::default());
        let _ = one.take_segment(0, &answer.header, span, &vec![1; len]);
        let statuses: Vec<_> = one.host.sent.iter().map(|wc| wc.status).collect();
        assert_eq!(
            statuses,
            [WcStatus::BadRespErr],
            "{operation:?} {span} {len}"
        );
        assert_eq!(one.host.retired[0], vec![0; 600]);
    }
}

/// A READ that was asked for in part is answered in whole: PSNs that were never sent would pass for acknowledged.
#[test]
fn an_answer_to_more_than_was_asked_is_refused() {
    let [mut one, mut two] = after_a_loss();
    let len = 20 * one.qp.config().mtu.bytes();
    one.post(wqe(1, SendOp::Read, len, 0), vec![0; len]);
    let requests = one.poll_all(0);
    assert_eq!(operations(&requests), [Operation::ReadRequest]);
    let asked = requests[0].0.header.reth.unwrap().dma_len as usize;
    assert!(asked < len);
    deliver(&mut two, &requests);
    let mut answer = two.poll(0).unwrap().0;
    answer.header.bth.opcode = Opcode::new(Service::Rc, Operation::ReadRespOnly).unwrap();
    let _ = one.take_segment(0, &answer.header, 20, &vec![1; len]);
    assert_eq!(one.host.sent.last().unwrap().status, WcStatus::BadRespErr);
    assert_eq!(one.host.retired[1], vec![0; len]);
}

#[test]
fn responses_to_nothing_are_dropped() {
    let [mut one, mut two] = pair(|_| {});
    post(&mut one, 0, SendOp::Write, 10);
    deliver(&mut two, &one.poll_all(0));
    let ack = two.poll_all(0).remove(0);
    assert_eq!(one.take(0, &ack), Ok(()));
    assert_eq!(one.take(0, &ack), Err(RxDrop::Stale));
    let mut early = ack;
    early.0.header.bth.psn = early.0.header.bth.psn.add(1);
    assert_eq!(one.take(0, &early), Err(RxDrop::Stale));
    assert_eq!(one.host.sent.len(), 1);
}

#[test]
fn nobody_sends_from_the_lid_of_another_port() {
    let base = Lid::new(0x40);
    for (lmc, slid) in [(0, 0x40), (2, 0x41), (5, 0x55), (7, 0x55)] {
        let [mut one, _] = pair(|config| config.path.src_path_bits = 0xd5);
        post(&mut one, 0, SendOp::Write, 10);
        let limits = TxLimits {
            max_payload: 1024,
            lid: base,
            lmc,
            mtu: Mtu::B1024,
        };
        let segment = one.qp.poll_transmit(Instant::from_nanos(0), &limits);
        assert_eq!(segment.unwrap().header.lrh.slid, Lid::new(slid), "{lmc}");
    }
}
