// SPDX-License-Identifier: GPL-2.0

//! Connections without traffic: how they are armed, and followed, by questions of the queue pairs themselves.

use crate::migration::{
    load,
    migrate,
    rearm,
    states, //
};
use crate::world::{
    wqe,
    Faults,
    World,
    ALTERNATE,
    PRIMARY, //
};
use proto::transport::{
    MigState,
    QpEvent,
    QpState,
    QpType,
    RxDrop,
    SendOp, //
};
use wire::opcode::Operation;

/// Two queue pairs that ask, and have said nothing yet.
fn world(faults: Faults) -> World {
    let mut world = World::new(QpType::Rc, 1 << 12, faults, 1);
    for node in &mut world.nodes {
        node.qp.config_mut().probes = true;
    }
    world
}

/// No consumer has seen anything but these events, at each side.
fn assert_unseen(world: &World, events: &[QpEvent]) {
    for node in &world.nodes {
        assert_eq!(node.host.events, events);
        assert!(node.host.sent.is_empty() && node.host.received.is_empty());
        assert!(node.host.memory.iter().all(|&byte| byte == 0));
        assert_eq!(node.qp.state(), QpState::Rts);
    }
}

#[test]
fn a_silent_connection_is_armed() {
    let mut world = world(Faults::default());
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.host.memory.fill(0));
    rearm(&mut world, ALTERNATE);
    world.run();
    assert_eq!(states(&world), [MigState::Armed; 2]);
    assert!(world.trace.len() <= 8, "{:?}", world.trace);
    assert_unseen(&world, &[]);
}

/// What has been sent without a question is one, long before the ACK timeout would have it asked.
#[test]
fn a_connection_that_waits_for_nothing_is_armed() {
    let mut world = world(Faults::default());
    for node in &mut world.nodes {
        node.qp.config_mut().timeout = 20;
    }
    let mut quiet = wqe(0, SendOp::Write, 8, 0);
    quiet.flags.signaled = false;
    world.nodes[0].post(quiet, vec![0; 8]);
    while world.transmit() {}
    assert!(world.step());
    rearm(&mut world, ALTERNATE);
    world.run();
    assert_eq!(states(&world), [MigState::Armed; 2]);
    assert!(world.trace.len() <= 8, "{:?}", world.trace);
    assert!(world.now < 1_000_000, "{}", world.now);
}

#[test]
fn whoever_loads_first_is_asked_by_the_other() {
    for first in 0..2 {
        let mut world = world(Faults::default());
        world
            .nodes
            .iter_mut()
            .for_each(|node| node.host.memory.fill(0));
        load(&mut world, first, ALTERNATE);
        world.run();
        let mut waits = [MigState::Migrated; 2];
        waits[first] = MigState::Rearm;
        assert_eq!(states(&world), waits);
        // One question, and its answer.
        assert_eq!(world.trace.len(), 2);
        load(&mut world, 1 - first, ALTERNATE);
        world.run();
        assert_eq!(states(&world), [MigState::Armed; 2]);
        assert_unseen(&world, &[]);
    }
}

#[test]
fn questions_are_repeated() {
    for seed in 0..1000 {
        let faults = Faults {
            drop_percent: 30,
            duplicate_percent: 20,
            reorder_percent: 20,
            ..Faults::default()
        };
        let mut world = World::new(QpType::Rc, 1 << 12, faults, seed);
        for node in &mut world.nodes {
            node.qp.config_mut().probes = true;
        }
        rearm(&mut world, ALTERNATE);
        world.run();
        assert_eq!(states(&world), [MigState::Armed; 2], "seed {seed}");
    }
}

#[test]
fn a_peer_that_does_not_answer_is_not_asked_for_ever() {
    let mut world = world(Faults::default());
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.host.memory.fill(0));
    world.severed = vec![(1, PRIMARY)];
    load(&mut world, 0, ALTERNATE);
    world.run();
    assert_eq!(states(&world), [MigState::Rearm, MigState::Migrated]);
    assert_eq!(world.trace.len(), 16);
    assert_unseen(&world, &[]);
}

#[test]
fn a_silent_peer_follows() {
    let mut world = world(Faults::default());
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.host.memory.fill(0));
    for port in [ALTERNATE, PRIMARY, ALTERNATE] {
        rearm(&mut world, port);
        world.run();
        assert_eq!(states(&world), [MigState::Armed; 2]);
        world.nodes.iter_mut().for_each(|node| {
            node.host.heard = 0;
            node.host.events.clear();
        });
        migrate(&mut world.nodes[0]).unwrap();
        assert!(world.nodes[0].qp.is_unheard());
        world.run();
        assert_eq!(states(&world), [MigState::Migrated; 2]);
        assert!(world.nodes.iter().all(|node| node.host.heard == 1));
        assert!(!world.nodes.iter().any(|node| node.qp.is_unheard()));
        assert_unseen(&world, &[QpEvent::PathMig]);
    }
}

