// SPDX-License-Identifier: GPL-2.0

//! Packet and management datagram formats of InfiniBand, and the outer header that carries them
//! over UDP.
//!
//! The crate is pure: it allocates nothing, holds no state, and no input makes it panic. It reads
//! and writes byte slices that the caller owns, so every function may be called in any context.
//!
//! Each header has a file with two layers: a private on-wire structure (big-endian, checked by
//! `zerocopy`) and a public plain value with `parse` and `emit`. [`header::Header`] puts them
//! together for a packet, [`packet::Packet`] adds the payload, [`icrc::Icrc`] the checksum. [`mad`]
//! has the management datagrams and [`outer`] what is not the IBA's: the header between UDP and the
//! packet.
//!
//! Source: InfiniBand Architecture Specification (IBA), volume 1, release 1.4 and its annexes.

#![cfg_attr(not(CONFIG_RUST), no_std)]
#![forbid(unsafe_code)]

pub mod aeth;
pub mod atomic;
pub mod bth;
mod codec;
pub mod deth;
pub mod error;
pub mod feth;
pub mod grh;
pub mod header;
pub mod icrc;
pub mod ieth;
pub mod imm;
pub mod lrh;
pub mod mad;
pub mod opcode;
pub mod outer;
pub mod packet;
pub mod reth;
pub mod timer;
pub mod types;

pub use error::WireError;
pub use types::*;
