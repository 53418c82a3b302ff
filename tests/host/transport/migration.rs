// SPDX-License-Identifier: GPL-2.0

//! Automatic path migration: each row of the table of states, and what becomes of the work under way.

use crate::world::{
    config,
    lid,
    wqe,
    Faults,
    Node,
    World,
    ALTERNATE,
    PRIMARY, //
};
use proto::time::Instant;
use proto::transport::{
    Alternate,
    AttrMask,
    MigState,
    ModifyError,
    PathAv,
    QpConfig,
    QpEvent,
    QpState,
    QpType,
    RxDrop,
    SendOp,
    TxSegment,
    WcStatus, //
};
use wire::opcode::Operation;
use wire::{
    Lid,
    PKey,
    PortNum, //
};

const STATES: [MigState; 3] = [MigState::Migrated, MigState::Rearm, MigState::Armed];
const MIGRATION: AttrMask = AttrMask::ALT_PATH.with(AttrMask::PATH_MIG_STATE);

/// The ACK timeout of alternate paths, twice that of the primary ones.
const ALTERNATE_TIMEOUT: u8 = 9;

pub(crate) fn alternate(node: usize, port: PortNum) -> Alternate {
    Alternate {
        path: PathAv {
            dlid: lid(1 - node, port),
            ..PathAv::default()
        },
        port,
        pkey: PKey::DEFAULT,
        pkey_index: 0,
        timeout: ALTERNATE_TIMEOUT,
        ..Alternate::default()
    }
}

/// Asks for a state of migration, by this mask.
fn order(node: &mut Node, mask: AttrMask, wanted: MigState) -> Result<(), ModifyError> {
    let config = QpConfig {
        mig_state: wanted,
        ..*node.qp.config()
    };
    let state = node.qp.state();
    node.modify(state, mask, &config)
}

/// Has an armed node migrate.
pub(crate) fn migrate(node: &mut Node) -> Result<(), ModifyError> {
    order(node, AttrMask::PATH_MIG_STATE, MigState::Migrated)
}

/// Loads the port as the alternate path of a node, and asks for REARM.
pub(crate) fn load(world: &mut World, node: usize, port: PortNum) {
    let path = alternate(node, port);
    let node = &mut world.nodes[node];
    let config = QpConfig {
        alternate: Some(path),
        mig_state: MigState::Rearm,
        ..*node.qp.config()
    };
    node.modify(QpState::Rts, MIGRATION, &config).unwrap();
}

/// Loads the port as the alternate path of both nodes, and asks for REARM.
pub(crate) fn rearm(world: &mut World, port: PortNum) {
    load(world, 0, port);
    load(world, 1, port);
}

fn state(node: &Node) -> MigState {
    node.qp.config().mig_state
}

pub(crate) fn states(world: &World) -> [MigState; 2] {
    [state(&world.nodes[0]), state(&world.nodes[1])]
}

fn write(node: &mut Node, wr_id: u64) {
    node.post(wqe(wr_id, SendOp::Write, 600, 1000), vec![7; 600]);
}

/// Both nodes in this state, and nothing under way.
fn world(qp_type: QpType, wanted: MigState) -> World {
    let mut world = World::new(qp_type, 1 << 16, Faults::default(), 1);
    if wanted != MigState::Migrated {
        rearm(&mut world, ALTERNATE);
    }
    if wanted == MigState::Armed {
        for node in &mut world.nodes {
            write(node, 0);
        }
        world.run();
        for node in &mut world.nodes {
            node.host.sent.clear();
        }
        world.trace.clear();
    }
    assert_eq!(states(&world), [wanted; 2]);
    world
}

fn events(world: &World) -> [&[QpEvent]; 2] {
    [&world.nodes[0].host.events, &world.nodes[1].host.events]
}

fn sent(world: &World, node: usize) -> Vec<(u64, WcStatus)> {
    let sent = world.nodes[node].host.sent.iter();
    sent.map(|wc| (wc.wr_id, wc.status)).collect()
}

