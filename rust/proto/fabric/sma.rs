// SPDX-License-Identifier: GPL-2.0

//! A channel adapter as a managed node: the subnet management agent, and the performance management agent, of
//! its ports (IBA chapter "Subnet Management").

mod attributes;

use super::agent::{
    answer,
    errand,
    Errand, //
};
use super::counters::{
    Counters,
    PortFault, //
};
use super::link::{
    LinkAction,
    LinkState,
    Phy, //
};
use super::mkey::Access;
use super::pma::{
    self,
    CountingPorts, //
};
use super::port::{
    PortAttrs,
    PortEvent,
    PortEvents,
    PortKind, //
};
use super::switch::Identity;
use super::tables::{
    GuidTable,
    PKeyTable,
    SlToVl,
    VlArb, //
};
use super::trap::{
    BadKey,
    BadMKey,
    Event,
    Sender,
    TrapOut,
    Traps, //
};
use super::Mad;
use crate::time::Instant;
use core::ops::DerefMut;
use wire::mad::smp::trap::CapabilityChange;
use wire::mad::smp::{
    attr,
    Smp, //
};
use wire::mad::{
    class,
    MadHeader, //
};
use wire::{
    Gid,
    Guid,
    Lid,
    Mtu,
    PortNum, //
};

/// One port of a channel adapter.
#[derive(Clone, Copy, Debug)]
pub struct HcaPort {
    attrs: PortAttrs,
    pkeys: PKeyTable,
    guids: GuidTable,
    sl_to_vl: SlToVl,
    vl_arb: VlArb,
    counters: Counters,
    traps: Traps,
    led: bool,
}

impl HcaPort {
    /// A port at power-up: down, named `guid`, with `mtu_cap` as the largest MTU that its cable will carry.
    pub const fn new(guid: Guid, mtu_cap: Mtu) -> Self {
        Self {
            attrs: PortAttrs::new(PortKind::Ca, mtu_cap),
            pkeys: PKeyTable::new(),
            guids: GuidTable::new(guid),
            sl_to_vl: SlToVl::new(),
            vl_arb: VlArb::new(),
            counters: Counters::new(),
            traps: Traps::new(guid),
            led: false,
        }
    }

    /// Its attributes.
    pub const fn attrs(&self) -> &PortAttrs {
        &self.attrs
    }

    /// Its P_Keys.
    pub const fn pkeys(&self) -> &PKeyTable {
        &self.pkeys
    }

    /// Its GUIDs.
    pub const fn guids(&self) -> &GuidTable {
        &self.guids
    }

    /// Entry `index` of its GID table (IBA "GID Usage and Properties"); `None` past the end. An entry without a GUID is
    /// [`Gid::ZERO`].
    pub fn gid(&self, index: u16) -> Option<Gid> {
        Some(match self.guids.get(index)? {
            Guid::ZERO => Gid::ZERO,
            guid => Gid::from_parts(self.attrs.gid_prefix(), guid),
        })
    }

    /// Its SL to VL table.
    pub const fn sl_to_vl(&self) -> &SlToVl {
        &self.sl_to_vl
    }

    /// Its counters.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The same, to count.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadVerdict {
    /// The answer is in `out`.
    Reply,
    /// It ends here.
    Consumed,
    /// It is for the consumers of the queue pair: a subnet manager, say.
    Pass,
}

/// What a datagram led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadOutcome {
    /// What becomes of it.
    pub verdict: MadVerdict,
    /// The port that the rest is about.
    pub port: PortNum,
    /// What to tell its consumers.
    pub events: PortEvents,
    /// Whether management has taken its link down: call [`Hca::link_settle`] when the answer has left, and
    /// do what that says.
    pub settle: bool,
}

/// A channel adapter of 1 to 254 ports. `P` is where its owner keeps them; the first is port 1.
pub struct Hca<P: DerefMut<Target = [HcaPort]>> {
    identity: Identity,
    ports: P,
}

impl<P: DerefMut<Target = [HcaPort]>> Hca<P> {
    /// Makes an adapter of its ports.
    pub const fn new(identity: Identity, ports: P) -> Self {
        Self { identity, ports }
    }

    /// Who this is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The number of ports.
    pub fn port_count(&self) -> u8 {
        self.ports.len() as u8
    }

    /// Port `port`, from 1; `None` if there is no such port.
    pub fn port(&self, port: PortNum) -> Option<&HcaPort> {
        self.ports.get(usize::from(port.get()).checked_sub(1)?)
    }

    /// Port `port`, to count.
    pub fn counters_mut(&mut self, port: PortNum) -> Option<&mut Counters> {
        Some(&mut self.port_mut(port)?.counters)
    }

