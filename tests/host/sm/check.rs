// SPDX-License-Identifier: GPL-2.0

//! What is to be true of a fabric that a subnet manager has set up, as seen from outside.

use crate::nodes::{
    Node,
    Place, //
};
use crate::world::World;
use proto::fabric::link::LinkState;
use proto::fabric::switch::{
    Forward,
    Packet, //
};
use std::collections::{
    BTreeMap,
    BTreeSet,
    VecDeque, //
};
use wire::{
    Lid,
    PKey,
    PortNum, //
};

/// The LID of a port that has one, and its state.
fn end_port(world: &World, at: Place) -> (Lid, LinkState) {
    let port = PortNum::new(at.1);
    let attrs = match &world.nodes[at.0] {
        Node::Switch(switch) => switch.port(port).expect("it is there").attrs(),
        Node::Hca(hca) => hca.port(port).expect("it is there").attrs(),
    };
    (attrs.lid(), attrs.state())
}

/// Hops from the node `from` to each node that cables lead to.
fn distances(world: &World, from: usize) -> Vec<Option<usize>> {
    let mut found = vec![None; world.nodes.len()];
    found[from] = Some(0);
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((at, hops)) = queue.pop_front() {
        if at != from && matches!(world.nodes[at], Node::Hca(_)) {
            continue;
        }
        for (_, far) in world.cables.of(at) {
            if found[far.0].is_none() {
                found[far.0] = Some(hops + 1);
                queue.push_back((far.0, hops + 1));
            }
        }
    }
    found
}

/// The nodes that cables join to the node `from`, and this one.
fn joined(world: &World, from: usize) -> Vec<usize> {
    let found = distances(world, from);
    (0..found.len()).filter(|at| found[*at].is_some()).collect()
}

/// All ports with LIDs that cables join to the node `from`.
pub(crate) fn end_ports(world: &World, from: usize) -> Vec<Place> {
    let mut ports = BTreeSet::new();
    for node in joined(world, from) {
        match &world.nodes[node] {
            Node::Switch(_) => {
                ports.insert((node, 0));
            }
            Node::Hca(_) => {
                let cables = world.cables.of(node);
                let other = node;
                ports.extend(
                    cables
                        .filter(|(_, far)| other != from || far.0 != from)
                        .map(|(near, _)| near),
                );
            }
        }
    }
    ports.into_iter().collect()
}

/// For each node, by port: the ports of the next switch that its packets go on to.
type Waits = Vec<BTreeMap<u8, BTreeSet<u8>>>;

/// How much longer than the shortest ways those between adapters are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Detours {
    /// Hops of all ways, and of the shortest ones.
    pub(crate) hops: usize,
    pub(crate) shortest: usize,
    /// Hops that a way has too many, at most.
    pub(crate) worst: usize,
}

impl Detours {
    /// Percent that all ways together are longer.
    pub(crate) fn percent(&self) -> usize {
        (self.hops - self.shortest) * 100 / self.shortest.max(1)
    }
}

/// Checks all that is joined to the node `from`: LIDs are unique, links Active, every port is reached from everywhere,
/// no packet goes in circles, no packets wait for each other in circles.
pub(crate) fn check(world: &World, from: usize, shortest: bool) -> Detours {
    let ports = end_ports(world, from);
    let nodes = joined(world, from);
    let mut lids = BTreeMap::new();
    for at in &ports {
        let (lid, state) = end_port(world, *at);
        assert!(lid.is_unicast(), "{at:?} has no LID");
        assert_eq!(lids.insert(lid, *at), None, "two ports have {lid:?}");
        assert_eq!(state, LinkState::Active, "{at:?}");
    }
    for node in &nodes {
        for (near, _) in world.cables.of(*node) {
            assert_eq!(end_port(world, near).1, LinkState::Active, "{near:?}");
        }
    }
    let mut waits: Waits = vec![BTreeMap::new(); world.nodes.len()];
    let mut detours = Detours::default();
    for (lid, target) in &lids {
        let hops = check_routes(world, &nodes, *lid, *target, &mut waits);
        measure(world, &nodes, *target, &hops, &mut detours);
    }
    check_waits(world, &waits);
    assert!(!shortest || detours.worst == 0, "{detours:?}");
    detours
}

