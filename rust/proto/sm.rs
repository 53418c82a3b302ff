// SPDX-License-Identifier: GPL-2.0

//! A subnet manager (IBA chapter "Subnet Management").
//!
//! It finds all nodes of a subnet, gives LIDs to their ports, makes the routes, raises the links, and does so again
//! when something changes. With other subnet managers it agrees who is the master. It sends nothing itself: a driver
//! hands it what arrives at QP0 ([`Manager::on_mad`]), and asks it what to send ([`Manager::poll`]).
//!
//! - [`topology`]: nodes, ports, links. [`fifo`]: the ports that are still to be asked.
//! - [`exchange`]: requests on their way. [`way`]: how they get there. [`compose`]: what they say.
//! - [`partitions`]: who may talk to whom; [`membership`]: the same as bits.
//! - [`multicast`], [`trees`]: multicast forwarding tables. [`subnet`], [`notices`]: what subnet administration needs.
//! - [`phase`]: the order of a sweep; [`discover`], [`lids`], [`ranks`], [`routes`], [`tables`], [`settings`]: its
//!   parts.
//! - [`elect`]: other subnet managers. [`inbox`]: what arrives.
//!
//! # Storage
//!
//! The driver lends what is large ([`Stock`]); how much there is says how large the subnet may be. A node that is gone
//! keeps its place, so that its ports get their LIDs back when it returns. When there is no room for a new one
//! ([`Report::no_room`]), the driver makes another subnet manager with more storage: that one takes the LIDs over which
//! the ports have. One that is to be followed by another ([`Config::gives_way`]) changes nothing in a subnet that it sees
//! only a part of.

mod compose;
mod discover;
mod elect;
mod exchange;
mod fifo;
mod inbox;
mod lids;
mod membership;
mod multicast;
mod notices;
mod partitions;
mod phase;
mod ranks;
mod routes;
mod settings;
mod subnet;
mod tables;
mod topology;
mod trees;
mod way;

pub use exchange::Slot;
pub use inbox::Reply;
pub use notices::Told;
pub use partitions::Assignment;
pub(crate) use subnet::Passage;
pub use topology::{
    Node,
    Port, //
};
pub(crate) use trees::Leaf;

use self::elect::Rivals;
use self::exchange::{
    Due,
    Exchange, //
};
use self::fifo::Fifo;
use self::inbox::Replies;
use self::lids::Lids;
use self::multicast::Multicast;
use self::notices::Notices;
use self::partitions::Partitions;
use self::phase::Phase;
use self::ranks::Ranks;
use self::tables::Tables;
use self::topology::{
    Topology,
    NONE, //
};
use crate::fabric::switch::{
    Lrh,
    PortMask, //
};
use crate::fabric::Mad;
use crate::time::{
    Duration,
    Instant, //
};
use core::ops::{
    Deref,
    DerefMut, //
};
use wire::mad::smp::{
    NodeInfo,
    SmState, //
};
use wire::{
    Gid,
    Guid,
    Lid,
    Sl, //
};

/// Where a subnet manager keeps what is large: the driver lends it.
pub trait Storage {
    /// [`Node::new`] each.
    type Nodes: DerefMut<Target = [Node]>;
    /// [`Port::new`] each. A node takes one more than it has ports.
    type Ports: DerefMut<Target = [Port]>;
    /// Of any values; as many as nodes is a good number.
    type Buckets: DerefMut<Target = [u32]>;
    /// Of any values; one for each switch.
    type Order: DerefMut<Target = [u32]>;
    /// Of any values; one for each LID, and one more. A multiple of 64 of at most 49152.
    type Lids: DerefMut<Target = [u32]>;
    /// Of any values; for each switch as many as there are LIDs.
    type Lfts: DerefMut<Target = [u8]>;
    /// `false`; for each switch a 64th of the number of LIDs.
    type Dirty: DerefMut<Target = [bool]>;
    /// Of any values; for each switch (of which there are as many as [`Self::Lfts`] has rows) as many as there are
    /// multicast LIDs, a multiple of 32 of at most 16352. May be empty.
    type Mfts: DerefMut<Target = [PortMask]>;
    /// Of any values; for each switch a 32nd of the number of multicast LIDs.
    type Unknown: DerefMut<Target = [u16]>;
    /// [`Told::new`] each: what traps tell between two looks of subnet administration. May be empty.
    type Notices: DerefMut<Target = [Told]>;
    /// [`Reply::new`] each: the largest number of answers that wait to be sent.
    type Replies: DerefMut<Target = [Reply]>;
    /// [`Slot::new`] each: the largest number of requests on their way. At least one.
    type Slots: DerefMut<Target = [Slot]>;
    /// The partitions, see [`Manager::set_partitions`].
    type Assignments: Deref<Target = [Assignment]>;
}

