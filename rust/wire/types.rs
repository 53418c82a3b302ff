// SPDX-License-Identifier: GPL-2.0

//! Numbers that the InfiniBand Architecture gives a name: one newtype each, so that a LID is never
//! taken for a P_Key.
//!
//! Every type is `Copy`, holds host byte order, and has `new` and `get`. Where the field is
//! narrower than the integer, `new` keeps the low bits, as putting the number on the wire would.

mod gid;
mod key;
mod lid;
mod mtu;
mod psn;
mod qpn;
mod rate;

pub use gid::{
    Gid,
    Guid, //
};
pub use key::{
    Key,
    PKey,
    QKey, //
};
pub use lid::{
    Lid,
    PortNum,
    Sl,
    Vl, //
};
pub use mtu::Mtu;
pub use psn::Psn;
pub use qpn::Qpn;
pub use rate::Rate;
