// SPDX-License-Identifier: GPL-2.0

//! Entries of a user's completion queue.

use crate::ib::{
    Wc,
    WcExt, //
};
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::prelude::*;
use sib_bindings as bindings;
use zerocopy_derive::Immutable;

/// `IBV_WC_WITH_INV` of libibverbs. `IB_WC_WITH_INVALIDATE` of the kernel is another bit, which user space
/// takes for a good checksum; librxe passes on what it finds.
const USER_WITH_INVALIDATE: u32 = 1 << 3;

/// A completion as user space reads it: `struct ib_uverbs_wc`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct UverbsWc {
    wr_id: u64,
    status: u32,
    opcode: u32,
    vendor_err: u32,
    byte_len: u32,
    ext: [u8; 4],
    qp_num: u32,
    src_qp: u32,
    wc_flags: u32,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
    port_num: u8,
    reserved: u8,
}

impl UverbsWc {
    /// The entry that tells of `wc`.
    pub fn new(wc: &Wc) -> Self {
        let (ext, mut ext_flag) = ext_parts(wc.ext);
        if matches!(wc.ext, WcExt::Invalidate(_)) {
            ext_flag = USER_WITH_INVALIDATE;
        }
        let grh_flag = if wc.grh {
            bindings::ib_wc_flags_IB_WC_GRH
        } else {
            0
        };
        Self {
            wr_id: wc.wr_id,
            status: wc.status.raw(),
            opcode: wc.opcode.raw(),
            vendor_err: 0,
            byte_len: wc.byte_len,
            ext,
            qp_num: wc.qpn,
            src_qp: wc.src_qp,
            wc_flags: ext_flag | grh_flag,
            pkey_index: wc.pkey_index,
            slid: wc.slid,
            sl: wc.sl,
            dlid_path_bits: wc.dlid_path_bits,
            port_num: 0,
            reserved: 0,
        }
    }
}

/// The union of immediate data and key in memory, and the flag that says which it is.
pub(in crate::ib) fn ext_parts(ext: WcExt) -> ([u8; 4], u32) {
    match ext {
        WcExt::None => ([0; 4], 0),
        WcExt::Imm(imm) => (imm, bindings::ib_wc_flags_IB_WC_WITH_IMM),
        WcExt::Invalidate(rkey) => (
            rkey.to_ne_bytes(),
            bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE,
        ),
    }
}

const _: () = {
    assert!(size_of::<UverbsWc>() == 48);
    assert!(size_of::<UverbsWc>() == size_of::<bindings::ib_uverbs_wc>());
    assert!(offset_of!(UverbsWc, ext) == offset_of!(bindings::ib_uverbs_wc, ex));
    assert!(offset_of!(UverbsWc, qp_num) == offset_of!(bindings::ib_uverbs_wc, qp_num));
    assert!(offset_of!(UverbsWc, wc_flags) == offset_of!(bindings::ib_uverbs_wc, wc_flags));
    assert!(offset_of!(UverbsWc, slid) == offset_of!(bindings::ib_uverbs_wc, slid));
    assert!(offset_of!(UverbsWc, port_num) == offset_of!(bindings::ib_uverbs_wc, port_num));
};