/// The storage that a subnet manager is made with.
#[allow(missing_docs, reason = "the types of the storage say it")]
pub struct Stock<S: Storage> {
    pub nodes: S::Nodes,
    pub ports: S::Ports,
    pub buckets: S::Buckets,
    pub order: S::Order,
    pub lids: S::Lids,
    pub lfts: S::Lfts,
    pub dirty: S::Dirty,
    /// The multicast tables as switches have them.
    pub mfts: S::Mfts,
    /// The multicast tables as they are to be: as large.
    pub mfts_due: S::Mfts,
    pub unknown: S::Unknown,
    pub notices: S::Notices,
    pub replies: S::Replies,
    pub slots: S::Slots,
}

/// How a subnet manager behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The GUID of the port that it is at.
    pub guid: Guid,
    /// 0 to 15: the higher one is the master.
    pub priority: u8,
    /// It yields to one of the same priority that is at a channel adapter, if it is itself on a switch.
    pub courteous: bool,
    /// One with more storage takes its place when it finds no room: till then it leaves the subnet as it is.
    pub gives_way: bool,
    /// The largest number of requests on their way: 1 to the number of [`Storage::Slots`].
    pub window: u8,
    /// Time to wait for an answer.
    pub timeout: Duration,
    /// How often a request is sent before it is given up: at least once.
    pub tries: u8,
    /// Time between light sweeps.
    pub light_sweep: Duration,
    /// Time between questions to the master, in STANDBY.
    pub poll: Duration,
    /// Time to the sweep after one that left something undone; it doubles up to `patience`.
    pub retry: Duration,
    /// The longest such time.
    pub patience: Duration,
    /// The subnet prefix.
    pub gid_prefix: u64,
    /// The M_Key of all nodes; 0 for none.
    pub mkey: u64,
    /// The service level of traps.
    pub sl: Sl,
}

impl Config {
    /// The behaviour that suits most subnets, for the port named `guid`.
    pub const fn new(guid: Guid) -> Self {
        Self {
            guid,
            priority: 0,
            courteous: true,
            gives_way: false,
            window: 16,
            timeout: Duration::from_millis(200),
            tries: 3,
            light_sweep: Duration::from_millis(10_000),
            poll: Duration::from_millis(1_000),
            retry: Duration::from_millis(1_000),
            patience: Duration::from_millis(64_000),
            gid_prefix: Gid::DEFAULT_PREFIX,
            mkey: 0,
            sl: Sl::new(0),
        }
    }

    fn next_patience(&self, last: Duration) -> Duration {
        let twice = last.nanos().saturating_mul(2);
        Duration::from_nanos(twice.min(self.patience.nanos()))
    }
}

/// A datagram to be sent to QP0.
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// The datagram. A directed route begins at the subnet manager's node: the hop pointer of a request is 0.
    pub mad: Mad,
    /// Its addresses; permissive ones for a directed route.
    pub lrh: Lrh,
}

/// What [`Manager::poll`] wants.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is a datagram, which is consumed at once"
)]
pub enum Next {
    /// To have this sent, and to be polled again.
    Send(Transmit),
    /// To be polled again: it has computed for a while, and others may want the lock.
    Again,
    /// To be polled at this time, or when a datagram has arrived.
    Wait(Option<Instant>),
}

/// What a subnet manager has done and met, for logs and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Heavy sweeps that are over.
    pub sweeps: u32,
    /// Requests sent, without repetitions.
    pub requests: u64,
    /// Requests sent again.
    pub repeats: u64,
    /// In the last sweep, or so far in the one that is under way: something did not answer, or refused what it was told.
    pub trouble: bool,
    /// In the last sweep: the storage was too small for the subnet, or for the LIDs that ports have, or there are no more
    /// LIDs.
    pub no_room: bool,
    /// In the last sweep: ports of channel adapters whose GUIDs another port has.
    pub duplicates: u32,
}

