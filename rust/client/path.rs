// SPDX-License-Identifier: GPL-2.0

//! Paths.

use pin_init::zeroed;
use sib_bindings as bindings;

/// What a port is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The local identifier.
    pub lid: u16,
    /// The global identifier.
    pub gid: [u8; 16],
}

/// A path as its local end sees it: `struct sib_cm_path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The port of this side.
    pub local: Address,
    /// The port of the peer.
    pub remote: Address,
    /// 20 bits.
    pub flow_label: u32,
    /// Of the global route header.
    pub traffic_class: u8,
    /// Of the global route header.
    pub hop_limit: u8,
    /// As in `enum ib_rate`; 3 is 10 Gbit/s.
    pub rate: u8,
    /// The service level, 0 to 15.
    pub sl: u8,
    /// Whether packets need no global route header.
    pub subnet_local: bool,
    /// The local ACK timeout, 0 to 31: 4.096 us * 2^code.
    pub ack_timeout: u8,
}

impl Path {
    /// A path within a subnet, of 10 Gbit/s, with an ACK timeout of 67 ms.
    pub fn new(local: Address, remote: Address) -> Self {
        const RATE_10_GBPS: u8 = 3;
        const ACK_TIMEOUT: u8 = 14;

        Self {
            local,
            remote,
            flow_label: 0,
            traffic_class: 0,
            hop_limit: 0,
            rate: RATE_10_GBPS,
            sl: 0,
            subnet_local: true,
            ack_timeout: ACK_TIMEOUT,
        }
    }

    /// What the C side calls so.
    pub(crate) fn raw(&self) -> bindings::sib_cm_path {
        bindings::sib_cm_path {
            local_gid: self.local.gid,
            remote_gid: self.remote.gid,
            local_lid: self.local.lid,
            remote_lid: self.remote.lid,
            flow_label: self.flow_label,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            rate: self.rate,
            sl: self.sl,
            subnet_local: self.subnet_local.into(),
            ack_timeout: self.ack_timeout,
            ..zeroed()
        }
    }

    /// What the C side has told.
    pub(crate) fn told(raw: &bindings::sib_cm_path) -> Self {
        Self {
            local: Address {
                lid: raw.local_lid,
                gid: raw.local_gid,
            },
            remote: Address {
                lid: raw.remote_lid,
                gid: raw.remote_gid,
            },
            flow_label: raw.flow_label,
            traffic_class: raw.traffic_class,
            hop_limit: raw.hop_limit,
            rate: raw.rate,
            sl: raw.sl,
            subnet_local: raw.subnet_local != 0,
            ack_timeout: raw.ack_timeout,
        }
    }

    /// The same, if there is one.
    pub(crate) fn told_if(has_one: bool, raw: &bindings::sib_cm_path) -> Option<Self> {
        has_one.then(|| Self::told(raw))
    }
}
