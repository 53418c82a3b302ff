// SPDX-License-Identifier: GPL-2.0

//! Datagrams that make no sense, or are not for subnet administration.

use crate::client::{
    ask,
    ask_while,
    get,
    request,
    send,
    table, //
};
use crate::shapes::mesh;
use crate::world::World;
use crate::{
    millis,
    served, //
};
use proptest::collection::vec;
use proptest::prelude::*;
use proto::time::Duration;
use wire::mad::sa::{
    attr,
    method as sa_method,
    rmpp::{
        flag,
        kind,
        VERSION, //
    },
    NodeRecord,
    PathRecord,
    Rmpp, //
};
use wire::mad::smp::{
    self,
    Smp, //
};
use wire::mad::{
    class,
    method,
    ClassPortInfo,
    MadHeader,
    Notice, //
};

/// Somebody tells of changes that there are not, again and again.
#[test]
fn traps_without_end_leave_time_for_answers() {
    let (mut world, ports) = served(&mesh(4, 2, 1));
    let mut trap = Smp::new(&MadHeader {
        mgmt_class: class::SUBN_LID,
        method: method::TRAP,
        attr_id: wire::mad::attr::NOTICE,
        ..MadHeader::default()
    });
    trap.set_attribute(&Notice {
        trap: smp::trap::LINK_STATE_CHANGE,
        ..Notice::default()
    });
    let noise = |world: &mut World| {
        for _ in 0..100 {
            world.inject(0, trap.as_bytes());
            world.pass(Duration::from_nanos(10_000));
        }
    };
    let sweeps = |world: &World| world.seats[0].manager.report().sweeps;
    let before = sweeps(&world);
    for _ in 0..1_000 {
        noise(&mut world);
    }
    let swept = sweeps(&world).wrapping_sub(before);
    assert!((5..=20).contains(&swept), "{swept} sweeps in a second");
    let began = world.now;
    let info = request(method::GET, 0, &ClassPortInfo::default());
    let answer = ask_while(&mut world, ports[0], info, noise);
    assert_eq!(answer.header().status, 0);
    assert!(world.now < began.after(millis(500)));
}

/// Somebody asks for all tables that there may be, and acknowledges nothing, again and again: others get theirs soon.
#[test]
fn acknowledgements_that_say_nothing_keep_no_tables() {
    let (mut world, ports) = served(&mesh(4, 2, 1));
    let mut asks = request(sa_method::GET_TABLE, 0, &PathRecord::default());
    let tids: Vec<u64> = (0..16)
        .map(|_| send(&mut world, ports[1], &mut asks))
        .collect();
    for window in 1..40 {
        world.pass(millis(250));
        for tid in &tids {
            let mut nothing = asks.clone();
            nothing.set_header(&MadHeader {
                tid: *tid,
                ..asks.header()
            });
            nothing.set_rmpp(&Rmpp {
                version: VERSION,
                kind: kind::ACK,
                flags: flag::ACTIVE,
                data2: window,
                ..Rmpp::default()
            });
            let lid = world.seats[0].manager.lid();
            world.send_gmp(ports[1], lid, None, nothing.as_bytes());
        }
    }
    let told: Result<Vec<NodeRecord>, u16> = table(&mut world, ports[0], asks);
    assert!(told.is_ok_and(|told| !told.is_empty()));
}

