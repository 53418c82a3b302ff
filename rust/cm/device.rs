// SPDX-License-Identifier: GPL-2.0

//! The HCAs that connections are on.

use crate::watch::Level;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use proto::cm::{
    Conn,
    Count,
    Local,
    PathFault,
    Source,
    Ways, //
};
use proto::transport::migration::MigState;
use rdma::cm::{
    Adapter,
    Global,
    PathCount,
    PathState,
    PortNames,
    Way, //
};
use rdma::ib::{
    self,
    AhAttr,
    Mad,
    MadSource,
    PortCaps, //
};
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use wire::mad::cm::Path;
use wire::mad::survey::{
    SurveyPort,
    SurveyPorts, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    PortNum,
    Sl, //
};

/// The most ports that an HCA of sib has.
const MAX_PORTS: usize = 8;

/// The entry of the GID table that datagrams are sent from.
const SGID_INDEX: u8 = 0;

/// The hop limit of an answer, which finds its way back through as many routers as there may be.
const HOPS: u8 = 64;

/// An HCA.
pub(crate) struct Device {
    pub(crate) adapter: Adapter,
    /// What is done for connections of ib_cm: a [`Level`].
    pub(crate) level: Atomic<u32>,
    is_gone: Atomic<bool>,
}

impl Device {
    /// An HCA, for whose connections of ib_cm nothing is done yet.
    pub(crate) fn new(adapter: Adapter) -> Self {
        Self {
            adapter,
            level: Atomic::new(Level::Off as u32),
            is_gone: Atomic::new(false),
        }
    }

    /// It is being removed: what is found on it is told so, and nothing more is to come. To be called under the mutex of
    /// the tables, as [`Self::check`] is by who enters something there.
    pub(crate) fn leave(&self) {
        self.is_gone.store(true, Relaxed);
    }

    /// Whether it is there.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it is not.
    pub(crate) fn check(&self) -> Result {
        if self.is_gone.load(Relaxed) {
            Err(ENODEV)
        } else {
            Ok(())
        }
    }

    /// Says on all ports whether there is a connection manager.
    pub(crate) fn announce(
        &self,
        cx: &mut Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        set: PortCaps,
        clear: PortCaps,
    ) -> Result {
        (1..=self.adapter.ports())
            .try_for_each(|port| self.adapter.change_caps(cx, s, port, set, clear))
    }

    /// Counts something of a connection: at the port that it sends by, or that the last datagram has come to.
    pub(crate) fn count(&self, ends: &Ends, conn: &Conn, count: Count) {
        let (count, is_ours) = match count {
            Count::LapSent => (PathCount::LapSent, true),
            Count::LapRetried => (PathCount::LapRetried, true),
            Count::LapReceived => (PathCount::LapReceived, false),
            Count::LapDuplicate => (PathCount::LapDuplicate, false),
            Count::LapStale => (PathCount::LapStale, false),
            Count::LapRefused => (PathCount::LapRefused, false),
            Count::AprSent => (PathCount::AprSent, false),
            Count::AprRetried => (PathCount::AprRetried, false),
            Count::AprReceived => (PathCount::AprReceived, false),
            Count::AprDuplicate => (PathCount::AprDuplicate, false),
            Count::AprStale => (PathCount::AprStale, false),
        };
        let port = if is_ours {
            ends.port_of(conn.primary())
        } else {
            Some(conn.source().port.get().into())
        };
        if let Some(port) = port {
            self.adapter.count(port, count);
        }
    }

    /// What its ports are called at present.
    pub(crate) fn ends(&self, cx: &mut Cx<'_, Unlocked>, s: Sleepable<'_>) -> Ends {
        let mut ends = Ends([None; MAX_PORTS]);
        for (end, port) in ends.0.iter_mut().zip(1..=self.adapter.ports()) {
            *end = self.adapter.port_names(cx, s, port).ok();
        }
        ends
    }
}

/// The ports of an HCA, that is the local ends of paths.
pub(crate) struct Ends([Option<PortNames>; MAX_PORTS]);

impl Ends {
    /// The ports that are active.
    pub(crate) fn active(&self) -> SurveyPorts {
        let mut ports = SurveyPorts::default();
        let active = self.ports().filter(|(_, names)| names.is_active);
        for (entry, (number, names)) in ports.iter_mut().zip(active) {
            *entry = SurveyPort {
                number: PortNum::new(number as u8),
                lid: Lid::new(names.lid),
                gid: Gid::new(names.gid),
            };
        }
        ports
    }

    /// Whether more than one port is active, so that there may be another path.
    pub(crate) fn has_several(&self) -> bool {
        self.ports()
            .filter(|(_, names)| names.is_active)
            .nth(1)
            .is_some()
    }

    /// The ports that are there.
    fn ports(&self) -> impl Iterator<Item = (u32, &PortNames)> {
        (1..)
            .zip(self.0.iter())
            .filter_map(|(port, names)| Some((port, names.as_ref()?)))
    }

    /// The port whose GID `path` begins with.
    fn named(&self, path: &Path) -> Option<(u32, &PortNames)> {
        self.ports()
            .find(|(_, names)| names.gid == path.local_gid.get())
    }

    /// The port that `path` begins at.
    fn find(&self, path: &Path) -> Option<(u32, &PortNames)> {
        self.named(path).filter(|(_, names)| has_lid(names, path))
    }

    /// The GID of a port.
    pub(crate) fn gid(&self, port: u32) -> Option<Gid> {
        let (_, names) = self.ports().find(|(number, _)| *number == port)?;
        Some(Gid::new(names.gid))
    }

