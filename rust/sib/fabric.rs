// SPDX-License-Identifier: GPL-2.0

//! A fabric: the switch of an underlay network device, and what hangs on its ports.
//!
//! The switch itself is a machine without IO ([`proto::fabric::switch`]). Here it gets its packets, its cables
//! and its clock:
//!
//! - [`route`]: the way of a packet, from a port of an HCA through the switch to the next.
//! - [`lane`]: a way that was found and is remembered.
//! - [`smp`]: packets for the management agents of the switch, and their traps.
//! - [`manager`]: the subnet manager on the switch.
//! - [`cable`]: cables to other switches, whose ends are machines ([`proto::fabric::line`]); [`key`]: what keeps
//!   strangers out; [`beacon`]: cables that are made by themselves.
//! - [`udp`]: packets as datagrams, and what is done with datagrams from anywhere.
//! - [`capture`]: packets that are kept for a reader.
//! - [`fault`]: what is done to packets on purpose.
//! - [`traffic`]: what passes a port.
//! - [`storage`]: the memory of the switch and of the subnet manager.
//!
//! # Locking
//!
//! The lock of a fabric is the outermost: a port of the switch and the port of the HCA at the other end of its
//! cable change together, under both locks. Packets are handed on without a lock.

mod batch;
mod beacon;
mod cable;
mod capture;
mod fault;
mod key;
mod lane;
mod manager;
mod route;
mod smp;
mod storage;
mod traffic;
mod udp;

pub(crate) use cable::Origin;
pub(crate) use capture::{
    Captures,
    Packets,
    Switch as CaptureSwitch, //
};
pub(crate) use fault::{
    Faults,
    Rules, //
};
pub(crate) use key::Key;
pub(crate) use lane::{
    Address,
    Lane, //
};
pub(crate) use route::{
    Passage,
    Segment, //
};
pub(crate) use smp::trap_header;
pub(crate) use traffic::Traffic;
pub(crate) use udp::Drops;

use crate::events;
use crate::guid::{
    GuidBase,
    MAX_HCA, //
};
use crate::hca::{
    Hca,
    MAX_PORTS, //
};
use crate::params;
use beacon::{
    Lookout,
    Search, //
};
use cable::Cable;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{
    Arc,
    Mutex, //
};
use manager::{
    Inbox,
    Seat, //
};
use proto::fabric::link::LinkAction;
use proto::fabric::port::PortEvents;
use proto::fabric::switch::{
    Identity,
    Switch, //
};
use proto::time::Instant;
use rdma::net::NetDevice;
use rdma::sync::{
    Cx,
    FabricLock,
    Held,
    IrqsOn,
    LevelLock,
    Off,
    Sleepable,
    Tracked,
    Unlocked, //
};
use rdma::timer::Timer;
use storage::Heap;
use udp::{
    Endpoint,
    Own, //
};
use wire::{
    Mtu,
    PortNum, //
};

/// The time of all machines.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(rdma::time::now_ns())
}

/// What hangs on a port of the switch.
enum End {
    /// Nothing.
    Open,
    /// An HCA that is being made, or unmade.
    Reserved,
    /// A port of an HCA.
    Hca(Held<Hca>, PortNum),
    /// A port of another switch.
    Cable(Cable),
}

/// What the lock of a fabric guards.
struct State {
    switch: Switch<Heap>,
    /// What hangs on each port of the switch; nothing ever on port 0.
    ends: KVec<End>,
    /// The numbers of HCAs that are in use.
    numbers: Numbers,
    /// The way of all packets for HCAs here, if a parameter forces them onto UDP.
    own: Option<Own>,
    /// The sockets for cables, over IPv4 and IPv6.
    listening: [Option<Held<Endpoint>>; 2],
    /// The fabric key of the cables that have none of their own, if there is one.
    key: Option<Arc<Key>>,
    /// When a cable that a beacon made was last said to wait.
    complained: Option<Instant>,
    /// The search for neighbours, if there is one.
    search: Option<Search>,
    /// What waits for the subnet manager on the switch, if there is one.
    inbox: Option<Inbox>,
}

