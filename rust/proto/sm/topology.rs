// SPDX-License-Identifier: GPL-2.0

//! What a subnet manager knows of its subnet: nodes, their ports, what these are joined to.
//!
//! A node that was found once keeps its entry, whether the present sweep has seen it or not: so its ports keep
//! their LIDs when it returns.

use super::fifo::Fifo;
use super::membership::Membership;
use super::Storage;
use crate::fabric::switch::PortMask;
use wire::mad::smp::{
    Attribute,
    NodeDescription,
    NodeInfo,
    NodeType,
    PortInfo,
    PortState,
    SwitchInfo,
    DATA_LEN, //
};
use wire::{
    Guid,
    Lid,
    PortNum, //
};

/// The index of no node and no port.
pub(super) const NONE: u32 = u32::MAX;

/// A node of the subnet.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub(super) info: NodeInfo,
    pub(super) description: NodeDescription,
    /// What a switch has told of itself.
    pub(super) switch: SwitchInfo,
    /// Index of its port 0; the others follow.
    pub(super) first: u32,
    /// The sweep that has seen it last.
    pub(super) seen: u32,
    /// The sweep in which a switch could be reached by its LID.
    pub(super) anchored: u32,
    /// The port by which a switch was found.
    pub(super) from: u32,
    /// The next node whose GUID falls into the same bucket.
    chain: u32,
    /// The row of a switch in the tables; [`NONE`] if it has none.
    pub(super) row: u32,
    /// All of the switch's table has to be written.
    pub(super) rewrite: bool,
    /// The switch may have ports in its multicast table that are not to be there.
    pub(super) keeps_trees: bool,
    /// Place in the order of ranks; [`NONE`] for a node that forwards nothing.
    pub(super) position: u32,
    /// The first port with a link to another switch.
    pub(super) first_link: u32,
    /// Hops to the present destination by links that lead down alone.
    pub(super) down: u32,
    /// Hops to the present destination.
    pub(super) hops: u32,
    /// A switch above sends packets for the present destination down to this one.
    pub(super) committed: bool,
    /// The port by which the way to the first switch of the order leaves; [`NONE`] at that one.
    pub(super) parent: u32,
    /// What the tree of a multicast group needs to know of this switch.
    pub(super) branch: Branch,
}

/// A switch in the tree of the present multicast group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// Members at this switch and below.
    pub(super) members: u32,
    /// Those of them that receive.
    pub(super) receivers: u32,
    /// Where packets of the group leave.
    pub(super) mask: PortMask,
}

impl Branch {
    pub(super) const NONE: Self = Self {
        members: 0,
        receivers: 0,
        mask: PortMask::EMPTY,
    };
}

impl Node {
    /// An entry that is not in use.
    pub const fn new() -> Self {
        Self {
            info: NodeInfo {
                base_version: 0,
                class_version: 0,
                node_type: 0,
                num_ports: 0,
                system_image_guid: Guid::ZERO,
                node_guid: Guid::ZERO,
                port_guid: Guid::ZERO,
                partition_cap: 0,
                device_id: 0,
                revision: 0,
                local_port: PortNum::MANAGEMENT,
                vendor_id: 0,
            },
            description: NodeDescription([0; DATA_LEN]),
            switch: EMPTY_SWITCH,
            first: NONE,
            seen: 0,
            anchored: 0,
            from: NONE,
            chain: NONE,
            row: NONE,
            rewrite: true,
            keeps_trees: false,
            position: NONE,
            first_link: NONE,
            down: NONE,
            hops: NONE,
            committed: false,
            parent: NONE,
            branch: Branch::NONE,
        }
    }

    /// What the node has told of itself.
    pub const fn info(&self) -> &NodeInfo {
        &self.info
    }

    /// What the node is called.
    pub const fn description(&self) -> &NodeDescription {
        &self.description
    }

