// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions for a software RDMA device that the `kernel` crate lacks.
//!
//! All `unsafe` code of both modules is in this crate; nothing else in them names the raw bindings. What a caller may
//! do where is told by the tokens of [`sync`].

pub mod call;
pub mod chardev;
pub mod cm;
pub mod configfs;
pub mod debugfs;
pub mod errno;
pub mod ib;
mod layout;
pub mod mac;
pub mod mem;
pub mod module;
pub mod net;
pub mod random;
pub mod ring;
mod sealed;
pub mod sync;
pub mod time;
pub mod timer;
pub mod trace;
pub mod work;

/// What the `pr_*!` macros put in front of a message.
const __LOG_PREFIX: &[u8] = b"sib\0";