    /// The port at the local end of `path`.
    pub(crate) fn port_of(&self, path: &Path) -> Option<u32> {
        self.find(path).map(|(port, _)| port)
    }

    /// The path that an address vector stands for, whose remote GID is not known without a global route.
    fn path(&self, ah: &AhAttr, ack_timeout: u8) -> Option<Path> {
        let (_, names) = self.ports().find(|(number, _)| *number == ah.port)?;
        let bits = u16::from(ah.src_path_bits) & !u16::MAX.checked_shl(names.lmc.into())?;
        let path = Path {
            local_lid: Lid::new(names.lid | bits),
            remote_lid: Lid::new(ah.dlid),
            local_gid: Gid::new(names.gid),
            sl: Sl::new(ah.sl),
            rate: ah.static_rate,
            subnet_local: ah.grh.is_none(),
            ack_timeout,
            ..Path::default()
        };
        Some(match ah.grh {
            Some(grh) => Path {
                remote_gid: Gid::new(grh.dgid),
                flow_label: grh.flow_label,
                traffic_class: grh.traffic_class,
                hop_limit: grh.hop_limit,
                ..path
            },
            None => path,
        })
    }

    /// The paths of a queue pair; `None` if it uses a port that is not there.
    pub(crate) fn ways(&self, state: &PathState) -> Option<Ways> {
        let path = |ah: &AhAttr| self.path(ah, state.timeout);
        Some(Ways {
            primary: path(&state.primary)?,
            alternate: state.alternate.as_ref().and_then(path),
            is_heard: !state.is_unheard,
        })
    }

    /// How a datagram travels by `path`, and from which port.
    pub(crate) fn along(&self, path: &Path, pkey_index: u16) -> Option<(u32, Way)> {
        let (port, names) = self.find(path)?;
        let way = Way {
            dlid: path.remote_lid.get(),
            sl: path.sl.get(),
            src_path_bits: path.local_lid.path_bits(names.lmc),
            pkey_index,
            global: (!path.subnet_local).then_some(Global {
                sgid_index: SGID_INDEX,
                dgid: path.remote_gid.get(),
                flow_label: path.flow_label,
                hop_limit: path.hop_limit,
                traffic_class: path.traffic_class,
            }),
        };
        Some((port, way))
    }
}

/// Whether `path` begins with a LID of this port.
fn has_lid(names: &PortNames, path: &Path) -> bool {
    path.local_lid.is_path_of(Lid::new(names.lid), names.lmc)
}

/// Where a datagram has come from.
pub(crate) fn source_of(offered: &Mad<'_>, from: &MadSource) -> Source {
    Source {
        port: PortNum::new(offered.port as u8),
        path_bits: from.dlid_path_bits,
        sl: Sl::new(from.sl),
        slid: Lid::new(from.slid),
        sgid: from.sgid.map(Gid::new),
    }
}

/// How a datagram gets back to where one has come from, and from the LID that this went to, as a peer takes no answer
/// that comes from another one; `None` if none has.
pub(crate) fn back(source: &Source, pkey_index: u16) -> Option<(u32, Way)> {
    if source.port == PortNum::new(0) {
        return None;
    }
    let way = Way {
        dlid: source.slid.get(),
        sl: source.sl.get(),
        src_path_bits: source.path_bits,
        pkey_index,
        global: source.sgid.map(|sgid| Global {
            sgid_index: SGID_INDEX,
            dgid: sgid.get(),
            flow_label: 0,
            hop_limit: HOPS,
            traffic_class: 0,
        }),
    };
    Some((source.port.get().into(), way))
}

/// The machine's name of the state of migration of a queue pair. One that is not known takes no path.
pub(crate) fn migration_of(state: Option<&PathState>) -> MigState {
    match state.map(|state| state.migration) {
        Some(ib::MigState::Migrated) => MigState::Migrated,
        Some(ib::MigState::Rearm) => MigState::Rearm,
        Some(ib::MigState::Armed) | None => MigState::Armed,
    }
}

/// An HCA, and what its ports are called at present.
pub(crate) struct Here<'a> {
    pub(crate) device: &'a Device,
    pub(crate) ends: &'a Ends,
}

impl Here<'_> {
    /// Whether a path in this partition could begin at a port.
    fn would_do(&self, port: u32, names: &PortNames, pkey: PKey) -> bool {
        names.is_active
            && Lid::new(names.lid).is_unicast()
            && self.device.adapter.pkey_index(port, pkey.get()).is_ok()
    }
}

impl Local for Here<'_> {
    fn check(&self, path: &Path, pkey: PKey) -> Result<(), PathFault> {
        let (port, names) = self.ends.named(path).ok_or(PathFault::Gid)?;
        if !has_lid(names, path) {
            let is_of_use = self.would_do(port, names, pkey);
            let instead = is_of_use.then(|| Lid::new(names.lid));
            return Err(PathFault::Lid(instead));
        }
        match self.device.adapter.pkey_index(port, pkey.get()) {
            Ok(_) => Ok(()),
            Err(_) => Err(PathFault::PKey),
        }
    }

    fn substitute(&self, path: &Path, pkey: PKey, in_use: &Path) -> Option<Gid> {
        let is_other = |names: &PortNames| names.gid != in_use.local_gid.get();
        let ports = self.ends.ports();
        let (_, names) = ports
            .filter(|&(port, names)| is_other(names) && self.would_do(port, names, pkey))
            .min_by_key(|(_, names)| !has_lid(names, path))?;
        Some(Gid::new(names.gid))
    }
}
