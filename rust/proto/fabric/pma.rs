// SPDX-License-Identifier: GPL-2.0

//! The performance management agent, the same for channel adapters and switches (IBA chapter "General
//! Services", "Performance Management").

use super::agent::{
    errand,
    Errand,
    Refusal, //
};
use super::counters::Counters;
use super::mkey::Access;
use super::Mad;
use wire::mad::perf::{
    attr,
    cap,
    select,
    PerfMad,
    PortCounters,
    PortCountersExtended, //
};
use wire::mad::{
    self,
    class,
    method,
    status,
    ClassPortInfo,
    MadHeader,
    BASE_VERSION,
    CLASS_VERSION, //
};
use wire::PortNum;

/// ClassPortInfo:RespTimeValue: an answer takes at most 4.096 us << 18, about a second.
const RESP_TIME: u8 = 18;

/// The ports of a node that count.
pub(super) trait CountingPorts {
    /// The counters of `port`; `None` if there is no such port.
    fn counters(&mut self, port: PortNum) -> Option<&mut Counters>;
    /// The lowest and the highest port number, port 0 of a switch not among them.
    fn range(&self) -> (u8, u8);
}

/// The answer to `mad`, of any class; `None` if there is none.
pub(super) fn process<P: CountingPorts>(ports: &mut P, mad: &Mad) -> Option<Mad> {
    let mut perf = PerfMad::from_bytes(mad).clone();
    let mut header = perf.header();
    let result = match errand(&header) {
        Errand::Foreign | Errand::Repress => return None,
        Errand::Unfit(refusal) => Err(refusal),
        Errand::Request(_) if header.mgmt_class != class::PERF => Err(Refusal::Attribute),
        Errand::Request(access) => request(ports, &mut perf, &header, access),
    };
    header.method = method::GET_RESP;
    header.status = result.map_or_else(Refusal::status, |()| status::OK);
    perf.set_header(&header);
    Some(*perf.as_bytes())
}

fn request<P: CountingPorts>(
    ports: &mut P,
    perf: &mut PerfMad,
    header: &MadHeader,
    access: Access,
) -> Result<(), Refusal> {
    match (header.attr_id, access) {
        (mad::attr::CLASS_PORT_INFO, Access::Read) => {
            perf.set_attribute(&ClassPortInfo {
                base_version: BASE_VERSION,
                class_version: CLASS_VERSION,
                capability_mask: cap::ALL_PORT_SELECT | cap::EXTENDED_WIDTH | cap::XMIT_WAIT,
                resp_time: RESP_TIME,
                ..ClassPortInfo::default()
            });
            Ok(())
        }
        (attr::PORT_COUNTERS, access) => {
            let asked: PortCounters = perf.attribute();
            let mut sum = PortCounters::default();
            each(ports, asked.port, |counters| {
                if access == Access::Write {
                    counters.set_narrow(&asked);
                }
                add_narrow(&mut sum, &counters.narrow());
            })?;
            sum.port = asked.port;
            sum.counter_select = asked.counter_select;
            sum.counter_select2 = asked.counter_select2;
            perf.set_attribute(&sum);
            Ok(())
        }
        (attr::PORT_COUNTERS_EXTENDED, access) => {
            let asked: PortCountersExtended = perf.attribute();
            let mut sum = PortCountersExtended::default();
            each(ports, asked.port, |counters| {
                if access == Access::Write {
                    counters.set_wide(&asked);
                }
                add_wide(&mut sum, &counters.wide());
            })?;
            sum.port = asked.port;
            sum.counter_select = asked.counter_select;
            perf.set_attribute(&sum);
            Ok(())
        }
        _ => Err(Refusal::Attribute),
    }
}

/// Does `act` for the counters of `port`, or of every port when all are asked for.
fn each<P: CountingPorts>(
    ports: &mut P,
    port: PortNum,
    mut act: impl FnMut(&mut Counters),
) -> Result<(), Refusal> {
    if port != PortNum::ALL {
        act(ports.counters(port).ok_or(Refusal::Field)?);
        return Ok(());
    }
    let (first, last) = ports.range();
    for port in first..=last {
        act(ports.counters(PortNum::new(port)).ok_or(Refusal::Field)?);
    }
    Ok(())
}

/// The largest value of a counter of four bits.
const NIBBLE_MAX: u8 = 0xf;

/// Adds up the components of two sets of counters that stop at their maximum.
macro_rules! saturate {
    ($sum:ident, $add:ident: $($counter:ident),* $(,)?) => {
        $($sum.$counter = $sum.$counter.saturating_add($add.$counter);)*
    };
}

fn add_narrow(sum: &mut PortCounters, add: &PortCounters) {
    saturate!(sum, add:
        symbol_errors, link_error_recoveries, link_downed, rcv_errors, rcv_remote_physical_errors,
        rcv_switch_relay_errors, xmit_discards, xmit_constraint_errors, rcv_constraint_errors,
        local_link_integrity_errors, excessive_buffer_overruns, vl15_dropped, xmit_data, rcv_data,
        xmit_pkts, rcv_pkts, xmit_wait,
    );
    sum.local_link_integrity_errors = sum.local_link_integrity_errors.min(NIBBLE_MAX);
    sum.excessive_buffer_overruns = sum.excessive_buffer_overruns.min(NIBBLE_MAX);
}

