// SPDX-License-Identifier: GPL-2.0

//! Whole fabrics in virtual time: switches, adapters, a subnet manager that sweeps them hop by hop.

#[path = "fabric/sm.rs"]
mod sm;
#[path = "fabric/world.rs"]
mod world;

use proptest::prelude::*;
use proto::fabric::link::{
    LinkState,
    PhysState, //
};
use proto::fabric::port::PortEvent;
use proto::fabric::switch::Lrh;
use proto::fabric::trap::BadKey;
use proto::fabric::Mad;
use proto::time::Duration;
use sm::{
    be16,
    Manager, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    PortNum,
    Qpn,
    Sl, //
};
use world::{
    hca,
    switch,
    Node,
    Place,
    World, //
};

/// GUID of adapter `index`; its ports count on from there.
const fn adapter_guid(index: usize) -> u64 {
    0x0200_0000_0000_1000 + ((index as u64) << 8)
}

/// A fabric: the number of switches, their ties, the switch of each adapter.
type Shape<'a> = (usize, &'a [(usize, usize)], &'a [usize]);

/// Switches tied as `ties` say, and adapters of two ports, of which both hang on the switch given for them. Ports of
/// switches are taken in ascending order.
fn fabric(switches: usize, ties: &[(usize, usize)], adapters: &[usize]) -> (World, Manager) {
    let mut world = World::new();
    for index in 0..switches {
        let guid = 0x0200_0000_0000_0100 + index as u64;
        world.add(Node::Switch(Box::new(switch(guid, 20))));
    }
    let mut used = vec![0u8; switches];
    let mut next = |node: usize| {
        used[node] += 1;
        (node, used[node])
    };
    for (a, b) in ties {
        let (a, b) = (next(*a), next(*b));
        world.plug(a, b);
    }
    let mut first = None;
    for (index, on) in adapters.iter().enumerate() {
        let node = world.add(Node::Hca(Box::new(hca(adapter_guid(index), 2))));
        first.get_or_insert(node);
        for port in [1, 2] {
            let there = next(*on);
            world.plug((node, port), there);
        }
    }
    let manager = Manager::new((first.expect("there is an adapter"), 1));
    (world, manager)
}

/// Checks that every port of every adapter reaches every other, by every LID and by multicast.
fn all_reach_all(world: &mut World, manager: &Manager, switches: usize) {
    let place = |guid: u64, port: u8| -> Place {
        let index = (guid - adapter_guid(0)) >> 8;
        (switches + index as usize, port)
    };
    let lids = manager.adapter_lids();
    for (from_guid, from_port, from_lid) in &lids {
        for (to_guid, to_port, to_lid) in &lids {
            if from_lid == to_lid {
                continue;
            }
            for path in 0..1 << manager.lmc {
                let from = place(*from_guid, *from_port);
                let arrived = world.trace(from, to_lid + path, 0xffff);
                assert_eq!(arrived, [place(*to_guid, *to_port)]);
            }
        }
    }
    for (guid, port, _) in &lids {
        let from = place(*guid, *port);
        let mut arrived = world.trace(from, 0xc000, 0xffff);
        arrived.sort_unstable();
        let mut others: Vec<_> = lids
            .iter()
            .map(|(guid, port, _)| place(*guid, *port))
            .collect();
        others.retain(|other| *other != from);
        others.sort_unstable();
        assert_eq!(arrived, others);
    }
}

#[test]
fn topologies_come_up() {
    let shapes: [Shape<'_>; 6] = [
        (1, &[], &[0]),
        (1, &[], &[0, 0, 0, 0]),
        (2, &[(0, 1)], &[0, 1]),
        (3, &[(0, 1), (1, 2), (2, 0)], &[0, 1, 2, 2]),
        (5, &[(0, 1), (1, 2), (2, 3), (3, 4)], &[0, 4, 2]),
        (
            5,
            &[(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 2)],
            &[1, 2, 3, 4],
        ),
    ];
    for (switches, ties, adapters) in shapes {
        for lmc in [0, 2] {
            let (mut world, mut manager) = fabric(switches, ties, adapters);
            manager.lmc = lmc;
            manager.sweep(&mut world);
            assert_eq!(manager.nodes.len(), switches + adapters.len());
            all_reach_all(&mut world, &manager, switches);
        }
    }
}

#[test]
fn nothing_but_management_passes_before_the_sweep() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.discover(&mut world);
    manager.assign(&mut world);
    manager.route(&mut world);
    let lids = manager.adapter_lids();
    assert_eq!(world.trace((1, 1), lids[3].2, 0xffff), []);
    manager.raise(&mut world, 3);
    assert_eq!(world.trace((1, 1), lids[3].2, 0xffff), []);
    manager.raise(&mut world, 4);
    assert_eq!(world.trace((1, 1), lids[3].2, 0xffff), [(2, 2)]);
}

