// SPDX-License-Identifier: GPL-2.0

//! Which ports of HCAs hang on which ports of the switch.

use super::{
    now,
    End,
    Fabric, //
};
use crate::events;
use crate::guid::MAX_HCA;
use crate::hca::{
    Hca,
    MAX_PORTS, //
};
use kernel::prelude::*;
use rdma::sync::{
    Cx,
    Held,
    Unlocked, //
};
use wire::PortNum;

/// The place of an HCA in a fabric, until [`Fabric::leave`].
#[derive(Clone, Copy)]
pub(crate) struct Berth {
    number: u8,
    ports: u8,
    /// The port of the switch that each port of the HCA is cabled to.
    cables: [PortNum; MAX_PORTS as usize],
}

impl Berth {
    /// The number of the HCA, unique in the fabric.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// The number of ports of the HCA.
    pub(crate) fn ports(&self) -> u8 {
        self.ports
    }

    /// The port of the switch at the other end of the cable of `port`.
    pub(crate) fn cable(&self, port: PortNum) -> Option<PortNum> {
        let index = usize::from(port.get()).checked_sub(1)?;
        let cables = self.cables.get(..usize::from(self.ports))?;
        cables.get(index).copied()
    }

    /// The ports of the switch.
    fn cables(&self) -> impl Iterator<Item = PortNum> + '_ {
        self.cables.iter().copied().take(usize::from(self.ports))
    }
}

impl Fabric {
    /// Finds a number, and free ports of the switch, for an HCA of `ports` ports.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are no more.
    pub(crate) fn reserve(&self, cx: &mut Cx<'_, Unlocked>, ports: u8) -> Result<Berth> {
        let mut guard = cx.lock(&self.state);
        let state = &mut *guard;
        let mut cables = [PortNum::MANAGEMENT; MAX_PORTS as usize];
        let wanted = cables.get_mut(..usize::from(ports)).ok_or(EINVAL)?;
        let mut free = state.free_ports();
        for cable in wanted {
            *cable = free.next().ok_or(ENOSPC)?;
        }
        drop(free);
        let number = state.numbers.take().ok_or(ENOSPC)?;
        let berth = Berth {
            number,
            ports,
            cables,
        };
        for port in berth.cables() {
            state.set_end(port, End::Reserved);
        }
        Ok(berth)
    }

    /// Plugs the cables of `hca` into its ports and the switch, and trains the links.
    pub(crate) fn join(&self, cx: &mut Cx<'_, Unlocked>, hca: &Held<Hca>) -> Result {
        for (cable, port) in hca.berth.cables().zip(1u8..) {
            self.hang(cx, hca, PortNum::new(port), cable)?;
        }
        Ok(())
    }

    /// Plugs the cable of `port` of `hca` into `cable`, which was reserved for it, and trains the link.
    pub(crate) fn hang(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        hca: &Held<Hca>,
        port: PortNum,
        cable: PortNum,
    ) -> Result {
        let end = End::Hca(hca.try_clone().ok_or(EBUSY)?, port);
        {
            let mut guard = cx.lock(&self.state);
            let (state, cx) = guard.split();
            self.new_generation();
            // A cable to another switch may have been there, with an MTU of its own.
            state.switch.set_mtu_cap(cable, self.mtu);
            state.set_end(cable, end);
            state.train(cx, cable);
        }
        self.rearm(cx);
        Ok(())
    }

    /// Pulls the cable of a port of an HCA out of `cable`, which stays reserved, and tells the HCA. Packets on
    /// their way to it may still arrive. Does nothing if there is none.
    pub(crate) fn unhang(&self, cx: &mut Cx<'_, Unlocked>, cable: PortNum) {
        let (end, told) = {
            let mut guard = cx.lock(&self.state);
            let (state, mut cx) = guard.split();
            if !matches!(state.ends.get(usize::from(cable.get())), Some(End::Hca(..))) {
                return;
            }
            self.new_generation();
            let told = state.unlink(cx.reborrow(), cable);
            state.switch.link_down(cable, now());
            (state.set_end(cable, End::Reserved), told)
        };
        if let Some((hca, port, events)) = told {
            events::dispatch(cx, &hca, port, events);
        }
        drop(end);
        self.rearm(cx);
    }

    /// Pulls out the cables of all ports of HCAs, since the underlay is gone.
    pub(crate) fn unhang_all(&self, cx: &mut Cx<'_, Unlocked>) {
        let ports = cx.lock(&self.state).switch.port_count();
        for port in (1..=ports).map(PortNum::new) {
            self.unhang(cx, port);
        }
    }

    /// Finds a free port of the switch for a port of an HCA that has its place elsewhere.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is none.
    pub(crate) fn reserve_port(&self, cx: &mut Cx<'_, Unlocked>) -> Result<PortNum> {
        let mut state = cx.lock(&self.state);
        let port = state.free_ports().next().ok_or(ENOSPC)?;
        state.set_end(port, End::Reserved);
        Ok(port)
    }

    /// Gives back what [`Self::reserve_port`] found.
    pub(crate) fn leave_port(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum) {
        cx.lock(&self.state).set_end(port, End::Open);
    }

    /// Pulls the cables of an HCA out of the switch. Packets on their way to it may still arrive.
    pub(crate) fn part(&self, cx: &mut Cx<'_, Unlocked>, berth: &Berth) {
        for cable in berth.cables() {
            let end = {
                let mut guard = cx.lock(&self.state);
                let state = &mut *guard;
                self.new_generation();
                state.switch.link_down(cable, now());
                state.set_end(cable, End::Reserved)
            };
            drop(end);
        }
        self.rearm(cx);
    }

    /// Gives back what [`Self::reserve`] found.
    pub(crate) fn leave(&self, cx: &mut Cx<'_, Unlocked>, berth: &Berth) {
        let mut guard = cx.lock(&self.state);
        for port in berth.cables() {
            guard.set_end(port, End::Open);
        }
        guard.numbers.give_back(berth.number);
    }
}

/// A set of numbers of HCAs.
#[derive(Default)]
pub(super) struct Numbers([u64; 4]);

impl Numbers {
    /// Takes the lowest free number.
    fn take(&mut self) -> Option<u8> {
        let number = (0..=MAX_HCA).find(|number| !self.contains(*number))?;
        let (word, bit) = Self::place(number);
        *self.0.get_mut(word)? |= bit;
        Some(number)
    }

    fn give_back(&mut self, number: u8) {
        let (word, bit) = Self::place(number);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    fn contains(&self, number: u8) -> bool {
        let (word, bit) = Self::place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn place(number: u8) -> (usize, u64) {
        (
            usize::from(number >> 6),
            1u64.wrapping_shl(u32::from(number)),
        )
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(sib_berth)]
mod tests {
    use super::*;
    use crate::guid::GuidBase;
    use wire::Mtu;

    /// The cable has gone with its underlay, and somebody who came too late has the port now.
    #[test]
    fn a_cable_that_is_gone_opens_no_port() -> Result {
        let (mut cx, sleepable) = rdma::sync::test_context();
        let base = GuidBase::random([0; 6]);
        let fabric = Fabric::new(base, [0; 64], 2, Mtu::B4096, sleepable)?;
        let port = fabric.reserve_port(&mut cx)?;
        fabric.unplug(&mut cx, sleepable.irqs_on(), port);
        let next = fabric.reserve_port(&mut cx)?;
        fabric.close(&mut cx, sleepable);
        assert!(next != port);
        Ok(())
    }
}
