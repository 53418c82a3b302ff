// SPDX-License-Identifier: GPL-2.0

//! Subnet administration (IBA chapter "Subnet Administration").
//!
//! It answers what ports ask of their subnet, keeps multicast groups and who is in them, services, and
//! who wants to be told what. It belongs to a subnet manager ([`crate::sm::Manager`]), at the same port, and serves
//! as long as that one is the master. It sends nothing itself: a driver hands it what arrives at QP1
//! ([`Agent::on_gmp`]), and asks it what to send ([`Agent::poll`]).
//!
//! Requests wait while the subnet manager looks around, and are answered in the order of their arrival from what it has
//! found. A table is put together in pieces, and leaves in segments.
//!
//! - [`inbox`]: requests that wait. [`serve`]: what becomes of them. [`component`]: component masks. [`access`]: who may
//!   learn and change what.
//! - [`path`], [`records`]: what is known of the subnet. [`join`]: multicast groups, kept in [`groups`]; [`mgid`]: what they are called.
//! - [`service`]: services. [`inform`]: who is to be told; [`report`]: what is to be told.
//! - [`transfer`]: tables on their way. [`refresh`]: what follows from a sweep.
//!
//! Attributes that are not named above are refused.

mod access;
mod component;
mod groups;
mod inbox;
mod inform;
mod join;
mod mgid;
mod path;
mod records;
mod refresh;
mod report;
mod serve;
mod service;
mod transfer;

pub use groups::{
    Group,
    Member, //
};
pub use inbox::Request;
pub use inform::Subscription;
pub use report::Pending;
pub use service::Service;
pub use transfer::Transfer;

use self::groups::Groups;
use self::inbox::Inbox;
use self::inform::Subscriptions;
use self::report::Reports;
use self::serve::Job;
use self::service::Services;
use self::transfer::Transfers;
use crate::fabric::Mad;
use crate::sm::{
    self,
    Manager, //
};
use crate::time::{
    Duration,
    Instant, //
};
use core::ops::DerefMut;
use wire::mad::smp::SmState;
use wire::{
    Gid,
    Lid,
    PKey,
    Qpn,
    Sl, //
};

/// Where subnet administration keeps what is large: the driver lends it.
pub trait Storage {
    /// [`Group::new`] each; one for each multicast LID. Two for each partition are in use from the start.
    type Groups: DerefMut<Target = [Group]>;
    /// [`Member::new`] each; one for each port in each group.
    type Members: DerefMut<Target = [Member]>;
    /// [`Service::new`] each.
    type Services: DerefMut<Target = [Service]>;
    /// [`Subscription::new`] each.
    type Subscriptions: DerefMut<Target = [Subscription]>;
    /// [`Pending::new`] each: what one event takes is one for each subscription.
    type Reports: DerefMut<Target = [Pending]>;
    /// [`Request::new`] each: the largest number of requests that wait.
    type Requests: DerefMut<Target = [Request]>;
    /// [`Transfer::new`] each: the largest number of tables that are on their way.
    type Transfers: DerefMut<Target = [Transfer]>;
    /// Of any values: the bytes of all tables that are on their way.
    type Tables: DerefMut<Target = [u8]>;
}

/// The storage that subnet administration is made with.
#[allow(missing_docs, reason = "the types of the storage say it")]
pub struct Stock<S: Storage> {
    pub groups: S::Groups,
    pub members: S::Members,
    pub services: S::Services,
    pub subscriptions: S::Subscriptions,
    pub reports: S::Reports,
    pub requests: S::Requests,
    pub transfers: S::Transfers,
    pub tables: S::Tables,
}

/// How subnet administration behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The key that a trusted requester knows; 0: none is trusted.
    pub sm_key: u64,
    /// PacketLifeTime of paths and groups, as an exponent of 4.096 us (5 bits). What reliable connections take for a
    /// lost packet is about four times as long.
    pub packet_life_time: u8,
    /// Time to answer, as an exponent of 4.096 us (5 bits), that is told.
    pub resp_time: u8,
    /// Time to wait for the acknowledgement of a segment or a report.
    pub timeout: Duration,
    /// How often either is sent before it is given up: at least once.
    pub tries: u8,
}