#[test]
fn consumers_have_the_ways_of_the_table() {
    use MigState::{
        Armed,
        Migrated,
        Rearm, //
    };
    for (from, wanted, to) in [
        (Migrated, Migrated, Some(Migrated)),
        (Migrated, Rearm, Some(Rearm)),
        (Migrated, Armed, None),
        (Rearm, Migrated, None),
        (Rearm, Rearm, Some(Rearm)),
        (Rearm, Armed, None),
        (Armed, Migrated, Some(Migrated)),
        (Armed, Rearm, None),
        (Armed, Armed, None),
    ] {
        let mut world = world(QpType::Rc, from);
        let node = &mut world.nodes[0];
        if from == Migrated {
            let config = QpConfig {
                alternate: Some(alternate(0, ALTERNATE)),
                ..*node.qp.config()
            };
            node.modify(QpState::Rts, AttrMask::ALT_PATH, &config)
                .unwrap();
        }
        let result = order(node, AttrMask::PATH_MIG_STATE, wanted);
        assert_eq!(result.is_ok(), to.is_some(), "{from:?} {wanted:?}");
        assert_eq!(state(node), to.unwrap_or(from), "{from:?} {wanted:?}");
        let migrates = (from, to) == (Armed, Some(Migrated));
        let told: &[QpEvent] = if migrates { &[QpEvent::PathMig] } else { &[] };
        assert_eq!(node.host.events, told, "{from:?} {wanted:?}");
        let port = if migrates { ALTERNATE } else { PRIMARY };
        assert_eq!(node.qp.config().port, port);
    }
}

#[test]
fn an_armed_end_keeps_its_path() {
    let mut world = world(QpType::Rc, MigState::Armed);
    let node = &mut world.nodes[0];
    let before = *node.qp.config();
    for (mask, mig_state) in [
        (AttrMask::ALT_PATH, MigState::Armed),
        (MIGRATION, MigState::Migrated),
        (MIGRATION, MigState::Rearm),
    ] {
        let config = QpConfig {
            alternate: Some(alternate(1, ALTERNATE)),
            mig_state,
            ..before
        };
        assert_ne!(config.alternate, before.alternate);
        assert_eq!(
            node.modify(QpState::Rts, mask, &config),
            Err(ModifyError::Migration)
        );
        assert_eq!(node.qp.config().alternate, before.alternate);
        assert_eq!(state(node), MigState::Armed);
    }
}

/// Another path can be loaded at once, and a peer that has not taken its own one back yet goes on.
#[test]
fn a_path_is_taken_back() {
    for from in STATES {
        let mut world = world(QpType::Rc, from);
        for node in 0..2 {
            world.nodes[node].qp.unload();
            assert_eq!(state(&world.nodes[node]), MigState::Migrated);
            assert_eq!(world.nodes[node].qp.config().alternate, None);
            load(&mut world, node, ALTERNATE);
            for node in &mut world.nodes {
                write(node, 1);
            }
            world.run();
        }
        assert_eq!(states(&world), [MigState::Armed; 2], "{from:?}");
        assert!(events(&world).iter().all(|told| told.is_empty()));
        for node in 0..2 {
            assert_eq!(sent(&world, node), [(1, WcStatus::Success); 2]);
        }
    }
}

#[test]
fn rearm_wants_a_path_and_a_queue_pair_that_sends() {
    let mut world = world(QpType::Rc, MigState::Migrated);
    let node = &mut world.nodes[0];
    let rearm = |node: &mut Node| order(node, AttrMask::PATH_MIG_STATE, MigState::Rearm);
    assert_eq!(rearm(node), Err(ModifyError::Migration));
    let loaded = QpConfig {
        alternate: Some(alternate(0, ALTERNATE)),
        ..config(0)
    };
    node.go(QpState::Sqd);
    node.modify(QpState::Sqd, AttrMask::ALT_PATH, &loaded)
        .unwrap();
    assert_eq!(rearm(node), Err(ModifyError::Migration));
    node.go(QpState::Rts);
    assert_eq!(rearm(node), Ok(()));
    assert_eq!(state(node), MigState::Rearm);
    node.go(QpState::Reset);
    assert_eq!(state(node), MigState::Migrated);
    assert_eq!(node.qp.config().alternate, None);
}

