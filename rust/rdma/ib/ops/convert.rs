// SPDX-License-Identifier: GPL-2.0

//! Conversions of attributes that several objects have.

use crate::ib::{
    AhAttr,
    GlobalRoute,
    QpCap, //
};
use kernel::prelude::*;
use sib_bindings as bindings;

/// The 16 bytes of a GID.
pub(super) fn gid_bytes(gid: &bindings::ib_gid) -> [u8; 16] {
    // SAFETY: All members of the union have 16 bytes without padding.
    unsafe { *gid.raw.as_ref() }
}

/// The GID of 16 bytes.
pub(super) fn gid_from(bytes: [u8; 16]) -> bindings::ib_gid {
    // SAFETY: As in `gid_bytes`; all bytes are valid.
    unsafe { core::mem::transmute(bytes) }
}

/// The address vector; `EINVAL` if it is not one of InfiniBand.
pub(super) fn ah_from_c(attr: &bindings::rdma_ah_attr) -> Result<AhAttr> {
    if attr.type_ != bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB {
        return Err(EINVAL);
    }
    // SAFETY: The type says which member of the union is set.
    let ib = unsafe { attr.__bindgen_anon_1.ib.as_ref() };
    let has_grh = u32::from(attr.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0;
    Ok(AhAttr {
        dlid: ib.dlid,
        src_path_bits: ib.src_path_bits,
        sl: attr.sl,
        static_rate: attr.static_rate,
        port: attr.port_num,
        grh: has_grh.then(|| GlobalRoute {
            dgid: gid_bytes(&attr.grh.dgid),
            flow_label: attr.grh.flow_label,
            sgid_index: attr.grh.sgid_index,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
        }),
    })
}

/// The address vector for ib_core, without a reference to a source GID.
pub(super) fn ah_to_c(attr: &AhAttr) -> bindings::rdma_ah_attr {
    // SAFETY: All members are numbers, and pointers that may be null.
    let mut out: bindings::rdma_ah_attr = unsafe { core::mem::zeroed() };
    out.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB;
    // SAFETY: All members of the union are plain numbers, of which this one is set by the type above.
    unsafe {
        *out.__bindgen_anon_1.ib.as_mut() = bindings::ib_ah_attr {
            dlid: attr.dlid,
            src_path_bits: attr.src_path_bits,
        };
    }
    out.sl = attr.sl;
    out.static_rate = attr.static_rate;
    out.port_num = attr.port;
    if let Some(grh) = &attr.grh {
        out.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        out.grh.dgid = gid_from(grh.dgid);
        out.grh.flow_label = grh.flow_label;
        out.grh.sgid_index = grh.sgid_index;
        out.grh.hop_limit = grh.hop_limit;
        out.grh.traffic_class = grh.traffic_class;
    }
    out
}

/// The sizes of queues.
pub(super) fn cap_from_c(cap: &bindings::ib_qp_cap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Fills in the sizes of queues, but for those of the kernel's own helpers.
pub(super) fn cap_to_c(out: &mut bindings::ib_qp_cap, cap: &QpCap) {
    out.max_send_wr = cap.max_send_wr;
    out.max_recv_wr = cap.max_recv_wr;
    out.max_send_sge = cap.max_send_sge;
    out.max_recv_sge = cap.max_recv_sge;
    out.max_inline_data = cap.max_inline_data;
}
