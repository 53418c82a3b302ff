// SPDX-License-Identifier: GPL-2.0

//! The subnet manager against whole fabrics in virtual time: real switches and agents, links and nodes that fail.

#[path = "sm/cables.rs"]
mod cables;
#[path = "sm/check.rs"]
mod check;
#[path = "sm/nodes.rs"]
mod nodes;
#[path = "sm/partitions.rs"]
mod partitions;
#[path = "sm/shapes.rs"]
mod shapes;
#[path = "sm/world.rs"]
mod world;

use check::{
    check,
    end_ports, //
};
use nodes::{
    manager,
    Node,
    Place, //
};
use proptest::collection::vec;
use proptest::prelude::*;
use proto::fabric::link::LinkState;
use proto::sm::Config;
use proto::time::Duration;
use shapes::{
    fat_tree,
    guid_of,
    line,
    mesh,
    ring,
    Shape, //
};
use std::collections::BTreeMap;
use wire::mad::method;
use wire::mad::smp::{
    attr,
    SmInfo,
    SmState, //
};
use wire::{
    Guid,
    Lid,
    PortNum, //
};
use world::World;

/// More time than any sweep needs.
const LIMIT: Duration = Duration::from_millis(600_000);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The topologies of about `size` switches.
fn shapes(size: usize) -> [Shape; 4] {
    match size {
        10 => [line(10, 1), ring(10, 1), mesh(5, 2, 1), fat_tree(2, 2, 1)],
        100 => [
            line(100, 1),
            ring(100, 1),
            mesh(10, 10, 1),
            fat_tree(8, 5, 4),
        ],
        _ => [
            line(2000, 40),
            ring(2000, 40),
            mesh(50, 40, 8),
            fat_tree(124, 8, 2),
        ],
    }
}

#[test]
fn fabrics_of_10_switches() {
    for shape in shapes(10) {
        comes_up_and_heals(&shape, 10);
    }
}

#[test]
fn fabrics_of_100_switches() {
    for shape in shapes(100) {
        comes_up_and_heals(&shape, 5);
    }
}

/// Far more hops than a directed route has: the line and the ring are set up in stages. Most of the time goes into the
/// 600 million hops of their datagrams.
#[test]
#[ignore = "takes a minute"]
fn a_line_of_2000_switches() {
    comes_up_and_heals(&shapes(2000)[0], 1);
}

#[test]
#[ignore = "takes a minute"]
fn a_ring_of_2000_switches() {
    comes_up_and_heals(&shapes(2000)[1], 1);
}

#[test]
fn a_mesh_of_2000_switches() {
    comes_up_and_heals(&shapes(2000)[2], 1);
}

#[test]
fn a_fat_tree_of_2000_switches() {
    comes_up_and_heals(&shapes(2000)[3], 1);
}

/// Lets a fabric come up; then, in each round, three nodes at random places fail at the same time, and return one after
/// the other. Tells what that took.
fn comes_up_and_heals(shape: &Shape, rounds: usize) {
    let (mut world, limits) = shape.managed();
    let time = world.settle(LIMIT);
    let report = *world.seats[0].manager.report();
    println!(
        "{:8} of {:4} switches, {:4} adapters: {:6} us, {:7} requests, {:9} hops, {:6} KiB",
        shape.name,
        shape.switches,
        shape.adapters.len(),
        time.nanos() / 1_000,
        report.requests,
        world.hops,
        limits.bytes() >> 10
    );
    assert!(world.seats[0].manager.is_ready());
    assert!(!report.trouble && !report.no_room);
    assert_eq!(report.repeats, 0);
    let detours = check(&world, 0, shape.shortest);
    println!(
        "{:8} of {:4} switches: ways are {:2} % longer than the shortest, {:4} hops at most",
        shape.name,
        shape.switches,
        detours.percent(),
        detours.worst
    );
    // A ring is a line to who may not pass the switch across from the first one: on the average a third longer, and the
    // way past it is that round all others.
    assert!(shape.name == "ring" || detours.worst == 0);
    assert!(detours.percent() <= 33 && detours.worst <= shape.switches - 4);
    let before = lids(&world);
    for round in 0..rounds {
        let mut pulled = Vec::new();
        for _ in 0..3 {
            let node = 1 + world.random(world.nodes.len() as u64 - 1) as usize;
            pulled.push(isolate(&mut world, node));
        }
        let requests = world.seats[0].manager.report().requests;
        let time = world.settle(LIMIT);
        let spent = world.seats[0].manager.report().requests - requests;
        check(&world, 0, false);
        if round == 0 {
            println!(
                "{:8} of {:4} switches, 3 nodes gone: {:6} us, {:7} requests, {:4} of {:4} ports left",
                shape.name,
                shape.switches,
                time.nanos() / 1_000,
                spent,
                end_ports(&world, 0).len(),
                before.len()
            );
        }
        for cables in pulled {
            for (a, b) in cables {
                world.plug(a, b);
            }
            world.pass(millis(1));
        }
        world.settle(LIMIT);
        check(&world, 0, shape.shortest);
        assert_eq!(lids(&world), before, "LIDs are kept");
    }
}

