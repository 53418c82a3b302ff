// SPDX-License-Identifier: GPL-2.0

//! What a port counts (IBA chapter "Performance Management", PortCounters and PortCountersExtended).

/// A traffic counter behind both of its views: the 32 bits of PortCounters, which stop at their maximum, and
/// the 64 bits of PortCountersExtended, which wrap. Each view is set and cleared on its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    total: u64,
    narrow_base: u64,
    wide_base: u64,
}

impl Meter {
    const fn new() -> Self {
        Self {
            total: 0,
            narrow_base: 0,
            wide_base: 0,
        }
    }

    fn add(&mut self, amount: u64) {
        self.total = self.total.wrapping_add(amount);
    }

    pub(super) const fn narrow(&self) -> u32 {
        let value = self.total.wrapping_sub(self.narrow_base);
        if value > u32::MAX as u64 {
            u32::MAX
        } else {
            value as u32
        }
    }

    pub(super) fn set_narrow(&mut self, value: u32) {
        self.narrow_base = self.total.wrapping_sub(u64::from(value));
    }

    pub(super) const fn wide(&self) -> u64 {
        self.total.wrapping_sub(self.wide_base)
    }

    pub(super) fn set_wide(&mut self, value: u64) {
        self.wide_base = self.total.wrapping_sub(value);
    }
}

/// Why a packet was thrown away, or something else went wrong at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortFault {
    /// A packet came in damaged: PortRcvErrors.
    Receive,
    /// A packet came in that the forwarding tables know no way for: PortRcvSwitchRelayErrors.
    Relay,
    /// A packet could not go out: PortXmitDiscards.
    XmitDiscard,
    /// A packet was not let out for its P_Key: PortXmitConstraintErrors.
    XmitConstraint,
    /// A packet was not let in for its P_Key: PortRcvConstraintErrors.
    RcvConstraint,
    /// A subnet management packet found no room: VL15Dropped.
    Vl15Dropped,
    /// The link went down: LinkDownedCounter.
    LinkDowned,
}

/// The counters of a port. Error counters stop at their maximum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub(super) xmit_data: Meter,
    pub(super) rcv_data: Meter,
    pub(super) xmit_pkts: Meter,
    pub(super) rcv_pkts: Meter,
    pub(super) unicast_xmit_pkts: Meter,
    pub(super) unicast_rcv_pkts: Meter,
    pub(super) multicast_xmit_pkts: Meter,
    pub(super) multicast_rcv_pkts: Meter,
    pub(super) xmit_wait: u32,
    pub(super) symbol_errors: u16,
    pub(super) link_error_recoveries: u8,
    pub(super) link_downed: u8,
    pub(super) rcv_errors: u16,
    pub(super) rcv_remote_physical_errors: u16,
    pub(super) rcv_switch_relay_errors: u16,
    pub(super) xmit_discards: u16,
    pub(super) xmit_constraint_errors: u8,
    pub(super) rcv_constraint_errors: u8,
    pub(super) local_link_integrity_errors: u8,
    pub(super) excessive_buffer_overruns: u8,
    pub(super) vl15_dropped: u16,
}

impl Counters {
    /// Counters at zero.
    pub const fn new() -> Self {
        Self {
            xmit_data: Meter::new(),
            rcv_data: Meter::new(),
            xmit_pkts: Meter::new(),
            rcv_pkts: Meter::new(),
            unicast_xmit_pkts: Meter::new(),
            unicast_rcv_pkts: Meter::new(),
            multicast_xmit_pkts: Meter::new(),
            multicast_rcv_pkts: Meter::new(),
            xmit_wait: 0,
            symbol_errors: 0,
            link_error_recoveries: 0,
            link_downed: 0,
            rcv_errors: 0,
            rcv_remote_physical_errors: 0,
            rcv_switch_relay_errors: 0,
            xmit_discards: 0,
            xmit_constraint_errors: 0,
            rcv_constraint_errors: 0,
            local_link_integrity_errors: 0,
            excessive_buffer_overruns: 0,
            vl15_dropped: 0,
        }
    }

