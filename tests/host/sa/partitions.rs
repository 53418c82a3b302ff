// SPDX-License-Identifier: GPL-2.0

//! Who gets paths, groups and services in which partition.

use crate::client::{
    get,
    gid,
    paths,
    request,
    table, //
};
use crate::nodes::Place;
use crate::shapes::line;
use crate::world::World;
use crate::{
    served,
    LIMIT, //
};
use proto::sm::Assignment;
use wire::mad::method;
use wire::mad::sa::{
    method as sa_method,
    status,
    McMemberRecord,
    MultiPathRecord,
    PathRecord,
    Record,
    ServiceRecord,
    JOIN_FULL, //
};
use wire::{
    Gid,
    Guid,
    PKey,
    QKey, //
};

/// A partition with two full members and a limited one, `ports[0..3]`; the last port is in none but the default one.
fn partitioned(world: &mut World, ports: &[Place], members: usize) {
    let pkeys = [0x8001, 0x8001, 0x0001, 0x0001];
    let list = ports.iter().zip(pkeys).take(members);
    let list: Vec<_> = list
        .map(|(at, pkey)| Assignment {
            pkey: PKey::new(pkey),
            port: Some(gid(world, *at).guid()),
        })
        .collect();
    world.partition(0, &list);
    world.settle(LIMIT);
}

fn path(world: &mut World, from: Place, to: Place, pkey: Option<u16>) -> Result<PKey, u16> {
    let wish = PathRecord {
        sgid: gid(world, from),
        dgid: gid(world, to),
        pkey: PKey::new(pkey.unwrap_or_default()),
        ..PathRecord::default()
    };
    let mask = PathRecord::DGID | PathRecord::SGID;
    let mask = mask | pkey.map_or(0, |_| PathRecord::PKEY);
    get(world, from, method::GET, mask, &wish).map(|path| path.pkey)
}

/// The broadcast group of IPv4 of a partition.
fn broadcast(pkey: u16) -> Gid {
    let [high, low] = pkey.to_be_bytes();
    Gid::new([
        0xff, 0x12, 0x40, 0x1b, high, low, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
    ])
}

/// A group that somebody makes.
fn other(number: u8) -> Gid {
    Gid::new([0xff, 0x12, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, number])
}

fn join(world: &mut World, at: Place, mgid: Gid, pkey: u16) -> Result<PKey, u16> {
    join_for(world, at, at, mgid, pkey)
}

/// Has a port join a group by request of another.
fn join_for(world: &mut World, by: Place, at: Place, mgid: Gid, pkey: u16) -> Result<PKey, u16> {
    const MASK: u64 = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::JOIN_STATE
        | McMemberRecord::QKEY
        | McMemberRecord::PKEY
        | McMemberRecord::TRAFFIC_CLASS
        | McMemberRecord::FLOW_LABEL
        | McMemberRecord::SL;
    let record = McMemberRecord {
        mgid,
        port_gid: gid(world, at),
        join_state: JOIN_FULL,
        qkey: QKey::new(0x0b1b),
        pkey: PKey::new(pkey),
        ..McMemberRecord::default()
    };
    get(world, by, method::SET, MASK, &record).map(|group| group.pkey)
}

/// How many members a group has, or that it is not there.
fn members(world: &World, mgid: Gid) -> Option<usize> {
    let agent = world.seats[0].agent.as_ref().expect("it is there");
    let group = agent.groups().find(|group| group.record().mgid == mgid)?;
    Some(agent.members(group.record().mlid).count())
}

const NO_PATH: Result<PKey, u16> = Err(status::NO_RECORDS);
const REFUSED: Result<PKey, u16> = Err(status::REQUEST_INVALID);
const DENIED: Result<u64, u16> = Err(status::DENIED);