    /// Whether the node is a switch.
    pub const fn is_switch(&self) -> bool {
        self.info.node_type == NodeType::Switch as u8
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

const EMPTY_SWITCH: SwitchInfo = SwitchInfo {
    linear_fdb_cap: 0,
    random_fdb_cap: 0,
    multicast_fdb_cap: 0,
    linear_fdb_top: 0,
    default_port: PortNum::MANAGEMENT,
    default_multicast_primary_port: PortNum::MANAGEMENT,
    default_multicast_not_primary_port: PortNum::MANAGEMENT,
    life_time: 0,
    port_state_change: false,
    optimized_sl_to_vl: 0,
    lids_per_port: 0,
    partition_enforcement_cap: 0,
    inbound_enforcement: false,
    outbound_enforcement: false,
    filter_raw_inbound: false,
    filter_raw_outbound: false,
    enhanced_port0: false,
    multicast_fdb_top: Lid::NONE,
};

/// A port of a node.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The PortInfo that the port has told last.
    info: [u8; DATA_LEN],
    /// The GUID of a port that has a LID.
    pub(super) guid: Guid,
    /// The LID that the port has, or had when it was seen last.
    pub(super) lid: Lid,
    pub(super) number: PortNum,
    pub(super) node: u32,
    /// The sweep that has asked for its PortInfo last.
    pub(super) asked: u32,
    /// The sweep that has had its PortInfo last.
    pub(super) seen: u32,
    /// The port by which this port of a channel adapter was found.
    pub(super) from: u32,
    /// The port at the other end of its cable, as a probe through this port has found.
    pub(super) peer: u32,
    /// The sweep that has found `peer`.
    pub(super) peer_seen: u32,
    /// What its P_KeyTable was written by; 0 if it may be anything.
    pub(super) keyed: u32,
    /// The partitions that the port of a channel adapter is in.
    pub(super) membership: Membership,
    /// What `membership` was found by; 0 if it may be anything.
    pub(super) enlisted: u32,
    /// The next port in a queue.
    pub(super) next: u32,
    /// The next port of this switch with a link to another switch.
    pub(super) next_link: u32,
    pub(super) task: Task,
    /// The port was not there for a while, and does not know that: it is to register anew.
    pub(super) returned: bool,
    /// Subnet administration has told that the port is in service.
    pub(super) served: bool,
    /// The port of another subnet manager, as it has said itself.
    pub(super) manages: bool,
}

/// What a sweep is to ask next of a port in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Task {
    /// NodeDescription.
    #[default]
    Describe,
    /// SwitchInfo.
    Switch,
    /// To clear SwitchInfo:PortStateChange.
    ClearChange,
    /// PortInfo.
    Info,
    /// NodeInfo of whoever is at the other end.
    Probe,
}

impl Port {
    /// An entry that is not in use.
    pub const fn new() -> Self {
        Self {
            info: [0; DATA_LEN],
            guid: Guid::ZERO,
            lid: Lid::NONE,
            number: PortNum::MANAGEMENT,
            node: NONE,
            asked: 0,
            seen: 0,
            from: NONE,
            peer: NONE,
            peer_seen: 0,
            keyed: 0,
            membership: Membership::DEFAULT,
            enlisted: 0,
            next: NONE,
            next_link: NONE,
            task: Task::Describe,
            returned: false,
            served: false,
            manages: false,
        }
    }

    /// The GUID of a port that has a LID.
    pub const fn guid(&self) -> Guid {
        self.guid
    }

    /// The number of the port.
    pub const fn number(&self) -> PortNum {
        self.number
    }

    /// The LID that the subnet manager has chosen for the port; [`Lid::NONE`] for external ports of switches.
    pub const fn lid(&self) -> Lid {
        self.lid
    }

    /// The PortInfo that the port has told last.
    pub fn info(&self) -> PortInfo {
        PortInfo::parse(&self.info)
    }

    pub(super) fn set_info(&mut self, info: &[u8; DATA_LEN]) {
        self.info = *info;
    }

    /// Whether the port has told of a link.
    pub(super) fn is_up(&self) -> bool {
        let state = PortState::from_code(self.info().port_state);
        state.is_some_and(|state| state >= PortState::Init)
    }
}

impl Default for Port {
    fn default() -> Self {
        Self::new()
    }
}

/// The storage ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The nodes and ports.
///
/// # Invariants
///
/// The first `nodes_used` nodes and `ports_used` ports are in use; `first` of each of these nodes and `node` of
/// each of these ports are indices of such.
pub(super) struct Topology<S: Storage> {
    nodes: S::Nodes,
    ports: S::Ports,
    /// The first node of each bucket of GUIDs.
    buckets: S::Buckets,
    nodes_used: u32,
    ports_used: u32,
    /// The number of the present sweep, from 1.
    pub(super) sweep: u32,
    /// The port at which the subnet manager is; [`NONE`] until it has asked.
    pub(super) own: u32,
}

impl<S: Storage> Topology<S> {
    pub(super) fn new(nodes: S::Nodes, ports: S::Ports, mut buckets: S::Buckets) -> Self {
        buckets.fill(NONE);
        Self {
            nodes,
            ports,
            buckets,
            nodes_used: 0,
            ports_used: 0,
            sweep: 0,
            own: NONE,
        }
    }

