// SPDX-License-Identifier: GPL-2.0

//! What is done for connections that are watched.

use super::Tally;
use crate::device::{
    back,
    Device,
    Ends, //
};
use proto::cm::watch::Hands;
use proto::cm::{
    Conn,
    Count,
    Slot, //
};
use rdma::cm::{
    QpPeer,
    Way, //
};
use rdma::ib::MAD_SIZE;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use wire::mad::cm::Path;
use wire::mad::survey::Survey;
use wire::Qpn;

/// The HCA of a connection, and its ports at present.
pub(super) struct Worker<'a, 'c> {
    pub(super) cx: &'a mut Cx<'c, Unlocked>,
    pub(super) s: Sleepable<'a>,
    pub(super) device: &'a Device,
    pub(super) ends: &'a Ends,
    pub(super) tally: &'a Tally,
    /// The partition of the connection.
    pub(super) pkey: u16,
}

impl Worker<'_, '_> {
    /// Sends a datagram. One that cannot be sent is lost, as on the way.
    fn send_by(&mut self, port: u32, way: Way, mad: &[u8; MAD_SIZE]) {
        let adapter = &self.device.adapter;
        let way = Way {
            pkey_index: adapter.pkey_index(port, self.pkey).unwrap_or(0),
            ..way
        };
        let _ = adapter.send(self.cx, self.s, port, &way, mad);
    }

    /// Sends a datagram along a path.
    pub(super) fn send_along(&mut self, path: &Path, mad: &[u8; MAD_SIZE]) {
        if let Some((port, way)) = self.ends.along(path, 0) {
            self.send_by(port, way, mad);
        }
    }
}

impl Hands for Worker<'_, '_> {
    fn send(&mut self, conn: &Conn, slot: Slot) {
        let primary = conn.primary();
        let way = match slot {
            Slot::Request => None,
            Slot::Reply | Slot::Once => back(&conn.source(), 0),
        };
        if let Some((port, way)) = way.or_else(|| self.ends.along(primary, 0)) {
            self.send_by(port, way, conn.datagram(slot).as_bytes());
        }
    }

    fn count(&mut self, conn: &Conn, count: Count) {
        self.device.count(self.ends, conn, count);
    }

    fn load(&mut self, conn: &Conn, (ours, theirs): (Qpn, Qpn), path: &Path) -> bool {
        let Some((port, way)) = self.ends.along(path, 0) else {
            return false;
        };
        let adapter = &self.device.adapter;
        let peer = QpPeer {
            qpn: theirs.get(),
            lid: conn.primary().remote_lid.get(),
        };
        let loaded = adapter.load_path(self.cx, self.s, (ours.get(), peer), port, &way);
        if loaded.is_ok() {
            self.tally.loads.add();
        }
        loaded.is_ok()
    }

    fn ask(&mut self, conn: &Conn, question: &Survey) {
        self.tally.questions.add();
        self.send_along(conn.primary(), &question.emit());
    }
}
