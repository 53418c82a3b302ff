// SPDX-License-Identifier: GPL-2.0

//! A path as the messages about connections describe it.

use crate::mad::bits::layout;
use crate::types::{
    Gid,
    Lid,
    Sl, //
};

/// A path between two ports, seen by the sender of the message: "local" is its own side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path {
    /// LID of the sender's port.
    pub local_lid: Lid,
    /// LID of the receiver's port.
    pub remote_lid: Lid,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// Flow label of the GRH (20 bits).
    pub flow_label: u32,
    /// Traffic class of the GRH.
    pub traffic_class: u8,
    /// Hop limit of the GRH.
    pub hop_limit: u8,
    /// Code of the [`Rate`](crate::types::Rate) (6 bits).
    pub rate: u8,
    /// The service level.
    pub sl: Sl,
    /// Both ports are on one subnet, so packets need no GRH.
    pub subnet_local: bool,
    /// The sender's local ACK timeout, the code of [`crate::timer::ack_timeout_ns`] (5 bits).
    pub ack_timeout: u8,
}

layout! {
    /// How REQ has a path (IBA "REQ Message Contents").
    InReq of Path [44] {
        local_lid = 0, 16;
        remote_lid = 16, 16;
        local_gid = 32, 128;
        remote_gid = 160, 128;
        flow_label = 288, 20;
        rate = 314, 6;
        traffic_class = 320, 8;
        hop_limit = 328, 8;
        sl = 336, 4;
        subnet_local = 340, 1;
        ack_timeout = 344, 5;
    }
}

layout! {
    /// How LAP has a path (IBA "LAP Message Contents").
    InLap of Path [44] {
        local_lid = 0, 16;
        remote_lid = 16, 16;
        local_gid = 32, 128;
        remote_gid = 160, 128;
        flow_label = 288, 20;
        traffic_class = 312, 8;
        hop_limit = 320, 8;
        rate = 330, 6;
        sl = 336, 4;
        subnet_local = 340, 1;
        ack_timeout = 344, 5;
    }
}

impl Path {
    /// The same path seen from its other end.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            local_lid: self.remote_lid,
            remote_lid: self.local_lid,
            local_gid: self.remote_gid,
            remote_gid: self.local_gid,
            ..*self
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_cm_path))]
mod tests {
    use super::*;
    use crate::mad::bits::Field;

    #[test]
    fn reserved_bits_are_left_alone() {
        for fill in [0x00, 0xff] {
            let mut bytes = [fill; 46];
            let path = <Path as Field<InReq>>::get::<8, 352>(&bytes);
            <Path as Field<InReq>>::set::<8, 352>(path, &mut bytes);
            assert_eq!(bytes, [fill; 46]);
            let path = <Path as Field<InLap>>::get::<8, 352>(&bytes);
            <Path as Field<InLap>>::set::<8, 352>(path, &mut bytes);
            assert_eq!(bytes, [fill; 46]);
        }
    }

    #[test]
    fn the_way_back() {
        let path = Path {
            local_lid: Lid::new(1),
            remote_lid: Lid::new(2),
            local_gid: Gid::new([3; 16]),
            remote_gid: Gid::new([4; 16]),
            hop_limit: 5,
            ack_timeout: 6,
            ..Path::default()
        };
        let back = path.reversed();
        assert_eq!((back.local_lid.get(), back.remote_lid.get()), (2, 1));
        assert_eq!(back.local_gid, path.remote_gid);
        assert_eq!(back.remote_gid, path.local_gid);
        assert_eq!((back.hop_limit, back.ack_timeout), (5, 6));
        assert_eq!(back.reversed(), path);
    }
}