/// The LIDs of all ports.
fn lids(world: &World) -> BTreeMap<(u64, u8), u16> {
    let ports = world.seats[0].manager.end_ports();
    ports
        .map(|(node, port)| {
            let key = (node.info().node_guid.get(), port.number().get());
            (key, port.lid().get())
        })
        .collect()
}

#[test]
fn a_sweep_of_a_healthy_fabric_changes_nothing() {
    let (mut world, _) = ring(10, 1).managed();
    world.settle(LIMIT);
    let (before, sent) = (lids(&world), world.seats[0].manager.report().requests);
    world.sweep(0);
    world.pass(millis(9_000));
    let report = *world.seats[0].manager.report();
    // NodeInfo of itself; NodeInfo by each link from switches; description, SwitchInfo, 5 ports of each switch;
    // description and PortInfo of each adapter.
    assert_eq!(report.requests - sent, 1 + 30 + 10 * (2 + 5) + 10 * 2);
    assert_eq!(lids(&world), before);
}

/// Answers of ports that have become Active get lost: that they do not become so again is no trouble.
#[test]
fn who_is_active_already() {
    let (mut world, _) = line(4, 1).managed();
    let is_active = |node: &Node| match node {
        Node::Hca(hca) => hca
            .port(PortNum::new(1))
            .is_some_and(|port| port.attrs().state() == LinkState::Active),
        Node::Switch(_) => false,
    };
    while !world.nodes.iter().any(is_active) {
        world.pass(Duration::from_nanos(1_000));
    }
    world.unseen = Some((method::GET_RESP, attr::PORT_INFO));
    world.pass(millis(150));
    world.unseen = None;
    while !world.seats[0].manager.is_ready() {
        world.pass(millis(1));
    }
    let report = *world.seats[0].manager.report();
    assert!(report.repeats != 0 && !report.trouble, "{report:?}");
    world.settle(LIMIT);
    check(&world, 0, true);
}

/// Every link in turn fails and returns, where there is a way round it or not.
#[test]
fn links_fail_and_return() {
    for shape in shapes(10) {
        let (mut world, _) = shape.managed();
        world.settle(LIMIT);
        let before = lids(&world);
        for (a, b) in world.cables.all().into_iter().filter(|(a, b)| a < b) {
            world.unplug(a);
            world.settle(LIMIT);
            check(&world, 0, false);
            world.plug(a, b);
            world.settle(LIMIT);
            check(&world, 0, shape.shortest);
            assert_eq!(lids(&world), before);
        }
    }
}

/// Pulls the cables of a node; returns them.
fn isolate(world: &mut World, node: usize) -> Vec<(Place, Place)> {
    let cables: Vec<(Place, Place)> = world.cables.of(node).collect();
    for (a, _) in &cables {
        world.unplug(*a);
    }
    cables
}

/// A node as it is after a boot: it has the same GUIDs, and knows nothing of the subnet.
fn reboot(world: &mut World, node: usize, lids: usize) {
    let guid = guid_of(world, node).get();
    world.nodes[node] = match &world.nodes[node] {
        Node::Switch(switch) => {
            let ports = usize::from(switch.port_count());
            Node::Switch(Box::new(nodes::switch(guid, ports, lids, nodes::MLIDS)))
        }
        Node::Hca(_) => Node::Hca(Box::new(nodes::hca(guid, 2))),
    };
}

