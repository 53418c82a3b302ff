// SPDX-License-Identifier: GPL-2.0

//! What requests say.

use super::exchange::{
    Ask,
    Errand, //
};
use super::settings::{
    own_lid,
    settings, //
};
use super::way::Way;
use super::{
    Manager,
    Storage,
    Transmit, //
};
use crate::fabric::switch::PortMask;
use wire::mad::smp::{
    attr,
    PortInfo,
    PortState,
    SmInfo,
    Smp,
    SwitchInfo, //
};
use wire::mad::{
    method,
    MadHeader, //
};

/// Attribute and method of a kind of request.
pub(super) const fn subject(ask: Ask) -> (u16, u8) {
    match ask {
        Ask::Own | Ask::Probe => (attr::NODE_INFO, method::GET),
        Ask::Describe => (attr::NODE_DESCRIPTION, method::GET),
        Ask::Switch | Ask::Light => (attr::SWITCH_INFO, method::GET),
        Ask::ClearChange | Ask::SetSwitch => (attr::SWITCH_INFO, method::SET),
        Ask::Info => (attr::PORT_INFO, method::GET),
        Ask::Keys => (attr::PKEY_TABLE, method::GET),
        Ask::SetKeys => (attr::PKEY_TABLE, method::SET),
        Ask::SetPort | Ask::Arm | Ask::Activate => (attr::PORT_INFO, method::SET),
        Ask::SetTable(_) => (attr::LINEAR_FORWARDING_TABLE, method::SET),
        Ask::Prune(_) | Ask::Graft(_) => (attr::MULTICAST_FORWARDING_TABLE, method::SET),
        Ask::Manager => (attr::SM_INFO, method::GET),
        Ask::Handover | Ask::Acknowledge => (attr::SM_INFO, method::SET),
    }
}

impl<S: Storage> Manager<S> {
    /// The datagram of a request; `None` if there is no way for it, or nothing to say.
    pub(super) fn compose(&self, errand: Errand, tid: u32) -> Option<Transmit> {
        let Errand { ask, port } = errand;
        let way = match ask {
            Ask::Own => Way::HERE,
            _ => Way::find(&self.topology, port, ask == Ask::Probe).ok()?,
        };
        let (attr_id, method) = subject(ask);
        let header = MadHeader {
            method,
            attr_id,
            attr_mod: self.modifier(errand)?,
            tid: self.config.guid.get() << 32 | u64::from(tid),
            ..MadHeader::default()
        };
        let (lrh, mut smp) = way.packet(&header, own_lid(&self.topology));
        smp.set_mkey(self.config.mkey);
        self.fill(errand, &mut smp)?;
        Some(Transmit {
            mad: *smp.as_bytes(),
            lrh,
        })
    }

    fn modifier(&self, errand: Errand) -> Option<u32> {
        Some(match errand.ask {
            Ask::Info | Ask::SetPort | Ask::Arm | Ask::Activate => {
                self.topology.port(errand.port)?.number.get().into()
            }
            Ask::Keys | Ask::SetKeys => self.keys_modifier(errand.port)?,
            Ask::SetTable(block) => block.into(),
            Ask::Prune(part) | Ask::Graft(part) => part.modifier(),
            Ask::Handover => SmInfo::HANDOVER,
            Ask::Acknowledge => SmInfo::ACKNOWLEDGE,
            _ => 0,
        })
    }

    /// Puts in what a request writes.
    fn fill(&self, errand: Errand, smp: &mut Smp) -> Option<()> {
        match errand.ask {
            Ask::SetKeys => smp.set_attribute(&self.keys_due(errand.port)?),
            Ask::SetPort => smp.set_attribute(&self.port_info(errand.port, PortState::NoChange)?),
            Ask::Arm => smp.set_attribute(&self.port_info(errand.port, PortState::Armed)?),
            Ask::Activate => smp.set_attribute(&self.port_info(errand.port, PortState::Active)?),
            Ask::ClearChange => {
                let told = self.topology.node_of(errand.port)?.switch;
                smp.set_attribute(&SwitchInfo {
                    port_state_change: true,
                    ..told
                });
            }
            Ask::SetSwitch => {
                let node = self.topology.node_of(errand.port)?;
                smp.set_attribute(&SwitchInfo {
                    linear_fdb_top: self.table_top(node).get(),
                    life_time: self.life_time(),
                    port_state_change: false,
                    ..node.switch
                });
            }
            Ask::SetTable(block) => {
                let node = self.topology.node_of(errand.port)?;
                smp.set_attribute(&self.tables.block(node.row, block)?);
            }
            Ask::Prune(part) => {
                let row = self.topology.node_of(errand.port)?.row;
                let closed = PortMask::EMPTY;
                smp.set_attribute(&self.multicast.part(row, part, true, &closed)?);
            }
            Ask::Graft(part) => {
                let node = self.topology.node_of(errand.port)?;
                let closed = self.closed(node);
                smp.set_attribute(&self.multicast.part(node.row, part, false, &closed)?);
            }
            // A question needs no words, but who asks may be what the other one has to know.
            Ask::Manager | Ask::Handover | Ask::Acknowledge => smp.set_attribute(&self.sm_info()),
            _ => {}
        }
        Some(())
    }

    /// What a port is to be told, with a change of state.
    fn port_info(&self, port: u32, state: PortState) -> Option<PortInfo> {
        let mut info = settings(&self.topology, &self.partitions, &self.config, port)?.info;
        // A link that comes up registers anew when it is Armed; others at once.
        let is_init = self.topology.port(port)?.info().port_state == PortState::Init as u8;
        info.client_reregister &= is_init == (state == PortState::Armed);
        info.port_state = state as u8;
        Some(info)
    }
}
