// SPDX-License-Identifier: GPL-2.0

//! What a port has counted (IBA "PortCounters", "PortCountersExtended").
//!
//! A counter that is full stays full. Data are counted in 4-byte words, LRH to ICRC.

use super::{
    attr,
    perf_attribute, //
};
use crate::mad::bits::attribute;
use crate::types::PortNum;

attribute! {
    /// The narrow counters.
    pub struct PortCounters [44] {
        /// The port; [`PortNum::ALL`] for the sum of all.
        port: PortNum = 8, 8;
        /// In a Set: which counters to write: [`select`].
        counter_select: u16 = 16, 16;
        /// Minor link errors.
        symbol_errors: u16 = 32, 16;
        /// Link error recoveries that succeeded.
        link_error_recoveries: u8 = 48, 8;
        /// Link error recoveries that failed.
        link_downed: u8 = 56, 8;
        /// Bad packets.
        rcv_errors: u16 = 64, 16;
        /// Packets marked bad by another port.
        rcv_remote_physical_errors: u16 = 80, 16;
        /// Packets that a switch could not forward.
        rcv_switch_relay_errors: u16 = 96, 16;
        /// Packets not sent, because the port is down or congested.
        xmit_discards: u16 = 112, 16;
        /// Packets not sent, because a P_Key or the like forbids it.
        xmit_constraint_errors: u8 = 128, 8;
        /// Packets dropped, because a P_Key or the like forbids it.
        rcv_constraint_errors: u8 = 136, 8;
        /// In a Set: bit 0 selects `xmit_wait`.
        counter_select2: u8 = 144, 8;
        /// Local link integrity errors (4 bits).
        local_link_integrity_errors: u8 = 152, 4;
        /// Buffer overruns in a row (4 bits).
        excessive_buffer_overruns: u8 = 156, 4;
        /// Management packets dropped for lack of buffers.
        vl15_dropped: u16 = 176, 16;
        /// Words sent.
        xmit_data: u32 = 192, 32;
        /// Words received.
        rcv_data: u32 = 224, 32;
        /// Packets sent.
        xmit_pkts: u32 = 256, 32;
        /// Packets received.
        rcv_pkts: u32 = 288, 32;
        /// Ticks during which there was something to send and no way to.
        xmit_wait: u32 = 320, 32;
    }
}
perf_attribute!(PortCounters = attr::PORT_COUNTERS);

/// Bits of [`PortCounters::counter_select`].
#[allow(missing_docs, reason = "the names are those of the counters")]
pub mod select {
    pub const SYMBOL_ERRORS: u16 = 1 << 0;
    pub const LINK_ERROR_RECOVERIES: u16 = 1 << 1;
    pub const LINK_DOWNED: u16 = 1 << 2;
    pub const RCV_ERRORS: u16 = 1 << 3;
    pub const RCV_REMOTE_PHYSICAL_ERRORS: u16 = 1 << 4;
    pub const RCV_SWITCH_RELAY_ERRORS: u16 = 1 << 5;
    pub const XMIT_DISCARDS: u16 = 1 << 6;
    pub const XMIT_CONSTRAINT_ERRORS: u16 = 1 << 7;
    pub const RCV_CONSTRAINT_ERRORS: u16 = 1 << 8;
    pub const LOCAL_LINK_INTEGRITY_ERRORS: u16 = 1 << 9;
    pub const EXCESSIVE_BUFFER_OVERRUNS: u16 = 1 << 10;
    pub const VL15_DROPPED: u16 = 1 << 11;
    pub const XMIT_DATA: u16 = 1 << 12;
    pub const RCV_DATA: u16 = 1 << 13;
    pub const XMIT_PKTS: u16 = 1 << 14;
    pub const RCV_PKTS: u16 = 1 << 15;
    /// In [`PortCounters::counter_select2`](super::PortCounters::counter_select2).
    pub const XMIT_WAIT: u8 = 1 << 0;
}

attribute! {
    /// The wide counters.
    pub struct PortCountersExtended [72] {
        /// The port; [`PortNum::ALL`] for the sum of all.
        port: PortNum = 8, 8;
        /// In a Set: which counters to write; bit n is the nth of those below.
        counter_select: u16 = 16, 16;
        /// Words sent.
        xmit_data: u64 = 64, 64;
        /// Words received.
        rcv_data: u64 = 128, 64;
        /// Packets sent.
        xmit_pkts: u64 = 192, 64;
        /// Packets received.
        rcv_pkts: u64 = 256, 64;
        /// Unicast packets sent.
        unicast_xmit_pkts: u64 = 320, 64;
        /// Unicast packets received.
        unicast_rcv_pkts: u64 = 384, 64;
        /// Multicast packets sent.
        multicast_xmit_pkts: u64 = 448, 64;
        /// Multicast packets received.
        multicast_rcv_pkts: u64 = 512, 64;
    }
}
perf_attribute!(PortCountersExtended = attr::PORT_COUNTERS_EXTENDED);

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_counters))]
mod tests {
    use super::*;
    use crate::mad::perf::{
        Attribute,
        DATA_LEN, //
    };

    #[test]
    fn port_counters_known_bytes() {
        let counters = PortCounters {
            port: PortNum::new(1),
            counter_select: 0xffff,
            symbol_errors: 0x0102,
            link_error_recoveries: 0x03,
            link_downed: 0x04,
            rcv_errors: 0x0506,
            rcv_remote_physical_errors: 0x0708,
            rcv_switch_relay_errors: 0x090a,
            xmit_discards: 0x0b0c,
            xmit_constraint_errors: 0x0d,
            rcv_constraint_errors: 0x0e,
            counter_select2: 0x01,
            local_link_integrity_errors: 0x2,
            excessive_buffer_overruns: 0x3,
            vl15_dropped: 0x0f10,
            xmit_data: 0x1112_1314,
            rcv_data: 0x1516_1718,
            xmit_pkts: 0x191a_1b1c,
            rcv_pkts: 0x1d1e_1f20,
            xmit_wait: 0x2122_2324,
        };
        let bytes = [
            0x00, 0x01, 0xff, 0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
            0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x01, 0x23, 0x00, 0x00, 0x0f, 0x10, //
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, //
            0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24,
        ];
        let mut out = [0xee; DATA_LEN];
        counters.emit(&mut out);
        assert_eq!(out[..bytes.len()], bytes[..]);
        assert_eq!(out[bytes.len()..], [0; DATA_LEN - 44][..]);
        assert_eq!(<PortCounters as Attribute>::parse(&out), counters);
    }

    #[test]
    fn extended_counters_known_bytes() {
        let counters = PortCountersExtended {
            port: PortNum::ALL,
            xmit_data: 1,
            multicast_rcv_pkts: 0x0102_0304_0506_0708,
            ..PortCountersExtended::default()
        };
        let mut out = [0xee; DATA_LEN];
        counters.emit(&mut out);
        assert_eq!(
            out[..16],
            [0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..]
        );
        assert_eq!(out[64..72], [1, 2, 3, 4, 5, 6, 7, 8][..]);
        assert_eq!(<PortCountersExtended as Attribute>::parse(&out), counters);
    }
}
