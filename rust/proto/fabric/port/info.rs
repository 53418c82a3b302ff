// SPDX-License-Identifier: GPL-2.0

//! SubnGet and SubnSet of PortInfo.

use super::{
    PortAttrs,
    PortEvent,
    PortEvents,
    PortKind,
    VL_CAP, //
};
use crate::fabric::link::{
    LinkAction,
    LinkState,
    Phy,
    PhysState, //
};
use crate::fabric::tables::{
    GUIDS,
    VL_ARB_ENTRIES, //
};
use wire::mad::smp::{
    self,
    speed,
    speed_ext,
    width,
    PortInfo, //
};
use wire::{
    Mtu,
    PortNum, //
};

/// RespTimeValue: an answer takes at most 4.096 us << 16, about 268 ms.
const RESP_TIME: u8 = 16;

/// GUIDCap of base port 0 of a switch.
const SWITCH_GUIDS: u8 = 1;

/// What a SubnSet(PortInfo) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortChange {
    /// What to tell the consumers of the port.
    pub events: PortEvents,
    /// Whether the link is to be taken down when the answer has left.
    pub settle: bool,
}

/// A component of a SubnSet has a value that it may not have, or not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct InvalidField;

impl PortAttrs {
    /// PortInfo as a request sees it that came in by port `local_port`. `mkey` is the M_Key that it carries, or, after
    /// a SubnSet, that it has set.
    pub(in crate::fabric) fn info(&self, local_port: PortNum, mkey: u64) -> PortInfo {
        let mut info = self.link_info();
        info.local_port = local_port;
        if self.kind != PortKind::SwitchExternal {
            info.mkey = self.mkey.visible(mkey);
            info.mkey_protect_bits = self.mkey.protect;
            info.mkey_lease_period = self.mkey.lease_period;
            info.mkey_violations = self.mkey.violations;
            info.gid_prefix = self.gid_prefix;
            info.lid = self.lid;
            info.lmc = self.lmc;
            info.master_sm_lid = self.sm_lid;
            info.master_sm_sl = self.sm_sl;
            info.capability_mask = self.cap_mask;
            info.subnet_timeout = self.subnet_timeout;
            info.resp_time = RESP_TIME;
            info.init_type_reply = self.init_type_reply;
            info.qkey_violations = self.qkey_violations;
        }
        info.guid_cap = match self.kind {
            PortKind::Ca => GUIDS as u8,
            PortKind::SwitchManagement => SWITCH_GUIDS,
            PortKind::SwitchExternal => 0,
        };
        info
    }

    /// The components that describe the link.
    fn link_info(&self) -> PortInfo {
        let (active, enabled) = (self.link.active(), self.link.enabled());
        let (state, phys) = match self.ordered_phys {
            Some(phys) => (LinkState::Down, phys),
            None => (self.state(), self.phys()),
        };
        PortInfo {
            link_width_enabled: enabled.widths,
            link_width_supported: Phy::SUPPORTED.widths,
            link_width_active: active.widths,
            link_speed_supported: Phy::SUPPORTED.speeds,
            link_speed_active: active.speeds,
            link_speed_enabled: enabled.speeds,
            link_speed_ext_active: active.ext_speeds,
            link_speed_ext_supported: Phy::SUPPORTED.ext_speeds,
            link_speed_ext_enabled: enabled.ext_speeds,
            port_state: state as u8,
            phys_state: phys as u8,
            link_down_default_state: self.link.down_default() as u8,
            neighbor_mtu: self.neighbor_mtu.code(),
            mtu_cap: self.mtu_cap.code(),
            vl_cap: VL_CAP,
            operational_vls: self.op_vls,
            vl_high_limit: self.vl_high_limit,
            vl_arb_high_cap: VL_ARB_ENTRIES as u8,
            vl_arb_low_cap: VL_ARB_ENTRIES as u8,
            vl_stall_count: self.vl_stall_count,
            hoq_life: self.hoq_life,
            partition_enforcement_inbound: self.enforce_in,
            partition_enforcement_outbound: self.enforce_out,
            pkey_violations: self.pkey_violations,
            local_phy_errors: self.local_phy_errors,
            overrun_errors: self.overrun_errors,
            ..PortInfo::default()
        }
    }

    /// Sets what a SubnSet(PortInfo) asks for: all of it, or nothing when a component is invalid. Components
    /// that the port does not have, or that are read-only, are ignored.
    pub(in crate::fabric) fn set_info(
        &mut self,
        info: &PortInfo,
    ) -> Result<PortChange, InvalidField> {
        let mut new = *self;
        let mut change = PortChange::default();
        if self.kind != PortKind::SwitchExternal {
            new.set_addresses(info, &mut change.events)?;
        }
        if self.kind != PortKind::SwitchManagement {
            new.set_link(info)?;
            new.set_state(info, &mut change)?;
            // A port that looks for a peer trains with what is enabled now.
            if !change.settle && new.offer().is_some() && new.offer() != self.offer() {
                new.order(PhysState::Polling, &mut change);
            }
        }
        if self.kind == PortKind::SwitchExternal {
            new.enforce_in = info.partition_enforcement_inbound;
            new.enforce_out = info.partition_enforcement_outbound;
        }
        *self = new;
        Ok(change)
    }

