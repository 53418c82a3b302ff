// SPDX-License-Identifier: GPL-2.0

//! The attributes of a switch.

use super::{
    config,
    Storage,
    Switch,
    NO_PORT, //
};
use crate::fabric::agent::{
    read_only,
    Refusal, //
};
use crate::fabric::mkey::Access;
use crate::fabric::tables::{
    SlToVl,
    GUIDS,
    PKEYS, //
};
use wire::mad::smp::{
    self,
    attr,
    GuidInfo,
    LedInfo,
    LinearForwardingTable,
    MulticastForwardingTable,
    NodeDescription,
    NodeInfo,
    NodeType,
    PortInfo,
    Smp,
    SwitchInfo, //
};
use wire::mad::{
    BASE_VERSION,
    CLASS_VERSION, //
};
use wire::{
    Guid,
    Lid,
    PortNum, //
};

/// Bits of the attribute modifier of PortInfo that name the port. The uppermost bit says that the subnet manager
/// knows extended speeds.
const PORT_MASK: u32 = 0x7fff_ffff;

impl<S: Storage> Switch<S> {
    /// Fulfils a request for an attribute: `smp` holds the answer's data on success. `settle` becomes the port
    /// whose link is to go down.
    pub(super) fn attribute(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        access: Access,
        settle: &mut Option<PortNum>,
    ) -> Result<(), Refusal> {
        let result = match smp.attr_id() {
            attr::NODE_DESCRIPTION => {
                read_only(smp, access, &NodeDescription(self.identity.description))
            }
            attr::NODE_INFO => read_only(smp, access, &self.node_info(in_port)),
            attr::GUID_INFO => self.guid_info(smp),
            attr::SWITCH_INFO => self.switch_info(smp, access),
            attr::PORT_INFO => self.port_info(in_port, smp, access, settle),
            attr::PKEY_TABLE => self.pkey_table(smp, access),
            attr::SL_TO_VL => self.sl_to_vl_table(smp, access),
            attr::VL_ARB => self.vl_arb(smp, access),
            attr::LINEAR_FORWARDING_TABLE => self.linear_table(smp, access),
            attr::MULTICAST_FORWARDING_TABLE => self.multicast_table(smp, access),
            attr::LED_INFO => self.led_info(smp, access),
            _ => Err(Refusal::Attribute),
        };
        if access == Access::Write {
            self.touch();
        }
        result
    }

    fn node_info(&self, in_port: PortNum) -> NodeInfo {
        NodeInfo {
            base_version: BASE_VERSION,
            class_version: CLASS_VERSION,
            node_type: NodeType::Switch as u8,
            num_ports: self.port_count(),
            system_image_guid: self.identity.system,
            node_guid: self.identity.node,
            port_guid: self.identity.node,
            partition_cap: PKEYS as u16,
            device_id: self.identity.device,
            revision: self.identity.revision,
            local_port: in_port,
            vendor_id: self.identity.vendor,
        }
    }

    /// The only GUID of port 0 is the switch's own, which cannot be set.
    fn guid_info(&mut self, smp: &mut Smp) -> Result<(), Refusal> {
        if smp.attr_mod() != 0 {
            return Err(Refusal::Field);
        }
        let mut guids = [Guid::ZERO; GUIDS];
        guids[0] = self.identity.node;
        smp.set_attribute(&GuidInfo(guids));
        Ok(())
    }

    fn switch_info(&mut self, smp: &mut Smp, access: Access) -> Result<(), Refusal> {
        if access == Access::Write {
            let asked: SwitchInfo = smp.attribute();
            if usize::from(asked.linear_fdb_top) >= self.lft.len() {
                return Err(Refusal::Field);
            }
            let config = &mut self.config;
            config.linear_top = Lid::new(asked.linear_fdb_top);
            config.default_port = asked.default_port;
            config.default_multicast_primary = asked.default_multicast_primary_port;
            config.default_multicast_other = asked.default_multicast_not_primary_port;
            config.life_time = asked.life_time;
            config.port_state_change &= !asked.port_state_change;
        }
        let config = &self.config;
        smp.set_attribute(&SwitchInfo {
            linear_fdb_cap: self.lft.len() as u16,
            multicast_fdb_cap: self.mft.len() as u16,
            linear_fdb_top: config.linear_top.get(),
            default_port: config.default_port,
            default_multicast_primary_port: config.default_multicast_primary,
            default_multicast_not_primary_port: config.default_multicast_other,
            life_time: config.life_time,
            port_state_change: config.port_state_change,
            partition_enforcement_cap: PKEYS as u16,
            inbound_enforcement: true,
            outbound_enforcement: true,
            ..SwitchInfo::default()
        });
        Ok(())
    }

    fn port_info(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        access: Access,
        settle: &mut Option<PortNum>,
    ) -> Result<(), Refusal> {
        let target = u8::try_from(smp.attr_mod() & PORT_MASK).map_err(|_| Refusal::Field)?;
        let target = PortNum::new(target);
        let port = self.port_mut(target).ok_or(Refusal::Field)?;
        let mut reregister = false;
        let mut mkey = smp.mkey();
        if access == Access::Write {
            let asked: PortInfo = smp.attribute();
            let change = port.attrs.set_info(&asked)?;
            reregister = asked.client_reregister;
            mkey = asked.mkey;
            if change.settle {
                *settle = Some(target);
            }
        }
        let mut info = port.attrs.info(in_port, mkey);
        info.client_reregister = reregister;
        smp.set_attribute(&info);
        Ok(())
    }

