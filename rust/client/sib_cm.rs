// SPDX-License-Identifier: GPL-2.0

//! Connections of `sib_cm.ko`, for modules in Rust.
//!
//! C header: `include/rdma/sib_cm.h`, whose functions this crate calls. It is a part of each module that uses it, as
//! modules share no crates: `Documentation/cm.rst` says how such a module is compiled. Names are those of the header
//! and of the IBA, "Communication Management": a [`CmId`] is a `cm_id`, which listens at a *service ID* or is one end of
//! a connection; messages carry *private data* of the consumers.
//!
//! - [`Client`] is how a module learns of HCAs ([`Device`]), and lets go of them.
//! - [`CmId`] is an identifier that a module owns. Its [`Handler`] is told of [`Event`]s, and whether a peer asks for
//!   something ([`Newcomer`]). Orders are methods of [`Id`], with [`Req`], [`Rep`], [`Lap`] and others as parameters.
//! - [`Qp`] is a queue pair of the module, which is set as the connection says.
//!
//! LIDs and service IDs are in the order of the host, GIDs as on the wire. Times are codes: 4.096 us * 2^code. All that
//! is here needs a task that may sleep.
//!
//! # Examples
//!
//! A service that greets whoever connects to it, and takes each path that is offered:
//!
//! ```ignore
//! struct Greeter {
//!     connections: Mutex<KVec<(CmId<Greeter>, Queues)>>,
//! }
//!
//! impl Handler for Greeter {
//!     fn req(this: ArcBorrow<'_, Self>, newcomer: Newcomer<'_, Self>, req: &ReqReceived<'_>) {
//!         if !req.private_data.starts_with(b"hello") {
//!             // Whoever is not kept is refused; this tells why.
//!             let why = Rej { private_data: b"say hello", ..Rej::new(reason::CONSUMER) };
//!             let _ = newcomer.send_rej(&why);
//!             return;
//!         }
//!         let Ok(mut queues) = Queues::new() else { return };
//!         if this.accept(&newcomer, &mut queues.qp(), req).is_ok() {
//!             let mut connections = this.connections.lock();
//!             // What is kept must not be dropped by a handler, so there is room for it first.
//!             if connections.reserve(1, GFP_KERNEL).is_ok() {
//!                 let kept = (newcomer.keep(this.into()), queues);
//!                 let _ = connections.push_within_capacity(kept);
//!             }
//!         }
//!     }
//!
//!     fn event(this: ArcBorrow<'_, Self>, id: &Id, event: Event<'_>) {
//!         match event {
//!             Event::LapReceived { generation, .. } => {
//!                 let loaded = this.with_qp(id, |qp| id.load(qp));
//!                 let status = if loaded.is_ok() { ap_status::LOADED } else { ap_status::REJECTED };
//!                 let _ = id.send_apr(&Apr::new(generation, status));
//!             }
//!             Event::DreqReceived { .. } => drop(id.send_drep(&[])),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! impl Greeter {
//!     fn accept(&self, id: &Id, qp: &mut Qp<'_>, req: &ReqReceived<'_>) -> Result {
//!         id.modify_qp(qp, QpState::Init)?;
//!         id.modify_qp(qp, QpState::Rtr)?;
//!         id.send_rep(&Rep { private_data: b"welcome", ..Rep::new(qp.number(), PSN) })?;
//!         id.modify_qp(qp, QpState::Rts)
//!     }
//!
//!     /// Modifies the queue pair of a connection. Nobody else does meanwhile.
//!     fn with_qp(&self, id: &Id, f: impl FnOnce(&mut Qp<'_>) -> Result) -> Result {
//!         let mut connections = self.connections.lock();
//!         let mut all = connections.iter_mut();
//!         let (_, queues) = all.find(|(own, _)| own.is(id)).ok_or(ENOENT)?;
//!         f(&mut queues.qp())
//!     }
//! }
//!
//! // `device` from `Client::add`:
//! let listener = CmId::new(device, greeter)?;
//! listener.listen(SERVICE_ID, Kind::Connections)?;
//! ```
//!
//! And the other side:
//!
//! ```ignore
//! let id = CmId::new(device, caller)?;
//! let path = Path::new(device.address(1)?, peer);
//! id.send_req(&Req { private_data: b"hello", ..Req::new(SERVICE_ID, qp.number(), path) })?;
//! // Event::RepReceived: modify_qp to INIT, RTR and RTS; then
//! id.send_rtu(&[])?;
//! ```
//!
//! `tests/kernel/cmrust_main.rs` is a whole module.

mod device;
#[path = "../rdma/errno.rs"]
pub mod errno;
mod event;
mod id;
mod order;
mod path;
mod qp;

pub use device::{
    Client,
    Device,
    Registration, //
};
pub use event::{
    Event,
    ReqReceived,
    SidrReqReceived, //
};
pub use id::{
    CmId,
    Handler,
    Id,
    Newcomer, //
};
pub use order::{
    ap_status,
    reason,
    Apr,
    Fact,
    Failover,
    Kind,
    Lap,
    Mra,
    Mtu,
    Rej,
    Rep,
    Req,
    ServiceType,
    SidrRep,
    SidrReq,
    SidrStatus,
    State,
    Status, //
};
pub use path::{
    Address,
    Path, //
};
pub use qp::{
    Qp,
    QpState, //
};

/// Structures of the kernel that this crate is given pointers to.
pub mod raw {
    pub use sib_bindings::{
        ib_device,
        ib_qp, //
    };
}
