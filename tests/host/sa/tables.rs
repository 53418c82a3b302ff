// SPDX-License-Identifier: GPL-2.0

//! Tables, and what else is kept for ports: NodeRecord, PortInfoRecord, ServiceRecord, InformInfo and Report.

use crate::client::{
    get,
    gid,
    reports,
    request,
    table, //
};
use crate::masters::enlarge;
use crate::nodes::Place;
use crate::shapes::{
    fat_tree,
    line,
    mesh, //
};
use crate::world::World;
use crate::{
    guid_of,
    millis,
    served,
    LIMIT, //
};
use proto::sm::Assignment;
use std::collections::BTreeSet;
use wire::mad::sa::{
    method as sa_method,
    notice,
    status,
    GuidInfoRecord,
    InformInfo,
    McMemberRecord,
    NodeRecord,
    PathRecord,
    PortInfoRecord,
    ServiceRecord,
    SmInfoRecord,
    JOIN_FULL, //
};
use wire::mad::smp::trap::{
    self,
    GidEvent,
    TrapDetails, //
};
use wire::mad::smp::{
    attr,
    NodeType,
    PortInfo,
    PortState,
    SmInfo,
    SmState, //
};
use wire::mad::{
    method,
    MadHeader, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    QKey,
    Qpn, //
};

/// Every path of a large fabric, over links that lose datagrams: all are told, each once.
#[test]
fn thousands_of_records_over_lossy_links() {
    let (mut world, ports) = served(&fat_tree(8, 4, 4));
    let ends = world.seats[0].manager.end_ports().count();
    world.gmp_loss = 5;
    let all = request(method::GET, 0, &PathRecord::default());
    let told: Vec<PathRecord> = table(&mut world, ports[7], all).expect("a table");
    assert!(told.len() > 5000);
    assert_eq!(told.len(), ends * ends);
    let pairs: BTreeSet<_> = told.iter().map(|path| (path.sgid, path.dgid)).collect();
    assert_eq!(pairs.len(), told.len());
    world.gmp_loss = 100;
    let from_here = PathRecord {
        sgid: gid(&world, ports[7]),
        ..PathRecord::default()
    };
    let asked = request(method::GET, PathRecord::SGID, &from_here);
    let told: Vec<PathRecord> = table(&mut world, ports[7], asked).expect("a table");
    assert_eq!(told.len(), ends);
}

/// LIDs that no port has any more are hardly looked at.
#[test]
fn paths_between_few_ports_of_many_lids() {
    let (mut world, ports) = served(&line(40, 1));
    let all = request(method::GET, 0, &PathRecord::default());
    let told: Vec<PathRecord> = table(&mut world, ports[0], all.clone()).expect("a table");
    assert_eq!(told.len(), 80 * 80);
    let mut cables = world.cables.of(0);
    let (near, _) = cables.find(|(_, far)| far.0 == 1).expect("there is one");
    drop(cables);
    world.unplug(near);
    world.settle(LIMIT);
    world.rounds = 0;
    let told: Vec<PathRecord> = table(&mut world, ports[0], all).expect("a table");
    assert_eq!(told.len(), 2 * 2);
    assert!(world.rounds <= 2, "{} rounds", world.rounds);
}

/// Several ask at the same time for more than there is room for.
#[test]
fn tables_that_do_not_fit() {
    let (mut world, ports) = served(&mesh(5, 4, 1));
    world.seats[0].agent = Some(crate::agent(crate::Config::new(), 16, 4096));
    world.sweep(0);
    world.settle(LIMIT);
    let all = request(method::GET, 0, &PathRecord::default());
    let told: Result<Vec<PathRecord>, u16> = table(&mut world, ports[0], all.clone());
    assert_eq!(told, Err(status::NO_RESOURCES));
    // Nobody takes these away.
    let mut switches = NodeRecord::default();
    switches.info.node_type = NodeType::Switch as u8;
    let mut some = request(method::GET, NodeRecord::NODE_TYPE, &switches);
    some.set_header(&MadHeader {
        method: sa_method::GET_TABLE,
        ..some.header()
    });
    let tid = crate::client::send(&mut world, ports[1], &mut some);
    world.pass(millis(10));
    let told: Result<Vec<NodeRecord>, u16> = table(&mut world, ports[0], some);
    assert_eq!(told, Err(status::NO_RESOURCES));
    world.pass(millis(10_000));
    let agent = world.seats[0].agent.as_ref().expect("it is there");
    assert_eq!(agent.report().given_up, 1);
    // The last of what came is an ABORT for too many retries.
    let mut came = world.gmps.iter().filter(|gmp| gmp.at == ports[1]);
    let last = came.next_back().expect("something came").mad;
    assert_eq!(last[8..16], tid.to_be_bytes());
    assert_eq!(
        (last[3], last[24..28].to_vec()),
        (0x92, vec![1, 4, 0xf9, 126])
    );
    let one = NodeRecord {
        lid: world.lid(ports[3]),
        ..NodeRecord::default()
    };
    let asked = request(method::GET, NodeRecord::LID, &one);
    let told: Vec<NodeRecord> = table(&mut world, ports[0], asked).expect("a table");
    assert_eq!(told.len(), 1);
}

