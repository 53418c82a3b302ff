// SPDX-License-Identifier: GPL-2.0

//! Sending of datagrams of communication management.
//!
//! C header: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h)

use super::hook;
use crate::ib::{
    source_from,
    Mad,
    MAD_SIZE, //
};
use crate::sync::{
    Cx,
    Sleepable, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::{
    from_err_ptr,
    to_result, //
};
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;
use sib_bindings as bindings;

/// The queue pair that management of general services is on.
const QP1: u32 = 1;

/// The class version of the datagrams that agents of [dedicated](super::Manager::claims) devices receive.
pub const CLASS_VERSION: u8 = 2;

/// How often registration is tried again when somebody else has the class, and after which time.
const PATIENCE: u32 = 100;
const PAUSE: Delta = Delta::from_millis(20);

/// Where a datagram goes, and by which way.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The LID to send to.
    pub dlid: u16,
    /// The service level.
    pub sl: u8,
    /// What is added to the base LID of the port as the source.
    pub src_path_bits: u8,
    /// The entry of the port's P_Key table.
    pub pkey_index: u16,
    /// What the global route header says, if there is to be one.
    pub global: Option<Global>,
}

/// The global part of a [`Way`].
#[derive(Clone, Copy, Debug)]
pub struct Global {
    /// The entry of the port's GID table that is the source.
    pub sgid_index: u8,
    /// The GID to send to.
    pub dgid: [u8; 16],
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
}

impl Way {
    /// The attributes of an address handle on `port`.
    fn to_c(self, port: u32) -> bindings::rdma_ah_attr {
        let mut attr = bindings::rdma_ah_attr {
            sl: self.sl,
            port_num: port,
            type_: bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB,
            ..Default::default()
        };
        // SAFETY: The members of the union are plain numbers, of which this type has these.
        *unsafe { attr.__bindgen_anon_1.ib.as_mut() } = bindings::ib_ah_attr {
            dlid: self.dlid,
            src_path_bits: self.src_path_bits,
        };
        if let Some(global) = self.global {
            attr.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
            attr.grh.sgid_index = global.sgid_index;
            // SAFETY: A GID is just its bytes.
            *unsafe { attr.grh.dgid.raw.as_mut() } = global.dgid;
            attr.grh.flow_label = global.flow_label;
            attr.grh.hop_limit = global.hop_limit;
            attr.grh.traffic_class = global.traffic_class;
        }
        attr
    }
}

/// An agent of one port.
///
/// # Invariants
///
/// `raw` is registered; this is its only owner.
pub(super) struct Agent {
    raw: NonNull<bindings::ib_mad_agent>,
}

// SAFETY: An agent may be used and unregistered by any task.
unsafe impl Send for Agent {}
// SAFETY: The functions of ib_mad are thread-safe.
unsafe impl Sync for Agent {}

impl Agent {
    /// Registers an agent that receives nothing. May sleep.
    ///
    /// # Safety
    ///
    /// The device has the port, and stays registered until the agent is dropped.
    pub(super) unsafe fn new(device: *mut bindings::ib_device, port: u32) -> Result<Self> {
        // SAFETY: Promised by the caller. Without a request the agent receives nothing, so that there need
        // be no function for that.
        unsafe { Self::register(device, port, ptr::null_mut(), None) }
    }