#[test]
fn every_packet_of_both_roles_tells_the_state() {
    for wanted in STATES {
        let mut world = world(QpType::Rc, wanted);
        let [one, two] = &mut world.nodes;
        for (wr_id, op) in [SendOp::Send, SendOp::Write, SendOp::Read, SendOp::FetchAdd]
            .into_iter()
            .enumerate()
        {
            let len = if op == SendOp::FetchAdd { 8 } else { 600 };
            one.post(wqe(wr_id as u64, op, len, 0), vec![0; len]);
        }
        let bits = |packets: &[(TxSegment, Vec<u8>)]| -> Vec<bool> {
            let headers = packets.iter().map(|(segment, _)| segment.header.bth);
            headers.map(|bth| bth.migreq).collect()
        };
        let migreq = wanted == MigState::Migrated;
        // No receive: the answer to the first is a NAK, and the others are out of order.
        let requests = one.poll_all(0);
        assert!(bits(&requests).iter().all(|&bit| bit == migreq));
        let _ = two.take(0, &requests[0]);
        let naks = two.poll_all(0);
        assert_eq!(bits(&naks), [migreq]);
        two.host.post_recv(600);
        for request in &requests {
            assert_eq!(two.take(0, request), Ok(()));
        }
        // A packet without MigReq has armed the peer, which changes nothing in what it says.
        let answers = two.poll_all(0);
        assert!(answers.len() >= 4);
        assert!(bits(&answers).iter().all(|&bit| bit == migreq));
    }
}

/// The ways that a packet may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Primary,
    Alternate,
    Elsewhere,
}

/// What the second node makes of a packet that comes this way.
fn meet(
    wanted: MigState,
    migreq: bool,
    way: Way,
    tune: impl Fn(&mut QpConfig),
) -> (bool, MigState, Vec<QpEvent>) {
    let mut world = world(QpType::Rc, wanted);
    let [one, two] = &mut world.nodes;
    tune(two.qp.config_mut());
    one.post(wqe(0, SendOp::Write, 10, 0), vec![1; 10]);
    let mut packet = one.poll_all(0).remove(0);
    let header = &mut packet.0.header;
    header.bth.migreq = migreq;
    (header.lrh.slid, header.lrh.dlid) = match way {
        Way::Primary => (lid(0, PRIMARY), lid(1, PRIMARY)),
        Way::Alternate => (lid(0, ALTERNATE), lid(1, ALTERNATE)),
        Way::Elsewhere => (Lid::new(99), lid(1, ALTERNATE)),
    };
    let result = two.take(0, &packet);
    assert!(matches!(result, Ok(()) | Err(RxDrop::Source)));
    (result.is_ok(), state(two), two.host.events.clone())
}