#[test]
fn events_come_in_order() {
    let (mut world, mut manager) = fabric(1, &[], &[0]);
    manager.sweep(&mut world);
    let told: Vec<_> = world
        .events
        .iter()
        .filter(|(at, _)| *at == (1, 1))
        .flat_map(|(_, events)| events.iter())
        .collect();
    let want = [
        PortEvent::LidChange,
        PortEvent::SmChange,
        PortEvent::ClientReregister,
        PortEvent::PortActive,
    ];
    assert_eq!(told, want);
    world.events.clear();
    manager.sweep(&mut world);
    let again: Vec<_> = world
        .events
        .iter()
        .flat_map(|(_, events)| events.iter())
        .collect();
    assert_eq!(again, [PortEvent::ClientReregister; 2]);
}

#[test]
fn a_dead_cable_makes_a_trap() {
    let (mut world, mut manager) = fabric(2, &[(0, 1), (0, 1)], &[0, 1]);
    manager.sweep(&mut world);
    world.inbox.clear();
    world.events.clear();
    // The second switch knows no other way to the manager: its trap waits until the sweep.
    world.unplug((0, 1));
    world.pass(Duration::from_millis(1));
    seen(&mut world, &mut manager, 1);
    manager.sweep(&mut world);
    all_reach_all(&mut world, &manager, 2);
    world.pass(Duration::from_millis(2000));
    seen(&mut world, &mut manager, 1);
    world.pass(Duration::from_millis(60_000));
    assert!(world.inbox.is_empty());
    world.plug((0, 1), (1, 1));
    world.pass(Duration::from_millis(1));
    seen(&mut world, &mut manager, 2);
    manager.sweep(&mut world);
    all_reach_all(&mut world, &manager, 2);
}

#[test]
fn both_ends_count_that_a_link_went_down() {
    let (mut world, mut manager) = fabric(1, &[], &[0]);
    manager.sweep(&mut world);
    let (near, far) = ((0, 2), (1, 2));
    assert_eq!(world.link_downed(near), 0);
    for count in 1..=2 {
        world.unplug(near);
        assert_eq!(
            (world.link_downed(near), world.link_downed(far)),
            (count, count)
        );
        world.plug(near, far);
    }
    assert_eq!(
        (world.link_downed((0, 1)), world.link_downed((1, 1))),
        (0, 0)
    );
}

/// A manager that has just seen a port without a cable, and does not see it a second time, hears of the cable as
/// soon as it has said who it is.
#[test]
fn a_cable_that_comes_amid_a_sweep_makes_a_trap() {
    let (mut world, mut manager) = fabric(2, &[], &[0, 1]);
    manager.discover(&mut world);
    world.plug((0, 10), (1, 10));
    manager.assign(&mut world);
    // The first trap finds no way to the manager.
    manager.route(&mut world);
    world.pass(Duration::from_millis(2000));
    seen(&mut world, &mut manager, 1);
    manager.sweep(&mut world);
    all_reach_all(&mut world, &manager, 2);
    world.pass(Duration::from_millis(60_000));
    assert!(world.inbox.is_empty());
}

/// The same of what an adapter is called, which programs change as soon as it is there.
#[test]
fn a_name_that_comes_amid_a_sweep_makes_a_trap() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.discover(&mut world);
    let now = world.now;
    let Node::Hca(hca) = &mut world.nodes[2] else {
        panic!("node 2 is an adapter");
    };
    hca.set_description([b'n'; 64], now);
    manager.assign(&mut world);
    manager.route(&mut world);
    world.pass(Duration::from_millis(2000));
    let told: Vec<_> = world.inbox.drain(..).collect();
    // One from each port, which has another name now: flag 0 of "other local changes".
    assert_eq!(told.len(), 2);
    for (at, _, mad) in &told {
        assert_eq!(*at, manager.at);
        assert_eq!((mad[3], be16(mad, 68)), (5, 144));
        assert_eq!((mad[79] & 1, be16(mad, 84)), (1, 1));
    }
}

/// Checks that `count` traps 128 have arrived, and represses them.
fn seen(world: &mut World, manager: &mut Manager, count: usize) {
    let traps: Vec<_> = world.inbox.drain(..).collect();
    assert_eq!(traps.len(), count);
    for (at, lrh, mad) in &traps {
        assert_eq!(*at, manager.at);
        assert_eq!((mad[3], be16(mad, 16), be16(mad, 68)), (5, 2, 128));
        assert_eq!(be16(mad, 70), lrh.slid.get());
        manager.repress(world, *lrh, mad);
    }
}

