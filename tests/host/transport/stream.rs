// SPDX-License-Identifier: GPL-2.0

//! Streams of work requests on reliable connections: whatever the link does, the data arrive whole, once and
//! in order, and each work request completes once and in order.

use crate::migration;
use crate::world::{
    config,
    wqe,
    Faults,
    Node,
    World,
    ALTERNATE,
    PRIMARY, //
};
use proptest::collection::vec;
use proptest::prelude::*;
use proto::time::Duration;
use proto::transport::{
    AttrMask,
    MigState,
    QpConfig,
    QpEvent,
    QpState,
    QpType,
    SendOp,
    SendWqe,
    WcOpcode,
    WcStatus, //
};
use wire::Key;

/// A work request to come.
#[derive(Clone, Debug)]
struct Order {
    op: SendOp,
    len: usize,
    signaled: bool,
    fence: bool,
}

const COUNTER: usize = 8;
const LONGEST: usize = 5000;
/// Bytes of a FLUSH at most.
const FLUSHED: usize = 16;

fn order() -> impl Strategy<Value = Order> {
    let op = prop_oneof![
        Just(SendOp::Send),
        Just(SendOp::SendImm),
        Just(SendOp::SendInv),
        Just(SendOp::Write),
        Just(SendOp::WriteImm),
        Just(SendOp::Read),
        Just(SendOp::FetchAdd),
        Just(SendOp::CompareSwap),
        Just(SendOp::AtomicWrite),
        Just(SendOp::Flush),
        Just(SendOp::LocalInv),
        Just(SendOp::BindMw),
        Just(SendOp::RegMr),
    ];
    let len = prop_oneof![Just(0), 0..LONGEST, Just(256), Just(1024), Just(257)];
    (op, len, any::<bool>(), any::<bool>()).prop_map(|(op, len, signaled, fence)| Order {
        op,
        len,
        signaled,
        fence,
    })
}

/// How long memory stays away: no time, less than a round trip, longer than all patience of the peer.
fn away() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(3_000), Just(20_000_000)]
}

fn faults() -> impl Strategy<Value = Faults> {
    let stalls = prop_oneof![Just(0), 0..20u8];
    (
        (0..5u8, 0..8u8, 0..30u8, 0..100u8, 0..40u8),
        away(),
        1..12u32,
        stalls,
    )
        .prop_map(
            |(
                (drop_percent, duplicate_percent, reorder_percent, cut_percent, absent_percent),
                away_nanos,
                longest_span,
                stall_percent,
            )| Faults {
                drop_percent,
                duplicate_percent,
                reorder_percent,
                cut_percent,
                absent_percent,
                away_percent: 5,
                away_nanos,
                longest_span,
                pace_nanos: 0,
                stall_percent,
            },
        )
}

/// The bytes of a message.
fn bytes(node: usize, number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 7 + i / 256 * 13 + number * 31 + node * 101) as u8)
        .collect()
}

/// Where in the peer's memory work request `number` reads or writes.
fn region(number: usize) -> usize {
    COUNTER + number * LONGEST
}

fn needs_recv(op: SendOp) -> bool {
    matches!(
        op,
        SendOp::Send | SendOp::SendImm | SendOp::SendInv | SendOp::WriteImm
    )
}

fn is_write(op: SendOp) -> bool {
    matches!(op, SendOp::Write | SendOp::WriteImm)
}

