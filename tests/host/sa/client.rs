// SPDX-License-Identifier: GPL-2.0

//! Who asks subnet administration: a port, with the receiver of multi-packet transactions.

use crate::nodes::{
    Node,
    Place, //
};
use crate::world::{
    Gmp,
    World, //
};
use proto::time::Duration;
use std::collections::BTreeMap;
use wire::mad::sa::rmpp::{
    flag,
    kind,
    VERSION, //
};
use wire::mad::sa::{
    method as sa_method,
    MultiPathRecord,
    PathRecord,
    Record,
    Rmpp,
    Sa, //
};
use wire::mad::{
    class,
    method,
    MadHeader,
    CLASS_VERSION_2, //
};
use wire::{
    Gid,
    PortNum, //
};

/// How long a client waits before it asks again, in milliseconds, and how often it does.
const PATIENCE: u64 = 4_000;
const TRIES: usize = 20;

/// Segments that may be on their way.
const WINDOW: u32 = 16;

/// A request.
pub(crate) fn request<T: Record>(method: u8, mask: u64, record: &T) -> Sa {
    let mut sa = Sa::new(&MadHeader {
        mgmt_class: class::SUBN_ADM,
        class_version: CLASS_VERSION_2,
        method,
        attr_id: T::ID,
        ..MadHeader::default()
    });
    sa.set_component_mask(mask);
    sa.set_record(record);
    sa
}

/// The GID of a port.
pub(crate) fn gid(world: &World, at: Place) -> Gid {
    let guid = match &world.nodes[at.0] {
        Node::Switch(switch) => switch.identity().node,
        Node::Hca(hca) => {
            let port = hca.port(PortNum::new(at.1)).expect("it is there");
            port.guids().port()
        }
    };
    Gid::from_parts(Gid::DEFAULT_PREFIX, guid)
}

/// Sends a request with a new transaction from the port `at`. Returns the transaction.
pub(crate) fn send(world: &mut World, at: Place, sa: &mut Sa) -> u64 {
    let tid = 1 + world.random(u64::MAX);
    sa.set_header(&MadHeader { tid, ..sa.header() });
    let lid = world.seats[0].manager.lid();
    world.send_gmp(at, lid, None, sa.as_bytes());
    tid
}

/// Takes the datagrams that have come to `at`.
fn take(world: &mut World, at: Place) -> Vec<Gmp> {
    let all = std::mem::take(&mut world.gmps);
    let (here, others) = all.into_iter().partition(|gmp| gmp.at == at);
    world.gmps = others;
    here
}

/// Asks, and returns the answer.
pub(crate) fn ask(world: &mut World, at: Place, sa: Sa) -> Sa {
    ask_while(world, at, sa, |world| world.pass(Duration::from_millis(1)))
}

/// Asks, and returns the answer. `passes` lets a millisecond pass.
pub(crate) fn ask_while(
    world: &mut World,
    at: Place,
    mut sa: Sa,
    mut passes: impl FnMut(&mut World),
) -> Sa {
    for _ in 0..TRIES {
        let tid = send(world, at, &mut sa);
        for _ in 0..PATIENCE {
            passes(world);
            for gmp in take(world, at) {
                let answer = Sa::from_bytes(&gmp.mad).clone();
                let told = answer.rmpp().kind != kind::ACK && answer.header().tid == tid;
                if told && answer.header().method & method::RESPONSE != 0 {
                    return answer;
                }
            }
        }
    }
    panic!("no answer to {:?}", sa.header());
}

/// Asks for one record: the record, or the status.
pub(crate) fn get<T: Record>(
    world: &mut World,
    at: Place,
    method: u8,
    mask: u64,
    record: &T,
) -> Result<T, u16> {
    let answer = ask(world, at, request(method, mask, record));
    match answer.header().status {
        0 => Ok(answer.record()),
        status => Err(status),
    }
}

/// Asks for a table: its records, or the status.
pub(crate) fn table<T: Record>(world: &mut World, at: Place, mut sa: Sa) -> Result<Vec<T>, u16> {
    sa.set_header(&MadHeader {
        method: sa_method::GET_TABLE,
        attr_id: T::ID,
        ..sa.header()
    });
    records(world, at, sa)
}