/// Two nodes at a time that come back without their LIDs get those that they had, whichever of them is the first.
#[test]
fn who_comes_back_without_a_lid_gets_the_old_one() {
    for shape in shapes(10) {
        let (mut world, limits) = shape.managed();
        world.settle(LIMIT);
        let before = lids(&world);
        for node in 1..world.nodes.len() {
            let other = 1 + node % (world.nodes.len() - 1);
            let pulled = [other, node].map(|node| isolate(&mut world, node));
            world.settle(LIMIT);
            for (node, cables) in [node, other].into_iter().zip(pulled.into_iter().rev()) {
                reboot(&mut world, node, limits.lids);
                assert_eq!(world.lid((node, 1)).get(), 0);
                for (a, b) in cables {
                    world.plug(a, b);
                }
                world.settle(LIMIT);
            }
            check(&world, 0, shape.shortest);
            assert_eq!(lids(&world), before);
        }
    }
}

/// Datagrams get lost: it takes longer, that is all.
#[test]
fn lossy_links() {
    for shape in shapes(10) {
        let (mut world, _) = shape.managed();
        world.loss = 20;
        world.settle(LIMIT);
        check(&world, 0, shape.shortest);
        assert!(world.seats[0].manager.report().repeats > 0);
    }
}

/// No trap arrives: the light sweep, every 10 s, finds that a link has failed or is back.
#[test]
fn links_of_which_no_trap_tells() {
    for shape in shapes(10) {
        let (mut world, _) = shape.managed();
        world.settle(LIMIT);
        world.traps_lost = true;
        for (a, b) in world.cables.all().into_iter().filter(|(a, b)| a < b) {
            let sweeps = world.seats[0].manager.report().sweeps;
            world.unplug(a);
            world.pass(millis(12_000));
            assert!(world.seats[0].manager.report().sweeps > sweeps);
            check(&world, 0, false);
            let sweeps = world.seats[0].manager.report().sweeps;
            world.plug(a, b);
            // Nobody else tells.
            world.pass(millis(100));
            assert_eq!(world.seats[0].manager.report().sweeps, sweeps);
            world.pass(millis(11_900));
            check(&world, 0, shape.shortest);
        }
    }
}

/// Agents that tell nonsense: no harm outlives them.
#[test]
fn nonsense_is_survived() {
    for shape in shapes(10) {
        let (mut world, _) = shape.managed();
        world.settle(LIMIT);
        let before = lids(&world);
        world.noise = 300;
        for _ in 0..50 {
            world.sweep(0);
            world.pass(millis(2_000));
        }
        world.noise = 0;
        world.sweep(0);
        world.settle(LIMIT);
        world.sweep(0);
        world.settle(LIMIT);
        check(&world, 0, shape.shortest);
        let after = lids(&world);
        let kept = before
            .iter()
            .filter(|(port, lid)| after.get(port) == Some(lid));
        assert!(kept.count() * 2 >= before.len());
    }
}

proptest! {
    /// Any bytes may arrive at any time.
    #[test]
    fn any_bytes(mads in vec(any::<[u8; 256]>(), 1..50), class: bool, method in 0..8usize) {
        let (mut world, _) = mesh(3, 2, 2).managed();
        for mut mad in mads {
            mad[..3].copy_from_slice(&[1, if class { 0x81 } else { 1 }, 1]);
            mad[3] = [0x81, 1, 2, 5, 7, 0x81, 0x81, 0][method];
            mad[11..15].fill(0);
            mad[15] %= 32;
            let attributes = [0x11, 0x12, 0x15, 0x20, 2, 0x10, 0x19, 0x15];
            let attribute = attributes[usize::from(mad[17]) % 8];
            mad[16..18].copy_from_slice(&[0, attribute]);
            world.inject(0, &mad);
            world.pass(Duration::from_nanos(30_000));
        }
        world.pass(millis(5_000));
    }
}

/// Links that come and go while the subnet manager looks around.
#[test]
fn a_restless_fabric_comes_to_rest() {
    let shape = mesh(5, 2, 1);
    let (mut world, _) = shape.managed();
    let mut out: Vec<(Place, Place)> = Vec::new();
    for _ in 0..500 {
        world.pass(Duration::from_nanos(20_000));
        if out.len() < 5 {
            let cables = world.cables.all();
            let cable = cables[world.random(cables.len() as u64) as usize];
            world.unplug(cable.0);
            out.push(cable);
        } else {
            let nth = world.random(out.len() as u64) as usize;
            let (a, b) = out.swap_remove(nth);
            world.plug(a, b);
        }
    }
    for (a, b) in out {
        world.plug(a, b);
    }
    world.settle(LIMIT);
    check(&world, 0, shape.shortest);
}