    /// What port `port` trains with, if it looks for a peer; see the [module](super) about cables.
    pub fn offer(&self, port: PortNum) -> Option<Phy> {
        self.port(port)?.attrs.offer()
    }

    /// The cable of `port` leads to a port that trains with `peer`. Returns whether the link came up now; the
    /// state is then Init.
    pub fn link_up(&mut self, port: PortNum, peer: Phy) -> bool {
        self.port_mut(port)
            .is_some_and(|port| port.attrs.link_up(peer))
    }

    /// The cable of `port` is dead, or its other end down.
    pub fn link_down(&mut self, port: PortNum) -> PortEvents {
        let Some(port) = self.port_mut(port) else {
            return PortEvents::NONE;
        };
        let was = port.attrs.link_down();
        if was.is_some() {
            port.counters.count_fault(PortFault::LinkDowned);
        }
        match was {
            Some(LinkState::Active) => PortEvents::just(PortEvent::PortError),
            _ => PortEvents::NONE,
        }
    }

    /// Does what the last SubnSet(PortInfo) asked of the link of `port`: see [`MadOutcome::settle`].
    pub fn link_settle(&mut self, port: PortNum) -> (LinkAction, PortEvents) {
        self.port_mut(port)
            .map_or((LinkAction::None, PortEvents::NONE), |port| {
                port.attrs.link_settle()
            })
    }

    /// Sets the largest MTU that the cable of `port` carries.
    pub fn set_mtu_cap(&mut self, port: PortNum, mtu_cap: Mtu) {
        if let Some(port) = self.port_mut(port) {
            port.attrs.set_mtu_cap(mtu_cap);
        }
    }

    /// A data packet came in on `port`: an Armed port becomes Active, as its peer is.
    pub fn active_trigger(&mut self, port: PortNum) -> PortEvents {
        match self.port_mut(port).map(|port| port.attrs.active_trigger()) {
            Some(true) => PortEvents::just(PortEvent::PortActive),
            _ => PortEvents::NONE,
        }
    }

    /// Changes bits of the capability mask of `port` ([`wire::mad::smp::cap`]), as `modify_port` asks. The
    /// subnet manager is due a trap 144, unless all it would learn is that it runs on this port.
    pub fn change_cap_mask(&mut self, port: PortNum, set: u32, clear: u32, now: Instant) {
        if let Some(port) = self.port_mut(port) {
            if port.attrs.change_cap_mask(set, clear) {
                port.local_change(0, now);
            }
        }
    }

    /// Replaces the node description, as `modify_device` asks. The subnet manager is due a trap 144.
    pub fn set_description(&mut self, description: [u8; 64], now: Instant) {
        if self.identity.description == description {
            return;
        }
        self.identity.description = description;
        for port in self.ports.iter_mut() {
            port.local_change(CapabilityChange::NODE_DESCRIPTION, now);
        }
    }

    /// A packet came in on `port` whose P_Key the port, or the queue pair, does not have. It is counted, and
    /// the subnet manager is due a trap 257.
    pub fn refuse_pkey(&mut self, port: PortNum, bad: &BadKey, now: Instant) {
        if let Some(port) = self.port_mut(port) {
            port.attrs.count_pkey_violation();
            port.raise(Event::BadPKey(*bad), now);
        }
    }

    /// A packet came in on `port` whose Q_Key is not that of the queue pair. It is counted, and the subnet
    /// manager is due a trap 258.
    pub fn refuse_qkey(&mut self, port: PortNum, bad: &BadKey, now: Instant) {
        if let Some(port) = self.port_mut(port) {
            port.attrs.count_qkey_violation();
            port.raise(Event::BadQKey(*bad), now);
        }
    }

    /// Sets the Q_Key violation counter of `port` back to 0, as `modify_port` asks.
    pub fn reset_qkey_violations(&mut self, port: PortNum) {
        if let Some(port) = self.port_mut(port) {
            port.attrs.reset_qkey_violations();
        }
    }

