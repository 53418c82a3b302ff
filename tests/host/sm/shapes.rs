// SPDX-License-Identifier: GPL-2.0

//! Topologies.

use crate::nodes::{
    manager,
    Limits,
    Node,
    Place, //
};
use crate::world::World;
use proto::sm::Config;
use wire::Guid;

/// Switches, the ties between them, and the switches that have an adapter.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) switches: usize,
    pub(crate) ties: Vec<(usize, usize)>,
    pub(crate) adapters: Vec<usize>,
    /// Shortest ways between all pairs of adapters are legal and made.
    pub(crate) shortest: bool,
}

/// Every `step`th switch has an adapter.
fn every(step: usize, switches: usize) -> Vec<usize> {
    (0..switches).step_by(step).collect()
}

pub(crate) fn line(switches: usize, step: usize) -> Shape {
    Shape {
        name: "line",
        switches,
        ties: (1..switches).map(|at| (at - 1, at)).collect(),
        adapters: every(step, switches),
        shortest: true,
    }
}

pub(crate) fn ring(switches: usize, step: usize) -> Shape {
    Shape {
        name: "ring",
        switches,
        ties: (0..switches).map(|at| (at, (at + 1) % switches)).collect(),
        adapters: every(step, switches),
        shortest: false,
    }
}

pub(crate) fn mesh(width: usize, height: usize, step: usize) -> Shape {
    let mut ties = Vec::new();
    for at in 0..width * height {
        if at % width != 0 {
            ties.push((at - 1, at));
        }
        if at >= width {
            ties.push((at - width, at));
        }
    }
    Shape {
        name: "mesh",
        switches: width * height,
        ties,
        adapters: every(step, width * height),
        shortest: false,
    }
}

/// Three levels: `pods` pods of `half` edge and `half` aggregation switches, each of these with `up` links to cores.
/// Edge switches come first, as the subnet manager is on switch 0.
pub(crate) fn fat_tree(pods: usize, half: usize, up: usize) -> Shape {
    let edge = |pod: usize, at: usize| pod * half + at;
    let aggregation = |pod: usize, at: usize| pods * half + pod * half + at;
    let core = |at: usize, link: usize| 2 * pods * half + at * up + link;
    let mut ties = Vec::new();
    for pod in 0..pods {
        for at in 0..half {
            ties.extend((0..half).map(|other| (edge(pod, at), aggregation(pod, other))));
            ties.extend((0..up).map(|link| (aggregation(pod, at), core(at, link))));
        }
    }
    Shape {
        name: "fat tree",
        switches: 2 * pods * half + half * up,
        ties,
        adapters: every(1, pods * half),
        shortest: true,
    }
}

impl Shape {
    /// The fabric, and what a subnet manager needs for it. Adapters follow the switches; their first ports are plugged
    /// in.
    pub(crate) fn build(&self) -> (World, Limits) {
        let mut degree = vec![0u8; self.switches];
        let ends = self.ties.iter().flat_map(|(a, b)| [*a, *b]);
        for at in ends.chain(self.adapters.iter().copied()) {
            degree[at] += 1;
        }
        let lids = (self.switches + self.adapters.len() + 4).next_multiple_of(64);
        let limits = Limits {
            nodes: self.switches + self.adapters.len() + 2,
            switches: self.switches + 1,
            ports: degree
                .iter()
                .map(|ports| usize::from(*ports) + 3)
                .sum::<usize>()
                + 3 * self.adapters.len()
                + 8,
            lids,
            mlids: 0,
        };
        let mut world = World::new();
        for ports in &degree {
            world.add_switch(usize::from(*ports) + 1, lids);
        }
        let mut used = vec![0u8; self.switches];
        let mut next = |at: usize| -> Place {
            used[at] += 1;
            (at, used[at])
        };
        for (a, b) in &self.ties {
            let (a, b) = (next(*a), next(*b));
            world.plug(a, b);
        }
        for at in &self.adapters {
            let adapter = world.add_hca(2);
            world.plug(next(*at), (adapter, 1));
        }
        (world, limits)
    }

    /// The same with a subnet manager on switch 0.
    pub(crate) fn managed(&self) -> (World, Limits) {
        let (mut world, limits) = self.build();
        world.seat((0, 0), manager(Config::new(guid_of(&world, 0)), limits));
        (world, limits)
    }
}

/// The GUID of a node.
pub(crate) fn guid_of(world: &World, node: usize) -> Guid {
    match &world.nodes[node] {
        Node::Switch(switch) => switch.identity().node,
        Node::Hca(hca) => hca.identity().node,
    }
}
