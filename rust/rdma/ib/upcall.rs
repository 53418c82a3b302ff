// SPDX-License-Identifier: GPL-2.0

//! Calls of the driver to the clients of ib_core.
//!
//! Each object has a handle for its upcalls, which the driver clones and keeps wherever it likes, and drops
//! in any context. From the destruction of the object on the handle does nothing; the destruction waits for
//! the calls that are under way.
//!
//! The handlers of clients may take locks that the clients also hold when they call the driver. So an upcall
//! is never made from within such a call: `Documentation/infiniband/core_locking.rst`. Upcalls that run the
//! handler at once take [`IrqsOn`](crate::sync::IrqsOn), which the calls that may come under locks lack.

mod cq;
mod device;
mod qp;
mod srq;

pub(super) use cq::CqLink;
pub use cq::CqUpcall;
pub(super) use device::DeviceLink;
pub use device::DeviceUpcall;
pub(super) use qp::QpLink;
pub use qp::{
    QpRef,
    QpUpcall, //
};
pub(super) use srq::SrqLink;
pub use srq::SrqUpcall;

use sib_bindings as bindings;

/// An event of a device, about what `set` puts into the union.
fn new_event(
    device: *mut bindings::ib_device,
    event: bindings::ib_event_type,
    set: impl FnOnce(&mut bindings::ib_event__bindgen_ty_1),
) -> bindings::ib_event {
    // SAFETY: An event may be zero in all members, which are numbers and pointers.
    let mut out: bindings::ib_event = unsafe { core::mem::zeroed() };
    out.device = device;
    out.event = event;
    set(&mut out.element);
    out
}
