// SPDX-License-Identifier: GPL-2.0

//! Packets and work requests that nobody in his right mind would send, in every state: nothing panics, nothing
//! leaves its buffer, and every work request still ends once and in order.

use crate::host::{
    Host,
    MEMORY_BASE,
    MEMORY_KEY, //
};
use crate::ledger::audit;
use crate::migration::alternate;
use crate::world::{
    config,
    lid,
    mask,
    wqe,
    Dice,
    Faults,
    Node,
    World,
    ALTERNATE,
    PRIMARY, //
};
use proptest::prelude::*;
use proto::time::{
    Duration,
    Instant, //
};
use proto::transport::{
    MigState,
    QpState,
    QpType,
    SendOp,
    SendWqe,
    Wc,
    WcStatus, //
};
use wire::aeth::{
    Aeth,
    NakCode,
    Syndrome, //
};
use wire::atomic::{
    AtomicAckEth,
    AtomicEth, //
};
use wire::deth::Deth;
use wire::feth::Feth;
use wire::header::Header;
use wire::ieth::Ieth;
use wire::imm::ImmDt;
use wire::opcode::{
    Opcode,
    Operation, //
};
use wire::reth::Reth;
use wire::{
    Key,
    Lid,
    Psn,
    QKey,
    Qpn,
    Vl, //
};

/// A number that is often at an edge.
fn number(dice: &mut Dice) -> u32 {
    match dice.below(8) {
        0 => 0,
        1 => u32::MAX,
        2 => 1 << 31,
        3 => (1 << 31) + 1,
        4 => 256,
        5 => dice.below(1 << 24) as u32,
        _ => dice.below(1000) as u32,
    }
}

fn key(dice: &mut Dice) -> Key {
    if dice.percent(80) {
        MEMORY_KEY
    } else {
        Key::new(number(dice))
    }
}

fn address(dice: &mut Dice) -> u64 {
    match dice.below(8) {
        0 => u64::MAX - dice.below(300),
        1 => 0,
        _ => MEMORY_BASE + dice.below(2000),
    }
}

fn some<T>(dice: &mut Dice, value: T) -> Option<T> {
    dice.percent(80).then_some(value)
}

fn syndrome(dice: &mut Dice) -> Syndrome {
    match dice.below(8) {
        0 => Syndrome::Rnr {
            timer: dice.below(32) as u8,
        },
        1 => Syndrome::Nak(NakCode::PsnSequenceError),
        2 if dice.percent(20) => Syndrome::Nak(NakCode::InvalidRdRequest),
        3 if dice.percent(20) => Syndrome::Nak(NakCode::RemoteAccessError),
        _ => Syndrome::Ack {
            credits: dice.below(32) as u8,
        },
    }
}

/// A packet that passes for the peer's, and has a PSN near to one that is awaited.
fn packet(dice: &mut Dice, world: &World, to: usize) -> Header {
    let config = config(to);
    let qp = &world.nodes[to].qp;
    let near = if dice.percent(50) {
        qp.rq_psn()
    } else {
        qp.sq_psn()
    };
    let mut header = Header::default();
    // By one of the paths as a rule.
    let by = if dice.percent(85) { PRIMARY } else { ALTERNATE };
    header.lrh.slid = lid(1 - to, by);
    header.lrh.dlid = if dice.percent(95) {
        lid(to, by)
    } else {
        Lid::new(number(dice) as u16)
    };
    header.bth.migreq = dice.percent(20);
    header.lrh.vl = Vl::new(if dice.percent(90) { 0 } else { 15 });
    header.bth.opcode = loop {
        let service = match qp.qp_type() {
            _ if dice.percent(10) => dice.below(8) as u8 * 32,
            QpType::Rc => 0x00,
            QpType::Uc => 0x20,
            _ => 0x60,
        };
        if let Some(opcode) = Opcode::from_byte(service | dice.below(32) as u8) {
            break opcode;
        }
    };
    header.bth.pkey = config.pkey;
    header.bth.ack_req = dice.percent(50);
    header.bth.psn = match dice.below(4) {
        0 => Psn::new(number(dice)),
        1 => near.back(dice.below(20) as u32),
        2 => near.add(dice.below(20) as u32),
        _ => near,
    };
    // The extensions of the opcode as a rule, which is all that a parser lets through, but not always.
    header.deth = some(
        dice,
        Deth {
            qkey: QKey::new(0x1111),
            src_qp: Qpn::new(1),
        },
    );
    let reth = Reth {
        va: address(dice),
        rkey: key(dice),
        dma_len: number(dice),
    };
    header.reth = some(dice, reth).filter(|_| header.bth.opcode.has_reth());
    let aeth = Aeth {
        syndrome: syndrome(dice),
        msn: number(dice),
    };
    header.aeth = some(dice, aeth);
    let atomic = AtomicEth {
        va: address(dice),
        rkey: key(dice),
        swap_add: 1,
        compare: 2,
    };
    header.atomic = some(dice, atomic);
    header.atomic_ack = some(dice, AtomicAckEth { original: 1 });
    header.imm = some(dice, ImmDt::from_u32(1)).filter(|_| header.bth.opcode.has_imm());
    let ieth = Ieth { rkey: key(dice) };
    let feth = Feth {
        selectivity: dice.below(4) as u8,
        placement: dice.below(16) as u8,
    };
    header.feth = some(dice, feth).filter(|_| header.bth.opcode.has_feth());
    header.ieth = some(dice, ieth).filter(|_| header.bth.opcode.has_ieth());
    header
}

