// SPDX-License-Identifier: GPL-2.0

//! A connection manager of another module, beside that of the kernel.
//!
//! There is at most one. It implements [`Manager`] and keeps a [`Registration`] while it is loaded. It learns
//! of the devices of this driver, as any client of ib_core does, is offered the datagrams of communication
//! management before ib_cm is, and sends its own.
//!
//! # Examples
//!
//! ```ignore
//! struct Listener;
//!
//! impl Manager for Listener {
//!     type Device = Adapter;
//!
//!     fn claims(&self, _: &[u8]) -> bool {
//!         false
//!     }
//!
//!     fn add(&self, _: Cx<'_, Unlocked>, _: Sleepable<'_>, adapter: Adapter) -> Result<Adapter> {
//!         Ok(adapter)
//!     }
//!
//!     fn receive(&self, _: Cx<'_, Unlocked>, _: Sleepable<'_>, _: &Adapter, mad: &Mad<'_>) -> Verdict {
//!         if for_us(mad) { Verdict::Consumed } else { Verdict::Pass }
//!     }
//!
//!     fn qp_event(
//!         &self,
//!         _: Cx<'_, Unlocked>,
//!         _: Sleepable<'_>,
//!         _: &Adapter,
//!         _: u32,
//!         _: QpEvent,
//!     ) -> Verdict {
//!         Verdict::Pass
//!     }
//!
//!     fn sent(&self, _: Cx<'_, Unlocked>, _: &Adapter, _: &Sent<'_>) {}
//!
//!     fn remove(&self, _: Cx<'_, Unlocked>, _: Sleepable<'_>, _: &Adapter) {}
//! }
//! ```

mod adapter;
mod agent;
pub mod api;
mod client;
mod hook;
mod paths;

pub use adapter::{
    Adapter,
    PortNames, //
};
pub use agent::{
    Global,
    Way,
    CLASS_VERSION, //
};
pub use client::{
    Manager,
    Registration, //
};
pub use hook::{
    claims,
    listen,
    QpEvent,
    Sent,
    Verdict, //
};
pub(crate) use hook::{
    is_listening,
    offer,
    qp_event,
    sent, //
};
pub(crate) use paths::serve;
pub use paths::{
    PathCount,
    PathState,
    QpPeer, //
};