/// The work request for an order, and its buffer. A FLUSH names the first bytes of what the work request before
/// it named.
fn request(node: usize, number: usize, order: &Order) -> (SendWqe, Vec<u8>) {
    let atomic = order.op.is_atomic();
    let (len, at) = match order.op {
        _ if atomic => (8, 0),
        SendOp::AtomicWrite => (8, region(number)),
        op if op.is_local() => (0, 0),
        SendOp::Flush => (order.len.min(FLUSHED), region(number.saturating_sub(1))),
        _ => (order.len, region(number)),
    };
    let mut wqe = wqe(number as u64, order.op, len, at);
    wqe.flags.signaled = order.signaled;
    wqe.flags.fence = order.fence;
    match order.op {
        SendOp::FetchAdd => wqe.swap_add = 3,
        SendOp::CompareSwap => {
            wqe.compare = 6;
            wqe.swap_add = 1000;
        }
        _ => {}
    }
    let buffer = if order.op.is_fetch() && order.op != SendOp::AtomicWrite {
        vec![0; len]
    } else if order.op.is_local() {
        bytes(node, number, 8)
    } else {
        bytes(node, number, len)
    };
    (wqe, buffer)
}

/// What happens to the primary path, once.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    /// Nothing arrives at the nodes that are named.
    Cut([bool; 2]),
    /// The consumer of a node has it migrate.
    Order(usize),
}

impl Mishap {
    fn strike(self, world: &mut World) {
        match self {
            Self::Cut(ends) => {
                let nodes = (0..2).filter(|&node| ends[node]);
                world.severed = nodes.map(|node| (node, PRIMARY)).collect();
            }
            Self::Order(node) => migration::migrate(&mut world.nodes[node]).unwrap(),
        }
    }
}

/// Carries out the orders of both nodes and checks everything.
fn exchange(
    orders: [&[Order]; 2],
    faults: Faults,
    (seed, busy): (u64, u32),
    tune: impl Fn(&mut QpConfig),
) {
    let mut world = prepare(orders, faults, (seed, busy), tune);
    carry_out(&mut world, orders, |_| {});
    for node in &world.nodes {
        assert!(node.host.events.is_empty());
    }
}

/// The same with an alternate path, and a mishap at the primary one so many steps after both nodes are armed.
/// Returns whether both nodes have migrated.
fn exchange_elsewhere(
    orders: [&[Order]; 2],
    faults: Faults,
    seed: u64,
    (mishap, steps): (Mishap, usize),
) -> bool {
    let mut world = prepare(orders, faults, (seed, 0), |_| {});
    migration::rearm(&mut world, ALTERNATE);
    let mut left = Some(steps);
    carry_out(&mut world, orders, |world| {
        if migration::states(world) != [MigState::Armed; 2] {
            return;
        }
        left = match left {
            Some(0) => {
                mishap.strike(world);
                None
            }
            left => left.map(|left| left - 1),
        };
    });
    let states = migration::states(&world);
    for (node, state) in world.nodes.iter().zip(states) {
        let migrations = usize::from(state == MigState::Migrated);
        assert_eq!(node.host.events, vec![QpEvent::PathMig; migrations]);
    }
    states == [MigState::Migrated; 2]
}

fn prepare(
    orders: [&[Order]; 2],
    faults: Faults,
    (seed, busy): (u64, u32),
    tune: impl Fn(&mut QpConfig),
) -> World {
    let longest = orders[0].len().max(orders[1].len());
    let memory = COUNTER + longest * LONGEST;
    let mut world = World::new(QpType::Rc, memory, faults, seed);
    for node in 0..2 {
        tune(world.nodes[node].qp.config_mut());
        world.nodes[node].host.busy = busy;
        world.nodes[node].host.busy_again = busy;
        // What the peer reads.
        for (number, order) in orders[1 - node].iter().enumerate() {
            if order.op == SendOp::Read {
                let data = bytes(1 - node, number, order.len);
                world.nodes[node].host.memory[region(number)..][..order.len].copy_from_slice(&data);
            }
        }
    }
    world
}

