// SPDX-License-Identifier: GPL-2.0

//! The memory of a switch, and of the subnet manager on it.

use core::ops::Deref;
use kernel::alloc::{
    KVVec,
    KVec, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
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
use proto::sa::{
    self,
    Agent, //
};
use proto::sm::{
    self,
    Config,
    Manager,
    Stock, //
};
use wire::mad::smp::{
    LinearForwardingTable,
    MulticastForwardingTable, //
};
use wire::Mtu;

/// Entries of the linear forwarding table: every unicast LID has one.
const LFT_LEN: usize = 0xc000;

/// Entries of the multicast forwarding table, that is: multicast LIDs that a subnet may use.
const MFT_LEN: usize = 1024;

/// Tables from the kernel's allocator, made once for the life of the switch.
pub(crate) enum Heap {}

impl Storage for Heap {
    type Ports = KVec<SwitchPort>;
    type Lft = KVVec<u8>;
    type Mft = KVVec<PortMask>;
    type SlToVl = KVVec<SlToVl>;
}

/// Makes a switch with `ports` external ports, all of them down. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` for a number of ports that a switch cannot have.
pub(crate) fn switch(identity: Identity, ports: u8, mtu_cap: Mtu) -> Result<Switch<Heap>> {
    let count = usize::from(ports).saturating_add(1);
    let tables = Tables {
        ports: KVec::from_elem(SwitchPort::new(mtu_cap), count, GFP_KERNEL)?,
        lft: KVVec::from_elem(NO_PORT, LFT_LEN, GFP_KERNEL)?,
        mft: KVVec::from_elem(PortMask::EMPTY, MFT_LEN, GFP_KERNEL)?,
        sl_to_vl: KVVec::from_elem(SlToVl::new(), count.saturating_mul(count), GFP_KERNEL)?,
    };
    Switch::new(identity, tables).ok_or(EINVAL)
}

impl sm::Storage for Heap {
    type Nodes = KVVec<sm::Node>;
    type Ports = KVVec<sm::Port>;
    type Buckets = KVVec<u32>;
    type Order = KVVec<u32>;
    type Lids = KVVec<u32>;
    type Lfts = KVVec<u8>;
    type Dirty = KVVec<bool>;
    type Mfts = KVVec<PortMask>;
    type Unknown = KVVec<u16>;
    type Notices = KVVec<sm::Told>;
    type Replies = KVVec<sm::Reply>;
    type Slots = KVVec<sm::Slot>;
    type Assignments = Assignments;
}

/// Who is in which partition. All subnet managers of the host share a list.
#[derive(Clone)]
pub(crate) struct Assignments(Arc<KVVec<sm::Assignment>>);

impl Assignments {
    /// A list whose assignments of a partition follow each other.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(list: KVVec<sm::Assignment>) -> Result<Self> {
        Ok(Self(Arc::new(list, GFP_KERNEL)?))
    }
}

impl Deref for Assignments {
    type Target = [sm::Assignment];

    fn deref(&self) -> &[sm::Assignment] {
        &self.0
    }
}

impl sa::Storage for Heap {
    type Groups = KVVec<sa::Group>;
    type Members = KVVec<sa::Member>;
    type Services = KVVec<sa::Service>;
    type Subscriptions = KVVec<sa::Subscription>;
    type Reports = KVVec<sa::Pending>;
    type Requests = KVVec<sa::Request>;
    type Transfers = KVVec<sa::Transfer>;
    type Tables = KVVec<u8>;
}

/// Traps that subnet administration has not looked at yet, and answers of the subnet manager that wait to be sent.
const NOTICES: usize = 16;
const REPLIES: usize = 8;

/// The number of multicast groups that a subnet may have.
const GROUPS: usize = 256;

/// The rest of what subnet administration keeps.
const MEMBERS: usize = 2048;
const SERVICES: usize = 64;
const SUBSCRIPTIONS: usize = 256;
const REPORTS: usize = 512;
const REQUESTS: usize = 64;
const TRANSFERS: usize = 16;
const TABLE_BYTES: usize = 1 << 18;