/// Checks that all switches reach `target`, and notes which ports wait for which of the next switch. Returns the hops
/// from each switch to the last one.
fn check_routes(
    world: &World,
    nodes: &[usize],
    lid: Lid,
    target: Place,
    waits: &mut Waits,
) -> Vec<Option<usize>> {
    let packet = Packet {
        dlid: lid,
        pkey: Some(PKey::DEFAULT),
        vl15: false,
        hops: 0,
    };
    let next = |node: usize| -> Option<u8> {
        let Node::Switch(switch) = &world.nodes[node] else {
            return None;
        };
        match switch.forward(PortNum::MANAGEMENT, &packet) {
            Forward::To(out) => Some(out.get()),
            // The destination is the switch itself.
            Forward::Drop(_) if (node, 0) == target => Some(0),
            other => panic!("{other:?} at {node} for {lid:?} of {target:?}"),
        }
    };
    let mut hops: Vec<Option<usize>> = vec![None; world.nodes.len()];
    for start in nodes {
        let (mut at, mut way) = (*start, Vec::new());
        while let Some(out) = next(at).filter(|_| hops[at].is_none()) {
            assert!(
                way.len() <= nodes.len(),
                "a packet to {lid:?} goes in circles"
            );
            way.push(at);
            if out == 0 {
                assert_eq!((at, 0), target);
                break;
            }
            let far = world.cables.far((at, out)).expect("the way leads on");
            if matches!(world.nodes[far.0], Node::Hca(_)) {
                assert_eq!(far, target);
                break;
            }
            let then = next(far.0).expect("it is a switch");
            if then != 0 {
                waits[at].entry(out).or_default().insert(then);
            }
            at = far.0;
        }
        let mut rest = hops[at];
        for node in way.into_iter().rev() {
            let far = rest.map_or(0, |rest| rest + 1);
            hops[node] = Some(far);
            rest = Some(far);
        }
    }
    hops
}

/// Compares the ways of adapters to `target`, which may be one as well, with the shortest ones.
fn measure(
    world: &World,
    nodes: &[usize],
    target: Place,
    hops: &[Option<usize>],
    detours: &mut Detours,
) {
    if target.1 == 0 {
        return;
    }
    let ideal = distances(world, target.0);
    for adapter in nodes
        .iter()
        .filter(|node| matches!(world.nodes[**node], Node::Hca(_)))
    {
        let Some(near) = world.cables.far((*adapter, 1)) else {
            continue;
        };
        if *adapter == target.0 || matches!(world.nodes[near.0], Node::Hca(_)) {
            continue;
        }
        // From the switch of the adapter to the target.
        let (Some(way), Some(shortest)) = (hops[near.0].map(|hops| hops + 1), ideal[near.0]) else {
            panic!("{adapter} does not reach {target:?}");
        };
        assert!(way >= shortest, "{adapter} to {target:?}");
        detours.hops += way;
        detours.shortest += shortest;
        detours.worst = detours.worst.max(way - shortest);
    }
}

/// Checks that no ports wait for each other in a circle: each packet needs room at the next port before it leaves.
fn check_waits(world: &World, waits: &Waits) {
    let mut done: BTreeSet<Place> = BTreeSet::new();
    let ports = (0..waits.len()).flat_map(|node| waits[node].keys().map(move |out| (node, *out)));
    for start in ports {
        let mut stack = vec![(start, false)];
        let mut open: BTreeSet<Place> = BTreeSet::new();
        while let Some((at, leave)) = stack.pop() {
            if leave {
                open.remove(&at);
                done.insert(at);
                continue;
            }
            if done.contains(&at) {
                continue;
            }
            assert!(open.insert(at), "a credit loop at {at:?}");
            stack.push((at, true));
            let far = world.cables.far(at).expect("it is waited for").0;
            for out in &waits[at.0][&at.1] {
                let next = (far, *out);
                assert!(!open.contains(&next), "a credit loop at {next:?}");
                if !done.contains(&next) && waits[far].contains_key(out) {
                    stack.push((next, false));
                }
            }
        }
    }
}
