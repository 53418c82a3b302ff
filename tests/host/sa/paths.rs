// SPDX-License-Identifier: GPL-2.0

//! PathRecord and ClassPortInfo.

use crate::client::{
    ask,
    get,
    gid,
    request, //
};
use crate::nodes::{
    Node,
    Place, //
};
use crate::shapes::mesh;
use crate::world::World;
use crate::{
    served,
    shapes,
    LIMIT, //
};
use proto::fabric::switch::{
    Forward,
    Packet, //
};
use wire::mad::sa::{
    cap,
    selector,
    status,
    PathRecord,
    Record, //
};
use wire::mad::{
    method,
    ClassPortInfo, //
};
use wire::{
    Gid,
    Guid,
    Lid,
    Mtu,
    PKey,
    PortNum, //
};

/// What the kernel asks for.
const USUAL: u64 = PathRecord::DGID
    | PathRecord::SGID
    | PathRecord::PKEY
    | PathRecord::NUMB_PATH
    | PathRecord::REVERSIBLE;

fn wish(world: &World, from: Place, to: Place) -> PathRecord {
    PathRecord {
        sgid: gid(world, from),
        dgid: gid(world, to),
        pkey: PKey::DEFAULT,
        numb_path: 1,
        reversible: true,
        ..PathRecord::default()
    }
}

/// The least MTU of the links on the way.
fn narrowest(world: &World, from: Place, to: Place) -> u8 {
    let packet = Packet {
        dlid: world.lid(to),
        pkey: Some(PKey::DEFAULT),
        vl15: false,
        hops: 0,
    };
    let (mut at, mut mtu) = (world.cables.far(from).expect("it has a cable"), 5);
    while let Node::Switch(switch) = &world.nodes[at.0] {
        let Forward::To(out) = switch.forward(PortNum::new(at.1), &packet) else {
            panic!("no way from {from:?} to {to:?}");
        };
        let port = switch.port(out).expect("it is there");
        mtu = mtu.min(port.attrs().neighbor_mtu().code());
        at = world.cables.far((at.0, out.get())).expect("it has a cable");
    }
    mtu
}

#[test]
fn what_it_can() {
    let (mut world, ports) = served(&mesh(2, 1, 1));
    let empty = ClassPortInfo::default();
    let info = get(&mut world, ports[0], method::GET, 0, &empty).expect("it is told");
    assert_eq!((info.base_version, info.class_version), (1, 2));
    assert!(info.capability_mask & cap::UD_MULTICAST != 0);
    assert_eq!(info.capability_mask2, 1 << 12);
    let refused = get(&mut world, ports[0], method::SET, 0, &empty);
    assert_eq!(refused, Err(0x000c));
}

#[test]
fn paths_between_all_ports() {
    for shape in shapes() {
        let (mut world, ports) = served(&shape);
        // Links that carry less than others.
        for at in 0..shape.ties.len() {
            if at % 3 == 0 {
                let switch = shape.ties[at].0;
                let mut cables = world.cables.of(switch);
                let near = cables.find(|(_, far)| far.0 == shape.ties[at].1);
                let (near, far) = near.expect("the tie has a cable");
                drop(cables);
                world.unplug(near);
                if let Node::Switch(switch) = &mut world.nodes[switch] {
                    let mtu = [Mtu::B1024, Mtu::B2048, Mtu::B256][at / 3 % 3];
                    switch.set_mtu_cap(PortNum::new(near.1), mtu);
                }
                world.plug(near, far);
            }
        }
        world.settle(LIMIT);
        for from in &ports {
            for to in &ports {
                let wish = wish(&world, *from, *to);
                let path = get(&mut world, *from, method::GET, USUAL, &wish).expect("a path");
                assert_eq!((path.slid, path.dlid), (world.lid(*from), world.lid(*to)));
                assert_eq!((path.sgid, path.dgid), (wish.sgid, wish.dgid));
                if from != to {
                    let there = narrowest(&world, *from, *to);
                    assert_eq!(path.mtu, there.min(narrowest(&world, *to, *from)));
                }
                assert!(path.reversible && path.sl.get() == 0 && path.pkey == PKey::DEFAULT);
                assert_eq!(path.rate_selector, selector::EXACT);
            }
        }
    }
}