/// A subnet manager for `world`, at a port.
fn seat(world: &mut World, at: Place, priority: u8, guid: Guid) -> usize {
    let mut config = Config::new(guid);
    config.priority = priority;
    let limits = nodes::Limits {
        nodes: 64,
        switches: 32,
        ports: 512,
        lids: 128,
        mlids: 0,
    };
    world.seat(at, manager(config, limits))
}

fn states(world: &World) -> Vec<SmState> {
    world
        .seats
        .iter()
        .map(|seat| seat.manager.state())
        .collect()
}

#[test]
fn a_manager_at_an_adapter() {
    for shape in shapes(10) {
        let (mut world, _) = shape.build();
        let at = (shape.switches, 1);
        let guid = Guid::new(guid_of(&world, at.0).get() + 1);
        seat(&mut world, at, 0, guid);
        world.settle(LIMIT);
        check(&world, 0, shape.shortest);
    }
}

#[test]
fn two_adapters_without_a_switch() {
    let mut world = World::new();
    for _ in 0..2 {
        world.add_hca(1);
    }
    world.plug((0, 1), (1, 1));
    let guid = guid_of(&world, 0);
    seat(&mut world, (0, 1), 0, guid);
    world.settle(LIMIT);
    let ports: Vec<_> = world.seats[0].manager.end_ports().collect();
    assert_eq!(ports.len(), 2);
    check(&world, 0, false);
}

#[test]
fn the_lower_guid_is_the_master_and_the_other_takes_over() {
    let (mut world, _) = ring(10, 1).build();
    for at in [(0, 0), (5, 0)] {
        let guid = guid_of(&world, at.0);
        seat(&mut world, at, 0, guid);
    }
    world.pass(millis(5_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Standby]);
    check(&world, 0, false);
    let before = lids(&world);
    world.unseat(0);
    world.pass(millis(5_000));
    assert_eq!(world.seats[1].manager.state(), SmState::Master);
    check(&world, 5, false);
    let after = world.seats[1].manager.end_ports();
    for (node, port) in after {
        let key = (node.info().node_guid.get(), port.number().get());
        assert_eq!(before[&key], port.lid().get(), "LIDs outlive a master");
    }
}

/// Room for less than a ring of 40 switches.
const FEW: nodes::Limits = nodes::Limits {
    nodes: 64,
    switches: 8,
    ports: 512,
    lids: 64,
    mlids: 0,
};

/// Of a manager at a switch that gives way to one with more room.
fn modest(world: &World, switch: usize) -> Config {
    let mut config = Config::new(guid_of(world, switch));
    config.gives_way = true;
    config
}

/// A subnet manager whose storage is too small takes over, and waits for one with more: the subnet stays as it is.
#[test]
fn who_finds_no_room_gives_way() {
    let (mut world, large) = ring(40, 1).managed();
    world.settle(LIMIT);
    let ways = |world: &World| -> Vec<_> {
        let switches = world.nodes.iter().filter_map(|node| match node {
            Node::Switch(switch) => Some(switch),
            Node::Hca(_) => None,
        });
        let lids = || (1..100).map(Lid::new);
        switches
            .flat_map(|switch| lids().map(|lid| switch.route(lid)))
            .collect()
    };
    let own = |world: &World| -> Vec<Lid> {
        let ends = world.nodes.iter().enumerate().map(|(at, node)| match node {
            Node::Switch(_) => (at, 0),
            Node::Hca(_) => (at, 1),
        });
        ends.map(|at| world.lid(at)).collect()
    };
    let before = (own(&world), ways(&world));
    let (config, small) = (modest(&world, 20), FEW);
    let seat = world.seat((20, 0), manager(config, small));
    world.unseat(0);
    world.pass(millis(10_000));
    let report = *world.seats[seat].manager.report();
    assert!(report.no_room && report.sweeps != 0);
    assert!(!world.seats[seat].manager.is_ready());
    assert_eq!(own(&world), before.0);
    assert!(ways(&world) == before.1);
    world.seats[seat].manager = manager(config, large);
    world.sweep(seat);
    world.settle(LIMIT);
    assert_eq!(own(&world), before.0);
    check(&world, 20, false);
    // Where there is no more, it does what it can.
    world.seats[seat].manager = manager(config, small);
    world.sweep(seat);
    world.settle(LIMIT);
    assert!(!world.seats[seat].manager.is_ready());
    let now = world.now;
    world.seats[seat].manager.make_do(now);
    world.sweep(seat);
    world.settle(LIMIT);
    assert_eq!(world.seats[seat].manager.state(), SmState::Master);
    assert!(world.seats[seat].manager.is_ready());
}