    /// What end ports and the management port of a switch have.
    fn set_addresses(
        &mut self,
        info: &PortInfo,
        events: &mut PortEvents,
    ) -> Result<(), InvalidField> {
        self.mkey.key = info.mkey;
        self.mkey.protect = info.mkey_protect_bits;
        self.mkey.lease_period = info.mkey_lease_period;
        if info.mkey_violations == 0 {
            self.mkey.violations = 0;
        }
        if info.qkey_violations == 0 {
            self.qkey_violations = 0;
        }
        if self.gid_prefix != info.gid_prefix {
            self.gid_prefix = info.gid_prefix;
            events.insert(PortEvent::GidChange);
        }
        let lmc = match self.kind {
            PortKind::Ca => info.lmc,
            _ => 0,
        };
        if (self.lid, self.lmc) != (info.lid, lmc) {
            if !info.lid.is_unicast() || info.lid.path_bits(lmc) != 0 {
                return Err(InvalidField);
            }
            self.lid = info.lid;
            self.lmc = lmc;
            events.insert(PortEvent::LidChange);
        }
        if (self.sm_lid, self.sm_sl) != (info.master_sm_lid, info.master_sm_sl) {
            if !info.master_sm_lid.is_unicast() {
                return Err(InvalidField);
            }
            self.sm_lid = info.master_sm_lid;
            self.sm_sl = info.master_sm_sl;
            events.insert(PortEvent::SmChange);
        }
        if info.client_reregister {
            events.insert(PortEvent::ClientReregister);
        }
        self.subnet_timeout = info.subnet_timeout;
        self.init_type_reply = info.init_type_reply;
        Ok(())
    }

    /// What ports with a link have, but for its state.
    fn set_link(&mut self, info: &PortInfo) -> Result<(), InvalidField> {
        let old = self.link.enabled();
        self.link.set_enabled(Phy {
            widths: enable(
                info.link_width_enabled,
                old.widths,
                Phy::SUPPORTED.widths,
                width::SUPPORTED,
            )?,
            speeds: enable(
                info.link_speed_enabled,
                old.speeds,
                Phy::SUPPORTED.speeds,
                speed::SUPPORTED,
            )?,
            ext_speeds: match info.link_speed_ext_enabled {
                speed_ext::DISABLED => 0,
                asked => enable(
                    asked,
                    old.ext_speeds,
                    Phy::SUPPORTED.ext_speeds,
                    speed_ext::SUPPORTED,
                )?,
            },
        });
        match smp::PhysState::from_code(info.link_down_default_state) {
            Some(smp::PhysState::NoChange) => {}
            Some(smp::PhysState::Sleep) => self.link.set_down_default(PhysState::Sleep),
            Some(smp::PhysState::Polling) => self.link.set_down_default(PhysState::Polling),
            _ => return Err(InvalidField),
        }
        match Mtu::from_code(info.neighbor_mtu) {
            Some(mtu) if mtu <= self.mtu_cap => self.neighbor_mtu = mtu,
            _ => return Err(InvalidField),
        }
        match info.operational_vls {
            0 => {}
            vls if vls <= VL_CAP => self.op_vls = vls,
            _ => return Err(InvalidField),
        }
        self.vl_high_limit = info.vl_high_limit;
        self.vl_stall_count = info.vl_stall_count;
        self.hoq_life = info.hoq_life;
        self.local_phy_errors = info.local_phy_errors;
        self.overrun_errors = info.overrun_errors;
        if info.pkey_violations == 0 {
            self.pkey_violations = 0;
        }
        Ok(())
    }

    /// The state that management asks of a link. It may order it down at any time; up it goes one step at a
    /// time, and Init is never ordered.
    fn set_state(&mut self, info: &PortInfo, change: &mut PortChange) -> Result<(), InvalidField> {
        let ordered = match smp::PhysState::from_code(info.phys_state) {
            Some(smp::PhysState::NoChange) => None,
            Some(smp::PhysState::Sleep) => Some(PhysState::Sleep),
            Some(smp::PhysState::Polling) => Some(PhysState::Polling),
            Some(smp::PhysState::Disabled) => Some(PhysState::Disabled),
            _ => return Err(InvalidField),
        };
        match (smp::PortState::from_code(info.port_state), ordered) {
            (Some(smp::PortState::NoChange), None) => {}
            (Some(smp::PortState::NoChange), Some(phys)) => self.order(phys, change),
            (Some(smp::PortState::Down), phys) => {
                self.order(phys.unwrap_or(self.link.down_default()), change);
            }
            (Some(smp::PortState::Armed), None) if self.link.arm() => {}
            (Some(smp::PortState::Active), None) if self.link.activate() => {
                change.events.insert(PortEvent::PortActive);
            }
            _ => return Err(InvalidField),
        }
        Ok(())
    }