/// A fabric.
#[pin_data]
pub(crate) struct Fabric {
    base: GuidBase,
    mtu: Mtu,
    #[pin]
    state: LevelLock<State, FabricLock>,
    /// Expires when the switch has a trap to send, or a cable needs attention.
    #[pin]
    timer: Timer<Fabric>,
    #[pin]
    seat: Seat,
    #[pin]
    lookout: Lookout,
    /// What [`State`] refers to.
    #[pin]
    endpoints: Mutex<KVec<Tracked<Endpoint>>>,
    drops: Drops,
    /// Rises with every change of a way through the fabric: see [`lane`].
    generation: Atomic<u64>,
    /// What has passed each port of the switch without the lock.
    traffic: KVec<Traffic>,
}

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
    /// Makes a fabric whose switch has `ports` ports.
    pub(crate) fn new(
        base: GuidBase,
        description: [u8; 64],
        ports: u8,
        mtu: Mtu,
        sleepable: Sleepable<'_>,
    ) -> Result<Arc<Self>> {
        let identity = Identity {
            node: base.switch(),
            system: base.system_image(),
            vendor: crate::query::VENDOR,
            device: crate::query::SWITCH_DEVICE,
            revision: crate::query::REVISION,
            description,
        };
        let mut ends = KVec::with_capacity(usize::from(ports).saturating_add(1), GFP_KERNEL)?;
        for _ in 0..=ports {
            ends.push(End::Open, GFP_KERNEL)?;
        }
        let mut traffic = KVec::with_capacity(ends.len(), GFP_KERNEL)?;
        for _ in 0..=ports {
            traffic.push(Traffic::new(), GFP_KERNEL)?;
        }
        let state = State {
            switch: storage::switch(identity, ports, mtu)?,
            ends,
            numbers: Numbers::default(),
            own: None,
            listening: [const { None }; 2],
            key: None,
            complained: None,
            search: None,
            inbox: None,
        };
        let seat = Seat::new(sleepable)?;
        let lookout = Lookout::new(sleepable)?;
        Arc::pin_init(
            try_pin_init!(Self {
                base,
                mtu,
                state <- LevelLock::new(state),
                timer <- Timer::new(),
                seat <- seat,
                lookout <- lookout,
                endpoints <- new_mutex!(KVec::new(), "Fabric::endpoints"),
                drops: Drops::new(),
                // Lanes begin with 0, and are not to be good.
                generation: Atomic::new(1),
                traffic,
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Starts the clock of the fabric, its subnet manager, and opens the sockets that it needs from the beginning.
    /// From now on it has to be closed, even after a failure.
    pub(crate) fn start(
        self: &Arc<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: &NetDevice,
    ) -> Result {
        self.timer.attach(self.clone()).map_err(|_| EBUSY)?;
        if params::force_udp() {
            self.open_own(cx, sleepable, underlay)?;
        }
        self.open_manager(cx)?;
        self.open_beacons(cx, sleepable, underlay)
    }

    /// Ends the sockets, the subnet manager and the clock of the fabric, which nobody uses any more.
    pub(crate) fn close(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        self.detach(cx, sleepable);
        self.close_manager(cx, sleepable);
        self.timer.shutdown(cx, sleepable);
        // The timer was the last that could call for it.
        self.close_beacons(cx, sleepable);
    }

    /// Where the GUIDs of the fabric's nodes come from.
    pub(crate) fn base(&self) -> GuidBase {
        self.base
    }

    /// The largest payload of a packet that the fabric carries.
    pub(crate) fn mtu(&self) -> Mtu {
        self.mtu
    }

    /// How many datagrams, and packets to be sent as such, have been dropped for what.
    pub(crate) fn drops(&self) -> &Drops {
        &self.drops
    }

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
            let end = End::Hca(hca.try_clone().ok_or(EBUSY)?, PortNum::new(port));
            let mut guard = cx.lock(&self.state);
            let (state, cx) = guard.split();
            self.new_generation();
            state.set_end(cable, end);
            state.train(cx, cable);
        }
        self.rearm(cx);
        Ok(())
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

    /// Does what management has ordered for the link of a port of an HCA; the answer has left by now.
    pub(crate) fn settle_hca(&self, cx: &mut Cx<'_, Unlocked>, hca: &Hca, port: PortNum) {
        let Some(cable) = hca.berth.cable(port) else {
            return;
        };
        let events = {
            let mut guard = cx.lock(&self.state);
            let (state, mut cx) = guard.split();
            self.new_generation();
            let (action, events) = {
                let mut dev = cx.lock(&hca.state);
                let settled = dev.sma.link_settle(port);
                hca.publish(&dev.sma, port);
                settled
            };
            match action {
                LinkAction::None => {}
                LinkAction::Drop => {
                    state.switch.link_down(cable, now());
                }
                LinkAction::Retrain => {
                    state.switch.link_down(cable, now());
                    state.train(cx, cable);
                }
            }
            events
        };
        events::dispatch(cx, hca, port, events);
        self.rearm(cx);
    }

    /// Does what management has ordered for the link of a port of the switch; the answer has left by now.
    fn settle_switch(&self, cx: &mut Cx<'_, Unlocked>, irqs: IrqsOn<'_>, cable: PortNum) {
        let (action, told) = {
            let mut guard = cx.lock(&self.state);
            let (state, mut cx) = guard.split();
            self.new_generation();
            let action = state.switch.link_settle(cable);
            let told = match action {
                LinkAction::None => None,
                LinkAction::Drop | LinkAction::Retrain => state.unlink(cx.reborrow(), cable),
            };
            if action == LinkAction::Retrain {
                state.train(cx, cable);
            }
            (action, told)
        };
        if let Some((hca, port, events)) = told {
            events::dispatch(cx, &hca, port, events);
        }
        if action != LinkAction::None {
            self.hang_up(cx, irqs, cable);
        }
        self.rearm(cx);
    }
}

impl State {
    /// The ports of the switch where nothing hangs.
    fn free_ports(&self) -> impl Iterator<Item = PortNum> + '_ {
        let ends = self.ends.iter().zip(0u8..).skip(1);
        ends.filter_map(|(end, port)| match end {
            End::Open => Some(PortNum::new(port)),
            _ => None,
        })
    }

    /// Replaces what hangs on `port`, and returns what did, to be dropped without the lock.
    fn set_end(&mut self, port: PortNum, end: End) -> End {
        match self.ends.get_mut(usize::from(port.get())) {
            Some(slot) => core::mem::replace(slot, end),
            None => end,
        }
    }

    /// Brings the link of `cable` up if both of its ends look for one.
    fn train(&mut self, mut cx: Cx<'_, FabricLock, Off>, cable: PortNum) {
        let Some(End::Hca(hca, port)) = self.ends.get(usize::from(cable.get())) else {
            return;
        };
        let mut dev = cx.lock(&hca.state);
        let (Some(ours), Some(theirs)) = (self.switch.offer(cable), dev.sma.offer(*port)) else {
            return;
        };
        self.switch.link_up(cable, theirs, now());
        dev.sma.link_up(*port, ours);
        hca.publish(&dev.sma, *port);
    }

    /// Tells the other end of `cable` that the link is gone. Returns whom to tell of that, and what.
    fn unlink(
        &self,
        mut cx: Cx<'_, FabricLock, Off>,
        cable: PortNum,
    ) -> Option<(Held<Hca>, PortNum, PortEvents)> {
        let Some(End::Hca(hca, port)) = self.ends.get(usize::from(cable.get())) else {
            return None;
        };
        let mut dev = cx.lock(&hca.state);
        let events = dev.sma.link_down(*port);
        hca.publish(&dev.sma, *port);
        Some((hca.try_clone()?, *port, events))
    }
}

/// A set of numbers of HCAs.
#[derive(Default)]
struct Numbers([u64; 4]);

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