/// Asks for paths between several ports: these, or the status.
pub(crate) fn paths(
    world: &mut World,
    at: Place,
    mask: u64,
    wish: MultiPathRecord,
    gids: &[Gid],
) -> Result<Vec<PathRecord>, u16> {
    records(world, at, multi(mask, wish, gids))
}

/// A request for paths between several ports.
pub(crate) fn multi(mask: u64, wish: MultiPathRecord, gids: &[Gid]) -> Sa {
    let mut sa = request(sa_method::GET_MULTI, mask, &wish);
    for (place, gid) in gids.iter().enumerate() {
        MultiPathRecord::set_gid(sa.data_mut(), place, *gid);
    }
    sa.set_rmpp(&Rmpp {
        version: VERSION,
        kind: kind::DATA,
        flags: flag::ACTIVE | flag::FIRST | flag::LAST,
        data1: 1,
        data2: 220,
        ..Rmpp::default()
    });
    sa
}

/// Asks for records, whatever the request: these, or the status.
fn records<T: Record>(world: &mut World, at: Place, mut sa: Sa) -> Result<Vec<T>, u16> {
    for _ in 0..TRIES {
        let tid = send(world, at, &mut sa);
        if let Some(bytes) = receive(world, at, tid, T::ID) {
            let (size, bytes) = bytes?;
            let records = bytes.chunks(size.max(1)).map(T::parse);
            return Ok(records.collect());
        }
    }
    panic!("no records for {:?}", sa.header());
}

type Table = Result<(usize, Vec<u8>), u16>;

/// Receives a table: the distance of its records, and its bytes. `None` if it stays away.
fn receive(world: &mut World, at: Place, tid: u64, attribute: u16) -> Option<Table> {
    let mut segments: BTreeMap<u32, Sa> = BTreeMap::new();
    let mut silent = 0;
    while silent < PATIENCE {
        world.pass(Duration::from_millis(1));
        silent += 1;
        for gmp in take(world, at) {
            let sa = Sa::from_bytes(&gmp.mad).clone();
            if sa.header().tid != tid || sa.header().method & method::RESPONSE == 0 {
                continue;
            }
            silent = 0;
            if !sa.rmpp().is_active() {
                return Some(Err(sa.header().status));
            }
            match sa.rmpp().kind {
                kind::DATA => assert_eq!(sa.header().attr_id, attribute),
                kind::ACK => continue,
                _ => return None,
            }
            segments.insert(sa.rmpp().data1, sa.clone());
            let arrived = (1..).take_while(|at| segments.contains_key(at)).count() as u32;
            acknowledge(world, &gmp, arrived);
            let last = &segments.get(&arrived)?.rmpp();
            if last.flags & flag::LAST != 0 {
                let rest = last.data2 as usize - 20;
                let mut bytes: Vec<u8> = Vec::new();
                for segment in segments.range(1..arrived) {
                    bytes.extend(segment.1.data());
                }
                bytes.extend(&segments[&arrived].data()[..rest]);
                let told = segments[&1].rmpp().data2 as usize;
                assert_eq!(told, bytes.len() + 20 * arrived as usize);
                let size = usize::from(sa.attribute_offset()) * 8;
                return Some(Ok((size, bytes)));
            }
        }
    }
    None
}

fn acknowledge(world: &mut World, gmp: &Gmp, arrived: u32) {
    let mut ack = Sa::from_bytes(&gmp.mad).clone();
    ack.set_header(&MadHeader {
        method: ack.header().method & !method::RESPONSE,
        ..ack.header()
    });
    ack.set_rmpp(&Rmpp {
        version: VERSION,
        kind: kind::ACK,
        flags: flag::ACTIVE,
        data1: arrived,
        data2: arrived + WINDOW,
        ..Rmpp::default()
    });
    world.send_gmp(gmp.at, gmp.from.lid, None, ack.as_bytes());
}

/// Takes the reports that have come to `at`, and says so.
pub(crate) fn reports(world: &mut World, at: Place) -> Vec<Sa> {
    let mut all = Vec::new();
    for gmp in take(world, at) {
        let mut sa = Sa::from_bytes(&gmp.mad).clone();
        if sa.header().method == method::REPORT {
            all.push(sa.clone());
            sa.set_header(&MadHeader {
                method: method::REPORT_RESP,
                ..sa.header()
            });
            world.send_gmp(at, gmp.from.lid, None, sa.as_bytes());
        }
    }
    all
}
