// SPDX-License-Identifier: GPL-2.0

//! A subnet manager that sweeps as OpenSM does. It reads and writes the bytes of attributes by the offsets of the
//! IBA's tables, not through the crate `wire`, so that the two check each other.

use super::world::{
    Place,
    World, //
};
use proto::fabric::switch::Lrh;
use proto::fabric::Mad;
use std::collections::BTreeMap;
use wire::Lid;

pub(crate) const GET: u8 = 1;
pub(crate) const SET: u8 = 2;

pub(crate) const NODE_DESCRIPTION: u16 = 0x10;
pub(crate) const NODE_INFO: u16 = 0x11;
pub(crate) const SWITCH_INFO: u16 = 0x12;
pub(crate) const GUID_INFO: u16 = 0x14;
pub(crate) const PORT_INFO: u16 = 0x15;
pub(crate) const PKEY_TABLE: u16 = 0x16;
pub(crate) const SL_TO_VL: u16 = 0x17;
pub(crate) const VL_ARB: u16 = 0x18;
pub(crate) const LFT: u16 = 0x19;
pub(crate) const MFT: u16 = 0x1b;
pub(crate) const SM_INFO: u16 = 0x20;
pub(crate) const LED_INFO: u16 = 0x31;

/// The data of an attribute.
pub(crate) type Data = [u8; 64];

/// A node as the subnet manager found it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) guid: u64,
    pub(crate) is_switch: bool,
    pub(crate) ports: u8,
    /// The way to each port of an adapter, or to port 0 of a switch: the ports by which to leave each node.
    pub(crate) paths: BTreeMap<u8, Vec<u8>>,
    /// The port of a switch by which that way enters.
    pub(crate) entry: u8,
    /// What is at the other end of each port that is up: index of the node, and its port.
    pub(crate) links: BTreeMap<u8, (usize, u8)>,
    /// The LID of each port; of port 0 for a switch.
    pub(crate) lids: BTreeMap<u8, u16>,
}

/// A subnet manager at a port of an adapter.
pub(crate) struct Manager {
    pub(crate) at: Place,
    pub(crate) mkey: u64,
    /// M_KeyProtectBits.
    pub(crate) protect: u8,
    pub(crate) lmc: u8,
    pub(crate) nodes: Vec<Found>,
    tid: u64,
}