#[test]
fn paths_lead_to_who_shares_a_partition() {
    let (mut world, ports) = served(&line(5, 1));
    assert_eq!(path(&mut world, ports[0], ports[1], Some(0x8001)), NO_PATH);
    partitioned(&mut world, &ports, 4);
    let (full, both) = (PKey::new(0x8001), Some(0x8001));
    assert_eq!(path(&mut world, ports[0], ports[1], both), Ok(full));
    assert_eq!(path(&mut world, ports[0], ports[2], both), Ok(full));
    assert_eq!(path(&mut world, ports[2], ports[0], Some(1)), Ok(full));
    // Limited members do not talk to each other, and others to nobody.
    assert_eq!(path(&mut world, ports[2], ports[3], both), NO_PATH);
    assert_eq!(path(&mut world, ports[0], ports[4], both), NO_PATH);
    assert_eq!(path(&mut world, ports[4], ports[0], both), NO_PATH);
    assert_eq!(path(&mut world, ports[0], ports[1], Some(0)), NO_PATH);
    for at in &ports {
        let own = path(&mut world, *at, ports[0], None);
        assert_eq!(own, Ok(PKey::DEFAULT));
        let manager = path(&mut world, *at, (0, 0), None);
        assert_eq!(manager, Ok(PKey::DEFAULT));
        assert_eq!(path(&mut world, *at, (0, 0), both), NO_PATH);
    }
    let wish = PathRecord {
        pkey: full,
        ..PathRecord::default()
    };
    let all = request(method::GET, PathRecord::PKEY, &wish);
    let all: Vec<PathRecord> = table(&mut world, ports[0], all).expect("it is told");
    // Two full members with each other, themselves, and two limited ones, there and back.
    assert_eq!(all.len(), 4 + 8);
    partitioned(&mut world, &ports, 1);
    assert_eq!(path(&mut world, ports[0], ports[1], both), NO_PATH);
}

/// Limited members of the default partition meet in another one, if in any.
#[test]
fn paths_in_the_first_partition_that_is_shared() {
    let (mut world, ports) = served(&line(3, 1));
    let one = |pkey, port| Assignment {
        pkey: PKey::new(pkey),
        port,
    };
    let first = gid(&world, ports[0]).guid();
    world.partition(0, &[one(0xffff, Some(first)), one(0x8005, None)]);
    world.settle(LIMIT);
    assert_eq!(
        path(&mut world, ports[1], ports[0], None),
        Ok(PKey::DEFAULT)
    );
    assert_eq!(
        path(&mut world, ports[1], ports[2], None),
        Ok(PKey::new(0x8005))
    );
    assert_eq!(path(&mut world, ports[1], ports[2], Some(0xffff)), NO_PATH);
}

/// Who asks for all there is has subnet administration look at each pair of ports, and not at each member of each
/// partition for each of them.
#[test]
fn a_long_list_costs_nothing_when_asked() {
    let (mut world, ports) = served(&line(10, 1));
    let pkeys = 0x0001..=0x001f;
    let members = (0..480).map(|number| Guid::new(0x1000 + number));
    let list: Vec<_> = pkeys
        .flat_map(|pkey| members.clone().map(move |port| (pkey, port)))
        .map(|(pkey, port)| Assignment {
            pkey: PKey::new(pkey),
            port: Some(port),
        })
        .collect();
    world.partition(0, &list);
    world.settle(LIMIT);
    let reads = world.partition_reads.get();
    let all = request(method::GET, 0, &PathRecord::default());
    let all: Vec<PathRecord> = table(&mut world, ports[0], all).expect("it is told");
    assert_eq!(all.len(), 20 * 20);
    assert_eq!(join(&mut world, ports[0], other(1), 0x8001), REFUSED);
    // What has not changed is not looked at in later sweeps either.
    world.sweep(0);
    world.settle(LIMIT);
    assert_eq!(world.partition_reads.get(), reads);
}