#[test]
fn packets_do_what_the_table_says() {
    use MigState::{
        Armed,
        Migrated,
        Rearm, //
    };
    let moved = vec![QpEvent::PathMig];
    let refused = vec![QpEvent::PathMigErr];
    for (from, migreq, way, expected) in [
        (Migrated, false, Way::Primary, (true, Migrated, vec![])),
        (Migrated, true, Way::Primary, (true, Migrated, vec![])),
        (Migrated, false, Way::Alternate, (false, Migrated, vec![])),
        (Migrated, true, Way::Alternate, (false, Migrated, vec![])),
        (Rearm, false, Way::Primary, (true, Armed, vec![])),
        (Rearm, true, Way::Primary, (true, Rearm, vec![])),
        (Rearm, false, Way::Alternate, (false, Rearm, vec![])),
        (Rearm, true, Way::Alternate, (true, Migrated, moved.clone())),
        (Rearm, true, Way::Elsewhere, (false, Rearm, vec![])),
        (Armed, false, Way::Primary, (true, Armed, vec![])),
        (Armed, true, Way::Primary, (true, Armed, vec![])),
        (Armed, false, Way::Alternate, (false, Armed, vec![])),
        (Armed, true, Way::Alternate, (true, Migrated, moved)),
        (Armed, false, Way::Elsewhere, (false, Armed, vec![])),
        (Armed, true, Way::Elsewhere, (false, Armed, refused.clone())),
    ] {
        let met = meet(from, migreq, way, |_| {});
        assert_eq!(met, expected, "{from:?} {migreq} {way:?}");
    }
    let strict = |config: &mut QpConfig| {
        config.follow_unarmed = false;
        config.pardon_late = false;
    };
    for (from, way, expected) in [
        (Rearm, Way::Alternate, (false, Rearm, vec![])),
        (Rearm, Way::Primary, (true, Rearm, vec![])),
        (Armed, Way::Primary, (false, Armed, refused)),
    ] {
        assert_eq!(
            meet(from, true, way, strict),
            expected,
            "strict {from:?} {way:?}"
        );
    }
}

/// A path is a port as well, and a partition.
#[test]
fn the_alternate_path_is_whole() {
    type Spoil = fn(&mut Alternate);
    let spoils: [Spoil; 3] = [
        |path| path.port = PortNum::new(3),
        |path| path.pkey = PKey::new(0x8123),
        |path| path.path.grh = Some(Default::default()),
    ];
    for spoil in spoils {
        let met = meet(MigState::Armed, true, Way::Alternate, |config| {
            spoil(config.alternate.as_mut().unwrap());
        });
        assert_eq!(met, (false, MigState::Armed, vec![QpEvent::PathMigErr]));
    }
}

#[test]
fn repetitions_do_not_arm() {
    let mut world = world(QpType::Rc, MigState::Rearm);
    let [one, two] = &mut world.nodes;
    let config = QpConfig {
        mig_state: MigState::Rearm,
        ..*two.qp.config()
    };
    one.post(wqe(0, SendOp::Write, 10, 0), vec![1; 10]);
    let packet = one.poll_all(0).remove(0);
    assert_eq!(two.take(0, &packet), Ok(()));
    assert_eq!(state(two), MigState::Armed);
    two.modify(
        QpState::Rts,
        AttrMask::PATH_MIG_STATE,
        &QpConfig {
            mig_state: MigState::Migrated,
            ..config
        },
    )
    .unwrap();
    // The next life of the primary path.
    let again = QpConfig {
        path: config.path,
        port: config.port,
        ..config
    };
    two.modify(QpState::Rts, MIGRATION, &again).unwrap();
    assert_eq!(state(two), MigState::Rearm);
    assert_eq!(two.take(0, &packet), Err(RxDrop::Duplicate));
    assert_eq!(state(two), MigState::Rearm);
}

#[test]
fn a_failure_is_told_once_in_each_life_of_a_path() {
    let mut world = world(QpType::Rc, MigState::Armed);
    for (round, port) in [ALTERNATE, PRIMARY].into_iter().enumerate() {
        world.nodes[0].qp.config_mut().alternate = Some(Alternate {
            path: PathAv {
                dlid: Lid::new(99),
                ..PathAv::default()
            },
            ..alternate(0, port)
        });
        for wr_id in 0..3 {
            // The second node goes where the first one does not expect it.
            let node = &mut world.nodes[1];
            write(node, wr_id);
            let mut packets = node.poll_all(0);
            let header = &mut packets[0].0.header;
            header.bth.migreq = true;
            header.lrh.slid = lid(1, port);
            header.lrh.dlid = lid(0, port);
            let result = world.nodes[0].take(0, &packets[0]);
            assert_eq!(result, Err(RxDrop::Source));
            world.run();
        }
        let expected = [QpEvent::PathMigErr, QpEvent::PathMig, QpEvent::PathMigErr];
        assert_eq!(events(&world)[0], &expected[..2 * round + 1]);
        if round == 0 {
            world.nodes[0].qp.config_mut().alternate = Some(alternate(0, ALTERNATE));
            migrate(&mut world.nodes[0]).unwrap();
            write(&mut world.nodes[0], 9);
            world.run();
            rearm(&mut world, PRIMARY);
            write(&mut world.nodes[0], 10);
            world.run();
            assert_eq!(states(&world), [MigState::Armed; 2]);
        }
    }
}

