// SPDX-License-Identifier: GPL-2.0

//! The attributes of a channel adapter.

use super::{
    Hca,
    HcaPort,
    MadOutcome, //
};
use crate::fabric::agent::{
    read_only,
    Refusal, //
};
use crate::fabric::mkey::Access;
use crate::fabric::port::PortEvent;
use crate::fabric::tables::{
    SlToVl,
    PKEYS, //
};
use core::ops::DerefMut;
use wire::mad::smp::{
    self,
    attr,
    GuidInfo,
    LedInfo,
    NodeDescription,
    NodeInfo,
    NodeType,
    PortInfo,
    Smp, //
};
use wire::mad::{
    BASE_VERSION,
    CLASS_VERSION, //
};
use wire::PortNum;

/// Bits of the attribute modifier of PortInfo that name the port. The uppermost bit says that the subnet manager
/// knows extended speeds.
const PORT_MASK: u32 = 0x7fff_ffff;

impl<P: DerefMut<Target = [HcaPort]>> Hca<P> {
    /// Fulfils a request for an attribute: `smp` holds the answer's data on success.
    pub(super) fn attribute(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        access: Access,
        outcome: &mut MadOutcome,
    ) -> Result<(), Refusal> {
        match smp.attr_id() {
            attr::NODE_DESCRIPTION => {
                read_only(smp, access, &NodeDescription(self.identity.description))
            }
            attr::NODE_INFO => {
                let info = self.node_info(in_port).ok_or(Refusal::Field)?;
                read_only(smp, access, &info)
            }
            attr::PORT_INFO => self.port_info(in_port, smp, access, outcome),
            attr::GUID_INFO => {
                let port = self.port_mut(in_port).ok_or(Refusal::Field)?;
                block_zero(smp.attr_mod())?;
                if access == Access::Write && port.guids.replace(smp.attribute::<GuidInfo>().0) {
                    outcome.events.insert(PortEvent::GidChange);
                }
                smp.set_attribute(&GuidInfo(*port.guids.guids()));
                Ok(())
            }
            attr::PKEY_TABLE => {
                let port = self.port_mut(in_port).ok_or(Refusal::Field)?;
                block_zero(u32::from(smp::PKeyTable::block(smp.attr_mod())))?;
                if access == Access::Write
                    && port.pkeys.replace(smp.attribute::<smp::PKeyTable>().0)
                {
                    outcome.events.insert(PortEvent::PkeyChange);
                }
                smp.set_attribute(&smp::PKeyTable(*port.pkeys.keys()));
                Ok(())
            }
            attr::SL_TO_VL => {
                let port = self.port_mut(in_port).ok_or(Refusal::Field)?;
                if access == Access::Write {
                    port.sl_to_vl = SlToVl::from_wire(&smp.attribute());
                }
                smp.set_attribute(&port.sl_to_vl.to_wire());
                Ok(())
            }
            attr::VL_ARB => {
                let port = self.port_mut(in_port).ok_or(Refusal::Field)?;
                let block = smp::VlArb::block(smp.attr_mod());
                if access == Access::Write {
                    port.vl_arb
                        .set_block(block, &smp.attribute())
                        .ok_or(Refusal::Field)?;
                }
                let table = port.vl_arb.block(block).ok_or(Refusal::Field)?;
                smp.set_attribute(&table);
                Ok(())
            }
            attr::LED_INFO => {
                let port = self.port_mut(in_port).ok_or(Refusal::Field)?;
                if access == Access::Write {
                    port.led = smp.attribute::<LedInfo>().led_mask;
                }
                smp.set_attribute(&LedInfo { led_mask: port.led });
                Ok(())
            }
            _ => Err(Refusal::Attribute),
        }
    }

    /// The port that PortInfo with the attribute modifier `attr_mod` is about; `None` if there is no such port.
    pub(super) fn target(&self, in_port: PortNum, attr_mod: u32) -> Option<PortNum> {
        let port = match attr_mod & PORT_MASK {
            0 => in_port,
            port => PortNum::new(u8::try_from(port).ok()?),
        };
        self.port(port).map(|_| port)
    }

    fn node_info(&self, in_port: PortNum) -> Option<NodeInfo> {
        Some(NodeInfo {
            base_version: BASE_VERSION,
            class_version: CLASS_VERSION,
            node_type: NodeType::Ca as u8,
            num_ports: self.port_count(),
            system_image_guid: self.identity.system,
            node_guid: self.identity.node,
            port_guid: self.port(in_port)?.guids.port(),
            partition_cap: PKEYS as u16,
            device_id: self.identity.device,
            revision: self.identity.revision,
            local_port: in_port,
            vendor_id: self.identity.vendor,
        })
    }

    fn port_info(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        access: Access,
        outcome: &mut MadOutcome,
    ) -> Result<(), Refusal> {
        let target = self.target(in_port, smp.attr_mod()).ok_or(Refusal::Field)?;
        let port = self.port_mut(target).ok_or(Refusal::Field)?;
        let mut reregister = false;
        let mut mkey = smp.mkey();
        if access == Access::Write {
            let asked: PortInfo = smp.attribute();
            let change = port.attrs.set_info(&asked)?;
            reregister = asked.client_reregister;
            mkey = asked.mkey;
            outcome.port = target;
            outcome.events = change.events;
            outcome.settle = change.settle;
        }
        let mut info = port.attrs.info(in_port, mkey);
        info.client_reregister = reregister;
        smp.set_attribute(&info);
        Ok(())
    }
}

/// Tables of one block have block 0 alone.
fn block_zero(block: u32) -> Result<(), Refusal> {
    match block {
        0 => Ok(()),
        _ => Err(Refusal::Field),
    }
}
