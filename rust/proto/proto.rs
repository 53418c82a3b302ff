// SPDX-License-Identifier: GPL-2.0

//! The protocol machines, without IO: each takes packets, work and the time, and says what to send, complete
//! and report. Nothing here allocates, sleeps, locks or panics; every function may be called in any context.
//!
//! - [`transport`]: queue pairs, from work requests to packets and back.
//! - [`cm`]: the connection manager.
//! - [`fabric`]: the switch and the management agents of switches and channel adapters.
//! - [`sm`]: the subnet manager.
//! - [`sa`]: subnet administration.
//! - [`capture`]: captured packets, on their way to a reader.
//! - [`fault`]: what a port does to packets on purpose.
//! - [`ratelimit`]: how often something is told.

#![cfg_attr(not(CONFIG_RUST), no_std)]
#![forbid(unsafe_code)]

pub mod capture;
pub mod cm;
pub mod fabric;
pub mod fault;
pub mod ratelimit;
pub mod sa;
pub mod sm;
pub mod time;
pub mod transport;