/// A pause may be long, and the peer not be able to go over by itself.
#[test]
fn who_pauses_is_followed() {
    let mut world = world(Faults::default());
    rearm(&mut world, ALTERNATE);
    world.run();
    assert_eq!(states(&world), [MigState::Armed; 2]);
    let [one, two] = &mut world.nodes;
    two.qp.config_mut().min_rnr_timer = 29;
    two.qp.config_mut().mig_state = MigState::Rearm;
    one.post(wqe(0, SendOp::Send, 10, 0), vec![0; 10]);
    let request = one.poll_all(0).remove(0);
    assert_eq!(two.take(0, &request), Err(RxDrop::NoRecv));
    let refusal = two.poll_all(0).remove(0);
    assert_eq!(one.take(0, &refusal), Ok(()));
    let paused = one.qp.next_deadline();
    migrate(one).unwrap();
    let question = one.poll_all(0);
    assert_eq!(question.len(), 1);
    assert_eq!(two.take(0, &question[0]), Err(RxDrop::Duplicate));
    assert_eq!(states(&world), [MigState::Migrated; 2]);
    let [one, two] = &mut world.nodes;
    let answer = two.poll_all(0).remove(0);
    let _ = one.take(0, &answer);
    assert!(!one.qp.is_unheard());
    assert!(one.poll_all(0).is_empty());
    assert_eq!(one.qp.next_deadline(), paused);
    two.host.post_recv(10);
    world.run();
    assert_eq!(world.nodes[0].host.sent.len(), 1);
}

/// A request that came before makes an end ask, and does not arm it.
#[test]
fn a_repetition_leads_to_a_question() {
    let mut world = world(Faults::default());
    let [one, two] = &mut world.nodes;
    one.post(wqe(0, SendOp::Write, 10, 0), vec![1; 10]);
    let mut packet = one.poll_all(0).remove(0);
    assert_eq!(two.take(0, &packet), Ok(()));
    two.poll_all(0);
    load(&mut world, 1, ALTERNATE);
    let two = &mut world.nodes[1];
    assert_eq!(two.poll_all(0).len(), 1);
    packet.0.header.bth.migreq = false;
    assert_eq!(two.take(0, &packet), Err(RxDrop::Duplicate));
    let said: Vec<_> = two
        .poll_all(0)
        .iter()
        .map(|(segment, _)| segment.header.bth.opcode.operation())
        .collect();
    assert_eq!(said, [Operation::Ack, Operation::WriteOnly]);
    assert_eq!(two.qp.config().mig_state, MigState::Rearm);
}

/// The peer has loaded a path since it answered, and has said so: the answer is not its last word.
#[test]
fn an_answer_that_was_overtaken_does_not_end_the_next_question() {
    let mut world = world(Faults::default());
    load(&mut world, 1, ALTERNATE);
    let [one, two] = &mut world.nodes;
    let question = two.poll_all(0).remove(0);
    let _ = one.take(0, &question);
    let answer = one.poll_all(0).remove(0);
    assert!(answer.0.header.bth.migreq);
    load(&mut world, 0, ALTERNATE);
    let [one, two] = &mut world.nodes;
    let news = one.poll_all(0).remove(0);
    assert_eq!(two.take(0, &news), Err(RxDrop::Duplicate));
    let _ = two.take(0, &answer);
    world.run();
    assert_eq!(states(&world)[1], MigState::Armed);
}

/// Messages do what questions would, and are not delayed by them.
#[test]
fn traffic_needs_no_questions() {
    let mut world = world(Faults::default());
    for (wr_id, node) in world.nodes.iter_mut().enumerate() {
        node.post(wqe(wr_id as u64, SendOp::Write, 10, 0), vec![1; 10]);
    }
    rearm(&mut world, ALTERNATE);
    world.run();
    assert_eq!(states(&world), [MigState::Armed; 2]);
    assert_eq!(world.trace.len(), 4);
}

/// Only reliable connections have answers.
#[test]
fn unreliable_connections_do_not_ask() {
    let mut world = World::new(QpType::Uc, 1 << 12, Faults::default(), 1);
    for node in &mut world.nodes {
        node.qp.config_mut().probes = true;
    }
    rearm(&mut world, ALTERNATE);
    world.run();
    assert_eq!(states(&world), [MigState::Rearm; 2]);
    assert!(world.trace.is_empty());
}
