// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that the driver answers itself.

use sib_bindings as bindings;

/// The length of a management datagram, in bytes.
pub const MAD_SIZE: usize = 256;

/// Where a management datagram came from.
#[derive(Clone, Copy, Debug)]
pub struct MadSource {
    /// The LID of the sender.
    pub slid: u16,
    /// The QP number of the sender.
    pub src_qp: u32,
    /// The service level.
    pub sl: u8,
    /// The low bits of the destination LID.
    pub dlid_path_bits: u8,
    /// The index of the P_Key.
    pub pkey_index: u16,
    /// The source GID of the GRH, if there was one.
    pub sgid: Option<[u8; 16]>,
}

/// A management datagram offered to the driver.
pub struct Mad<'a> {
    /// The port, from 1.
    pub port: u32,
    /// The M_Key need not match: the sender is this host's administrator.
    pub ignore_mkey: bool,
    /// Where it came from; `None` when this host made it, for sysfs.
    pub source: Option<MadSource>,
    /// The datagram, as on the wire.
    pub request: &'a [u8; MAD_SIZE],
}

impl Mad<'_> {
    fn class(&self) -> u32 {
        let [_, class, ..] = self.request;
        u32::from(*class)
    }

    /// Whether it asks for something: a Get or a Set (IBA, "Management Datagrams").
    pub fn is_request(&self) -> bool {
        let [_, _, _, method, ..] = self.request;
        matches!(
            u32::from(*method),
            bindings::IB_MGMT_METHOD_GET | bindings::IB_MGMT_METHOD_SET
        )
    }

    /// Whether it is one of communication management.
    pub(super) fn is_of_cm(&self) -> bool {
        self.class() == bindings::IB_MGMT_CLASS_CM
    }

    /// Whether it is one that connection managers exchange: of communication management (IBA, "Communication
    /// Management"), or of a vendor, who is named in it (IBA, "Vendor Specific Management").
    pub(super) fn is_of_managers(&self) -> bool {
        let class = self.class();
        self.is_of_cm()
            || (bindings::IB_MGMT_CLASS_VENDOR_RANGE2_START
                ..=bindings::IB_MGMT_CLASS_VENDOR_RANGE2_END)
                .contains(&class)
    }
}

/// What became of a management datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadResult {
    /// It is malformed; clients may still look at it.
    Failure,
    /// It is not for the driver: clients get it.
    Pass,
    /// It has been dealt with and there is nothing to send.
    Consumed,
    /// It has been dealt with, and the reply is to be sent.
    Reply,
}
