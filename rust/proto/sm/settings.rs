// SPDX-License-Identifier: GPL-2.0

//! What the PortInfo of each port is to be.

use super::partitions::Partitions;
use super::topology::{
    Port,
    Topology, //
};
use super::{
    Config,
    Storage, //
};
use wire::mad::smp::{
    cap,
    PortInfo,
    PortState, //
};
use wire::{
    Lid,
    Mtu, //
};

/// SubnetTimeOut: a packet is no longer than 4.096 us << 18, about a second, on its way.
const SUBNET_TIMEOUT: u8 = 18;

/// What a SubnSet(PortInfo) changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The PortInfo to be sent.
    pub(super) info: PortInfo,
    /// It differs from what the port has told, but for its state.
    pub(super) differs: bool,
}

/// What `port` is to have. The state and what the subnet manager leaves alone are "no change".
pub(super) fn settings<S: Storage>(
    topology: &Topology<S>,
    partitions: &Partitions<S>,
    config: &Config,
    port: u32,
) -> Option<Settings> {
    let near = topology.port(port)?;
    let told = near.info();
    let mut info = PortInfo {
        port_state: PortState::NoChange as u8,
        phys_state: 0,
        link_down_default_state: 0,
        link_width_enabled: 0,
        link_speed_enabled: 0,
        link_speed_ext_enabled: 0,
        client_reregister: false,
        ..told
    };
    if topology.has_lid(near) {
        set_addresses(topology, config, near, &told, &mut info);
    }
    if let Some(far) = topology.link(port).and_then(|far| topology.port(far)) {
        let there = far.info();
        info.neighbor_mtu = common_mtu(&told, &there);
        info.operational_vls = told.vl_cap.min(there.vl_cap);
    }
    if let Some(enforced) = partitions.enforces(topology, port) {
        info.partition_enforcement_inbound = enforced;
        info.partition_enforcement_outbound = enforced;
    }
    let differs = (near.returned && info.client_reregister)
        || info.mkey != told.mkey
        || info.lid != told.lid
        || info.lmc != told.lmc
        || info.master_sm_lid != told.master_sm_lid
        || info.master_sm_sl != told.master_sm_sl
        || info.gid_prefix != told.gid_prefix
        || info.subnet_timeout != told.subnet_timeout
        || info.neighbor_mtu != told.neighbor_mtu
        || info.operational_vls != told.operational_vls
        || info.partition_enforcement_inbound != told.partition_enforcement_inbound
        || info.partition_enforcement_outbound != told.partition_enforcement_outbound;
    Some(Settings { info, differs })
}

/// The addresses of a port that has a LID.
fn set_addresses<S: Storage>(
    topology: &Topology<S>,
    config: &Config,
    port: &Port,
    told: &PortInfo,
    info: &mut PortInfo,
) {
    info.mkey = config.mkey;
    info.lid = port.lid;
    info.lmc = 0;
    info.master_sm_lid = own_lid(topology);
    info.master_sm_sl = config.sl;
    info.gid_prefix = config.gid_prefix;
    info.subnet_timeout = SUBNET_TIMEOUT;
    let is_new = port.returned
        || told.port_state == PortState::Init as u8
        || told.master_sm_lid != info.master_sm_lid
        || told.lid != info.lid;
    info.client_reregister = is_new && told.capability_mask & cap::CLIENT_REREGISTRATION != 0;
}

/// The LID of the subnet manager.
pub(super) fn own_lid<S: Storage>(topology: &Topology<S>) -> Lid {
    topology.port(topology.own).map_or(Lid::NONE, |own| own.lid)
}

/// The code of the largest MTU that both ends of a cable can.
fn common_mtu(near: &PortInfo, far: &PortInfo) -> u8 {
    let code = near.mtu_cap.min(far.mtu_cap);
    Mtu::from_code(code).unwrap_or_default().code()
}
