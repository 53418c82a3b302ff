// SPDX-License-Identifier: GPL-2.0

//! A connection manager for alternate paths, beside that of the kernel.
//!
//! Both see the datagrams that come to the devices of sib: this one first. What it leaves goes on to ib_cm, so that
//! programs which know nothing of it work as ever.

#![deny(unsafe_code)]

mod debug;
mod manager;

use kernel::prelude::*;
use kernel::sync::Arc;
use manager::{
    Shared,
    Tally, //
};
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

module! {
    type: SibCmModule,
    name: "sib_cm",
    authors: ["The sib authors"],
    description: "Connection manager of sib, for alternate paths",
    license: "GPL",
}

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
    manager: Option<Registration<Shared>>,
    _files: debug::Files,
}

impl Module for Loaded {
    fn init(
        _module: &'static ThisModule,
        mut cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
    ) -> Result<Self> {
        let tally = Arc::new(Tally::new(), GFP_KERNEL)?;
        let files = debug::Files::new(tally.clone())?;
        let shared = Shared::new(tally);
        Ok(Self {
            manager: Some(Registration::new(c"sib_cm", shared, &mut cx, s)?),
            _files: files,
        })
    }

    fn exit(&mut self, _cx: Cx<'_, Unlocked>, _s: Sleepable<'_>) {
        drop(self.manager.take());
    }
}