/// A number of each switch that is another one when something was written to it.
fn writes(world: &World) -> Vec<u32> {
    let switches = world.nodes.iter().filter_map(|node| match node {
        Node::Switch(switch) => Some(switch),
        Node::Hca(_) => None,
    });
    switches.map(|switch| switch.generation()).collect()
}

/// The same of one that is handed the subnet: no table of a switch is written, of multicast neither, and it does not hold
/// itself to know the subnet.
#[test]
fn who_is_handed_what_it_has_no_room_for_gives_way() {
    let (mut world, _) = ring(40, 1).managed();
    world.settle(LIMIT);
    world.unseat(0);
    let few = nodes::Limits {
        mlids: nodes::MLIDS,
        ..FEW
    };
    let small = manager(modest(&world, 20), few);
    let seat = world.seat((20, 0), small);
    world.pass(millis(1_000));
    let before = writes(&world);
    let mut handover = [0; 256];
    let subject = [1, 1, 1, method::SET];
    handover[..4].copy_from_slice(&subject);
    handover[16..18].copy_from_slice(&attr::SM_INFO.to_be_bytes());
    handover[20..24].copy_from_slice(&SmInfo::HANDOVER.to_be_bytes());
    world.inject(seat, &handover);
    world.pass(millis(5_000));
    let small = &world.seats[seat].manager;
    assert_eq!(small.state(), SmState::Master);
    assert!(small.report().no_room);
    assert!(!small.is_ready());
    assert_eq!(writes(&world), before);
}

/// A few nodes are left of a large subnet, with LIDs for which a subnet manager that takes over has no room: one with more
/// leaves them as they are.
#[test]
fn who_has_no_room_for_lids_gives_way() {
    let (mut world, large) = ring(40, 1).managed();
    world.settle(LIMIT);
    world.unseat(0);
    let left = 18..=21;
    for (near, far) in [(18, 17), (21, 22)] {
        let mut cables = world.cables.of(near);
        let (at, _) = cables.find(|(_, at)| at.0 == far).expect("it is a ring");
        drop(cables);
        world.unplug(at);
    }
    let own = |world: &World| -> Vec<Lid> {
        let ends = left.clone().flat_map(|node| [(node, 0), (node + 40, 1)]);
        ends.map(|at| world.lid(at)).collect()
    };
    let before = own(&world);
    assert!(before.iter().any(|lid| lid.get() >= 64));
    let (config, small) = (modest(&world, 20), FEW);
    let seat = world.seat((20, 0), manager(config, small));
    world.pass(millis(10_000));
    assert_eq!(own(&world), before);
    assert!(world.seats[seat].manager.report().no_room);
    world.seats[seat].manager = manager(config, large);
    world.sweep(seat);
    world.settle(LIMIT);
    assert_eq!(own(&world), before);
    assert!(!world.seats[seat].manager.report().no_room);
    check(&world, 20, false);
    // Where there is no more room, they get others.
    world.seats[seat].manager = manager(config, small);
    let now = world.now;
    world.seats[seat].manager.make_do(now);
    world.sweep(seat);
    world.settle(LIMIT);
    assert!(own(&world).iter().all(|lid| lid.get() < 64));
    world.sweep(seat);
    world.settle(LIMIT);
    assert!(!world.seats[seat].manager.report().no_room);
    check(&world, 20, false);
}

/// Of many subnet managers one is the master, also where another one has but lower ones around it.
#[test]
fn one_of_many_is_the_master() {
    let (mut world, _) = ring(24, 1).build();
    for at in 0..24 {
        let guid = match at {
            0 => 1,
            12 => 2,
            other => 100 + other as u64,
        };
        seat(&mut world, (at, 0), 0, Guid::new(guid));
    }
    world.pass(millis(20_000));
    let mut want = [SmState::Standby; 24];
    want[0] = SmState::Master;
    assert_eq!(states(&world), want);
    world.unseat(0);
    world.pass(millis(20_000));
    want[12] = SmState::Master;
    assert_eq!(states(&world)[1..], want[1..]);
}

#[test]
fn a_higher_priority_is_handed_the_subnet() {
    let (mut world, _) = ring(10, 1).build();
    let first = guid_of(&world, 0);
    seat(&mut world, (0, 0), 0, first);
    world.settle(LIMIT);
    let at = (15, 1);
    let guid = guid_of(&world, at.0);
    seat(&mut world, at, 5, guid);
    world.pass(millis(10_000));
    assert_eq!(states(&world), [SmState::Standby, SmState::Master]);
    check(&world, 0, false);
    world.unseat(1);
    world.pass(millis(10_000));
    assert_eq!(world.seats[0].manager.state(), SmState::Master);
    check(&world, 0, false);
}