#[test]
fn nodes_and_ports() {
    let (mut world, ports) = served(&mesh(4, 3, 1));
    let at = ports[0];
    let all = request(method::GET, 0, &NodeRecord::default());
    let nodes: Vec<NodeRecord> = table(&mut world, at, all).expect("a table");
    assert_eq!(nodes.len(), 24);
    let wish = NodeRecord {
        info: wire::mad::smp::NodeInfo {
            node_type: NodeType::Switch as u8,
            port_guid: gid(&world, ports[5]).guid(),
            ..Default::default()
        },
        lid: world.lid((3, 0)),
        ..NodeRecord::default()
    };
    let switches = request(method::GET, NodeRecord::NODE_TYPE, &wish);
    let nodes: Vec<NodeRecord> = table(&mut world, at, switches).expect("a table");
    assert_eq!(nodes.len(), 12);
    let by_guid =
        get(&mut world, at, method::GET, NodeRecord::PORT_GUID, &wish).expect("it is told");
    assert_eq!(by_guid.lid, world.lid(ports[5]));
    assert_eq!(by_guid.info.local_port.get(), 1);
    let by_lid = get(&mut world, at, method::GET, NodeRecord::LID, &wish).expect("it is told");
    assert_eq!(by_lid.info.node_guid, gid(&world, (3, 0)).guid());
    let none = get(
        &mut world,
        at,
        method::GET,
        NodeRecord::PORT_GUID | NodeRecord::LID,
        &wish,
    );
    assert_eq!(none, Err(status::NO_RECORDS));
    let many = get(&mut world, at, method::GET, NodeRecord::NODE_TYPE, &wish);
    assert_eq!(many, Err(status::TOO_MANY_RECORDS));
    let no_table = request(method::GET, NodeRecord::PORT_GUID | NodeRecord::LID, &wish);
    let nodes: Vec<NodeRecord> = table(&mut world, at, no_table).expect("an empty table");
    assert_eq!(nodes, []);

    let mut wish = PortInfoRecord::default();
    wish.info.port_state = PortState::Active as u8;
    wish.lid = world.lid(ports[2]);
    let both = PortInfoRecord::PORT_STATE | PortInfoRecord::LID;
    let active = get(&mut world, at, method::GET, both, &wish).expect("it is told");
    assert_eq!((active.lid, active.port.get()), (wish.lid, 1));
    assert_eq!(active.info.lid, wish.lid);
    wish.info.capability_mask = wire::mad::smp::cap::SM;
    let mut managers = request(method::GET, PortInfoRecord::CAPABILITY_MASK, &wish);
    managers.set_header(&MadHeader {
        attr_mod: 1 << 31,
        ..managers.header()
    });
    let told: Vec<PortInfoRecord> = table(&mut world, at, managers).expect("a table");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].lid, world.seats[0].manager.lid());
}

/// Makes one component another one.
type Spoil = fn(&mut PortInfo);