    pub(super) fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)
    }

    pub(super) fn node_mut(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(node as usize)
    }

    pub(super) fn port(&self, port: u32) -> Option<&Port> {
        self.ports.get(port as usize)
    }

    pub(super) fn port_mut(&mut self, port: u32) -> Option<&mut Port> {
        self.ports.get_mut(port as usize)
    }

    /// The number of nodes in use; their indices count from 0.
    pub(super) const fn node_count(&self) -> u32 {
        self.nodes_used
    }

    /// The number of ports in use; their indices count from 0.
    pub(super) const fn port_count(&self) -> u32 {
        self.ports_used
    }

    /// The node of a port.
    pub(super) fn node_of(&self, port: u32) -> Option<&Node> {
        self.node(self.port(port)?.node)
    }

    /// The port `number` of a node.
    pub(super) fn port_of(&self, node: &Node, number: PortNum) -> Option<u32> {
        if number.get() > node.info.num_ports {
            return None;
        }
        node.first.checked_add(u32::from(number.get()))
    }

    /// Whether the present sweep has seen the node.
    pub(super) const fn is_here(&self, node: &Node) -> bool {
        node.seen == self.sweep
    }

    /// Whether the port has a LID of its own and was seen in the present sweep.
    pub(super) fn is_end_port(&self, port: &Port) -> bool {
        port.seen == self.sweep && self.has_lid(port)
    }

    /// Whether the port may have a LID of its own: not external ports of switches.
    pub(super) fn has_lid(&self, port: &Port) -> bool {
        let is_switch = self.node(port.node).is_some_and(Node::is_switch);
        is_switch == (port.number == PortNum::MANAGEMENT)
    }

    /// The other end of the link of `port`, if both ends agree that they are joined. Where they do not, a GUID
    /// occurs twice, or a cable was moved amid the sweep.
    pub(super) fn link(&self, port: u32) -> Option<u32> {
        let near = self.port(port)?;
        let far = self.port(near.peer)?;
        let agreed = near.peer_seen == self.sweep
            && far.peer_seen == self.sweep
            && far.peer == port
            && near.seen == self.sweep
            && far.seen == self.sweep;
        (agreed && far.node != near.node).then_some(near.peer)
    }

    /// The port by which the node of `port`, or the port itself if it is one of a channel adapter, was found.
    pub(super) fn upstream(&self, port: u32) -> Option<u32> {
        let near = self.port(port)?;
        let node = self.node(near.node)?;
        Some(if node.is_switch() {
            node.from
        } else {
            near.from
        })
    }

    /// The node that tells `info` of itself, new or known, and of that the port by which it was reached.
    pub(super) fn admit(&mut self, info: &NodeInfo) -> Result<u32, NoRoom> {
        let node = match self.find(info) {
            Some(node) => node,
            None => self.create(info)?,
        };
        let node = self.node(node).ok_or(NoRoom)?;
        self.port_of(node, info.local_port).ok_or(NoRoom)
    }

    /// The node with the GUID, type and number of ports that `info` tells. What differs in any of these is
    /// another node, although its GUID says that it is not.
    fn find(&self, info: &NodeInfo) -> Option<u32> {
        let mut at = *self.buckets.get(self.bucket(info.node_guid)?)?;
        while let Some(node) = self.node(at) {
            let known = &node.info;
            if (known.node_guid, known.node_type, known.num_ports)
                == (info.node_guid, info.node_type, info.num_ports)
            {
                return Some(at);
            }
            at = node.chain;
        }
        None
    }

    fn create(&mut self, info: &NodeInfo) -> Result<u32, NoRoom> {
        let (index, first) = (self.nodes_used, self.ports_used);
        let count = u32::from(info.num_ports).saturating_add(1);
        let end = first.checked_add(count).ok_or(NoRoom)?;
        let bucket = self.bucket(info.node_guid).ok_or(NoRoom)?;
        let range = first as usize..end as usize;
        let ports = self.ports.get_mut(range).ok_or(NoRoom)?;
        let node = self.nodes.get_mut(index as usize).ok_or(NoRoom)?;
        let head = self.buckets.get_mut(bucket).ok_or(NoRoom)?;
        for (number, port) in (0..=u8::MAX).zip(ports) {
            *port = Port {
                number: PortNum::new(number),
                node: index,
                ..Port::new()
            };
        }
        *node = Node {
            info: *info,
            first,
            chain: *head,
            ..Node::new()
        };
        *head = index;
        self.nodes_used = index.saturating_add(1);
        self.ports_used = end;
        Ok(index)
    }

    /// The bucket of a GUID.
    fn bucket(&self, guid: Guid) -> Option<usize> {
        /// 2^64 divided by the golden ratio: the upper bits of the product are well mixed.
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = guid.get().wrapping_mul(MIX) >> 32;
        (hash as usize).checked_rem(self.buckets.len())
    }

    /// Puts `port` to the end of `queue` with something to ask.
    pub(super) fn push(&mut self, queue: &mut Fifo, port: u32, task: Task) {
        if let Some(entry) = self.port_mut(port) {
            entry.task = task;
            queue.push(&mut self.ports, port);
        }
    }

    /// Takes the first port out of `queue`.
    pub(super) fn pop(&self, queue: &mut Fifo) -> Option<(u32, Task)> {
        let port = queue.pop(&self.ports)?;
        Some((port, self.port(port)?.task))
    }
}
