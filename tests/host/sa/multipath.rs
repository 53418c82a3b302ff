// SPDX-License-Identifier: GPL-2.0

//! MultiPathRecord.

use crate::client::{
    ask,
    get,
    gid,
    multi,
    paths, //
};
use crate::nodes::Place;
use crate::world::World;
use crate::{
    line,
    mesh,
    served,
    shapes, //
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use wire::mad::sa::{
    cap,
    method as sa_method,
    selector,
    status,
    MultiPathRecord,
    PathRecord,
    Rmpp, //
};
use wire::mad::{
    method,
    ClassPortInfo, //
};
use wire::{
    Gid,
    Guid,
    PKey, //
};

const COUNTS: u64 = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;

fn wish(sources: usize, targets: usize) -> MultiPathRecord {
    MultiPathRecord {
        sgid_count: sources as u8,
        dgid_count: targets as u8,
        ..MultiPathRecord::default()
    }
}

/// The path between two ports, as the answer to a PathRecord has it.
fn single(world: &mut World, from: Gid, to: Gid, at: Place) -> PathRecord {
    let wish = PathRecord {
        sgid: from,
        dgid: to,
        ..PathRecord::default()
    };
    let mask = PathRecord::SGID | PathRecord::DGID;
    get(world, at, method::GET, mask, &wish).expect("a path")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is told are the paths of all pairs, source by source, as many as are wished.
    #[test]
    fn paths_of_all_pairs(
        shape in 0..4usize,
        (sources, targets) in (1..6usize, 1..6usize),
        picks in vec(any::<Index>(), 11),
        limit in prop::option::of(0..32u8),
        loss in prop_oneof![Just(0), Just(5)],
    ) {
        let (mut world, ports) = served(&shapes()[shape]);
        let gids: Vec<Gid> = picks[..sources + targets]
            .iter()
            .map(|pick| gid(&world, *pick.get(&ports)))
            .collect();
        let (from, to) = gids.split_at(sources);
        let mut want = Vec::new();
        for sgid in from {
            for dgid in to {
                want.push(single(&mut world, *sgid, *dgid, ports[0]));
            }
        }
        let mut asked = wish(sources, targets);
        let mut mask = COUNTS;
        if let Some(limit) = limit {
            asked.numb_path = limit;
            mask |= MultiPathRecord::NUMB_PATH;
            want.truncate(limit.into());
        }
        world.gmp_loss = loss;
        let told = paths(&mut world, ports[0], mask, asked, &gids).expect("they are told");
        if (sources, targets, limit) == (2, 2, Some(2)) {
            prop_assert_eq!(told.len(), 2);
        } else {
            prop_assert_eq!(told, want);
        }
    }

    /// Of a path and an alternate one between two ports here and two there none has a port of the other, and no
    /// other two paths are shorter.
    #[test]
    fn a_path_and_an_alternate_one(picks in prop::sample::subsequence((0..10usize).collect::<Vec<_>>(), 4), swap: bool) {
        let (mut world, ports) = served(&line(10, 1));
        let mut at = picks.clone();
        if swap {
            at.swap(2, 3);
        }
        let gids: Vec<Gid> = at.iter().map(|at| gid(&world, ports[*at])).collect();
        let mut asked = wish(2, 2);
        asked.numb_path = 2;
        let mask = COUNTS | MultiPathRecord::NUMB_PATH;
        let told = paths(&mut world, ports[0], mask, asked, &gids).expect("they are told");
        prop_assert_eq!(told.len(), 2);
        prop_assert!(told[0].sgid != told[1].sgid && told[0].dgid != told[1].dgid);
        // Adapter n is at switch n of the line.
        let place = |gid: Gid| at[gids.iter().position(|known| *known == gid).expect("it was asked for")];
        let length = |paths: [(usize, usize); 2]| -> usize {
            paths.iter().map(|(from, to)| from.abs_diff(*to)).sum()
        };
        let chosen = [0, 1].map(|path: usize| (place(told[path].sgid), place(told[path].dgid)));
        let straight = length([(at[0], at[2]), (at[1], at[3])]);
        let crossed = length([(at[0], at[3]), (at[1], at[2])]);
        prop_assert_eq!(length(chosen), straight.min(crossed));
    }
}

#[test]
fn it_says_that_it_can() {
    let (mut world, ports) = served(&mesh(2, 1, 1));
    let empty = ClassPortInfo::default();
    let info = get(&mut world, ports[0], method::GET, 0, &empty).expect("it is told");
    assert!(info.capability_mask & cap::MULTI_PATH != 0);
}

#[test]
fn wishes_that_cannot_be_met() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    let gids: Vec<Gid> = ports.iter().map(|at| gid(&world, *at)).collect();
    let nowhere = Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(0xdead));
    let here = ports[0];
    let mut with = |mask: u64, change: &dyn Fn(&mut MultiPathRecord), gids: &[Gid]| {
        let mut asked = wish(1, 2);
        change(&mut asked);
        paths(&mut world, here, mask, asked, gids)
    };
    let told = with(COUNTS, &|_| {}, &gids[..3]).expect("they are told");
    assert_eq!(told.len(), 2);
    let few = status::INSUFFICIENT_COMPONENTS;
    assert_eq!(with(0, &|_| {}, &gids[..3]), Err(few));
    assert_eq!(
        with(MultiPathRecord::SGID_COUNT, &|_| {}, &gids[..3]),
        Err(few)
    );
    let invalid = status::REQUEST_INVALID;
    assert_eq!(
        with(COUNTS, &|wish| wish.dgid_count = 0, &gids[..3]),
        Err(invalid)
    );
    assert_eq!(
        with(COUNTS, &|wish| wish.sgid_count = 0, &gids[..3]),
        Err(invalid)
    );
    for count in [11, 255] {
        assert_eq!(
            with(COUNTS, &|wish| wish.dgid_count = count, &gids),
            Err(invalid)
        );
        assert_eq!(
            with(COUNTS, &|wish| wish.sgid_count = count, &gids),
            Err(invalid)
        );
    }
    let strange = [gids[0], gids[1], nowhere];
    assert_eq!(with(COUNTS, &|_| {}, &strange), Err(status::INVALID_GID));
    let strange = [nowhere, gids[1], gids[2]];
    assert_eq!(with(COUNTS, &|_| {}, &strange), Err(status::INVALID_GID));
    // Where no path is as wished, a table of none is the answer.
    let mask = COUNTS | MultiPathRecord::PKEY;
    let told = with(mask, &|wish| wish.pkey = PKey::new(0x8001), &gids[..3]);
    assert_eq!(told, Ok(Vec::new()));
    let mask = COUNTS | MultiPathRecord::MTU | MultiPathRecord::MTU_SELECTOR;
    let greater =
        |wish: &mut MultiPathRecord| (wish.mtu, wish.mtu_selector) = (5, selector::GREATER);
    assert_eq!(with(mask, &greater, &gids[..3]), Ok(Vec::new()));
}

