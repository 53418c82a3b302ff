// SPDX-License-Identifier: GPL-2.0

//! Tracepoints, in the group `sib`: `rust/helpers/sib_trace.h` says what they print.
//!
//! While nobody listens to any of them, each costs one load. All functions may be called in any context.

use crate::sync::Atomic;
use kernel::sync::atomic::Relaxed;

/// Why something is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cause {
    /// The ACK timeout ran out.
    Timeout = 0,
    /// An answer is late.
    Reminder = 1,
    /// The peer has missed a request.
    SequenceNak = 2,
    /// An answer to an RDMA READ or atomic operation is missing.
    ImpliedNak = 3,
    /// The peer was not ready.
    RnrNak = 4,
}

/// What error a queue pair has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// One that no completion reports.
    Fatal = 0,
    /// An invalid request.
    Request = 1,
    /// A request without the right to what it names.
    Access = 2,
    /// A work request of its own has failed.
    SendQueue = 3,
}

/// A segment at a port.
#[derive(Clone, Copy, Debug)]
pub struct Packets {
    /// The source LID.
    pub slid: u16,
    /// The destination LID.
    pub dlid: u16,
    /// The opcode of the BTH.
    pub opcode: u8,
    /// The destination queue pair.
    pub dest_qp: u32,
    /// The PSN of the first packet.
    pub psn: u32,
    /// The number of packets.
    pub span: u32,
    /// The bytes of payload.
    pub length: u32,
}

impl Packets {
    fn lids(&self) -> u32 {
        u32::from(self.slid) << 16 | u32::from(self.dlid)
    }
}

/// Whether anybody listens.
#[inline(always)]
pub fn is_on() -> bool {
    let listeners = (&raw mut sib_bindings::sib_helper_trace_listeners).cast::<Atomic<u32>>();
    // SAFETY: The word is aligned, lives as long as the module, and is written as a whole; an atomic has the
    // layout of what it holds.
    unsafe { &*listeners }.load(Relaxed) != 0
}

/// A send work request was taken.
#[inline(always)]
pub fn post(qpn: u32, wr_id: u64, length: u32) {
    if is_on() {
        // SAFETY: Callable in any context.
        unsafe { sib_bindings::sib_helper_trace_post(qpn, wr_id, length) }
    }
}

/// A segment leaves by a port.
#[inline(always)]
pub fn transmit(packets: impl FnOnce() -> Packets) {
    if is_on() {
        let p = packets();
        let opcode = u32::from(p.opcode);
        // SAFETY: Callable in any context.
        unsafe {
            sib_bindings::sib_helper_trace_transmit(
                p.lids(),
                opcode,
                p.dest_qp,
                p.psn,
                p.span,
                p.length,
            )
        }
    }
}

/// A segment arrives at a port.
#[inline(always)]
pub fn receive(packets: impl FnOnce() -> Packets) {
    if is_on() {
        let p = packets();
        let opcode = u32::from(p.opcode);
        // SAFETY: Callable in any context.
        unsafe {
            sib_bindings::sib_helper_trace_receive(
                p.lids(),
                opcode,
                p.dest_qp,
                p.psn,
                p.span,
                p.length,
            )
        }
    }
}

/// A work request is complete, with an `ib_wc_status`.
#[inline(always)]
pub fn complete(qpn: u32, wr_id: u64, status: u32, recv: bool) {
    if is_on() {
        // SAFETY: Callable in any context.
        unsafe { sib_bindings::sib_helper_trace_complete(qpn, wr_id, status, recv) }
    }
}

/// Something is sent again.
#[inline(always)]
pub fn retry(qpn: u32, cause: Cause) {
    if is_on() {
        // SAFETY: Callable in any context.
        unsafe { sib_bindings::sib_helper_trace_retry(qpn, cause as u32) }
    }
}

/// A queue pair has found an error; `status` is that of the work request, if it is one's.
#[inline(always)]
pub fn error(qpn: u32, fault: Fault, status: u32) {
    if is_on() {
        // SAFETY: Callable in any context.
        unsafe { sib_bindings::sib_helper_trace_error(qpn, fault as u32, status) }
    }
}
