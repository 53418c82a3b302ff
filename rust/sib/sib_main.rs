// SPDX-License-Identifier: GPL-2.0

//! Soft InfiniBand: an emulated InfiniBand host channel adapter over any network device.
//!
//! The crate ties the machines of `proto` to ib_core by way of `rdma`: it locks, calls a machine, unlocks, and
//! does the IO that the machine asks for. There is no protocol in here and, but for the declaration of the
//! module, no `unsafe` code.
//!
//! - [`link`] makes and removes devices, [`registry`] knows the fabrics that they are on, [`driver`] is what ib_core
//!   calls, [`hca`] what a device is.
//! - [`fabric`] is the switch between the devices of one underlay, [`config`] and [`peers`] its cables to others;
//!   [`rail`] is a port that has been moved to another one, [`membership`] says which ports may talk.
//! - [`counters`] are those of `rdma statistic`.
//! - [`debug`] is what developers see in debugfs.
//! - [`mad`], [`query`] and [`events`] connect the management agents of a device to ib_core.
//! - [`qp`], [`cq`], [`srq`], [`pd`], [`mr`], [`mw`], [`ah`] and [`mcast`] are the objects of verbs; [`keys`] has what
//!   L_Keys and R_Keys name, and [`payload`], [`run`] and [`rx`] move data.
//! - [`pace`], [`convoy`], [`relief`] and [`steering`] decide when what is posted leaves, and which processor sends it.

#![deny(unsafe_code)]

mod ah;
mod breaks;
mod config;
mod convoy;
mod counters;
mod cq;
mod debug;
mod driver;
mod events;
mod fabric;
mod guid;
mod hca;
mod kept;
mod keys;
mod link;
mod mad;
mod mcast;
mod membership;
mod mr;
mod mw;
mod pace;
mod params;
mod partition;
mod payload;
mod pd;
mod peers;
mod qp;
mod query;
mod quota;
mod rail;
mod registry;
mod relief;
mod run;
mod rx;
mod srq;
mod steering;
mod table;
mod wc;

use config::Cables;
use driver::Sib;
use kernel::configfs::Subsystem;
use kernel::prelude::*;
use membership::Partitions;
use peers::Peers;
use rdma::ib;
use rdma::module::{
    self,
    Glue,
    Module, //
};
use rdma::net::Notifier;
use rdma::sync::{
    prime,
    Cx,
    Sleepable,
    Unlocked, //
};
use registry::{
    Registry,
    Watcher, //
};

module! {
    type: SibModule,
    name: "sib",
    authors: ["The sib authors"],
    description: "Soft InfiniBand: an emulated host channel adapter",
    license: "GPL",
    alias: ["rdma-link-sib"],
    params: {
        ports: u8 {
            default: 2,
            description: "Ports of each new HCA, 1 to 8",
        },
        switch_ports: u8 {
            default: 36,
            description: "Ports of each new switch, 8 to 250",
        },
        force_udp: u8 {
            default: 0,
            description: "1: packets travel over UDP even between HCAs of one switch",
        },
        sm: u8 {
            default: 1,
            description: "1: each switch has a subnet manager, which yields to others",
        },
        beacons: u8 {
            default: 1,
            description: "1: switches find each other on their layer 2, and are cabled",
        },
        apm_follow: u8 {
            default: 1,
            description: "0: a peer that migrates before this end is armed is not followed, as the IBA has it",
        },
        apm_pardon: u8 {
            default: 1,
            description: "0: a packet from before the alternate path is a failed migration, as the IBA has it",
        },
        apm_probe: u8 {
            default: 1,
            description: "0: connections without traffic are not armed, as the IBA has it",
        },
        bundles: u8 {
            default: 1,
            description: "0: each packet has a UDP datagram of its own",
        },
        udp_port: u16 {
            default: 61515,
            description: "UDP port of the cables between hosts",
        },
    },
}

/// For what outside of this crate needs to know whose code it calls.
static MODULE: ThisModule = rdma::this_module!();

/// Gives [`Loaded`] its tokens.
struct SibModule {
    _inner: Glue<Loaded>,
}

impl kernel::Module for SibModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _inner: kernel::Module::init(module)?,
        })
    }
}

/// What management programs, and verbs, need, which udev loads for devices on a PCI bus. Not soft dependencies:
/// `modprobe -r` removes those as well, or fails if they are in use.
const COMPANIONS: [&CStr; 2] = [c"ib_umad", c"ib_uverbs"];

/// The loaded module.
struct Loaded {
    link: Option<ib::Registration<Sib>>,
    watcher: Option<Notifier<Watcher>>,
    config: Option<Pin<KBox<Subsystem<Cables>>>>,
    partitions: Option<Pin<KBox<Subsystem<Partitions>>>>,
    /// What is written to their files until they are gone is to be forgotten, too: an open file does not keep the module.
    _registry: Registry,
}

impl Module for Loaded {
    fn init(
        module: &'static ThisModule,
        mut cx: Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
    ) -> Result<Self> {
        params::check()?;
        prime(cx.reborrow());
        // SAFETY: Modules are loaded once, and nothing of this one has run before.
        #[allow(unsafe_code, reason = "module glue")]
        let registry = unsafe { Registry::new() };
        let watcher = Watcher::new(Peers::new(sleepable)?);
        let watcher = Notifier::register(watcher, &mut cx, sleepable)?;
        let config = config::register(sleepable)?;
        let partitions = membership::register(sleepable)?;
        // The last to fail: HCAs that there were already would go after what they use.
        let link = ib::Registration::new(module, sleepable)?;
        let loaded = Self {
            link: Some(link),
            watcher: Some(watcher),
            config: Some(config),
            partitions: Some(partitions),
            _registry: registry,
        };
        // Nothing fails from now on, so what this begins is ended.
        if let Some(watcher) = &loaded.watcher {
            watcher.target().peers().begin();
        }
        for name in COMPANIONS {
            module::request(sleepable, name);
        }
        Ok(loaded)
    }

    fn exit(&mut self, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        if let Some(watcher) = &self.watcher {
            watcher.target().peers().end(&mut cx, sleepable);
        }
        // First the devices, then what they use.
        drop(self.link.take());
        drop(self.watcher.take());
        drop(self.config.take());
        drop(self.partitions.take());
    }
}