/// A subnet manager.
pub struct Manager<S: Storage> {
    config: Config,
    topology: Topology<S>,
    tables: Tables<S>,
    multicast: Multicast<S>,
    partitions: Partitions<S>,
    lids: Lids<S>,
    ranks: Ranks<S>,
    exchange: Exchange<S::Slots>,
    replies: Replies<S::Replies>,
    /// What traps have told, for subnet administration.
    notices: Notices<S::Notices>,
    /// Ports that the sweep has something to ask of.
    queue: Fifo,
    /// The same, where there is no way to them yet.
    deferred: Fifo,
    phase: Phase,
    /// The sweep has asked its own node.
    own_asked: bool,
    /// The number of switches that the last stage of the sweep has reached.
    staged: usize,
    /// Another heavy sweep is due after this one.
    again: bool,
    /// When the next heavy sweep begins.
    sweep_at: Option<Instant>,
    /// No sweep that somebody asks for begins before.
    respite: Instant,
    /// When the next light sweep begins.
    light_at: Option<Instant>,
    /// When the master is asked next, in STANDBY.
    poll_at: Option<Instant>,
    patience: Duration,
    ready: bool,
    state: SmState,
    /// It stands by for one that would yield to it.
    courtesy: bool,
    rivals: Rivals,
    /// The port of the master, in STANDBY.
    master: u32,
    /// The port of the one to hand over to.
    handover: u32,
    /// Somebody did not take the subnet over, though it was to.
    spurned: bool,
    /// The port of the one that has handed over.
    acknowledge: u32,
    misses: u8,
    act_count: u32,
    report: Report,
}

impl<S: Storage> Manager<S> {
    /// Makes a subnet manager that begins to look around when it is polled. `None` when the sizes of `stock` are not
    /// what [`Storage`] asks for.
    pub fn new(config: Config, stock: Stock<S>) -> Option<Self> {
        let lids = Lids::new(stock.lids)?;
        let tables = Tables::new(stock.lfts, stock.dirty, lids.capacity())?;
        let multicast = Multicast::new(stock.mfts, stock.mfts_due, stock.unknown, tables.rows())?;
        Some(Self {
            config,
            topology: Topology::new(stock.nodes, stock.ports, stock.buckets),
            tables,
            multicast,
            partitions: Partitions::new(),
            lids,
            ranks: Ranks::new(stock.order),
            exchange: Exchange::new(stock.slots, config.timeout, config.tries),
            replies: Replies::new(stock.replies),
            notices: Notices::new(stock.notices),
            queue: Fifo::EMPTY,
            deferred: Fifo::EMPTY,
            phase: Phase::Idle,
            own_asked: false,
            staged: 0,
            again: false,
            sweep_at: Some(Instant::from_nanos(0)),
            respite: Instant::from_nanos(0),
            light_at: None,
            poll_at: None,
            patience: config.retry,
            ready: false,
            state: SmState::Discovering,
            courtesy: false,
            rivals: Rivals::NONE,
            master: NONE,
            handover: NONE,
            spurned: false,
            acknowledge: NONE,
            misses: 0,
            act_count: 0,
            report: Report::default(),
        })
    }

    /// This one, which has not begun yet, takes the place of `old`: it knows which ports subnet administration has told to
    /// be in service.
    pub fn succeed(&mut self, old: &Self) {
        for index in 0..old.port_count() {
            let Some((node, port)) = old.port_at(index).filter(|(_, port)| port.served) else {
                continue;
            };
            let info = NodeInfo {
                local_port: port.number,
                ..node.info
            };
            let known = self.topology.admit(&info);
            if let Some(known) = known.ok().and_then(|known| self.topology.port_mut(known)) {
                known.guid = port.guid;
                known.served = true;
                known.returned = port.returned;
            }
        }
    }

    /// What the subnet manager does.
    pub const fn state(&self) -> SmState {
        self.state
    }