    /// Remembers that the link is to go down to `phys`.
    fn order(&mut self, phys: PhysState, change: &mut PortChange) {
        self.ordered_phys = Some(phys);
        change.settle = true;
    }

    /// Takes the link down as the last SubnSet(PortInfo) has ordered.
    pub(in crate::fabric) fn link_settle(&mut self) -> (LinkAction, PortEvents) {
        let was_active = self.link.state() == LinkState::Active;
        let Some(phys) = self.ordered_phys.take() else {
            return (LinkAction::None, PortEvents::NONE);
        };
        let action = self.link.force(phys);
        let events = if was_active {
            PortEvents::just(PortEvent::PortError)
        } else {
            PortEvents::NONE
        };
        (action, events)
    }
}

/// The new mask of an "enabled" component that is asked to become `asked`: 0 leaves it, `all` stands for all
/// that is supported.
fn enable(asked: u8, old: u8, supported: u8, all: u8) -> Result<u8, InvalidField> {
    match asked {
        0 => Ok(old),
        mask if mask == all => Ok(supported),
        mask if mask & !supported == 0 => Ok(mask),
        _ => Err(InvalidField),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_port_info))]
mod tests {
    use super::*;
    use wire::{
        Lid,
        Sl, //
    };

    const PORT: PortNum = PortNum::new(1);

    /// A port whose link is up, and its PortInfo as a subnet manager sends it back: no state change.
    fn up(kind: PortKind) -> (PortAttrs, PortInfo) {
        let mut port = PortAttrs::new(kind, Mtu::B4096);
        port.link_up(Phy::SUPPORTED);
        let mut info = port.info(PORT, 0);
        info.port_state = 0;
        info.phys_state = 0;
        (port, info)
    }

    fn configured() -> (PortAttrs, PortInfo) {
        let (mut port, mut info) = up(PortKind::Ca);
        info.lid = Lid::new(4);
        info.lmc = 1;
        info.master_sm_lid = Lid::new(1);
        assert!(port.set_info(&info).is_ok());
        (port, info)
    }

    #[test]
    fn addresses_make_events() {
        let (mut port, mut info) = up(PortKind::Ca);
        info.lid = Lid::new(4);
        info.master_sm_lid = Lid::new(1);
        info.master_sm_sl = Sl::new(3);
        info.gid_prefix = 0xfe80_0000_0000_0007;
        info.client_reregister = true;
        let events = port.set_info(&info).map(|change| change.events);
        let mut want = PortEvents::just(PortEvent::GidChange);
        want.insert(PortEvent::LidChange);
        want.insert(PortEvent::SmChange);
        want.insert(PortEvent::ClientReregister);
        assert_eq!(events, Ok(want));
        info.client_reregister = false;
        assert_eq!(port.set_info(&info), Ok(PortChange::default()));
        assert_eq!(port.sm_sl(), Sl::new(3));
    }

    #[test]
    fn states_go_up_one_by_one() {
        let (mut port, mut info) = configured();
        for (state, works, now) in [
            (2, false, LinkState::Init),
            (4, false, LinkState::Init),
            (3, true, LinkState::Armed),
            (3, true, LinkState::Armed),
            (5, false, LinkState::Armed),
            (4, true, LinkState::Active),
            (4, false, LinkState::Active),
            (3, false, LinkState::Active),
            (0, true, LinkState::Active),
        ] {
            info.port_state = state;
            assert_eq!(port.set_info(&info).is_ok(), works);
            assert_eq!(port.state(), now);
        }
    }

    #[test]
    fn down_takes_effect_when_settled() {
        let (mut port, mut info) = configured();
        for state in [3, 4] {
            info.port_state = state;
            assert!(port.set_info(&info).is_ok());
        }
        info.port_state = 1;
        info.phys_state = 3;
        let change = port.set_info(&info);
        assert_eq!(change.map(|change| change.settle), Ok(true));
        assert_eq!(port.state(), LinkState::Active);
        assert_eq!(port.info(PORT, 0).port_state, 1);
        assert_eq!(port.info(PORT, 0).phys_state, 3);
        let (action, events) = port.link_settle();
        assert_eq!(action, LinkAction::Drop);
        assert!(events.contains(PortEvent::PortError));
        assert_eq!(port.offer(), None);
        assert_eq!(port.link_settle(), (LinkAction::None, PortEvents::NONE));
        info.port_state = 0;
        info.phys_state = 2;
        assert!(port.set_info(&info).is_ok());
        assert_eq!(port.link_settle().0, LinkAction::Retrain);
        assert!(port.offer().is_some());
    }

