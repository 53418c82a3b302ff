// SPDX-License-Identifier: GPL-2.0

//! Unicast routes: the shortest that are legal by the rule *up, then down*.
//!
//! Switches are ranked ([`super::ranks`]), and each link leads up towards one of its ends. A legal way goes up as
//! often as it likes, then down as often as it likes, and never up again after it went down. Then the packets that
//! wait for room in a buffer cannot wait for each other in a circle, whatever the topology, with one virtual lane: a
//! chain of them would have to go up again (Schroeder et al., "Autonet", 1991). Trees, fat trees and meshes keep
//! shortest ways between all pairs that matter; rings have some that are longer, as every such scheme needs there.
//!
//! A switch looks at nothing but the destination, so the way from it must not depend on where a packet came from:
//! if any switch above sends packets down to it, it is *committed* to go on down. From the highest switch to the
//! lowest, each one that is not committed is free to take the shorter of its best way down and its best way up. The
//! position in the order falls on the way up and grows on the way down: there are no loops. The highest switch
//! reaches everything downwards: there always is a way.
//!
//! Among equally short ways the LID decides, which spreads destinations over parallel links.

use super::lids::Lids;
use super::ranks::Ranks;
use super::tables::{
    Tables,
    NO_PORT, //
};
use super::topology::{
    Node,
    Topology,
    NONE, //
};
use super::Storage;
use wire::{
    Lid,
    PortNum, //
};

/// Makes the routes to the switch at `place` of the order and to all channel adapters at it. Returns how many switches
/// were visited for that, each as often as it was.
pub(super) fn route_to<S: Storage>(
    topology: &mut Topology<S>,
    ranks: &Ranks<S>,
    tables: &mut Tables<S>,
    place: usize,
) -> usize {
    let Some(target) = ranks.at(place) else {
        return 0;
    };
    let Some(Node { first, info, .. }) = topology.node(target).copied() else {
        return 0;
    };
    measure_down(topology, ranks, place);
    let mut visits = ranks.len();
    for number in 0..=info.num_ports {
        let port = first.saturating_add(u32::from(number));
        let end = match PortNum::new(number) {
            PortNum::MANAGEMENT => Some(port),
            _ => topology.link(port),
        };
        let Some(lid) = end.and_then(|end| end_lid(topology, end)) else {
            continue;
        };
        route_lid(topology, ranks, tables, target, lid, number);
        visits = visits.saturating_add(ranks.len());
    }
    visits
}

/// Takes the way to a LID, which no port of the subnet has, out of all tables.
pub(super) fn forget<S: Storage>(
    topology: &Topology<S>,
    ranks: &Ranks<S>,
    tables: &mut Tables<S>,
    lids: &Lids<S>,
    lid: Lid,
) {
    let here = lids
        .owner(lid)
        .and_then(|owner| topology.port(owner))
        .is_some_and(|owner| topology.is_end_port(owner));
    if here {
        return;
    }
    for node in ranks.iter().filter_map(|node| topology.node(node)) {
        tables.set(node.row, lid, NO_PORT);
    }
}

/// The LID of a port, if it is one that has a LID.
fn end_lid<S: Storage>(topology: &Topology<S>, port: u32) -> Option<Lid> {
    let port = topology.port(port)?;
    (topology.is_end_port(port) && port.lid != Lid::NONE).then_some(port.lid)
}

/// Finds how far the switch at `target` of the order is from each switch by links that lead down alone.
fn measure_down<S: Storage>(topology: &mut Topology<S>, ranks: &Ranks<S>, target: usize) {
    for node in ranks.iter() {
        if let Some(node) = topology.node_mut(node) {
            node.down = NONE;
        }
    }
    // Nothing below the target leads down to it.
    for place in (0..=target).rev() {
        let Some(node) = ranks.at(place) else {
            continue;
        };
        let down = if place == target {
            Some(0)
        } else {
            let below = neighbours(topology, node).filter(|link| !link.up);
            let nearest = below
                .filter_map(|link| topology.node(link.node))
                .min_by_key(|far| far.down);
            nearest.map(|far| far.down.saturating_add(1))
        };
        if let (Some(down), Some(node)) = (down, topology.node_mut(node)) {
            node.down = down;
        }
    }
}

/// Makes the routes to one LID, which is at the port `number` of the switch `target`.
fn route_lid<S: Storage>(
    topology: &mut Topology<S>,
    ranks: &Ranks<S>,
    tables: &mut Tables<S>,
    target: u32,
    lid: Lid,
    number: u8,
) {
    for node in ranks.iter() {
        if let Some(node) = topology.node_mut(node) {
            node.committed = false;
        }
    }
    for index in ranks.iter() {
        let Some(node) = topology.node(index) else {
            continue;
        };
        let row = node.row;
        if index == target {
            tables.set(row, lid, number);
            if let Some(node) = topology.node_mut(index) {
                node.hops = 0;
            }
            continue;
        }
        let choice = choose(topology, index, node.down, node.committed, lid);
        let port = choice.map_or(NO_PORT, |choice| choice.number);
        tables.set(row, lid, port);
        if let Some(choice) = choice {
            if let Some(node) = topology.node_mut(index) {
                node.hops = choice.hops;
            }
            if let Some(far) = topology.node_mut(choice.node) {
                far.committed |= !choice.up;
            }
        }
    }
}

/// The next hop of a switch.
#[derive(Clone, Copy)]
struct Choice {
    number: u8,
    node: u32,
    up: bool,
    hops: u32,
}

/// The next hop of the switch `index` for `lid`.
fn choose<S: Storage>(
    topology: &Topology<S>,
    index: u32,
    down: u32,
    committed: bool,
    lid: Lid,
) -> Option<Choice> {
    let up = neighbours(topology, index)
        .filter(|link| link.up)
        .filter_map(|link| topology.node(link.node))
        .map(|far| far.hops.saturating_add(1))
        .min()
        .unwrap_or(NONE);
    let go_up = !committed && up < down;
    let hops = if go_up { up } else { down };
    if hops == NONE {
        return None;
    }
    let equal = |link: &Neighbour| {
        let far = topology.node(link.node);
        let rest = far.map_or(NONE, |far| if go_up { far.hops } else { far.down });
        link.up == go_up && rest.saturating_add(1) == hops
    };
    let all = neighbours(topology, index).filter(equal);
    let count = all.fold(0, |count: usize, _| count.saturating_add(1));
    let which = usize::from(lid.get()).checked_rem(count)?;
    let link = neighbours(topology, index).filter(equal).nth(which)?;
    Some(Choice {
        number: link.number,
        node: link.node,
        up: link.up,
        hops,
    })
}

/// A switch at the other end of a link.
#[derive(Clone, Copy)]
struct Neighbour {
    /// The port by which the link leaves.
    number: u8,
    node: u32,
    /// The link leads up.
    up: bool,
}

/// The neighbours of a switch.
fn neighbours<S: Storage>(
    topology: &Topology<S>,
    index: u32,
) -> impl Iterator<Item = Neighbour> + '_ {
    let node = topology.node(index);
    let position = node.map_or(NONE, |node| node.position);
    let mut at = node.map_or(NONE, |node| node.first_link);
    core::iter::from_fn(move || {
        let port = topology.port(at)?;
        at = port.next_link;
        let far = topology.port(port.peer)?.node;
        Some(Neighbour {
            number: port.number.get(),
            node: far,
            up: topology.node(far)?.position < position,
        })
    })
}