    /// Registers the agent that datagrams of communication management are for. Sleeps.
    ///
    /// ib_cm registers one too, and gives it up when the driver does not let it say that it is there. If that is
    /// under way, it is waited for.
    ///
    /// # Errors
    ///
    /// `EINVAL` if somebody else still has one after two seconds, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// As [`Self::new`]. The device is one of this driver, and dedicated.
    pub(super) unsafe fn receiver(device: *mut bindings::ib_device, port: u32) -> Result<Self> {
        let mut request = bindings::ib_mad_reg_req {
            mgmt_class: bindings::IB_MGMT_CLASS_CM as u8,
            mgmt_class_version: CLASS_VERSION,
            ..Default::default()
        };
        request.method_mask[0] = 1 << bindings::IB_MGMT_METHOD_SEND;
        let mut patience = PATIENCE;
        loop {
            // SAFETY: Promised by the caller; the request is copied.
            let agent = unsafe { Self::register(device, port, &mut request, Some(received)) };
            match agent {
                Err(EINVAL) if patience != 0 => {
                    patience = patience.wrapping_sub(1);
                    fsleep(PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// # Safety
    ///
    /// As [`Self::new`]. `request` is null, or valid for the call; then there is a function.
    unsafe fn register(
        device: *mut bindings::ib_device,
        port: u32,
        request: *mut bindings::ib_mad_reg_req,
        received: bindings::ib_mad_recv_handler,
    ) -> Result<Self> {
        // SAFETY: The device is registered.
        let agent = from_err_ptr(unsafe {
            bindings::ib_register_mad_agent(
                device,
                port,
                bindings::ib_qp_type_IB_QPT_GSI,
                request,
                0,
                Some(sent),
                received,
                ptr::null_mut(),
                0,
            )
        })?;
        // INVARIANT: Just registered.
        Ok(Self {
            raw: NonNull::new(agent).ok_or(ENODEV)?,
        })
    }

    /// Sends a datagram to QP1 of another port. May sleep.
    ///
    /// Success says that it has been queued, not that it arrives.
    pub(super) fn send(&self, port: u32, way: &Way, mad: &[u8; MAD_SIZE]) -> Result {
        // SAFETY: Registered by the invariant; the queue pair of an agent stays as long as the agent.
        let pd = unsafe { (*self.raw.as_ref().qp).pd };
        let mut attr = way.to_c(port);
        // SAFETY: The domain is alive, and the attributes are complete.
        let ah = from_err_ptr(unsafe {
            bindings::rdma_create_ah(
                pd,
                &mut attr,
                bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
            )
        })?;
        let header = bindings::IB_MGMT_MAD_HDR as c_int;
        // SAFETY: Registered by the invariant.
        let buffer = from_err_ptr(unsafe {
            bindings::ib_create_send_mad(
                self.raw.as_ptr(),
                QP1,
                way.pkey_index,
                0,
                header,
                (MAD_SIZE as c_int).wrapping_sub(header),
                kernel::bindings::GFP_KERNEL,
                bindings::IB_MGMT_BASE_VERSION as u8,
            )
        })
        .inspect_err(|_| {
            // SAFETY: Made above, and not in use.
            unsafe { bindings::rdma_destroy_ah_user(ah, 0, ptr::null_mut()) };
        })?;
        // SAFETY: The buffer is ours, and has room for a datagram of the length that was asked for.
        let posted = to_result(unsafe {
            (*buffer)
                .mad
                .cast::<u8>()
                .copy_from_nonoverlapping(mad.as_ptr(), MAD_SIZE);
            (*buffer).ah = ah;
            (*buffer).timeout_ms = 0;
            bindings::ib_post_send_mad(buffer, ptr::null_mut())
        });
        if posted.is_err() {
            // SAFETY: Refused, so it is still ours.
            unsafe { free(buffer) };
        }
        posted
    }
}

impl Drop for Agent {
    /// Waits until all that was queued has been sent or given up. Sleeps.
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant.
        unsafe { bindings::ib_unregister_mad_agent(self.raw.as_ptr()) };
    }
}

/// Frees a datagram and its address handle.
///
/// # Safety
///
/// [`Agent::send`] made them, and ib_mad does not have them.
unsafe fn free(buffer: *mut bindings::ib_mad_send_buf) {
    // SAFETY: Promised by the caller. The handle is not in use, so the call has nothing to fail for.
    unsafe {
        bindings::rdma_destroy_ah_user((*buffer).ah, 0, ptr::null_mut());
        bindings::ib_free_send_mad(buffer);
    }
}

/// A datagram has been sent, or given up.
///
/// # Safety
///
/// Called by ib_mad for an [`Agent`].
unsafe extern "C" fn sent(
    _agent: *mut bindings::ib_mad_agent,
    done: *mut bindings::ib_mad_send_wc,
) {
    // SAFETY: ib_mad gives the datagram back.
    unsafe { free((*done).send_buf) };
}

/// A datagram of communication management has come to a dedicated device.
///
/// # Safety
///
/// Called by ib_mad, in a worker, for a receiving [`Agent`].
unsafe extern "C" fn received(
    agent: *mut bindings::ib_mad_agent,
    _request: *mut bindings::ib_mad_send_buf,
    done: *mut bindings::ib_mad_recv_wc,
) {
    // SAFETY: A worker that holds no lock.
    let (cx, s) = unsafe { (Cx::root(), Sleepable::new()) };
    // SAFETY: ib_mad gives us the datagram, which has the size of all of them, and its completion.
    let (request, source) = unsafe {
        let buffer = &(*done).recv_buf;
        (
            &*buffer.__bindgen_anon_1.mad.cast::<[u8; MAD_SIZE]>(),
            source_from((*done).wc, buffer.grh),
        )
    };
    // SAFETY: The agent is registered.
    let (device, port) = unsafe { ((*agent).device, (*agent).port_num.into()) };
    let mad = Mad {
        port,
        ignore_mkey: false,
        source,
        request,
    };
    // SAFETY: The device is one of this driver, and in use while it has an agent. What nobody wants is lost.
    unsafe { hook::offer(device, cx, s, &mad) };
    // SAFETY: Ours, and not used any more.
    unsafe { bindings::ib_free_recv_mad(done) };
}