const OPS: [SendOp; 13] = [
    SendOp::Send,
    SendOp::SendImm,
    SendOp::SendInv,
    SendOp::Write,
    SendOp::WriteImm,
    SendOp::Read,
    SendOp::CompareSwap,
    SendOp::FetchAdd,
    SendOp::AtomicWrite,
    SendOp::Flush,
    SendOp::LocalInv,
    SendOp::BindMw,
    SendOp::RegMr,
];

/// A work request of any kind, about which the driver has checked nothing.
fn request(dice: &mut Dice, wr_id: u64) -> SendWqe {
    let op = OPS[dice.below(OPS.len() as u64) as usize];
    let mut request = wqe(wr_id, op, 0, 0);
    request.length = number(dice);
    request.remote_va = address(dice);
    request.rkey = key(dice);
    request.flags.fence = dice.percent(20);
    request.flags.signaled = dice.percent(50);
    request.ud = some(dice, Default::default());
    request
}

/// Whether a queue pair takes no packet in this state.
fn is_deaf(state: QpState) -> bool {
    matches!(state, QpState::Reset | QpState::Init | QpState::Err)
}

/// What a packet may change of a node.
fn traces(world: &World, node: usize) -> (QpState, bool, Vec<u8>, [usize; 4]) {
    let node = &world.nodes[node];
    let counts = [
        node.host.received.len(),
        node.host.sent.len(),
        node.host.events.len(),
        node.host.recv_queue.len(),
    ];
    let has_output = node.qp.has_output();
    (
        node.qp.state(),
        has_output,
        node.host.memory.clone(),
        counts,
    )
}

/// Has a packet come that somebody forged; one that nobody hears changes nothing.
fn forge(world: &mut World, node: usize, dice: &mut Dice) {
    let header = packet(dice, world, node);
    let opcode = header.bth.opcode;
    // As a rule the payload is one that goes with the opcode.
    let len = match opcode.operation() {
        _ if dice.percent(10) => number(dice).min(4096),
        Operation::AtomicWrite => 8,
        _ if !opcode.has_payload() => 0,
        _ if opcode.ends() => dice.below(257) as u32,
        _ => 256,
    } as usize;
    let span = if dice.percent(70) {
        config(node).mtu.packets(len as u32)
    } else {
        number(dice)
    };
    let deaf = is_deaf(world.nodes[node].qp.state()).then(|| traces(world, node));
    world.inject(node, header, span, vec![2; len]);
    if let Some(before) = deaf {
        assert!(traces(world, node) == before);
    }
}

/// Has a queue pair go to a state, if there is a way. What was posted to one that is reset is forgotten.
fn wander(world: &mut World, node: usize, to: QpState, posted: &mut Vec<bool>) {
    let end = &mut world.nodes[node];
    let mask = mask(end.qp.qp_type(), to);
    if end.modify(to, mask, &config(node)).is_ok() && to == QpState::Reset {
        posted.clear();
        end.host.retired.clear();
        end.host.sent.clear();
        end.host.received.clear();
        end.host.recv_queue.clear();
        end.host.recv_buffers.clear();
        assert_eq!(end.qp.next_deadline(), None);
    }
}

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Sqe,
    QpState::Err,
];

/// Gives a node attributes of its own; a connection may have an alternate path.
fn vary(node: &mut Node, number: usize, dice: &mut Dice) {
    let is_connection = !node.qp.qp_type().is_datagram();
    let config = node.qp.config_mut();
    config.reminder_floor = Duration::from_nanos(10_000 * dice.below(2));
    config.srq = dice.percent(30);
    config.probes = dice.percent(50);
    config.rnr_retry = dice.below(8) as u8;
    config.max_unacked = 1 + dice.below(40) as u32;
    config.follow_unarmed = dice.percent(50);
    if is_connection && dice.percent(50) {
        config.alternate = Some(alternate(number, ALTERNATE));
        config.mig_state = [MigState::Rearm, MigState::Armed][dice.below(2) as usize];
    }
    node.host.busy = dice.below(3) as u32;
    node.host.busy_again = dice.below(3) as u32;
}