#[test]
fn traps_repeat_until_they_are_given_up() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.sweep(&mut world);
    world.inbox.clear();
    world.unplug((2, 2));
    for _ in 0..100 {
        world.pass(Duration::from_millis(1000));
    }
    assert_eq!(world.inbox.len(), 10);
}

/// Reads and writes the state of a port as `ibportstate` does.
fn port_state(
    manager: &mut Manager,
    world: &mut World,
    path: &[u8],
    port: u8,
    state: u8,
    phys: u8,
) {
    let (_, mut info) = manager
        .ask(world, path, sm::GET, sm::PORT_INFO, port.into(), &[0; 64])
        .expect("an answer");
    info[32] = info[32] & 0xf0 | state;
    info[33] = phys << 4;
    let (status, _) = manager
        .ask(world, path, sm::SET, sm::PORT_INFO, port.into(), &info)
        .expect("the answer leaves before the link goes down");
    assert_eq!(status, 0);
}

#[test]
fn a_new_manager_is_announced_to_the_old_one() {
    const IS_SM: u32 = 1 << 1;
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.sweep(&mut world);
    for (node, traps) in [(1, 0), (2, 1)] {
        let now = world.now;
        let Node::Hca(hca) = &mut world.nodes[node] else {
            panic!("node {node} is an adapter");
        };
        hca.change_cap_mask(PortNum::new(1), IS_SM, 0, now);
        world.pass(Duration::from_millis(1));
        assert_eq!(world.inbox.len(), traps);
    }
    let (_, _, mad) = &world.inbox[0];
    assert_eq!((mad[3], be16(mad, 68)), (5, 144));
    // The mask in the details has the new bit.
    assert_eq!(mad[83] & IS_SM as u8, IS_SM as u8);
}

#[test]
fn ports_tell_what_they_can() {
    const TRAP: u32 = 1 << 3;
    const AUTOMATIC_MIGRATION: u32 = 1 << 5;
    const SL_MAPPING: u32 = 1 << 6;
    const LED_INFO: u32 = 1 << 9;
    const SYSTEM_IMAGE_GUID: u32 = 1 << 11;
    const PKEY_SWITCH_EXTERNAL_PORT_TRAP: u32 = 1 << 12;
    const EXTENDED_SPEEDS: u32 = 1 << 14;
    const CAPABILITY_MASK_NOTICE: u32 = 1 << 22;
    const CLIENT_REREGISTRATION: u32 = 1 << 25;
    const OTHER_LOCAL_CHANGES_NOTICE: u32 = 1 << 26;
    const ALL: u32 = TRAP
        | SL_MAPPING
        | LED_INFO
        | SYSTEM_IMAGE_GUID
        | EXTENDED_SPEEDS
        | CAPABILITY_MASK_NOTICE
        | OTHER_LOCAL_CHANGES_NOTICE;
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    for (path, port, can) in [
        (&[1][..], 0, ALL | PKEY_SWITCH_EXTERNAL_PORT_TRAP),
        (&[1][..], 1, 0),
        (
            &[1, 3][..],
            1,
            ALL | AUTOMATIC_MIGRATION | CLIENT_REREGISTRATION,
        ),
    ] {
        let (_, info) = manager
            .ask(&mut world, path, sm::GET, sm::PORT_INFO, port, &[0; 64])
            .expect("an answer");
        let told = u32::from(be16(&info, 20)) << 16 | u32::from(be16(&info, 22));
        assert_eq!(told, can, "{told:#x} {can:#x}");
    }
}

#[test]
fn the_last_communication_manager_clears_the_bit() {
    const CM: u32 = 1 << 16;
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.sweep(&mut world);
    let changes = [
        (0, 0, 0),
        (CM, 0, CM),
        (CM, 0, CM),
        (0, CM, CM),
        (0, CM, 0),
        (0, CM, 0),
        (CM, 0, CM),
    ];
    for (set, clear, left) in changes {
        let now = world.now;
        let Node::Hca(hca) = &mut world.nodes[2] else {
            panic!("node 2 is an adapter");
        };
        hca.change_cap_mask(PortNum::new(1), set, clear, now);
        let (_, info) = manager
            .ask(&mut world, &[1, 3], sm::GET, sm::PORT_INFO, 1, &[0; 64])
            .expect("an answer");
        assert_eq!(u32::from(be16(&info, 20)) << 16 & CM, left);
    }
}

