// SPDX-License-Identifier: GPL-2.0

//! A connection manager for alternate paths, beside that of the kernel.
//!
//! Both see the datagrams that come to the devices of sib: this one first. What it leaves goes on to ib_cm, so that
//! programs which know nothing of it work as ever.
//!
//! - [`manager`] is what the driver asks of it, [`device`] the HCAs that it is told of.
//! - [`tables`] has its listeners, connections and questions; [`connection`] is one of the second, [`question`] one
//!   for the queue pair of a service.
//! - [`consumer`] is whom these belong to: [`session`] an open file of `/dev/sib_cm`, [`client`] another module of the
//!   kernel. [`commands`] are the orders of both, [`events`] what they are told and [`mailbox`] where that waits,
//!   [`abi`] how they see all of that.
//! - [`watch`] gives connections of ib_cm alternate paths.
//! - [`policy`] is what the administrator wants of each HCA, in configfs ([`config`]) or by [`params`].
//! - [`debug`] is what developers see in debugfs.

#![deny(unsafe_code)]

mod abi;
mod bound;
mod client;
mod commands;
mod config;
mod connection;
mod consumer;
mod debug;
mod device;
mod events;
mod mailbox;
mod manager;
mod params;
mod policy;
mod question;
mod session;
mod tables;
mod watch;

use client::Client;
use config::Hcas;
use kernel::configfs::Subsystem;
use kernel::prelude::*;
use kernel::sync::Arc;
use manager::Desk;
use rdma::chardev;
use rdma::cm::api::Service;
use rdma::cm::Registration;
use rdma::module::{
    Glue,
    Module, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use session::Session;
use tables::Shared;

module! {
    type: SibCmModule,
    name: "sib_cm",
    authors: ["The sib authors"],
    description: "Connection manager of sib, for alternate paths",
    license: "GPL",
    params: {
        dedicated: u8 {
            default: 0,
            description: "1: ib_cm is kept off HCAs that are made from now on",
        },
        watch: u8 {
            default: 0,
            description: "Alternate paths for connections of ib_cm: 0 none, 1 those that peers offer, 2 offered too",
        },
        watch_events: u8 {
            default: 0,
            description: "1: owners of queue pairs are told of migrations of such connections",
        },
    },
}

/// For what outside of this crate needs to know whose code it calls.
static MODULE: ThisModule = rdma::this_module!();

/// Gives [`Loaded`] its tokens.
struct SibCmModule {
    _inner: Glue<Loaded>,
}

impl kernel::Module for SibCmModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _inner: kernel::Module::init(module)?,
        })
    }
}

/// The loaded module.
struct Loaded {
    shared: Arc<Shared>,
    manager: Option<Registration<Desk>>,
    device: Option<chardev::Device<Session>>,
    service: Option<Service<Client>>,
    files: Option<debug::Files>,
    config: Option<Pin<KBox<Subsystem<Hcas>>>>,
}

impl Module for Loaded {
    fn init(
        _module: &'static ThisModule,
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
    ) -> Result<Self> {
        params::check()?;
        let mut this = Self {
            shared: Shared::new(s)?,
            manager: None,
            device: None,
            service: None,
            files: None,
            config: None,
        };
        if let Err(err) = this.start(&mut cx, s) {
            this.exit(cx, s);
            return Err(err);
        }
        Ok(this)
    }

    fn exit(&mut self, mut cx: Cx<'_, Unlocked>, s: Sleepable<'_>) {
        // No file is open and no client loaded, as they would have kept the module, and no datagram comes when the
        // manager is gone. What is left are connections whose programs have ended, and references to them in what their
        // clocks have queued.
        drop(self.config.take());
        drop(self.service.take());
        drop(self.device.take());
        drop(self.manager.take());
        drop(self.files.take());
        self.shared.clients().flush(&mut cx, s);
        while let Some(connection) = self.shared.any_on(None) {
            connection.abandon(&mut cx, s);
        }
        while let Some(question) = self.shared.any_question_on(None) {
            question.abandon(&mut cx, s);
        }
        self.shared.watch.end(&mut cx, s);
        self.shared.queue().flush(&mut cx, s);
    }
}

impl Loaded {
    /// Has all the rest know of the manager. If that fails, what has been done is to be undone by [`Module::exit`].
    fn start(&mut self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) -> Result {
        let shared = &self.shared;
        shared.watch.begin()?;
        self.files = Some(debug::Files::new(shared.clone())?);
        let desk = Desk(shared.clone());
        self.manager = Some(Registration::new(c"sib_cm", desk, cx, s)?);
        self.service = Some(Service::new(shared.clone())?);
        self.config = Some(config::register(shared.clone())?);
        self.device = Some(chardev::Device::new(c"sib_cm", shared.clone())?);
        Ok(())
    }
}