pub(crate) fn be16(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

pub(crate) fn be64(data: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(data[at..at + 8].try_into().unwrap())
}

impl Manager {
    pub(crate) fn new(at: Place) -> Self {
        Self {
            at,
            mkey: 0,
            protect: 0,
            lmc: 0,
            nodes: Vec::new(),
            tid: 0,
        }
    }

    /// Sends a directed-route request and returns the status and data of the answer, if one comes.
    pub(crate) fn ask(
        &mut self,
        world: &mut World,
        path: &[u8],
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Option<(u16, Data)> {
        self.tid += 1;
        let mut mad = [0; 256];
        mad[..4].copy_from_slice(&[1, 0x81, 1, method]);
        mad[7] = path.len() as u8;
        mad[8..16].copy_from_slice(&self.tid.to_be_bytes());
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad[20..24].copy_from_slice(&modifier.to_be_bytes());
        mad[24..32].copy_from_slice(&self.mkey.to_be_bytes());
        mad[32..36].fill(0xff);
        mad[64..128].copy_from_slice(data);
        mad[129..129 + path.len()].copy_from_slice(path);
        let link = Lrh {
            slid: Lid::PERMISSIVE,
            dlid: Lid::PERMISSIVE,
        };
        if path.is_empty() {
            world.arrive_here(self.at, link, mad);
        } else {
            mad[6] = 1;
            world.send((self.at.0, path[0]), link, mad);
        }
        self.take(world, method)
    }

    /// Sends a LID-routed request and returns the status and data of the answer, if one comes.
    pub(crate) fn ask_lid(
        &mut self,
        world: &mut World,
        lids: (u16, u16),
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Option<(u16, Data)> {
        self.tid += 1;
        let mut mad = [0; 256];
        mad[..4].copy_from_slice(&[1, 0x01, 1, method]);
        mad[8..16].copy_from_slice(&self.tid.to_be_bytes());
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad[20..24].copy_from_slice(&modifier.to_be_bytes());
        mad[24..32].copy_from_slice(&self.mkey.to_be_bytes());
        mad[64..128].copy_from_slice(data);
        let lrh = Lrh {
            slid: Lid::new(lids.0),
            dlid: Lid::new(lids.1),
        };
        world.send(self.at, lrh, mad);
        self.take(world, method)
    }

    /// Tells the sender of a trap that it was seen.
    pub(crate) fn repress(&mut self, world: &mut World, lrh: Lrh, trap: &Mad) {
        let mut mad = *trap;
        mad[3] = 7;
        mad[24..32].copy_from_slice(&self.mkey.to_be_bytes());
        let back = Lrh {
            slid: lrh.dlid,
            dlid: lrh.slid,
        };
        world.send(self.at, back, mad);
    }

    /// The answer to the last request.
    fn take(&mut self, world: &mut World, method: u8) -> Option<(u16, Data)> {
        let tid = self.tid;
        let here = world
            .inbox
            .iter()
            .position(|(at, _, mad)| *at == self.at && be64(mad, 8) == tid)?;
        let (_, _, mad) = world.inbox.remove(here);
        assert!(method != 0 && mad[3] == 0x81);
        if mad[1] == 0x81 {
            assert_eq!(mad[6], 0, "the answer is not at the end of its way");
        }
        let status = be16(&mad, 4) & 0x7fff;
        Some((status, mad[64..128].try_into().unwrap()))
    }

    fn get(&mut self, world: &mut World, path: &[u8], attribute: u16, modifier: u32) -> Data {
        let answer = self.ask(world, path, GET, attribute, modifier, &[0; 64]);
        let (status, data) =
            answer.unwrap_or_else(|| panic!("no answer: {attribute:#x} {modifier:#x} {path:?}"));
        assert_eq!(status, 0, "get {attribute:#x} {modifier:#x}");
        data
    }

    fn set(
        &mut self,
        world: &mut World,
        path: &[u8],
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Data {
        let answer = self.ask(world, path, SET, attribute, modifier, data);
        let (status, data) = answer.expect("an answer");
        assert_eq!(status, 0, "set {attribute:#x} {modifier:#x}");
        data
    }

    /// Finds all nodes and links, asking each what OpenSM asks.
    pub(crate) fn discover(&mut self, world: &mut World) {
        self.nodes.clear();
        self.visit(world, vec![]);
        let mut next = 0;
        while next < self.nodes.len() {
            let found = self.nodes[next].clone();
            if found.is_switch {
                let path = &found.paths[&0];
                for port in 1..=found.ports {
                    let info = self.get(world, path, PORT_INFO, port.into());
                    assert_eq!(info[28], found.entry, "LocalPortNum");
                    if info[32] & 0xf >= 2 {
                        self.follow(world, next, port, path);
                    }
                }
            } else if next == 0 {
                self.follow(world, 0, self.at.1, &[]);
            }
            next += 1;
        }
    }

    /// Looks what is at the other end of a link.
    fn follow(&mut self, world: &mut World, node: usize, port: u8, path: &[u8]) {
        if self.nodes[node].links.contains_key(&port) {
            return;
        }
        let mut path = path.to_vec();
        path.push(port);
        let (other, entry) = self.visit(world, path);
        self.nodes[node].links.insert(port, (other, entry));
        self.nodes[other].links.insert(entry, (node, port));
    }

    /// Asks the node at the end of `path` who it is, and all the rest if it is new. Returns its index and the port
    /// by which the path enters.
    fn visit(&mut self, world: &mut World, path: Vec<u8>) -> (usize, u8) {
        let info = self.get(world, &path, NODE_INFO, 0);
        assert_eq!(info[..2], [1, 1]);
        let (is_switch, ports, guid, entry) = (info[2] == 2, info[3], be64(&info, 12), info[36]);
        let key = if is_switch { 0 } else { entry };
        if let Some(known) = self.nodes.iter().position(|found| found.guid == guid) {
            let is_new = !self.nodes[known].paths.contains_key(&key);
            if is_new {
                self.look_at_port(world, &path, entry);
                self.nodes[known].paths.insert(key, path);
            }
            return (known, entry);
        }
        let description = self.get(world, &path, NODE_DESCRIPTION, 0);
        assert_eq!(description[..2], *b"a ");
        if is_switch {
            let info = self.get(world, &path, SWITCH_INFO, 0);
            assert_eq!(be16(&info, 0), 1024, "LinearFDBCap counts entries");
            assert_eq!(be16(&info, 4), 256, "MulticastFDBCap counts entries");
            let port0 = self.get(world, &path, PORT_INFO, 0);
            assert_eq!(port0[28], entry);
            for port in 0..=ports {
                self.get(world, &path, PKEY_TABLE, u32::from(port) << 16);
                for to in 1..=ports {
                    self.get(world, &path, SL_TO_VL, u32::from(port) << 8 | u32::from(to));
                }
                self.get(world, &path, VL_ARB, 1 << 16 | u32::from(port));
            }
        } else {
            self.look_at_port(world, &path, entry);
        }
        self.nodes.push(Found {
            guid,
            is_switch,
            ports,
            paths: BTreeMap::from([(key, path)]),
            entry,
            links: BTreeMap::new(),
            lids: BTreeMap::new(),
        });
        (self.nodes.len() - 1, entry)
    }

    /// Asks a port of an adapter.
    fn look_at_port(&mut self, world: &mut World, path: &[u8], port: u8) {
        let info = self.get(world, path, PORT_INFO, port.into());
        assert_eq!(info[28], port, "LocalPortNum");
        assert_eq!(
            info[36] >> 4,
            5,
            "NeighborMTU is what the link can from the beginning"
        );
        assert_eq!(info[37] >> 4, info[43] >> 4, "OperationalVLs too");
        let pkeys = self.get(world, path, PKEY_TABLE, 0);
        assert_eq!(pkeys[..2], [0xff, 0xff]);
        let guids = self.get(world, path, GUID_INFO, 0);
        assert!(be64(&guids, 0) != 0);
        self.get(world, path, SL_TO_VL, 0);
        for block in [1, 3] {
            self.get(world, path, VL_ARB, block << 16);
        }
    }

    /// All end ports: of adapters, and port 0 of switches.
    fn end_ports(&self) -> Vec<(usize, u8)> {
        let ports = self.nodes.iter().enumerate().flat_map(|(node, found)| {
            let ports: Vec<_> = found.paths.keys().map(|port| (node, *port)).collect();
            ports
        });
        ports.collect()
    }

    /// Gives LIDs to all end ports; those that have one keep it.
    pub(crate) fn assign(&mut self, world: &mut World) {
        let mut lid = 1 << self.lmc;
        for (node, port) in self.end_ports() {
            self.nodes[node].lids.insert(port, lid);
            lid += 1 << self.lmc;
        }
        let sm_lid = self.nodes[0].lids[&self.at.1];
        for (node, port) in self.end_ports() {
            let path = self.nodes[node].paths[&port].clone();
            let mut info = self.get(world, &path, PORT_INFO, port.into());
            info[0..8].copy_from_slice(&self.mkey.to_be_bytes());
            info[16..18].copy_from_slice(&self.nodes[node].lids[&port].to_be_bytes());
            info[18..20].copy_from_slice(&sm_lid.to_be_bytes());
            info[32] &= 0xf0;
            info[33] = 0x02;
            let lmc = if self.nodes[node].is_switch {
                0
            } else {
                self.lmc
            };
            info[34] = self.protect << 6 | lmc;
            info[51] = 0x80 | 18;
            let answer = self.set(world, &path, PORT_INFO, port.into(), &info);
            assert_eq!(answer[51], 0x80 | 18, "ClientReregister is echoed");
            assert_eq!(be64(&answer, 0), self.mkey, "who sets the M_Key sees it");
            let again = self.get(world, &path, PORT_INFO, port.into());
            assert_eq!(again[51], 18, "ClientReregister reads as zero");
        }
    }

    /// Fills the forwarding tables: shortest ways for unicast, one tree for the multicast LID 0xc000.
    pub(crate) fn route(&mut self, world: &mut World) {
        let ports = self.end_ports();
        let top = ports
            .iter()
            .map(|(node, port)| self.nodes[*node].lids[port])
            .max();
        let top = top.unwrap_or(0) + (1 << self.lmc) - 1;
        for node in 0..self.nodes.len() {
            if !self.nodes[node].is_switch {
                continue;
            }
            let mut table = vec![0xff; 1024];
            for (to, port) in &ports {
                let lid = self.nodes[*to].lids[port];
                let lmc = if self.nodes[*to].is_switch {
                    0
                } else {
                    self.lmc
                };
                if let Some(out) = self.way(node, *to, *port) {
                    let first = usize::from(lid);
                    table[first..first + (1 << lmc)].fill(out);
                }
            }
            let path = self.nodes[node].paths[&0].clone();
            let mut info = self.get(world, &path, SWITCH_INFO, 0);
            info[6..8].copy_from_slice(&top.to_be_bytes());
            info[11] = 18 << 3 | 0x04;
            let answer = self.set(world, &path, SWITCH_INFO, 0, &info);
            assert_eq!(answer[11], 18 << 3, "PortStateChange is cleared");
            for (block, data) in table.chunks_exact(64).enumerate() {
                if block * 64 <= usize::from(top) {
                    let data = data.try_into().unwrap();
                    let answer = self.set(world, &path, LFT, block as u32, &data);
                    assert_eq!(answer, data);
                }
            }
            self.route_multicast(world, node);
        }
    }

    /// Sends the multicast LID 0xc000 from the switch `node` to its adapters and along the tree.
    fn route_multicast(&mut self, world: &mut World, node: usize) {
        let mut masks = [0u16; 16];
        for (port, (other, entry)) in &self.nodes[node].links {
            let on_tree = if self.nodes[*other].is_switch {
                let down = self.parent(*other) == Some((node, *port));
                down || self.parent(node) == Some((*other, *entry))
            } else {
                true
            };
            if on_tree {
                masks[usize::from(port / 16)] |= 1 << (port % 16);
            }
        }
        let path = self.nodes[node].paths[&0].clone();
        for (position, mask) in masks.iter().enumerate() {
            if position * 16 > usize::from(self.nodes[node].ports) {
                continue;
            }
            let mut data = [0; 64];
            data[..2].copy_from_slice(&mask.to_be_bytes());
            let answer = self.set(world, &path, MFT, (position as u32) << 28, &data);
            assert_eq!(answer, data);
        }
    }

    /// The switch by which the tree enters the switch `node`, and the port of that.
    fn parent(&self, node: usize) -> Option<(usize, u8)> {
        let root = self.nodes.iter().position(|found| found.is_switch)?;
        if node == root {
            return None;
        }
        let out = self.way(node, root, 0)?;
        Some(self.nodes[node].links[&out])
    }

    /// The port of the switch `from` that leads to port `port` of the node `to`; 0 if that is itself.
    fn way(&self, from: usize, to: usize, port: u8) -> Option<u8> {
        if from == to {
            return Some(0);
        }
        let mut seen = vec![from];
        let links = &self.nodes[from].links;
        let mut edge: Vec<(u8, usize, u8)> = links
            .iter()
            .map(|(out, (other, entry))| (*out, *other, *entry))
            .collect();
        while !edge.is_empty() {
            let mut next = Vec::new();
            for (out, node, entry) in edge {
                if node == to && (self.nodes[to].is_switch || entry == port) {
                    return Some(out);
                }
                if !self.nodes[node].is_switch || seen.contains(&node) {
                    continue;
                }
                seen.push(node);
                for (other, entry) in self.nodes[node].links.values() {
                    next.push((out, *other, *entry));
                }
            }
            edge = next;
        }
        None
    }

    /// Takes every link that is up to `state` (3: Armed, 4: Active).
    pub(crate) fn raise(&mut self, world: &mut World, state: u8) {
        for node in 0..self.nodes.len() {
            let found = self.nodes[node].clone();
            for port in found.links.keys() {
                let path = match found.is_switch {
                    true => &found.paths[&0],
                    false => &found.paths[port],
                };
                let mut info = self.get(world, path, PORT_INFO, (*port).into());
                if info[32] & 0xf >= state {
                    continue;
                }
                info[32] = info[32] & 0xf0 | state;
                info[33] = 0x02;
                let answer = self.set(world, path, PORT_INFO, (*port).into(), &info);
                assert_eq!(answer[32] & 0xf, state);
            }
        }
    }

    /// A whole sweep.
    pub(crate) fn sweep(&mut self, world: &mut World) {
        self.discover(world);
        self.assign(world);
        self.route(world);
        self.raise(world, 3);
        self.raise(world, 4);
    }

    /// The LIDs of all ports of adapters, with the GUIDs of these.
    pub(crate) fn adapter_lids(&self) -> Vec<(u64, u8, u16)> {
        let adapters = self.nodes.iter().filter(|found| !found.is_switch);
        adapters
            .flat_map(|found| {
                found
                    .lids
                    .iter()
                    .map(|(port, lid)| (found.guid, *port, *lid))
            })
            .collect()
    }
}
