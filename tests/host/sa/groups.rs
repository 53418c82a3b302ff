// SPDX-License-Identifier: GPL-2.0

//! MCMemberRecord, and the tables that follow from it.

use crate::client::{
    get,
    gid,
    request,
    table, //
};
use crate::flood::{
    check_group,
    flood, //
};
use crate::masters::enlarge;
use crate::nodes::{
    Node,
    Place, //
};
use crate::shapes::{
    fat_tree,
    guid_of, //
    line,
    mesh,
    ring,
};
use crate::world::World;
use crate::{
    millis,
    served,
    shapes,
    LIMIT, //
};
use proto::fabric::switch::Lrh;
use proto::time::Duration;
use std::collections::BTreeMap;
use wire::mad::sa::{
    method as sa_method,
    selector,
    status,
    McMemberRecord,
    JOIN_FULL,
    JOIN_NON,
    JOIN_SEND_ONLY,
    JOIN_SEND_ONLY_FULL, //
};
use wire::mad::smp::{
    attr,
    PortInfo,
    Smp, //
};
use wire::mad::{
    class,
    method,
    MadHeader, //
};
use wire::{
    Gid,
    Mtu,
    PKey,
    PortNum,
    QKey, //
};

/// What it takes to join.
const JOIN: u64 = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;

/// What it takes to make a group.
const CREATE: u64 = JOIN
    | McMemberRecord::QKEY
    | McMemberRecord::PKEY
    | McMemberRecord::TRAFFIC_CLASS
    | McMemberRecord::FLOW_LABEL
    | McMemberRecord::SL;

const MTU: u64 = McMemberRecord::MTU | McMemberRecord::MTU_SELECTOR;
const RATE: u64 = McMemberRecord::RATE | McMemberRecord::RATE_SELECTOR;

/// A name of a group.
pub(crate) fn name(number: u8) -> Gid {
    Gid::new([0xff, 0x12, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, number])
}

/// The groups that are there from the start.
fn broadcast(version: u8) -> Gid {
    let (signature, tail) = match version {
        4 => (0x40, [0xff; 4]),
        _ => (0x60, [0, 0, 0, 1]),
    };
    let mut bytes = [
        0xff, 0x12, signature, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    bytes[12..].copy_from_slice(&tail);
    Gid::new(bytes)
}

fn member(world: &World, at: Place, mgid: Gid, join_state: u8) -> McMemberRecord {
    McMemberRecord {
        mgid,
        port_gid: gid(world, at),
        join_state,
        qkey: QKey::new(0x1234),
        pkey: PKey::DEFAULT,
        ..McMemberRecord::default()
    }
}

/// Joins as the kernel does: with all that is needed to make a group.
pub(crate) fn join(
    world: &mut World,
    at: Place,
    mgid: Gid,
    ways: u8,
) -> Result<McMemberRecord, u16> {
    let record = member(world, at, mgid, ways);
    get(world, at, method::SET, CREATE, &record)
}

fn leave(world: &mut World, at: Place, mgid: Gid, ways: u8) -> Result<McMemberRecord, u16> {
    let record = member(world, at, mgid, ways);
    get(world, at, sa_method::DELETE, JOIN, &record)
}

#[test]
fn ip_groups_are_there_from_the_start() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    for version in [4, 6] {
        for at in &ports {
            let wish = member(&world, *at, broadcast(version), JOIN_FULL);
            let mask = JOIN | McMemberRecord::PKEY;
            let told = get(&mut world, *at, method::SET, mask, &wish).expect("it joins");
            assert_eq!(told.qkey, QKey::new(0x0b1b));
            assert_eq!((told.pkey, told.scope, told.mtu), (PKey::DEFAULT, 2, 5));
            assert!(told.mlid.is_multicast());
            assert_eq!(told.port_gid, wish.port_gid);
        }
        world.settle(LIMIT);
        check_group(&world, broadcast(version), &ports);
        for at in &ports {
            leave(&mut world, *at, broadcast(version), JOIN_FULL).expect("it leaves");
        }
        let empty = member(&world, ports[0], broadcast(version), JOIN_NON);
        let mask = McMemberRecord::MGID;
        get(&mut world, ports[0], method::GET, mask, &empty).expect("it is there without members");
    }
}