/// What is always true of a queue pair that has sent all it may.
fn check(node: &Node) {
    let progress = node.qp.progress();
    let sent = progress.sent_end.sub(progress.acked);
    assert!(progress.fetches <= progress.begun && progress.begun <= progress.sends);
    assert!(sent <= node.qp.sq_psn().sub(progress.acked) && sent <= Psn::WINDOW);
    // Work that nothing would go on with would never end.
    let goes_on = node.qp.has_output() || node.qp.next_deadline().is_some() || node.waits();
    let is_at_work = node.qp.state() == QpState::Rts && progress.sends != 0;
    assert!(goes_on || !is_at_work || node.qp.qp_type() != QpType::Rc);
}

/// Whether all that was posted has ended once and in order, whatever became of it: an unreliable service goes on after
/// an error.
fn ends_in_order(host: &Host, posted: &[bool]) {
    let sends: Vec<u64> = host.sent.iter().map(|wc| wc.wr_id).collect();
    let recvs: Vec<u32> = host.received.iter().map(|(slot, _)| slot.0).collect();
    assert!(sends.is_sorted_by(|a, b| a < b) && recvs.is_sorted_by(|a, b| a < b));
    let is_good = |wc: &Wc| wc.status == WcStatus::Success;
    for (number, &signaled) in posted.iter().enumerate() {
        let ended = sends.binary_search(&(number as u64));
        assert!(match ended {
            Ok(at) => signaled || !is_good(&host.sent[at]),
            Err(_) => !signaled,
        });
    }
    assert_eq!(recvs.len() + host.recv_queue.len(), host.recv_buffers.len());
}

/// Goes on until the work of both nodes has ended; they change their states so often.
fn storm(qp_type: QpType, seed: u64, steps: u32, packet_percent: u8, wander_percent: u8) {
    let faults = Faults {
        longest_span: 4,
        drop_percent: 5,
        absent_percent: 10,
        away_percent: 5,
        away_nanos: 20_000,
        ..Faults::default()
    };
    let mut world = World::new(qp_type, 1 << 12, faults, seed);
    let mut dice = Dice::new(seed ^ 0x5555);
    for node in 0..2 {
        vary(&mut world.nodes[node], node, &mut dice);
    }
    let mut posted = [Vec::new(), Vec::new()];
    for _ in 0..steps {
        for (node, posted) in posted.iter_mut().enumerate() {
            let state = world.nodes[node].qp.state();
            if state.takes_sends() && dice.percent(30) && world.nodes[node].qp.send_space() > 0 {
                let request = request(&mut dice, posted.len() as u64);
                posted.push(request.flags.signaled);
                // Some buffers are shorter than their message.
                let len = dice.below(u64::from(request.length.min(3000)) + 9) as usize;
                world.nodes[node].post(request, vec![1; len.max(8)]);
            }
            if state != QpState::Reset && dice.percent(30) {
                let node = &mut world.nodes[node];
                node.host.post_recv(dice.below(2000) as u32);
                node.flush();
            }
            if dice.percent(packet_percent) {
                forge(&mut world, node, &mut dice);
            }
            if dice.percent(1) {
                let now = Instant::from_nanos(world.now + 1_000_000_000);
                let node = &mut world.nodes[node];
                node.qp.on_timeout(now, &mut node.host);
            }
            if dice.percent(10) && world.nodes[node].qp.state() == QpState::Sqe {
                world.nodes[node].flush();
                world.nodes[node].go(QpState::Rts);
            }
            if dice.percent(wander_percent) {
                let to = STATES[dice.below(STATES.len() as u64) as usize];
                wander(&mut world, node, to, posted);
            }
        }
        world.transmit();
        for node in &world.nodes {
            check(node);
        }
        world.step();
    }
    for (node, posted) in posted.iter().enumerate() {
        let end = &mut world.nodes[node];
        if end.qp.state() == QpState::Reset {
            continue;
        }
        end.qp.to_error(&mut end.host);
        assert!(!end.qp.transmitted(&mut end.host));
        assert_eq!(end.qp.next_deadline(), None);
        assert_eq!(end.host.retired.len(), posted.len());
        ends_in_order(&end.host, posted);
        // What a shared queue still has is not flushed.
        if qp_type == QpType::Rc && !end.qp.config().srq {
            audit(&world, node, posted);
        }
    }
}

/// Any type of queue pair.
fn any_type() -> impl Strategy<Value = QpType> {
    prop_oneof![
        Just(QpType::Rc),
        Just(QpType::Uc),
        Just(QpType::Ud),
        Just(QpType::Smi),
        Just(QpType::Gsi)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_comes_does_harm(
        qp_type in any_type(),
        seed in any::<u64>(),
        steps in 1..150u32,
        packet_percent in 1..50u8,
    ) {
        storm(qp_type, seed, steps, packet_percent, 0);
    }

    #[test]
    fn nothing_that_comes_in_any_state_does_harm(
        qp_type in any_type(),
        seed in any::<u64>(),
        steps in 1..150u32,
        packet_percent in 1..50u8,
        wander_percent in 1..30u8,
    ) {
        storm(qp_type, seed, steps, packet_percent, wander_percent);
    }
}
