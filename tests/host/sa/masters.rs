// SPDX-License-Identifier: GPL-2.0

//! What becomes of groups when another subnet manager takes over.

use crate::flood::check_group;
use crate::groups::{
    join,
    name, //
};
use crate::nodes::{
    Place,
    TestManager, //
};
use crate::shapes::{
    guid_of,
    line,
    mesh,
    ring,
    Shape, //
};
use crate::world::World;
use crate::{
    agent,
    millis,
    served,
    LIMIT, //
};
use proto::sa::Config;
use proto::time::Duration;
use std::collections::BTreeMap;
use wire::mad::sa::JOIN_FULL;
use wire::mad::smp::SmState;

/// A fabric that is up, and the ports of its adapters, which are all in one group.
fn joined(shape: &Shape) -> (World, Vec<Place>) {
    let (mut world, ports) = served(shape);
    for at in &ports {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    world.settle(LIMIT);
    (world, ports)
}

/// The ports have been asked to register once since then.
fn asked_once(world: &World, ports: &[Place], before: &BTreeMap<Place, u64>) {
    for at in ports {
        assert_eq!(world.registrations[at], before[at] + 1, "{at:?}");
    }
}

/// A subnet manager with much storage for node `node`.
fn large(world: &World, node: usize, priority: u8) -> TestManager {
    let mut config = proto::sm::Config::new(guid_of(world, node));
    config.priority = priority;
    let limits = crate::nodes::Limits {
        nodes: 64,
        switches: 32,
        ports: 512,
        lids: 128,
        mlids: crate::nodes::MLIDS,
    };
    crate::nodes::manager(config, limits)
}

/// Puts a subnet manager with more storage in the place of the one at node 0.
pub(crate) fn enlarge(world: &mut World) {
    let mut manager = large(world, 0, 0);
    let seat = &mut world.seats[0];
    manager.succeed(&seat.manager);
    seat.manager = manager;
    seat.agent.as_mut().expect("it is there").renew();
}

/// A subnet manager with more storage takes over what ports have asked for.
#[test]
fn another_manager() {
    let (mut world, ports) = joined(&mesh(3, 2, 1));
    enlarge(&mut world);
    // Its nodes are not where they were.
    let (a, b) = world.cables.of(0).next().expect("it has cables");
    world.unplug(a);
    world.sweep(0);
    world.settle(LIMIT);
    world.plug(a, b);
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
    for at in &ports {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
}

/// A switch comes between others for which there is no room: who is behind it is not found until a subnet manager with more
/// storage takes over, and is not gone.
#[test]
fn who_is_behind_a_switch_without_room() {
    let (mut world, ports) = joined(&line(4, 1));
    let mut cables = world.cables.of(1);
    let (near, far) = cables.find(|(_, far)| far.0 == 2).expect("there is one");
    drop(cables);
    let between = world.add_switch(30, 64);
    world.unplug(near);
    world.plug(near, (between, 1));
    world.plug((between, 2), far);
    world.settle(LIMIT);
    assert!(world.seats[0].manager.report().no_room);
    enlarge(&mut world);
    world.sweep(0);
    world.settle(LIMIT);
    let told = join(&mut world, ports[0], name(1), JOIN_FULL).expect("it is in");
    let agent = world.seats[0].agent.as_ref().expect("it is there");
    assert_eq!(agent.members(told.mlid).count(), ports.len());
    check_group(&world, name(1), &ports);
}

/// Who stands by forgets all, and knows nothing when it is the master again: ports register anew.
#[test]
fn another_master() {
    let (mut world, ports) = joined(&ring(6, 1));
    check_group(&world, name(1), &ports);
    let other = large(&world, 3, 9);
    let seat = world.seat((3, 0), other);
    world.seats[seat].agent = Some(agent(Config::new(), 64, 4096));
    world.pass(millis(10_000));
    assert_eq!(world.seats[0].manager.state(), SmState::Standby);
    let first = world.seats[0].agent.as_ref().expect("it is there");
    assert_eq!(first.groups().count(), 0);
    world.unseat(seat);
    world.pass(millis(10_000));
    assert_eq!(world.seats[0].manager.state(), SmState::Master);
    for at in &ports[..4] {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
}

/// The same, though the other one goes before it has told any port that it is the master.
#[test]
fn another_master_that_goes_at_once() {
    let (mut world, ports) = joined(&ring(6, 1));
    let other = large(&world, 3, 9);
    let seat = world.seat((3, 0), other);
    let limit = world.now.after(millis(10_000));
    while world.seats[0].manager.state() != SmState::Standby {
        world.pass(Duration::from_nanos(1_000));
        assert!(world.now < limit, "nothing is handed over");
    }
    world.unseat(seat);
    let before = world.registrations.clone();
    world.pass(millis(10_000));
    assert_eq!(world.seats[0].manager.state(), SmState::Master);
    asked_once(&world, &ports, &before);
    world.sweep(0);
    world.settle(LIMIT);
    asked_once(&world, &ports, &before);
}

/// A subnet manager that begins anew knows of no members, though ports have the addresses that it would give them.
#[test]
fn who_begins_anew_has_ports_register() {
    let (mut world, ports) = joined(&ring(6, 1));
    let before = world.registrations.clone();
    world.seats[0].manager = large(&world, 0, 0);
    world.seats[0].agent = Some(agent(Config::new(), 64, 4096));
    world.sweep(0);
    world.settle(LIMIT);
    asked_once(&world, &ports, &before);
}
