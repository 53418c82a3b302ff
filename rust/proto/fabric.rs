// SPDX-License-Identifier: GPL-2.0

//! The fabric: switch, subnet management agents (SMA), performance management agents (PMA), ports.
//!
//! What lives here answers management datagrams and forwards packets as the IBA has it; it sends nothing,
//! waits for nothing and knows no socket. A driver gives it datagrams, link changes and the time, and does
//! what the returned values say. Nothing in here allocates or panics, and every function may be called with
//! spinlocks held.
//!
//! - [`port`]: the state of one port, of a channel adapter or of a switch, behind PortInfo.
//! - [`link`]: the physical half of that: training, width, speed, link states.
//! - [`sma`]: the channel adapter as a managed node: [`sma::Hca`].
//! - [`switch`]: the switch: [`switch::Switch`].
//! - [`counters`]: what a port counts; both kinds of nodes answer for it to performance management.
//! - [`tables`]: P_Keys, GUIDs, SL to VL, VL arbitration.
//! - [`trap`]: notices to the subnet manager.
//! - [`mod@line`]: one end of a cable between two hosts.
//!
//! # How a driver ties two ports together
//!
//! A cable is two ports that the driver knows to be joined. Whenever one side may have changed, it asks both
//! for their [`link::Phy`] (`None`: this side does not want a link) and, when both have one, calls `link_up`
//! on each with the other's; when a side reports [`link::LinkAction::Retrain`] or
//! [`link::LinkAction::Drop`], it calls `link_down` on the other and begins again.

mod agent;
pub mod counters;
pub mod line;
pub mod link;
mod mkey;
mod pma;
pub mod port;
pub mod sma;
pub mod switch;
pub mod tables;
pub mod trap;

/// A management datagram: 256 bytes, network order.
pub type Mad = [u8; 256];
