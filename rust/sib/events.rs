// SPDX-License-Identifier: GPL-2.0

//! What ib_core is told about ports.

use crate::hca::Hca;
use proto::fabric::port::{
    PortEvent,
    PortEvents, //
};
use rdma::ib;
use rdma::sync::{
    Cx,
    Unlocked, //
};
use wire::PortNum;

/// Tells ib_core, which reads the attributes again before it tells its clients.
pub(crate) fn dispatch(cx: &mut Cx<'_, Unlocked>, hca: &Hca, port: PortNum, events: PortEvents) {
    for event in events.iter() {
        hca.upcall
            .dispatch(cx, u32::from(port.get()), ib_event(event));
    }
}

fn ib_event(event: PortEvent) -> ib::PortEvent {
    match event {
        PortEvent::GidChange => ib::PortEvent::GidChange,
        PortEvent::LidChange => ib::PortEvent::LidChange,
        PortEvent::SmChange => ib::PortEvent::SmChange,
        PortEvent::ClientReregister => ib::PortEvent::ClientReregister,
        PortEvent::PortActive => ib::PortEvent::Active,
        PortEvent::PortError => ib::PortEvent::Error,
        PortEvent::PkeyChange => ib::PortEvent::PkeyChange,
    }
}
