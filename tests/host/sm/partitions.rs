// SPDX-License-Identifier: GPL-2.0

//! P_KeyTables, of adapters and of the switches that they hang on.

use crate::check::check;
use crate::nodes::{
    Node,
    Place, //
};
use crate::shapes::{
    guid_of,
    line,
    mesh,
    ring, //
};
use crate::world::World;
use crate::{
    millis,
    seat,
    states,
    LIMIT, //
};
use proto::sm::Assignment;
use proto::time::Duration;
use wire::mad::method;
use wire::mad::smp::{
    attr,
    SmInfo,
    SmState, //
};
use wire::{
    Guid,
    PKey,
    PortNum, //
};

fn one(pkey: u16, port: Option<Guid>) -> Assignment {
    Assignment {
        pkey: PKey::new(pkey),
        port,
    }
}

/// The GUID of the port of an adapter.
fn guid(world: &World, at: Place) -> Guid {
    let Node::Hca(hca) = &world.nodes[at.0] else {
        panic!("{at:?} is no adapter");
    };
    let port = hca.port(PortNum::new(at.1)).expect("it is there");
    port.guids().port()
}

/// Whether the port of the switch at the other end enforces partitions.
fn is_enforced(world: &World, at: Place) -> bool {
    let far = world.cables.far(at).expect("it has a cable");
    let Node::Switch(switch) = &world.nodes[far.0] else {
        panic!("{far:?} is no switch");
    };
    let attrs = switch
        .port(PortNum::new(far.1))
        .expect("it is there")
        .attrs();
    assert_eq!(attrs.enforces_inbound(), attrs.enforces_outbound());
    attrs.enforces_inbound()
}

fn at_switch(world: &World, at: Place) -> Vec<u16> {
    world.pkeys(world.cables.far(at).expect("it has a cable"))
}

#[test]
fn members_get_their_keys() {
    let shape = mesh(3, 2, 1);
    let (mut world, _) = shape.managed();
    world.settle(LIMIT);
    let ports: Vec<Place> = (6..12).map(|node| (node, 1)).collect();
    let requests = world.seats[0].manager.report().requests;
    for at in &ports {
        assert_eq!(world.pkeys(*at), [0xffff]);
        assert!(!is_enforced(&world, *at));
    }
    let list = [
        one(0x8001, Some(guid(&world, ports[0]))),
        one(0x0001, Some(guid(&world, ports[1]))),
        one(0x8002, None),
    ];
    world.partition(0, &list);
    world.settle(LIMIT);
    assert_eq!(world.pkeys(ports[0]), [0xffff, 0x8001, 0x8002]);
    assert_eq!(world.pkeys(ports[1]), [0xffff, 0x0001, 0x8002]);
    assert_eq!(world.pkeys(ports[2]), [0xffff, 0x8002]);
    for at in &ports {
        assert!(is_enforced(&world, *at));
        assert_eq!(at_switch(&world, *at), world.pkeys(*at));
        assert_eq!(world.key_changes[at], 1);
    }
    // Links between switches carry everything.
    let (tie, _) = world
        .cables
        .of(0)
        .find(|(_, far)| far.0 < 6)
        .expect("there is one");
    assert_eq!(world.pkeys(tie), [0xffff]);
    check(&world, 0, false);
    assert!(world.seats[0].manager.report().requests > requests);

    // Another sweep has nothing to write, and the same list changes nothing.
    world.sweep(0);
    world.settle(LIMIT);
    world.partition(0, &list);
    world.settle(LIMIT);
    assert!(world.key_changes.values().all(|times| *times == 1));

    // One leaves, another is promoted; keys stay in their places.
    let list = [one(0x8001, Some(guid(&world, ports[1]))), one(0x8002, None)];
    world.partition(0, &list);
    world.settle(LIMIT);
    assert_eq!(world.pkeys(ports[0]), [0xffff, 0, 0x8002]);
    assert_eq!(at_switch(&world, ports[0]), [0xffff, 0x8002]);
    assert_eq!(world.pkeys(ports[1]), [0xffff, 0x8001, 0x8002]);
    assert_eq!(world.key_changes[&ports[2]], 1);

    // A new partition does not take a place that was just left.
    let list = [one(0x8003, None), one(0x8002, Some(guid(&world, ports[2])))];
    world.partition(0, &list);
    world.settle(LIMIT);
    assert_eq!(world.pkeys(ports[1]), [0xffff, 0, 0, 0x8003]);

    world.partition(0, &[]);
    world.settle(LIMIT);
    for at in &ports {
        assert_eq!(world.pkeys(*at), [0xffff]);
        assert!(!is_enforced(&world, *at));
    }
}

