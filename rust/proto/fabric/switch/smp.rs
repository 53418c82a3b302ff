// SPDX-License-Identifier: GPL-2.0

//! Management datagrams at a switch.

use super::directed::{
    step,
    Step, //
};
use super::{
    Storage,
    Switch, //
};
use crate::fabric::agent::{
    answer,
    errand,
    Errand,
    Refusal, //
};
use crate::fabric::counters::Counters;
use crate::fabric::link::LinkState;
use crate::fabric::mkey::Access;
use crate::fabric::pma::{
    self,
    CountingPorts, //
};
use crate::fabric::trap::{
    BadKey,
    BadMKey,
    Event,
    Sender,
    TrapOut, //
};
use crate::fabric::Mad;
use crate::time::Instant;
use wire::mad::class;
use wire::mad::smp::{
    attr,
    cap,
    Smp, //
};
use wire::{
    Lid,
    PKey,
    PortNum, //
};

/// The addresses of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lrh {
    /// LRH:SLID.
    pub slid: Lid,
    /// LRH:DLID.
    pub dlid: Lid,
}

impl Lrh {
    /// From whoever is at one end of a link to whoever is at the other.
    const LINK: Self = Self {
        slid: Lid::PERMISSIVE,
        dlid: Lid::PERMISSIVE,
    };
}

/// What to do with a subnet management packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmpVerdict {
    /// Send it, as it now is, out of an external port, to QP0, on VL15.
    Forward {
        /// The port.
        port: PortNum,
        /// Its addresses on that link.
        lrh: Lrh,
    },
    /// The same; it is the switch's own answer.
    Reply {
        /// The port.
        port: PortNum,
        /// Its addresses on that link.
        lrh: Lrh,
    },
    /// Hand it to QP0 of port 0: a subnet manager on the switch, if there is one.
    Deliver,
    /// Nothing.
    Drop,
}

/// What a subnet management packet led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmpOutcome {
    /// What to do with the packet.
    pub verdict: SmpVerdict,
    /// A port whose link management has taken down: call [`Switch::link_settle`] with it when the answer has
    /// left, and do what that says.
    pub settle: Option<PortNum>,
}

impl<S: Storage> Switch<S> {
    /// Whether a subnet management packet with this LRH:DLID is for [`Self::on_smp`]; others are for
    /// [`Self::forward`](Switch::forward).
    pub fn takes_smp(&self, dlid: Lid) -> bool {
        dlid == Lid::PERMISSIVE || (dlid.is_unicast() && dlid == self.lid())
    }

    /// A subnet manager begins or ceases to run on the switch: it is told in the capability mask of port 0, and SMInfo
    /// is for it from now on. Another subnet manager is due a trap 144.
    pub fn set_manager(&mut self, runs: bool, now: Instant) {
        let (set, clear) = if runs { (cap::SM, 0) } else { (0, cap::SM) };
        let Some(port0) = self.port_mut(PortNum::MANAGEMENT) else {
            return;
        };
        if port0.attrs.change_cap_mask(set, clear) {
            let cap_mask = port0.attrs.cap_mask();
            self.raise(Event::LocalChange { cap_mask, flags: 0 }, now);
        }
    }

    /// Whether a subnet manager runs on the switch.
    fn has_manager(&self) -> bool {
        let port0 = self.port(PortNum::MANAGEMENT);
        port0.is_some_and(|port0| port0.attrs.cap_mask() & cap::SM != 0)
    }

    /// Takes a subnet management packet that came in on `in_port` (or that a subnet manager on the switch sends:
    /// port 0) with the addresses `lrh`, and turns `mad` into what is to be sent.
    pub fn on_smp(
        &mut self,
        in_port: PortNum,
        mad: &mut Mad,
        lrh: Lrh,
        now: Instant,
    ) -> SmpOutcome {
        let mut smp = Smp::from_bytes(mad).clone();
        let mut settle = None;
        let verdict = match smp.header().mgmt_class {
            _ if self.state(in_port) == LinkState::Down => SmpVerdict::Drop,
            class::SUBN_DR => self.directed(in_port, &mut smp, lrh, now, &mut settle),
            class::SUBN_LID => self.routed(in_port, &mut smp, lrh, now, &mut settle),
            _ => SmpVerdict::Drop,
        };
        *mad = *smp.as_bytes();
        SmpOutcome { verdict, settle }
    }