#[test]
fn groups_are_for_members() {
    let (mut world, ports) = served(&line(5, 1));
    let (mgid, full) = (broadcast(0x8001), PKey::new(0x8001));
    assert_eq!(members(&world, mgid), None);
    assert_eq!(join(&mut world, ports[0], mgid, 0x8001), REFUSED);
    partitioned(&mut world, &ports, 3);
    // It is there before anybody asks.
    assert_eq!(members(&world, mgid), Some(0));
    for at in &ports[..3] {
        assert_eq!(join(&mut world, *at, mgid, 0x8001), Ok(full));
    }
    assert_eq!(join(&mut world, ports[3], mgid, 0x8001), REFUSED);
    assert_eq!(join(&mut world, ports[2], other(1), 0x8001), Ok(full));
    assert_eq!(join(&mut world, ports[4], other(1), 0x8001), REFUSED);
    assert_eq!(join(&mut world, ports[4], other(2), 0x8001), REFUSED);
    assert_eq!(
        join(&mut world, ports[4], other(2), 0xffff),
        Ok(PKey::DEFAULT)
    );
    assert_eq!(members(&world, mgid), Some(3));

    // Who leaves the partition leaves its groups; with the last member they end, but for those of IP hosts.
    partitioned(&mut world, &ports, 2);
    assert_eq!(members(&world, mgid), Some(2));
    assert_eq!(members(&world, other(1)), None);
    assert_eq!(members(&world, other(2)), Some(1));
    assert_eq!(join(&mut world, ports[2], mgid, 0x8001), REFUSED);
    partitioned(&mut world, &ports, 0);
    assert_eq!(members(&world, mgid), None);
    assert!(members(&world, broadcast(0xffff)).is_some());
    partitioned(&mut world, &ports, 4);
    assert_eq!(members(&world, mgid), Some(0));
    assert_eq!(join(&mut world, ports[2], mgid, 0x8001), Ok(full));
}

/// Who makes the group of all hosts of a partition to come would keep these out.
#[test]
fn names_of_another_partition_are_not_given() {
    let (mut world, ports) = served(&line(5, 1));
    let mut other = broadcast(0x8001).get();
    // Of IP version 6, and with another scope.
    (other[1], other[2]) = (0x15, 0x60);
    for mgid in [broadcast(0x8001), Gid::new(other)] {
        assert_eq!(join(&mut world, ports[4], mgid, 0xffff), REFUSED);
    }
    partitioned(&mut world, &ports, 3);
    let full = PKey::new(0x8001);
    for at in &ports[..3] {
        assert_eq!(join(&mut world, *at, broadcast(0x8001), 0x8001), Ok(full));
        assert_eq!(join(&mut world, *at, Gid::new(other), 0x8001), Ok(full));
    }
    // Other names say nothing about a partition.
    other[2] = 0x70;
    let mgid = Gid::new(other);
    let told = join(&mut world, ports[4], mgid, 0xffff);
    assert_eq!(told, Ok(PKey::DEFAULT));
}

const NAME: u64 = ServiceRecord::ID_MASK | ServiceRecord::GID | ServiceRecord::PKEY;

fn service(world: &World, at: Place, pkey: u16) -> ServiceRecord {
    ServiceRecord {
        id: 7,
        gid: gid(world, at),
        pkey: PKey::new(pkey),
        ..ServiceRecord::default()
    }
}

/// How many records there are for who asks, with or without the key.
fn told<T: Record>(world: &mut World, by: Place, mask: u64, wish: &T, trusted: bool) -> usize {
    let mut asked = request(method::GET, mask, wish);
    asked.set_sm_key(trusted.into());
    let told: Vec<T> = table(world, by, asked).expect("it is told");
    told.len()
}

#[test]
fn services_are_offered_by_members() {
    let (mut world, ports) = served(&line(3, 1));
    partitioned(&mut world, &ports, 1);
    for (at, want) in [(ports[0], Ok(7)), (ports[1], REFUSED.map(|_| 7))] {
        let record = service(&world, at, 0x8001);
        let told = get(&mut world, at, method::SET, NAME, &record);
        assert_eq!(told.map(|told| told.id), want);
    }
    // Who leaves the partition offers nothing there any more.
    let record = service(&world, ports[0], 0xffff);
    get(&mut world, ports[0], method::SET, NAME, &record).expect("it is kept");
    assert_eq!(told(&mut world, ports[0], 0, &record, true), 2);
    partitioned(&mut world, &ports, 0);
    assert_eq!(told(&mut world, ports[0], 0, &record, true), 1);
}

/// A port that is not in the partition of a service neither learns of it nor offers or ends it for others.
#[test]
fn services_are_no_business_of_others() {
    let (mut world, ports) = served(&line(5, 1));
    partitioned(&mut world, &ports, 4);
    let (own, member, limited, other) = (ports[0], ports[1], ports[2], ports[4]);
    let record = service(&world, own, 0x8001);
    for (by, want) in [
        (other, DENIED),
        (limited, Ok(7)),
        (member, Ok(7)),
        (own, Ok(7)),
    ] {
        let set = get(&mut world, by, method::SET, NAME, &record);
        assert_eq!(set.map(|told| told.id), want);
    }
    for (by, trusted, want) in [
        (other, false, 0),
        (other, true, 1),
        (limited, false, 1),
        (member, false, 1),
    ] {
        assert_eq!(told(&mut world, by, 0, &record, trusted), want, "{by:?}");
    }
    for (by, want) in [(other, DENIED), (member, Ok(7))] {
        let ended = get(&mut world, by, sa_method::DELETE, NAME, &record);
        assert_eq!(ended.map(|told| told.id), want);
    }
}