#[test]
fn a_manager_on_a_switch_answers_for_itself() {
    let (mut world, mut manager) = fabric(1, &[], &[0]);
    manager.sweep(&mut world);
    for (runs, status) in [(true, None), (false, Some(0x0c))] {
        let now = world.now;
        let Node::Switch(switch) = &mut world.nodes[0] else {
            panic!("node 0 is a switch");
        };
        switch.set_manager(runs, now);
        world.pass(Duration::from_millis(300));
        let traps: Vec<_> = world.inbox.drain(..).collect();
        assert_eq!(traps.len(), 1);
        assert_eq!((traps[0].2[3], be16(&traps[0].2, 68)), (5, 144));
        let answer = manager.ask(&mut world, &[1], sm::GET, sm::SM_INFO, 0, &[0; 64]);
        assert_eq!(answer.map(|(status, _)| status), status);
        let asked = world
            .inbox
            .drain(..)
            .any(|(at, _, mad)| at == (0, 0) && mad[3] == sm::GET && be16(&mad, 16) == sm::SM_INFO);
        assert_eq!(asked, runs);
    }
}

#[test]
fn disable_enable_reset() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.sweep(&mut world);
    let state = |world: &World, place: Place| {
        let port = PortNum::new(place.1);
        let attrs = match &world.nodes[place.0] {
            Node::Switch(switch) => switch.port(port).expect("it is there").attrs(),
            Node::Hca(hca) => hca.port(port).expect("it is there").attrs(),
        };
        (attrs.state(), attrs.phys())
    };
    // Port 4 of the switch leads to port 2 of the second adapter.
    port_state(&mut manager, &mut world, &[1], 4, 1, 3);
    assert_eq!(
        state(&world, (0, 4)),
        (LinkState::Down, PhysState::Disabled)
    );
    assert_eq!(state(&world, (2, 2)), (LinkState::Down, PhysState::Polling));
    port_state(&mut manager, &mut world, &[1], 4, 0, 2);
    assert_eq!(state(&world, (0, 4)), (LinkState::Init, PhysState::LinkUp));
    assert_eq!(state(&world, (2, 2)), (LinkState::Init, PhysState::LinkUp));
    manager.sweep(&mut world);
    all_reach_all(&mut world, &manager, 1);
    // The manager's own link, from the far side: the answer comes, then it trains anew.
    port_state(&mut manager, &mut world, &[1], 1, 1, 0);
    assert_eq!(state(&world, (1, 1)), (LinkState::Init, PhysState::LinkUp));
    // The same from the near side.
    manager.sweep(&mut world);
    port_state(&mut manager, &mut world, &[], 1, 1, 0);
    assert_eq!(state(&world, (0, 1)), (LinkState::Init, PhysState::LinkUp));
    manager.sweep(&mut world);
    all_reach_all(&mut world, &manager, 1);
}

#[test]
fn management_by_lid() {
    let (mut world, mut manager) = fabric(3, &[(0, 1), (1, 2)], &[0, 2]);
    manager.sweep(&mut world);
    let own = manager.nodes[0].lids[&1];
    for found in manager.nodes.clone() {
        for lid in found.lids.values() {
            let lids = (own, *lid);
            let answer = manager.ask_lid(&mut world, lids, sm::GET, sm::NODE_INFO, 0, &[0; 64]);
            let (status, data) = answer.expect("an answer");
            assert_eq!(status, 0);
            assert_eq!(sm::be64(&data, 12), found.guid);
        }
    }
}

/// The LID that ends a directed route at that end.
const PERMISSIVE: u16 = 0xffff;

/// The LID of the switch with `guid`, which the manager has found.
fn switch_lid(manager: &Manager, guid: u64) -> u16 {
    let mut found = manager.nodes.iter().filter(|found| found.guid == guid);
    found.next().expect("it was found").lids[&0]
}

/// Has the manager ask for NodeInfo by a directed route of one hop, and returns the answer. `lids` are of the LRH,
/// `ends` are DrSLID and DrDLID, `hop` the hop pointer and the port by which the hop goes.
fn ask_by_one_hop(
    world: &mut World,
    manager: &Manager,
    lids: [u16; 2],
    ends: [u16; 2],
    hop: [u8; 2],
) -> (Lrh, Mad) {
    let mut mad = [0; 256];
    mad[..8].copy_from_slice(&[1, 0x81, 1, sm::GET, 0, 0, hop[0], 1]);
    mad[15] = 77;
    mad[16..18].copy_from_slice(&sm::NODE_INFO.to_be_bytes());
    mad[32..34].copy_from_slice(&ends[0].to_be_bytes());
    mad[34..36].copy_from_slice(&ends[1].to_be_bytes());
    mad[129] = hop[1];
    let lrh = Lrh {
        slid: Lid::new(lids[0]),
        dlid: Lid::new(lids[1]),
    };
    world.send(manager.at, lrh, mad);
    assert_eq!(world.inbox.len(), 1);
    let (at, lrh, mad) = world.inbox.remove(0);
    assert_eq!((at, mad[3]), (manager.at, 0x81));
    (lrh, mad)
}

