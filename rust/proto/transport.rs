// SPDX-License-Identifier: GPL-2.0

//! The transport of InfiniBand: queue pairs as machines without IO.
//!
//! A driver owns one [`Qp`] per queue pair, behind that queue pair's lock, and does four things with it:
//!
//! - It posts: [`Qp::post_send`] takes a [`SendWqe`]. Scatter and gather lists and inline data stay with the
//!   driver, which finds them again by the [`SendSlot`] that the call returns.
//! - It transmits: while [`Qp::poll_transmit`] returns a [`TxSegment`], the driver gathers the payload that the
//!   segment names and sends it, and executes what [`Qp::local_request`] names; then it calls
//!   [`Qp::transmitted`].
//! - It receives: [`Qp::on_packet`] gets each packet or segment with its headers. The payload stays with the
//!   driver; the machine has it placed through [`Env`]. What finds memory absent is kept by the driver
//!   ([`Qp::defer`]) and comes again.
//! - It waits: at [`Qp::next_deadline`] it calls [`Qp::on_timeout`].
//!
//! After each of these except the posting of receives, `poll_transmit` may have something new to say, and
//! `next_deadline` may have moved.
//!
//! A *segment* is a run of consecutive packets of one message that travels as one: a single packet on a wire,
//! any number of full ones (the last one of a message may be short) between two machines that share memory,
//! or where the network layer merges and splits. `span` counts its packets. Both machines take any span.
//!
//! Source: IBA volume 1, chapters "Software Transport Interface" and "Transport Layer".

pub mod config;
mod deferral;
pub mod env;
mod inbound;
pub mod migration;
mod probe;
pub mod qp;
pub mod qp_state;
mod requester;
mod responder;
pub mod segment;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod selftest;
mod send_queue;
mod ud;
pub mod wc;
pub mod wqe;

pub use config::{
    AccessFlags,
    GrhAv,
    PathAv,
    QpConfig, //
};
pub use env::{
    Access,
    AtomicOp,
    Env,
    InvalidateError,
    PlaceError,
    Placement,
    QpEvent,
    RemoteError,
    RemoteFault, //
};
pub use migration::{
    Alternate,
    MigState, //
};
pub use qp::{
    ModifyError,
    PostError,
    Qp,
    RxDrop,
    FLUSH_BATCH, //
};
pub use qp_state::{
    AttrMask,
    QpState,
    QpType, //
};
pub use requester::{
    Lapse,
    Progress, //
};
pub use responder::Resource;
pub use segment::{
    Payload,
    TxLimits,
    TxSegment, //
};
pub use wc::{
    Wc,
    WcOpcode,
    WcStatus, //
};
pub use wqe::{
    RecvSlot,
    RecvWqe,
    SendEntry,
    SendFlags,
    SendOp,
    SendSlot,
    SendWqe,
    UdDest, //
};
