// SPDX-License-Identifier: GPL-2.0

//! Handing completions to a client in the kernel.

use super::abi::ext_parts;
use super::Wc;
use core::marker::PhantomData;
use kernel::prelude::*;
use sib_bindings as bindings;

/// The room that a client in the kernel gives for completions.
///
/// # Invariants
///
/// `next` and the `room` entries from it on are the client's for `'a`.
pub struct WcOut<'a> {
    next: *mut bindings::ib_wc,
    room: usize,
    len: usize,
    client: PhantomData<&'a mut bindings::ib_wc>,
}

impl WcOut<'_> {
    /// Takes the room.
    ///
    /// # Safety
    ///
    /// There are `room` entries at `wc`, which nobody else uses until the end of `'a`.
    pub(super) unsafe fn new(wc: *mut bindings::ib_wc, room: usize) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            next: wc,
            room,
            len: 0,
            client: PhantomData,
        }
    }

    /// How many more completions fit.
    #[inline]
    pub fn room(&self) -> usize {
        self.room
    }

    /// How many completions the client gets.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Hands over a completion; `false` if there is no room for it.
    ///
    /// A completion of a queue pair that is being destroyed is dropped: the client expects none.
    #[must_use]
    pub fn push(&mut self, wc: &Wc) -> bool {
        if self.room == 0 {
            return false;
        }
        let qp = match &wc.qp {
            None => core::ptr::null_mut(),
            Some(qp) => match qp.raw() {
                Some(qp) => qp,
                None => return true,
            },
        };
        let entry = to_c(wc, qp);
        // SAFETY: By the invariant, as there is room.
        unsafe { self.next.write(entry) };
        // INVARIANT: One entry less from the next one on.
        self.next = self.next.wrapping_add(1);
        self.room = self.room.wrapping_sub(1);
        self.len = self.len.wrapping_add(1);
        true
    }
}

fn to_c(wc: &Wc, qp: *mut bindings::ib_qp) -> bindings::ib_wc {
    let (ext, ext_flag) = ext_parts(wc.ext);
    let grh_flag = if wc.grh {
        bindings::ib_wc_flags_IB_WC_GRH
    } else {
        0
    };
    // SAFETY: A completion may be zero in all members, which are numbers and pointers.
    let mut out: bindings::ib_wc = unsafe { core::mem::zeroed() };
    // SAFETY: Both unions have plain numbers as members, of which these cover all bytes.
    unsafe {
        *out.__bindgen_anon_1.wr_id.as_mut() = wc.wr_id;
        *out.ex.invalidate_rkey.as_mut() = u32::from_ne_bytes(ext);
    }
    out.status = wc.status.raw();
    out.opcode = wc.opcode.raw();
    out.byte_len = wc.byte_len;
    out.qp = qp;
    out.src_qp = wc.src_qp;
    out.slid = u32::from(wc.slid);
    out.wc_flags = (ext_flag | grh_flag) as c_int;
    out.pkey_index = wc.pkey_index;
    out.sl = wc.sl;
    out.dlid_path_bits = wc.dlid_path_bits;
    out
}
