// SPDX-License-Identifier: GPL-2.0

//! Work items as C has them, whose owners know when they are queued and what they keep.

use core::pin::Pin;
use kernel::bindings;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::Opaque;

/// A work item.
///
/// # Invariants
///
/// It is initialised.
#[pin_data]
#[repr(transparent)]
pub(crate) struct Item {
    #[pin]
    raw: Opaque<bindings::work_struct>,
}

impl Item {
    /// An initialiser of one that calls `function` with itself: [`Self::of`] makes it of what that is given.
    pub(crate) fn new(
        function: unsafe extern "C" fn(*mut bindings::work_struct),
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        // INVARIANT: Initialised here.
        pin_init!(Self {
            raw <- Opaque::ffi_init(move |slot| {
                // SAFETY: `slot` is valid for the call; name and class live forever.
                unsafe {
                    bindings::init_work_with_key(
                        slot,
                        Some(function),
                        false,
                        name.as_char_ptr(),
                        class.as_ptr(),
                    )
                }
            }),
        })
    }

    /// The item that a function was called with.
    pub(crate) fn of(work: *mut bindings::work_struct) -> *mut Self {
        work.cast()
    }

    /// For the functions of C.
    pub(super) fn get(&self) -> *mut bindings::work_struct {
        self.raw.get()
    }

    /// Has it run in a softirq of `cpu`, or of the running processor if that has gone, unless it is queued already.
    ///
    /// # Safety
    ///
    /// It stays in place until it has run, or has been [cancelled](Self::cancel) or [disabled](Self::disable). Its function
    /// may be called so.
    pub(crate) unsafe fn queue_bh(&self, cpu: CpuId) {
        // SAFETY: The queue exists always, and works in softirqs. The item is initialised by the invariant; the rest is
        // promised by the caller.
        unsafe { sib_bindings::sib_helper_queue_bh(cpu.into(), self.get()) };
    }

    /// Takes it off its queue, or waits until it has run. It is not queued any more, whoever tries. May sleep.
    pub(crate) fn disable(&self) {
        // SAFETY: The item is initialised by the invariant.
        unsafe { bindings::disable_work_sync(self.get()) };
    }

    /// Takes it off its queue, or waits until it has run. Returns whether it was taken off. May sleep.
    pub(crate) fn cancel(&self) -> bool {
        // SAFETY: The item is initialised by the invariant.
        unsafe { bindings::cancel_work_sync(self.get()) }
    }
}