    fn pkey_table(&mut self, smp: &mut Smp, access: Access) -> Result<(), Refusal> {
        if smp::PKeyTable::block(smp.attr_mod()) != 0 {
            return Err(Refusal::Field);
        }
        let port = smp::PKeyTable::port(smp.attr_mod());
        let port = self.port_mut(port).ok_or(Refusal::Field)?;
        if access == Access::Write {
            port.pkeys.replace(smp.attribute::<smp::PKeyTable>().0);
        }
        smp.set_attribute(&smp::PKeyTable(*port.pkeys.keys()));
        Ok(())
    }

    fn sl_to_vl_table(&mut self, smp: &mut Smp, access: Access) -> Result<(), Refusal> {
        let from = smp::SlToVl::input_port(smp.attr_mod());
        let to = smp::SlToVl::output_port(smp.attr_mod());
        let index = self.sl_to_vl_index(from, to).ok_or(Refusal::Field)?;
        let table = self.sl_to_vl.get_mut(index).ok_or(Refusal::Field)?;
        if access == Access::Write {
            *table = SlToVl::from_wire(&smp.attribute());
        }
        smp.set_attribute(&table.to_wire());
        Ok(())
    }

    fn vl_arb(&mut self, smp: &mut Smp, access: Access) -> Result<(), Refusal> {
        let port = smp::VlArb::port(smp.attr_mod());
        let block = smp::VlArb::block(smp.attr_mod());
        let tables = &mut self.port_mut(port).ok_or(Refusal::Field)?.vl_arb;
        if access == Access::Write {
            tables
                .set_block(block, &smp.attribute())
                .ok_or(Refusal::Field)?;
        }
        let table = tables.block(block).ok_or(Refusal::Field)?;
        smp.set_attribute(&table);
        Ok(())
    }

    fn linear_table(&mut self, smp: &mut Smp, access: Access) -> Result<(), Refusal> {
        let block = smp.attr_mod() as usize;
        let entries = block_of(&mut self.lft, block, config::LFT_BLOCK).ok_or(Refusal::Field)?;
        if access == Access::Write {
            let asked: LinearForwardingTable = smp.attribute();
            for (entry, port) in entries.iter_mut().zip(asked.0) {
                *entry = port;
            }
        }
        let mut table = LinearForwardingTable([NO_PORT; config::LFT_BLOCK]);
        for (port, entry) in table.0.iter_mut().zip(entries.iter()) {
            *port = *entry;
        }
        smp.set_attribute(&table);
        Ok(())
    }

    fn multicast_table(&mut self, smp: &mut Smp, access: Access) -> Result<(), Refusal> {
        let block = usize::from(MulticastForwardingTable::block(smp.attr_mod()));
        let position = MulticastForwardingTable::position(smp.attr_mod());
        let there = ports_at(position, self.port_count());
        if there == 0 {
            return Err(Refusal::Field);
        }
        let entries = block_of(&mut self.mft, block, config::MFT_BLOCK).ok_or(Refusal::Field)?;
        if access == Access::Write {
            let asked: MulticastForwardingTable = smp.attribute();
            for (mask, ports) in entries.iter_mut().zip(asked.0) {
                mask.set_half_word(position, ports & there);
            }
        }
        let mut table = MulticastForwardingTable::default();
        for (ports, mask) in table.0.iter_mut().zip(entries.iter()) {
            *ports = mask.half_word(position);
        }
        smp.set_attribute(&table);
        Ok(())
    }

    fn led_info(&mut self, smp: &mut Smp, access: Access) -> Result<(), Refusal> {
        let port = u8::try_from(smp.attr_mod()).map_err(|_| Refusal::Field)?;
        let port = self.port_mut(PortNum::new(port)).ok_or(Refusal::Field)?;
        if access == Access::Write {
            port.led = smp.attribute::<LedInfo>().led_mask;
        }
        smp.set_attribute(&LedInfo { led_mask: port.led });
        Ok(())
    }
}

/// Block `block` of a table of blocks of `size` entries.
fn block_of<T>(table: &mut [T], block: usize, size: usize) -> Option<&mut [T]> {
    let start = block.checked_mul(size)?;
    table.get_mut(start..start.checked_add(size)?)
}

/// Which of the 16 ports of a position of the multicast table a switch with `count` external ports has.
fn ports_at(position: u8, count: u8) -> u16 {
    let first = u32::from(position) << 4;
    match (u32::from(count) + 1).saturating_sub(first) {
        0 => 0,
        ports @ 1..=15 => (1 << ports) - 1,
        _ => u16::MAX,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(sib_proto_switch_attributes)
)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_positions() {
        for (position, count, want) in [
            (0, 1, 0b11),
            (0, 15, 0xffff),
            (1, 15, 0),
            (1, 16, 1),
            (15, 250, 0x07ff),
            (15, 239, 0),
        ] {
            assert_eq!(ports_at(position, count), want);
        }
    }

    #[test]
    fn blocks_end_with_the_table() {
        let mut table = [0u8; 128];
        assert_eq!(
            block_of(&mut table, 1, 64).map(|block| block.len()),
            Some(64)
        );
        assert!(block_of(&mut table, 2, 64).is_none());
        assert!(block_of(&mut table, usize::MAX, 64).is_none());
    }
}