    /// `packets` packets of `octets` octets in all, from the LRH to the ICRC inclusive, went out.
    pub fn count_xmit(&mut self, packets: u64, octets: u64, multicast: bool) {
        self.xmit_data.add(octets >> WORD_SHIFT);
        self.xmit_pkts.add(packets);
        if multicast {
            self.multicast_xmit_pkts.add(packets);
        } else {
            self.unicast_xmit_pkts.add(packets);
        }
    }

    /// `packets` packets of `octets` octets in all, from the LRH to the ICRC inclusive, came in.
    pub fn count_recv(&mut self, packets: u64, octets: u64, multicast: bool) {
        self.rcv_data.add(octets >> WORD_SHIFT);
        self.rcv_pkts.add(packets);
        if multicast {
            self.multicast_rcv_pkts.add(packets);
        } else {
            self.unicast_rcv_pkts.add(packets);
        }
    }

    /// Something went wrong.
    pub fn count_fault(&mut self, fault: PortFault) {
        match fault {
            PortFault::Receive => bump16(&mut self.rcv_errors),
            PortFault::Relay => bump16(&mut self.rcv_switch_relay_errors),
            PortFault::XmitDiscard => bump16(&mut self.xmit_discards),
            PortFault::XmitConstraint => bump8(&mut self.xmit_constraint_errors),
            PortFault::RcvConstraint => bump8(&mut self.rcv_constraint_errors),
            PortFault::Vl15Dropped => bump16(&mut self.vl15_dropped),
            PortFault::LinkDowned => bump8(&mut self.link_downed),
        }
    }
}

/// The data counters count words of four octets.
const WORD_SHIFT: u32 = 2;

fn bump8(counter: &mut u8) {
    *counter = counter.saturating_add(1);
}

fn bump16(counter: &mut u16) {
    *counter = counter.saturating_add(1);
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_counters))]
mod tests {
    use super::*;

    #[test]
    fn views_are_apart() {
        let mut meter = Meter::new();
        meter.add(10);
        meter.set_narrow(0);
        assert_eq!(meter.narrow(), 0);
        assert_eq!(meter.wide(), 10);
        meter.set_wide(100);
        meter.add(u64::from(u32::MAX) + 5);
        assert_eq!(meter.narrow(), u32::MAX);
        assert_eq!(meter.wide(), 100 + u64::from(u32::MAX) + 5);
        meter.set_narrow(7);
        meter.add(1);
        assert_eq!(meter.narrow(), 8);
    }

    #[test]
    fn data_is_in_words() {
        let mut counters = Counters::new();
        counters.count_xmit(2, 48, false);
        counters.count_recv(1, 24, true);
        assert_eq!(counters.xmit_data.wide(), 12);
        assert_eq!(counters.xmit_pkts.narrow(), 2);
        assert_eq!(counters.unicast_xmit_pkts.wide(), 2);
        assert_eq!(counters.multicast_rcv_pkts.wide(), 1);
        assert_eq!(counters.rcv_data.wide(), 6);
    }

    #[test]
    fn nobody_has_to_ask_in_between() {
        let mut counters = Counters::new();
        counters.count_xmit(5 << 32, 240 << 32, false);
        counters.count_recv(5 << 32, 240 << 32, true);
        assert_eq!(counters.xmit_pkts.wide(), 5 << 32);
        assert_eq!(counters.multicast_rcv_pkts.wide(), 5 << 32);
        assert_eq!(counters.rcv_pkts.narrow(), u32::MAX);
    }

    #[test]
    fn errors_stop_at_their_maximum() {
        let mut counters = Counters::new();
        for _ in 0..300 {
            counters.count_fault(PortFault::LinkDowned);
        }
        assert_eq!(counters.link_downed, u8::MAX);
    }
}