    /// Takes a datagram that came in on port `in_port`: class 0x01, 0x81 (after directed-route handling by
    /// `ib_core`) or 0x04; others pass. The answer, if any, is put into `out`. `guarded` is the source LID of what must
    /// have the M_Key, `None` for what the local host itself asks.
    pub fn process(
        &mut self,
        in_port: PortNum,
        in_mad: &Mad,
        out: &mut Mad,
        guarded: Option<Lid>,
        now: Instant,
    ) -> MadOutcome {
        let mut outcome = MadOutcome {
            verdict: MadVerdict::Pass,
            port: in_port,
            events: PortEvents::NONE,
            settle: false,
        };
        let Ok(header) = MadHeader::parse(in_mad) else {
            return outcome;
        };
        if self.port(in_port).is_none() {
            return outcome;
        }
        match header.mgmt_class {
            class::SUBN_LID | class::SUBN_DR => {
                let mut smp = Smp::from_bytes(in_mad).clone();
                self.manage(in_port, &header, &mut smp, guarded, now, &mut outcome);
                *out = *smp.as_bytes();
            }
            class::PERF => {
                if let Some(answer) = pma::process(self, in_mad) {
                    *out = answer;
                    outcome.verdict = MadVerdict::Reply;
                }
            }
            _ => {}
        }
        outcome
    }

    /// The next trap of `port` to send now, if any. Ask again at once after each, then at
    /// [`Self::next_trap`], and after every call that takes a time.
    pub fn poll_trap(&mut self, port: PortNum, now: Instant) -> Option<TrapOut> {
        let port = self.port_mut(port)?;
        port.traps.poll(&Sender::new(&port.attrs), now)
    }

    /// When [`Self::poll_trap`] will next have something for `port`.
    pub fn next_trap(&self, port: PortNum) -> Option<Instant> {
        let port = self.port(port)?;
        port.traps.next(&Sender::new(&port.attrs))
    }

    /// The subnet management agent. What is meant for a subnet manager passes: everything but requests for
    /// attributes, and SMInfo.
    fn manage(
        &mut self,
        in_port: PortNum,
        header: &MadHeader,
        smp: &mut Smp,
        guarded: Option<Lid>,
        now: Instant,
        outcome: &mut MadOutcome,
    ) {
        let errand = errand(header);
        let access = match errand {
            Errand::Foreign => return,
            Errand::Request(_) if header.attr_id == attr::SM_INFO => return,
            Errand::Unfit(refusal) => {
                answer(smp, Err(refusal));
                outcome.verdict = MadVerdict::Reply;
                return;
            }
            Errand::Request(access) => access,
            Errand::Repress => Access::Write,
        };
        if guarded.is_some_and(|slid| !self.check_mkey(in_port, smp, slid, access, now)) {
            outcome.verdict = MadVerdict::Consumed;
            return;
        }
        if errand == Errand::Repress {
            if let Some(port) = self.port_mut(in_port) {
                port.traps.repress(header.tid);
            }
            outcome.verdict = MadVerdict::Consumed;
            return;
        }
        if let Some(port) = self.port_mut(in_port) {
            port.traps.on_request();
        }
        let result = self.attribute(in_port, smp, access, outcome);
        answer(smp, result);
        outcome.verdict = MadVerdict::Reply;
    }

    /// Whether the M_Key of `smp`, which came from `slid`, lets it do `access` at the port that it came in by and at the
    /// port that it is about. A refused one is due a trap 256.
    fn check_mkey(
        &mut self,
        in_port: PortNum,
        smp: &Smp,
        slid: Lid,
        access: Access,
        now: Instant,
    ) -> bool {
        let target = match smp.attr_id() {
            attr::PORT_INFO => self.target(in_port, smp.attr_mod()).unwrap_or(in_port),
            _ => in_port,
        };
        let mut ok = true;
        for port in [Some(in_port), (target != in_port).then_some(target)]
            .into_iter()
            .flatten()
        {
            let Some(port) = self.port_mut(port) else {
                continue;
            };
            if !port.attrs.mkey_mut().check(smp.mkey(), access, now) {
                port.raise(Event::BadMKey(BadMKey::new(smp, slid)), now);
                ok = false;
            }
        }
        ok
    }

    fn port_mut(&mut self, port: PortNum) -> Option<&mut HcaPort> {
        self.ports.get_mut(usize::from(port.get()).checked_sub(1)?)
    }
}

impl HcaPort {
    fn raise(&mut self, event: Event, now: Instant) {
        self.traps.raise(&Sender::new(&self.attrs), event, now);
    }

    /// The capability mask, or what `flags` say, is no longer what the subnet manager knows.
    fn local_change(&mut self, flags: u16, now: Instant) {
        let cap_mask = self.attrs.cap_mask();
        self.raise(Event::LocalChange { cap_mask, flags }, now);
    }
}

impl<P: DerefMut<Target = [HcaPort]>> CountingPorts for Hca<P> {
    fn counters(&mut self, port: PortNum) -> Option<&mut Counters> {
        self.counters_mut(port)
    }

    fn range(&self) -> (u8, u8) {
        (1, self.port_count())
    }
}