#[test]
fn by_lid_and_to_switches() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    let (from, to) = (ports[0], ports[4]);
    let wish = PathRecord {
        dlid: world.lid(to),
        ..PathRecord::default()
    };
    let path = get(&mut world, from, method::GET, PathRecord::DLID, &wish).expect("a path");
    assert_eq!((path.sgid, path.dgid), (gid(&world, from), gid(&world, to)));
    let wish = PathRecord {
        dlid: world.lid((4, 0)),
        service_id: 77,
        ..PathRecord::default()
    };
    let mask = PathRecord::DLID | PathRecord::SERVICE_ID;
    let path = get(&mut world, from, method::GET, mask, &wish).expect("a path");
    assert_eq!(path.dgid, gid(&world, (4, 0)));
    assert_eq!(path.service_id, 77);
}

#[test]
fn paths_that_do_not_exist() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    let good = wish(&world, ports[0], ports[5]);
    let lid = world.lid(ports[5]);
    let nowhere = Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(0xdead));
    let with = |change: &dyn Fn(&mut PathRecord)| {
        let mut wish = good;
        change(&mut wish);
        wish
    };
    for (mask, wish, want) in [
        (
            USUAL,
            with(&|wish| wish.dgid = nowhere),
            status::INVALID_GID,
        ),
        (
            USUAL,
            with(&|wish| wish.sgid = nowhere),
            status::INVALID_GID,
        ),
        (
            USUAL,
            with(&|wish| wish.dgid = Gid::ZERO),
            status::INVALID_GID,
        ),
        (
            USUAL,
            with(&|wish| wish.pkey = PKey::new(0x8001)),
            status::NO_RECORDS,
        ),
        (
            PathRecord::DLID,
            with(&|wish| wish.dlid = Lid::new(0xbfff)),
            status::NO_RECORDS,
        ),
        (PathRecord::SGID, good, status::TOO_MANY_RECORDS),
        (
            USUAL | PathRecord::DLID,
            with(&|wish| wish.dlid = Lid::new(lid.get() + 1)),
            status::NO_RECORDS,
        ),
        (
            USUAL | PathRecord::MTU | PathRecord::MTU_SELECTOR,
            with(&|wish| (wish.mtu, wish.mtu_selector) = (5, selector::GREATER)),
            status::NO_RECORDS,
        ),
        (
            USUAL | PathRecord::RATE | PathRecord::RATE_SELECTOR,
            with(&|wish| (wish.rate, wish.rate_selector) = (2, selector::LESS)),
            status::NO_RECORDS,
        ),
    ] {
        let told = get(&mut world, ports[0], method::GET, mask, &wish);
        assert_eq!(told, Err(want), "{mask:#x} {wish:?}");
    }
    let mut sa = request(method::GET, USUAL, &good);
    sa.set_sm_key(99);
    let answer = ask(&mut world, ports[0], sa);
    assert_eq!(answer.header().status, status::DENIED);
    assert_eq!(answer.header().method, method::GET_RESP);
    assert_eq!(PathRecord::ID, answer.header().attr_id);
}

/// Who asks while the subnet manager looks around is answered when it has done so.
#[test]
fn requests_wait_for_sweeps() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    let gone = world.cables.of(5).next().expect("it has cables").0;
    world.unplug(gone);
    let wish = wish(&world, ports[0], ports[3]);
    let path = get(&mut world, ports[0], method::GET, USUAL, &wish).expect("a path");
    assert_eq!(path.dlid, world.lid(ports[3]));
}
