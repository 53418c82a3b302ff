// SPDX-License-Identifier: GPL-2.0

//! Address vectors.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `struct rdma_ah_attr`.

/// The global route of an address vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// The destination GID, in network order.
    pub dgid: [u8; 16],
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The index of the source GID in the port's table.
    pub sgid_index: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
}

/// An address vector: the way to a port. IBA, "Address Vector".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AhAttr {
    /// The destination LID.
    pub dlid: u16,
    /// The low bits of the source LID, within the LMC.
    pub src_path_bits: u8,
    /// The service level, 0 to 15.
    pub sl: u8,
    /// The static rate, as the IBA encodes it.
    pub static_rate: u8,
    /// The local port, from 1.
    pub port: u32,
    /// The global route, if the packets are to have a GRH.
    pub grh: Option<GlobalRoute>,
}
