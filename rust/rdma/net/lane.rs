// SPDX-License-Identifier: GPL-2.0

//! Packets that another processor sends.
//!
//! A network device without queues of its own, such as `lo` or veth, has what is sent received on the processor that
//! sends. Who has a lot to send can leave that to another processor, and goes on meanwhile. Each socket has one lane for
//! each processor, on which packets keep their order.

use super::backlog::{
    Backlog,
    Serve, //
};
use super::{
    Path,
    Receive,
    Skb, //
};
use core::pin::Pin;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::cpu::{
    nr_cpu_ids,
    CpuId, //
};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// Packets that wait on a lane at most. With the largest ones it is what the queue of a socket may hold.
const MAX_WAITING: u32 = 512;

/// The packets of a socket that wait for a processor, each with its path.
///
/// # Invariants
///
/// `sk` and `target` are live as long as something is in the queue. What is in it has come by [`Self::put`].
#[pin_data]
struct Lane<R> {
    sk: NonNull<bindings::sock>,
    target: NonNull<R>,
    #[pin]
    queue: Opaque<bindings::sk_buff_head>,
}

impl<R> Lane<R> {
    fn put(&self, packet: Skb, path: Arc<Path>) {
        // SAFETY: The queue is initialised, and takes the only reference to the packet. The count of the path goes with it.
        unsafe {
            sib_bindings::sib_helper_lane_put(
                self.queue.get(),
                packet.into_raw(),
                Arc::into_raw(path).cast(),
            )
        };
    }

    fn take(&self) -> Option<(Skb, Arc<Path>)> {
        let mut path = core::ptr::null();
        // SAFETY: The queue is initialised.
        let skb = unsafe { sib_bindings::sib_helper_lane_take(self.queue.get(), &mut path) };
        // SAFETY: By the invariant `put` has put it there.
        let packet = unsafe { Skb::from_raw(NonNull::new(skb)?) };
        // SAFETY: By the invariant this is the count that `put` gave away.
        Some((packet, unsafe { Arc::from_raw(path.cast()) }))
    }
}

// SAFETY: The queue has a lock of its own, sending on a socket is thread-safe, and the target is shared.
unsafe impl<R: Receive> Serve for Lane<R> {
    unsafe fn serve(&self, count: u32) {
        for _ in 0..count {
            let Some((packet, path)) = self.take() else {
                return;
            };
            let datagrams = packet.datagrams();
            // SAFETY: The socket is live by the invariant; interrupts are on by the promise.
            if unsafe { path.send(self.sk, packet) }.is_err() {
                // SAFETY: Live by the invariant.
                unsafe { self.target.as_ref() }.unsent(datagrams);
            }
        }
    }
}

/// The lanes of a socket, one for each processor.
pub(super) struct Lanes<R>(KVec<Pin<KBox<Backlog<Lane<R>>>>>);

impl<R: Receive> Lanes<R> {
    /// Makes those of `sk`; `target` is told of what cannot be sent. May sleep.
    ///
    /// # Safety
    ///
    /// Both are live until [`Self::close`] has returned.
    pub(super) unsafe fn new(sk: NonNull<bindings::sock>, target: NonNull<R>) -> Result<Self> {
        let count = nr_cpu_ids() as usize;
        let mut lanes = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            // INVARIANT: The queue is empty; the caller promises the rest.
            let lane = pin_init!(Lane {
                sk,
                target,
                queue <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is valid for the call.
                    unsafe { sib_bindings::sib_helper_lane_init(slot) }
                }),
            });
            lanes.push(KBox::pin_init(Backlog::new(lane), GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self(lanes))
    }

    /// Has `cpu` send `packet` along `path`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if too many wait.
    pub(super) fn add(&self, cpu: CpuId, packet: Skb, path: Arc<Path>) -> Result {
        let lane = self.0.get(cpu.as_u32() as usize).ok_or(EINVAL)?;
        if lane.len() >= MAX_WAITING {
            return Err(EAGAIN);
        }
        lane.of.put(packet, path);
        if lane.add(cpu) {
            // SAFETY: Nobody was at it, and the owner of the lane ends it.
            unsafe { lane.leave_to(cpu) };
        }
        Ok(())
    }

    /// Whether packets wait for `cpu`.
    pub(super) fn has_waiting(&self, cpu: CpuId) -> bool {
        let lane = self.0.get(cpu.as_u32() as usize);
        lane.is_some_and(|lane| lane.len() > 0)
    }

    /// Has nothing be sent any more, and drops what waits. May sleep. Nobody adds anything any more.
    pub(super) fn close(&self) {
        for lane in &self.0 {
            lane.end();
            while lane.of.take().is_some() {}
        }
    }
}