#[test]
fn routes_with_a_part_by_lid() {
    // The way to the second switch by LID, from there on by ports: `smpquery -c`.
    let (mut world, mut manager) = fabric(3, &[(0, 1), (1, 2)], &[0, 2]);
    manager.sweep(&mut world);
    let own = manager.nodes[0].lids[&1];
    let middle = switch_lid(&manager, 0x0200_0000_0000_0101);
    let ends = [own, PERMISSIVE];
    let (lrh, mad) = ask_by_one_hop(&mut world, &manager, [own, middle], ends, [0, 2]);
    assert_eq!((lrh.dlid.get(), mad[6]), (own, 0));
    assert_eq!(sm::be64(&mad[64..], 12), 0x0200_0000_0000_0102);
}

#[test]
fn a_way_by_ports_may_end_at_the_lid_that_comes_next() {
    let (mut world, mut manager) = fabric(2, &[(0, 1)], &[0, 1]);
    manager.sweep(&mut world);
    let near = switch_lid(&manager, 0x0200_0000_0000_0100);
    let ends = [PERMISSIVE, near];
    let (_, mad) = ask_by_one_hop(&mut world, &manager, [PERMISSIVE; 2], ends, [1, 1]);
    assert_eq!(sm::be64(&mad[64..], 12), 0x0200_0000_0000_0100);
}

#[test]
fn refusals_have_the_right_status() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.sweep(&mut world);
    // (path, method, attribute, modifier, status)
    let cases: [(&[u8], u8, u16, u32, u16); 24] = [
        (&[1], sm::GET, 0xff90, 1, 0x0c),
        (&[1], sm::GET, 0x001a, 0, 0x0c),
        (&[1], sm::GET, 0x0030, 0, 0x0c),
        (&[1], sm::GET, 0x0002, 0, 0x0c),
        (&[1], sm::GET, sm::SM_INFO, 0, 0x0c),
        (&[1], sm::SET, sm::NODE_INFO, 0, 0x0c),
        (&[1], sm::SET, sm::NODE_DESCRIPTION, 0, 0x0c),
        (&[1], 4, sm::NODE_INFO, 0, 0x08),
        (&[1], sm::GET, sm::PORT_INFO, 21, 0x1c),
        (&[1], sm::GET, sm::PORT_INFO, 0x100, 0x1c),
        (&[1], sm::GET, sm::LFT, 16, 0x1c),
        (&[1], sm::GET, sm::LFT, u32::MAX, 0x1c),
        (&[1], sm::GET, sm::MFT, 8, 0x1c),
        (&[1], sm::GET, sm::MFT, 2 << 28, 0x1c),
        (&[1], sm::GET, sm::PKEY_TABLE, 1, 0x1c),
        (&[1], sm::GET, sm::PKEY_TABLE, 21 << 16, 0x1c),
        (&[1], sm::GET, sm::VL_ARB, 2 << 16 | 1, 0x1c),
        (&[1], sm::GET, sm::LED_INFO, 21, 0x1c),
        (&[1], sm::SET, sm::LED_INFO, 0x101, 0x1c),
        (&[1, 3], sm::GET, sm::SWITCH_INFO, 0, 0x0c),
        (&[1, 3], sm::GET, 0xff90, 1, 0x0c),
        (&[1, 3], sm::GET, sm::PORT_INFO, 3, 0x1c),
        (&[1, 3], sm::GET, sm::PKEY_TABLE, 1, 0x1c),
        (&[1, 3], sm::GET, sm::GUID_INFO, 1, 0x1c),
    ];
    for (path, method, attribute, modifier, want) in cases {
        let answer = manager.ask(&mut world, path, method, attribute, modifier, &[0; 64]);
        let status = answer.map(|(status, _)| status);
        assert_eq!(
            status,
            Some(want),
            "{attribute:#x} {modifier:#x} at {path:?}"
        );
    }
}

