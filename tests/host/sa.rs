// SPDX-License-Identifier: GPL-2.0

//! Subnet administration against whole fabrics in virtual time: what ports ask and are told, and whom multicast reaches.

#[path = "sm/cables.rs"]
mod cables;
#[path = "sa/client.rs"]
mod client;
#[path = "sa/flood.rs"]
mod flood;
#[path = "sa/groups.rs"]
mod groups;
#[path = "sa/masters.rs"]
mod masters;
#[path = "sa/multipath.rs"]
mod multipath;
#[allow(dead_code, reason = "the tests of the subnet manager use the rest")]
#[path = "sm/nodes.rs"]
mod nodes;
#[path = "sa/partitions.rs"]
mod partitions;
#[path = "sa/paths.rs"]
mod paths;
#[allow(dead_code, reason = "the tests of the subnet manager use the rest")]
#[path = "sm/shapes.rs"]
mod shapes;
#[path = "sa/strangers.rs"]
mod strangers;
#[path = "sa/tables.rs"]
mod tables;
#[allow(dead_code, reason = "the tests of the subnet manager use the rest")]
#[path = "sm/world.rs"]
mod world;

use nodes::{
    manager,
    Place,
    TestAgent,
    MLIDS, //
};
use proto::sa::{
    self,
    Config, //
};
use proto::sm;
use proto::time::Duration;
use shapes::{
    fat_tree,
    guid_of,
    line,
    mesh,
    ring,
    Shape, //
};
use world::World;

/// More time than any sweep needs.
const LIMIT: Duration = Duration::from_millis(600_000);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Topologies of about 10 switches with an adapter each.
fn shapes() -> [Shape; 4] {
    [line(10, 1), ring(10, 1), mesh(5, 2, 1), fat_tree(2, 2, 1)]
}

/// A fabric that is up, with subnet administration on switch 0, and the ports of its adapters.
fn served(shape: &Shape) -> (World, Vec<Place>) {
    let (mut world, mut limits) = shape.build();
    limits.mlids = MLIDS;
    let config = sm::Config::new(guid_of(&world, 0));
    world.seat((0, 0), manager(config, limits));
    world.seats[0].agent = Some(agent(Config::new(), 256, 1 << 21));
    world.settle(LIMIT);
    let first = shape.switches;
    let ports = (first..first + shape.adapters.len()).map(|node| (node, 1));
    (world, ports.collect())
}

/// Subnet administration with room for `members` members and `bytes` bytes of tables.
fn agent(config: Config, members: usize, bytes: usize) -> TestAgent {
    sa::Agent::new(
        config,
        sa::Stock {
            groups: vec![sa::Group::new(); MLIDS],
            members: vec![sa::Member::new(); members],
            services: vec![sa::Service::new(); 8],
            subscriptions: vec![sa::Subscription::new(); 8],
            reports: vec![sa::Pending::new(); 32],
            requests: vec![sa::Request::new(); 32],
            transfers: vec![sa::Transfer::new(); 16],
            tables: vec![0; bytes],
        },
    )
}