fn add_wide(sum: &mut PortCountersExtended, add: &PortCountersExtended) {
    saturate!(sum, add:
        xmit_data, rcv_data, xmit_pkts, rcv_pkts, unicast_xmit_pkts, unicast_rcv_pkts,
        multicast_xmit_pkts, multicast_rcv_pkts,
    );
}

impl Counters {
    /// PortCounters without its selectors.
    fn narrow(&self) -> PortCounters {
        PortCounters {
            symbol_errors: self.symbol_errors,
            link_error_recoveries: self.link_error_recoveries,
            link_downed: self.link_downed,
            rcv_errors: self.rcv_errors,
            rcv_remote_physical_errors: self.rcv_remote_physical_errors,
            rcv_switch_relay_errors: self.rcv_switch_relay_errors,
            xmit_discards: self.xmit_discards,
            xmit_constraint_errors: self.xmit_constraint_errors,
            rcv_constraint_errors: self.rcv_constraint_errors,
            local_link_integrity_errors: self.local_link_integrity_errors,
            excessive_buffer_overruns: self.excessive_buffer_overruns,
            vl15_dropped: self.vl15_dropped,
            xmit_data: self.xmit_data.narrow(),
            rcv_data: self.rcv_data.narrow(),
            xmit_pkts: self.xmit_pkts.narrow(),
            rcv_pkts: self.rcv_pkts.narrow(),
            xmit_wait: self.xmit_wait,
            ..PortCounters::default()
        }
    }

    /// Writes the selected counters.
    fn set_narrow(&mut self, new: &PortCounters) {
        /// Writes a counter if its bit is set.
        macro_rules! write {
            ($($bit:ident => $counter:ident),* $(,)?) => {
                $(if new.counter_select & select::$bit != 0 {
                    self.$counter = new.$counter;
                })*
            };
        }
        write! {
            SYMBOL_ERRORS => symbol_errors,
            LINK_ERROR_RECOVERIES => link_error_recoveries,
            LINK_DOWNED => link_downed,
            RCV_ERRORS => rcv_errors,
            RCV_REMOTE_PHYSICAL_ERRORS => rcv_remote_physical_errors,
            RCV_SWITCH_RELAY_ERRORS => rcv_switch_relay_errors,
            XMIT_DISCARDS => xmit_discards,
            XMIT_CONSTRAINT_ERRORS => xmit_constraint_errors,
            RCV_CONSTRAINT_ERRORS => rcv_constraint_errors,
            LOCAL_LINK_INTEGRITY_ERRORS => local_link_integrity_errors,
            EXCESSIVE_BUFFER_OVERRUNS => excessive_buffer_overruns,
            VL15_DROPPED => vl15_dropped,
        }
        for (bit, meter, value) in [
            (select::XMIT_DATA, &mut self.xmit_data, new.xmit_data),
            (select::RCV_DATA, &mut self.rcv_data, new.rcv_data),
            (select::XMIT_PKTS, &mut self.xmit_pkts, new.xmit_pkts),
            (select::RCV_PKTS, &mut self.rcv_pkts, new.rcv_pkts),
        ] {
            if new.counter_select & bit != 0 {
                meter.set_narrow(value);
            }
        }
        if new.counter_select2 & select::XMIT_WAIT != 0 {
            self.xmit_wait = new.xmit_wait;
        }
    }

    /// PortCountersExtended without its selectors.
    fn wide(&self) -> PortCountersExtended {
        PortCountersExtended {
            xmit_data: self.xmit_data.wide(),
            rcv_data: self.rcv_data.wide(),
            xmit_pkts: self.xmit_pkts.wide(),
            rcv_pkts: self.rcv_pkts.wide(),
            unicast_xmit_pkts: self.unicast_xmit_pkts.wide(),
            unicast_rcv_pkts: self.unicast_rcv_pkts.wide(),
            multicast_xmit_pkts: self.multicast_xmit_pkts.wide(),
            multicast_rcv_pkts: self.multicast_rcv_pkts.wide(),
            ..PortCountersExtended::default()
        }
    }

    /// Writes the selected counters: bit n is the nth of them.
    fn set_wide(&mut self, new: &PortCountersExtended) {
        let meters = [
            (&mut self.xmit_data, new.xmit_data),
            (&mut self.rcv_data, new.rcv_data),
            (&mut self.xmit_pkts, new.xmit_pkts),
            (&mut self.rcv_pkts, new.rcv_pkts),
            (&mut self.unicast_xmit_pkts, new.unicast_xmit_pkts),
            (&mut self.unicast_rcv_pkts, new.unicast_rcv_pkts),
            (&mut self.multicast_xmit_pkts, new.multicast_xmit_pkts),
            (&mut self.multicast_rcv_pkts, new.multicast_rcv_pkts),
        ];
        let mut selected = new.counter_select;
        for (meter, value) in meters {
            if selected & 1 != 0 {
                meter.set_wide(value);
            }
            selected >>= 1;
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_pma))]
mod tests {
    use super::*;
    use crate::fabric::counters::PortFault;