/// Who does not take the subnet, though it is to have it, keeps nobody from managing it.
#[test]
fn a_subnet_that_is_not_taken_is_managed() {
    let (mut world, _) = ring(10, 1).build();
    let first = guid_of(&world, 0);
    seat(&mut world, (0, 0), 0, first);
    world.settle(LIMIT);
    let late = (17, 1);
    let far = world.cables.far(late).expect("it has a cable");
    world.unplug(late);
    world.settle(LIMIT);
    world.unheard = Some((method::SET, attr::SM_INFO));
    let guid = guid_of(&world, 15);
    seat(&mut world, (15, 1), 5, guid);
    world.pass(millis(2_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Standby]);
    world.plug(late, far);
    world.pass(millis(10_000));
    check(&world, 0, false);
    world.unheard = None;
    world.pass(millis(70_000));
    assert_eq!(states(&world), [SmState::Standby, SmState::Master]);
}

/// One on a switch yields to one of the same priority at an adapter, and is not given the subnet back at once.
#[test]
fn courtesy_lasts() {
    let (mut world, _) = ring(10, 1).build();
    let first = guid_of(&world, 0);
    seat(&mut world, (0, 0), 0, first);
    world.settle(LIMIT);
    let at = (15, 1);
    let guid = guid_of(&world, at.0);
    assert!(first < guid);
    seat(&mut world, at, 0, guid);
    world.pass(millis(10_000));
    for _ in 0..100 {
        world.pass(millis(1_000));
        assert_eq!(states(&world), [SmState::Standby, SmState::Master]);
    }
    check(&world, 0, false);
    world.unseat(1);
    world.pass(millis(10_000));
    assert_eq!(world.seats[0].manager.state(), SmState::Master);
    check(&world, 0, false);
}

/// Two subnets with a master each become one: one of the masters yields.
#[test]
fn two_subnets_become_one() {
    let (mut world, _) = line(10, 1).build();
    let mut cables = world.cables.of(4);
    let (cable, far) = cables.find(|(_, far)| far.0 == 5).expect("the line has it");
    drop(cables);
    world.unplug(cable);
    for at in [(0, 0), (9, 0)] {
        let guid = guid_of(&world, at.0);
        seat(&mut world, at, 0, guid);
    }
    world.pass(millis(5_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Master]);
    check(&world, 0, true);
    check(&world, 9, true);
    world.plug(cable, far);
    world.pass(millis(30_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Standby]);
    check(&world, 0, true);
    world.unplug(cable);
    world.pass(millis(30_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Master]);
    check(&world, 0, true);
    check(&world, 9, true);
}

/// The answers of the master get lost until another one takes its place. Though nothing changes from then on, and no trap
/// tells of anything, they find each other.
#[test]
fn two_masters_of_a_quiet_subnet_become_one() {
    let (mut world, _) = ring(10, 1).build();
    for at in [(0, 0), (5, 0)] {
        let guid = guid_of(&world, at.0);
        seat(&mut world, at, 0, guid);
    }
    world.pass(millis(5_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Standby]);
    world.unseen = Some((method::GET_RESP, attr::SM_INFO));
    world.pass(millis(5_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Master]);
    world.unseen = None;
    world.pass(millis(15_000));
    assert_eq!(states(&world), [SmState::Master, SmState::Standby]);
    check(&world, 0, false);
}

/// Two switches with a master each are cut from each other, and joined, again and again: after each time there is one
/// master, and all routes are there.
#[test]
fn two_switches_part_and_meet() {
    let (mut world, _) = line(2, 1).build();
    let mut cables = world.cables.of(0);
    let (cable, far) = cables.find(|(_, far)| far.0 == 1).expect("the line has it");
    drop(cables);
    for at in [(0, 0), (1, 0)] {
        let guid = guid_of(&world, at.0);
        seat(&mut world, at, 0, guid);
    }
    world.pass(millis(5_000));
    for _ in 0..300 {
        assert_eq!(states(&world), [SmState::Master, SmState::Standby]);
        check(&world, 0, true);
        world.unplug(cable);
        let apart = world.random(5_000);
        world.pass(millis(apart));
        world.plug(cable, far);
        world.pass(millis(3_000));
    }
}