    /// Takes a datagram that came for QP1 of the switch and turns it into the answer. Returns whether there is
    /// one; it goes back where the request came from. Ask [`Self::partition_of`] first.
    pub fn on_gmp(&mut self, mad: &mut Mad) -> bool {
        match pma::process(self, mad) {
            Some(answer) => {
                *mad = answer;
                true
            }
            None => false,
        }
    }

    /// The P_Key by which QP1 of the switch takes a datagram with `pkey`, and answers it. If its management port has
    /// none that matches, this is counted, and the subnet manager is due a trap 257.
    pub fn partition_of(&mut self, pkey: PKey, bad: &BadKey, now: Instant) -> Option<PKey> {
        let port = self.port_mut(PortNum::MANAGEMENT)?;
        let own = port.pkeys.matching(pkey);
        if own.is_none() {
            port.attrs.count_pkey_violation();
            self.raise(Event::BadPKey(*bad), now);
        }
        own
    }

    /// A packet came in on, or was to leave by, `port` with a P_Key that the port does not admit. It is
    /// counted, and the subnet manager is due a trap 259.
    pub fn refuse_pkey(&mut self, port: PortNum, bad: &BadKey, now: Instant) {
        if let Some(refusing) = self.port_mut(port) {
            refusing.attrs.count_pkey_violation();
            self.raise(Event::BadPKeySwitch(*bad, port), now);
        }
    }

    /// The next trap to send now, if any. Ask again at once after each, then at [`Self::next_trap`], and after
    /// every call that takes a time.
    pub fn poll_trap(&mut self, now: Instant) -> Option<TrapOut> {
        let sender = self.sender()?;
        self.traps.poll(&sender, now)
    }

    /// When [`Self::poll_trap`] will next have something.
    pub fn next_trap(&self) -> Option<Instant> {
        self.traps.next(&self.sender()?)
    }

    /// Lets the subnet manager know of `event`.
    pub(super) fn raise(&mut self, event: Event, now: Instant) {
        if let Some(sender) = self.sender() {
            self.traps.raise(&sender, event, now);
        }
    }

    fn sender(&self) -> Option<Sender> {
        let port0 = self.port(PortNum::MANAGEMENT)?;
        Some(Sender::new(&port0.attrs))
    }

    /// A directed-route packet.
    fn directed(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        lrh: Lrh,
        now: Instant,
        settle: &mut Option<PortNum>,
    ) -> SmpVerdict {
        match step(smp, in_port) {
            Step::Leave(port) => self.leave(port),
            Step::ByLid(dlid) if dlid == self.lid() && !smp.is_returning() => {
                self.directed_request(in_port, smp, lrh, now, settle)
            }
            Step::ByLid(dlid) => self.by_lid(dlid),
            Step::Agent => self.directed_request(in_port, smp, lrh, now, settle),
            Step::Manager => SmpVerdict::Deliver,
            Step::Broken => SmpVerdict::Drop,
        }
    }

    /// A directed-route request for the agent: the answer goes back the way it came.
    fn directed_request(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        lrh: Lrh,
        now: Instant,
        settle: &mut Option<PortNum>,
    ) -> SmpVerdict {
        match self.agent(in_port, smp, lrh.slid, now, settle) {
            Some(verdict) => verdict,
            // The directed part of its way may as well end here, if it has come by that.
            None if smp.hop_cnt() != 0
                && smp.dr_dlid() != Lid::PERMISSIVE
                && lrh.slid != Lid::PERMISSIVE =>
            {
                reply(self.by_lid(lrh.slid))
            }
            None => match step(smp, PortNum::MANAGEMENT) {
                Step::Leave(port) => reply(self.leave(port)),
                Step::ByLid(dlid) => reply(self.by_lid(dlid)),
                Step::Manager => SmpVerdict::Deliver,
                Step::Agent | Step::Broken => SmpVerdict::Drop,
            },
        }
    }

