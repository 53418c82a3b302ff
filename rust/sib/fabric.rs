// SPDX-License-Identifier: GPL-2.0

//! A fabric: the switch of an underlay network device, and what hangs on its ports.
//!
//! The switch itself is a machine without IO ([`proto::fabric::switch`]). Here it gets its packets, its cables
//! and its clock:
//!
//! - [`route`]: the way of a packet, from a port of an HCA through the switch to the next.
//! - [`lane`]: a way that was found and is remembered.
//! - [`berth`]: which ports of HCAs hang on which ports of the switch.
//! - [`smp`]: packets for the management agents of the switch, and their traps.
//! - [`manager`]: the subnet manager on the switch.
//! - [`cable`]: cables to other switches, whose ends are machines ([`proto::fabric::line`]); [`key`]: what keeps
//!   strangers out; [`beacon`]: cables that are made by themselves.
//! - [`udp`]: packets as datagrams, and what is done with datagrams from anywhere; [`account`]: what is counted of
//!   them.
//! - [`capture`]: packets that are kept for a reader.
//! - [`fault`]: what is done to packets on purpose.
//! - [`traffic`]: what passes a port.
//! - [`view`]: what is shown of packets, of the subnet and of cables.
//! - [`storage`]: the memory of the switch and of the subnet manager.
//!
//! # Locking
//!
//! The lock of a fabric is the outermost: a port of the switch and the port of the HCA at the other end of its
//! cable change together, under both locks. Packets are handed on without a lock.

mod account;
mod batch;
mod beacon;
mod berth;
mod cable;
mod capture;
mod fault;
mod key;
mod landing;
mod lane;
mod manager;
mod route;
mod smp;
mod storage;
mod traffic;
mod udp;
mod view;

pub(crate) use batch::{
    Order,
    Outbox, //
};
pub(crate) use berth::Berth;
pub(crate) use cable::{
    refusal,
    Origin, //
};
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
    Goal,
    Lane, //
};
pub(crate) use route::{
    Passage,
    Segment, //
};
pub(crate) use smp::trap_header;
pub(crate) use storage::Assignments;
pub(crate) use traffic::Traffic;
pub(crate) use udp::{
    Reader,
    Way, //
};
pub(crate) use view::Files;

use crate::events;
use crate::guid::GuidBase;
use crate::hca::Hca;
use crate::params;
use account::Account;
use beacon::{
    Lookout,
    Search, //
};
use berth::Numbers;
use cable::{
    Cable,
    Endpoints, //
};
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};
use lane::Ways;
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
use proto::ratelimit::Ratelimit;
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
    /// The underlay is gone: there are no cables any more.
    detached: bool,
    /// The fabric key of the cables that have none of their own, if there is one.
    key: Option<Arc<Key>>,
    /// When a cable that a beacon made was last said to wait.
    complained: Option<Instant>,
    /// What the log is told of cables that go up and down.
    lines: Ratelimit,
    /// The search for neighbours, if there is one.
    search: Option<Search>,
    /// What waits for the subnet manager on the switch, if there is one.
    inbox: Option<Inbox>,
    /// Those of the fabric.
    ways: Arc<Ways>,
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
    endpoints: Mutex<Option<Endpoints>>,
    account: Arc<Account>,
    /// See [`lane`].
    ways: Arc<Ways>,
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
        let ways = Ways::new(ports)?;
        let known = ways.clone();
        // Too large to be made on the stack.
        let state = try_init!(State {
            switch: storage::switch(identity, ports, mtu)?,
            ends,
            numbers: Numbers::default(),
            own: None,
            listening: [const { None }; 2],
            detached: false,
            key: None,
            complained: None,
            lines: Ratelimit::default(),
            search: None,
            inbox: None,
            ways: known,
        }? Error);
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
                endpoints <- new_mutex!(Some(KVec::new()), "Fabric::endpoints"),
                account: Arc::new(Account::new(), GFP_KERNEL)?,
                ways,
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

    /// Sets the NodeDescription of the switch.
    pub(crate) fn set_description(&self, cx: &mut Cx<'_, Unlocked>, description: [u8; 64]) {
        let mut guard = cx.lock(&self.state);
        guard.switch.set_description(description, now());
        drop(guard);
        self.rearm(cx);
    }

    /// What it has carried as datagrams, and dropped.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Does what management has ordered for the link of a port of an HCA; the answer has left by now.
    ///
    /// Does nothing if the cable of the port is not in `cable` any more.
    pub(crate) fn settle_hca(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        hca: &Hca,
        port: PortNum,
        cable: PortNum,
    ) {
        let events = {
            let mut guard = cx.lock(&self.state);
            let (state, mut cx) = guard.split();
            if !state.holds(cable, hca, port) {
                return;
            }
            self.new_generation();
            let (action, events) = {
                let mut dev = cx.lock(&hca.state);
                let settled = dev.sma.link_settle(port);
                hca.publish(&dev, port);
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
        let (told, bye) = {
            let mut guard = cx.lock(&self.state);
            let (state, mut cx) = guard.split();
            self.new_generation();
            let action = state.switch.link_settle(cable);
            // The port and its cable at once: the next handshake may come right after this.
            let (told, bye) = match action {
                LinkAction::None => (None, None),
                LinkAction::Drop | LinkAction::Retrain => {
                    let told = state.unlink(cx.reborrow(), cable);
                    (told, state.hang_up(cable))
                }
            };
            if action == LinkAction::Retrain {
                state.train(cx, cable);
            }
            (told, bye)
        };
        if let Some((hca, port, events)) = told {
            events::dispatch(cx, &hca, port, events);
        }
        if let Some(bye) = bye {
            self.send_message(cx, irqs, &bye);
        }
        self.rearm(cx);
    }
}

impl State {
    /// The ports of the switch where nothing hangs. Those that look for a link come first.
    fn free_ports(&self) -> impl Iterator<Item = PortNum> + '_ {
        let ends = self.ends.iter().zip(0u8..).skip(1);
        let free = ends.filter_map(|(end, port)| match end {
            End::Open => Some(PortNum::new(port)),
            _ => None,
        });
        let looks = |port: &PortNum| self.switch.offer(*port).is_some();
        let idle = free.clone().filter(move |port| !looks(port));
        Iterator::chain(free.filter(looks), idle)
    }

    /// Whether the cable of `port` of `hca` is in `cable`.
    fn holds(&self, cable: PortNum, hca: &Hca, port: PortNum) -> bool {
        let end = self.ends.get(usize::from(cable.get()));
        matches!(end, Some(End::Hca(held, number)) if core::ptr::eq(&**held, hca) && *number == port)
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
        hca.publish(&dev, *port);
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
        hca.publish(&dev, *port);
        Some((hca.try_clone()?, *port, events))
    }
}
