// SPDX-License-Identifier: GPL-2.0

//! The ways that datagrams take.
//!
//! C header: [`include/net/dst_cache.h`](srctree/include/net/dst_cache.h)

use super::{
    addr,
    NetDevice,
    Skb, //
};
use crate::sync::Atomic;
use core::net::SocketAddr;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::types::Opaque;
use sib_bindings::sib_udp_flow;

/// A way to a UDP address, with the route cached.
pub struct Path {
    flow: sib_udp_flow,
    remote: SocketAddr,
    cache: Opaque<sib_bindings::dst_cache>,
    /// See [`Self::is_inside`].
    inside: Atomic<bool>,
}

// SAFETY: The cache is per CPU and used with bottom halves off.
unsafe impl Send for Path {}
// SAFETY: As above.
unsafe impl Sync for Path {}

impl Path {
    /// Makes a way to `remote`, which may be a broadcast or multicast address. May sleep.
    ///
    /// `hops` is the time to live. With a `device`, packets leave by it whatever the routing table prefers;
    /// an IPv6 address of the link needs it or a scope.
    pub fn new(remote: SocketAddr, hops: u8, device: Option<&NetDevice>) -> Result<Self> {
        let cache = Opaque::uninit();
        // SAFETY: The cache is valid for writes, and may be moved afterwards.
        to_result(unsafe { sib_bindings::dst_cache_init(cache.get(), bindings::GFP_KERNEL) })?;
        Ok(Self {
            flow: sib_udp_flow {
                remote: addr::to_c(remote),
                hops,
                ifindex: device.map_or(0, |device| device.ifindex() as c_int),
                ..Default::default()
            },
            remote,
            cache,
            inside: Atomic::new(false),
        })
    }

    /// Sends `packet` from `sk`. Consumes it.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` when there is no route.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket, and interrupts are on.
    #[inline]
    pub(super) unsafe fn send(&self, sk: NonNull<bindings::sock>, packet: Skb) -> Result {
        // SAFETY: The socket is live by the promise, the packet is given away, the cache is initialised.
        to_result(unsafe {
            sib_bindings::sib_helper_udp_send(
                sk.as_ptr(),
                packet.into_raw(),
                &self.flow,
                self.cache.get(),
            )
        })
    }

    /// Whether the other end is known to be in this kernel: what is sent there is received on the same processor,
    /// before or soon after the call returns.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.inside.load(Relaxed)
    }

    /// Something has come from the other end that has never left this kernel.
    #[inline]
    pub fn set_inside(&self) {
        if !self.is_inside() {
            self.inside.store(true, Relaxed);
        }
    }

    /// The address at the other end.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: Initialised by `new`, and nobody uses it any more.
        unsafe { sib_bindings::dst_cache_destroy(self.cache.get()) }
    }
}