/// The same for groups.
#[test]
fn groups_are_no_business_of_others() {
    const JOINED: u64 =
        McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let (mut world, ports) = served(&line(5, 1));
    partitioned(&mut world, &ports, 4);
    let (own, member, outside) = (ports[0], ports[1], ports[4]);
    let (mgid, full) = (broadcast(0x8001), PKey::new(0x8001));
    for mgid in [mgid, other(1)] {
        let denied = join_for(&mut world, outside, own, mgid, 0x8001);
        assert_eq!(denied.map(|_| 7), DENIED);
        assert_eq!(members(&world, mgid).unwrap_or_default(), 0);
        assert_eq!(join_for(&mut world, member, own, mgid, 0x8001), Ok(full));
    }
    let record = McMemberRecord {
        mgid,
        port_gid: gid(&world, own),
        join_state: JOIN_FULL,
        ..McMemberRecord::default()
    };
    for (by, trusted, want) in [
        (outside, false, 0),
        (outside, true, 1),
        (member, false, 1),
        (own, false, 1),
    ] {
        let count = told(&mut world, by, McMemberRecord::MGID, &record, trusted);
        assert_eq!(count, want, "{by:?}");
    }
    // Who has joined another port may take that back, as long as he is in the partition.
    let left = get(&mut world, outside, sa_method::DELETE, JOINED, &record);
    assert_eq!(left.map(|_| 7), DENIED);
    assert_eq!(members(&world, mgid), Some(1));
    get(&mut world, member, sa_method::DELETE, JOINED, &record).expect("it leaves");
    assert_eq!(members(&world, mgid), Some(0));
}

/// The same for paths.
#[test]
fn paths_are_no_business_of_others() {
    let (mut world, ports) = served(&line(5, 1));
    partitioned(&mut world, &ports, 4);
    let (member, outside) = (ports[1], ports[4]);
    let [from, to] = [ports[0], ports[2]].map(|at| gid(&world, at));
    let wish = PathRecord {
        sgid: from,
        dgid: to,
        pkey: PKey::new(0x8001),
        ..PathRecord::default()
    };
    let ends = PathRecord::SGID | PathRecord::DGID;
    let pairs = MultiPathRecord {
        sgid_count: 1,
        dgid_count: 1,
        pkey: PKey::new(0x8001),
        ..MultiPathRecord::default()
    };
    let multi = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT | MultiPathRecord::PKEY;
    for (by, trusted, want) in [
        (outside, false, 0),
        (outside, true, 1),
        (member, false, 1),
        (ports[3], false, 1),
    ] {
        let count = told(&mut world, by, ends | PathRecord::PKEY, &wish, trusted);
        assert_eq!(count, want, "{by:?}");
        let all = told(&mut world, by, PathRecord::PKEY, &wish, trusted);
        assert_eq!(all, want * 12, "{by:?}");
        if !trusted {
            let paths = paths(&mut world, by, multi, pairs, &[from, to]).expect("they are told");
            assert_eq!(paths.len(), want, "{by:?}");
        }
    }
    // Of several partitions it is one that all three share.
    let first = from.guid();
    let one = |pkey, port| Assignment {
        pkey: PKey::new(pkey),
        port,
    };
    let mut list = vec![
        one(0x7fff, None),
        one(0x8005, Some(first)),
        one(0x0005, Some(to.guid())),
    ];
    list.push(one(0x8006, None));
    world.partition(0, &list);
    world.settle(LIMIT);
    for (by, pkey) in [(ports[0], 0x8005), (outside, 0x8006)] {
        let told = get(&mut world, by, method::GET, ends, &wish);
        assert_eq!(told.map(|path| path.pkey), Ok(PKey::new(pkey)));
    }
}
