// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of the module.

use core::marker::PhantomData;
use sib_bindings as bindings;

/// A queue pair: `struct ib_qp`. Rust has no other abstraction of it, so it comes from the C functions of ib_core.
///
/// ib_core does not lock queue pairs, and two tasks must not modify one at the same time. So orders that do take
/// `&mut Qp`. A module that gives them in its handler and elsewhere has the owner of the queue pair behind a lock.
///
/// # Examples
///
/// ```ignore
/// /// Owns a queue pair, and destroys it when it is dropped.
/// struct Queues(NonNull<ib_qp>);
///
/// impl Queues {
///     fn qp(&mut self) -> Qp<'_> {
///         // SAFETY: It is there as long as this, and nobody modifies it without `self`.
///         unsafe { Qp::from_raw(self.0.as_ptr()) }
///     }
/// }
/// ```
///
/// # Invariants
///
/// A queue pair of the kernel. During `'a` it is not destroyed, and not modified but through this.
pub struct Qp<'a> {
    raw: *mut bindings::ib_qp,
    owner: PhantomData<&'a mut bindings::ib_qp>,
}

// SAFETY: Any task may modify a queue pair.
unsafe impl Send for Qp<'_> {}
// SAFETY: A shared reference gives access to what stays as it is.
unsafe impl Sync for Qp<'_> {}

impl Qp<'_> {
    /// The queue pair behind a pointer.
    ///
    /// # Safety
    ///
    /// `ptr` is a queue pair of a client in the kernel. As long as what this returns can be used, nobody destroys it, and
    /// nobody modifies it by other means: neither C functions nor another `Qp`.
    pub unsafe fn from_raw(ptr: *mut bindings::ib_qp) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            raw: ptr,
            owner: PhantomData,
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: By the invariant; the number stays what it is.
        unsafe { (*self.raw).qp_num }
    }

    /// To modify it.
    pub(crate) fn raw(&mut self) -> *mut bindings::ib_qp {
        self.raw
    }

    /// The HCA that it is on.
    pub(crate) fn device(&self) -> *mut bindings::ib_device {
        // SAFETY: By the invariant; the device stays what it is.
        unsafe { (*self.raw).device }
    }
}

/// What a queue pair is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    /// Initialised.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send. Once there has been a LAP this stands for its alternate path, with REARM.
    Rts,
}

impl QpState {
    /// The value of `enum ib_qp_state`.
    pub(crate) fn raw(self) -> bindings::ib_qp_state {
        match self {
            Self::Init => bindings::ib_qp_state_IB_QPS_INIT,
            Self::Rtr => bindings::ib_qp_state_IB_QPS_RTR,
            Self::Rts => bindings::ib_qp_state_IB_QPS_RTS,
        }
    }
}