/// Other ways to ask are refused.
#[test]
fn methods() {
    let (mut world, ports) = served(&mesh(2, 1, 1));
    let gids = [gid(&world, ports[0]), gid(&world, ports[1])];
    let good = multi(COUNTS, wish(1, 1), &gids);
    for method in [method::GET, sa_method::GET_TABLE] {
        let mut sa = good.clone();
        let mut header = sa.header();
        header.method = method;
        sa.set_header(&header);
        sa.set_rmpp(&Rmpp::default());
        assert_eq!(ask(&mut world, ports[0], sa).header().status, 0x000c);
    }
    let mut sa = good;
    sa.set_rmpp(&Rmpp::default());
    let answer = ask(&mut world, ports[0], sa);
    assert_eq!(answer.header().status, status::REQUEST_INVALID);
}

/// Who asks while the subnet manager looks around is answered when it has done so.
#[test]
fn requests_wait_for_sweeps() {
    let (mut world, ports) = served(&mesh(3, 2, 1));
    let gone = world.cables.of(5).next().expect("it has cables").0;
    world.unplug(gone);
    let gids = [gid(&world, ports[0]), gid(&world, ports[3])];
    let told = paths(&mut world, ports[0], COUNTS, wish(1, 1), &gids).expect("a path");
    assert_eq!(told[0].dlid, world.lid(ports[3]));
}
