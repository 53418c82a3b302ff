// SPDX-License-Identifier: GPL-2.0

//! Packets, UDP sockets and underlay devices.
//!
//! A [`UdpSocket`] hands every datagram to its [`Receive`] in softirqs, one at a time: where it arrives, unless another
//! processor is at those before it, or more are expected at once. It sends packets from any context with interrupts on,
//! without sleeping. Addresses are those of [`core::net`].

mod addr;
mod backlog;
mod crc;
mod device;
mod lane;
mod notifier;
mod path;
mod skb;
mod socket;

pub use crc::crc32_le;
pub use device::{
    DeviceName,
    NetDevice, //
};
pub use notifier::{
    DeviceEvent,
    Notifier,
    Notify, //
};
pub use path::Path;
pub use skb::{
    Packet,
    Received,
    Skb,
    SkbPool,
    Tail, //
};
pub use socket::{
    Arrivals,
    Ends,
    Receive,
    UdpSocket,
    Version, //
};
