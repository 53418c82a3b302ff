// SPDX-License-Identifier: GPL-2.0

//! What the tests share: two ends, their paths, and requests.

use proto::cm::{
    Env,
    Identity,
    Local,
    PathFault,
    Source, //
};
use proto::time::Instant;
use proto::transport::MigState;
use wire::mad::cm::{
    Path,
    Rep,
    Req, //
};
use wire::{
    Gid,
    Guid,
    Lid,
    PKey,
    PortNum,
    Qpn, //
};

/// LIDs of the active end's ports begin here.
pub(crate) const ACTIVE_LID: u16 = 0x10;
/// And those of the passive end.
pub(crate) const PASSIVE_LID: u16 = 0x20;
/// Communication IDs.
pub(crate) const ACTIVE_ID: u32 = 0xa0a0;
pub(crate) const PASSIVE_ID: u32 = 0xb0b0;
pub(crate) const ACTIVE_QPN: u32 = 0x11;
pub(crate) const PASSIVE_QPN: u32 = 0x22;
/// The partition of the connection.
pub(crate) const PARTITION: PKey = PKey::new(0x8003);
/// Ports that no end has, for their GID or for their LID.
pub(crate) const NAMELESS: u8 = 8;
pub(crate) const FOREIGN: u8 = 9;
/// One with another LID, by which no path can begin.
pub(crate) const DOWN: u8 = 12;
/// One that no other port can stand for.
pub(crate) const LONELY: u8 = 11;
/// Those that are not in the partition.
pub(crate) const OUTSIDE: u8 = 10;

/// The path by the ports with this number, as the active end sees it.
pub(crate) fn path(number: u8) -> Path {
    let gid = |lid: u16| Gid::from_parts(Gid::DEFAULT_PREFIX, Guid::new(lid.into()));
    let local = ACTIVE_LID + u16::from(number);
    let remote = PASSIVE_LID + u16::from(number);
    Path {
        local_lid: Lid::new(local),
        remote_lid: Lid::new(remote),
        local_gid: gid(local),
        remote_gid: gid(remote),
        subnet_local: true,
        ack_timeout: 14,
        ..Path::default()
    }
}

/// The LID of the port with this GID.
fn lid_of(gid: Gid) -> Lid {
    let [.., high, low] = gid.get();
    Lid::new(u16::from_be_bytes([high, low]))
}

/// The ports of both HCAs.
pub(crate) struct Ports;

impl Local for Ports {
    fn check(&self, path: &Path, pkey: PKey) -> Result<(), PathFault> {
        match (path.local_lid.get() & 0xf) as u8 {
            NAMELESS | LONELY => Err(PathFault::Gid),
            FOREIGN => Err(PathFault::Lid(Some(lid_of(path.local_gid)))),
            DOWN => Err(PathFault::Lid(None)),
            OUTSIDE => Err(PathFault::PKey),
            _ if pkey != PARTITION => Err(PathFault::PKey),
            _ => Ok(()),
        }
    }

    fn substitute(&self, path: &Path, pkey: PKey, in_use: &Path) -> Option<Gid> {
        let is_any = path.local_lid.get() & 0xf != LONELY.into() && pkey == PARTITION;
        let next = Guid::new(u64::from(in_use.local_lid.get()) + 1);
        is_any.then(|| Gid::from_parts(Gid::DEFAULT_PREFIX, next))
    }
}

/// Surroundings at this time, with a queue pair in this state.
pub(crate) fn env(now: Instant, migration: MigState) -> Env<'static> {
    Env {
        now,
        migration,
        local: &Ports,
    }
}

/// Who sends from this end's port with this number.
pub(crate) fn source(of_active: bool, number: u8) -> Source {
    let first = if of_active { ACTIVE_LID } else { PASSIVE_LID };
    Source {
        port: PortNum::new(1),
        slid: Lid::new(first + u16::from(number)),
        ..Source::default()
    }
}

pub(crate) fn request() -> Req {
    Req {
        service_id: 7,
        local_qpn: Qpn::new(ACTIVE_QPN),
        pkey: PARTITION,
        remote_cm_response_timeout: 16,
        local_cm_response_timeout: 16,
        max_cm_retries: 3,
        primary: path(0),
        ..Req::default()
    }
}

pub(crate) fn reply() -> Rep {
    Rep {
        local_qpn: Qpn::new(PASSIVE_QPN),
        ..Rep::default()
    }
}

pub(crate) fn active() -> Identity {
    Identity {
        comm_id: ACTIVE_ID,
        guid: Guid::new(0xaa),
        tid_high: 1,
    }
}

pub(crate) fn passive() -> Identity {
    Identity {
        comm_id: PASSIVE_ID,
        guid: Guid::new(0xbb),
        tid_high: 2,
    }
}