/// Whoever asks sees the light of the port that was lit, and of no other.
#[test]
fn each_port_has_a_light() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.sweep(&mut world);
    let mut lit: sm::Data = [0; 64];
    lit[0] = 0x80;
    // By the path and the number of the port; an adapter has the light of the port that was asked.
    let lights: [(&[u8], u32); 4] = [(&[1], 1), (&[1], 2), (&[1, 3], 0), (&[1, 4], 0)];
    let mut light = |path: &[u8], method: u8, modifier: u32, data: &sm::Data| {
        let answer = manager.ask(&mut world, path, method, sm::LED_INFO, modifier, data);
        let (status, data) = answer.expect("an answer");
        assert_eq!(status, 0, "{path:?}");
        data[0]
    };
    for (path, modifier) in lights {
        assert_eq!(light(path, sm::SET, modifier, &lit), 0x80);
        for (other, number) in lights {
            let want = if (other, number) == (path, modifier) {
                0x80
            } else {
                0
            };
            assert_eq!(
                light(other, sm::GET, number, &[0; 64]),
                want,
                "{other:?} {number}"
            );
        }
        assert_eq!(light(path, sm::SET, modifier, &[0; 64]), 0);
    }
}

#[test]
fn mkeys_guard_and_report() {
    // (level, whether reading is free, whether the key is seen)
    for (protect, reads, sees) in [(0, true, true), (1, true, false), (2, false, false)] {
        let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
        manager.mkey = 0x1234;
        manager.protect = protect;
        // The first sweep sets the keys; the second needs them.
        manager.sweep(&mut world);
        manager.sweep(&mut world);
        world.inbox.clear();
        manager.mkey = 0x4321;
        for path in [&[1][..], &[1, 3][..]] {
            let port = path.len() as u32 - 1;
            let get = manager.ask(&mut world, path, sm::GET, sm::PORT_INFO, port, &[0; 64]);
            let seen = get.map(|(_, info)| sm::be64(&info, 0));
            let expected = reads.then_some(if sees { 0x1234 } else { 0 });
            assert_eq!(seen, expected);
            world.pass(Duration::from_millis(300));
            world.inbox.clear();
            let set = manager.ask(&mut world, path, sm::SET, sm::PORT_INFO, port, &[0; 64]);
            assert_eq!(set, None);
            world.pass(Duration::from_millis(300));
            let trap = world.inbox.pop().expect("a trap");
            assert_eq!((trap.2[3], be16(&trap.2, 68)), (5, 256));
            // Details: the attempted method, attribute and key.
            assert_eq!((trap.2[80], be16(&trap.2, 82)), (sm::SET, sm::PORT_INFO));
            assert_eq!(sm::be64(&trap.2, 88), 0x4321);
            // Who is at the other end of a link has no LID.
            assert_eq!(be16(&trap.2, 76), 0xffff);
            world.inbox.clear();
        }
        // By LID, a switch and an adapter tell whose request it was.
        let lids = manager.adapter_lids();
        let (own, adapter) = (lids[0].2, lids[2].2);
        let switch = manager.nodes.iter().find(|found| found.is_switch);
        let switch = switch.expect("it was found").lids[&0];
        for lid in [switch, adapter] {
            world.pass(Duration::from_millis(300));
            world.inbox.clear();
            let lids = (own, lid);
            let set = manager.ask_lid(&mut world, lids, sm::SET, sm::PORT_INFO, 0, &[0; 64]);
            assert_eq!(set, None);
            world.pass(Duration::from_millis(300));
            let trap = world.inbox.pop().expect("a trap");
            assert_eq!((trap.2[3], be16(&trap.2, 68)), (5, 256));
            assert_eq!(trap.1.slid, Lid::new(lid));
            assert_eq!((be16(&trap.2, 76), be16(&trap.2, 78)), (own, 0));
        }
    }
}

#[test]
fn switches_enforce_partitions() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0]);
    manager.sweep(&mut world);
    let lids = manager.adapter_lids();
    let (near, far) = ((1, 1), lids[2].2);
    // Port 3 leads to the far port; port 1 to the near one, a limited member.
    for (port, keys) in [
        (1u32, [0xff, 0xff, 0x00, 0x05]),
        (3, [0xff, 0xff, 0x80, 0x05]),
    ] {
        let mut table = [0; 64];
        table[..4].copy_from_slice(&keys);
        let answer = manager.ask(
            &mut world,
            &[1],
            sm::SET,
            sm::PKEY_TABLE,
            port << 16,
            &table,
        );
        assert_eq!(answer, Some((0, table)));
        let get = manager.ask(&mut world, &[1], sm::GET, sm::PORT_INFO, port, &[0; 64]);
        let (_, mut info) = get.expect("an answer");
        info[32] &= 0xf0;
        info[33] = 0;
        info[43] |= 0x0c;
        let set = manager.ask(&mut world, &[1], sm::SET, sm::PORT_INFO, port, &info);
        assert_eq!(
            set.map(|(status, info)| (status, info[43] & 0x0c)),
            Some((0, 0x0c))
        );
    }
    assert_eq!(world.trace(near, far, 0xffff), [(2, 1)]);
    assert_eq!(world.trace(near, far, 0x0005), [(2, 1)]);
    assert_eq!(world.trace(near, far, 0x8005), []);
    assert_eq!(world.trace(near, far, 0x8006), []);
    assert_eq!(world.trace((2, 1), lids[0].2, 0x8005), [(1, 1)]);
    assert_eq!(world.trace((2, 2), lids[0].2, 0x0005), []);
}