fn timeout(code: u8) -> u64 {
    4096 << code
}

#[test]
fn silence_ends_the_connection_unless_it_is_armed() {
    for wanted in [MigState::Migrated, MigState::Rearm] {
        let mut world = world(QpType::Rc, wanted);
        world.severed = vec![(1, PRIMARY)];
        write(&mut world.nodes[0], 0);
        world.run();
        assert_eq!(sent(&world, 0), [(0, WcStatus::RetryExcErr)]);
        assert!(events(&world)[0].is_empty());
    }
}

#[test]
fn silence_moves_an_armed_connection() {
    // Whichever direction is cut, or both.
    for cut in [&[0][..], &[1], &[0, 1]] {
        let mut world = world(QpType::Rc, MigState::Armed);
        let start = world.now;
        world.severed = cut.iter().map(|&node| (node, PRIMARY)).collect();
        for wr_id in 0..5 {
            write(&mut world.nodes[0], wr_id);
        }
        world.run();
        let expected: Vec<_> = (0..5).map(|wr_id| (wr_id, WcStatus::Success)).collect();
        assert_eq!(sent(&world, 0), expected);
        assert_eq!(events(&world), [&[QpEvent::PathMig]; 2]);
        assert_eq!(states(&world), [MigState::Migrated; 2]);
        for (i, node) in world.nodes.iter().enumerate() {
            let now = node.qp.config();
            assert_eq!(now.path, alternate(i, ALTERNATE).path);
            assert_eq!((now.port, now.timeout), (ALTERNATE, ALTERNATE_TIMEOUT));
            assert_eq!(now.alternate, None);
        }
        // Eight times the timeout, and a few times the way.
        let took = world.now - start;
        assert!((8 * timeout(8)..8 * timeout(8) + 100_000).contains(&took));
    }
}

#[test]
fn the_alternate_path_has_patience_of_its_own() {
    let mut world = world(QpType::Rc, MigState::Armed);
    let start = world.now;
    world.kill(1);
    write(&mut world.nodes[0], 0);
    world.run();
    assert_eq!(sent(&world, 0), [(0, WcStatus::RetryExcErr)]);
    assert_eq!(events(&world)[0], [QpEvent::PathMig]);
    let took = world.now - start;
    assert_eq!(took, 8 * timeout(8) + 8 * timeout(ALTERNATE_TIMEOUT));
}

#[test]
fn a_peer_that_is_not_ready_is_no_reason_to_move() {
    let mut world = world(QpType::Rc, MigState::Armed);
    world.nodes[0].qp.config_mut().rnr_retry = 2;
    // The counter takes its new value with the next progress.
    write(&mut world.nodes[0], 0);
    world.run();
    world.nodes[0].post(wqe(1, SendOp::Send, 10, 0), vec![0; 10]);
    world.run();
    let expected = [(0, WcStatus::Success), (1, WcStatus::RnrRetryExcErr)];
    assert_eq!(sent(&world, 0), expected);
    assert!(events(&world)[0].is_empty());
}

/// A pause that the peer has asked for outlasts a migration.
#[test]
fn a_pause_goes_on() {
    let mut world = world(QpType::Rc, MigState::Armed);
    world.nodes[1].qp.config_mut().min_rnr_timer = 20;
    world.nodes[0].post(wqe(0, SendOp::Send, 10, 0), vec![0; 10]);
    for _ in 0..2 {
        while world.transmit() {}
        world.step();
    }
    let paused = world.nodes[0].qp.next_deadline();
    assert!(world.nodes[0].poll_all(world.now).is_empty());
    migrate(&mut world.nodes[0]).unwrap();
    assert_eq!(world.nodes[0].qp.next_deadline(), paused);
    assert!(world.nodes[0].poll_all(world.now).is_empty());
    world.nodes[1].host.post_recv(10);
    world.run();
    assert_eq!(sent(&world, 0), [(0, WcStatus::Success)]);
    assert_eq!(events(&world), [&[QpEvent::PathMig]; 2]);
}

