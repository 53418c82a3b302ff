// SPDX-License-Identifier: GPL-2.0

//! InfiniBand devices.
//!
//! To implement an emulated channel adapter, a module must do the following:
//!
//! - Implement [`Driver`] for a type: what the device is, and what its objects do. Queues of users are
//!   [rings](crate::ring) that they map; [`abi`] tells what is in them.
//! - Implement [`Link`] for it: what `rdma link add` does, which is to make an [`UnregisteredDevice`], to let
//!   the driver keep its [`DeviceUpcall`], and to [register](UnregisteredDevice::register) it.
//! - Keep a [`Registration`] for as long as the module is loaded.
//!
//! # Examples
//!
//! ```ignore
//! enum Adapter {}
//!
//! #[vtable]
//! impl Driver for Adapter {
//!     const LINK_TYPE: &'static CStr = c"example";
//!     type Device = Arc<Hca>;
//!     // …
//! }
//!
//! impl Link for Adapter {
//!     fn newlink(
//!         cx: Cx<'_, Unlocked>,
//!         s: Sleepable<'_>,
//!         registrar: &Registrar<Self>,
//!         name: &CStr,
//!         netdev: &NetDevice,
//!     ) -> Result {
//!         let device = UnregisteredDevice::new(registrar, &Hca::identity(netdev))?;
//!         let hca = Hca::new(device.upcall(), netdev)?;
//!         device.register(cx, s, name, hca)?;
//!         Ok(())
//!     }
//! }
//!
//! impl Module for Example {
//!     fn init(module: &'static ThisModule, _: Cx<'_, Unlocked>, s: Sleepable<'_>) -> Result<Self> {
//!         Ok(Self {
//!             _driver: Registration::<Adapter>::new(module, s)?,
//!         })
//!     }
//! }
//! ```
//!
//! # Lifetimes
//!
//! ib_core counts the uses of every object: a completion queue is not destroyed before the queue pairs that
//! complete to it. Each object keeps a handle of the driver's, which the bridge drops after the object has
//! been destroyed. Handles for upcalls may outlive the object, and do nothing then.
//!
//! # User space
//!
//! Devices present themselves as those of `rdma_rxe`, whose provider is in every distribution. Three rules
//! follow from that, and are kept here: the device is never tied to a network device in ib_core, where
//! `rdma_rxe` would find it and take it for its own; it can be removed by ib_core alone at any time, since
//! unloading `rdma_rxe` removes all devices of its kind; and requests in rings are copied before they are
//! looked at.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

pub mod abi;
mod access;
mod ah;
mod detail;
mod device;
mod device_attr;
mod driver;
mod event;
mod flags;
mod link;
mod mad;
mod mmap;
mod obj;
mod ops;
mod page_list;
mod port;
mod qp_attr;
mod stats;
mod udata;
mod upcall;
mod wc;
mod wc_out;
mod wr;

pub use crate::errno::unsupported;
pub use access::{
    AccessFlags,
    Advice, //
};
pub use ah::{
    AhAttr,
    GlobalRoute, //
};
pub use detail::Detail;
pub(crate) use device::DeviceRef;
pub use device::{
    Device,
    DeviceInit,
    UnregisteredDevice, //
};
pub use device_attr::{
    AtomicCap,
    DeviceAttr,
    DeviceCaps,
    OdpCaps, //
};
pub use driver::{
    CqInit,
    Driver,
    MwType,
    NewAh,
    NewCq,
    NewMr,
    NewMw,
    NewQp,
    NewSrq,
    Notify,
    QpInit,
    RecvWr,
    SendWr,
    SrqAttr,
    SrqModify, //
};
pub use event::{
    PortEvent,
    QpEvent,
    SrqEvent, //
};
pub use link::{
    Link,
    Registrar,
    Registration, //
};
pub use mad::{
    Mad,
    MadResult,
    MadSource,
    MAD_SIZE, //
};
pub(crate) use ops::source_from;
pub use page_list::PageList;
pub use port::{
    Mtu,
    PhysState,
    PortAttr,
    PortCaps,
    PortImmutable,
    PortModify,
    PortState, //
};
pub use qp_attr::{
    MigState,
    QpAttr,
    QpAttrMask,
    QpCap,
    QpState,
    QpType, //
};
pub use stats::CounterName;
pub use upcall::{
    CqUpcall,
    DeviceUpcall,
    QpRef,
    QpUpcall,
    SrqUpcall, //
};
pub use wc::{
    Wc,
    WcExt,
    WcOpcode,
    WcStatus, //
};
pub use wc_out::WcOut;
pub use wr::{
    Bind,
    Datagram,
    InlineData,
    KernelData,
    LocalSge,
    SendExt,
    SendFlags,
    SendOp,
    Sge,
    LOCAL_DMA_LKEY,
    NO_LKEY, //
};

/// The driver's handle of a device.
///
/// # Safety
///
/// `raw` is a device of `D` that is registered for `'a`.
pub(crate) unsafe fn device_of<'a, D: Driver>(raw: *mut sib_bindings::ib_device) -> &'a D::Device {
    // SAFETY: A device has its value from before the registration until it is removed.
    &unsafe { ops::DeviceObj::<D>::get(raw) }.handle
}
