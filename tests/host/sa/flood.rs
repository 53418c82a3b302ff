// SPDX-License-Identifier: GPL-2.0

//! Whom packets of multicast groups reach, over the tables of the switches.

use crate::client::gid;
use crate::nodes::{
    Node,
    Place, //
};
use crate::world::World;
use proto::fabric::switch::{
    Forward,
    Packet, //
};
use std::collections::BTreeMap;
use wire::mad::sa::{
    JOIN_FULL,
    JOIN_NON, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    PortNum, //
};

/// How often a packet for `mlid` from the port `from` arrives at each port. Fails if it goes round in circles.
pub(crate) fn flood(world: &World, from: Place, mlid: Lid) -> BTreeMap<Place, usize> {
    let packet = Packet {
        dlid: mlid,
        pkey: Some(PKey::DEFAULT),
        vl15: false,
        hops: 0,
    };
    let mut arrived = BTreeMap::new();
    let first = match world.nodes[from.0] {
        Node::Switch(_) => Some(from),
        Node::Hca(_) => world.cables.far(from),
    };
    let mut queue: Vec<Place> = first.into_iter().collect();
    let mut steps = 0;
    while let Some(at) = queue.pop() {
        let Node::Switch(switch) = &world.nodes[at.0] else {
            *arrived.entry(at).or_default() += 1;
            continue;
        };
        steps += 1;
        assert!(steps <= world.nodes.len(), "{mlid:?} goes round in circles");
        let Forward::Multicast(spread) = switch.forward(PortNum::new(at.1), &packet) else {
            continue;
        };
        for port in spread.to.iter() {
            if port == PortNum::MANAGEMENT {
                *arrived.entry((at.0, 0)).or_default() += 1;
            } else {
                queue.extend(world.cables.far((at.0, port.get())));
            }
        }
    }
    arrived
}

/// Checks that what each member of the group sends reaches all members that receive, once, and nobody else.
pub(crate) fn check_group(world: &World, mgid: Gid, ports: &[Place]) {
    let agent = world.seats[0].agent.as_ref().expect("it is there");
    let group = agent.groups().find(|group| group.record().mgid == mgid);
    let mlid = group.expect("there is the group").record().mlid;
    let places: BTreeMap<Gid, Place> = ports.iter().map(|at| (gid(world, *at), *at)).collect();
    let members: Vec<_> = agent.members(mlid).copied().collect();
    for sender in &members {
        let from = places[&sender.gid()];
        let want: BTreeMap<Place, usize> = members
            .iter()
            .filter(|member| member.join_state() & (JOIN_FULL | JOIN_NON) != 0)
            .map(|member| (places[&member.gid()], 1))
            .filter(|(at, _)| *at != from)
            .collect();
        assert_eq!(flood(world, from, mlid), want, "from {from:?}");
    }
}