/// Has the nodes carry out their orders; `meanwhile` is called before each step.
fn carry_out(world: &mut World, orders: [&[Order]; 2], mut meanwhile: impl FnMut(&mut World)) {
    let mut posted = [0, 0];
    let mut wanted = [0, 1].map(|node| orders[node].iter().filter(|o| needs_recv(o.op)).count());
    loop {
        for node in 0..2 {
            while posted[node] < orders[node].len()
                && world.nodes[node].qp.send_space() > 0
                && !world.dice.percent(20)
            {
                let order = &orders[node][posted[node]];
                let (wqe, buffer) = request(node, posted[node], order);
                world.nodes[node].post(wqe, buffer);
                posted[node] += 1;
            }
            // The peer's receives come now and then.
            if wanted[node] > 0 && world.dice.percent(40) {
                wanted[node] -= 1;
                let tells = world.dice.percent(30);
                let peer = &mut world.nodes[1 - node];
                peer.host.post_recv(LONGEST as u32);
                if tells && !peer.qp.config().srq {
                    let recvs = peer.host.recv_queue.len() as u32;
                    peer.qp.receives_posted(recvs);
                }
            }
        }
        meanwhile(world);
        while world.transmit() {}
        let more = world.step();
        let all = posted == [orders[0].len(), orders[1].len()] && wanted == [0, 0];
        let drains = |node: &Node| node.qp.state() == QpState::Sqd;
        if !more && all && !world.nodes.iter().any(drains) {
            break;
        }
    }
    for (node, orders) in orders.into_iter().enumerate() {
        check(world, node, orders);
    }
}