    /// A LID-routed packet for this switch, or one for whoever is at this end of the link.
    fn routed(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        lrh: Lrh,
        now: Instant,
        settle: &mut Option<PortNum>,
    ) -> SmpVerdict {
        if !self.takes_smp(lrh.dlid) {
            return match in_port {
                PortNum::MANAGEMENT => self.by_lid(lrh.dlid),
                _ => SmpVerdict::Drop,
            };
        }
        match self.agent(in_port, smp, lrh.slid, now, settle) {
            Some(verdict) => verdict,
            None if in_port == PortNum::MANAGEMENT => SmpVerdict::Deliver,
            None if lrh.slid == Lid::PERMISSIVE => reply(self.leave(in_port)),
            None => reply(self.by_lid(lrh.slid)),
        }
    }

    /// Lets the agent have a packet. `None`: `smp` is the answer now.
    fn agent(
        &mut self,
        in_port: PortNum,
        smp: &mut Smp,
        slid: Lid,
        now: Instant,
        settle: &mut Option<PortNum>,
    ) -> Option<SmpVerdict> {
        let header = smp.header();
        let errand = errand(&header);
        let access = match errand {
            Errand::Foreign => return Some(SmpVerdict::Deliver),
            Errand::Unfit(refusal) => {
                answer(smp, Err(refusal));
                return None;
            }
            Errand::Request(_) if header.attr_id == attr::SM_INFO && self.has_manager() => {
                return Some(SmpVerdict::Deliver);
            }
            Errand::Request(_) if header.attr_id == attr::SM_INFO => {
                answer(smp, Err(Refusal::Attribute));
                return None;
            }
            Errand::Request(access) => access,
            Errand::Repress => Access::Write,
        };
        let port0 = self.port_mut(PortNum::MANAGEMENT)?;
        if !port0.attrs.mkey_mut().check(smp.mkey(), access, now) {
            self.raise(Event::BadMKey(BadMKey::new(smp, slid)), now);
            return Some(SmpVerdict::Drop);
        }
        if errand == Errand::Repress {
            self.traps.repress(header.tid);
            return Some(SmpVerdict::Drop);
        }
        self.traps.on_request();
        let result = self.attribute(in_port, smp, access, settle);
        answer(smp, result);
        None
    }

    /// Out of `port` to whoever is there.
    fn leave(&self, port: PortNum) -> SmpVerdict {
        if port == PortNum::MANAGEMENT || self.state(port) == LinkState::Down {
            return SmpVerdict::Drop;
        }
        SmpVerdict::Forward {
            port,
            lrh: Lrh::LINK,
        }
    }

    /// On from this switch to `dlid`.
    fn by_lid(&self, dlid: Lid) -> SmpVerdict {
        match self.route(dlid) {
            Some(PortNum::MANAGEMENT) => SmpVerdict::Deliver,
            Some(port) if self.state(port) != LinkState::Down => SmpVerdict::Forward {
                port,
                lrh: Lrh {
                    slid: self.lid(),
                    dlid,
                },
            },
            _ => SmpVerdict::Drop,
        }
    }
}

/// The same verdict about the switch's own answer.
fn reply(verdict: SmpVerdict) -> SmpVerdict {
    match verdict {
        SmpVerdict::Forward { port, lrh } => SmpVerdict::Reply { port, lrh },
        other => other,
    }
}

impl<S: Storage> CountingPorts for Switch<S> {
    fn counters(&mut self, port: PortNum) -> Option<&mut Counters> {
        self.counters_mut(port)
    }

    fn range(&self) -> (u8, u8) {
        (1, self.port_count())
    }
}