/// Components of a PortInfoRecord are asked for by the bits that the IBA gives them, and by no others.
#[test]
fn components_of_ports() {
    let spoils: [(u32, Spoil); 14] = [
        (15, |info| info.port_state ^= 1),
        (18, |info| info.mkey_protect_bits ^= 1),
        (20, |info| info.lmc ^= 1),
        (21, |info| info.link_speed_active ^= 1),
        (23, |info| info.neighbor_mtu ^= 1),
        (25, |info| info.vl_cap ^= 1),
        (31, |info| info.mtu_cap ^= 1),
        (33, |info| info.hoq_life ^= 1),
        (34, |info| info.operational_vls ^= 1),
        (41, |info| info.qkey_violations ^= 1),
        (42, |info| info.guid_cap ^= 1),
        (45, |info| info.subnet_timeout ^= 1),
        (47, |info| info.resp_time ^= 1),
        (49, |info| info.overrun_errors ^= 1),
    ];
    let (mut world, ports) = served(&line(2, 1));
    let at = ports[0];
    let wish = PortInfoRecord {
        lid: world.lid(ports[1]),
        ..PortInfoRecord::default()
    };
    let told = get(&mut world, at, method::GET, PortInfoRecord::LID, &wish).expect("it is told");
    for (bit, spoil) in spoils {
        let mut wrong = told;
        spoil(&mut wrong.info);
        let alone = PortInfoRecord::LID | 1 << bit;
        let none = get(&mut world, at, method::GET, alone, &wrong);
        assert_eq!(none, Err(status::NO_RECORDS), "{bit}");
        let others = ((1 << 50) - 1) & !(1 << bit);
        let same = get(&mut world, at, method::GET, others, &wrong);
        assert_eq!(same, Ok(told), "{bit}");
    }
}

/// The master of the subnet, and one that stands by.
#[test]
fn subnet_managers() {
    let shape = line(4, 1);
    let (mut world, ports) = served(&shape);
    let at = ports[0];
    let config = proto::sm::Config::new(guid_of(&world, 3));
    world.seat((3, 0), crate::nodes::manager(config, shape.build().1));
    world.pass(millis(10_000));
    // What is told is what the last sweep has found.
    world.sweep(0);
    world.pass(millis(10_000));
    let all = request(method::GET, 0, &SmInfoRecord::default());
    let mut told: Vec<SmInfoRecord> = table(&mut world, at, all).expect("a table");
    told.sort_by_key(|told| told.info.state);
    let known: Vec<_> = told.iter().map(|told| (told.lid, told.info.guid)).collect();
    let wanted = [3, 0].map(|node| (world.lid((node, 0)), gid(&world, (node, 0)).guid()));
    assert_eq!(known, wanted);
    let states = told.iter().map(|told| told.info.state);
    assert!(states.eq([SmState::Standby as u8, SmState::Master as u8]));
    let wish = SmInfoRecord {
        info: SmInfo {
            state: SmState::Master as u8,
            ..SmInfo::default()
        },
        lid: world.lid((3, 0)),
    };
    let master = get(&mut world, at, method::GET, SmInfoRecord::STATE, &wish).expect("it is told");
    assert_eq!(master.lid, world.lid((0, 0)));
    let by_lid = get(&mut world, at, method::GET, SmInfoRecord::LID, &wish).expect("it is told");
    assert_eq!(by_lid.info.guid, gid(&world, (3, 0)).guid());
    let both = SmInfoRecord::STATE | SmInfoRecord::LID;
    let none = get(&mut world, at, method::GET, both, &wish);
    assert_eq!(none, Err(status::NO_RECORDS));
}

#[test]
fn guids_of_ports() {
    let (mut world, ports) = served(&mesh(3, 3, 1));
    let at = ports[0];
    let all = request(method::GET, 0, &GuidInfoRecord::default());
    let told: Vec<GuidInfoRecord> = table(&mut world, at, all).expect("a table");
    assert_eq!(told.len(), world.seats[0].manager.end_ports().count());
    let lids: BTreeSet<_> = told.iter().map(|told| told.lid.get()).collect();
    assert_eq!(lids.len(), told.len());
    let mut wish = GuidInfoRecord {
        lid: world.lid(ports[4]),
        ..GuidInfoRecord::default()
    };
    let both = GuidInfoRecord::LID | GuidInfoRecord::BLOCK;
    let one = get(&mut world, at, method::GET, both, &wish).expect("it is told");
    assert_eq!(one.guids.0[0], gid(&world, ports[4]).guid());
    assert!(one.guids.0[1..].iter().all(|guid| guid.get() == 0));
    wish.guids = one.guids;
    let by_guid = get(
        &mut world,
        at,
        method::GET,
        GuidInfoRecord::FIRST_GUID,
        &wish,
    );
    assert_eq!(by_guid.expect("it is told").lid, wish.lid);
    wish.block = 1;
    let none = get(&mut world, at, method::GET, both, &wish);
    assert_eq!(none, Err(status::NO_RECORDS));
}