fn check(world: &World, node: usize, orders: &[Order]) {
    let (own, peer) = (&world.nodes[node].host, &world.nodes[1 - node].host);
    let signaled: Vec<u64> = (0..orders.len())
        .filter(|&i| orders[i].signaled)
        .map(|i| i as u64)
        .collect();
    let failed = own.sent.iter().find(|wc| wc.status != WcStatus::Success);
    assert_eq!(failed, None, "{:?} {:?}", own.events, peer.events);
    let completed: Vec<u64> = own.sent.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(completed, signaled);
    assert_eq!(own.retired.len(), orders.len());

    let mut counter = 0u64;
    let mut received = peer.received.iter();
    let mut invalidated = peer.invalidated.iter();
    let mut flushed = peer.flushed.iter();
    let mut executed = own.executed.iter();
    for (number, order) in orders.iter().enumerate() {
        let data = bytes(node, number, order.len);
        if order.op.is_atomic() {
            assert_eq!(own.retired[number], counter.to_ne_bytes());
            counter = match order.op {
                SendOp::FetchAdd => counter + 3,
                _ if counter == 6 => 1000,
                _ => counter,
            };
        }
        if order.op.is_local() {
            assert_eq!(executed.next(), Some(&bytes(node, number, 8)));
        }
        if order.op == SendOp::AtomicWrite {
            assert_eq!(peer.memory[region(number)..][..8], bytes(node, number, 8));
        }
        if order.op == SendOp::Flush && order.len != 0 {
            let found = flushed.next().unwrap();
            let before = number.checked_sub(1).map(|number| &orders[number]);
            assert_eq!(found.len(), order.len.min(FLUSHED));
            if let Some(before) = before.filter(|before| is_write(before.op)) {
                let len = before.len.min(found.len());
                assert_eq!(found[..len], bytes(node, number - 1, len));
            }
        }
        if order.op == SendOp::Read {
            assert!(own.retired[number] == data);
        }
        if is_write(order.op) {
            assert!(peer.memory[region(number)..][..order.len] == data);
        }
        if needs_recv(order.op) {
            let (slot, wc) = received.next().unwrap();
            assert_eq!(wc.status, WcStatus::Success);
            assert_eq!(wc.wr_id, u64::from(slot.0));
            assert_eq!(wc.byte_len, order.len as u32);
            let imm = matches!(order.op, SendOp::SendImm | SendOp::WriteImm);
            assert_eq!(wc.imm, imm.then_some(number as u32));
            let key = (order.op == SendOp::SendInv).then_some(Key::new(number as u32));
            assert_eq!(wc.invalidated, key);
            if key.is_some() {
                assert_eq!(invalidated.next().copied(), key);
            }
            if order.op == SendOp::WriteImm {
                assert_eq!(wc.opcode, WcOpcode::RecvRdmaWithImm);
            } else {
                assert_eq!(wc.opcode, WcOpcode::Recv);
                assert!(peer.recv_buffers[slot.0 as usize][..order.len] == data);
            }
        }
    }
    assert_eq!(peer.memory[..COUNTER], counter.to_ne_bytes());
    assert!(received.next().is_none());
    assert!(invalidated.next().is_none());
    assert!(flushed.next().is_none());
    assert!(executed.next().is_none());
    // In the order of posting.
    let slots: Vec<u32> = peer.received.iter().map(|(slot, _)| slot.0).collect();
    assert!(slots.windows(2).all(|pair| pair[0] < pair[1]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_survive_the_link(
        one in vec(order(), 0..60),
        two in vec(order(), 0..60),
        faults in faults(),
        seed in any::<u64>(),
        window in 1..40u32,
        fetches in 1..=16u8,
        reminder in prop_oneof![Just(0), 1_000..500_000u64],
        busy in 0..3u32,
        (srq, spare) in (any::<bool>(), 0..4u8),
    ) {
        exchange([&one, &two], faults, (seed, busy), |config| {
            config.max_unacked = window;
            config.max_rd_atomic = fetches;
            config.max_dest_rd_atomic = fetches.saturating_add(spare).min(16);
            config.reminder_floor = Duration::from_nanos(reminder);
            config.srq = srq;
        });
    }

    /// Within a host nothing is lost but what finds no room to wait for memory, and nobody needs an ACK timeout.
    #[test]
    fn streams_need_no_timeout_within_a_host(
        one in vec(order(), 0..60),
        two in vec(order(), 0..60),
        faults in faults(),
        seed in any::<u64>(),
        window in 1..40u32,
        fetches in 1..=16u8,
        busy in 0..3u32,
        room in prop_oneof![1..5usize, Just(usize::MAX)],
        (srq, forever) in (any::<bool>(), any::<bool>()),
    ) {
        let orders: [&[Order]; 2] = [&one, &two];
        let faults = Faults {
            drop_percent: 0,
            duplicate_percent: 0,
            reorder_percent: 0,
            ..faults
        };
        let mut world = prepare(orders, faults, (seed, busy), |config| {
            config.max_unacked = window;
            config.max_rd_atomic = fetches;
            config.max_dest_rd_atomic = fetches;
            config.srq = srq;
            if forever {
                config.timeout = 0;
            }
        });
        world.room = room;
        carry_out(&mut world, orders, |_| {});
    }

    /// A consumer has its send queue drain now and then, and changes the number of RDMA READs under way.
    #[test]
    fn streams_survive_drains(
        one in vec(order(), 10..60),
        two in vec(order(), 0..60),
        faults in faults(),
        seed in any::<u64>(),
        reminder in prop_oneof![Just(0), 1_000..500_000u64],
        pause in 0..60usize,
    ) {
        let orders: [&[Order]; 2] = [&one, &two];
        let mut world = prepare(orders, faults, (seed, 0), |config| {
            config.reminder_floor = Duration::from_nanos(reminder);
            config.max_dest_rd_atomic = 16;
        });
        let mut left = pause;
        let mut drains = 0;
        carry_out(&mut world, orders, |world| match world.nodes[0].qp.state() {
            QpState::Rts if left == 0 => world.nodes[0].go(QpState::Sqd),
            QpState::Rts => left -= 1,
            _ if world.nodes[0].qp.is_draining() => {}
            _ => {
                assert!(world.nodes[0].qp.is_all_acked());
                drains += 1;
                left = pause + drains;
                let mut config = *world.nodes[0].qp.config();
                config.max_rd_atomic = 1 + world.dice.below(16) as u8;
                let mask = AttrMask::MAX_QP_RD_ATOMIC;
                world.nodes[0].modify(QpState::Sqd, mask, &config).unwrap();
                world.nodes[0].go(QpState::Rts);
            }
        });
        for node in &world.nodes {
            assert!(node.host.events.is_empty());
        }
    }
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        Just(Mishap::Cut([true, true])),
        Just(Mishap::Cut([true, false])),
        Just(Mishap::Cut([false, true])),
        Just(Mishap::Order(0)),
        Just(Mishap::Order(1)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_survive_the_loss_of_a_path(
        one in vec(order(), 20..80),
        two in vec(order(), 0..60),
        faults in faults(),
        seed in any::<u64>(),
        mishap in mishap(),
        steps in 0..120usize,
    ) {
        exchange_elsewhere([&one, &two], faults, seed, (mishap, steps));
    }
}

/// The path is lost while work is under way, not before or after it.
#[test]
fn paths_are_lost_under_load() {
    let orders: Vec<Order> = (0..60)
        .map(|i| Order {
            op: [SendOp::Write, SendOp::Read, SendOp::FetchAdd, SendOp::Send][i % 4],
            len: i * 50,
            signaled: true,
            fence: false,
        })
        .collect();
    let faults = Faults {
        longest_span: 4,
        ..Faults::default()
    };
    for steps in 0..15 {
        for mishap in [Mishap::Cut([true; 2]), Mishap::Order(steps % 2)] {
            let migrated = exchange_elsewhere([&orders, &orders], faults, 1, (mishap, steps));
            assert!(migrated, "{mishap:?} after {steps} steps");
        }
    }
}

/// Without loss, nothing is sent twice and no timer runs out.
#[test]
fn a_good_link_needs_no_repair() {
    let orders: Vec<Order> = (0..200)
        .map(|i| Order {
            op: [SendOp::Write, SendOp::Read, SendOp::FetchAdd][i % 3],
            len: i * 20,
            signaled: i % 7 == 0,
            fence: false,
        })
        .collect();
    let faults = Faults {
        longest_span: 8,
        ..Faults::default()
    };
    let memory = COUNTER + orders.len() * LONGEST;
    let mut world = World::new(QpType::Rc, memory, faults, 1);
    let mut posted = 0;
    while posted < orders.len() {
        while posted < orders.len() && world.nodes[0].qp.send_space() > 0 {
            let (wqe, buffer) = request(0, posted, &orders[posted]);
            world.nodes[0].post(wqe, buffer);
            posted += 1;
        }
        while world.transmit() {}
        world.step();
    }
    world.run();
    let requests = world.trace.iter().filter(|entry| entry.0 == 0);
    let psns: Vec<_> = requests.map(|entry| entry.2).collect();
    assert!(psns.windows(2).all(|pair| pair[1].is_after(pair[0])));
    assert_eq!(world.nodes[0].host.retired.len(), orders.len());
    assert!(world.now < 5_000_000);
}

/// The requester asks again for the part of an RDMA READ that is missing, and for no more.
#[test]
fn read_resumes_where_it_broke() {
    let mut world = World::new(QpType::Rc, 1 << 20, Faults::default(), 1);
    let len = 100 * 256;
    let data = bytes(0, 0, len);
    world.nodes[1].host.memory[..len].copy_from_slice(&data);
    world.nodes[0].post(wqe(0, SendOp::Read, len, 0), vec![0; len]);
    world.transmit();
    assert!(world.step());
    world.transmit();
    // The responses are on their way; one of them gets lost.
    world.lose(|header| header.bth.psn == config(0).sq_psn.add(40));
    world.run();
    let requests = world.trace.iter().filter(|entry| entry.0 == 0);
    let psns: Vec<_> = requests.map(|entry| entry.2).collect();
    assert_eq!(psns[1], config(0).sq_psn.add(40));
    assert!(psns.windows(2).all(|pair| pair[1].is_after(pair[0])));
    // Asked for after the loss, 60 packets came; before it, 100 had come but one.
    let responses = world.trace.iter().filter(|entry| entry.0 == 1);
    assert_eq!(responses.map(|entry| entry.3).sum::<u32>(), 160);
    assert!(world.nodes[0].host.retired[0] == data);
    assert_eq!(world.nodes[0].host.sent.len(), 1);
}

/// Virtual time and segments that a stream of messages takes at a percentage of losses.
fn cost(op: SendOp, drop_percent: u8, reminder: Duration) -> (u64, usize) {
    const MESSAGES: usize = 2000;
    let faults = Faults {
        drop_percent,
        longest_span: 1,
        ..Faults::default()
    };
    let mut world = World::new(QpType::Rc, LONGEST, faults, 7);
    for node in &mut world.nodes {
        let config = node.qp.config_mut();
        config.timeout = 14;
        config.max_unacked = 64;
        config.reminder_floor = reminder;
    }
    let mut posted = 0;
    while posted < MESSAGES || world.nodes[0].host.sent.len() < MESSAGES {
        while posted < MESSAGES && world.nodes[0].qp.send_space() > 0 {
            world.nodes[0].post(wqe(posted as u64, op, 4096, 0), vec![0; 4096]);
            posted += 1;
        }
        while world.transmit() {}
        assert!(world.step());
    }
    (world.now, world.trace.len())
}

/// Losses at the end of a burst, and of NAKs, do not cost a whole ACK timeout each.
#[test]
fn reminders_repair_what_naks_do_not() {
    for op in [SendOp::Write, SendOp::Read] {
        let (good, least) = cost(op, 0, Duration::ZERO);
        let (unaided, _) = cost(op, 1, Duration::ZERO);
        let (aided, sent) = cost(op, 1, Duration::from_nanos(100_000));
        assert!(aided < unaided / 10, "{op:?}: {good} {unaided} {aided}");
        assert!(sent < least * 2, "{op:?}: {least} {sent}");
    }
}

/// Where many packets overtake others, repairs do not fill the queues of the link until all is late.
#[test]
fn reordering_does_not_choke_the_link() {
    for op in [SendOp::Send, SendOp::Write, SendOp::Read] {
        let faults = Faults {
            reorder_percent: 25,
            longest_span: 1,
            pace_nanos: 20_000,
            ..Faults::default()
        };
        let len = 1 << 18;
        let mut world = World::new(QpType::Rc, len, faults, 3);
        for node in &mut world.nodes {
            let config = node.qp.config_mut();
            config.timeout = 14;
            config.retry_cnt = 7;
            config.max_unacked = 256;
            config.reminder_floor = Duration::from_millis(2);
        }
        world.nodes[1].host.post_recv(len as u32);
        world.nodes[0].post(wqe(0, op, len, 0), vec![0; len]);
        world.run();
        assert_eq!(world.nodes[0].host.sent[0].status, WcStatus::Success);
        let packets = len / 256;
        assert!(
            world.trace.len() < 20 * packets,
            "{op:?}: {}",
            world.trace.len()
        );
    }
}

/// A network that becomes slower, but loses nothing, is seldom asked for what is on its way.
#[test]
fn patience_grows_with_the_delay() {
    const MESSAGES: u64 = 100;
    let len = 1024;
    let faults = Faults {
        longest_span: 1,
        ..Faults::default()
    };
    let mut world = World::new(QpType::Rc, len, faults, 5);
    for node in &mut world.nodes {
        let config = node.qp.config_mut();
        config.timeout = 14;
        config.retry_cnt = 7;
        config.reminder_floor = Duration::from_millis(2);
    }
    for wr_id in 0..2 * MESSAGES {
        world.faults.pace_nanos = if wr_id < MESSAGES { 1_000 } else { 3_000_000 };
        world.nodes[0].post(wqe(wr_id, SendOp::Write, len, 0), vec![0; len]);
        world.run();
    }
    let least = MESSAGES as usize * 2 * (len / 256 + 1);
    assert!(
        world.trace.len() < least * 5 / 4,
        "{} {least}",
        world.trace.len()
    );
}