/// Ports join and leave at random, in all ways; links and nodes fail: members are reached, once, and nobody else.
#[test]
fn exactly_members_are_reached() {
    let large = [line(40, 1), ring(40, 1), mesh(8, 5, 1), fat_tree(4, 4, 3)];
    for shape in shapes().into_iter().chain(large) {
        let (mut world, ports) = served(&shape);
        let mut known: BTreeMap<(Place, u8), u8> = BTreeMap::new();
        for round in 0..150 {
            let at = ports[world.random(ports.len() as u64) as usize];
            let number = world.random(3) as u8;
            let state = known.entry((at, number)).or_default();
            let done = if *state == 0 {
                let ways = [JOIN_FULL, JOIN_NON, JOIN_SEND_ONLY, JOIN_SEND_ONLY_FULL];
                let ways = ways[world.random(4) as usize];
                *state = ways;
                let done = join(&mut world, at, name(number), ways);
                if done.is_err() {
                    *state = 0;
                }
                done
            } else {
                let ways = core::mem::take(state);
                leave(&mut world, at, name(number), ways)
            };
            // Without a full member there is no group to join, and members go with the last one.
            let others = known.iter().any(|((_, group), state)| {
                *group == number && state & (JOIN_FULL | JOIN_SEND_ONLY_FULL) != 0
            });
            assert!(done.is_ok() || !others, "{done:?}");
            if !others {
                known.retain(|(_, group), _| *group != number);
            }
            if round % 10 == 9 {
                world.settle(LIMIT);
                for group in (0..3).filter(|group| known.keys().any(|(_, known)| known == group)) {
                    check_group(&world, name(group), &ports);
                }
            }
        }
    }
}

/// While tables change, nothing goes round in circles and nobody gets anything twice.
#[test]
fn changes_do_no_harm() {
    for shape in [ring(12, 1), mesh(4, 3, 1), fat_tree(3, 2, 2)] {
        let (mut world, ports) = served(&shape);
        let mut mlid = None;
        for at in &ports {
            mlid = join(&mut world, *at, name(1), JOIN_FULL)
                .ok()
                .map(|told| told.mlid);
        }
        let mlid = mlid.expect("the group has a LID");
        world.settle(LIMIT);
        for _ in 0..30 {
            let cables = world.cables.all();
            let (a, b) = cables[world.random(cables.len() as u64) as usize];
            for plug in [false, true] {
                if plug {
                    world.plug(a, b);
                } else {
                    world.unplug(a);
                }
                for _ in 0..400 {
                    world.pass(Duration::from_nanos(2_000));
                    let from = ports[world.random(ports.len() as u64) as usize];
                    let arrived = flood(&world, from, mlid);
                    assert!(arrived.values().all(|times| *times == 1), "{arrived:?}");
                }
                world.settle(LIMIT);
            }
            // Who was cut off has to register again.
            for at in &ports {
                join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
            }
            world.settle(LIMIT);
            check_group(&world, name(1), &ports);
        }
    }
}

/// What was lost on the way is written in the end.
#[test]
fn lossy_links() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    world.loss = 20;
    for at in &ports {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
}