/// Makes subnet administration. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
#[inline(never)]
pub(super) fn administration() -> Result<KBox<Agent<Heap>>> {
    let stock = sa::Stock {
        groups: KVVec::from_elem(sa::Group::new(), GROUPS, GFP_KERNEL)?,
        members: KVVec::from_elem(sa::Member::new(), MEMBERS, GFP_KERNEL)?,
        services: KVVec::from_elem(sa::Service::new(), SERVICES, GFP_KERNEL)?,
        subscriptions: KVVec::from_elem(sa::Subscription::new(), SUBSCRIPTIONS, GFP_KERNEL)?,
        reports: KVVec::from_elem(sa::Pending::new(), REPORTS, GFP_KERNEL)?,
        requests: KVVec::from_elem(sa::Request::new(), REQUESTS, GFP_KERNEL)?,
        transfers: KVVec::from_elem(sa::Transfer::new(), TRANSFERS, GFP_KERNEL)?,
        tables: KVVec::from_elem(0, TABLE_BYTES, GFP_KERNEL)?,
    };
    Ok(KBox::new(Agent::new(sa::Config::new(), stock), GFP_KERNEL)?)
}

/// How large a subnet may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    switches: usize,
}

impl Room {
    /// For a few hosts: about 210 KiB.
    pub(super) const SMALL: Self = Self { switches: 8 };

    /// For 2048 switches: about 85 MiB.
    const LARGEST: usize = 2048;

    /// Nodes, LIDs and ports for each switch. What is short of one of them gets more of all.
    const NODES: usize = 8;
    const LIDS: usize = 8;
    const PORTS: usize = 64;

    /// The number of nodes.
    pub(super) fn nodes(self) -> usize {
        self.switches.saturating_mul(Self::NODES)
    }

    /// Four times as much.
    pub(super) fn next(self) -> Option<Self> {
        let switches = self.switches.checked_mul(4)?;
        (switches <= Self::LARGEST).then_some(Self { switches })
    }
}

/// Makes a subnet manager that has so much `room`. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
#[inline(never)]
pub(super) fn manager(config: Config, room: Room) -> Result<KBox<Manager<Heap>>> {
    let stock = stock(&config, room)?;
    let place = KBox::new_uninit(GFP_KERNEL)?;
    match Manager::new(config, stock) {
        Some(manager) => Ok(KBox::write(place, manager)),
        None => Err(EINVAL),
    }
}

/// What a subnet manager is made with.
#[inline(never)]
fn stock(config: &Config, room: Room) -> Result<Stock<Heap>> {
    let switches = room.switches;
    let nodes = room.nodes();
    let lids = switches.saturating_mul(Room::LIDS);
    let entries = switches.saturating_mul(lids);
    let columns = switches.saturating_mul(GROUPS);
    Ok(Stock {
        nodes: KVVec::from_elem(sm::Node::new(), nodes, GFP_KERNEL)?,
        ports: KVVec::from_elem(
            sm::Port::new(),
            switches.saturating_mul(Room::PORTS),
            GFP_KERNEL,
        )?,
        buckets: KVVec::from_elem(0, nodes, GFP_KERNEL)?,
        order: KVVec::from_elem(0, switches, GFP_KERNEL)?,
        lids: KVVec::from_elem(0, lids, GFP_KERNEL)?,
        lfts: KVVec::from_elem(0, entries, GFP_KERNEL)?,
        dirty: KVVec::from_elem(false, entries / LinearForwardingTable::ENTRIES, GFP_KERNEL)?,
        mfts: KVVec::from_elem(PortMask::EMPTY, columns, GFP_KERNEL)?,
        mfts_due: KVVec::from_elem(PortMask::EMPTY, columns, GFP_KERNEL)?,
        unknown: KVVec::from_elem(0, columns / MulticastForwardingTable::ENTRIES, GFP_KERNEL)?,
        notices: KVVec::from_elem(sm::Told::new(), NOTICES, GFP_KERNEL)?,
        replies: KVVec::from_elem(sm::Reply::new(), REPLIES, GFP_KERNEL)?,
        slots: KVVec::from_elem(sm::Slot::new(), config.window.max(1).into(), GFP_KERNEL)?,
    })
}