#[test]
fn consumers_move_connections_with_work_under_way() {
    // The one, the other, or both at the same time.
    for movers in [&[0][..], &[1], &[0, 1]] {
        let mut world = world(QpType::Rc, MigState::Armed);
        for node in 0..2 {
            for wr_id in 0..10 {
                let op = [SendOp::Write, SendOp::Read, SendOp::FetchAdd][wr_id % 3];
                let len = if op == SendOp::FetchAdd { 8 } else { 600 };
                let at = if op == SendOp::FetchAdd { 0 } else { 1000 };
                world.nodes[node].post(wqe(wr_id as u64, op, len, at), vec![0; len]);
            }
        }
        world.transmit();
        world.step();
        for &mover in movers {
            migrate(&mut world.nodes[mover]).unwrap();
        }
        world.run();
        for node in 0..2 {
            let expected: Vec<_> = (0..10).map(|wr_id| (wr_id, WcStatus::Success)).collect();
            assert_eq!(sent(&world, node), expected);
        }
        assert_eq!(events(&world), [&[QpEvent::PathMig]; 2]);
        assert_eq!(states(&world), [MigState::Migrated; 2]);
    }
}

#[test]
fn there_and_back_again() {
    let mut world = world(QpType::Rc, MigState::Armed);
    for (round, port) in [PRIMARY, ALTERNATE, PRIMARY].into_iter().enumerate() {
        world.severed = vec![(0, port), (1, port)];
        write(&mut world.nodes[1], 2 * round as u64);
        world.run();
        for told in events(&world) {
            assert_eq!(told, vec![QpEvent::PathMig; round + 1]);
        }
        world.severed.clear();
        rearm(&mut world, port);
        write(&mut world.nodes[1], 2 * round as u64 + 1);
        world.run();
        assert_eq!(states(&world), [MigState::Armed; 2]);
    }
    let expected: Vec<_> = (0..6).map(|wr_id| (wr_id, WcStatus::Success)).collect();
    assert_eq!(sent(&world, 1), expected);
}

/// Whoever loads the next path at once may do so before his peer has heard of the migration.
#[test]
fn a_peer_follows_one_that_is_in_rearm_already() {
    for mover in 0..2 {
        let mut world = world(QpType::Rc, MigState::Armed);
        world.severed = vec![(1 - mover, PRIMARY), (1 - mover, ALTERNATE)];
        write(&mut world.nodes[mover], 0);
        while events(&world)[mover].is_empty() {
            while world.transmit() {}
            assert!(world.step());
        }
        load(&mut world, mover, PRIMARY);
        assert!(world.nodes[mover].qp.is_unheard());
        world.severed = vec![(1 - mover, PRIMARY)];
        world.run();
        assert_eq!(sent(&world, mover), [(0, WcStatus::Success)]);
        assert_eq!(events(&world), [&[QpEvent::PathMig]; 2]);
        assert!(!world.nodes[mover].qp.is_unheard());

        world.severed.clear();
        load(&mut world, 1 - mover, PRIMARY);
        for node in &mut world.nodes {
            write(node, 1);
        }
        world.run();
        assert_eq!(states(&world), [MigState::Armed; 2]);
    }
}