#[test]
fn what_is_not_supported_is_told() {
    let (mut world, ports) = served(&mesh(2, 1, 1));
    let good = request(method::GET, 0, &ClassPortInfo::default());
    let with = |change: &dyn Fn(&mut MadHeader)| {
        let (mut sa, mut header) = (good.clone(), good.header());
        change(&mut header);
        sa.set_header(&header);
        sa
    };
    for (sa, method, status) in [
        (with(&|_| {}), 0x81, 0),
        (with(&|header| header.class_version = 1), 0x81, 0x0004),
        (with(&|header| header.base_version = 2), 0x81, 0x0004),
        (with(&|header| header.method = 0x44), 0xc4, 0x0008),
        (
            with(&|header| header.attr_id = attr::SWITCH_INFO_RECORD),
            0x81,
            0x000c,
        ),
        (
            with(&|header| header.attr_id = attr::MULTI_PATH_RECORD),
            0x81,
            0x000c,
        ),
        (
            with(&|header| header.method = sa_method::DELETE),
            0x95,
            0x000c,
        ),
        (
            with(&|header| header.method = sa_method::GET_TRACE_TABLE),
            0x92,
            0x000c,
        ),
        (
            with(&|header| {
                header.method = method::SET;
                header.attr_id = attr::SWITCH_INFO_RECORD;
            }),
            0x81,
            0x000c,
        ),
    ] {
        let answer = ask(&mut world, ports[0], sa);
        assert_eq!(
            (answer.header().method, answer.header().status),
            (method, status)
        );
        assert_eq!(answer.header().class_version, 2);
    }
    // A request in segments.
    let mut multi = with(&|header| {
        header.method = sa_method::GET_MULTI;
        header.attr_id = attr::MULTI_PATH_RECORD;
    });
    multi.set_rmpp(&Rmpp {
        version: VERSION,
        kind: kind::DATA,
        flags: flag::ACTIVE | flag::FIRST,
        data1: 1,
        ..Rmpp::default()
    });
    let answer = ask(&mut world, ports[0], multi);
    assert_eq!(answer.header().method, sa_method::GET_MULTI_RESP);
    assert_eq!((answer.header().status, answer.rmpp().flags), (0x0200, 0));
}

/// Requests come faster than they are answered: some are lost, none does harm.
#[test]
fn a_flood_of_requests() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    let path = request(sa_method::GET_TABLE, 0, &PathRecord::default());
    for _ in 0..2_000 {
        crate::client::send(&mut world, ports[1], &mut path.clone());
    }
    let told = get(
        &mut world,
        ports[0],
        method::GET,
        0,
        &ClassPortInfo::default(),
    );
    assert!(told.is_ok());
    world.pass(millis(60_000));
    assert!(world.gmps.iter().all(|gmp| gmp.at == ports[1]));
}

/// Makes bytes a datagram of subnet administration, more or less.
fn tame(mad: &mut [u8; 256], pick: &[u8; 6]) {
    const METHODS: [u8; 12] = [
        1, 2, 0x12, 0x15, 0x14, 0x13, 0x12, 0x86, 0x81, 0x92, 6, 0xff,
    ];
    const ATTRIBUTES: [u16; 10] = [1, 2, 3, 0x11, 0x12, 0x31, 0x35, 0x38, 0x3a, 0x38];
    mad[..3].copy_from_slice(&[1, 3, 2]);
    mad[3] = METHODS[usize::from(pick[0]) % METHODS.len()];
    let attribute = ATTRIBUTES[usize::from(pick[1]) % ATTRIBUTES.len()];
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[8..15].fill(0);
    mad[15] %= 8;
    mad[36..44].fill(0);
    mad[43] = pick[2] % 2;
    if pick[3] % 4 != 0 {
        mad[24..36].fill(0);
    } else {
        mad[24..28].copy_from_slice(&[1, pick[3] % 5, 0xf9, 0]);
        mad[28..31].fill(0);
        mad[32..35].fill(0);
    }
    if pick[4] % 2 == 0 {
        mad[48..56].fill(0);
        mad[55] = pick[5];
    }
}

proptest! {
    /// Any bytes may arrive at any time: no harm is done, and who asks is answered afterwards.
    #[test]
    fn any_bytes(mads in vec((any::<[[u8; 32]; 8]>(), any::<[u8; 6]>()), 1..80), gids: bool) {
        let (mut world, ports) = served(&mesh(3, 2, 2));
        let lid = world.seats[0].manager.lid();
        for (at, (bytes, pick)) in mads.into_iter().enumerate() {
            let mut mad = [0; 256];
            for (to, from) in mad.iter_mut().zip(bytes.as_flattened()) {
                *to = *from;
            }
            tame(&mut mad, &pick);
            if gids {
                let gid = crate::client::gid(&world, ports[at % ports.len()]).get();
                mad[72..88].copy_from_slice(&gid);
                mad[56] = 0xff;
            }
            world.send_gmp(ports[at % ports.len()], lid, None, &mad);
            if pick[0] % 3 == 0 {
                world.pass(millis(u64::from(pick[1])));
            }
        }
        world.pass(millis(20_000));
        let told = get(&mut world, ports[0], method::GET, 0, &ClassPortInfo::default());
        prop_assert!(told.is_ok());
    }
}