const SERVICE: u64 = ServiceRecord::ID_MASK | ServiceRecord::GID | ServiceRecord::PKEY;

fn service(world: &World, at: Place, id: u64, lease: u32) -> ServiceRecord {
    let mut name = [0; 64];
    name[..3].copy_from_slice(b"abc");
    ServiceRecord {
        id,
        gid: gid(world, at),
        pkey: PKey::DEFAULT,
        lease,
        name,
        ..ServiceRecord::default()
    }
}

#[test]
fn services_and_leases() {
    let (mut world, ports) = served(&line(3, 1));
    let (at, other) = (ports[0], ports[1]);
    let with_lease = SERVICE | ServiceRecord::LEASE | ServiceRecord::NAME | ServiceRecord::KEY;
    let mut first = service(&world, at, 1, 10);
    first.key = [3, 4];
    let told = get(&mut world, at, method::SET, with_lease, &first).expect("it is kept");
    assert_eq!((told.lease, told.key), (10, [0, 0]));
    let second = service(&world, at, 2, ServiceRecord::FOR_EVER);
    get(&mut world, at, method::SET, with_lease, &second).expect("it is kept");
    let by_name = request(method::GET, ServiceRecord::NAME, &first);
    let told: Vec<ServiceRecord> = table(&mut world, other, by_name.clone()).expect("a table");
    assert_eq!(told.iter().map(|told| told.id).collect::<Vec<_>>(), [1, 2]);
    // The key is needed to change it.
    let mut stranger = first;
    stranger.key = [3, 5];
    let denied = get(&mut world, other, method::SET, with_lease, &stranger);
    assert_eq!(denied, Err(status::DENIED));
    let denied = get(&mut world, other, sa_method::DELETE, SERVICE, &stranger);
    assert_eq!(denied, Err(status::DENIED));
    // A lease that was renewed lasts longer.
    world.pass(millis(6_000));
    get(&mut world, at, method::SET, with_lease, &first).expect("it is kept");
    world.pass(millis(9_000));
    get(
        &mut world,
        other,
        method::GET,
        ServiceRecord::ID_MASK,
        &first,
    )
    .expect("it is there");
    world.pass(millis(2_000));
    let gone = get(
        &mut world,
        other,
        method::GET,
        ServiceRecord::ID_MASK,
        &first,
    );
    assert_eq!(gone, Err(status::NO_RECORDS));
    get(&mut world, at, sa_method::DELETE, SERVICE, &second).expect("it goes");
    let told: Vec<ServiceRecord> = table(&mut world, other, by_name).expect("a table");
    assert_eq!(told, []);
    let lacks = get(&mut world, at, method::SET, ServiceRecord::ID_MASK, &first);
    assert_eq!(lacks, Err(status::INSUFFICIENT_COMPONENTS));
    for id in 0..8 {
        let another = service(&world, other, id, 100);
        get(&mut world, other, method::SET, with_lease, &another).expect("there is room");
    }
    let full = get(&mut world, at, method::SET, with_lease, &second);
    assert_eq!(full, Err(status::NO_RESOURCES));
    world.unplug(other);
    world.settle(LIMIT);
    get(&mut world, at, method::SET, with_lease, &second).expect("those of the gone are gone");
}

/// A lease ends while the subnet manager looks around: that waits for nothing.
#[test]
fn a_lease_ends_amid_a_sweep() {
    let (mut world, ports) = served(&line(3, 1));
    let at = ports[0];
    let with_lease = SERVICE | ServiceRecord::LEASE;
    let wish = service(&world, at, 1, 1);
    get(&mut world, at, method::SET, with_lease, &wish).expect("it is kept");
    world.pass(millis(900));
    // Requests of a sweep go on as long as nobody answers.
    world.unheard = Some((method::GET, attr::NODE_DESCRIPTION));
    world.sweep(0);
    world.pass(millis(300));
    world.unheard = None;
    world.pass(millis(5_000));
    let gone = get(&mut world, at, method::GET, ServiceRecord::ID_MASK, &wish);
    assert_eq!(gone, Err(status::NO_RECORDS));
}

fn inform(trap: u16, subscribe: u8) -> InformInfo {
    InformInfo {
        lid_begin: Lid::PERMISSIVE,
        is_generic: true,
        subscribe,
        kind: InformInfo::ANY,
        trap,
        qpn: Qpn::GSI,
        producer: InformInfo::ANY_PRODUCER,
        ..InformInfo::default()
    }
}

