// SPDX-License-Identifier: GPL-2.0

//! What a switch shows in debugfs: `/sys/kernel/debug/sib/NAME` with `dropped` and `carried`, what is counted of packets,
//! `subnet`, what its subnet manager knows, and `cables`, what has become of its cables.

use super::cable::{
    reason,
    Origin, //
};
use super::now;
use super::storage::Heap;
use super::Fabric;
use core::net::SocketAddr;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::fabric::line::Obstacle;
use proto::sm::{
    Manager,
    Node, //
};
use proto::time::Instant;
use rdma::debugfs::{
    ControlFile,
    Dir,
    Show,
    View,
    Viewed, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use wire::mad::smp::SmState;
use wire::{
    Guid,
    Lid,
    PortNum, //
};

/// The files of a switch.
pub(crate) struct Files {
    _views: [ControlFile<View<Fabric>>; 4],
}

impl Files {
    /// Makes the files of `fabric` in `dir`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(dir: &Dir, fabric: &Arc<Fabric>) -> Result<Self> {
        let view = |name, show: Show<Fabric>| ControlFile::new(dir, name, View::new(fabric, show));
        Ok(Self {
            _views: [
                view(c"dropped", Fabric::show_dropped)?,
                view(c"carried", Fabric::show_carried)?,
                view(c"subnet", Fabric::show_subnet)?,
                view(c"cables", Fabric::show_cables)?,
            ],
        })
    }
}

impl Viewed for Fabric {
    const MODULE: &'static ThisModule = &crate::MODULE;
}

/// A cable.
pub(super) struct CableView {
    remote: SocketAddr,
    origin: Origin,
    peer: Option<Guid>,
    /// Bytes of a datagram with several packets; 0: each has one.
    room: u16,
    obstacle: Option<Obstacle>,
    silent_since: Instant,
    /// Management wants no link at the port.
    unwanted: bool,
    /// The underlay carries packets.
    fits: bool,
}

fn millis_since(at: Instant) -> u64 {
    now().nanos().saturating_sub(at.nanos()) / 1_000_000
}

const fn state_name(state: SmState) -> &'static str {
    match state {
        SmState::NotActive => "not active",
        SmState::Discovering => "discovering",
        SmState::Standby => "standby",
        SmState::Master => "master",
    }
}

const fn yes(flag: bool) -> &'static str {
    match flag {
        true => "yes",
        false => "no",
    }
}

/// Where a switch sends packets: LIDs in a row that leave by one port are one word.
fn show_routes(f: &mut fmt::Formatter<'_>, manager: &Manager<Heap>, switch: &Node) -> fmt::Result {
    let mut run: Option<(Lid, Lid, PortNum)> = None;
    for (lid, port) in manager.routes(switch) {
        run = match run {
            Some((first, last, out))
                if out == port && last.get().saturating_add(1) == lid.get() =>
            {
                Some((first, lid, out))
            }
            other => {
                show_run(f, other)?;
                Some((lid, lid, port))
            }
        };
    }
    show_run(f, run)?;
    writeln!(f)
}

fn show_run(f: &mut fmt::Formatter<'_>, run: Option<(Lid, Lid, PortNum)>) -> fmt::Result {
    match run {
        None => Ok(()),
        Some((first, last, port)) if first == last => {
            write!(f, " {}:{}", first.get(), port.get())
        }
        Some((first, last, port)) => {
            write!(f, " {}-{}:{}", first.get(), last.get(), port.get())
        }
    }
}

/// Writes down what `manager` knows, whose last sweep ended at `swept`.
pub(super) fn show_subnet(
    f: &mut fmt::Formatter<'_>,
    manager: &Manager<Heap>,
    swept: Option<Instant>,
) -> fmt::Result {
    let report = manager.report();
    writeln!(f, "state {}", state_name(manager.state()))?;
    writeln!(f, "ready {}", yes(manager.is_ready()))?;
    writeln!(f, "sweeps {}", report.sweeps)?;
    if let Some(swept) = swept {
        writeln!(f, "swept {} ms ago", millis_since(swept))?;
    }
    writeln!(
        f,
        "requests {} repeated {}",
        report.requests, report.repeats
    )?;
    writeln!(f, "trouble {}", yes(report.trouble))?;
    writeln!(f, "duplicates {}", report.duplicates)?;
    for (node, port) in manager.end_ports() {
        let guid = node.info().node_guid.get();
        let (number, lid) = (port.number().get(), port.lid().get());
        let name = node.description();
        if node.is_switch() {
            write!(f, "switch {guid:#018x} lid {lid} \"{name}\" routes")?;
            show_routes(f, manager, node)?;
        } else {
            writeln!(f, "adapter {guid:#018x} port {number} lid {lid} \"{name}\"")?;
        }
    }
    Ok(())
}

/// A line for each name.
fn show_counts(
    f: &mut fmt::Formatter<'_>,
    counts: impl IntoIterator<Item = (&'static str, u64)>,
) -> fmt::Result {
    for (name, count) in counts {
        writeln!(f, "{name} {count}")?;
    }
    Ok(())
}

impl Fabric {
    fn show_dropped(
        &self,
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        show_counts(f, self.account().drops())
    }

    fn show_carried(
        &self,
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        show_counts(f, self.account().carried())
    }

    fn show_subnet(
        &self,
        _cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        self.show_manager(f)
    }

    /// What is to be told of the cable of `port`, if there is one.
    fn view_cable(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum) -> Option<CableView> {
        let mut state = cx.lock(&self.state);
        let unwanted = state.switch.offer(port).is_none();
        let cable = state.cable(port)?;
        Some(CableView {
            remote: cable.way.path.remote(),
            origin: cable.origin,
            peer: cable.line.peer(),
            room: cable.line.room(),
            obstacle: cable.line.obstacle(),
            silent_since: cable.silent_since,
            unwanted,
            fits: cable.fits,
        })
    }

    fn show_cables(
        &self,
        mut cx: Cx<'_, Unlocked>,
        _s: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        for port in 1..=u8::MAX {
            let Some(cable) = self.view_cable(&mut cx, PortNum::new(port)) else {
                continue;
            };
            let origin = match cable.origin {
                Origin::Configured => "configured",
                Origin::Beacon => "automatic",
            };
            // Two kinds of arguments: see `fmt!`.
            f.write_fmt(core::format_args!(
                "port {port} to {} {origin} ",
                cable.remote
            ))?;
            if let Some(guid) = cable.peer {
                writeln!(f, "up switch {:#018x} room {}", guid.get(), cable.room)?;
                continue;
            }
            let why = match cable.obstacle {
                _ if cable.unwanted => "the port is disabled",
                _ if !cable.fits => "the MTU of its network device is too small",
                Some(obstacle) => reason(obstacle),
                None => "its other end is not heard",
            };
            let waited = millis_since(cable.silent_since);
            writeln!(f, "waits {waited} ms: {why}")?;
        }
        Ok(())
    }
}