/// Forwarding tables that lead in a circle: what goes there comes to an end, one by one and by copies.
#[test]
fn a_circle_has_an_end() {
    let (mut world, mut manager) = fabric(3, &[(0, 1), (1, 2), (2, 0)], &[0, 1, 2]);
    manager.sweep(&mut world);
    let switches: [(&[u8], u8); 3] = [(&[1], 1), (&[1, 1], 2), (&[1, 1, 2], 2)];
    let lid = manager.adapter_lids()[1].2;
    for (path, next) in switches {
        let (_, mut lft) = manager
            .ask(&mut world, path, sm::GET, sm::LFT, 0, &[0; 64])
            .expect("an answer");
        lft[usize::from(lid)] = next;
        let set = manager.ask(&mut world, path, sm::SET, sm::LFT, 0, &lft);
        assert_eq!(set.map(|(status, _)| status), Some(0));
        // The two ports of the ring.
        let mut mft = [0; 64];
        mft[..2].copy_from_slice(&6u16.to_be_bytes());
        let set = manager.ask(&mut world, path, sm::SET, sm::MFT, 0, &mft);
        assert_eq!(set.map(|(status, _)| status), Some(0));
    }
    let relay_errors = |world: &mut World| -> u32 {
        let ports = (0..3).flat_map(|node| (1..=4).map(move |port| (node, port)));
        ports
            .map(|at| u32::from(world.counters(at).rcv_switch_relay_errors))
            .sum()
    };
    let before = relay_errors(&mut world);
    assert_eq!(world.trace((3, 1), lid, 0xffff), []);
    assert_eq!(relay_errors(&mut world), before + 1);
    assert_eq!(world.trace((3, 1), 0xc000, 0xffff), []);
    assert_eq!(relay_errors(&mut world), before + 3);
}

/// A packet for a group leaves by ports that admit it, and counts at each of the others.
#[test]
fn ports_of_a_group_count_by_themselves() {
    let (mut world, mut manager) = fabric(1, &[], &[0, 0, 0]);
    manager.sweep(&mut world);
    let near = (1, 1);
    // Of the ports of others, two enforce the default partition alone, and one is Armed.
    for (port, state, enforces) in [(3u32, 0, true), (4, 0, true), (5, 1, false), (5, 3, false)] {
        let get = manager.ask(&mut world, &[1], sm::GET, sm::PORT_INFO, port, &[0; 64]);
        let (_, mut info) = get.expect("an answer");
        info[32] = info[32] & 0xf0 | state;
        info[33] = 0;
        if enforces {
            info[43] |= 0x04;
        }
        let set = manager.ask(&mut world, &[1], sm::SET, sm::PORT_INFO, port, &info);
        assert_eq!(set.map(|(status, _)| status), Some(0));
    }
    assert_eq!(world.trace(near, 0xc000, 0x8005), [(1, 2), (3, 2)]);
    for (port, discards, constraint) in [(1, 0, 0), (2, 0, 0), (3, 0, 1), (4, 0, 1), (5, 1, 0)] {
        let told = world.counters((0, port));
        let told = (told.xmit_discards, told.xmit_constraint_errors);
        assert_eq!(told, (discards, constraint), "port {port}");
    }
}