/// Switches take what is written, but their answers get lost until it is given up. Then it is not known what they have, and
/// what follows is written all the same.
#[test]
fn answers_of_switches_get_lost() {
    let (mut world, ports) = served(&line(4, 1));
    for at in &ports[..3] {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    world.settle(LIMIT);
    let answers = Some((method::GET_RESP, attr::MULTICAST_FORWARDING_TABLE));
    let far = ports[3];
    world.unseen = answers;
    let told = join(&mut world, far, name(1), JOIN_FULL).expect("it joins");
    world.pass(millis(700));
    assert!(flood(&world, ports[0], told.mlid).contains_key(&far));
    world.unseen = None;
    leave(&mut world, far, name(1), JOIN_FULL).expect("it leaves");
    world.settle(LIMIT);
    check_group(&world, name(1), &ports[..3]);
    join(&mut world, far, name(1), JOIN_FULL).expect("it joins");
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
    world.unseen = answers;
    leave(&mut world, far, name(1), JOIN_FULL).expect("it leaves");
    world.pass(millis(700));
    assert!(!flood(&world, ports[0], told.mlid).contains_key(&far));
    world.unseen = None;
    join(&mut world, far, name(1), JOIN_FULL).expect("it joins");
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
}

/// Who never takes its tables is given them again after longer and longer times.
#[test]
fn a_switch_that_takes_no_tables() {
    let (mut world, ports) = served(&line(4, 1));
    world.unseen = Some((method::GET_RESP, attr::MULTICAST_FORWARDING_TABLE));
    join(&mut world, ports[0], name(1), JOIN_FULL).expect("it joins");
    let sweeps = |world: &World| world.seats[0].manager.report().sweeps;
    let before = sweeps(&world);
    world.pass(millis(300_000));
    let spent = sweeps(&world) - before;
    assert!((5..=15).contains(&spent), "{spent} sweeps");
    world.unseen = None;
    world.settle(LIMIT);
    // The next trouble is not held to be the same.
    let before = sweeps(&world);
    world.unseen = Some((method::GET_RESP, attr::MULTICAST_FORWARDING_TABLE));
    join(&mut world, ports[1], name(1), JOIN_FULL).expect("it joins");
    world.pass(millis(10_000));
    assert!(sweeps(&world) - before >= 2);
}

/// Sends a request to the agent of a switch, and returns the answer.
fn manage(world: &mut World, switch: usize, method: u8, mkey: u64, info: &PortInfo) -> PortInfo {
    let mut smp = Smp::new(&MadHeader {
        mgmt_class: class::SUBN_LID,
        method,
        attr_id: attr::PORT_INFO,
        ..MadHeader::default()
    });
    smp.set_mkey(mkey);
    smp.set_attribute(info);
    let now = world.now;
    let Node::Switch(switch) = &mut world.nodes[switch] else {
        panic!("it is a switch");
    };
    let lrh = Lrh {
        slid: switch.lid(),
        dlid: switch.lid(),
    };
    let mut mad = *smp.as_bytes();
    switch.on_smp(PortNum::MANAGEMENT, &mut mad, lrh, now);
    assert_eq!(Smp::from_bytes(&mad).status(), 0);
    Smp::from_bytes(&mad).attribute()
}

/// A switch has the M_Key of somebody else, and so keeps its tables: groups of others come and go all the same.
#[test]
fn a_switch_that_keeps_its_tables() {
    for shape in [line(5, 1), ring(6, 1), fat_tree(3, 2, 2)] {
        let (mut world, ports) = served(&shape);
        for at in &ports {
            join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
        }
        world.settle(LIMIT);
        let far = *ports.last().expect("there are ports");
        let (switch, _) = world.cables.far(far).expect("it has a cable");
        let told = manage(&mut world, switch, method::GET, 0, &PortInfo::default());
        let guarded = PortInfo {
            mkey: 7,
            mkey_protect_bits: 1,
            ..told
        };
        manage(&mut world, switch, method::SET, 0, &guarded);
        leave(&mut world, far, name(1), JOIN_FULL).expect("it leaves");
        world.pass(millis(2_000));
        let near: Vec<Place> = ports
            .iter()
            .copied()
            .filter(|at| world.cables.far(*at).is_some_and(|end| end.0 != switch))
            .collect();
        let mut mlid = None;
        for at in &near {
            let told = join(&mut world, *at, name(2), JOIN_FULL).expect("it joins");
            mlid = Some(told.mlid);
        }
        for _ in 0..100 {
            world.pass(millis(100));
            for from in &ports {
                let arrived = flood(&world, *from, mlid.expect("the group has a LID"));
                assert!(arrived.values().all(|times| *times == 1), "{arrived:?}");
            }
        }
        let arrived = flood(&world, near[0], mlid.expect("the group has a LID"));
        assert!(arrived.contains_key(&near[1]), "{arrived:?}");
        // When it takes tables again, all are as they are to be.
        let open = PortInfo { mkey: 0, ..guarded };
        manage(&mut world, switch, method::SET, 7, &open);
        world.settle(LIMIT);
        check_group(&world, name(1), &ports);
        check_group(&world, name(2), &ports);
    }
}

/// A switch that forwards no multicast keeps nobody else from it.
#[test]
fn a_switch_without_multicast() {
    let (mut world, ports) = served(&line(3, 1));
    enlarge(&mut world);
    let switch = world.add_switch_for(4, 64, 0);
    let behind = world.add_hca(1);
    world.plug((2, 3), (switch, 1));
    world.plug((switch, 2), (behind, 1));
    world.settle(LIMIT);
    assert!(world.seats[0]
        .manager
        .nodes()
        .any(|node| node.info().node_guid == guid_of(&world, switch)));
    for at in &ports {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
}

#[test]
fn members_that_vanish_are_removed() {
    let (mut world, ports) = served(&line(4, 1));
    for at in &ports {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    join(&mut world, ports[3], name(2), JOIN_FULL).expect("it joins");
    world.settle(LIMIT);
    let far = world.cables.far(ports[3]).expect("it has a cable");
    world.unplug(ports[3]);
    world.settle(LIMIT);
    check_group(&world, name(1), &ports[..3]);
    let mlid = |world: &World, mgid: Gid| {
        let agent = world.seats[0].agent.as_ref().expect("it is there");
        let group = agent.groups().find(|group| group.record().mgid == mgid);
        group.map(|group| group.record().mlid)
    };
    let group = mlid(&world, name(1)).expect("it is there");
    let agent = world.seats[0].agent.as_ref().expect("it is there");
    assert_eq!(agent.members(group).count(), 3);
    assert_eq!(mlid(&world, name(2)), None, "nobody keeps it alive");
    world.plug(ports[3], far);
    world.settle(LIMIT);
    join(&mut world, ports[3], name(1), JOIN_FULL).expect("it joins again");
    world.settle(LIMIT);
    check_group(&world, name(1), &ports);
}

/// A port whose own link never went down learns that it was forgotten.
#[test]
fn who_was_cut_off_is_told_to_register() {
    let (mut world, ports) = served(&line(4, 1));
    let registrations = |world: &World| world.registrations[&ports[3]];
    let first = registrations(&world);
    let cable = world.cables.of(2).find(|(_, far)| far.0 == 3);
    let (near, far) = cable.expect("the line has it");
    world.unplug(near);
    world.settle(LIMIT);
    assert_eq!(registrations(&world), first);
    world.plug(near, far);
    world.settle(LIMIT);
    assert_eq!(registrations(&world), first + 1);
    world.sweep(0);
    world.settle(LIMIT);
    assert_eq!(registrations(&world), first + 1);
}

/// A group of IP hosts that has members fits a cable of a smaller MTU that comes later, and so do those that
/// depend on it; members are asked to join again, once. Groups of others stay as they are.
#[test]
fn a_narrow_cable_comes_to_an_ip_group() {
    let (mut world, ports) = served(&line(4, 1));
    let cable = world.cables.of(2).find(|(_, far)| far.0 == 3);
    let (near, far) = cable.expect("the line has it");
    world.unplug(near);
    world.settle(LIMIT);
    let solicited = {
        let mut bytes = broadcast(6).get();
        bytes[12] = 0xff;
        Gid::new(bytes)
    };
    let all = |world: &mut World, at: Place| {
        let mut told = Vec::new();
        for version in [4, 6] {
            let wish = member(world, at, broadcast(version), JOIN_FULL);
            let mask = JOIN | McMemberRecord::PKEY;
            told.push(get(world, at, method::SET, mask, &wish));
        }
        told.push(join(world, at, solicited, JOIN_FULL));
        told.push(join(world, at, name(1), JOIN_FULL));
        let told = told.into_iter().map(|told| told.expect("it joins").mtu);
        told.collect::<Vec<_>>()
    };
    for at in &ports[..2] {
        assert_eq!(all(&mut world, *at), [5; 4]);
    }
    world.settle(LIMIT);
    let registrations = |world: &World| {
        let all = ports.iter().map(|at| world.registrations[at]);
        all.collect::<Vec<_>>()
    };
    let before = registrations(&world);
    for (node, port) in [near, far] {
        let Node::Switch(switch) = &mut world.nodes[node] else {
            panic!("a line is of switches");
        };
        switch.set_mtu_cap(PortNum::new(port), Mtu::B1024);
    }
    world.plug(near, far);
    world.settle(LIMIT);
    let mut once = before;
    // Members, and who comes back.
    for place in [0, 1, 3] {
        once[place] += 1;
    }
    assert_eq!(registrations(&world), once);
    assert_eq!(all(&mut world, ports[3]), [3, 3, 3, 5]);
    assert_eq!(all(&mut world, ports[0]), [3, 3, 3, 5]);
    world.unplug(near);
    world.settle(LIMIT);
    world.sweep(0);
    world.settle(LIMIT);
    assert_eq!(registrations(&world), once);
    assert_eq!(all(&mut world, ports[2]), [3, 3, 3, 5]);
}

#[test]
fn groups_without_names_get_one() {
    let (mut world, ports) = served(&mesh(2, 1, 1));
    let mut names = Vec::new();
    for _ in 0..3 {
        let told = join(&mut world, ports[0], Gid::ZERO, JOIN_FULL).expect("it is made");
        assert_eq!(told.mgid.get()[..4], [0xff, 0x12, 0xa0, 0x1b]);
        assert!(!names.contains(&told.mgid));
        names.push(told.mgid);
    }
    join(&mut world, ports[1], names[1], JOIN_FULL).expect("it joins");
}

/// A group is what its request wants, so the same request joins it.
#[test]
fn groups_are_as_wished() {
    const GREATER: u8 = 0;
    const LESS: u8 = 1;
    const EXACT: u8 = 2;
    const BEST: u8 = 3;
    const LIFE: u64 = McMemberRecord::PACKET_LIFE_TIME | McMemberRecord::PACKET_LIFE_TIME_SELECTOR;
    let (mut world, ports) = served(&mesh(2, 1, 1));
    let mut number = 0;
    // Links bear 4096 bytes and 100 Gb/s, and what lives 4.096 us << 16 passes them.
    for (mask, how, wish, want) in [
        (LIFE, GREATER, 15, Ok(16)),
        (LIFE, GREATER, 16, Ok(17)),
        (LIFE, GREATER, 62, Ok(63)),
        (LIFE, GREATER, 63, Err(0x0200)),
        (LIFE, LESS, 17, Ok(16)),
        (LIFE, LESS, 16, Err(0x0200)),
        (LIFE, LESS, 10, Err(0x0200)),
        (LIFE, EXACT, 9, Ok(9)),
        (LIFE, BEST, 0, Ok(16)),
        (LIFE, BEST, 20, Ok(16)),
        (McMemberRecord::PACKET_LIFE_TIME, LESS, 10, Ok(16)),
        (MTU, GREATER, 4, Ok(5)),
        (MTU, GREATER, 5, Err(0x0200)),
        (MTU, LESS, 4, Ok(3)),
        (MTU, LESS, 1, Err(0x0200)),
        (MTU, EXACT, 2, Ok(2)),
        (MTU, EXACT, 0, Err(0x0200)),
        (MTU, BEST, 0, Ok(5)),
        (MTU, BEST, 1, Ok(5)),
        (RATE, GREATER, 3, Ok(16)),
        (RATE, GREATER, 16, Err(0x0200)),
        (RATE, LESS, 3, Ok(5)),
        (RATE, LESS, 2, Err(0x0200)),
        (RATE, EXACT, 7, Ok(7)),
        (RATE, EXACT, 0, Err(0x0200)),
        (RATE, BEST, 0, Ok(16)),
        (RATE, BEST, 2, Ok(16)),
    ] {
        number += 1;
        let mut asked = member(&world, ports[0], name(number), JOIN_FULL);
        if mask & MTU != 0 {
            (asked.mtu_selector, asked.mtu) = (how, wish);
        } else if mask & RATE != 0 {
            (asked.rate_selector, asked.rate) = (how, wish);
        } else {
            (asked.packet_life_time_selector, asked.packet_life_time) = (how, wish);
        }
        for _ in 0..2 {
            let told = get(&mut world, ports[0], method::SET, CREATE | mask, &asked);
            let told = told.map(|told| match mask {
                MTU => told.mtu,
                RATE => told.rate,
                _ => told.packet_life_time,
            });
            assert_eq!(told, want, "{mask:#x} {how} {wish}");
        }
    }
}

#[test]
fn what_is_refused() {
    let (mut world, ports) = served(&mesh(3, 1, 1));
    let (at, other) = (ports[0], ports[1]);
    let good = member(&world, at, name(1), JOIN_FULL);
    let with = |change: &dyn Fn(&mut McMemberRecord)| {
        let mut wish = good;
        change(&mut wish);
        wish
    };
    let mut bad_name = [0; 16];
    bad_name.copy_from_slice(&name(1).get());
    bad_name[2..4].copy_from_slice(&[0xa0, 0x1b]);
    let (set, delete) = (method::SET, sa_method::DELETE);
    let unknown = Gid::from_parts(Gid::DEFAULT_PREFIX, wire::Guid::new(1));
    for (method, mask, wish, want) in [
        (
            set,
            CREATE & !McMemberRecord::JOIN_STATE,
            good,
            status::INSUFFICIENT_COMPONENTS,
        ),
        (
            set,
            CREATE & !McMemberRecord::PORT_GID,
            good,
            status::INSUFFICIENT_COMPONENTS,
        ),
        (
            set,
            CREATE & !McMemberRecord::QKEY,
            good,
            status::INSUFFICIENT_COMPONENTS,
        ),
        (
            set,
            CREATE,
            with(&|wish| wish.join_state = 0),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE,
            with(&|wish| wish.join_state = JOIN_NON),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE,
            with(&|wish| wish.join_state = JOIN_SEND_ONLY),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE,
            with(&|wish| wish.pkey = PKey::new(0x8001)),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE,
            with(&|wish| wish.port_gid = unknown),
            status::INVALID_GID,
        ),
        (
            set,
            CREATE,
            with(&|wish| wish.mgid = Gid::new(bad_name)),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE,
            with(&|wish| wish.mgid = unknown),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE | MTU,
            with(&|wish| (wish.mtu, wish.mtu_selector) = (5, selector::GREATER)),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE | RATE,
            with(&|wish| (wish.rate, wish.rate_selector) = (1, selector::EXACT)),
            status::REQUEST_INVALID,
        ),
        (
            set,
            CREATE | McMemberRecord::SCOPE,
            with(&|wish| wish.scope = 5),
            status::REQUEST_INVALID,
        ),
        (delete, JOIN, good, status::REQUEST_INVALID),
        (
            delete,
            JOIN & !McMemberRecord::MGID,
            good,
            status::INSUFFICIENT_COMPONENTS,
        ),
    ] {
        let told = get(&mut world, at, method, mask, &wish);
        assert_eq!(told, Err(want), "{method:#x} {mask:#x} {wish:?}");
    }
    let told = join(&mut world, at, name(1), JOIN_FULL).expect("it is made");
    assert_eq!(told.join_state, JOIN_FULL);
    // Others do not say that a port leaves, and nobody leaves as what he is not.
    let denied = get(&mut world, other, delete, JOIN, &good);
    assert_eq!(denied, Err(status::DENIED));
    let invalid = get(
        &mut world,
        at,
        delete,
        JOIN,
        &with(&|wish| wish.join_state = JOIN_NON),
    );
    assert_eq!(invalid, Err(status::REQUEST_INVALID));
    let wrong = get(
        &mut world,
        other,
        set,
        CREATE,
        &with(&|wish| wish.qkey = QKey::new(7)),
    );
    assert_eq!(wrong, Err(status::REQUEST_INVALID));
    let told = join(&mut world, at, name(1), JOIN_SEND_ONLY).expect("it joins");
    assert_eq!(told.join_state, JOIN_FULL | JOIN_SEND_ONLY);
    let told = leave(&mut world, at, name(1), JOIN_SEND_ONLY).expect("it leaves");
    assert_eq!(told.join_state, JOIN_FULL);
    // Others do not say either how a port that has joined by itself takes part.
    let more = with(&|wish| wish.join_state = JOIN_NON);
    let invalid = get(&mut world, other, set, CREATE, &more);
    assert_eq!(invalid, Err(status::REQUEST_INVALID));
    // One may be joined by another, which may take that back.
    let proxy = member(&world, other, name(1), JOIN_FULL);
    let told = get(&mut world, at, set, CREATE, &proxy).expect("it is joined");
    assert!(told.proxy_join);
    get(&mut world, at, delete, JOIN, &proxy).expect("it leaves");
}

/// There are as many groups as LIDs, and no more members than room.
#[test]
fn there_is_no_room_for_more() {
    let (mut world, ports) = served(&mesh(2, 1, 1));
    for number in 0..62 {
        join(&mut world, ports[0], name(number), JOIN_FULL).expect("there is room");
    }
    let full = join(&mut world, ports[0], name(62), JOIN_FULL);
    assert_eq!(full, Err(status::NO_RESOURCES));
    leave(&mut world, ports[0], name(9), JOIN_FULL).expect("it leaves");
    world.settle(LIMIT);
    join(&mut world, ports[0], name(62), JOIN_FULL).expect("there is room");
}

/// Requests that have waited for the end of a sweep find room, though all trees are to be made anew.
#[test]
fn groups_are_made_after_a_sweep() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    for number in 0..8 {
        world.sweep(0);
        join(&mut world, ports[1], name(number), JOIN_FULL).expect("there is room");
    }
    world.settle(LIMIT);
    for number in 0..8 {
        check_group(&world, name(number), &ports);
    }
}

#[test]
fn who_is_in_a_group_is_told_to_the_trusted() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    for at in &ports {
        join(&mut world, *at, name(1), JOIN_FULL).expect("it joins");
    }
    let wish = member(&world, ports[0], name(1), JOIN_FULL);
    let asked = request(method::GET, McMemberRecord::MGID, &wish);
    let told: Vec<McMemberRecord> = table(&mut world, ports[0], asked.clone()).expect("a table");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].port_gid, told[0].join_state), (Gid::ZERO, 0));
    let mut trusted = asked;
    trusted.set_sm_key(1);
    let told: Vec<McMemberRecord> = table(&mut world, ports[0], trusted).expect("a table");
    let mut gids: Vec<Gid> = told.iter().map(|member| member.port_gid).collect();
    let mut want: Vec<Gid> = ports.iter().map(|at| gid(&world, *at)).collect();
    gids.sort_unstable();
    want.sort_unstable();
    assert_eq!(gids, want);
    let own = member(&world, ports[2], name(1), JOIN_FULL);
    let own = get(&mut world, ports[2], method::GET, JOIN, &own);
    assert_eq!(own.map(|own| own.port_gid), Ok(gid(&world, ports[2])));
    let other = get(&mut world, ports[2], method::GET, JOIN, &wish);
    assert_eq!(other, Err(status::NO_RECORDS));
}