/// An adapter that comes later, or comes back as another one, has the keys of its GUID.
#[test]
fn who_comes_later_gets_keys_too() {
    let (mut world, _) = line(3, 1).managed();
    world.settle(LIMIT);
    let at = (5, 1);
    let list = [one(0x8001, Some(guid(&world, at)))];
    let far = world.cables.far(at).expect("it has a cable");
    world.unplug(at);
    world.partition(0, &list);
    world.settle(LIMIT);
    assert_eq!(world.pkeys(at), [0xffff]);
    world.plug(at, far);
    world.settle(LIMIT);
    assert_eq!(world.pkeys(at), [0xffff, 0x8001]);
    assert_eq!(world.pkeys(far), [0xffff, 0x8001]);
    world.unplug(at);
    let other = world.add_hca(1);
    world.plug((other, 1), far);
    world.settle(LIMIT);
    assert_eq!(world.pkeys((other, 1)), [0xffff]);
    assert_eq!(world.pkeys(far), [0xffff]);
    check(&world, 0, false);
}

#[test]
fn limited_members_of_the_default_partition() {
    let (mut world, _) = line(3, 1).managed();
    let full = guid(&world, (3, 1));
    world.partition(0, &[one(0xffff, Some(full))]);
    world.settle(LIMIT);
    assert_eq!(world.pkeys((3, 1)), [0xffff]);
    assert_eq!(world.pkeys((4, 1)), [0x7fff]);
    world.sweep(0);
    world.settle(LIMIT);
    check(&world, 0, false);
}

/// Datagrams are lost, and links too: in the end all tables are as they are to be.
#[test]
fn keys_over_lossy_links() {
    let (mut world, _) = ring(10, 1).managed();
    world.settle(LIMIT);
    for round in 0..20 {
        let node = 10 + world.random(10) as usize;
        let far = world.cables.far((node, 1)).expect("it has a cable");
        let pkey = 0x8001 + round % 5;
        world.loss = 30;
        world.partition(
            0,
            &[one(pkey, Some(guid(&world, (node, 1)))), one(0x8009, None)],
        );
        let time = world.random(5);
        world.pass(millis(time));
        world.unplug((node, 1));
        world.pass(millis(time));
        world.plug((node, 1), far);
        world.pass(millis(3_000));
        world.loss = 0;
        world.sweep(0);
        world.settle(LIMIT);
        for other in 10..20 {
            let mut keys = world.pkeys((other, 1));
            keys.retain(|key| *key != 0);
            keys.sort_unstable();
            let mut due = vec![0x8009, 0xffff];
            if other == node {
                due.insert(0, pkey);
            }
            assert_eq!(keys, due, "{other} in round {round}");
            let mut there = at_switch(&world, (other, 1));
            there.sort_unstable();
            assert_eq!(there, due);
        }
    }
}

/// A ring with two subnet managers, the first of which is the master.
fn with_a_standby() -> World {
    let (mut world, _) = ring(10, 1).build();
    for at in [(0, 0), (5, 0)] {
        let guid = guid_of(&world, at.0);
        seat(&mut world, at, 0, guid);
    }
    world.pass(millis(5_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Standby]);
    world
}