#[test]
fn a_switch_takes_datagrams_of_its_partitions() {
    let (mut world, mut manager) = fabric(1, &[], &[0]);
    manager.sweep(&mut world);
    let mut table = [0; 64];
    table[..4].copy_from_slice(&[0xff, 0xff, 0x00, 0x05]);
    let set = manager.ask(&mut world, &[1], sm::SET, sm::PKEY_TABLE, 0, &table);
    assert_eq!(set, Some((0, table)));
    world.inbox.clear();
    let now = world.now;
    let Node::Switch(switch) = &mut world.nodes[0] else {
        panic!("the first node is the switch");
    };
    let bad = |pkey: u16| BadKey {
        slid: Lid::new(7),
        dlid: Lid::new(1),
        key: pkey.into(),
        sl: Sl::default(),
        src_qp: Qpn::GSI,
        dest_qp: Qpn::GSI,
        sgid: Gid::default(),
        dgid: Gid::default(),
    };
    // Of the second partition the switch is a limited member.
    for (pkey, own) in [
        (0xffff, Some(0xffff)),
        (0x7fff, Some(0xffff)),
        (0x8005, Some(0x0005)),
        (0x0005, None),
        (0x8006, None),
        (0x8000, None),
    ] {
        let by = switch.partition_of(PKey::new(pkey), &bad(pkey), now);
        assert_eq!(by, own.map(PKey::new));
    }
    world.pass(Duration::from_millis(300));
    let trap = world.inbox.pop().expect("a trap");
    assert_eq!((trap.2[3], be16(&trap.2, 68)), (5, 257));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever comes in, nothing panics, and without the M_Key nothing that management can read changes.
    #[test]
    fn bytes_change_nothing_without_the_key(
        mads in prop::collection::vec(
            (any::<[u8; 32]>(), any::<[u8; 32]>(), 0u8..6, any::<u8>(), any::<bool>(), any::<[u16; 2]>()),
            1..60,
        ),
    ) {
        let (mut world, mut manager) = fabric(2, &[(0, 1)], &[0, 1]);
        manager.mkey = 0xfeed;
        manager.sweep(&mut world);
        let before = snapshot(&mut manager, &mut world);
        for (head, data, kind, node, directed, lids) in mads {
            let mut mad = [0; 256];
            for (at, byte) in mad.iter_mut().enumerate() {
                *byte = data[at % 32].wrapping_mul(at as u8 | 1);
            }
            mad[..32].copy_from_slice(&head);
            // Most random headers are of no known class; these mostly are.
            mad[1] = if directed { 0x81 } else { 0x01 };
            match kind {
                0 => {}
                1 => mad[1] = 0x04,
                _ => {
                    mad[0] = 1;
                    mad[2] = 1;
                    mad[3] = [1, 2, 2, 7, 5, 0x81][usize::from(head[3] % 6)];
                    mad[4] &= 0x80;
                    mad[6] %= 5;
                    mad[7] %= 5;
                    mad[16] = 0;
                    mad[17] = 0x10 + head[17] % 0x12;
                    mad[20..23].fill(0);
                    mad[23] %= 8;
                    if kind == 5 {
                        mad[32..36].fill(0xff);
                    }
                }
            }
            if mad[24..32] == 0xfeedu64.to_be_bytes() {
                continue;
            }
            let node = usize::from(node) % world.nodes.len();
            let lrh = Lrh { slid: Lid::new(lids[0] % 12), dlid: Lid::new(match kind {
                2 => lids[1] % 12,
                _ => 0xffff,
            }) };
            world.arrive_here((node, 1 + head[23] % 3), lrh, mad);
            world.pass(Duration::from_millis(5));
        }
        world.inbox.clear();
        let after = snapshot(&mut manager, &mut world);
        prop_assert_eq!(before, after);
    }
}

/// All that can be read of the fabric, but for counters of violations.
fn snapshot(manager: &mut Manager, world: &mut World) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    let mut read = |path: &[u8], attribute: u16, modifier: u32| {
        let answer = manager.ask(world, path, sm::GET, attribute, modifier, &[0; 64]);
        let (status, data) = answer.expect("an answer");
        let mut data = data.to_vec();
        if attribute == sm::PORT_INFO {
            data[44..50].fill(0);
        }
        all.push((status, data));
    };
    let ways: [(&[u8], u32, bool); 4] = [
        (&[], 2, false),
        (&[1], 6, true),
        (&[1, 1], 6, true),
        (&[1, 1, 2], 2, false),
    ];
    for (path, ports, is_switch) in ways {
        read(path, sm::NODE_INFO, 0);
        read(path, sm::NODE_DESCRIPTION, 0);
        read(path, sm::GUID_INFO, 0);
        for port in 0..=ports {
            read(path, sm::PORT_INFO, port);
            read(path, sm::PKEY_TABLE, port << 16);
            read(path, sm::VL_ARB, 1 << 16 | port);
            read(path, sm::SL_TO_VL, port << 8 | 1);
        }
        if is_switch {
            read(path, sm::SWITCH_INFO, 0);
            for block in 0..16 {
                read(path, sm::LFT, block);
            }
            for block in 0..8 {
                read(path, sm::MFT, block);
            }
        }
    }
    all
}