/// Lets time pass, and returns trap number and GID of what `at` is told of.
fn events(world: &mut World, at: Place) -> Vec<(u16, Gid)> {
    let mut all = Vec::new();
    for _ in 0..100 {
        world.pass(millis(50));
        for report in reports(world, at) {
            let (notice, issuer) = notice(report.data());
            assert!(!issuer.is_zero());
            let gid = match notice.trap {
                64..=67 => GidEvent::parse(&notice.details).gid,
                _ => issuer,
            };
            all.push((notice.trap, gid));
        }
    }
    all
}

#[test]
fn subscribers_are_told() {
    let (mut world, ports) = served(&line(3, 1));
    let (at, other) = (ports[0], ports[2]);
    for subscriber in [at, other] {
        let wish = inform(InformInfo::ANY, 1);
        get(&mut world, subscriber, method::SET, 0, &wish).expect("it is noted");
    }
    // It is noted once.
    get(&mut world, at, method::SET, 0, &inform(InformInfo::ANY, 1)).expect("it is noted");
    let mgid = Gid::new([0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let member = McMemberRecord {
        mgid,
        port_gid: gid(&world, at),
        join_state: JOIN_FULL,
        qkey: QKey::new(1),
        pkey: PKey::DEFAULT,
        ..McMemberRecord::default()
    };
    get(
        &mut world,
        at,
        method::SET,
        u64::MAX & 0x1_f48f & !0x30,
        &member,
    )
    .or_else(|_| get(&mut world, at, method::SET, 0x1_3085 | 3 | 1 << 6, &member))
    .expect("it is made");
    assert_eq!(events(&mut world, at), [(trap::GROUP_CREATED, mgid)]);
    get(&mut world, at, sa_method::DELETE, 0x1_0003, &member).expect("it leaves");
    assert_eq!(events(&mut world, at), [(trap::GROUP_DELETED, mgid)]);
    let gone = gid(&world, ports[1]);
    let far = world.cables.far(ports[1]).expect("it has a cable");
    world.unplug(ports[1]);
    let told = events(&mut world, at);
    let switch = gid(&world, (1, 0));
    assert!(told.contains(&(trap::GID_OUT_OF_SERVICE, gone)), "{told:?}");
    assert!(
        told.contains(&(trap::LINK_STATE_CHANGE, switch)),
        "{told:?}"
    );
    world.plug(ports[1], far);
    let told = events(&mut world, at);
    assert!(told.contains(&(trap::GID_IN_SERVICE, gone)), "{told:?}");
    // The other one has not answered, and is told no more.
    let agent = world.seats[0].agent.as_ref().expect("it is there");
    assert_eq!(agent.report().given_up, 1);
    get(&mut world, at, method::SET, 0, &inform(InformInfo::ANY, 0)).expect("it is noted");
    let unknown = get(&mut world, at, method::SET, 0, &inform(InformInfo::ANY, 0));
    assert_eq!(unknown, Err(status::REQUEST_INVALID));
    world.unplug(ports[1]);
    assert_eq!(events(&mut world, at), []);
    let _ = reports(&mut world, other);
    assert_eq!(events(&mut world, other), []);
}

/// Reports and their answers get lost: subscribers learn all the same.
#[test]
fn reports_over_lossy_links() {
    let (mut world, ports) = served(&line(3, 1));
    let at = ports[2];
    let wish = inform(trap::GID_OUT_OF_SERVICE, 1);
    get(&mut world, at, method::SET, 0, &wish).expect("it is noted");
    for _ in 0..10 {
        let far = world.cables.far(ports[1]).expect("it has a cable");
        let gone = gid(&world, ports[1]);
        world.loss = 20;
        world.gmp_loss = 50;
        world.unplug(ports[1]);
        let told = events(&mut world, at);
        assert!(told.contains(&(trap::GID_OUT_OF_SERVICE, gone)));
        assert!(told
            .iter()
            .all(|(trap, _)| *trap == trap::GID_OUT_OF_SERVICE));
        world.plug(ports[1], far);
        world.loss = 0;
        world.gmp_loss = 0;
        events(&mut world, at);
        world.settle(LIMIT);
    }
}

/// What a subscriber that has gone did not answer is not held against the next one in its place.
#[test]
fn subscriptions_in_the_place_of_others() {
    let (mut world, ports) = served(&line(4, 1));
    let (gone, at) = (ports[3], ports[0]);
    let wish = inform(trap::GID_OUT_OF_SERVICE, 1);
    get(&mut world, gone, method::SET, 0, &wish).expect("it is noted");
    let other = world.cables.far(ports[1]).expect("it has a cable");
    world.unplug(ports[1]);
    // It does not answer. Just before that counts, it goes.
    world.pass(millis(2_900));
    world.unplug(gone);
    world.pass(millis(50));
    let wish = inform(trap::GID_IN_SERVICE, 1);
    get(&mut world, at, method::SET, 0, &wish).expect("it is noted");
    assert_eq!(events(&mut world, at), []);
    world.plug(ports[1], other);
    let told = events(&mut world, at);
    assert_eq!(told, [(trap::GID_IN_SERVICE, gid(&world, ports[1]))]);
}

/// Who subscribes anew is there, whatever it has not answered before.
#[test]
fn subscriptions_that_are_renewed() {
    let (mut world, ports) = served(&line(4, 1));
    let at = ports[3];
    let wish = inform(InformInfo::ANY, 1);
    get(&mut world, at, method::SET, 0, &wish).expect("it is noted");
    let other = world.cables.far(ports[1]).expect("it has a cable");
    world.unplug(ports[1]);
    world.pass(millis(2_900));
    get(&mut world, at, method::SET, 0, &wish).expect("it is noted");
    world.pass(millis(400));
    let _ = events(&mut world, at);
    world.plug(ports[1], other);
    let back = gid(&world, ports[1]);
    let told = events(&mut world, at);
    assert!(told.contains(&(trap::GID_IN_SERVICE, back)), "{told:?}");
}

/// A subnet manager with more storage takes over: who was there before is no news, and who has gone meanwhile is.
#[test]
fn another_manager_tells_no_old_news() {
    let (mut world, ports) = served(&line(4, 1));
    let wish = inform(InformInfo::ANY, 1);
    get(&mut world, ports[0], method::SET, 0, &wish).expect("it is noted");
    enlarge(&mut world);
    let gone = gid(&world, ports[2]);
    world.traps_lost = true;
    world.unplug(ports[2]);
    world.sweep(0);
    let told = events(&mut world, ports[0]);
    assert_eq!(told, [(trap::GID_OUT_OF_SERVICE, gone)]);
}

/// Who was not found for want of room is perhaps not gone, and subscribers hear nothing of it.
#[test]
fn who_is_not_found_is_not_told_to_be_gone() {
    let (mut world, ports) = served(&line(4, 1));
    for number in [trap::GID_IN_SERVICE, trap::GID_OUT_OF_SERVICE] {
        get(&mut world, ports[0], method::SET, 0, &inform(number, 1)).expect("it is noted");
    }
    let mut cables = world.cables.of(1);
    let (near, far) = cables.find(|(_, far)| far.0 == 2).expect("there is one");
    drop(cables);
    let between = world.add_switch(30, 64);
    world.unplug(near);
    world.plug(near, (between, 1));
    world.plug((between, 2), far);
    assert_eq!(events(&mut world, ports[0]), []);
    assert!(world.seats[0].manager.report().no_room);
    // A port without a cable is gone, whatever else is not found.
    let gone = gid(&world, ports[1]);
    world.unplug(ports[1]);
    assert_eq!(
        events(&mut world, ports[0]),
        [(trap::GID_OUT_OF_SERVICE, gone)]
    );
    enlarge(&mut world);
    world.sweep(0);
    let new = Gid::from_parts(Gid::DEFAULT_PREFIX, guid_of(&world, between));
    assert_eq!(events(&mut world, ports[0]), [(trap::GID_IN_SERVICE, new)]);
}

/// A new partition has groups of IP hosts, of which subscribers hear as of any other.
#[test]
fn groups_of_new_partitions_are_told() {
    let (mut world, ports) = served(&line(2, 1));
    let wish = inform(trap::GROUP_CREATED, 1);
    get(&mut world, ports[0], method::SET, 0, &wish).expect("it is noted");
    let all = Assignment {
        pkey: PKey::new(0x8001),
        port: None,
    };
    world.partition(0, &[all]);
    let told = events(&mut world, ports[0]);
    assert_eq!(told.len(), 2, "{told:?}");
    world.sweep(0);
    assert_eq!(events(&mut world, ports[0]), []);
}