/// A master that was told of no partitions leaves the tables as they are; one that was makes them its own.
#[test]
fn partitions_are_those_of_the_master() {
    let mut world = with_a_standby();
    let at = (12, 1);
    let member = guid(&world, at);
    world.partition(0, &[one(0x8001, Some(member)), one(0x8002, Some(member))]);
    world.pass(millis(5_000));
    assert_eq!(world.pkeys(at), [0xffff, 0x8001, 0x8002]);
    world.unseat(0);
    world.pass(millis(10_000));
    assert_eq!(world.seats[1].manager.state(), SmState::Master);
    assert_eq!(world.pkeys(at), [0xffff, 0x8001, 0x8002]);
    assert!(is_enforced(&world, at));
    let changes = world.key_changes[&at];
    // What both know of stays where it is.
    world.partition(1, &[one(0x8003, Some(member)), one(0x8002, Some(member))]);
    world.pass(millis(5_000));
    assert_eq!(world.pkeys(at), [0xffff, 0, 0x8002, 0x8003]);
    assert_eq!(world.key_changes[&at], changes + 1);
}

/// A standby that was told before takes over with its own.
#[test]
fn a_standby_remembers_its_partitions() {
    let mut world = with_a_standby();
    world.partition(1, &[one(0x8007, None)]);
    world.pass(millis(5_000));
    assert_eq!(world.pkeys((12, 1)), [0xffff]);
    world.unseat(0);
    world.pass(millis(10_000));
    assert_eq!(world.pkeys((12, 1)), [0xffff, 0x8007]);
}

/// A fabric whose switches enforce partitions, and the ports of its adapters.
fn enforced() -> (World, Vec<Place>) {
    let (mut world, _) = mesh(3, 2, 1).managed();
    let ports: Vec<Place> = (6..12).map(|node| (node, 1)).collect();
    world.partition(0, &[one(0x8001, None)]);
    world.settle(LIMIT);
    assert!(ports.iter().all(|at| is_enforced(&world, *at)));
    (world, ports)
}

/// New tables do not reach the ports of switches: these go on with what they have until they do.
#[test]
fn what_is_lost_opens_no_port() {
    let (mut world, ports) = enforced();
    world.unheard = Some((method::SET, attr::PKEY_TABLE));
    world.partition(0, &[one(0x8002, None)]);
    for _ in 0..500 {
        world.pass(millis(10));
        assert!(ports.iter().all(|at| is_enforced(&world, *at)));
    }
    for at in &ports {
        assert_eq!(at_switch(&world, *at), [0xffff, 0x8001]);
    }
    world.unheard = None;
    world.settle(LIMIT);
    for at in &ports {
        assert!(is_enforced(&world, *at));
        assert_eq!(at_switch(&world, *at), [0xffff, 0x8002]);
    }
}

/// Another subnet manager hands over in the midst of a sweep: all tables are doubted, and stay in force.
#[test]
fn what_is_doubted_opens_no_port() {
    let (mut world, ports) = enforced();
    let mut handover = [0; 256];
    let subject = [1, 1, 1, method::SET];
    handover[..4].copy_from_slice(&subject);
    handover[16..18].copy_from_slice(&attr::SM_INFO.to_be_bytes());
    handover[20..24].copy_from_slice(&SmInfo::HANDOVER.to_be_bytes());
    for round in 0..200 {
        world.partition(0, &[one(0x8002 - round % 2, None)]);
        world.pass(Duration::from_nanos(5_000 * u64::from(round)));
        world.inject(0, &handover);
        for _ in 0..200 {
            world.pass(Duration::from_nanos(10_000));
            assert!(ports.iter().all(|at| is_enforced(&world, *at)), "{round}");
        }
        world.settle(LIMIT);
        let due = 0x8002 - round % 2;
        assert!(ports.iter().all(|at| at_switch(&world, *at)[1] == due));
    }
}
