// SPDX-License-Identifier: GPL-2.0

//! The memory of a switch.

use kernel::alloc::{
    KVVec,
    KVec, //
};
use kernel::prelude::*;
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