    /// Whether this is the master, and the last heavy sweep was a whole one.
    pub const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        let at_rest = self.phase == Phase::Idle && self.exchange.len() == 0;
        at_rest && self.sweep_at.is_none() && !(self.ready && self.multicast.pending)
    }

    /// What it has done and met.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// The LID of the subnet manager; [`Lid::NONE`] before it has given itself one.
    pub fn lid(&self) -> Lid {
        settings::own_lid(&self.topology)
    }

    /// The nodes that the last sweep has seen.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let nodes = (0..self.topology.node_count()).filter_map(|node| self.topology.node(node));
        nodes.filter(|node| self.topology.is_here(node))
    }

    /// The number of nodes that have a place in the storage, and that the last sweep has not seen.
    pub fn absent_nodes(&self) -> usize {
        let nodes = (0..self.topology.node_count()).filter_map(|node| self.topology.node(node));
        let absent = nodes.filter(|node| !self.topology.is_here(node));
        absent.fold(0, |count: usize, _| count.wrapping_add(1))
    }

    /// The ports that the last sweep has seen and that have LIDs, each with its node.
    pub fn end_ports(&self) -> impl Iterator<Item = (&Node, &Port)> {
        let ports = (0..self.topology.port_count()).filter_map(|port| self.topology.port(port));
        ports
            .filter(|port| self.topology.is_end_port(port))
            .filter_map(|port| Some((self.topology.node(port.node)?, port)))
    }

    /// Asks for a heavy sweep: the driver knows that something has changed. After another one it begins a little later,
    /// so that whoever asks again and again leaves time for others.
    pub fn request_sweep(&mut self, now: Instant) {
        match (self.state, self.phase) {
            (SmState::Standby | SmState::NotActive, _) => {}
            _ if self.phase.is_interruptible() => self.sweep_at = Some(now.max(self.respite)),
            _ => self.again = true,
        }
    }

    /// Nobody with more storage takes the place of this one: it manages what it has room for.
    pub fn make_do(&mut self, now: Instant) {
        if core::mem::take(&mut self.config.gives_way) {
            self.request_sweep(now);
        }
    }

    /// What to do next. To be called after every datagram that has arrived, and at the time that it has asked for.
    pub fn poll(&mut self, now: Instant) -> Next {
        if let Some(reply) = self.replies.pop() {
            return Next::Send(reply);
        }
        while let Some(due) = self.exchange.due(now) {
            match due {
                Due::Repeat(errand, tid) => {
                    if let Some(transmit) = self.compose(errand, tid) {
                        self.report.repeats = self.report.repeats.saturating_add(1);
                        return Next::Send(transmit);
                    }
                }
                Due::Lost(errand) => self.lost(errand, now),
            }
        }
        self.on_time(now);
        let window = usize::from(self.config.window)
            .min(self.exchange.capacity())
            .max(1);
        while self.exchange.len() < window {
            let Some(errand) = self.next_errand() else {
                break;
            };
            let Some(tid) = self.exchange.start(errand, now) else {
                break;
            };
            if let Some(transmit) = self.compose(errand, tid) {
                self.report.requests = self.report.requests.saturating_add(1);
                return Next::Send(transmit);
            }
            self.exchange.finish(tid);
            self.lost(errand, now);
        }
        if self.exchange.len() == 0 && self.phase != Phase::Idle {
            self.advance(now);
            return Next::Again;
        }
        Next::Wait(self.deadline())
    }

    /// Begins what is due at `now`.
    fn on_time(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if !self.phase.is_interruptible() {
            return;
        }
        if is_due(self.sweep_at) {
            self.sweep_at = None;
            self.begin_sweep();
        } else if self.phase == Phase::Idle && self.exchange.len() == 0 {
            match self.state {
                SmState::Master if self.ready && self.multicast.pending => {
                    self.phase = self.begin_multicast();
                }
                SmState::Master if is_due(self.light_at) => {
                    self.act_count = self.act_count.wrapping_add(1);
                    self.phase = Phase::Light(0);
                }
                SmState::Standby if is_due(self.poll_at) => self.ask_master(now),
                _ => {}
            }
        }
    }

    fn begin_sweep(&mut self) {
        self.act_count = self.act_count.wrapping_add(1);
        self.again = false;
        self.own_asked = false;
        self.staged = 0;
        self.report.trouble = false;
        self.report.no_room = false;
        self.report.duplicates = 0;
        self.partitions.begin();
        self.begin_discovery();
        self.phase = Phase::Discover;
    }

    /// When to be polled next.
    fn deadline(&self) -> Option<Instant> {
        let timer = match (self.phase, self.state) {
            (Phase::Idle, SmState::Master) => [self.sweep_at, self.light_at],
            (Phase::Idle, SmState::Standby) => [self.sweep_at, self.poll_at],
            (phase, _) if phase.is_interruptible() => [self.sweep_at, None],
            _ => [None, None],
        };
        let timers = timer.into_iter().flatten();
        timers.chain(self.exchange.next()).min()
    }

    const fn is_master(&self) -> bool {
        matches!(self.state, SmState::Master)
    }
}
