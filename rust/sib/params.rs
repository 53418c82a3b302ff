// SPDX-License-Identifier: GPL-2.0

//! The parameters of the module, in the ranges where they make sense.

use crate::hca::MAX_PORTS;
use crate::module_parameters;
use core::borrow::Borrow;
use kernel::prelude::*;

/// What a parameter is set to, which the kernel gives or lends, by its version.
fn value<T: Copy>(of: impl Borrow<T>) -> T {
    *of.borrow()
}

/// What a value outside of its range is told in the log.
fn refuse(name: &str, value: u64, low: u64, high: u64) -> Error {
    pr_err!("parameter {name}: {value} is not in {low} to {high}\n");
    EINVAL
}

/// Checks all parameters when the module is loaded.
///
/// # Errors
///
/// `EINVAL`, with a line in the log.
pub(crate) fn check() -> Result {
    for (name, value, low, high) in [
        ("ports", u64::from(ports()), 1, u64::from(MAX_PORTS)),
        (
            "switch_ports",
            u64::from(switch_ports()),
            u64::from(MAX_PORTS),
            u64::from(proto::fabric::switch::MAX_PORTS),
        ),
        ("udp_port", u64::from(udp_port()), 1, u64::from(u16::MAX)),
        (
            "force_udp",
            u64::from(value::<u8>(module_parameters::force_udp.value())),
            0,
            1,
        ),
        (
            "beacons",
            u64::from(value::<u8>(module_parameters::beacons.value())),
            0,
            1,
        ),
        (
            "bundles",
            u64::from(value::<u8>(module_parameters::bundles.value())),
            0,
            1,
        ),
        (
            "sm",
            u64::from(value::<u8>(module_parameters::sm.value())),
            0,
            1,
        ),
        (
            "apm_follow",
            u64::from(value::<u8>(module_parameters::apm_follow.value())),
            0,
            1,
        ),
        (
            "apm_pardon",
            u64::from(value::<u8>(module_parameters::apm_pardon.value())),
            0,
            1,
        ),
        (
            "apm_probe",
            u64::from(value::<u8>(module_parameters::apm_probe.value())),
            0,
            1,
        ),
    ] {
        if !(low..=high).contains(&value) {
            return Err(refuse(name, value, low, high));
        }
    }
    Ok(())
}

/// Ports of each new HCA.
pub(crate) fn ports() -> u8 {
    value(module_parameters::ports.value())
}

/// Ports of each new switch.
pub(crate) fn switch_ports() -> u8 {
    value(module_parameters::switch_ports.value())
}

/// Whether packets between HCAs of one switch travel over UDP, too.
pub(crate) fn force_udp() -> bool {
    value::<u8>(module_parameters::force_udp.value()) != 0
}

/// Whether packets travel together in one datagram, where both ends of a cable say so.
pub(crate) fn bundles() -> bool {
    value::<u8>(module_parameters::bundles.value()) != 0
}

/// Whether each new switch gets a subnet manager.
pub(crate) fn sm() -> bool {
    value::<u8>(module_parameters::sm.value()) != 0
}

/// Whether each new switch looks for its neighbours.
pub(crate) fn beacons() -> bool {
    value::<u8>(module_parameters::beacons.value()) != 0
}

/// Whether queue pairs follow peers that migrate before they know that both ends are ready to.
pub(crate) fn apm_follow() -> bool {
    value::<u8>(module_parameters::apm_follow.value()) != 0
}

/// Whether queue pairs take packets from before their peers had an alternate path.
pub(crate) fn apm_pardon() -> bool {
    value::<u8>(module_parameters::apm_pardon.value()) != 0
}

/// Whether queue pairs ask their peers if there is no traffic to learn of their paths from.
pub(crate) fn apm_probe() -> bool {
    value::<u8>(module_parameters::apm_probe.value()) != 0
}

/// The UDP port that the fabrics of this host listen on.
pub(crate) fn udp_port() -> u16 {
    value(module_parameters::udp_port.value())
}