    struct Two([Counters; 2]);

    impl CountingPorts for Two {
        fn counters(&mut self, port: PortNum) -> Option<&mut Counters> {
            self.0.get_mut(usize::from(port.get()).checked_sub(1)?)
        }

        fn range(&self) -> (u8, u8) {
            (1, 2)
        }
    }

    fn busy() -> Two {
        let mut ports = Two([Counters::new(); 2]);
        for counters in &mut ports.0 {
            counters.count_xmit(3, 400, false);
            counters.count_recv(2, 80, true);
            counters.count_fault(PortFault::XmitDiscard);
        }
        ports
    }

    fn request(method: u8, attr_id: u16) -> PerfMad {
        PerfMad::new(&MadHeader {
            mgmt_class: class::PERF,
            method,
            attr_id,
            ..MadHeader::default()
        })
    }

    fn ask(ports: &mut Two, request: &PerfMad) -> PerfMad {
        let answer = process(ports, request.as_bytes());
        assert!(answer.is_some());
        PerfMad::from_bytes(&answer.unwrap_or([0; 256])).clone()
    }

    fn narrow(ports: &mut Two, method: u8, asked: PortCounters) -> (u16, PortCounters) {
        let mut mad = request(method, attr::PORT_COUNTERS);
        mad.set_attribute(&asked);
        let answer = ask(ports, &mad);
        assert_eq!(answer.header().method, 0x81);
        (answer.header().status, answer.attribute())
    }

    #[test]
    fn counts_by_port_and_in_all() {
        let mut ports = busy();
        let asked = PortCounters {
            port: PortNum::new(2),
            ..PortCounters::default()
        };
        let (status, got) = narrow(&mut ports, 1, asked);
        assert_eq!((status, got.port), (0, PortNum::new(2)));
        assert_eq!((got.xmit_data, got.xmit_pkts), (100, 3));
        assert_eq!((got.rcv_data, got.rcv_pkts), (20, 2));
        assert_eq!(got.xmit_discards, 1);
        let all = PortCounters {
            port: PortNum::ALL,
            ..PortCounters::default()
        };
        let (_, got) = narrow(&mut ports, 1, all);
        assert_eq!((got.xmit_data, got.xmit_discards), (200, 2));
        let none = PortCounters {
            port: PortNum::new(3),
            ..PortCounters::default()
        };
        assert_eq!(narrow(&mut ports, 1, none).0, status::INVALID_FIELD);
    }

    #[test]
    fn clears_by_mask() {
        let mut ports = busy();
        let asked = PortCounters {
            port: PortNum::new(1),
            counter_select: select::XMIT_DATA | select::XMIT_DISCARDS,
            ..PortCounters::default()
        };
        let (status, got) = narrow(&mut ports, 2, asked);
        assert_eq!((status, got.xmit_data, got.xmit_discards), (0, 0, 0));
        assert_eq!((got.xmit_pkts, got.rcv_data), (3, 20));
        let mut wide = request(2, attr::PORT_COUNTERS_EXTENDED);
        wide.set_attribute(&PortCountersExtended {
            port: PortNum::new(1),
            counter_select: 1 << 7,
            ..PortCountersExtended::default()
        });
        let got: PortCountersExtended = ask(&mut ports, &wide).attribute();
        assert_eq!((got.xmit_data, got.unicast_xmit_pkts), (100, 3));
        assert_eq!((got.rcv_pkts, got.multicast_rcv_pkts), (2, 0));
    }

    #[test]
    fn refuses_what_it_lacks() {
        let mut ports = busy();
        for (mgmt_class, method, attr_id, want) in [
            (class::PERF, 1, attr::PORT_SAMPLES_CONTROL, 0x0c),
            (class::PERF, 2, attr::PORT_SAMPLES_CONTROL, 0x0c),
            (class::PERF, 1, attr::PORT_SAMPLES_RESULT, 0x0c),
            (class::PERF, 2, mad::attr::CLASS_PORT_INFO, 0x0c),
            (class::PERF, 4, attr::PORT_COUNTERS, 0x08),
            (0x0a, 1, attr::PORT_COUNTERS, 0x0c),
        ] {
            let mut mad = request(method, attr_id);
            let header = MadHeader {
                mgmt_class,
                ..mad.header()
            };
            mad.set_header(&header);
            assert_eq!(ask(&mut ports, &mad).header().status, want);
        }
        let answer = request(0x81, attr::PORT_COUNTERS);
        assert!(process(&mut ports, answer.as_bytes()).is_none());
    }

    #[test]
    fn says_what_it_can() {
        let answer = ask(&mut busy(), &request(1, mad::attr::CLASS_PORT_INFO));
        let info: ClassPortInfo = answer.attribute();
        assert_eq!((info.base_version, info.class_version), (1, 1));
        assert_eq!(info.capability_mask, 0x1300);
    }
}