    #[test]
    fn invalid_is_all_or_nothing() {
        let spoils: [fn(&mut PortInfo); 12] = [
            |info| info.lid = Lid::NONE,
            |info| info.lid = Lid::new(5),
            |info| info.lmc = 3,
            |info| info.lid = Lid::new(0xc000),
            |info| info.master_sm_lid = Lid::PERMISSIVE,
            |info| info.link_width_enabled = 0x08,
            |info| info.link_speed_enabled = 0x08,
            |info| info.link_speed_ext_enabled = 0x04,
            |info| info.link_down_default_state = 3,
            |info| info.neighbor_mtu = 6,
            |info| info.operational_vls = 5,
            |info| info.phys_state = 5,
        ];
        for spoil in spoils {
            let (mut port, mut info) = configured();
            let before = port.info(PORT, 0);
            info.vl_high_limit = 9;
            info.subnet_timeout = 1;
            spoil(&mut info);
            assert_eq!(port.set_info(&info), Err(InvalidField));
            assert_eq!(port.info(PORT, 0), before);
        }
    }

    #[test]
    fn special_values_of_enabled() {
        let (mut port, mut info) = configured();
        info.link_width_enabled = 0xff;
        info.link_speed_enabled = 0xf;
        info.link_speed_ext_enabled = 0x1f;
        assert!(port.set_info(&info).is_ok());
        assert_eq!(port.link().enabled(), Phy::SUPPORTED);
        info.link_width_enabled = 1;
        info.link_speed_enabled = 0;
        info.link_speed_ext_enabled = 0x1e;
        assert!(port.set_info(&info).is_ok());
        let enabled = port.link().enabled();
        assert_eq!(
            (enabled.widths, enabled.speeds, enabled.ext_speeds),
            (1, 7, 0)
        );
    }

    #[test]
    fn a_port_that_polls_trains_with_what_is_enabled_now() {
        let (mut port, mut info) = configured();
        info.link_width_enabled = 1;
        assert_eq!(port.set_info(&info).map(|change| change.settle), Ok(false));
        port.link_down();
        info.link_width_enabled = 2;
        assert_eq!(port.set_info(&info).map(|change| change.settle), Ok(true));
        assert_eq!(port.link_settle().0, LinkAction::Retrain);
        assert_eq!(port.set_info(&info).map(|change| change.settle), Ok(false));
    }

    #[test]
    fn verbs_see_edr() {
        let (port, info) = configured();
        let rate = port.rate();
        assert_eq!((rate.width, rate.speed), (2, 32));
        assert_eq!((info.link_width_active, info.link_speed_active), (2, 4));
        assert_eq!(info.link_speed_ext_active, 2);
    }

    #[test]
    fn switch_ports_have_no_addresses() {
        let (mut port, mut info) = up(PortKind::SwitchExternal);
        assert_eq!(info.capability_mask, 0);
        info.lid = Lid::new(9);
        info.mkey = 5;
        info.partition_enforcement_inbound = true;
        info.port_state = 3;
        assert!(port.set_info(&info).is_ok());
        assert_eq!(port.lid(), Lid::NONE);
        assert!(port.enforces_inbound());
        assert_eq!(port.info(PORT, 0).mkey, 0);
        assert_eq!(port.state(), LinkState::Armed);
    }

    #[test]
    fn management_port_has_no_link() {
        let (mut port, mut info) = up(PortKind::SwitchManagement);
        info.lid = Lid::new(9);
        info.lmc = 2;
        info.master_sm_lid = Lid::new(1);
        info.port_state = 4;
        info.phys_state = 7;
        assert!(port.set_info(&info).is_ok());
        assert_eq!((port.lid(), port.lmc()), (Lid::new(9), 0));
        assert_eq!(port.state(), LinkState::Active);
    }

    #[test]
    fn violations_are_cleared_by_zero_alone() {
        let (mut port, mut info) = configured();
        port.count_qkey_violation();
        port.count_pkey_violation();
        info.qkey_violations = 1;
        info.pkey_violations = 7;
        assert!(port.set_info(&info).is_ok());
        assert_eq!((port.pkey_violations(), port.qkey_violations()), (1, 1));
        info.qkey_violations = 0;
        info.pkey_violations = 0;
        assert!(port.set_info(&info).is_ok());
        assert_eq!((port.pkey_violations(), port.qkey_violations()), (0, 0));
    }
}
