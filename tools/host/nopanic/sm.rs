// SPDX-License-Identifier: GPL-2.0

//! The subnet manager of `proto`, which is generic over its storage.

use core::marker::PhantomData;
use proto::fabric::switch::{
    Lrh,
    PortMask, //
};
use proto::fabric::Mad;
use proto::sm::{
    Assignment,
    Config,
    Manager,
    Next,
    Node,
    Port,
    Reply,
    Slot,
    Stock,
    Storage,
    Told, //
};
use proto::time::Instant;
use wire::mad::smp::SmInfo;
use wire::{
    Guid,
    Lid, //
};

/// Storage that somebody lends.
pub struct Lent<'a>(PhantomData<&'a ()>);

impl<'a> Storage for Lent<'a> {
    type Nodes = &'a mut [Node];
    type Ports = &'a mut [Port];
    type Buckets = &'a mut [u32];
    type Order = &'a mut [u32];
    type Lids = &'a mut [u32];
    type Lfts = &'a mut [u8];
    type Dirty = &'a mut [bool];
    type Mfts = &'a mut [PortMask];
    type Unknown = &'a mut [u16];
    type Notices = &'a mut [Told];
    type Replies = &'a mut [Reply];
    type Slots = &'a mut [Slot];
    type Assignments = &'a [Assignment];
}

pub fn new(guid: Guid, stock: Stock<Lent<'_>>) -> Option<Manager<Lent<'_>>> {
    Manager::new(Config::new(guid), stock)
}

pub fn poll(manager: &mut Manager<Lent<'_>>, now: Instant) -> Next {
    manager.poll(now)
}

pub fn set_partitions<'a>(manager: &mut Manager<Lent<'a>>, list: &'a [Assignment], now: Instant) {
    manager.set_partitions(list, now);
}

pub fn on_mad(manager: &mut Manager<Lent<'_>>, mad: &Mad, lrh: Lrh, now: Instant) -> bool {
    manager.request_sweep(now);
    manager.on_mad(mad, lrh, now)
}

pub fn state(manager: &Manager<Lent<'_>>) -> (SmInfo, Lid, bool) {
    (manager.sm_info(), manager.lid(), manager.is_idle())
}

pub fn ends(manager: &Manager<Lent<'_>>, each: fn(&Node, &Port)) {
    for (node, port) in manager.end_ports() {
        each(node, port);
    }
    for node in manager.nodes() {
        if let Some((_, port)) = manager.end_ports().next() {
            each(node, port);
        }
    }
}