impl Config {
    /// The behaviour that suits most subnets: stock tools know the key.
    pub const fn new() -> Self {
        Self {
            sm_key: 1,
            packet_life_time: 16,
            resp_time: 18,
            timeout: Duration::from_millis(500),
            tries: 6,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// A queue pair of somebody else, and how to reach it from the port of subnet administration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The LID of its port: the source of a request.
    pub lid: Lid,
    /// Its number.
    pub qpn: Qpn,
    /// Its service level.
    pub sl: Sl,
    /// The P_Key of the packets.
    pub pkey: PKey,
    /// The GID of its port, where packets have a GRH.
    pub gid: Option<Gid>,
}

impl Address {
    /// Nobody's.
    const NONE: Self = Self {
        lid: Lid::NONE,
        qpn: Qpn::SMI,
        sl: Sl::new(0),
        pkey: PKey::INVALID,
        gid: None,
    };

    /// Whether both are the same queue pair.
    fn is_same(&self, other: &Self) -> bool {
        (self.lid, self.qpn) == (other.lid, other.qpn)
    }
}

/// A datagram to be sent from QP1, with the Q_Key of QP1.
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// The datagram.
    pub mad: Mad,
    /// Where to.
    pub to: Address,
}

/// What [`Agent::poll`] wants.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is a datagram, which is consumed at once"
)]
pub enum Next {
    /// To have this sent, and to be polled again.
    Send(Transmit),
    /// To have the subnet manager polled, as it may have tables to write, and to be polled again.
    Again,
    /// To be polled at this time, when a datagram has arrived, or when the subnet manager was polled.
    Wait(Option<Instant>),
}

/// What subnet administration has done and met, for logs and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that were answered.
    pub requests: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// Requests that found no room to wait; who sent them asks again.
    pub dropped: u64,
    /// Reports and tables that were given up.
    pub given_up: u64,
    /// Events that some subscribers were not told, as there was no room.
    pub untold: u64,
}

/// Subnet administration.
pub struct Agent<S: Storage> {
    config: Config,
    inbox: Inbox<S>,
    job: Job,
    groups: Groups<S>,
    services: Services<S>,
    subscriptions: Subscriptions<S>,
    reports: Reports<S>,
    transfers: Transfers<S>,
    /// The heavy sweep that is known here.
    generation: u32,
    /// There is something to forget when another one is the master.
    serving: bool,
    report: Report,
}

impl<S: Storage> Agent<S> {
    /// Makes subnet administration, which knows nothing yet.
    pub fn new(config: Config, stock: Stock<S>) -> Self {
        Self {
            config,
            inbox: Inbox::new(stock.requests),
            job: Job::NONE,
            groups: Groups::new(stock.groups, stock.members),
            services: Services::new(stock.services),
            subscriptions: Subscriptions::new(stock.subscriptions),
            reports: Reports::new(stock.reports, config.timeout, config.tries),
            transfers: Transfers::new(stock.transfers, stock.tables, config.timeout, config.tries),
            generation: 0,
            serving: false,
            report: Report::default(),
        }
    }

    /// What it has done and met.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// The multicast groups.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    /// The members of the group with a multicast LID.
    pub fn members(&self, mlid: Lid) -> impl Iterator<Item = &Member> {
        self.groups.members_of(mlid)
    }

    /// What to do next. To be called after every datagram that has arrived, at the time that it has asked for, and whenever
    /// the subnet manager, which was polled before, wants to wait or to be polled again.
    pub fn poll<M: sm::Storage>(&mut self, manager: &mut Manager<M>, now: Instant) -> Next {
        if matches!(manager.state(), SmState::Standby | SmState::NotActive) {
            self.resign(manager);
            return Next::Wait(None);
        }
        self.serving = true;
        if let Some(transmit) = self.transfers.poll(now, &mut self.report) {
            return Next::Send(transmit);
        }
        let subscriptions = &mut self.subscriptions;
        if let Some(transmit) = self.reports.poll(now, subscriptions, &mut self.report) {
            return Next::Send(transmit);
        }
        // What is due at a time is done at that time, whatever the subnet manager does.
        self.services.expire(now);
        if !manager.is_steady() {
            return Next::Wait(self.deadline());
        }
        if self.generation != manager.generation() {
            self.generation = manager.generation();
            self.job = Job::NONE;
            self.refresh(manager, now);
            return Next::Again;
        }
        if self.tell_notice(manager) {
            return Next::Again;
        }
        if manager.may_plant() {
            if let Some(column) = self.groups.take_stale() {
                manager.plant(column, self.groups.leaves(column));
                return Next::Again;
            }
        }
        self.serve(manager, now)
            .unwrap_or_else(|| Next::Wait(self.deadline()))
    }

    /// The subnet manager is another one of the same subnet from now on: one with more storage. What ports have asked for is
    /// kept.
    pub fn renew(&mut self) {
        self.generation = 0;
        self.job = Job::NONE;
    }

    /// When to be polled next.
    fn deadline(&self) -> Option<Instant> {
        let timers = [
            self.transfers.deadline(),
            self.reports.deadline(),
            self.services.deadline(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Another one is the master: who wants something here will tell it that one.
    fn resign<M: sm::Storage>(&mut self, manager: &mut Manager<M>) {
        self.inbox.clear();
        if !core::mem::take(&mut self.serving) {
            return;
        }
        self.job = Job::NONE;
        self.groups.clear();
        self.services.clear();
        self.subscriptions.clear();
        self.reports.clear();
        self.transfers.clear();
        self.generation = 0;
        manager.fell_all();
    }
}
