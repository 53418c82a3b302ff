// SPDX-License-Identifier: GPL-2.0

//! What a fabric is made of.

use proto::fabric::sma::{
    Hca,
    HcaPort, //
};
use proto::fabric::switch::{
    Identity,
    PortMask,
    Storage,
    Switch,
    SwitchPort,
    Tables,
    NO_PORT, //
};
use proto::fabric::tables::SlToVl;
use proto::sa;
use proto::sm::{
    self,
    Config,
    Manager,
    Stock, //
};
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use wire::{
    Guid,
    Mtu, //
};

/// Tables in vectors.
pub(crate) struct Vectors;

impl Storage for Vectors {
    type Ports = Vec<SwitchPort>;
    type Lft = Vec<u8>;
    type Mft = Vec<PortMask>;
    type SlToVl = Vec<SlToVl>;
}

impl sm::Storage for Vectors {
    type Nodes = Vec<sm::Node>;
    type Ports = Vec<sm::Port>;
    type Buckets = Vec<u32>;
    type Order = Vec<u32>;
    type Lids = Vec<u32>;
    type Lfts = Vec<u8>;
    type Dirty = Vec<bool>;
    type Mfts = Vec<PortMask>;
    type Unknown = Vec<u16>;
    type Notices = Vec<sm::Told>;
    type Replies = Vec<sm::Reply>;
    type Slots = Vec<sm::Slot>;
    type Assignments = Assignments;
}

impl sa::Storage for Vectors {
    type Groups = Vec<sa::Group>;
    type Members = Vec<sa::Member>;
    type Services = Vec<sa::Service>;
    type Subscriptions = Vec<sa::Subscription>;
    type Reports = Vec<sa::Pending>;
    type Requests = Vec<sa::Request>;
    type Transfers = Vec<sa::Transfer>;
    type Tables = Vec<u8>;
}

/// Partitions, and how often a subnet manager has gone through them.
pub(crate) struct Assignments {
    pub(crate) list: Vec<sm::Assignment>,
    pub(crate) reads: Rc<Cell<u64>>,
}

impl Deref for Assignments {
    type Target = [sm::Assignment];

    fn deref(&self) -> &[sm::Assignment] {
        self.reads.set(self.reads.get() + 1);
        &self.list
    }
}

/// Traps that are kept, answers that wait to be sent, and requests on their way.
const NOTICES: usize = 16;
const REPLIES: usize = 8;
const SLOTS: usize = 32;

/// The number of multicast LIDs.
pub(crate) const MLIDS: usize = 64;

pub(crate) type TestAgent = sa::Agent<Vectors>;

pub(crate) type TestManager = Manager<Vectors>;

/// A node of the fabric.
pub(crate) enum Node {
    Switch(Box<Switch<Vectors>>),
    Hca(Box<Hca<Vec<HcaPort>>>),
}

/// A port of a node: index of the node, number of the port.
pub(crate) type Place = (usize, u8);

fn identity(guid: u64) -> Identity {
    Identity {
        node: Guid::new(guid),
        system: Guid::new(guid),
        vendor: 0x00_1405,
        device: 1,
        revision: 1,
        description: [b'x'; 64],
    }
}

/// A switch of `ports` external ports, for LIDs below `lids`, and `mlids` multicast LIDs.
pub(crate) fn switch(guid: u64, ports: usize, lids: usize, mlids: usize) -> Switch<Vectors> {
    let all = ports + 1;
    let tables = Tables {
        ports: vec![SwitchPort::new(Mtu::B4096); all],
        lft: vec![NO_PORT; lids],
        mft: vec![PortMask::EMPTY; mlids],
        sl_to_vl: vec![SlToVl::new(); all * all],
    };
    Switch::new(identity(guid), tables).expect("the sizes are right")
}

/// An adapter of `ports` ports.
pub(crate) fn hca(guid: u64, ports: usize) -> Hca<Vec<HcaPort>> {
    let ports = (1..=ports as u64)
        .map(|port| HcaPort::new(Guid::new(guid + port), Mtu::B4096))
        .collect();
    Hca::new(identity(guid), ports)
}

/// How large a subnet a manager has storage for.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) nodes: usize,
    pub(crate) switches: usize,
    pub(crate) ports: usize,
    pub(crate) lids: usize,
    pub(crate) mlids: usize,
}

impl Limits {
    /// Bytes of storage.
    pub(crate) fn bytes(self) -> usize {
        self.nodes * (size_of::<sm::Node>() + 4)
            + self.ports * size_of::<sm::Port>()
            + self.switches * (4 + self.lids + self.lids / 64)
            + self.switches * self.mlids * 2 * size_of::<PortMask>()
            + self.switches * self.mlids / 32 * 2
            + self.lids * 4
            + NOTICES * size_of::<sm::Told>()
            + REPLIES * size_of::<sm::Reply>()
            + SLOTS * size_of::<sm::Slot>()
            + size_of::<TestManager>()
    }
}

/// A subnet manager.
pub(crate) fn manager(config: Config, limits: Limits) -> TestManager {
    let stock = Stock {
        nodes: vec![sm::Node::new(); limits.nodes],
        ports: vec![sm::Port::new(); limits.ports],
        buckets: vec![0; limits.nodes],
        order: vec![0; limits.switches],
        lids: vec![0; limits.lids],
        lfts: vec![0; limits.switches * limits.lids],
        dirty: vec![false; limits.switches * limits.lids / 64],
        mfts: vec![PortMask::EMPTY; limits.switches * limits.mlids],
        mfts_due: vec![PortMask::EMPTY; limits.switches * limits.mlids],
        unknown: vec![0; limits.switches * limits.mlids / 32],
        notices: vec![sm::Told::new(); NOTICES],
        replies: vec![sm::Reply::new(); REPLIES],
        slots: vec![sm::Slot::new(); SLOTS],
    };
    Manager::new(config, stock).expect("the sizes are right")
}