/// A request that waits for memory comes again by the new path, and waits there, since it is not taken by the old one.
#[test]
fn what_waits_for_memory_waits_on_the_new_path() {
    let mut world = world(QpType::Rc, MigState::Armed);
    let [one, two] = &mut world.nodes;
    write(one, 0);
    let old = one.poll_all(0);
    two.host.absent = true;
    assert_eq!(two.take(0, &old[0]), Err(RxDrop::Absent));
    for packet in &old {
        assert!(two.defer(packet));
    }
    migrate(one).unwrap();
    let new = one.poll_all(0);
    for packet in &new {
        assert!(two.defer(packet));
    }
    assert_eq!(two.host.events, [QpEvent::PathMig]);
    // Nobody has asked twice, so nobody is told to pause.
    assert!(two.poll_all(0).is_empty());
    for packet in &old {
        assert_eq!(two.take(0, packet), Err(RxDrop::OldPath));
    }
    for packet in &new {
        assert_eq!(two.take(0, packet), Ok(()));
    }
    two.qp.resume(Instant::from_nanos(0));
    world.run();
    assert_eq!(sent(&world, 0), [(0, WcStatus::Success)]);
}

/// What was under way on the old path is not taken any more; it comes again on the new one.
#[test]
fn the_old_path_is_closed() {
    let mut world = world(QpType::Rc, MigState::Armed);
    let [one, two] = &mut world.nodes;
    write(one, 0);
    let late = one.poll_all(0);
    migrate(one).unwrap();
    let again = one.poll_all(0);
    assert_eq!(two.take(0, &again[0]), Ok(()));
    assert_eq!(two.host.events, [QpEvent::PathMig]);
    assert_eq!(two.take(0, &late[1]), Err(RxDrop::OldPath));
    for packet in &again[1..] {
        assert_eq!(two.take(0, packet), Ok(()));
    }
    assert_eq!(
        again.last().unwrap().0.header.bth.opcode.operation(),
        Operation::WriteLast
    );
}

/// Unreliable connections follow, and do as they are told, but notice no silence.
#[test]
fn unreliable_connections_move_too() {
    let mut world = world(QpType::Uc, MigState::Armed);
    world.severed = vec![(1, PRIMARY)];
    write(&mut world.nodes[0], 0);
    world.run();
    assert_eq!(events(&world), [&[] as &[QpEvent]; 2]);
    migrate(&mut world.nodes[0]).unwrap();
    world.nodes[1].host.memory.fill(0);
    write(&mut world.nodes[0], 1);
    world.run();
    assert_eq!(events(&world), [&[QpEvent::PathMig]; 2]);
    assert_eq!(world.nodes[1].host.memory[1000..1600], [7; 600]);
    write(&mut world.nodes[1], 0);
    world.run();
    assert_eq!(world.nodes[0].host.memory[1000..1600], [7; 600]);
    assert_eq!(states(&world), [MigState::Migrated; 2]);
}

/// What comes while others wait may be the first to tell of a migration, but not to a queue pair in error.
#[test]
fn nobody_migrates_in_error() {
    let mut world = world(QpType::Rc, MigState::Armed);
    write(&mut world.nodes[0], 1);
    let mut packet = world.nodes[0].poll(0).unwrap();
    let two = &mut world.nodes[1];
    two.host.absent = true;
    assert_eq!(two.take(0, &packet), Err(RxDrop::Absent));
    assert!(two.defer(&packet));
    two.go(QpState::Err);
    packet.0.header.bth.migreq = true;
    packet.0.header.lrh.slid = lid(0, ALTERNATE);
    packet.0.header.lrh.dlid = lid(1, ALTERNATE);
    assert!(!two.defer(&packet));
    assert_eq!(two.host.events, []);
    assert_eq!(state(two), MigState::Armed);
}

/// A peer that does not answer the question about its path is not waited for in error.
#[test]
fn nobody_is_asked_about_a_path_in_error() {
    let mut world = World::new(QpType::Rc, 1 << 16, Faults::default(), 1);
    let one = &mut world.nodes[0];
    one.qp.config_mut().probes = true;
    load(&mut world, 0, ALTERNATE);
    let one = &mut world.nodes[0];
    assert!(one.poll(0).is_some());
    assert!(one.qp.next_deadline().is_some());
    one.go(QpState::Err);
    assert_eq!(one.qp.next_deadline(), None);
}
